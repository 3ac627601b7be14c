/* kernels/normalization/column_moments.tmpl.h -- sums, squares and products of the columns of a matrix. One dtype.
 *
 * Each column has a lane, which sums 32 rows in C; these sums are added in double.
 */
#include "kernels/normalization/column_blocks.tmpl.h"

#if SHMT_IS_FLOAT16_LOOP
BY_BLOCKS(columns_sum, true, 2, 1)
BY_BLOCKS(columns_square, true, 2, 1)
BY_BLOCKS(columns_product, true, 2, 1)
#undef BY_BLOCKS
#else
/* Sums are kept in vectors, which stay in registers from one row to the next. */
enum { FN(lanes) = 16, FN(column_vectors) = FN(column_block) / FN(lanes) };
typedef C FN(vector) __attribute__((vector_size(FN(lanes) * sizeof(C))));

/* Loads a row's elements from column j on: `width` lanes, and zeros in the others. The vector is passed by reference:
 * by value, the calling convention would depend on the instruction set. */
#define LOAD_COLUMNS(TO, k, row)                                                                             \
  FN(load_columns)(&(TO), (const T*)(const void*)(row) + j + (k) * FN(lanes), width - (k) * FN(lanes))
#define EACH_LANE for (int k = 0; k < FN(lanes); k++)
#define INLINE    static inline __attribute__((always_inline))
INLINE void FN(load_full)(FN(vector)* to, const T* from) {
  C v[FN(lanes)];
  EACH_LANE v[k] = SHMT_LOAD(from[k]);
  __builtin_memcpy(to, v, sizeof v);
}
INLINE void FN(load_rest)(FN(vector)* to, const T* from, int64_t width) {
  C v[FN(lanes)];
#if SHMT_ISA_LEVEL >= 1 /* the compiler uses masked loads */
  const int count = (int)width;
  EACH_LANE v[k] = k < count ? SHMT_LOAD(from[k]) : 0;
#else
  EACH_LANE v[k] = 0;
  for (int64_t k = 0; k < (width & (FN(lanes) - 1)); k++) v[k] = SHMT_LOAD(from[k]);
#endif
  __builtin_memcpy(to, v, sizeof v);
}
INLINE void FN(load_columns)(FN(vector)* to, const T* from, int64_t width) {
  if (width >= FN(lanes))
    FN(load_full)(to, from);
  else
    FN(load_rest)(to, from, width);
}
#undef EACH_LANE
#undef INLINE

/* Adds one row to the sums. */
#define SUM_ROW(VECTORS, SUM, ROW, EXPR)                                                                     \
  for (int k = 0; k < (VECTORS); k++) {                                                                      \
    LOAD_COLUMNS(v, k, data[1] + (ROW) * strides[1]);                                                        \
    if (data[2]) LOAD_COLUMNS(w, k, data[2] + (ROW) * strides[2]);                                           \
    (SUM)[k] += EXPR;                                                                                        \
  }

/* Sums VECTORS vectors of columns from j on, of which `width` columns exist. With few vectors, several rows have sums
 * of their own, so that no addition waits for the one before. */
#define SUM_BLOCK(VECTORS, EXPR)                                                      \
  {                                                                                   \
    enum { ROWS_AT_ONCE = FN(column_vectors) / (VECTORS) };                           \
    FN(vector) sum[ROWS_AT_ONCE][VECTORS] = {{{0}}}, mean[VECTORS] = {0}, v, w = {0}; \
    C lanes[(VECTORS) * FN(lanes)] = {0};                                             \
    int64_t r = r0;                                                                   \
    for (int64_t k = 0; means && k < width; k++) lanes[k] = (C)means[j + k];          \
    __builtin_memcpy(mean, lanes, sizeof mean);                                       \
    for (; r + ROWS_AT_ONCE <= r1; r += ROWS_AT_ONCE)                                 \
      for (int i = 0; i < ROWS_AT_ONCE; i++) SUM_ROW(VECTORS, sum[i], r + i, EXPR)    \
    for (; r < r1; r++) SUM_ROW(VECTORS, sum[0], r, EXPR)                             \
    for (int i = 1; i < ROWS_AT_ONCE; i++)                                            \
      for (int k = 0; k < (VECTORS); k++) sum[0][k] += sum[i][k];                     \
    __builtin_memcpy(lanes, sum[0], sizeof lanes);                                    \
    for (int64_t k = 0; k < width; k++) totals[j + k] += (double)lanes[k];            \
  }

/* data: totals, which the loop adds to; x; grad or NULL; means or NULL. */
#define COLUMN_SUM(NAME, EXPR)                                                                                       \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {                      \
    const int64_t rows = *(const int64_t*)ctx;                                                                       \
    double* totals = (double*)(void*)data[0];                                                                        \
    const double* means = (const double*)(const void*)data[3];                                                       \
    for (int64_t j = 0; j < n;) {                                                                                    \
      const int64_t left = n - j, half = FN(column_block) / 2;                                                       \
      const int64_t width = left >= 2 * half ? 2 * half : left >= half ? half : left < FN(lanes) ? left : FN(lanes); \
      for (int64_t r0 = 0; r0 < rows; r0 += FN(column_rows)) {                                                       \
        const int64_t r1 = rows - r0 < FN(column_rows) ? rows : r0 + FN(column_rows);                                \
        if (width == 2 * half) SUM_BLOCK(4, EXPR) else if (width == half) SUM_BLOCK(2, EXPR) else SUM_BLOCK(1, EXPR) \
      }                                                                                                              \
      j += width;                                                                                                    \
    }                                                                                                                \
  }
COLUMN_SUM(columns_sum, v)
COLUMN_SUM(columns_square, (v - mean[k]) * (v - mean[k]))
COLUMN_SUM(columns_product, (v - mean[k]) * w)
#undef COLUMN_SUM
#undef SUM_BLOCK
#undef SUM_ROW
#undef LOAD_COLUMNS
#endif
