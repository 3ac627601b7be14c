/* ops/sorting/searchsorted.c -- where numbers would be inserted in sorted ones: searchsorted, bucketize. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/outputs.h"

#include <inttypes.h>
#include <string.h>

enum { SEARCH_GRAIN = 1024, SEARCH_BLOCK = 1024 };

typedef struct search {
  bool out_int32, right;
  shmt_tensor* sorter;
} search;

static shmt_status check_search(const shmt_tensor* bounds, const shmt_tensor* values, const search* s) {
  SHMT_REQUIRE(
      bounds->n_dims > 0, SHMT_E_RUNTIME,
      "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
      "boundaries tensor dim(0)");
  bool fits = bounds->n_dims == 1 || bounds->n_dims == values->n_dims;
  for (int d = 0; fits && bounds->n_dims > 1 && d < bounds->n_dims - 1; d++)
    fits = bounds->sizes[d] == values->sizes[d];
  SHMT_REQUIRE(
      fits, SHMT_E_RUNTIME,
      "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
      "tensor and input value tensor must match, but we got boundaries tensor %s and input value tensor %s",
      SHMT_SHAPE_TEXT(bounds), SHMT_SHAPE_TEXT(values));
  if (s->sorter) {
    SHMT_REQUIRE(s->sorter->dtype == SHMT_INT64, SHMT_E_RUNTIME,
                 "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
                 shmt__dtype_title(s->sorter->dtype));
    SHMT_REQUIRE(
        shmt__same_sizes(s->sorter, bounds), SHMT_E_RUNTIME,
        "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor %s and got "
        "sorter tensor %s",
        SHMT_SHAPE_TEXT(bounds), SHMT_SHAPE_TEXT(s->sorter));
  }
  return SHMT_OK;
}

static shmt_status dense_in(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  if (t->dtype == dtype) return shmt__tensor_contiguous(t, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(t), dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &cast));
  SHMT_TRY(shmt__tensor_copy(cast, t));
  *out = SHMT_TAKE(cast);
  return SHMT_OK;
}

/* Copies and checks the sorter's indices into rows of n_bounds. Nobody can change the copy after the check. */
static shmt_status own_order(shmt_tensor* sorter, int64_t n_bounds, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) own = NULL;

  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(sorter), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &own));
  SHMT_TRY(shmt__tensor_copy(own, sorter));
  const int64_t* at = shmt__tensor_data(own);
  for (int64_t i = 0; i < own->numel; i++)
    SHMT_REQUIRE(at[i] >= 0 && at[i] < n_bounds, SHMT_E_RUNTIME,
                 "torch.searchsorted(): sorter index out of range: %" PRId64 " of %" PRId64 " boundaries", at[i],
                 n_bounds);
  *out = SHMT_TAKE(own);
  return SHMT_OK;
}

typedef struct rows_search {
  char *positions, *values, *bounds, *order;
  bool out_int32;
  shmt_dtype dtype, value_dtype; /* the dtype compared in; that of the values */
  int64_t each;                  /* values for each row */
  shmt__loop loop;
  shmt__search_args shape;
} rows_search;

/* Searches n values from `begin` on, at most SEARCH_BLOCK when values or positions are converted. */
static void search_block(const rows_search* s, int64_t begin, int64_t n) {
  const int64_t item = shmt__dtype_size[s->dtype], own_item = shmt__dtype_size[s->value_dtype];
  const int64_t strides[4] = {8, item, item, 8}, row = begin / s->each * s->shape.n_bounds;
  int64_t positions[SEARCH_BLOCK], values[SEARCH_BLOCK];
  char* data[4] = {s->out_int32 ? (char*)positions : s->positions + begin * 8, s->values + begin * own_item,
                   s->bounds + row * item, s->order ? s->order + row * 8 : NULL};

  if (s->dtype != s->value_dtype) {
    shmt__cast_loop(s->dtype, s->value_dtype)((char*)values, item, data[1], own_item, n);
    data[1] = (char*)values;
  }
  s->loop(data, strides, n, &s->shape);
  for (int64_t i = 0; s->out_int32 && i < n; i++) ((int32_t*)(void*)s->positions)[begin + i] = (int32_t)positions[i];
}

static void search_piece(void* ctx, int64_t begin, int64_t end) {
  const rows_search* s = ctx;
  const bool converts = s->out_int32 || s->dtype != s->value_dtype;

  for (int64_t n; begin < end; begin += n) {
    n = s->each - begin % s->each;
    if (n > end - begin) n = end - begin;
    if (converts && n > SEARCH_BLOCK) n = SEARCH_BLOCK;
    search_block(s, begin, n);
  }
}

