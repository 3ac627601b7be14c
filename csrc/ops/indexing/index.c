/* ops/indexing/index.c -- indexing by tensors: index, index_put. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/indexing/index_iterator.h"
#include "ops/indexing/masks.h"
#include "ops/indexing/update.h"
#include "ops/outputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Index tensors in one form: for each dim of self an int64 tensor, or NULL. */
typedef struct plan {
  shmt_tensor* index[SHMT_MAX_DIMS]; /* owned */
  int n_dims;                        /* of self */
  int first, n_indexed;
  bool adjacent;
  int64_t index_sizes[SHMT_MAX_DIMS]; /* of the indices, broadcast */
  int64_t n_index_dims;
  int64_t sizes[2 * SHMT_MAX_DIMS];   /* of the result */
  int64_t self_strides[2 * SHMT_MAX_DIMS];
  int n_result_dims;
  int index_at;                       /* the result dim where the indices' dims begin */
  shmt_tensor* offsets;               /* owned: byte offsets to walk with, in the result's sizes */
  shmt__index_args shape;
  shmt__bad_index bad;
} plan;

static void plan_fini(plan* p) {
  for (int d = 0; d < p->n_dims; d++) shmt__tensor_release(p->index[d]);
  shmt__tensor_release(p->offsets);
}

/* Adds a mask, which stands for as many integer indices as it has dims. */
static shmt_status add_mask(plan* p, const shmt_tensor* self, shmt_tensor* mask, int* at) {
  SHMT_AUTO(shmt_tensor) positions = NULL;

  for (int d = 0; d < mask->n_dims; d++) {
    SHMT_REQUIRE(*at + d < self->n_dims, SHMT_E_INDEX, "too many indices for tensor of dimension %d", self->n_dims);
    SHMT_REQUIRE(mask->sizes[d] == self->sizes[*at + d], SHMT_E_INDEX,
                 "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
                 SHMT_SHAPE_TEXT(mask), d, SHMT_SHAPE_TEXT(self), *at + d);
  }
  SHMT_TRY(shmt__refuse_meta_count("index", mask));
  SHMT_TRY(shmt__nonzero_positions(mask, &positions));
  for (int d = 0; d < mask->n_dims; d++) {
    SHMT_TRY(shmt__tensor_alias(positions, SHMT_INTS(positions->sizes[0]), SHMT_INTS(positions->strides[0]),
                                positions->offset + d * positions->strides[1], &p->index[*at]));
    (*at)++;
  }
  return SHMT_OK;
}

