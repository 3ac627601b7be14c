/* ops/sorting/sort.c -- order statistics along a dim: sort, topk, kthvalue, median, mode. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/indexing/gather.h"
#include "ops/outputs.h"
#include "ops/sorting/each_slice.h"
#include "ops/sorting/mode.h"
#include "ops/sorting/sort.h"

#include <inttypes.h>
#include <string.h>

/* Makes results for k elements of every slice of t along dim, in t's layout or dense. Two new references. */
static shmt_status empty_results(shmt_tensor* t, int64_t dim, int64_t k, bool in_layout, shmt_tensor** values,
                                 shmt_tensor** indices) {
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(t->sizes[dim] <= UINT32_MAX, SHMT_E_RUNTIME, "sort(): at most %u elements along a dim, got %" PRId64,
               UINT32_MAX, t->sizes[dim]);
  if (in_layout) {
    SHMT_TRY(shmt__tensor_empty_like(t, t->dtype, values));
    return shmt__tensor_empty_like(t, SHMT_INT64, indices);
  }
  memcpy(sizes, t->sizes, (size_t)t->n_dims * sizeof *sizes);
  sizes[dim] = k;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, t->n_dims}, t->dtype, t->device, SHMT_CONTIGUOUS_FORMAT, values));
  return shmt__tensor_empty((shmt_ints){sizes, t->n_dims}, SHMT_INT64, t->device, SHMT_CONTIGUOUS_FORMAT, indices);
}

/* The first k of a slice, for large k: sorts the whole slice in scratch. */
static bool sort_then_cut(const shmt__slice_work* work, const char* x, int64_t step, char* values, int64_t* indices,
                      char* scratch) {
  const int64_t item = shmt__dtype_size[work->dtype], k = work->shape.k;
  int64_t* all_indices = (int64_t*)(void*)scratch;
  char* all_values = (char*)(all_indices + work->length);

  if (!shmt__sort_slice(work, x, step, all_values, all_indices, all_values + (work->length * item + 7) / 8 * 8))
    return false;
  memcpy(values, all_values, (size_t)(k * item));
  memcpy(indices, all_indices, (size_t)k * sizeof *indices);
  return true;
}

/* The same for small k: a heap beats sorting everything. */
static bool topk_slice(const shmt__slice_work* work, const char* x, int64_t step, char* values, int64_t* indices,
                       char* scratch) {
  char* data[4] = {values, (char*)indices, (char*)(uintptr_t)x, scratch};
  const int64_t strides[4] = {0, 0, step, 0};

  shmt__loops[SHMT_LOOP_topk][work->dtype](data, strides, work->length, &work->shape);
  return true;
}

/* The element of rank shape.k of a slice (see kernels/sorting/select.tmpl.h). */
static bool select_slice(const shmt__slice_work* work, const char* x, int64_t step, char* value, int64_t* index,
                         char* scratch) {
  char* data[4] = {value, (char*)index, (char*)(uintptr_t)x, scratch};
  const int64_t strides[4] = {0, 0, step, 0};

  shmt__loops[SHMT_LOOP_select][work->dtype](data, strides, work->length, &work->shape);
  return true;
}

/* The first k of every slice in order. Results have self's layout, or are dense. */
static shmt_status sort_or_topk(shmt_tensor* self, int64_t dim, bool descending, int64_t k, bool in_layout,
                                shmt_tensor** values, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;
  const int64_t length = self->sizes[dim], item = shmt__tensor_item_bytes(self);
  const uint64_t sorting = (uint64_t)(length < SHMT_LONG_SLICE ? item * length + 16 : 0);
  const bool few = k < length / 8, all = k == length;
  const shmt__slice_work work = {
      .run = few ? topk_slice : all ? shmt__sort_slice : sort_then_cut,
      .dtype = self->dtype,
      .length = length,
      .shape = {descending, k},
      .scratch_bytes = few ? (uint64_t)((item + 4) * k + 16)
                           : sorting + (all ? 0 : (uint64_t)((item + (int64_t)sizeof(int64_t)) * length + 8)),
      .is_parallel = !few && length >= SHMT_LONG_SLICE};

  SHMT_TRY(empty_results(self, dim, k, in_layout, &v, &i));
  if (!shmt__tensor_is_meta(self) && v->numel > 0) {
    if (length == 1) { /* already in order */
      SHMT_TRY(shmt__tensor_copy(v, self));
      SHMT_TRY(shmt__tensor_fill(i, shmt__scalar_int(0)));
    } else {
      SHMT_TRY(shmt__for_each_slice(self, dim, &work, v, i));
    }
  }
  *values = SHMT_TAKE(v);
  *indices = SHMT_TAKE(i);
  return SHMT_OK;
}

