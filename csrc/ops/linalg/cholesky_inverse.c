/* ops/linalg/cholesky_inverse.c -- inverts a matrix that is given by its Cholesky factor.
 *
 * Note [Recursive Cholesky inverse]
 * A lower triangular matrix is split into its halves on the diagonal, A and B, and the block C below A. Its inverse has
 * A^-1 and B^-1 on the diagonal and -B^-1 C A^-1 below. With W the inverse of L, the inverse of L L^H is W^H W. Both
 * are products of general matrices, except for small triangular ones, which LAPACK's trtri inverts. (LAPACK's potri
 * solves with triangular matrices, column by column.)
 *
 * The result's memory is all that this takes: the products with C and those of W are kept above the diagonal, and the
 * part below the diagonal is written when W is not needed any more.
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/matmul/gemm.h"
#include "ops/check.h"
#include "ops/linalg/lapack.h"

#include <string.h>

enum {
  LEAF = 32,     /* rows of a triangular matrix that LAPACK inverts */
  BLOCK = 64,    /* columns of the product that are calculated together */
  MAX_ITEM = 16, /* bytes of an element */
};

/* A piece of fewer multiplications than this costs more to hand to another thread than to do. */
#define MIN_PIECE_OPS 5e5

typedef struct inverse_job {
  shmt_dtype dtype;
  int64_t item;
  void* trtri;
  shmt__batch batch; /* lower factors, which become inverses */
  bool upper;        /* the factor given was an upper one; the batch has its transpose */
  int64_t at;        /* index of the matrix at hand */
} inverse_job;

static char* matrix(const shmt__batch* b, int64_t i) { return b->data + i * b->step; }

static shmt__matrix columns_of(char* data, int rows, int columns, int ld) {
  return (shmt__matrix){data, rows, columns, 1, ld};
}

/* Inverts a in place. a is lower triangular, with zeros above the diagonal. */
static int invert(const inverse_job* job, char* a, int n, int ld) {
  const int half = (n / 2 + 15) / 16 * 16, rest = n - half;
  char *below = a + half * job->item, *beside = a + (int64_t)half * ld * job->item, *corner = beside + half * job->item;
  const shmt_scalar one = shmt__scalar_int(1), none = shmt__scalar_int(0);
  int info;

  if (n <= LEAF) return ((shmt__lapack_ccipi)job->trtri)(SHMT_LAPACK_COLUMN_MAJOR, 'L', 'N', n, a, ld);
  if ((info = invert(job, a, half, ld)) != 0) return info;
  if ((info = invert(job, corner, rest, ld)) != 0) return info < 0 ? info : info + half;
  const shmt__matrix c = columns_of(below, rest, half, ld);
  const shmt__matrix product = shmt__matrix_transposed(columns_of(beside, half, rest, ld));
  shmt__gemm(job->dtype, one, c, columns_of(a, half, half, ld), none, product);
  shmt__gemm(job->dtype, shmt__scalar_int(-1), columns_of(corner, rest, rest, ld), product, none, c);
  for (int64_t j = 0; j < rest; j++) memset(beside + j * ld * job->item, 0, (size_t)(half * job->item));
  return 0;
}

/* Calculates some blocks of columns of W^H W: their part above the diagonal, and the blocks on it. A block needs no
 * other's result: it reads W below and left of itself, and its own triangular block. */
static void multiply_piece(void* ctx, int64_t first, int64_t last) {
  _Alignas(64) char square[BLOCK * BLOCK * MAX_ITEM];
  const inverse_job* job = ctx;
  const int64_t item = job->item;
  const int n = job->batch.rows, ld = job->batch.ld;

  for (int64_t b = first; b < last; b++) {
    const int begin = (int)b * BLOCK, k = n - begin < BLOCK ? n - begin : BLOCK;
    char *rows = matrix(&job->batch, job->at) + begin * item, *corner = rows + (int64_t)begin * ld * item;
    if (begin > 0)
      shmt__lapack_gemm(job->dtype, true, begin, k, n - begin, false, rows, ld, corner, ld, 0, corner - begin * item,
                        ld);
    shmt__lapack_gemm(job->dtype, true, k, k, n - begin, false, corner, ld, corner, ld, 0, square, k);
    for (int64_t j = 0; j < k; j++) memcpy(corner + j * ld * item, square + j * k * item, (size_t)(k * item));
  }
}

