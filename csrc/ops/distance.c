/* ops/distance.c -- distances between all pairs of rows.
 *
 * The differences of all pairs are many times the result. Where nothing is recorded, the usual norms have a kernel that
 * keeps none of them, and the others are calculated for some rows at a time, as are gradients.
 */
#include "base/promote.h"
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "dispatch/registry.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy.h"
#include "iter/move.h"
#include "iter/threads.h"
#include "kernels/shapes.h"
#include "ops/check.h"
#include "storage/allocator.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { LANES = 16, MIN_PIECE_OPS = 1 << 18, BLOCK_DIFFERENCES = 1 << 16, WIDE_ROWS = 8 };

/* t with the batch dims given, dense. */
static shmt_status with_batch(shmt_tensor* t, const int64_t* batch, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  memcpy(sizes, batch, (size_t)n * sizeof *sizes);
  memcpy(sizes + n, t->sizes + t->n_dims - 2, 2 * sizeof *sizes);
  SHMT_TRY(shmt_op_expand(t, (shmt_ints){sizes, n + 2}, false, &wide));
  return shmt__tensor_contiguous(wide, SHMT_CONTIGUOUS_FORMAT, out);
}

typedef struct distances {
  shmt__distance_shape shape;
  shmt__loop loop;
  char* out;
  const char* rows;
  char* others;       /* transposed, in the dtype of the loop */
  int64_t item, wide; /* bytes: of what is given, of what the loop takes */
  shmt__cast_loop_fn widen, narrow;
  atomic_bool failed; /* out of memory */
} distances;

static void run_rows(void* ctx, int64_t begin, int64_t end) {
  const distances* d = ctx;
  char* data[3] = {d->out + begin * d->shape.others * d->item,
                   (char*)(uintptr_t)d->rows + begin * d->shape.length * d->item, d->others};

  d->loop(data, NULL, end - begin, &d->shape);
}

static uint64_t block_bytes(const distances* d) {
  return (uint64_t)(WIDE_ROWS * (d->shape.length + d->shape.others) * d->wide);
}

/* The same for dtypes without a loop: some rows in float32, distances rounded at the end. */
static void run_wide_rows(void* ctx, int64_t begin, int64_t end) {
  distances* d = ctx;
  const int64_t length = d->shape.length, others = d->shape.others;
  void* memory = NULL;

  if (shmt__alloc(block_bytes(d), &memory) != SHMT_OK) {
    atomic_store_explicit(&d->failed, true, memory_order_relaxed); /* read after the pool's own join */
    return;
  }
  char* const found = (char*)memory + WIDE_ROWS * length * d->wide;
  for (int64_t i = begin; i < end; i += WIDE_ROWS) {
    const int64_t n = end - i < WIDE_ROWS ? end - i : WIDE_ROWS;
    char* data[3] = {found, memory, d->others};
    d->widen(memory, d->wide, d->rows + i * length * d->item, d->item, n * length);
    d->loop(data, NULL, n, &d->shape);
    d->narrow(d->out + i * others * d->item, d->item, found, d->wide, n * others);
  }
  shmt__dealloc(memory, block_bytes(d));
}

static void transpose(const distances* d, const char* from, char* block) {
  const int64_t length = d->shape.length, others = d->shape.others, pitch = d->shape.pitch * d->wide;

  if (!d->widen) {
    shmt__move_transposed(d->others, pitch, from, length * d->item, length, others, d->item);
    return;
  }
  for (int64_t i = 0; i < others; i += WIDE_ROWS) {
    const int64_t n = others - i < WIDE_ROWS ? others - i : WIDE_ROWS;
    d->widen(block, d->wide, from + i * length * d->item, d->item, n * length);
    shmt__move_transposed(d->others + i * d->wide, pitch, block, length * d->wide, length, n, d->wide);
  }
}

