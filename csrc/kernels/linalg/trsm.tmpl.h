/* kernels/linalg/trsm.tmpl.h -- solves a panel of right-hand sides with a small triangular matrix, one dtype.
 *
 * Note [Panel]
 * A panel holds right-hand sides, in rows of SHMT_TRSM_PANEL_BYTES, so that a vector holds neighbouring right-hand
 * sides. Every step of the substitution is the same for all of them. The triangular matrix is read in place. A few rows
 * of the panel stay in registers while multiples of the rows already solved are subtracted from them, as in a product.
 *
 * Complex numbers stay interleaved. The products with the real and with the imaginary part of an element are summed
 * apart, and combined when a row is finished.
 */
#include "kernels/simd/complex.h"
#include "kernels/template.h"
#include "kernels/linalg/trsm.h"

#include <string.h>

/* Products are added unrounded where the processor can. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#define PARTS (1 + SHMT_IS_COMPLEX)
#if SHMT_ISA_LEVEL == 2
#define ROWS (8 / PARTS)
#else
#define ROWS (4 / PARTS)
#endif
#define INLINE static inline __attribute__((always_inline))

enum { FN(lanes) = SHMT_VECTOR_BYTES / sizeof(SHMT_REAL), FN(width) = SHMT_TRSM_PANEL_BYTES / sizeof(SHMT_REAL) };
typedef SHMT_REAL FN(vector) __attribute__((vector_size(SHMT_VECTOR_BYTES)));

INLINE FN(vector) FN(load_vector)(const SHMT_REAL* x) {
  FN(vector) v;
  memcpy(&v, x, sizeof v);
  return v;
}

#if SHMT_IS_COMPLEX
typedef __typeof__(_Generic((SHMT_REAL*)0, float*: (int32_t)0, double*: (int64_t)0)) FN(index)
    __attribute__((vector_size(SHMT_VECTOR_BYTES)));

/* i * v */
INLINE FN(vector) FN(times_i)(FN(vector) v) {
  FN(index) other;
  FN(vector) sign;

  for (int i = 0; i < (int)FN(lanes); i++) other[i] = i ^ 1, sign[i] = i % 2 ? 1 : -1;
  return __builtin_shuffle(v, other) * sign;
}
INLINE void FN(subtract_product)(FN(vector)* sum, T w, FN(vector) y) {
  sum[0] -= __real__ w * y;
  sum[1] -= __imag__ w * y;
}
INLINE FN(vector) FN(combined)(const FN(vector)* sum) { return sum[0] + FN(times_i)(sum[1]); }
INLINE FN(vector) FN(divided)(FN(vector) v, T by) {
  const T reciprocal = SHMT_CDIV((T)1, by);

  return __real__ reciprocal * v + __imag__ reciprocal * FN(times_i)(v);
}
#else
INLINE void FN(subtract_product)(FN(vector)* sum, T w, FN(vector) y) { *sum -= w * y; }
INLINE FN(vector) FN(combined)(const FN(vector)* sum) { return *sum; }
INLINE FN(vector) FN(divided)(FN(vector) v, T by) { return v / by; }
#endif

/* Solves rows `known` to `known + rows` of x; its rows begin to known are solved already. a: the first element of row
 * `known` of the matrix; pitch: numbers from one row of x to the next. */
INLINE void FN(block)(SHMT_REAL* x, const T* a, const shmt__trsm_panel_args* s, int64_t known, int64_t pitch,
                      const int rows, const int n_vectors) {
  const int64_t down = s->row_stride, right = s->column_stride;
  FN(vector) sum[ROWS][2][PARTS];
  const SHMT_REAL* from = x + s->begin * pitch;
  const T* factor = a + s->begin * right;

#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < n_vectors; v++) {
      if (PARTS > 1) sum[r][v][PARTS - 1] = (FN(vector)){0};
      sum[r][v][0] = FN(load_vector)(x + (known + r) * pitch + v * FN(lanes));
    }
  for (int64_t k = s->begin; k < known; k++, from += pitch, factor += right) {
    FN(vector) y[2];
#pragma GCC unroll 2
    for (int v = 0; v < n_vectors; v++) y[v] = FN(load_vector)(from + v * FN(lanes));
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const T w = factor[r * down];
#pragma GCC unroll 2
      for (int v = 0; v < n_vectors; v++) FN(subtract_product)(sum[r][v], w, y[v]);
    }
  }
  factor = a + known * right;
#pragma GCC unroll 8
  for (int q = 0; q < rows; q++) {
#pragma GCC unroll 2
    for (int v = 0; v < n_vectors; v++) {
      FN(vector) done = FN(combined)(sum[q][v]);
      if (!s->is_unit) done = FN(divided)(done, factor[q * (down + right)]);
      memcpy(x + (known + q) * pitch + v * FN(lanes), &done, sizeof done);
#pragma GCC unroll 8
      for (int r = q + 1; r < rows; r++) FN(subtract_product)(sum[r][v], factor[r * down + q * right], done);
    }
  }
}

INLINE void FN(rows)(SHMT_REAL* x, const T* a, const shmt__trsm_panel_args* s, int64_t known, int64_t pitch,
                     const int rows) {
  const int64_t n = (s->columns * PARTS + FN(lanes) - 1) / FN(lanes);
  int64_t v = 0;

  for (; v + 2 <= n; v += 2) FN(block)(x + v * FN(lanes), a, s, known, pitch, rows, 2);
  if (v < n) FN(block)(x + v * FN(lanes), a, s, known, pitch, rows, 1);
}

/* data: a panel and a lower triangular matrix; n: their rows; ctx: shmt__trsm_panel_args. The panel becomes the inverse
 * of the matrix times it. */
void SHMT_LOOP(trsm_panel)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__trsm_panel_args* s = ctx;
  const int64_t pitch = s->is_reversed ? -(int64_t)FN(width) : FN(width);
  SHMT_REAL* x = (SHMT_REAL*)(void*)data[0];
  const T* a = (const T*)(const void*)data[1];
  int64_t i = s->begin;

  (void)strides;
  for (; i + ROWS <= n; i += ROWS) FN(rows)(x, a + i * s->row_stride, s, i, pitch, ROWS);
  if (ROWS > 4 && i + 4 <= n) FN(rows)(x, a + i * s->row_stride, s, i, pitch, 4), i += 4;
  if (ROWS > 2 && i + 2 <= n) FN(rows)(x, a + i * s->row_stride, s, i, pitch, 2), i += 2;
  if (i < n) FN(rows)(x, a + i * s->row_stride, s, i, pitch, 1);
}
#undef INLINE
#undef ROWS
#undef PARTS
#pragma GCC pop_options
