/* ops/sparse/shape.c -- transpose, permute, unsqueeze, select, index_select and cat of sparse tensors.
 *
 * The results have parts of their own and are no views: a change of one does not show in the other.
 */
#include "base/overflow.h"
#include "base/promote.h"
#include "dispatch/operator.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/sparse/sparse.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <string.h>

/* A copy of a tensor, contiguous. */
static shmt_status copy_of(shmt_tensor* t, shmt_tensor** out) {
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(t), t->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out));
  return shmt__tensor_copy(*out, t);
}

/* --- the order of dims -------------------------------------------------------------------------- */

/* dims is a permutation that leaves sparse dims sparse. */
static shmt_status permute_coo(shmt_tensor* self, const int64_t* dims, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) permuted = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  const shmt_sparse* p = self->sparse;
  int64_t sizes[SHMT_MAX_DIMS], value_dims[SHMT_MAX_DIMS + 1] = {0};
  bool is_same = true;
  SHMT_TRY(shmt__sparse_check_memory(p));
  const int64_t nnz = shmt__sparse_nnz(p);
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(p->sparse_dim, nnz), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &indices));
  for (int d = 0; d < self->n_dims; d++) {
    sizes[d] = self->sizes[dims[d]];
    if (d >= p->sparse_dim) {
      value_dims[1 + d - p->sparse_dim] = 1 + dims[d] - p->sparse_dim;
      continue;
    }
    is_same = is_same && dims[d] == d;
    SHMT_AUTO(shmt_tensor) from = NULL;
    SHMT_AUTO(shmt_tensor) to = NULL;
    SHMT_TRY(shmt__tensor_alias(p->indices, SHMT_INTS(nnz), SHMT_INTS(p->indices->strides[1]),
                                p->indices->offset + dims[d] * p->indices->strides[0], &from));
    SHMT_TRY(shmt__tensor_alias(indices, SHMT_INTS(nnz), SHMT_INTS(1), d * nnz, &to));
    SHMT_TRY(shmt__tensor_copy(to, from));
  }
  SHMT_TRY(shmt_op_permute_below(SHMT_KEYBIT_CPU, p->values, (shmt_ints){value_dims, 1 + p->dense_dim}, &permuted));
  SHMT_TRY(copy_of(permuted, &values));
  return shmt__make_coo((shmt_ints){sizes, self->n_dims}, p->sparse_dim, indices, values, is_same && p->is_coalesced,
                        out);
}

/* The transposed tensor has the same parts in the other compressed layout. */
static shmt_status transpose_compressed(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) compressed = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  const shmt_sparse* p = self->sparse;
  int64_t sizes[SHMT_MAX_DIMS];
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  sizes[0] = self->sizes[1];
  sizes[1] = self->sizes[0];
  SHMT_TRY(shmt__sparse_check_memory(p));
  SHMT_TRY(copy_of(p->compressed, &compressed));
  SHMT_TRY(copy_of(p->indices, &indices));
  SHMT_TRY(copy_of(p->values, &values));
  return shmt__make_compressed(p->layout == SHMT_SPARSE_CSR ? SHMT_SPARSE_CSC : SHMT_SPARSE_CSR,
                               (shmt_ints){sizes, self->n_dims}, compressed, indices, values, out);
}

shmt_status shmt__sparse_transpose(shmt_tensor* self, int64_t dim0, int64_t dim1, shmt_tensor** out) {
  int64_t dims[SHMT_MAX_DIMS];
  SHMT_TRY(shmt__wrap_dim(dim0, self->n_dims, &dim0));
  SHMT_TRY(shmt__wrap_dim(dim1, self->n_dims, &dim1));
  if (dim0 == dim1) return shmt_op_clone_below(shmt__tensor_backend(self), self, SHMT_MEMORY_FORMAT_NONE, out);
  const int n = self->sparse->sparse_dim;
  SHMT_REQUIRE(dim0 < n && dim1 < n, SHMT_E_RUNTIME,
               "sparse transpose: transposed dimensions must be sparse Got sparse_dim: %d, d0: %" PRId64
               ", d1: %" PRId64,
               n, dim0, dim1);
  if (!shmt__is_coo(self)) return transpose_compressed(self, out);
  for (int d = 0; d < self->n_dims; d++) dims[d] = d == dim0 ? dim1 : d == dim1 ? dim0 : d;
  return permute_coo(self, dims, out);
}

