/* ops/sorting/histogram.c -- histogram and histogramdd: counts of points in a grid of bins.
 *
 * A point's bin along one dimension is found by binary search in the edges; the last bin contains its right edge.
 * Points outside, and NaNs, go to one extra bin, which is cut off at the end. Edges that do not ascend make no proper
 * bins; points count then where plain bisection finds them, between the first and the last edge.
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/outputs.h"

#include <inttypes.h>
#include <math.h>

static const shmt_scalar ONE = {.v.i = 1, .tag = SHMT_SCALAR_INT};
static const shmt_opt_int NOWHERE = {0, false};

static shmt_status check_points(const shmt_tensor* self, const shmt_tensor* weight) {
  bool fits = true;

  SHMT_REQUIRE(self->n_dims >= 2, SHMT_E_RUNTIME,
               "torch.histogramdd: input tensor should have at least 2 dimensions, but got %d",
               self->n_dims);
  SHMT_REFUSE_DTYPE(self->dtype != SHMT_FLOAT32 && self->dtype != SHMT_FLOAT64, self->dtype, "histogram_cpu");
  if (!weight) return SHMT_OK;
  SHMT_REQUIRE(weight->dtype == self->dtype, SHMT_E_RUNTIME,
               "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
               "should have the same dtype, but got input(%s), and weight(%s)",
               shmt__dtype_title(self->dtype), shmt__dtype_title(weight->dtype));
  fits = weight->n_dims == self->n_dims - 1;
  for (int d = 0; fits && d < weight->n_dims; d++) fits = weight->sizes[d] == self->sizes[d];
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME,
               "torch.histogramdd: if weight tensor is provided it should have the same shape as "
               "the input tensor excluding its innermost dimension, but got input with shape %s "
               "and weight with shape %s",
               SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(weight));
  return SHMT_OK;
}

/* --- edges ---------------------------------------------------------------------------- */

/* The lowest and highest coordinate of one column; 0 and 1 when it is empty. */
static shmt_status extent(shmt_tensor* column, double* low, double* high) {
  SHMT_AUTO(shmt_tensor) smallest = NULL;
  SHMT_AUTO(shmt_tensor) largest = NULL;
  shmt_scalar s;

  *low = 0;
  *high = 1;
  if (column->numel == 0 || shmt__tensor_is_meta(column)) return SHMT_OK;
  SHMT_TRY(shmt_op_aminmax(column, NOWHERE, false, &smallest, &largest));
  SHMT_TRY(shmt__tensor_item(smallest, &s));
  *low = shmt__scalar_to_double(s);
  SHMT_TRY(shmt__tensor_item(largest, &s));
  *high = shmt__scalar_to_double(s);
  return SHMT_OK;
}

static shmt_status even_edges(shmt_tensor* points, int64_t d, int64_t bins, const double* range,
                              shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) column = NULL;
  double low, high;

  SHMT_REQUIRE(bins > 0, SHMT_E_RUNTIME,
               "torch.histogramdd(): bins must be > 0, but got %" PRId64 " for dimension %" PRId64,
               bins, d);
  SHMT_REQUIRE(bins < INT64_MAX, SHMT_E_NOMEM, "torch.histogramdd(): %" PRId64 " bins are too many", bins);
  if (range) {
    low = range[0];
    high = range[1];
  } else {
    SHMT_TRY(shmt_op_select_int(points, -1, d, &column));
    SHMT_TRY(extent(column, &low, &high));
  }
  SHMT_REQUIRE(isfinite(low) && isfinite(high), SHMT_E_RUNTIME,
               "torch.histogramdd(): dimension %" PRId64 "'s range [%g, %g] is not finite", d, low,
               high);
  SHMT_REQUIRE(low <= high, SHMT_E_RUNTIME,
               "torch.histogramdd(): min should not exceed max, but got min %g max %g for "
               "dimension %" PRId64,
               low, high, d);
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return shmt_op_linspace(shmt__scalar_float(low), shmt__scalar_float(high), bins + 1,
                          points->dtype, SHMT_LAYOUT_NONE, points->device, (shmt_opt_bool){0}, out);
}

