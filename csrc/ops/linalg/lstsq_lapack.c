/* ops/linalg/lstsq_lapack.c -- torch.linalg.lstsq: LAPACK's drivers gels, gelsy, gelsd and gelss. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/linalg/lapack.h"
#include "ops/linalg/lstsq_qr.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <string.h>

typedef struct lstsq_job {
  void* routine;
  int which;
  bool is_single;
  shmt__batch a, b;
  char* values;        /* singular values, for the drivers that return them */
  int64_t value_step;  /* bytes from matrix to matrix */
  int64_t* ranks;      /* NULL: not wanted */
  double rcond;
  bool by_qr;  /* by ops/linalg/lstsq_qr.h */
  shmt__lstsq_qr qr;
} lstsq_job;

/* With fewer rows or columns LAPACK's driver is as fast. */
enum { MIN_OWN = 48 };

/* Is every element far from over- and underflow, and some element not zero? LAPACK scales other matrices. */
static shmt_status is_moderate(shmt_tensor* t, bool* out) {
  SHMT_AUTO(shmt_tensor) parts = NULL;
  SHMT_AUTO(shmt_tensor) least = NULL;
  SHMT_AUTO(shmt_tensor) largest = NULL;
  const double most = shmt__real_dtype(t->dtype) == SHMT_FLOAT32 ? 1e30 : 1e280;

  if (shmt__is_complex(t->dtype))
    SHMT_TRY(shmt_op_view_as_real(t, &parts));
  else
    parts = shmt__tensor_ref(t);
  SHMT_TRY(shmt_op_aminmax(parts, (shmt_opt_int){0}, false, &least, &largest));
  const double low = -shmt__scalar_to_double(shmt__scalar_load(shmt__tensor_data(least), least->dtype));
  const double high = shmt__scalar_to_double(shmt__scalar_load(shmt__tensor_data(largest), largest->dtype));
  const double size = low > high ? low : high;
  *out = high <= most && low <= most && size >= 1 / most;
  return SHMT_OK;
}

/* Chooses between ops/linalg/lstsq_qr.h, which divides the columns of a single matrix between threads, and LAPACK's
 * driver, which does each matrix of a batch in one thread. */
static shmt_status choose_algorithm(lstsq_job* job, shmt_tensor* a, shmt_tensor* b) {
  const int m = job->a.rows, n = job->a.columns, less = m < n ? m : n;
  bool fits = job->a.n == 1 && less >= MIN_OWN;

  if (job->which == SHMT_LAPACK_gels)
    fits = fits && m >= n;
  else
    fits = fits && job->which == SHMT_LAPACK_gelsy;
  if (fits) SHMT_TRY(is_moderate(a, &fits));
  if (fits) SHMT_TRY(is_moderate(b, &fits));
  if (fits) SHMT_TRY(shmt__lstsq_qr_find(a->dtype, &job->qr, &fits));
  job->by_qr = fits;
  return SHMT_OK;
}

static int run_gels(void* ctx, int64_t i) {
  const lstsq_job* job = ctx;
  char *a = job->a.data + i * job->a.step, *b = job->b.data + i * job->b.step;
  const int m = job->a.rows, n = job->a.columns, columns = job->b.columns;
  int rank = 0, info;

  if (job->by_qr && job->which == SHMT_LAPACK_gels)
    return shmt__lstsq_gels(&job->qr, m, n, columns, a, job->a.ld, b, job->b.ld);
  if (job->by_qr)
    return shmt__lstsq_gelsy(&job->qr, m, n, columns, a, job->a.ld, b, job->b.ld, job->rcond,
                             &job->ranks[i]);
  if (job->which == SHMT_LAPACK_gels)
    return ((shmt__lapack_ciiipipi)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, 'N', m, n, columns, a, job->a.ld, b,
                                                 job->b.ld);
  void* values = job->values + i * job->value_step;
  /* gelsy takes column permutations, the others return singular values. The array is large enough for both. */
  if (job->is_single)
    info = ((shmt__lapack_gels_float)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, m, n, columns, a, job->a.ld, b, job->b.ld,
                                                   values, (float)job->rcond, &rank);
  else
    info = ((shmt__lapack_gels_double)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, m, n, columns, a, job->a.ld, b,
                                                    job->b.ld, values, job->rcond, &rank);
  job->ranks[i] = rank;
  return info;
}

