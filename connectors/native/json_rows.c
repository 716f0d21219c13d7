/* Decodes JSON objects (RFC 8259) into the columns of rows.
 *
 * The functions are pure, as in records.c. They accept no text that is not JSON, but leave some in doubt that is: escapes in
 * keys, some keys that are not ASCII, a column's key that occurs twice, numbers of many digits, deep nesting.
 */
#include "json_texts.h"
#include "texts.h"

enum { DEEPEST = 32 };

/* The key of a column or a struct's field: as it is written, and in lower case as Python's casefold has it. A key may be in any
 * case. */
typedef struct {
    const uint8_t *name, *folded;
    int64_t size, folded_size;
} json_key_t;

/* The objects are in `raw`. Each of the `count` targets has a key, which is empty for the elements of a list. Views with the
 * buffer 0 point to `raw`, views with the buffer 1 to `unescaped`, which has room for as many bytes as the objects have, and
 * has `used` bytes. `ascii` says that all `folded` keys are ASCII, `full` that a list has no room for more elements. */
typedef struct {
    const uint8_t *raw;
    const json_key_t *keys;
    target_t *targets;
    int64_t count, ascii;
    uint8_t *unescaped;
    int64_t used, full;
} json_reader_t;

static inline const uint8_t *space(const uint8_t *p, const uint8_t *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
    return p;
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

/* Stores the text with escapes from p to its quote. */
static inline void put_unescaped(json_reader_t *r, target_t *t, int64_t row, const uint8_t *p, const uint8_t *quote) {
    const uint8_t *from = r->unescaped + r->used;
    int64_t size = unescape(p, quote, r->unescaped + r->used) - from;
    put_view(t, row, 1, r->unescaped, from, size);
    r->used += size;
}

/* Stores the text that begins at p, or the date, timestamp or decimal in it; returns the quote that ends it, or 0. */
static inline const uint8_t *put_text(json_reader_t *r, target_t *t, int64_t row, const uint8_t *p, const uint8_t *end) {
    int64_t v;
    number_t number;
    const uint8_t *quote = text_end(p, end, 0);
    if (!quote) {
        if (t->kind == TEXT && (quote = text_end(p, end, 1))) put_unescaped(r, t, row, p, quote);
        return quote;
    }
    switch (t->kind) {
    case TEXT: put_view(t, row, 0, r->raw, p, quote - p); return quote;
    case DATE: return quote - p == 10 && read_date(p, &v) && put_integer(t, row, v) ? quote : 0;
    case TIMESTAMP: return read_timestamp(p, quote - p, &v) && put_integer(t, row, v) ? quote : 0;
    case DECIMAL: return read_number(p, quote, &number) == quote && put_number(t, row, &number) ? quote : 0;
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

static const uint8_t *json_nested(json_reader_t *r, const uint8_t *p, const uint8_t *end, target_t *t, int64_t row);

/* Stores the value at p, and returns where it ends; 0 if it is in doubt. */
static inline const uint8_t *json_value(json_reader_t *r, const uint8_t *p, const uint8_t *end, target_t *t, int64_t row) {
    const uint8_t *from = p;
    number_t number;
    if (*p == 'n') return put_null(t, row) ? word(p, end, "null", 4) : 0;
    if (t->valid) t->valid[row] = 1;
    if (t->kind == SPAN) {
        if ((p = skip(p, end, 0))) put_view(t, row, 0, r->raw, from, p - from);
        return p;
    }
    if (t->kind >= LIST) return json_nested(r, p, end, t, row);
    if (*p == '"') return (p = put_text(r, t, row, p + 1, end)) ? p + 1 : 0;
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

/* Whether a character that is not ASCII becomes ASCII in Python's casefold: ß, ſ, ẞ, the Kelvin sign, and the ligatures ﬀ to
 * ﬆ. */
static inline int folds_to_ascii(const uint8_t *p) {
    switch (p[0]) {
    case 0xc3: return p[1] == 0x9f;
    case 0xc5: return p[1] == 0xbf;
    case 0xe1: return p[1] == 0xba && p[2] == 0x9e;
    case 0xe2: return p[1] == 0x84 && p[2] == 0xaa;
    case 0xef: return p[1] == 0xac && p[2] <= 0x86;
    default: return 0;
    }
}

/* Whether a key that equals no column may be one in Python's casefold. */
static inline int may_fold(const json_reader_t *r, const uint8_t *p, const uint8_t *end) {
    int wide = 0, ascii = 1;
    for (; p < end; p++) {
        wide |= *p >= 0x80;
        if (*p >= 0xc0) ascii &= folds_to_ascii(p);
    }
    return wide && (ascii || !r->ascii);
}

/* The targets from `first` to before `stop` are the columns of an object, and those in them. */
typedef struct {
    int64_t first, stop;
} columns_t;

static inline int64_t after(const json_reader_t *r, columns_t of, int64_t f) {
    int64_t next = f + 1 + r->targets[f].inner;
    return next == of.stop ? of.first : next;
}

/* The column of a key; -1 if it has none, -2 if that is in doubt. The search begins at the column `guess`. */
static inline int64_t column_of(const json_reader_t *r, columns_t of, int64_t guess, const uint8_t *p, int64_t size) {
    int64_t f = guess;
    if (of.first == of.stop) return -1;
    do {
        const json_key_t *key = r->keys + f;
        if (key->size == size && !memcmp(key->name, p, (size_t)size)) return f;
        if (key->folded_size == size && same_folded(key->folded, p, size)) return f;
        f = after(r, of, f);
    } while (f != guess);
    return may_fold(r, p, p + size) ? -2 : -1;
}

/* Stores the members of the object at p; returns where it ends, or 0 if it is in doubt. */
static inline const uint8_t *json_members(json_reader_t *r, columns_t of, const uint8_t *p, const uint8_t *end, int64_t row) {
    const uint8_t *key, *quote;
    target_t *targets = r->targets;
    int64_t guess = of.first;
    p = space(p + 1, end);
    if (p < end && *p == '}') return p + 1;
    for (;;) {
        key = p = space(p, end);
        if (!(p = key_end(p, end, 0, &quote))) return 0;
        int64_t f = column_of(r, of, guess, key + 1, quote - key - 1);
        if (f >= 0) {
            if (targets[f].row == row || !(p = json_value(r, p, end, targets + f, row))) return 0;
            targets[f].row = row;
            guess = after(r, of, f);
        } else if (f == -2 || !(p = skip(p, end, 0))) {
            return 0;
        }
        p = space(p, end);
        if (p >= end || (*p != ',' && *p != '}')) return 0;
        if (*p++ == '}') return p;
    }
}

/* Stores an object, and null in the columns whose keys it does not have; returns where it ends, or 0 if it is in doubt. */
static inline const uint8_t *json_object(json_reader_t *r, columns_t of, const uint8_t *p, const uint8_t *end, int64_t row) {
    p = p < end && *p == '{' ? json_members(r, of, p, end, row) : 0;
    for (int64_t f = of.first; f < of.stop; f += 1 + r->targets[f].inner)
        if (r->targets[f].row != row && !put_null(r->targets + f, row)) p = 0;
    return p;
}

/* Stores the elements of the array at p, which are the next ones of their column. */
static const uint8_t *json_array(json_reader_t *r, const uint8_t *p, const uint8_t *end, target_t *t) {
    p = space(p + 1, end);
    if (p < end && *p == ']') return p + 1;
    for (;;) {
        p = space(p, end);
        if (t->count >= t->capacity) return r->full = 1, (const uint8_t *)0;
        if (p >= end || !(p = json_value(r, p, end, t + 1, t->count))) return 0;
        t->count++;
        p = space(p, end);
        if (p >= end || (*p != ',' && *p != ']')) return 0;
        if (*p++ == ']') return p;
    }
}

/* Stores an array or an object; the functions call themselves for each level of the columns, never for levels of a record. */
static const uint8_t *json_nested(json_reader_t *r, const uint8_t *p, const uint8_t *end, target_t *t, int64_t row) {
    int64_t at = t - r->targets;
    columns_t of = {at + 1, at + 1 + t->inner};
    if (t->kind == STRUCT) return json_object(r, of, p, end, row);
    p = *p == '[' ? json_array(r, p, end, t) : 0;
    ((int64_t *)t->values)[row + 1] = t->count;
    return p;
}

/* Decodes objects to rows, sets `doubt[row]` for each row in doubt, and returns the number of these rows; -1 if a list has no
 * room for all elements. Object i is raw[starts[i]..ends[i]]. */
int64_t dsms_json_rows(json_reader_t *r, const int64_t *starts, const int64_t *ends, int64_t rows, uint8_t *doubt) {
    int64_t doubts = 0;
    for (int64_t row = 0; row < rows; row++) {
        const uint8_t *end = r->raw + ends[row];
        const uint8_t *p = json_object(r, (columns_t){0, r->count}, space(r->raw + starts[row], end), end, row);
        int fine = p && space(p, end) == end;
        if (r->full) return -1;
        if (!fine) take_back(r->targets, r->count, row);
        doubt[row] = !fine;
        doubts += !fine;
    }
    return doubts;
}
