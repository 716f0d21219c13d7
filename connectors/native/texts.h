/* Numbers, dates and timestamps that are written as text. */
#ifndef DSMS_TEXTS_H
#define DSMS_TEXTS_H

#include "rows.h"

enum { MOST_DIGITS = 19, LONGEST_NUMBER = 300, LARGEST_EXPONENT = 9999 };
#define DAY_S 86400

/* A number in JSON's notation: `digits` / 10^`scale`. `whole` tells that it has neither a point nor an exponent. If it has
 * more than 19 digits, `exact` is 0 and the number is not known. */
typedef struct {
    uint64_t digits;
    int32_t scale, negative, whole, exact;
} number_t;

static inline int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

/* Appends the digits at p to the number. */
static inline const uint8_t *read_digits(const uint8_t *p, const uint8_t *end, number_t *out) {
    for (; p < end && is_digit(*p); p++) {
        if (out->digits > (UINT64_MAX - 9) / 10) out->exact = 0;
        out->digits = out->digits * 10 + (uint64_t)(*p - '0');
    }
    return p;
}

/* Reads a number, and returns where it ends; 0 if it is not one, or is unusually long. */
static inline const uint8_t *read_number(const uint8_t *p, const uint8_t *end, number_t *out) {
    const uint8_t *start = p, *from;
    number_t n = {.whole = 1, .exact = 1};
    if (p < end && *p == '-') n.negative = 1, p++;
    from = p, p = read_digits(p, end, &n);
    if (p == from || (*from == '0' && p - from > 1)) return 0;
    if (p < end && *p == '.') {
        from = p + 1, p = read_digits(from, end, &n);
        if (p == from || p - from > LONGEST_NUMBER) return 0;
        n.scale = (int32_t)(p - from), n.whole = 0;
    }
    if (p < end && (*p | 0x20) == 'e') {
        int32_t exponent = 0, below = 0;
        if (++p < end && (*p == '-' || *p == '+')) below = *p++ == '-';
        for (from = p; p < end && is_digit(*p); p++)
            if ((exponent = exponent * 10 + (*p - '0')) > LARGEST_EXPONENT) return 0;
        if (p == from) return 0;
        n.scale += below ? exponent : -exponent, n.whole = 0;
    }
    *out = n;
    return p - start > LONGEST_NUMBER ? 0 : p;
}

/* The integer of a number, in *out; 0 if it is not one of 64 bits. */
static inline int to_integer(const number_t *n, int64_t *out) {
    if (!n->whole || !n->exact || n->digits > (uint64_t)INT64_MAX) return 0;
    *out = n->negative ? -(int64_t)n->digits : (int64_t)n->digits;
    return 1;
}

enum { LARGEST_POWER = 27 }; /* 5^27 is the largest power that fits into 64 bits */

/* m * 2^e, rounded to the nearest double, to even if there are two; `more` tells that the number is a little larger. */
static inline double rounded(uint64_t m, int more, int e) {
    int shift = __builtin_clzll(m);
    m <<= shift, e += 11 - shift;
    uint64_t rest = m & 0x7ff, half = 0x400, power = (uint64_t)(1023 + e) << 52;
    m >>= 11;
    if (rest > half || (rest == half && (more || (m & 1)))) m++;
    double factor;
    memcpy(&factor, &power, 8);
    return (double)m * factor;
}

/* The double nearest to a number, in *out; 0 if it takes more than 128 bits to find it.
 *
 * A quotient or product of two doubles that are exact is the nearest double (Clinger 1990). Otherwise the powers of five
 * are integers of 64 bits, and 128 bits show on which side of the middle between two doubles the number lies. */
static inline int to_double(const number_t *n, double *out) {
    static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int size = n->scale < 0 ? -n->scale : n->scale;
    double v;
    if (!n->exact || size > LARGEST_POWER) return 0;
    if (n->digits <= 1ull << 53 && size <= 22) {
        v = n->scale < 0 ? (double)n->digits * ten[size] : (double)n->digits / ten[size];
    } else if (n->digits == 0) {
        v = 0;
    } else {
        uint64_t five = 1;
        for (int i = 0; i < size; i++) five *= 5;
        if (n->scale <= 0) {
            uint128_t product = (uint128_t)n->digits * five;
            int over = product >> 64 ? 64 - __builtin_clzll((uint64_t)(product >> 64)) : 0;
            v = rounded((uint64_t)(product >> over), (product & (((uint128_t)1 << over) - 1)) != 0, size + over);
        } else {
            int up = __builtin_clzll(n->digits), by = __builtin_clzll(five);
            uint128_t above = (uint128_t)(n->digits << up) << 63;
            uint64_t below = five << by;
            v = rounded((uint64_t)(above / below), above % below != 0, by - up - 63 - size);
        }
    }
    *out = n->negative && !(n->whole && n->digits == 0) ? -v : v;
    return 1;
}