shmt_status shmt__sparse_t(shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(
      self->n_dims <= 2 && self->sparse->dense_dim == 0, SHMT_E_RUNTIME,
      "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got %d sparse and %d dense dimensions",
      (int)self->sparse->sparse_dim, (int)self->sparse->dense_dim);
  return shmt__sparse_transpose(self, 0, self->n_dims < 2 ? 0 : 1, out);
}

shmt_status shmt__sparse_permute(shmt_tensor* self, shmt_ints dims, shmt_tensor** out) {
  int64_t wrapped[SHMT_MAX_DIMS];
  uint64_t seen = 0;
  SHMT_REQUIRE(dims.len == self->n_dims, SHMT_E_RUNTIME,
               "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
               "ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %" PRId64,
               (int)self->n_dims, dims.len);
  const int n = self->sparse->sparse_dim;
  for (int64_t d = 0; d < dims.len; d++) {
    SHMT_TRY(shmt__wrap_dim(dims.data[d], self->n_dims, &wrapped[d]));
    SHMT_REQUIRE(!(seen >> wrapped[d] & 1), SHMT_E_RUNTIME, "permute(sparse_coo): duplicate dims are not allowed.");
    seen |= (uint64_t)1 << wrapped[d];
    SHMT_REQUIRE((d < n) == (wrapped[d] < n), SHMT_E_RUNTIME,
                 "permute(sparse_coo): sparse and dense dimensions cannot be exchanged; there are %d sparse ones", n);
  }
  if (shmt__is_coo(self)) return permute_coo(self, wrapped, out);
  for (int d = n; d < self->n_dims; d++)
    SHMT_REQUIRE(wrapped[d] == d, SHMT_E_RUNTIME, "permute: the dense dimensions of layout %s stay in their order",
                 shmt__layout_name(self->sparse->layout));
  if (wrapped[0] == 1) return transpose_compressed(self, out);
  return shmt_op_clone_below(shmt__tensor_backend(self), self, SHMT_MEMORY_FORMAT_NONE, out);
}

/* --- more and fewer dims --------------------------------------------------------------------------- */

shmt_status shmt__sparse_unsqueeze(shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) wider = NULL;
  int64_t sizes[SHMT_MAX_DIMS + 1];
  SHMT_TRY(shmt__require_coo("unsqueeze", self));
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims + 1, &dim));
  SHMT_REQUIRE(self->n_dims + 1 < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims", SHMT_MAX_DIMS - 1);
  const shmt_sparse* p = self->sparse;
  const int64_t nnz = shmt__sparse_nnz(p);
  for (int d = 0; d <= self->n_dims; d++) sizes[d] = d == dim ? 1 : self->sizes[d > dim ? d - 1 : d];
  SHMT_TRY(shmt__sparse_check_memory(p));
  SHMT_TRY(copy_of(p->values, &values));
  const shmt_ints size = {sizes, self->n_dims + 1};
  if (dim > p->sparse_dim) {
    SHMT_TRY(copy_of(p->indices, &indices));
    SHMT_TRY(shmt_op_unsqueeze_below(SHMT_KEYBIT_CPU, values, dim - p->sparse_dim + 1, &wider));
    return shmt__make_coo(size, p->sparse_dim, indices, wider, p->is_coalesced, out);
  }
  SHMT_TRY(shmt__tensor_zeros(SHMT_INTS(p->sparse_dim + 1, nnz), SHMT_INT64, SHMT_CPU, &indices));
  for (int d = 0; d <= p->sparse_dim; d++) {
    if (d == dim) continue;
    SHMT_AUTO(shmt_tensor) from = NULL;
    SHMT_AUTO(shmt_tensor) to = NULL;
    SHMT_TRY(shmt__tensor_alias(p->indices, SHMT_INTS(nnz), SHMT_INTS(p->indices->strides[1]),
                                p->indices->offset + (d > dim ? d - 1 : d) * p->indices->strides[0], &from));
    SHMT_TRY(shmt__tensor_alias(indices, SHMT_INTS(nnz), SHMT_INTS(1), d * nnz, &to));
    SHMT_TRY(shmt__tensor_copy(to, from));
  }
  return shmt__make_coo(size, p->sparse_dim + 1, indices, values, p->is_coalesced, out);
}

