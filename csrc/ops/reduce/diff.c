/* ops/reduce/diff.c -- diff. */
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
