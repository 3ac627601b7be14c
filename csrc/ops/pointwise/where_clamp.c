/* ops/pointwise/where_clamp.c -- where, masked_fill, clamp and lerp. */
#include "base/dtype.h"
#include "base/promote.h"
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "generated/operator_loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/dtype_names.h"
#include "ops/pointwise/pointwise.h"
#include "ops/indexing/update.h"

/* --- where ------------------------------------------------------------------------------- */

/* t itself, or a cast of it to dtype. New reference. A 0-d tensor stays 0-d. */
static shmt_status as_dtype(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  if (t->n_dims == 0 && t->dtype != dtype && t->device == SHMT_CPU)
    return shmt__tensor_from_scalar(shmt__scalar_load(shmt__tensor_data(t), t->dtype), dtype, false,
                                    out);
  return shmt__tensor_cast(t, dtype, out);
}

static shmt_status select_by_mask(const char* name, shmt_tensor* condition, shmt_tensor* a, shmt_tensor* b,
                          shmt_tensor** out) {
  shmt_iter it;

  shmt__iter_init(&it, name);
  shmt__iter_output(&it, out, a->dtype);
  shmt__iter_input(&it, condition);
  shmt__iter_input(&it, a);
  shmt__iter_input(&it, b);
  SHMT_TRY(shmt__iter_build(&it));
  return shmt__iter_finish(&it, shmt__iter_run(&it, shmt__loops[SHMT_LOOP_where][a->dtype], NULL));
}

shmt_status shmt__where(shmt_tensor* condition, shmt_tensor* self, shmt_tensor* other,
                        shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) mask = NULL;
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  shmt_dtype dtype = self->dtype;

  SHMT_REQUIRE(condition->dtype == SHMT_BOOL || condition->dtype == SHMT_UINT8, SHMT_E_RUNTIME,
               "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
               shmt__dtype_title(condition->dtype));
  if (condition->dtype == SHMT_UINT8) {
    static _Atomic(bool) has_warned;
    SHMT_TRY(
        shmt__warn_once(&has_warned, "where received a uint8 condition tensor. This is deprecated: use a boolean one"));
  }
  if (self->dtype != other->dtype || self->flags & SHMT_TENSOR_WRAPPED_NUMBER) {
    shmt__result_type result = SHMT_RESULT_TYPE_INIT;
    SHMT_TRY(shmt__result_type_add(&result, self->dtype, self->n_dims == 0,
                                   (self->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0));
    SHMT_TRY(shmt__result_type_add(&result, other->dtype, other->n_dims == 0,
                                   (other->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0));
    SHMT_TRY(shmt__result_type_get(&result, &dtype));
  }
  SHMT_TRY(shmt__tensor_cast(condition, SHMT_BOOL, &mask));
  SHMT_TRY(as_dtype(self, dtype, &a));
  SHMT_TRY(as_dtype(other, dtype, &b));
  return select_by_mask("where", mask, a, b, out);
}

shmt_status shmt__where_nonzero(shmt_tensor* condition, shmt_tensor_vec* out) {
  return shmt_op_nonzero_numpy(condition, out);
}

/* --- masked_fill --------------------------------------------------------------------------- */

static shmt_status masked_fill(shmt_tensor* self, shmt_tensor* mask, shmt_tensor* value, shmt_tensor** out);

/* masked_fill_ of an expanded tensor, where several elements share one memory location: the location is filled when the
 * mask is true for any of them. */
static shmt_status masked_fill_repeated(shmt_tensor* self, shmt_tensor* mask, shmt_tensor* value) {
  const uint64_t repeated = shmt__expanded_dims(self);
  SHMT_AUTO(shmt_tensor) single = NULL;
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) any = NULL;
  int64_t dims[SHMT_MAX_DIMS], n = 0;

  SHMT_TRY(shmt__warn_expanded("masked_fill_"));
  SHMT_TRY(shmt_op_expand(mask, shmt__tensor_sizes(self), false, &wide));
  for (int d = 0; d < self->n_dims; d++)
    if (repeated >> d & 1) dims[n++] = d;
  SHMT_TRY(shmt__unexpanded(self, repeated, &single));
  SHMT_TRY(shmt_op_any_dims(wide, (shmt_ints){dims, n}, true, &any));
  return masked_fill(single, any, value, &single);
}

/* Whether the shapes fit is asked before all else, unless self is written itself: then it is part of the walk. */
static shmt_status check_mask_fits(const shmt_tensor* self, const shmt_tensor* mask, const shmt_tensor* out) {
  int64_t sizes[SHMT_MAX_DIMS], n;

  return out == self ? SHMT_OK
                     : shmt__broadcast_sizes(shmt__tensor_sizes(self), shmt__tensor_sizes(mask), sizes, &n);
}

