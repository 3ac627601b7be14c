/* ops/linalg/lstsq_qr.c -- least squares by QR factors, with and without column pivoting. */
#include "ops/linalg/lstsq_qr.h"

#include "iter/threads.h"
#include "ops/matmul/blas_library.h"
#include "ops/linalg/lapack.h"
#include "ops/dtype_names.h"
#include "ops/linalg/trsm.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
  LARGEST = 1,   /* values of laic1's argument job */
  SMALLEST = 2,
};

/* A piece of fewer multiplications than this costs more to hand to another thread than to do. */
#define MIN_PIECE_OPS 5e5

/* LAPACK's laic1: one step of an estimate of the largest or smallest singular value of a triangular matrix. */
typedef void (*laic1_fn)(const int* job, const int* j, const void* x, const void* sest, const void* w,
                         const void* gamma, void* sestpr, void* s, void* c);

typedef union number {
  float f[2];
  double d[2];
} number;

shmt_status shmt__lstsq_qr_find(shmt_dtype dtype, shmt__lstsq_qr* out, bool* is_there) {
  char name[16];
  const char letter = dtype == SHMT_FLOAT32 ? 's' : dtype == SHMT_FLOAT64 ? 'd' : dtype == SHMT_COMPLEX64 ? 'c' : 'z';

  SHMT_TRY(shmt__householder_find(dtype, &out->householder));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_geqp3, dtype, &out->geqp3));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_tzrzf, dtype, &out->tzrzf));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_ormrz, dtype, &out->ormrz));
  (void)snprintf(name, sizeof name, "%claic1_", letter);
  out->laic1 = shmt__blas_symbol(name);
  *is_there = out->laic1 != NULL;
  return SHMT_OK;
}

typedef struct columns_job {
  const shmt__lstsq_qr* s;
  int64_t item;
  int rank, n;
  const char* r;
  int ldr;
  char* b;
  int ldb;
  const int* jpvt; /* row i of the solution goes to row jpvt[i], from 1; NULL: rows stay */
  atomic_bool failed;
} columns_job;

/* b = R^-1 b */
static void solve_piece(void* ctx, int64_t begin, int64_t end) {
  const columns_job* job = ctx;

  const shmt__trsm_args s = {
      .dtype = job->s->householder.dtype,
      .n = 1,
      .triangular = {{.a = {(char*)(uintptr_t)job->r, job->rank, job->rank, 1, job->ldr}}},
  };
  const shmt__matrix b = {job->b + begin * job->ldb * job->item, job->rank, end - begin, 1, job->ldb};

  shmt__trsm(&s, b, b, 0);
}

static void move_rows(const columns_job* job, char* column, char* old) {
  const int64_t item = job->item;

  memcpy(old, column, (size_t)(job->n * item));
  for (int64_t i = 0; i < job->n; i++) memcpy(column + (job->jpvt[i] - 1) * item, old + i * item, (size_t)item);
}

static void move_piece(void* ctx, int64_t begin, int64_t end) {
  columns_job* job = ctx;
  const uint64_t nbytes = (uint64_t)(job->n * job->item);
  void* old;

  if (shmt__alloc(nbytes, &old) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&job->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t j = begin; j < end; j++) move_rows(job, job->b + j * job->ldb * job->item, old);
  shmt__dealloc(old, nbytes);
}

/* Runs `one` for the columns of b, divided between threads. work: multiplications for a column. */
static void over_columns(columns_job* job, int columns, double work,
                         void (*piece)(void* ctx, int64_t begin, int64_t end)) {
  const int threads = shmt__num_threads();
  const int64_t even = (columns + threads - 1) / threads, grain = (int64_t)(MIN_PIECE_OPS / work) + 1;

  shmt__parallel_for(columns, grain > even ? grain : even, piece, job);
}

