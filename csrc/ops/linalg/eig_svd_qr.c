/* ops/linalg/eig_svd_qr.c -- eigenvalues, singular values and orthogonal factors, by LAPACK. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/linalg/householder.h"
#include "ops/linalg/lapack.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <string.h>

/* Arguments of a LAPACK routine for a batch. The routine overwrites the matrices. */
typedef struct spectral_job {
  void* routine;
  shmt__householder householder;
  shmt__batch a, u, v;
  char mode, uplo;
  char* values;      /* real; `rank` values for each matrix */
  char* more;        /* imaginary parts of the values */
  int64_t rank, value_bytes;
} spectral_job;

static char* matrix(const shmt__batch* b, int64_t i) { return b->data + i * b->step; }
static char* values_of(const spectral_job* job, int64_t i) { return job->values + i * job->rank * job->value_bytes; }

/* Multiplications for one matrix: these routines cost about n^3 with a large constant. */
static double work_of(const shmt__batch* b) { return 10.0 * b->rows * b->columns * (b->rows + b->columns); }

/* Runs a routine for every matrix and checks its infos. Errors have torch's texts, with this name. */
static shmt_status run_checked(const char* name, const shmt_tensor* a, spectral_job* job, shmt__batch_fn one) {
  void* memory = NULL;
  const uint64_t nbytes = (uint64_t)(job->a.n > 0 ? job->a.n : 1) * sizeof(int);
  shmt_status status;

  SHMT_TRY(shmt__alloc(nbytes, &memory));
  status = shmt__batch_run(job->a.n, work_of(&job->a), one, job, memory);
  if (status == SHMT_OK) status = shmt__check_infos(name, memory, job->a.n, a->n_dims > 2);
  shmt__dealloc(memory, nbytes);
  return status;
}

/* --- symmetric and Hermitian ------------------------------------------------------------------- */

static int run_syevd(void* ctx, int64_t i) {
  const spectral_job* job = ctx;

  return ((shmt__lapack_ccipip)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, job->mode, job->uplo, job->a.rows,
                                             matrix(&job->a, i), job->a.ld, values_of(job, i));
}

shmt_status shmt__linalg_eigh_core(shmt_tensor* a, const char* uplo, bool compute_v, shmt_tensor** out_values,
                                   shmt_tensor** out_vectors) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) vectors = NULL;
  int64_t buf[SHMT_MAX_DIMS];
  const shmt_dtype real = shmt__real_dtype(a->dtype);

  SHMT_TRY(shmt__check_square("linalg.eigh", "A", a));
  const char letter = (char)(uplo[0] >= 'a' ? uplo[0] - 'a' + 'A' : uplo[0]);
  SHMT_REQUIRE((letter == 'U' || letter == 'L') && uplo[1] == 0, SHMT_E_RUNTIME,
               "Expected UPLO argument to be 'L' or 'U', but got %s", uplo);
  SHMT_TRY(shmt__check_lapack_work("linalg_eigh_cpu", a));
  const int64_t n = a->sizes[a->n_dims - 1];
  SHMT_TRY(shmt__tensor_empty(shmt__batch_sizes(a, 1, n, 0, buf), real, a->device, SHMT_CONTIGUOUS_FORMAT, &values));
  SHMT_TRY(shmt__batch_copy(a, shmt__tensor_sizes(a), &vectors));
  if (!shmt__tensor_is_meta(a) && a->numel > 0) {
    spectral_job job = {.mode = compute_v ? 'V' : 'N',
                        .uplo = letter,
                        .values = shmt__tensor_data(values),
                        .rank = n,
                        .value_bytes = shmt__dtype_size[real]};
    SHMT_TRY(shmt__batch_of(vectors, &job.a));
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_syevd, a->dtype, &job.routine));
    SHMT_TRY(run_checked("linalg.eigh", a, &job, run_syevd));
  }
  if (!compute_v) {
    shmt__tensor_release(SHMT_TAKE(vectors));
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(0), a->dtype, a->device, SHMT_CONTIGUOUS_FORMAT, &vectors));
  }
  *out_values = SHMT_TAKE(values);
  *out_vectors = SHMT_TAKE(vectors);
  return SHMT_OK;
}

