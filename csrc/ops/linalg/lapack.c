/* ops/linalg/lapack.c -- finds LAPACK routines, runs them for batches, and turns their infos into errors. */
#include "ops/linalg/lapack.h"

#include "api/blas.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "iter/threads.h"
#include "ops/matmul/blas_library.h"
#include "ops/check.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* LAPACKE's own info for memory that it could not get for a transpose. */
enum { LAPACKE_NO_TRANSPOSE = -1011 };

/* How many multiplications are worth a thread of their own. */
#define MIN_PIECE_OPS 2e5
/* The same for a slice of one matrix, which reads and packs the factors once more. */
#define MIN_SLICE_OPS 1e6

static const char* const routine_names[SHMT_N_LAPACK][2] = {
#define ROW(NAME, REAL, COMPLEX) {REAL, COMPLEX},
    SHMT_LAPACK_ROUTINES(ROW)
#undef ROW
};

static int letter_of(shmt_dtype dtype) {
  return dtype == SHMT_FLOAT32 ? 's' : dtype == SHMT_FLOAT64 ? 'd' : dtype == SHMT_COMPLEX64 ? 'c' : 'z';
}

/* Turns off LAPACKE's check for NaN. torch lets the routines see NaNs. */
static void disable_nan_check(void) {
  static atomic_bool is_done;
  void (*set)(int);
  void* symbol;

  if (atomic_exchange_explicit(&is_done, true, memory_order_relaxed)) return;
  symbol = shmt__blas_symbol("LAPACKE_set_nancheck");
  if (!symbol) return;
  memcpy(&set, &symbol, sizeof symbol);
  set(0);
}

shmt_status shmt__lapack_find(int routine, shmt_dtype dtype, void** function) {
  static _Atomic(void*) found[SHMT_N_LAPACK][4];
  char name[32];
  const int letter = letter_of(dtype);
  const int column = letter == 's' ? 0 : letter == 'd' ? 1 : letter == 'c' ? 2 : 3;
  /* relaxed: whoever looks the address up finds the same one. */
  void* symbol = atomic_load_explicit(&found[routine][column], memory_order_relaxed);

  if (!symbol) {
    disable_nan_check();
    (void)snprintf(name, sizeof name, "LAPACKE_%c%s", letter, routine_names[routine][column > 1]);
    symbol = shmt__blas_symbol(name);
    SHMT_REQUIRE(symbol != NULL, SHMT_E_RUNTIME, "linear algebra needs a LAPACK library: %s was not found in '%s'",
                 name, shmt_blas_library());
    atomic_store_explicit(&found[routine][column], symbol, memory_order_relaxed);
  }
  *function = symbol;
  return SHMT_OK;
}

shmt_status shmt__batch_of(const shmt_tensor* t, shmt__batch* out) {
  const int n = t->n_dims;
  const int64_t rows = t->sizes[n - 2], columns = t->sizes[n - 1];

  SHMT_REQUIRE(rows <= INT_MAX && columns <= INT_MAX, SHMT_E_RUNTIME,
               "linear algebra: a matrix of %" PRId64 " by %" PRId64 " is too large", rows, columns);
  *out = (shmt__batch){.data = shmt__tensor_data(t),
                       .n = shmt__tensor_extent(t, 0, n - 2),
                       .step = rows * columns * shmt__tensor_item_bytes(t),
                       .rows = (int)rows,
                       .columns = (int)columns,
                       .ld = rows > 1 ? (int)rows : 1};
  return SHMT_OK;
}

shmt_status shmt__batch_empty(shmt_ints sizes, shmt_dtype dtype, shmt_device device, shmt_tensor** out) {
  int64_t strides[SHMT_MAX_DIMS];
  const int64_t n = sizes.len, rows = sizes.data[n - 2], columns = sizes.data[n - 1];
  int64_t step, numel;

  SHMT_TRY(shmt__checked_numel(sizes, &numel)); /* so the products below fit */
  step = (rows > 1 ? rows : 1) * (columns > 1 ? columns : 1);
  strides[n - 2] = 1;
  strides[n - 1] = rows > 1 ? rows : 1;
  for (int64_t d = n - 3; d >= 0; d--) {
    strides[d] = step;
    step *= sizes.data[d] > 1 ? sizes.data[d] : 1;
  }
  return shmt__tensor_empty_strided(sizes, (shmt_ints){strides, n}, dtype, device, out);
}

