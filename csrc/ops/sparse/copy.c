/* ops/sparse/copy.c -- empty, zeros, clone, copy_, zero_, casts and resizing of sparse tensors. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/sparse/sparse.h"

#include <inttypes.h>
#include <string.h>

static shmt_status check_device(shmt_device device) {
  SHMT_REQUIRE(device != SHMT_META, SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  return SHMT_OK;
}

/* --- tensors without entries ---------------------------------------------------------------------- */

shmt_status shmt__sparse_zeros_like(shmt_tensor* self, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                                    shmt_opt_bool pin_memory, shmt_memory_format format, shmt_tensor** out) {
  (void)pin_memory;
  SHMT_TRY(check_device(device));
  if (dtype == SHMT_DTYPE_NONE) dtype = self->dtype;
  if (layout == SHMT_LAYOUT_NONE) layout = self->sparse->layout;
  if (layout == SHMT_STRIDED) return shmt__tensor_zeros(shmt__tensor_sizes(self), dtype, SHMT_CPU, out);
  SHMT_REQUIRE(format == SHMT_MEMORY_FORMAT_NONE || format == SHMT_PRESERVE_FORMAT, SHMT_E_RUNTIME,
               "memory format option is only supported by strided tensors");
  const int sparse_dim = layout == self->sparse->layout ? self->sparse->sparse_dim : self->n_dims;
  return shmt__sparse_empty(layout, shmt__tensor_sizes(self), sparse_dim, dtype, out);
}

shmt_status shmt__sparse_new_zeros(shmt_tensor* self, shmt_ints size, shmt_dtype dtype, shmt_layout layout,
                                   shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)pin_memory;
  SHMT_TRY(check_device(device));
  if (dtype == SHMT_DTYPE_NONE) dtype = self->dtype;
  if (layout == SHMT_LAYOUT_NONE) layout = self->sparse->layout;
  if (layout == SHMT_STRIDED) return shmt__tensor_zeros(size, dtype, SHMT_CPU, out);
  return shmt__sparse_empty(layout, size, (int)size.len, dtype, out);
}

shmt_status shmt__sparse_zero_(shmt_tensor* self) {
  SHMT_AUTO(shmt_tensor) nothing = NULL;
  SHMT_TRY(shmt__sparse_empty(self->sparse->layout, shmt__tensor_sizes(self), self->sparse->sparse_dim, self->dtype,
                              &nothing));
  return shmt__tensor_set_sparse(self, nothing->sparse, (shmt_ints){NULL, -1});
}

/* --- copies ---------------------------------------------------------------------------------------- */

shmt_status shmt__sparse_to_copy(shmt_tensor* self, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                                 shmt_opt_bool pin_memory, bool non_blocking, shmt_memory_format format,
                                 shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  (void)pin_memory;
  (void)non_blocking;
  SHMT_TRY(check_device(device));
  if (dtype == SHMT_DTYPE_NONE) dtype = self->dtype;
  SHMT_REQUIRE(
      layout == SHMT_LAYOUT_NONE || layout == self->sparse->layout, SHMT_E_RUNTIME,
      "to(options) doesn't support converting to a different layout, but got self.layout being %s and options.layout "
      "set as %s",
      shmt__layout_name(self->sparse->layout), shmt__layout_name(layout));
  SHMT_REQUIRE(format != SHMT_CONTIGUOUS_FORMAT, SHMT_E_RUNTIME, "unsupported memory format option Contiguous");
  SHMT_REQUIRE(format == SHMT_MEMORY_FORMAT_NONE || format == SHMT_PRESERVE_FORMAT, SHMT_E_RUNTIME,
               "memory format option is only supported by strided tensors");
  SHMT_TRY(shmt__sparse_check_memory(self->sparse));
  SHMT_TRY(
      shmt__tensor_empty(shmt__tensor_sizes(self->sparse->values), dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &values));
  SHMT_TRY(shmt__tensor_copy(values, self->sparse->values));
  return shmt__sparse_with_new_values(self, values, out);
}

shmt_status shmt__sparse_clone(shmt_tensor* self, shmt_memory_format format, shmt_tensor** out) {
  return shmt__sparse_to_copy(self, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, false,
                              format, out);
}

shmt_status shmt__sparse_copy_(shmt_tensor* self, shmt_tensor* src, bool non_blocking) {
  SHMT_AUTO(shmt_tensor) copy = NULL;
  if (self == src) return SHMT_OK;
  SHMT_REQUIRE(
      self->sparse && src->sparse, SHMT_E_RUNTIME,
      "copy_() between dense and sparse Tensors is not implemented! Found self layout = %s and src layout = %s",
      shmt__layout_name(shmt__tensor_layout(self)), shmt__layout_name(shmt__tensor_layout(src)));
  SHMT_REQUIRE(self->sparse->layout == src->sparse->layout, SHMT_E_RUNTIME,
               "copy_(): the layouts differ, %s and %s", shmt__layout_name(self->sparse->layout),
               shmt__layout_name(src->sparse->layout));
  SHMT_REQUIRE(shmt__same_sizes(self, src), SHMT_E_RUNTIME, "copy_(): the sizes differ, %s and %s",
               SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(src));
  SHMT_TRY(shmt__sparse_to_copy(src, self->dtype, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, non_blocking,
                                SHMT_MEMORY_FORMAT_NONE, &copy));
  return shmt__tensor_set_sparse(self, copy->sparse, (shmt_ints){NULL, -1});
}

/* --- resizing ----------------------------------------------------------------------------------------- */