/* --- general ---------------------------------------------------------------------------------------- */

static int run_geev_real(void* ctx, int64_t i) {
  const spectral_job* job = ctx;
  const bool vectors = job->mode == 'V';

  return ((shmt__lapack_geev_real)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, 'N', job->mode, job->a.rows,
                                                matrix(&job->a, i), job->a.ld, values_of(job, i),
                                                job->more + i * job->rank * job->value_bytes, NULL, 1,
                                                vectors ? matrix(&job->v, i) : NULL, vectors ? job->v.ld : 1);
}

static int run_geev_complex(void* ctx, int64_t i) {
  const spectral_job* job = ctx;
  const bool vectors = job->mode == 'V';

  return ((shmt__lapack_geev_complex)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, 'N', job->mode, job->a.rows,
                                                   matrix(&job->a, i), job->a.ld, values_of(job, i), NULL, 1,
                                                   vectors ? matrix(&job->v, i) : NULL, vectors ? job->v.ld : 1);
}

static double real_at(const char* p, int64_t i, bool is_double) {
  return is_double ? ((const double*)(const void*)p)[i] : (double)((const float*)(const void*)p)[i];
}

static void store_complex(char* p, int64_t i, bool is_double, double re, double im) {
  if (is_double) {
    ((double*)(void*)p)[2 * i] = re;
    ((double*)(void*)p)[2 * i + 1] = im;
  } else {
    ((float*)(void*)p)[2 * i] = (float)re;
    ((float*)(void*)p)[2 * i + 1] = (float)im;
  }
}

/* Joins the vectors of a pair of conjugate eigenvalues. LAPACK leaves their real and imaginary parts in two columns. */
static void join_vectors(const char* im, const char* real, char* out, int64_t n, bool is_double) {
  for (int64_t j = 0; j < n; j++) {
    const bool is_pair = real_at(im, j, is_double) != 0 && j + 1 < n;
    for (int64_t i = 0; i < n; i++) {
      const double x = real_at(real, j * n + i, is_double);
      const double y = is_pair ? real_at(real, (j + 1) * n + i, is_double) : 0;
      store_complex(out, j * n + i, is_double, x, y);
      if (is_pair) store_complex(out, (j + 1) * n + i, is_double, x, -y);
    }
    if (is_pair) j++;
  }
}

/* Turns LAPACK's real parts, imaginary parts and real vectors into complex values and vectors. */
static void join_pairs(const spectral_job* job, bool is_double, shmt_tensor* values, shmt_tensor* vectors) {
  shmt__batch to = {0};
  const int64_t n = job->rank;

  if (vectors) (void)shmt__batch_of(vectors, &to);
  for (int64_t i = 0; i < job->a.n; i++) {
    const char* im = job->more + i * n * job->value_bytes;
    for (int64_t j = 0; j < n; j++)
      store_complex(shmt__tensor_data(values), i * n + j, is_double, real_at(values_of(job, i), j, is_double),
                    real_at(im, j, is_double));
    if (vectors) join_vectors(im, matrix(&job->v, i), matrix(&to, i), n, is_double);
  }
}

/* values: complex, for every matrix. vectors: NULL when they are not wanted. */
static shmt_status eig_run(const char* name, shmt_tensor* a, shmt_tensor* values, shmt_tensor* vectors) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) parts = NULL;
  SHMT_AUTO(shmt_tensor) real_vectors = NULL;
  spectral_job job = {.mode = vectors ? 'V' : 'N', .rank = a->sizes[a->n_dims - 1]};
  const bool is_complex = shmt__is_complex(a->dtype);

  SHMT_TRY(shmt__batch_copy(a, shmt__tensor_sizes(a), &work));
  SHMT_TRY(shmt__batch_of(work, &job.a));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_geev, a->dtype, &job.routine));
  job.value_bytes = shmt__tensor_item_bytes(a);
  if (is_complex) {
    job.values = shmt__tensor_data(values);
    if (vectors) SHMT_TRY(shmt__batch_of(vectors, &job.v));
    return run_checked(name, a, &job, run_geev_complex);
  }
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(2, values->numel), a->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &parts));
  job.values = shmt__tensor_data(parts);
  job.more = job.values + values->numel * job.value_bytes;
  if (vectors) {
    SHMT_TRY(shmt__batch_empty(shmt__tensor_sizes(a), a->dtype, SHMT_CPU, &real_vectors));
    SHMT_TRY(shmt__batch_of(real_vectors, &job.v));
  }
  SHMT_TRY(run_checked(name, a, &job, run_geev_real));
  join_pairs(&job, a->dtype == SHMT_FLOAT64, values, vectors);
  return SHMT_OK;
}

