/* ops/shape/diag_meshgrid.c -- fill_diagonal_, meshgrid, cartesian_prod, combinations, block_diag, sum_to_size,
 * take_along_dim. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"

#include <inttypes.h>
#include <string.h>

static shmt_status zeros_of(shmt_tensor* like, shmt_ints sizes, shmt_tensor** out) {
  return shmt_op_new_zeros(like, sizes, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, out);
}

/* Writes every step-th element in memory order. A tall matrix has room for more than one diagonal. */
shmt_status shmt__fill_diagonal_(shmt_tensor* self, shmt_scalar fill_value, bool wrap) {
  SHMT_AUTO(shmt_tensor) line = NULL;
  int64_t length, step = 0;

  SHMT_REQUIRE(self->n_dims >= 2, SHMT_E_RUNTIME, "dimensions must larger than 1");
  for (int d = 1; d < self->n_dims && self->n_dims > 2; d++)
    SHMT_REQUIRE(self->sizes[d] == self->sizes[0], SHMT_E_RUNTIME,
                 "all dimensions of input must be of equal length");
  if (self->numel == 0) return SHMT_OK;
  const int64_t rows = self->sizes[0], columns = self->sizes[1];
  length = rows < columns ? rows : columns;
  for (int d = 0; d < self->n_dims; d++) step += self->strides[d];
  SHMT_TRY(shmt_op_as_strided(self, SHMT_INTS(length), SHMT_INTS(step), (shmt_opt_int){self->offset, true}, &line));
  SHMT_TRY(shmt_op_fill__Scalar(line, fill_value));
  for (int64_t begin = columns + 1; wrap && self->n_dims == 2 && begin < rows; begin += columns + 1) {
    SHMT_AUTO(shmt_tensor) below = NULL;
    length = rows - begin < columns ? rows - begin : columns;
    SHMT_TRY(shmt_op_as_strided(self, SHMT_INTS(length), SHMT_INTS(step),
                                (shmt_opt_int){self->offset + begin * self->strides[0], true}, &below));
    SHMT_TRY(shmt_op_fill__Scalar(below, fill_value));
  }
  return SHMT_OK;
}

shmt_status shmt__sum_to_size(shmt_tensor* self, shmt_ints size, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;
  int64_t dims[SHMT_MAX_DIMS], n = 0;
  const int64_t leading = self->n_dims - size.len;
  bool fits = leading >= 0;

  if (size.len == 0) return shmt_op_sum(self, SHMT_DTYPE_NONE, out);
  for (int64_t d = 0; fits && d < self->n_dims; d++) {
    const int64_t wanted = d < leading ? 1 : size.data[d - leading];
    fits = wanted == self->sizes[d] || wanted == 1;
    if (d < leading || wanted != self->sizes[d]) dims[n++] = d;
  }
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "size {%s} is not expandable to size {%s}.",
               shmt__ints_text(size, (char[256]){0}, 256), SHMT_SHAPE_TEXT(self));
  if (n == 0) {
    *out = shmt__tensor_ref(self);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op_sum_dim_IntList(self, (shmt_ints){dims, n}, false, SHMT_DTYPE_NONE, &sum));
  return shmt_op_reshape(sum, size, out);
}

/* --- meshgrid and products ------------------------------------------------------------ */

shmt_status shmt__meshgrid_indexing(shmt_tensors tensors, const char* indexing, shmt_tensor_vec* out) {
  SHMT_AUTO_LIST meshes = {0, 0};
  int64_t sizes[SHMT_MAX_DIMS];
  const bool is_xy = strcmp(indexing, "xy") == 0;
  const int64_t n = tensors.len;

  SHMT_REQUIRE(n > 0, SHMT_E_RUNTIME, "meshgrid expects a non-empty TensorList");
  SHMT_REQUIRE(n <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "meshgrid(): more than %d tensors", SHMT_MAX_DIMS);
  SHMT_REQUIRE(is_xy || strcmp(indexing, "ij") == 0, SHMT_E_RUNTIME,
               "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s", indexing);
  const bool swap = is_xy && n >= 2;
  for (int64_t i = 0; i < n; i++) {
    const shmt_tensor* t = tensors.data[i];
    SHMT_REQUIRE(t->n_dims <= 1, SHMT_E_RUNTIME,
                 "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: %s", SHMT_SHAPE_TEXT(t));
    SHMT_REQUIRE(t->dtype == tensors.data[0]->dtype, SHMT_E_RUNTIME,
                 "meshgrid expects all tensors to have the same dtype");
    SHMT_REQUIRE(t->device == tensors.data[0]->device, SHMT_E_RUNTIME,
                 "meshgrid expects all tensors to have the same device");
    sizes[i] = t->numel;
  }
  if (swap) {
    const int64_t first = sizes[0];
    sizes[0] = sizes[1];
    sizes[1] = first;
  }
  SHMT_TRY(shmt__tensor_vec_alloc(n, &meshes));
  for (int64_t i = 0; i < n; i++) {
    SHMT_AUTO(shmt_tensor) shaped = NULL;
    int64_t shape[SHMT_MAX_DIMS];
    const int64_t at = swap && i < 2 ? 1 - i : i;
    for (int64_t d = 0; d < n; d++) shape[d] = d == at ? tensors.data[i]->numel : 1;
    SHMT_TRY(shmt_op_reshape(tensors.data[i], (shmt_ints){shape, n}, &shaped));
    SHMT_TRY(shmt_op_expand(shaped, (shmt_ints){sizes, n}, false, &meshes.data[i]));
  }
  *out = meshes;
  meshes = (shmt_tensor_vec){0, 0};
  return SHMT_OK;
}

