/* kernels/vexp.h -- exp and log for loops that are more than one expression.
 *
 * The float exp is branch-free, so that the compiler turns a loop around it into vectors: about 1 ulp, exact zero
 * far below, infinity far above, NaN stays.
 */
#ifndef SHMT_KERNELS_VEXP_H
#define SHMT_KERNELS_VEXP_H

#include <math.h>
#include <stdint.h>

/* Unsigned, since a NaN's exponent is no number, and may shift a sign out. */
static inline float shmt__power_of_2f(int32_t n) {
  const union {
    uint32_t i;
    float f;
  } v = {.i = (uint32_t)(n + 127) << 23};
  return v.f;
}

static inline float shmt__vexpf(float x) {
  /* Beyond these the result is 0 or infinity, and the exponent below would not fit. A NaN passes both tests. */
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  /* Adding and taking away 1.5 * 2^23 rounds to the nearest integer. */
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const union {
    float f;
    int32_t i;
  } bits = {.f = shifted};
  const int32_t k = bits.i - 0x4b400000;
  /* ln 2 in two parts: the first times n is exact. */
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  /* In two steps, so that denormal results come out right. */
  const int32_t half = k >> 1;
  return p * shmt__power_of_2f(half) * shmt__power_of_2f(k - half);
}

#define SHMT_EXP(x) _Generic((x), float: shmt__vexpf, default: exp)(x)
#define SHMT_LOG(x) _Generic((x), float: logf, default: log)(x)

#endif
