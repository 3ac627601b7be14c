/* kernels/simd/half_runs.h -- converts contiguous runs of float16 and bfloat16 to float and back.
 *
 * Uses the processor's conversion instructions (F16C, AVX-512) where it has them. The compiler vectorises the portable
 * conversions of base/half.h, but never uses these instructions, which do in one step what takes those ten.
 */
#ifndef SHMT_KERNELS_SIMD_HALF_RUNS_H
#define SHMT_KERNELS_SIMD_HALF_RUNS_H

#include "base/half.h"

#include <stdbool.h>
#include <string.h>

/* The compiler's builtins instead of <immintrin.h>, which costs a quarter of a second in every file that includes
 * it. */
#ifdef __F16C__
/* Results are stored through another type than the conversion makes: with a memory operand the instruction is
 * slower. */
typedef long long shmt__stored8 __attribute__((vector_size(16), aligned(1), may_alias));
typedef short shmt__shorts8 __attribute__((vector_size(16)));
typedef float shmt__floats4 __attribute__((vector_size(16)));
typedef float shmt__floats8 __attribute__((vector_size(32), aligned(1), may_alias));
#define SHMT_HAS_F16C true
#else
#define SHMT_HAS_F16C false
#endif
#ifdef __AVX512F__
typedef long long shmt__stored16 __attribute__((vector_size(32), aligned(1), may_alias));
typedef short shmt__shorts16 __attribute__((vector_size(32)));
typedef int shmt__ints16 __attribute__((vector_size(64)));
typedef unsigned shmt__uints16 __attribute__((vector_size(64), aligned(1), may_alias));
typedef float shmt__floats16 __attribute__((vector_size(64), aligned(1), may_alias));
enum { SHMT_UNORDERED = 3, SHMT_ROUND_AS_SET = 4 };
#endif

/* Converts one float16 by a single instruction, where base/half.h compiles to ten. */
static inline float shmt__widen_one(shmt_float16 x) {
#ifdef __F16C__
  return __builtin_ia32_vcvtph2ps((shmt__shorts8){(short)x.bits})[0];
#else
  return shmt__float16_to_float(x);
#endif
}
static inline shmt_float16 shmt__narrow_one(float x) {
#ifdef __F16C__
  return (shmt_float16){(uint16_t)__builtin_ia32_vcvtps2ph((shmt__floats4){x}, 0)[0]};
#else
  return shmt__float16_from_float(x);
#endif
}

static inline void shmt__widen_float16(float* to, const shmt_float16* from, int64_t n) {
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16) {
    shmt__shorts16 x;
    memcpy(&x, from + i, sizeof x);
    *(shmt__floats16*)(void*)(to + i) =
        __builtin_ia32_vcvtph2ps512_mask(x, (shmt__floats16){0}, (unsigned short)0xffff, SHMT_ROUND_AS_SET);
  }
#endif
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    shmt__shorts8 x;
    memcpy(&x, from + i, sizeof x);
    *(shmt__floats8*)(void*)(to + i) = __builtin_ia32_vcvtph2ps256(x);
  }
#endif
  for (; i < n; i++) to[i] = shmt__float16_to_float(from[i]);
}
static inline void shmt__narrow_float16(shmt_float16* to, const float* from, int64_t n) {
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16) {
    const shmt__floats16 x = *(const shmt__floats16*)(const void*)(from + i);
    *(shmt__stored16*)(void*)(to + i) =
        (shmt__stored16)__builtin_ia32_vcvtps2ph512_mask(x, 0, (shmt__shorts16){0}, (unsigned short)0xffff);
  }
#endif
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const shmt__floats8 x = *(const shmt__floats8*)(const void*)(from + i);
    *(shmt__stored8*)(void*)(to + i) = (shmt__stored8)__builtin_ia32_vcvtps2ph256(x, 0); /* 0: to nearest even */
  }
#endif
  for (; i < n; i++) to[i] = shmt__float16_from_float(from[i]);
}

static inline void shmt__widen_bfloat16(float* to, const shmt_bfloat16* from, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__) && !defined(__clang__)
  /* GCC's own code for this goes through two vectors. */
  for (; i + 16 <= n; i += 16) {
    shmt__shorts16 x;
    memcpy(&x, from + i, sizeof x);
    *(shmt__uints16*)(void*)(to + i) =
        (shmt__uints16)__builtin_ia32_pmovzxwd512_mask(x, (shmt__ints16){0}, (unsigned short)0xffff) << 16;
  }
#endif
  for (; i < n; i++) to[i] = shmt__bfloat16_to_float(from[i]);
}
static inline void shmt__narrow_bfloat16(shmt_bfloat16* to, const float* from, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__) && !defined(__clang__)
  /* The same rounding as base/half.h, which GCC compiles to slower code that packs two vectors into one. */
  for (; i + 16 <= n; i += 16) {
    const shmt__floats16 x = *(const shmt__floats16*)(const void*)(from + i);
    const shmt__uints16 bits = (shmt__uints16)x, up = (bits + (((bits >> 16) & 1) + 0x7fff)) >> 16;
    const unsigned short is_nan =
        __builtin_ia32_cmpps512_mask(x, x, SHMT_UNORDERED, (unsigned short)0xffff, SHMT_ROUND_AS_SET);
    const shmt__ints16 rounded = __builtin_ia32_blendmd_512_mask((shmt__ints16)up, (shmt__ints16){0} + 0x7fc0, is_nan);
    *(shmt__stored16*)(void*)(to + i) =
        (shmt__stored16)__builtin_ia32_pmovdw512_mask(rounded, (shmt__shorts16){0}, (unsigned short)0xffff);
  }
#endif
  for (; i < n; i++) to[i] = shmt__bfloat16_from_float(from[i]);
}

/* Converts a run of T, float16 or bfloat16. */
#define SHMT_WIDEN_RUN  _Generic((T*)0, shmt_bfloat16*: shmt__widen_bfloat16, default: shmt__widen_float16)
#define SHMT_NARROW_RUN _Generic((T*)0, shmt_bfloat16*: shmt__narrow_bfloat16, default: shmt__narrow_float16)

/* Is T float16? Branches for the other type are never run, but must compile. */
#define SHMT_IS_FLOAT16     _Generic((T*)0, shmt_float16*: true, default: false)
/* The same for the preprocessor. */
#define SHMT_FLOAT16_float16 1
#define SHMT_IS_FLOAT16_LOOP SHMT_PASTE(SHMT_FLOAT16, DT)
#define SHMT_AS_FLOAT16(p)  ((shmt_float16*)(void*)(uintptr_t)(p))
#define SHMT_AS_FLOATS(p)   ((float*)(void*)(uintptr_t)(p))

#endif