/* x1 (batch, P, M) and x2 (batch, R, M) dense, out (batch, P, R). */
static shmt_status run_kernel(shmt_tensor* x1, shmt_tensor* x2, int norm, shmt_tensor* out) {
  const int n = x1->n_dims;
  const int64_t rows = x1->sizes[n - 2], others = x2->sizes[n - 2], length = x1->sizes[n - 1];
  const bool has_loop = shmt__loops[SHMT_LOOP_distance][x1->dtype] != NULL;
  const shmt_dtype work = has_loop ? x1->dtype : SHMT_FLOAT32;
  const int64_t pitch = (others + LANES - 1) / LANES * LANES;
  distances d = {.shape = {length, others, pitch, norm},
                 .loop = shmt__loops[SHMT_LOOP_distance][work],
                 .out = shmt__tensor_data(out),
                 .rows = shmt__tensor_data(x1),
                 .item = shmt__tensor_item_bytes(x1),
                 .wide = shmt__dtype_size[work]};
  const uint64_t transposed = (uint64_t)(pitch * length * d.wide);
  const uint64_t nbytes = transposed + (has_loop ? 0 : (uint64_t)(WIDE_ROWS * length * d.wide));
  const char* from = shmt__tensor_data(x2);
  void* memory = NULL;

  if (!has_loop) {
    d.widen = shmt__cast_loop(work, x1->dtype);
    d.narrow = shmt__cast_loop(x1->dtype, work);
  }
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  memset(memory, 0, (size_t)nbytes);
  d.others = memory;
  for (int64_t b = 0; b < out->numel / (rows * others); b++) {
    transpose(&d, from, (char*)memory + transposed);
    shmt__parallel_for(rows, MIN_PIECE_OPS / (others * length + 1) + 1, has_loop ? run_rows : run_wide_rows, &d);
    from += others * length * d.item;
    d.rows += rows * length * d.item;
    d.out += rows * others * d.item;
  }
  shmt__dealloc(memory, nbytes);
  SHMT_REQUIRE(!atomic_load_explicit(&d.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "cdist: no memory for %d rows of %lld elements", (int)WIDE_ROWS, (long long)length);
  return SHMT_OK;
}

/* Some rows of x1 at a time. */
static shmt_status run_blocks(shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor* out) {
  const int64_t rows = x1->sizes[x1->n_dims - 2];
  const double each = (double)out->numel / (double)rows * (double)x1->sizes[x1->n_dims - 1];
  const int64_t height = each < BLOCK_DIFFERENCES ? (int64_t)(BLOCK_DIFFERENCES / each) : 1;

  for (int64_t i = 0; i < rows; i += height) {
    SHMT_AUTO(shmt_tensor) some = NULL;
    SHMT_AUTO(shmt_tensor) found = NULL;
    SHMT_AUTO(shmt_tensor) place = NULL;
    const int64_t n = rows - i < height ? rows - i : height;
    SHMT_TRY(shmt_op_narrow(x1, -2, i, n, &some));
    SHMT_TRY(shmt_op_narrow(out, -2, i, n, &place));
    SHMT_TRY(shmt_op__cdist(some, x2, p, &found));
    SHMT_TRY(shmt__tensor_copy(place, found));
  }
  return SHMT_OK;
}

/* The batch dims of both. */
static shmt_status find_batch(const shmt_tensor* x1, const shmt_tensor* x2, int64_t* sizes, int64_t* n) {
  SHMT_TRY(shmt__broadcast_sizes((shmt_ints){x1->sizes, x1->n_dims - 2}, (shmt_ints){x2->sizes, x2->n_dims - 2}, sizes,
                                 n));
  SHMT_REQUIRE(*n + 2 <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "cdist: more than %d dimensions", SHMT_MAX_DIMS);
  return SHMT_OK;
}

static bool are_rows(const shmt_tensor* x1, const shmt_tensor* x2) {
  return x1->dtype == x2->dtype && x1->n_dims >= 2 && x2->n_dims >= 2 &&
         x1->sizes[x1->n_dims - 1] == x2->sizes[x2->n_dims - 1];
}

shmt_status shmt__cdist(shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor** out) {
  return are_rows(x1, x2) ? shmt_op__cdist_forward(x1, x2, p, out) : shmt_op__cdist(x1, x2, p, out);
}

shmt_status shmt__cdist_forward(shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS], n;

  SHMT_REQUIRE(are_rows(x1, x2), SHMT_E_RUNTIME, "cdist: rows of shapes %s and %s do not fit together",
               SHMT_SHAPE_TEXT(x1), SHMT_SHAPE_TEXT(x2));
  SHMT_TRY(find_batch(x1, x2, sizes, &n));
  const shmt_device device = shmt__common_device(x1, x2, NULL);
  sizes[n] = x1->sizes[x1->n_dims - 2];
  sizes[n + 1] = x2->sizes[x2->n_dims - 2];
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, n + 2}, x1->dtype, device, SHMT_CONTIGUOUS_FORMAT, &result));
  if (device != SHMT_META && result->numel > 0) {
    SHMT_TRY(with_batch(x1, sizes, n, &a));
    SHMT_TRY(with_batch(x2, sizes, n, &b));
    if (a->numel == 0)
      SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    else if (shmt__is_floating(x1->dtype) && (p == 0 || p == 1 || p == 2 || isinf(p)))
      SHMT_TRY(run_kernel(a, b, isinf(p) ? 3 : (int)p, result));
    else
      SHMT_TRY(run_blocks(a, b, p, result));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- gradients of distances ----------------------------------------------------------------- */

/* With the differences of all pairs: (..., P, M) and (..., R, M), of the batch dims of grad. */
static shmt_status backward_of_all(shmt_tensor* grad, shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor* cdist,
                                   shmt_tensor** grad1, shmt_tensor** grad2) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) differences = NULL;
  SHMT_AUTO(shmt_tensor) slopes = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;

  SHMT_TRY(shmt_op_unsqueeze(x1, -2, &left));
  SHMT_TRY(shmt_op_unsqueeze(x2, -3, &right));
  SHMT_TRY(shmt_op_sub_Tensor(left, right, shmt__scalar_int(1), &differences));
  SHMT_TRY(shmt_op__vector_norm_backward(grad, differences, cdist, shmt__scalar_float(p), SHMT_INTS(-1), false,
                                         &slopes));
  SHMT_TRY(shmt_op_sum_dim_IntList(slopes, SHMT_INTS(-2), false, SHMT_DTYPE_NONE, grad1));
  SHMT_TRY(shmt_op_sum_dim_IntList(slopes, SHMT_INTS(-3), false, SHMT_DTYPE_NONE, &sum));
  return shmt_op_neg(sum, grad2);
}