/* Checks that all elements are finite: with a NaN or an infinity the routine would never end. */
static shmt_status check_finite(const char* name, shmt_tensor* a, shmt_status code, const char* text) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  const int parts = shmt__is_complex(a->dtype) ? 2 : 1;
  const bool is_double = shmt__real_dtype(a->dtype) == SHMT_FLOAT64;

  SHMT_TRY(shmt__tensor_contiguous(a, SHMT_CONTIGUOUS_FORMAT, &dense));
  for (int64_t i = 0; i < parts * a->numel; i++) {
    const double x = real_at(shmt__tensor_data(dense), i, is_double);
    SHMT_REQUIRE(x - x == 0, code, "%s: %s", name, text);
  }
  return SHMT_OK;
}

static shmt_status eig(const char* name, shmt_tensor* self, bool wants_vectors, shmt_tensor** out_values,
                       shmt_tensor** out_vectors) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) vectors = NULL;
  int64_t buf[SHMT_MAX_DIMS];
  const shmt_dtype dtype = shmt__complex_dtype(self->dtype);

  SHMT_TRY(shmt__check_square(name, "A", self));
  SHMT_TRY(shmt__check_float_dtype(name, self));
  SHMT_TRY(shmt__check_lapack_routine("linalg_eig_out_cpu", self));
  const shmt_ints sizes = shmt__batch_sizes(self, 1, self->sizes[self->n_dims - 1], 0, buf);
  SHMT_TRY(shmt__tensor_empty(sizes, dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &values));
  if (wants_vectors) SHMT_TRY(shmt__batch_empty(shmt__tensor_sizes(self), dtype, self->device, &vectors));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    SHMT_TRY(check_finite(name, self, SHMT_E_RUNTIME, "input tensor should not contain infs or NaNs."));
    SHMT_TRY(eig_run(name, self, values, vectors));
  }
  *out_values = SHMT_TAKE(values);
  if (wants_vectors) *out_vectors = SHMT_TAKE(vectors);
  return SHMT_OK;
}

shmt_status shmt__linalg_eig(shmt_tensor* self, shmt_tensor** out_values, shmt_tensor** out_vectors) {
  return eig("linalg.eig", self, true, out_values, out_vectors);
}

shmt_status shmt__linalg_eigvals_core(shmt_tensor* self, shmt_tensor** out) {
  return eig("linalg.eigvals", self, false, out, NULL);
}

/* --- singular values -------------------------------------------------------------------------------- */

static int run_gesdd(void* ctx, int64_t i) {
  const spectral_job* job = ctx;
  const bool vectors = job->mode != 'N';

  return ((shmt__lapack_ciipippipi)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, job->mode, job->a.rows, job->a.columns,
                                                 matrix(&job->a, i), job->a.ld, values_of(job, i),
                                                 vectors ? matrix(&job->u, i) : NULL, vectors ? job->u.ld : 1,
                                                 vectors ? matrix(&job->v, i) : NULL, vectors ? job->v.ld : 1);
}

/* Sets matrices to the identity. */
static shmt_status fill_eye(shmt_tensor* t) {
  shmt__batch b;

  SHMT_TRY(shmt__tensor_fill(t, shmt__scalar_int(0)));
  if (t->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt__batch_of(t, &b));
  for (int64_t m = 0; m < b.n; m++)
    for (int64_t i = 0; i < b.rows && i < b.columns; i++)
      shmt__scalar_store_unsafe(shmt__scalar_int(1), t->dtype,
                                matrix(&b, m) + i * ((int64_t)b.rows + 1) * shmt__tensor_item_bytes(t));
  return SHMT_OK;
}

