/* Decodes Avro records of one writer schema into the columns of rows, by a list of the fields of that schema.
 *
 * The functions are pure, as in records.c. They leave a row in doubt whose bytes are no record of the schema, or that has a
 * value which does not fit its column.
 */
#include "rows.h"
#include "varint.h"

/* How the bytes of a field are read. A RECORD has no bytes of its own; its fields follow it. */
enum { AVRO_BOOLEAN, AVRO_LONG, AVRO_FLOAT, AVRO_DOUBLE, AVRO_SIZED, AVRO_FIXED, AVRO_RECORD };

/* A field: its column, or -1 if it is not declared; the branch of null in its union with null, or -1 if it is not in one.
 * `size` is the number of bytes of an AVRO_FIXED, and the number of fields in an AVRO_RECORD, at any depth. A timestamp is
 * the number times `scale`, or divided by -`scale`. */
typedef struct {
    int32_t reads, null_branch;
    int64_t column, size, scale;
} avro_field_t;

static inline int put_long(target_t *t, int64_t row, int64_t v, int64_t scale) {
    if (t->kind == FLOAT32 || t->kind == FLOAT64) return put_float(t, row, (double)v);
    if (scale < 0) v = v / -scale - (v % -scale < 0);
    else if (scale > 1 && __builtin_mul_overflow(v, scale, &v)) return 0;
    return put_integer(t, row, v);
}

/* Stores a float of 32 bits; a REAL keeps all its bits. */
static inline int put_single(target_t *t, int64_t row, const uint8_t *p) {
    float v;
    memcpy(&v, p, 4);
    if (t->kind == FLOAT64) return put_float(t, row, v);
    memcpy((float *)t->values + row, p, 4);
    return 1;
}

static inline int put_double(target_t *t, int64_t row, const uint8_t *p) {
    double v;
    memcpy(&v, p, 8);
    return put_float(t, row, v);
}

/* Stores the decimal whose unscaled value is in big-endian two's complement. */
static inline int put_unscaled(target_t *t, int64_t row, const uint8_t *p, int64_t size) {
    if (size < 1 || size > 16) return 0;
    int negative = p[0] >> 7;
    uint128_t v = negative ? ~(uint128_t)0 : 0;
    for (int64_t i = 0; i < size; i++) v = v << 8 | p[i];
    return put_decimal(t, row, negative ? -v : v, negative);
}

static inline int put_bytes(target_t *t, int64_t row, const uint8_t *raw, const uint8_t *p, int64_t size) {
    if (t->kind == DECIMAL) return put_unscaled(t, row, p, size);
    if (t->kind == TEXT && !is_utf8(p, p + size)) return 0;
    put_view(t, row, 0, raw, p, size);
    return 1;
}

/* Reads a value that is not null into its column, if it has one; returns where the value ends, or 0. */
static inline const uint8_t *avro_value(const avro_field_t *field, const uint8_t *p, const uint8_t *end, target_t *t,
                                        int64_t row, const uint8_t *raw) {
    int64_t v, size = field->size;
    if (t && t->valid) t->valid[row] = 1;
    switch (field->reads) {
    case AVRO_LONG: return varint(&p, end, &v) && (!t || put_long(t, row, v, field->scale)) ? p : 0;
    case AVRO_BOOLEAN:
        if (end - p < 1 || *p > 1) return 0;
        if (t) ((uint8_t *)t->values)[row] = *p;
        return p + 1;
    case AVRO_FLOAT: return end - p >= 4 && (!t || put_single(t, row, p)) ? p + 4 : 0;
    case AVRO_DOUBLE: return end - p >= 8 && (!t || put_double(t, row, p)) ? p + 8 : 0;
    case AVRO_SIZED:
        if (!varint(&p, end, &size)) return 0; /* fall through */
    case AVRO_FIXED: return size >= 0 && size <= end - p && (!t || put_bytes(t, row, raw, p, size)) ? p + size : 0;
    default: return p;
    }
}

/* Decodes the record at p; returns where it ends, or 0 if it is in doubt. */
static const uint8_t *avro_record(const uint8_t *p, const uint8_t *end, const avro_field_t *fields, int64_t count,
                                  target_t *targets, int64_t row, const uint8_t *raw) {
    for (int64_t f = 0; f < count && p; f++) {
        const avro_field_t *field = fields + f;
        target_t *t = field->column < 0 ? 0 : targets + field->column;
        if (field->null_branch >= 0) {
            if (p >= end || (*p != 0 && *p != 2)) return 0;
            if (*p++ == 2 * field->null_branch) {
                if (t && !put_null(t, row)) return 0;
                if (field->reads == AVRO_RECORD) f += field->size;
                continue;
            }
        }
        p = avro_value(field, p, end, t, row, raw);
    }
    return p;
}

/* Decodes records to rows, sets `doubt[row]` for each row in doubt, and returns the number of these rows. Record i is
 * raw[starts[i]..ends[i]], without a prefix; views of text point into `raw`. Each of the `columns` targets is the column of
 * one field. */
int64_t dsms_avro_rows(const uint8_t *raw, const int64_t *starts, const int64_t *ends, int64_t rows,
                       const avro_field_t *fields, int64_t count, target_t *targets, int64_t columns, uint8_t *doubt) {
    int64_t doubts = 0;
    for (int64_t row = 0; row < rows; row++) {
        const uint8_t *end = raw + ends[row];
        int fine = avro_record(raw + starts[row], end, fields, count, targets, row, raw) == end;
        for (int64_t f = 0; f < columns && !fine; f++) put_null(targets + f, row);
        doubt[row] = !fine;
        doubts += !fine;
    }
    return doubts;
}
