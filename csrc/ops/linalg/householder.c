/* ops/linalg/householder.c -- QR factors by blocks of Householder reflectors. See Note [Blocks of reflectors]. */
#include "ops/linalg/householder.h"

#include "generated/loops.h"
#include "iter/threads.h"
#include "kernels/linalg/householder.h"
#include "ops/matmul/blas_library.h"
#include "ops/linalg/lapack.h"
#include "storage/allocator.h"

#include <string.h>

enum {
  BLOCK = 32,             /* reflectors in a block */
  MIN_FACTOR = 80,        /* with fewer reflectors LAPACK's geqrf is faster, and so is orgqr below MIN_FORM */
  MIN_FORM = 24,
  TILE = 16,              /* columns or rows that the BLAS' inner kernels work on */
  MAX_ITEM = 16,          /* bytes of an element */
  WORK_BYTES = 32 * 1024, /* of a product on a thread's stack */
};

/* A piece of fewer multiplications than this costs more to hand to another thread than to do. Where the caller goes on
 * with the result, the least is higher (MIN_SHARED_OPS), because the caller fetches the result from another thread's
 * cache. */
#define MIN_PIECE_OPS 5e5
#define MIN_SHARED_OPS 4e6

/* k reflectors below the diagonal of a, the first of them with m rows, in blocks of BLOCK. A block is I - V T V^H. */
typedef struct reflectors {
  const shmt__householder* h;
  int64_t item;
  int m, k;
  const char *a, *tau;
  int lda;
  char* t; /* the matrices T, dense; each has BLOCK * BLOCK elements */
} reflectors;

/* One block. V is a unit lower triangular matrix of k rows, and below it what stands below that in a. */
typedef struct block {
  int at, k, below; /* the first row and column; columns; rows below the triangular part of V */
  const char* a;
  char* t;
} block;

static int min_int(int a, int b) { return a < b ? a : b; }
static int blocks_of(const reflectors* r) { return (r->k + BLOCK - 1) / BLOCK; }

static block block_of(const reflectors* r, int i) {
  const int at = i * BLOCK, k = min_int(BLOCK, r->k - at);

  return (block){.at = at,
                 .k = k,
                 .below = r->m - at - k,
                 .a = r->a + at * (r->lda + 1LL) * r->item,
                 .t = r->t + (int64_t)at * BLOCK * r->item};
}

shmt_status shmt__householder_find(shmt_dtype dtype, shmt__householder* out) {
  out->dtype = dtype;
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_geqrt3, dtype, &out->geqrt3));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_larft, dtype, &out->larft));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_geqrf, dtype, &out->geqrf));
  return shmt__lapack_find(SHMT_LAPACK_orgqr, dtype, &out->orgqr);
}

/* --- one block ---------------------------------------------------------------------------------- */

/* Sets columns begin to end of an identity matrix of m rows. */
static void set_identity(shmt_dtype dtype, int m, char* a, int64_t lda, int begin, int end) {
  const int64_t item = shmt__dtype_size[dtype];

  for (int64_t j = begin; j < end; j++) {
    char* one = a + (j * lda + j) * item;
    memset(a + j * lda * item, 0, (size_t)(m * item));
    if (shmt__real_dtype(dtype) == SHMT_FLOAT32)
      *(float*)(void*)one = 1;
    else
      *(double*)(void*)one = 1;
  }
}

/* Copies the triangular part of V to a dense matrix. */
static void load_top_of_v(const reflectors* r, const block* b, char* top) {
  const int64_t item = r->item, k = b->k;

  set_identity(r->h->dtype, b->k, top, k, 0, b->k);
  for (int64_t j = 0; j < k; j++)
    memcpy(top + (j * k + j + 1) * item, b->a + (j * r->lda + j + 1) * item, (size_t)((k - j - 1) * item));
}

/* Zeroes what is below the diagonal of t. */
static void zero_below_diagonal(char* t, int64_t k, int64_t item) {
  for (int64_t j = 0; j < k; j++) memset(t + (j * k + j + 1) * item, 0, (size_t)((k - j - 1) * item));
}

static void larft_piece(void* ctx, int64_t begin, int64_t end) {
  const reflectors* r = ctx;

  for (int64_t i = begin; i < end; i++) {
    const block b = block_of(r, (int)i);
    (void)((shmt__lapack_larft)r->h->larft)(SHMT_LAPACK_COLUMN_MAJOR, 'F', 'C', b.k + b.below, b.k, b.a, r->lda,
                                            r->tau + b.at * r->item, b.t, b.k);
    zero_below_diagonal(b.t, b.k, r->item);
  }
}