shmt_status shmt__histogramdd_bin_edges(shmt_tensor* self, shmt_ints bins, shmt_floats range,
                                        shmt_tensor* weight, bool density, shmt_tensor_vec* out) {
  SHMT_AUTO_LIST edges = {0, 0};

  (void)density;
  SHMT_TRY(check_points(self, weight));
  const int64_t width = self->sizes[self->n_dims - 1];
  SHMT_REQUIRE(bins.len == width, SHMT_E_RUNTIME,
               "torch.histogramdd: expected %" PRId64 " bin counts for a %" PRId64
               "-dimensional histogram but got %" PRId64,
               width, width, bins.len);
  SHMT_REQUIRE(range.len < 0 || range.len == 2 * width, SHMT_E_RUNTIME,
               "torch.histogramdd: for a %" PRId64 "-dimensional histogram range should have %" PRId64
               " elements, but got %" PRId64,
               width, 2 * width, range.len);
  SHMT_TRY(shmt__tensor_vec_alloc(width, &edges));
  for (int64_t d = 0; d < width; d++)
    SHMT_TRY(even_edges(self, d, bins.data[d], range.len < 0 ? NULL : range.data + 2 * d,
                        &edges.data[d]));
  *out = edges;
  edges = (shmt_tensor_vec){0, 0};
  return SHMT_OK;
}

static shmt_status check_edges(const shmt_tensor* self, shmt_tensors edges) {
  const int64_t width = self->sizes[self->n_dims - 1];

  SHMT_REQUIRE(edges.len == width, SHMT_E_RUNTIME,
               "torch.histogramdd: expected %" PRId64 " sequences of bin edges for a %" PRId64
               "-dimensional histogram but got %" PRId64,
               width, width, edges.len);
  for (int64_t d = 0; d < width; d++) {
    const shmt_tensor* t = edges.data[d];
    SHMT_REQUIRE(t->dtype == self->dtype, SHMT_E_RUNTIME,
                 "torch.histogramdd: input tensor and bins tensors should have the same dtype, but "
                 "got input with dtype %s and bins for dimension %" PRId64 " with dtype %s",
                 shmt__dtype_title(self->dtype), d, shmt__dtype_title(t->dtype));
    SHMT_REQUIRE(t->n_dims == 1, SHMT_E_RUNTIME,
                 "torch.histogramdd: bins tensor for dimension %" PRId64
                 " should have one dimension, but got %d",
                 d, t->n_dims);
    SHMT_REQUIRE(t->numel > 0, SHMT_E_RUNTIME,
                 "torch.histogramdd: bins tensor for dimension %" PRId64 " is empty", d);
  }
  return SHMT_OK;
}

/* --- counting --------------------------------------------------------------------------- */

static shmt_status ascends(shmt_tensor* edges, bool* out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) rises = NULL;
  SHMT_AUTO(shmt_tensor) all = NULL;
  shmt_scalar s;

  *out = true;
  if (shmt__tensor_is_meta(edges)) return SHMT_OK;
  SHMT_TRY(shmt_op_narrow(edges, 0, 0, edges->numel - 1, &left));
  SHMT_TRY(shmt_op_narrow(edges, 0, 1, edges->numel - 1, &right));
  SHMT_TRY(shmt_op_ge_Tensor(right, left, &rises));
  SHMT_TRY(shmt_op_all(rises, &all));
  SHMT_TRY(shmt__tensor_item(all, &s));
  *out = s.v.i != 0;
  return SHMT_OK;
}

