/* ops/matmul/gemm_bfloat16_packing.h -- packing and results of bfloat16 products: panels in the VNNI layout, 16 columns
 * of c.
 *
 * Note [VNNI pairs]
 * The instructions for bfloat16 take pairs of neighbours along k from each of two factors, multiply them one by one,
 * and add both products of a pair to a float32. So b is packed in panels of 32 columns, in which a row holds the pairs
 * (k, k + 1) of its columns: the VNNI layout. An odd last k is paired with zeros, and missing columns are zeros.
 */
#ifndef SHMT_OPS_MATMUL_GEMM_BFLOAT16_PACKING_H
#define SHMT_OPS_MATMUL_GEMM_BFLOAT16_PACKING_H

#include "ops/matmul/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define SHMT_VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma")))
#define SHMT_VNNI_INLINE static inline __attribute__((always_inline)) SHMT_VNNI_TARGET

enum { SHMT_VNNI_LANES = 16, SHMT_VNNI_WIDTH = 2 * SHMT_VNNI_LANES, SHMT_VNNI_ITEM = 2 };

/* Pack a panel: at most 32 columns of b, (b.rows + 1) / 2 rows of 32 pairs. Any strides. */
void shmt__vnni_pack_panel(shmt__matrix b, uint32_t* to);

/* The elements at first and at first + step (bytes), or 0 instead of that one where the first is alone. */
static inline uint32_t shmt__vnni_pair(const char* first, int64_t step, bool lone) {
  uint16_t low, high = 0;

  __builtin_memcpy(&low, first, SHMT_VNNI_ITEM);
  if (!lone) __builtin_memcpy(&high, first + step, SHMT_VNNI_ITEM);
  return (uint32_t)low | (uint32_t)high << 16;
}

/* The first n of 32 lanes. */
SHMT_VNNI_INLINE __mmask32 shmt__vnni_mask(int64_t n) {
  return n >= SHMT_VNNI_WIDTH ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
}

/* Transpose sixteen rows of sixteen pairs. */
SHMT_VNNI_INLINE void shmt__vnni_transpose(__m512i* r) {
  enum { LANES = SHMT_VNNI_LANES };
  __m512i t[LANES];

#pragma GCC unroll 8
  for (int i = 0; i < LANES; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < LANES; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const __m512i even = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88), odd = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    const __m512i even2 = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    const __m512i odd2 = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    t[i] = _mm512_shuffle_i32x4(even, even2, 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
    t[8 + i] = _mm512_shuffle_i32x4(even, even2, 0xdd);
    t[12 + i] = _mm512_shuffle_i32x4(odd, odd2, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) r[i] = t[i];
}

/* How sums are stored: c = alpha * sums + beta * c. */
typedef struct shmt__vnni_epilogue {
  char* data;
  int64_t row_step; /* bytes */
  int64_t columns;
  float alpha, beta;
  bool is_wide; /* c is of float32, not of bfloat16 */
} shmt__vnni_epilogue;

/* Round to bfloat16 as base/half.h does. */
SHMT_VNNI_INLINE __m256i shmt__vnni_round(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), nan, _mm512_set1_epi32(0x7fc0)));
}

/* Store the sums of sixteen columns, or fewer, at `to`. */
SHMT_VNNI_INLINE void shmt__vnni_store(__m512 sum, const shmt__vnni_epilogue* c, char* to, int64_t columns) {
  const __mmask16 mask = (__mmask16)shmt__vnni_mask(columns);

  sum = _mm512_mul_ps(sum, _mm512_set1_ps(c->alpha));
  if (c->beta != 0) {
    const __m512i old = c->is_wide ? _mm512_maskz_loadu_epi32(mask, to)
                                   : _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, to)), 16);
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(old), _mm512_set1_ps(c->beta), sum);
  }
  if (c->is_wide)
    _mm512_mask_storeu_ps(to, mask, sum);
  else
    _mm256_mask_storeu_epi16(to, mask, shmt__vnni_round(sum));
}

#endif

#endif