shmt_status shmt__batch_copy(shmt_tensor* t, shmt_ints sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;

  SHMT_TRY(shmt__batch_empty(sizes, t->dtype, t->device, &copy));
  SHMT_TRY(shmt__tensor_copy(copy, t));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}

shmt_status shmt__batch_read(shmt_tensor* t, shmt_ints sizes, shmt_tensor** out) {
  const int n = t->n_dims;
  bool same = sizes.len == n && n >= 2;
  int64_t step = 1;

  for (int64_t d = n - 1; same && d >= 0; d--) {
    /* The rows' stride is checked first, then the columns'. */
    const int64_t at = d == n - 1 ? n - 2 : d == n - 2 ? n - 1 : d;
    same = t->sizes[at] == sizes.data[at] && (t->sizes[at] == 1 || t->strides[at] == step);
    step *= t->sizes[at];
  }
  if (!same) return shmt__batch_copy(t, sizes, out);
  *out = shmt__tensor_ref(t);
  return SHMT_OK;
}

static shmt_status matrices_of(const shmt_tensor* t, int64_t step, shmt__matrices* out) {
  const int n = t->n_dims;
  const int64_t rows = t->sizes[n - 2], columns = t->sizes[n - 1];

  SHMT_REQUIRE(rows <= INT_MAX && columns <= INT_MAX, SHMT_E_RUNTIME,
               "linear algebra: a matrix of %" PRId64 " by %" PRId64 " is too large", rows, columns);
  *out = (shmt__matrices){{shmt__tensor_data(t), rows, columns, t->strides[n - 2], t->strides[n - 1]},
                          step * shmt__tensor_item_bytes(t)};
  return SHMT_OK;
}

shmt_status shmt__batch_matrices(const shmt_tensor* t, shmt__matrices* out) {
  const int n = t->n_dims;

  return matrices_of(t, t->sizes[n - 2] * t->sizes[n - 1], out);
}

/* How many elements the matrices of t, broadcast to the batch dims of sizes, are apart; -1 when the distance varies. */
static int64_t step_between(const shmt_tensor* t, shmt_ints sizes) {
  const int64_t missing = sizes.len - t->n_dims;
  int64_t step = 0, count = 1;

  for (int64_t d = sizes.len - 3; d >= 0; d--) {
    const int64_t at = d - missing, stride = at >= 0 && t->sizes[at] != 1 ? t->strides[at] : 0;
    if (sizes.data[d] == 1) continue;
    if (count == 1)
      step = stride;
    else if (stride != step * count)
      return -1;
    count *= sizes.data[d];
  }
  return step;
}

static bool blas_reads(const shmt_tensor* t) {
  const int n = t->n_dims;
  const shmt__matrix a = {NULL, t->sizes[n - 2], t->sizes[n - 1], t->strides[n - 2], t->strides[n - 1]};

  return shmt__matrix_is_blas(a) && a.row_stride <= INT_MAX && a.column_stride <= INT_MAX;
}

shmt_status shmt__batch_view(shmt_tensor* t, shmt_ints sizes, bool for_blas, shmt_tensor** holder,
                             shmt__matrices* out) {
  SHMT_AUTO(shmt_tensor) own = NULL;
  const int64_t step = step_between(t, sizes);

  if (step >= 0 && (!for_blas || blas_reads(t))) {
    SHMT_TRY(matrices_of(t, step, out));
    *holder = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__batch_copy(t, sizes, &own));
  SHMT_TRY(shmt__batch_matrices(own, out));
  *holder = SHMT_TAKE(own);
  return SHMT_OK;
}

shmt_ints shmt__batch_sizes(const shmt_tensor* t, int n, int64_t a, int64_t b, int64_t* buf) {
  const int outer = t->n_dims - 2;

  memcpy(buf, t->sizes, (size_t)outer * sizeof *buf);
  if (n > 0) buf[outer] = a;
  if (n > 1) buf[outer + 1] = b;
  return (shmt_ints){buf, outer + n};
}

