/* ops/indexing/gather.c -- reads along one dim by index: gather, index_select, take. */
#include "ops/indexing/gather.h"

#include "base/overflow.h"
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/indexing/index_iterator.h"
#include "ops/outputs.h"

#include <inttypes.h>
#include <string.h>

shmt_status shmt__at_least_1d(shmt_tensor* t, shmt_tensor** made, shmt_tensor** out) {
  if (t->n_dims == 0) SHMT_TRY(shmt__tensor_alias(t, SHMT_INTS(1), SHMT_INTS(1), t->offset, made));
  *out = *made ? *made : t;
  return SHMT_OK;
}

shmt_status shmt__check_index_dtype(const char* name, const shmt_tensor* index, const char* wording) {
  SHMT_REQUIRE(index->dtype == SHMT_INT64 || index->dtype == SHMT_INT32, SHMT_E_RUNTIME, "%s(): %s", name, wording);
  return SHMT_OK;
}

shmt_status shmt__gather(shmt_tensor* self, int64_t dim, shmt_tensor* index, bool sparse_grad, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) own_line = NULL;
  shmt_tensor* line = NULL;
  SHMT_AUTO(shmt_tensor) own_where = NULL;
  shmt_tensor* where = NULL;
  SHMT_AUTO(shmt_tensor) own_wide = NULL;
  shmt_tensor* wide = NULL;
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) own_target = NULL;
  shmt_tensor* target = NULL;
  int64_t strides[SHMT_MAX_DIMS];
  shmt__bad_index bad = {0};

  (void)sparse_grad;
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  if (index->numel != 0) SHMT_TRY(shmt__check_index_dtype("gather", index, "Expected dtype int32/int64 for index"));
  SHMT_TRY(shmt__at_least_1d(self, &own_line, &line));
  SHMT_TRY(shmt__at_least_1d(index, &own_where, &where));
  if (index->numel != 0) {
    SHMT_REQUIRE(line->n_dims == where->n_dims, SHMT_E_RUNTIME,
                 "Index tensor must have the same number of dimensions as input tensor");
    for (int d = 0; d < line->n_dims; d++)
      SHMT_REQUIRE(d == dim || where->sizes[d] <= line->sizes[d], SHMT_E_RUNTIME,
                   "Size does not match at dimension %d expected index %s to be no larger than self %s apart from "
                   "dimension %" PRId64, d, SHMT_SHAPE_TEXT(index), SHMT_SHAPE_TEXT(self), dim);
  }
  SHMT_TRY(shmt__check_out_dtype(*out, self->dtype));
  SHMT_TRY(shmt__output_begin_no_overlap("gather", out, shmt__tensor_sizes(index), self->dtype,
                                    shmt__common_device(self, index, NULL), self, index, &work));
  if (!shmt__tensor_is_meta(work) && work->numel > 0) {
    const int64_t stride = shmt__wrap_mul_i64(line->strides[dim], shmt__tensor_item_bytes(self));
    const shmt__index_args shape = {stride, line->sizes[dim], false, &bad};
    memcpy(strides, line->strides, (size_t)line->n_dims * sizeof *strides);
    strides[dim] = 0;
    SHMT_TRY(shmt__index_as_int64(where, &own_wide, &wide));
    SHMT_TRY(shmt__check_not_empty(wide, SHMT_E_RUNTIME, dim, line->sizes[dim]));
    SHMT_TRY(shmt__restride(line, shmt__tensor_sizes(where), strides, &spread));
    SHMT_TRY(shmt__at_least_1d(work, &own_target, &target));
    SHMT_TRY(shmt__indexed_walk("gather", target, spread, wide, &shape, shmt__move_loop(SHMT_LOOP_gather, self->dtype),
                                NULL));
    SHMT_TRY(shmt__check_bad_index(&bad, SHMT_E_RUNTIME, dim, line->sizes[dim]));
  }
  return shmt__output_end("gather", &work, out);
}

/* Copies whole dense slices: out[o][i] = self[o][index[i]], `inner` bytes each. */
typedef struct slices {
  char* to;
  const char* from;
  const int64_t* index;
  int64_t n_index, size, inner;
  shmt__loop loop; /* for slices as large as one element */
  shmt__bad_index* bad;
} slices;

static void copy_slices(void* ctx, int64_t begin, int64_t end) {
  const slices* s = ctx;

  for (int64_t k = begin; k < end; k++) {
    const int64_t at = s->index[k % s->n_index];
    if (SHMT_UNLIKELY((uint64_t)at >= (uint64_t)s->size)) {
      __atomic_store_n(&s->bad->value, at, __ATOMIC_RELAXED);
      __atomic_store_n(&s->bad->found, true, __ATOMIC_RELAXED);
      continue;
    }
    memcpy(s->to + k * s->inner, s->from + (k / s->n_index * s->size + at) * s->inner, (size_t)s->inner);
  }
}

