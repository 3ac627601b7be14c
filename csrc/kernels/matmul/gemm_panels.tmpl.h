/* kernels/matmul/gemm_panels.tmpl.h -- rows of a matrix times a panel of columns of another, one dtype.
 *
 * The sums of some rows and two vectors of columns stay in registers for all of the depth; one element of a at a time
 * is multiplied by a row of the panel. a is read where it lies: whatever its strides, the next element is mostly in a
 * cache line that was just read.
 */
#include "kernels/template.h"
#include "kernels/matmul/gemm_panels.h"

/* Fused multiply-add where the processor has it. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#define INLINE static inline __attribute__((always_inline))
#if SHMT_IS_INTEGRAL
#define E uint64_t /* integers wrap */
#else
#define E T
#endif

/* rows: as many as there are registers for. ahead: how many rows of b ahead of the one that is read are prefetched. */
enum { FN(lanes) = SHMT_VECTOR_BYTES / sizeof(E), FN(width) = 2 * FN(lanes),
       FN(rows) = SHMT_ISA_LEVEL == 2 ? 12 : SHMT_ISA_LEVEL == 1 ? 6 : 4, FN(ahead) = 8 };
typedef E FN(vector) __attribute__((vector_size(SHMT_VECTOR_BYTES), aligned(sizeof(E)), may_alias));

INLINE FN(vector) FN(get)(const E* p) { return *(const FN(vector)*)(const void*)p; }

/* Store one vector of results, or its first n elements. */
INLINE void FN(store_sums)(const shmt__gemm_panel_args* s, FN(vector) sum, E* c, int64_t n) {
  const E alpha = *(const E*)s->alpha, beta = *(const E*)s->beta;

  sum *= alpha;
  if (n >= FN(lanes)) {
    if (!s->beta_is_zero) sum += beta * FN(get)(c);
    *(FN(vector)*)(void*)c = sum;
    return;
  }
  for (int64_t j = 0; j < n; j++) c[j] = s->beta_is_zero ? sum[j] : sum[j] + beta * c[j];
}

/* `rows` rows by one or two vectors of columns. */
INLINE void FN(multiply)(const shmt__gemm_panel_args* s, const int rows, const int vectors, const bool prefetches,
                         const E* a, const E* b, E* c, int64_t columns) {
  const int64_t a_row = s->a_row;
  FN(vector) sums[2 * FN(rows)] = {{0}};

  for (int64_t k = 0; k < s->depth; k++, a += s->a_column, b += s->b_row) {
    const FN(vector) first = FN(get)(b), second = vectors == 2 ? FN(get)(b + FN(lanes)) : first;
    if (prefetches) {
      __builtin_prefetch(b + FN(ahead) * s->b_row);
      if (vectors == 2) __builtin_prefetch(b + FN(ahead) * s->b_row + FN(lanes));
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
      const E x = a[r * a_row];
      sums[2 * r] += x * first;
      if (vectors == 2) sums[2 * r + 1] += x * second;
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++, c += s->c_row) {
    FN(store_sums)(s, sums[2 * r], c, columns);
    if (vectors == 2) FN(store_sums)(s, sums[2 * r + 1], c + FN(lanes), columns - FN(lanes));
  }
}

/* n rows, as many at a time as there are registers for. */
INLINE void FN(multiply_rows)(const shmt__gemm_panel_args* s, const int vectors, const bool prefetches, const E* a,
                              const E* b, E* c, int64_t n, int64_t columns) {
  int64_t i = 0;

#define BY_ROWS(COUNT)                                                                                     \
  for (; i + COUNT <= n; i += COUNT)                                                                       \
  FN(multiply)(s, COUNT, vectors, prefetches, a + i * s->a_row, b, c + i * s->c_row, columns)
  if (FN(rows) >= 12) BY_ROWS(12);
  if (FN(rows) >= 8) BY_ROWS(8);
  if (FN(rows) == 6) BY_ROWS(6);
  BY_ROWS(4);
  BY_ROWS(2);
  BY_ROWS(1);
#undef BY_ROWS
}

/* data: c, a, b; n: rows; ctx: shmt__gemm_panel_args. */
void SHMT_LOOP(gemm_panels)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__gemm_panel_args* s = ctx;
  const E *a = (const E*)(const void*)data[1], *b = (const E*)(const void*)data[2];
  E* c = (E*)(void*)data[0];

  (void)strides;
  for (int64_t j = 0; j < s->columns; j += FN(width)) {
    const int64_t columns = s->columns - j;
    if (columns <= FN(lanes))
      FN(multiply_rows)(s, 1, false, a, b + j, c + j, n, columns);
    else if (s->prefetches)
      FN(multiply_rows)(s, 2, true, a, b + j, c + j, n, columns);
    else
      FN(multiply_rows)(s, 2, false, a, b + j, c + j, n, columns);
  }
}

#undef INLINE
#undef E
#pragma GCC pop_options
