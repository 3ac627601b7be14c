/* ops/pointwise/compare.c -- equal, isclose and allclose. */
#include "base/dtype.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/threads.h"
#include "ops/scalar_expression.h"

#include <string.h>

static shmt_status read_bool(shmt_tensor* t, bool* out) {
  shmt_scalar value;

  SHMT_TRY(shmt__tensor_item(t, &value));
  *out = shmt__scalar_to_bool(value);
  return SHMT_OK;
}

/* Are all elements of mask true? */
static shmt_status holds_everywhere(shmt_tensor* mask, bool* out) {
  SHMT_AUTO(shmt_tensor) all = NULL;

  SHMT_TRY(shmt_op_all(mask, &all));
  return read_bool(all, out);
}

/* What two tensors of one shape are tested for. */
typedef struct condition {
  bool is_equal; /* true: equal; false: close, with the tolerances below */
  double rtol, atol;
  bool equal_nan;
} condition;

/* Elements that a thread compares at a time: the masks stay in the cache, and the first block that differs ends the
 * test. */
enum { ELEMENTS_OF_THREAD = 1 << 15 };

static shmt_status holds_for(const condition* c, shmt_tensor* a, shmt_tensor* b, bool* out) {
  SHMT_AUTO(shmt_tensor) mask = NULL;

  if (c->is_equal)
    SHMT_TRY(shmt_op_eq_Tensor(a, b, &mask));
  else
    SHMT_TRY(shmt_op_isclose(a, b, c->rtol, c->atol, c->equal_nan, &mask));
  return holds_everywhere(mask, out);
}

/* As holds_for, block by block: divides the tensors in two along the dim with the largest stride until they are
 * small. */
static shmt_status holds_in_blocks(const condition* c, shmt_tensor* a, shmt_tensor* b, bool* out) {
  int64_t dim = -1;

  for (int d = 0; d < a->n_dims; d++)
    if (a->sizes[d] > 1 && (dim < 0 || a->strides[d] > a->strides[dim])) dim = d;
  if (a->numel <= ELEMENTS_OF_THREAD * (int64_t)shmt__num_threads() || dim < 0) return holds_for(c, a, b, out);
  const int64_t half = a->sizes[dim] / 2;
  *out = true;
  for (int k = 0; k < 2 && *out; k++) {
    SHMT_AUTO(shmt_tensor) some_a = NULL;
    SHMT_AUTO(shmt_tensor) some_b = NULL;
    const int64_t length = k == 0 ? half : a->sizes[dim] - half;
    SHMT_TRY(shmt_op_narrow(a, dim, k * half, length, &some_a));
    SHMT_TRY(shmt_op_narrow(b, dim, k * half, length, &some_b));
    SHMT_TRY(holds_in_blocks(c, some_a, some_b, out));
  }
  return SHMT_OK;
}

shmt_status shmt__equal(shmt_tensor* self, shmt_tensor* other, bool* out) {
  *out = shmt__same_sizes(self, other);
  return *out ? holds_in_blocks(&(condition){.is_equal = true}, self, other, out) : SHMT_OK;
}

/* mask |= more */
static shmt_status or_into(shmt_tensor** mask, shmt_tensor* more) {
  SHMT_AUTO(shmt_tensor) either = NULL;

  SHMT_TRY(shmt_op_logical_or(*mask, more, &either));
  shmt__tensor_release(*mask);
  *mask = SHMT_TAKE(either);
  return SHMT_OK;
}

/* A mask of the elements where a and b are both NaN. */
static shmt_status both_nan(shmt_tensor* a, shmt_tensor* b, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a_nan = NULL;
  SHMT_AUTO(shmt_tensor) b_nan = NULL;

  SHMT_TRY(shmt_op_isnan(a, &a_nan));
  SHMT_TRY(shmt_op_isnan(b, &b_nan));
  return shmt_op_logical_and(a_nan, b_nan, out);
}

/* A mask: |a - b| is finite and at most atol + |rtol * b|. */
static shmt_status is_near(shmt_tensor* a, shmt_tensor* b, double rtol, double atol,
                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  SHMT_AUTO(shmt_tensor) allowed = NULL;
  SHMT_AUTO(shmt_tensor) difference = NULL;
  SHMT_AUTO(shmt_tensor) distance = NULL;
  SHMT_AUTO(shmt_tensor) finite = NULL;
  SHMT_AUTO(shmt_tensor) within = NULL;

  SHMT_TRY(shmt_op_mul_Scalar(b, shmt__scalar_float(rtol), &scaled));
  SHMT_TRY(shmt_op_abs(scaled, &allowed)); /* real, also for complex b */
  shmt__tensor_release(SHMT_TAKE(scaled));
  SHMT_TRY(shmt_op_add__Scalar(allowed, shmt__scalar_float(atol), shmt__scalar_int(1)));
  SHMT_TRY(shmt_op_sub_Tensor(a, b, shmt__scalar_int(1), &difference));
  SHMT_TRY(shmt_op_abs(difference, &distance));
  shmt__tensor_release(SHMT_TAKE(difference));
  SHMT_TRY(shmt_op_isfinite(distance, &finite));
  SHMT_TRY(shmt_op_le_Tensor(distance, allowed, &within));
  return shmt_op_logical_and(finite, within, out);
}

shmt_status shmt__isclose(shmt_tensor* self, shmt_tensor* other, double rtol, double atol,
                          bool equal_nan, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) close = NULL;
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) wide_self = NULL;
  SHMT_AUTO(shmt_tensor) more = NULL;
  const int kind = shmt__dtype_category(self->dtype);

  SHMT_REQUIRE(self->dtype == other->dtype, SHMT_E_RUNTIME, "%s did not match %s",
               shmt__dtype_title(self->dtype), shmt__dtype_title(other->dtype));
  SHMT_REQUIRE(rtol >= 0, SHMT_E_RUNTIME, "rtol must be greater than or equal to zero, but got %g",
               rtol);
  SHMT_REQUIRE(atol >= 0, SHMT_E_RUNTIME, "atol must be greater than or equal to zero, but got %g",
               atol);
  SHMT_TRY(shmt_op_eq_Tensor(self, other, &close));
  if (equal_nan && kind >= 2) {
    SHMT_AUTO(shmt_tensor) nan = NULL;
    SHMT_TRY(both_nan(self, other, &nan));
    SHMT_TRY(or_into(&close, nan));
  }
  if (rtol > 0 || atol > 0) {
    /* Integers are compared as floats, because rtol is a fraction. */
    SHMT_TRY(shmt_op_to_dtype(other, kind < 2 ? shmt__default_dtype() : other->dtype, false, false,
                              SHMT_MEMORY_FORMAT_NONE, &wide));
    SHMT_TRY(shmt_op_to_dtype(self, kind == 0 ? shmt__default_dtype() : self->dtype, false, false,
                              SHMT_MEMORY_FORMAT_NONE, &wide_self));
    SHMT_TRY(is_near(wide_self, wide, rtol, atol, &more));
    SHMT_TRY(or_into(&close, more));
  }
  *out = SHMT_TAKE(close);
  return SHMT_OK;
}

shmt_status shmt__allclose(shmt_tensor* self, shmt_tensor* other, double rtol, double atol,
                           bool equal_nan, bool* out) {
  const condition c = {false, rtol, atol, equal_nan};

  return shmt__same_sizes(self, other) ? holds_in_blocks(&c, self, other, out) : holds_for(&c, self, other, out);
}
