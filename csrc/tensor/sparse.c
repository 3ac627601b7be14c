/* tensor/sparse.c -- the parts of sparse tensors: checking, copying and exchanging them. */
#include "tensor/sparse.h"

#include "base/scalar.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <string.h>

const char* shmt__layout_name(shmt_layout layout) {
  static const char* const names[] = {"Strided", "Sparse", "SparseCsr", "SparseCsc", "SparseBsr", "SparseBsc"};
  return layout >= 0 && layout <= SHMT_SPARSE_BSC ? names[layout] : "Undefined";
}

/* --- checks ------------------------------------------------------------------------------------ */

static shmt_status check_dense(const shmt_tensor* part, const char* what) {
  SHMT_REQUIRE(part && !shmt__tensor_is_sparse(part) && part->device == SHMT_CPU, SHMT_E_RUNTIME,
               "expected %s to be a strided tensor on the CPU", what);
  return SHMT_OK;
}

/* Do the values, of nnz rows, have the sizes of the dense dims? They have as many dims as that. */
static shmt_status check_dense_sizes(const shmt_sparse* p, shmt_ints sizes) {
  bool fits = true;
  int64_t expected[SHMT_MAX_DIMS + 1] = {p->values->sizes[0]};
  for (int d = 0; d < p->dense_dim; d++) {
    expected[1 + d] = sizes.data[p->sparse_dim + d];
    fits = fits && p->values->sizes[1 + d] == expected[1 + d];
  }
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "values has incorrect size, expected %s, got %s",
               shmt__ints_text((shmt_ints){expected, 1 + p->dense_dim}, (char[256]){0}, 256),
               SHMT_SHAPE_TEXT(p->values));
  return SHMT_OK;
}

static shmt_status check_coo(const shmt_sparse* p, shmt_ints sizes) {
  SHMT_REQUIRE(p->indices->dtype == SHMT_INT64, SHMT_E_RUNTIME, "indices must be an int64 tensor");
  SHMT_REQUIRE(p->indices->n_dims == 2, SHMT_E_RUNTIME, "indices must be sparse_dim x nnz, but got: %s",
               SHMT_SHAPE_TEXT(p->indices));
  SHMT_REQUIRE(p->values->n_dims == 1 + p->dense_dim && p->indices->sizes[0] == p->sparse_dim &&
                   sizes.len == p->sparse_dim + p->dense_dim,
               SHMT_E_RUNTIME,
               "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %" PRId64 ", sparse_dim = %" PRId64
               ", dense_dim = %d",
               sizes.len, p->indices->sizes[0], p->values->n_dims - 1);
  SHMT_REQUIRE(p->indices->sizes[1] == p->values->sizes[0], SHMT_E_RUNTIME,
               "indices and values must have same nnz, but got nnz from indices: %" PRId64
               ", nnz from values: %" PRId64,
               p->indices->sizes[1], p->values->sizes[0]);
  return check_dense_sizes(p, sizes);
}

static shmt_status check_compressed(const shmt_sparse* p, shmt_ints sizes) {
  const shmt_tensor *compressed = p->compressed, *plain = p->indices;
  SHMT_TRY(check_dense(compressed, "the compressed indices"));
  SHMT_REQUIRE(p->layout == SHMT_SPARSE_CSR || p->layout == SHMT_SPARSE_CSC, SHMT_E_RUNTIME,
               "there are no tensors of layout %s", shmt__layout_name(p->layout));
  SHMT_REQUIRE(compressed->n_dims == 1 && plain->n_dims == 1, SHMT_E_RUNTIME,
               "tensors in compressed format have no batches: expected indices of one dimension, but got %s and %s",
               SHMT_SHAPE_TEXT(compressed), SHMT_SHAPE_TEXT(plain));
  SHMT_REQUIRE(p->sparse_dim == 2 && sizes.len == 2 + p->dense_dim && p->values->n_dims == 1 + p->dense_dim,
               SHMT_E_RUNTIME,
               "tensors in compressed format have two sparse dimensions and those of a value, but the size is %s and "
               "values have size %s",
               shmt__ints_text(sizes, (char[256]){0}, 256), SHMT_SHAPE_TEXT(p->values));
  SHMT_REQUIRE((plain->dtype == SHMT_INT64 || plain->dtype == SHMT_INT32) && plain->dtype == compressed->dtype,
               SHMT_E_RUNTIME, "compressed_indices and plain_indices must be of the same dtype, int32 or int64");
  const bool is_csr = p->layout == SHMT_SPARSE_CSR;
  const int64_t rows = sizes.data[is_csr ? 0 : 1];
  SHMT_REQUIRE(compressed->sizes[0] - 1 == rows, SHMT_E_RUNTIME,
               "%s.shape[-1] must be equal to the number of %s + 1 (=%" PRIu64 "), but got %" PRId64,
               is_csr ? "crow_indices" : "ccol_indices", is_csr ? "rows" : "columns", (uint64_t)rows + 1,
               compressed->sizes[0]);
  SHMT_REQUIRE(plain->sizes[0] == p->values->sizes[0], SHMT_E_RUNTIME,
               "%s.shape[-1] must be equal to nnz (=%" PRId64 ") as defined by values.shape[0], but got %" PRId64,
               is_csr ? "col_indices" : "row_indices", p->values->sizes[0], plain->sizes[0]);
  return check_dense_sizes(p, sizes);
}