/* Sets the bins of values (dense) that are not between the first and the last edge to -1. */
static shmt_status drop_outside(shmt_tensor* values, shmt_tensor* edges, shmt_tensor* bin, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) last = NULL;
  SHMT_AUTO(shmt_tensor) above = NULL;
  SHMT_AUTO(shmt_tensor) below = NULL;
  SHMT_AUTO(shmt_tensor) inside = NULL;
  SHMT_AUTO(shmt_tensor) outside = NULL;

  SHMT_TRY(shmt_op_select_int(edges, 0, 0, &first));
  SHMT_TRY(shmt_op_select_int(edges, 0, -1, &last));
  SHMT_TRY(shmt_op_ge_Tensor(values, first, &above));
  SHMT_TRY(shmt_op_le_Tensor(values, last, &below));
  SHMT_TRY(shmt_op_logical_and(above, below, &inside));
  SHMT_TRY(shmt_op_logical_not(inside, &outside));
  return shmt_op_masked_fill_Scalar(bin, outside, shmt__scalar_int(-1), out);
}

/* The bin of each coordinate. Numbers below 0, or of n_bins and more, mean none. */
static shmt_status bin_of(shmt_tensor* column, shmt_tensor* edges, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) order = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  SHMT_AUTO(shmt_tensor) bin = NULL;
  SHMT_AUTO(shmt_tensor) last = NULL;
  SHMT_AUTO(shmt_tensor) at_end = NULL;
  SHMT_AUTO(shmt_tensor) shift = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  bool sorted = true;

  SHMT_TRY(ascends(edges, &sorted));
  /* With an explicit order searchsorted bisects, whatever the edges are. */
  if (!sorted) SHMT_TRY(shmt_op_arange(shmt__scalar_int(edges->numel), SHMT_INT64, SHMT_LAYOUT_NONE, SHMT_CPU,
                                       (shmt_opt_bool){0}, &order));
  SHMT_TRY(shmt_op_clone(column, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt_op_searchsorted_Tensor(edges, dense, false, true, NULL, order, &found));
  SHMT_TRY(shmt_op_select_int(edges, 0, -1, &last));
  SHMT_TRY(shmt_op_eq_Tensor(dense, last, &at_end));
  SHMT_TRY(shmt_op_add_Scalar(at_end, ONE, ONE, &shift));
  SHMT_TRY(shmt_op_sub_Tensor(found, shift, ONE, &bin));
  if (!sorted) return drop_outside(dense, edges, bin, out);
  *out = SHMT_TAKE(bin);
  return SHMT_OK;
}

/* flat * n + bin where both are valid, else -1. */
static shmt_status descend(shmt_tensor* flat, shmt_tensor* bin, int64_t n, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  SHMT_AUTO(shmt_tensor) place = NULL;
  SHMT_AUTO(shmt_tensor) lowest = NULL;
  SHMT_AUTO(shmt_tensor) is_below = NULL;
  SHMT_AUTO(shmt_tensor) is_above = NULL;
  SHMT_AUTO(shmt_tensor) is_out = NULL;

  SHMT_TRY(shmt_op_mul_Scalar(flat, shmt__scalar_int(n), &scaled));
  SHMT_TRY(shmt_op_add_Tensor(scaled, bin, ONE, &place));
  SHMT_TRY(shmt_op_minimum(flat, bin, &lowest));
  SHMT_TRY(shmt_op_lt_Scalar(lowest, shmt__scalar_int(0), &is_below));
  SHMT_TRY(shmt_op_ge_Scalar(bin, shmt__scalar_int(n), &is_above));
  SHMT_TRY(shmt_op_logical_or(is_below, is_above, &is_out));
  return shmt_op_masked_fill_Scalar(place, is_out, shmt__scalar_int(-1), out);
}

