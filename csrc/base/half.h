/* base/half.h -- the two 16-bit floating-point types, the complex number of two halves, and their conversions.
 *
 * Kernels calculate in float (complex32: in complex64) and convert at loads and stores. float16 is the compiler's
 * _Float16; bfloat16 is the upper half of a float, rounded to nearest even.
 */
#ifndef SHMT_BASE_HALF_H
#define SHMT_BASE_HALF_H

#include <complex.h>
#include <stdint.h>

typedef _Float16 shmt_float16;

typedef struct shmt_bfloat16 {
  uint16_t bits;
} shmt_bfloat16;

typedef struct shmt_complex32 {
  shmt_float16 re, im;
} shmt_complex32;

static inline float shmt__float16_to_float(shmt_float16 x) { return (float)x; }
static inline shmt_float16 shmt__float16_from_float(float x) { return (shmt_float16)x; }

static inline float shmt__bfloat16_to_float(shmt_bfloat16 x) {
  union {
    uint32_t u;
    float f;
  } v = {.u = (uint32_t)x.bits << 16};
  return v.f;
}

static inline shmt_bfloat16 shmt__bfloat16_from_float(float x) {
  union {
    float f;
    uint32_t u;
  } v = {.f = x};
  /* Rounding could carry a NaN's payload into infinity, so a NaN becomes the quiet one. */
  uint32_t rounded = (v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16;
  return (shmt_bfloat16){.bits = (uint16_t)(x != x ? 0x7fc0u : rounded)};
}

static inline float _Complex shmt__complex32_to_complex(shmt_complex32 z) { return CMPLXF((float)z.re, (float)z.im); }
static inline shmt_complex32 shmt__complex32_from_complex(float _Complex z) {
  return (shmt_complex32){.re = (shmt_float16)crealf(z), .im = (shmt_float16)cimagf(z)};
}

#endif
