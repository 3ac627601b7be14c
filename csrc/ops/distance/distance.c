/* ops/distance/distance.c -- distances between all pairs of rows: cdist, pdist.
 *
 * The differences of all pairs are many times the result. Where autograd does not record, the usual norms have a kernel
 * that stores none of them. Other norms, and gradients, are calculated for some rows at a time.
 */
#include "base/dtype.h"
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "dispatch/registry.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/copy/move.h"
#include "iter/threads.h"
#include "kernels/distance/distance.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/dtype_names.h"
#include "storage/allocator.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { LANES = 16, MIN_PIECE_OPS = 1 << 18, BLOCK_DIFFERENCES = 1 << 16, WIDE_ROWS = 8, OTHERS_BYTES = 128 << 10 };

/* t broadcast to the batch dims given, dense. */
static shmt_status with_batch(shmt_tensor* t, const int64_t* batch, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  memcpy(sizes, batch, (size_t)n * sizeof *sizes);
  memcpy(sizes + n, t->sizes + t->n_dims - 2, 2 * sizeof *sizes);
  SHMT_TRY(shmt_op_expand(t, (shmt_ints){sizes, n + 2}, false, &wide));
  return shmt__tensor_contiguous(wide, SHMT_CONTIGUOUS_FORMAT, out);
}

typedef struct distances {
  shmt__distance_args shape;
  shmt__loop loop;
  char* out;
  const char* rows;
  int64_t out_row;    /* bytes from row to row */
  char* others;       /* a block of them, transposed, in the dtype of the loop */
  int64_t item, wide; /* bytes of an element: in the tensors, in the loop */
  shmt__cast_loop_fn widen, narrow;
  atomic_bool failed; /* out of memory */
} distances;

/* How many others are transposed at a time: all of them may be more than the result. */
static int64_t others_in_block(int64_t others, int64_t length, int64_t item) {
  const int64_t step = 4 * LANES, fitting = OTHERS_BYTES / (length * item) / step * step;
  const int64_t some = fitting > step ? fitting : step;

  return some < others ? some : others;
}

static void run_distance_rows(void* ctx, int64_t begin, int64_t end) {
  const distances* d = ctx;
  char* data[3] = {d->out + begin * d->out_row,
                   (char*)(uintptr_t)d->rows + begin * d->shape.length * d->item, d->others};

  d->loop(data, &d->out_row, end - begin, &d->shape);
}

static uint64_t block_bytes(const distances* d) {
  return (uint64_t)(WIDE_ROWS * (d->shape.length + d->shape.others) * d->wide);
}

