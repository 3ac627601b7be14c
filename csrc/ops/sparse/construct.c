/* ops/sparse/construct.c -- sparse tensors from indices and values, and the checks of what they promise. */
#include "dispatch/operator.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/sparse/sparse.h"

#include <inttypes.h>
#include <string.h>

static shmt_status check_parts(const shmt_tensor* a, const shmt_tensor* b, const shmt_tensor* c) {
  SHMT_REQUIRE(shmt__common_device(a, b, c) == SHMT_CPU, SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  return SHMT_OK;
}

shmt_status shmt__coo_of_parts(int64_t sparse_dim, int64_t dense_dim, shmt_ints size, shmt_tensor* indices,
                               shmt_tensor* values, shmt_opt_bool is_coalesced, shmt_tensor** out) {
  SHMT_TRY(check_parts(indices, values, NULL));
  SHMT_REQUIRE(sparse_dim >= 0 && dense_dim >= 0 && sparse_dim <= SHMT_MAX_DIMS && dense_dim <= SHMT_MAX_DIMS &&
                   size.len == sparse_dim + dense_dim && indices->n_dims == 2,
               SHMT_E_RUNTIME,
               "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %" PRId64 ", sparse_dim = %" PRId64
               ", dense_dim = %" PRId64,
               size.len, sparse_dim, dense_dim);
  return shmt__make_coo(size, (int)sparse_dim, indices, values, is_coalesced.has && is_coalesced.value, out);
}

shmt_status shmt__compressed_of_parts(shmt_tensor* compressed, shmt_tensor* plain, shmt_tensor* values, shmt_ints size,
                                      shmt_layout layout, shmt_tensor** out) {
  SHMT_TRY(check_parts(compressed, plain, values));
  return shmt__make_compressed(layout, size, compressed, plain, values, out);
}

/* --- sizes -------------------------------------------------------------------------------------- */

/* One more than the largest index of each row of indices. */
static shmt_status sizes_of_indices(shmt_tensor* indices, int64_t* sizes) {
  SHMT_AUTO(shmt_tensor) own = NULL;
  const int64_t n = indices->sizes[1];
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(indices), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &own));
  SHMT_TRY(shmt__tensor_copy(own, indices));
  for (int64_t d = 0; d < indices->sizes[0]; d++) {
    int64_t largest = -1;
    for (int64_t k = 0; k < n; k++) {
      const int64_t index = shmt__int64s(own)[d * n + k];
      SHMT_REQUIRE(index >= 0, SHMT_E_RUNTIME, "found negative index %" PRId64 " for dim %" PRId64, index, d);
      if (index > largest) largest = index;
    }
    SHMT_REQUIRE(largest < INT64_MAX, SHMT_E_RUNTIME, "numel: integer multiplication overflow");
    sizes[d] = largest + 1;
  }
  return SHMT_OK;
}

/* A number as one value. */
static shmt_status at_least_1d(shmt_tensor* values, shmt_tensor** out) {
  if (values->n_dims == 0) return shmt_op_unsqueeze(values, 0, out);
  *out = shmt__tensor_ref(values);
  return SHMT_OK;
}

static shmt_status check_indices(const shmt_tensor* indices, int64_t n_dims, shmt_ints size, int n_dense) {
  SHMT_REQUIRE(indices->n_dims == 2 || size.len < 0 || indices->n_dims == 0, SHMT_E_RUNTIME,
               "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %" PRId64 ", sparse_dim = %" PRId64
               ", dense_dim = %d",
               size.len, indices->sizes[0], n_dense);
  SHMT_REQUIRE(indices->n_dims == 2, SHMT_E_RUNTIME, "indices must be sparse_dim x nnz, but got: %s",
               SHMT_SHAPE_TEXT(indices));
  SHMT_REQUIRE(indices->sizes[0] <= n_dims, SHMT_E_RUNTIME, "tensor has too many (>%" PRId64 ") dims: %" PRId64, n_dims,
               indices->sizes[0]);
  return SHMT_OK;
}

shmt_status shmt__coo_of_checked_parts(shmt_tensor* indices, shmt_tensor* values, shmt_ints size, bool check,
                                       shmt_opt_bool is_coalesced, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  int64_t sizes[2 * SHMT_MAX_DIMS];
  SHMT_TRY(check_parts(indices, values, NULL));
  SHMT_REQUIRE(!indices->sparse && !values->sparse, SHMT_E_RUNTIME,
               "expected indices and values to be strided tensors");
  SHMT_TRY(at_least_1d(values, &rows));
  SHMT_TRY(check_indices(indices, SHMT_MAX_DIMS, size, rows->n_dims - 1));
  const int64_t sparse_dim = indices->sizes[0], dense_dim = rows->n_dims - 1;
  if (size.len < 0) {
    SHMT_TRY(sizes_of_indices(indices, sizes));
    for (int64_t d = 0; d < dense_dim; d++) sizes[sparse_dim + d] = rows->sizes[1 + d];
    size = (shmt_ints){sizes, sparse_dim + dense_dim};
  }
  SHMT_TRY(
      shmt_op__sparse_coo_tensor_with_dims_and_tensors(sparse_dim, dense_dim, size, indices, rows, is_coalesced, out));
  return check ? shmt_op__validate_sparse(*out) : SHMT_OK;
}

/* --- checks of what the parts promise ------------------------------------------------------------ */

static shmt_status validate_coo(const shmt_tensor* t) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_TRY(shmt__coo_positions(t, &positions));
  const int64_t* at = shmt__int64s(positions);
  for (int64_t k = 1; k < positions->numel && t->sparse->is_coalesced; k++)
    SHMT_REQUIRE(at[k - 1] < at[k], SHMT_E_RUNTIME,
                 "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor");
  return SHMT_OK;
}

static shmt_status validate_compressed(const shmt_tensor* t) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) columns = NULL;
  SHMT_TRY(shmt__matrix_entries(t, &rows, &columns));
  const bool is_csr = t->sparse->layout == SHMT_SPARSE_CSR;
  const int64_t *by = shmt__int64s(is_csr ? rows : columns), *other = shmt__int64s(is_csr ? columns : rows);
  const char *compressed = is_csr ? "crow_indices" : "ccol_indices", *plain = is_csr ? "col_indices" : "row_indices";
  for (int64_t k = 1; k < rows->numel; k++)
    SHMT_REQUIRE(
        by[k - 1] != by[k] || other[k - 1] < other[k], SHMT_E_RUNTIME,
        "`%s[..., %s[..., i - 1]:%s[..., i]] for all i = 1, ..., %s are sorted and distinct along the last dimension "
        "values` is not satisfied.",
        plain, compressed, compressed, is_csr ? "nrows" : "ncols");
  return SHMT_OK;
}

shmt_status shmt__validate_sparse(shmt_tensor* self) {
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "_validate_sparse: expected a sparse tensor, but got layout Strided");
  return shmt__is_coo(self) ? validate_coo(self) : validate_compressed(self);
}
