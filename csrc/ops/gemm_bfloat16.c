/* ops/gemm_bfloat16.c -- products of bfloat16 matrices by AVX512_BF16, which multiplies and adds pairs.
 *
 * Note [Pairs]
 * vdpbf16ps takes 16 pairs from each of two registers, multiplies them one by one and adds both products of a pair to
 * a float32. So pairs of neighbours along k are what is moved: b is packed in panels of 32 columns, where a row holds
 * the pairs (k, k + 1) of its columns; of a, one pair at a time is broadcast. The sums of 8 rows and 32 columns stay in
 * registers for all of k. An odd last k is paired with zeros.
 */
#include "ops/gemm_half.h"

#include "generated/loops.h"
#include "storage/allocator.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define INLINE static inline __attribute__((always_inline)) TARGET

enum { LANES = 16, WIDTH = 2 * LANES, HEIGHT = 8, BLOCK_ROWS = 256, ITEM = 2 };

bool shmt__gemm_has_bfloat16(void) {
  return shmt__cpu_level == SHMT_CPU_V4 && __builtin_cpu_supports("avx512bf16");
}

/* --- packing ------------------------------------------------------------------------ */

static uint32_t pair_at(const char* first, int64_t step, bool lone) {
  uint16_t low, high = 0;

  memcpy(&low, first, ITEM);
  if (!lone) memcpy(&high, first + step, ITEM);
  return (uint32_t)low | (uint32_t)high << 16;
}

static __mmask32 first_lanes(int64_t n) { return n >= WIDTH ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1; }

/* Rows of b lie dense: two of them are interleaved. */
static TARGET void pack_rows(shmt__matrix b, uint32_t* to) {
  const __mmask32 mask = first_lanes(b.columns);
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(LANES));

  for (int64_t k = 0; k < b.rows; k += 2, to += WIDTH) {
    const char* row = b.data + k * b.row_stride * ITEM;
    const __m512i x = _mm512_maskz_loadu_epi16(mask, row);
    const __m512i y = k + 1 < b.rows ? _mm512_maskz_loadu_epi16(mask, row + b.row_stride * ITEM) : _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, low, y));
    _mm512_storeu_si512(to + LANES, _mm512_permutex2var_epi16(x, high, y));
  }
}

/* Sixteen lines of sixteen pairs change places with their columns. */
INLINE void transpose_pairs(__m512i* r) {
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

/* Columns of b lie dense. */
static TARGET void pack_columns(shmt__matrix b, uint32_t* to) {
  for (int64_t k = 0; k < b.rows; k += 2 * LANES) {
    const __mmask32 mask = first_lanes(b.rows - k);
    const int64_t pairs = (b.rows - k + 1) / 2;
    for (int64_t half = 0; half < WIDTH; half += LANES) {
      __m512i r[LANES];
      for (int64_t j = 0; j < LANES; j++)
        r[j] = half + j < b.columns
                   ? _mm512_maskz_loadu_epi16(mask, b.data + (k + (half + j) * b.column_stride) * ITEM)
                   : _mm512_setzero_si512();
      transpose_pairs(r);
      for (int64_t p = 0; p < LANES && p < pairs; p++)
        _mm512_storeu_si512(to + (k / 2 + p) * WIDTH + half, r[p]);
    }
  }
}

/* A panel: at most 32 columns of b, missing ones zero. */
static void pack_panel(shmt__matrix b, uint32_t* to) {
  if (b.column_stride == 1 || b.columns == 1) {
    pack_rows(b, to);
  } else if (b.row_stride == 1 || b.rows == 1) {
    pack_columns(b, to);
  } else {
    for (int64_t k = 0; k < b.rows; k += 2, to += WIDTH)
      for (int64_t j = 0; j < WIDTH; j++)
        to[j] = j < b.columns ? pair_at(b.data + (k * b.row_stride + j * b.column_stride) * ITEM, b.row_stride * ITEM,
                                        k + 1 == b.rows)
                              : 0;
  }
}

/* Strips of 8 rows of a, a pair of every row side by side; the last strip may have fewer rows. */
static void pack_strips(shmt__matrix a, uint32_t* to) {
  const int64_t pairs = (a.columns + 1) / 2;

  for (int64_t i = 0; i < a.rows; i += HEIGHT, to += pairs * HEIGHT) {
    const int64_t rows = a.rows - i < HEIGHT ? a.rows - i : HEIGHT;
    for (int64_t p = 0; p < pairs; p++) {
      const char* from = a.data + (i * a.row_stride + 2 * p * a.column_stride) * ITEM;
      for (int64_t r = 0; r < rows; r++)
        to[p * HEIGHT + r] = pair_at(from + r * a.row_stride * ITEM, a.column_stride * ITEM, 2 * p + 1 == a.columns);
    }
  }
}

/* --- products ----------------------------------------------------------------------- */

/* Rows of a as the inner loop reads them: element pairs at data + row * row_step + pair * pair_step. */
typedef struct strip {
  const char* data;
  int64_t row_step, pair_step; /* bytes */
  int64_t pairs;               /* whole pairs */
  bool odd;                    /* one number more */
} strip;

typedef struct result {
  char* data;
  int64_t row_step; /* bytes */
  int64_t columns;
  float alpha, beta;
} result;

/* To bfloat16 as base/half.h rounds. */
INLINE __m256i round_to_bfloat16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), nan, _mm512_set1_epi32(0x7fc0)));
}

