/* ops/linalg/solve.c -- solves by triangular, Cholesky, LU and LDL factors; inverses. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "kernels/linalg/trsm.h"
#include "ops/check.h"
#include "ops/linalg/lapack.h"
#include "ops/linalg/trsm.h"

#include <inttypes.h>
#include <string.h>

/* How many bytes of columns to swap are worth a thread of their own. */
#define MIN_PIECE_BYTES 1e5

static shmt_status check_same_dtype(const char* name, const shmt_tensor* a, const shmt_tensor* b) {
  SHMT_REQUIRE(a->dtype == b->dtype, SHMT_E_RUNTIME, "%s: Expected A and B to have the same dtype, but found A of "
               "type %s and B of type %s instead", name, shmt__dtype_title(a->dtype), shmt__dtype_title(b->dtype));
  return SHMT_OK;
}

static shmt_status check_rows(const char* name, const shmt_tensor* a, const shmt_tensor* b) {
  SHMT_REQUIRE(a->sizes[a->n_dims - 1] == b->sizes[b->n_dims - 2], SHMT_E_RUNTIME,
               "%s: Incompatible shapes of A and B for the equation AX = B (%" PRId64 "x%" PRId64 " and %" PRId64
               "x%" PRId64 ")", name, a->sizes[a->n_dims - 2], a->sizes[a->n_dims - 1], b->sizes[b->n_dims - 2],
               b->sizes[b->n_dims - 1]);
  return SHMT_OK;
}

/* The sizes of b, with the batch dims of a and b broadcast. */
static shmt_status broadcast_batch_sizes(const shmt_tensor* b, const shmt_tensor* a, int64_t* buf, shmt_ints* out) {
  int64_t n;

  SHMT_TRY(shmt__broadcast_sizes((shmt_ints){b->sizes, b->n_dims - 2}, (shmt_ints){a->sizes, a->n_dims - 2}, buf, &n));
  SHMT_REQUIRE(n + 2 <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "linear algebra: more than %d dimensions", SHMT_MAX_DIMS);
  memcpy(buf + n, b->sizes + b->n_dims - 2, 2 * sizeof *buf);
  *out = (shmt_ints){buf, n + 2};
  return SHMT_OK;
}

/* --- trsm over a batch ---------------------------------------------------------------------------- */

typedef struct solve_job {
  shmt__trsm_args s; /* for the first matrix; without its matrices until solve_by_factors() sets them */
  bool is_transposed[2];    /* solve with the transpose of that factor */
  shmt__matrices a, b, x;
  int64_t item;
} solve_job;

static char* matrix_of(const shmt__matrices* m, int64_t i) { return m->first.data + i * m->step; }

static shmt__matrix columns_of(const shmt__matrices* m, int64_t i, int64_t begin, int64_t end, int64_t item) {
  shmt__matrix columns = m->first;

  columns.data = matrix_of(m, i) + begin * columns.column_stride * item;
  columns.columns = end - begin;
  return columns;
}

static shmt__trsm_args trsm_args_of(const solve_job* job, int64_t i) {
  shmt__trsm_args s = job->s;

  for (int k = 0; k < s.n; k++) s.triangular[k].a.data += i * job->a.step;
  if (s.pivots) s.pivots += i * job->a.first.rows;
  return s;
}

static int run_solve(void* ctx, int64_t i, int begin, int end) {
  const solve_job* job = ctx;
  const shmt__trsm_args s = trsm_args_of(job, i);

  shmt__trsm(&s, columns_of(&job->b, i, begin, end, job->item), columns_of(&job->x, i, begin, end, job->item), 0);
  return 0;
}

/* *out = the solution X of TX = b (XT = b when not left), column-major. T is the product of the triangular matrices in
 * factor, with pivots. New reference. */
