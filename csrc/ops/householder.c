/* ops/householder.c -- blocks of reflections, and factors made of them. */
#include "ops/householder.h"

#include "iter/threads.h"
#include "ops/blas_library.h"
#include "ops/lapack.h"
#include "storage/allocator.h"

#include <string.h>

enum {
  BLOCK = 32,            /* reflections taken together */
  MIN_FACTOR = 80,       /* reflections below which LAPACK's own routine is faster */
  MIN_FORM = 24,
  TILE = 16,             /* columns that the library's inner kernels work on */
  PIECES = 4,            /* of a thread, where some columns are less work than others */
  GROUP_BYTES = 16 << 20, /* of the vectors copied at a time */
};

/* A piece of work for one thread below this many multiplications costs more to hand over than to do; where the caller
 * goes on with the result, it fetches that from the other's cache. */
#define MIN_PIECE_OPS 5e5
#define MIN_SHARED_OPS 4e6

/* Blocks of reflections, I - V T V^H each, and the matrix they are applied to. */
typedef struct blocks {
  const shmt__householder* h;
  int64_t item;
  int rows, k;       /* of the first V; each has BLOCK columns, the last fewer, and BLOCK rows less than the one before */
  bool adjoint;
  bool triangular;   /* of c, whose columns begin with the first block's, those left of a block are not touched by it */
  const char *a, *tau;
  int lda;
  char *v, *t;       /* dense; rows * BLOCK and BLOCK * BLOCK from block to block */
  char *w, *w2;      /* BLOCK rows, as many columns as c */
  char* c;
  int ldc;
  void* memory;
  uint64_t nbytes;
} blocks;

static int smaller(int a, int b) { return a < b ? a : b; }

shmt_status shmt__householder_find(shmt_dtype dtype, shmt__householder* out) {
  out->dtype = dtype;
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_geqrt3, dtype, &out->geqrt3));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_larft, dtype, &out->larft));
  SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_geqrf, dtype, &out->geqrf));
  return shmt__lapack_find(SHMT_LAPACK_orgqr, dtype, &out->orgqr);
}

static void put_one(char* at, shmt_dtype dtype) {
  if (shmt__real_dtype(dtype) == SHMT_FLOAT32)
    *(float*)(void*)at = 1;
  else
    *(double*)(void*)at = 1;
}

/* Room for V and T of n blocks with vectors of so many rows, and for what they make of so many columns. */
static bool blocks_init(blocks* b, const shmt__householder* h, int n, int rows, int columns) {
  const int64_t item = shmt__dtype_size[h->dtype], column = item * BLOCK;

  *b = (blocks){.h = h, .item = item, .rows = rows};
  b->nbytes = (uint64_t)(column * ((int64_t)n * (rows + BLOCK) + 2 * (int64_t)columns));
  if (shmt__alloc(b->nbytes, &b->memory) != SHMT_OK) return false;
  b->v = b->memory;
  b->t = b->v + column * n * rows;
  b->w = b->t + column * n * BLOCK;
  b->w2 = b->w + column * columns;
  return true;
}

static void blocks_fini(blocks* b) { shmt__dealloc(b->memory, b->nbytes); }

static int rows_of(const blocks* b, int64_t i) { return b->rows - (int)i * BLOCK; }
static int width_of(const blocks* b, int64_t i) { return smaller(BLOCK, b->k - (int)i * BLOCK); }
static char* vectors_of(const blocks* b, int64_t i) { return b->v + i * b->rows * BLOCK * b->item; }
static char* triangle_of(const blocks* b, int64_t i) { return b->t + i * BLOCK * BLOCK * b->item; }