shmt_status shmt__linalg_svd_core(shmt_tensor* a, bool full_matrices, bool compute_uv, const char* driver,
                                  shmt_tensor** out_u, shmt_tensor** out_s, shmt_tensor** out_vh) {
  SHMT_AUTO(shmt_tensor) u = NULL;
  SHMT_AUTO(shmt_tensor) s = NULL;
  SHMT_AUTO(shmt_tensor) vh = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;
  int64_t buf[SHMT_MAX_DIMS];
  const char* name = "linalg.svd";
  const shmt_dtype real = shmt__real_dtype(a->dtype);

  SHMT_TRY(shmt__check_matrix(name, "A", a));
  SHMT_TRY(shmt__check_float_dtype(name, a));
  SHMT_TRY(shmt__check_lapack_work("linalg_svd_cpu", a));
  SHMT_REQUIRE(!driver || a->numel == 0, SHMT_E_RUNTIME,
               "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs "
               "with cuSOLVER backend.");
  const int64_t m = a->sizes[a->n_dims - 2], n = a->sizes[a->n_dims - 1], k = m < n ? m : n;
  SHMT_TRY(shmt__tensor_empty(shmt__batch_sizes(a, 1, k, 0, buf), real, a->device, SHMT_CONTIGUOUS_FORMAT, &s));
  if (compute_uv) {
    SHMT_TRY(shmt__batch_empty(shmt__batch_sizes(a, 2, m, full_matrices ? m : k, buf), a->dtype, a->device, &u));
    SHMT_TRY(shmt__batch_empty(shmt__batch_sizes(a, 2, full_matrices ? n : k, n, buf), a->dtype, a->device, &vh));
  } else {
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(0), a->dtype, a->device, SHMT_CONTIGUOUS_FORMAT, &u));
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(0), a->dtype, a->device, SHMT_CONTIGUOUS_FORMAT, &vh));
  }
  if (!shmt__tensor_is_meta(a) && a->numel > 0) {
    spectral_job job = {.mode = !compute_uv ? 'N' : full_matrices ? 'A' : 'S',
                        .values = shmt__tensor_data(s),
                        .rank = k,
                        .value_bytes = shmt__dtype_size[real]};
    /* LAPACK may not end on values that are not finite. */
    SHMT_TRY(check_finite(name, a, SHMT_E_LINALG,
                          "The algorithm failed to converge because the input matrix contained non-finite values."));
    SHMT_TRY(shmt__batch_copy(a, shmt__tensor_sizes(a), &work));
    SHMT_TRY(shmt__batch_of(work, &job.a));
    if (compute_uv) {
      SHMT_TRY(shmt__batch_of(u, &job.u));
      SHMT_TRY(shmt__batch_of(vh, &job.v));
    }
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_gesdd, a->dtype, &job.routine));
    SHMT_TRY(run_checked(name, a, &job, run_gesdd));
  } else if (!shmt__tensor_is_meta(a) && compute_uv) {
    SHMT_TRY(fill_eye(u));
    SHMT_TRY(fill_eye(vh));
  }
  *out_u = SHMT_TAKE(u);
  *out_s = SHMT_TAKE(s);
  *out_vh = SHMT_TAKE(vh);
  return SHMT_OK;
}

/* --- Householder reflectors ------------------------------------------------------------------------- */

static int run_geqrf(void* ctx, int64_t i) {
  const spectral_job* job = ctx;

  return shmt__householder_geqrf(&job->householder, job->a.rows, job->a.columns, matrix(&job->a, i), job->a.ld,
                                 values_of(job, i));
}

