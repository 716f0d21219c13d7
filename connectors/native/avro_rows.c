/* Decodes Avro records of one writer schema into the columns of rows, by a list of the fields of that schema.
 *
 * The functions are pure, as in records.c. They leave a row in doubt whose bytes are no record of the schema, or that has a
 * value which does not fit its column. They call themselves for each level of the schema, never for levels of a record.
 */
#include "rows.h"
#include "varint.h"

/* How the bytes of a field are read. An AVRO_TEXT must be UTF-8, an AVRO_SIZED only if its column is a text. An AVRO_ABSENT has
 * no bytes: its column is null. */
enum {
    AVRO_BOOLEAN, AVRO_LONG, AVRO_FLOAT, AVRO_DOUBLE, AVRO_SIZED, AVRO_FIXED, AVRO_TEXT, AVRO_ABSENT, AVRO_RECORD, AVRO_ARRAY,
    AVRO_MAP
};

/* A field: its column, or -1 if it is not declared; the branch of null in its union with null, or -1 if it is not in one.
 * The `inner` fields after it are those of a record, or the elements of an array or map, at any depth. `size` is the number
 * of bytes of an AVRO_FIXED; of an AVRO_LONG that is not declared, the number of symbols that it must be one of, or 0. A
 * timestamp is the number times `scale`, or divided by -`scale`. */
typedef struct {
    int32_t reads, null_branch;
    int64_t column, size, scale, inner;
} avro_field_t;

/* The records are in `raw`, up to `end`. `full` says that a column has no room for more elements. */
typedef struct {
    const uint8_t *raw, *end;
    target_t *targets;
    int full;
} avro_reader_t;

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

static const uint8_t *avro_nested(avro_reader_t *r, const avro_field_t *field, const uint8_t *p, int64_t row);
static inline const uint8_t *avro_scalar(const avro_reader_t *r, const avro_field_t *field, const uint8_t *p, int64_t row);

/* Reads a field into its column, if it has one; returns where it ends, or 0 if it is in doubt. */
static inline const uint8_t *avro_field(avro_reader_t *r, const avro_field_t *field, const uint8_t *p, int64_t row) {
    if (field->null_branch >= 0) {
        if (p >= r->end || (*p != 0 && *p != 2)) return 0;
        if (*p++ == 2 * field->null_branch) return field->column < 0 || put_null(r->targets + field->column, row) ? p : 0;
    }
    return field->reads < AVRO_RECORD ? avro_scalar(r, field, p, row) : avro_nested(r, field, p, row);
}

static inline const uint8_t *avro_fields(avro_reader_t *r, const avro_field_t *fields, int64_t count, const uint8_t *p,
                                         int64_t row) {
    for (int64_t f = 0; f < count && p; f += 1 + fields[f].inner) p = avro_field(r, fields + f, p, row);
    return p;
}

/* Moves over the key of a map. */
static const uint8_t *avro_key(const uint8_t *p, const uint8_t *end) {
    int64_t size;
    if (!varint(&p, end, &size) || size < 0 || size > end - p || !is_utf8(p, p + size)) return 0;
    return p + size;
}

/* Reads an element of an array or map, which is the next of its column. */
static inline const uint8_t *avro_element(avro_reader_t *r, const avro_field_t *field, const uint8_t *p, target_t *t) {
    if (field->reads == AVRO_MAP && !(p = avro_key(p, r->end))) return 0;
    if (t && t->count >= t->capacity) return r->full = 1, (const uint8_t *)0;
    p = avro_field(r, field + 1, p, t ? t->count : 0);
    if (t) t->count++;
    return p;
}

/* Reads the blocks of an array or map. A block may begin with the number of its bytes, which is not needed. */
static const uint8_t *avro_blocks(avro_reader_t *r, const avro_field_t *field, const uint8_t *p, target_t *t, int64_t row) {
    for (;;) {
        int64_t count, bytes;
        if (!varint(&p, r->end, &count) || count == INT64_MIN) return 0;
        if (count == 0) break;
        if (count < 0 && !varint(&p, r->end, &bytes)) return 0;
        for (count = count < 0 ? -count : count; count; count--)
            if (!(p = avro_element(r, field, p, t))) return 0;
    }
    if (t) ((int64_t *)t->values)[row + 1] = t->count;
    return p;
}

/* Reads a number; one that is not declared must be the index of a symbol if there are symbols. */
static inline const uint8_t *avro_long(const avro_field_t *field, const uint8_t *p, const uint8_t *end, target_t *t,
                                       int64_t row) {
    int64_t v;
    if (!varint(&p, end, &v)) return 0;
    if (!t) return !field->size || (v >= 0 && v < field->size) ? p : 0;
    return put_long(t, row, v, field->scale) ? p : 0;
}

/* Reads a value that is not null and contains no others. */
static inline const uint8_t *avro_scalar(const avro_reader_t *r, const avro_field_t *field, const uint8_t *p, int64_t row) {
    target_t *t = field->column < 0 ? 0 : r->targets + field->column;
    const uint8_t *end = r->end;
    int64_t size = field->size;
    if (t && t->valid) t->valid[row] = 1;
    switch (field->reads) {
    case AVRO_LONG: return avro_long(field, p, end, t, row);
    case AVRO_BOOLEAN:
        if (end - p < 1 || *p > 1) return 0;
        if (t) ((uint8_t *)t->values)[row] = *p;
        return p + 1;
    case AVRO_FLOAT: return end - p >= 4 && (!t || put_single(t, row, p)) ? p + 4 : 0;
    case AVRO_DOUBLE: return end - p >= 8 && (!t || put_double(t, row, p)) ? p + 8 : 0;
    case AVRO_TEXT:
    case AVRO_SIZED:
        if (!varint(&p, end, &size)) return 0; /* fall through */
    case AVRO_FIXED:
        if (size < 0 || size > end - p) return 0;
        if (field->reads == AVRO_TEXT && (!t || t->kind != TEXT) && !is_utf8(p, p + size)) return 0;
        return !t || put_bytes(t, row, r->raw, p, size) ? p + size : 0;
    default: return !t || put_null(t, row) ? p : 0;
    }
}

/* Reads a record, array or map that is not null. */
static const uint8_t *avro_nested(avro_reader_t *r, const avro_field_t *field, const uint8_t *p, int64_t row) {
    target_t *t = field->column < 0 ? 0 : r->targets + field->column;
    if (t && t->valid) t->valid[row] = 1;
    if (field->reads == AVRO_RECORD) return avro_fields(r, field + 1, field->inner, p, row);
    return avro_blocks(r, field, p, t, row);
}

/* Decodes records to rows, sets `doubt[row]` for each row in doubt, and returns the number of these rows; -1 if a column has
 * no room for all elements. Record i is raw[starts[i]..ends[i]], without a prefix; views of text point into `raw`. Each of the
 * `columns` targets is the column of one field. */
int64_t dsms_avro_rows(const uint8_t *raw, const int64_t *starts, const int64_t *ends, int64_t rows,
                       const avro_field_t *fields, int64_t count, target_t *targets, int64_t columns, uint8_t *doubt) {
    int64_t doubts = 0;
    for (int64_t row = 0; row < rows; row++) {
        avro_reader_t reader = {.raw = raw, .end = raw + ends[row], .targets = targets, .full = 0};
        int fine = avro_fields(&reader, fields, count, raw + starts[row], row) == reader.end;
        if (reader.full) return -1;
        if (!fine) take_back(targets, columns, row);
        doubt[row] = !fine;
        doubts += !fine;
    }
    return doubts;
}