INLINE void finish(__m512 sum, const result* c, char* to, int64_t columns) {
  const __mmask16 mask = columns >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << columns) - 1);

  sum = _mm512_mul_ps(sum, _mm512_set1_ps(c->alpha));
  if (c->beta != 0) {
    const __m512i old = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, to)), 16);
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(old), _mm512_set1_ps(c->beta), sum);
  }
  _mm256_mask_storeu_epi16(to, mask, round_to_bfloat16(sum));
}

INLINE void add_pair(const int rows, __m512* sum, const char* a, int64_t row_step, const uint32_t* b, bool lone) {
  const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b), b1 = (__m512bh)_mm512_loadu_si512(b + LANES);

#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    uint32_t pair = 0;
    memcpy(&pair, a + r * row_step, lone ? ITEM : 2 * ITEM);
    const __m512bh x = (__m512bh)_mm512_set1_epi32((int)pair);
    sum[2 * r] = _mm512_dpbf16_ps(sum[2 * r], x, b0);
    sum[2 * r + 1] = _mm512_dpbf16_ps(sum[2 * r + 1], x, b1);
  }
}

INLINE void multiply_rows(const int rows, strip a, const uint32_t* b, const result* c) {
  __m512 sum[2 * HEIGHT];

#pragma GCC unroll 16
  for (int i = 0; i < 2 * rows; i++) sum[i] = _mm512_setzero_ps();
  for (int64_t p = 0; p < a.pairs; p++)
    add_pair(rows, sum, a.data + p * a.pair_step, a.row_step, b + p * WIDTH, false);
  if (a.odd) add_pair(rows, sum, a.data + a.pairs * a.pair_step, a.row_step, b + a.pairs * WIDTH, true);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    finish(sum[2 * r], c, c->data + r * c->row_step, c->columns);
    if (c->columns > LANES)
      finish(sum[2 * r + 1], c, c->data + r * c->row_step + LANES * ITEM, c->columns - LANES);
  }
}

static TARGET void multiply(int64_t rows, strip a, const uint32_t* b, const result* c) {
  switch (rows) {
    case 1: multiply_rows(1, a, b, c); break;
    case 2: multiply_rows(2, a, b, c); break;
    case 3: multiply_rows(3, a, b, c); break;
    case 4: multiply_rows(4, a, b, c); break;
    case 5: multiply_rows(5, a, b, c); break;
    case 6: multiply_rows(6, a, b, c); break;
    case 7: multiply_rows(7, a, b, c); break;
    default: multiply_rows(HEIGHT, a, b, c); break;
  }
}

/* A block of rows of a with a packed panel. */
static void run_panel(shmt__matrix a, const uint32_t* packed, const uint32_t* panel, result c) {
  const int64_t all = (a.columns + 1) / 2;

  for (int64_t i = 0; i < a.rows; i += HEIGHT, c.data += HEIGHT * c.row_step) {
    strip s = {a.data + i * a.row_stride * ITEM, a.row_stride * ITEM, 2 * ITEM, a.columns / 2, a.columns % 2 != 0};
    /* Packed pairs are whole. */
    if (packed) s = (strip){(const char*)(packed + i * all), 2 * ITEM, HEIGHT * 2 * ITEM, all, false};
    multiply(a.rows - i < HEIGHT ? a.rows - i : HEIGHT, s, panel, &c);
  }
}

bool shmt__gemm_bfloat16(float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c) {
  const int64_t pairs = (a.columns + 1) / 2;
  const bool is_packed = a.column_stride != 1 && a.columns > 1;
  const int64_t block = a.rows < BLOCK_ROWS ? (a.rows + HEIGHT - 1) / HEIGHT * HEIGHT : BLOCK_ROWS;
  const uint64_t nbytes = (uint64_t)pairs * sizeof(uint32_t) * (uint64_t)(WIDTH + (is_packed ? block : 0));
  void* memory = NULL;

  if (shmt__alloc(nbytes, &memory) != SHMT_OK) return false;
  uint32_t* panel = memory;
  uint32_t* strips = is_packed ? panel + pairs * WIDTH : NULL;
  for (int64_t i = 0; i < c.rows; i += BLOCK_ROWS) {
    shmt__matrix rows = a;
    rows.data += i * a.row_stride * ITEM;
    rows.rows = c.rows - i < BLOCK_ROWS ? c.rows - i : BLOCK_ROWS;
    if (strips) pack_strips(rows, strips);
    for (int64_t j = 0; j < c.columns; j += WIDTH) {
      shmt__matrix columns = b;
      columns.data += j * b.column_stride * ITEM;
      columns.columns = c.columns - j < WIDTH ? c.columns - j : WIDTH;
      pack_panel(columns, panel);
      const result to = {c.data + (i * c.row_stride + j) * ITEM, c.row_stride * ITEM, columns.columns, alpha, beta};
      run_panel(rows, strips, panel, to);
    }
  }
  shmt__dealloc(memory, nbytes);
  return true;
}

#else

bool shmt__gemm_has_bfloat16(void) { return false; }

bool shmt__gemm_bfloat16(float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c) {
  (void)alpha, (void)a, (void)b, (void)beta, (void)c;
  return false;
}

#endif