static bool is_zero(shmt_dtype dtype, const char* at) {
  const float* f = (const float*)(const void*)at;
  const double* d = (const double*)(const void*)at;

  return dtype == SHMT_FLOAT32     ? f[0] == 0
         : dtype == SHMT_FLOAT64   ? d[0] == 0
         : dtype == SHMT_COMPLEX64 ? f[0] == 0 && f[1] == 0
                                   : d[0] == 0 && d[1] == 0;
}

int shmt__lstsq_gels(const shmt__lstsq_qr* s, int m, int n, int columns, char* a, int lda, char* b,
                     int ldb) {
  const shmt__householder* h = &s->householder;
  const int64_t item = shmt__dtype_size[h->dtype];
  columns_job job = {.s = s, .item = item, .rank = n, .n = n, .r = a, .ldr = lda, .b = b, .ldb = ldb};
  const uint64_t nbytes = (uint64_t)(n * item);
  void* tau;
  int info;

  if (shmt__alloc(nbytes, &tau) != SHMT_OK) return SHMT_LAPACK_NO_WORK;
  info = shmt__householder_geqrf(h, m, n, a, lda, tau);
  for (int64_t i = 0; i < n && info == 0; i++)
    if (is_zero(h->dtype, a + (i * lda + i) * item)) info = (int)i + 1;
  if (info == 0) info = shmt__householder_ormqr(h, true, m, columns, n, a, lda, tau, b, ldb);
  if (info == 0) over_columns(&job, columns, 0.5 * n * n, solve_piece);
  shmt__dealloc(tau, nbytes);
  return info;
}

/* x[0:n] *= s */
static void scale(shmt_dtype dtype, int n, void* x, const number* s) {
  float* f = x;
  double* d = x;

  if (dtype == SHMT_FLOAT32)
    for (int i = 0; i < n; i++) f[i] *= s->f[0];
  else if (dtype == SHMT_FLOAT64)
    for (int i = 0; i < n; i++) d[i] *= s->d[0];
  else if (dtype == SHMT_COMPLEX64)
    for (int i = 0; i < 2 * n; i += 2) {
      const float re = f[i] * s->f[0] - f[i + 1] * s->f[1];
      f[i + 1] = f[i] * s->f[1] + f[i + 1] * s->f[0];
      f[i] = re;
    }
  else
    for (int i = 0; i < 2 * n; i += 2) {
      const double re = d[i] * s->d[0] - d[i + 1] * s->d[1];
      d[i + 1] = d[i] * s->d[1] + d[i + 1] * s->d[0];
      d[i] = re;
    }
}

/* An estimate of a singular value of the leading triangular block, and the vector that belongs to it. */
typedef struct estimate {
  int job;
  char* x;
  number value, next, s, c;
} estimate;

static double value_of(bool is_single, const number* n) { return is_single ? (double)n->f[0] : n->d[0]; }

/* Estimates the value for the triangular block with one more column. */
static void estimate_next(laic1_fn laic1, estimate* e, int size, const char* column, int64_t item) {
  laic1(&e->job, &size, e->x, &e->value, column, column + size * item, &e->next, &e->s, &e->c);
}

static void estimate_take(estimate* e, shmt_dtype dtype, int size, int64_t item) {
  scale(dtype, size, e->x, &e->s);
  memcpy(e->x + size * item, &e->c, (size_t)item);
  e->value = e->next;
}

