/* Texts of JSON: where they end, and what they are without escapes. */
#ifndef DSMS_JSON_TEXTS_H
#define DSMS_JSON_TEXTS_H

#include "rows.h"

#define ONES 0x0101010101010101ull

/* Moves to the first byte that is a quote, a backslash, a control character or not ASCII; `end` if there is none. */
static inline const uint8_t *plain(const uint8_t *p, const uint8_t *end) {
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        uint64_t quote = word ^ ONES * '"', backslash = word ^ ONES * '\\';
        uint64_t hit = ((quote - ONES) & ~quote) | ((backslash - ONES) & ~backslash) | ((word - ONES * 0x20) & ~word);
        if ((hit = (hit | word) & HIGH_BITS)) return p + (__builtin_ctzll(hit) >> 3);
    }
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20 && *p < 0x80) p++;
    return p;
}

/* The four hexadecimal digits of the escape \uXXXX at p; -1 if there is none. */
static inline int32_t unit(const uint8_t *p, const uint8_t *end) {
    int32_t v = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u') return -1;
    for (int i = 2; i < 6; i++) {
        uint8_t digit = (uint8_t)(p[i] - '0'), letter = (uint8_t)((p[i] | 0x20) - 'a');
        if (digit > 9 && letter > 5) return -1;
        v = v << 4 | (digit < 10 ? digit : letter + 10);
    }
    return v;
}

/* Moves over the escape at p, and sets *out to its character; returns 0 for an escape that is not valid, and for half a
 * surrogate pair. */
static inline const uint8_t *escape(const uint8_t *p, const uint8_t *end, int32_t *out) {
    static const char names[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    if (end - p < 2) return 0;
    if (p[1] != 'u') {
        const char *name = memchr(names, p[1], 8);
        return name ? *out = characters[name - names], p + 2 : 0;
    }
    int32_t low = 0, v = unit(p, end);
    if (v < 0 || (v & 0xfc00) == 0xdc00) return 0;
    if ((v & 0xfc00) != 0xd800) return *out = v, p + 6;
    if ((low = unit(p + 6, end)) < 0 || (low & 0xfc00) != 0xdc00) return 0;
    return *out = 0x10000 + ((v & 0x3ff) << 10) + (low & 0x3ff), p + 12;
}

/* Moves from the first byte of a text to the quote that ends it; returns 0 if it is not valid, or has escapes and these are
 * not `escaped`. */
static inline const uint8_t *text_end(const uint8_t *p, const uint8_t *end, int escaped) {
    int32_t character;
    while ((p = plain(p, end)) < end) {
        if (*p == '"') return p;
        if (*p >= 0x80) p = wide_character(p, end);
        else p = escaped && *p == '\\' ? escape(p, end, &character) : 0;
        if (!p) return 0;
    }
    return 0;
}

/* Writes a character in UTF-8, and returns where it ends. */
static inline uint8_t *put_character(uint8_t *to, int32_t c) {
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (uint8_t)(first[more] | c >> 6 * more);
    while (more--) *to++ = (uint8_t)(0x80 | (c >> 6 * more & 0x3f));
    return to;
}

/* Writes a text that `text_end` accepts, from its first byte to its quote, without escapes; returns where it ends. It never
 * becomes longer. */
static inline uint8_t *unescape(const uint8_t *p, const uint8_t *quote, uint8_t *to) {
    int32_t character = 0;
    while (p < quote) {
        const uint8_t *backslash = memchr(p, '\\', (size_t)(quote - p)), *stop = backslash ? backslash : quote;
        memcpy(to, p, (size_t)(stop - p));
        to += stop - p, p = stop;
        if (backslash) p = escape(p, quote, &character), to = put_character(to, character);
    }
    return to;
}

#endif
