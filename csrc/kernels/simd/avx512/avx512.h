/* kernels/simd/avx512/avx512.h -- loops over functions of 512-bit vectors, where the level has them.
 *
 * UNARY_WIDE(name, fn) and BINARY_WIDE define SHMT_LOOP(name) as UNARY_COSTLY and BINARY_COSTLY of kernels/simd/costly_loops.h do, by a
 * function of vectors: what the compiler does not make of expressions (lookups in registers, exponents and mantissas
 * apart, a minimum that lets NaN pass) is half the work of an exponential. UNARY_OWN(name, expression) and BINARY_OWN
 * take the function of that name where there are vectors (SHMT_HAS_WIDE), elsewhere the expression.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_AVX512_H
#define SHMT_KERNELS_SIMD_AVX512_AVX512_H

#include "kernels/simd/costly_loops.h"

#if defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#define SHMT_HAS_WIDE 1

#define SHMT_VECTOR static inline __attribute__((always_inline))
typedef __m512 shmt__wf;
typedef __m512d shmt__wd;

SHMT_VECTOR shmt__wf shmt__wide_f(float x) { return _mm512_set1_ps(x); }
SHMT_VECTOR shmt__wd shmt__wide_d(double x) { return _mm512_set1_pd(x); }

/* a b + c, and c - a b, rounded once */
SHMT_VECTOR shmt__wf shmt__maddf(shmt__wf a, shmt__wf b, shmt__wf c) { return _mm512_fmadd_ps(a, b, c); }
SHMT_VECTOR shmt__wd shmt__madd(shmt__wd a, shmt__wd b, shmt__wd c) { return _mm512_fmadd_pd(a, b, c); }
SHMT_VECTOR shmt__wf shmt__nmaddf(shmt__wf a, shmt__wf b, shmt__wf c) { return _mm512_fnmadd_ps(a, b, c); }
SHMT_VECTOR shmt__wd shmt__nmadd(shmt__wd a, shmt__wd b, shmt__wd c) { return _mm512_fnmadd_pd(a, b, c); }

/* The limit where x is beyond it; a NaN passes, as the instructions give their second operand then. */
SHMT_VECTOR shmt__wf shmt__wide_at_mostf(shmt__wf x, float high) { return _mm512_min_ps(shmt__wide_f(high), x); }
SHMT_VECTOR shmt__wd shmt__wide_at_most(shmt__wd x, double high) { return _mm512_min_pd(shmt__wide_d(high), x); }
SHMT_VECTOR shmt__wf shmt__withinf(shmt__wf x, float low, float high) {
  return _mm512_max_ps(shmt__wide_f(low), shmt__wide_at_mostf(x, high));
}
SHMT_VECTOR shmt__wd shmt__within(shmt__wd x, double low, double high) {
  return _mm512_max_pd(shmt__wide_d(low), shmt__wide_at_most(x, high));
}

SHMT_VECTOR shmt__wf shmt__wide_absf(shmt__wf x) { return _mm512_abs_ps(x); }
SHMT_VECTOR shmt__wd shmt__wide_abs(shmt__wd x) { return _mm512_abs_pd(x); }
SHMT_VECTOR shmt__wf shmt__wide_minusf(shmt__wf x) { return _mm512_xor_ps(x, shmt__wide_f(-0.0f)); }
SHMT_VECTOR shmt__wd shmt__wide_minus(shmt__wd x) { return _mm512_xor_pd(x, shmt__wide_d(-0.0)); }
/* y, not negative, with the sign of x */
SHMT_VECTOR shmt__wf shmt__signedf(shmt__wf y, shmt__wf x) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(y), _mm512_castps_si512(x), sign, 0xd8));
}
SHMT_VECTOR shmt__wd shmt__signed(shmt__wd y, shmt__wd x) {
  const __m512i sign = _mm512_set1_epi64(INT64_MIN);
  return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(_mm512_castpd_si512(y), _mm512_castpd_si512(x), sign, 0xd8));
}

/* The columns of a table's row that the low bits of `at` name. */
SHMT_VECTOR shmt__wf shmt__lookupf(const float* row, __m512i at) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(row), at, _mm512_loadu_ps(row + 16));
}
SHMT_VECTOR shmt__wd shmt__lookup(const double* row, __m512i at) {
  return _mm512_permutex2var_pd(_mm512_loadu_pd(row), at, _mm512_loadu_pd(row + 8));
}