static shmt_status run_search(shmt_tensor* bounds, shmt_tensor* values, const search* s, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) positions = NULL;
  shmt_dtype dtype;

  SHMT_TRY(check_search(bounds, values, s));
  SHMT_TRY(shmt__promote_types(bounds->dtype, values->dtype, &dtype));
  SHMT_REFUSE_DTYPE(dtype == SHMT_BOOL, dtype, "searchsorted_out_cpu");
  SHMT_REQUIRE_LOOP(SHMT_LOOP_search, dtype, "searchsorted_out_cpu");
  /* 16-bit floats are compared as float32. With few bounds these are converted once, and not in each comparison. */
  if (shmt__is_half(dtype) && bounds->numel <= values->numel / 8) dtype = SHMT_FLOAT32;
  /* A number may be on the CPU beside a tensor on Meta. */
  const bool meta = shmt__tensor_is_meta(values) || shmt__tensor_is_meta(bounds);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(values), s->out_int32 ? SHMT_INT32 : SHMT_INT64,
                              meta ? SHMT_META : SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &positions));
  if (!meta && values->numel > 0) {
    SHMT_TRY(dense_in(bounds, dtype, &b));
    SHMT_TRY(shmt__tensor_contiguous(values, SHMT_CONTIGUOUS_FORMAT, &v));
    const int64_t n_bounds = b->sizes[b->n_dims - 1];
    if (s->sorter) SHMT_TRY(own_order(s->sorter, n_bounds, &order));
    const int64_t rows = b->n_dims == 1 ? 1 : b->numel / (n_bounds > 0 ? n_bounds : 1);
    rows_search w = {shmt__tensor_data(positions), shmt__tensor_data(v), shmt__tensor_data(b),
                     order ? shmt__tensor_data(order) : NULL, s->out_int32, dtype, v->dtype,
                     v->numel / (b->n_dims == 1 || n_bounds == 0 ? 1 : rows),
                     shmt__loops[SHMT_LOOP_search][dtype], {n_bounds, s->right}};
    shmt__parallel_for(v->numel, SEARCH_GRAIN, search_piece, &w);
  }
  *out = SHMT_TAKE(positions);
  return SHMT_OK;
}

static shmt_status make_search(bool out_int32, bool right, const char* side, shmt_tensor* sorter, search* s) {
  *s = (search){out_int32, right, sorter};
  if (!side) return SHMT_OK;
  SHMT_REQUIRE(strcmp(side, "left") == 0 || strcmp(side, "right") == 0, SHMT_E_RUNTIME,
               "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
  SHMT_REQUIRE(!(right && strcmp(side, "left") == 0), SHMT_E_RUNTIME,
               "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True");
  s->right = strcmp(side, "right") == 0;
  return SHMT_OK;
}

shmt_status shmt__searchsorted(shmt_tensor* sorted_sequence, shmt_tensor* self, bool out_int32, bool right,
                               const char* side, shmt_tensor* sorter, shmt_tensor** out) {
  search s;

  SHMT_TRY(make_search(out_int32, right, side, sorter, &s));
  return run_search(sorted_sequence, self, &s, out);
}

shmt_status shmt__searchsorted_scalar(shmt_tensor* sorted_sequence, shmt_scalar self, bool out_int32, bool right,
                                      const char* side, shmt_tensor* sorter, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) value = NULL;
  search s;

  SHMT_REQUIRE(
      sorted_sequence->n_dims == 1, SHMT_E_RUNTIME,
      "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
      "boundaries tensor dim(%d) and input value's dim(0) numel(1)",
      sorted_sequence->n_dims);
  SHMT_TRY(make_search(out_int32, right, side, sorter, &s));
  SHMT_TRY(shmt__tensor_from_scalar(self, shmt__scalar_dtype(self), false, &value));
  return run_search(sorted_sequence, value, &s, out);
}

static shmt_status check_boundaries(const shmt_tensor* boundaries) {
  SHMT_REQUIRE(boundaries->n_dims == 1, SHMT_E_RUNTIME, "boundaries tensor must be 1 dimension, but got dim(%d)",
               boundaries->n_dims);
  return SHMT_OK;
}

shmt_status shmt__bucketize(shmt_tensor* self, shmt_tensor* boundaries, bool out_int32, bool right,
                            shmt_tensor** out) {
  const search s = {out_int32, right, NULL};

  SHMT_TRY(check_boundaries(boundaries));
  return run_search(boundaries, self, &s, out);
}

shmt_status shmt__bucketize_scalar(shmt_scalar self, shmt_tensor* boundaries, bool out_int32, bool right,
                                   shmt_tensor** out) {
  SHMT_TRY(check_boundaries(boundaries));
  return shmt__searchsorted_scalar(boundaries, self, out_int32, right, NULL, NULL, out);
}
