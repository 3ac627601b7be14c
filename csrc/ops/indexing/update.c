/* ops/indexing/update.c -- how operators begin that write some elements of a copy of self, or of self itself. */
#include "ops/indexing/update.h"

#include "base/warn.h"
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "ops/outputs.h"

/* *out = self, ready to be written into. Without a preset output that is a new tensor, in self's layout or dense. */
static shmt_status begin_update(shmt_tensor* self, bool in_layout, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;

  if (*out == self) return SHMT_OK;
  if (*out) {
    SHMT_TRY(shmt__check_out_dtype(*out, self->dtype));
    SHMT_TRY(shmt__prepare_out("out", out, shmt__tensor_sizes(self), self->dtype, self->device));
    return shmt__tensor_is_meta(self) ? SHMT_OK : shmt__tensor_copy(*out, self);
  }
  if (in_layout)
    SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &copy));
  else
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &copy));
  if (!shmt__tensor_is_meta(self)) SHMT_TRY(shmt__tensor_copy(copy, self));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}

shmt_status shmt__begin_update(shmt_tensor* self, shmt_tensor** out) { return begin_update(self, true, out); }

shmt_status shmt__begin_dense_update(shmt_tensor* self, shmt_tensor** out) { return begin_update(self, false, out); }

uint64_t shmt__expanded_dims(const shmt_tensor* t) {
  uint64_t dims = 0;

  for (int d = 0; d < t->n_dims; d++)
    if (t->strides[d] == 0 && t->sizes[d] > 1) dims |= UINT64_C(1) << d;
  return dims;
}

shmt_status shmt__internal_overlap(shmt_tensor* self, int64_t* out) {
  *out = self->flags & SHMT_TENSOR_DENSE ? 0 : shmt__expanded_dims(self) ? 1 : 2;
  return SHMT_OK;
}

shmt_status shmt__unexpanded(shmt_tensor* t, uint64_t dims, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];

  for (int d = 0; d < t->n_dims; d++) sizes[d] = dims >> d & 1 ? 1 : t->sizes[d];
  return shmt__tensor_alias(t, (shmt_ints){sizes, t->n_dims}, shmt__tensor_strides(t), t->offset, out);
}

shmt_status shmt__warn_expanded(const char* name) {
  return shmt__warn("Use of %s on expanded tensors is deprecated. Please clone() the tensor before performing this "
                    "operation. This also applies to advanced indexing e.g. tensor[indices] = tensor",
                    name);
}

shmt_status shmt__check_not_expanded(const shmt_tensor* out) {
  SHMT_REQUIRE(!out || !shmt__expanded_dims(out), SHMT_E_RUNTIME,
               "unsupported operation: more than one element of the written-to tensor refers to a single memory "
               "location. Please clone() the tensor before performing the operation.");
  return SHMT_OK;
}