/* V of block i, from below the diagonal of a's columns. */
static void read_vectors(const blocks* b, int64_t i) {
  const int64_t item = b->item, rows = rows_of(b, i);
  const char* a = b->a + i * BLOCK * (b->lda + 1) * item;

  for (int64_t j = 0; j < width_of(b, i); j++) {
    char* to = vectors_of(b, i) + j * rows * item;
    memset(to, 0, (size_t)(j * item + item));
    put_one(to + j * item, b->h->dtype);
    memcpy(to + (j + 1) * item, a + (j * b->lda + j + 1) * item, (size_t)((rows - j - 1) * item));
  }
}

/* Nothing below T's diagonal. */
static void clear_below(const blocks* b, int64_t i) {
  const int64_t k = width_of(b, i);

  for (int64_t j = 0; j < k; j++)
    memset(triangle_of(b, i) + (j * k + j + 1) * b->item, 0, (size_t)((k - j - 1) * b->item));
}

static void read_piece(void* ctx, int64_t begin, int64_t end) {
  const blocks* b = ctx;

  for (int64_t i = begin; i < end; i++) {
    const int k = width_of(b, i);
    (void)((shmt__lapack_larft)b->h->larft)(SHMT_LAPACK_COLUMN_MAJOR, 'F', 'C', rows_of(b, i), k,
                                            b->a + i * BLOCK * (b->lda + 1) * b->item, b->lda,
                                            b->tau + i * BLOCK * b->item, triangle_of(b, i), k);
    clear_below(b, i);
    read_vectors(b, i);
  }
}

static void apply_piece(void* ctx, int64_t begin, int64_t end) {
  const blocks* b = ctx;
  const shmt_dtype dtype = b->h->dtype;
  const int64_t n = (b->k + BLOCK - 1) / BLOCK;

  for (int64_t step = 0; step < n; step++) {
    const int64_t i = b->adjoint ? step : n - 1 - step, left = b->triangular ? i * BLOCK : 0;
    const int64_t from = begin < left ? left : begin;
    const int rows = rows_of(b, i), k = width_of(b, i), columns = (int)(end - from);
    const char *v = vectors_of(b, i), *t = triangle_of(b, i);
    char *c = b->c + (from * b->ldc + i * BLOCK) * b->item;
    char *w = b->w + from * BLOCK * b->item, *w2 = b->w2 + from * BLOCK * b->item;
    if (columns <= 0) continue;
    shmt__lapack_gemm(dtype, true, k, columns, rows, false, v, rows, c, b->ldc, 0, w, k);
    shmt__lapack_gemm(dtype, b->adjoint, k, columns, k, false, t, k, w, k, 0, w2, k);
    shmt__lapack_gemm(dtype, false, rows, columns, k, true, v, rows, w2, k, 1, c, b->ldc);
  }
}

/* The blocks, or their adjoint, times the n columns of c; a piece of the work is at least so many multiplications. */
static void apply(blocks* b, double least, int n, char* c, int ldc) {
  const int pieces = shmt__num_threads() * (b->triangular && shmt__num_threads() > 1 ? PIECES : 1);
  const int even = (n + pieces - 1) / pieces;
  const double grain = least / (2.0 * b->rows * b->k) + 1;

  b->c = c;
  b->ldc = ldc;
  shmt__parallel_for(n, ((int64_t)(grain > even ? grain : even) + TILE - 1) / TILE * TILE, apply_piece, b);
}

/* V and T of k reflections in a, the first of which has rows. */
static void read(blocks* b, int rows, int k, const char* a, int lda, const char* tau) {
  const int64_t n = (k + BLOCK - 1) / BLOCK;

  b->rows = rows;
  b->k = k;
  b->a = a;
  b->lda = lda;
  b->tau = tau;
  shmt__parallel_for(n, (int64_t)(MIN_PIECE_OPS / ((double)rows * BLOCK * BLOCK)) + 1, read_piece, b);
}