/* t with the values' dim `dim` replaced by what index picks there. */
static shmt_status select_rows(shmt_tensor* t, int64_t dim, shmt_tensor* index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  const shmt_sparse* p = t->sparse;
  SHMT_TRY(shmt_op_index_select_below(SHMT_KEYBIT_CPU, p->values, 1 + dim - p->sparse_dim, index, &values));
  SHMT_TRY(copy_of(p->indices, &indices));
  memcpy(sizes, t->sizes, (size_t)t->n_dims * sizeof *sizes);
  sizes[dim] = index->numel;
  return shmt__make_coo((shmt_ints){sizes, t->n_dims}, p->sparse_dim, indices, values, p->is_coalesced, out);
}

/* The entries of t by their index in one sparse dim: those of index i are order[starts[i]] to order[starts[i + 1] -
 * 1]. */
static shmt_status entries_by(const shmt_tensor* t, int64_t dim, shmt_tensor** all, shmt_tensor** starts,
                              shmt_tensor** order) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) row = NULL;
  SHMT_AUTO(shmt_tensor) moved = NULL;
  SHMT_TRY(shmt__coo_positions(t, &positions));
  const int64_t n = positions->numel;
  SHMT_TRY(shmt__unflatten_positions(shmt__int64s(positions), n, (shmt_ints){t->sizes, t->sparse->sparse_dim}, all));
  SHMT_TRY(shmt__tensor_alias(*all, SHMT_INTS(n), SHMT_INTS(1), dim * n, &row));
  return shmt__group_by_row(t->sizes[dim], row, positions, starts, order, &moved);
}

shmt_status shmt__sparse_index_select(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wanted = NULL;
  SHMT_AUTO(shmt_tensor) all = NULL;
  SHMT_AUTO(shmt_tensor) starts = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) entry_positions = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS], n = 0, at = 0;
  SHMT_TRY(shmt__require_coo("index_select", self));
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "index_select() cannot be applied to a 0-dim tensor.");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(!index->sparse && index->n_dims == 1 && index->dtype == SHMT_INT64 && index->device == SHMT_CPU,
               SHMT_E_INDEX, "index_select() argument index must be 1-D long-tensor.");
  SHMT_TRY(shmt__new_int64s(index->numel, &wanted)); /* a copy, so that it stays what was checked */
  SHMT_TRY(shmt__tensor_copy(wanted, index));
  for (int64_t k = 0; k < wanted->numel; k++) {
    int64_t* i = shmt__int64s(wanted) + k;
    SHMT_REQUIRE(*i >= -self->sizes[dim] && *i < self->sizes[dim], SHMT_E_INDEX,
                 "index_select(): index contains %" PRId64
                 " that is out of range for tensor of size %s at dimension %" PRId64,
                 *i, SHMT_SHAPE_TEXT(self), dim);
    if (*i < 0) *i += self->sizes[dim];
  }
  const shmt_sparse* p = self->sparse;
  SHMT_TRY(shmt__sparse_check_memory(p));
  if (dim >= p->sparse_dim) {
    SHMT_TRY(select_rows(self, dim, wanted, &result));
    return shmt__sparse_finish("index_select", result, out);
  }
  SHMT_TRY(entries_by(self, dim, &all, &starts, &order));
  const int64_t *start = shmt__int64s(starts), nnz = shmt__sparse_nnz(p);
  for (int64_t k = 0; k < wanted->numel; k++) n += start[shmt__int64s(wanted)[k] + 1] - start[shmt__int64s(wanted)[k]];
  SHMT_TRY(shmt__new_int64s(n, &entry_positions));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(p->sparse_dim, n), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &indices));
  int64_t *to = shmt__int64s(indices), *place = shmt__int64s(entry_positions);
  for (int64_t k = 0; k < wanted->numel; k++) {
    const int64_t i = shmt__int64s(wanted)[k];
    for (int64_t e = start[i]; e < start[i + 1]; e++, at++) {
      place[at] = order ? shmt__int64s(order)[e] : e;
      for (int d = 0; d < p->sparse_dim; d++) to[d * n + at] = d == dim ? k : shmt__int64s(all)[d * nnz + place[at]];
    }
  }
  SHMT_TRY(shmt_op_index_select_below(SHMT_KEYBIT_CPU, p->values, 0, entry_positions, &values));
  memcpy(sizes, self->sizes, (size_t)self->n_dims * sizeof *sizes);
  sizes[dim] = wanted->numel;
  SHMT_TRY(shmt__make_coo((shmt_ints){sizes, self->n_dims}, p->sparse_dim, indices, values, dim == 0 && p->is_coalesced,
                          &result));
  return shmt__sparse_finish("index_select", result, out);
}