/* Multiplies c by I - V T V^H or its adjoint, from the left. c begins in the block's first row. */
static void apply_block(const reflectors* r, const block* b, bool adjoint, char* c, int ldc, int columns) {
  _Alignas(64) char top[BLOCK * BLOCK * MAX_ITEM], w[WORK_BYTES], tw[WORK_BYTES];
  const shmt_dtype dtype = r->h->dtype;
  const int k = b->k, most = (int)(WORK_BYTES / (BLOCK * r->item));
  const char* v = b->a + k * r->item;

  load_top_of_v(r, b, top);
  for (int begin = 0; begin < columns; begin += most) {
    const int n = min_int(most, columns - begin);
    char *high = c + (int64_t)begin * ldc * r->item, *low = high + k * r->item;
    shmt__lapack_gemm(dtype, true, k, n, k, false, top, k, high, ldc, 0, w, k);
    if (b->below > 0) shmt__lapack_gemm(dtype, true, k, n, b->below, false, v, r->lda, low, ldc, 1, w, k);
    shmt__lapack_gemm(dtype, adjoint, k, n, k, false, b->t, k, w, k, 0, tw, k);
    shmt__lapack_gemm(dtype, false, k, n, k, true, top, k, tw, k, 1, high, ldc);
    if (b->below > 0) shmt__lapack_gemm(dtype, false, b->below, n, k, true, v, r->lda, tw, k, 1, low, ldc);
  }
}

/* --- all blocks, columns divided between threads ------------------------------------------------ */

typedef struct columns_job {
  const reflectors* r;
  int first, last; /* indices of blocks */
  bool adjoint;    /* apply the first block first */
  char* c;
  int ldc;
} columns_job;

static void apply_piece(void* ctx, int64_t begin, int64_t end) {
  const columns_job* job = ctx;

  for (int step = 0; step < job->last - job->first; step++) {
    const block b = block_of(job->r, job->adjoint ? job->first + step : job->last - 1 - step);
    apply_block(job->r, &b, job->adjoint, job->c + (begin * job->ldc + b.at) * job->r->item, job->ldc,
                (int)(end - begin));
  }
}

/* Runs the job for n columns, in even pieces of at least so many multiplications. */
static void apply(columns_job* job, double least, int n) {
  const reflectors* r = job->r;
  const int threads = shmt__num_threads(), even = (n + threads - 1) / threads, at = job->first * BLOCK;
  const double columns = least / (2.0 * (r->m - at) * (min_int(job->last * BLOCK, r->k) - at)) + 1;

  shmt__parallel_for(n, ((int64_t)(columns > even ? columns : even) + TILE - 1) / TILE * TILE, apply_piece, job);
}

/* Allocates T for k reflectors and calculates it. Returns false when there is no memory. */
static bool reflectors_init(reflectors* r, const shmt__householder* h, int m, int k, const char* a, int lda,
                            const char* tau, uint64_t* nbytes) {
  void* t;

  *r = (reflectors){.h = h, .item = shmt__dtype_size[h->dtype], .m = m, .k = k, .a = a, .tau = tau, .lda = lda};
  *nbytes = (uint64_t)(min_int(k, BLOCK) * k * r->item);
  if (shmt__alloc(*nbytes, &t) != SHMT_OK) return false;
  r->t = t;
  shmt__parallel_for(blocks_of(r), (int64_t)(MIN_PIECE_OPS / ((double)m * BLOCK * BLOCK)) + 1, larft_piece, r);
  return true;
}

/* Runs a kernel for small matrices. Returns false when the matrix is too large, or its dtype has no such kernel. */
static bool run_small(int loop, const shmt__householder* h, int m, int n, int k, char* a, int lda, const char* tau) {
  const shmt__householder_args shape = {.columns = n, .pitch = lda, .count = k};

  if (!shmt__loops[loop][h->dtype] || !shmt__householder_fits(m, n)) return false;
  shmt__loops[loop][h->dtype]((char*[]){a, (char*)(uintptr_t)tau}, NULL, m, &shape);
  return true;
}

int shmt__householder_geqrf(const shmt__householder* h, int m, int n, char* a, int lda, char* tau) {
  _Alignas(64) char t[BLOCK * BLOCK * MAX_ITEM];
  const int64_t item = shmt__dtype_size[h->dtype];
  const int count = min_int(m, n);
  int info = 0;

  if (run_small(SHMT_LOOP_householder_geqrf, h, m, n, count, a, lda, tau)) return 0;
  if (count < MIN_FACTOR) return ((shmt__lapack_iipip)h->geqrf)(SHMT_LAPACK_COLUMN_MAJOR, m, n, a, lda, tau);
  for (int at = 0; at < count && info == 0; at += BLOCK) {
    const int k = min_int(BLOCK, count - at), more = n - at - k;
    char* corner = a + at * (lda + 1LL) * item;
    const reflectors r = {.h = h, .item = item, .m = m - at, .k = k, .a = corner, .lda = lda, .t = t};
    columns_job job = {.r = &r, .last = 1, .adjoint = true, .c = corner + (int64_t)k * lda * item, .ldc = lda};
    info = ((shmt__lapack_iipipi)h->geqrt3)(SHMT_LAPACK_COLUMN_MAJOR, m - at, k, corner, lda, t, k);
    for (int64_t j = 0; j < k; j++) memcpy(tau + (at + j) * item, t + (j * k + j) * item, (size_t)item);
    zero_below_diagonal(t, k, item);
    if (more > 0) apply(&job, MIN_SHARED_OPS, more);
  }
  return info;
}