/* The same for dtypes without a loop: some rows in float32, with distances rounded at the end. */
static void run_wide_rows(void* ctx, int64_t begin, int64_t end) {
  distances* d = ctx;
  const int64_t length = d->shape.length, others = d->shape.others, row = others * d->wide;
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
    d->loop(data, &row, n, &d->shape);
    for (int64_t k = 0; k < n; k++)
      d->narrow(d->out + (i + k) * d->out_row, d->item, found + k * row, d->wide, others);
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

/* x1 (batch, P, M) and x2 (batch, R, M) are dense; out is (batch, P, R). */
static shmt_status run_kernel(shmt_tensor* x1, shmt_tensor* x2, int norm, shmt_tensor* out) {
  const int n = x1->n_dims;
  const int64_t rows = x1->sizes[n - 2], others = x2->sizes[n - 2], length = x1->sizes[n - 1];
  const bool has_loop = shmt__loops[SHMT_LOOP_distance][x1->dtype] != NULL;
  const shmt_dtype work = has_loop ? x1->dtype : SHMT_FLOAT32;
  const int64_t some = others_in_block(others, length, shmt__dtype_size[work]),
                pitch = (some + LANES - 1) / LANES * LANES;
  distances d = {.shape = {length, some, pitch, norm},
                 .loop = shmt__loops[SHMT_LOOP_distance][work],
                 .out = shmt__tensor_data(out),
                 .rows = shmt__tensor_data(x1),
                 .out_row = others * shmt__tensor_item_bytes(x1),
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
    for (int64_t j = 0; j < others; j += some) {
      d.shape.others = others - j < some ? others - j : some;
      transpose(&d, from, (char*)memory + transposed);
      shmt__parallel_for(rows, MIN_PIECE_OPS / (d.shape.others * length + 1) + 1,
                         has_loop ? run_distance_rows : run_wide_rows, &d);
      from += d.shape.others * length * d.item;
      d.out += d.shape.others * d.item;
    }
    d.rows += rows * length * d.item;
    d.out += (rows - 1) * others * d.item;
  }
  shmt__dealloc(memory, nbytes);
  SHMT_REQUIRE(!atomic_load_explicit(&d.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "cdist: no memory for %d rows of %lld elements", (int)WIDE_ROWS, (long long)length);
  return SHMT_OK;
}

/* Calculates some rows of x1 at a time. */
static shmt_status run_distance_blocks(shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor* out) {
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

/* The broadcast batch dims of both. */
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
  if (x1->n_dims < 2 || x2->n_dims < 2) return shmt_op__cdist(x1, x2, p, out); /* which raises the error */
  /* With many rows torch uses a product of matrices. */
  const bool are_many = x1->sizes[x1->n_dims - 2] > 25 || x2->sizes[x2->n_dims - 2] > 25;

  SHMT_REFUSE_DTYPE(shmt__is_half(x1->dtype) && !(p == 2 && are_many), x1->dtype, "cdist");
  return are_rows(x1, x2) ? shmt_op__cdist_forward(x1, x2, p, out) : shmt_op__cdist(x1, x2, p, out);
}

shmt_status shmt__cdist_forward(shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS], n;

  SHMT_TRY(shmt__check_scalar_type(x2, x1->dtype));
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
      SHMT_TRY(run_distance_blocks(a, b, p, result));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- gradients of distances ----------------------------------------------------------------- */

shmt_status shmt__difference_norm_backward(shmt_tensor* grad, shmt_tensor* differences, double p, shmt_tensor* norms,
                                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sizes = NULL;
  SHMT_AUTO(shmt_tensor) largest = NULL;
  SHMT_AUTO(shmt_tensor) is_less = NULL;
  SHMT_AUTO(shmt_tensor) signs = NULL;
  SHMT_AUTO(shmt_tensor) each = NULL;
  SHMT_AUTO(shmt_tensor) gradients = NULL;

  if (!isinf(p))
    return shmt_op__vector_norm_backward(grad, differences, norms, shmt__scalar_float(p), SHMT_INTS(-1), false, out);
  /* All differences that are the largest get the whole gradient, whereas in the gradient of a norm they share it. */
  SHMT_TRY(shmt_op_abs(differences, &sizes));
  SHMT_TRY(shmt_op_unsqueeze(norms, -1, &largest));
  SHMT_TRY(shmt_op_ne_Tensor(sizes, largest, &is_less));
  SHMT_TRY(shmt_op_sgn(differences, &signs));
  SHMT_TRY(shmt_op_unsqueeze(grad, -1, &each));
  SHMT_TRY(shmt_op_mul_Tensor(signs, each, &gradients));
  return shmt_op_masked_fill_Scalar(gradients, is_less, shmt__scalar_int(0), out);
}

/* The gradient with the differences of all pairs of (..., P, M) and (..., R, M), which have the batch dims of grad. */
static shmt_status backward_of_all(shmt_tensor* grad, shmt_tensor* x1, shmt_tensor* x2, double p, shmt_tensor* cdist,
                                   shmt_tensor** grad1, shmt_tensor** grad2) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) differences = NULL;
  SHMT_AUTO(shmt_tensor) gradients = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;

  SHMT_TRY(shmt_op_unsqueeze(x1, -2, &left));
  SHMT_TRY(shmt_op_unsqueeze(x2, -3, &right));
  SHMT_TRY(shmt_op_sub_Tensor(left, right, shmt__scalar_int(1), &differences));
  SHMT_TRY(shmt_op__difference_norm_backward(grad, differences, p, cdist, &gradients));
  SHMT_TRY(shmt_op_sum_dim_IntList(gradients, SHMT_INTS(-2), false, SHMT_DTYPE_NONE, grad1));
  SHMT_TRY(shmt_op_sum_dim_IntList(gradients, SHMT_INTS(-3), false, SHMT_DTYPE_NONE, &sum));
  return shmt_op_neg(sum, grad2);
}

