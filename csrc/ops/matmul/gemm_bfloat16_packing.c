/* ops/matmul/gemm_bfloat16_packing.c -- packs bfloat16 matrices into panels in the VNNI layout. */
#include "ops/matmul/gemm_bfloat16_packing.h"

#if defined(__x86_64__)

enum { LANES = SHMT_VNNI_LANES, WIDTH = SHMT_VNNI_WIDTH, ITEM = SHMT_VNNI_ITEM };

/* Rows of b are dense: interleave two of them. */
static SHMT_VNNI_TARGET void pack_rows(shmt__matrix b, uint32_t* to) {
  const __mmask32 mask = shmt__vnni_mask(b.columns);
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(LANES));

  for (int64_t k = 0; k < b.rows; k += 2, to += WIDTH) {
    const char* row = b.data + k * b.row_stride * ITEM;
    const __m512i x = _mm512_maskz_loadu_epi16(mask, row);
    const __m512i y =
        k + 1 < b.rows ? _mm512_maskz_loadu_epi16(mask, row + b.row_stride * ITEM) : _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, low, y));
    _mm512_storeu_si512(to + LANES, _mm512_permutex2var_epi16(x, high, y));
  }
}

/* Columns of b are dense: transpose pairs. */
static SHMT_VNNI_TARGET void pack_columns(shmt__matrix b, uint32_t* to) {
  for (int64_t k = 0; k < b.rows; k += 2 * LANES) {
    const __mmask32 mask = shmt__vnni_mask(b.rows - k);
    const int64_t pairs = (b.rows - k + 1) / 2;
    for (int64_t half = 0; half < WIDTH; half += LANES) {
      __m512i r[LANES];
      for (int64_t j = 0; j < LANES; j++)
        r[j] = half + j < b.columns
                   ? _mm512_maskz_loadu_epi16(mask, b.data + (k + (half + j) * b.column_stride) * ITEM)
                   : _mm512_setzero_si512();
      shmt__vnni_transpose(r);
      for (int64_t p = 0; p < LANES && p < pairs; p++)
        _mm512_storeu_si512(to + (k / 2 + p) * WIDTH + half, r[p]);
    }
  }
}

void shmt__vnni_pack_panel(shmt__matrix b, uint32_t* to) {
  if (b.column_stride == 1 || b.columns == 1) {
    pack_rows(b, to);
  } else if (b.row_stride == 1 || b.rows == 1) {
    pack_columns(b, to);
  } else {
    for (int64_t k = 0; k < b.rows; k += 2, to += WIDTH)
      for (int64_t j = 0; j < WIDTH; j++)
        to[j] = j < b.columns ? shmt__vnni_pair(b.data + (k * b.row_stride + j * b.column_stride) * ITEM,
                                                b.row_stride * ITEM, k + 1 == b.rows)
                              : 0;
  }
}

#endif