typedef struct batch_job {
  shmt__batch_fn one;
  void* ctx;
  int* infos;
} batch_job;

static void run_batch(void* ctx, int64_t begin, int64_t end) {
  const batch_job* job = ctx;

  for (int64_t i = begin; i < end; i++) job->infos[i] = job->one(job->ctx, i);
}

shmt_status shmt__batch_run(int64_t n, double work, shmt__batch_fn one, void* ctx, int* infos) {
  batch_job job = {one, ctx, infos};

  shmt__parallel_for(n, (int64_t)(MIN_PIECE_OPS / (work + 1)) + 1, run_batch, &job);
  for (int64_t i = 0; i < n; i++)
    if (infos[i] == SHMT_LAPACK_NO_WORK || infos[i] == LAPACKE_NO_TRANSPOSE)
      SHMT_FAIL(SHMT_E_NOMEM, "workspace of a LAPACK routine");
  return SHMT_OK;
}

typedef struct columns_job {
  shmt__batch_columns_fn one;
  void* ctx;
  int count;
  int64_t slices;   /* slices of each matrix */
  atomic_bool no_work;
} columns_job;

static void run_columns(void* ctx, int64_t first, int64_t last) {
  columns_job* job = ctx;
  const int width = (int)((job->count + job->slices - 1) / job->slices);

  for (int64_t at = first; at < last; at++) {
    const int begin = (int)(at % job->slices) * width;
    const int end = job->count - begin < width ? job->count : begin + width;
    if (begin >= end) continue;
    const int info = job->one(job->ctx, at / job->slices, begin, end);
    /* relaxed: read after the pool's own join. */
    if (info == SHMT_LAPACK_NO_WORK || info == LAPACKE_NO_TRANSPOSE)
      atomic_store_explicit(&job->no_work, true, memory_order_relaxed);
  }
}

shmt_status shmt__batch_run_columns(int64_t n, int count, double work, shmt__batch_columns_fn one, void* ctx) {
  const int threads = shmt__num_threads();
  const double most = work / MIN_SLICE_OPS;
  columns_job job = {.one = one, .ctx = ctx, .count = count, .slices = 1};

  if (n < threads && most >= 2) job.slices = most < threads ? (int64_t)most : threads;
  shmt__parallel_for(n * job.slices, (int64_t)(MIN_PIECE_OPS / (work / (double)job.slices + 1)) + 1, run_columns, &job);
  SHMT_REQUIRE(!atomic_load_explicit(&job.no_work, memory_order_relaxed), SHMT_E_NOMEM,
               "workspace of a LAPACK routine");
  return SHMT_OK;
}

void shmt__lapack_gemm(shmt_dtype dtype, bool adjoint, int m, int n, int k, bool minus, const char* a, int lda,
                       const char* b, int ldb, double beta, char* c, int ldc) {
  enum { CONJUGATE_TRANS = 113 }; /* CBLAS */
  const shmt__blas_table* t = shmt__blas();
  const int order = SHMT_LAPACK_COLUMN_MAJOR, ta = adjoint ? CONJUGATE_TRANS : SHMT_BLAS_NO_TRANS;
  const int tb = SHMT_BLAS_NO_TRANS;
  const double alpha = minus ? -1 : 1;
  const float alpha_c[2] = {(float)alpha, 0}, beta_c[2] = {(float)beta, 0};
  const double alpha_z[2] = {alpha, 0}, beta_z[2] = {beta, 0};

  if (dtype == SHMT_FLOAT32)
    t->sgemm(order, ta, tb, m, n, k, alpha_c[0], a, lda, b, ldb, beta_c[0], c, ldc);
  else if (dtype == SHMT_FLOAT64)
    t->dgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  else if (dtype == SHMT_COMPLEX64)
    t->cgemm(order, ta, tb, m, n, k, alpha_c, a, lda, b, ldb, beta_c, c, ldc);
  else
    t->zgemm(order, ta, tb, m, n, k, alpha_z, a, lda, b, ldb, beta_z, c, ldc);
}

/* --- checks ----------------------------------------------------------------------------------- */

shmt_status shmt__check_matrix(const char* name, const char* argument, const shmt_tensor* t) {
  SHMT_REQUIRE(t->n_dims >= 2, SHMT_E_RUNTIME, "%s: The input tensor %s must have at least 2 dimensions.", name,
               argument);
  return SHMT_OK;
}

