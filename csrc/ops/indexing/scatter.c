/* ops/indexing/scatter.c -- writes along one dim by index: scatter, scatter_add, index_add, index_copy, index_fill,
 * put. */
#include "ops/indexing/scatter.h"

#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/indexing/gather.h"
#include "ops/indexing/index_iterator.h"
#include "ops/indexing/update.h"
#include "ops/outputs.h"

#include <inttypes.h>
#include <string.h>

/* Writes by index into self along dim. */
static shmt_status scatter_walk(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index,
                                shmt_tensor* source, shmt__loop loop, shmt_status bad_code, bool wrap) {
  SHMT_AUTO(shmt_tensor) target = NULL;
  int64_t strides[SHMT_MAX_DIMS];
  shmt__bad_index bad = {0};
  const int64_t stride = shmt__wrap_mul_i64(self->strides[dim], shmt__tensor_item_bytes(self));
  const shmt__index_args shape = {stride, self->sizes[dim], wrap, &bad};

  if (index->numel == 0) return SHMT_OK;
  memcpy(strides, self->strides, (size_t)self->n_dims * sizeof *strides);
  strides[dim] = 0;
  SHMT_TRY(shmt__check_not_empty(index, bad_code, dim, self->sizes[dim]));
  SHMT_TRY(shmt__restride(self, shmt__tensor_sizes(index), strides, &target));
  SHMT_TRY(shmt__indexed_walk(name, target, source, index, &shape, loop, self));
  if (bad.found && bad_code == SHMT_E_INDEX && strcmp(name, "index_add") == 0) {
    SHMT_REQUIRE(self->n_dims > 1, SHMT_E_INDEX, "index out of range in self: index %" PRId64 ", size %" PRId64,
                 bad.value, self->sizes[dim]);
    bad_code = SHMT_E_RUNTIME; /* as torch does for vectors */
  }
  SHMT_REQUIRE(!bad.found || strcmp(name, "index_copy") != 0, SHMT_E_INDEX,
               "index_copy_(): index %" PRId64 " is out of bounds for dimension %" PRId64 " with size %" PRId64,
               bad.value, dim, self->sizes[dim]);
  return shmt__check_bad_index(&bad, bad_code, dim, self->sizes[dim]);
}

static shmt__loop loop_of(int row, shmt_dtype dtype) {
  return row == SHMT_LOOP_scatter ? shmt__move_loop(row, dtype) : shmt__loops[row][dtype];
}

static shmt__loop wide_loop_of(int row, shmt_dtype dtype) {
  return row == SHMT_LOOP_scatter_add   ? shmt__loops[SHMT_LOOP_scatter_add_wide][dtype]
         : row == SHMT_LOOP_scatter_mul ? shmt__loops[SHMT_LOOP_scatter_mul_wide][dtype]
                                        : NULL;
}

/* Combines all of dim in a float32 copy of the part of self that the index's sizes cover, which is rounded once. */
static shmt_status combine_wide(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index,
                                shmt_tensor* source, shmt__loop loop, shmt_status bad_code) {
  SHMT_AUTO(shmt_tensor) part = NULL;
  SHMT_AUTO(shmt_tensor) wide = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  memcpy(sizes, index->sizes, (size_t)index->n_dims * sizeof *sizes);
  sizes[dim] = self->sizes[dim];
  SHMT_TRY(shmt__restride(self, (shmt_ints){sizes, index->n_dims}, self->strides, &part));
  SHMT_TRY(shmt__tensor_cast(part, SHMT_FLOAT32, &wide));
  SHMT_TRY(scatter_walk(name, wide, dim, index, source, loop, bad_code, false));
  return shmt__tensor_copy(part, wide);
}

/* WIDE_ELEMENTS: what a float32 copy may hold at a time. MIN_WIDE_ROWS: with fewer rows too much of a cache line is
 * unused. */
enum { WIDE_ELEMENTS = 1 << 15, MIN_WIDE_ROWS = 32 };

/* scatter_walk, but sums and products of 16-bit floats are kept in float32 and rounded once, some rows along dim at a
 * time. */
