/* ops/loss/pointwise_losses.c -- element-wise losses: l1_loss, mse_loss, smooth_l1_loss, huber_loss, kl_div, binary
 * cross-entropy.
 *
 * When nothing is recorded and the loss is reduced, the element losses of a block are computed in the cache and summed
 * there, without a tensor of them. Blocks form parts of a fixed length, whose sums are merged in order, so the result
 * does not depend on the number of threads. */
#include "base/dtype.h"
#include "base/promote.h"
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "iter/reduce.h"
#include "ops/check.h"
#include "ops/pointwise/pointwise.h"
#include "storage/allocator.h"
#include "tensor/batched.h"

enum { MEAN = 1, SUM = 2 };
enum {
  BLOCK_BYTES = 8 << 10,
  PART = 1 << 16, /* elements */
};

/* A loss: its loop, and the loop's scalar. */
typedef struct error {
  const char* name;
  uint32_t row;
  shmt_scalar number;
} error;

typedef struct summing {
  const char* data[2];
  int64_t n, item;
  shmt__loop loop;
  shmt__reduce_loop sum;
  const void* number;
  bool is_mean;
  char* states;
} summing;

static shmt__reduce_run run_of(const summing* s, int64_t part) {
  return (shmt__reduce_run){.state = s->states + part * SHMT_REDUCE_STATE_BYTES,
                            .n_keep = 1,
                            .reduce_stride = s->item,
                            .count = s->n,
                            .ctx = s->is_mean ? &s->is_mean : NULL};
}

static void sum_parts(void* ctx, int64_t begin, int64_t end) {
  const summing* s = ctx;
  _Alignas(64) char block[BLOCK_BYTES];
  const int64_t strides[3] = {s->item, s->item, s->item}, most = BLOCK_BYTES / s->item;

  for (int64_t part = begin; part < end; part++) {
    shmt__reduce_run run = run_of(s, part);
    const int64_t stop = (part + 1) * PART < s->n ? (part + 1) * PART : s->n;
    s->sum(SHMT_REDUCE_INIT, &run);
    for (int64_t i = part * PART; i < stop; i += most) {
      char* data[3] = {block, (char*)(uintptr_t)(s->data[0] + i * s->item),
                       (char*)(uintptr_t)(s->data[1] + i * s->item)};
      run.n_reduce = stop - i < most ? stop - i : most;
      run.in = block;
      s->loop(data, strides, run.n_reduce, s->number);
      s->sum(SHMT_REDUCE_ACCUMULATE, &run);
    }
  }
}

