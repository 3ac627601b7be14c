/* ops/sort.c -- order statistics along a dim: sort, topk, kthvalue, median, mode. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "iter/move.h"
#include "kernels/shapes.h"
#include "ops/check.h"
#include "ops/lines.h"
#include "ops/outputs.h"
#include "ops/sort.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum { GRAIN = 4096 };

/* Lines of `length` elements, dense; results of `k` elements. */
typedef struct job {
  const char* x;
  char* values;
  int64_t* indices;
  int64_t length, k, item;
  shmt__loop loop;
  shmt__sort_shape shape;
  uint64_t scratch_bytes;
  atomic_bool failed;
} job;

static void run_lines(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  void* scratch = NULL;

  if (shmt__alloc(j->scratch_bytes, &scratch) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t r = begin; r < end; r++) {
    char* data[4] = {j->values + r * j->k * j->item, (char*)(j->indices + r * j->k),
                     (char*)(uintptr_t)(j->x + r * j->length * j->item), scratch};
    j->loop(data, NULL, j->length, &j->shape);
  }
  shmt__dealloc(scratch, j->scratch_bytes);
}

/* t with dim moved to the end. New reference. */
static shmt_status move_last(shmt_tensor* t, int64_t dim, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  int n = 0;

  for (int d = 0; d < t->n_dims; d++)
    if (d != dim) {
      sizes[n] = t->sizes[d];
      strides[n++] = t->strides[d];
    }
  sizes[n] = t->sizes[dim];
  strides[n] = t->strides[dim];
  return shmt__tensor_alias(t, (shmt_ints){sizes, n + 1}, (shmt_ints){strides, n + 1}, t->offset, out);
}

/* A dense tensor in the caller's order of dims from one whose last dim is `dim`. */
static shmt_status move_back(shmt_tensor* t, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) turned = NULL;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];

  if (dim == t->n_dims - 1) {
    *out = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  for (int d = 0, from = 0; d < t->n_dims; d++) {
    const int own = d == dim ? t->n_dims - 1 : from++;
    sizes[d] = t->sizes[own];
    strides[d] = t->strides[own];
  }
  SHMT_TRY(shmt__tensor_alias(t, (shmt_ints){sizes, t->n_dims}, (shmt_ints){strides, t->n_dims}, t->offset, &turned));
  return shmt__tensor_contiguous(turned, SHMT_CONTIGUOUS_FORMAT, out);
}

/* Room for k elements of every line of t along dim: that dim last. New reference. */
static shmt_status empty_lines(const shmt_tensor* t, int64_t dim, int64_t k, shmt_dtype dtype, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];
  int n = 0;

  for (int d = 0; d < t->n_dims; d++)
    if (d != dim) sizes[n++] = t->sizes[d];
  sizes[n++] = k;
  SHMT_REQUIRE(t->sizes[dim] <= UINT32_MAX, SHMT_E_RUNTIME, "sort(): at most %u elements along a dim, got %" PRId64,
               UINT32_MAX, t->sizes[dim]);
  return shmt__tensor_empty((shmt_ints){sizes, n}, dtype, t->device, SHMT_CONTIGUOUS_FORMAT, out);
}

/* Every line by the job's loop; dim last and dense. */
static shmt_status run_all(job* j, int64_t n_lines) {
  shmt__parallel_for(n_lines, GRAIN / j->length + 1, run_lines, j);
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "sort(): no memory for %llu bytes of scratch space", (unsigned long long)j->scratch_bytes);
  return SHMT_OK;
}

/* The element of a rank (as the loop `select` counts) in every line, dim last and of size 1. */
static shmt_status select_in_lines(shmt_tensor* self, int64_t dim, int64_t rank, shmt_tensor** values,
                                   shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) turned = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  SHMT_TRY(move_last(self, dim, &turned));
  const int64_t length = self->sizes[dim], item = shmt__tensor_item_bytes(self);
  SHMT_TRY(empty_lines(self, dim, 1, self->dtype, &v));
  SHMT_TRY(empty_lines(self, dim, 1, SHMT_INT64, &i));
  if (!shmt__tensor_is_meta(self) && v->numel > 0) {
    SHMT_TRY(shmt__tensor_contiguous(turned, SHMT_CONTIGUOUS_FORMAT, &dense));
    job j = {.x = shmt__tensor_data(dense),
             .values = shmt__tensor_data(v),
             .indices = shmt__tensor_data(i),
             .length = length,
             .k = 1,
             .item = item,
             .loop = shmt__loops[SHMT_LOOP_select][self->dtype],
             .shape = {false, rank},
             .scratch_bytes = (uint64_t)(item * length) + 64};
    SHMT_TRY(run_all(&j, v->numel));
  }
  *values = SHMT_TAKE(v);
  *indices = SHMT_TAKE(i);
  return SHMT_OK;
}