static shmt_status combine(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* source,
                           int row, shmt_status bad_code) {
  const shmt__loop loop = wide_loop_of(row, self->dtype);
  int64_t across = dim, per_step = self->sizes[dim];

  if (!loop || index->numel == 0 || index->sizes[dim] < 2 || shmt__may_overlap_itself(self))
    return scatter_walk(name, self, dim, index, source, loop_of(row, self->dtype), bad_code, false);
  for (int d = 0; d < index->n_dims; d++)
    if (d != dim && (across == dim || index->sizes[d] > index->sizes[across])) across = d;
  if (across == dim) return combine_wide(name, self, dim, index, source, loop, bad_code);
  /* The elements of self's part. The product does not overflow, because self's elements were counted. */
  for (int d = 0; d < index->n_dims; d++)
    if (d != dim && d != across) per_step *= index->sizes[d];
  const int64_t fitting = WIDE_ELEMENTS / (per_step > 0 ? per_step : 1);
  const int64_t step = fitting > MIN_WIDE_ROWS ? fitting : MIN_WIDE_ROWS;
  for (int64_t at = 0, n; at < index->sizes[across]; at += n) {
    SHMT_AUTO(shmt_tensor) to = NULL;
    SHMT_AUTO(shmt_tensor) positions = NULL;
    SHMT_AUTO(shmt_tensor) from = NULL;
    n = index->sizes[across] - at < step ? index->sizes[across] - at : step;
    SHMT_TRY(shmt_op_narrow(self, across, at, n, &to));
    SHMT_TRY(shmt_op_narrow(index, across, at, n, &positions));
    SHMT_TRY(shmt_op_narrow(source, across, at, n, &from));
    SHMT_TRY(combine_wide(name, to, dim, positions, from, loop, bad_code));
  }
  return SHMT_OK;
}

/* --- scatter: index has as many dims as self ------------------------------------------ */

/* Is index, as far as source has dims, no larger than self apart from dim, and than source? All have dims. */
static bool is_covered(const shmt_tensor* self, int64_t dim, const shmt_tensor* index, const shmt_tensor* source) {
  for (int d = 0; d < index->n_dims; d++) {
    if (d != dim && index->sizes[d] > self->sizes[d]) return false;
    if (d < source->n_dims && index->sizes[d] > source->sizes[d]) return false;
  }
  return true;
}

static shmt_status check_scatter(const char* name, const shmt_tensor* self, int64_t dim, const shmt_tensor* index,
                                 const shmt_tensor* source) {
  SHMT_TRY(shmt__check_has_data(index, self));
  if (source) SHMT_TRY(shmt__check_has_data(source, self));
  if (index->numel != 0) SHMT_TRY(shmt__check_index_dtype(name, index, "Expected dtype int32/int64 for index"));
  SHMT_REQUIRE(!source || source->dtype == self->dtype, SHMT_E_RUNTIME,
               "%s(): Expected self.dtype to be equal to src.dtype", name);
  if (index->numel == 0) return SHMT_OK;
  const int n = self->n_dims > 0 ? self->n_dims : 1, ni = index->n_dims > 0 ? index->n_dims : 1;
  SHMT_REQUIRE(n == ni, SHMT_E_RUNTIME,
               "Index tensor must have the same number of dimensions as self tensor, got %d and %d", index->n_dims,
               self->n_dims);
  if (source && source->n_dims > 0 && source->n_dims < ni && is_covered(self, dim, index, source))
    SHMT_FAIL(SHMT_E_INDEX,
              "Dimension out of range (expected to be in range of [%d, %d], but got %d): Index tensor must have the "
              "same number of dimensions as src tensor", -source->n_dims, source->n_dims - 1, source->n_dims);
  SHMT_REQUIRE(!source || (source->n_dims > 0 ? source->n_dims : 1) == ni, SHMT_E_RUNTIME,
               "Index tensor must have the same number of dimensions as src tensor, got %d and %d", index->n_dims,
               source->n_dims);
  for (int d = 0; d < ni; d++) { /* a number is a vector of one */
    const int64_t wanted = index->n_dims ? index->sizes[d] : 1;
    const int64_t have = self->n_dims ? self->sizes[d] : 1, from = source && source->n_dims ? source->sizes[d] : 1;
    const bool fits = (d == dim || wanted <= have) && (!source || wanted <= from);
    if (fits) continue;
    if (source)
      SHMT_FAIL(SHMT_E_RUNTIME, "Expected index %s to be no larger than self %s apart from dimension %" PRId64
                " and to be no larger size than src %s", SHMT_SHAPE_TEXT(index), SHMT_SHAPE_TEXT(self), dim,
                SHMT_SHAPE_TEXT(source));
    SHMT_FAIL(SHMT_E_RUNTIME, "Expected index %s to be no larger than self %s apart from dimension %" PRId64,
              SHMT_SHAPE_TEXT(index), SHMT_SHAPE_TEXT(self), dim);
  }
  return SHMT_OK;
}

