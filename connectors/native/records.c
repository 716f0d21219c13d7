/* Converts record batches of Kafka's protocol (format version 2) to columns, and columns to record batches.
 *
 * The functions are pure and work on the caller's memory. They do no allocation and no I/O and do not use Python, so
 * they run without the interpreter lock. A length or count that contradicts the bytes gives an error code. Nothing is
 * read or written outside of the given buffers, whatever bytes they contain.
 *
 * The format: https://kafka.apache.org/documentation/#recordbatch
 */
#include <stdint.h>
#include <string.h>

#include "varint.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_SSE42 1
#include <nmmintrin.h>
#endif

enum { TRUNCATED = -1, BAD_VARINT = -2, BAD_LENGTH = -3, OLD_FORMAT = -4, NO_ROOM = -5 };
enum { HEADER = 61, LENGTH_AT = 8, MAGIC_AT = 16, CRC_AT = 17, ATTRIBUTES_AT = 21 };
enum { LOG_APPEND_TIME = 8 };

/* A batch in a fetched buffer. Its records are the `size` bytes from `at` on, compressed as `attributes` says. `sound`
 * is 0 if the checksum does not match. */
typedef struct {
    int64_t at, size, base_offset, last_offset, attributes, base_time, max_time, producer, count, sound;
} batch_t;

/* A growing column of byte strings: row i is data[ends[i-1]..ends[i]]; valid[i] is 0 for null. */
typedef struct {
    uint8_t *data;
    int64_t *ends;
    uint8_t *valid;
    int64_t used, capacity, nulls;
} column_t;

/* The rows decoded so far. If `key` or `value` has no `ends`, that column is not decoded. `headers[i]` is the column of
 * the header `names[i]`. */
typedef struct {
    int64_t *offsets, *times;
    int64_t rows, capacity;
    column_t key, value;
    column_t *headers;
    const uint8_t **names;
    const int64_t *name_sizes;
    int64_t header_count;
} rows_t;

/* ---- integers ---- */

static uint32_t be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t be64(const uint8_t *p) { return (int64_t)((uint64_t)be32(p) << 32 | be32(p + 4)); }

static void put32(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24), p[1] = (uint8_t)(v >> 16), p[2] = (uint8_t)(v >> 8), p[3] = (uint8_t)v;
}

static void put64(uint8_t *p, uint64_t v) { put32(p, (uint32_t)(v >> 32)), put32(p + 4, (uint32_t)v); }

static void put16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8), p[1] = (uint8_t)v; }

static inline int64_t varint_size(int64_t value) {
    uint64_t v = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    int64_t size = 1;
    while (v >= 0x80) v >>= 7, size++;
    return size;
}

/* ---- CRC32C ---- */

static uint32_t table[8][256];

/* Fills the tables. Must be called once, by one thread, before all other functions. */
void dsms_records_init(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++) table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xff];
}

static uint32_t crc_soft(uint32_t crc, const uint8_t *p, int64_t size) {
    for (; size >= 8; p += 8, size -= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    while (size-- > 0) crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 0xff];
    return crc;
}