/* One after the other, each by all threads. */
static shmt_status sort_long_lines(const job* j, int64_t n_lines, shmt_dtype dtype) {
  for (int64_t r = 0; r < n_lines; r++)
    SHMT_TRY(shmt__sort_long_line(dtype, j->shape.descending, j->length, j->x + r * j->length * j->item,
                                  j->values + r * j->length * j->item, j->indices + r * j->length));
  return SHMT_OK;
}

/* The first elements of every line of `all` as those of `first`. */
static shmt_status copy_heads(shmt_tensor* first, shmt_tensor* all) {
  SHMT_AUTO(shmt_tensor) heads = NULL;

  SHMT_TRY(shmt__tensor_alias(all, shmt__tensor_sizes(first), shmt__tensor_strides(all), all->offset, &heads));
  return shmt__tensor_copy(first, heads);
}

/* Sorts the dense lines, dim last, or finds their k first in order when `k` is few; either into values and
 * indices, which hold as many. */
static shmt_status order_dense(shmt_tensor* dense, bool few, bool descending, int64_t k, shmt_tensor* values,
                               shmt_tensor* indices) {
  const int64_t length = dense->sizes[dense->n_dims - 1], item = shmt__tensor_item_bytes(dense);
  const int64_t kept = few ? k : length;
  job j = {.x = shmt__tensor_data(dense),
           .values = shmt__tensor_data(values),
           .indices = shmt__tensor_data(indices),
           .length = length,
           .k = kept,
           .item = item,
           .loop = shmt__loops[few ? SHMT_LOOP_topk : SHMT_LOOP_sort][dense->dtype],
           .shape = {descending, k},
           .scratch_bytes = (uint64_t)((item + (few ? 4 : 0)) * kept + 16)};

  if (!few && length >= SHMT_LONG_LINE) return sort_long_lines(&j, dense->numel / length, dense->dtype);
  return run_all(&j, dense->numel / length);
}

/* The k first of every line in order, dim last and dense. */
static shmt_status order_lines(shmt_tensor* self, int64_t dim, bool descending, int64_t k, shmt_tensor** values,
                               shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) turned = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) all_values = NULL;
  SHMT_AUTO(shmt_tensor) all_indices = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  SHMT_TRY(move_last(self, dim, &turned));
  const int64_t length = self->sizes[dim];
  SHMT_TRY(empty_lines(self, dim, k, self->dtype, &v));
  SHMT_TRY(empty_lines(self, dim, k, SHMT_INT64, &i));
  if (!shmt__tensor_is_meta(self) && v->numel > 0) {
    SHMT_TRY(shmt__tensor_contiguous(turned, SHMT_CONTIGUOUS_FORMAT, &dense));
    /* A heap beats sorting everything when few are wanted. */
    const bool few = k < length / 8;
    if (few || k == length) {
      SHMT_TRY(order_dense(dense, few, descending, k, v, i));
    } else {
      SHMT_TRY(empty_lines(self, dim, length, self->dtype, &all_values));
      SHMT_TRY(empty_lines(self, dim, length, SHMT_INT64, &all_indices));
      SHMT_TRY(order_dense(dense, false, descending, k, all_values, all_indices));
      SHMT_TRY(copy_heads(v, all_values));
      SHMT_TRY(copy_heads(i, all_indices));
    }
  }
  *values = SHMT_TAKE(v);
  *indices = SHMT_TAKE(i);
  return SHMT_OK;
}

/* --- lines that do not lie dense ------------------------------------------------------------------ */

/* Lines along a dim with `inner` elements behind it, a few neighbouring ones at a time. */
typedef struct columns {
  job lines; /* one line */
  int64_t inner, abreast, groups; /* of `abreast` lines, beside each other */
} columns;

static uint64_t columns_scratch(const columns* c) {
  const job* j = &c->lines;
  return (uint64_t)(c->abreast * j->length * (int64_t)(2 * (uint64_t)j->item + sizeof(int64_t))) + j->scratch_bytes;
}

