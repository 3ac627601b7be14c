/* ops/shape/views_inplace.c -- operators that change a tensor's own sizes, strides or storage. */
#include "dispatch/operator.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/creation/uninitialized.h"
#include "tensor/tensor.h"

#include <inttypes.h>

/* Gives self the sizes and strides of a view. Consumes nothing; view may be NULL after a failure. */
static shmt_status become(shmt_tensor* self, shmt_status made, shmt_tensor* view) {
  if (made == SHMT_OK)
    made = shmt__tensor_set_geometry(self, shmt__tensor_sizes(view), shmt__tensor_strides(view), view->offset);
  shmt__tensor_release(view);
  return made;
}

#define BECOME(self, call)            \
  ({                                  \
    shmt_tensor* view = NULL;         \
    shmt_status made = (call);        \
    become(self, made, view);         \
  })

shmt_status shmt__impl_squeeze_(shmt_tensor* self) { return BECOME(self, shmt__impl_squeeze(self, &view)); }

shmt_status shmt__impl_squeeze__dim(shmt_tensor* self, int64_t dim) {
  return BECOME(self, shmt__impl_squeeze_dim(self, dim, &view));
}

shmt_status shmt__impl_squeeze__dims(shmt_tensor* self, shmt_ints dims) {
  return BECOME(self, shmt__impl_squeeze_dims(self, dims, &view));
}

shmt_status shmt__impl_unsqueeze_(shmt_tensor* self, int64_t dim) {
  return BECOME(self, shmt__impl_unsqueeze(self, dim, &view));
}

shmt_status shmt__impl_transpose_(shmt_tensor* self, int64_t dim0, int64_t dim1) {
  return BECOME(self, shmt__impl_transpose(self, dim0, dim1, &view));
}

shmt_status shmt__impl_t_(shmt_tensor* self) { return BECOME(self, shmt__impl_t(self, &view)); }

shmt_status shmt__impl_swapaxes_(shmt_tensor* self, int64_t a, int64_t b) { return shmt_op_transpose_(self, a, b); }

shmt_status shmt__impl_as_strided_at_(shmt_tensor* self, shmt_ints size, shmt_ints stride, int64_t storage_offset,
                                      int64_t self_offset) {
  return BECOME(self, shmt__impl_as_strided_at(self, size, stride, storage_offset, self_offset, &view));
}

shmt_status shmt__impl_as_strided_(shmt_tensor* self, shmt_ints size, shmt_ints stride, shmt_opt_int storage_offset) {
  int64_t offset = storage_offset.has ? storage_offset.value : self->offset;
  return shmt_op__as_strided_at_(self, size, stride, offset, self->offset);
}

/* --- resize and set ---------------------------------------------------------------------------- */

/* Kernels of the Autograd key. The generated operator tables refer to them. */
shmt_status shmt__refuse_resize(shmt_keyset ks, shmt_tensor* self, shmt_ints size, shmt_memory_format format);
shmt_status shmt__refuse_resize_as(shmt_keyset ks, shmt_tensor* self, shmt_tensor* the_template,
                                   shmt_memory_format format);

shmt_status shmt__refuse_resize(shmt_keyset ks, shmt_tensor* self, shmt_ints size, shmt_memory_format format) {
  (void)self, (void)ks, (void)size, (void)format;
  SHMT_FAIL(SHMT_E_RUNTIME, "cannot resize variables that require grad");
}

shmt_status shmt__refuse_resize_as(shmt_keyset ks, shmt_tensor* self, shmt_tensor* the_template,
                                   shmt_memory_format format) {
  (void)self, (void)ks, (void)format;
  if (!(shmt__tensor_keys(self) & SHMT_KEYBIT_Autograd))
    return shmt_op_resize_as__below(shmt__keys_below(ks, SHMT_KEY_Autograd), self, the_template, format);
  SHMT_FAIL(SHMT_E_RUNTIME, "cannot resize variables that require grad");
}

static shmt_status resize_and_fill(shmt_tensor* self, shmt_ints size, shmt_memory_format format) {
  const uint64_t before = self->storage ? self->storage->nbytes : 0;
  SHMT_TRY(shmt__tensor_resize(self, size, format));
  return shmt__fill_grown(self, before);
}

shmt_status shmt__impl_resize_(shmt_tensor* self, shmt_ints size, shmt_memory_format format) {
  return resize_and_fill(self, size, format);
}

