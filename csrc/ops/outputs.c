/* ops/outputs.c -- prepares, resizes and writes back preset outputs (out= and in-place). */
#include "ops/outputs.h"

#include "base/warn.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/dtype_names.h"
#include "ops/sparse/sparse.h"

#include <string.h>

static shmt_status check_cast(shmt_dtype from, shmt_dtype to) {
  SHMT_REQUIRE(shmt__can_cast(from, to), SHMT_E_RUNTIME,
               "result type %s can't be cast to the desired output type %s", shmt__dtype_title(from),
               shmt__dtype_title(to));
  return SHMT_OK;
}

/* Resizes out, with torch's warning when it had elements. It gets the strides of `like`, which has these sizes and is
 * dense; when `like` is NULL or not dense, it becomes contiguous. */
static shmt_status resize_out(shmt_tensor* out, shmt_ints sizes, const shmt_tensor* like) {
  if (shmt__same_ints(shmt__tensor_sizes(out), sizes)) return SHMT_OK;
  if (out->numel != 0) {
    char want[256];
    SHMT_TRY(shmt__warn(
        "An output with one or more elements was resized since it had shape %s, which does not match the required "
        "output shape %s. This behavior is deprecated, and in a future PyTorch release outputs will not be resized "
        "unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
        "elements with t.resize_(0).",
        SHMT_SHAPE_TEXT(out), shmt__ints_text(sizes, want, sizeof want)));
  }
  if (!like || !(like->flags & SHMT_TENSOR_DENSE)) return shmt__tensor_resize(out, sizes, SHMT_CONTIGUOUS_FORMAT);
  return shmt__tensor_set_geometry(out, sizes, shmt__tensor_strides(like), out->offset);
}

