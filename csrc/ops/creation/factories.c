/* ops/creation/factories.c -- tensors from sizes: empty, full, zeros, ones and their _like and new_ forms. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "ops/creation/uninitialized.h"
#include "ops/sparse/sparse.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/outputs.h"

#include <inttypes.h>

/* From this size on zeros are fresh pages, which the kernel zeroes. Below, filling recycled memory is faster. */
enum { FRESH_PAGES_BYTES = 1 << 24 };

static shmt_dtype dtype_or(shmt_dtype dtype, shmt_dtype otherwise) {
  return dtype == SHMT_DTYPE_NONE ? otherwise : dtype;
}

static shmt_device device_or(shmt_device device, shmt_device otherwise) {
  return device == SHMT_DEVICE_NONE ? otherwise : device;
}

static shmt_status check_sizes(const char* name, shmt_ints sizes) {
  for (int64_t d = 0; d < sizes.len; d++)
    SHMT_REQUIRE(sizes.data[d] >= 0, SHMT_E_RUNTIME, "%s: Dimension size must be non-negative.", name);
  return SHMT_OK;
}

/* Makes a new tensor, or resizes the preset one, whose dtype and device are used when none is asked for. */
static shmt_status make_result(const char* name, shmt_ints size, shmt_dtype dtype, shmt_device device,
                               shmt_memory_format format, shmt_tensor** out) {
  SHMT_TRY(check_sizes(name, size));
  if (!*out)
    return shmt__tensor_empty(size, dtype_or(dtype, shmt__default_dtype()), device_or(device, SHMT_CPU),
                              format < 0 ? SHMT_CONTIGUOUS_FORMAT : format, out);
  return shmt__prepare_factory_out(*out, size);
}

