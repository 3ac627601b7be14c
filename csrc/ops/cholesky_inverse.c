/* ops/cholesky_inverse.c -- the inverse of a matrix from its Cholesky factor.
 *
 * Note [Inverse by halves]
 * The inverse of a lower triangle is that of its halves on the diagonal, and -B^-1 C A^-1 for C below A and beside B;
 * that of L L^H is W^H W for the inverse W of L. Both are products of general matrices but for small triangles, where
 * LAPACK's potri solves with triangles, column by column.
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy.h"
#include "iter/threads.h"
#include "ops/blas.h"
#include "ops/check.h"
#include "ops/lapack.h"
#include "storage/allocator.h"

#include <string.h>

enum {
  LEAF = 32,  /* rows of a triangle that LAPACK inverts */
  BLOCK = 64, /* rows of the product that are made together */
};

/* A piece of work for one thread below this many multiplications costs more to hand over than to do. */
#define MIN_PIECE_OPS 5e5

typedef struct inverse_job {
  shmt_dtype dtype;
  int64_t item;
  void* trtri;
  shmt__batch factor, inverse;
  bool upper;   /* the factor is an upper one, and was transposed */
  int64_t at;   /* the matrix */
} inverse_job;

static char* matrix(const shmt__batch* b, int64_t i) { return b->data + i * b->step; }

static shmt__matrix columns_of(char* data, int rows, int columns, int ld) {
  return (shmt__matrix){data, rows, columns, 1, ld};
}

/* a, lower and with nothing above the diagonal, becomes its inverse. scratch: room for a quarter of it. */
static int invert(const inverse_job* job, char* a, int n, int ld, char* scratch) {
  const int half = (n / 2 + 15) / 16 * 16, rest = n - half;
  char *below = a + half * job->item, *corner = a + half * (ld + 1LL) * job->item;
  const shmt_scalar one = shmt__scalar_int(1), none = shmt__scalar_int(0);
  int info;

  if (n <= LEAF) return ((shmt__lapack_ccipi)job->trtri)(SHMT_LAPACK_COLUMN_MAJOR, 'L', 'N', n, a, ld);
  if ((info = invert(job, a, half, ld, scratch)) != 0) return info;
  if ((info = invert(job, corner, rest, ld, scratch)) != 0) return info < 0 ? info : info + half;
  const shmt__matrix c = columns_of(below, rest, half, ld), product = columns_of(scratch, rest, half, rest);
  /* The sizes fit; a batch has at most INT_MAX rows. */
  (void)shmt__gemm(job->dtype, one, c, columns_of(a, half, half, ld), none, product);
  (void)shmt__gemm(job->dtype, shmt__scalar_int(-1), columns_of(corner, rest, rest, ld), product, none, c);
  return 0;
}

/* Entry (i, j) of what was computed to both its places, conjugated at one; the diagonal is real. */
#define MIRROR(TYPE, SWAP, REAL)                                             \
  do {                                                                 \
    TYPE* x = (TYPE*)(void*)data;                                      \
    for (int64_t j = begin; j < end; j++) {                            \
      TYPE* diagonal = x + j + j * ld;                                 \
      REAL;                                                            \
    }                                                                  \
    for (int64_t j = 0; j < end; j++)                                  \
      for (int64_t i = j < begin ? begin : j + 1; i < end; i++) {      \
        TYPE *low = x + i + j * ld, *high = x + j + i * ld;            \
        SWAP;                                                          \
      }                                                                \
  } while (0)
#define CONJUGATE                                       \
  high->re = low->re, high->im = upper ? low->im : -low->im;  \
  if (upper) low->im = -low->im

typedef struct complex_float {
  float re, im;
} complex_float;
typedef struct complex_double {
  double re, im;
} complex_double;

/* Rows begin to end, left of the diagonal, to where they stand above it. */
static void mirror(shmt_dtype dtype, bool upper, char* data, int64_t ld, int64_t begin, int64_t end) {
  if (dtype == SHMT_FLOAT32)
    MIRROR(float, *high = *low, (void)diagonal);
  else if (dtype == SHMT_FLOAT64)
    MIRROR(double, *high = *low, (void)diagonal);
  else if (dtype == SHMT_COMPLEX64)
    MIRROR(complex_float, CONJUGATE, diagonal->im = 0);
  else
    MIRROR(complex_double, CONJUGATE, diagonal->im = 0);
}

