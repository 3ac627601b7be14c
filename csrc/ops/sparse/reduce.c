/* ops/sparse/reduce.c -- sums, norms, any and softmax of sparse tensors. */
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/sparse/sparse.h"

#include <inttypes.h>
#include <string.h>

/* --- over all elements ---------------------------------------------------------------------------- */

shmt_status shmt__sparse_sum_all(shmt_tensor* self, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_TRY(shmt__sparse_check_memory(self->sparse));
  SHMT_TRY(shmt_op_sum_below(SHMT_KEYBIT_CPU, self->sparse->values, dtype, &sum));
  return shmt__sparse_finish("sum", sum, out);
}

shmt_status shmt__sparse_any(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coalesced = NULL;
  SHMT_AUTO(shmt_tensor) any = NULL;
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "any: the tensor to write to is sparse, but the result is not");
  SHMT_TRY(shmt__as_coalesced(self, &coalesced));
  SHMT_TRY(shmt__sparse_check_memory(coalesced->sparse));
  SHMT_TRY(shmt_op_any_below(SHMT_KEYBIT_CPU, coalesced->sparse->values, &any));
  return shmt__sparse_finish("any", any, out);
}

/* Made of operators that record: the norm of the values. */
static shmt_status norm_of_values(shmt_tensor* self, shmt_scalar p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coo = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  if (shmt__is_coo(self))
    SHMT_TRY(shmt_op_coalesce(self, &coo));
  else
    coo = shmt__tensor_ref(self);
  SHMT_TRY(shmt_op_values(coo, &values));
  return shmt_op_linalg_vector_norm(values, p, (shmt_ints){NULL, -1}, false, SHMT_DTYPE_NONE, out);
}

/* --- over some dims --------------------------------------------------------------------------------- */

/* The indices of the sparse dims that are not in `summed`. */
static shmt_status kept_indices(shmt_tensor* t, uint64_t summed, bool keepdim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) all = NULL;
  SHMT_AUTO(shmt_tensor) kept = NULL;
  const int n = t->sparse->sparse_dim;
  int left = 0;
  SHMT_TRY(shmt__coo_positions(t, &positions));
  const int64_t nnz = positions->numel;
  SHMT_TRY(shmt__unflatten_positions(shmt__int64s(positions), nnz, (shmt_ints){t->sizes, n}, &all));
  for (int d = 0; d < n; d++) left += keepdim || !(summed >> d & 1);
  SHMT_TRY(shmt__tensor_zeros(SHMT_INTS(left, nnz), SHMT_INT64, SHMT_CPU, &kept));
  for (int d = 0, to = 0; d < n && nnz > 0; d++) {
    const bool is_summed = (summed >> d & 1) != 0;
    if (!is_summed) memcpy(shmt__int64s(kept) + to * nnz, shmt__int64s(all) + d * nnz, (size_t)nnz * sizeof(int64_t));
    to += keepdim || !is_summed;
  }
  *out = SHMT_TAKE(kept);
  return SHMT_OK;
}

/* Made of operators that record. The sum over all sparse dims is dense. */
shmt_status shmt__sparse_sum_dims(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coo = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) terms = NULL;
  uint64_t summed;
  int64_t over[SHMT_MAX_DIMS + 1], n_over = 0, sizes[SHMT_MAX_DIMS], n_sizes = 0;
  int sparse_left = 0;
  SHMT_TRY(shmt__require_coo("sum", self));
  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &summed));
  const int n = self->sparse->sparse_dim;
  for (int d = 0; d < self->n_dims; d++) {
    const bool is_summed = (summed >> d & 1) != 0;
    if (is_summed && d >= n) over[n_over++] = 1 + d - n;
    if (!is_summed && d < n) sparse_left++;
    if (!is_summed || keepdim) sizes[n_sizes++] = is_summed ? 1 : self->sizes[d];
  }
  SHMT_TRY(shmt_op_coalesce(self, &coo));
  SHMT_TRY(shmt_op_values(coo, &values));
  const bool is_dense = sparse_left == 0 && n > 0;
  if (is_dense) over[n_over++] = 0;
  if (n_over > 0)
    SHMT_TRY(shmt_op_sum_dim_IntList(values, (shmt_ints){over, n_over}, keepdim && !is_dense, dtype, &sums));
  else if (dtype != SHMT_DTYPE_NONE)
    SHMT_TRY(shmt_op_to_dtype(values, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, &sums));
  else
    sums = shmt__tensor_ref(values);
  if (is_dense) {
    if (!keepdim) {
      *out = SHMT_TAKE(sums);
      return SHMT_OK;
    }
    return shmt_op_view(sums, (shmt_ints){sizes, n_sizes}, out);
  }
  SHMT_TRY(kept_indices(coo, summed, keepdim, &indices));
  const int64_t sparse_dim = indices->sizes[0];
  SHMT_TRY(shmt_op__sparse_coo_tensor_with_dims_and_tensors(sparse_dim, n_sizes - sparse_dim,
                                                            (shmt_ints){sizes, n_sizes}, indices, sums,
                                                            (shmt_opt_bool){false, true}, &terms));
  return shmt_op_coalesce(terms, out);
}

