/* ops/loss/composite.c -- losses made of other operators: nll_loss, cross_entropy; reductions and gradients of
 * losses. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"

#include <inttypes.h>

enum { NONE = 0, MEAN = 1, SUM = 2 };

shmt_status shmt__reduce_loss(shmt_tensor* self, int64_t reduction, shmt_tensor** out) {
  if (reduction == MEAN) return shmt_op_mean(self, SHMT_DTYPE_NONE, out);
  if (reduction == SUM) return shmt_op_sum(self, SHMT_DTYPE_NONE, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

/* self * factor, written into self's memory when the caller owns it alone. */
static shmt_status multiply_by_factor(shmt_tensor* self, shmt_tensor* factor, shmt_tensor** out) {
  if (!shmt__can_reuse(self, factor)) return shmt_op_mul_Tensor(self, factor, out);
  SHMT_TRY(shmt_op_mul__Tensor(self, factor));
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

shmt_status shmt__loss_grad(shmt_tensor* grad, shmt_tensor* slope, int64_t reduction, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) scaled = NULL;

  /* Scales the 0-d gradient first, which saves a pass over the elements. */
  if (reduction == MEAN && slope->numel != 1)
    SHMT_TRY(shmt_op_div_Scalar(grad, shmt__scalar_int(slope->numel), &scaled));
  else
    scaled = shmt__tensor_ref(grad);
  return multiply_by_factor(slope, scaled, out);
}

shmt_status shmt__mul_optional_weight(shmt_tensor* self, shmt_tensor* weight, shmt_tensor** out) {
  if (weight) return multiply_by_factor(self, weight, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

/* --- negative log-likelihood ---------------------------------------------------------------- */

shmt_status shmt__nll_loss(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                           int64_t ignore_index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) total = NULL;

  return shmt_op_nll_loss_forward(self, target, weight, reduction, ignore_index, out, &total);
}

shmt_status shmt__nll_loss2d(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                             int64_t ignore_index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) total = NULL;

  return shmt_op_nll_loss2d_forward(self, target, weight, reduction, ignore_index, out, &total);
}

/* nll_loss with any number of dims after the classes: reshapes them to planes of one row. */
static shmt_status nll_folded(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                              int64_t ignore_index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) planes = NULL;
  SHMT_AUTO(shmt_tensor) targets = NULL;
  SHMT_AUTO(shmt_tensor) losses = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  int64_t n = 0, inner = 1;
  bool fits = target->n_dims == self->n_dims - 1;
  char want[256];

  sizes[n++] = self->sizes[0];
  for (int d = 2; d < self->n_dims; d++) {
    sizes[n++] = self->sizes[d];
    inner *= self->sizes[d];
    fits = fits && target->sizes[d - 1] == self->sizes[d];
  }
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "Expected target size %s, got %s",
               shmt__ints_text((shmt_ints){sizes, n}, want, sizeof want), SHMT_SHAPE_TEXT(target));
  SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(self->sizes[0], self->sizes[1], 1, inner), &planes));
  SHMT_TRY(shmt_op_reshape(target, SHMT_INTS(self->sizes[0], 1, inner), &targets));
  if (reduction != NONE) return shmt_op_nll_loss2d(planes, targets, weight, reduction, ignore_index, out);
  SHMT_TRY(shmt_op_nll_loss2d(planes, targets, weight, reduction, ignore_index, &losses));
  return shmt_op_view(losses, (shmt_ints){sizes, n}, out);
}

shmt_status shmt__nll_loss_nd(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                              int64_t ignore_index, shmt_tensor** out) {
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_VALUE, "Expected 1 or more dimensions (got 0)");
  SHMT_REQUIRE(self->n_dims == 1 || (target->n_dims > 0 && self->sizes[0] == target->sizes[0]), SHMT_E_VALUE,
               "Expected input batch_size (%" PRId64 ") to match target batch_size (%" PRId64 ").", self->sizes[0],
               target->n_dims ? target->sizes[0] : 0);
  if (self->n_dims <= 2) return shmt_op_nll_loss(self, target, weight, reduction, ignore_index, out);
  if (self->n_dims == 4) return shmt_op_nll_loss2d(self, target, weight, reduction, ignore_index, out);
  return nll_folded(self, target, weight, reduction, ignore_index, out);
}

