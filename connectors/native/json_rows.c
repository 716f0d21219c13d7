/* Decodes JSON objects (RFC 8259) into the columns of rows.
 *
 * The functions are pure, as in records.c. They accept no text that is not JSON, but leave some in doubt that is: escapes in
 * text, keys that are not ASCII, a column's key that occurs twice, numbers of many digits, deep nesting.
 */
#include "rows.h"
#include "texts.h"

enum { DEEPEST = 32 };

/* The key of a column: as it is written, and in lower case as Python's casefold has it. A key may be in any case. */
typedef struct {
    const uint8_t *name, *folded;
    int64_t size, folded_size;
} json_key_t;

static inline const uint8_t *space(const uint8_t *p, const uint8_t *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
    return p;
}

#define ONES 0x0101010101010101ull

/* Moves to the first byte that is a quote, a backslash, a control character or not ASCII; `end` if there is none. */
static inline const uint8_t *plain(const uint8_t *p, const uint8_t *end) {
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        uint64_t quote = word ^ ONES * '"', backslash = word ^ ONES * '\\';
        uint64_t hit = ((quote - ONES) & ~quote) | ((backslash - ONES) & ~backslash) | ((word - ONES * 0x20) & ~word);
        if ((hit = (hit | word) & HIGH_BITS)) return p + (__builtin_ctzll(hit) >> 3);
    }
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20 && *p < 0x80) p++;
    return p;
}

static inline int is_hex(uint8_t c) { return is_digit(c) || (uint8_t)((c | 0x20) - 'a') < 6; }

/* Moves over an escape; returns 0 for one that is not valid or may be half a surrogate pair. */
static const uint8_t *escape(const uint8_t *p, const uint8_t *end) {
    if (end - p < 2) return 0;
    if (p[1] != 'u') return memchr("\"\\/bfnrt", p[1], 8) ? p + 2 : 0;
    if (end - p < 6 || !is_hex(p[2]) || !is_hex(p[3]) || !is_hex(p[4]) || !is_hex(p[5])) return 0;
    return (p[2] | 0x20) == 'd' && p[3] >= '8' ? 0 : p + 6;
}

/* Moves from the first byte of a text to the quote that ends it; returns 0 if it is not valid, or has escapes and these are
 * not `escaped`. */
static inline const uint8_t *text_end(const uint8_t *p, const uint8_t *end, int escaped) {
    while ((p = plain(p, end)) < end) {
        if (*p == '"') return p;
        if (*p >= 0x80) p = wide_character(p, end);
        else p = escaped && *p == '\\' ? escape(p, end) : 0;
        if (!p) return 0;
    }
    return 0;
}

static inline const uint8_t *word(const uint8_t *p, const uint8_t *end, const char *expected, int64_t size) {
    return end - p >= size && !memcmp(p, expected, (size_t)size) ? p + size : 0;
}

/* Moves over a key and the colon after it, to the value; returns 0 if there is none. The key ends at *quote. */
static inline const uint8_t *key_end(const uint8_t *p, const uint8_t *end, int escaped, const uint8_t **quote) {
    if (p >= end || *p != '"' || !(*quote = text_end(p + 1, end, escaped))) return 0;
    p = space(*quote + 1, end);
    if (p >= end || *p != ':') return 0;
    p = space(p + 1, end);
    return p < end ? p : 0;
}

static const uint8_t *skip(const uint8_t *p, const uint8_t *end, int depth);

/* Moves over the elements of an array or the members of an object, from the byte after the opening bracket. */
static const uint8_t *skip_nested(const uint8_t *p, const uint8_t *end, int object, int depth) {
    uint8_t close = object ? '}' : ']';
    const uint8_t *quote;
    p = space(p, end);
    if (p < end && *p == close) return p + 1;
    for (;;) {
        p = space(p, end);
        if (object && !(p = key_end(p, end, 1, &quote))) return 0;
        if (p >= end || !(p = skip(p, end, depth))) return 0;
        p = space(p, end);
        if (p >= end || (*p != ',' && *p != close)) return 0;
        if (*p++ == close) return p;
    }
}

/* Moves over a value; returns 0 if it is not valid, or in doubt. */
static const uint8_t *skip(const uint8_t *p, const uint8_t *end, int depth) {
    number_t number;
    switch (*p) {
    case '"': return (p = text_end(p + 1, end, 1)) ? p + 1 : 0;
    case '{':
    case '[': return depth < DEEPEST ? skip_nested(p + 1, end, *p == '{', depth + 1) : 0;
    case 't': return word(p, end, "true", 4);
    case 'f': return word(p, end, "false", 5);
    case 'n': return word(p, end, "null", 4);
    default: return read_number(p, end, &number);
    }
}