static shmt_status solve_by_factors(solve_job* job, shmt_tensor* factor, shmt_tensor* b, bool left, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) read_factor = NULL;
  SHMT_AUTO(shmt_tensor) read_b = NULL;
  int64_t buf[SHMT_MAX_DIMS], factor_buf[SHMT_MAX_DIMS];
  shmt_ints sizes;
  const int64_t n = factor->sizes[factor->n_dims - 1];
  const bool in_place = n > SHMT_TRSM_PANEL_ROWS;

  SHMT_TRY(shmt__check_has_data(factor, b));
  SHMT_TRY(broadcast_batch_sizes(b, factor, buf, &sizes));
  SHMT_TRY(in_place ? shmt__batch_copy(b, sizes, &x) : shmt__batch_empty(sizes, b->dtype, b->device, &x));
  if (!shmt__tensor_is_meta(x) && x->numel > 0) {
    const double columns = (double)x->sizes[x->n_dims - (left ? 1 : 2)];
    job->s.dtype = x->dtype;
    job->item = shmt__tensor_item_bytes(x);
    SHMT_TRY(shmt__batch_matrices(x, &job->x));
    if (in_place)
      job->b = job->x;
    else
      SHMT_TRY(shmt__batch_view(b, sizes, false, &read_b, &job->b));
    SHMT_TRY(shmt__batch_view(factor, shmt__batch_sizes(x, 2, n, n, factor_buf), in_place, &read_factor, &job->a));
    if (!left) {
      job->b.first = shmt__matrix_transposed(job->b.first);
      job->x.first = shmt__matrix_transposed(job->x.first);
    }
    for (int k = 0; k < job->s.n; k++) {
      shmt__triangular* t = &job->s.triangular[k];
      t->a = job->a.first;
      t->is_conjugated = t->is_conjugated && shmt__is_complex(x->dtype);
      if (job->is_transposed[k] == left) *t = shmt__triangular_transposed(*t);
    }
    SHMT_TRY(shmt__batch_run_columns(x->numel / (int64_t)(columns * (double)n), (int)columns,
                                     0.5 * job->s.n * (double)n * (double)n * columns, run_solve, job));
  }
  *out = SHMT_TAKE(x);
  return SHMT_OK;
}

/* --- triangular matrices -------------------------------------------------------------------------- */

shmt_status shmt__linalg_solve_triangular(shmt_tensor* self, shmt_tensor* b, bool upper, bool left, bool unitriangular,
                                          shmt_tensor** out) {
  solve_job job = {.s = {.n = 1, .triangular = {{.is_lower = !upper, .is_unit = unitriangular}}}};
  const char* name = "linalg.solve_triangular";

  SHMT_TRY(check_same_dtype(name, self, b));
  SHMT_TRY(shmt__check_square(name, "A", self));
  SHMT_TRY(shmt__check_matrix(name, "B", b));
  const int64_t n = self->sizes[self->n_dims - 1];
  SHMT_REQUIRE(b->sizes[b->n_dims - (left ? 2 : 1)] == n, SHMT_E_RUNTIME,
               "%s: Incompatible shapes of A and B for the equation %s (%" PRId64 "x%" PRId64 " and %" PRId64
               "x%" PRId64 ")",
               name, left ? "AX = B" : "XA = B", n, n, b->sizes[b->n_dims - 2], b->sizes[b->n_dims - 1]);
  SHMT_TRY(shmt__check_lapack_routine("triangular_solve_cpu", self));
  return solve_by_factors(&job, self, b, left, out);
}

