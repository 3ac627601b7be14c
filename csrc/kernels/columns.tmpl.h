/* kernels/columns.tmpl.h -- moments of a matrix's columns, and its elements shifted and scaled by column. One dtype.
 *
 * n columns; strides: bytes from row to row; ctx: int64_t, the number of rows. Numbers of the columns are n doubles.
 * Sums run over 32 rows at a time, a lane a column, and are added up in double. Elements of float16 are widened a block at a
 * time, by the processor.
 */
#include "kernels/halves.h"
#include "kernels/loops.h"

enum { FN(column_block) = 64, FN(column_rows) = 32 };

#if SHMT_IS_FLOAT16_LOOP
/* `full` over blocks, of an output or sums, matrices (of which the second may be NULL) and numbers of the columns. */
static void FN(columns_by_blocks)(shmt__loop full, bool is_sum, int n_matrices, int n_numbers, char* const* data,
                                  const int64_t* strides, int64_t n, int64_t rows) {
  C block[2][FN(column_rows) * FN(column_block)];
  char* at[7];

  for (int64_t j = 0, width; j < n; j += width) {
    width = n - j < FN(column_block) ? n - j : FN(column_block);
    const int64_t pitch = width * (int64_t)sizeof(C), packed[] = {pitch, pitch, pitch};
    for (int k = n_matrices + 1; k <= n_matrices + n_numbers; k++)
      at[k] = data[k] ? data[k] + j * (int64_t)sizeof(double) : NULL;
    for (int64_t r0 = 0, many; r0 < rows; r0 += many) {
      many = rows - r0 < FN(column_rows) ? rows - r0 : FN(column_rows);
      at[0] = is_sum ? data[0] + j * (int64_t)sizeof(double) : (char*)block[0];
      for (int k = 0; k < n_matrices; k++) {
        at[k + 1] = data[k + 1] ? (char*)block[k] : NULL;
        for (int64_t r = 0; at[k + 1] && r < many; r++)
          SHMT_WIDEN_RUN(block[k] + r * width, (const T*)(const void*)(data[k + 1] + (r0 + r) * strides[k + 1]) + j, width);
      }
      full(at, packed, width, &many);
      for (int64_t r = 0; !is_sum && r < many; r++)
        SHMT_NARROW_RUN((T*)(void*)(data[0] + (r0 + r) * strides[0]) + j, block[0] + r * width, width);
    }
  }
}
#define BY_BLOCKS(NAME, IS_SUM, N_MATRICES, N_NUMBERS)                                                       \
  void SHMT_FULL_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx);          \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {              \
    FN(columns_by_blocks)(SHMT_FULL_LOOP(NAME), IS_SUM, N_MATRICES, N_NUMBERS, data, strides, n,             \
                          *(const int64_t*)ctx);                                                             \
  }
BY_BLOCKS(columns_sum, true, 2, 1)
BY_BLOCKS(columns_square, true, 2, 1)
BY_BLOCKS(columns_product, true, 2, 1)
BY_BLOCKS(columns_affine, false, 1, 2)
BY_BLOCKS(columns_backward, false, 2, 4)
#undef BY_BLOCKS
#else
/* Sums are kept in vectors, which stay in registers from one row to the next. */
enum { FN(lanes) = 16, FN(column_vectors) = FN(column_block) / FN(lanes) };
typedef C FN(vector) __attribute__((vector_size(FN(lanes) * sizeof(C))));

/* A row's elements from column j on in `width` lanes, the rest zeros. By reference: the layout of a call by value would depend on
 * the instruction set. */
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
#if SHMT_ISA_LEVEL >= 1 /* vectors are loaded under a mask */
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

/* The sums' next row. */
#define SUM_ROW(VECTORS, SUM, ROW, EXPR)                                                                     \
  for (int k = 0; k < (VECTORS); k++) {                                                                      \
    LOAD_COLUMNS(v, k, data[1] + (ROW) * strides[1]);                                                        \
    if (data[2]) LOAD_COLUMNS(w, k, data[2] + (ROW) * strides[2]);                                           \
    (SUM)[k] += EXPR;                                                                                        \
  }

/* `vectors` of columns from j on, of which `width` exist; so many rows at a time that no sum waits for itself. */
#define SUM_BLOCK(VECTORS, EXPR)                                                                             \
  {                                                                                                          \
    enum { TOGETHER = FN(column_vectors) / (VECTORS) };                                                      \
    FN(vector) sum[TOGETHER][VECTORS] = {{{0}}}, mean[VECTORS] = {0}, v, w = {0};                            \
    C lanes[(VECTORS) * FN(lanes)] = {0};                                                                    \
    int64_t r = r0;                                                                                          \
    for (int64_t k = 0; means && k < width; k++) lanes[k] = (C)means[j + k];                                 \
    __builtin_memcpy(mean, lanes, sizeof mean);                                                              \
    for (; r + TOGETHER <= r1; r += TOGETHER)                                                                \
      for (int i = 0; i < TOGETHER; i++) SUM_ROW(VECTORS, sum[i], r + i, EXPR)                               \
    for (; r < r1; r++) SUM_ROW(VECTORS, sum[0], r, EXPR)                                                    \
    for (int i = 1; i < TOGETHER; i++)                                                                       \
      for (int k = 0; k < (VECTORS); k++) sum[0][k] += sum[i][k];                                            \
    __builtin_memcpy(lanes, sum[0], sizeof lanes);                                                           \
    for (int64_t k = 0; k < width; k++) totals[j + k] += (double)lanes[k];                                   \
  }

/* data: totals, which are added to; x; grad or NULL; means or NULL. */
#define COLUMN_SUM(NAME, EXPR)                                                                               \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {              \
    const int64_t rows = *(const int64_t*)ctx;                                                               \
    double* totals = (double*)(void*)data[0];                                                                \
    const double* means = (const double*)(const void*)data[3];                                               \
    for (int64_t j = 0; j < n;) {                                                                            \
      const int64_t left = n - j, half = FN(column_block) / 2;                                               \
      const int64_t width = left >= 2 * half ? 2 * half : left >= half ? half : left < FN(lanes) ? left : FN(lanes); \
      for (int64_t r0 = 0; r0 < rows; r0 += FN(column_rows)) {                                               \
        const int64_t r1 = rows - r0 < FN(column_rows) ? rows : r0 + FN(column_rows);                        \
        if (width == 2 * half) SUM_BLOCK(4, EXPR) else if (width == half) SUM_BLOCK(2, EXPR) else SUM_BLOCK(1, EXPR) \
      }                                                                                                      \
      j += width;                                                                                            \
    }                                                                                                        \
  }
COLUMN_SUM(columns_sum, v)
COLUMN_SUM(columns_square, (v - mean[k]) * (v - mean[k]))
COLUMN_SUM(columns_product, (v - mean[k]) * w)
#undef COLUMN_SUM
#undef SUM_BLOCK
#undef SUM_ROW
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
#endif
