/* ops/sparse/make.c -- makes results: sparse tensors of given parts, empty ones, and out= and in-place results. */
#include "base/dtype.h"
#include "base/promote.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/dtype_names.h"
#include "ops/sparse/sparse.h"

#include <inttypes.h>

shmt_status shmt__require_coo(const char* name, const shmt_tensor* t) {
  SHMT_REQUIRE(shmt__is_coo(t), SHMT_E_RUNTIME, "%s expected sparse coordinate tensor layout but got %s", name,
               shmt__layout_name(shmt__tensor_layout(t)));
  return SHMT_OK;
}

/* A header of its own for a part: what Python does to the given tensor (resize_, set_, .data) does not reach it. */
static shmt_status own_header(shmt_tensor* t, shmt_tensor** out) {
  return shmt__tensor_alias(t, shmt__tensor_sizes(t), shmt__tensor_strides(t), t->offset, out);
}

static shmt_status make_sparse(shmt_sparse parts, shmt_ints sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) compressed = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  if (parts.compressed) SHMT_TRY(own_header(parts.compressed, &compressed));
  SHMT_TRY(own_header(parts.indices, &indices));
  SHMT_TRY(own_header(parts.values, &values));
  parts.compressed = compressed;
  parts.indices = indices;
  parts.values = values;
  return shmt__tensor_sparse(&parts, sizes, values->dtype, out);
}

shmt_status shmt__make_coo(shmt_ints sizes, int sparse_dim, shmt_tensor* indices, shmt_tensor* values,
                           bool is_coalesced, shmt_tensor** out) {
  SHMT_REQUIRE(sparse_dim >= 0 && sparse_dim <= sizes.len && sizes.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME,
               "number of dimensions must be sparse_dim (%d) + dense_dim (%d), but got %" PRId64, sparse_dim,
               values->n_dims - 1, sizes.len);
  const shmt_sparse parts = {.layout = SHMT_SPARSE_COO,
                             .sparse_dim = (uint8_t)sparse_dim,
                             .dense_dim = (uint8_t)(sizes.len - sparse_dim),
                             .is_coalesced = is_coalesced,
                             .indices = indices,
                             .values = values};
  return make_sparse(parts, sizes, out);
}

shmt_status shmt__make_compressed(shmt_layout layout, shmt_ints sizes, shmt_tensor* compressed, shmt_tensor* indices,
                                  shmt_tensor* values, shmt_tensor** out) {
  SHMT_REQUIRE(sizes.len >= 2 && sizes.len < SHMT_MAX_DIMS, SHMT_E_RUNTIME,
               "tensors in compressed format have 2 to %d dimensions, but the size is of %" PRId64 " dimensions",
               SHMT_MAX_DIMS - 1, sizes.len);
  const shmt_sparse parts = {.layout = layout,
                             .sparse_dim = 2,
                             .dense_dim = (uint8_t)(sizes.len - 2),
                             .compressed = compressed,
                             .indices = indices,
                             .values = values};
  return make_sparse(parts, sizes, out);
}

/* Values of no entries. */
static shmt_status no_values(shmt_ints sizes, int sparse_dim, shmt_dtype dtype, shmt_tensor** out) {
  int64_t value_sizes[SHMT_MAX_DIMS + 1] = {0};
  SHMT_REQUIRE(sizes.len < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               sizes.len);
  for (int64_t d = sparse_dim; d < sizes.len; d++) value_sizes[1 + d - sparse_dim] = sizes.data[d];
  return shmt__tensor_empty((shmt_ints){value_sizes, 1 + sizes.len - sparse_dim}, dtype, SHMT_CPU,
                            SHMT_CONTIGUOUS_FORMAT, out);
}

static shmt_status empty_coo(shmt_ints sizes, int sparse_dim, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_TRY(no_values(sizes, sparse_dim, dtype, &values));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(sparse_dim, 0), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &indices));
  return shmt__make_coo(sizes, sparse_dim, indices, values, true, out);
}

shmt_status shmt__sparse_empty(shmt_layout layout, shmt_ints sizes, int sparse_dim, shmt_dtype dtype,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) compressed = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  int64_t numel;
  SHMT_TRY(shmt__checked_numel(sizes, &numel));
  if (layout == SHMT_SPARSE_COO) return empty_coo(sizes, sparse_dim, dtype, out);
  SHMT_REQUIRE((layout == SHMT_SPARSE_CSR || layout == SHMT_SPARSE_CSC) && sparse_dim == 2, SHMT_E_RUNTIME,
               "there are no tensors of layout %s and size %s", shmt__layout_name(layout),
               shmt__ints_text(sizes, (char[256]){0}, 256));
  const int64_t n = sizes.data[layout == SHMT_SPARSE_CSR ? 0 : 1];
  SHMT_REQUIRE(n < INT64_MAX, SHMT_E_RUNTIME, "a matrix of %" PRId64 " rows is too large", n);
  SHMT_TRY(shmt__tensor_zeros(SHMT_INTS(n + 1), SHMT_INT64, SHMT_CPU, &compressed));
  SHMT_TRY(shmt__new_int64s(0, &indices));
  SHMT_TRY(no_values(sizes, sparse_dim, dtype, &values));
  return shmt__make_compressed(layout, sizes, compressed, indices, values, out);
}

shmt_status shmt__sparse_with_values(shmt_tensor* like, shmt_tensor* values, shmt_tensor** out) {
  shmt_sparse parts = *like->sparse;
  parts.values = values;
  return make_sparse(parts, shmt__tensor_sizes(like), out);
}

static shmt_status copy_of(shmt_tensor* t, shmt_tensor** out) {
  if (!t) return SHMT_OK;
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(t), t->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out));
  return shmt__tensor_copy(*out, t);
}

shmt_status shmt__sparse_with_new_values(shmt_tensor* like, shmt_tensor* values, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) compressed = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  shmt_sparse parts = *like->sparse;
  SHMT_TRY(shmt__sparse_check_memory(like->sparse));
  SHMT_TRY(copy_of(parts.compressed, &compressed));
  SHMT_TRY(copy_of(parts.indices, &indices));
  parts.compressed = compressed;
  parts.indices = indices;
  parts.values = values;
  return make_sparse(parts, shmt__tensor_sizes(like), out);
}

shmt_status shmt__sparse_finish(const char* name, shmt_tensor* result, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;
  shmt_tensor* to = *out;
  if (!to) {
    *out = shmt__tensor_ref(result);
    return SHMT_OK;
  }
  if (to == result) return SHMT_OK;
  SHMT_REQUIRE(shmt__can_cast(result->dtype, to->dtype), SHMT_E_RUNTIME,
               "result type %s can't be cast to the desired output type %s", shmt__dtype_title(result->dtype),
               shmt__dtype_title(to->dtype));
  if (!to->sparse && !result->sparse) return shmt_op_copy__below(shmt__tensor_backend(to), to, result, false);
  SHMT_REQUIRE(shmt__tensor_layout(to) == shmt__tensor_layout(result), SHMT_E_RUNTIME,
               "%s: the result has layout %s, but the tensor to write to has layout %s", name,
               shmt__layout_name(shmt__tensor_layout(result)), shmt__layout_name(shmt__tensor_layout(to)));
  if (result->dtype != to->dtype) {
    SHMT_TRY(shmt_op__to_copy_below(shmt__tensor_backend(result), result, to->dtype, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE,
                                    (shmt_opt_bool){0}, false, SHMT_MEMORY_FORMAT_NONE, &cast));
    result = cast;
  }
  return shmt__tensor_set_sparse(to, result->sparse, shmt__tensor_sizes(result));
}
