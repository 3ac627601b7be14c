/* ops/indexing/scatter_reduce.c -- scatter_reduce and index_reduce. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/operator_loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/dtype_names.h"
#include "ops/indexing/scatter.h"
#include "ops/pointwise/pointwise.h"
#include "tensor/batched.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct reduction {
  const char* name;
  int row;
} reduction;

static const reduction REDUCTIONS[] = {
    {"sum", SHMT_LOOP_scatter_add},   {"prod", SHMT_LOOP_scatter_mul},
    {"mean", SHMT_LOOP_scatter_add},  {"amax", SHMT_LOOP_scatter_amax},
    {"amin", SHMT_LOOP_scatter_amin},
};

static const reduction* find_reduction(const char* name, int first) {
  for (int i = first; i < (int)(sizeof REDUCTIONS / sizeof *REDUCTIONS); i++)
    if (strcmp(REDUCTIONS[i].name, name) == 0) return &REDUCTIONS[i];
  return NULL;
}

/* The neutral element of a reduction. */
static shmt_scalar neutral(const reduction* r, shmt_dtype dtype) {
  const int bits = 8 * (int)shmt__dtype_size[dtype];
  const bool is_signed = shmt__dtype_kind[dtype] == SHMT_KIND_SIGNED;

  if (r->row == SHMT_LOOP_scatter_add) return shmt__scalar_int(0);
  if (r->row == SHMT_LOOP_scatter_mul) return shmt__scalar_int(1);
  if (shmt__is_complex(dtype)) return shmt__scalar_int(0); /* the loops refuse it */
  const bool lowest = r->row == SHMT_LOOP_scatter_amax;
  if (shmt__is_floating(dtype)) return shmt__scalar_float(lowest ? -INFINITY : INFINITY);
  if (dtype == SHMT_BOOL) return shmt__scalar_bool(!lowest);
  if (is_signed) {
    const int64_t highest = (int64_t)(UINT64_MAX >> (65 - bits));
    return shmt__scalar_int(lowest ? -highest - 1 : highest);
  }
  return lowest ? shmt__scalar_int(0) : shmt__scalar_uint(UINT64_MAX >> (64 - bits));
}

/* Divides sums by the number of elements in each, rounding down for integers. */
static shmt_status divide_by_counts(shmt_tensor* sums, int64_t dim, shmt_tensor* index, bool include_self) {
  static const shmt__pointwise exact = {"div", SHMT_LOOP_div, SHMT_PROMOTE_NONE, SHMT_DTYPE_NONE, false};
  static const shmt__pointwise floored = {"div_floor", SHMT_LOOP_div_floor, SHMT_PROMOTE_NONE,
                                          SHMT_DTYPE_NONE, false};
  static const shmt__pointwise at_least = {"clamp_min", SHMT_LOOP_clamp_low, SHMT_PROMOTE_NONE,
                                           SHMT_DTYPE_NONE, false};
  SHMT_AUTO(shmt_tensor) counts = NULL;
  SHMT_AUTO(shmt_tensor) divisors = NULL;

  SHMT_REFUSE_DTYPE(sums->dtype == SHMT_BOOL, sums->dtype, "scatter_reduce_mean");
  SHMT_TRY(shmt__tensor_empty_like(sums, index->numel < INT32_MAX ? SHMT_INT32 : SHMT_INT64, &counts));
  if (!shmt__tensor_is_meta(sums)) SHMT_TRY(shmt__tensor_fill(counts, shmt__scalar_int(include_self ? 1 : 0)));
  SHMT_TRY(shmt__scatter_value_reduce(counts, dim, index, shmt__scalar_int(1), "add", &counts));
  SHMT_TRY(shmt__pointwise_unary_1(&at_least, counts, shmt__scalar_int(1), &counts));
  SHMT_TRY(shmt__tensor_cast(counts, sums->dtype, &divisors));
  if (shmt__dtype_category(sums->dtype) >= 2) return shmt__pointwise_binary(&exact, sums, divisors, &sums);
  return shmt__pointwise_binary_division(&floored, sums, divisors, &sums);
}

