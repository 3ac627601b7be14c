/* ops/linalg_factor.c -- triangular factors of square matrices: Cholesky, LU, LDL. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy.h"
#include "ops/check.h"
#include "ops/lapack.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What the factorisations share: matrices that are overwritten, their pivots and infos. */
typedef struct factor_job {
  void* routine;
  shmt__batch a;
  char uplo;
  int* pivots;  /* rank of them for each matrix */
  int rank;
  int64_t item;
  shmt_dtype dtype;
  shmt__batch b; /* right-hand sides, for the routines that solve */
  char trans;
} factor_job;

static char* matrix(const shmt__batch* b, int64_t i) { return b->data + i * b->step; }

static shmt_status infos_for(const shmt_tensor* t, shmt_tensor** out) {
  int64_t buf[SHMT_MAX_DIMS];

  return shmt__tensor_zeros(shmt__batch_sizes(t, 0, 0, 0, buf), SHMT_INT32, t->device, out);
}

static double cube(const shmt__batch* b) { return (double)b->rows * b->rows * b->columns; }

/* Multiplications of a solve with two triangles. */
static double work_of(const factor_job* job) { return (double)job->a.rows * job->a.rows * job->b.columns; }

/* --- Cholesky --------------------------------------------------------------------------------- */

static void clear_triangle(char* a, int n, bool upper, int64_t item) {
  for (int64_t j = 0; j < n; j++) {
    if (upper)
      memset(a + (j * n + j + 1) * item, 0, (size_t)(n - j - 1) * (size_t)item);
    else
      memset(a + j * n * item, 0, (size_t)j * (size_t)item);
  }
}

/* The order of the first minor that is no number, which not every LAPACK looks for; 0: there is none. */
static int first_nan(const factor_job* job, const char* a) {
  double z[2];

  for (int k = 0; k < job->a.rows; k++) {
    shmt__scalar_to_complex(shmt__scalar_load(a + ((int64_t)k * job->a.ld + k) * job->item, job->dtype), z);
    if (isnan(z[0])) return k + 1;
  }
  return 0;
}

static int run_potrf(void* ctx, int64_t i) {
  const factor_job* job = ctx;
  char* a = matrix(&job->a, i);
  const int info = ((shmt__lapack_cipi)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, job->uplo, job->a.rows, a, job->a.ld);

  clear_triangle(a, job->a.rows, job->uplo == 'U', job->item);
  return info ? info : first_nan(job, a);
}

shmt_status shmt__linalg_cholesky_ex(shmt_tensor* self, bool upper, bool check_errors, shmt_tensor** out_l,
                                     shmt_tensor** out_info) {
  SHMT_AUTO(shmt_tensor) l = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;

  SHMT_TRY(shmt__check_square("linalg.cholesky", "A", self));
  SHMT_TRY(shmt__check_lapack_dtype("linalg.cholesky", self));
  SHMT_TRY(infos_for(self, &info));
  SHMT_TRY(shmt__batch_copy(self, shmt__tensor_sizes(self), &l));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    factor_job job = {.uplo = upper ? 'U' : 'L', .item = shmt__tensor_item_bytes(self), .dtype = self->dtype};
    SHMT_TRY(shmt__batch_of(l, &job.a));
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_potrf, self->dtype, &job.routine));
    SHMT_TRY(shmt__batch_run(job.a.n, cube(&job.a), run_potrf, &job, shmt__tensor_data(info)));
    if (check_errors)
      SHMT_TRY(shmt__check_infos("linalg.cholesky_ex", shmt__tensor_data(info), info->numel, self->n_dims > 2));
  }
  *out_l = SHMT_TAKE(l);
  *out_info = SHMT_TAKE(info);
  return SHMT_OK;
}

