/* ops/matmul/gemm_bfloat16.c -- products of bfloat16 matrices with AVX512_BF16, which multiplies and adds pairs.
 *
 * vdpbf16ps takes 16 pairs from each of two registers (Note [VNNI pairs] in ops/matmul/gemm_bfloat16_packing.h). One
 * pair of a at a time is broadcast. The sums of 8 rows and 32 columns stay in registers for all of k.
 */
#include "ops/matmul/gemm_half.h"

#include "generated/loops.h"
#include "ops/matmul/gemm_bfloat16_packing.h"
#include "storage/allocator.h"

#include <string.h>

#if defined(__x86_64__)

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma,avx512bf16")))
#define INLINE static inline __attribute__((always_inline)) TARGET

enum { LANES = SHMT_VNNI_LANES, WIDTH = SHMT_VNNI_WIDTH, HEIGHT = 8, BLOCK_ROWS = 256, ITEM = SHMT_VNNI_ITEM };

bool shmt__gemm_has_bfloat16(void) {
  return shmt__cpu_level == SHMT_CPU_V4 && __builtin_cpu_supports("avx512bf16");
}

/* --- packing ------------------------------------------------------------------------ */

/* Pack strips of 8 rows of a: for each k, a pair of every row side by side. The last strip may have fewer rows. */
static void pack_strips(shmt__matrix a, uint32_t* to) {
  const int64_t pairs = (a.columns + 1) / 2;

  for (int64_t i = 0; i < a.rows; i += HEIGHT, to += pairs * HEIGHT) {
    const int64_t rows = a.rows - i < HEIGHT ? a.rows - i : HEIGHT;
    for (int64_t p = 0; p < pairs; p++) {
      const char* from = a.data + (i * a.row_stride + 2 * p * a.column_stride) * ITEM;
      for (int64_t r = 0; r < rows; r++)
        to[p * HEIGHT + r] =
            shmt__vnni_pair(from + r * a.row_stride * ITEM, a.column_stride * ITEM, 2 * p + 1 == a.columns);
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

INLINE void multiply_rows(const int rows, strip a, const uint32_t* b, const shmt__vnni_epilogue* c) {
  __m512 sum[2 * HEIGHT];

#pragma GCC unroll 16
  for (int i = 0; i < 2 * rows; i++) sum[i] = _mm512_setzero_ps();
  for (int64_t p = 0; p < a.pairs; p++)
    add_pair(rows, sum, a.data + p * a.pair_step, a.row_step, b + p * WIDTH, false);
  if (a.odd) add_pair(rows, sum, a.data + a.pairs * a.pair_step, a.row_step, b + a.pairs * WIDTH, true);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    shmt__vnni_store(sum[2 * r], c, c->data + r * c->row_step, c->columns);
    if (c->columns > LANES)
      shmt__vnni_store(sum[2 * r + 1], c, c->data + r * c->row_step + LANES * ITEM, c->columns - LANES);
  }
}

static TARGET void multiply_strip(int64_t rows, strip a, const uint32_t* b, const shmt__vnni_epilogue* c) {
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
static void run_panel(shmt__matrix a, const uint32_t* packed, const uint32_t* panel, shmt__vnni_epilogue c) {
  const int64_t all = (a.columns + 1) / 2;

  for (int64_t i = 0; i < a.rows; i += HEIGHT, c.data += HEIGHT * c.row_step) {
    strip s = {a.data + i * a.row_stride * ITEM, a.row_stride * ITEM, 2 * ITEM, a.columns / 2, a.columns % 2 != 0};
    /* Packed pairs are whole. */
    if (packed) s = (strip){(const char*)(packed + i * all), 2 * ITEM, HEIGHT * 2 * ITEM, all, false};
    multiply_strip(a.rows - i < HEIGHT ? a.rows - i : HEIGHT, s, panel, &c);
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
      shmt__vnni_pack_panel(columns, panel);
      const shmt__vnni_epilogue to = {.data = c.data + (i * c.row_stride + j) * ITEM,
                                      .row_step = c.row_stride * ITEM,
                                      .columns = columns.columns,
                                      .alpha = alpha,
                                      .beta = beta};
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