shmt_status shmt__check_square(const char* name, const char* argument, const shmt_tensor* t) {
  SHMT_TRY(shmt__check_matrix(name, argument, t));
  SHMT_REQUIRE(t->sizes[t->n_dims - 1] == t->sizes[t->n_dims - 2], SHMT_E_RUNTIME,
               "%s: %s must be batches of square matrices, but they are %" PRId64 " by %" PRId64 " matrices", name,
               argument, t->sizes[t->n_dims - 2], t->sizes[t->n_dims - 1]);
  return SHMT_OK;
}

static bool is_lapack_dtype(shmt_dtype dtype) {
  return dtype == SHMT_FLOAT32 || dtype == SHMT_FLOAT64 || dtype == SHMT_COMPLEX64 || dtype == SHMT_COMPLEX128;
}

shmt_status shmt__check_lapack_dtype(const char* name, const shmt_tensor* t) {
  SHMT_TRY(shmt__check_float_dtype(name, t));
  SHMT_REQUIRE(is_lapack_dtype(t->dtype), SHMT_E_RUNTIME, "%s: Low precision dtypes not supported. Got %s", name,
               shmt__dtype_title(t->dtype));
  return SHMT_OK;
}

shmt_status shmt__check_lapack_routine(const char* routine, const shmt_tensor* t) {
  SHMT_REFUSE_DTYPE(!is_lapack_dtype(t->dtype), t->dtype, routine);
  return SHMT_OK;
}

shmt_status shmt__check_lapack_work(const char* routine, const shmt_tensor* t) {
  return t->numel > 0 ? shmt__check_lapack_routine(routine, t) : SHMT_OK;
}

shmt_status shmt__own_pivots(const char* name, shmt_tensor* pivots, shmt_ints sizes, int64_t n, shmt_tensor** out) {
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

/* Raises the error that a positive info means. Words in the function's name tell which error that is. */
static shmt_status fail_for_info(const char* name, const char* where, int info) {
  if (strstr(name, "inv"))
    SHMT_FAIL(SHMT_E_LINALG, "%s: %sThe diagonal element %d is zero, the inversion could not be completed because the "
              "input matrix is singular.", name, where, info);
  if (strstr(name, "solve"))
    SHMT_FAIL(SHMT_E_LINALG, "%s: %sThe solver failed because the input matrix is singular.", name, where);
  if (strstr(name, "cholesky"))
    SHMT_FAIL(SHMT_E_LINALG, "%s: %sThe factorization could not be completed because the input is not "
              "positive-definite (the leading minor of order %d is not positive-definite).", name, where, info);
  if (strstr(name, "svd") || strstr(name, "eig"))
    SHMT_FAIL(SHMT_E_LINALG, "%s: %sThe algorithm failed to converge because the input matrix is ill-conditioned or "
              "has too many repeated %s (error code: %d).", name, where,
              strstr(name, "svd") ? "singular values" : "eigenvalues", info);
  if (strstr(name, "lstsq"))
    SHMT_FAIL(SHMT_E_LINALG, "%s: %sThe least squares solution could not be computed because the input matrix does "
              "not have full rank (error code: %d).", name, where, info);
  SHMT_FAIL(SHMT_E_LINALG, "%s: %sU[%d,%d] is zero and using it on lu_solve would result in a division by zero. If "
            "you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
            "linalg.lu_factor_ex(A, pivot)", name, where, info, info);
}

shmt_status shmt__check_infos(const char* name, const int* infos, int64_t n, bool is_batch) {
  char where[64] = "";

  for (int64_t i = 0; i < n; i++) {
    if (infos[i] == 0) continue;
    if (is_batch) (void)snprintf(where, sizeof where, "(Batch element %" PRId64 "): ", i);
    if (infos[i] > 0) return fail_for_info(name, where, infos[i]);
    /* A negative info: the routine found values that are not finite before it began. */
    SHMT_FAIL(SHMT_E_LINALG, "%s: %sThe algorithm failed to converge because the input matrix contained non-finite "
              "values.", name, where);
  }
  return SHMT_OK;
}