/* Writes source (NULL: one value) into self with the loops of a row. */
static shmt_status scatter_into(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index,
                                shmt_tensor* source, shmt_scalar value, int row) {
  SHMT_AUTO(shmt_tensor) own_line = NULL;
  shmt_tensor* line = NULL;
  SHMT_AUTO(shmt_tensor) own_where = NULL;
  shmt_tensor* where = NULL;
  SHMT_AUTO(shmt_tensor) own_wide = NULL;
  shmt_tensor* wide = NULL;
  SHMT_AUTO(shmt_tensor) number = NULL;
  SHMT_AUTO(shmt_tensor) own_from = NULL;
  shmt_tensor* from = NULL;
  SHMT_AUTO(shmt_tensor) part = NULL;
  const int64_t no_strides[SHMT_MAX_DIMS] = {0};

  if (shmt__tensor_is_meta(self) || index->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt__at_least_1d(self, &own_line, &line));
  SHMT_TRY(shmt__at_least_1d(index, &own_where, &where));
  SHMT_TRY(shmt__index_as_int64(where, &own_wide, &wide));
  if (source) {
    SHMT_TRY(shmt__at_least_1d(source, &own_from, &from));
    SHMT_TRY(shmt__restride(from, shmt__tensor_sizes(wide), from->strides, &part));
  } else {
    SHMT_TRY(shmt__scalar_check(value, self->dtype));
    SHMT_TRY(shmt__tensor_from_scalar(value, self->dtype, false, &number));
    SHMT_TRY(shmt__restride(number, shmt__tensor_sizes(wide), no_strides, &part));
  }
  return combine(name, line, dim, wide, part, row, SHMT_E_RUNTIME);
}

static shmt_status scatter(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* source,
                           shmt_scalar value, int row, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;
  shmt_tensor* given = *out;

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_scatter(name, self, dim, index, source));
  SHMT_REFUSE_DTYPE(index->numel > 0 && !loop_of(row, self->dtype), self->dtype, name);
  SHMT_TRY(shmt__check_not_expanded(given));
  SHMT_TRY(shmt__check_no_overlap(given, index));
  if (source && given && shmt__may_overlap(given, source) && !shmt__tensor_is_meta(self)) {
    SHMT_TRY(shmt__tensor_empty_like(source, source->dtype, &copy));
    SHMT_TRY(shmt__tensor_copy(copy, source));
    source = copy;
  }
  SHMT_TRY(shmt__begin_dense_update(self, out));
  return scatter_into(name, *out, dim, index, source, value, row);
}

shmt_status shmt__scatter_by(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* src,
                             int row, shmt_tensor** out) {
  return scatter(name, self, dim, index, src, shmt__scalar_none(), row, out);
}

shmt_status shmt__scatter_src(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* src, shmt_tensor** out) {
  return scatter("scatter", self, dim, index, src, shmt__scalar_none(), SHMT_LOOP_scatter, out);
}

shmt_status shmt__scatter_value(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_scalar value,
                                shmt_tensor** out) {
  return scatter("scatter", self, dim, index, NULL, value, SHMT_LOOP_scatter, out);
}