/* self and A with equal batch dims, the first to be overwritten; factor NULL: not wanted. */
static shmt_status broadcast_pair(shmt_tensor* self, shmt_tensor* a, shmt_tensor** x, shmt_tensor** factor) {
  int64_t batch[SHMT_MAX_DIMS], sizes[SHMT_MAX_DIMS], n;

  SHMT_TRY(shmt__broadcast_sizes((shmt_ints){self->sizes, self->n_dims - 2}, (shmt_ints){a->sizes, a->n_dims - 2},
                                 batch, &n));
  SHMT_REQUIRE(n + 2 <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "linear algebra: more than %d dimensions", SHMT_MAX_DIMS);
  memcpy(sizes, batch, (size_t)n * sizeof *sizes);
  memcpy(sizes + n, self->sizes + self->n_dims - 2, 2 * sizeof *sizes);
  SHMT_TRY(shmt__batch_copy(self, (shmt_ints){sizes, n + 2}, x));
  if (!factor) return SHMT_OK;
  memcpy(sizes + n, a->sizes + a->n_dims - 2, 2 * sizeof *sizes);
  return shmt__batch_read(a, (shmt_ints){sizes, n + 2}, factor);
}

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

/* Columns of the right-hand sides. */
static char* columns_of(const factor_job* job, int64_t i, int begin) {
  return matrix(&job->b, i) + (int64_t)begin * job->b.ld * job->item;
}

static int run_potrs(void* ctx, int64_t i, int begin, int end) {
  const factor_job* job = ctx;

  return ((shmt__lapack_ciipipi)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, job->uplo, job->a.rows, end - begin,
                                              matrix(&job->a, i), job->a.ld, columns_of(job, i, begin), job->b.ld);
}

shmt_status shmt__cholesky_solve(shmt_tensor* self, shmt_tensor* input2, bool upper, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) l = NULL;

  SHMT_REQUIRE(self->n_dims >= 2, SHMT_E_RUNTIME, "b should have at least 2 dimensions, but has %d dimensions instead",
               self->n_dims);
  SHMT_REQUIRE(input2->n_dims >= 2, SHMT_E_RUNTIME,
               "u should have at least 2 dimensions, but has %d dimensions instead", input2->n_dims);
  SHMT_TRY(shmt__check_square("cholesky_solve", "A", input2));
  SHMT_TRY(check_rows("cholesky_solve", input2, self));
  SHMT_TRY(check_same_dtype("cholesky_solve", input2, self));
  SHMT_TRY(shmt__check_lapack_routine("cholesky_solve_cpu", self));
  SHMT_TRY(broadcast_pair(self, input2, &x, &l));
  if (!shmt__tensor_is_meta(x) && x->numel > 0) {
    factor_job job = {.uplo = upper ? 'U' : 'L', .item = shmt__tensor_item_bytes(x)};
    SHMT_TRY(shmt__batch_of(l, &job.a));
    SHMT_TRY(shmt__batch_of(x, &job.b));
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_potrs, self->dtype, &job.routine));
    SHMT_TRY(shmt__batch_run_columns(job.b.n, job.b.columns, work_of(&job), run_potrs, &job));
  }
  *out = SHMT_TAKE(x);
  return SHMT_OK;
}

/* --- LU ------------------------------------------------------------------------------------------ */

static int run_getrf(void* ctx, int64_t i) {
  const factor_job* job = ctx;

  return ((shmt__lapack_iipip)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, job->a.rows, job->a.columns, matrix(&job->a, i),
                                            job->a.ld, job->pivots + i * job->rank);
}

shmt_status shmt__linalg_lu_factor_ex(shmt_tensor* a, bool pivot, bool check_errors, shmt_tensor** out_lu,
                                      shmt_tensor** out_pivots, shmt_tensor** out_info) {
  SHMT_AUTO(shmt_tensor) lu = NULL;
  SHMT_AUTO(shmt_tensor) pivots = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  int64_t buf[SHMT_MAX_DIMS];

  SHMT_TRY(shmt__check_matrix("torch.lu_factor", "A", a));
  SHMT_TRY(shmt__check_lapack_routine("lu_cpu", a));
  SHMT_REQUIRE(pivot, SHMT_E_RUNTIME, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  const int64_t rows = a->sizes[a->n_dims - 2], columns = a->sizes[a->n_dims - 1];
  const int64_t rank = rows < columns ? rows : columns;
  SHMT_TRY(shmt__tensor_zeros(shmt__batch_sizes(a, 1, rank, 0, buf), SHMT_INT32, a->device, &pivots));
  SHMT_TRY(infos_for(a, &info));
  SHMT_TRY(shmt__batch_copy(a, shmt__tensor_sizes(a), &lu));
  if (!shmt__tensor_is_meta(a) && a->numel > 0) {
    factor_job job = {.pivots = shmt__tensor_data(pivots), .rank = (int)rank};
    SHMT_TRY(shmt__batch_of(lu, &job.a));
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_getrf, a->dtype, &job.routine));
    SHMT_TRY(shmt__batch_run(job.a.n, cube(&job.a), run_getrf, &job, shmt__tensor_data(info)));
    if (check_errors)
      SHMT_TRY(shmt__check_infos("torch.linalg.lu_factor_ex", shmt__tensor_data(info), info->numel, a->n_dims > 2));
  }
  *out_lu = SHMT_TAKE(lu);
  *out_pivots = SHMT_TAKE(pivots);
  *out_info = SHMT_TAKE(info);
  return SHMT_OK;
}