static shmt_status find_driver(const char* driver, int* which) {
  static const struct {
    const char* name;
    int which;
  } drivers[] = {{"gels", SHMT_LAPACK_gels}, {"gelsy", SHMT_LAPACK_gelsy}, {"gelsd", SHMT_LAPACK_gelsd},
                 {"gelss", SHMT_LAPACK_gelss}};

  *which = SHMT_LAPACK_gelsy;
  if (!driver) return SHMT_OK;
  for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
    if (strcmp(drivers[i].name, driver) == 0) {
      *which = drivers[i].which;
      return SHMT_OK;
    }
  SHMT_FAIL(SHMT_E_RUNTIME, "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), but "
            "got '%s'", driver);
}

static shmt_status check_arguments(shmt_tensor* a, shmt_tensor* b) {
  const char* name = "torch.linalg.lstsq";

  SHMT_REQUIRE(a->n_dims >= 2, SHMT_E_RUNTIME, "%s: input must have at least 2 dimensions.", name);
  SHMT_REQUIRE(b->n_dims >= 1, SHMT_E_RUNTIME, "%s: other must have at least 1 dimension.", name);
  SHMT_REQUIRE(a->dtype == b->dtype, SHMT_E_RUNTIME, "%s: Expected input and other to have the same dtype, but got "
               "input's dtype %s and other's dtype %s", name, shmt__dtype_title(a->dtype),
               shmt__dtype_title(b->dtype));
  SHMT_REQUIRE(a->n_dims >= b->n_dims && a->n_dims - b->n_dims <= 1, SHMT_E_RUNTIME,
               "%s: input.dim() must be greater or equal to other.dim() "
               "and (input.dim() - other.dim()) <= 1, but got %d and %d",
               name, a->n_dims, b->n_dims);
  return shmt__check_lapack_dtype(name, a);
}

/* Results of one call. Those that a driver does not return stay empty. */
typedef struct results {
  shmt_tensor *x, *residuals, *rank, *values;
} results;

static void results_fini(results* r) {
  shmt__tensor_release(r->x);
  shmt__tensor_release(r->residuals);
  shmt__tensor_release(r->rank);
  shmt__tensor_release(r->values);
}

/* Overwrites a and b. b has max(m, n) rows. */
static shmt_status run_lstsq(lstsq_job* job, shmt_tensor* a, shmt_tensor* b, results* r) {
  void* memory = NULL;
  void* permutations = NULL;
  shmt_status status;

  SHMT_TRY(shmt__batch_of(a, &job->a));
  SHMT_TRY(shmt__batch_of(b, &job->b));
  SHMT_TRY(choose_algorithm(job, a, b));
  const int64_t n = job->a.n > 0 ? job->a.n : 1, jpvt_length = job->a.rows + job->a.columns;
  const uint64_t nbytes = (uint64_t)n * (sizeof(int) + sizeof(int64_t)),
                 scratch = (uint64_t)(n * jpvt_length) * sizeof(int);
  SHMT_TRY(shmt__lapack_find(job->which, a->dtype, &job->routine));
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  status = shmt__alloc(scratch, &permutations);
  if (status == SHMT_OK) {
    memset(permutations, 0, scratch); /* no column is fixed at the front */
    job->ranks = memory;
    job->is_single = shmt__real_dtype(a->dtype) == SHMT_FLOAT32;
    job->values = permutations;
    job->value_step = jpvt_length * (int64_t)sizeof(int);
    if (job->which == SHMT_LAPACK_gelsd || job->which == SHMT_LAPACK_gelss) {
      job->values = shmt__tensor_data(r->values);
      job->value_step = r->values->sizes[r->values->n_dims - 1] * shmt__tensor_item_bytes(r->values);
    }
    int* infos = (int*)(void*)(job->ranks + n);
    status = shmt__batch_run(job->a.n, 10.0 * job->a.rows * job->a.columns * jpvt_length, run_gels, job, infos);
    if (status == SHMT_OK) status = shmt__check_infos("torch.linalg.lstsq", infos, job->a.n, a->n_dims > 2);
    if (status == SHMT_OK && job->which != SHMT_LAPACK_gels)
      memcpy(shmt__tensor_data(r->rank), job->ranks, (size_t)job->a.n * sizeof *job->ranks);
    shmt__dealloc(permutations, scratch);
  }
  shmt__dealloc(memory, nbytes);
  return status;
}