static shmt_status check_sortable(const char* what, const shmt_tensor* self) {
  SHMT_REQUIRE_LOOP(SHMT_LOOP_sort, self->dtype, what);
  return SHMT_OK;
}

/* Checks the dtypes of given results; NULL: the result is new. */
static shmt_status check_given(const shmt_tensor* self, const shmt_tensor* values, const shmt_tensor* indices) {
  SHMT_TRY(shmt__check_out_dtype(values, self->dtype));
  return shmt__check_out_dtype(indices, SHMT_INT64);
}

/* Delivers one result. For a 0-d tensor that is a vector of one element. */
static shmt_status deliver(const char* name, shmt_tensor* t, int n_dims, shmt_tensor** out) {
  if (n_dims == 0) SHMT_TRY(shmt__tensor_set_geometry(t, SHMT_INTS_EMPTY, SHMT_INTS_EMPTY, t->offset));
  if (*out) return shmt__write_out(name, t, *out);
  *out = shmt__tensor_ref(t);
  return SHMT_OK;
}

shmt_status shmt__sort_stable(shmt_tensor* self, shmt_opt_bool stable, int64_t dim, bool descending,
                              shmt_tensor** values, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) own_input = NULL;
  shmt_tensor* input = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  (void)stable;
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(!shmt__is_complex(self->dtype), SHMT_E_RUNTIME, " Sort does not support complex dtypes on CPU");
  SHMT_TRY(check_sortable("sort", self));
  SHMT_TRY(check_given(self, *values, *indices));
  SHMT_TRY(shmt__at_least_1d(self, &own_input, &input));
  SHMT_TRY(sort_or_topk(input, dim, descending, input->sizes[dim], true, &v, &i));
  SHMT_TRY(deliver("sort", v, self->n_dims, values));
  return deliver("sort", i, self->n_dims, indices);
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
  SHMT_AUTO(shmt_tensor) own_input = NULL;
  shmt_tensor* input = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  (void)sorted;
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(k >= 0 && k <= (self->n_dims ? self->sizes[dim] : 1), SHMT_E_RUNTIME, "selected index k out of range");
  SHMT_REQUIRE(self->dtype != SHMT_BOOL, SHMT_E_RUNTIME, "topk does not support bool dtypes on CPU");
  SHMT_REQUIRE_LOOP(SHMT_LOOP_topk, self->dtype, "topk_cpu");
  SHMT_TRY(check_given(self, *values, *indices));
  SHMT_TRY(shmt__at_least_1d(self, &own_input, &input));
  SHMT_TRY(sort_or_topk(input, dim, largest, k, false, &v, &i));
  const int n_dims = self->n_dims == 0 && k == 0 ? 1 : self->n_dims;
  SHMT_TRY(deliver("topk", v, n_dims, values));
  return deliver("topk", i, n_dims, indices);
}

/* --- one element of each slice ------------------------------------------------------------- */

/* Delivers a result that has size 1 along dim, with that dim or without it. */
static shmt_status deliver_element(shmt_tensor* t, int64_t dim, bool keepdim, int n_dims, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  int n = 0;

  for (int d = 0; d < n_dims; d++) {
    if (d == dim && !keepdim) continue;
    sizes[n] = t->sizes[d];
    strides[n++] = t->strides[d];
  }
  SHMT_TRY(shmt__tensor_alias(t, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, t->offset, &made));
  if (*out) return shmt__write_out("order statistic", made, *out);
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}

/* Which element of a slice is wanted. */
typedef enum statistic { KTH, MEDIAN, NANMEDIAN, MODE } statistic;

static shmt_status order_statistic(statistic what, shmt_tensor* self, int64_t dim, int64_t k, bool keepdim,
                                   shmt_tensor** values, shmt_tensor** indices) {
  SHMT_AUTO(shmt_tensor) own_input = NULL;
  shmt_tensor* input = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) i = NULL;

  SHMT_TRY(check_given(self, *values, *indices));
  SHMT_TRY(shmt__at_least_1d(self, &own_input, &input));
  SHMT_TRY(empty_results(input, dim, 1, false, &v, &i));
  if (!shmt__tensor_is_meta(self) && v->numel > 0 && input->sizes[dim] == 1) { /* the only element */
    SHMT_TRY(shmt__tensor_copy(v, input));
    SHMT_TRY(shmt__tensor_fill(i, shmt__scalar_int(0)));
  } else if (!shmt__tensor_is_meta(self) && v->numel > 0) {
    const int64_t length = input->sizes[dim];
    const shmt__slice_work work = {.run = select_slice,
                                   .dtype = self->dtype,
                                   .length = length,
                                   .shape = {false, what == KTH ? k - 1 : what == MEDIAN ? -1 : -2},
                                   .scratch_bytes = (uint64_t)(shmt__tensor_item_bytes(self) * length) + 64};
    if (what == MODE)
      SHMT_TRY(shmt__mode_along_dim(input, dim, v, i));
    else
      SHMT_TRY(shmt__for_each_slice(input, dim, &work, v, i));
  }
  SHMT_TRY(deliver_element(v, dim, keepdim, self->n_dims, values));
  return deliver_element(i, dim, keepdim, self->n_dims, indices);
}