/* The same for slices as large as one element: each row of out is gathered from a row of self. */
static void copy_elements(void* ctx, int64_t begin, int64_t end) {
  const slices* s = ctx;
  char* const data[3] = {s->to + begin * s->n_index * s->inner, (char*)(uintptr_t)s->from + begin * s->size * s->inner,
                         (char*)(uintptr_t)s->index};

  s->loop(data, NULL, s->n_index, (const int64_t[]){s->size, end - begin});
}

static bool check_indices(const slices* s) {
  for (int64_t i = 0; i < s->n_index; i++) {
    if ((uint64_t)s->index[i] < (uint64_t)s->size) continue;
    s->bad->value = s->index[i];
    s->bad->found = true;
    return false;
  }
  return true;
}

/* Is a slice as large as an element of some dtype, and aligned like one? */
static bool is_like_element(const slices* s) {
  const uint64_t size = (uint64_t)s->inner;

  return size >= 1 && size <= 16 && (size & (size - 1)) == 0 &&
         (((uintptr_t)s->to | (uintptr_t)s->from) & (size - 1)) == 0;
}

/* Copies dense slices. Returns false when they are too small or not dense, and the general walk is better. */
static bool try_slices(shmt_tensor* work, shmt_tensor* line, int64_t dim, shmt_tensor* index, shmt__bad_index* bad) {
  slices s = {.bad = bad, .n_index = index->sizes[0], .size = line->sizes[dim], .inner = shmt__tensor_item_bytes(line)};
  const int64_t outer = shmt__tensor_extent(line, 0, dim);

  if (!shmt__tensor_is_contiguous(line) || !shmt__tensor_is_contiguous(index)) return false;
  s.inner *= shmt__tensor_extent(line, dim + 1, line->n_dims);
  s.to = shmt__tensor_data(work);
  s.from = shmt__tensor_data(line);
  s.index = shmt__tensor_data(index);
  const bool by_element = is_like_element(&s) && (outer > 1 || dim < line->n_dims - 1);
  if (s.inner < 16 && !by_element) return false;
  if (by_element) {
    s.loop = shmt__move_loop_of_size(SHMT_LOOP_gather_checked, s.inner);
    if (check_indices(&s)) shmt__parallel_for(outer, (1 << 15) / s.n_index + 1, copy_elements, &s);
    return true;
  }
  shmt__parallel_for(outer * s.n_index, (1 << 17) / s.inner + 1, copy_slices, &s);
  return true;
}

static bool all_zero(const shmt_tensor* wide) {
  const int64_t* at = shmt__tensor_data(wide);

  for (int64_t i = 0; i < wide->numel; i++)
    if (at[i * wide->strides[0]] != 0) return false;
  return true;
}

shmt_status shmt__index_select(shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) own_line = NULL;
  shmt_tensor* line = NULL;
  SHMT_AUTO(shmt_tensor) own_where = NULL;
  shmt_tensor* where = NULL;
  SHMT_AUTO(shmt_tensor) own_wide = NULL;
  shmt_tensor* wide = NULL;
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) along = NULL;
  SHMT_AUTO(shmt_tensor) own_target = NULL;
  shmt_tensor* target = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS], index_strides[SHMT_MAX_DIMS];
  shmt__bad_index bad = {0};

  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(index->n_dims <= 1, SHMT_E_INDEX, "index_select(): Index is supposed to be a vector");
  SHMT_REQUIRE(self->n_dims > 0 || index->numel == 1, SHMT_E_RUNTIME,
               "index_select(): Index to scalar can have only 1 value, got %" PRId64 " value(s)", index->numel);
  SHMT_TRY(shmt__check_index_dtype("index_select", index, "Expected dtype int32 or int64 for index"));
  SHMT_TRY(shmt__at_least_1d(self, &own_line, &line));
  SHMT_TRY(shmt__at_least_1d(index, &own_where, &where));
  const int n = line->n_dims;
  memcpy(sizes, line->sizes, (size_t)n * sizeof *sizes);
  memcpy(strides, line->strides, (size_t)n * sizeof *strides);
  for (int d = 0; d < n; d++) index_strides[d] = 0;
  sizes[dim] = where->sizes[0];
  strides[dim] = 0;
  const shmt_ints shape_out = {sizes, self->n_dims};
  SHMT_TRY(shmt__output_begin_no_overlap("index_select", out, shape_out, self->dtype,
                                    shmt__common_device(self, index, NULL), self, index, &work));
  if (!shmt__tensor_is_meta(work) && work->numel > 0) {
    const int64_t stride = shmt__wrap_mul_i64(line->strides[dim], shmt__tensor_item_bytes(self));
    const shmt__index_args shape = {stride, line->sizes[dim], false, &bad};
    /* Vectors come to their first index; of more dims torch says that there is nothing to choose from. */
    if (line->sizes[dim] == 0 && n == 1) SHMT_FAIL(SHMT_E_INDEX, "index out of range in self: size 0");
    SHMT_REQUIRE(line->sizes[dim] > 0, SHMT_E_RUNTIME,
                 "index_select(): self indexing axis dim should be positive, got size 0 of dimension %" PRId64, dim);
    SHMT_TRY(shmt__index_as_int64(where, &own_wide, &wide));
    index_strides[dim] = wide->strides[0];
    if (line->sizes[dim] == 1 && all_zero(wide)) {
      /* The only slice, broadcast. */
      SHMT_TRY(shmt__tensor_alias(line, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, line->offset, &spread));
      SHMT_TRY(shmt__at_least_1d(work, &own_target, &target));
      SHMT_TRY(shmt__tensor_copy(target, spread));
    } else if (!try_slices(work, line, dim, wide, &bad)) {
      SHMT_TRY(shmt__restride(line, (shmt_ints){sizes, n}, strides, &spread));
      SHMT_TRY(shmt__restride(wide, (shmt_ints){sizes, n}, index_strides, &along));
      SHMT_TRY(shmt__at_least_1d(work, &own_target, &target));
      SHMT_TRY(shmt__indexed_walk("index_select", target, spread, along, &shape,
                                  shmt__move_loop(SHMT_LOOP_gather, self->dtype), NULL));
    }
    SHMT_REQUIRE(!bad.found, SHMT_E_INDEX, "index out of range in self: index %" PRId64 ", size %" PRId64, bad.value,
                 line->sizes[dim]);
  }
  return shmt__output_end("index_select", &work, out);
}