/* Stores a number as a decimal; returns 0 if it has more digits than the column. */
static inline int put_number(target_t *t, int64_t row, const number_t *n) {
    uint128_t v = n->digits;
    if (!n->exact) return 0;
    if (v == 0) return put_decimal(t, row, 0, 0);
    for (int scale = n->scale; scale > t->scale; scale--, v /= 10)
        if (v % 10) return 0;
    for (int scale = n->scale; scale < t->scale; scale++, v *= 10)
        if (v >> 124) return 0; /* ten times as much has 39 digits */
    return put_decimal(t, row, v, n->negative);
}

/* The number of `count` digits; -1 if one of them is not a digit. */
static inline int fixed_digits(const uint8_t *p, int count) {
    int v = 0;
    for (int i = 0; i < count; i++) {
        if (!is_digit(p[i])) return -1;
        v = v * 10 + (p[i] - '0');
    }
    return v;
}

/* Reads the date YYYY-MM-DD in ten bytes, as days since 1970; returns 0 if it is not one. */
static inline int read_date(const uint8_t *p, int64_t *out) {
    static const uint8_t length[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y = fixed_digits(p, 4), m = fixed_digits(p + 5, 2), d = fixed_digits(p + 8, 2);
    if (y < 0 || m < 1 || m > 12 || d < 1 || d > length[m - 1] || p[4] != '-' || p[7] != '-') return 0;
    if (m == 2 && d == 29 && (y % 4 || (y % 100 == 0 && y % 400))) return 0;
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t of_year = (153 * ((m + 9) % 12) + 2) / 5 + d - 1;
    *out = era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
    return 1;
}

/* Reads HH:MM, as minutes; returns 0 if it is not a time of the day. */
static inline int read_minutes(const uint8_t *p, int64_t *out) {
    int h = fixed_digits(p, 2), m = fixed_digits(p + 3, 2);
    *out = h * 60 + m;
    return h >= 0 && h < 24 && m >= 0 && m < 60 && p[2] == ':';
}

/* Reads the zone at the end of a timestamp: nothing, Z, or ±HH:MM. *out is its distance from UTC in minutes. */
static inline int read_zone(const uint8_t *p, int64_t size, int64_t *out) {
    *out = 0;
    if (size == 0 || (size == 1 && (*p | 0x20) == 'z')) return 1;
    if (size != 6 || (*p != '+' && *p != '-') || !read_minutes(p + 1, out)) return 0;
    if (*p == '-') *out = -*out;
    return 1;
}

/* Reads the timestamp YYYY-MM-DDTHH:MM:SS, with up to nine digits of a second and a zone, as microseconds since 1970 that
 * are cut off; returns 0 if it is not one. */
static inline int read_timestamp(const uint8_t *p, int64_t size, int64_t *out) {
    int64_t day, minutes, zone, fraction = 0, at = 19;
    if (size < 19 || !read_date(p, &day) || !read_minutes(p + 11, &minutes)) return 0;
    int second = fixed_digits(p + 17, 2);
    if (((p[10] | 0x20) != 't' && p[10] != ' ') || p[16] != ':' || second < 0 || second > 59) return 0;
    if (at < size && (p[at] == '.' || p[at] == ',')) {
        int64_t from = ++at;
        for (; at < size && is_digit(p[at]); at++)
            if (at - from < 6) fraction = fraction * 10 + (p[at] - '0');
        if (at == from || at - from > 9) return 0;
        for (int64_t i = at - from; i < 6; i++) fraction *= 10;
    }
    if (!read_zone(p + at, size - at, &zone)) return 0;
    *out = (day * DAY_S + (minutes - zone) * 60 + second) * 1000000 + fraction;
    return 1;
}

#endif
