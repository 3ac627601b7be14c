/* ops/linalg/lu.c -- LU factors with row pivoting.
 *
 * Note [Recursive LU]
 * The left half of the columns is factored. The same row swaps are applied to the right half, its upper part is solved
 * with the left half's lower triangular factor, and its lower part, minus the product of both, is factored in turn. So
 * nearly all the work is products of matrices, whatever the number of columns.
 */
#include "ops/linalg/lu.h"

#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/threads.h"
#include "kernels/linalg/lu.h"
#include "ops/linalg/trsm.h"

enum { LEAF = 16 }; /* so many columns are factored by the kernel, one by one */

/* A piece of fewer multiplications than this costs more to hand to another thread than to do. */
#define MIN_PIECE_OPS 5e5

typedef struct right_job {
  shmt_dtype dtype;
  int64_t item;
  shmt__matrix left, right; /* all rows of both halves */
  const int* pivots;
} right_job;

static shmt__matrix part_of(shmt__matrix a, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t item) {
  return (shmt__matrix){a.data + (row * a.row_stride + column * a.column_stride) * item, rows, columns, a.row_stride,
                        a.column_stride};
}

/* Swaps rows of some columns of the right half, and solves them with the left half's lower triangular factor. */
static void solve_piece(void* ctx, int64_t begin, int64_t end) {
  const right_job* job = ctx;
  const int64_t n = job->left.columns, item = job->item;
  const shmt__trsm_args s = {
      .dtype = job->dtype,
      .n = 1,
      .triangular = {{.a = part_of(job->left, 0, n, 0, n, item), .is_lower = true, .is_unit = true}},
  };
  const shmt__matrix columns = part_of(job->right, 0, job->right.rows, begin, end - begin, item);
  const shmt__matrix top = part_of(columns, 0, n, 0, end - begin, item);

  shmt__swap_rows(columns, job->pivots, n, false, item);
  shmt__trsm(&s, top, top, 0);
}

int shmt__lu(shmt_dtype dtype, shmt__matrix a, int* pivots) {
  const int64_t item = shmt__dtype_size[dtype], rank = a.rows < a.columns ? a.rows : a.columns;
  const int64_t half = rank > LEAF ? (rank / 2 + LEAF - 1) / LEAF * LEAF : rank, rest = a.columns - half;
  int info = 0;

  if (a.columns <= LEAF) {
    const shmt__lu_args shape = {a.columns, a.column_stride, &info};
    char* data[2] = {a.data, (char*)pivots};
    shmt__loops[SHMT_LOOP_lu][dtype](data, NULL, a.rows, &shape);
    return info;
  }
  right_job job = {dtype, item, part_of(a, 0, a.rows, 0, half, item), part_of(a, 0, a.rows, half, rest, item), pivots};
  info = shmt__lu(dtype, job.left, pivots);
  shmt__parallel_for(rest, (int64_t)(MIN_PIECE_OPS / (0.5 * (double)half * (double)half)) + 1, solve_piece, &job);
  if (a.rows > half) {
    const int64_t below = a.rows - half;
    const shmt__matrix corner = part_of(a, half, below, half, rest, item);
    const shmt__matrix beside = part_of(a, half, below, 0, half, item);
    shmt__gemm(dtype, shmt__scalar_int(-1), beside, part_of(a, 0, half, half, rest, item), shmt__scalar_int(1), corner);
    const int later = shmt__lu(dtype, corner, pivots + half);
    if (info == 0 && later > 0) info = later + (int)half;
    shmt__swap_rows(beside, pivots + half, rank - half, false, item);
    for (int64_t i = half; i < rank; i++) pivots[i] += (int)half;
  }
  return info;
}