static shmt_status masked_fill(shmt_tensor* self, shmt_tensor* mask, shmt_tensor* value,
                               shmt_tensor** out) {
  SHMT_REQUIRE(mask->dtype == SHMT_BOOL, SHMT_E_RUNTIME,
               "masked_fill_ only supports boolean masks, but got mask with dtype %s",
               shmt__dtype_ctype(mask->dtype));
  if (!*out) { /* a new result is contiguous, whatever the layouts of self and mask */
    int64_t sizes[SHMT_MAX_DIMS], n;
    SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(self), shmt__tensor_sizes(mask), sizes, &n));
    SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, n}, self->dtype, shmt__common_device(self, mask, NULL),
                                SHMT_CONTIGUOUS_FORMAT, out));
  }
  if (*out == self && shmt__expanded_dims(self)) return masked_fill_repeated(self, mask, value);
  return select_by_mask("masked_fill", mask, value, self, out);
}

shmt_status shmt__masked_fill_scalar(shmt_tensor* self, shmt_tensor* mask, shmt_scalar value,
                                     shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) number = NULL;

  SHMT_TRY(check_mask_fits(self, mask, *out));
  SHMT_TRY(shmt__scalar_check(value, self->dtype));
  SHMT_TRY(shmt__tensor_from_scalar(value, self->dtype, false, &number));
  return masked_fill(self, mask, number, out);
}

shmt_status shmt__masked_fill_tensor(shmt_tensor* self, shmt_tensor* mask, shmt_tensor* value,
                                     shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) number = NULL;

  SHMT_TRY(check_mask_fits(self, mask, *out));
  SHMT_REQUIRE(value->n_dims == 0, SHMT_E_RUNTIME,
               "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d "
               "dimension(s).",
               value->n_dims);
  if (!shmt__can_cast(value->dtype, self->dtype) && shmt__dtype_category(value->dtype) >= 3) {
    /* A complex number without an imaginary part is a real one. */
    shmt_scalar item;
    SHMT_TRY(shmt__tensor_item(value, &item));
    return shmt__masked_fill_scalar(self, mask, item, out);
  }
  SHMT_TRY(as_dtype(value, self->dtype, &number));
  return masked_fill(self, mask, number, out);
}

/* --- clamp ---------------------------------------------------------------------------------- */

static shmt_status check_clamp(const shmt_tensor* self, bool has_min, bool has_max) {
  SHMT_REQUIRE(has_min || has_max, SHMT_E_RUNTIME,
               "torch.clamp: At least one of 'min' or 'max' must not be None");
  SHMT_REQUIRE(shmt__dtype_kind[self->dtype] != SHMT_KIND_COMPLEX, SHMT_E_NOT_IMPLEMENTED,
               "clamp is not supported for complex types");
  return SHMT_OK;
}

/* Checks a limit of clamp. As in torch, bool has no clamp. */
static shmt_status check_limit(shmt_scalar limit, shmt_dtype dtype, const char* what) {
  SHMT_REFUSE_DTYPE(dtype == SHMT_BOOL, dtype, what);
  return shmt__scalar_check(limit, dtype);
}

shmt_status shmt__clamp(shmt_tensor* self, shmt_scalar min, shmt_scalar max, shmt_tensor** out) {
  const bool has_min = min.tag != SHMT_SCALAR_NONE, has_max = max.tag != SHMT_SCALAR_NONE;
  SHMT_AUTO(shmt_tensor) input = NULL;
  shmt__result_type result = SHMT_RESULT_TYPE_INIT;
  shmt_dtype dtype;
  shmt__pointwise p = {"clamp", SHMT_LOOP_clamp, SHMT_PROMOTE_NONE, SHMT_DTYPE_NONE, false};

  SHMT_TRY(check_clamp(self, has_min, has_max));
  SHMT_TRY(shmt__result_type_add(&result, self->dtype, self->n_dims == 0, false));
  if (has_min) SHMT_TRY(shmt__result_type_add_scalar(&result, min));
  if (has_max) SHMT_TRY(shmt__result_type_add_scalar(&result, max));
  SHMT_TRY(shmt__result_type_get(&result, &dtype));
  SHMT_TRY(shmt__tensor_cast(self, dtype, &input));
  const char* what = !has_max ? "clamp_min_scalar_cpu" : !has_min ? "clamp_max_scalar_cpu" : "clamp_scalar_cpu";
  if (has_min) SHMT_TRY(check_limit(min, dtype, what));
  if (has_max) SHMT_TRY(check_limit(max, dtype, what));
  if (has_min && has_max) return shmt__pointwise_unary_2(&p, input, min, max, out);
  p.row = has_min ? SHMT_LOOP_clamp_low : SHMT_LOOP_clamp_high;
  return shmt__pointwise_unary_1(&p, input, has_min ? min : max, out);
}