/* Divides by the sum and by the volume of each bin. */
static shmt_status make_density(shmt_tensor* hist, shmt_tensors edges, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(shmt_op_sum(hist, SHMT_DTYPE_NONE, &sum));
  SHMT_TRY(shmt_op_div_Tensor(hist, sum, &result));
  for (int64_t d = 0; d < edges.len; d++) {
    SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(result);
    SHMT_AUTO(shmt_tensor) lengths = NULL;
    SHMT_AUTO(shmt_tensor) shaped = NULL;
    int64_t shape[SHMT_MAX_DIMS];
    for (int64_t k = 0; k < edges.len; k++) shape[k] = k == d ? edges.data[d]->numel - 1 : 1;
    SHMT_TRY(shmt_op_diff(edges.data[d], 1, 0, NULL, NULL, &lengths));
    SHMT_TRY(shmt_op_reshape(lengths, (shmt_ints){shape, edges.len}, &shaped));
    SHMT_TRY(shmt_op_div_Tensor(before, shaped, &result));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Counts m points, one in each row, with their weights (NULL: 1), in element bin + 1 of `counts`. Element 0 counts the
 * points in no bin. */
static shmt_status count_points(shmt_tensor* points, shmt_tensors edges, shmt_tensor* weight, shmt_tensor* counts) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) place = NULL;
  SHMT_AUTO(shmt_tensor) counted = NULL;
  const int64_t m = points->sizes[0];

  SHMT_TRY(shmt_op_new_zeros(points, SHMT_INTS(m), SHMT_INT64, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                             &flat));
  for (int64_t d = 0; d < edges.len; d++) {
    SHMT_AUTO(shmt_tensor) column = NULL;
    SHMT_AUTO(shmt_tensor) bin = NULL;
    SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(flat);
    SHMT_TRY(shmt_op_select_int(points, 1, d, &column));
    SHMT_TRY(bin_of(column, edges.data[d], &bin));
    SHMT_TRY(descend(before, bin, edges.data[d]->numel - 1, &flat));
  }
  SHMT_TRY(shmt_op_add_Scalar(flat, ONE, ONE, &place));
  if (weight)
    counted = shmt__tensor_ref(weight);
  else
    SHMT_TRY(shmt_op_ones(SHMT_INTS(m), points->dtype, SHMT_LAYOUT_NONE, points->device, (shmt_opt_bool){0}, &counted));
  return shmt_op_scatter_add_(counts, 0, place, counted);
}

/* The same for all points, a block at a time. */
static shmt_status count_blocks(shmt_tensor* points, shmt_tensors edges, shmt_tensor* weights, shmt_tensor* counts) {
  enum { POINTS_AT_ONCE = 1 << 12 };
  const int64_t n = points->sizes[0];
  int64_t block = POINTS_AT_ONCE;

  for (int64_t d = 0; d < edges.len; d++) /* every block reads the edges */
    if (edges.data[d]->numel > block) block = edges.data[d]->numel;
  if (shmt__tensor_is_meta(points)) block = n;
  for (int64_t at = 0; at < n; at += block) {
    SHMT_AUTO(shmt_tensor) part = NULL;
    SHMT_AUTO(shmt_tensor) own_weights = NULL;
    const int64_t m = n - at < block ? n - at : block;
    SHMT_TRY(shmt_op_narrow(points, 0, at, m, &part));
    if (weights) SHMT_TRY(shmt_op_narrow(weights, 0, at, m, &own_weights));
    SHMT_TRY(count_points(part, edges, own_weights, counts));
  }
  return SHMT_OK;
}

shmt_status shmt__histogramdd_from_bin_tensors(shmt_tensor* self, shmt_tensors bins,
                                               shmt_tensor* weight, bool density,
                                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) points = NULL;
  SHMT_AUTO(shmt_tensor) weights = NULL;
  SHMT_AUTO(shmt_tensor) all = NULL;
  SHMT_AUTO(shmt_tensor) inside = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) hist = NULL;
  int64_t sizes[SHMT_MAX_DIMS], total = 1;

  SHMT_TRY(check_points(self, weight));
  SHMT_TRY(check_edges(self, bins));
  const int64_t width = bins.len, n = width > 0 ? self->numel / width : 0;
  SHMT_REQUIRE(width > 0 && width < SHMT_MAX_DIMS, SHMT_E_RUNTIME,
               "torch.histogramdd: from 1 to %d coordinates, got %" PRId64, SHMT_MAX_DIMS - 1,
               width);
  for (int64_t d = 0; d < width; d++) {
    sizes[d] = bins.data[d]->numel - 1;
    SHMT_REQUIRE(!__builtin_mul_overflow(total, sizes[d], &total), SHMT_E_RUNTIME,
                 "torch.histogramdd: too many bins");
  }
  SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(n, width), &points));
  if (weight) SHMT_TRY(shmt_op_reshape(weight, SHMT_INTS(n), &weights));
  SHMT_TRY(shmt_op_new_zeros(points, SHMT_INTS(total + 1), SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE,
                             SHMT_DEVICE_NONE, (shmt_opt_bool){0}, &all));
  SHMT_TRY(count_blocks(points, bins, weights, all));
  SHMT_TRY(shmt_op_narrow(all, 0, 1, total, &inside));
  SHMT_TRY(shmt_op_clone(inside, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt_op_reshape(dense, (shmt_ints){sizes, width}, &hist));
  if (density) return make_density(hist, bins, out);
  *out = SHMT_TAKE(hist);
  return SHMT_OK;
}