shmt_status shmt__geqrf(shmt_tensor* self, shmt_tensor** out_a, shmt_tensor** out_tau) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) tau = NULL;
  int64_t buf[SHMT_MAX_DIMS];

  SHMT_TRY(shmt__check_matrix("torch.geqrf", "A", self));
  SHMT_TRY(shmt__check_lapack_routine("geqrf_cpu", self));
  const int64_t m = self->sizes[self->n_dims - 2], n = self->sizes[self->n_dims - 1], k = m < n ? m : n;
  SHMT_TRY(shmt__tensor_empty(shmt__batch_sizes(self, 1, k, 0, buf), self->dtype, self->device,
                              SHMT_CONTIGUOUS_FORMAT, &tau));
  SHMT_TRY(shmt__batch_copy(self, shmt__tensor_sizes(self), &a));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    spectral_job job = {.values = shmt__tensor_data(tau), .rank = k, .value_bytes = shmt__tensor_item_bytes(self)};
    SHMT_TRY(shmt__batch_of(a, &job.a));
    SHMT_TRY(shmt__householder_find(self->dtype, &job.householder));
    SHMT_TRY(run_checked("geqrf", self, &job, run_geqrf));
  }
  *out_a = SHMT_TAKE(a);
  *out_tau = SHMT_TAKE(tau);
  return SHMT_OK;
}

static int run_orgqr(void* ctx, int64_t i) {
  const spectral_job* job = ctx;

  return shmt__householder_orgqr(&job->householder, job->a.rows, job->a.columns, (int)job->rank, matrix(&job->a, i),
                                 job->a.ld, values_of(job, i));
}

static shmt_status check_tau(const char* name, const shmt_tensor* input, const shmt_tensor* tau, int64_t most) {
  const int outer = input->n_dims - 2;

  SHMT_REQUIRE(tau->n_dims == outer + 1, SHMT_E_RUNTIME, "%s: Expected tau to have one dimension less than input, but "
               "got tau.ndim equal to %d and input.ndim is equal to %d", name, tau->n_dims, input->n_dims);
  for (int d = 0; d < outer; d++)
    SHMT_REQUIRE(tau->sizes[d] == input->sizes[d], SHMT_E_RUNTIME, "%s: Expected batch dimensions of tau to be equal "
                 "to input.shape[:-2], but got %s and %s", name, SHMT_SHAPE_TEXT(tau), SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE(tau->sizes[outer] <= most, SHMT_E_RUNTIME, "%s: input.shape[-1] must be greater than or equal to "
               "tau.shape[-1], but got %" PRId64 " and %" PRId64, name, most, tau->sizes[outer]);
  SHMT_REQUIRE(tau->dtype == input->dtype, SHMT_E_RUNTIME, "%s: tau dtype %s does not match input dtype %s", name,
               shmt__dtype_title(tau->dtype), shmt__dtype_title(input->dtype));
  return SHMT_OK;
}

shmt_status shmt__householder_product_inplace(shmt_tensor* q, shmt_tensor* tau) {
  spectral_job job = {.rank = tau->sizes[tau->n_dims - 1], .value_bytes = shmt__tensor_item_bytes(q)};

  if (shmt__tensor_is_meta(q) || q->numel == 0) return SHMT_OK;
  job.values = shmt__tensor_data(tau);
  SHMT_TRY(shmt__batch_of(q, &job.a));
  SHMT_TRY(shmt__householder_find(q->dtype, &job.householder));
  return run_checked("householder_product", q, &job, run_orgqr);
}

shmt_status shmt__linalg_householder_product(shmt_tensor* input, shmt_tensor* tau, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) q = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  const char* name = "torch.linalg.householder_product";

  SHMT_REQUIRE(input->n_dims >= 2, SHMT_E_RUNTIME, "%s: input must have at least 2 dimensions.", name);
  const int64_t m = input->sizes[input->n_dims - 2], n = input->sizes[input->n_dims - 1];
  SHMT_REQUIRE(m >= n, SHMT_E_RUNTIME, "%s: input.shape[-2] must be greater than or equal to input.shape[-1], but got %"
               PRId64 " and %" PRId64, name, m, n);
  SHMT_TRY(check_tau(name, input, tau, n));
  SHMT_TRY(shmt__check_lapack_routine("orgqr_cpu", input));
  SHMT_TRY(shmt__batch_copy(input, shmt__tensor_sizes(input), &q));
  if (!shmt__tensor_is_meta(input)) SHMT_TRY(shmt__tensor_contiguous(tau, SHMT_CONTIGUOUS_FORMAT, &scales));
  if (scales) SHMT_TRY(shmt__householder_product_inplace(q, scales));
  *out = SHMT_TAKE(q);
  return SHMT_OK;
}