/* The sums of the squares of the rows below the solution. */
static shmt_status sum_residuals(shmt_tensor* b, int64_t rows, int64_t more, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rest = NULL;
  SHMT_AUTO(shmt_tensor) size = NULL;
  SHMT_AUTO(shmt_tensor) squares = NULL;

  SHMT_TRY(shmt_op_narrow(b, -2, rows, more, &rest));
  SHMT_TRY(shmt_op_abs(rest, &size));
  SHMT_TRY(shmt_op_mul_Tensor(size, size, &squares));
  return shmt_op_sum_dim_IntList(squares, SHMT_INTS(-2), false, SHMT_DTYPE_NONE, out);
}

static bool all_full(const shmt_tensor* rank, int64_t n) {
  const int64_t* data = shmt__tensor_data(rank);

  for (int64_t i = 0; i < rank->numel; i++)
    if (data[i] != n) return false;
  return true;
}

/* *values has the broadcast batch dims. Keeps only the part for self's own batch: where a dim of self has size 1, b may
 * have made it longer. */
static shmt_status without_broadcast(const shmt_tensor* self, shmt_tensor** values) {
  SHMT_AUTO(shmt_tensor) all = NULL;
  SHMT_AUTO(shmt_tensor) own = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  const int64_t n_own = self->n_dims - 2, n_dims = (*values)->n_dims;

  if (memcmp(self->sizes, (*values)->sizes, (size_t)n_own * sizeof *sizes) == 0) return SHMT_OK;
  all = SHMT_TAKE(*values);
  memcpy(sizes, self->sizes, (size_t)n_own * sizeof *sizes);
  memcpy(sizes + n_own, all->sizes + n_own, (size_t)(n_dims - n_own) * sizeof *sizes);
  if (all->numel == 0) return shmt__tensor_zeros((shmt_ints){sizes, n_dims}, all->dtype, all->device, values);
  SHMT_TRY(shmt__tensor_alias(all, (shmt_ints){sizes, n_dims}, shmt__tensor_strides(all), all->offset, &own));
  return shmt_op_clone(own, SHMT_CONTIGUOUS_FORMAT, values);
}

