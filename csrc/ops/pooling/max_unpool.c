/* ops/pooling/max_unpool.c -- max_unpool: puts the maxima of pooling windows back where they were. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/indexing/index_iterator.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static shmt_status check_unpool(int n, const shmt_tensor* self, const shmt_tensor* indices, shmt_ints output_size) {
  static const char* const counts[] = {"two elements (height, width)", "three elements (depth, height, width)"};

  SHMT_REQUIRE(output_size.len == n, SHMT_E_RUNTIME,
               "There should be exactly %s in output_size, but got %" PRId64 " elements.", counts[n - 2],
               output_size.len);
  SHMT_REQUIRE(indices->dtype == SHMT_INT64, SHMT_E_RUNTIME, "elements in indices should be type int64 but got: %s",
               shmt__dtype_title(indices->dtype));
  SHMT_REQUIRE(self->n_dims == n + 1 || self->n_dims == n + 2, SHMT_E_RUNTIME,
               "Input to max_unpooling%dd should be a %dd or %dd Tensor, but got a tensor with %d dimensions.", n,
               n + 1, n + 2, self->n_dims);
  for (int d = 0; d < n; d++)
    SHMT_REQUIRE(output_size.data[d] >= 0, SHMT_E_RUNTIME,
                 "max_unpooling%dd(): output_size must contain non-negative spatial dimensions, but got output_size=%s",
                 n, shmt__ints_text(output_size, (char[256]){0}, 256));
  SHMT_REQUIRE(
      shmt__sizes_are(indices, shmt__tensor_sizes(self)), SHMT_E_RUNTIME,
      "Expected shape of indices to be same as that of the input tensor (%s) but got indices tensor with shape: %s",
      SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(indices));
  for (int d = 1; d < self->n_dims; d++)
    SHMT_REQUIRE(
        self->sizes[d] > 0, SHMT_E_RUNTIME,
        "max_unpooling%dd_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions, but "
        "got %s with dimension %d being empty.",
        n, SHMT_SHAPE_TEXT(self), d);
  SHMT_REFUSE_DTYPE(!shmt__is_floating(self->dtype), self->dtype, n == 2 ? "max_unpool2d" : "max_unpool3d");
  return SHMT_OK;
}

/* Does a walk in memory order visit the elements of a plane in index order? Where several have one index, the last one
 * counts. */
static bool is_in_order(int n, const shmt_tensor* self) {
  int64_t before = INT64_MAX;

  for (int d = self->n_dims - n; d < self->n_dims; d++) {
    if (self->sizes[d] == 1) continue;
    if (self->strides[d] <= 0 || self->strides[d] >= before) return false;
    before = self->strides[d];
  }
  return true;
}

/* Scatter into planes of zeros. Such a plane is dense, with one step between its elements: that of the last dim. */
static shmt_status put_planes(int n, shmt_tensor* self, shmt_tensor* indices, shmt_ints plane, shmt_tensor* to) {
  const int outer = self->n_dims - n;
  shmt__bad_index bad = {0};
  shmt__index_args shape = {
      .stride = to->strides[self->n_dims - 1] * shmt__tensor_item_bytes(to), .size = 1, .bad = &bad};
  SHMT_AUTO(shmt_tensor) planes = NULL;
  SHMT_AUTO(shmt_tensor) from = NULL;
  int64_t strides[SHMT_MAX_DIMS] = {0};
  char text[256] = {0};

  for (int d = 0; d < n; d++) shape.size *= plane.data[d];
  memcpy(strides, to->strides, (size_t)outer * sizeof *strides);
  SHMT_TRY(shmt__restride(to, shmt__tensor_sizes(self), strides, &planes));
  if (is_in_order(n, self))
    from = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &from));
  SHMT_TRY(shmt__indexed_walk("max_unpool", planes, from, indices, &shape,
                              shmt__move_loop(SHMT_LOOP_scatter, self->dtype), to));
  for (size_t d = 0, used = 0; bad.found && d < (size_t)n; d++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, d ? "x" : "", plane.data[d]);
  SHMT_REQUIRE(!bad.found, SHMT_E_RUNTIME, "Found an invalid max index: %" PRId64 " (output volumes are of size %s)",
               bad.value, text);
  return SHMT_OK;
}

static shmt_status unpool(int n, shmt_tensor* self, shmt_tensor* indices, shmt_ints output_size, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_TRY(check_unpool(n, self, indices, output_size));
  const int outer = self->n_dims - n;
  memcpy(sizes, self->sizes, (size_t)outer * sizeof *sizes);
  memcpy(sizes + outer, output_size.data, (size_t)n * sizeof *sizes);
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, self->n_dims}, self->dtype, shmt__common_device(self, indices, NULL),
                              n == 2 ? shmt__tensor_suggest_format(self) : SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(result) && result->numel > 0) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    SHMT_TRY(put_planes(n, self, indices, output_size, result));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__max_unpool2d(shmt_tensor* self, shmt_tensor* indices, shmt_ints output_size, shmt_tensor** out) {
  return unpool(2, self, indices, output_size, out);
}

shmt_status shmt__max_unpool3d(shmt_tensor* self, shmt_tensor* indices, shmt_ints output_size, shmt_ints stride,
                               shmt_ints padding, shmt_tensor** out) {
  SHMT_REQUIRE(stride.len == 3, SHMT_E_RUNTIME,
               "There should be exactly three elements (depth, height, width) in stride, but got: %" PRId64
               " elements.",
               stride.len);
  SHMT_REQUIRE(padding.len == 3, SHMT_E_RUNTIME,
               "There should be exactly three elements (depth, height, width) in padding, but got: %" PRId64
               " elements.",
               padding.len);
  for (int d = 0; d < 3; d++)
    SHMT_REQUIRE(stride.data[d] > 0, SHMT_E_RUNTIME, "strides should be greater than zero, but got stride: %s",
                 shmt__ints_text(stride, (char[256]){0}, 256));
  return unpool(3, self, indices, output_size, out);
}