/* Arguments of take: indices into a flattened tensor. */
typedef struct take_job {
  shmt__blocks from, index;
  shmt__index_args flat; /* checks an index */
  shmt__loop loop;
  char* to;
} take_job;

static void take_piece(void* ctx, int64_t begin, int64_t end) {
  const take_job* p = ctx;
  shmt__bad_index unused;
  const shmt__index_args bytes = shmt__offset_args(&unused);
  int64_t offsets[SHMT_FLAT_BLOCK];

  for (int64_t n; begin < end; begin += n) {
    n = end - begin < SHMT_FLAT_BLOCK ? end - begin : SHMT_FLAT_BLOCK;
    shmt__flat_offsets(&p->from, shmt__blocks_read(&p->index, begin, n, offsets), n, &p->flat, offsets);
    p->loop((char*[]){p->to + begin * p->from.item, p->from.data, (char*)offsets},
            (const int64_t[]){p->from.item, 0, sizeof *offsets}, n, &bytes);
  }
}

shmt_status shmt__take(shmt_tensor* self, shmt_tensor* index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;
  const int64_t strides[SHMT_MAX_DIMS] = {0};
  shmt__bad_index bad = {0};

  SHMT_REQUIRE(index->dtype == SHMT_INT64, SHMT_E_RUNTIME,
               "take(): Expected a long tensor for index, but got %s", shmt__dtype_title(index->dtype));
  SHMT_REQUIRE(self->numel > 0 || index->numel == 0, SHMT_E_INDEX, "take(): tried to take from an empty tensor");
  SHMT_TRY(shmt__check_out_dtype(*out, self->dtype));
  SHMT_TRY(shmt__output_begin_no_overlap("take", out, shmt__tensor_sizes(index), self->dtype,
                                    shmt__common_device(self, index, NULL), self, index, &work));
  if (!shmt__tensor_is_meta(work) && work->numel > 0) {
    const shmt__loop loop = shmt__move_loop(SHMT_LOOP_gather, self->dtype);
    if (shmt__tensor_is_contiguous(self)) {
      const shmt__index_args shape = {shmt__tensor_item_bytes(self), self->numel, true, &bad};
      SHMT_TRY(shmt__restride(self, shmt__tensor_sizes(index), strides, &spread));
      SHMT_TRY(shmt__indexed_walk("take", work, spread, index, &shape, loop, NULL));
    } else {
      take_job p = {.flat = {1, self->numel, true, &bad}, .loop = loop, .to = shmt__tensor_data(work)};
      shmt__blocks_init(&p.from, self, self->dtype);
      shmt__blocks_init(&p.index, index, SHMT_INT64);
      shmt__parallel_for(work->numel, 1 << 14, take_piece, &p);
    }
    SHMT_REQUIRE(!bad.found, SHMT_E_INDEX,
                 "out of range: tried to access index %" PRId64 " on a tensor of %" PRId64 " elements.", bad.value,
                 self->numel);
  }
  return shmt__output_end("take", &work, out);
}