static shmt_status add_index(plan* p, const shmt_tensor* self, shmt_tensor* index, int* at) {
  if (!index) {
    SHMT_REQUIRE(*at < self->n_dims, SHMT_E_INDEX, "too many indices for tensor of dimension %d", self->n_dims);
    (*at)++;
    return SHMT_OK;
  }
  SHMT_REQUIRE(shmt__tensor_is_meta(self) || !shmt__tensor_is_meta(index), SHMT_E_RUNTIME,
               "indices should be on the same device as the indexed tensor (cpu), got meta");
  if (index->dtype == SHMT_UINT8)
    SHMT_TRY(shmt__warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."));
  if (index->dtype == SHMT_BOOL || index->dtype == SHMT_UINT8) return add_mask(p, self, index, at);
  SHMT_REQUIRE(index->dtype == SHMT_INT64 || index->dtype == SHMT_INT32, SHMT_E_INDEX,
               "tensors used as indices must be long, int, byte or bool tensors");
  SHMT_REQUIRE(*at < self->n_dims, SHMT_E_INDEX, "too many indices for tensor of dimension %d", self->n_dims);
  return shmt__tensor_cast(index, SHMT_INT64, &p->index[(*at)++]);
}

static shmt_status index_shapes_text(const plan* p, char* buf, size_t cap) {
  size_t used = 0;

  for (int d = 0; d < p->n_dims && used + 64 < cap; d++) {
    if (!p->index[d]) continue;
    if (used) used += (size_t)snprintf(buf + used, cap - used, ", ");
    (void)shmt__ints_text(shmt__tensor_sizes(p->index[d]), buf + used, cap - used);
    used += strlen(buf + used);
  }
  return SHMT_OK;
}

static shmt_status find_result_shape(plan* p, const shmt_tensor* self) {
  int last = -1;

  p->first = -1;
  for (int d = 0; d < p->n_dims; d++) {
    if (!p->index[d]) continue;
    if (p->first < 0) p->first = d;
    last = d;
    p->n_indexed++;
    const shmt_ints sizes = shmt__tensor_sizes(p->index[d]);
    /* Checked here, so that the message names all index tensors. */
    bool fits = true;
    int64_t merged[SHMT_MAX_DIMS];
    const int64_t n = sizes.len > p->n_index_dims ? sizes.len : p->n_index_dims;
    for (int64_t i = 0; i < n; i++) {
      const int64_t a = i < p->n_index_dims ? p->index_sizes[p->n_index_dims - 1 - i] : 1;
      const int64_t b = i < sizes.len ? sizes.data[sizes.len - 1 - i] : 1;
      fits = fits && (a == b || a == 1 || b == 1);
      merged[n - 1 - i] = a == 1 ? b : a;
    }
    if (!fits) {
      char text[512] = {0};
      SHMT_TRY(index_shapes_text(p, text, sizeof text));
      SHMT_FAIL(SHMT_E_INDEX, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", text);
    }
    memcpy(p->index_sizes, merged, (size_t)n * sizeof *merged);
    p->n_index_dims = n;
  }
  SHMT_REQUIRE(p->n_indexed > 0, SHMT_E_INDEX, "at least one index must be provided");
  p->adjacent = last - p->first + 1 == p->n_indexed;
  SHMT_REQUIRE(p->n_index_dims + self->n_dims - p->n_indexed <= SHMT_MAX_DIMS, SHMT_E_RUNTIME,
               "index(): the result would have more than %d dimensions", SHMT_MAX_DIMS);
  int r = 0;
  p->index_at = p->adjacent ? p->first : 0;
  for (int d = 0; d <= p->n_dims; d++) {
    if (d == (p->adjacent ? p->first : 0))
      for (int64_t i = 0; i < p->n_index_dims; i++) {
        p->sizes[r] = p->index_sizes[i];
        p->self_strides[r++] = 0;
      }
    if (d < p->n_dims && !p->index[d]) {
      p->sizes[r] = self->sizes[d];
      p->self_strides[r++] = self->strides[d];
    }
  }
  p->n_result_dims = r;
  return SHMT_OK;
}

/* Combines several indices into one tensor of byte offsets: offset += wrapped index * stride. */
static shmt_status combine_indices(plan* p, const shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;
  const shmt_ints sizes = {p->index_sizes, p->n_index_dims};
  const int64_t item = shmt__tensor_item_bytes(self);

  SHMT_TRY(shmt__tensor_empty(sizes, SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &sum));
  SHMT_TRY(shmt__tensor_fill(sum, shmt__scalar_int(0)));
  /* As in torch, messages count only the dims that are indexed. */
  for (int d = 0, ordinal = 0; d < p->n_dims; d++) {
    SHMT_AUTO(shmt_tensor) spread = NULL;
    SHMT_AUTO(shmt_tensor) dense = NULL;
    int64_t strides[SHMT_MAX_DIMS];
    if (!p->index[d]) continue;
    const shmt_tensor* x = p->index[d];
    for (int64_t i = 0; i < sizes.len; i++) {
      const int64_t own = i - (sizes.len - x->n_dims);
      strides[i] = own >= 0 && x->sizes[own] != 1 ? x->strides[own] : 0;
    }
    SHMT_TRY(shmt__restride(p->index[d], sizes, strides, &spread));
    SHMT_TRY(shmt__tensor_contiguous(spread, SHMT_CONTIGUOUS_FORMAT, &dense));
    const shmt__index_args shape = {shmt__wrap_mul_i64(self->strides[d], item), self->sizes[d], true, &p->bad};
    const int64_t* index = shmt__tensor_data(dense);
    int64_t* to = shmt__tensor_data(sum);
    bool ok;
    for (int64_t i = 0; i < sum->numel; i++) to[i] += shmt__index_offset(&shape, index[i], &ok);
    SHMT_TRY(shmt__check_bad_index(&p->bad, SHMT_E_INDEX, ordinal++, self->sizes[d]));
  }
  *out = SHMT_TAKE(sum);
  return SHMT_OK;
}

/* Broadcasts the index to the result's sizes: stride 0 along the dims that are not indexed. */
static shmt_status spread_index(plan* p, shmt_tensor* index) {
  int64_t strides[2 * SHMT_MAX_DIMS];

  for (int r = 0; r < p->n_result_dims; r++) strides[r] = 0;
  for (int i = 0; i < index->n_dims; i++) {
    const int64_t r = p->index_at + p->n_index_dims - index->n_dims + i;
    strides[r] = index->sizes[i] != 1 ? index->strides[i] : 0;
  }
  return shmt__restride(index, (shmt_ints){p->sizes, p->n_result_dims}, strides, &p->offsets);
}

static shmt_status plan_init(plan* p, shmt_tensor* self, shmt_tensors indices) {
  int at = 0;

  /* Field by field: the arrays are kilobytes, and are written before they are read. */
  p->n_dims = self->n_dims;
  p->n_indexed = 0;
  p->n_index_dims = 0;
  p->n_result_dims = 0;
  p->offsets = NULL;
  p->bad = (shmt__bad_index){0};
  for (int d = 0; d < p->n_dims; d++) p->index[d] = NULL;
  for (int64_t i = 0; i < indices.len; i++) SHMT_TRY(add_index(p, self, indices.data[i], &at));
  SHMT_TRY(find_result_shape(p, self));
  for (int64_t i = 0; i < p->n_index_dims; i++)
    if (p->index_sizes[i] == 0) return SHMT_OK;
  for (int d = 0; d < p->n_dims; d++)
    SHMT_REQUIRE(!p->index[d] || self->sizes[d] > 0, SHMT_E_INDEX, "index is out of bounds for dimension with size 0");
  return SHMT_OK;
}

/* Calculates the offsets of the elements. Only here are the indices read. A result without elements has no offsets. */
static shmt_status plan_offsets(plan* p, const shmt_tensor* self) {
  if (shmt__tensor_is_meta(self)) return SHMT_OK;
  for (int r = 0; r < p->n_result_dims; r++)
    if (p->sizes[r] == 0) return SHMT_OK;
  if (p->n_indexed == 1) {
    const int d = p->first;
    const int64_t stride = shmt__wrap_mul_i64(self->strides[d], shmt__tensor_item_bytes(self));
    p->shape = (shmt__index_args){stride, self->sizes[d], true, &p->bad};
    return spread_index(p, p->index[d]);
  }
  SHMT_AUTO(shmt_tensor) combined = NULL;
  SHMT_TRY(combine_indices(p, self, &combined));
  p->shape = (shmt__index_args){1, INT64_MAX, false, &p->bad};
  return spread_index(p, combined);
}

static const shmt_tensor* find_meta_mask(shmt_tensors indices) {
  for (int64_t i = 0; i < indices.len; i++) {
    const shmt_tensor* t = indices.data[i];
    if (t && shmt__tensor_is_meta(t) && (t->dtype == SHMT_BOOL || t->dtype == SHMT_UINT8)) return t;
  }
  return NULL;
}

shmt_status shmt__index(shmt_tensor* self, shmt_tensors indices, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) source = NULL;
  plan p;
  shmt_status status;

  SHMT_REQUIRE(indices.len <= self->n_dims || self->n_dims == 0 || indices.len <= SHMT_MAX_DIMS, SHMT_E_INDEX,
               "too many indices for tensor of dimension %d (got %" PRId64 ")", self->n_dims, indices.len);
  const shmt_tensor* meta_mask = find_meta_mask(indices);
  if (meta_mask) return shmt__refuse_meta_count("index", meta_mask);
  if (indices.len == 1 && indices.data[0] && indices.data[0]->dtype == SHMT_BOOL && self->n_dims > 0 &&
      shmt__same_sizes(self, indices.data[0]) && !shmt__tensor_is_meta(self))
    return shmt__select_masked(self, indices.data[0], out);
  if (self->n_dims == 0 && indices.len == 1 && indices.data[0] && indices.data[0]->dtype == SHMT_BOOL &&
      indices.data[0]->n_dims == 0) {
    SHMT_AUTO(shmt_tensor) line = NULL;
    SHMT_AUTO(shmt_tensor) mask = NULL;
    SHMT_TRY(shmt__tensor_alias(self, SHMT_INTS(1), SHMT_INTS(1), self->offset, &line));
    SHMT_TRY(shmt__tensor_alias(indices.data[0], SHMT_INTS(1), SHMT_INTS(1), indices.data[0]->offset, &mask));
    return shmt__select_masked(line, mask, out);
  }
  status = plan_init(&p, self, indices);
  if (status == SHMT_OK) status = plan_offsets(&p, self);
  const shmt_ints sizes = {p.sizes, p.n_result_dims};
  if (status == SHMT_OK) status = shmt__restride(self, sizes, p.self_strides, &source);
  /* In the result the dims that are not indexed have the memory order that they have in self. */
  if (status == SHMT_OK)
    status = shmt__tensor_is_contiguous(self)
                 ? shmt__tensor_empty(sizes, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result)
                 : shmt__tensor_empty_like(source, self->dtype, &result);
  if (status == SHMT_OK && p.offsets) {
    status = shmt__indexed_walk("index", result, source, p.offsets, &p.shape,
                                shmt__move_loop(SHMT_LOOP_gather, self->dtype), NULL);
    if (status == SHMT_OK)
      status = shmt__check_bad_index(&p.bad, SHMT_E_INDEX, 0, p.n_indexed ? self->sizes[p.first] : 0);
  }
  plan_fini(&p);
  if (status == SHMT_OK) *out = SHMT_TAKE(result);
  return status;
}

static shmt_status check_values_dtype(const shmt_tensor* self, const shmt_tensor* values) {
  SHMT_REQUIRE(self->dtype == values->dtype, SHMT_E_RUNTIME,
               "Index put requires the source and destination dtypes match, got %s for the destination and %s for the "
               "source.", shmt__dtype_title(self->dtype), shmt__dtype_title(values->dtype));
  return SHMT_OK;
}

/* Broadcasts values, which must have self's dtype, to the sizes of the result. */
static shmt_status spread_values(const plan* p, const shmt_tensor* self, shmt_tensor* values, shmt_tensor** out) {
  int64_t strides[2 * SHMT_MAX_DIMS];
  const shmt_ints sizes = {p->sizes, p->n_result_dims};
  bool fits;

  fits = values->n_dims <= p->n_result_dims;
  for (int r = 0; fits && r < p->n_result_dims; r++) {
    const int own = r - (p->n_result_dims - values->n_dims);
    const bool has = own >= 0;
    fits = !has || values->sizes[own] == 1 || values->sizes[own] == p->sizes[r];
    strides[r] = has && values->sizes[own] != 1 ? values->strides[own] : 0;
  }
  if (!fits) {
    char want[256];
    SHMT_FAIL(SHMT_E_RUNTIME, "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of "
              "shape %s", SHMT_SHAPE_TEXT(values), shmt__ints_text(sizes, want, sizeof want));
  }
  SHMT_TRY(check_values_dtype(self, values));
  return shmt__restride(values, sizes, strides, out);
}

/* Is there a single mask of self's shape? Then assigning one number is a masked_fill. */
static bool is_whole_mask(const shmt_tensor* self, shmt_tensors indices) {
  const shmt_tensor* mask = indices.len == 1 ? indices.data[0] : NULL;

  return mask && mask->dtype == SHMT_BOOL && mask->device == SHMT_CPU && shmt__same_sizes(mask, self) &&
         mask->storage != self->storage;
}

/* Is one mask all that indexes? */
static bool is_one_mask(shmt_tensors indices) {
  const shmt_tensor* mask = NULL;

  for (int64_t i = 0; i < indices.len; i++) {
    if (!indices.data[i]) continue;
    if (mask) return false;
    mask = indices.data[i];
  }
  return mask && (mask->dtype == SHMT_BOOL || mask->dtype == SHMT_UINT8);
}

/* The one element of values, converted to dtype. */
static shmt_status number_of(shmt_tensor* values, shmt_dtype dtype, shmt_tensor** out) {
  shmt_scalar number;

  SHMT_TRY(shmt__tensor_item(values, &number));
  SHMT_TRY(shmt__scalar_check(number, dtype));
  return shmt__tensor_from_scalar(number, dtype, false, out);
}

static shmt_status put_at_indices(shmt_tensor* self, shmt_tensors indices, shmt_tensor* values, bool accumulate) {
  SHMT_AUTO(shmt_tensor) target = NULL;
  SHMT_AUTO(shmt_tensor) source = NULL;
  plan p;
  shmt_status status;
  const shmt__loop loop = accumulate ? shmt__loops[SHMT_LOOP_scatter_add][self->dtype]
                                     : shmt__move_loop(SHMT_LOOP_scatter, self->dtype);

  if (self->n_dims == 0) {
    SHMT_AUTO(shmt_tensor) line = NULL;
    SHMT_AUTO(shmt_tensor) mask = NULL;
    SHMT_REQUIRE(indices.len == 1 && indices.data[0] && indices.data[0]->n_dims == 0 &&
                     indices.data[0]->dtype == SHMT_BOOL,
                 SHMT_E_INDEX, "too many indices for tensor of dimension 0");
    if (shmt__tensor_is_meta(self)) return SHMT_OK;
    SHMT_TRY(shmt__tensor_alias(self, SHMT_INTS(1), SHMT_INTS(1), self->offset, &line));
    SHMT_TRY(shmt__tensor_alias(indices.data[0], SHMT_INTS(1), SHMT_INTS(1), indices.data[0]->offset, &mask));
    return put_at_indices(line, (shmt_tensors){(shmt_tensor* const[]){mask}, 1}, values, accumulate);
  }
  /* On Meta the number of elements that a mask selects is unknown, so the values' shape cannot be checked. */
  if (shmt__tensor_is_meta(self) && find_meta_mask(indices)) return check_values_dtype(self, values);
  if (!accumulate && values->n_dims == 0 && !shmt__tensor_is_meta(self) && !shmt__may_overlap_itself(self) &&
      is_whole_mask(self, indices)) {
    shmt_tensor* filled = self;
    return shmt__masked_fill_tensor(self, indices.data[0], values, &filled);
  }
  status = plan_init(&p, self, indices);
  if (status == SHMT_OK) status = spread_values(&p, self, values, &source);
  if (status == SHMT_OK) status = plan_offsets(&p, self);
  if (status == SHMT_OK && p.offsets) {
    status = shmt__restride(self, (shmt_ints){p.sizes, p.n_result_dims}, p.self_strides, &target);
    if (status == SHMT_OK)
      status = shmt__indexed_walk("index_put", target, source, p.offsets, &p.shape, loop, self);
    if (status == SHMT_OK)
      status = shmt__check_bad_index(&p.bad, SHMT_E_INDEX, 0, self->sizes[p.first]);
  }
  plan_fini(&p);
  return status;
}

shmt_status shmt__index_put(shmt_tensor* self, shmt_tensors indices, shmt_tensor* values, bool accumulate,
                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;
  SHMT_AUTO(shmt_tensor) number = NULL;
  shmt_tensor* given = *out;

  SHMT_REQUIRE(indices.len > 0, SHMT_E_RUNTIME, "index_put(): at least one index must be provided");
  if (!accumulate && values->numel == 1 && (values->dtype != self->dtype || values->n_dims > 0) &&
      !shmt__tensor_is_meta(values) && is_one_mask(indices)) {
    SHMT_TRY(number_of(values, self->dtype, &number));
    values = number;
  }
  /* x[i] = x[j]: the values must not change while they are read. */
  if (shmt__may_overlap(given ? given : self, values) && !shmt__tensor_is_meta(self)) {
    SHMT_TRY(shmt__tensor_empty_like(values, values->dtype, &copy));
    SHMT_TRY(shmt__tensor_copy(copy, values));
    values = copy;
  }
  if (given && shmt__expanded_dims(given)) SHMT_TRY(shmt__warn_expanded("index_put_"));
  SHMT_TRY(shmt__begin_update(self, out));
  return put_at_indices(*out, indices, values, accumulate);
}