static shmt_status reduce_row(const char* reduce, int* row) {
  SHMT_REQUIRE(strcmp(reduce, "add") == 0 || strcmp(reduce, "multiply") == 0, SHMT_E_RUNTIME,
               "reduce argument must be either add or multiply.");
  *row = reduce[0] == 'a' ? SHMT_LOOP_scatter_add : SHMT_LOOP_scatter_mul;
  return SHMT_OK;
}

shmt_status shmt__scatter_reduce_src(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* src,
                                     const char* reduce, shmt_tensor** out) {
  int row = SHMT_LOOP_scatter_add;

  SHMT_TRY(reduce_row(reduce, &row));
  return scatter("scatter", self, dim, index, src, shmt__scalar_none(), row, out);
}

shmt_status shmt__scatter_value_reduce(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_scalar value,
                                       const char* reduce, shmt_tensor** out) {
  int row = SHMT_LOOP_scatter_add;

  SHMT_TRY(reduce_row(reduce, &row));
  return scatter("scatter", self, dim, index, NULL, value, row, out);
}

shmt_status shmt__scatter_add(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* src, shmt_tensor** out) {
  return scatter("scatter_add", self, dim, index, src, shmt__scalar_none(), SHMT_LOOP_scatter_add, out);
}

/* --- index_*: a vector of indices along one dim ------------------------------------------ */

/* The index broadcast to sizes, which have its length at dim. */
static shmt_status spread_vector(shmt_tensor* index, shmt_ints sizes, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) own_line = NULL;
  shmt_tensor* line = NULL;
  SHMT_AUTO(shmt_tensor) own_wide = NULL;
  shmt_tensor* wide = NULL;
  int64_t strides[SHMT_MAX_DIMS] = {0};

  SHMT_TRY(shmt__at_least_1d(index, &own_line, &line));
  SHMT_TRY(shmt__index_as_int64(line, &own_wide, &wide));
  strides[dim] = wide->strides[0];
  return shmt__restride(wide, sizes, strides, out);
}

/* Do two shapes differ elsewhere than in dim? A 0-d one has no dim to leave out. */
static bool slices_differ(const shmt_tensor* self, const shmt_tensor* source, int64_t dim, bool scalars_fit) {
  const bool leaves_out = self->n_dims > 0 && source->n_dims > 0;

  if (!leaves_out && scalars_fit) return self->n_dims + source->n_dims > 1;
  if (self->n_dims != source->n_dims) return true;
  for (int d = 0; d < self->n_dims; d++)
    if (d != dim && self->sizes[d] != source->sizes[d]) return true;
  return false;
}

shmt_status shmt__check_index_source(const char* name, const shmt_tensor* self, int64_t dim, const shmt_tensor* index,
                                     const shmt_tensor* source) {
  SHMT_TRY(shmt__check_has_data(index, self));
  SHMT_TRY(shmt__check_has_data(source, self));
  SHMT_REQUIRE(index->n_dims <= 1, SHMT_E_INDEX,
               "%s_(): Index is supposed to be a vector, but got dim: %d with type: %s and size: %s", name,
               index->n_dims, shmt__dtype_title(index->dtype), SHMT_SHAPE_TEXT(index));
  SHMT_REQUIRE(index->dtype == SHMT_INT64 || index->dtype == SHMT_INT32, SHMT_E_RUNTIME,
               "%s_(): Expected dtype int32/int64 for index but got: %s", name, shmt__dtype_title(index->dtype));
  SHMT_REQUIRE(self->dtype == source->dtype, SHMT_E_RUNTIME,
               "%s_(): self (%s) and source (%s) must have the same scalar type", name, shmt__dtype_title(self->dtype),
               shmt__dtype_title(source->dtype));
  SHMT_REQUIRE(dim == 0 || dim < source->n_dims, SHMT_E_RUNTIME,
               "%s_(): Indexing dim %" PRId64 " is out of bounds of the source tensor with dim %d", name, dim,
               source->n_dims);
  SHMT_REQUIRE(index->numel == 1 || source->n_dims > 0, SHMT_E_INDEX,
               "%s_(): Dimension specified as %" PRId64 " but tensor has no dimensions: source is a number, and there "
               "are %" PRId64 " indices", name, dim, index->numel);
  const int64_t along = source->n_dims ? source->sizes[dim] : 1;
  SHMT_REQUIRE(index->numel == along, SHMT_E_RUNTIME,
               "%s_(): Number of indices (%" PRId64 ") should be equal to source.size(dim): (%" PRId64
               "), for dim: %" PRId64, name, index->numel, along, dim);
  SHMT_REQUIRE(!slices_differ(self, source, dim, false), SHMT_E_RUNTIME,
               "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
               "self.shape = %s source.shape = %s", SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(source));
  return SHMT_OK;
}

