/* ops/sparse/convert.c -- between layouts: dense from entries, entries from dense, coordinates from and to
 * compressed. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "kernels/sparse/sparse.h"
#include "ops/check.h"
#include "ops/sparse/sparse.h"

#include <inttypes.h>
#include <string.h>

/* --- to dense ----------------------------------------------------------------------------------- */

enum { GRAIN_ELEMENTS = 1 << 14 };

typedef struct add_job {
  shmt__loop loop;
  shmt__sparse_args args;
  char *out, *values;
  int64_t nnz, row_bytes;
  bool by_columns; /* several entries may have one place, so that threads share the columns */
} add_job;

static void add_some(void* ctx, int64_t begin, int64_t end) {
  const add_job* job = ctx;
  shmt__sparse_args args = job->args;
  if (job->by_columns) {
    args.step = begin;
    args.width = end - begin;
    job->loop((char* const[]){job->out, job->values}, NULL, job->nnz, &args);
    return;
  }
  args.rows += begin;
  job->loop((char* const[]){job->out, job->values + begin * job->row_bytes}, NULL, end - begin, &args);
}

/* The positions of entries in a matrix, row-major. */
static shmt_status matrix_positions(const shmt_tensor* t, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) columns = NULL;
  SHMT_TRY(shmt__matrix_entries(t, &rows, &columns));
  int64_t* to = shmt__int64s(rows);
  for (int64_t k = 0; k < rows->numel; k++) to[k] = to[k] * t->sizes[1] + shmt__int64s(columns)[k];
  *out = SHMT_TAKE(rows);
  return SHMT_OK;
}

/* The position of each entry among the sparse dims; checked, in memory of its own. */
static shmt_status positions_of(const shmt_tensor* t, shmt_tensor** out) {
  return shmt__is_coo(t) ? shmt__coo_positions(t, out) : matrix_positions(t, out);
}

shmt_status shmt__add_entries(shmt_tensor* dense, shmt_tensor* t, shmt_scalar alpha) {
  SHMT_AUTO(shmt_tensor) row_positions = NULL;
  SHMT_AUTO(shmt_tensor) cast = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  bool is_strict = true;

  SHMT_REQUIRE_LOOP(SHMT_LOOP_sparse_add_rows, dense->dtype, "add_dense_sparse");
  SHMT_TRY(positions_of(t, &row_positions));
  SHMT_TRY(shmt__tensor_cast(t->sparse->values, dense->dtype, &cast));
  SHMT_TRY(shmt__tensor_contiguous(cast, SHMT_CONTIGUOUS_FORMAT, &values));
  const int64_t width = shmt__tensor_extent(values, 1, values->n_dims), n = row_positions->numel;
  if (width == 0 || n == 0) return SHMT_OK;
  int64_t* place = shmt__int64s(row_positions);
  for (int64_t k = 1; k < n && is_strict; k++) is_strict = place[k - 1] < place[k];
  for (int64_t k = 0; k < n; k++) place[k] *= width;
  add_job job = {.loop = shmt__loops[SHMT_LOOP_sparse_add_rows][dense->dtype],
                 .args = {.alpha = alpha, .rows = place, .width = width, .step2 = width},
                 .out = shmt__tensor_data(dense),
                 .values = shmt__tensor_data(values),
                 .nnz = n,
                 .row_bytes = width * shmt__tensor_item_bytes(values),
                 .by_columns = !is_strict};
  /* Entries whose positions increase write to different rows. */
  if (is_strict)
    shmt__parallel_for(n, GRAIN_ELEMENTS / width + 1, add_some, &job);
  else
    shmt__parallel_for(width, GRAIN_ELEMENTS / n + 16, add_some, &job);
  return SHMT_OK;
}

shmt_status shmt__sparse_to_dense(shmt_tensor* self, shmt_dtype dtype, bool masked_grad, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  (void)masked_grad;
  SHMT_REQUIRE(dtype == SHMT_DTYPE_NONE, SHMT_E_RUNTIME, "dtype argument is not supported by sparse_to_dense");
  SHMT_TRY(shmt__tensor_zeros(shmt__tensor_sizes(self), self->dtype, SHMT_CPU, &dense));
  SHMT_TRY(shmt__add_entries(dense, self, shmt__scalar_int(1)));
  *out = SHMT_TAKE(dense);
  return SHMT_OK;
}

/* --- dense to coordinates -------------------------------------------------------------------------- */

