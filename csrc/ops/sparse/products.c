/* ops/sparse/products.c -- products of sparse matrices: with dense ones, with each other, in batches, and sampled.
 *
 * The entries of the sparse factor are put in order of its rows (a counting sort that moves places, not values; nothing
 * is moved where they are in order). Then each row of the result is the sum of rows of the dense factor, over several
 * threads.
 */
#include "base/overflow.h"
#include "base/scalar.h"
#include "dispatch/operator.h"
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

enum { GRAIN_PRODUCTS = 1 << 15 };

typedef struct product_job {
  shmt__loop loop;
  shmt__sparse_args args;
  char *out, *first, *second;
  int64_t out_row_bytes;
  bool by_entries; /* pieces are entries, not rows */
} product_job;

static void do_some(void* ctx, int64_t begin, int64_t end) {
  const product_job* job = ctx;
  shmt__sparse_args args = job->args;
  if (job->by_entries) {
    args.rows += begin;
    args.columns += begin;
  } else {
    args.starts += begin;
  }
  job->loop((char* const[]){job->out + begin * job->out_row_bytes, job->first, job->second}, NULL, end - begin, &args);
}

/* A matrix whose rows have their elements side by side, and the step between rows in elements. New reference. */
static shmt_status with_dense_rows(shmt_tensor* t, shmt_tensor** out, int64_t* step) {
  const bool is_dense = t->n_dims == 2 && (t->strides[1] == 1 || t->sizes[1] <= 1);
  if (is_dense)
    *out = shmt__tensor_ref(t);
  else
    SHMT_TRY(shmt__tensor_contiguous(t, SHMT_CONTIGUOUS_FORMAT, out));
  *step = (*out)->strides[0];
  return SHMT_OK;
}

/* out (n_rows, width) = the matrix of these entries times dense. values: a number for each entry. */
static shmt_status multiply_entries(int64_t n_rows, shmt_tensor* rows, shmt_tensor* columns, shmt_tensor* values,
                                    shmt_tensor* dense, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) starts = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) sorted = NULL;
  SHMT_AUTO(shmt_tensor) factor = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  int64_t step;
  const int64_t width = dense->sizes[1], nnz = rows->numel;
  SHMT_REQUIRE_LOOP(SHMT_LOOP_sparse_mm, values->dtype, "addmm_sparse_dense");
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n_rows, width), values->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &product));
  if (product->numel > 0) {
    SHMT_TRY(shmt__group_by_row(n_rows, rows, columns, &starts, &order, &sorted));
    SHMT_TRY(with_dense_rows(dense, &factor, &step));
    product_job job = {.loop = shmt__loops[SHMT_LOOP_sparse_mm][values->dtype],
                       .args = {.starts = shmt__int64s(starts),
                                .order = shmt__int64s(order),
                                .columns = shmt__int64s(sorted),
                                .width = width,
                                .step2 = step},
                       .out = shmt__tensor_data(product),
                       .first = shmt__tensor_data(values),
                       .second = shmt__tensor_data(factor),
                       .out_row_bytes = width * shmt__tensor_item_bytes(values)};
    shmt__parallel_for(n_rows, GRAIN_PRODUCTS / ((nnz / n_rows + 1) * width) + 1, do_some, &job);
  }
  *out = SHMT_TAKE(product);
  return SHMT_OK;
}

static shmt_status check_factors(const char* name, const shmt_tensor* sparse, const shmt_tensor* dense) {
  SHMT_REQUIRE(sparse->n_dims == 2 && sparse->sparse->sparse_dim == 2, SHMT_E_RUNTIME,
               "%s: matrices expected, got %dD tensor", name, (int)sparse->sparse->sparse_dim);
  SHMT_REQUIRE(dense->n_dims == 2, SHMT_E_RUNTIME, "%s: matrices expected, got %dD tensor", name, (int)dense->n_dims);
  SHMT_REQUIRE(dense->sizes[0] == sparse->sizes[1], SHMT_E_RUNTIME,
               "%s: Argument #3 (dense): Expected dim 0 size %" PRId64 ", got %" PRId64, name, sparse->sizes[1],
               dense->sizes[0]);
  SHMT_TRY(shmt__check_scalar_type(dense, sparse->dtype));
  SHMT_REQUIRE(!shmt__tensor_is_meta(dense), SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  return SHMT_OK;
}

shmt_status shmt__sparse_mm(shmt_tensor* mat1, shmt_tensor* mat2, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) columns = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_REQUIRE(mat1->sparse && !mat2->sparse, SHMT_E_RUNTIME, "_sparse_mm: expected a sparse and a dense matrix");
  SHMT_TRY(check_factors("addmm", mat1, mat2));
  SHMT_TRY(shmt__matrix_entries(mat1, &rows, &columns));
  SHMT_TRY(shmt__sparse_values_dense(mat1, &values));
  return multiply_entries(mat1->sizes[0], rows, columns, values, mat2, out);
}

/* --- sampled ------------------------------------------------------------------------------------- */

