/* Floats as text. */
#ifndef DSMS_FLOATS_H
#define DSMS_FLOATS_H

#include <stdint.h>

enum { LONGEST_FLOAT = 25 };

/* Writes a finite float with the fewest digits that no other float is nearer to, and of these the nearest; with an exponent
 * below 1e-5 and from 1e16 on. Returns where it ends, after at most LONGEST_FLOAT bytes. */
uint8_t *dsms_put_double(uint8_t *p, double v);
uint8_t *dsms_put_single(uint8_t *p, float v);

/* Writes the digits of an integer, and returns where they end. */
uint8_t *dsms_put_digits(uint8_t *p, uint64_t v);

#endif