int shmt__householder_ormqr(const shmt__householder* h, bool adjoint, int m, int n, int k, const char* a, int lda,
                            const char* tau, char* c, int ldc) {
  reflectors r;
  uint64_t nbytes;

  if (k == 0) return 0;
  if (!reflectors_init(&r, h, m, k, a, lda, tau, &nbytes)) return SHMT_LAPACK_NO_WORK;
  columns_job job = {.r = &r, .last = blocks_of(&r), .adjoint = adjoint, .c = c, .ldc = ldc};
  apply(&job, MIN_PIECE_OPS, n);
  shmt__dealloc(r.t, nbytes);
  return 0;
}

/* --- orgqr: the product of the reflectors, in place --------------------------------------------- */

typedef struct rows_job {
  shmt_dtype dtype;
  int64_t item;
  int k, lda;
  char* v;
  const char* m; /* k x k */
} rows_job;

/* Multiplies rows of V: they become those of -V M. */
static void multiply_rows(void* ctx, int64_t begin, int64_t end) {
  _Alignas(64) char old[WORK_BYTES];
  const rows_job* job = ctx;
  const int64_t most = WORK_BYTES / (BLOCK * job->item);

  for (int64_t from = begin; from < end; from += most) {
    const int rows = (int)(end - from < most ? end - from : most);
    char* v = job->v + from * job->item;
    for (int64_t j = 0; j < job->k; j++)
      memcpy(old + j * rows * job->item, v + j * job->lda * job->item, (size_t)(rows * job->item));
    shmt__lapack_gemm(job->dtype, false, rows, job->k, job->k, true, old, rows, job->m, job->k, 0, v, job->lda);
  }
}

/* Sets the block's own columns of a to those of the product, I - V (T V^H). Of V^H only the triangular part counts
 * there. */
static void orgqr_block(const reflectors* r, const block* b, char* a) {
  _Alignas(64) char top[BLOCK * BLOCK * MAX_ITEM], w[BLOCK * BLOCK * MAX_ITEM], tw[BLOCK * BLOCK * MAX_ITEM];
  const shmt_dtype dtype = r->h->dtype;
  const int k = b->k;
  rows_job job = {.dtype = dtype, .item = r->item, .k = k, .lda = r->lda, .v = a + k * r->item, .m = tw};

  load_top_of_v(r, b, top);
  set_identity(dtype, k, a, r->lda, 0, k);
  shmt__lapack_gemm(dtype, true, k, k, k, false, top, k, a, r->lda, 0, w, k);
  shmt__lapack_gemm(dtype, false, k, k, k, false, b->t, k, w, k, 0, tw, k);
  shmt__lapack_gemm(dtype, false, k, k, k, true, top, k, tw, k, 1, a, r->lda);
  shmt__parallel_for(b->below, (int64_t)(MIN_PIECE_OPS / (k * k) + 1) / TILE * TILE, multiply_rows, &job);
}

int shmt__householder_orgqr(const shmt__householder* h, int m, int n, int k, char* a, int lda, const char* tau) {
  reflectors r;
  uint64_t nbytes;

  if (run_small(SHMT_LOOP_householder_orgqr, h, m, n, k, a, lda, tau)) return 0;
  if (k < MIN_FORM) return ((shmt__lapack_iiipip)h->orgqr)(SHMT_LAPACK_COLUMN_MAJOR, m, n, k, a, lda, tau);
  if (!reflectors_init(&r, h, m, k, a, lda, tau, &nbytes)) return SHMT_LAPACK_NO_WORK;
  set_identity(h->dtype, m, a, lda, k, n);
  for (int i = blocks_of(&r) - 1; i >= 0; i--) {
    const block b = block_of(&r, i);
    char* corner = a + b.at * (lda + 1LL) * r.item;
    columns_job job = {.r = &r, .first = i, .last = i + 1, .ldc = lda};
    job.c = a + (int64_t)(b.at + b.k) * lda * r.item;
    apply(&job, MIN_PIECE_OPS, n - b.at - b.k);
    orgqr_block(&r, &b, corner);
    for (int64_t j = b.at; j < b.at + b.k; j++) memset(a + j * lda * r.item, 0, (size_t)(b.at * r.item));
  }
  shmt__dealloc(r.t, nbytes);
  return 0;
}