/* Copies columns begin to end from above the diagonal to below it, conjugating one of the two. The diagonal becomes
 * real. */
#define MIRROR(TYPE, SWAP, REAL)                                       \
  do {                                                                 \
    TYPE* x = (TYPE*)(void*)data;                                      \
    for (int64_t i = 0; i < end; i++)                                  \
      for (int64_t j = i < begin ? begin : i + 1; j < end; j++) {      \
        TYPE *high = x + i + j * ld, *low = x + j + i * ld;            \
        SWAP;                                                          \
      }                                                                \
    for (int64_t j = begin; j < end; j++) {                            \
      TYPE* diagonal = x + j + j * ld;                                 \
      REAL;                                                            \
    }                                                                  \
  } while (0)
#define CONJUGATE                                             \
  low->re = high->re, low->im = upper ? high->im : -high->im; \
  if (upper) high->im = -high->im

typedef struct complex_float {
  float re, im;
} complex_float;
typedef struct complex_double {
  double re, im;
} complex_double;

static void mirror(shmt_dtype dtype, bool upper, char* data, int64_t ld, int64_t begin, int64_t end) {
  if (dtype == SHMT_FLOAT32)
    MIRROR(float, *low = *high, (void)diagonal);
  else if (dtype == SHMT_FLOAT64)
    MIRROR(double, *low = *high, (void)diagonal);
  else if (dtype == SHMT_COMPLEX64)
    MIRROR(complex_float, CONJUGATE, diagonal->im = 0);
  else
    MIRROR(complex_double, CONJUGATE, diagonal->im = 0);
}

static void mirror_piece(void* ctx, int64_t first, int64_t last) {
  const inverse_job* job = ctx;
  const int64_t n = job->batch.rows;

  for (int64_t b = first; b < last; b++)
    mirror(job->dtype, job->upper, matrix(&job->batch, job->at), job->batch.ld, b * BLOCK,
           (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n);
}

static int run_inverse(void* ctx, int64_t i) {
  inverse_job job = *(const inverse_job*)ctx;
  const int n = job.batch.rows, ld = job.batch.ld, blocks = (n + BLOCK - 1) / BLOCK;
  char* a = matrix(&job.batch, i);
  int info;

  for (int64_t j = 1; j < n; j++) memset(a + j * ld * job.item, 0, (size_t)(j * job.item));
  info = invert(&job, a, n, ld);
  if (info != 0) return info;
  job.at = i;
  shmt__parallel_for(blocks, (int64_t)(MIN_PIECE_OPS / ((double)BLOCK * n * n / 4)) + 1, multiply_piece, &job);
  shmt__parallel_for(blocks, (int64_t)(MIN_PIECE_OPS / ((double)BLOCK * n)) + 1, mirror_piece, &job);
  return 0;
}

shmt_status shmt__cholesky_inverse(shmt_tensor* self, bool upper, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) lower = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_TRY(shmt__check_square("cholesky_inverse", "A", self));
  SHMT_TRY(shmt__check_lapack_routine("cholesky_inverse_out_cpu", self));
  /* The transpose of an upper factor U is the lower factor of the conjugate of U^H U. */
  if (upper)
    SHMT_TRY(shmt_op_transpose_int(self, -2, -1, &lower));
  else
    lower = shmt__tensor_ref(self);
  SHMT_TRY(shmt__batch_copy(lower, shmt__tensor_sizes(self), &x));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    inverse_job job = {.dtype = self->dtype, .item = shmt__tensor_item_bytes(self), .upper = upper};
    SHMT_TRY(shmt__tensor_zeros(shmt__batch_sizes(self, 0, 0, 0, sizes), SHMT_INT32, self->device, &info));
    SHMT_TRY(shmt__batch_of(x, &job.batch));
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_trtri, self->dtype, &job.trtri));
    const double rows = job.batch.rows;
    SHMT_TRY(shmt__batch_run(job.batch.n, rows * rows * rows, run_inverse, &job, shmt__tensor_data(info)));
    SHMT_TRY(shmt__check_infos("cholesky_inverse", shmt__tensor_data(info), info->numel, self->n_dims > 2));
  }
  *out = SHMT_TAKE(x);
  return SHMT_OK;
}