/* One dim less: a row, a column; an element when no sparse dim is left. */
shmt_status shmt__sparse_select(shmt_tensor* self, int64_t dim, int64_t index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coo = NULL;
  SHMT_AUTO(shmt_tensor) wanted = NULL;
  SHMT_AUTO(shmt_tensor) selected = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "select() cannot be applied to a 0-dim tensor.");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(index >= -self->sizes[dim] && index < self->sizes[dim], SHMT_E_INDEX,
               "select(): index %" PRId64 " out of range for tensor of size %s at dimension %" PRId64, index,
               SHMT_SHAPE_TEXT(self), dim);
  if (shmt__is_coo(self))
    coo = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt__as_coalesced(self, &coo));
  SHMT_TRY(shmt__new_int64s(1, &wanted));
  *shmt__int64s(wanted) = index;
  SHMT_TRY(shmt__sparse_index_select(coo, dim, wanted, &selected));
  const shmt_sparse* p = selected->sparse;
  int n = 0;
  for (int d = 0; d < self->n_dims; d++)
    if (d != dim) sizes[n++] = self->sizes[d];
  if (dim >= p->sparse_dim) {
    SHMT_TRY(shmt_op_squeeze_dim_below(SHMT_KEYBIT_CPU, p->values, 1 + dim - p->sparse_dim, &values));
    return shmt__make_coo((shmt_ints){sizes, n}, p->sparse_dim, p->indices, values, p->is_coalesced, out);
  }
  if (p->sparse_dim == 1) /* dense dims are left: their sum over the entries of this index */
    return shmt_op_sum_dim_IntList_below(SHMT_KEYBIT_CPU, p->values, SHMT_INTS(0), false, self->dtype, out);
  const int64_t nnz = shmt__sparse_nnz(p);
  SHMT_TRY(
      shmt__tensor_empty(SHMT_INTS(p->sparse_dim - 1, nnz), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &indices));
  for (int d = 0, to = 0; d < p->sparse_dim; d++)
    if (d != dim && nnz > 0)
      memcpy(shmt__int64s(indices) + nnz * to++, shmt__int64s(p->indices) + nnz * d, (size_t)nnz * sizeof(int64_t));
  return shmt__make_coo((shmt_ints){sizes, n}, p->sparse_dim - 1, indices, p->values, p->is_coalesced, out);
}

/* --- cat ------------------------------------------------------------------------------------------------ */

static shmt_status check_list(shmt_tensors list, int64_t dim, shmt_dtype* dtype) {
  const shmt_tensor* first = list.data[0];
  *dtype = first->dtype;
  for (int64_t i = 0; i < list.len; i++) {
    const shmt_tensor* t = list.data[i];
    SHMT_REQUIRE(shmt__is_coo(t), SHMT_E_RUNTIME,
                 "Concatenating sparse tensors, but a %s tensor was found at position %" PRId64 ".",
                 t->sparse ? shmt__layout_name(t->sparse->layout) : "dense", i);
    bool fits = t->n_dims == first->n_dims;
    for (int d = 0; fits && d < t->n_dims; d++) fits = d == dim || t->sizes[d] == first->sizes[d];
    SHMT_REQUIRE(
        fits, SHMT_E_RUNTIME,
        "All tensors must have the same shape: %s (except in the concatenating dimension), but found shape: %s at "
        "position %" PRId64 ".",
        SHMT_SHAPE_TEXT(first), SHMT_SHAPE_TEXT(t), i);
    SHMT_REQUIRE(t->sparse->sparse_dim == first->sparse->sparse_dim, SHMT_E_RUNTIME,
                 "All tensors must have the same sparse_dim and dense_dim: %d, %d, but tensor at position %" PRId64
                 " has %d, %d.",
                 (int)first->sparse->sparse_dim, (int)first->sparse->dense_dim, i, (int)t->sparse->sparse_dim,
                 (int)t->sparse->dense_dim);
    SHMT_TRY(shmt__promote_types(*dtype, t->dtype, dtype));
  }
  return SHMT_OK;
}

/* Values of t as they stand in the result: along a dense dim, between zeros. */
static shmt_status placed_values(const shmt_tensor* t, int64_t dim, shmt_ints sizes, int64_t offset, shmt_dtype dtype,
                                 shmt_tensor* to) {
  SHMT_AUTO(shmt_tensor) part = NULL;
  const shmt_sparse* p = t->sparse;
  (void)sizes, (void)dtype;
  const int64_t skipped = dim < p->sparse_dim ? 0 : offset * to->strides[1 + dim - p->sparse_dim];
  SHMT_TRY(
      shmt__tensor_alias(to, shmt__tensor_sizes(p->values), shmt__tensor_strides(to), to->offset + skipped, &part));
  return shmt__tensor_copy(part, p->values);
}