shmt_status shmt__meshgrid(shmt_tensors tensors, shmt_tensor_vec* out) {
  return shmt__meshgrid_indexing(tensors, "ij", out);
}

shmt_status shmt__cartesian_prod(shmt_tensors tensors, shmt_tensor** out) {
  SHMT_AUTO_LIST meshes = {0, 0};
  SHMT_AUTO(shmt_tensor) stacked = NULL;

  for (int64_t i = 0; i < tensors.len; i++)
    SHMT_REQUIRE(tensors.data[i]->n_dims == 1, SHMT_E_RUNTIME, "Expect a 1D vector, but got shape %s",
                 SHMT_SHAPE_TEXT(tensors.data[i]));
  if (tensors.len == 1) {
    *out = shmt__tensor_ref(tensors.data[0]);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__meshgrid(tensors, &meshes));
  for (int64_t i = 0; i < meshes.len; i++) {
    SHMT_AUTO(shmt_tensor) grid = SHMT_TAKE(meshes.data[i]);
    SHMT_TRY(shmt_op_reshape(grid, SHMT_INTS(-1), &meshes.data[i]));
  }
  SHMT_TRY(shmt_op_stack((shmt_tensors){meshes.data, meshes.len}, 1, &stacked));
  *out = SHMT_TAKE(stacked);
  return SHMT_OK;
}

/* The binomial coefficient: how many combinations of r of n there are; -1: more than int64 holds. */
static int64_t n_combinations(int64_t n, int64_t r) {
  const int64_t fewer = r < n - r ? r : n - r; /* the coefficients of r and of n - r are the same */
  __int128 count = 1;

  for (int64_t i = 1; i <= fewer && count > 0; i++) {
    count = count * (n - fewer + i) / i;
    if (count > INT64_MAX) return -1;
  }
  return (int64_t)count;
}

/* The next row of indices in order: the last index that can grow grows, and those after it follow. */
static void next_combination(int64_t* row, const int64_t* before, int64_t r, int64_t n, bool again) {
  int64_t at = r - 1;

  memcpy(row, before, (size_t)r * sizeof *row);
  while (at > 0 && row[at] == (again ? n - 1 : n - r + at)) at--;
  row[at]++;
  for (int64_t i = at + 1; i < r; i++) row[i] = row[i - 1] + (again ? 0 : 1);
}

shmt_status shmt__combinations(shmt_tensor* self, int64_t r, bool with_replacement,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) index = NULL;
  SHMT_AUTO(shmt_tensor) chosen = NULL;
  const int64_t n = self->numel;

  SHMT_REQUIRE(self->n_dims == 1, SHMT_E_RUNTIME, "Expect a 1D vector, but got shape %s",
               SHMT_SHAPE_TEXT(self));
  SHMT_REQUIRE(r >= 0, SHMT_E_RUNTIME, "Expect a non-negative number, but got %" PRId64, r);
  if (r == 0) return zeros_of(self, SHMT_INTS(0), out);
  int64_t pool = n, cells;
  const bool is_countable = !with_replacement || n == 0 || shmt__add_i64(n - 1, r, &pool);
  const int64_t count = n == 0 || r > pool ? 0 : n_combinations(pool, r);
  SHMT_REQUIRE(is_countable && count >= 0 && !__builtin_mul_overflow(count, r, &cells), SHMT_E_RUNTIME,
               "combinations(): more rows than can be counted: %" PRId64 " of %" PRId64, r, n);
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(count * r), SHMT_INT64, self->device, SHMT_CONTIGUOUS_FORMAT,
                              &index));
  if (!shmt__tensor_is_meta(self) && count > 0) {
    int64_t* row = shmt__tensor_data(index);
    for (int64_t i = 0; i < r; i++) row[i] = with_replacement ? 0 : i;
    for (int64_t k = 1; k < count; k++, row += r) next_combination(row + r, row, r, n, with_replacement);
  }
  SHMT_TRY(shmt_op_index_select(self, 0, index, &chosen));
  return shmt_op_reshape(chosen, SHMT_INTS(count, r), out);
}