/* Blocks of rows of W^H W. Row i of W has nothing behind column i, so that rows of the product begin at their own. */
static void multiply_piece(void* ctx, int64_t first, int64_t last) {
  const inverse_job* job = ctx;
  const int n = job->factor.rows, ld = job->factor.ld;
  const char* w = matrix(&job->factor, job->at);
  char* x = matrix(&job->inverse, job->at);

  for (int64_t b = first; b < last; b++) {
    const int begin = (int)b * BLOCK, end = n - begin < BLOCK ? n : begin + BLOCK;
    shmt__lapack_gemm(job->dtype, true, end - begin, end, n - begin, false, w + begin * (ld + 1LL) * job->item, ld,
                      w + begin * job->item, ld, 0, x + begin * job->item, ld);
    mirror(job->dtype, job->upper, x, ld, begin, end);
  }
}

static int run_inverse(void* ctx, int64_t i) {
  inverse_job job = *(const inverse_job*)ctx;
  const int n = job.factor.rows, ld = job.factor.ld;
  const int64_t half = (n / 2 + 15) / 16 * 16;
  const uint64_t nbytes = (uint64_t)(n > LEAF ? half * (n - half) * job.item : 0);
  char* a = matrix(&job.factor, i);
  void* scratch;
  int info;

  if (shmt__alloc(nbytes, &scratch) != SHMT_OK) return SHMT_LAPACK_NO_WORK;
  for (int64_t j = 1; j < n; j++) memset(a + j * ld * job.item, 0, (size_t)(j * job.item));
  info = invert(&job, a, n, ld, scratch);
  shmt__dealloc(scratch, nbytes);
  if (info != 0) return info;
  job.at = i;
  const double work = (double)BLOCK * n * n / 4;
  shmt__parallel_for((n + BLOCK - 1) / BLOCK, (int64_t)(MIN_PIECE_OPS / work) + 1, multiply_piece, &job);
  return 0;
}

shmt_status shmt__cholesky_inverse(shmt_tensor* self, bool upper, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) lower = NULL;
  SHMT_AUTO(shmt_tensor) info = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_TRY(shmt__check_square("cholesky_inverse", "A", self));
  SHMT_TRY(shmt__check_lapack_dtype("cholesky_inverse", self));
  SHMT_TRY(shmt__batch_empty(shmt__tensor_sizes(self), self->dtype, self->device, &x));
  if (!shmt__tensor_is_meta(self) && self->numel > 0) {
    inverse_job job = {.dtype = self->dtype, .item = shmt__tensor_item_bytes(self), .upper = upper};
    /* The transpose of an upper factor U is the lower one of the conjugate of U^H U. */
    if (upper)
      SHMT_TRY(shmt_op_transpose_int(self, -2, -1, &lower));
    else
      lower = shmt__tensor_ref(self);
    SHMT_TRY(shmt__tensor_zeros(shmt__batch_sizes(self, 0, 0, 0, sizes), SHMT_INT32, self->device, &info));
    SHMT_TRY(shmt__batch_copy(lower, shmt__tensor_sizes(self), &a));
    SHMT_TRY(shmt__batch_of(a, &job.factor));
    SHMT_TRY(shmt__batch_of(x, &job.inverse));
    SHMT_TRY(shmt__lapack_find(SHMT_LAPACK_trtri, self->dtype, &job.trtri));
    const double rows = job.factor.rows;
    SHMT_TRY(shmt__batch_run(job.factor.n, rows * rows * rows, run_inverse, &job, shmt__tensor_data(info)));
    SHMT_TRY(shmt__check_infos("cholesky_inverse", shmt__tensor_data(info), info->numel, self->n_dims > 2));
  }
  *out = SHMT_TAKE(x);
  return SHMT_OK;
}