/* --- one dimension ------------------------------------------------------------------------ */

/* A vector as points with one coordinate. */
static shmt_status as_points(shmt_tensor* self, shmt_tensor* weight, shmt_tensor** points,
                             shmt_tensor** weights) {
  SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(self->numel, 1), points));
  if (!weight) return SHMT_OK;
  SHMT_REQUIRE(weight->n_dims == self->n_dims && weight->numel == self->numel, SHMT_E_RUNTIME,
               "torch.histogram: if weight tensor is provided it should have the same shape as the "
               "input tensor, but got input with shape %s and weight with shape %s",
               SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(weight));
  return shmt_op_reshape(weight, SHMT_INTS(weight->numel), weights);
}

static shmt_status deliver(shmt_tensor** made, shmt_tensor** out) {
  if (*out) return shmt__write_out("histogram", *made, *out);
  *out = SHMT_TAKE(*made);
  return SHMT_OK;
}

static shmt_status histogram_of(shmt_tensor* points, shmt_tensor* weight, shmt_tensor* edges,
                                bool density, shmt_tensor** hist, shmt_tensor** bin_edges) {
  SHMT_AUTO(shmt_tensor) counts = NULL;
  SHMT_AUTO(shmt_tensor) kept = NULL;

  SHMT_TRY(shmt__check_out_dtype(*hist, points->dtype));
  SHMT_TRY(shmt__check_out_dtype(*bin_edges, points->dtype));
  SHMT_TRY(shmt__histogramdd_from_bin_tensors(
      points, (shmt_tensors){(shmt_tensor* const[]){edges}, 1}, weight, density, &counts));
  SHMT_TRY(shmt_op_clone(edges, SHMT_CONTIGUOUS_FORMAT, &kept));
  SHMT_TRY(deliver(&counts, hist));
  return deliver(&kept, bin_edges);
}

shmt_status shmt__histogram_bins_tensor(shmt_tensor* self, shmt_tensor* bins, shmt_tensor* weight,
                                        bool density, shmt_tensor** hist,
                                        shmt_tensor** bin_edges) {
  SHMT_AUTO(shmt_tensor) points = NULL;
  SHMT_AUTO(shmt_tensor) weights = NULL;

  SHMT_TRY(as_points(self, weight, &points, &weights));
  return histogram_of(points, weights, bins, density, hist, bin_edges);
}

shmt_status shmt__histogram_bin_ct(shmt_tensor* self, int64_t bins, shmt_floats range,
                                   shmt_tensor* weight, bool density, shmt_tensor** hist,
                                   shmt_tensor** bin_edges) {
  SHMT_AUTO(shmt_tensor) points = NULL;
  SHMT_AUTO(shmt_tensor) weights = NULL;
  SHMT_AUTO_LIST edges = {0, 0};

  SHMT_TRY(as_points(self, weight, &points, &weights));
  SHMT_TRY(shmt__histogramdd_bin_edges(points, SHMT_INTS(bins), range, weights, density, &edges));
  return histogram_of(points, weights, edges.data[0], density, hist, bin_edges);
}