static void sort_columns(const columns* c, int64_t group, char* scratch) {
  const job* j = &c->lines;
  const int64_t first = group % c->groups * c->abreast, plane = c->inner * j->length;
  const int64_t n = c->inner - first < c->abreast ? c->inner - first : c->abreast;
  const int64_t begin = group / c->groups * plane + first, line = j->length * j->item;
  int64_t* indices = (int64_t*)(void*)scratch;
  char* values = (char*)(indices + c->abreast * j->length);
  char* x = values + c->abreast * line;

  shmt__move_transposed(x, line, j->x + begin * j->item, c->inner * j->item, n, j->length, j->item);
  for (int64_t i = 0; i < n; i++) {
    char* data[4] = {values + i * line, (char*)(indices + i * j->length), x + i * line, x + c->abreast * line};
    j->loop(data, NULL, j->length, &j->shape);
  }
  shmt__move_transposed(j->values + begin * j->item, c->inner * j->item, values, line, j->length, n, j->item);
  shmt__move_transposed((char*)(j->indices + begin), c->inner * (int64_t)sizeof *indices, (const char*)indices,
                        j->length * (int64_t)sizeof *indices, j->length, n, sizeof *indices);
}

static void run_columns(void* ctx, int64_t begin, int64_t end) {
  columns* c = ctx;
  const uint64_t nbytes = columns_scratch(c);
  void* scratch = NULL;

  if (shmt__alloc(nbytes, &scratch) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&c->lines.failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t g = begin; g < end; g++) sort_columns(c, g, scratch);
  shmt__dealloc(scratch, nbytes);
}

/* Sort along a dim that is not the last, in the order of dims that self has. */
static shmt_status order_columns(shmt_tensor* self, int64_t dim, bool descending, shmt_tensor** values,
                                 shmt_tensor** indices) {
  enum { ABREAST = 16, SCRATCH_BYTES = 1 << 22 };
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;
  const int64_t length = self->sizes[dim], item = shmt__tensor_item_bytes(self);
  columns c = {.lines = {.length = length,
                         .item = item,
                         .loop = shmt__loops[SHMT_LOOP_sort][self->dtype],
                         .shape = {descending, length},
                         .scratch_bytes = (uint64_t)(item * length + 16)},
               .inner = shmt__tensor_extent(self, dim + 1, self->n_dims),
               .abreast = SCRATCH_BYTES / (length * (2 * item + (int64_t)sizeof(int64_t)) + 1)};

  SHMT_REQUIRE(length <= UINT32_MAX, SHMT_E_RUNTIME, "sort(): at most %u elements along a dim, got %" PRId64,
               UINT32_MAX, length);
  if (c.abreast > ABREAST) c.abreast = ABREAST;
  if (c.abreast < 1) c.abreast = 1;
  c.groups = (c.inner + c.abreast - 1) / c.abreast;
  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &v));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &i));
  c.lines.x = shmt__tensor_data(dense);
  c.lines.values = shmt__tensor_data(v);
  c.lines.indices = shmt__tensor_data(i);
  shmt__parallel_for(self->numel / (length * c.inner) * c.groups, GRAIN / (length * c.abreast) + 1, run_columns, &c);
  SHMT_REQUIRE(!atomic_load_explicit(&c.lines.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "sort(): no memory for %llu bytes of scratch space", (unsigned long long)columns_scratch(&c));
  *values = SHMT_TAKE(v);
  *indices = SHMT_TAKE(i);
  return SHMT_OK;
}

/* Lines of one element are in order. */
static shmt_status order_singles(shmt_tensor* self, shmt_tensor** values, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &v));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &i));
  SHMT_TRY(shmt__tensor_copy(v, self));
  SHMT_TRY(shmt__tensor_fill(i, shmt__scalar_int(0)));
  *values = SHMT_TAKE(v);
  *indices = SHMT_TAKE(i);
  return SHMT_OK;
}

static shmt_status check_sortable(const char* what, const shmt_tensor* self) {
  SHMT_REQUIRE(!shmt__is_complex(self->dtype), SHMT_E_RUNTIME, " Sort does not support complex dtypes on CPU");
  SHMT_REQUIRE_LOOP(SHMT_LOOP_sort, self->dtype, what);
  return SHMT_OK;
}