/* cloned_coefficient is a column-major copy, with one matrix for each matrix of the solution. */
shmt_status shmt__triangular_solve(shmt_tensor* self, shmt_tensor* a, bool upper, bool transpose, bool unitriangular,
                                   shmt_tensor** solution, shmt_tensor** cloned_coefficient) {
  SHMT_AUTO(shmt_tensor) transposed = NULL;
  SHMT_AUTO(shmt_tensor) expanded = NULL;
  SHMT_AUTO(shmt_tensor) copy = NULL;
  int64_t buf[SHMT_MAX_DIMS];

  SHMT_TRY(shmt_op_mT(a, &transposed));
  SHMT_TRY(shmt_op_linalg_solve_triangular(transpose ? transposed : a, self, transpose ? !upper : upper, true,
                                           unitriangular, solution));
  const int64_t n = a->sizes[a->n_dims - 1];
  SHMT_TRY(shmt_op_expand(transposed, shmt__batch_sizes(*solution, 2, n, n, buf), false, &expanded));
  SHMT_TRY(shmt_op_clone(expanded, SHMT_CONTIGUOUS_FORMAT, &copy));
  return shmt_op_mT(copy, cloned_coefficient);
}

/* --- Cholesky ------------------------------------------------------------------------------------- */

shmt_status shmt__cholesky_solve(shmt_tensor* self, shmt_tensor* input2, bool upper, shmt_tensor** out) {
  /* L L^H or U^H U, of which one factor is given. */
  const shmt__triangular factor = {.is_lower = !upper}, adjoint = {.is_lower = !upper, .is_conjugated = true};
  solve_job job = {.s = {.n = 2, .triangular = {upper ? adjoint : factor, upper ? factor : adjoint}},
                   .is_transposed = {upper, !upper}};

  SHMT_REQUIRE(self->n_dims >= 2, SHMT_E_RUNTIME, "b should have at least 2 dimensions, but has %d dimensions instead",
               self->n_dims);
  SHMT_REQUIRE(input2->n_dims >= 2, SHMT_E_RUNTIME,
               "u should have at least 2 dimensions, but has %d dimensions instead", input2->n_dims);
  SHMT_TRY(shmt__check_square("cholesky_solve", "A", input2));
  SHMT_TRY(check_rows("cholesky_solve", input2, self));
  SHMT_TRY(check_same_dtype("cholesky_solve", input2, self));
  SHMT_TRY(shmt__check_lapack_routine("cholesky_solve_cpu", self));
  return solve_by_factors(&job, input2, self, true, out);
}

/* --- LU ------------------------------------------------------------------------------------------- */

/* Solves AX = B by the LU factors of A, or of its transpose or conjugate when asked. */
static shmt_status solve_by_lu(shmt_tensor* lu, shmt_tensor* pivots, bool is_transposed, bool is_conjugated,
                               shmt_tensor* b, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) expanded = NULL;
  const shmt__triangular lower = {.is_lower = true, .is_unit = true, .is_conjugated = is_conjugated};
  const shmt__triangular upper = {.is_conjugated = is_conjugated};
  solve_job job = {.s = {.n = 2,
                         .triangular = {is_transposed ? upper : lower, is_transposed ? lower : upper},
                         .pivots_last = is_transposed},
                   .is_transposed = {is_transposed, is_transposed}};
  int64_t buf[SHMT_MAX_DIMS];
  const int64_t n = lu->sizes[lu->n_dims - 1];
  shmt_ints sizes;

  SHMT_TRY(shmt__check_has_data(pivots, b));
  SHMT_TRY(broadcast_batch_sizes(b, lu, buf, &sizes));
  if (!shmt__tensor_is_meta(b) && !shmt__tensor_is_meta(pivots)) {
    buf[sizes.len - 2] = n;
    sizes.len--;
    SHMT_TRY(shmt__own_pivots("linalg.lu_solve", pivots, sizes, n, &expanded));
    job.s.pivots = shmt__tensor_data(expanded);
  }
  return solve_by_factors(&job, lu, b, true, out);
}

/* t with the last two dims swapped; shares memory. */
static shmt_status transposed(shmt_tensor* t, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  const int n = t->n_dims;

  memcpy(sizes, t->sizes, (size_t)n * sizeof *sizes);
  memcpy(strides, t->strides, (size_t)n * sizeof *strides);
  sizes[n - 1] = t->sizes[n - 2], sizes[n - 2] = t->sizes[n - 1];
  strides[n - 1] = t->strides[n - 2], strides[n - 2] = t->strides[n - 1];
  return shmt__tensor_alias(t, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, t->offset, out);
}