/* Made of operators that record: coalesced values one after the other. */
static shmt_status cat_recorded(shmt_tensors list, int64_t dim, shmt_tensor* result, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  void* memory = NULL;
  shmt_status status = SHMT_OK;
  const uint64_t nbytes = (uint64_t)list.len * sizeof(shmt_tensor*);
  SHMT_REQUIRE(dim < result->sparse->sparse_dim, SHMT_E_NOT_IMPLEMENTED,
               "cat: the derivative along a dense dimension of sparse tensors is not implemented");
  SHMT_TRY(shmt__alloc_zeroed(nbytes, &memory));
  shmt_tensor** parts = memory;
  for (int64_t i = 0; i < list.len && status == SHMT_OK; i++) status = shmt_op_values(list.data[i], &parts[i]);
  if (status == SHMT_OK) status = shmt_op_cat((shmt_tensors){parts, list.len}, 0, &values);
  for (int64_t i = 0; i < list.len; i++) shmt__tensor_release(parts[i]);
  shmt__dealloc(memory, nbytes);
  SHMT_TRY(status);
  const shmt_sparse* p = result->sparse;
  SHMT_TRY(shmt__tensor_alias(p->indices, shmt__tensor_sizes(p->indices), shmt__tensor_strides(p->indices),
                              p->indices->offset, &indices));
  return shmt_op__sparse_coo_tensor_with_dims_and_tensors(p->sparse_dim, p->dense_dim, shmt__tensor_sizes(result),
                                                          indices, values, (shmt_opt_bool){false, true}, out);
}

static shmt_status cat_now(shmt_tensors list, int64_t dim, shmt_tensor** out);

shmt_status shmt__sparse_cat(shmt_tensors list, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) plain = NULL;
  void* memory = NULL;
  bool wants_grad = false;
  for (int64_t i = 0; i < list.len; i++)
    wants_grad = wants_grad || (list.data[i] && (shmt__tensor_keys(list.data[i]) & SHMT_KEYBIT_Autograd));
  if (!wants_grad || !shmt__grad_enabled() || (shmt__tls_keys.excluded & SHMT_KEYBIT_Autograd))
    return cat_now(list, dim, out);
  const uint64_t nbytes = (uint64_t)list.len * sizeof(shmt_tensor*);
  SHMT_TRY(shmt__alloc_zeroed(nbytes, &memory));
  shmt_tensor** parts = memory;
  shmt_status status = SHMT_OK;
  for (int64_t i = 0; i < list.len && status == SHMT_OK; i++) status = shmt_op_coalesce(list.data[i], &parts[i]);
  const shmt_tensors once = {parts, list.len};
  if (status == SHMT_OK) status = shmt__wrap_dim(dim, list.data[0]->n_dims, &dim);
  if (status == SHMT_OK) status = cat_now(once, dim, &plain);
  if (status == SHMT_OK) status = cat_recorded(once, dim, plain, out);
  for (int64_t i = 0; i < list.len; i++) shmt__tensor_release(parts[i]);
  shmt__dealloc(memory, nbytes);
  return status;
}