shmt_status shmt__scatter_reduce_two(shmt_tensor* self, int64_t dim, shmt_tensor* index,
                                     shmt_tensor* src, const char* reduce, bool include_self,
                                     shmt_tensor** out) {
  const reduction* r = find_reduction(reduce, 0);
  SHMT_AUTO(shmt_tensor) start = NULL;

  SHMT_REQUIRE(r != NULL, SHMT_E_RUNTIME,
               "reduce argument must be either sum, prod, mean, amax or amin, got %s", reduce);
  if (include_self)
    start = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt__scatter_value(self, dim, index, neutral(r, self->dtype), &start));
  if (include_self || *out) {
    SHMT_TRY(shmt__scatter_by("scatter_reduce", start, dim, index, src, r->row, out));
  } else {
    SHMT_TRY(shmt__scatter_by("scatter_reduce", start, dim, index, src, r->row, &start));
    *out = SHMT_TAKE(start);
  }
  return strcmp(reduce, "mean") == 0 ? divide_by_counts(*out, dim, index, include_self) : SHMT_OK;
}

/* --- by a vector of indices ------------------------------------------------------------ */

static shmt_status check_range(shmt_tensor* index, const shmt_tensor* self, int64_t dim) {
  SHMT_AUTO(shmt_tensor) low = NULL;
  SHMT_AUTO(shmt_tensor) high = NULL;
  shmt_scalar first, last;
  const int64_t size = self->n_dims ? self->sizes[dim] : 1;

  if (shmt__tensor_is_meta(index) || index->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt_op_min(shmt__all_examples(index), &low));
  SHMT_TRY(shmt_op_max(shmt__all_examples(index), &high));
  SHMT_TRY(shmt__tensor_item(low, &first));
  SHMT_TRY(shmt__tensor_item(high, &last));
  if (first.v.i >= 0 && last.v.i < size) return SHMT_OK;
  const int64_t bad = last.v.i < size ? first.v.i : last.v.i;
  SHMT_FAIL(SHMT_E_INDEX, "index out of range in self: index %" PRId64 " is out of bounds for dimension %" PRId64
            " with size %" PRId64, bad, dim, size);
}

/* The index broadcast to the sizes of source; dim is wrapped. */
static shmt_status spread_vector(shmt_tensor* self, int64_t* at, shmt_tensor* index, shmt_tensor* source,
                                 const char* reduce, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) shaped = NULL;
  int64_t shape[SHMT_MAX_DIMS];

  SHMT_REQUIRE(find_reduction(reduce, 1) != NULL, SHMT_E_RUNTIME,
               "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got %s.",
               reduce);
  SHMT_TRY(shmt__wrap_dim(*at, self->n_dims, at));
  const int64_t dim = *at;
  SHMT_TRY(shmt__check_index_source("index_reduce", self, dim, index, source));
  SHMT_REFUSE_DTYPE(self->n_dims < 2 && (self->dtype == SHMT_BOOL || shmt__is_complex(self->dtype)), self->dtype,
                    "index_func_");
  SHMT_TRY(check_range(index, self, dim));
  for (int d = 0; d < source->n_dims; d++) shape[d] = d == dim ? index->numel : 1;
  SHMT_TRY(shmt_op_to_dtype(index, SHMT_INT64, false, false, SHMT_MEMORY_FORMAT_NONE, &wide));
  SHMT_TRY(shmt_op_reshape(wide, (shmt_ints){shape, source->n_dims}, &shaped));
  return shmt_op_expand(shaped, shmt__tensor_sizes(source), false, out);
}

shmt_status shmt__index_reduce(shmt_tensor* self, int64_t dim, shmt_tensor* index,
                               shmt_tensor* source, const char* reduce, bool include_self,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) spread = NULL;

  SHMT_TRY(spread_vector(self, &dim, index, source, reduce, &spread));
  return shmt_op_scatter_reduce_two(self, dim, spread, source, reduce, include_self, out);
}

shmt_status shmt__index_reduce_(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* source,
                                const char* reduce, bool include_self) {
  SHMT_AUTO(shmt_tensor) spread = NULL;

  SHMT_TRY(spread_vector(self, &dim, index, source, reduce, &spread));
  return shmt_op_scatter_reduce__two(self, dim, spread, source, reduce, include_self);
}