/* --- softmax -------------------------------------------------------------------------------------------- */

/* For each entry, which of the groups it is in that share all sparse indices but that of dim; *n_groups of them. */
static shmt_status group_entries(shmt_tensor* t, int64_t dim, shmt_tensor** groups, int64_t* n_groups) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  bool is_strict;
  SHMT_TRY(shmt__coo_positions(t, &positions));
  int64_t below = 1, *at = shmt__int64s(positions);
  const int64_t nnz = positions->numel, size = t->sizes[dim];
  for (int d = (int)dim + 1; d < t->sparse->sparse_dim; d++) below *= t->sizes[d];
  for (int64_t k = 0; k < nnz; k++) at[k] = at[k] / (below * size) * below + at[k] % below;
  SHMT_TRY(shmt__sort_positions(positions, &is_strict, &order));
  SHMT_TRY(shmt__new_int64s(nnz, &found));
  int64_t n = 0, last = -1;
  for (int64_t k = 0; k < nnz; k++) {
    const int64_t entry = order ? shmt__int64s(order)[k] : k;
    if (at[entry] != last) n++;
    last = at[entry];
    shmt__int64s(found)[entry] = n - 1;
  }
  *n_groups = n;
  *groups = SHMT_TAKE(found);
  return SHMT_OK;
}

/* The largest value of each group, for each of its entries: no gradient goes through it. */
static shmt_status largest_of_group(shmt_tensor* values, shmt_tensor* groups, int64_t n_groups, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) plain = NULL;
  SHMT_AUTO(shmt_tensor) none = NULL;
  SHMT_AUTO(shmt_tensor) largest = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_TRY(shmt_op_detach(values, &plain));
  memcpy(sizes, values->sizes, (size_t)values->n_dims * sizeof *sizes);
  sizes[0] = n_groups;
  SHMT_TRY(
      shmt__tensor_empty((shmt_ints){sizes, values->n_dims}, values->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &none));
  SHMT_TRY(shmt_op_fill__Scalar_below(SHMT_KEYBIT_CPU, none, shmt__scalar_float(-__builtin_inf())));
  SHMT_TRY(shmt_op_index_reduce(none, 0, groups, plain, "amax", true, &largest));
  return shmt_op_index_select(largest, 0, groups, out);
}

static shmt_status softmax_of_groups(shmt_tensor* values, shmt_tensor* groups, int64_t n_groups, bool is_log,
                                     shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) largest = NULL;
  SHMT_AUTO(shmt_tensor) shifted = NULL;
  SHMT_AUTO(shmt_tensor) powers = NULL;
  SHMT_AUTO(shmt_tensor) none = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  SHMT_AUTO(shmt_tensor) own = NULL;
  SHMT_AUTO(shmt_tensor) logs = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_TRY(largest_of_group(values, groups, n_groups, &largest));
  SHMT_TRY(shmt_op_sub_Tensor(values, largest, shmt__scalar_int(1), &shifted));
  SHMT_TRY(shmt_op_exp(shifted, &powers));
  memcpy(sizes, values->sizes, (size_t)values->n_dims * sizeof *sizes);
  sizes[0] = n_groups;
  SHMT_TRY(shmt__tensor_zeros((shmt_ints){sizes, values->n_dims}, values->dtype, SHMT_CPU, &none));
  SHMT_TRY(shmt_op_index_add(none, 0, groups, powers, shmt__scalar_int(1), &sums));
  SHMT_TRY(shmt_op_index_select(sums, 0, groups, &own));
  if (!is_log) return shmt_op_div_Tensor(powers, own, out);
  SHMT_TRY(shmt_op_log(own, &logs));
  return shmt_op_sub_Tensor(shifted, logs, shmt__scalar_int(1), out);
}

