/* ops/embedding/embedding.c -- embedding (rows of a table by index), its gradient, and one_hot. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "dispatch/registry.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/operator_loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "storage/allocator.h"
#include "tensor/batched.h"

#include <inttypes.h>
#include <string.h>

static shmt_status check_indices(const shmt_tensor* indices) {
  SHMT_REQUIRE(
      indices->dtype == SHMT_INT64 || indices->dtype == SHMT_INT32, SHMT_E_RUNTIME,
      "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
      "torch.%sTensor instead (while checking arguments for embedding)",
      shmt__dtype_title(indices->dtype));
  return SHMT_OK;
}

shmt_status shmt__embedding(shmt_tensor* weight, shmt_tensor* indices, int64_t padding_idx, bool scale_grad_by_freq,
                            bool sparse, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) rows = NULL;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  const int n = indices->n_dims;

  (void)padding_idx;
  (void)scale_grad_by_freq;
  (void)sparse; /* says what the gradient is */
  SHMT_REQUIRE(weight->n_dims == 2, SHMT_E_RUNTIME, "'weight' must be 2-D");
  SHMT_TRY(check_indices(indices));
  SHMT_REQUIRE(n < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "embedding(): more than %d dimensions", SHMT_MAX_DIMS);
  memcpy(sizes, indices->sizes, (size_t)n * sizeof *sizes);
  sizes[n] = weight->sizes[1];
  if (shmt__tensor_is_meta(weight) || shmt__tensor_is_meta(indices))
    return shmt__tensor_empty((shmt_ints){sizes, n + 1}, weight->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt__tensor_contiguous(indices, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt__tensor_alias(dense, SHMT_INTS(dense->numel), SHMT_INTS(1), dense->offset, &flat));
  SHMT_TRY(shmt__index_select(weight, 0, flat, &rows));
  shmt__contiguous_strides((shmt_ints){sizes, n + 1}, SHMT_CONTIGUOUS_FORMAT, strides);
  SHMT_TRY(shmt__tensor_set_geometry(rows, (shmt_ints){sizes, n + 1}, (shmt_ints){strides, n + 1}, 0));
  *out = SHMT_TAKE(rows);
  return SHMT_OK;
}

/* Counts the occurrences of every index, for scaling. */
static shmt_status count_indices(const int64_t* index, int64_t n, int64_t n_rows, int64_t** out) {
  void* memory = NULL;
  uint64_t nbytes;

  SHMT_REQUIRE(shmt__mul_u64((uint64_t)n_rows, sizeof **out, &nbytes), SHMT_E_NOMEM,
               "counters of %" PRId64 " rows are too many", n_rows);
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  memset(memory, 0, nbytes);
  *out = memory;
  for (int64_t i = 0; i < n; i++)
    if (index[i] >= 0 && index[i] < n_rows) (*out)[index[i]]++;
  return SHMT_OK;
}