shmt_status shmt__linalg_lu_solve(shmt_tensor* lu, shmt_tensor* pivots, shmt_tensor* b, bool left, bool adjoint,
                                  shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) right_side = NULL;
  SHMT_AUTO(shmt_tensor) x = NULL;
  const char* name = "torch.linalg.lu_solve";

  SHMT_TRY(shmt__check_float_dtype(name, lu));
  SHMT_REQUIRE(pivots->dtype == SHMT_INT32, SHMT_E_RUNTIME, "linalg.lu_solve: pivots should be a Tensor of scalar type "
               "torch.int32, but got %s", shmt__dtype_title(pivots->dtype));
  SHMT_REQUIRE(lu->dtype == b->dtype, SHMT_E_RUNTIME, "linalg.lu_solve: Expected LU and B to have the same dtype, but "
               "found LU of type %s and B of type %s instead", shmt__dtype_title(lu->dtype),
               shmt__dtype_title(b->dtype));
  SHMT_TRY(shmt__check_square(name, "LU", lu));
  SHMT_TRY(shmt__check_matrix(name, "B", b));
  const int64_t n = lu->sizes[lu->n_dims - 1];
  SHMT_REQUIRE(b->sizes[b->n_dims - (left ? 2 : 1)] == n, SHMT_E_RUNTIME,
               "linalg.lu_solve: Incompatible shapes of A and B for the equation %s (%" PRId64 "x%" PRId64 " and %"
               PRId64 "x%" PRId64 ")", left ? "AX = B" : "XA = B", n, n, b->sizes[b->n_dims - 2],
               b->sizes[b->n_dims - 1]);
  SHMT_REQUIRE(pivots->n_dims == lu->n_dims - 1 && pivots->sizes[pivots->n_dims - 1] == n, SHMT_E_RUNTIME,
               "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix, but got "
               "pivots of shape %s and LU of shape %s", SHMT_SHAPE_TEXT(pivots), SHMT_SHAPE_TEXT(lu));
  for (int d = 0; d < lu->n_dims - 2; d++)
    SHMT_REQUIRE(pivots->sizes[d] == lu->sizes[d], SHMT_E_RUNTIME, "linalg.lu_solve: Expected LU.shape[:-1] and "
                 "pivots.shape to be the same, but got pivots with shape %s instead", SHMT_SHAPE_TEXT(pivots));
  if (b->numel > 0) SHMT_TRY(shmt__check_lapack_work("linalg.lu_solve_cpu", lu));
  /* XA = B is A^T X^T = B^T. */
  if (left) return solve_by_lu(lu, pivots, adjoint, adjoint, b, out);
  SHMT_TRY(transposed(b, &right_side));
  SHMT_TRY(solve_by_lu(lu, pivots, !adjoint, adjoint, right_side, &x));
  return transposed(x, out);
}

/* Columns begin to end of U^-1 L^-1. The solution begins as the identity, whose columns are 0 above their one: that
 * saves multiplications in the solve with L. So P is not applied before, but swaps columns at the end. */
static int run_inverse(void* ctx, int64_t i, int begin, int end) {
  const solve_job* job = ctx;
  const shmt__trsm_args s = trsm_args_of(job, i);
  const int n = (int)job->x.first.rows;
  const int width = n > SHMT_TRSM_PANEL_ROWS ? SHMT_TRSM_PANEL_ROWS : (int)(SHMT_TRSM_PANEL_BYTES / job->item);
  char one[16];

  shmt__scalar_store_unsafe(shmt__scalar_int(1), s.dtype, one);
  for (int j = begin; j < end; j += width) {
    const shmt__matrix x = columns_of(&job->x, i, j, end - j < width ? end : j + width, job->item);
    memset(x.data, 0, (size_t)(x.columns * n * job->item));
    for (int64_t k = 0; k < x.columns; k++) memcpy(x.data + (k * n + j + k) * job->item, one, (size_t)job->item);
    shmt__trsm(&s, x, x, j);
  }
  return 0;
}

