/* ops/sparse/sparse.h -- what operators on sparse tensors share: checked indices, sorting, making results.
 *
 * Note [Checked indices]
 * Indices lie in memory that programs, threads and other processes can write to at any time. An operator therefore
 * copies them first, checks the copies (each element is read once), and works with these. What it makes of them stays
 * inside its sizes, whatever happens to the originals meanwhile.
 */
#ifndef SHMT_OPS_SPARSE_SPARSE_H
#define SHMT_OPS_SPARSE_SPARSE_H

#include "dispatch/operator.h"
#include "ops/outputs.h"
#include "tensor/sparse.h"

static inline bool shmt__is_coo(const shmt_tensor* t) { return t->sparse && t->sparse->layout == SHMT_SPARSE_COO; }
static inline bool shmt__is_compressed(const shmt_tensor* t) {
  return t->sparse && t->sparse->layout != SHMT_SPARSE_COO;
}

/* Checks for sparse_coo. Errors: SHMT_E_RUNTIME "name expected sparse coordinate tensor layout but got Strided". */
shmt_status shmt__require_coo(const char* name, const shmt_tensor* t);

/* --- making ------------------------------------------------------------------------------------ */

/* A tensor in coordinate format; indices and values are taken as they are. New reference. */
shmt_status shmt__make_coo(shmt_ints sizes, int sparse_dim, shmt_tensor* indices, shmt_tensor* values,
                           bool is_coalesced, shmt_tensor** out);
/* A matrix in compressed format. New reference. */
shmt_status shmt__make_compressed(shmt_layout layout, shmt_ints sizes, shmt_tensor* compressed, shmt_tensor* indices,
                                  shmt_tensor* values, shmt_tensor** out);
/* A tensor without entries, of any sparse layout. New reference. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__sparse_empty(shmt_layout layout, shmt_ints sizes, int sparse_dim, shmt_dtype dtype,
                               shmt_tensor** out);
/* like with other values (and their dtype), the indices shared. New reference. */
shmt_status shmt__sparse_with_values(shmt_tensor* like, shmt_tensor* values, shmt_tensor** out);
/* The same with copies of the indices, so that the results share no memory with like. */
shmt_status shmt__sparse_with_new_values(shmt_tensor* like, shmt_tensor* values, shmt_tensor** out);
/* Stores a result in *out where that is NULL; else gives the tensor that is there the parts of the result, for out= and
 * in-place forms. Borrows result. Errors: SHMT_E_RUNTIME where layouts or dtypes do not fit. */
shmt_status shmt__sparse_finish(const char* name, shmt_tensor* result, shmt_tensor** out);

/* --- indices ----------------------------------------------------------------------------------- */

/* The positions of the entries of a COO tensor among its sparse dims, row-major: nnz int64 in memory of its own.
 * Errors: SHMT_E_RUNTIME when an index is out of range. New reference. */
shmt_status shmt__coo_positions(const shmt_tensor* t, shmt_tensor** out);
/* Rows and columns of the entries of a tensor of any sparse layout with two sparse dims, and any dense ones: nnz int64
 * each in memory of their own, checked.
 * New references. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__matrix_entries(const shmt_tensor* t, shmt_tensor** rows, shmt_tensor** columns);
/* The entries of a matrix by rows: row i has those from starts[i] to starts[i + 1] - 1, in their old order. Entry k was
 * at order[k]; order is NULL when nothing moved. columns is in the new order. All are new references. */
shmt_status shmt__group_by_row(int64_t n_rows, const shmt_tensor* rows, const shmt_tensor* columns,
                               shmt_tensor** starts, shmt_tensor** order, shmt_tensor** columns_out);
/* An order that sorts keys (not negative), stable; NULL in *out when they are sorted. *is_strict: no key comes twice.
 * New reference. */
shmt_status shmt__sort_positions(const shmt_tensor* keys, bool* is_strict, shmt_tensor** out);
/* The index of each position in each sparse dim of these sizes, (sizes.len, n) int64. New reference. */
shmt_status shmt__unflatten_positions(const int64_t* positions, int64_t n, shmt_ints sizes, shmt_tensor** out);
/* The values of t, contiguous. New reference. */
shmt_status shmt__sparse_values_dense(const shmt_tensor* t, shmt_tensor** out);
/* t in coordinate format and coalesced; t itself when it is. New reference. */
shmt_status shmt__as_coalesced(shmt_tensor* t, shmt_tensor** out);
static inline int64_t* shmt__int64s(const shmt_tensor* t) { return t ? (int64_t*)shmt__tensor_data(t) : (int64_t*)0; }

/* Adds alpha times the entries of t to dense, which is contiguous and of t's sizes and dtype. */
shmt_status shmt__add_entries(shmt_tensor* dense, shmt_tensor* t, shmt_scalar alpha);

/* --- functions of one tensor that map 0 to 0 ----------------------------------------------------- */

/* Their kernel of the keys SparseCPU and SparseCsrCPU: it calls the operator with the values. */
extern const shmt__kernel shmt__sparse_unary_kernel;

#endif
