/* ops/creation/copy.c -- copies, casts and fills: copy_, clone, contiguous, fill_, zero_, to. */
#include "generated/impls.h"

#include "base/scalar.h"
#include "base/warn.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/dtype_names.h"

static shmt_status warn_of_lost_parts(const shmt_tensor* from, shmt_dtype to) {
  static _Atomic(bool) warned;

  if (SHMT_LIKELY(shmt__dtype_kind[from->dtype] != SHMT_KIND_COMPLEX) || shmt__dtype_kind[to] == SHMT_KIND_COMPLEX ||
      to == SHMT_BOOL)
    return SHMT_OK;
  return shmt__warn_once(&warned, "Casting complex values to real discards the imaginary part");
}

shmt_status shmt__copy_(shmt_tensor* self, shmt_tensor* src, bool non_blocking) {
  (void)non_blocking;
  SHMT_TRY(warn_of_lost_parts(src, self->dtype));
  return shmt__tensor_copy(self, src);
}

shmt_status shmt__clone(shmt_tensor* self, shmt_memory_format format, shmt_tensor** out) {
  return shmt__to_copy(self, self->dtype, SHMT_LAYOUT_NONE, self->device, (shmt_opt_bool){0}, false,
                       format, out);
}

shmt_status shmt__contiguous(shmt_tensor* self, shmt_memory_format format, shmt_tensor** out) {
  SHMT_REQUIRE(format != SHMT_PRESERVE_FORMAT, SHMT_E_RUNTIME,
               "preserve memory format is unsupported by the contiguous operator");
  if (shmt__tensor_is_contiguous_in(self, format)) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  return shmt_op_clone(self, format, out);
}

shmt_status shmt__fill_scalar_(shmt_tensor* self, shmt_scalar value) {
  return shmt__tensor_fill(self, value);
}

shmt_status shmt__fill_tensor_(shmt_tensor* self, shmt_tensor* value) {
  SHMT_REQUIRE(value->n_dims == 0, SHMT_E_RUNTIME,
               "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.",
               value->n_dims);
  return shmt__copy_(self, value, false);
}

shmt_status shmt__fill_scalar(shmt_tensor* self, shmt_scalar value, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &result));
  SHMT_TRY(shmt__tensor_fill(result, value));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__fill_tensor(shmt_tensor* self, shmt_tensor* value, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &result));
  SHMT_TRY(shmt__fill_tensor_(result, value));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__zero_(shmt_tensor* self) { return shmt__tensor_fill(self, shmt__scalar_int(0)); }

/* --- to ------------------------------------------------------------------------- */

shmt_status shmt__to_copy(shmt_tensor* self, shmt_dtype dtype, shmt_layout layout,
                          shmt_device device, shmt_opt_bool pin_memory, bool non_blocking,
                          shmt_memory_format format, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  (void)non_blocking;
  if (dtype == SHMT_DTYPE_NONE) dtype = self->dtype;
  if (device == SHMT_DEVICE_NONE) device = self->device;
  SHMT_TRY(shmt__empty_like(self, dtype, layout, device, pin_memory, format, &result));
  if (device != SHMT_META) {
    SHMT_TRY(warn_of_lost_parts(self, dtype));
    SHMT_TRY(shmt__tensor_copy(result, self));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__to_options(shmt_tensor* self, shmt_dtype dtype, shmt_layout layout,
                             shmt_device device, shmt_opt_bool pin_memory, bool non_blocking,
                             bool copy, shmt_memory_format format, shmt_tensor** out) {
  if (!copy && (dtype == SHMT_DTYPE_NONE || dtype == self->dtype) &&
      (device == SHMT_DEVICE_NONE || device == self->device) &&
      (format == SHMT_MEMORY_FORMAT_NONE || format == SHMT_PRESERVE_FORMAT ||
       shmt__tensor_suggest_format(self) == format)) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  return shmt_op__to_copy(self, dtype, layout, device, pin_memory, non_blocking, format, out);
}

shmt_status shmt__to_device(shmt_tensor* self, shmt_device device, shmt_dtype dtype,
                            bool non_blocking, bool copy, shmt_memory_format format,
                            shmt_tensor** out) {
  return shmt__to_options(self, dtype, SHMT_LAYOUT_NONE, device, (shmt_opt_bool){0}, non_blocking,
                          copy, format, out);
}

shmt_status shmt__to_dtype(shmt_tensor* self, shmt_dtype dtype, bool non_blocking, bool copy,
                           shmt_memory_format format, shmt_tensor** out) {
  return shmt__to_device(self, SHMT_DEVICE_NONE, dtype, non_blocking, copy, format, out);
}

shmt_status shmt__to_other(shmt_tensor* self, shmt_tensor* other, bool non_blocking, bool copy,
                           shmt_memory_format format, shmt_tensor** out) {
  return shmt__to_device(self, other->device, other->dtype, non_blocking, copy, format, out);
}

shmt_status shmt__type_as(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  return shmt__to_other(self, other, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}