/* Stores a text, or the date, timestamp or decimal that it contains. */
static inline int put_text(target_t *t, int64_t row, const uint8_t *raw, const uint8_t *p, const uint8_t *quote) {
    int64_t v;
    number_t number;
    switch (t->kind) {
    case TEXT: put_view(t, row, raw, p, quote - p); return 1;
    case DATE: return quote - p == 10 && read_date(p, &v) && put_integer(t, row, v);
    case TIMESTAMP: return read_timestamp(p, quote - p, &v) && put_integer(t, row, v);
    case DECIMAL: return read_number(p, quote, &number) == quote && put_number(t, row, &number);
    default: return 0;
    }
}

/* Stores a number. A timestamp is in milliseconds. */
static inline int put_json_number(target_t *t, int64_t row, const number_t *number) {
    int64_t v;
    double real;
    switch (t->kind) {
    case INT8:
    case INT16:
    case INT32:
    case INT64: return to_integer(number, &v) && put_integer(t, row, v);
    case FLOAT32:
    case FLOAT64: return to_double(number, &real) && put_float(t, row, real);
    case DECIMAL: return put_number(t, row, number);
    case TIMESTAMP: return to_integer(number, &v) && !__builtin_mul_overflow(v, 1000, &v) && put_integer(t, row, v);
    default: return 0;
    }
}

/* Stores the value at p, and returns where it ends; 0 if it is in doubt. */
static inline const uint8_t *json_value(const uint8_t *p, const uint8_t *end, target_t *t, int64_t row, const uint8_t *raw) {
    const uint8_t *from = p;
    number_t number;
    if (*p == 'n') return put_null(t, row) ? word(p, end, "null", 4) : 0;
    if (t->valid) t->valid[row] = 1;
    if (*p == '"') return (p = text_end(from + 1, end, 0)) && put_text(t, row, raw, from + 1, p) ? p + 1 : 0;
    if (*p != 't' && *p != 'f')
        return (p = read_number(p, end, &number)) && put_json_number(t, row, &number) ? p : 0;
    if (t->kind != BOOLEAN) return 0;
    ((uint8_t *)t->values)[row] = *p == 't';
    return *p == 't' ? word(p, end, "true", 4) : word(p, end, "false", 5);
}

static inline int same_folded(const uint8_t *folded, const uint8_t *p, int64_t size) {
    for (int64_t i = 0; i < size; i++)
        if (folded[i] != (p[i] | ((uint8_t)(p[i] - 'A') < 26 ? 0x20 : 0))) return 0;
    return 1;
}

/* The column of a key; -1 if it has none, -2 if that is in doubt. The search begins at the column `guess`. */
static inline int64_t column_of(const json_key_t *keys, int64_t count, int64_t guess, const uint8_t *p, int64_t size) {
    for (int64_t i = 0, f = guess; i < count; i++, f = f + 1 == count ? 0 : f + 1) {
        const json_key_t *key = keys + f;
        if (key->size == size && !memcmp(key->name, p, (size_t)size)) return f;
        if (key->folded_size == size && same_folded(key->folded, p, size)) return f;
    }
    for (int64_t i = 0; i < size; i++)
        if (p[i] >= 0x80) return -2;
    return -1;
}

/* Decodes the object at p; returns where it ends, or 0 if it is in doubt. */
static const uint8_t *json_object(const uint8_t *p, const uint8_t *end, const json_key_t *keys, target_t *targets,
                                  int64_t count, int64_t row, const uint8_t *raw) {
    const uint8_t *key, *quote;
    int64_t guess = 0;
    p = space(p, end);
    if (p >= end || *p != '{') return 0;
    p = space(p + 1, end);
    if (p < end && *p == '}') return p + 1;
    for (;;) {
        key = p = space(p, end);
        if (!(p = key_end(p, end, 0, &quote))) return 0;
        int64_t f = column_of(keys, count, guess, key + 1, quote - key - 1);
        if (f >= 0) {
            if (targets[f].row == row || !(p = json_value(p, end, targets + f, row, raw))) return 0;
            targets[f].row = row;
            guess = f + 1 == count ? 0 : f + 1;
        } else if (f == -2 || !(p = skip(p, end, 0))) {
            return 0;
        }
        p = space(p, end);
        if (p >= end || (*p != ',' && *p != '}')) return 0;
        if (*p++ == '}') return p;
    }
}

/* Decodes objects to rows, sets `doubt[row]` for each row in doubt, and returns the number of these rows. Object i is
 * raw[starts[i]..ends[i]]; views of text point into `raw`. */
int64_t dsms_json_rows(const uint8_t *raw, const int64_t *starts, const int64_t *ends, int64_t rows, const json_key_t *keys,
                       target_t *targets, int64_t count, uint8_t *doubt) {
    int64_t doubts = 0;
    for (int64_t row = 0; row < rows; row++) {
        const uint8_t *end = raw + ends[row];
        const uint8_t *p = json_object(raw + starts[row], end, keys, targets, count, row, raw);
        int fine = p && space(p, end) == end;
        for (int64_t f = 0; f < count; f++)
            if (targets[f].row != row) fine &= put_null(targets + f, row);
        doubt[row] = !fine;
        doubts += !fine;
    }
    return doubts;
}