int shmt__householder_factor(const shmt__householder* h, int m, int n, char* a, int lda, char* tau) {
  const int count = smaller(m, n);
  int info = 0;
  blocks b;

  if (count < MIN_FACTOR) return ((shmt__lapack_iipip)h->geqrf)(SHMT_LAPACK_COLUMN_MAJOR, m, n, a, lda, tau);
  if (!blocks_init(&b, h, 1, m, n)) return SHMT_LAPACK_NO_WORK;
  b.adjoint = true;
  b.lda = lda;
  for (int at = 0; at < count && info == 0; at += BLOCK) {
    const int k = smaller(BLOCK, count - at), more = n - at - k;
    char* corner = a + ((int64_t)at * lda + at) * b.item;
    b.rows = m - at;
    b.k = k;
    b.a = corner;
    info = ((shmt__lapack_iipipi)h->geqrt3)(SHMT_LAPACK_COLUMN_MAJOR, m - at, k, corner, lda, b.t, k);
    for (int64_t j = 0; j < k; j++) memcpy(tau + (at + j) * b.item, b.t + (j * k + j) * b.item, (size_t)b.item);
    if (more == 0) continue;
    clear_below(&b, 0);
    read_vectors(&b, 0);
    apply(&b, MIN_SHARED_OPS, more, corner + (int64_t)k * lda * b.item, lda);
  }
  blocks_fini(&b);
  return info;
}

/* Reflections, a multiple of BLOCK, whose vectors are copied at a time. */
static int group_of(const shmt__householder* h, int m) {
  const int64_t each = (int64_t)m * BLOCK * shmt__dtype_size[h->dtype];

  return each >= GROUP_BYTES ? BLOCK : (int)(GROUP_BYTES / each) * BLOCK;
}

/* Columns begin to end of the unit matrix. */
static void set_unit(const blocks* b, int m, char* a, int lda, int begin, int end) {
  for (int64_t j = begin; j < end; j++) {
    memset(a + j * lda * b->item, 0, (size_t)(m * b->item));
    put_one(a + (j * lda + j) * b->item, b->h->dtype);
  }
}

int shmt__householder_form(const shmt__householder* h, int m, int n, int k, char* a, int lda, const char* tau) {
  const int group = smaller(group_of(h, m), (k + BLOCK - 1) / BLOCK * BLOCK);
  blocks b;

  if (k < MIN_FORM) return ((shmt__lapack_iiipip)h->orgqr)(SHMT_LAPACK_COLUMN_MAJOR, m, n, k, a, lda, tau);
  if (!blocks_init(&b, h, group / BLOCK, m, n)) return SHMT_LAPACK_NO_WORK;
  b.triangular = true;
  set_unit(&b, m, a, lda, k, n);
  for (int at = (k - 1) / group * group; at >= 0; at -= group) {
    const int count = smaller(group, k - at);
    char* corner = a + ((int64_t)at * lda + at) * b.item;
    read(&b, m - at, count, corner, lda, tau + at * b.item);
    set_unit(&b, m, a, lda, at, at + count);
    apply(&b, MIN_PIECE_OPS, n - at, corner, lda);
  }
  blocks_fini(&b);
  return 0;
}

int shmt__householder_apply(const shmt__householder* h, bool adjoint, int m, int n, int k, const char* a, int lda,
                            const char* tau, char* c, int ldc) {
  const int group = smaller(group_of(h, m), (k + BLOCK - 1) / BLOCK * BLOCK), last = k == 0 ? 0 : (k - 1) / group * group;
  blocks b;

  if (k == 0) return 0;
  if (!blocks_init(&b, h, group / BLOCK, m, n)) return SHMT_LAPACK_NO_WORK;
  b.adjoint = adjoint;
  for (int step = 0; step <= last; step += group) {
    const int at = adjoint ? step : last - step;
    read(&b, m - at, smaller(group, k - at), a + ((int64_t)at * lda + at) * b.item, lda, tau + at * b.item);
    apply(&b, MIN_PIECE_OPS, n, c + at * b.item, ldc);
  }
  blocks_fini(&b);
  return 0;
}