#ifdef HAVE_SSE42
__attribute__((target("sse4.2"))) static uint32_t crc_hard(uint32_t crc, const uint8_t *p, int64_t size) {
    uint64_t wide = crc, word;
    for (; size >= 8; p += 8, size -= 8) {
        memcpy(&word, p, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    while (size-- > 0) crc = _mm_crc32_u8(crc, *p++);
    return crc;
}
#endif

uint32_t dsms_crc32c(const uint8_t *p, int64_t size) {
#ifdef HAVE_SSE42
    if (__builtin_cpu_supports("sse4.2")) return ~crc_hard(~0u, p, size);
#endif
    return ~crc_soft(~0u, p, size);
}

/* ---- reading ---- */

/* Finds the complete batches at the start of a buffer; an incomplete last batch is left out. Returns their number, at
 * most `most`, or an error code. `*consumed` is the position at which the next batch begins. */
int64_t dsms_scan(const uint8_t *data, int64_t size, batch_t *out, int64_t most, int64_t *consumed) {
    int64_t at = 0, found = 0;
    while (found < most && size - at >= HEADER) {
        const uint8_t *p = data + at;
        int64_t length = (int32_t)be32(p + LENGTH_AT);
        if (p[MAGIC_AT] != 2) return OLD_FORMAT;
        if (length < HEADER - 12) return BAD_LENGTH;
        if (length > size - at - 12) break;
        batch_t *b = out + found++;
        b->at = at + HEADER;
        b->size = length - (HEADER - 12);
        b->base_offset = be64(p);
        b->attributes = (int64_t)(p[ATTRIBUTES_AT] << 8 | p[ATTRIBUTES_AT + 1]);
        b->last_offset = b->base_offset + (int32_t)be32(p + 23);
        b->base_time = be64(p + 27);
        b->max_time = be64(p + 35);
        b->producer = be64(p + 43);
        b->count = (int32_t)be32(p + 57);
        b->sound = be32(p + CRC_AT) == dsms_crc32c(p + ATTRIBUTES_AT, length + 12 - ATTRIBUTES_AT);
        if (b->count < 0) return BAD_LENGTH;
        at += length + 12;
    }
    *consumed = at;
    return found;
}

static inline int append(column_t *c, int64_t row, const uint8_t *p, int64_t size) {
    if (size > 0) {
        if (size > c->capacity - c->used) return NO_ROOM;
        memcpy(c->data + c->used, p, (size_t)size);
        c->used += size;
    }
    c->ends[row] = c->used;
    c->valid[row] = size >= 0;
    c->nulls += size < 0;
    return 0;
}

/* Reads a byte string that follows its length; the size is -1 for null. Returns 0 or an error code. */
static inline int text(const uint8_t **p, const uint8_t *end, const uint8_t **start, int64_t *size) {
    if (!varint(p, end, size)) return BAD_VARINT;
    if (*size < -1 || *size > end - *p) return BAD_LENGTH;
    *start = *p;
    if (*size > 0) *p += *size;
    return 0;
}

/* Reads the headers of a record. If two have the same name, the last one is taken, as in a mapping. Returns 0 or an
 * error code. */
static int headers(const uint8_t **p, const uint8_t *end, rows_t *out) {
    int64_t count, size;
    const uint8_t *start;
    int status;
    if (!varint(p, end, &count)) return BAD_VARINT;
    if (count < 0 || count > end - *p) return BAD_LENGTH;
    for (int64_t h = 0; h < out->header_count; h++)
        if ((status = append(&out->headers[h], out->rows, 0, -1))) return status;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *name;
        int64_t name_size;
        if ((status = text(p, end, &name, &name_size))) return status;
        if (name_size < 0) return BAD_LENGTH;
        if ((status = text(p, end, &start, &size))) return status;
        for (int64_t h = 0; h < out->header_count; h++) {
            if (out->name_sizes[h] != name_size || memcmp(out->names[h], name, (size_t)name_size)) continue;
            column_t *c = &out->headers[h];
            c->used = out->rows ? c->ends[out->rows - 1] : 0;
            c->nulls -= !c->valid[out->rows];
            if ((status = append(c, out->rows, start, size))) return status;
        }
    }
    return 0;
}

/* Appends the records of a batch whose offsets are in [least, end); data[0..size] contains the uncompressed records.
 * Returns 0 or an error code. After an error, all rows that `out->rows` counts are still complete. */
int64_t dsms_decode(const uint8_t *data, int64_t size, const batch_t *batch, int64_t least, int64_t end, rows_t *out) {
    const uint8_t *p = data, *stop = data + size;
    int status;
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t length, time_delta, offset_delta;
        if (!varint(&p, stop, &length)) return BAD_VARINT;
        if (length < 1 || length > stop - p) return BAD_LENGTH;
        const uint8_t *next = p + length, *key, *value;
        int64_t key_size, value_size;
        p++; /* the attributes of a record, which Kafka does not use yet */
        if (!varint(&p, next, &time_delta) || !varint(&p, next, &offset_delta)) return BAD_VARINT;
        if ((status = text(&p, next, &key, &key_size)) || (status = text(&p, next, &value, &value_size))) return status;
        int64_t offset = batch->base_offset + offset_delta;
        if (offset >= least && offset < end) {
            int64_t row = out->rows;
            if (row >= out->capacity) return NO_ROOM;
            out->offsets[row] = offset;
            out->times[row] = batch->attributes & LOG_APPEND_TIME ? batch->max_time : batch->base_time + time_delta;
            if (out->key.ends && (status = append(&out->key, row, key, key_size))) return status;
            if (out->value.ends && (status = append(&out->value, row, value, value_size))) return status;
            if (out->header_count && (status = headers(&p, next, out))) return status;
            out->rows++;
        }
        p = next;
    }
    return p == stop ? 0 : BAD_LENGTH;
}

/* ---- writing ---- */

/* A column to write. Without `ends`, all rows are null; with `ends` but without `valid`, no row is null. */
typedef struct {
    const uint8_t *data;
    const int64_t *starts, *ends;
    const uint8_t *valid;
} source_t;