/* --- cross-entropy -------------------------------------------------------------------------- */

/* weight in a shape that broadcasts along the class dim of n_dims dims. */
static shmt_status shape_weight(shmt_tensor* weight, int64_t class_dim, int64_t n_dims, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];

  for (int64_t d = 0; d < n_dims; d++) sizes[d] = d == class_dim ? weight->numel : 1;
  return shmt_op_view(weight, (shmt_ints){sizes, n_dims}, out);
}

static shmt_status multiply_in(shmt_tensor** t, shmt_tensor* factor) {
  SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(*t);
  return shmt_op_mul_Tensor(before, factor, t);
}

static shmt_status entropy_of_probabilities(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight,
                                            int64_t reduction, double label_smoothing, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) log_p = NULL;
  SHMT_AUTO(shmt_tensor) goal = shmt__tensor_ref(target);
  SHMT_AUTO(shmt_tensor) terms = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) negative = NULL;
  const int64_t class_dim = self->n_dims == 1 ? 0 : 1, n_classes = self->sizes[class_dim];

  SHMT_REQUIRE(shmt__is_floating(target->dtype), SHMT_E_RUNTIME,
               "Expected floating point type for target with class probabilities, got %s",
               shmt__dtype_title(target->dtype));
  SHMT_REQUIRE(!weight || (weight->n_dims == 1 && weight->numel == n_classes), SHMT_E_RUNTIME,
               "cross_entropy: weight tensor should be defined either for all %" PRId64
               " classes or no classes but got weight tensor of shape: %s", n_classes,
               weight ? SHMT_SHAPE_TEXT(weight) : "");
  SHMT_TRY(shmt_op_log_softmax_int(self, class_dim, self->dtype, &log_p));
  if (label_smoothing > 0) {
    SHMT_AUTO(shmt_tensor) scaled = NULL;
    SHMT_TRY(shmt_op_mul_Scalar(goal, shmt__scalar_float(1 - label_smoothing), &scaled));
    shmt__tensor_release(SHMT_TAKE(goal));
    SHMT_TRY(shmt_op_add_Scalar(scaled, shmt__scalar_float(label_smoothing / (double)n_classes),
                                shmt__scalar_int(1), &goal));
  }
  SHMT_TRY(shmt_op_mul_Tensor(log_p, goal, &terms));
  if (weight) {
    SHMT_AUTO(shmt_tensor) shaped = NULL;
    SHMT_TRY(shape_weight(weight, class_dim, self->n_dims, &shaped));
    SHMT_TRY(multiply_in(&terms, shaped));
  }
  if (reduction == NONE) {
    SHMT_TRY(shmt_op_sum_dim_IntList(terms, SHMT_INTS(class_dim), false, SHMT_DTYPE_NONE, &sum));
    return shmt_op_neg(sum, out);
  }
  SHMT_TRY(shmt_op_sum(terms, SHMT_DTYPE_NONE, &sum));
  if (reduction == SUM) return shmt_op_neg(sum, out);
  SHMT_TRY(shmt_op_neg(sum, &negative));
  return shmt_op_div_Scalar(negative, shmt__scalar_float((double)self->numel / (double)n_classes), out);
}