static int run_getrs(void* ctx, int64_t i, int begin, int end) {
  const factor_job* job = ctx;

  return ((shmt__lapack_ciipippi)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, job->trans, job->a.rows, end - begin,
                                               matrix(&job->a, i), job->a.ld, job->pivots + i * job->rank,
                                               columns_of(job, i, begin), job->b.ld);
}

/* *out is a copy of the pivots, spread to sizes. Pivots are positions from 1 to n, and LAPACK would follow any that are
 * not: the copy is checked, which no other process can change afterwards. */
static shmt_status own_pivots(const char* name, shmt_tensor* pivots, shmt_ints sizes, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) own = NULL;

  SHMT_TRY(shmt__tensor_empty(sizes, SHMT_INT32, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &own));
  SHMT_TRY(shmt__tensor_copy(own, pivots));
  const int* data = shmt__tensor_data(own);
  for (int64_t i = 0; i < own->numel; i++)
    SHMT_REQUIRE(data[i] >= 1 && data[i] <= n, SHMT_E_RUNTIME,
                 "%s: pivots must all be greater or equal to 1 and at most %" PRId64
                 ", but got %d. Did you properly pass the result of lu_factor?", name, n, data[i]);
  *out = SHMT_TAKE(own);
  return SHMT_OK;
}

/* AX = B, or A^H X = B, by the factors of A. B is overwritten. */
static shmt_status solve_by_lu(shmt_tensor* lu, shmt_tensor* pivots, char trans, shmt_tensor* b) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) factors = NULL;
  factor_job job = {.trans = trans};
  int64_t buf[SHMT_MAX_DIMS];
  const int64_t n = lu->sizes[lu->n_dims - 1];
  shmt_ints sizes = shmt__batch_sizes(b, 2, n, n, buf);

  SHMT_TRY(shmt__batch_read(lu, sizes, &factors));
  sizes.len--;
  SHMT_TRY(own_pivots("linalg.lu_solve", pivots, sizes, n, &wide));
  SHMT_TRY(shmt__batch_of(factors, &job.a));
  SHMT_TRY(shmt__batch_of(b, &job.b));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_getrs, lu->dtype, &job.routine));
  job.pivots = shmt__tensor_data(wide);
  job.rank = (int)n;
  job.item = shmt__tensor_item_bytes(b);
  return shmt__batch_run_columns(job.b.n, job.b.columns, work_of(&job), run_getrs, &job);
}

/* t with the last two dims exchanged, conjugated when asked; shares memory otherwise. */
static shmt_status turned(shmt_tensor* t, bool conjugated, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  SHMT_AUTO(shmt_tensor) swapped = NULL;
  const int n = t->n_dims;

  memcpy(sizes, t->sizes, (size_t)n * sizeof *sizes);
  memcpy(strides, t->strides, (size_t)n * sizeof *strides);
  sizes[n - 1] = t->sizes[n - 2], sizes[n - 2] = t->sizes[n - 1];
  strides[n - 1] = t->strides[n - 2], strides[n - 2] = t->strides[n - 1];
  SHMT_TRY(shmt__tensor_alias(t, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, t->offset, &swapped));
  if (!conjugated || !shmt__is_complex(t->dtype)) {
    *out = SHMT_TAKE(swapped);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, n}, t->dtype, t->device, SHMT_CONTIGUOUS_FORMAT, out));
  SHMT_TRY(shmt__tensor_copy(*out, swapped));
  char* data = shmt__tensor_data(*out);
  for (int64_t i = 0; i < (*out)->numel; i++) {
    if (t->dtype == SHMT_COMPLEX64)
      ((float*)(void*)data)[2 * i + 1] *= -1;
    else
      ((double*)(void*)data)[2 * i + 1] *= -1;
  }
  return SHMT_OK;
}