/* A sparse tensor without entries. */
static shmt_status make_sparse(shmt_layout layout, shmt_ints size, shmt_dtype dtype, shmt_device device,
                               shmt_tensor** out) {
  SHMT_REQUIRE(device != SHMT_META, SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  SHMT_REQUIRE(!*out, SHMT_E_RUNTIME, "a strided tensor cannot be the out= of one of layout %s",
               shmt__layout_name(layout));
  return shmt__sparse_empty(layout, size, (int)size.len, dtype_or(dtype, shmt__default_dtype()), out);
}

shmt_status shmt__empty(shmt_ints size, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                        shmt_opt_bool pin_memory, shmt_memory_format memory_format, shmt_tensor** out) {
  (void)pin_memory;
  if (SHMT_UNLIKELY(layout > SHMT_STRIDED)) return make_sparse(layout, size, dtype, device, out);
  for (int64_t d = 0; d < size.len; d++)
    SHMT_REQUIRE(size.data[d] >= 0, SHMT_E_RUNTIME,
                 "Trying to create tensor with negative dimension %" PRId64 ": %s", size.data[d],
                 shmt__ints_text(size, (char[256]){0}, 256));
  SHMT_REQUIRE(memory_format != SHMT_PRESERVE_FORMAT, SHMT_E_RUNTIME,
               "Passing memory_format=torch.preserve_format to empty is not supported: there is no tensor to take "
               "the strides of");
  SHMT_TRY(make_result("empty", size, dtype, device, memory_format, out));
  return shmt__fill_uninitialized(*out);
}

shmt_status shmt__empty_strided(shmt_ints size, shmt_ints stride, shmt_dtype dtype, shmt_layout layout,
                                shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  SHMT_REQUIRE(size.len == stride.len, SHMT_E_RUNTIME,
               "dimensionality of sizes (%" PRId64 ") must match dimensionality of strides (%" PRId64 ")", size.len,
               stride.len);
  SHMT_TRY(check_sizes("empty_strided", size));
  for (int64_t d = 0; d < stride.len; d++)
    SHMT_REQUIRE(stride.data[d] >= 0, SHMT_E_RUNTIME,
                 "as_strided: Negative strides are not supported at the moment, got strides: %s",
                 shmt__ints_text(stride, (char[256]){0}, 256));
  SHMT_TRY(shmt__tensor_empty_strided(size, stride, dtype_or(dtype, shmt__default_dtype()),
                                      device_or(device, SHMT_CPU), out));
  return shmt__fill_uninitialized(*out);
}

static shmt_status fill_tensor(shmt_tensor* t, shmt_scalar value) {
  if (shmt__tensor_is_meta(t)) return SHMT_OK;
  return shmt__tensor_fill(t, value);
}

/* make(), then fill. A new tensor that cannot be filled is released. */
static shmt_status make_filled(const char* name, shmt_ints size, shmt_dtype dtype, shmt_device device,
                               shmt_scalar value, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;

  if (*out) {
    SHMT_TRY(make_result(name, size, dtype, device, SHMT_CONTIGUOUS_FORMAT, out));
    return fill_tensor(*out, value);
  }
  SHMT_TRY(make_result(name, size, dtype, device, SHMT_CONTIGUOUS_FORMAT, &made));
  SHMT_TRY(fill_tensor(made, value));
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}

shmt_status shmt__full(shmt_ints size, shmt_scalar fill_value, shmt_dtype dtype, shmt_layout layout,
                       shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  if (dtype == SHMT_DTYPE_NONE && !*out) {
    dtype = shmt__scalar_dtype(fill_value);
    /* In torch this does not make complex32. */
    if (dtype == SHMT_COMPLEX32) dtype = SHMT_COMPLEX64;
    if (dtype == SHMT_UINT64) dtype = SHMT_INT64;
  }
  return make_filled("full", size, dtype, device, fill_value, out);
}

shmt_status shmt__zeros(shmt_ints size, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                        shmt_opt_bool pin_memory, shmt_tensor** out) {
  SHMT_AUTO(shmt_storage) storage = NULL;
  int64_t numel = 1, nbytes;

  (void)pin_memory;
  if (SHMT_UNLIKELY(layout > SHMT_STRIDED)) return make_sparse(layout, size, dtype, device, out);
  /* A large result takes fresh pages, which the kernel zeroes, and does not touch them. */
  if (!*out && device != SHMT_META) {
    SHMT_TRY(check_sizes("zeros", size));
    dtype = dtype_or(dtype, shmt__default_dtype());
    bool fits = size.len <= SHMT_MAX_DIMS;
    for (int64_t d = 0; fits && d < size.len; d++) fits = shmt__mul_i64(numel, size.data[d], &numel);
    fits = fits && shmt__mul_i64(numel, shmt__dtype_size[dtype], &nbytes);
    if (fits && nbytes >= FRESH_PAGES_BYTES) {
      int64_t strides[SHMT_MAX_DIMS];
      SHMT_TRY(shmt__storage_create_zeroed((uint64_t)nbytes, &storage));
      shmt__contiguous_strides(size, SHMT_CONTIGUOUS_FORMAT, strides);
      return shmt__tensor_from_storage(storage, size, (shmt_ints){strides, size.len}, 0, dtype, out);
    }
  }
  return make_filled("zeros", size, dtype, device, shmt__scalar_int(0), out);
}

shmt_status shmt__ones(shmt_ints size, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                       shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return make_filled("ones", size, dtype, device, shmt__scalar_int(1), out);
}

shmt_status shmt__scalar_tensor(shmt_scalar s, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                                shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return make_filled("scalar_tensor", SHMT_INTS_EMPTY, dtype, device, s, out);
}

/* --- like another tensor --------------------------------------------------------- */

static shmt_status make_like(shmt_tensor* self, shmt_dtype dtype, shmt_device device, shmt_memory_format memory_format,
                             shmt_tensor** out) {
  if (memory_format != SHMT_MEMORY_FORMAT_NONE && memory_format != SHMT_PRESERVE_FORMAT)
    return shmt__tensor_empty(shmt__tensor_sizes(self), dtype, device, memory_format, out);
  if (device == self->device) return shmt__tensor_empty_like(self, dtype, out);
  int64_t strides[SHMT_MAX_DIMS];
  shmt_ints kept = shmt__tensor_strides(self);
  if (!(self->flags & SHMT_TENSOR_DENSE)) {
    shmt__dense_strides_like(shmt__tensor_sizes(self), kept, strides);
    kept = (shmt_ints){strides, kept.len};
  }
  return shmt__tensor_empty_strided(shmt__tensor_sizes(self), kept, dtype, device, out);
}

shmt_status shmt__empty_like(shmt_tensor* self, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                             shmt_opt_bool pin_memory, shmt_memory_format memory_format, shmt_tensor** out) {
  (void)pin_memory;
  dtype = dtype_or(dtype, self->dtype);
  device = device_or(device, self->device);
  if (SHMT_UNLIKELY(layout > SHMT_STRIDED)) return make_sparse(layout, shmt__tensor_sizes(self), dtype, device, out);
  SHMT_TRY(make_like(self, dtype, device, memory_format, out));
  return shmt__fill_uninitialized(*out);
}

static shmt_status like_filled(shmt_tensor* self, shmt_dtype dtype, shmt_device device, shmt_memory_format format,
                               shmt_scalar value, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;

  SHMT_TRY(shmt__empty_like(self, dtype, SHMT_LAYOUT_NONE, device, (shmt_opt_bool){0}, format, &made));
  SHMT_TRY(fill_tensor(made, value));
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}

shmt_status shmt__zeros_like(shmt_tensor* self, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                             shmt_opt_bool pin_memory, shmt_memory_format memory_format, shmt_tensor** out) {
  (void)pin_memory;
  if (SHMT_UNLIKELY(layout > SHMT_STRIDED))
    return make_sparse(layout, shmt__tensor_sizes(self), dtype_or(dtype, self->dtype), device_or(device, self->device),
                       out);
  return like_filled(self, dtype, device, memory_format, shmt__scalar_int(0), out);
}

shmt_status shmt__ones_like(shmt_tensor* self, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                            shmt_opt_bool pin_memory, shmt_memory_format memory_format, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return like_filled(self, dtype, device, memory_format, shmt__scalar_int(1), out);
}

shmt_status shmt__full_like(shmt_tensor* self, shmt_scalar fill_value, shmt_dtype dtype, shmt_layout layout,
                            shmt_device device, shmt_opt_bool pin_memory, shmt_memory_format memory_format,
                            shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return like_filled(self, dtype, device, memory_format, fill_value, out);
}

/* --- new_ forms -------------------------------------------------------------------- */

static shmt_status new_filled(const char* name, shmt_tensor* self, shmt_ints size, shmt_dtype dtype,
                              shmt_device device, shmt_scalar value, shmt_tensor** out) {
  return make_filled(name, size, dtype_or(dtype, self->dtype), device_or(device, self->device), value, out);
}

shmt_status shmt__new_empty(shmt_tensor* self, shmt_ints size, shmt_dtype dtype, shmt_layout layout,
                            shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  return shmt__empty(size, dtype_or(dtype, self->dtype), layout, device_or(device, self->device), pin_memory,
                     SHMT_MEMORY_FORMAT_NONE, out);
}

shmt_status shmt__empty_permuted(shmt_ints size, shmt_ints physical_layout, shmt_dtype dtype, shmt_layout layout,
                                 shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  int64_t strides[SHMT_MAX_DIMS], step = 1;
  uint64_t seen = 0;

  SHMT_REQUIRE(
      size.len == physical_layout.len, SHMT_E_RUNTIME,
      "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = %" PRId64
      " is not equal to len(physical_layout) = %" PRId64,
      size.len, physical_layout.len);
  SHMT_REQUIRE(size.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "empty_permuted(): more than %d dimensions", SHMT_MAX_DIMS);
  for (int64_t i = size.len - 1; i >= 0; i--) {
    const int64_t d = physical_layout.data[i];
    SHMT_REQUIRE(d >= 0 && d < size.len, SHMT_E_RUNTIME,
                 "Dimension out of range (expected to be between 0 and %" PRId64 ", but got %" PRId64
                 " at index %" PRId64 ").  NB: negative dims not currently supported",
                 size.len - 1, d, i);
    SHMT_REQUIRE(!(seen >> d & 1), SHMT_E_RUNTIME, "Duplicate dim not allowed");
    seen |= (uint64_t)1 << d;
    strides[d] = step;
    SHMT_REQUIRE(size.data[d] >= 0 && !__builtin_mul_overflow(step, size.data[d] > 0 ? size.data[d] : 1, &step),
                 SHMT_E_RUNTIME, "empty_permuted(): size %" PRId64 " of dimension %" PRId64 " is out of range",
                 size.data[d], d);
  }
  return shmt__empty_strided(size, (shmt_ints){strides, size.len}, dtype, layout, device, pin_memory, out);
}

shmt_status shmt__new_empty_strided(shmt_tensor* self, shmt_ints size, shmt_ints stride, shmt_dtype dtype,
                                    shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory,
                                    shmt_tensor** out) {
  return shmt__empty_strided(size, stride, dtype_or(dtype, self->dtype), layout, device_or(device, self->device),
                             pin_memory, out);
}

shmt_status shmt__new_full(shmt_tensor* self, shmt_ints size, shmt_scalar fill_value, shmt_dtype dtype,
                           shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return new_filled("new_full", self, size, dtype, device, fill_value, out);
}

shmt_status shmt__new_zeros(shmt_tensor* self, shmt_ints size, shmt_dtype dtype, shmt_layout layout,
                            shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  return shmt__zeros(size, dtype_or(dtype, self->dtype), layout, device_or(device, self->device), pin_memory, out);
}

shmt_status shmt__new_ones(shmt_tensor* self, shmt_ints size, shmt_dtype dtype, shmt_layout layout,
                           shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return new_filled("new_ones", self, size, dtype, device, shmt__scalar_int(1), out);
}