/* Which of n rows of row_bytes have an element that is not zero; returns how many. -0.0 counts as zero, as in torch. */
static shmt_status nonzero_rows(shmt_tensor* dense, int sparse_dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) mask = NULL;
  SHMT_AUTO(shmt_tensor) any = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  if (dense->numel == 0) /* its sizes may have any product */
    return shmt__tensor_empty(SHMT_INTS(0), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out);
  const int64_t rows = shmt__tensor_extent(dense, 0, sparse_dim),
                width = shmt__tensor_extent(dense, sparse_dim, dense->n_dims);
  SHMT_TRY(
      shmt__tensor_alias(dense, SHMT_INTS(rows, width), SHMT_INTS(width > 0 ? width : 1, 1), dense->offset, &flat));
  SHMT_TRY(shmt_op_ne_Scalar_below(SHMT_KEYBIT_CPU, flat, shmt__scalar_int(0), &mask));
  SHMT_TRY(shmt_op_any_dim_below(SHMT_KEYBIT_CPU, mask, 1, false, &any));
  SHMT_TRY(shmt_op_nonzero_below(SHMT_KEYBIT_CPU, any, &found));
  return shmt_op_squeeze_dim(found, 1, out);
}

static shmt_status dense_to_coo(shmt_tensor* self, int64_t sparse_dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) row_positions = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(sparse_dim >= 0 && sparse_dim <= self->n_dims, SHMT_E_RUNTIME,
               "dense_to_sparse: sparse_dim argument must be in [0,%d] range, but %" PRId64 " is given",
               (int)self->n_dims, sparse_dim);
  SHMT_REQUIRE(sparse_dim > 0 || self->n_dims == 0, SHMT_E_RUNTIME,
               "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0");
  SHMT_REQUIRE(self->n_dims < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims", SHMT_MAX_DIMS - 1);
  SHMT_REQUIRE(!shmt__tensor_is_meta(self), SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(nonzero_rows(dense, (int)sparse_dim, &rows));
  SHMT_TRY(shmt__tensor_contiguous(rows, SHMT_CONTIGUOUS_FORMAT, &row_positions));
  const int64_t n = row_positions->numel;
  SHMT_TRY(shmt__unflatten_positions(shmt__int64s(row_positions), n, (shmt_ints){self->sizes, sparse_dim}, &indices));
  sizes[0] = n;
  for (int64_t d = sparse_dim; d < self->n_dims; d++) sizes[1 + d - sparse_dim] = self->sizes[d];
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, 1 + self->n_dims - sparse_dim}, self->dtype, SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, &values));
  const int64_t row_bytes =
      shmt__wrap_mul_i64(shmt__tensor_extent(self, sparse_dim, self->n_dims), shmt__tensor_item_bytes(self));
  char* to = shmt__tensor_data(values);
  const char* from = shmt__tensor_data(dense);
  for (int64_t k = 0; k < n && row_bytes > 0; k++)
    memcpy(to + k * row_bytes, from + shmt__int64s(row_positions)[k] * row_bytes, (size_t)row_bytes);
  return shmt__make_coo(shmt__tensor_sizes(self), (int)sparse_dim, indices, values, true, out);
}

/* --- coordinates and compressed ---------------------------------------------------------------------- */

static shmt_status compressed_to_coo(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) columns = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) raw = NULL;
  bool is_coalesced = true;
  SHMT_TRY(shmt__matrix_entries(self, &rows, &columns));
  const int64_t n = rows->numel, *row = shmt__int64s(rows), *column = shmt__int64s(columns);
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(2, n), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &indices));
  if (n > 0) {
    memcpy(shmt__int64s(indices), row, (size_t)n * sizeof *row);
    memcpy(shmt__int64s(indices) + n, column, (size_t)n * sizeof *column);
  }
  for (int64_t k = 1; k < n && is_coalesced; k++)
    is_coalesced = row[k - 1] < row[k] || (row[k - 1] == row[k] && column[k - 1] < column[k]);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self->sparse->values), self->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT,
                              &values));
  SHMT_TRY(shmt__tensor_copy(values, self->sparse->values));
  SHMT_TRY(shmt__make_coo(shmt__tensor_sizes(self), 2, indices, values, is_coalesced, &raw));
  if (is_coalesced) {
    *out = SHMT_TAKE(raw);
    return SHMT_OK;
  }
  return shmt__sparse_coalesce(raw, out); /* sorted by columns */
}

shmt_status shmt__as_coalesced(shmt_tensor* t, shmt_tensor** out) {
  if (shmt__is_compressed(t)) return compressed_to_coo(t, out);
  if (!t->sparse->is_coalesced) return shmt__sparse_coalesce(t, out);
  *out = shmt__tensor_ref(t);
  return SHMT_OK;
}