/* The gradient for some rows of x1 at a time, where nothing is recorded. */
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

/* The kernel's code of a norm, or -1 when it has none for this norm and dtype. */
static int norm_of(shmt_dtype dtype, double p) {
  const bool is_usual = p == 0 || p == 1 || p == 2 || isinf(p);

  if (!is_usual || !shmt__loops[SHMT_LOOP_distance][dtype]) return -1;
  return isinf(p) ? 3 : (int)p;
}

/* One matrix of distances; grad and distances have strides in bytes. */
typedef struct gradient_job {
  shmt__distance_backward_args shape;
  shmt__loop loop;
  char *to, *rows, *others, *grads, *distances;
  int64_t grad_row, distance_row, item;
} gradient_job;

static void gradient_rows(void* ctx, int64_t begin, int64_t end) {
  const gradient_job* s = ctx;
  const int64_t row = s->shape.length * s->item, strides[5] = {row, row, 0, s->grad_row, s->distance_row};
  char* data[5] = {s->to + begin * row, s->rows + begin * row, s->others, s->grads + begin * s->grad_row,
                   s->distances + begin * s->distance_row};

  s->loop(data, strides, end - begin, &s->shape);
}

/* Elements from the first of t to its matrix number b. */
static int64_t matrix_at(const shmt_tensor* t, int64_t b) {
  int64_t at = 0;

  for (int d = t->n_dims - 3; d >= 0; d--) {
    at += b % t->sizes[d] * t->strides[d];
    b /= t->sizes[d];
  }
  return at;
}

/* Calculates the gradient of rows (batch, P, M) from distances to others (batch, R, M). All are dense but grad and
 * cdist, whose row dim and column dim have any strides. */
