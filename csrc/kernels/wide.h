/* kernels/wide.h -- loops over functions of 512-bit vectors, where the level has them.
 *
 * UNARY_WIDE(name, fn) and BINARY_WIDE define SHMT_LOOP(name) as UNARY_COSTLY and BINARY_COSTLY of stretch.h do, by a
 * function of vectors: what the compiler does not make of expressions (lookups in registers, exponents and mantissas
 * apart, a minimum that lets NaN pass) is half the work of an exponential. UNARY_OWN(name, expression) and BINARY_OWN
 * take the function of that name where there are vectors (SHMT_HAS_WIDE), elsewhere the expression.
 */
#ifndef SHMT_KERNELS_WIDE_H
#define SHMT_KERNELS_WIDE_H

#include "kernels/stretch.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
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

/* Loads, stores and masks of T, which is what is calculated in. */
#define SHMT_WIDE_LANES             ((int64_t)(64 / sizeof(C)))
#define SHMT_WIDE_LOAD(m, p)        _Generic((C)0, float: shmt__wide_loadf, default: shmt__wide_load)(m, p)
#define SHMT_WIDE_STORE(p, m, v)    _Generic((C)0, float: shmt__wide_storef, default: shmt__wide_store)(p, m, v)
SHMT_VECTOR shmt__wf shmt__wide_loadf(uint32_t m, const void* p) { return _mm512_maskz_loadu_ps((__mmask16)m, p); }
SHMT_VECTOR shmt__wd shmt__wide_load(uint32_t m, const void* p) { return _mm512_maskz_loadu_pd((__mmask8)m, p); }
SHMT_VECTOR void shmt__wide_storef(void* p, uint32_t m, shmt__wf v) { _mm512_mask_storeu_ps(p, (__mmask16)m, v); }
SHMT_VECTOR void shmt__wide_store(void* p, uint32_t m, shmt__wd v) { _mm512_mask_storeu_pd(p, (__mmask8)m, v); }

#define SHMT_WIDE_DENSE(NAME, N_INPUTS, LET, VALUE)                                                  \
  static void FN(NAME##_dense)(void* out, const void* const* in, int64_t n, const void* ctx) {       \
    const T *const x = in[0], *const y = in[N_INPUTS - 1];                                           \
    int64_t i = 0;                                                                                   \
    (void)ctx, (void)y;                                                                              \
    LET;                                                                                             \
    for (; i + SHMT_WIDE_LANES <= n; i += SHMT_WIDE_LANES) {                                         \
      const uint32_t m = UINT32_MAX;                                                                 \
      SHMT_WIDE_STORE((T*)out + i, m, VALUE);                                                        \
    }                                                                                                \
    if (i < n) {                                                                                     \
      const uint32_t m = (UINT32_C(1) << (n - i)) - 1;                                               \
      SHMT_WIDE_STORE((T*)out + i, m, VALUE);                                                        \
    }                                                                                                \
  }                                                                                                  \
  SHMT_BY_DENSE(NAME, N_INPUTS)
#define SHMT_UNARY_WIDE_0(NAME, LET, FN_, ...)                                                       \
  SHMT_WIDE_DENSE(NAME, 1, LET, FN_(SHMT_WIDE_LOAD(m, x + i) __VA_ARGS__))
#define SHMT_BINARY_WIDE_0(NAME, LET, FN_, ...)                                                      \
  SHMT_WIDE_DENSE(NAME, 2, LET, FN_(SHMT_WIDE_LOAD(m, x + i), SHMT_WIDE_LOAD(m, y + i) __VA_ARGS__))
#define SHMT_UNARY_WIDE_1(NAME, ...)  SHMT_WIDENED(NAME, T, 1)
#define SHMT_BINARY_WIDE_1(NAME, ...) SHMT_WIDENED(NAME, T, 2)
#define SHMT_AND(...)                 , __VA_ARGS__
#define UNARY_WIDE(NAME, FN_)         SHMT_SHAPE(UNARY_WIDE)(NAME, SHMT_NOTHING, FN_, )
#define BINARY_WIDE(NAME, FN_)        SHMT_SHAPE(BINARY_WIDE)(NAME, SHMT_NOTHING, FN_, )
/* Of the vector and the numbers that LET declares. */
#define UNARY_WIDE_WITH(NAME, LET, FN_, ...) SHMT_SHAPE(UNARY_WIDE)(NAME, LET, FN_, SHMT_AND(__VA_ARGS__))

/* By the function of vectors, of float or double, that is named alike; at other levels by an expression of a (and b). */
#define SHMT_OWN_WIDE(fn)        _Generic((C)0, float: shmt__wide_##fn##f, default: shmt__wide_##fn)
/* What halves take instead, of floats; no half is calculated in double. */
#define SHMT_COARSE(fn)          _Generic((C)0, float: shmt__wide_##fn##_coarsef, default: shmt__wide_##fn)
#define UNARY_OWN(NAME, EXPR)    UNARY_WIDE(NAME, SHMT_OWN_WIDE(NAME))
#define BINARY_OWN(NAME, EXPR)   BINARY_WIDE(NAME, SHMT_OWN_WIDE(NAME))
#else
#define SHMT_HAS_WIDE 0
#define UNARY_OWN(NAME, EXPR)    UNARY_COSTLY(NAME, EXPR)
#define BINARY_OWN(NAME, EXPR)   BINARY_COSTLY(NAME, EXPR)
#endif
#endif
