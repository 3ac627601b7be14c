/* ops/resample.c -- resizing along one dim, by linear or cubic interpolation, with or without antialiasing. */
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "iter/iter.h"
#include "kernels/shapes.h"
#include "ops/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 16384 };

typedef struct plan {
  bool cubic, align_corners, antialias;
  double scale; /* input elements per output element */
  int64_t* first;
  int64_t* count;
  double* weights;
  int16_t* fixed; /* for bytes only */
} plan;

static void plan_fini(plan* p) {
  free(p->first);
  free(p->count);
  free(p->weights);
  free(p->fixed);
}

/* Cubic convolution at distance x. */
static double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

static double triangle(double x) {
  return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

/* Neighbours beyond the ends count as the outermost element. */
static void find_neighbours(const plan* p, int64_t o, int64_t in, int64_t* first, int64_t* count, double* w) {
  double x = p->align_corners ? p->scale * (double)o : p->scale * ((double)o + 0.5) - 0.5;

  if (!p->cubic && x < 0) x = 0;
  if (x > (double)in) x = (double)in;
  int64_t base = (int64_t)floor(x);
  if (base > in - 1) base = in - 1;
  double t = x - (double)base;
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  if (!p->cubic) {
    *first = base;
    *count = base < in - 1 ? 2 : 1;
    w[0] = *count == 2 ? 1 - t : 1;
    w[1] = t;
    return;
  }
  const int64_t low = base - 1 < 0 ? 0 : base - 1, high = base + 2 > in - 1 ? in - 1 : base + 2;
  *first = low;
  *count = high - low + 1;
  memset(w, 0, 4 * sizeof *w);
  for (int k = 0; k < 4; k++) {
    int64_t at = base - 1 + k;
    at = at < 0 ? 0 : at > in - 1 ? in - 1 : at;
    w[at - low] += cubic(t + 1 - k, -0.75);
  }
}

/* When shrinking, the filter is widened by the scale, so that every input counts. */
static void find_smooth_neighbours(const plan* p, int64_t o, int64_t in, int64_t* first, int64_t* count, double* w) {
  const double widen = p->scale >= 1 ? p->scale : 1;
  const double support = (p->cubic ? 2 : 1) * widen, center = p->scale * ((double)o + 0.5);
  const double from = center - support + 0.5, to = center + support + 0.5;
  int64_t low = from >= (double)in ? in - 1 : from > 0 ? (int64_t)from : 0, high = to < (double)in ? (int64_t)to : in;
  double sum = 0;

  if (low > in - 1) low = in - 1;
  if (high <= low) high = low + 1;
  for (int64_t i = low; i < high; i++) {
    const double x = ((double)i - center + 0.5) / widen;
    w[i - low] = p->cubic ? cubic(x, -0.5) : triangle(x);
    sum += w[i - low];
  }
  for (int64_t i = low; i < high && sum != 0; i++) w[i - low] /= sum;
  *first = low;
  *count = high - low;
}

/* The weights in fixed point, as finely as the largest of them allows in 15 bits. */
static shmt_status fix_weights(plan* p, shmt__resample_shape* s) {
  const int64_t n = s->out * s->taps;
  double largest = 0;

  p->fixed = calloc((size_t)n, sizeof *p->fixed);
  SHMT_REQUIRE(p->fixed, SHMT_E_NOMEM, "_resample(): the weights of %" PRId64 " lines", s->out);
  for (int64_t i = 0; i < n; i++) largest = fmax(largest, p->weights[i]);
  s->precision = 0;
  while (s->precision < 22 && (int)(0.5 + largest * (double)(1 << (s->precision + 1))) < 1 << 15) s->precision++;
  for (int64_t i = 0; i < n; i++) {
    const double scaled = p->weights[i] * (double)(1 << s->precision);
    p->fixed[i] = (int16_t)(scaled + (scaled < 0 ? -0.5 : 0.5));
  }
  s->fixed = p->fixed;
  return SHMT_OK;
}

/* Fill p and s for resizing `in` lines to `out`. */
static shmt_status make_plan(plan* p, int64_t in, int64_t out, const char* mode, shmt_opt_float scale,
                             shmt__resample_shape* s) {
  SHMT_REQUIRE(strcmp(mode, "linear") == 0 || strcmp(mode, "cubic") == 0, SHMT_E_RUNTIME,
               "_resample(): mode must be linear or cubic, got %s", mode);
  SHMT_REQUIRE(in > 0 && out > 0, SHMT_E_RUNTIME,
               "Input and output sizes should be greater than 0, but got input size %" PRId64 " and output size %"
               PRId64, in, out);
  p->cubic = mode[0] == 'c';
  if (p->align_corners)
    p->scale = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  else
    p->scale = scale.has && scale.value > 0 ? 1 / scale.value : (double)in / (double)out;
  const double reach = (p->cubic ? 2 : 1) * (p->antialias && p->scale > 1 ? p->scale : 1);
  s->in = in;
  s->out = out;
  s->taps = p->antialias ? (2 * reach + 3 < (double)in + 4 ? (int64_t)(2 * reach) + 3 : in + 4) : 4;
  p->first = calloc((size_t)out, sizeof *p->first);
  p->count = calloc((size_t)out, sizeof *p->count);
  p->weights = calloc((size_t)out, (size_t)s->taps * sizeof *p->weights);
  SHMT_REQUIRE(p->first && p->count && p->weights, SHMT_E_NOMEM, "_resample(): the weights of %" PRId64 " lines", out);
  for (int64_t o = 0; o < out; o++) {
    double* w = p->weights + o * s->taps;
    if (p->antialias)
      find_smooth_neighbours(p, o, in, &p->first[o], &p->count[o], w);
    else
      find_neighbours(p, o, in, &p->first[o], &p->count[o], w);
  }
  s->first = p->first;
  s->count = p->count;
  s->weights = p->weights;
  return SHMT_OK;
}

typedef struct walk {
  char *to, *from;
  int64_t to_step, from_step; /* bytes from slab to slab */
  shmt__loop loop;
  const shmt__resample_shape* shape;
} walk;

static void run_slabs(void* ctx, int64_t begin, int64_t end) {
  const walk* w = ctx;
  char* data[2] = {w->to + begin * w->to_step, w->from + begin * w->from_step};

  w->loop(data, NULL, end - begin, w->shape);
}

/* `given` resized along dim; backward: from the output's size to the input's. */
static shmt_status resample(shmt_tensor* given, int64_t dim, int64_t size, const char* mode, plan* p,
                            shmt_opt_float scale, bool backward, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__resample_shape s = {0};
  int64_t sizes[SHMT_MAX_DIMS];
  const int row = backward ? SHMT_LOOP_resample_backward : SHMT_LOOP_resample;

  SHMT_REQUIRE_LOOP(row, given->dtype, "interpolate");
  SHMT_REQUIRE(dim >= -given->n_dims && dim < given->n_dims, SHMT_E_INDEX,
               "Dimension out of range (expected to be in range of [%d, %d], but got %" PRId64 ")", -given->n_dims,
               given->n_dims - 1, dim);
  if (dim < 0) dim += given->n_dims;
  const int64_t present = given->sizes[dim];
  SHMT_TRY(make_plan(p, backward ? size : present, backward ? present : size, mode, scale, &s));
  if (given->dtype == SHMT_UINT8) SHMT_TRY(fix_weights(p, &s));
  memcpy(sizes, given->sizes, (size_t)given->n_dims * sizeof *sizes);
  sizes[dim] = size;
  s.inner = shmt__tensor_extent(given, dim + 1, given->n_dims);
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, given->n_dims}, given->dtype, given->device, SHMT_CONTIGUOUS_FORMAT,
                              &result));
  if (!shmt__tensor_is_meta(given)) {
    if (backward) SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    if (result->numel > 0) {
      SHMT_TRY(shmt__tensor_contiguous(given, SHMT_CONTIGUOUS_FORMAT, &dense));
      const int64_t item = shmt__tensor_item_bytes(given);
      walk w = {shmt__tensor_data(result), shmt__tensor_data(dense), size * s.inner * item, present * s.inner * item,
                shmt__loops[row][given->dtype], &s};
      shmt__parallel_for(result->numel / (size * s.inner), GRAIN / (s.out * s.inner * 4 + 1) + 1, run_slabs, &w);
    }
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__resample(shmt_tensor* self, int64_t dim, int64_t size, const char* mode, bool align_corners,
                           shmt_opt_float scale, bool antialias, shmt_tensor** out) {
  plan p = {.align_corners = align_corners, .antialias = antialias};
  const shmt_status status = resample(self, dim, size, mode, &p, scale, false, out);

  plan_fini(&p);
  return status;
}

shmt_status shmt__resample_backward(shmt_tensor* grad_output, int64_t dim, int64_t size, const char* mode, bool align_corners,
                                    shmt_opt_float scale, bool antialias, shmt_tensor** out) {
  plan p = {.align_corners = align_corners, .antialias = antialias};
  const shmt_status status = resample(grad_output, dim, size, mode, &p, scale, true, out);

  plan_fini(&p);
  return status;
}
