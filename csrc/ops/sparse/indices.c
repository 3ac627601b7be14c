/* ops/sparse/indices.c -- indices of sparse tensors, copied and checked: positions, rows and columns, sorting. */
#include "base/overflow.h"
#include "iter/copy/copy.h"
#include "ops/sparse/sparse.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <string.h>

static SHMT_COLD shmt_status fail_index(int64_t index, int64_t dim, int64_t size) {
  SHMT_REQUIRE(index >= 0, SHMT_E_RUNTIME, "found negative index %" PRId64 " for dim %" PRId64, index, dim);
  SHMT_FAIL(SHMT_E_RUNTIME,
            "size is inconsistent with indices: for dim %" PRId64 ", size is %" PRId64 " but found index %" PRId64, dim,
            size, index);
}

/* to[k] = to[k] * size + the index of entry k in one dim, or without the first term. */
static shmt_status add_dim(const shmt_tensor* indices, int64_t dim, int64_t size, bool is_first, int64_t* to) {
  const int64_t n = indices->sizes[1], step = indices->strides[1];
  /* Another thread or process may write to it: each element is read once. */
  const volatile int64_t* from = (const int64_t*)shmt__tensor_data(indices) + dim * indices->strides[0];
  for (int64_t k = 0; k < n; k++) {
    const int64_t index = from[k * step];
    if (SHMT_UNLIKELY((uint64_t)index >= (uint64_t)size)) return fail_index(index, dim, size);
    to[k] = is_first ? index : to[k] * size + index;
  }
  return SHMT_OK;
}

shmt_status shmt__coo_positions(const shmt_tensor* t, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  const shmt_sparse* p = t->sparse;
  SHMT_TRY(shmt__sparse_check_memory(p));
  SHMT_TRY(shmt__new_int64s(shmt__sparse_nnz(p), &positions));
  int64_t* to = shmt__tensor_data(positions);
  if (positions->numel > 0) {
    if (p->sparse_dim == 0) memset(to, 0, (size_t)positions->numel * sizeof *to);
    for (int d = 0; d < p->sparse_dim; d++) SHMT_TRY(add_dim(p->indices, d, t->sizes[d], d == 0, to));
  }
  *out = SHMT_TAKE(positions);
  return SHMT_OK;
}

/* --- rows and columns ----------------------------------------------------------------------------- */

static inline int64_t read_index(const shmt_tensor* t, int64_t i) {
  if (t->dtype == SHMT_INT32) return ((const volatile int32_t*)shmt__tensor_data(t))[i * t->strides[0]];
  return ((const volatile int64_t*)shmt__tensor_data(t))[i * t->strides[0]];
}

/* The rows (of CSR; the columns of CSC) that compressed indices stand for. */
static shmt_status expand_compressed(const shmt_sparse* p, int64_t n_rows, int64_t* to) {
  const int64_t nnz = shmt__sparse_nnz(p);
  const bool is_csr = p->layout == SHMT_SPARSE_CSR;
  const char* const name = is_csr ? "crow_indices" : "ccol_indices";
  int64_t at = read_index(p->compressed, 0);
  SHMT_REQUIRE(at == 0, SHMT_E_RUNTIME, "`%s[..., 0] == 0` is not satisfied.", name);
  for (int64_t i = 0; i < n_rows; i++) {
    const int64_t end = read_index(p->compressed, i + 1);
    SHMT_REQUIRE(end >= at && end <= nnz, SHMT_E_RUNTIME,
                 "`0 <= %s[..., 1:] - %s[..., :-1] <= %s` is not satisfied.", name, name, is_csr ? "ncols" : "nrows");
    for (; at < end; at++) to[at] = i;
  }
  SHMT_REQUIRE(at == nnz, SHMT_E_RUNTIME, "`%s[..., -1] == nnz` is not satisfied.", name);
  return SHMT_OK;
}

static shmt_status copy_plain(const shmt_sparse* p, int64_t size, int64_t* to) {
  const int64_t nnz = shmt__sparse_nnz(p);
  const bool is_csr = p->layout == SHMT_SPARSE_CSR;
  for (int64_t k = 0; k < nnz; k++) {
    const int64_t index = read_index(p->indices, k);
    SHMT_REQUIRE((uint64_t)index < (uint64_t)size, SHMT_E_RUNTIME, "`0 <= %s < %s` is not satisfied.",
                 is_csr ? "col_indices" : "row_indices", is_csr ? "ncols" : "nrows");
    to[k] = index;
  }
  return SHMT_OK;
}

shmt_status shmt__matrix_entries(const shmt_tensor* t, shmt_tensor** rows, shmt_tensor** columns) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  const shmt_sparse* p = t->sparse;
  SHMT_REQUIRE(p->sparse_dim == 2, SHMT_E_RUNTIME,
               "expected a tensor with two sparse dimensions, but got %d sparse and %d dense dimensions",
               (int)p->sparse_dim, (int)p->dense_dim);
  SHMT_TRY(shmt__sparse_check_memory(p));
  SHMT_TRY(shmt__new_int64s(shmt__sparse_nnz(p), &first));
  SHMT_TRY(shmt__new_int64s(shmt__sparse_nnz(p), &second));
  if (p->layout == SHMT_SPARSE_COO) {
    if (first->numel > 0) {
      SHMT_TRY(add_dim(p->indices, 0, t->sizes[0], true, shmt__int64s(first)));
      SHMT_TRY(add_dim(p->indices, 1, t->sizes[1], true, shmt__int64s(second)));
    }
  } else {
    const int by = p->layout == SHMT_SPARSE_CSR ? 0 : 1;
    SHMT_TRY(expand_compressed(p, t->sizes[by], shmt__int64s(by == 0 ? first : second)));
    SHMT_TRY(copy_plain(p, t->sizes[1 - by], shmt__int64s(by == 0 ? second : first)));
  }
  *rows = SHMT_TAKE(first);
  *columns = SHMT_TAKE(second);
  return SHMT_OK;
}