/* The part of label smoothing: the loss against the uniform distribution, without the ignored samples. */
static shmt_status smooth_loss(shmt_tensor* log_p, shmt_tensor* target, shmt_tensor* weight, int64_t class_dim,
                               int64_t reduction, int64_t ignore_index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) terms = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) negative = NULL;
  SHMT_AUTO(shmt_tensor) ignored = NULL;
  SHMT_AUTO(shmt_tensor) kept = NULL;
  SHMT_AUTO(shmt_tensor) total = NULL;
  SHMT_AUTO(shmt_tensor) count = NULL;

  if (weight) {
    SHMT_AUTO(shmt_tensor) shaped = NULL;
    SHMT_TRY(shape_weight(weight, class_dim, log_p->n_dims, &shaped));
    SHMT_TRY(shmt_op_mul_Tensor(log_p, shaped, &terms));
  } else {
    terms = shmt__tensor_ref(log_p);
  }
  SHMT_TRY(shmt_op_sum_dim_IntList(terms, SHMT_INTS(class_dim), false, SHMT_DTYPE_NONE, &sum));
  SHMT_TRY(shmt_op_neg(sum, &negative));
  SHMT_TRY(shmt_op_eq_Scalar(target, shmt__scalar_int(ignore_index), &ignored));
  SHMT_TRY(shmt_op_masked_fill_Scalar(negative, ignored, shmt__scalar_int(0), &kept));
  if (reduction == NONE) {
    *out = SHMT_TAKE(kept);
    return SHMT_OK;
  }
  if (reduction == SUM) return shmt_op_sum(kept, SHMT_DTYPE_NONE, out);
  SHMT_TRY(shmt_op_sum(kept, SHMT_DTYPE_NONE, &total));
  if (weight) {
    /* Ignored targets may be invalid as indices: class 0 is looked up for them, and the result dropped. */
    SHMT_AUTO(shmt_tensor) safe = NULL;
    SHMT_AUTO(shmt_tensor) flat = NULL;
    SHMT_AUTO(shmt_tensor) each = NULL;
    SHMT_AUTO(shmt_tensor) mask = NULL;
    SHMT_AUTO(shmt_tensor) counted = NULL;
    SHMT_TRY(shmt_op_masked_fill_Scalar(target, ignored, shmt__scalar_int(0), &safe));
    SHMT_TRY(shmt_op_reshape(safe, SHMT_INTS(-1), &flat));
    SHMT_TRY(shmt_op_index_select(weight, 0, flat, &each));
    SHMT_TRY(shmt_op_reshape(ignored, SHMT_INTS(-1), &mask));
    SHMT_TRY(shmt_op_masked_fill_Scalar(each, mask, shmt__scalar_int(0), &counted));
    SHMT_TRY(shmt_op_sum(counted, SHMT_DTYPE_NONE, &count));
  } else {
    SHMT_AUTO(shmt_tensor) used = NULL;
    SHMT_TRY(shmt_op_logical_not(ignored, &used));
    SHMT_TRY(shmt_op_sum(used, SHMT_DTYPE_NONE, &count));
  }
  return shmt_op_div_Tensor(total, count, out);
}

shmt_status shmt__cross_entropy_loss(shmt_tensor* self, shmt_tensor* target, shmt_tensor* weight, int64_t reduction,
                                     int64_t ignore_index, double label_smoothing, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) log_p = NULL;
  SHMT_AUTO(shmt_tensor) hard = NULL;
  SHMT_AUTO(shmt_tensor) smooth = NULL;
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;

  SHMT_REQUIRE(label_smoothing >= 0 && label_smoothing <= 1, SHMT_E_RUNTIME,
               "label_smoothing must be between 0.0 and 1.0. Got: %g", label_smoothing);
  if (shmt__same_sizes(self, target) && self->n_dims > 0) {
    SHMT_REQUIRE(ignore_index < 0, SHMT_E_RUNTIME, "ignore_index is not supported for floating point target");
    return entropy_of_probabilities(self, target, weight, reduction, label_smoothing, out);
  }
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_VALUE, "Expected 1 or more dimensions (got 0)");
  const int64_t class_dim = self->n_dims == 1 ? 0 : 1;
  SHMT_TRY(shmt_op_log_softmax_int(self, class_dim, self->dtype, &log_p));
  if (label_smoothing == 0) return shmt_op_nll_loss_nd(log_p, target, weight, reduction, ignore_index, out);
  SHMT_TRY(shmt_op_nll_loss_nd(log_p, target, weight, reduction, ignore_index, &hard));
  SHMT_TRY(smooth_loss(log_p, target, weight, class_dim, reduction, ignore_index, &smooth));
  SHMT_TRY(shmt_op_mul_Scalar(hard, shmt__scalar_float(1 - label_smoothing), &a));
  SHMT_TRY(shmt_op_mul_Scalar(smooth, shmt__scalar_float(label_smoothing / (double)self->sizes[class_dim]), &b));
  return shmt_op_add_Tensor(a, b, shmt__scalar_int(1), out);
}