shmt_status shmt__impl_resize_as_(shmt_tensor* self, shmt_tensor* the_template, shmt_memory_format format) {
  if (format == SHMT_PRESERVE_FORMAT) format = shmt__tensor_suggest_format(the_template);
  return resize_and_fill(self, shmt__tensor_sizes(the_template), format);
}

/* Puts self on another storage, which may grow to fit. */
static shmt_status set_storage(shmt_tensor* self, shmt_storage* source, int64_t offset, shmt_ints size,
                               shmt_ints stride) {
  int64_t dense[SHMT_MAX_DIMS];
  uint64_t nbytes;
  SHMT_REQUIRE(size.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               size.len);
  if (stride.len <= 0 && size.len > 0) {
    int64_t numel;
    SHMT_TRY(shmt__checked_numel(size, &numel));
    shmt__contiguous_strides(size, SHMT_CONTIGUOUS_FORMAT, dense);
    stride = (shmt_ints){dense, size.len};
  }
  SHMT_REQUIRE(size.len == (stride.len < 0 ? 0 : stride.len), SHMT_E_RUNTIME,
               "mismatch in length of strides and shape: %" PRId64 " and %" PRId64, stride.len, size.len);
  bool meta = shmt__storage_has(source, SHMT_STORAGE_META);
  SHMT_REQUIRE(
      meta == shmt__tensor_is_meta(self), SHMT_E_RUNTIME,
      "Attempted to set the storage of a tensor on device \"%s\" to a storage on different device \"%s\".  This "
      "is no longer allowed; the devices must match.",
      shmt__tensor_is_meta(self) ? "meta" : "cpu", meta ? "meta" : "cpu");
  SHMT_REQUIRE(offset >= 0, SHMT_E_RUNTIME, "Tensor: invalid storage offset %" PRId64, offset);
  SHMT_TRY(shmt__storage_bytes_for(size, stride, offset, shmt__tensor_item_bytes(self), &nbytes));
  if (nbytes > source->nbytes) SHMT_TRY(shmt__storage_resize(source, nbytes));
  shmt_storage* old = self->storage;
  shmt__storage_retain(source);
  self->storage = source;
  shmt_status status = shmt__tensor_set_geometry(self, size, stride, offset);
  if (status != SHMT_OK) {
    self->storage = old;
    old = source;
  }
  shmt__storage_release(old);
  return status;
}

shmt_status shmt__impl_set_(shmt_tensor* self) {
  SHMT_AUTO(shmt_storage) empty = NULL;
  SHMT_TRY(shmt__tensor_is_meta(self) ? shmt__storage_create_meta(0, &empty) : shmt__storage_create(0, &empty));
  return set_storage(self, empty, 0, SHMT_INTS(0), SHMT_INTS(1));
}

shmt_status shmt__impl_set__storage(shmt_tensor* self, shmt_storage* source) {
  int64_t n = (int64_t)(source->nbytes / (uint64_t)shmt__tensor_item_bytes(self));
  return set_storage(self, source, 0, SHMT_INTS(n), SHMT_INTS(1));
}

shmt_status shmt__impl_set__storage_offset(shmt_tensor* self, shmt_storage* source, int64_t offset, shmt_ints size,
                                           shmt_ints stride) {
  return set_storage(self, source, offset, size, stride);
}

static shmt_status require_same_dtype(const shmt_tensor* self, const shmt_tensor* source) {
  SHMT_REQUIRE(self->dtype == source->dtype, SHMT_E_RUNTIME, "Could not set tensor of type %s to a tensor of type %s",
               shmt__dtype_name[source->dtype], shmt__dtype_name[self->dtype]);
  return SHMT_OK;
}

shmt_status shmt__impl_set__tensor(shmt_tensor* self, shmt_tensor* source) {
  if (self == source) return SHMT_OK;
  SHMT_TRY(require_same_dtype(self, source));
  return set_storage(self, source->storage, source->offset, shmt__tensor_sizes(source), shmt__tensor_strides(source));
}

shmt_status shmt__impl_set__tensor_offset(shmt_tensor* self, shmt_tensor* source, int64_t offset, shmt_ints size,
                                          shmt_ints stride) {
  SHMT_TRY(require_same_dtype(self, source));
  return set_storage(self, source->storage, offset, size, stride);
}