/* Some rows of x1 at a time; nothing is recorded. */
static shmt_status backward_of_blocks(shmt_tensor* grad, shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor* cdist,
                                      shmt_tensor** grad1, shmt_tensor** grad2) {
  const int64_t rows = x1->sizes[x1->n_dims - 2];
  const double each = (double)cdist->numel / (double)rows * (double)x1->sizes[x1->n_dims - 1];
  const int64_t height = each < BLOCK_DIFFERENCES ? (int64_t)(BLOCK_DIFFERENCES / each) : 1;

  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(x1), x1->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, grad1));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(x2), x2->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, grad2));
  SHMT_TRY(shmt__tensor_fill(*grad2, shmt__scalar_int(0)));
  for (int64_t i = 0; i < rows; i += height) {
    SHMT_AUTO(shmt_tensor) some = NULL;
    SHMT_AUTO(shmt_tensor) some_grad = NULL;
    SHMT_AUTO(shmt_tensor) some_cdist = NULL;
    SHMT_AUTO(shmt_tensor) place = NULL;
    SHMT_AUTO(shmt_tensor) to1 = NULL;
    SHMT_AUTO(shmt_tensor) to2 = NULL;
    const int64_t n = rows - i < height ? rows - i : height;
    SHMT_TRY(shmt_op_narrow(x1, -2, i, n, &some));
    SHMT_TRY(shmt_op_narrow(grad, -2, i, n, &some_grad));
    SHMT_TRY(shmt_op_narrow(cdist, -2, i, n, &some_cdist));
    SHMT_TRY(shmt_op_narrow(*grad1, -2, i, n, &place));
    SHMT_TRY(backward_of_all(some_grad, some, x2, p, some_cdist, &to1, &to2));
    SHMT_TRY(shmt__tensor_copy(place, to1));
    SHMT_TRY(shmt_op_add__Tensor(*grad2, to2, shmt__scalar_int(1)));
  }
  return SHMT_OK;
}

shmt_status shmt__cdist_backward(shmt_tensor* grad, shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor* cdist,
                                 shmt_tensor** out1, shmt_tensor** out2) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) grad1 = NULL;
  SHMT_AUTO(shmt_tensor) grad2 = NULL;
  int64_t sizes[SHMT_MAX_DIMS], n;

  SHMT_REQUIRE(are_rows(x1, x2), SHMT_E_RUNTIME, "_cdist_backward: rows of shapes %s and %s do not fit together",
               SHMT_SHAPE_TEXT(x1), SHMT_SHAPE_TEXT(x2));
  SHMT_TRY(find_batch(x1, x2, sizes, &n));
  sizes[n] = x1->sizes[x1->n_dims - 2];
  sizes[n + 1] = x2->sizes[x2->n_dims - 2];
  const shmt_ints pairs = {sizes, n + 2};
  SHMT_REQUIRE(shmt__sizes_are(grad, pairs) && shmt__sizes_are(cdist, pairs), SHMT_E_RUNTIME,
               "_cdist_backward: a gradient of shape %s and distances of shape %s for rows of shapes %s and %s",
               SHMT_SHAPE_TEXT(grad), SHMT_SHAPE_TEXT(cdist), SHMT_SHAPE_TEXT(x1), SHMT_SHAPE_TEXT(x2));
  const shmt_keyset keys = shmt__tensor_keys(x1) | shmt__tensor_keys(x2) | shmt__tensor_keys(grad) |
                           shmt__tensor_keys(cdist);
  if (shmt__is_plain_call(keys) && cdist->numel > 0 && x1->numel > 0) {
    SHMT_TRY(with_batch(x1, sizes, n, &a));
    SHMT_TRY(with_batch(x2, sizes, n, &b));
    SHMT_TRY(backward_of_blocks(grad, a, b, p, cdist, &grad1, &grad2));
  } else {
    SHMT_TRY(backward_of_all(grad, x1, x2, p, cdist, &grad1, &grad2));
  }
  SHMT_TRY(shmt_op_sum_to_size(grad1, shmt__tensor_sizes(x1), out1));
  return shmt_op_sum_to_size(grad2, shmt__tensor_sizes(x2), out2);
}
