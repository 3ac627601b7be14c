/* kernels/simd/avx512/inverse_hyperbolic.h -- inverse hyperbolic functions of 512-bit vectors, all by log(1 + x). */
#ifndef SHMT_KERNELS_SIMD_AVX512_INVERSE_HYPERBOLIC_H
#define SHMT_KERNELS_SIMD_AVX512_INVERSE_HYPERBOLIC_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/log.h"
#include "kernels/simd/avx512/rsqrt_hypot.h"

#if SHMT_HAS_AVX512
/* log1p(2 |x| / (1 - |x|)) / 2 */
SHMT_VECTOR shmt__f512 shmt__avx512_atanhf(shmt__f512 x) {
  const shmt__f512 a = shmt__avx512_absf(x), y = shmt__avx512_log1pf((a + a) / (shmt__avx512_f(1.0f) - a));
  return shmt__signedf(y * shmt__avx512_f(0.5f), x);
}
/* For a large x: the logarithm of 2 x. */
SHMT_VECTOR shmt__f512 shmt__avx512_log1p_or_farf(shmt__f512 near, shmt__f512 x) {
  const __mmask16 is_far = _mm512_cmp_ps_mask(x, shmt__avx512_f(1e4f), _CMP_GT_OQ);
  const shmt__f512 y = shmt__avx512_log1pf(_mm512_mask_sub_ps(near, is_far, x, shmt__avx512_f(1.0f)));
  return _mm512_mask_add_ps(y, is_far, y, shmt__avx512_f(0.693147181f));
}
/* a + sqrt(a a + 1) less 1 is a + a a / (1 + sqrt(a a + 1)). */
SHMT_VECTOR shmt__f512 shmt__avx512_asinhf(shmt__f512 x) {
  const shmt__f512 a = shmt__avx512_absf(x), near = shmt__avx512_at_mostf(a, 1e4f), one = shmt__avx512_f(1.0f);
  const shmt__f512 square = near * near, more = square / (one + shmt__avx512_sqrt_newtonf(square + one));
  return shmt__signedf(shmt__avx512_log1p_or_farf(near + more, a), x);
}
SHMT_VECTOR shmt__f512 shmt__avx512_acoshf(shmt__f512 x) {
  const shmt__f512 one = shmt__avx512_f(1.0f), t = shmt__avx512_at_mostf(x, 1e4f) - one;
  const shmt__f512 y = shmt__avx512_log1p_or_farf(t + shmt__avx512_sqrt_or_0f(shmt__maddf(t, t, t + t)), x);
  return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, one, _CMP_LT_OQ), shmt__avx512_f(NAN));
}
SHMT_VECTOR shmt__d512 shmt__avx512_atanh(shmt__d512 x) {
  const shmt__d512 a = shmt__avx512_abs(x), y = shmt__avx512_log1p((a + a) / (shmt__avx512_d(1.0) - a));
  return shmt__signed(y * shmt__avx512_d(0.5), x);
}
SHMT_VECTOR shmt__d512 shmt__avx512_log1p_or_far(shmt__d512 near, shmt__d512 x) {
  const __mmask8 is_far = _mm512_cmp_pd_mask(x, shmt__avx512_d(1e8), _CMP_GT_OQ);
  const shmt__d512 y = shmt__avx512_log1p(_mm512_mask_sub_pd(near, is_far, x, shmt__avx512_d(1.0)));
  return _mm512_mask_add_pd(y, is_far, y, shmt__avx512_d(0.69314718055994531));
}
SHMT_VECTOR shmt__d512 shmt__avx512_asinh(shmt__d512 x) {
  const shmt__d512 a = shmt__avx512_abs(x), near = shmt__avx512_at_most(a, 1e8), one = shmt__avx512_d(1.0);
  const shmt__d512 square = near * near, more = square / (one + shmt__avx512_sqrt_newton(square + one));
  return shmt__signed(shmt__avx512_log1p_or_far(near + more, a), x);
}
SHMT_VECTOR shmt__d512 shmt__avx512_acosh(shmt__d512 x) {
  const shmt__d512 one = shmt__avx512_d(1.0), t = shmt__avx512_at_most(x, 1e8) - one;
  const shmt__d512 y = shmt__avx512_log1p_or_far(t + shmt__avx512_root_or_0(shmt__madd(t, t, t + t)), x);
  return _mm512_mask_mov_pd(y, _mm512_cmp_pd_mask(x, one, _CMP_LT_OQ), shmt__avx512_d(NAN));
}

#endif
#endif