/* Deliver one result that was computed with dim last. */
static shmt_status deliver(const char* name, shmt_tensor* t, int64_t dim, int n_dims, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) turned = NULL;

  SHMT_TRY(move_back(t, dim, &turned));
  if (n_dims == 0 && turned->n_dims == 1)
    SHMT_TRY(shmt__tensor_set_geometry(turned, SHMT_INTS_EMPTY, SHMT_INTS_EMPTY, turned->offset));
  if (*out) return shmt__write_out(name, turned, *out);
  *out = SHMT_TAKE(turned);
  return SHMT_OK;
}

shmt_status shmt__sort_stable(shmt_tensor* self, shmt_opt_bool stable, int64_t dim, bool descending,
                              shmt_tensor** values, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) line = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  (void)stable;
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_sortable("sort", self));
  SHMT_TRY(shmt__at_least_1d(self, &line));
  if (line->numel > 0 && !shmt__tensor_is_meta(line) && (dim < line->n_dims - 1 || line->sizes[dim] == 1)) {
    SHMT_TRY(line->sizes[dim] == 1 ? order_singles(line, &v, &i) : order_columns(line, dim, descending, &v, &i));
    dim = line->n_dims - 1; /* they stand as they should */
  } else {
    SHMT_TRY(order_lines(line, dim, descending, line->sizes[dim], &v, &i));
  }
  SHMT_TRY(deliver("sort", v, dim, self->n_dims, values));
  return deliver("sort", i, dim, self->n_dims, indices);
}

shmt_status shmt__sort(shmt_tensor* self, int64_t dim, bool descending, shmt_tensor** values, shmt_tensor** indices) {
  return shmt__sort_stable(self, (shmt_opt_bool){0}, dim, descending, values, indices);
}

shmt_status shmt__argsort_stable(shmt_tensor* self, bool stable, int64_t dim, bool descending, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;

  (void)stable;
  return shmt__sort(self, dim, descending, &values, out);
}

shmt_status shmt__argsort(shmt_tensor* self, int64_t dim, bool descending, shmt_tensor** out) {
  return shmt__argsort_stable(self, false, dim, descending, out);
}

shmt_status shmt__topk(shmt_tensor* self, int64_t k, int64_t dim, bool largest, bool sorted, shmt_tensor** values,
                       shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) line = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  (void)sorted;
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(k >= 0 && k <= (self->n_dims ? self->sizes[dim] : 1), SHMT_E_RUNTIME, "selected index k out of range");
  SHMT_REQUIRE(self->dtype != SHMT_BOOL, SHMT_E_RUNTIME, "topk does not support bool dtypes on CPU");
  SHMT_REQUIRE_LOOP(SHMT_LOOP_topk, self->dtype, "topk_cpu");
  SHMT_TRY(shmt__at_least_1d(self, &line));
  SHMT_TRY(order_lines(line, dim, largest, k, &v, &i));
  if (self->n_dims == 0 && k == 0) {
    SHMT_TRY(deliver("topk", v, dim, 1, values));
    return deliver("topk", i, dim, 1, indices);
  }
  SHMT_TRY(deliver("topk", v, dim, self->n_dims, values));
  return deliver("topk", i, dim, self->n_dims, indices);
}

/* --- one element of each line -------------------------------------------------------------- */

/* Deliver a result that was computed with dim last and of size 1. */
static shmt_status deliver_element(shmt_tensor* t, int64_t dim, bool keepdim, int n_dims, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS], dense = 1;
  int n = 0;

  for (int d = 0, from = 0; d < t->n_dims && n_dims > 0; d++) {
    if (d != dim)
      sizes[n++] = t->sizes[from++];
    else if (keepdim)
      sizes[n++] = 1;
  }
  for (int d = n - 1; d >= 0; d--) {
    strides[d] = dense;
    if (sizes[d] > 1) dense *= sizes[d];
  }
  SHMT_TRY(shmt__tensor_alias(t, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, t->offset, &made));
  if (*out) return shmt__write_out("order statistic", made, *out);
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}

/* Which element of a line is wanted. */
typedef enum choice { KTH, MEDIAN, NANMEDIAN, MODE } choice;

static shmt_status mode_in_lines(shmt_tensor* self, int64_t dim, shmt_tensor** values, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  SHMT_TRY(empty_lines(self, dim, 1, self->dtype, &v));
  SHMT_TRY(empty_lines(self, dim, 1, SHMT_INT64, &i));
  if (!shmt__tensor_is_meta(self) && v->numel > 0) SHMT_TRY(shmt__mode_of_lines(self, dim, v, i));
  *values = SHMT_TAKE(v);
  *indices = SHMT_TAKE(i);
  return SHMT_OK;
}