/* Made of operators that record. Elements without an entry count as minus infinity. */
shmt_status shmt__sparse_softmax(shmt_tensor* self, int64_t dim, bool is_log, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coo = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) groups = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  int64_t n_groups = 0;
  SHMT_TRY(shmt__require_coo(is_log ? "log_softmax" : "softmax", self));
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "softmax: a sparse tensor without dimensions");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(shmt_op_coalesce(self, &coo));
  SHMT_TRY(shmt_op_values(coo, &values));
  const shmt_sparse* p = coo->sparse;
  SHMT_REFUSE_DTYPE(shmt__dtype_kind[values->dtype] != SHMT_KIND_FLOATING, values->dtype, "softmax");
  if (dim >= p->sparse_dim) {
    const int64_t at = 1 + dim - p->sparse_dim;
    SHMT_TRY(is_log ? shmt_op_log_softmax_int(values, at, SHMT_DTYPE_NONE, &result)
                    : shmt_op_softmax_int(values, at, SHMT_DTYPE_NONE, &result));
  } else {
    SHMT_TRY(group_entries(coo, dim, &groups, &n_groups));
    SHMT_TRY(softmax_of_groups(values, groups, n_groups, is_log, &result));
  }
  SHMT_TRY(shmt_op_indices(coo, &indices));
  return shmt_op__sparse_coo_tensor_with_dims_and_tensors(p->sparse_dim, p->dense_dim, shmt__tensor_sizes(self),
                                                          indices, result, (shmt_opt_bool){true, true}, out);
}

/* --- sum and vector_norm, as programs call them ------------------------------------------------------------ */

shmt_status shmt__sparse_sum_dim_list(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_dtype dtype,
                                      shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coo = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "sum: the tensor to write to is sparse, but the sum is not");
  if (dim.len < 0) dim.len = 0;
  if (shmt__is_coo(self)) {
    SHMT_TRY(shmt__sparse_sum_dims(self, dim, keepdim, dtype, &sum));
    return shmt__sparse_finish("sum", sum, out);
  }
  SHMT_REQUIRE(keepdim, SHMT_E_RUNTIME, "reduction operations on CSR tensors with keepdim=False is unsupported");
  SHMT_TRY(shmt__as_coalesced(self, &coo));
  SHMT_TRY(shmt__sparse_sum_dims(coo, dim, true, dtype, &sum));
  SHMT_TRY(shmt__to_layout_now(sum, self->sparse->layout, 2, &result));
  return shmt__sparse_finish("sum", result, out);
}

/* The kernel of the AutogradSparse key. */
shmt_status shmt__vector_norm_sparse(shmt_keyset ks, shmt_tensor* self, shmt_scalar ord, shmt_ints dim, bool keepdim,
                                     shmt_dtype dtype, shmt_tensor** out);

shmt_status shmt__vector_norm_sparse(shmt_keyset ks, shmt_tensor* self, shmt_scalar ord, shmt_ints dim, bool keepdim,
                                     shmt_dtype dtype, shmt_tensor** out) {
  uint64_t over;
  (void)ks;
  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &over));
  bool is_full = !keepdim && dtype == SHMT_DTYPE_NONE;
  for (int d = 0; d < self->n_dims; d++) is_full = is_full && (over >> d & 1);
  SHMT_REQUIRE(
      is_full, SHMT_E_RUNTIME,
      "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of "
      "the input");
  SHMT_REQUIRE(shmt__scalar_to_double(ord) > 0, SHMT_E_RUNTIME,
               "norm of a sparse tensor: the order must be positive, got %g", shmt__scalar_to_double(ord));
  return norm_of_values(self, ord, out);
}
