/* kernels/simd/avx512/avx512.h -- macros for loops over functions of 512-bit vectors, at level v4.
 *
 * UNARY_AVX512(name, fn) and BINARY_AVX512 define SHMT_LOOP(name) as UNARY_COSTLY and BINARY_COSTLY of
 * kernels/simd/costly_loops.h do, but call a function of vectors written with intrinsics. Some instructions that the
 * compiler never generates (table lookups in registers, exponents and mantissas apart, a minimum that lets NaN pass)
 * save half the work of an exponential. UNARY_AVX512_OR(name, expression) and BINARY_AVX512_OR use the vector function
 * of that name where there is AVX-512 (SHMT_HAS_AVX512), and the expression elsewhere. Functions of floats end in f. A
 * function that is calculated alike for floats and doubles is in a template: of_floats.h.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_AVX512_H
#define SHMT_KERNELS_SIMD_AVX512_AVX512_H

#include "kernels/simd/costly_loops.h"

#if defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define SHMT_HAS_AVX512 1

#define SHMT_VECTOR static inline __attribute__((always_inline))
typedef __m512 shmt__f512;
typedef __m512d shmt__d512;

SHMT_VECTOR shmt__f512 shmt__avx512_f(float x) { return _mm512_set1_ps(x); }
SHMT_VECTOR shmt__d512 shmt__avx512_d(double x) { return _mm512_set1_pd(x); }

/* A large number (1.5 times a power of two) whose last bit is worth `step`. Adding it rounds to a multiple of step; the
 * multiple's number then stands in the low bits of the sum. */
#define SHMT_ROUNDERF(step) ((step) * 12582912.0f)
#define SHMT_ROUNDER(step)  ((step) * 6755399441055744.0)

#include "kernels/simd/avx512/of_floats.h"
#include "kernels/simd/avx512/vector.tmpl.h"

#include "kernels/simd/avx512/of_doubles.h"
#include "kernels/simd/avx512/vector.tmpl.h"

#include "kernels/simd/avx512/of_neither.h"

/* Masked loads and stores of elements T to and from vectors of C. A step is one vector of float or double. For
 * half-precision types it is 32 elements in two vectors, `some` and `others`: the first and last 16 of float16; the
 * even and odd elements of bfloat16, which is the upper half of a float. */
#define SHMT_AVX512_TYPE              __typeof__(_Generic((C)0, float: (shmt__f512){0}, default: (shmt__d512){0}))
#define SHMT_AVX512_STEP              ((int64_t)(SHMT_IS_HALF ? 32 : 64 / sizeof(C)))
#define SHMT_AVX512_BY_TYPE(fn)                                                                                         \
  _Generic((T*)0, float*: shmt__avx512_##fn##f, double*: shmt__avx512_##fn, shmt_float16*: shmt__avx512_##fn##_float16, \
           default: shmt__avx512_##fn##_bfloat16)
SHMT_VECTOR shmt__f512 shmt__avx512_somef(uint32_t m, const void* p) { return _mm512_maskz_loadu_ps((__mmask16)m, p); }
SHMT_VECTOR shmt__d512 shmt__avx512_some(uint32_t m, const void* p) { return _mm512_maskz_loadu_pd((__mmask8)m, p); }
SHMT_VECTOR shmt__f512 shmt__avx512_some_float16(uint32_t m, const void* p) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)m, p));
}
SHMT_VECTOR shmt__f512 shmt__avx512_some_bfloat16(uint32_t m, const void* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_maskz_loadu_epi16(m, p), 16));
}
#define shmt__avx512_othersf shmt__avx512_somef
#define shmt__avx512_others  shmt__avx512_some
SHMT_VECTOR shmt__f512 shmt__avx512_others_float16(uint32_t m, const void* p) {
  return shmt__avx512_some_float16(m >> 16, (const uint16_t*)p + 16);
}
SHMT_VECTOR shmt__f512 shmt__avx512_others_bfloat16(uint32_t m, const void* p) {
  return _mm512_castsi512_ps(_mm512_maskz_mov_epi16(0xaaaaaaaa, _mm512_maskz_loadu_epi16(m, p)));
}
SHMT_VECTOR void shmt__avx512_storef(void* p, uint32_t m, shmt__f512 v, shmt__f512 same) {
  (void)same, _mm512_mask_storeu_ps(p, (__mmask16)m, v);
}
SHMT_VECTOR void shmt__avx512_store(void* p, uint32_t m, shmt__d512 v, shmt__d512 same) {
  (void)same, _mm512_mask_storeu_pd(p, (__mmask8)m, v);
}
SHMT_VECTOR void shmt__avx512_store_float16(void* p, uint32_t m, shmt__f512 some, shmt__f512 others) {
  const int to_nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm256_mask_storeu_epi16(p, (__mmask16)m, _mm512_cvtps_ph(some, to_nearest));
  _mm256_mask_storeu_epi16((uint16_t*)p + 16, (__mmask16)(m >> 16), _mm512_cvtps_ph(others, to_nearest));
}
/* Rounds to nearest even: up where the lower half is above 2^15, or equal to it while the upper half is odd. The lower
 * half of a NaN is 0, because it comes from a bfloat16 or an instruction. */