static shmt_status order_statistic(choice what, shmt_tensor* self, int64_t dim, int64_t k, bool keepdim,
                                   shmt_tensor** values, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) line = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  SHMT_TRY(shmt__at_least_1d(self, &line));
  if (what == MODE)
    SHMT_TRY(mode_in_lines(line, dim, &v, &i));
  else
    SHMT_TRY(select_in_lines(line, dim, what == KTH ? k - 1 : what == MEDIAN ? -1 : -2, &v, &i));
  SHMT_TRY(deliver_element(v, dim, keepdim, self->n_dims, values));
  return deliver_element(i, dim, keepdim, self->n_dims, indices);
}

/* Two values have no k-th one that says anything. */
static shmt_status check_no_bool(const char* name, const shmt_tensor* self) {
  SHMT_REQUIRE(self->dtype != SHMT_BOOL, SHMT_E_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", name);
  return SHMT_OK;
}

shmt_status shmt__kthvalue(shmt_tensor* self, int64_t k, int64_t dim, bool keepdim, shmt_tensor** values,
                           shmt_tensor** indices) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(k >= 1 && k <= (self->n_dims ? self->sizes[dim] : 1), SHMT_E_RUNTIME,
               "kthvalue(): selected number k out of range for dimension %" PRId64, dim);
  SHMT_TRY(check_no_bool("kthvalue_cpu", self));
  SHMT_TRY(check_sortable("kthvalue_cpu", self));
  SHMT_TRY(shmt__check_no_overlap(*values, self));
  SHMT_TRY(shmt__check_no_overlap(*indices, self));
  return order_statistic(KTH, self, dim, k, keepdim, values, indices);
}

static shmt_status check_length(const char* name, const shmt_tensor* self, int64_t dim) {
  SHMT_REQUIRE(self->n_dims == 0 || self->sizes[dim] > 0, SHMT_E_INDEX,
               "%s(): Expected reduction dim %" PRId64 " to have non-zero size.", name, dim);
  return SHMT_OK;
}

shmt_status shmt__median_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** values,
                             shmt_tensor** indices) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_length("median", self, dim));
  SHMT_TRY(check_no_bool("median_out", self));
  SHMT_TRY(check_sortable("median_out", self));
  return order_statistic(MEDIAN, self, dim, 0, keepdim, values, indices);
}

shmt_status shmt__nanmedian_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** values,
                                shmt_tensor** indices) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_length("nanmedian", self, dim));
  SHMT_TRY(check_no_bool("median_out", self));
  SHMT_TRY(check_sortable("median_out", self));
  return order_statistic(NANMEDIAN, self, dim, 0, keepdim, values, indices);
}

shmt_status shmt__mode(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** values, shmt_tensor** indices) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_length("mode", self, dim));
  SHMT_TRY(check_sortable("mode", self));
  return order_statistic(MODE, self, dim, 0, keepdim, values, indices);
}

/* Over all elements. */
static shmt_status median_of_all(choice what, shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) index = NULL;

  SHMT_TRY(check_sortable("median_cpu", self));
  if (self->numel == 0) { /* a NaN, as conversions to integers give it */
    const int64_t whole = self->dtype == SHMT_INT64   ? INT64_MIN
                          : self->dtype == SHMT_INT32 ? INT32_MIN
                                                      : self->dtype == SHMT_BOOL;
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS_EMPTY, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &flat));
    if (!shmt__tensor_is_meta(self))
      SHMT_TRY(shmt__tensor_fill(flat, shmt__is_floating(self->dtype) ? shmt__scalar_float(__builtin_nan(""))
                                                                      : shmt__scalar_int(whole)));
    *out = SHMT_TAKE(flat);
    return SHMT_OK;
  }
  SHMT_TRY(check_no_bool("median_cpu", self));
  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt__tensor_alias(dense, SHMT_INTS(dense->numel), SHMT_INTS(1), dense->offset, &flat));
  return order_statistic(what, flat, 0, 0, false, out, &index);
}

shmt_status shmt__median(shmt_tensor* self, shmt_tensor** out) { return median_of_all(MEDIAN, self, out); }

shmt_status shmt__nanmedian(shmt_tensor* self, shmt_tensor** out) { return median_of_all(NANMEDIAN, self, out); }

shmt_status shmt__sorted_line(shmt_tensor* self, shmt_tensor** values, shmt_tensor** indices) {
  return order_lines(self, 0, false, self->numel, values, indices);
}