/* coo is coalesced, and has two sparse dims. */
static shmt_status coo_to_compressed(shmt_tensor* coo, shmt_layout layout, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) columns = NULL;
  SHMT_AUTO(shmt_tensor) starts = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) plain = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_TRY(shmt__matrix_entries(coo, &rows, &columns));
  const bool is_csr = layout == SHMT_SPARSE_CSR;
  SHMT_TRY(shmt__group_by_row(coo->sizes[is_csr ? 0 : 1], is_csr ? rows : columns, is_csr ? columns : rows, &starts,
                              &order, &plain));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(coo->sparse->values), coo->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT,
                              &values));
  if (!order) {
    SHMT_TRY(shmt__tensor_copy(values, coo->sparse->values));
  } else {
    SHMT_AUTO(shmt_tensor) moved = NULL;
    SHMT_TRY(shmt_op_index_select_below(SHMT_KEYBIT_CPU, coo->sparse->values, 0, order, &moved));
    SHMT_TRY(shmt__tensor_copy(values, moved));
  }
  return shmt__make_compressed(layout, shmt__tensor_sizes(coo), starts, plain, values, out);
}

/* sparse_dim: of a dense tensor, how many of its dims become sparse. */
static shmt_status to_compressed(shmt_tensor* self, shmt_layout layout, int64_t sparse_dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coo = NULL;
  SHMT_REQUIRE(layout == SHMT_SPARSE_CSR || layout == SHMT_SPARSE_CSC, SHMT_E_NOT_IMPLEMENTED,
               "to_sparse: there are no tensors of layout %s", shmt__layout_name(layout));
  if (self->sparse) sparse_dim = self->sparse->sparse_dim;
  SHMT_REQUIRE(sparse_dim == 2, SHMT_E_RUNTIME,
               "to_sparse: layout %s is for two sparse dimensions without batches, but there are %" PRId64
               "; dense_dim says how many of %d dimensions stay dense",
               shmt__layout_name(layout), sparse_dim, (int)self->n_dims);
  if (self->sparse)
    SHMT_TRY(shmt__as_coalesced(self, &coo));
  else
    SHMT_TRY(dense_to_coo(self, 2, &coo));
  return coo_to_compressed(coo, layout, out);
}

shmt_status shmt__to_layout_now(shmt_tensor* self, shmt_layout layout, int64_t sparse_dim, shmt_tensor** out) {
  SHMT_REQUIRE(layout != shmt__tensor_layout(self), SHMT_E_RUNTIME, "the tensor has layout %s already",
               shmt__layout_name(layout));
  if (layout == SHMT_STRIDED) return shmt__sparse_to_dense(self, SHMT_DTYPE_NONE, true, out);
  if (layout != SHMT_SPARSE_COO) return to_compressed(self, layout, sparse_dim, out);
  return self->sparse ? compressed_to_coo(self, out) : dense_to_coo(self, sparse_dim, out);
}

/* --- the operators that programs call ------------------------------------------------------------------ */

/* self in another layout; self itself where it has it. */
static shmt_status in_layout(shmt_tensor* self, shmt_layout layout, int64_t sparse_dim, shmt_tensor** out) {
  if (layout != shmt__tensor_layout(self)) return shmt_op__to_layout(self, layout, sparse_dim, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

shmt_status shmt__to_sparse_dim(shmt_tensor* self, int64_t sparse_dim, shmt_tensor** out) {
  if (self->sparse) {
    SHMT_REQUIRE(
        self->sparse->sparse_dim == sparse_dim, SHMT_E_RUNTIME,
        "to_sparse: conversion from %s to Sparse with sparse_dim argument !=self.sparse_dim() is not supported",
        shmt__layout_name(self->sparse->layout));
  }
  return in_layout(self, SHMT_SPARSE_COO, sparse_dim, out);
}

shmt_status shmt__to_sparse(shmt_tensor* self, shmt_layout layout, shmt_ints blocksize, shmt_opt_int dense_dim,
                            shmt_tensor** out) {
  if (layout == SHMT_LAYOUT_NONE) layout = SHMT_SPARSE_COO;
  SHMT_REQUIRE(blocksize.len <= 0, SHMT_E_RUNTIME,
               "to_sparse: blocksize is for block layouts, and there are no tensors of these");
  const int64_t n_dense = dense_dim.has ? dense_dim.value : 0;
  SHMT_REQUIRE(n_dense >= 0 && n_dense <= self->n_dims, SHMT_E_RUNTIME,
               "to_sparse: %" PRId64 " dense dimensions of a tensor of %d with layout %s", n_dense, (int)self->n_dims,
               shmt__layout_name(layout));
  return in_layout(self, layout, self->n_dims - n_dense, out);
}

shmt_status shmt__as_layout_of(shmt_tensor* self, shmt_tensor* like, shmt_tensor** out) {
  const int sparse_dim = like->sparse ? like->sparse->sparse_dim : 0;
  return in_layout(self, shmt__tensor_layout(like), sparse_dim, out);
}

shmt_status shmt__to_dense_backward(shmt_tensor* grad, shmt_tensor* self, bool masked_grad, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) plain = NULL;
  SHMT_AUTO(shmt_tensor) pattern = NULL;
  if (!masked_grad || grad->sparse) return shmt_op__as_layout_of(grad, self, out);
  SHMT_TRY(shmt_op_detach(self, &plain));
  if (shmt__is_coo(plain))
    SHMT_TRY(shmt_op_coalesce(plain, &pattern)); /* a place with several entries has one gradient */
  else
    pattern = shmt__tensor_ref(plain);
  return shmt_op_sparse_mask(grad, pattern, out);
}

/* --- sparse_mask ---------------------------------------------------------------------------------------- */

/* Copies the rows of a coalesced tensor's values that lie at the wanted positions; other rows stay zeros. */
static shmt_status find_rows(shmt_tensor* coalesced, const shmt_tensor* wanted, int64_t row_bytes, char* to) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_TRY(shmt__coo_positions(coalesced, &positions));
  SHMT_TRY(shmt__sparse_values_dense(coalesced, &values));
  const int64_t n = positions->numel, *have = shmt__int64s(positions);
  for (int64_t k = 0; k < wanted->numel; k++) {
    const int64_t want = shmt__int64s(wanted)[k];
    int64_t low = 0, high = n;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (have[middle] < want)
        low = middle + 1;
      else
        high = middle;
    }
    if (low < n && have[low] == want)
      memcpy(to + k * row_bytes, (char*)shmt__tensor_data(values) + low * row_bytes, (size_t)row_bytes);
  }
  return SHMT_OK;
}