static shmt_status check_copied_source(const shmt_tensor* self, int64_t dim, const shmt_tensor* index,
                                       const shmt_tensor* source) {
  const bool is_number = self->n_dims == 0 || source->n_dims == 0;

  SHMT_TRY(shmt__check_has_data(index, self));
  SHMT_TRY(shmt__check_has_data(source, self));
  SHMT_REQUIRE(index->n_dims <= 1, SHMT_E_INDEX, "index_copy_(): Index should have dimension 1 or 0 (got %d)",
               index->n_dims);
  SHMT_REQUIRE(source->n_dims > 0 || index->numel == 1, SHMT_E_INDEX,
               "index_copy_(): When source is scalar, index should have one element (got %" PRId64 ")", index->numel);
  SHMT_REQUIRE(is_number || source->n_dims == self->n_dims, SHMT_E_INDEX,
               "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
               "dimensionality (%d), destination dimensionality (%d)", source->n_dims, self->n_dims);
  SHMT_REQUIRE(index->dtype == SHMT_INT64, SHMT_E_RUNTIME,
               "index_copy_(): Expected a long tensor for index, but got %s", shmt__dtype_title(index->dtype));
  SHMT_REQUIRE(self->dtype == source->dtype, SHMT_E_RUNTIME,
               "index_copy_(): self and source expected to have the same dtype, but got (self) %s and (source) %s",
               shmt__dtype_title(self->dtype), shmt__dtype_title(source->dtype));
  SHMT_REQUIRE(!slices_differ(self, source, dim, true), SHMT_E_RUNTIME,
               "index_copy_(): Source/destination tensor must have same slice shapes, apart from dimension %" PRId64
               ". Got self.shape = %s source.shape = %s", dim, SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(source));
  const int64_t along = source->n_dims ? source->sizes[dim] : index->numel;
  SHMT_REQUIRE(index->numel == along, SHMT_E_INDEX,
               "index_copy_(): Number of indices (%" PRId64 ") should be equal to source.size(dim) (%" PRId64
               "), for dim: %" PRId64, index->numel, along, dim);
  return SHMT_OK;
}

static shmt_status index_into(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index,
                              shmt_tensor* source, int row, bool in_wide) {
  SHMT_AUTO(shmt_tensor) own_line = NULL;
  shmt_tensor* line = NULL;
  SHMT_AUTO(shmt_tensor) own_from = NULL;
  shmt_tensor* from = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;

  if (shmt__tensor_is_meta(self)) return SHMT_OK;
  SHMT_TRY(shmt__at_least_1d(self, &own_line, &line));
  SHMT_TRY(shmt__at_least_1d(source, &own_from, &from));
  SHMT_TRY(spread_vector(index, shmt__tensor_sizes(from), dim, &where));
  if (in_wide) return combine(name, line, dim, where, from, row, SHMT_E_INDEX);
  return scatter_walk(name, line, dim, where, from, loop_of(row, self->dtype), SHMT_E_INDEX, false);
}