static shmt_status check_dims(shmt_ints size, int64_t sparse_dim, int64_t dense_dim) {
  SHMT_REQUIRE(sparse_dim >= 0 && dense_dim >= 0 && size.len == sparse_dim + dense_dim && size.len < SHMT_MAX_DIMS,
               SHMT_E_RUNTIME,
               "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %" PRId64 ", sparse_dim = %" PRId64
               ", dense_dim = %" PRId64,
               size.len, sparse_dim, dense_dim);
  return SHMT_OK;
}

#define RESIZE_ADVICE                                                                                             \
  "A tensor of this size without entries is made by `torch.sparse_coo_tensor(size)`; `sparse_resize_and_clear_` " \
  "drops the entries."

shmt_status shmt__sparse_resize_and_clear_(shmt_tensor* self, shmt_ints size, int64_t sparse_dim, int64_t dense_dim) {
  SHMT_AUTO(shmt_tensor) nothing = NULL;
  SHMT_TRY(shmt__require_coo("sparse_resize_and_clear_", self));
  SHMT_TRY(check_dims(size, sparse_dim, dense_dim));
  SHMT_TRY(shmt__sparse_empty(SHMT_SPARSE_COO, size, (int)sparse_dim, self->dtype, &nothing));
  return shmt__tensor_set_sparse(self, nothing->sparse, size);
}

/* Values with larger dense dims: what is new is zero. */
static shmt_status grow_values(shmt_tensor* old, shmt_ints size, int64_t sparse_dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) grown = NULL;
  SHMT_AUTO(shmt_tensor) part = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  sizes[0] = old->sizes[0];
  for (int64_t d = 1; d < old->n_dims; d++) sizes[d] = size.data[sparse_dim + d - 1];
  SHMT_TRY(shmt__tensor_zeros((shmt_ints){sizes, old->n_dims}, old->dtype, SHMT_CPU, &grown));
  SHMT_TRY(shmt__tensor_alias(grown, shmt__tensor_sizes(old), shmt__tensor_strides(grown), 0, &part));
  SHMT_TRY(shmt__tensor_copy(part, old));
  *out = SHMT_TAKE(grown);
  return SHMT_OK;
}

shmt_status shmt__sparse_resize_(shmt_tensor* self, shmt_ints size, int64_t sparse_dim, int64_t dense_dim) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_TRY(shmt__require_coo("sparse_resize_", self));
  SHMT_TRY(check_dims(size, sparse_dim, dense_dim));
  const shmt_sparse* p = self->sparse;
  if (shmt__sparse_nnz(p) == 0) return shmt__sparse_resize_and_clear_(self, size, sparse_dim, dense_dim);
  SHMT_REQUIRE(sparse_dim == p->sparse_dim, SHMT_E_RUNTIME,
               "changing the number of sparse dimensions (from %d to %" PRId64
               ") on a non-empty sparse tensor is not supported.\n" RESIZE_ADVICE,
               (int)p->sparse_dim, sparse_dim);
  SHMT_REQUIRE(dense_dim == p->dense_dim, SHMT_E_RUNTIME,
               "changing the number of dense dimensions (from %d to %" PRId64
               ") on a non-empty sparse tensor is not supported.\n" RESIZE_ADVICE,
               (int)p->dense_dim, dense_dim);
  bool shrinks = false, grows_dense = false;
  for (int64_t d = 0; d < size.len; d++) {
    shrinks = shrinks || size.data[d] < self->sizes[d];
    grows_dense = grows_dense || (d >= sparse_dim && size.data[d] > self->sizes[d]);
  }
  SHMT_REQUIRE(!shrinks, SHMT_E_RUNTIME,
               "shrinking the size of sparse dimensions (from %s to %s) on a non-empty sparse tensor is not "
               "supported.\n" RESIZE_ADVICE,
               SHMT_SHAPE_TEXT(self), shmt__ints_text(size, (char[256]){0}, 256));
  SHMT_TRY(shmt__sparse_check_memory(p));
  shmt_sparse parts = *p;
  if (grows_dense) {
    int64_t numel;
    SHMT_TRY(shmt__checked_numel(size, &numel));
    SHMT_TRY(grow_values(p->values, size, sparse_dim, &values));
    parts.values = values;
  }
  return shmt__tensor_set_sparse(self, &parts, size);
}

shmt_status shmt__resize_as_sparse_(shmt_tensor* self, shmt_tensor* the_template) {
  SHMT_TRY(shmt__require_coo("resize_as_sparse_", self));
  SHMT_TRY(shmt__require_coo("resize_as_sparse_", the_template));
  if (shmt__same_sizes(self, the_template) && self->sparse->sparse_dim == the_template->sparse->sparse_dim)
    return SHMT_OK;
  return shmt__sparse_resize_(self, shmt__tensor_sizes(the_template), the_template->sparse->sparse_dim,
                              the_template->sparse->dense_dim);
}

/* resize_as_ where one of the two is sparse, or both. */
shmt_status shmt__sparse_resize_as(shmt_tensor* self, shmt_tensor* the_template, shmt_memory_format format) {
  static const char* const names[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};

  if (!shmt__is_coo(self) || !shmt__is_coo(the_template))
    return shmt_op_resize_(self, shmt__tensor_sizes(the_template), format);
  SHMT_REQUIRE(format == SHMT_MEMORY_FORMAT_NONE, SHMT_E_RUNTIME,
               "Unsupported memory format for sparse tensor resize_as_ :%s", names[format]);
  return shmt__resize_as_sparse_(self, the_template);
}