static shmt_status row_gradients(shmt_tensor* grad, shmt_tensor* rows, shmt_tensor* others, int norm,
                                 shmt_tensor* cdist, int row, int other, shmt_tensor** out) {
  const int n = rows->n_dims;
  const int64_t p = rows->sizes[n - 2], r = others->sizes[n - 2], m = rows->sizes[n - 1];
  const int64_t item = shmt__tensor_item_bytes(rows);
  gradient_job s = {.shape = {.length = m, .others = r, .grad_step = grad->strides[other],
                              .distance_step = cdist->strides[other], .norm = norm},
                    .loop = shmt__loops[SHMT_LOOP_distance_backward][rows->dtype],
                    .grad_row = grad->strides[row] * item,
                    .distance_row = cdist->strides[row] * item,
                    .item = item};

  SHMT_TRY(shmt__tensor_zeros(shmt__tensor_sizes(rows), rows->dtype, SHMT_CPU, out));
  for (int64_t b = 0; norm > 0 && b < cdist->numel / (p * r); b++) {
    s.to = (char*)shmt__tensor_data(*out) + b * p * m * item;
    s.rows = (char*)shmt__tensor_data(rows) + b * p * m * item;
    s.others = (char*)shmt__tensor_data(others) + b * r * m * item;
    s.grads = (char*)shmt__tensor_data(grad) + matrix_at(grad, b) * item;
    s.distances = (char*)shmt__tensor_data(cdist) + matrix_at(cdist, b) * item;
    shmt__parallel_for(p, MIN_PIECE_OPS / (r * m + 1) + 1, gradient_rows, &s);
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

  SHMT_TRY(shmt__check_scalar_type(x2, x1->dtype));
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
  if (shmt__is_unobserved_call(keys) && cdist->numel > 0 && x1->numel > 0) {
    SHMT_TRY(with_batch(x1, sizes, n, &a));
    SHMT_TRY(with_batch(x2, sizes, n, &b));
    const int norm = grad->dtype == x1->dtype && cdist->dtype == x1->dtype ? norm_of(x1->dtype, p) : -1;
    if (norm >= 0) {
      const int last = grad->n_dims - 1;
      SHMT_TRY(row_gradients(grad, a, b, norm, cdist, last - 1, last, &grad1));
      SHMT_TRY(row_gradients(grad, b, a, norm, cdist, last, last - 1, &grad2));
    } else {
      SHMT_TRY(backward_of_blocks(grad, a, b, p, cdist, &grad1, &grad2));
    }
  } else {
    SHMT_TRY(backward_of_all(grad, x1, x2, p, cdist, &grad1, &grad2));
  }
  SHMT_TRY(shmt_op_sum_to_size(grad1, shmt__tensor_sizes(x1), out1));
  return shmt_op_sum_to_size(grad2, shmt__tensor_sizes(x2), out2);
}

/* --- pdist: distances between the rows of one matrix -------------------------------------------- */

/* The index of the first distance of row i to those after it, of n rows. */
static int64_t pairs_before(int64_t i, int64_t n) { return i * n - i * (i + 1) / 2; }

static shmt_status count_pairs(const shmt_tensor* self, int64_t* out) {
  const int64_t n = self->n_dims == 2 ? self->sizes[0] : -1;

  SHMT_REQUIRE(n >= 0 && n <= INT32_MAX, SHMT_E_RUNTIME, "pdist: no pairs of rows of shape %s", SHMT_SHAPE_TEXT(self));
  *out = n > 1 ? pairs_before(n - 1, n) : 0;
  return SHMT_OK;
}

typedef struct pair_rows {
  distances d;
  int64_t n, first; /* number of rows; the first of the others */
} pair_rows;

static void run_pairs(void* ctx, int64_t begin, int64_t end) {
  const pair_rows* p = ctx;
  const distances* d = &p->d;
  const int64_t last = p->first + d->shape.others;

  for (int64_t i = begin; i < end && i + 1 < last; i++) {
    const int64_t from = i + 1 > p->first ? i + 1 : p->first;
    shmt__distance_args shape = d->shape;
    shape.others = last - from;
    char* data[3] = {d->out + (pairs_before(i, p->n) + from - i - 1) * d->item,
                     (char*)(uintptr_t)d->rows + i * shape.length * d->item, d->others + (from - p->first) * d->item};
    d->loop(data, &d->out_row, 1, &shape);
  }
}

static shmt_status fill_pairs(shmt_tensor* x, int norm, shmt_tensor* out) {
  const int64_t n = x->sizes[0], length = x->sizes[1], item = shmt__tensor_item_bytes(x);
  const int64_t some = others_in_block(n, length, item), pitch = (some + LANES - 1) / LANES * LANES;
  /* Vectors begin at any row, so the last ones end behind the last coordinate's data. */
  const uint64_t nbytes = (uint64_t)((pitch * length + LANES) * item);
  pair_rows p = {.d = {.shape = {length, some, pitch, norm},
                   .loop = shmt__loops[SHMT_LOOP_distance][x->dtype],
                   .out = shmt__tensor_data(out),
                   .rows = shmt__tensor_data(x),
                   .item = item},
             .n = n};
  void* memory = NULL;

  SHMT_TRY(shmt__alloc(nbytes, &memory));
  memset(memory, 0, (size_t)nbytes);
  p.d.others = memory;
  for (; p.first < n; p.first += some) {
    p.d.shape.others = n - p.first < some ? n - p.first : some;
    shmt__move_transposed(memory, pitch * item, p.d.rows + p.first * length * item, length * item, length,
                          p.d.shape.others, item);
    shmt__parallel_for(p.first + p.d.shape.others, MIN_PIECE_OPS / (p.d.shape.others * length + 1) + 1, run_pairs, &p);
  }
  shmt__dealloc(memory, nbytes);
  return SHMT_OK;
}

shmt_status shmt__pdist(shmt_tensor* self, double p, shmt_tensor** out) {
  SHMT_REFUSE_DTYPE(shmt__is_half(self->dtype), self->dtype, "pdist");
  return norm_of(self->dtype, p) >= 0 ? shmt_op__pdist_forward(self, p, out) : shmt_op__pdist(self, p, out);
}

shmt_status shmt__pdist_forward(shmt_tensor* self, double p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  const int norm = norm_of(self->dtype, p);

  int64_t pairs = 0;

  SHMT_TRY(count_pairs(self, &pairs));
  SHMT_REFUSE_DTYPE(norm < 0, self->dtype, "pdist");
  if (self->numel > 0)
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(pairs), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  else
    SHMT_TRY(shmt__tensor_zeros(SHMT_INTS(pairs), self->dtype, self->device, &result));
  if (!shmt__tensor_is_meta(self) && result->numel > 0 && self->numel > 0) {
    SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
    SHMT_TRY(fill_pairs(dense, norm, result));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Adds to row i's gradient what comes from distances to the rows before it, which lie ever closer, and to those behind
 * it. */
static void gradient_pairs(void* ctx, int64_t begin, int64_t end) {
  const gradient_job* s = ctx;
  const int64_t n = s->shape.others, row = s->shape.length * s->item, alone[5] = {0};

  for (int64_t i = begin; i < end; i++) {
    shmt__distance_backward_args shape = s->shape;
    const int64_t after = pairs_before(i, n);
    char* data[5] = {s->to + i * row, s->rows + i * row, s->others, s->grads + (i - 1) * s->grad_row,
                     s->distances + (i - 1) * s->item};
    shape.others = i;
    shape.grad_step = (n - 2) * s->shape.grad_step;
    shape.grad_shrink = s->shape.grad_step;
    shape.distance_step = n - 2;
    shape.distance_shrink = 1;
    if (i > 0) s->loop(data, alone, 1, &shape);
    shape = s->shape;
    shape.others = n - i - 1;
    data[2] = s->others + (i + 1) * row;
    data[3] = s->grads + after * s->grad_row;
    data[4] = s->distances + after * s->item;
    if (i + 1 < n) s->loop(data, alone, 1, &shape);
  }
}

shmt_status shmt__pdist_backward(shmt_tensor* grad, shmt_tensor* self, double p, shmt_tensor* pdist,
                                 shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  const int norm = grad->dtype == self->dtype && pdist->dtype == self->dtype ? norm_of(self->dtype, p) : -1;

  int64_t pairs = 0;

  SHMT_TRY(count_pairs(self, &pairs));
  SHMT_REQUIRE(grad->n_dims == 1 && pdist->n_dims == 1 && grad->numel == pairs && pdist->numel == pairs, SHMT_E_RUNTIME,
               "_pdist_backward: a gradient of shape %s and distances of shape %s for rows of shape %s",
               SHMT_SHAPE_TEXT(grad), SHMT_SHAPE_TEXT(pdist), SHMT_SHAPE_TEXT(self));
  if (norm < 0 ||
      !shmt__is_unobserved_call(shmt__tensor_keys(grad) | shmt__tensor_keys(self) | shmt__tensor_keys(pdist)))
    return shmt_op__pdist_backward_all_pairs(grad, self, p, pdist, out);
  SHMT_TRY(shmt__tensor_zeros(shmt__tensor_sizes(self), self->dtype, SHMT_CPU, &result));
  if (norm > 0 && self->numel > 0 && pdist->numel > 0) {
    const int64_t n = self->sizes[0], item = shmt__tensor_item_bytes(self);
    SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
    SHMT_TRY(shmt__tensor_contiguous(pdist, SHMT_CONTIGUOUS_FORMAT, &found));
    gradient_job s = {.shape = {.length = self->sizes[1],
                                .others = n,
                                .grad_step = grad->strides[0],
                                .distance_step = 1,
                                .norm = norm},
                      .loop = shmt__loops[SHMT_LOOP_distance_backward][self->dtype],
                      .to = shmt__tensor_data(result),
                      .rows = shmt__tensor_data(dense),
                      .others = shmt__tensor_data(dense),
                      .grads = shmt__tensor_data(grad),
                      .distances = shmt__tensor_data(found),
                      .grad_row = grad->strides[0] * item,
                      .item = item};
    shmt__parallel_for(n, MIN_PIECE_OPS / (n * self->sizes[1] + 1) + 1, gradient_pairs, &s);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