shmt_status shmt__embedding_dense_backward(shmt_tensor* grad_output, shmt_tensor* indices, int64_t num_weights,
                                           int64_t padding_idx, bool scale_grad_by_freq, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  SHMT_AUTO(shmt_tensor) grad = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t* counts = NULL;
  const int64_t width = grad_output->n_dims ? grad_output->sizes[grad_output->n_dims - 1] : 1;
  int64_t numel;
  const shmt_dtype dtype = grad_output->dtype;
  const int64_t item = shmt__dtype_size[dtype], strides[3] = {item, item, item};

  SHMT_TRY(check_indices(indices));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_add, dtype, "embedding_dense_backward");
  SHMT_REQUIRE(shmt__mul_i64(indices->numel, width, &numel) && grad_output->numel == numel, SHMT_E_RUNTIME,
               "embedding_dense_backward(): a gradient of size %s does not fit indices of size %s",
               SHMT_SHAPE_TEXT(grad_output), SHMT_SHAPE_TEXT(indices));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(num_weights, width), dtype,
                              shmt__tensor_is_meta(indices) ? SHMT_META : grad_output->device, SHMT_CONTIGUOUS_FORMAT,
                              &result));
  if (!shmt__tensor_is_meta(result)) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    SHMT_TRY(shmt__tensor_cast(indices, SHMT_INT64, &wide));
    SHMT_TRY(shmt__tensor_contiguous(wide, SHMT_CONTIGUOUS_FORMAT, &where));
    SHMT_TRY(shmt__tensor_contiguous(grad_output, SHMT_CONTIGUOUS_FORMAT, &grad));
    const int64_t* index = shmt__tensor_data(where);
    if (scale_grad_by_freq) SHMT_TRY(count_indices(index, where->numel, num_weights, &counts));
    const shmt__loop add = shmt__loops[SHMT_LOOP_add][dtype];
    for (int64_t i = 0; i < where->numel && width > 0; i++) {
      if (index[i] == padding_idx || (uint64_t)index[i] >= (uint64_t)num_weights) continue;
      char* row = (char*)shmt__tensor_data(result) + index[i] * width * item;
      char* data[3] = {row, row, (char*)shmt__tensor_data(grad) + i * width * item};
      const shmt_scalar alpha = counts ? shmt__scalar_float(1 / (double)counts[index[i]]) : shmt__scalar_int(1);
      add(data, strides, width, &alpha);
    }
    if (counts) shmt__dealloc(counts, (uint64_t)num_weights * sizeof *counts);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- sparse gradients -------------------------------------------------------------------------- */

shmt_status shmt__sparse_rows(shmt_tensor* rows, shmt_tensor* index, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(rows->n_dims >= 1 && index->n_dims == 1, SHMT_E_RUNTIME,
               "_sparse_rows: rows of shape %s at indices of shape %s", SHMT_SHAPE_TEXT(rows), SHMT_SHAPE_TEXT(index));
  SHMT_TRY(shmt_op_to_dtype(index, SHMT_INT64, false, false, SHMT_MEMORY_FORMAT_NONE, &wide));
  SHMT_TRY(shmt_op_unsqueeze(wide, 0, &indices));
  memcpy(sizes, rows->sizes, (size_t)rows->n_dims * sizeof *sizes);
  sizes[0] = n;
  return shmt_op__sparse_coo_tensor_with_dims_and_tensors(1, rows->n_dims - 1, (shmt_ints){sizes, rows->n_dims},
                                                          indices, rows, (shmt_opt_bool){false, true}, out);
}

shmt_status shmt__embedding_sparse_backward(shmt_tensor* grad_output, shmt_tensor* indices, int64_t num_weights,
                                            int64_t padding_idx, bool scale_grad_by_freq, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) is_kept = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) kept_index = NULL;
  SHMT_AUTO(shmt_tensor) kept_rows = NULL;
  const int64_t width = grad_output->n_dims ? grad_output->sizes[grad_output->n_dims - 1] : 1;

  SHMT_REQUIRE(!scale_grad_by_freq, SHMT_E_RUNTIME,
               "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
  SHMT_TRY(check_indices(indices));
  SHMT_TRY(shmt_op_reshape(indices, SHMT_INTS(indices->numel), &flat));
  SHMT_TRY(shmt_op_reshape(grad_output, SHMT_INTS(indices->numel, width), &rows));
  if (padding_idx < 0) return shmt_op__sparse_rows(rows, flat, num_weights, out);
  SHMT_TRY(shmt_op_ne_Scalar(flat, shmt__scalar_int(padding_idx), &is_kept));
  SHMT_TRY(shmt_op_nonzero(is_kept, &found));
  SHMT_TRY(shmt_op_reshape(found, SHMT_INTS(found->numel), &positions));
  SHMT_TRY(shmt_op_index_select(flat, 0, positions, &kept_index));
  SHMT_TRY(shmt_op_index_select(rows, 0, positions, &kept_rows));
  return shmt_op__sparse_rows(kept_rows, kept_index, num_weights, out);
}