typedef struct pivot_job {
  const solve_job* job;
  const int* pivots;
} pivot_job;

static void swap_columns_piece(void* ctx, int64_t begin, int64_t end) {
  const pivot_job* e = ctx;
  const shmt__matrices* x = &e->job->x;

  for (int64_t i = begin; i < end; i++) {
    shmt__matrix inverse = x->first;
    inverse.data = matrix_of(x, i);
    shmt__swap_columns(inverse, e->pivots + i * inverse.columns, e->job->item);
  }
}

/* A^-1 = U^-1 L^-1 P. */
shmt_status shmt__linalg_inv_ex(shmt_tensor* a, bool check_errors, shmt_tensor** out, shmt_tensor** out_info) {
  SHMT_AUTO(shmt_tensor) lu = NULL;
  SHMT_AUTO(shmt_tensor) pivots = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  SHMT_AUTO(shmt_tensor) x = NULL;
  solve_job job = {.s = {.dtype = a->dtype, .n = 2, .triangular = {{.is_lower = true, .is_unit = true}}}};

  SHMT_TRY(shmt__check_square("linalg.inv", "A", a));
  SHMT_TRY(shmt__check_lapack_dtype("linalg.inv", a));
  SHMT_TRY(shmt_op_linalg_lu_factor_ex(a, true, false, &lu, &pivots, &info));
  if (check_errors) SHMT_TRY(shmt_op__linalg_check(info, "linalg.inv_ex"));
  SHMT_TRY(shmt__batch_empty(shmt__tensor_sizes(a), a->dtype, a->device, &x));
  if (!shmt__tensor_is_meta(x) && x->numel > 0) {
    const double n = (double)a->sizes[a->n_dims - 1];
    const int64_t matrices = info->numel;
    const pivot_job pivoting = {&job, shmt__tensor_data(pivots)};
    job.item = shmt__tensor_item_bytes(x);
    SHMT_TRY(shmt__batch_matrices(x, &job.x));
    SHMT_TRY(shmt__batch_matrices(lu, &job.a));
    job.s.triangular[0].a = job.s.triangular[1].a = job.a.first;
    SHMT_TRY(shmt__batch_run_columns(matrices, (int)n, 0.7 * n * n * n, run_inverse, &job));
    shmt__parallel_for(matrices, (int64_t)(MIN_PIECE_BYTES / (n * n * (double)job.item)) + 1, swap_columns_piece,
                       (void*)(uintptr_t)&pivoting);
  }
  *out = SHMT_TAKE(x);
  *out_info = SHMT_TAKE(info);
  return SHMT_OK;
}

/* --- LDL ------------------------------------------------------------------------------------------ */

typedef struct ldl_job {
  void* routine;
  shmt__batch a, b;
  const int* pivots;
} ldl_job;

static int run_sytrs(void* ctx, int64_t i) {
  const ldl_job* job = ctx;

  return ((shmt__lapack_ciipippi)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, 'L', job->a.rows, job->b.columns,
                                               job->a.data + i * job->a.step, job->a.ld, job->pivots + i * job->a.rows,
                                               job->b.data + i * job->b.step, job->b.ld);
}

/* Checks that negative pivots stand in pairs. LAPACK takes two neighbours with negative pivots for the rows of one
 * block, without looking whether there are two. */
