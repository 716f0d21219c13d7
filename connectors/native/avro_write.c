/* Encodes columns as Avro records; a nullable column is a union of null and its type. The functions are pure, as in
 * records.c.
 */
#include "given.h"
#include "varint.h"

static uint8_t *avro_field(const given_t *c, int64_t row, uint8_t *p, room_t *room);

/* Writes the fields of a record. */
static uint8_t *avro_fields(const given_t *columns, int64_t count, int64_t row, uint8_t *p, room_t *room) {
    for (int64_t f = 0; f < count && p; f += 1 + columns[f].inner) p = avro_field(columns + f, row, p, room);
    return p;
}

/* Writes an array as one block. */
static uint8_t *avro_array(const given_t *c, int64_t row, uint8_t *p, room_t *room) {
    int64_t first, last;
    elements_at(c, row, &first, &last);
    if (last > first) p = put_varint(p, last - first);
    for (; first < last && p; first++) p = avro_field(c + 1, first, p, room);
    if (!p || p == room->end) return 0;
    *p = 0;
    return p + 1;
}

static inline uint8_t *avro_sized(const given_t *c, int64_t row, uint8_t *p, const room_t *room) {
    int64_t size;
    const uint8_t *text = text_at(c, row, &size);
    p = put_varint(p, size);
    if (room->end - p < size) return 0;
    memcpy(p, text, (size_t)size);
    return p + size;
}

/* Writes the unscaled value in the shortest big-endian two's complement. */
static inline uint8_t *avro_decimal(uint128_t v, uint8_t *p) {
    uint128_t sign = (uint128_t)((__int128)v >> 127), magnitude = v ^ sign;
    int size = 1;
    while (size < 16 && magnitude >> (8 * size - 1)) size++;
    p = put_varint(p, size);
    while (size--) *p++ = (uint8_t)(v >> 8 * size);
    return p;
}

/* Writes a value that is not null; there is VALUE_ROOM. */
static inline uint8_t *avro_value(const given_t *c, int64_t row, uint8_t *p, room_t *room) {
    int64_t at = row + c->offset;
    switch (c->kind) {
    case FLOAT32: memcpy(p, (const float *)c->values + at, 4); return p + 4;
    case FLOAT64: memcpy(p, (const double *)c->values + at, 8); return p + 8;
    case BOOLEAN: *p = (uint8_t)bit(c->values, at); return p + 1;
    case TEXT:
    case BYTES: return avro_sized(c, row, p, room);
    case DECIMAL: return avro_decimal(decimal_at(c, row), p);
    case LIST: return avro_array(c, row, p, room);
    case STRUCT: return avro_fields(c + 1, c->inner, row, p, room);
    default: return put_varint(p, integer_at(c, row));
    }
}

static uint8_t *avro_field(const given_t *c, int64_t row, uint8_t *p, room_t *room) {
    int null = is_null(c, row);
    if (room->end - p < VALUE_ROOM) return 0;
    if (null && !c->nullable) return room->refused = 1, (uint8_t *)0;
    if (c->nullable) *p++ = null ? 0 : 2;
    return null ? p : avro_value(c, row, p, room);
}

/* Encodes the rows from..rows of the columns, until one does not fit into `out`. Returns the number of rows that were encoded,
 * or -1 if a column declared NOT NULL has a null. */
int64_t dsms_avro_records(const given_t *columns, int64_t count, int64_t from, int64_t rows, records_t *out) {
    return write_rows(avro_fields, columns, count, from, rows, out);
}