static inline int64_t size_of(const source_t *c, int64_t row) {
    if (!c->ends || (c->valid && !c->valid[row])) return -1;
    return c->ends[row] - c->starts[row];
}

static inline int64_t text_size(int64_t size) { return varint_size(size) + (size > 0 ? size : 0); }

static inline uint8_t *put_text(uint8_t *p, const uint8_t *data, int64_t size) {
    p = put_varint(p, size);
    if (size > 0) memcpy(p, data, (size_t)size), p += size;
    return p;
}

/* Writes the rows with the numbers rows[from..count) as records into `out`, until one does not fit. Null headers are
 * left out. Returns the number of rows written; `*used` is their size in bytes. */
int64_t dsms_encode(const int64_t *rows, int64_t from, int64_t count, const source_t *key, const source_t *value,
                    const source_t *headers, const uint8_t **names, const int64_t *name_sizes, int64_t header_count,
                    uint8_t *out, int64_t capacity, int64_t *used) {
    uint8_t *p = out;
    int64_t written = 0;
    for (int64_t i = from; i < count; i++, written++) {
        int64_t row = rows[i], key_size = size_of(key, row), value_size = size_of(value, row), present = 0;
        int64_t body = 1 + 1 + varint_size(written) + text_size(key_size) + text_size(value_size);
        for (int64_t h = 0; h < header_count; h++) {
            int64_t size = size_of(&headers[h], row);
            if (size < 0) continue;
            present++;
            body += text_size(name_sizes[h]) + text_size(size);
        }
        body += varint_size(present);
        if (varint_size(body) + body > capacity - (p - out)) break;
        p = put_varint(p, body);
        *p++ = 0; /* attributes */
        *p++ = 0; /* the difference to the time of the batch, which all its records have */
        p = put_varint(p, written);
        p = put_text(p, key_size < 0 ? 0 : key->data + key->starts[row], key_size);
        p = put_text(p, value_size < 0 ? 0 : value->data + value->starts[row], value_size);
        p = put_varint(p, present);
        for (int64_t h = 0; h < header_count; h++) {
            int64_t size = size_of(&headers[h], row);
            if (size < 0) continue;
            p = put_text(p, names[h], name_sizes[h]);
            p = put_text(p, headers[h].data + headers[h].starts[row], size);
        }
    }
    *used = p - out;
    return written;
}

/* Writes the header of a batch before its records, which are at out[61..61+size]. Returns the size of the batch. */
int64_t dsms_seal(uint8_t *out, int64_t size, int64_t count, int64_t attributes, int64_t time, int64_t producer,
                  int64_t epoch, int64_t sequence) {
    put64(out, 0);
    put32(out + LENGTH_AT, (uint32_t)(size + HEADER - 12));
    put32(out + 12, 0xffffffffu); /* the epoch of the partition's leader, which the broker sets */
    out[MAGIC_AT] = 2;
    put16(out + ATTRIBUTES_AT, (uint16_t)attributes);
    put32(out + 23, (uint32_t)(count - 1));
    put64(out + 27, (uint64_t)time);
    put64(out + 35, (uint64_t)time);
    put64(out + 43, (uint64_t)producer);
    put16(out + 51, (uint16_t)epoch);
    put32(out + 53, (uint32_t)sequence);
    put32(out + 57, (uint32_t)count);
    put32(out + CRC_AT, dsms_crc32c(out + ATTRIBUTES_AT, size + HEADER - ATTRIBUTES_AT));
    return size + HEADER;
}

static uint32_t murmur2(const uint8_t *p, int64_t size) {
    const uint32_t m = 0x5bd1e995u;
    uint32_t h = 0x9747b28cu ^ (uint32_t)size;
    for (; size >= 4; p += 4, size -= 4) {
        uint32_t k = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        k *= m, k ^= k >> 24, k *= m;
        h *= m, h ^= k;
    }
    if (size == 3) h ^= (uint32_t)p[2] << 16;
    if (size >= 2) h ^= (uint32_t)p[1] << 8;
    if (size >= 1) h ^= p[0], h *= m;
    h ^= h >> 13, h *= m, h ^= h >> 15;
    return h;
}

/* Computes the partition of each key as Java clients do; -1 for a null key. */
void dsms_partitions(const source_t *key, int64_t count, int64_t partitions, int32_t *out) {
    for (int64_t row = 0; row < count; row++) {
        int64_t size = size_of(key, row);
        out[row] = size < 0 ? -1 : (int32_t)((murmur2(key->data + key->starts[row], size) & 0x7fffffff) % partitions);
    }
}
