/* Columns of decoded rows, and the checks of values that all record formats share.
 *
 * A decoder decides only what is clear. It marks a row as in doubt if it cannot prove each value of a column; the caller
 * then reads that row in Python, which accepts it or gives the reason why it is refused. Machines are little-endian.
 */
#ifndef DSMS_ROWS_H
#define DSMS_ROWS_H

#include <stdint.h>
#include <string.h>

typedef unsigned __int128 uint128_t;

/* How a column stores its values: integers of 1 to 8 bytes, floats, a byte for a boolean, a view for text and bytes, 16
 * bytes for a decimal, days and microseconds since 1970 for dates and timestamps, 4 bytes for the index of an enum's symbol.
 * A SPAN is a view of the bytes of a value that Python reads. A LIST has the positions at which its elements end, in the
 * column after it; the columns after a STRUCT are its fields. */
enum {
    INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, TEXT, BYTES, DECIMAL, DATE, TIMESTAMP, ENUM, SPAN, LIST, STRUCT
};

/* The memory of a column. Integers, dates and timestamps lie between `least` and `greatest`. The unscaled values of a
 * DECIMAL have `scale` digits after the point, and are less than the number whose low and high words are `least` and
 * `greatest`. `valid[row]` is 1 for a value and 0 for null; in a column declared NOT NULL that is in no other, `valid` is 0.
 * `required` says that a column is declared NOT NULL. `row` is the last row that the column has, at first -1.
 *
 * The `inner` targets after one belong to it, at any depth. `parent` is the number of the innermost LIST that
 * contains it; -1 if none does: then it has the rows of the table. `count` is the number of elements of a LIST so far,
 * `capacity` the most that it has room for; its values are the counts before the first row and after each row. */
typedef struct {
    int32_t kind, scale;
    int64_t least, greatest, row, nulls;
    void *values;
    uint8_t *valid;
    int64_t required, inner, parent, count, capacity;
} target_t;

/* Arrow's view of a text: all of its bytes, or if these are more than 12, the first four and the place of all. */
typedef struct {
    int32_t size;
    union {
        uint8_t inlined[12];
        struct {
            uint8_t prefix[4];
            int32_t buffer, offset;
        };
    };
} view_t;

/* The view of bytes that lie in the buffer of this number, which begins at `raw`. */
static inline view_t view_of(int32_t buffer, const uint8_t *raw, const uint8_t *p, int64_t size) {
    view_t view = {.size = (int32_t)size, .inlined = {0}};
    if (size <= 12) {
        memcpy(view.inlined, p, (size_t)size);
    } else {
        memcpy(view.prefix, p, 4);
        view.buffer = buffer;
        view.offset = (int32_t)(p - raw);
    }
    return view;
}

static inline void put_view(target_t *t, int64_t row, int32_t buffer, const uint8_t *raw, const uint8_t *p, int64_t size) {
    ((view_t *)t->values)[row] = view_of(buffer, raw, p, size);
}

/* Stores an integer; returns 0 if it is out of the column's range. */
static inline int put_integer(target_t *t, int64_t row, int64_t v) {
    if (v < t->least || v > t->greatest) return 0;
    switch (t->kind) {
    case INT8: ((int8_t *)t->values)[row] = (int8_t)v; return 1;
    case INT16: ((int16_t *)t->values)[row] = (int16_t)v; return 1;
    case DATE:
    case ENUM:
    case INT32: ((int32_t *)t->values)[row] = (int32_t)v; return 1;
    default: ((int64_t *)t->values)[row] = v; return 1;
    }
}

/* Stores the float nearest to a double; returns 0 if a finite number would become infinite. */
static inline int put_float(target_t *t, int64_t row, double v) {
    if (t->kind == FLOAT64) {
        ((double *)t->values)[row] = v;
        return 1;
    }
    float single = (float)v;
    ((float *)t->values)[row] = single;
    return single - single == 0 || v - v != 0;
}

/* Stores a decimal of the column's scale; returns 0 if it has too many digits. */
static inline int put_decimal(target_t *t, int64_t row, uint128_t magnitude, int negative) {
    uint128_t bound = (uint128_t)(uint64_t)t->greatest << 64 | (uint64_t)t->least;
    if (magnitude >= bound) return 0;
    uint128_t v = negative ? -magnitude : magnitude;
    memcpy((uint8_t *)t->values + 16 * row, &v, 16);
    return 1;
}

/* Makes a row of one target null. A view and an index remain ones that can be followed. */
static inline void blank(target_t *t, int64_t row) {
    if (t->kind == TEXT || t->kind == BYTES || t->kind == SPAN) memset((view_t *)t->values + row, 0, sizeof(view_t));
    if (t->kind == ENUM) ((int32_t *)t->values)[row] = 0;
    if (t->kind == LIST) ((int64_t *)t->values)[row + 1] = t->count;
    if (!t->valid) return;
    t->valid[row] = 0;
    t->nulls++;
}

/* Makes a row null, and the fields of a struct in it; returns 0 if the column is declared NOT NULL. */
static inline int put_null(target_t *t, int64_t row) {
    blank(t, row);
    for (int64_t i = 1; i <= t->inner; i++)
        if (t[i].parent == t->parent) blank(t + i, row);
    return !t->required;
}

/* Removes what was stored of a row, with its elements, and makes the row null. */
static inline void take_back(target_t *targets, int64_t columns, int64_t row) {
    for (int64_t f = 0; f < columns; f++) {
        target_t *t = targets + f;
        if (t->parent >= 0) t->row = -1;
        if (t->kind == LIST) t->count = ((int64_t *)t->values)[t->parent < 0 ? row : targets[t->parent].count];
        if (t->parent < 0) blank(t, row);
    }
}

static inline int continues(uint8_t c) { return (c & 0xc0) == 0x80; }

/* Moves over one character of UTF-8 that is not ASCII; returns 0 if it is not valid or does not end before `end`. */
static inline const uint8_t *wide_character(const uint8_t *p, const uint8_t *end) {
    int64_t left = end - p;
    uint8_t c = p[0];
    if (c >= 0xc2 && c <= 0xdf) return left >= 2 && continues(p[1]) ? p + 2 : 0;
    if (c >= 0xe0 && c <= 0xef) {
        if (left < 3 || !continues(p[1]) || !continues(p[2])) return 0;
        if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f)) return 0;
        return p + 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        if (left < 4 || !continues(p[1]) || !continues(p[2]) || !continues(p[3])) return 0;
        if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f)) return 0;
        return p + 4;
    }
    return 0;
}

#define HIGH_BITS 0x8080808080808080ull

/* Whether bytes are UTF-8. */
static inline int is_utf8(const uint8_t *p, const uint8_t *end) {
    while (p < end) {
        uint64_t word;
        if (end - p >= 8 && (memcpy(&word, p, 8), !(word & HIGH_BITS))) p += 8;
        else if (*p < 0x80) p++;
        else if (!(p = wide_character(p, end))) return 0;
    }
    return 1;
}

#endif