static shmt_status solve(shmt_tensor* self, shmt_tensor* b, double rcond, int which, results* r) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) top = NULL;
  int64_t batch[SHMT_MAX_DIMS], sizes[SHMT_MAX_DIMS], n_batch;
  const int64_t m = self->sizes[self->n_dims - 2], n = self->sizes[self->n_dims - 1];
  const int64_t columns = b->sizes[b->n_dims - 1], k = m < n ? m : n;
  lstsq_job job = {.which = which, .rcond = rcond};

  SHMT_TRY(shmt__broadcast_sizes((shmt_ints){self->sizes, self->n_dims - 2}, (shmt_ints){b->sizes, b->n_dims - 2},
                                 batch, &n_batch));
  SHMT_REQUIRE(n_batch + 2 <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "lstsq: more than %d dimensions", SHMT_MAX_DIMS);
  memcpy(sizes, batch, (size_t)n_batch * sizeof *sizes);
  sizes[n_batch] = m, sizes[n_batch + 1] = n;
  SHMT_TRY(shmt__batch_copy(self, (shmt_ints){sizes, n_batch + 2}, &a));
  sizes[n_batch] = m > n ? m : n, sizes[n_batch + 1] = columns;
  SHMT_TRY(shmt__batch_empty((shmt_ints){sizes, n_batch + 2}, b->dtype, b->device, &work));
  SHMT_TRY(shmt__tensor_fill(work, shmt__scalar_int(0)));
  SHMT_TRY(shmt_op_narrow(work, -2, 0, m, &top));
  SHMT_TRY(shmt__tensor_copy(top, b));
  const bool has_rank = which != SHMT_LAPACK_gels,
             has_values = which == SHMT_LAPACK_gelsd || which == SHMT_LAPACK_gelss;
  sizes[n_batch] = k;
  SHMT_TRY(
      shmt__tensor_zeros(has_rank ? (shmt_ints){sizes, n_batch} : SHMT_INTS(0), SHMT_INT64, self->device, &r->rank));
  SHMT_TRY(shmt__tensor_zeros(has_values ? (shmt_ints){sizes, n_batch + 1} : SHMT_INTS(0),
                              shmt__real_dtype(self->dtype), self->device, &r->values));
  if (!shmt__tensor_is_meta(a) && a->numel > 0 && work->numel > 0) SHMT_TRY(run_lstsq(&job, a, work, r));
  const bool wants_residuals = m > n && which != SHMT_LAPACK_gelsy &&
                               (which == SHMT_LAPACK_gels || shmt__tensor_is_meta(a) || all_full(r->rank, n));
  if (wants_residuals)
    SHMT_TRY(sum_residuals(work, n, m - n, &r->residuals));
  else
    SHMT_TRY(shmt__tensor_zeros(SHMT_INTS(0), shmt__real_dtype(self->dtype), self->device, &r->residuals));
  if (has_rank) SHMT_TRY(without_broadcast(self, &r->rank));
  if (has_values) SHMT_TRY(without_broadcast(self, &r->values));
  return shmt_op_narrow(work, -2, 0, n, &r->x);
}

shmt_status shmt__linalg_lstsq(shmt_tensor* self, shmt_tensor* b, shmt_opt_float rcond, const char* driver,
                               shmt_tensor** solution, shmt_tensor** residuals, shmt_tensor** rank,
                               shmt_tensor** singular_values) {
  __attribute__((cleanup(results_fini))) results r = {0};
  SHMT_AUTO(shmt_tensor) column = NULL;
  int which;
  bool is_vector;
  double eps;

  SHMT_TRY(check_arguments(self, b));
  SHMT_TRY(find_driver(driver, &which));
  SHMT_TRY(shmt__linalg_is_vector(self, b, &is_vector));
  if (is_vector)
    SHMT_TRY(shmt_op_unsqueeze(b, -1, &column));
  else
    column = shmt__tensor_ref(b);
  SHMT_REQUIRE(column->n_dims >= 2 && self->sizes[self->n_dims - 2] == column->sizes[column->n_dims - 2],
               SHMT_E_RUNTIME, "torch.linalg.lstsq: input.size(-2) should match other.size(-%d), but got %s and %s",
               is_vector ? 1 : 2, SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(b));
  SHMT_TRY(shmt__eps(self, &eps));
  const int64_t m = self->sizes[self->n_dims - 2], n = self->sizes[self->n_dims - 1];
  SHMT_TRY(solve(self, column, rcond.has ? rcond.value : eps * (double)(m > n ? m : n), which, &r));
  if (is_vector) {
    SHMT_AUTO(shmt_tensor) x = SHMT_TAKE(r.x);
    SHMT_TRY(shmt_op_squeeze_dim(x, -1, &r.x));
  }
  *solution = SHMT_TAKE(r.x);
  *residuals = SHMT_TAKE(r.residuals);
  *rank = SHMT_TAKE(r.rank);
  *singular_values = SHMT_TAKE(r.values);
  return SHMT_OK;
}