/* 1.5 times the power of two at which a float's (a double's) last bit is `step`: added, it leaves a number rounded to
 * a multiple of step, which stands in the low bits. */
#define SHMT_ROUNDERF(step) ((step) * 12582912.0f)
#define SHMT_ROUNDER(step)  ((step) * 6755399441055744.0)

/* Loads and stores of the elements T that a mask has, to and from vectors of C: a step is of one vector, or of 32 halves.
 * Of those some come first, then the others: bfloat16, a float's upper half, with even and odd places. */
#define SHMT_WIDE_TYPE              __typeof__(_Generic((C)0, float: (shmt__wf){0}, default: (shmt__wd){0}))
#define SHMT_WIDE_STEP              ((int64_t)(SHMT_IS_HALF ? 32 : 64 / sizeof(C)))
#define SHMT_WIDE_BY_TYPE(fn)                                                                           \
  _Generic((T*)0, float*: shmt__wide_##fn##f, double*: shmt__wide_##fn, shmt_float16*: shmt__wide_##fn##_float16, \
           default: shmt__wide_##fn##_bfloat16)
SHMT_VECTOR shmt__wf shmt__wide_somef(uint32_t m, const void* p) { return _mm512_maskz_loadu_ps((__mmask16)m, p); }
SHMT_VECTOR shmt__wd shmt__wide_some(uint32_t m, const void* p) { return _mm512_maskz_loadu_pd((__mmask8)m, p); }
SHMT_VECTOR shmt__wf shmt__wide_some_float16(uint32_t m, const void* p) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)m, p));
}
SHMT_VECTOR shmt__wf shmt__wide_some_bfloat16(uint32_t m, const void* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_maskz_loadu_epi16(m, p), 16));
}
#define shmt__wide_othersf shmt__wide_somef
#define shmt__wide_others  shmt__wide_some
SHMT_VECTOR shmt__wf shmt__wide_others_float16(uint32_t m, const void* p) {
  return shmt__wide_some_float16(m >> 16, (const uint16_t*)p + 16);
}
SHMT_VECTOR shmt__wf shmt__wide_others_bfloat16(uint32_t m, const void* p) {
  return _mm512_castsi512_ps(_mm512_maskz_mov_epi16(0xaaaaaaaa, _mm512_maskz_loadu_epi16(m, p)));
}
SHMT_VECTOR void shmt__wide_storef(void* p, uint32_t m, shmt__wf v, shmt__wf same) {
  (void)same, _mm512_mask_storeu_ps(p, (__mmask16)m, v);
}
SHMT_VECTOR void shmt__wide_store(void* p, uint32_t m, shmt__wd v, shmt__wd same) {
  (void)same, _mm512_mask_storeu_pd(p, (__mmask8)m, v);
}
SHMT_VECTOR void shmt__wide_store_float16(void* p, uint32_t m, shmt__wf some, shmt__wf others) {
  const int to_nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm256_mask_storeu_epi16(p, (__mmask16)m, _mm512_cvtps_ph(some, to_nearest));
  _mm256_mask_storeu_epi16((uint16_t*)p + 16, (__mmask16)(m >> 16), _mm512_cvtps_ph(others, to_nearest));
}
/* To nearest even: up where the lower half is above 2^15, or at it and the upper is odd. A NaN's lower half is 0, as it
 * comes from a half or an instruction. */
SHMT_VECTOR void shmt__wide_store_bfloat16(void* p, uint32_t m, shmt__wf some, shmt__wf others) {
  const __m512i evens = _mm512_castps_si512(some), odds = _mm512_castps_si512(others), one = _mm512_set1_epi16(1);
  const __m512i upper = _mm512_mask_mov_epi16(_mm512_srli_epi32(evens, 16), 0xaaaaaaaa, odds);
  const __m512i lower = _mm512_mask_mov_epi16(evens, 0xaaaaaaaa, _mm512_slli_epi32(odds, 16));
  const __m512i most = _mm512_sub_epi16(_mm512_set1_epi16(INT16_MIN), _mm512_and_si512(upper, one));
  const __mmask32 is_up = _mm512_cmpgt_epu16_mask(lower, most);
  _mm512_mask_storeu_epi16(p, m, _mm512_mask_add_epi16(upper, is_up, upper, one));
}