static shmt_status cat_now(shmt_tensors list, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  int64_t sizes[SHMT_MAX_DIMS], value_sizes[SHMT_MAX_DIMS + 1], nnz = 0, at = 0, offset = 0;
  shmt_dtype dtype;
  SHMT_REQUIRE(list.len > 0, SHMT_E_RUNTIME, "torch.cat(): expected a non-empty list of Tensors");
  const shmt_tensor* first = list.data[0];
  SHMT_TRY(shmt__wrap_dim(dim, first->n_dims, &dim));
  SHMT_TRY(check_list(list, dim, &dtype));
  const int n = first->sparse->sparse_dim;
  memcpy(sizes, first->sizes, (size_t)first->n_dims * sizeof *sizes);
  sizes[dim] = 0;
  for (int64_t i = 0; i < list.len; i++) {
    SHMT_REQUIRE(!__builtin_add_overflow(sizes[dim], list.data[i]->sizes[dim], &sizes[dim]), SHMT_E_RUNTIME,
                 "cat: the sizes add up to more than 2**63 - 1");
    nnz += shmt__sparse_nnz(list.data[i]->sparse);
  }
  int64_t numel;
  SHMT_TRY(shmt__checked_numel((shmt_ints){sizes, first->n_dims}, &numel));
  value_sizes[0] = nnz;
  for (int d = n; d < first->n_dims; d++) value_sizes[1 + d - n] = sizes[d];
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n, nnz), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &indices));
  SHMT_TRY(shmt__tensor_zeros((shmt_ints){value_sizes, 1 + first->n_dims - n}, dtype, SHMT_CPU, &values));
  for (int64_t i = 0; i < list.len; i++) {
    SHMT_AUTO(shmt_tensor) positions = NULL;
    SHMT_AUTO(shmt_tensor) own = NULL;
    SHMT_AUTO(shmt_tensor) rows = NULL;
    const shmt_tensor* t = list.data[i];
    SHMT_TRY(shmt__coo_positions(t, &positions));
    const int64_t m = positions->numel;
    SHMT_TRY(shmt__unflatten_positions(shmt__int64s(positions), m, (shmt_ints){t->sizes, n}, &own));
    for (int d = 0; d < n; d++)
      for (int64_t k = 0; k < m; k++)
        shmt__int64s(indices)[d * nnz + at + k] = shmt__int64s(own)[d * m + k] + (d == dim ? offset : 0);
    int64_t row_sizes[SHMT_MAX_DIMS + 1];
    memcpy(row_sizes, value_sizes, sizeof row_sizes);
    row_sizes[0] = m;
    SHMT_TRY(shmt__tensor_alias(values, (shmt_ints){row_sizes, values->n_dims}, shmt__tensor_strides(values),
                                m > 0 ? at * values->strides[0] : 0, &rows));
    SHMT_TRY(placed_values(t, dim, (shmt_ints){sizes, first->n_dims}, offset, dtype, rows));
    at += m;
    offset += t->sizes[dim];
  }
  return shmt__make_coo((shmt_ints){sizes, first->n_dims}, n, indices, values, false, out);
}

shmt_status shmt__sparse_stack(shmt_tensors list, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO_LIST wider = {0, 0};
  SHMT_REQUIRE(list.len > 0, SHMT_E_RUNTIME, "stack expects a non-empty TensorList");
  SHMT_TRY(shmt__wrap_dim(dim, list.data[0]->n_dims + 1, &dim));
  SHMT_TRY(shmt__tensor_vec_alloc(list.len, &wider));
  for (int64_t i = 0; i < list.len; i++) {
    SHMT_REQUIRE(shmt__same_sizes(list.data[i], list.data[0]), SHMT_E_RUNTIME,
                 "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %" PRId64,
                 SHMT_SHAPE_TEXT(list.data[0]), SHMT_SHAPE_TEXT(list.data[i]), i);
    SHMT_TRY(shmt__sparse_unsqueeze(list.data[i], dim, &wider.data[i]));
  }
  SHMT_TRY(cat_now((shmt_tensors){wider.data, list.len}, dim, &result));
  return shmt__sparse_finish("stack", result, out);
}

shmt_status shmt__sparse_unbind(shmt_tensor* self, int64_t dim, shmt_tensor_vec* out) {
  void* memory = NULL;
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions", dim);
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  const int64_t n = self->sizes[dim];
  if (n == 0) return SHMT_OK;
  uint64_t nbytes;
  SHMT_REQUIRE(shmt__mul_u64((uint64_t)n, sizeof(shmt_tensor*), &nbytes), SHMT_E_NOMEM, "unbind: %" PRId64 " tensors",
               n);
  SHMT_TRY(shmt__alloc_zeroed(nbytes, &memory));
  *out = (shmt_tensor_vec){memory, n};
  for (int64_t i = 0; i < n; i++) SHMT_TRY(shmt__sparse_select(self, dim, i, &out->data[i]));
  return SHMT_OK;
}

/* --- what would need every element ------------------------------------------------------------------------ */

shmt_status shmt__sparse_expand(shmt_tensor* self, shmt_ints size, bool implicit, shmt_tensor** out) {
  (void)self, (void)size, (void)implicit, (void)out;
  SHMT_FAIL(SHMT_E_RUNTIME, "expand is unsupported for %s tensors", shmt__layout_name(self->sparse->layout));
}

shmt_status shmt__sparse_reshape(shmt_tensor* self, shmt_ints shape, shmt_tensor** out) {
  (void)self, (void)shape, (void)out;
  SHMT_FAIL(SHMT_E_RUNTIME, "reshape is not implemented for sparse tensors");
}
