/* ops/reduce/diff_trapezoid.c -- diff, trapezoid and cumulative_trapezoid. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"

#include <inttypes.h>

/* Elements [begin, end) of dim; an end of -1 leaves the last one out. New reference. */
static shmt_status part(shmt_tensor* t, int64_t dim, int64_t begin, shmt_opt_int end,
                        shmt_tensor** out) {
  return shmt_op_slice_Tensor(t, dim, (shmt_opt_int){begin, true}, end, 1, out);
}

static const shmt_opt_int TO_LAST = {-1, true}, TO_END = {0, false};

/* --- differences --------------------------------------------------------------------- */

static shmt_status check_joined(const shmt_tensor* self, const shmt_tensor* other, int64_t dim) {
  if (!other) return SHMT_OK;
  SHMT_REQUIRE(other->n_dims == self->n_dims, SHMT_E_RUNTIME,
               "diff expects prepend or append to be the same dimension as input");
  for (int d = 0; d < self->n_dims; d++)
    SHMT_REQUIRE(d == dim || other->sizes[d] == self->sizes[d], SHMT_E_RUNTIME,
                 "diff expects the shape of tensor to prepend or append to match that of input "
                 "except along the differencing dimension; input.size(%d) = %" PRId64
                 ", but got tensor.size(%d) = %" PRId64,
                 d, self->sizes[d], d, other->sizes[d]);
  return SHMT_OK;
}

/* Subtracts neighbours along dim; for bool, xor. */
static shmt_status one_difference(shmt_tensor* t, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;

  SHMT_TRY(part(t, dim, 0, TO_LAST, &left));
  SHMT_TRY(part(t, dim, 1, TO_END, &right));
  if (t->dtype == SHMT_BOOL) return shmt_op_logical_xor(left, right, out);
  return shmt_op_sub_Tensor(right, left, shmt__scalar_int(1), out);
}

shmt_status shmt__diff(shmt_tensor* self, int64_t n, int64_t dim, shmt_tensor* prepend,
                       shmt_tensor* append, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) t = NULL;

  SHMT_REQUIRE(self->n_dims >= 1, SHMT_E_RUNTIME,
               "diff expects input to be at least one-dimensional");
  SHMT_REQUIRE(n >= 0, SHMT_E_RUNTIME, "order must be non-negative but got %" PRId64, n);
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_joined(self, prepend, dim));
  SHMT_TRY(check_joined(self, append, dim));
  if (n == 0)
    return shmt_op_clone(self, SHMT_MEMORY_FORMAT_NONE, out); /* as torch, which ignores prepend and append then */
  if (prepend || append) {
    shmt_tensor* parts[3];
    int64_t count = 0;
    if (prepend) parts[count++] = prepend;
    parts[count++] = self;
    if (append) parts[count++] = append;
    SHMT_TRY(shmt_op_cat((shmt_tensors){parts, count}, dim, &t));
  } else {
    t = shmt__tensor_ref(self);
  }
  for (int64_t i = 0; i < n && t->sizes[dim] > 0; i++) {
    SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(t);
    SHMT_TRY(one_difference(before, dim, &t));
  }
  if (t == self) return shmt_op_clone(t, SHMT_MEMORY_FORMAT_NONE, out);
  *out = SHMT_TAKE(t);
  return SHMT_OK;
}

/* --- integrals ----------------------------------------------------------------------- */

/* The integral over no points: zeros in y's shape without dim. */
static shmt_status no_area(shmt_tensor* y, int64_t dim, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];
  int n = 0;

  for (int d = 0; d < y->n_dims; d++)
    if (d != dim) sizes[n++] = y->sizes[d];
  return shmt_op_new_zeros(y, (shmt_ints){sizes, n}, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE,
                           SHMT_DEVICE_NONE, (shmt_opt_bool){0}, out);
}

/* The steps between sample points, with as many dims as y. */
static shmt_status steps_of(const char* name, shmt_tensor* y, shmt_tensor* x, int64_t dim,
                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) shaped = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(y->dtype != SHMT_BOOL && x->dtype != SHMT_BOOL, SHMT_E_RUNTIME,
               "%s: received a bool input for `%s`, but bool is not supported", name,
               y->dtype == SHMT_BOOL ? "y" : "x");
  if (x->n_dims == 1)
    SHMT_REQUIRE(x->sizes[0] == y->sizes[dim], SHMT_E_RUNTIME,
                 "%s: There must be one `x` value for each sample point", name);
  if (x->n_dims < y->n_dims) {
    const int missing = y->n_dims - x->n_dims;
    for (int d = 0; d < y->n_dims; d++) sizes[d] = d < missing ? 1 : x->sizes[d - missing];
    if (x->n_dims == 1) {
      sizes[y->n_dims - 1] = 1;
      sizes[dim] = x->sizes[0];
    }
    SHMT_TRY(shmt_op_reshape(x, (shmt_ints){sizes, y->n_dims}, &shaped));
  } else {
    shaped = shmt__tensor_ref(x);
  }
  return one_difference(shaped, dim, out);
}

static shmt_status check_step(const char* name, const shmt_tensor* y, shmt_scalar dx) {
  SHMT_REQUIRE(y->dtype != SHMT_BOOL, SHMT_E_RUNTIME,
               "%s: received a bool input for `y`, but bool is not supported", name);
  SHMT_REQUIRE(dx.tag != SHMT_SCALAR_COMPLEX && dx.tag != SHMT_SCALAR_BOOL, SHMT_E_RUNTIME,
               "%s: Currently, we only support dx as a real number.", name);
  return SHMT_OK;
}

shmt_status shmt__trapezoid_x(shmt_tensor* y, shmt_tensor* x, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) steps = NULL;

  SHMT_TRY(shmt__wrap_dim(dim, y->n_dims, &dim));
  if (y->n_dims > 0 && y->sizes[dim] == 0) return no_area(y, dim, out);
  SHMT_TRY(steps_of("trapezoid", y, x, dim, &steps));
  return shmt_op__trapezoid_sum(y, steps, dim, out);
}

shmt_status shmt__trapezoid_dx(shmt_tensor* y, shmt_scalar dx, int64_t dim, shmt_tensor** out) {
  SHMT_TRY(shmt__wrap_dim(dim, y->n_dims, &dim));
  if (y->n_dims > 0 && y->sizes[dim] == 0) return no_area(y, dim, out);
  SHMT_TRY(check_step("trapezoid", y, dx));
  return shmt_op__trapezoid_even(y, dx, dim, out);
}

shmt_status shmt__cumulative_trapezoid_x(shmt_tensor* y, shmt_tensor* x, int64_t dim,
                                         shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) steps = NULL;

  SHMT_TRY(shmt__wrap_dim(dim, y->n_dims, &dim));
  SHMT_TRY(steps_of("cumulative_trapezoid", y, x, dim, &steps));
  return shmt_op__cumulative_trapezoid_sum(y, steps, dim, out);
}

shmt_status shmt__cumulative_trapezoid_dx(shmt_tensor* y, shmt_scalar dx, int64_t dim,
                                          shmt_tensor** out) {
  SHMT_TRY(shmt__wrap_dim(dim, y->n_dims, &dim));
  SHMT_TRY(check_step("cumulative_trapezoid", y, dx));
  return shmt_op__cumulative_trapezoid_even(y, dx, dim, out);
}