shmt_status shmt__block_diag(shmt_tensors tensors, shmt_tensor** out) {
  SHMT_AUTO_LIST rows = {0, 0};
  int64_t width = 0, before = 0;

  if (tensors.len == 0)
    return shmt__tensor_empty(SHMT_INTS(1, 0), shmt__default_dtype(), SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt__tensor_vec_alloc(tensors.len, &rows));
  for (int64_t i = 0; i < tensors.len; i++) {
    SHMT_REQUIRE(tensors.data[i]->n_dims <= 2, SHMT_E_RUNTIME,
                 "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %" PRId64 " has %d dimensions",
                 i, tensors.data[i]->n_dims);
    SHMT_TRY(shmt_op_atleast_2d(tensors.data[i], &rows.data[i]));
    SHMT_REQUIRE(shmt__add_i64(width, rows.data[i]->sizes[1], &width), SHMT_E_RUNTIME,
                 "torch.block_diag: columns of input %" PRId64 " of shape %s are too many", i,
                 SHMT_SHAPE_TEXT(tensors.data[i]));
  }
  for (int64_t i = 0; i < rows.len; i++) {
    SHMT_AUTO(shmt_tensor) block = SHMT_TAKE(rows.data[i]);
    SHMT_AUTO(shmt_tensor) left = NULL;
    SHMT_AUTO(shmt_tensor) right = NULL;
    const int64_t height = block->sizes[0], own = block->sizes[1];
    SHMT_TRY(zeros_of(block, SHMT_INTS(height, before), &left));
    SHMT_TRY(zeros_of(block, SHMT_INTS(height, width - before - own), &right));
    SHMT_TRY(shmt_op_cat((shmt_tensors){(shmt_tensor* const[]){left, block, right}, 3}, 1, &rows.data[i]));
    before += own;
  }
  return shmt_op_cat((shmt_tensors){rows.data, rows.len}, 0, out);
}

shmt_status shmt__take_along_dim(shmt_tensor* self, shmt_tensor* indices, shmt_opt_int dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) source = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  SHMT_AUTO(shmt_tensor) wrapped = NULL;
  int64_t from[SHMT_MAX_DIMS], to[SHMT_MAX_DIMS], d;

  if (!dim.has) {
    SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(-1), &source));
    SHMT_TRY(shmt_op_reshape(indices, SHMT_INTS(-1), &where));
    return shmt_op_gather(source, 0, where, false, out);
  }
  SHMT_REQUIRE(self->n_dims == indices->n_dims, SHMT_E_RUNTIME,
               "torch.take_along_dim(): input and indices should have the same number of dimensions, but got %d "
               "dimensions for input, and %d dimensions for indices", self->n_dims, indices->n_dims);
  SHMT_REQUIRE(indices->dtype == SHMT_INT64, SHMT_E_RUNTIME,
               "torch.take_along_dim(): dtype of indices should be Long but got %s", shmt__dtype_title(indices->dtype));
  SHMT_TRY(shmt__wrap_dim(dim.value, self->n_dims, &d));
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions",
               dim.value);
  for (int i = 0; i < self->n_dims; i++) {
    const int64_t a = self->sizes[i], b = indices->sizes[i];
    if (i != d)
      SHMT_REQUIRE(a == b || a == 1 || b == 1, SHMT_E_RUNTIME,
                   "The size of tensor a (%" PRId64 ") must match the size of tensor b (%" PRId64
                   ") at non-singleton dimension %d", a, b, i);
    from[i] = i == d ? a : a == 1 ? b : a;
    to[i] = i == d ? b : from[i];
  }
  SHMT_TRY(shmt_op_expand(self, (shmt_ints){from, self->n_dims}, false, &source));
  /* Indices wrap around the dim, as in torch. */
  SHMT_TRY(shmt_op_remainder_Scalar(indices, shmt__scalar_int(self->n_dims ? self->sizes[d] : 1), &wrapped));
  SHMT_TRY(shmt_op_expand(wrapped, (shmt_ints){to, self->n_dims}, false, &where));
  return shmt_op_gather(source, d, where, false, out);
}
