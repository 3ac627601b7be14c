/* kernels/halves.h -- runs of 16-bit floats to float and back, by the processor's instructions where it has them.
 *
 * The compiler makes vectors of the conversions in base/half.h, but none of the instructions for float16, which take
 * one step where those take ten.
 */
#ifndef SHMT_KERNELS_HALVES_H
#define SHMT_KERNELS_HALVES_H

#include "base/half.h"

#include <stdbool.h>

#ifdef __F16C__
#include <immintrin.h>
#define SHMT_HAS_F16C true
#else
#define SHMT_HAS_F16C false
#endif

static inline void shmt__widen_float16(float* to, const shmt_float16* from, int64_t n) {
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(const void*)(from + i))));
#endif
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)(from + i))));
#endif
  for (; i < n; i++) to[i] = shmt__float16_to_float(from[i]);
}
static inline void shmt__narrow_float16(shmt_float16* to, const float* from, int64_t n) {
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((__m256i*)(void*)(to + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i*)(void*)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; i++) to[i] = shmt__float16_from_float(from[i]);
}

static inline void shmt__widen_bfloat16(float* to, const shmt_bfloat16* from, int64_t n) {
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16) {
    const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)(const void*)(from + i)));
    _mm512_storeu_si512(to + i, _mm512_slli_epi32(x, 16));
  }
#endif
  for (; i < n; i++) to[i] = shmt__bfloat16_to_float(from[i]);
}
static inline void shmt__narrow_bfloat16(shmt_bfloat16* to, const float* from, int64_t n) {
  int64_t i = 0;
#ifdef __AVX512F__
  /* As base/half.h; the compiler packs two vectors into one, which takes longer. */
  for (; i + 16 <= n; i += 16) {
    const __m512 x = _mm512_loadu_ps(from + i);
    const __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i rounded = _mm512_mask_set1_epi32(_mm512_srli_epi32(up, 16), is_nan, 0x7fc0);
    _mm256_storeu_si256((__m256i*)(void*)(to + i), _mm512_cvtepi32_epi16(rounded));
  }
#endif
  for (; i < n; i++) to[i] = shmt__bfloat16_from_float(from[i]);
}

/* A run of T, one of the two. */
#define SHMT_WIDEN_RUN  _Generic((T*)0, shmt_bfloat16*: shmt__widen_bfloat16, default: shmt__widen_float16)
#define SHMT_NARROW_RUN _Generic((T*)0, shmt_bfloat16*: shmt__narrow_bfloat16, default: shmt__narrow_float16)

/* Is T float16? What is not chosen is never called, but must have a type. */
#define SHMT_IS_FLOAT16     _Generic((T*)0, shmt_float16*: true, default: false)
#define SHMT_AS_FLOAT16(p)  ((shmt_float16*)(void*)(uintptr_t)(p))
#define SHMT_AS_FLOATS(p)   ((float*)(void*)(uintptr_t)(p))

#endif