/* The sum or mean of the element losses of two contiguous operands of one shape. */
static shmt_status sum_errors(const error* e, shmt_tensor* self, shmt_tensor* target, bool is_mean, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  summing s = {.data = {shmt__tensor_data(self), shmt__tensor_data(target)},
               .n = self->numel,
               .item = shmt__tensor_item_bytes(self),
               .loop = shmt__loops[e->row][self->dtype],
               .sum = (shmt__reduce_loop)(void (*)(void))shmt__loops[SHMT_LOOP_sum][self->dtype],
               .number = &e->number,
               .is_mean = is_mean};
  const int64_t parts = (s.n + PART - 1) / PART;
  const uint64_t nbytes = (uint64_t)parts * SHMT_REDUCE_STATE_BYTES;
  void* states = NULL;

  SHMT_TRY(shmt__tensor_empty(SHMT_INTS_EMPTY, self->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(shmt__alloc(nbytes, &states));
  s.states = states;
  shmt__parallel_for(parts, 1, sum_parts, &s);
  shmt__reduce_run run = run_of(&s, 0);
  for (int64_t part = 1; part < parts; part++) {
    run.other = s.states + part * SHMT_REDUCE_STATE_BYTES;
    s.sum(SHMT_REDUCE_MERGE, &run);
  }
  run.out[0] = shmt__tensor_data(result);
  s.sum(SHMT_REDUCE_STORE, &run);
  shmt__dealloc(states, nbytes);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Can the loops read both: one floating dtype, one shape, contiguous, on the CPU? */
static bool is_dense_pair(const shmt_tensor* a, const shmt_tensor* b) {
  return a->dtype == b->dtype && shmt__is_floating(a->dtype) && shmt__same_sizes(a, b) && a->numel > 0 &&
         a->device == SHMT_CPU && b->device == SHMT_CPU && shmt__tensor_is_contiguous(a) &&
         shmt__tensor_is_contiguous(b) && !((a->flags | b->flags) & (SHMT_TENSOR_CONJ | SHMT_TENSOR_NEG));
}

/* As in torch, any other number means no reduction. */
static bool is_reduced(int64_t reduction) { return reduction == MEAN || reduction == SUM; }

/* Can the loss be summed without a tensor of element losses? */
static bool is_direct(int64_t reduction, const shmt_tensor* self, const shmt_tensor* target) {
  return is_reduced(reduction) && is_dense_pair(self, target) &&
         shmt__is_unobserved_call(shmt__tensor_keys(self) | shmt__tensor_keys(target));
}

/* The element losses as a tensor, in one pass, for operands of any layout and dtypes. */
static shmt_status find_errors(const error* e, shmt_tensor* self, shmt_tensor* target, shmt_tensor** out) {
  const shmt__pointwise p = {e->name, e->row, SHMT_PROMOTE_ARITHMETIC, SHMT_DTYPE_NONE, false};

  return shmt__pointwise_run(&p, (shmt_tensor* const[]){self, target}, 2, &e->number, out);
}

static shmt_status reduce_errors(const error* e, shmt_tensor* self, shmt_tensor* target, int64_t reduction,
                                 shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) elements = NULL;

  if (is_direct(reduction, self, target)) return sum_errors(e, self, target, reduction == MEAN, out);
  SHMT_TRY(find_errors(e, self, target, &elements));
  return shmt__reduce_loss(elements, reduction, out);
}

/* For losses whose kernels in torch exist for floating point dtypes only. */
static shmt_status check_floating(const char* name, const shmt_tensor* self, const shmt_tensor* target) {
  const shmt_dtype dtype = shmt__is_floating(self->dtype) ? target->dtype : self->dtype;
  const bool is_real = !shmt__is_complex(self->dtype) && !shmt__is_complex(target->dtype);

  SHMT_REFUSE_DTYPE(!is_real || !(shmt__is_floating(self->dtype) || shmt__is_floating(target->dtype)), dtype, name);
  return SHMT_OK;
}

shmt_status shmt__mse_loss(shmt_tensor* self, shmt_tensor* target, int64_t reduction, shmt_tensor** out) {
  const error e = {"mse_loss", SHMT_LOOP_squared_error, shmt__scalar_int(0)};

  SHMT_TRY(check_floating("mse_cpu", self, target));
  return reduce_errors(&e, self, target, reduction, out);
}

shmt_status shmt__l1_loss(shmt_tensor* self, shmt_tensor* target, int64_t reduction, shmt_tensor** out) {
  const error e = {"l1_loss", SHMT_LOOP_absolute_error, shmt__scalar_int(0)};
  SHMT_AUTO(shmt_tensor) difference = NULL;
  SHMT_AUTO(shmt_tensor) elements = NULL;

  if (is_direct(reduction, self, target))
    return sum_errors(&e, self, target, reduction == MEAN, out);
  SHMT_TRY(shmt_op_sub_Tensor(self, target, shmt__scalar_int(1), &difference));
  SHMT_TRY(shmt_op_abs(difference, &elements));
  return shmt__reduce_loss(elements, reduction, out);
}

shmt_status shmt__smooth_l1_loss(shmt_tensor* self, shmt_tensor* target, int64_t reduction, double beta,
                                 shmt_tensor** out) {
  const error e = {"smooth_l1_loss", SHMT_LOOP_smooth_l1_error, shmt__scalar_float(beta)};

  SHMT_REQUIRE(beta >= 0, SHMT_E_RUNTIME, "smooth_l1_loss does not support negative values for beta.");
  if (beta == 0) return shmt_op_l1_loss(self, target, reduction, out);
  SHMT_TRY(check_floating("smooth_l1_cpu", self, target));
  return reduce_errors(&e, self, target, reduction, out);
}

shmt_status shmt__huber_loss(shmt_tensor* self, shmt_tensor* target, int64_t reduction, double delta,
                             shmt_tensor** out) {
  const error e = {"huber_loss", SHMT_LOOP_huber_error, shmt__scalar_float(delta)};
  SHMT_AUTO(shmt_tensor) elements = NULL;
  SHMT_AUTO(shmt_tensor) own = NULL;

  SHMT_REQUIRE(delta > 0, SHMT_E_RUNTIME, "huber_loss does not support non-positive values for delta.");
  SHMT_TRY(check_floating("huber_cpu", self, target));
  if (self->dtype == target->dtype || !shmt__is_floating(self->dtype))
    return reduce_errors(&e, self, target, reduction, out);
  /* Unlike the other losses, the result has the dtype of self. */
  SHMT_TRY(find_errors(&e, self, target, &elements));
  SHMT_TRY(shmt_op_to_dtype(elements, self->dtype, false, false, SHMT_MEMORY_FORMAT_NONE, &own));
  return shmt__reduce_loss(own, reduction, out);
}

shmt_status shmt__kl_div(shmt_tensor* self, shmt_tensor* target, int64_t reduction, bool log_target,
                         shmt_tensor** out) {
  const error e = {"kl_div", log_target ? SHMT_LOOP_kl_div_log_target_error : SHMT_LOOP_kl_div_error,
                   shmt__scalar_int(0)};
  SHMT_AUTO(shmt_tensor) own = NULL;
  SHMT_AUTO(shmt_tensor) cross = NULL;
  SHMT_AUTO(shmt_tensor) elements = NULL;

  SHMT_REQUIRE(!shmt__is_complex(self->dtype) && !shmt__is_complex(target->dtype), SHMT_E_RUNTIME,
               "kl_div: Complex inputs not supported.");
  SHMT_REQUIRE(shmt__is_floating(self->dtype) && shmt__is_floating(target->dtype), SHMT_E_RUNTIME,
               "kl_div: Integral inputs not supported.");
  if (is_direct(reduction, self, target))
    return sum_errors(&e, self, target, reduction == MEAN, out);
  if (log_target) {
    SHMT_TRY(shmt_op_exp(target, &own));
    SHMT_TRY(shmt_op_sub_Tensor(target, self, shmt__scalar_int(1), &cross));
    SHMT_TRY(shmt_op_mul_Tensor(own, cross, &elements));
  } else {
    SHMT_TRY(shmt_op_xlogy_Tensor(target, target, &own));
    SHMT_TRY(shmt_op_mul_Tensor(target, self, &cross));
    SHMT_TRY(shmt_op_sub_Tensor(own, cross, shmt__scalar_int(1), &elements));
  }
  return shmt__reduce_loss(elements, reduction, out);
}

/* --- binary cross-entropy ----------------------------------------------------------------------------------------- */

/* *t *= factor, in place where that has the product's shape and dtype. */
static shmt_status multiply_in(shmt_tensor** t, shmt_tensor* factor) {
  if (shmt__same_sizes(*t, factor) && (*t)->dtype == factor->dtype) return shmt_op_mul__Tensor(*t, factor);
  SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(*t);
  return shmt_op_mul_Tensor(before, factor, t);
}

static shmt_status check_unit(const char* what, shmt_tensor* t) {
  SHMT_AUTO(shmt_tensor) low = NULL;
  SHMT_AUTO(shmt_tensor) high = NULL;
  shmt_scalar lo, hi;

  if (shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
  t = shmt__all_examples(t);
  SHMT_TRY(shmt_op_amin(t, SHMT_INTS_EMPTY, false, &low));
  SHMT_TRY(shmt_op_amax(t, SHMT_INTS_EMPTY, false, &high));
  SHMT_TRY(shmt__tensor_item(low, &lo));
  SHMT_TRY(shmt__tensor_item(high, &hi));
  SHMT_REQUIRE(shmt__scalar_to_double(lo) >= 0 && shmt__scalar_to_double(hi) <= 1, SHMT_E_RUNTIME,
               "all elements of %s should be between 0 and 1, but they are from %g to %g", what,
               shmt__scalar_to_double(lo), shmt__scalar_to_double(hi));
  return SHMT_OK;
}

/* Runs below the Autograd key: nothing is recorded. */
shmt_status shmt__binary_cross_entropy(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                                       shmt_tensor** out) {
  const error e = {"binary_cross_entropy", SHMT_LOOP_binary_cross_entropy_error, shmt__scalar_int(0)};
  SHMT_AUTO(shmt_tensor) loss = NULL;

  SHMT_REQUIRE(shmt__same_sizes(self, target), SHMT_E_VALUE,
               "Using a target size (%s) that is different to the input size (%s) is deprecated. "
               "Please ensure they have the same size.",
               SHMT_SHAPE_TEXT(target), SHMT_SHAPE_TEXT(self));
  SHMT_REQUIRE(target->dtype == self->dtype, SHMT_E_RUNTIME, "Found dtype %s but expected %s",
               shmt__dtype_title(target->dtype), shmt__dtype_title(self->dtype));
  SHMT_TRY(check_unit("input", self));
  SHMT_TRY(check_unit("target", target));
  if (!weight) return reduce_errors(&e, self, target, reduction, out);
  SHMT_TRY(find_errors(&e, self, target, &loss));
  SHMT_TRY(multiply_in(&loss, weight));
  return shmt__reduce_loss(loss, reduction, out);
}

/* (1 - target) * self - (1 + (pos_weight - 1) * target) * log_sigmoid(self) */
static shmt_status find_weighted_errors(shmt_tensor* self, shmt_tensor* target, shmt_tensor* pos_weight,
                                        shmt_tensor** out) {
  const shmt_scalar one = shmt__scalar_int(1);
  SHMT_AUTO(shmt_tensor) extra = NULL;
  SHMT_AUTO(shmt_tensor) factor = NULL;
  SHMT_AUTO(shmt_tensor) log_p = NULL;
  SHMT_AUTO(shmt_tensor) miss = NULL;

  SHMT_TRY(shmt_op_sub_Scalar(pos_weight, one, one, &extra));
  SHMT_TRY(shmt_op_mul_Tensor(target, extra, &factor));
  SHMT_TRY(shmt_op_add__Scalar(factor, one, one));
  SHMT_TRY(shmt_op_log_sigmoid(self, &log_p));
  SHMT_TRY(multiply_in(&log_p, factor));
  shmt__tensor_release(SHMT_TAKE(factor));
  SHMT_TRY(shmt_op_rsub_Scalar(target, one, one, &miss));
  SHMT_TRY(multiply_in(&miss, self));
  return shmt_op_sub_Tensor(miss, log_p, one, out);
}

static shmt_status find_logit_loss(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, shmt_tensor* pos_weight,
                                   int64_t reduction, shmt_tensor** out) {
  const error e = {"binary_cross_entropy_with_logits", SHMT_LOOP_binary_cross_entropy_with_logits_error,
                   shmt__scalar_int(0)};
  SHMT_AUTO(shmt_tensor) loss = NULL;

  if (!weight && !pos_weight) return reduce_errors(&e, self, target, reduction, out);
  if (pos_weight)
    SHMT_TRY(find_weighted_errors(self, target, pos_weight, &loss));
  else
    SHMT_TRY(find_errors(&e, self, target, &loss));
  if (weight) SHMT_TRY(multiply_in(&loss, weight));
  return shmt__reduce_loss(loss, reduction, out);
}

/* As in torch, the result has the target's dtype, so that must be a floating one. */
shmt_status shmt__binary_cross_entropy_with_logits(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight,
                                                   shmt_tensor* pos_weight, int64_t reduction, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) loss = NULL;

  SHMT_REFUSE_DTYPE(shmt__dtype_kind[self->dtype] != SHMT_KIND_FLOATING, self->dtype, "log_sigmoid_cpu");
  SHMT_REQUIRE(target->dtype != SHMT_BOOL, SHMT_E_RUNTIME,
               "Subtraction, the `-` operator, with a bool tensor is not supported.");
  SHMT_REQUIRE(shmt__can_cast(self->dtype, target->dtype), SHMT_E_RUNTIME,
               "result type %s can't be cast to the desired output type %s", shmt__dtype_title(self->dtype),
               shmt__dtype_title(target->dtype));
  SHMT_TRY(find_logit_loss(self, target, weight, pos_weight, reduction, &loss));
  return shmt__tensor_cast(loss, target->dtype, out);
}
