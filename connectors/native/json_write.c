/* Encodes columns as JSON objects. The functions are pure, as in records.c. */
#include "floats.h"
#include "given.h"
#include "json_texts.h"

#define DAY_US 86400000000ll
enum { FIRST_DAY = -719162, LAST_DAY = 2932896 }; /* of the years 1 to 9999 */

static uint8_t *json_value(const given_t *c, int64_t row, uint8_t *p, room_t *room);

static inline uint8_t *put_word(uint8_t *p, const char *word) {
    size_t size = strlen(word);
    memcpy(p, word, size);
    return p + size;
}

/* Writes the last `count` digits of a number. */
static inline uint8_t *put_fixed(uint8_t *p, uint64_t v, int count) {
    for (int i = count; i--; v /= 10) p[i] = (uint8_t)('0' + v % 10);
    return p + count;
}

static inline uint8_t *put_signed(uint8_t *p, int64_t v) {
    if (v < 0) *p++ = '-';
    return dsms_put_digits(p, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static uint8_t *put_real(uint8_t *p, double v, const given_t *c) {
    if (v != v) return put_word(p, "\"NaN\"");
    if (v - v != 0) return put_word(p, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    return c->kind == FLOAT32 ? dsms_put_single(p, (float)v) : dsms_put_double(p, v);
}

/* Writes a decimal as a text with all digits of its scale. */
static uint8_t *put_decimal_digits(uint8_t *p, uint128_t v, int scale) {
    const uint64_t ten19 = 10000000000000000000ull;
    int negative = v >> 127 & 1;
    uint128_t magnitude = negative ? -v : v;
    uint8_t digits[40], *all = digits;
    uint64_t high = magnitude < ten19 ? 0 : (uint64_t)(magnitude / ten19); /* 128-bit divisions are slow */
    put_fixed(digits, high / ten19, 2);
    put_fixed(digits + 2, high % ten19, 19);
    put_fixed(digits + 21, (uint64_t)(magnitude - (uint128_t)high * ten19), 19);
    while (all < digits + 39 - scale && *all == '0') all++;
    *p++ = '"';
    if (negative) *p++ = '-';
    int whole = (int)(digits + 40 - all) - scale;
    memcpy(p, all, (size_t)whole);
    p += whole;
    if (scale) {
        *p++ = '.';
        memcpy(p, all + whole, (size_t)scale);
        p += scale;
    }
    *p++ = '"';
    return p;
}

/* Writes YYYY-MM-DD. */
static uint8_t *put_day(uint8_t *p, int64_t day) {
    int64_t shifted = day + 719468, era = shifted / 146097, of_era = shifted % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
    p = put_fixed(p, (uint64_t)(year + era * 400 + (month >= 10)), 4);
    *p++ = '-';
    p = put_fixed(p, (uint64_t)((month + 2) % 12 + 1), 2);
    *p++ = '-';
    return put_fixed(p, (uint64_t)(of_year - (153 * month + 2) / 5 + 1), 2);
}

/* Writes HH:MM:SS and the microseconds in 0, 3 or 6 digits. */
static uint8_t *put_clock(uint8_t *p, uint64_t clock) {
    uint64_t second = clock / 1000000, fraction = clock % 1000000;
    p = put_fixed(p, second / 3600, 2);
    *p++ = ':';
    p = put_fixed(p, second / 60 % 60, 2);
    *p++ = ':';
    p = put_fixed(p, second % 60, 2);
    if (!fraction) return p;
    *p++ = '.';
    return fraction % 1000 ? put_fixed(p, fraction, 6) : put_fixed(p, fraction / 1000, 3);
}

/* Writes a date, or a timestamp in UTC; refuses years other than 1 to 9999. */
static uint8_t *put_time(uint8_t *p, int64_t v, int timestamp, room_t *room) {
    int64_t unit = timestamp ? DAY_US : 1, day = v / unit - (v % unit < 0);
    if (day < FIRST_DAY || day > LAST_DAY) return room->refused = 1, (uint8_t *)0;
    *p++ = '"';
    p = put_day(p, day);
    if (timestamp) {
        *p++ = 'T';
        p = put_clock(p, (uint64_t)(v - day * DAY_US));
        *p++ = 'Z';
    }
    *p++ = '"';
    return p;
}

/* The number of bytes in a word before the first that JSON must escape; 8 if there is none. */
static inline int unescaped(uint64_t word) {
    uint64_t quote = word ^ ONES * '"', backslash = word ^ ONES * '\\';
    uint64_t hit = ((quote - ONES) & ~quote) | ((backslash - ONES) & ~backslash) | ((word - ONES * 0x20) & ~word);
    return (hit &= HIGH_BITS) ? __builtin_ctzll(hit) >> 3 : 8;
}

static inline uint8_t *put_escape(uint8_t *p, uint8_t c) {
    static const char names[] = "btn?fr", hex[] = "0123456789abcdef";
    *p++ = '\\';
    if (c == '"' || c == '\\') return *p = c, p + 1;
    if (c >= 8 && c <= 13 && c != 11) return *p = (uint8_t)names[c - 8], p + 1;
    p = put_word(p, "u00");
    *p++ = (uint8_t)hex[c >> 4], *p++ = (uint8_t)hex[c & 15];
    return p;
}

/* Writes a text with its quotes. Up to seven bytes after its end may be overwritten. */
static uint8_t *put_quoted(const uint8_t *text, int64_t size, uint8_t *p, const room_t *room) {
    const uint8_t *end = text + size;
    if ((room->end - p - 10) / 6 < size) return 0;
    *p++ = '"';
    while (text < end) {
        int64_t plain = 0;
        uint64_t word;
        if (end - text >= 8) {
            memcpy(&word, text, 8), memcpy(p, &word, 8);
            plain = unescaped(word);
        } else {
            while (text + plain < end && text[plain] != '"' && text[plain] != '\\' && text[plain] >= 0x20)
                p[plain] = text[plain], plain++;
        }
        text += plain, p += plain;
        if (plain < 8 && text < end) p = put_escape(p, *text++);
    }
    *p++ = '"';
    return p;
}

/* Writes bytes in base64. */
static uint8_t *put_base64(const uint8_t *b, int64_t size, uint8_t *p, const room_t *room) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (room->end - p - 2 < (size + 2) / 3 * 4) return 0;
    *p++ = '"';
    for (int64_t at = 0; at < size; at += 3) {
        int64_t left = size - at;
        uint32_t v = (uint32_t)b[at] << 16 | (left > 1 ? (uint32_t)b[at + 1] << 8 : 0) | (left > 2 ? b[at + 2] : 0);
        *p++ = (uint8_t)digits[v >> 18], *p++ = (uint8_t)digits[v >> 12 & 63];
        *p++ = left > 1 ? (uint8_t)digits[v >> 6 & 63] : '=';
        *p++ = left > 2 ? (uint8_t)digits[v & 63] : '=';
    }
    *p++ = '"';
    return p;
}

static inline uint8_t *put_bytes(const given_t *c, int64_t row, uint8_t *p, const room_t *room) {
    int64_t size;
    const uint8_t *text = text_at(c, row, &size);
    return c->kind == TEXT ? put_quoted(text, size, p, room) : put_base64(text, size, p, room);
}

/* Writes an object with a field for each of the `count` columns that is not in another one of them. */
static uint8_t *json_object(const given_t *columns, int64_t count, int64_t row, uint8_t *p, room_t *room) {
    for (int64_t f = 0; f < count; f += 1 + columns[f].inner) {
        if (room->end - p < columns[f].name_size) return 0;
        memcpy(p, columns[f].name, (size_t)columns[f].name_size);
        if (!(p = json_value(columns + f, row, p + columns[f].name_size, room))) return 0;
    }
    if (p == room->end) return 0;
    *p = '}';
    return p + 1;
}

static uint8_t *json_array(const given_t *c, int64_t row, uint8_t *p, room_t *room) {
    int64_t first, last;
    elements_at(c, row, &first, &last);
    *p++ = '[';
    for (int64_t i = first; i < last; i++) {
        if (i > first) {
            if (p == room->end) return 0;
            *p++ = ',';
        }
        if (!(p = json_value(c + 1, i, p, room))) return 0;
    }
    if (p == room->end) return 0;
    *p = ']';
    return p + 1;
}

static uint8_t *json_value(const given_t *c, int64_t row, uint8_t *p, room_t *room) {
    int64_t at = row + c->offset;
    if (room->end - p < VALUE_ROOM) return 0;
    if (is_null(c, row)) return c->nullable ? put_word(p, "null") : (room->refused = 1, (uint8_t *)0);
    switch (c->kind) {
    case FLOAT32: return put_real(p, ((const float *)c->values)[at], c);
    case FLOAT64: return put_real(p, ((const double *)c->values)[at], c);
    case BOOLEAN: return put_word(p, bit(c->values, at) ? "true" : "false");
    case TEXT:
    case BYTES: return put_bytes(c, row, p, room);
    case DECIMAL: return put_decimal_digits(p, decimal_at(c, row), c->scale);
    case DATE:
    case TIMESTAMP: return put_time(p, integer_at(c, row), c->kind == TIMESTAMP, room);
    case LIST: return json_array(c, row, p, room);
    case STRUCT: return json_object(c + 1, c->inner, row, p, room);
    default: return put_signed(p, integer_at(c, row));
    }
}

/* Encodes the rows from..rows of the columns, until one does not fit into `out`. Returns the number of rows that were encoded,
 * or -1 if a column declared NOT NULL has a null, or a time is not in the years 1 to 9999. */
int64_t dsms_json_records(const given_t *columns, int64_t count, int64_t from, int64_t rows, records_t *out) {
    return write_rows(json_object, columns, count, from, rows, out);
}