SHMT_VECTOR void shmt__avx512_store_bfloat16(void* p, uint32_t m, shmt__f512 some, shmt__f512 others) {
  const __m512i evens = _mm512_castps_si512(some), odds = _mm512_castps_si512(others), one = _mm512_set1_epi16(1);
  const __m512i upper = _mm512_mask_mov_epi16(_mm512_srli_epi32(evens, 16), 0xaaaaaaaa, odds);
  const __m512i lower = _mm512_mask_mov_epi16(evens, 0xaaaaaaaa, _mm512_slli_epi32(odds, 16));
  const __m512i most = _mm512_sub_epi16(_mm512_set1_epi16(INT16_MIN), _mm512_and_si512(upper, one));
  const __mmask32 is_up = _mm512_cmpgt_epu16_mask(lower, most);
  _mm512_mask_storeu_epi16(p, m, _mm512_mask_add_epi16(upper, is_up, upper, one));
}

/* Prefetches elements further on: while a function of a hundred instructions runs, the hardware does not see the next
 * loads coming. */
#define SHMT_AVX512_AHEAD ((int64_t)(2048 / sizeof(T)))
#define SHMT_AVX512_FETCH(N_INPUTS, at)                                                         \
  (__builtin_prefetch(x + (at)), (void)(N_INPUTS > 1 ? __builtin_prefetch(y + (at)) : (void)0), \
   __builtin_prefetch((T*)out + (at), 1))

/* One step under the mask m. VALUE is an expression of the vectors a and b. */
#define SHMT_AVX512_STEP_OF(m, VALUE)                                                                  \
  do {                                                                                                 \
    SHMT_AVX512_TYPE a = SHMT_AVX512_BY_TYPE(some)(m, x + i), b = SHMT_AVX512_BY_TYPE(some)(m, y + i); \
    const SHMT_AVX512_TYPE some = VALUE;                                                               \
    a = SHMT_AVX512_BY_TYPE(others)(m, x + i), b = SHMT_AVX512_BY_TYPE(others)(m, y + i), (void)b;     \
    SHMT_AVX512_BY_TYPE(store)((T*)out + i, m, some, SHMT_IS_HALF ? VALUE : some);                     \
  } while (0)
#define SHMT_AVX512_DENSE(NAME, N_INPUTS, LET, VALUE)                                          \
  static void FN(NAME##_dense)(void* out, const void* const* in, int64_t n, const void* ctx) { \
    const T *const x = in[0], *const y = in[N_INPUTS - 1];                                     \
    int64_t i = 0;                                                                             \
    (void)ctx;                                                                                 \
    LET;                                                                                       \
    for (; i + SHMT_AVX512_STEP <= n; i += SHMT_AVX512_STEP) {                                 \
      if (n - i > SHMT_AVX512_AHEAD) SHMT_AVX512_FETCH(N_INPUTS, i + SHMT_AVX512_AHEAD);       \
      SHMT_AVX512_STEP_OF(UINT32_MAX, VALUE);                                                  \
    }                                                                                          \
    if (i < n) SHMT_AVX512_STEP_OF((UINT32_C(1) << (n - i)) - 1, VALUE);                       \
  }                                                                                            \
  SHMT_BY_DENSE(NAME, N_INPUTS)
#define SHMT_UNARY_AVX512(NAME, LET, FN_, ...)  SHMT_AVX512_DENSE(NAME, 1, LET, FN_(a __VA_ARGS__))
#define SHMT_BINARY_AVX512(NAME, LET, FN_, ...) SHMT_AVX512_DENSE(NAME, 2, LET, FN_(a, b __VA_ARGS__))
#define SHMT_AND(...)                 , __VA_ARGS__
#define UNARY_AVX512(NAME, FN_)         SHMT_UNARY_AVX512(NAME, SHMT_NOTHING, FN_, )
#define BINARY_AVX512(NAME, FN_)        SHMT_BINARY_AVX512(NAME, SHMT_NOTHING, FN_, )
/* fn takes the vector and the scalars that LET declares. */
#define UNARY_AVX512_WITH(NAME, LET, FN_, ...) SHMT_UNARY_AVX512(NAME, LET, FN_, SHMT_AND(__VA_ARGS__))

/* The vector function of that name for float or double; at other levels an expression of a (and b). */
#define SHMT_AVX512_FUNCTION(fn)        _Generic((C)0, float: shmt__avx512_##fn##f, default: shmt__avx512_##fn)
#define UNARY_AVX512_OR(NAME, EXPR)    UNARY_AVX512(NAME, SHMT_AVX512_FUNCTION(NAME))
#define BINARY_AVX512_OR(NAME, EXPR)   BINARY_AVX512(NAME, SHMT_AVX512_FUNCTION(NAME))
#else
#define SHMT_HAS_AVX512 0
#define UNARY_AVX512_OR(NAME, EXPR)    UNARY_COSTLY(NAME, EXPR)
#define BINARY_AVX512_OR(NAME, EXPR)   BINARY_COSTLY(NAME, EXPR)
#endif
#endif