shmt_status shmt__sparse_sampled_mm(shmt_tensor* first, shmt_tensor* second, shmt_tensor* mask, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) columns = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  int64_t step, step2;
  SHMT_REQUIRE(!first->sparse && !second->sparse && mask->sparse, SHMT_E_RUNTIME,
               "_sparse_sampled_mm: expected two dense matrices and a sparse one");
  SHMT_TRY(shmt__check_scalar_type(second, first->dtype));
  SHMT_REQUIRE(first->n_dims == 2 && second->n_dims == 2 && mask->n_dims == 2 && first->sizes[1] == second->sizes[1] &&
                   first->sizes[0] == mask->sizes[0] && second->sizes[0] == mask->sizes[1],
               SHMT_E_RUNTIME, "_sparse_sampled_mm: matrices of shape %s and %s, and a mask of shape %s",
               SHMT_SHAPE_TEXT(first), SHMT_SHAPE_TEXT(second), SHMT_SHAPE_TEXT(mask));
  SHMT_REQUIRE(!shmt__tensor_is_meta(first) && !shmt__tensor_is_meta(second), SHMT_E_NOT_IMPLEMENTED,
               "there are no sparse meta tensors");
  SHMT_REQUIRE(mask->sparse->dense_dim == 0, SHMT_E_RUNTIME, "_sparse_sampled_mm: the mask has dense dimensions");
  SHMT_REQUIRE_LOOP(SHMT_LOOP_sparse_sampled_mm, first->dtype, "sampled_addmm");
  SHMT_TRY(shmt__matrix_entries(mask, &rows, &columns));
  SHMT_TRY(with_dense_rows(first, &left, &step));
  SHMT_TRY(with_dense_rows(second, &right, &step2));
  const int64_t n = rows->numel, width = first->sizes[1];
  SHMT_TRY(shmt__tensor_zeros(SHMT_INTS(n), first->dtype, SHMT_CPU, &values));
  if (n > 0 && width > 0) {
    product_job job = {.loop = shmt__loops[SHMT_LOOP_sparse_sampled_mm][first->dtype],
                       .args = {.rows = shmt__int64s(rows),
                                .columns = shmt__int64s(columns),
                                .width = width,
                                .step = step,
                                .step2 = step2},
                       .out = shmt__tensor_data(values),
                       .first = shmt__tensor_data(left),
                       .second = shmt__tensor_data(right),
                       .out_row_bytes = shmt__tensor_item_bytes(values),
                       .by_entries = true};
    shmt__parallel_for(n, GRAIN_PRODUCTS / width + 1, do_some, &job);
  }
  return shmt__sparse_with_new_values(mask, values, out);
}

/* --- sparse times sparse ---------------------------------------------------------------------------- */

/* Every pair of an entry (r, c) of a and an entry (c, j) of b: their places, and the position of (r, j). */
static shmt_status pair_entries(const shmt_tensor* a_rows, const shmt_tensor* a_columns, const int64_t* starts,
                                const int64_t* order, const int64_t* b_columns, int64_t width, shmt_tensor** from_a,
                                shmt_tensor** from_b, shmt_tensor** positions) {
  int64_t n = 0;
  for (int64_t k = 0; k < a_rows->numel; k++) {
    const int64_t c = shmt__int64s(a_columns)[k];
    SHMT_REQUIRE(shmt__add_i64(n, starts[c + 1] - starts[c], &n), SHMT_E_RUNTIME, "the product has too many terms");
  }
  SHMT_TRY(shmt__new_int64s(n, from_a));
  SHMT_TRY(shmt__new_int64s(n, from_b));
  SHMT_TRY(shmt__new_int64s(n, positions));
  int64_t *to_a = shmt__int64s(*from_a), *to_b = shmt__int64s(*from_b), *to = shmt__int64s(*positions), at = 0;
  for (int64_t k = 0; k < a_rows->numel; k++) {
    const int64_t c = shmt__int64s(a_columns)[k];
    for (int64_t m = starts[c]; m < starts[c + 1]; m++, at++) {
      to_a[at] = k;
      to_b[at] = order ? order[m] : m;
      to[at] = shmt__int64s(a_rows)[k] * width + b_columns[m];
    }
  }
  return SHMT_OK;
}