/* Refuses an expanded out, where several elements share one memory location. */
static shmt_status check_no_repeats(const shmt_tensor* out) {
  for (int d = 0; d < out->n_dims; d++)
    SHMT_REQUIRE(out->strides[d] != 0 || out->sizes[d] <= 1 || out->numel == 0, SHMT_E_RUNTIME,
                 "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                 "location. Please clone() the tensor before performing the operation.");
  return SHMT_OK;
}

static shmt_status prepare_output(const char* name, shmt_tensor* out, shmt_ints sizes, const shmt_tensor* like,
                                  shmt_dtype dtype, shmt_device device) {
  SHMT_REQUIRE(out->device == device, SHMT_E_RUNTIME,
               "%s(): Expected out tensor to be on the device of the inputs, but it is on %s", name,
               shmt__device_name(out->device));
  SHMT_TRY(check_cast(dtype, out->dtype));
  SHMT_TRY(resize_out(out, sizes, like));
  return check_no_repeats(out);
}

shmt_status shmt__prepare_out(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                              shmt_device device) {
  if (!*out) return shmt__tensor_empty(sizes, dtype, device, SHMT_CONTIGUOUS_FORMAT, out);
  return prepare_output(name, *out, sizes, NULL, dtype, device);
}

shmt_status shmt__prepare_factory_out(shmt_tensor* out, shmt_ints sizes) {
  if (shmt__tensor_is_meta(out))
    SHMT_TRY(resize_out(out, sizes, NULL));
  else if (!shmt__same_ints(shmt__tensor_sizes(out), sizes))
    SHMT_TRY(shmt__tensor_resize(out, sizes, SHMT_CONTIGUOUS_FORMAT));
  return check_no_repeats(out);
}

shmt_status shmt__write_out(const char* name, shmt_tensor* result, shmt_tensor* out) {
  if (result == out) return SHMT_OK;
  if (SHMT_UNLIKELY(result->sparse != NULL || out->sparse != NULL)) return shmt__sparse_finish(name, result, &out);
  SHMT_TRY(prepare_output(name, out, shmt__tensor_sizes(result), result, result->dtype, result->device));
  return shmt__tensor_copy(out, result);
}

shmt_status shmt__write_dense_out(const char* name, shmt_tensor* result, shmt_tensor* out) {
  if (result == out) return SHMT_OK;
  if (SHMT_UNLIKELY(result->sparse != NULL || out->sparse != NULL)) return shmt__sparse_finish(name, result, &out);
  SHMT_TRY(shmt__prepare_out(name, &out, shmt__tensor_sizes(result), result->dtype, result->device));
  return shmt__tensor_copy(out, result);
}

shmt_status shmt__write_exact_out(const char* name, shmt_tensor* result, shmt_tensor* out) {
  SHMT_TRY(shmt__check_out_dtype(out, result->dtype));
  return shmt__write_out(name, result, out);
}

shmt_status shmt__write_real_out(const char* name, shmt_tensor* result, shmt_tensor* out) {
  SHMT_REQUIRE(shmt__is_floating(out->dtype), SHMT_E_RUNTIME, "%s expects a floating point output tensor, but got %s",
               name, shmt__dtype_title(out->dtype));
  return shmt__write_dense_out(name, result, out);
}

shmt_status shmt__write_inplace(const char* name, shmt_tensor* result, shmt_tensor* self) {
  if (result == self) return SHMT_OK;
  SHMT_TRY(check_cast(result->dtype, self->dtype));
  if (SHMT_UNLIKELY(result->sparse != NULL || self->sparse != NULL)) return shmt__sparse_finish(name, result, &self);
  SHMT_REQUIRE(shmt__same_sizes(self, result), SHMT_E_RUNTIME,
               "output with shape %s doesn't match the broadcast shape %s", SHMT_SHAPE_TEXT(self),
               SHMT_SHAPE_TEXT(result));
  return shmt__tensor_copy(self, result);
}

shmt_status shmt__before_inplace(shmt_keyset ks, shmt_tensor* self, shmt_tensor** out) {
  if ((ks & SHMT_KEYBIT_Autograd) && shmt__grad_enabled())
    return shmt_op_clone(self, SHMT_MEMORY_FORMAT_NONE, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

shmt_status shmt__output_begin(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                               shmt_device device, shmt_tensor** work) {
  if (*out) {
    SHMT_TRY(shmt__prepare_out(name, out, sizes, dtype, device));
    if ((*out)->dtype == dtype && shmt__tensor_is_contiguous(*out)) {
      *work = shmt__tensor_ref(*out);
      return SHMT_OK;
    }
  }
  return shmt__tensor_empty(sizes, dtype, device, SHMT_CONTIGUOUS_FORMAT, work);
}

shmt_status shmt__output_end(const char* name, shmt_tensor** work, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = SHMT_TAKE(*work);

  (void)name;
  if (!*out) {
    *out = SHMT_TAKE(result);
    return SHMT_OK;
  }
  if (*out == result) return SHMT_OK;
  return shmt__tensor_copy(*out, result);
}

/* The range of bytes from the first element to the end of the last; false when there are no elements. */
static bool byte_range(const shmt_tensor* t, const char** lo, const char** hi) {
  int64_t last = 0;

  if (t->numel == 0 || !shmt__tensor_data(t)) return false;
  for (int d = 0; d < t->n_dims; d++) last += (t->sizes[d] - 1) * t->strides[d];
  *lo = shmt__tensor_data(t);
  *hi = *lo + (last + 1) * shmt__tensor_item_bytes(t);
  return true;
}

bool shmt__may_overlap(const shmt_tensor* a, const shmt_tensor* b) {
  const char *a_lo, *a_hi, *b_lo, *b_hi;

  if (!byte_range(a, &a_lo, &a_hi) || !byte_range(b, &b_lo, &b_hi)) return false;
  return a_lo < b_hi && b_lo < a_hi;
}

shmt_status shmt__keep_input(const shmt_tensor* out, shmt_tensor** input, shmt_tensor** kept) {
  if (*input != out) return SHMT_OK;
  SHMT_TRY(
      shmt__tensor_alias(*input, shmt__tensor_sizes(*input), shmt__tensor_strides(*input), (*input)->offset, kept));
  *input = *kept;
  return SHMT_OK;
}

shmt_status shmt__check_no_overlap(const shmt_tensor* out, const shmt_tensor* input) {
  if (out) SHMT_TRY(check_no_repeats(out));
  SHMT_REQUIRE(!out || (out != input && !shmt__may_overlap(out, input)), SHMT_E_RUNTIME,
               "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
               "memory location. Please clone() the tensor before performing the operation.");
  return SHMT_OK;
}

static shmt_status check_no_overlaps(const shmt_tensor* out, const shmt_tensor* a, const shmt_tensor* b) {
  if (a) SHMT_TRY(shmt__check_no_overlap(out, a));
  return b ? shmt__check_no_overlap(out, b) : SHMT_OK;
}

shmt_status shmt__output_begin_no_overlap(const char* name, shmt_tensor** out, shmt_ints sizes, shmt_dtype dtype,
                                     shmt_device device, const shmt_tensor* a, const shmt_tensor* b,
                                     shmt_tensor** work) {
  SHMT_TRY(check_no_overlaps(*out, a, b));
  SHMT_TRY(shmt__output_begin(name, out, sizes, dtype, device, work));
  return check_no_overlaps(*out, a, b);
}

shmt_status shmt__check_out_dtype(const shmt_tensor* out, shmt_dtype dtype) {
  SHMT_REQUIRE(!out || out->dtype == dtype, SHMT_E_RUNTIME, "Expected out tensor to have dtype %s, but got %s instead",
               shmt__dtype_ctype(dtype), shmt__dtype_ctype(out->dtype));
  return SHMT_OK;
}

shmt_status shmt__check_factory_out(const shmt_tensor* out, shmt_dtype dtype, shmt_device device) {
  SHMT_REQUIRE(dtype == SHMT_DTYPE_NONE || dtype == out->dtype, SHMT_E_RUNTIME,
               "dtype %s does not match dtype of out parameter (%s)", shmt__dtype_title(dtype),
               shmt__dtype_title(out->dtype));
  SHMT_REQUIRE(device == SHMT_DEVICE_NONE || device == out->device, SHMT_E_RUNTIME,
               "device type %s does not match device type of out parameter (%s)", shmt__device_name(device),
               shmt__device_name(out->device));
  return SHMT_OK;
}
