/* Integers of 64 bits in zigzag varint encoding, as Kafka and Avro write them. */
#ifndef DSMS_VARINT_H
#define DSMS_VARINT_H

#include <stdint.h>

/* Reads a zigzag varint at *p, and moves *p behind it. Returns 0 if no valid varint ends before `end`, else 1. */
static inline int varint(const uint8_t **p, const uint8_t *end, int64_t *out) {
    uint64_t v = 0;
    const uint8_t *q = *p;
    for (int shift = 0; shift < 70 && q < end; shift += 7) {
        uint8_t b = *q++;
        if (shift == 63 && b > 1) return 0;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *out = (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
            *p = q;
            return 1;
        }
    }
    return 0;
}

/* Writes a zigzag varint of at most ten bytes, and returns where it ends. */
static inline uint8_t *put_varint(uint8_t *p, int64_t value) {
    uint64_t v = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (v >= 0x80) *p++ = (uint8_t)(v | 0x80), v >>= 7;
    *p++ = (uint8_t)v;
    return p;
}

#endif