shmt_status shmt__linalg_lu_solve(shmt_tensor* lu, shmt_tensor* pivots, shmt_tensor* b, bool left, bool adjoint,
                                  shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) side = NULL;
  SHMT_AUTO(shmt_tensor) x = NULL;
  const char* name = "torch.linalg.lu_solve";

  SHMT_TRY(shmt__check_lapack_dtype(name, lu));
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
  /* XA = B is A^H X^H = B^H. */
  if (left)
    side = shmt__tensor_ref(b);
  else
    SHMT_TRY(turned(b, !shmt__tensor_is_meta(b), &side));
  SHMT_TRY(broadcast_pair(side, lu, &x, NULL));
  if (!shmt__tensor_is_meta(x) && x->numel > 0)
    SHMT_TRY(solve_by_lu(lu, pivots, adjoint == left ? (shmt__is_complex(lu->dtype) ? 'C' : 'T') : 'N', x));
  if (left) {
    *out = SHMT_TAKE(x);
    return SHMT_OK;
  }
  return turned(x, !shmt__tensor_is_meta(x), out);
}

/* The unit matrix is written where its solution will stand. */
shmt_status shmt__linalg_inv_ex(shmt_tensor* a, bool check_errors, shmt_tensor** out, shmt_tensor** out_info) {
  SHMT_AUTO(shmt_tensor) lu = NULL;
  SHMT_AUTO(shmt_tensor) pivots = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) diagonal = NULL;

  SHMT_TRY(shmt__check_square("linalg.inv", "A", a));
  SHMT_TRY(shmt__check_lapack_dtype("linalg.inv", a));
  SHMT_TRY(shmt_op_linalg_lu_factor_ex(a, true, false, &lu, &pivots, &info));
  if (check_errors) SHMT_TRY(shmt_op__linalg_check(info, "linalg.inv_ex"));
  SHMT_TRY(shmt__batch_empty(shmt__tensor_sizes(a), a->dtype, a->device, &x));
  if (!shmt__tensor_is_meta(x) && x->numel > 0) {
    SHMT_TRY(shmt__tensor_fill(x, shmt__scalar_int(0)));
    SHMT_TRY(shmt_op_diagonal(x, 0, -2, -1, &diagonal));
    SHMT_TRY(shmt__tensor_fill(diagonal, shmt__scalar_int(1)));
    SHMT_TRY(solve_by_lu(lu, pivots, 'N', x));
  }
  *out = SHMT_TAKE(x);
  *out_info = SHMT_TAKE(info);
  return SHMT_OK;
}

static void swap_ints(int64_t* a, int64_t* b) {
  const int64_t t = *a;

  *a = *b;
  *b = t;
}