shmt_status shmt__clamp_min(shmt_tensor* self, shmt_scalar min, shmt_tensor** out) {
  return shmt__clamp(self, min, shmt__scalar_none(), out);
}

shmt_status shmt__clamp_max(shmt_tensor* self, shmt_scalar max, shmt_tensor** out) {
  return shmt__clamp(self, shmt__scalar_none(), max, out);
}

shmt_status shmt__clamp_tensor(shmt_tensor* self, shmt_tensor* min, shmt_tensor* max,
                               shmt_tensor** out) {
  static const shmt__pointwise both = {"clamp", SHMT_LOOP_clamp_tensors, SHMT_PROMOTE_ARITHMETIC,
                                       SHMT_DTYPE_NONE, false};
  static const shmt__pointwise low = {"clamp", SHMT_LOOP_maximum, SHMT_PROMOTE_ARITHMETIC,
                                      SHMT_DTYPE_NONE, false};
  static const shmt__pointwise high = {"clamp", SHMT_LOOP_minimum, SHMT_PROMOTE_ARITHMETIC,
                                       SHMT_DTYPE_NONE, false};

  SHMT_TRY(check_clamp(self, min != NULL, max != NULL));
  const shmt_tensor* const given[] = {self, min, max, *out}; /* the forms with out= are composites */
  for (int i = 0; i < 4; i++)
    if (given[i]) SHMT_TRY(shmt__check_has_memory(given[i]));
  if (!max) return shmt__pointwise_binary(&low, self, min, out);
  if (!min) return shmt__pointwise_binary(&high, self, max, out);
  return shmt__pointwise_ternary(&both, self, min, max, out);
}

shmt_status shmt__clamp_min_tensor(shmt_tensor* self, shmt_tensor* min, shmt_tensor** out) {
  return shmt__clamp_tensor(self, min, NULL, out);
}

shmt_status shmt__clamp_max_tensor(shmt_tensor* self, shmt_tensor* max, shmt_tensor** out) {
  return shmt__clamp_tensor(self, NULL, max, out);
}

shmt_status shmt__clamp_tensor_out(shmt_tensor* self, shmt_tensor* min, shmt_tensor* max,
                                   shmt_tensor* out) {
  return shmt__clamp_tensor(self, min, max, &out);
}

shmt_status shmt__clamp_min_tensor_out(shmt_tensor* self, shmt_tensor* min, shmt_tensor* out) {
  return shmt__clamp_tensor(self, min, NULL, &out);
}

shmt_status shmt__clamp_max_tensor_out(shmt_tensor* self, shmt_tensor* max, shmt_tensor* out) {
  return shmt__clamp_tensor(self, NULL, max, &out);
}

/* --- lerp ----------------------------------------------------------------------------------- */

/* A 0-d weight takes part in promotion like a scalar. A weight with dims must have the dtype of self, and so must
 * out. */
shmt_status shmt__lerp(shmt_tensor* self, shmt_tensor* end, shmt_tensor* weight, shmt_tensor** out) {
  static const shmt__pointwise promoted = {"lerp", SHMT_LOOP_lerp, SHMT_PROMOTE_ARITHMETIC, SHMT_DTYPE_NONE, false};
  static const shmt__pointwise exact = {"lerp", SHMT_LOOP_lerp, SHMT_PROMOTE_SAME, SHMT_DTYPE_NONE, true};

  SHMT_REQUIRE(self->dtype == end->dtype, SHMT_E_RUNTIME, "expected dtype %s for `end` but got dtype %s",
               shmt__dtype_ctype(self->dtype), shmt__dtype_ctype(end->dtype));
  if (weight->n_dims == 0) return shmt__pointwise_ternary(&promoted, self, end, weight, out);
  SHMT_REQUIRE(self->dtype == weight->dtype, SHMT_E_RUNTIME, "expected dtype %s for `weight` but got dtype %s",
               shmt__dtype_ctype(self->dtype), shmt__dtype_ctype(weight->dtype));
  return shmt__pointwise_ternary(&exact, self, end, weight, out);
}
