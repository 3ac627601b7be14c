/* tensor/sparse.h -- what a sparse tensor has instead of elements in a storage: indices and values.
 *
 * Note [Sparse tensors]
 * A sparse tensor is a shmt_tensor whose `sparse` is set. Its storage is empty, its strides are 0, and it has none of
 * the geometry flags. Its keys have a sparse backend in place of CPU, so no kernel for dense tensors is called with it.
 *
 *   sparse_coo              indices (sparse_dim, nnz) int64; values (nnz, the sizes of the dense dims)
 *   sparse_csr, sparse_csc  compressed (rows + 1 or columns + 1), indices (nnz), both int32 or int64; values (nnz, the
 *                           sizes of the dense dims)
 *
 * The parts are dense tensors of their own. Their shapes are checked when they are set, and do not change afterwards,
 * since nobody else has these headers. Their elements may change at any time: Python programs get tensors over the same
 * memory, and so may other processes. So whoever uses an index checks it at that moment, in memory of its own.
 */
#ifndef SHMT_TENSOR_SPARSE_H
#define SHMT_TENSOR_SPARSE_H

#include "tensor/tensor.h"

struct shmt_sparse {
  shmt_layout layout;
  uint8_t sparse_dim;
  uint8_t dense_dim;
  bool is_coalesced;       /* COO: the columns of indices are said to increase, row-major */
  shmt_tensor* compressed; /* owned, as the others; NULL for COO */
  shmt_tensor* indices;
  shmt_tensor* values;
};

/* A sparse tensor of these parts, which it takes new references of. New reference.
 * Errors: those of shmt__sparse_check, SHMT_E_NOMEM. */
shmt_status shmt__tensor_sparse(const shmt_sparse* parts, shmt_ints sizes, shmt_dtype dtype, shmt_tensor** out);
/* Another tensor with the same parts; sizes and dtype must be those of src. New reference. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__tensor_sparse_alias(shmt_tensor* src, shmt_dtype dtype, shmt_ints sizes, shmt_tensor** out);
/* Give the sparse tensor t other parts, and other sizes unless sizes.len is -1. The layout stays.
 * Errors: those of shmt__sparse_check. */
shmt_status shmt__tensor_set_sparse(shmt_tensor* t, const shmt_sparse* parts, shmt_ints sizes);

/* Do the parts fit together, and the sizes? Indices are not looked at. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__sparse_check(const shmt_sparse* parts, shmt_ints sizes, shmt_dtype dtype);
/* Do the storages of the parts still have all their bytes? Programs may have shrunk them. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__sparse_check_memory(const shmt_sparse* parts);
/* A copy with references of its own. Errors: SHMT_E_NOMEM. */
shmt_status shmt__sparse_copy(const shmt_sparse* parts, shmt_sparse** out);
void shmt__sparse_free(shmt_sparse* parts); /* NULL is fine */
/* The product of checked sizes. */
int64_t shmt__sparse_numel(shmt_ints sizes);
/* The keys of a tensor of that layout which say where its elements are. */
static inline shmt_keyset shmt__sparse_keys(shmt_layout layout) {
  return SHMT_KEYBIT_AutogradSparse | (layout == SHMT_SPARSE_COO ? SHMT_KEYBIT_SparseCPU : SHMT_KEYBIT_SparseCsrCPU);
}
/* The one element of a sparse tensor of one element. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__sparse_item(const shmt_tensor* t, shmt_scalar* out);
/* "Strided", "Sparse", "SparseCsr", ...: what messages call a layout. */
const char* shmt__layout_name(shmt_layout layout);

static inline shmt_layout shmt__tensor_layout(const shmt_tensor* t) {
  return t->sparse ? t->sparse->layout : SHMT_STRIDED;
}
static inline int64_t shmt__sparse_nnz(const shmt_sparse* parts) { return parts->values->sizes[0]; }

#endif