shmt_status shmt__sparse_check(const shmt_sparse* p, shmt_ints sizes, shmt_dtype dtype) {
  int64_t numel = 1; /* that it fits says that flattened indices do, also where a size is 0 */
  for (int64_t d = 0; d < sizes.len; d++)
    SHMT_REQUIRE(sizes.data[d] < 0 || !__builtin_mul_overflow(numel, sizes.data[d], &numel), SHMT_E_RUNTIME,
                 "numel: integer multiplication overflow");
  SHMT_TRY(shmt__checked_numel(sizes, &numel));
  SHMT_TRY(check_dense(p->indices, "indices"));
  SHMT_TRY(check_dense(p->values, "values"));
  SHMT_REQUIRE(p->values->dtype == dtype && !shmt__tensor_is_conj_neg(p->values), SHMT_E_RUNTIME,
               "the values of a sparse tensor must have its dtype, and be no conj or neg view");
  return p->layout == SHMT_SPARSE_COO ? check_coo(p, sizes) : check_compressed(p, sizes);
}

static shmt_status check_memory(const shmt_tensor* t, const char* what) {
  uint64_t nbytes;
  if (!t || t->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt__storage_bytes_for(shmt__tensor_sizes(t), shmt__tensor_strides(t), t->offset,
                                   shmt__tensor_item_bytes(t), &nbytes));
  SHMT_REQUIRE(nbytes <= t->storage->nbytes, SHMT_E_RUNTIME,
               "the %s of a sparse tensor need %" PRIu64 " bytes, but their storage was resized to %" PRIu64, what,
               nbytes, t->storage->nbytes);
  return SHMT_OK;
}

shmt_status shmt__sparse_check_memory(const shmt_sparse* p) {
  SHMT_TRY(check_memory(p->compressed, "compressed indices"));
  SHMT_TRY(check_memory(p->indices, "indices"));
  return check_memory(p->values, "values");
}

int64_t shmt__sparse_numel(shmt_ints sizes) {
  int64_t numel = 1;
  for (int64_t d = 0; d < sizes.len; d++) numel *= sizes.data[d];
  return numel;
}

/* --- life -------------------------------------------------------------------------------------- */

shmt_status shmt__sparse_copy(const shmt_sparse* parts, shmt_sparse** out) {
  void* memory = NULL;
  SHMT_TRY(shmt__alloc(sizeof(shmt_sparse), &memory));
  shmt_sparse* p = memory;
  *p = *parts;
  if (p->compressed) shmt_tensor_retain(p->compressed);
  shmt_tensor_retain(p->indices);
  shmt_tensor_retain(p->values);
  *out = p;
  return SHMT_OK;
}

/* --- one element -------------------------------------------------------------------------------- */

shmt_status shmt__sparse_item(const shmt_tensor* t, shmt_scalar* out) {
  const shmt_tensor* values = t->sparse->values;
  const int64_t item = shmt__tensor_item_bytes(t);
  const int kind = shmt__dtype_kind[t->dtype];
  SHMT_TRY(shmt__sparse_check_memory(t->sparse));
  const char* at = shmt__tensor_data(values);
  double real = 0, imag = 0;
  uint64_t whole = 0;
  /* One element: the dense dims have size 1 each, so the values are nnz numbers. */
  for (int64_t i = 0; i < values->numel; i++) {
    const shmt_scalar s = shmt__scalar_load(at + i * values->strides[0] * item, t->dtype);
    if (kind == SHMT_KIND_COMPLEX) {
      real += s.v.z[0];
      imag += s.v.z[1];
    } else if (kind == SHMT_KIND_FLOATING) {
      real += s.v.d;
    } else {
      whole += (uint64_t)shmt__scalar_to_int64(s);
    }
  }
  if (kind == SHMT_KIND_COMPLEX) {
    *out = (shmt_scalar){.v.z = {real, imag}, .tag = SHMT_SCALAR_COMPLEX};
    return SHMT_OK;
  }
  if (kind == SHMT_KIND_BOOL)
    *out = shmt__scalar_bool(whole != 0);
  else
    *out = kind == SHMT_KIND_FLOATING ? shmt__scalar_float(real) : shmt__scalar_int((int64_t)whole);
  return SHMT_OK;
}
