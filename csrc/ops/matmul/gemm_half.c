/* ops/matmul/gemm_half.c -- products of 16-bit floats: chooses the kernel; without one, widens blocks for sgemm.
 *
 * Note [Widened blocks]
 * Widened copies of whole matrices would take three times the memory of the product. So a block of c is summed in
 * float32 over blocks of a and b that fit the second-level cache together. Every element of a and b is widened once for
 * each block of c that needs it, which is cheap compared with the multiplications. The blocks are on the stack: a
 * product of 16-bit floats allocates nothing but its result.
 */
#include "ops/matmul/gemm_half.h"

#include "base/sizes.h"
#include "iter/copy/copy.h"
#include "ops/matmul/blas_library.h"
#include "ops/matmul/gemm_amx.h"

enum {
  BLOCK_SIDE = 128,    /* rows and columns of a block of c */
  ROOM = 40 << 10,     /* floats of a block of c and of its blocks of a and b */
  VECTOR_LENGTH = 512, /* of a block of a in a matrix-vector product */
  VECTOR_ROWS = 16,    /* the same */
  MIN_NATIVE_ROWS = 4, /* smaller products of bfloat16 are widened, */
  MIN_NATIVE_COLUMNS = 16,
};
_Static_assert(ROOM >= BLOCK_SIDE * BLOCK_SIDE + 2 * 16 * BLOCK_SIDE,
               "a block of c must leave room for blocks of a and b");

/* Copy `from` to float32 at `to`, dense along the shorter of its strides. */
static shmt__matrix widen(shmt_dtype dtype, shmt__matrix from, float* to) {
  enum { ITEM = 2, WIDE_ITEM = sizeof(float) };
  const shmt__cast_loop_fn cast = shmt__cast_loop(SHMT_FLOAT32, dtype);
  const bool is_transposed = from.row_stride < from.column_stride && from.rows > 1;
  const shmt__matrix m = is_transposed ? shmt__matrix_transposed(from) : from;

  for (int64_t i = 0; i < m.rows; i++)
    cast((char*)(to + i * m.columns), WIDE_ITEM, m.data + i * m.row_stride * ITEM, m.column_stride * ITEM, m.columns);
  const shmt__matrix wide = {(char*)to, m.rows, m.columns, m.columns, 1};
  return is_transposed ? shmt__matrix_transposed(wide) : wide;
}

static void narrow(shmt_dtype dtype, const float* from, shmt__matrix to) {
  enum { ITEM = 2, WIDE_ITEM = sizeof(float) };
  const shmt__cast_loop_fn cast = shmt__cast_loop(dtype, SHMT_FLOAT32);

  for (int64_t i = 0; i < to.rows; i++)
    cast(to.data + i * to.row_stride * ITEM, ITEM, (const char*)(from + i * to.columns), WIDE_ITEM, to.columns);
}

static void multiply_block(float alpha, shmt__matrix a, shmt__matrix b, float beta, float* c) {
  const shmt__blas_table* t = shmt__blas();
  const bool a_transposed = a.column_stride != 1, b_transposed = b.column_stride != 1;
  const int m = (int)a.rows, n = (int)b.columns, k = (int)a.columns;

  t->sgemm(SHMT_BLAS_ROW_MAJOR, a_transposed ? SHMT_BLAS_TRANS : SHMT_BLAS_NO_TRANS,
           b_transposed ? SHMT_BLAS_TRANS : SHMT_BLAS_NO_TRANS, m, n, k, alpha, a.data,
           (int)(a_transposed ? a.column_stride : a.row_stride), b.data,
           (int)(b_transposed ? b.column_stride : b.row_stride), beta, c, n);
}

