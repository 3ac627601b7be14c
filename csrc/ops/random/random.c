/* ops/random/random.c -- what random operators share: parts of complex tensors, new tensors, limits of dtypes. */
#include "base/dtype.h"
#include "ops/outputs.h"
#include "ops/random/random.h"

#include <inttypes.h>

shmt_status shmt__real_parts(shmt_tensor* t, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS + 1], strides[SHMT_MAX_DIMS + 1];

  for (int d = 0; d < t->n_dims; d++) {
    sizes[d] = t->sizes[d];
    strides[d] = 2 * t->strides[d];
  }
  sizes[t->n_dims] = 2;
  strides[t->n_dims] = 1;
  SHMT_REQUIRE(t->n_dims < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "view_as_real(): more than %d dimensions", SHMT_MAX_DIMS);
  return shmt__tensor_from_storage(t->storage, (shmt_ints){sizes, t->n_dims + 1}, (shmt_ints){strides, t->n_dims + 1},
                                   2 * t->offset, shmt__to_real_dtype(t->dtype), out);
}

shmt_status shmt__make_random(shmt_ints size, shmt_dtype dtype, shmt_dtype default_dtype, shmt_device device,
                               shmt_tensor** out) {
  for (int64_t d = 0; d < size.len; d++)
    SHMT_REQUIRE(size.data[d] >= 0, SHMT_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s",
                 size.data[d], shmt__ints_text(size, (char[256]){0}, 256));
  if (*out) return shmt__prepare_factory_out(*out, size);
  return shmt__tensor_empty(size, dtype == SHMT_DTYPE_NONE ? default_dtype : dtype,
                            device == SHMT_DEVICE_NONE ? SHMT_CPU : device, SHMT_CONTIGUOUS_FORMAT, out);
}

int shmt__significand_bits(shmt_dtype dtype) {
  return dtype == SHMT_FLOAT64 ? 53 : dtype == SHMT_FLOAT32 ? 24 : dtype == SHMT_FLOAT16 ? 11 : 8;
}