/* The permutation matrix of each matrix's pivots, rows by rows. */
shmt_status shmt__pivots_to_matrix(shmt_tensor* pivots, int64_t rows, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) own = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  const int n = pivots->n_dims;
  SHMT_REQUIRE(n >= 1, SHMT_E_RUNTIME, "lu_unpack: expected LU_pivots to have at least 1 dimension");
  const int64_t rank = pivots->sizes[n - 1];
  SHMT_REQUIRE(pivots->dtype == SHMT_INT32, SHMT_E_RUNTIME, "torch.lu_unpack: LU_pivots is expected to be a contiguous "
               "tensor of torch.int32 dtype, but got %s. Note: this function is intended to be used with the output "
               "produced by torch.linalg.lu_factor", shmt__dtype_title(pivots->dtype));
  SHMT_REQUIRE(n + 1 <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "lu_unpack: more than %d dimensions", SHMT_MAX_DIMS);
  SHMT_REQUIRE(rank <= rows, SHMT_E_RUNTIME, "lu_unpack: %" PRId64 " pivots are more than %" PRId64 " rows", rank, rows);
  memcpy(sizes, pivots->sizes, (size_t)n * sizeof *sizes);
  sizes[n - 1] = sizes[n] = rows;
  SHMT_TRY(shmt__tensor_zeros((shmt_ints){sizes, n + 1}, dtype, pivots->device, &result));
  if (!shmt__tensor_is_meta(pivots) && result->numel > 0) {
    SHMT_TRY(own_pivots("torch.lu_unpack", pivots, shmt__tensor_sizes(pivots), rows, &own));
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(rows), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &order));
    int64_t* at = shmt__tensor_data(order);
    const int* data = shmt__tensor_data(own);
    const int64_t item = shmt__tensor_item_bytes(result);
    for (int64_t m = 0; m < result->numel / (rows * rows); m++) {
      char* p = (char*)shmt__tensor_data(result) + m * rows * rows * item;
      for (int64_t i = 0; i < rows; i++) at[i] = i;
      for (int64_t i = 0; i < rank; i++) swap_ints(&at[i], &at[data[m * rank + i] - 1]);
      for (int64_t i = 0; i < rows; i++)
        shmt__scalar_store_unsafe(shmt__scalar_int(1), dtype, p + (at[i] * rows + i) * item);
    }
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- LDL ------------------------------------------------------------------------------------------ */

static int run_sytrf(void* ctx, int64_t i) {
  const factor_job* job = ctx;

  return ((shmt__lapack_cipip)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, 'L', job->a.rows, matrix(&job->a, i), job->a.ld,
                                            job->pivots + i * job->rank);
}

shmt_status shmt__linalg_ldl_factor_ex(shmt_tensor* self, bool hermitian, bool check_errors, shmt_tensor** out_ld,
                                       shmt_tensor** out_pivots, shmt_tensor** out_info) {
  SHMT_AUTO(shmt_tensor) ld = NULL;
  SHMT_AUTO(shmt_tensor) pivots = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  int64_t buf[SHMT_MAX_DIMS];

  SHMT_TRY(shmt__check_square("torch.linalg.ldl_factor_ex", "A", self));
  SHMT_TRY(shmt__check_lapack_dtype("torch.linalg.ldl_factor_ex", self));
  const int64_t n = self->sizes[self->n_dims - 1];
  SHMT_TRY(shmt__tensor_zeros(shmt__batch_sizes(self, 1, n, 0, buf), SHMT_INT32, self->device, &pivots));
  SHMT_TRY(infos_for(self, &info));
  SHMT_TRY(shmt__batch_copy(self, shmt__tensor_sizes(self), &ld));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    factor_job job = {.pivots = shmt__tensor_data(pivots), .rank = (int)n, .item = shmt__tensor_item_bytes(self)};
    SHMT_TRY(shmt__batch_of(ld, &job.a));
    for (int64_t i = 0; i < job.a.n; i++) clear_triangle(matrix(&job.a, i), (int)n, false, job.item);
    SHMT_TRY(shmt__lapack_find(hermitian ? SHMT_LAPACK_hetrf : SHMT_LAPACK_sytrf, self->dtype, &job.routine));
    SHMT_TRY(shmt__batch_run(job.a.n, cube(&job.a), run_sytrf, &job, shmt__tensor_data(info)));
    if (check_errors)
      SHMT_TRY(shmt__check_infos("torch.linalg.ldl_factor_ex", shmt__tensor_data(info), info->numel,
                                 self->n_dims > 2));
  }
  *out_ld = SHMT_TAKE(ld);
  *out_pivots = SHMT_TAKE(pivots);
  *out_info = SHMT_TAKE(info);
  return SHMT_OK;
}

static int run_sytrs(void* ctx, int64_t i) {
  const factor_job* job = ctx;

  return ((shmt__lapack_ciipippi)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, 'L', job->a.rows, job->b.columns,
                                               matrix(&job->a, i), job->a.ld, job->pivots + i * job->rank,
                                               matrix(&job->b, i), job->b.ld);
}