shmt_status shmt__index_add(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* source, shmt_scalar alpha,
                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  shmt_tensor* given = *out;
  double z[2];

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(shmt__check_index_source("index_add", self, dim, index, source));
  SHMT_TRY(shmt__check_not_expanded(given));
  SHMT_TRY(shmt__check_no_overlap(given, index));
  SHMT_REFUSE_DTYPE(!loop_of(SHMT_LOOP_scatter_add, self->dtype), self->dtype, "index_add");
  shmt__scalar_to_complex(alpha, z);
  if (!(z[0] == 1 && z[1] == 0) && index->numel > 0 && !shmt__tensor_is_meta(self)) {
    SHMT_AUTO(shmt_tensor) factor = NULL;
    SHMT_TRY(shmt__tensor_from_scalar(alpha, source->dtype, false, &factor));
    SHMT_TRY(shmt_op_mul_Tensor(source, factor, &scaled));
    source = scaled;
  }
  SHMT_TRY(shmt__begin_dense_update(self, out));
  /* Tall columns would need large copies for few additions each. */
  const bool in_wide = source->n_dims > 1 && !scaled && (dim > 0 || self->sizes[0] <= WIDE_ELEMENTS / MIN_WIDE_ROWS);
  return index_into("index_add", *out, dim, index, source, SHMT_LOOP_scatter_add, in_wide);
}

shmt_status shmt__index_copy(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* source,
                             shmt_tensor** out) {
  shmt_tensor* given = *out;

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_copied_source(self, dim, index, source));
  SHMT_TRY(shmt__check_not_expanded(given));
  SHMT_TRY(shmt__check_no_overlap(given, index));
  SHMT_TRY(shmt__begin_dense_update(self, out));
  return index_into("index_copy", *out, dim, index, source, SHMT_LOOP_scatter, false);
}

static shmt_status fill_into(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* number) {
  SHMT_AUTO(shmt_tensor) own_line = NULL;
  shmt_tensor* line = NULL;
  SHMT_AUTO(shmt_tensor) where = NULL;
  SHMT_AUTO(shmt_tensor) from = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  const int64_t no_strides[SHMT_MAX_DIMS] = {0};

  if (shmt__tensor_is_meta(self) || index->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt__at_least_1d(self, &own_line, &line));
  memcpy(sizes, line->sizes, (size_t)line->n_dims * sizeof *sizes);
  sizes[dim] = index->numel;
  SHMT_TRY(spread_vector(index, (shmt_ints){sizes, line->n_dims}, dim, &where));
  SHMT_TRY(shmt__restride(number, (shmt_ints){sizes, line->n_dims}, no_strides, &from));
  return scatter_walk("index_fill", line, dim, where, from, shmt__move_loop(SHMT_LOOP_scatter, self->dtype),
                      SHMT_E_INDEX, true);
}

shmt_status shmt__index_fill_scalar(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_scalar value,
                                    shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) number = NULL;
  SHMT_AUTO(shmt_tensor) single = NULL;
  shmt_tensor* given = *out;

  SHMT_REQUIRE(index->dtype == SHMT_INT64, SHMT_E_INDEX, "index_fill_(): Expected dtype int64 for index, but got %s.",
               shmt__dtype_title(index->dtype));
  SHMT_REQUIRE(shmt__is_complex(self->dtype) || value.tag != SHMT_SCALAR_COMPLEX, SHMT_E_RUNTIME,
               "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(index->n_dims <= 1, SHMT_E_RUNTIME, "Index has to be a vector/scalar, got %d dimensions", index->n_dims);
  SHMT_TRY(shmt__scalar_check(value, self->dtype));
  SHMT_TRY(shmt__tensor_from_scalar(value, self->dtype, false, &number));
  if (given == self && shmt__expanded_dims(self)) {
    SHMT_TRY(shmt__warn_expanded("index_fill_"));
    SHMT_TRY(shmt__unexpanded(self, shmt__expanded_dims(self) & ~(UINT64_C(1) << dim), &single));
    return fill_into(single, dim, index, number);
  }
  SHMT_TRY(shmt__check_no_overlap(given, index));
  SHMT_TRY(shmt__begin_update(self, out));
  return fill_into(*out, dim, index, number);
}

shmt_status shmt__index_fill_tensor(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* value,
                                    shmt_tensor** out) {
  shmt_scalar number = shmt__scalar_int(0);

  SHMT_REQUIRE(value->n_dims == 0, SHMT_E_RUNTIME,
               "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
               value->n_dims);
  if (!shmt__tensor_is_meta(value)) SHMT_TRY(shmt__tensor_item(value, &number));
  return shmt__index_fill_scalar(self, dim, index, number, out);
}