static int run_ormqr(void* ctx, int64_t i) {
  const spectral_job* job = ctx;

  if (job->uplo == 'L')
    return shmt__householder_ormqr(&job->householder, job->mode != 'N', job->u.rows, job->u.columns, (int)job->rank,
                                   matrix(&job->a, i), job->a.ld, values_of(job, i), matrix(&job->u, i), job->u.ld);
  return ((shmt__lapack_cciiipippi)job->routine)(SHMT_LAPACK_COLUMN_MAJOR, job->uplo, job->mode, job->u.rows,
                                                 job->u.columns, (int)job->rank, matrix(&job->a, i), job->a.ld,
                                                 values_of(job, i), matrix(&job->u, i), job->u.ld);
}

shmt_status shmt__ormqr(shmt_tensor* self, shmt_tensor* input2, shmt_tensor* input3, bool left, bool transpose,
                        shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) c = NULL;
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  const char* name = "torch.ormqr";

  SHMT_REQUIRE(self->n_dims >= 2, SHMT_E_RUNTIME, "%s: input must have at least 2 dimensions.", name);
  SHMT_REQUIRE(input3->n_dims >= 2 && input3->n_dims == self->n_dims, SHMT_E_RUNTIME,
               "%s: other must have the same number of dimensions as input, at least 2, but got %d and %d", name,
               input3->n_dims, self->n_dims);
  SHMT_TRY(check_tau(name, self, input2, self->sizes[self->n_dims - 1]));
  SHMT_REQUIRE(input3->sizes[input3->n_dims - (left ? 2 : 1)] == self->sizes[self->n_dims - 2], SHMT_E_RUNTIME,
               "%s: other.shape[%d] must be equal to input.shape[-2], but got %s and %s", name, left ? -2 : -1,
               SHMT_SHAPE_TEXT(input3), SHMT_SHAPE_TEXT(self));
  SHMT_REQUIRE(input2->sizes[input2->n_dims - 1] <= self->sizes[self->n_dims - 2], SHMT_E_RUNTIME,
               "%s: other.shape[%d] must be greater than or equal to tau.shape[-1], but got tau of shape %s", name,
               left ? -2 : -1, SHMT_SHAPE_TEXT(input2));
  for (int d = 0; d < self->n_dims - 2; d++)
    SHMT_REQUIRE(input3->sizes[d] == self->sizes[d], SHMT_E_RUNTIME, "%s: Expected batch dimensions of other to be "
                 "equal to input.shape[:-2], but got %s", name, SHMT_SHAPE_TEXT(input3));
  SHMT_REQUIRE(input3->dtype == self->dtype, SHMT_E_RUNTIME, "%s: Expected input and other to have the same dtype, but "
               "input has dtype %s and other has dtype %s", name, shmt__dtype_title(self->dtype),
               shmt__dtype_title(input3->dtype));
  SHMT_TRY(shmt__check_lapack_routine("ormqr_cpu", self));
  SHMT_TRY(shmt__batch_copy(input3, shmt__tensor_sizes(input3), &c));
  if (!shmt__tensor_is_meta(self) && c->numel > 0 && self->numel > 0) {
    spectral_job job = {.uplo = left ? 'L' : 'R', .rank = input2->sizes[input2->n_dims - 1]};
    job.mode = !transpose ? 'N' : shmt__is_complex(self->dtype) ? 'C' : 'T';
    job.value_bytes = shmt__tensor_item_bytes(self);
    SHMT_TRY(shmt__tensor_contiguous(input2, SHMT_CONTIGUOUS_FORMAT, &scales));
    job.values = shmt__tensor_data(scales);
    SHMT_TRY(shmt__batch_copy(self, shmt__tensor_sizes(self), &a));
    SHMT_TRY(shmt__batch_of(a, &job.a));
    SHMT_TRY(shmt__batch_of(c, &job.u));
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_ormqr, self->dtype, &job.routine));
    SHMT_TRY(shmt__householder_find(self->dtype, &job.householder));
    SHMT_TRY(run_checked("ormqr", self, &job, run_ormqr));
  }
  *out = SHMT_TAKE(c);
  return SHMT_OK;
}
