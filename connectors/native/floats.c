/* Writes floats and integers as text. Floats are written by Raffaello Giulietti's method (The Schubfach way to render doubles,
 * 2020): with 128 bits of each power of ten, it is exact for all doubles.
 */
#include "floats.h"

#include <string.h>

typedef unsigned __int128 uint128_t;
enum { LEAST_POWER = -292, GREATEST_POWER = 324, LIMBS = 20 };

typedef struct {
    uint64_t high, low;
} power_t;

/* The highest 128 bits of 10^(LEAST_POWER + i), rounded up. */
static power_t powers[GREATEST_POWER - LEAST_POWER + 1];

/* The highest 128 bits of a number with 64 bits in each limb, the lowest first. It is rounded up unless it is exact. */
static power_t greatest_bits(const uint64_t *limbs, int exact) {
    int top = LIMBS - 1;
    while (!limbs[top]) top--;
    int shift = __builtin_clzll(limbs[top]);
    uint64_t parts[3] = {limbs[top], top > 0 ? limbs[top - 1] : 0, top > 1 ? limbs[top - 2] : 0};
    uint128_t v = (uint128_t)parts[0] << 64 | parts[1];
    if (shift) v = v << shift | parts[2] >> (64 - shift);
    for (int i = 0; i < top - 2; i++) exact &= !limbs[i];
    exact &= !(parts[2] << shift);
    v += !exact;
    return (power_t){(uint64_t)(v >> 64), (uint64_t)v};
}

/* Computes the powers of ten. Must be called once, by one thread, before all other functions. */
void dsms_floats_init(void) {
    uint64_t up[LIMBS] = {1}, down[LIMBS] = {0};
    for (int power = 0; power <= GREATEST_POWER; power++) {
        powers[power - LEAST_POWER] = greatest_bits(up, 1);
        uint128_t carry = 0;
        for (int i = 0; i < LIMBS; i++) carry += (uint128_t)up[i] * 10, up[i] = (uint64_t)carry, carry >>= 64;
    }
    down[LIMBS - 1] = 1ull << 63; /* divided by ten again and again, and each time rounded down: as if divided once */
    for (int power = -1; power >= LEAST_POWER; power--) {
        uint128_t rest = 0;
        for (int i = LIMBS - 1; i >= 0; i--) {
            rest = rest << 64 | down[i];
            down[i] = (uint64_t)(rest / 10), rest %= 10;
        }
        powers[power - LEAST_POWER] = greatest_bits(down, 0);
    }
}

/* factor * power / 2^128, rounded to odd: the last bit says that something was cut off. */
static inline uint64_t times(power_t power, uint64_t factor) {
    uint128_t low = (uint128_t)power.low * factor, high = (uint128_t)power.high * factor + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* A number as its digits and a power of ten. */
typedef struct {
    uint64_t digits;
    int exponent;
} decimal_t;

/* The shortest decimal between the middles to the neighbours of significand * 2^exponent; `closer` says that the neighbour
 * below is at half the distance of the one above. */
static inline decimal_t shortest(uint64_t significand, int exponent, int closer) {
    int even = !(significand & 1);
    if (exponent <= 0 && exponent > -53 && !(significand & ((1ull << -exponent) - 1)))
        return (decimal_t){significand >> -exponent, 0};
    uint64_t below = 4 * significand - 2 + (uint64_t)closer, middle = 4 * significand, above = 4 * significand + 2;
    int k = (exponent * 1262611 - (closer ? 524031 : 0)) >> 22, h = exponent + ((-k * 1741647) >> 19) + 1;
    power_t power = powers[-k - LEAST_POWER];
    uint64_t v = times(power, middle << h), s = v / 4, tenth = s / 10;
    uint64_t lower = times(power, below << h) + !even, upper = times(power, above << h) - !even;
    if (s >= 10) {
        int under = lower <= 40 * tenth, over = 40 * tenth + 40 <= upper;
        if (under != over) return (decimal_t){tenth + (uint64_t)over, k + 1};
    }
    int under = lower <= 4 * s, over = 4 * s + 4 <= upper;
    if (under != over) return (decimal_t){s + (uint64_t)over, k};
    return (decimal_t){s + (v > 4 * s + 2 || (v == 4 * s + 2 && (s & 1))), k};
}

uint8_t *dsms_put_digits(uint8_t *p, uint64_t v) {
    uint8_t digits[20], *start = digits + 20;
    for (; v >= 100; v /= 100) {
        uint64_t two = v % 100;
        *--start = (uint8_t)('0' + two % 10), *--start = (uint8_t)('0' + two / 10);
    }
    *--start = (uint8_t)('0' + v % 10);
    if (v >= 10) *--start = (uint8_t)('0' + v / 10);
    memcpy(p, start, (size_t)(digits + 20 - start));
    return p + (digits + 20 - start);
}

static inline uint8_t *put_zeros(uint8_t *p, int count) { return memset(p, '0', (size_t)count), p + count; }

/* Writes digits * 10^exponent. */
static uint8_t *put_decimal_text(uint8_t *p, decimal_t v) {
    uint8_t digits[20];
    while (v.digits % 10 == 0) v.digits /= 10, v.exponent++;
    int size = (int)(dsms_put_digits(digits, v.digits) - digits), point = size + v.exponent;
    if (v.exponent >= 0 && point <= 16) {
        memcpy(p, digits, (size_t)size);
        p = put_zeros(p + size, v.exponent);
        *p++ = '.', *p++ = '0';
        return p;
    }
    if (point > 0 && point <= 16) {
        memcpy(p, digits, (size_t)point);
        p[point] = '.';
        memcpy(p + point + 1, digits + point, (size_t)(size - point));
        return p + size + 1;
    }
    if (point <= 0 && point > -5) {
        *p++ = '0', *p++ = '.';
        p = put_zeros(p, -point);
        memcpy(p, digits, (size_t)size);
        return p + size;
    }
    *p++ = digits[0];
    if (size > 1) {
        *p++ = '.';
        memcpy(p, digits + 1, (size_t)(size - 1));
        p += size - 1;
    }
    *p++ = 'e';
    if (point <= 0) *p++ = '-';
    return dsms_put_digits(p, (uint64_t)(point > 0 ? point - 1 : 1 - point));
}

/* Writes a finite float of this sign, `bits` of its significand, and exponent, whose bias is `bias`. */
static inline uint8_t *put_parts(uint8_t *p, int negative, uint64_t fraction, int exponent, int bits, int bias) {
    if (negative) *p++ = '-';
    if (!exponent && !fraction) return memcpy(p, "0.0", 3), p + 3;
    int normal = exponent > 0;
    uint64_t significand = fraction | (uint64_t)normal << bits;
    return put_decimal_text(p, shortest(significand, (normal ? exponent : 1) - bias - bits, !fraction && exponent > 1));
}

uint8_t *dsms_put_double(uint8_t *p, double v) {
    uint64_t word;
    memcpy(&word, &v, 8);
    return put_parts(p, (int)(word >> 63), word & ((1ull << 52) - 1), (int)(word >> 52 & 0x7ff), 52, 1023);
}

uint8_t *dsms_put_single(uint8_t *p, float v) {
    uint32_t word;
    memcpy(&word, &v, 4);
    return put_parts(p, (int)(word >> 31), word & ((1u << 23) - 1), (int)(word >> 23 & 0xff), 23, 127);
}