/* LAPACK takes two neighbours with negative pivots for the rows of one block, without looking whether there are two. */
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
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  const char* name = "torch.linalg.ldl_solve";
  int64_t buf[SHMT_MAX_DIMS];

  SHMT_TRY(shmt__check_square(name, "LD", ld));
  SHMT_TRY(shmt__check_lapack_dtype(name, ld));
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
  SHMT_TRY(broadcast_pair(b, ld, &x, &factors));
  if (!shmt__tensor_is_meta(x) && x->numel > 0) {
    factor_job job = {.rank = (int)n};
    SHMT_TRY(shmt__tensor_empty(shmt__batch_sizes(x, 1, n, 0, buf), SHMT_INT32, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT,
                                &wide));
    SHMT_TRY(shmt__tensor_copy(wide, pivots));
    SHMT_TRY(check_ldl_pivots(wide, n));
    SHMT_TRY(infos_for(x, &info));
    SHMT_TRY(shmt__batch_of(factors, &job.a));
    SHMT_TRY(shmt__batch_of(x, &job.b));
    SHMT_TRY(shmt__lapack_find(hermitian ? SHMT_LAPACK_hetrs : SHMT_LAPACK_sytrs, ld->dtype, &job.routine));
    job.pivots = shmt__tensor_data(wide);
    SHMT_TRY(shmt__batch_run(job.b.n, cube(&job.a), run_sytrs, &job, shmt__tensor_data(info)));
  }
  *out = SHMT_TAKE(x);
  return SHMT_OK;
}

/* --- triangles ------------------------------------------------------------------------------------ */

typedef struct triangle_job {
  factor_job f;
  shmt_dtype dtype;
  int side, uplo, diag;
} triangle_job;

/* Columns of b, or rows where the triangle stands on the right. */
static int run_trsm(void* ctx, int64_t i, int begin, int end) {
  const triangle_job* job = ctx;
  const shmt__batch* b = &job->f.b;
  const bool left = job->side == SHMT_BLAS_LEFT;
  char* at = matrix(b, i) + (int64_t)begin * (left ? b->ld : 1) * job->f.item;

  shmt__lapack_trsm(job->f.routine, job->dtype, job->side, job->uplo, job->diag, left ? b->rows : end - begin,
                    left ? end - begin : b->columns, matrix(&job->f.a, i), job->f.a.ld, at, b->ld);
  return 0;
}

shmt_status shmt__linalg_solve_triangular(shmt_tensor* self, shmt_tensor* b, bool upper, bool left, bool unitriangular,
                                          shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) factor = NULL;
  const char* name = "linalg.solve_triangular";

  SHMT_TRY(check_same_dtype(name, self, b));
  SHMT_TRY(shmt__check_square(name, "A", self));
  SHMT_TRY(shmt__check_matrix(name, "B", b));
  const int64_t n = self->sizes[self->n_dims - 1];
  SHMT_REQUIRE(b->sizes[b->n_dims - (left ? 2 : 1)] == n, SHMT_E_RUNTIME,
               "%s: Incompatible shapes of A and B for the equation %s (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64
               ")", name, left ? "AX = B" : "XA = B", n, n, b->sizes[b->n_dims - 2], b->sizes[b->n_dims - 1]);
  SHMT_TRY(shmt__check_lapack_routine("triangular_solve_cpu", self));
  SHMT_TRY(broadcast_pair(b, self, &x, &factor));
  if (!shmt__tensor_is_meta(x) && x->numel > 0) {
    triangle_job job = {.dtype = x->dtype,
                        .side = left ? SHMT_BLAS_LEFT : SHMT_BLAS_RIGHT,
                        .uplo = upper ? SHMT_BLAS_UPPER : SHMT_BLAS_LOWER,
                        .diag = unitriangular ? SHMT_BLAS_UNIT : SHMT_BLAS_NOT_UNIT};
    job.f.item = shmt__tensor_item_bytes(x);
    SHMT_TRY(shmt__batch_of(factor, &job.f.a));
    SHMT_TRY(shmt__batch_of(x, &job.f.b));
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_trsm, x->dtype, &job.f.routine));
    SHMT_TRY(shmt__batch_run_columns(job.f.b.n, left ? job.f.b.columns : job.f.b.rows,
                                     0.5 * (double)n * (double)n * (double)(left ? job.f.b.columns : job.f.b.rows),
                                     run_trsm, &job));
  }
  *out = SHMT_TAKE(x);
  return SHMT_OK;
}
