/* ops/fft_plan.c -- factors, roots of unity, chirps; lines over threads. */
#include "ops/fft_plan.h"

#include "generated/dtype_tables.h"
#include "generated/loops.h"
#include "iter/iter.h"
#include "storage/allocator.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Above this a prime factor is cheaper by convolution. */
enum { MAX_RADIX = 31, GRAIN_POINTS = 8192 };

static int factorize(int64_t n, int* factors) {
  int count = 0;

  while (n % 4 == 0) factors[count++] = 4, n /= 4;
  for (int p = 2; p <= MAX_RADIX; p++)
    while (n % p == 0) factors[count++] = p, n /= p;
  return n == 1 ? count : 0;
}

/* exp(-2 pi i k / n), by the angle from the nearest quarter turn, so that all are as exact as sin and cos are. */
static void root_of_unity(int64_t k, int64_t n, double* re, double* im) {
  const int64_t quarter = (4 * k + n / 2) / n;
  const double angle = M_PI_2 * (double)(4 * k - quarter * n) / (double)n;
  const double c = cos(angle), s = sin(angle);
  switch (quarter % 4) {
    case 0: *re = c, *im = -s; break;
    case 1: *re = -s, *im = -c; break;
    case 2: *re = -c, *im = s; break;
    default: *re = s, *im = c;
  }
}

static void put(void* table, int64_t k, bool is_single, double re, double im) {
  if (is_single) {
    ((float*)table)[2 * k] = (float)re;
    ((float*)table)[2 * k + 1] = (float)im;
  } else {
    ((double*)table)[2 * k] = re;
    ((double*)table)[2 * k + 1] = im;
  }
}

static void fill_roots(void* table, int64_t n, bool is_single) {
  for (int64_t k = 0; k < n; k++) {
    double re, im;
    root_of_unity(k, n, &re, &im);
    put(table, k, is_single, re, im);
  }
}

static void fill_chirp(shmt__fft* f, char* chirp, char* transform, char* scratch, bool is_single) {
  const int64_t n = f->plan.length, m = f->inner.length;
  char* data[2] = {transform, scratch};

  memset(transform, 0, (size_t)m * (size_t)shmt__dtype_size[f->dtype]);
  for (int64_t k = 0; k < n; k++) {
    double re, im;
    /* k^2 / (2n) of a turn; the square modulo 2n, which stays below 2^63 for every n there is memory for */
    root_of_unity((int64_t)((unsigned __int128)k * (unsigned __int128)k % (unsigned __int128)(2 * n)), 2 * n, &re, &im);
    put(chirp, k, is_single, re, im);
    put(transform, k, is_single, re, -im);
    if (k > 0) put(transform, m - k, is_single, re, -im);
  }
  f->inner.is_forward = true;
  f->inner.scale = 1;
  shmt__loops[SHMT_LOOP_fft][f->dtype](data, NULL, 1, &f->inner);
}

shmt_status shmt__fft_init(shmt__fft* f, int64_t n, shmt_dtype dtype) {
  const bool is_single = dtype == SHMT_COMPLEX64;
  const uint64_t item = (uint64_t)shmt__dtype_size[dtype];
  int64_t m = 1;

  *f = (shmt__fft){.dtype = dtype, .plan = {.length = n, .scale = 1}};
  f->plan.n_factors = factorize(n, f->plan.factors);
  if (n == 1 || f->plan.n_factors > 0) {
    f->nbytes = (uint64_t)n * item;
    SHMT_TRY(shmt__alloc(f->nbytes, &f->memory));
    fill_roots(f->memory, n, is_single);
    f->plan.table = f->memory;
    return SHMT_OK;
  }
  SHMT_REQUIRE(n < INT64_MAX / 64, SHMT_E_RUNTIME, "fft: a line is too long");
  while (m < 2 * n - 1) m *= 2;
  f->inner = (shmt__fft_plan){.length = m, .scale = 1};
  f->inner.n_factors = factorize(m, f->inner.factors);
  f->nbytes = ((uint64_t)n + 3 * (uint64_t)m) * item;
  SHMT_TRY(shmt__alloc(f->nbytes, &f->memory));
  char* roots = f->memory;
  char *transform = roots + (uint64_t)m * item, *scratch = transform + (uint64_t)m * item;
  char* chirp = scratch + (uint64_t)m * item;
  fill_roots(roots, m, is_single);
  f->inner.table = roots;
  fill_chirp(f, chirp, transform, scratch, is_single);
  f->plan.inner = &f->inner;
  f->plan.chirp = chirp;
  f->plan.chirp_transform = transform;
  return SHMT_OK;
}

void shmt__fft_fini(shmt__fft* f) {
  if (f->memory) shmt__dealloc(f->memory, f->nbytes);
  f->memory = NULL;
}

typedef struct fft_job {
  const shmt__fft_plan* plan;
  shmt__loop loop;
  char* lines;
  int64_t item;
  uint64_t scratch_bytes;
  atomic_bool failed;
} fft_job;

static void run_lines(void* ctx, int64_t begin, int64_t end) {
  fft_job* job = ctx;
  void* scratch = NULL;

  if (shmt__alloc(job->scratch_bytes, &scratch) != SHMT_OK) {
    /* relaxed: read after the pool has joined. */
    atomic_store_explicit(&job->failed, true, memory_order_relaxed);
    return;
  }
  char* data[2] = {job->lines + begin * job->plan->length * job->item, scratch};
  job->loop(data, NULL, end - begin, job->plan);
  shmt__dealloc(scratch, job->scratch_bytes);
}

shmt_status shmt__fft_run(const shmt__fft* f, void* lines, int64_t n_lines, bool is_forward, double scale) {
  shmt__fft_plan plan = f->plan;
  const bool by_chirp = plan.inner != NULL;
  fft_job job = {.plan = &plan,
                 .loop = shmt__loops[by_chirp ? SHMT_LOOP_fft_chirp : SHMT_LOOP_fft][f->dtype],
                 .lines = lines,
                 .item = shmt__dtype_size[f->dtype]};

  plan.is_forward = is_forward;
  plan.scale = scale;
  job.scratch_bytes = (uint64_t)(by_chirp ? 2 * f->inner.length : plan.length) * (uint64_t)job.item;
  shmt__parallel_for(n_lines, GRAIN_POINTS / plan.length + 1, run_lines, &job);
  SHMT_REQUIRE(!atomic_load_explicit(&job.failed, memory_order_relaxed), SHMT_E_NOMEM, "scratch of a Fourier transform");
  return SHMT_OK;
}
