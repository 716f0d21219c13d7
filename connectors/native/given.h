/* Columns that are encoded, as Arrow stores them, and the memory into which their rows are written.
 *
 * An encoder writes each row with the same bytes as the encoder in Python, or refuses the columns; the caller then uses the
 * encoder in Python, which gives the reason.
 */
#ifndef DSMS_GIVEN_H
#define DSMS_GIVEN_H

#include "rows.h"

/* A column of one of the kinds in rows.h. The `inner` columns after it belong to it, at any depth. `offset` is the place of
 * its first row in the buffers: `valid` has a bit for each row, 0 for null, or is 0 if no row is null; `values` has what
 * the kind says, a bit for a BOOLEAN; `texts` are the buffers of views. `nullable` is 0 for a column declared NOT NULL.
 * `name` is what JSON writes before a value of a record's field. */
typedef struct {
    int32_t kind, scale, nullable;
    int64_t inner, offset;
    const uint8_t *valid;
    const void *values;
    const uint8_t *const *texts;
    const uint8_t *name;
    int64_t name_size;
} given_t;

/* The end of the memory, and whether a row cannot be encoded. */
typedef struct {
    const uint8_t *end;
    int32_t refused;
} room_t;

/* Where the records are written: the buffer `data`, which is the one of this number, and a view of each record. Each record
 * begins with `prefix`. */
typedef struct {
    uint8_t *data;
    int64_t capacity, used;
    view_t *views;
    const uint8_t *prefix;
    int64_t buffer, prefix_size;
} records_t;

/* The room that each value needs before its text or elements: more than the longest number, date or timestamp. */
enum { VALUE_ROOM = 64 };

/* Writes a row to p and returns where it ends. Returns 0 if there is no room for it, or if it is refused. */
typedef uint8_t *write_row_t(const given_t *columns, int64_t count, int64_t row, uint8_t *p, room_t *room);

static inline int bit(const uint8_t *bits, int64_t at) { return bits[at >> 3] >> (at & 7) & 1; }

static inline int is_null(const given_t *c, int64_t row) { return c->valid && !bit(c->valid, row + c->offset); }

static inline int64_t integer_at(const given_t *c, int64_t row) {
    int64_t at = row + c->offset;
    switch (c->kind) {
    case INT8: return ((const int8_t *)c->values)[at];
    case INT16: return ((const int16_t *)c->values)[at];
    case DATE:
    case INT32: return ((const int32_t *)c->values)[at];
    default: return ((const int64_t *)c->values)[at];
    }
}

static inline const uint8_t *text_at(const given_t *c, int64_t row, int64_t *size) {
    const view_t *view = (const view_t *)c->values + row + c->offset;
    *size = view->size;
    return view->size <= 12 ? view->inlined : c->texts[view->buffer] + view->offset;
}

/* The unscaled value of a decimal. */
static inline uint128_t decimal_at(const given_t *c, int64_t row) {
    uint128_t v;
    memcpy(&v, (const uint8_t *)c->values + 16 * (row + c->offset), 16);
    return v;
}

/* The elements of a list are the rows from *first to before *last of the column after it. */
static inline void elements_at(const given_t *c, int64_t row, int64_t *first, int64_t *last) {
    const int64_t *ends = (const int64_t *)c->values + row + c->offset;
    *first = ends[0], *last = ends[1];
}

/* Writes the rows from..rows until one does not fit. Returns the number of rows that were written, or -1 if one is refused. */
static inline int64_t write_rows(write_row_t *write, const given_t *columns, int64_t count, int64_t from, int64_t rows,
                                 records_t *out) {
    uint8_t *p = out->data, *start;
    room_t room = {.end = out->data + out->capacity, .refused = 0};
    int64_t row = from;
    for (; row < rows; row++, p = start) {
        if (room.end - p < out->prefix_size) break;
        memcpy(p, out->prefix, (size_t)out->prefix_size);
        if (!(start = write(columns, count, row, p + out->prefix_size, &room))) break;
        out->views[row] = view_of((int32_t)out->buffer, out->data, p, start - p);
    }
    out->used = p - out->data;
    return room.refused ? -1 : row - from;
}

#endif
