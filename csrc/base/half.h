/* base/half.h -- the two 16-bit floating-point types and their conversions.
 *
 * Kernels calculate in float and convert at loads and stores. float16 is the compiler's _Float16; bfloat16
 * is the upper half of a float, rounded to nearest even.
 */
#ifndef SHMT_BASE_HALF_H
#define SHMT_BASE_HALF_H

#include <stdint.h>

typedef _Float16 shmt_float16;

typedef struct shmt_bfloat16 {
  uint16_t bits;
} shmt_bfloat16;

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

#endif
