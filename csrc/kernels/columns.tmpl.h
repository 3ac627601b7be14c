/* kernels/columns.tmpl.h -- moments of a matrix's columns, and its elements shifted and scaled by column. One dtype.
 *
 * n columns; strides: bytes from row to row; ctx: int64_t, the number of rows. Numbers of the columns are n doubles.
 * Sums run over 32 rows at a time, a lane a column, and are added up in double.
 */
#include "kernels/lanes.tmpl.h"

enum { FN(column_vectors) = 4, FN(column_block) = FN(column_vectors) * FN(lanes), FN(column_rows) = 32 };

/* A row's elements from column j on in `width` lanes, the rest zeros. */
#define LOAD_COLUMNS(TO, k, p, stride)                                                                       \
  FN(load_columns)(&(TO), (const T*)(const void*)((p) + r * (stride)) + j + (k) * FN(lanes), width - (k) * FN(lanes))
static inline __attribute__((always_inline)) void FN(load_columns)(FN(vector)* to, const T* from, int64_t width) {
  if (width >= FN(lanes))
    FN(load_full)(to, from);
  else
    FN(load_rest)(to, from, width, 0);
}

/* `vectors` of columns from j on, of which `width` exist. */
#define SUM_BLOCK(VECTORS, EXPR)                                                                             \
  {                                                                                                          \
    FN(vector) sum[VECTORS] = {0}, mean[VECTORS] = {0}, v, w = {0};                                               \
    C lanes[(VECTORS) * FN(lanes)] = {0};                                                                    \
    for (int64_t k = 0; means && k < width; k++) lanes[k] = (C)means[j + k];                                 \
    __builtin_memcpy(mean, lanes, sizeof mean);                                                              \
    for (int64_t r = r0; r < r1; r++)                                                                        \
      for (int k = 0; k < (VECTORS); k++) {                                                                  \
        LOAD_COLUMNS(v, k, data[1], strides[1]);                                                             \
        if (data[2]) LOAD_COLUMNS(w, k, data[2], strides[2]);                                                \
        sum[k] += EXPR;                                                                                      \
      }                                                                                                      \
    __builtin_memcpy(lanes, sum, sizeof sum);                                                                \
    for (int64_t k = 0; k < width; k++) totals[j + k] += (double)lanes[k];                                   \
  }

/* data: totals, which are added to; x; grad or NULL; means or NULL. */
#define COLUMN_SUM(NAME, EXPR)                                                                               \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {              \
    const int64_t rows = *(const int64_t*)ctx;                                                               \
    double* totals = (double*)(void*)data[0];                                                                \
    const double* means = (const double*)(const void*)data[3];                                               \
    for (int64_t j = 0; j < n;) {                                                                            \
      const int64_t width = n - j >= FN(column_block) ? FN(column_block) : n - j < FN(lanes) ? n - j : FN(lanes); \
      for (int64_t r0 = 0; r0 < rows; r0 += FN(column_rows)) {                                               \
        const int64_t r1 = rows - r0 < FN(column_rows) ? rows : r0 + FN(column_rows);                        \
        if (width == FN(column_block)) SUM_BLOCK(FN(column_vectors), EXPR) else SUM_BLOCK(1, EXPR)           \
      }                                                                                                      \
      j += width;                                                                                            \
    }                                                                                                        \
  }
COLUMN_SUM(columns_sum, v)
COLUMN_SUM(columns_square, (v - mean[k]) * (v - mean[k]))
COLUMN_SUM(columns_product, (v - mean[k]) * w)
#undef COLUMN_SUM
#undef SUM_BLOCK
#undef LOAD_COLUMNS

#define COLUMN_NUMBERS(NAME, p)                                                                              \
  C NAME[FN(column_block)];                                                                                  \
  for (int64_t k = 0; k < width; k++) NAME[k] = (C)((const double*)(const void*)(p))[j + k]
#define EACH_COLUMN_BLOCK                                                                                    \
  for (int64_t j = 0, width; j < n && (width = n - j < FN(column_block) ? n - j : FN(column_block), 1); j += width)

/* data: out, x, scale, shift. out = x * scale + shift. */
void SHMT_LOOP(columns_affine)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t rows = *(const int64_t*)ctx;

  EACH_COLUMN_BLOCK {
    COLUMN_NUMBERS(scale, data[2]);
    COLUMN_NUMBERS(shift, data[3]);
    for (int64_t r = 0; r < rows; r++) {
      T* out = (T*)(void*)(data[0] + r * strides[0]) + j;
      const T* x = (const T*)(const void*)(data[1] + r * strides[1]) + j;
      SHMT_IVDEP for (int64_t k = 0; k < width; k++) out[k] = SHMT_STORE((C)(SHMT_LOAD(x[k]) * scale[k] + shift[k]));
    }
  }
}

/* data: out, x, grad, scale, shift, slope, mean. out = (grad + shift + (x - mean) * slope) * scale. */
void SHMT_LOOP(columns_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t rows = *(const int64_t*)ctx;

  EACH_COLUMN_BLOCK {
    COLUMN_NUMBERS(scale, data[3]);
    COLUMN_NUMBERS(shift, data[4]);
    COLUMN_NUMBERS(slope, data[5]);
    COLUMN_NUMBERS(mean, data[6]);
    for (int64_t r = 0; r < rows; r++) {
      T* out = (T*)(void*)(data[0] + r * strides[0]) + j;
      const T* x = (const T*)(const void*)(data[1] + r * strides[1]) + j;
      const T* g = (const T*)(const void*)(data[2] + r * strides[2]) + j;
      SHMT_IVDEP for (int64_t k = 0; k < width; k++)
        out[k] = SHMT_STORE((C)((SHMT_LOAD(g[k]) + shift[k] + (SHMT_LOAD(x[k]) - mean[k]) * slope[k]) * scale[k]));
    }
  }
}
#undef EACH_COLUMN_BLOCK
#undef COLUMN_NUMBERS
