/* ops/linalg/factor.c -- triangular factors of square matrices: Cholesky, LU, LDL. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/linalg/lapack.h"
#include "ops/linalg/lu.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Arguments that the factorisations share: matrices, which are overwritten, and their pivots. */
typedef struct factor_job {
  void* routine;
  shmt__batch a;
  char uplo;
  int* pivots;  /* `rank` pivots for each matrix */
  int rank;
  int64_t item;
  shmt_dtype dtype;
} factor_job;

static char* matrix(const shmt__batch* b, int64_t i) { return b->data + i * b->step; }

static shmt_status infos_for(const shmt_tensor* t, shmt_tensor** out) {
  int64_t buf[SHMT_MAX_DIMS];

  return shmt__tensor_zeros(shmt__batch_sizes(t, 0, 0, 0, buf), SHMT_INT32, t->device, out);
}

static double cube(const shmt__batch* b) { return (double)b->rows * b->rows * b->columns; }

/* --- Cholesky --------------------------------------------------------------------------------- */

static void tril_or_triu(char* a, int n, bool upper, int64_t item) {
  for (int64_t j = 0; j < n; j++) {
    if (upper)
      memset(a + (j * n + j + 1) * item, 0, (size_t)(n - j - 1) * (size_t)item);
    else
      memset(a + j * n * item, 0, (size_t)j * (size_t)item);
  }
}

/* The order of the first leading minor that is NaN, or 0. Not every LAPACK looks for them. */
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

  tril_or_triu(a, job->a.rows, job->uplo == 'U', job->item);
  return info ? info : first_nan(job, a);
}

shmt_status shmt__linalg_cholesky_ex(shmt_tensor* self, bool upper, bool check_errors, shmt_tensor** out_l,
                                     shmt_tensor** out_info) {
  SHMT_AUTO(shmt_tensor) l = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;

  SHMT_TRY(shmt__check_square("linalg.cholesky", "A", self));
  SHMT_TRY(shmt__check_float_dtype("linalg.cholesky", self));
  SHMT_TRY(shmt__check_lapack_work("cholesky_cpu", self));
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

shmt_status shmt__cholesky(shmt_tensor* self, bool upper, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) info = NULL;

  SHMT_TRY(shmt__check_square("cholesky", "A", self));
  SHMT_TRY(shmt__check_lapack_work("cholesky_cpu", self));
  if (self->numel == 0) return shmt_op_clone(self, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt_op_linalg_cholesky_ex(self, upper, false, out, &info));
  return shmt_op__linalg_check(info, "cholesky");
}

/* --- LU ------------------------------------------------------------------------------------------ */

static int run_getrf(void* ctx, int64_t i) {
  const factor_job* job = ctx;
  const shmt__matrix a = {matrix(&job->a, i), job->a.rows, job->a.columns, 1, job->a.ld};

  return shmt__lu(job->dtype, a, job->pivots + i * job->rank);
}

shmt_status shmt__linalg_lu_factor_ex(shmt_tensor* a, bool pivot, bool check_errors, shmt_tensor** out_lu,
                                      shmt_tensor** out_pivots, shmt_tensor** out_info) {
  SHMT_AUTO(shmt_tensor) lu = NULL;
  SHMT_AUTO(shmt_tensor) pivots = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  int64_t buf[SHMT_MAX_DIMS];

  SHMT_TRY(shmt__check_matrix("torch.lu_factor", "A", a));
  SHMT_TRY(shmt__check_lapack_work("lu_cpu", a));
  SHMT_REQUIRE(pivot, SHMT_E_RUNTIME, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  const int64_t rows = a->sizes[a->n_dims - 2], columns = a->sizes[a->n_dims - 1];
  const int64_t rank = rows < columns ? rows : columns;
  SHMT_TRY(shmt__tensor_zeros(shmt__batch_sizes(a, 1, rank, 0, buf), SHMT_INT32, a->device, &pivots));
  SHMT_TRY(infos_for(a, &info));
  SHMT_TRY(shmt__batch_copy(a, shmt__tensor_sizes(a), &lu));
  if (!shmt__tensor_is_meta(a) && a->numel > 0) {
    factor_job job = {.pivots = shmt__tensor_data(pivots), .rank = (int)rank, .dtype = lu->dtype};
    SHMT_TRY(shmt__batch_of(lu, &job.a));
    SHMT_TRY(shmt__batch_run(job.a.n, cube(&job.a), run_getrf, &job, shmt__tensor_data(info)));
    if (check_errors)
      SHMT_TRY(shmt__check_infos("torch.linalg.lu_factor_ex", shmt__tensor_data(info), info->numel, a->n_dims > 2));
  }
  *out_lu = SHMT_TAKE(lu);
  *out_pivots = SHMT_TAKE(pivots);
  *out_info = SHMT_TAKE(info);
  return SHMT_OK;
}

static void swap_ints(int64_t* a, int64_t* b) {
  const int64_t t = *a;

  *a = *b;
  *b = t;
}

/* The permutation matrices, rows by rows, that the pivots stand for. */
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
  SHMT_REQUIRE(rank <= rows, SHMT_E_RUNTIME, "lu_unpack: %" PRId64 " pivots are more than %" PRId64 " rows", rank,
               rows);
  memcpy(sizes, pivots->sizes, (size_t)n * sizeof *sizes);
  sizes[n - 1] = sizes[n] = rows;
  SHMT_TRY(shmt__tensor_zeros((shmt_ints){sizes, n + 1}, dtype, pivots->device, &result));
  if (!shmt__tensor_is_meta(pivots) && result->numel > 0) {
    SHMT_TRY(shmt__own_pivots("torch.lu_unpack", pivots, shmt__tensor_sizes(pivots), rows, &own));
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
  SHMT_TRY(shmt__check_float_dtype("torch.linalg.ldl_factor_ex", self));
  SHMT_TRY(shmt__check_lapack_work("ldl_factor_kernel_cpu", self));
  const int64_t n = self->sizes[self->n_dims - 1];
  SHMT_TRY(shmt__tensor_zeros(shmt__batch_sizes(self, 1, n, 0, buf), SHMT_INT32, self->device, &pivots));
  SHMT_TRY(infos_for(self, &info));
  SHMT_TRY(shmt__batch_copy(self, shmt__tensor_sizes(self), &ld));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    factor_job job = {.pivots = shmt__tensor_data(pivots), .rank = (int)n, .item = shmt__tensor_item_bytes(self)};
    SHMT_TRY(shmt__batch_of(ld, &job.a));
    for (int64_t i = 0; i < job.a.n; i++) tril_or_triu(matrix(&job.a, i), (int)n, false, job.item);
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
