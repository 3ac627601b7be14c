/* ops/matmul/gemm_widened.c -- products of 16-bit floats with AVX-512, widened to float32 while they are packed.
 *
 * A block of c is summed in float32 over packed blocks of a and b, which are on the stack. Both are packed in panels:
 * for each k, 32 columns of b, or of a transposed, side by side. The sums of 8 rows and 32 columns stay in registers
 * for all k of a block.
 */
#include "ops/matmul/gemm_half.h"

#include "base/sizes.h"
#include "generated/loops.h"
#include "ops/matmul/gemm_bfloat16_packing.h"

#if defined(__x86_64__)

#define INLINE SHMT_VNNI_INLINE
#define TARGET SHMT_VNNI_TARGET

enum {
  LANES = SHMT_VNNI_LANES,
  WIDTH = SHMT_VNNI_WIDTH,
  ITEM = SHMT_VNNI_ITEM,
  HEIGHT = 8,
  SIDE = 4 * WIDTH, /* rows and columns of a block of c */
  DEPTH = 80,       /* of what is packed for it; even */
};

bool shmt__gemm_has_widened(void) { return shmt__cpu_level == SHMT_CPU_V4; }

INLINE __m512 widen(bool is_bfloat16, __m256i x) {
  if (is_bfloat16) return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  return _mm512_cvtph_ps(x);
}

INLINE __m256i narrow(bool is_bfloat16, __m512 x) {
  return is_bfloat16 ? shmt__vnni_round(x) : _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* --- packing ------------------------------------------------------------------------ */

/* At most 32 columns in float32, missing ones zero; an odd last row may get one of zeros. */
static TARGET void pack_panel(bool is_bfloat16, shmt__matrix m, float* to) {
  if (m.column_stride == 1) {
    const __mmask32 mask = shmt__vnni_mask(m.columns);
    for (int64_t k = 0; k < m.rows; k++, to += WIDTH) {
      const __m512i row = _mm512_maskz_loadu_epi16(mask, m.data + k * m.row_stride * ITEM);
      _mm512_storeu_ps(to, widen(is_bfloat16, _mm512_castsi512_si256(row)));
      _mm512_storeu_ps(to + LANES, widen(is_bfloat16, _mm512_extracti64x4_epi64(row, 1)));
    }
    return;
  }
  for (int64_t k = 0; k < m.rows; k += WIDTH) {
    const shmt__matrix some = shmt__matrix16_block(m, k, WIDTH, 0, WIDTH);
    _Alignas(64) uint32_t pairs[WIDTH / 2 * WIDTH];
    shmt__vnni_pack_panel(some, pairs);
    for (int64_t p = 0; p < (some.rows + 1) / 2; p++, to += 2 * WIDTH) {
      for (int64_t half = 0; half < WIDTH; half += LANES) {
        const __m512i both = _mm512_load_si512(pairs + p * WIDTH + half);
        _mm512_storeu_ps(to + half, widen(is_bfloat16, _mm512_cvtepi32_epi16(both)));
        _mm512_storeu_ps(to + WIDTH + half, widen(is_bfloat16, _mm512_cvtepi32_epi16(_mm512_srli_epi32(both, 16))));
      }
    }
  }
}

/* All columns of a block, panel after panel. */
static void pack_widened(bool is_bfloat16, shmt__matrix m, float* to) {
  for (int64_t j = 0; j < m.columns; j += WIDTH, to += DEPTH * WIDTH)
    pack_panel(is_bfloat16, shmt__matrix16_block(m, 0, m.rows, j, WIDTH), to);
}

/* --- products ----------------------------------------------------------------------- */

/* sums (+)= some rows with a panel. */
INLINE void multiply_rows(const int rows, const float* a, const float* b, int64_t depth, bool adds, float* sums) {
  __m512 sum[2 * HEIGHT];

#pragma GCC unroll 16
  for (int i = 0; i < 2 * rows; i++)
    sum[i] = adds ? _mm512_loadu_ps(sums + i / 2 * SIDE + i % 2 * LANES) : _mm512_setzero_ps();
  for (int64_t k = 0; k < depth; k++, a += WIDTH, b += WIDTH) {
    const __m512 low = _mm512_loadu_ps(b), high = _mm512_loadu_ps(b + LANES);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const __m512 x = _mm512_set1_ps(a[r]);
      sum[2 * r] = _mm512_fmadd_ps(x, low, sum[2 * r]);
      sum[2 * r + 1] = _mm512_fmadd_ps(x, high, sum[2 * r + 1]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < 2 * rows; i++) _mm512_storeu_ps(sums + i / 2 * SIDE + i % 2 * LANES, sum[i]);
}

/* rows: at least so many are in a block; those beyond them are of zeros, and nobody's. */
static TARGET void multiply_packed(int64_t rows, const float* a, const float* b, int64_t depth, bool adds,
                                   float* sums) {
  if (rows <= 2)
    multiply_rows(2, a, b, depth, adds, sums);
  else if (rows <= 4)
    multiply_rows(4, a, b, depth, adds, sums);
  else
    multiply_rows(HEIGHT, a, b, depth, adds, sums);
}

static TARGET void store_block(bool is_bfloat16, float alpha, const float* sums, float beta, shmt__matrix c) {
  const __m512 scale = _mm512_set1_ps(alpha), old_scale = _mm512_set1_ps(beta);

  for (int64_t i = 0; i < c.rows; i++, sums += SIDE) {
    for (int64_t j = 0; j < c.columns; j += LANES) {
      const __mmask16 mask = (__mmask16)shmt__vnni_mask(shmt__min_i64(c.columns - j, LANES));
      char* to = c.data + (i * c.row_stride + j) * ITEM;
      __m512 sum = _mm512_mul_ps(scale, _mm512_loadu_ps(sums + j));
      if (beta != 0) sum = _mm512_fmadd_ps(old_scale, widen(is_bfloat16, _mm256_maskz_loadu_epi16(mask, to)), sum);
      _mm256_mask_storeu_epi16(to, mask, narrow(is_bfloat16, sum));
    }
  }
}

void shmt__gemm_widened(shmt_dtype dtype, float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c) {
  const bool is_bfloat16 = dtype == SHMT_BFLOAT16;
  _Alignas(64) float sums[SIDE * SIDE], left[DEPTH * SIDE], right[DEPTH * SIDE];

  for (int64_t i = 0; i < c.rows; i += SIDE) {
    for (int64_t j = 0; j < c.columns; j += SIDE) {
      const shmt__matrix to = shmt__matrix16_block(c, i, SIDE, j, SIDE);
      for (int64_t d = 0; d < a.columns; d += DEPTH) {
        const int64_t depth = shmt__min_i64(DEPTH, a.columns - d);
        pack_widened(is_bfloat16, shmt__matrix_transposed(shmt__matrix16_block(a, i, SIDE, d, depth)), left);
        pack_widened(is_bfloat16, shmt__matrix16_block(b, d, depth, j, SIDE), right);
        for (int64_t q = 0; q < to.columns; q += WIDTH)
          for (int64_t r = 0; r < to.rows; r += HEIGHT)
            multiply_packed(to.rows - r, left + r / WIDTH * DEPTH * WIDTH + r % WIDTH, right + q * DEPTH, depth, d > 0,
                            sums + r * SIDE + q);
      }
      store_block(is_bfloat16, alpha, sums, beta, to);
    }
  }
}

#else

bool shmt__gemm_has_widened(void) { return false; }

void shmt__gemm_widened(shmt_dtype dtype, float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c) {
  (void)dtype, (void)alpha, (void)a, (void)b, (void)beta, (void)c;
}

#endif