/* The size of the leading triangular block of r whose condition is below 1 / rcond. x: room for two columns. */
static int rank_of(const shmt__lstsq_qr* s, int size, const char* r, int ldr, double rcond, char* x) {
  const shmt_dtype dtype = s->householder.dtype;
  const bool is_single = shmt__real_dtype(dtype) == SHMT_FLOAT32;
  const int64_t item = shmt__dtype_size[dtype];
  estimate small = {.job = SMALLEST, .x = x}, large = {.job = LARGEST, .x = x + size * item};
  laic1_fn laic1;
  int rank = 0;

  memcpy(&laic1, &s->laic1, sizeof laic1);
  if (is_zero(dtype, r)) return 0;
  /* The first column alone has one singular value: the magnitude of its element, which the estimate of the largest
   * gives. */
  estimate_next(laic1, &large, 0, r, item);
  estimate_take(&large, dtype, 0, item);
  memcpy(small.x, large.x, (size_t)item);
  small.value = large.value;
  rank = 1;
  while (rank < size) {
    const char* column = r + (int64_t)rank * ldr * item;
    estimate_next(laic1, &small, rank, column, item);
    estimate_next(laic1, &large, rank, column, item);
    if (!(value_of(is_single, &large.next) * rcond <= value_of(is_single, &small.next))) break;
    estimate_take(&small, dtype, rank, item);
    estimate_take(&large, dtype, rank, item);
    rank++;
  }
  return rank;
}

static void clear_rows(const columns_job* job, int from, int columns) {
  for (int64_t j = 0; j < columns; j++)
    memset(job->b + (j * job->ldb + from) * job->item, 0, (size_t)((job->n - from) * job->item));
}

/* Eliminates the columns behind the rank (tzrzf), solves, and transforms the solution back (ormrz). */
static int solve(columns_job* job, int columns, char* a, char* tau) {
  const shmt__lstsq_qr* s = job->s;
  const int n = job->n, rank = job->rank;
  const char adjoint = shmt__is_complex(s->householder.dtype) ? 'C' : 'T';
  int info = 0;

  if (rank < n)
    info = ((shmt__lapack_iipip)s->tzrzf)(SHMT_LAPACK_COLUMN_MAJOR, rank, n, a, job->ldr, tau);
  over_columns(job, columns, 0.5 * rank * rank, solve_piece);
  clear_rows(job, rank, columns);
  if (rank < n && info == 0)
    info = ((shmt__lapack_ormrz)s->ormrz)(SHMT_LAPACK_COLUMN_MAJOR, 'L', adjoint, n, columns, rank, n - rank, a,
                                          job->ldr, tau, job->b, job->ldb);
  over_columns(job, columns, n, move_piece);
  return info == 0 && atomic_load_explicit(&job->failed, memory_order_relaxed) ? SHMT_LAPACK_NO_WORK : info;
}

int shmt__lstsq_gelsy(const shmt__lstsq_qr* s, int m, int n, int columns, char* a, int lda, char* b,
                      int ldb, double rcond, int64_t* rank) {
  const shmt__householder* h = &s->householder;
  const int size = m < n ? m : n;
  const int64_t item = shmt__dtype_size[h->dtype];
  columns_job job = {.s = s, .item = item, .n = n, .r = a, .ldr = lda, .b = b, .ldb = ldb};
  const uint64_t nbytes = (uint64_t)(3 * size * item) + (uint64_t)n * sizeof(int);
  void* memory;
  int info;

  *rank = 0;
  if (shmt__alloc(nbytes, &memory) != SHMT_OK) return SHMT_LAPACK_NO_WORK;
  char *tau = memory, *room = tau + size * item;
  int* jpvt = (int*)(void*)(room + 2 * size * item);
  memset(jpvt, 0, (size_t)n * sizeof *jpvt); /* no column is fixed at the front */
  info = ((shmt__lapack_iipipp)s->geqp3)(SHMT_LAPACK_COLUMN_MAJOR, m, n, a, lda, jpvt, tau);
  if (info == 0) job.rank = rank_of(s, size, a, lda, rcond, room);
  job.jpvt = jpvt;
  if (info == 0 && job.rank == 0)
    clear_rows(&job, 0, columns);
  else if (info == 0 && (info = shmt__householder_ormqr(h, true, m, columns, size, a, lda, tau, b, ldb)) == 0)
    info = solve(&job, columns, a, room);
  if (info == 0) *rank = job.rank;
  shmt__dealloc(memory, nbytes);
  return info;
}