shmt_status shmt__group_by_row(int64_t n_rows, const shmt_tensor* rows, const shmt_tensor* columns,
                               shmt_tensor** starts, shmt_tensor** order, shmt_tensor** columns_out) {
  SHMT_AUTO(shmt_tensor) begin = NULL;
  SHMT_AUTO(shmt_tensor) moved = NULL;
  SHMT_AUTO(shmt_tensor) sorted = NULL;
  const int64_t n = rows->numel, *row = shmt__int64s(rows), *column = shmt__int64s(columns);
  int64_t entries;
  bool is_sorted = true;

  SHMT_REQUIRE(shmt__add_i64(n_rows, 1, &entries), SHMT_E_RUNTIME, "a matrix of %" PRId64 " rows is too large", n_rows);
  SHMT_TRY(shmt__tensor_zeros(SHMT_INTS(entries), SHMT_INT64, SHMT_CPU, &begin));
  int64_t* start = shmt__int64s(begin);
  for (int64_t k = 0; k < n; k++) {
    start[row[k] + 1]++;
    is_sorted = is_sorted && (k == 0 || row[k - 1] <= row[k]);
  }
  for (int64_t i = 0; i < n_rows; i++) start[i + 1] += start[i];
  if (!is_sorted) {
    SHMT_TRY(shmt__new_int64s(n, &moved));
    SHMT_TRY(shmt__new_int64s(n, &sorted));
    int64_t *from = shmt__int64s(moved), *to = shmt__int64s(sorted);
    for (int64_t k = 0; k < n; k++) {
      const int64_t at = start[row[k]]++;
      from[at] = k;
      to[at] = column[k];
    }
    /* Each start has moved to the end of its row, which is the start of the next. */
    memmove(start + 1, start, (size_t)n_rows * sizeof *start);
    start[0] = 0;
  }
  *starts = SHMT_TAKE(begin);
  *order = SHMT_TAKE(moved);
  *columns_out = sorted ? SHMT_TAKE(sorted) : shmt__tensor_ref((shmt_tensor*)columns);
  return SHMT_OK;
}

/* --- sorting -------------------------------------------------------------------------------------- */

enum { RADIX_BITS = 11, BUCKETS = 1 << RADIX_BITS };

/* One pass: order by the bits from shift on, from one list of entries to another. */
static void radix_pass(const int64_t* keys, const int64_t* from, int64_t* to, int64_t n, int shift, int64_t* starts) {
  memset(starts, 0, BUCKETS * sizeof *starts);
  for (int64_t k = 0; k < n; k++) starts[(keys[k] >> shift) & (BUCKETS - 1)]++;
  int64_t sum = 0;
  for (int b = 0; b < BUCKETS; b++) {
    const int64_t count = starts[b];
    starts[b] = sum;
    sum += count;
  }
  for (int64_t k = 0; k < n; k++) {
    const int64_t entry = from ? from[k] : k;
    to[starts[(keys[entry] >> shift) & (BUCKETS - 1)]++] = entry;
  }
}

shmt_status shmt__sort_positions(const shmt_tensor* keys, bool* is_strict, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  SHMT_AUTO(shmt_tensor) buckets = NULL;
  const int64_t n = keys->numel, *key = shmt__int64s(keys);
  int64_t largest = 0;
  bool is_sorted = true;

  *is_strict = true;
  *out = NULL;
  for (int64_t k = 0; k < n; k++) {
    if (key[k] > largest) largest = key[k];
    if (k > 0 && key[k - 1] >= key[k]) {
      *is_strict = false;
      is_sorted = is_sorted && key[k - 1] == key[k];
    }
  }
  if (is_sorted) return SHMT_OK;
  SHMT_TRY(shmt__new_int64s(n, &first));
  SHMT_TRY(shmt__new_int64s(n, &second));
  SHMT_TRY(shmt__new_int64s(BUCKETS, &buckets));
  int64_t *from = NULL, *to = shmt__int64s(first), *spare = shmt__int64s(second);
  for (int shift = 0; shift < 63 && (shift == 0 || (largest >> shift) != 0); shift += RADIX_BITS) {
    radix_pass(key, from, to, n, shift, shmt__int64s(buckets));
    int64_t* const sorted = to;
    to = from ? from : spare;
    from = sorted;
  }
  *is_strict = true;
  for (int64_t k = 1; k < n && *is_strict; k++) *is_strict = key[from[k - 1]] != key[from[k]];
  *out = from == shmt__int64s(first) ? SHMT_TAKE(first) : SHMT_TAKE(second);
  return SHMT_OK;
}

shmt_status shmt__unflatten_positions(const int64_t* positions, int64_t n, shmt_ints sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(sizes.len, n), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &indices));
  int64_t* to = shmt__int64s(indices);
  int64_t below = 1;
  for (int64_t d = sizes.len - 1; d >= 0; d--) {
    const int64_t size = sizes.data[d];
    for (int64_t k = 0; k < n; k++) to[d * n + k] = positions[k] / below % size;
    below *= size > 0 ? size : 1;
  }
  *out = SHMT_TAKE(indices);
  return SHMT_OK;
}

shmt_status shmt__sparse_values_dense(const shmt_tensor* t, shmt_tensor** out) {
  SHMT_TRY(shmt__sparse_check_memory(t->sparse));
  return shmt__tensor_contiguous(t->sparse->values, SHMT_CONTIGUOUS_FORMAT, out);
}