/* --- one_hot ---------------------------------------------------------------------------------- */

/* The number of classes that self's indices need, or the given one after a check. */
static shmt_status count_classes(shmt_tensor* self, int64_t* n_classes) {
  SHMT_AUTO(shmt_tensor) lowest = NULL;
  SHMT_AUTO(shmt_tensor) highest = NULL;
  shmt_scalar least, most;

  if (self->numel == 0) {
    SHMT_REQUIRE(*n_classes > 0, SHMT_E_RUNTIME, "Can not infer total number of classes from empty tensor.");
    return SHMT_OK;
  }
  SHMT_REQUIRE(*n_classes != -1 || !shmt__batched_of(self), SHMT_E_RUNTIME,
               "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument.");
  SHMT_TRY(shmt_op_aminmax(shmt__all_examples(self), (shmt_opt_int){0}, false, &lowest, &highest));
  SHMT_TRY(shmt__tensor_item(shmt__all_examples(lowest), &least));
  SHMT_TRY(shmt__tensor_item(shmt__all_examples(highest), &most));
  const int64_t first = shmt__scalar_to_int64(least), last = shmt__scalar_to_int64(most);
  SHMT_REQUIRE(first >= 0, SHMT_E_RUNTIME, "Class values must be non-negative, but got %" PRId64 ".", first);
  if (*n_classes == -1) {
    SHMT_REQUIRE(last < INT64_MAX, SHMT_E_RUNTIME, "one_hot(): class %" PRId64 " is too large", last);
    *n_classes = last + 1;
  }
  SHMT_REQUIRE(last < *n_classes, SHMT_E_RUNTIME,
               "Class values must be smaller than num_classes, but got %" PRId64 " of %" PRId64 ".", last, *n_classes);
  return SHMT_OK;
}

/* Makes zeros of the sizes with a one at each of the classes, which are in range. */
static shmt_status set_ones(shmt_tensor* classes, const int64_t* sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) rows = NULL;

  SHMT_TRY(shmt__tensor_contiguous(classes, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt__tensor_zeros((shmt_ints){sizes, classes->n_dims + 1}, SHMT_INT64, SHMT_CPU, &rows));
  const int64_t width = sizes[classes->n_dims], *index = shmt__tensor_data(dense);
  int64_t* row = shmt__tensor_data(rows);
  for (int64_t i = 0; i < dense->numel; i++, row += width) {
    const int64_t at = index[i]; /* another process may have changed it since the check */
    if (at >= 0 && at < width) row[at] = 1;
  }
  *out = SHMT_TAKE(rows);
  return SHMT_OK;
}

shmt_status shmt__one_hot(shmt_tensor* self, int64_t num_classes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) index = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(self->dtype == SHMT_INT64, SHMT_E_RUNTIME,
               "one_hot is only applicable to index tensor of type LongTensor, but got %s",
               shmt__dtype_title(self->dtype));
  SHMT_REQUIRE(self->n_dims < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "one_hot(): more than %d dimensions", SHMT_MAX_DIMS);
  if (!shmt__tensor_is_meta(self)) SHMT_TRY(count_classes(self, &num_classes));
  SHMT_REQUIRE(num_classes >= 0, SHMT_E_RUNTIME, "one_hot(): num_classes of a meta tensor must be given");
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  sizes[self->n_dims] = num_classes;
  if (!shmt__tensor_is_meta(self) && shmt__is_unobserved_call(shmt__tensor_own_keys(self)))
    return set_ones(self, sizes, out);
  SHMT_TRY(shmt_op_new_zeros(self, (shmt_ints){sizes, self->n_dims + 1}, SHMT_INT64, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE,
                             (shmt_opt_bool){0}, &rows));
  SHMT_TRY(shmt_op_unsqueeze(self, -1, &index));
  SHMT_TRY(shmt_op_scatter__value(rows, -1, index, shmt__scalar_int(1)));
  *out = SHMT_TAKE(rows);
  return SHMT_OK;
}