/* The elements of self, dense or sparse, at the places of mask's entries. */
static shmt_status elements_at(shmt_tensor* self, const shmt_tensor* mask, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wanted = NULL;
  SHMT_AUTO(shmt_tensor) source = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  const shmt_tensor* like = mask->sparse->values;
  SHMT_TRY(positions_of(mask, &wanted));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(like), self->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &values));
  const int64_t row_bytes =
      shmt__wrap_mul_i64(shmt__tensor_extent(like, 1, like->n_dims), shmt__tensor_item_bytes(self));
  char* to = shmt__tensor_data(values);
  if (row_bytes > 0 && wanted->numel > 0) {
    if (self->sparse) {
      SHMT_TRY(shmt__as_coalesced(self, &source));
      SHMT_REQUIRE(source->sparse->sparse_dim == mask->sparse->sparse_dim, SHMT_E_RUNTIME,
                   "sparse_mask(): the number of sparse dimensions in `self` should match that of the `mask`. Got "
                   "`self.sparse_dim() "
                   "== %d` != `mask.sparse_dim() == %d`.",
                   (int)source->sparse->sparse_dim, (int)mask->sparse->sparse_dim);
      memset(to, 0, (size_t)(wanted->numel * row_bytes));
      SHMT_TRY(find_rows(source, wanted, row_bytes, to));
    } else {
      SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &source));
      const char* from = shmt__tensor_data(source);
      for (int64_t k = 0; k < wanted->numel; k++)
        memcpy(to + k * row_bytes, from + shmt__int64s(wanted)[k] * row_bytes, (size_t)row_bytes);
    }
  }
  *out = SHMT_TAKE(values);
  return SHMT_OK;
}

static shmt_status check_mask(const shmt_tensor* self, const shmt_tensor* mask) {
  SHMT_REQUIRE(mask->sparse, SHMT_E_RUNTIME, "sparse_mask(): the mask must be sparse, but it has layout Strided");
  SHMT_REQUIRE(shmt__same_sizes(self, mask), SHMT_E_RUNTIME,
               "sparse_mask(): operands have incompatible sizes; self has size %s but mask has size %s",
               SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(mask));
  return SHMT_OK;
}

shmt_status shmt__sparse_mask(shmt_tensor* self, shmt_tensor* mask, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_TRY(check_mask(self, mask));
  SHMT_REQUIRE(!shmt__tensor_is_meta(self), SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  SHMT_TRY(elements_at(self, mask, &values));
  return shmt__sparse_with_new_values(mask, values, out);
}

shmt_status shmt__sparse_values_at(shmt_tensor* self, shmt_tensor* mask, shmt_tensor** out) {
  SHMT_TRY(check_mask(self, mask));
  return elements_at(self, mask, out);
}

shmt_status shmt__sparse_values_at_backward(shmt_tensor* grad, shmt_tensor* mask, shmt_tensor* self,
                                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) entries = NULL;
  SHMT_TRY(shmt__sparse_values_backward(grad, mask, &entries));
  return shmt_op__as_layout_of(entries, self, out);
}

shmt_status shmt__sparse_mask_backward(shmt_tensor* grad, shmt_tensor* mask, shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_TRY(shmt_op__sparse_values_at(grad, mask, &values));
  return shmt__sparse_values_at_backward(values, mask, self, out);
}