/* --- put: positions in the flattened tensor ------------------------------------------------ */

static void put_elements(shmt_tensor* to, shmt_tensor* index, shmt_tensor* source, shmt__loop loop,
                         shmt__bad_index* bad) {
  const int64_t item = shmt__tensor_item_bytes(to), strides[3] = {0, item, sizeof(int64_t)};
  shmt__bad_index unused;
  const shmt__index_args bytes = shmt__offset_args(&unused);
  shmt__blocks target, positions, from;
  int64_t offsets[SHMT_FLAT_BLOCK];
  _Alignas(16) char values[SHMT_FLAT_BLOCK * 16];

  shmt__blocks_init(&target, to, to->dtype);
  shmt__blocks_init(&positions, index, SHMT_INT64);
  shmt__blocks_init(&from, source, source->dtype);
  for (int64_t begin = 0, n; begin < index->numel; begin += n) {
    n = index->numel - begin < SHMT_FLAT_BLOCK ? index->numel - begin : SHMT_FLAT_BLOCK;
    char* next = (char*)(uintptr_t)shmt__blocks_read(&from, begin, n, values);
    const int64_t* at = shmt__blocks_read(&positions, begin, n, offsets);
    if (target.is_dense) {
      const shmt__index_args flat = {item, to->numel, true, bad};
      loop((char*[]){target.data, next, (char*)(uintptr_t)at}, strides, n, &flat);
      continue;
    }
    const shmt__index_args flat = {1, to->numel, true, bad};
    shmt__flat_offsets(&target, at, n, &flat, offsets);
    loop((char*[]){target.data, next, (char*)offsets}, strides, n, &bytes);
  }
}

shmt_status shmt__put(shmt_tensor* self, shmt_tensor* index, shmt_tensor* source, bool accumulate, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;
  shmt_tensor* given = *out;
  shmt__bad_index bad = {0};

  SHMT_TRY(shmt__check_not_expanded(given));
  SHMT_TRY(shmt__check_no_overlap(given, index));
  SHMT_REQUIRE(index->dtype == SHMT_INT64, SHMT_E_RUNTIME, "put_(): Expected a long tensor for index, but got %s",
               shmt__dtype_title(index->dtype));
  SHMT_REQUIRE(self->dtype == source->dtype, SHMT_E_RUNTIME,
               "put_(): self and source expected to have the same dtype, but got self.dtype = %s and source.dtype = %s",
               shmt__dtype_title(self->dtype), shmt__dtype_title(source->dtype));
  SHMT_TRY(shmt__check_has_data(index, self));
  SHMT_TRY(shmt__check_has_data(source, self));
  SHMT_REQUIRE(
      index->numel == source->numel, SHMT_E_INDEX,
      "put_(): Expected source and index to have the same number of elements, but got source.numel() = %" PRId64
      ", index.numel() = %" PRId64,
      source->numel, index->numel);
  SHMT_REQUIRE(self->numel > 0 || index->numel == 0, SHMT_E_INDEX,
               "put_(): Tried to put elements into an empty tensor");
  SHMT_TRY(shmt__begin_update(self, out));
  if (shmt__tensor_is_meta(*out) || index->numel == 0) return SHMT_OK;
  if (shmt__may_overlap(*out, source)) {
    SHMT_TRY(shmt__tensor_empty_like(source, source->dtype, &copy));
    SHMT_TRY(shmt__tensor_copy(copy, source));
    source = copy;
  }
  put_elements(*out, index, source,
               accumulate ? shmt__loops[SHMT_LOOP_scatter_add][self->dtype]
                          : shmt__move_loop(SHMT_LOOP_scatter, self->dtype),
               &bad);
  SHMT_REQUIRE(!bad.found, SHMT_E_INDEX, "out of range: tried to access index %" PRId64 " on a tensor of %" PRId64
               " elements.", bad.value, (*out)->numel);
  return SHMT_OK;
}