/* Refuses bool: of two values no k-th one says anything. */
static shmt_status check_no_bool(const char* name, const shmt_tensor* self) {
  SHMT_REFUSE_DTYPE(self->dtype == SHMT_BOOL, self->dtype, name);
  return SHMT_OK;
}

static shmt_status check_length(const char* name, const shmt_tensor* self, int64_t dim) {
  SHMT_REQUIRE(self->n_dims == 0 || self->sizes[dim] > 0, SHMT_E_INDEX,
               "%s(): Expected reduction dim %" PRId64 " to have non-zero size.", name, dim);
  return SHMT_OK;
}

shmt_status shmt__kthvalue(shmt_tensor* self, int64_t k, int64_t dim, bool keepdim, shmt_tensor** values,
                           shmt_tensor** indices) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_length("kthvalue", self, dim));
  SHMT_REQUIRE(k >= 1 && k <= (self->n_dims ? self->sizes[dim] : 1), SHMT_E_RUNTIME,
               "kthvalue(): selected number k out of range for dimension %" PRId64, dim);
  SHMT_TRY(check_no_bool("kthvalue_cpu", self));
  SHMT_TRY(check_sortable("kthvalue_cpu", self));
  SHMT_TRY(shmt__check_no_overlap(*values, self));
  SHMT_TRY(shmt__check_no_overlap(*indices, self));
  return order_statistic(KTH, self, dim, k, keepdim, values, indices);
}

shmt_status shmt__median_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** values,
                             shmt_tensor** indices) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_length("median", self, dim));
  SHMT_TRY(check_no_bool("median_out", self));
  SHMT_TRY(check_sortable("median_cpu", self));
  return order_statistic(MEDIAN, self, dim, 0, keepdim, values, indices);
}

shmt_status shmt__nanmedian_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** values,
                                shmt_tensor** indices) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_length("nanmedian", self, dim));
  SHMT_TRY(check_no_bool("median_out", self));
  SHMT_TRY(check_sortable("median_cpu", self));
  return order_statistic(NANMEDIAN, self, dim, 0, keepdim, values, indices);
}

shmt_status shmt__mode(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** values, shmt_tensor** indices) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_TRY(check_length("mode", self, dim));
  SHMT_TRY(check_sortable("mode_cpu", self));
  return order_statistic(MODE, self, dim, 0, keepdim, values, indices);
}

/* All elements as a input, in any order: a view when they are evenly apart, else a copy. New reference. */
static shmt_status flatten_in_any_order(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  int64_t step = INT64_MAX, n = 1;

  for (int d = 0; d < self->n_dims; d++)
    if (self->sizes[d] > 1 && self->strides[d] < step) step = self->strides[d];
  if (self->numel == 1) step = 1;
  /* Appends the dims whose elements continue where those before end. */
  for (int d = 0; d < self->n_dims && n < self->numel; d++)
    if (step > 0 && self->sizes[d] > 1 && self->strides[d] == step * n) {
      n *= self->sizes[d];
      d = -1;
    }
  if (n == self->numel) return shmt__tensor_alias(self, SHMT_INTS(n), SHMT_INTS(step), self->offset, out);
  SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  return shmt__tensor_alias(dense, SHMT_INTS(dense->numel), SHMT_INTS(1), dense->offset, out);
}

/* Of all elements. */
static shmt_status median_of_all(statistic what, shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) index = NULL;

  SHMT_TRY(check_sortable("median_cpu", self));
  if (self->numel == 0) { /* the result is NaN, as conversions to integers give it */
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
  SHMT_TRY(flatten_in_any_order(self, &flat));
  return order_statistic(what, flat, 0, 0, false, out, &index);
}

shmt_status shmt__median(shmt_tensor* self, shmt_tensor** out) { return median_of_all(MEDIAN, self, out); }

shmt_status shmt__nanmedian(shmt_tensor* self, shmt_tensor** out) { return median_of_all(NANMEDIAN, self, out); }

shmt_status shmt__sort_vector(shmt_tensor* self, shmt_tensor** values, shmt_tensor** indices) {
  return sort_or_topk(self, 0, false, self->numel, false, values, indices);
}