shmt_status shmt__sparse_sparse_mm(shmt_tensor* mat1, shmt_tensor* mat2, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a_rows = NULL;
  SHMT_AUTO(shmt_tensor) a_columns = NULL;
  SHMT_AUTO(shmt_tensor) b_rows = NULL;
  SHMT_AUTO(shmt_tensor) b_columns = NULL;
  SHMT_AUTO(shmt_tensor) starts = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) sorted = NULL;
  SHMT_AUTO(shmt_tensor) from_a = NULL;
  SHMT_AUTO(shmt_tensor) from_b = NULL;
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) terms = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_REQUIRE(mat1->sparse && mat2->sparse, SHMT_E_RUNTIME, "_sparse_sparse_matmul: expected two sparse matrices");
  SHMT_REQUIRE(mat1->sparse->dense_dim == 0 && mat2->sparse->dense_dim == 0, SHMT_E_RUNTIME,
               "sparse_matmul: scalar values expected, but a factor has dense dimensions");
  SHMT_TRY(shmt__matrix_entries(mat1, &a_rows, &a_columns));
  SHMT_TRY(shmt__matrix_entries(mat2, &b_rows, &b_columns));
  SHMT_REQUIRE(mat1->sizes[1] == mat2->sizes[0], SHMT_E_RUNTIME,
               "mat1 and mat2 shapes cannot be multiplied (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64 ")",
               mat1->sizes[0], mat1->sizes[1], mat2->sizes[0], mat2->sizes[1]);
  SHMT_REQUIRE(mat1->dtype == mat2->dtype, SHMT_E_RUNTIME, "mat1 dtype %s does not match mat2 dtype %s",
               shmt__dtype_title(mat1->dtype), shmt__dtype_title(mat2->dtype));
  const shmt_ints sizes = SHMT_INTS(mat1->sizes[0], mat2->sizes[1]);
  int64_t numel;
  SHMT_TRY(shmt__checked_numel(sizes, &numel));
  SHMT_TRY(shmt__group_by_row(mat2->sizes[0], b_rows, b_columns, &starts, &order, &sorted));
  SHMT_TRY(pair_entries(a_rows, a_columns, shmt__int64s(starts), shmt__int64s(order), shmt__int64s(sorted),
                        sizes.data[1], &from_a, &from_b, &positions));
  SHMT_TRY(shmt_op_index_select_below(SHMT_KEYBIT_CPU, mat1->sparse->values, 0, from_a, &left));
  SHMT_TRY(shmt_op_index_select_below(SHMT_KEYBIT_CPU, mat2->sparse->values, 0, from_b, &right));
  SHMT_TRY(shmt_op_mul_Tensor_below(SHMT_KEYBIT_CPU, left, right, &values));
  SHMT_TRY(shmt__unflatten_positions(shmt__int64s(positions), positions->numel, sizes, &indices));
  SHMT_TRY(shmt__make_coo(sizes, 2, indices, values, false, &terms));
  SHMT_TRY(shmt__sparse_coalesce(terms, &product));
  if (shmt__is_coo(mat1)) {
    *out = SHMT_TAKE(product);
    return SHMT_OK;
  }
  return shmt__to_layout_now(product, mat1->sparse->layout, 2, out);
}

/* --- batches ------------------------------------------------------------------------------------------ */

/* The matrices of a batch are blocks of one matrix: entry (b, i, j) stands at row b * m + i, column b * k + j. */
shmt_status shmt__sparse_bmm(shmt_tensor* self, shmt_tensor* mat2, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) columns = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_REQUIRE(!mat2->sparse, SHMT_E_RUNTIME, "bmm_sparse: Tensor 'mat2' must be dense");
  SHMT_REQUIRE(shmt__is_coo(self) && self->sparse->sparse_dim == 3 && self->n_dims == 3, SHMT_E_RUNTIME,
               "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has %d",
               (int)(self->sparse ? self->sparse->sparse_dim : 0));
  SHMT_REQUIRE(mat2->n_dims == 3 && self->sizes[0] == mat2->sizes[0] && self->sizes[2] == mat2->sizes[1],
               SHMT_E_RUNTIME, "bmm_sparse: batches of matrices of shape %s and %s cannot be multiplied",
               SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(mat2));
  SHMT_TRY(shmt__check_scalar_type(mat2, self->dtype));
  SHMT_REQUIRE(!shmt__tensor_is_meta(mat2), SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  const int64_t batch = self->sizes[0], m = self->sizes[1], k = self->sizes[2], n = mat2->sizes[2];
  int64_t n_rows, n_columns;
  SHMT_REQUIRE(shmt__mul_i64(batch, m, &n_rows) && shmt__mul_i64(batch, k, &n_columns), SHMT_E_RUNTIME,
               "bmm_sparse: a batch of shape %s is too large", SHMT_SHAPE_TEXT(self));
  SHMT_TRY(shmt__coo_positions(self, &positions));
  SHMT_TRY(shmt__new_int64s(positions->numel, &columns));
  int64_t *row = shmt__int64s(positions), *column = shmt__int64s(columns);
  for (int64_t e = 0; e < positions->numel; e++) {
    column[e] = row[e] / k / m * k + row[e] % k;
    row[e] /= k;
  }
  SHMT_TRY(shmt__sparse_values_dense(self, &values));
  SHMT_TRY(shmt__tensor_contiguous(mat2, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt__tensor_alias(dense, SHMT_INTS(n_columns, n), SHMT_INTS(n > 0 ? n : 1, 1), dense->offset, &flat));
  SHMT_TRY(multiply_entries(n_rows, positions, columns, values, flat, &product));
  SHMT_TRY(shmt__tensor_alias(product, SHMT_INTS(batch, m, n), SHMT_INTS(m * n > 0 ? m * n : 1, n > 0 ? n : 1, 1), 0,
                              &result));
  return shmt__sparse_finish("bmm", result, out);
}