/* Fetched while others are calculated: a function of a hundred instructions is too long for the processor to see
 * the next elements coming. */
#define SHMT_WIDE_AHEAD ((int64_t)(2048 / sizeof(T)))
#define SHMT_WIDE_FETCH(N_INPUTS, at)                                                                \
  (__builtin_prefetch(x + (at)), (void)(N_INPUTS > 1 ? __builtin_prefetch(y + (at)) : (void)0),      \
   __builtin_prefetch((T*)out + (at), 1))

/* VALUE: of vectors a and b. */
#define SHMT_WIDE_STEP_OF(m, VALUE)                                                                  \
  do {                                                                                               \
    SHMT_WIDE_TYPE a = SHMT_WIDE_BY_TYPE(some)(m, x + i), b = SHMT_WIDE_BY_TYPE(some)(m, y + i);     \
    const SHMT_WIDE_TYPE some = VALUE;                                                               \
    a = SHMT_WIDE_BY_TYPE(others)(m, x + i), b = SHMT_WIDE_BY_TYPE(others)(m, y + i), (void)b;       \
    SHMT_WIDE_BY_TYPE(store)((T*)out + i, m, some, SHMT_IS_HALF ? VALUE : some);                     \
  } while (0)
#define SHMT_WIDE_DENSE(NAME, N_INPUTS, LET, VALUE)                                                  \
  static void FN(NAME##_dense)(void* out, const void* const* in, int64_t n, const void* ctx) {       \
    const T *const x = in[0], *const y = in[N_INPUTS - 1];                                           \
    int64_t i = 0;                                                                                   \
    (void)ctx;                                                                                       \
    LET;                                                                                             \
    for (; i + SHMT_WIDE_STEP <= n; i += SHMT_WIDE_STEP) {                                           \
      if (n - i > SHMT_WIDE_AHEAD) SHMT_WIDE_FETCH(N_INPUTS, i + SHMT_WIDE_AHEAD);                   \
      SHMT_WIDE_STEP_OF(UINT32_MAX, VALUE);                                                          \
    }                                                                                                \
    if (i < n) SHMT_WIDE_STEP_OF((UINT32_C(1) << (n - i)) - 1, VALUE);                               \
  }                                                                                                  \
  SHMT_BY_DENSE(NAME, N_INPUTS)
#define SHMT_UNARY_WIDE(NAME, LET, FN_, ...)  SHMT_WIDE_DENSE(NAME, 1, LET, FN_(a __VA_ARGS__))
#define SHMT_BINARY_WIDE(NAME, LET, FN_, ...) SHMT_WIDE_DENSE(NAME, 2, LET, FN_(a, b __VA_ARGS__))
#define SHMT_AND(...)                 , __VA_ARGS__
#define UNARY_WIDE(NAME, FN_)         SHMT_UNARY_WIDE(NAME, SHMT_NOTHING, FN_, )
#define BINARY_WIDE(NAME, FN_)        SHMT_BINARY_WIDE(NAME, SHMT_NOTHING, FN_, )
/* Of the vector and the numbers that LET declares. */
#define UNARY_WIDE_WITH(NAME, LET, FN_, ...) SHMT_UNARY_WIDE(NAME, LET, FN_, SHMT_AND(__VA_ARGS__))

/* By the function of vectors, of float or double, that is named alike; at other levels by an expression of a (and b). */
#define SHMT_OWN_WIDE(fn)        _Generic((C)0, float: shmt__wide_##fn##f, default: shmt__wide_##fn)
#define UNARY_OWN(NAME, EXPR)    UNARY_WIDE(NAME, SHMT_OWN_WIDE(NAME))
#define BINARY_OWN(NAME, EXPR)   BINARY_WIDE(NAME, SHMT_OWN_WIDE(NAME))
#else
#define SHMT_HAS_WIDE 0
#define UNARY_OWN(NAME, EXPR)    UNARY_COSTLY(NAME, EXPR)
#define BINARY_OWN(NAME, EXPR)   BINARY_COSTLY(NAME, EXPR)
#endif
#endif
