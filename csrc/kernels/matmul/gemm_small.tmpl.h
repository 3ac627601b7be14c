/* kernels/matmul/gemm_small.tmpl.h -- products of many small matrices, one in each lane of a vector. One dtype.
 *
 * A matrix of a few elements does not fill a vector, and its product takes less time than a call of a BLAS.
 */
#include "kernels/template.h"
#include "kernels/matmul/gemm_small.h"

enum { FN(lanes) = 16, FN(most) = SHMT_GEMM_SMALL_SIDE * SHMT_GEMM_SMALL_SIDE };
typedef T FN(matrices)[FN(most)][FN(lanes)];

/* Load `many` matrices, `step` bytes apart, into lanes. */
static inline void FN(take_matrices)(T (*to)[FN(lanes)], const char* from, int64_t step, int64_t many, int64_t rows,
                                     int64_t columns, int64_t row, int64_t column) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      const char* const at = from + (i * row + j * column) * (int64_t)sizeof(T);
      T* const lane = to[i * columns + j];
      for (int64_t r = 0; r < many; r++) lane[r] = SHMT_AT(const T, at, step, r);
    }
}

/* data: c, a, b; strides: bytes from matrix to matrix; n products; ctx: shmt__gemm_small_args. */
void SHMT_LOOP(gemm_small)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__gemm_small_args* s = ctx;
  const T alpha = *(const T*)s->alpha, beta = *(const T*)s->beta;
  FN(matrices) a = {{0}}, b = {{0}}; /* unused lanes are multiplied, too */

  for (int64_t first = 0, many; first < n; first += many) {
    many = n - first < FN(lanes) ? n - first : FN(lanes);
    FN(take_matrices)(a, data[1] + first * strides[1], strides[1], many, s->rows, s->terms, s->a_row, s->a_column);
    FN(take_matrices)(b, data[2] + first * strides[2], strides[2], many, s->terms, s->columns, s->b_row, s->b_column);
    for (int64_t i = 0; i < s->rows; i++)
      for (int64_t j = 0; j < s->columns; j++) {
        char* const to = data[0] + first * strides[0] + (i * s->c_row + j * s->c_column) * (int64_t)sizeof(T);
        T sum[FN(lanes)] = {0};
        for (int64_t k = 0; k < s->terms; k++)
          for (int r = 0; r < FN(lanes); r++) sum[r] += a[i * s->terms + k][r] * b[k * s->columns + j][r];
        for (int64_t r = 0; r < many; r++) {
          T* const cell = &SHMT_AT(T, to, strides[0], r);
          *cell = s->beta_is_zero ? alpha * sum[r] : alpha * sum[r] + beta * *cell;
        }
      }
  }
}
