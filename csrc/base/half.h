/* base/half.h -- float16, bfloat16 and complex32 (two float16), and their conversions.
 *
 * Kernels calculate in float (complex32: in complex64) and convert at loads and stores. bfloat16 is the upper half of
 * a float, rounded to nearest even.
 */
#ifndef SHMT_BASE_HALF_H
#define SHMT_BASE_HALF_H

#include <complex.h>
#include <stdint.h>

typedef struct shmt_float16 {
  uint16_t bits;
} shmt_float16;

typedef struct shmt_bfloat16 {
  uint16_t bits;
} shmt_bfloat16;

typedef struct shmt_complex32 {
  shmt_float16 re, im;
} shmt_complex32;

/* The steps are integer operations without branches, which the compiler vectorises at every instruction set. It does
 * not vectorise conversions of _Float16, and without F16C each of those is a call. */
static inline float shmt__float16_to_float(shmt_float16 x) {
  union {
    uint32_t u;
    float f;
  } v, small;
  const uint32_t a = (x.bits & 0x7fffu) << 13;
  /* The exponent's bias changes by 112. For a subnormal, a leading one is added with the new exponent and subtracted
   * again. No subnormal float occurs on the way: a thread may flush those to zero. */
  small.u = a + (113u << 23);
  small.f -= 0x1p-14f;
  v.u = a < 1u << 23 ? small.u : a + (112u << 23);
  v.u |= a > 0xf7fffffu ? 0x7f800000u : 0u; /* infinity and NaN */
  v.u |= (x.bits & 0x8000u) << 16;
  return v.f;
}

/* Rounded to nearest even. */
static inline shmt_float16 shmt__float16_from_float(float x) {
  union {
    float f;
    uint32_t u;
  } v = {.f = x}, small;
  const uint32_t sign = (v.u >> 16) & 0x8000u, a = v.u & 0x7fffffffu;
  /* Below 2^-14 the addition rounds to float16's smallest step; the low bits of its sum are those of the result. */
  small.u = a;
  small.f += 0.5f;
  const uint32_t subnormal = small.u - 0x3f000000u;
  /* Subtract 112 from the exponent's bias and add half a step to round, a little less when a tie would go to an odd
   * number. */
  const uint32_t normal = (a + 0xc8000fffu + ((a >> 13) & 1u)) >> 13;
  const uint32_t large = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t finite = a < 0x38800000u ? subnormal : normal;
  return (shmt_float16){.bits = (uint16_t)(sign | (a > 0x477fffffu ? large : finite))};
}

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

static inline float _Complex shmt__complex32_to_complex(shmt_complex32 z) {
  return CMPLXF(shmt__float16_to_float(z.re), shmt__float16_to_float(z.im));
}
static inline shmt_complex32 shmt__complex32_from_complex(float _Complex z) {
  return (shmt_complex32){.re = shmt__float16_from_float(crealf(z)), .im = shmt__float16_from_float(cimagf(z))};
}

#endif