static void gemm_blocks(shmt_dtype dtype, float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c) {
  _Alignas(64) float room[ROOM];
  const int64_t rows = shmt__min_i64(BLOCK_SIDE, c.rows), columns = shmt__min_i64(BLOCK_SIDE, c.columns);
  const int64_t depth = (ROOM - rows * columns) / (rows + columns) / 16 * 16;
  float* left = room + rows * columns;
  float* right = left + rows * depth;

  for (int64_t i = 0; i < c.rows; i += rows) {
    for (int64_t j = 0; j < c.columns; j += columns) {
      const shmt__matrix to = shmt__matrix16_block(c, i, rows, j, columns);
      if (beta != 0) (void)widen(dtype, (shmt__matrix){to.data, to.rows, to.columns, to.row_stride, 1}, room);
      for (int64_t p = 0; p < a.columns; p += depth)
        multiply_block(alpha, widen(dtype, shmt__matrix16_block(a, i, rows, p, depth), left),
                       widen(dtype, shmt__matrix16_block(b, p, depth, j, columns), right), p == 0 ? beta : 1, room);
      narrow(dtype, room, to);
    }
  }
}

/* y = beta * y + alpha * a @ x: a is read once, some rows (or columns, where a is transposed) at a time. */
static void gemv(shmt_dtype dtype, float alpha, shmt__matrix a, shmt__matrix x, float beta, shmt__matrix y) {
  enum { ITEM = 2, WIDE_ITEM = sizeof(float) };
  _Alignas(64) float block_of_a[VECTOR_ROWS * VECTOR_LENGTH], x_block[VECTOR_LENGTH], sums[VECTOR_LENGTH];
  const shmt__cast_loop_fn widen_loop = shmt__cast_loop(SHMT_FLOAT32, dtype);
  const shmt__blas_table* t = shmt__blas();
  const bool is_transposed = a.row_stride < a.column_stride && a.rows > 1;
  const int64_t rows = is_transposed ? VECTOR_LENGTH : VECTOR_ROWS, depth = is_transposed ? VECTOR_ROWS : VECTOR_LENGTH;

  for (int64_t i = 0; i < a.rows; i += rows) {
    const int64_t n = shmt__min_i64(rows, a.rows - i);
    char* to = y.data + i * y.row_stride * ITEM;
    if (beta != 0) widen_loop((char*)sums, WIDE_ITEM, to, y.row_stride * ITEM, n);
    for (int64_t p = 0; p < a.columns; p += depth) {
      const shmt__matrix block = widen(dtype, shmt__matrix16_block(a, i, rows, p, depth), block_of_a);
      widen_loop((char*)x_block, WIDE_ITEM, x.data + p * x.row_stride * ITEM, x.row_stride * ITEM, block.columns);
      t->sgemv(SHMT_BLAS_ROW_MAJOR, is_transposed ? SHMT_BLAS_TRANS : SHMT_BLAS_NO_TRANS,
               (int)(is_transposed ? block.columns : n), (int)(is_transposed ? n : block.columns), alpha, block.data,
               (int)(is_transposed ? n : block.columns), x_block, 1, p == 0 ? beta : 1, sums, 1);
    }
    shmt__cast_loop(dtype, SHMT_FLOAT32)(to, y.row_stride * ITEM, (const char*)sums, WIDE_ITEM, n);
  }
}

bool shmt__gemm_half(shmt_dtype dtype, float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c) {
  if (dtype == SHMT_BFLOAT16 && c.rows >= MIN_NATIVE_ROWS && c.columns >= MIN_NATIVE_COLUMNS) {
    if (shmt__gemm_has_amx()) {
      shmt__gemm_amx(alpha, a, b, beta, c, false);
      return true;
    }
    if (shmt__gemm_has_bfloat16()) return shmt__gemm_bfloat16(alpha, a, b, beta, c);
  }
  if (c.rows > 1 && c.columns > 1 && shmt__gemm_has_widened()) {
    shmt__gemm_widened(dtype, alpha, a, b, beta, c);
    return true;
  }
  if (!shmt__blas()->loaded) return false;
  if (c.columns == 1)
    gemv(dtype, alpha, a, b, beta, c);
  else if (c.rows == 1)
    gemv(dtype, alpha, shmt__matrix_transposed(b), shmt__matrix_transposed(a), beta, shmt__matrix_transposed(c));
  else
    gemm_blocks(dtype, alpha, a, b, beta, c);
  return true;
}
