/* kernels/simd/convert.h -- float to integer conversions that are defined for every value; parts of complex numbers. */
#ifndef SHMT_KERNELS_SIMD_CONVERT_H
#define SHMT_KERNELS_SIMD_CONVERT_H

#include <complex.h>
#include <stdint.h>

/* Truncates towards zero. NaN and values out of range give the smallest integer, as x86's conversion instructions do,
 * so that the compiler can drop the comparison. */
static inline int32_t shmt__f32_to_i32(float x) {
  return x >= -2147483648.0f && x < 2147483648.0f ? (int32_t)x : INT32_MIN;
}
static inline int32_t shmt__f64_to_i32(double x) {
  return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}
static inline int64_t shmt__f32_to_i64(float x) {
  return x >= -9223372036854775808.0f && x < 9223372036854775808.0f ? (int64_t)x : INT64_MIN;
}
static inline int64_t shmt__f64_to_i64(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}
/* Negative values wrap as through int64. */
static inline uint64_t shmt__f64_to_u64(double x) {
  if (x >= 9223372036854775808.0 && x < 18446744073709551616.0)
    return (uint64_t)(int64_t)(x - 9223372036854775808.0) + ((uint64_t)1 << 63);
  return (uint64_t)shmt__f64_to_i64(x);
}
static inline uint64_t shmt__f32_to_u64(float x) { return shmt__f64_to_u64((double)x); }

#define SHMT_FLOAT_TO_I32(x) _Generic((x), float: shmt__f32_to_i32, default: shmt__f64_to_i32)(x)
#define SHMT_FLOAT_TO_I64(x) _Generic((x), float: shmt__f32_to_i64, default: shmt__f64_to_i64)(x)
#define SHMT_FLOAT_TO_U64(x) _Generic((x), float: shmt__f32_to_u64, default: shmt__f64_to_u64)(x)

#define SHMT_CREAL(z) _Generic((z), float _Complex: crealf, default: creal)(z)
#define SHMT_CIMAG(z) _Generic((z), float _Complex: cimagf, default: cimag)(z)

#endif