static shmt_status check_ldl_pivots(const shmt_tensor* pivots, int64_t n) {
  const int* data = shmt__tensor_data(pivots);
  bool is_second = false; /* of a block of two */

  for (int64_t i = 0; i < pivots->numel; i++) {
    const bool is_last = (i + 1) % n == 0;
    SHMT_REQUIRE(data[i] != 0 && data[i] <= n && data[i] >= -n, SHMT_E_RUNTIME,
                 "torch.linalg.ldl_solve: pivots must be positions of rows from 1 to %" PRId64
                 " or their negatives, but got %d", n, data[i]);
    SHMT_REQUIRE(is_second ? data[i] < 0 : data[i] > 0 || !is_last, SHMT_E_RUNTIME,
                 "torch.linalg.ldl_solve: negative pivots must stand in pairs, but got %d alone at %" PRId64,
                 data[is_second ? i - 1 : i], (is_second ? i - 1 : i) % n);
    is_second = data[i] < 0 && !is_second;
  }
  return SHMT_OK;
}

shmt_status shmt__linalg_ldl_solve(shmt_tensor* ld, shmt_tensor* pivots, shmt_tensor* b, bool hermitian,
                                   shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) factors = NULL;
  SHMT_AUTO(shmt_tensor) expanded = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  const char* name = "torch.linalg.ldl_solve";
  int64_t buf[SHMT_MAX_DIMS];
  shmt_ints sizes;

  SHMT_TRY(shmt__check_square(name, "LD", ld));
  SHMT_TRY(shmt__check_float_dtype(name, ld));
  SHMT_REQUIRE(b->n_dims >= 2, SHMT_E_RUNTIME, "%s: Expected B to have at least 2 dimensions, but it has %d dimensions "
               "instead", name, b->n_dims);
  const int64_t n = ld->sizes[ld->n_dims - 1];
  SHMT_REQUIRE(pivots->n_dims == ld->n_dims - 1 && pivots->sizes[pivots->n_dims - 1] == n, SHMT_E_RUNTIME,
               "%s: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape %s instead", name,
               SHMT_SHAPE_TEXT(pivots));
  SHMT_REQUIRE(pivots->dtype == SHMT_INT32, SHMT_E_RUNTIME, "%s: Expected pivots to be of torch.int32, but got %s",
               name, shmt__dtype_title(pivots->dtype));
  SHMT_REQUIRE(ld->dtype == b->dtype, SHMT_E_RUNTIME, "%s: LD dtype %s does not match b dtype %s", name,
               shmt__dtype_title(ld->dtype), shmt__dtype_title(b->dtype));
  SHMT_TRY(check_rows(name, ld, b));
  SHMT_TRY(shmt__check_has_data(ld, b));
  SHMT_TRY(shmt__check_has_data(pivots, b));
  if (b->numel > 0) SHMT_TRY(shmt__check_lapack_work("ldl_solve_kernel_cpu", ld));
  SHMT_TRY(broadcast_batch_sizes(b, ld, buf, &sizes));
  SHMT_TRY(shmt__batch_copy(b, sizes, &x));
  SHMT_TRY(shmt__batch_read(ld, shmt__batch_sizes(x, 2, n, n, buf), &factors));
  if (!shmt__tensor_is_meta(x) && x->numel > 0) {
    ldl_job job = {0};
    SHMT_TRY(shmt__tensor_empty(shmt__batch_sizes(x, 1, n, 0, buf), SHMT_INT32, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT,
                                &expanded));
    SHMT_TRY(shmt__tensor_copy(expanded, pivots));
    SHMT_TRY(check_ldl_pivots(expanded, n));
    SHMT_TRY(shmt__tensor_zeros(shmt__batch_sizes(x, 0, 0, 0, buf), SHMT_INT32, SHMT_CPU, &info));
    SHMT_TRY(shmt__batch_of(factors, &job.a));
    SHMT_TRY(shmt__batch_of(x, &job.b));
    SHMT_TRY(shmt__lapack_find(hermitian ? SHMT_LAPACK_hetrs : SHMT_LAPACK_sytrs, ld->dtype, &job.routine));
    job.pivots = shmt__tensor_data(expanded);
    SHMT_TRY(shmt__batch_run(job.b.n, (double)n * (double)n * job.b.columns, run_sytrs, &job, shmt__tensor_data(info)));
  }
  *out = SHMT_TAKE(x);
  return SHMT_OK;
}
