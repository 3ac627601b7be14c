/* ops/image/resample_plan.c -- neighbours and weights of linear and cubic interpolation, with or without
 * antialiasing. */
#include "ops/image/resample_plan.h"

#include "ops/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef shmt__resample_plan plan;

static shmt_status allocate(plan* p, int64_t slices, int64_t taps) {
  p->first = calloc((size_t)slices, sizeof *p->first);
  p->count = calloc((size_t)slices, sizeof *p->count);
  p->weights = calloc((size_t)slices, (size_t)taps * sizeof *p->weights);
  SHMT_REQUIRE(p->first && p->count && p->weights, SHMT_E_NOMEM, "_resample(): the weights of %" PRId64 " slices",
               slices);
  return SHMT_OK;
}

void shmt__resample_plan_fini(plan* p) {
  free(p->first);
  free(p->count);
  free(p->weights);
  free(p->fixed);
}

void shmt__resample_plan_to_float(plan* p, const shmt__resample_args* s) {
  char* to = (char*)p->weights;

  /* No weight is overwritten before it is read. */
  for (int64_t i = 0; i < s->out * s->taps; i++, to += sizeof(float)) {
    const float narrow = (float)p->weights[i];
    memcpy(to, &narrow, sizeof narrow);
  }
}

/* The weight of cubic convolution at distance x. */
static double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

static double linear(double x) {
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
static void find_antialiased_neighbours(const plan* p, int64_t o, int64_t in, int64_t* first, int64_t* count,
                                        double* w) {
  const double widen = p->scale >= 1 ? p->scale : 1;
  const double support = (p->cubic ? 2 : 1) * widen, center = p->scale * ((double)o + 0.5);
  const double from = center - support + 0.5, to = center + support + 0.5;
  int64_t low = from >= (double)in ? in - 1 : from > 0 ? (int64_t)from : 0, high = to < (double)in ? (int64_t)to : in;
  double sum = 0;

  if (low > in - 1) low = in - 1;
  if (high <= low) high = low + 1;
  for (int64_t i = low; i < high; i++) {
    const double x = ((double)i - center + 0.5) / widen;
    w[i - low] = p->cubic ? cubic(x, -0.5) : linear(x);
    sum += w[i - low];
  }
  for (int64_t i = low; i < high && sum != 0; i++) w[i - low] /= sum;
  *first = low;
  *count = high - low;
}

/* Make fixed-point weights, with the highest precision at which the largest weight fits 15 bits. */
static shmt_status fix_weights(plan* p, shmt__resample_args* s) {
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

static void refer(const plan* p, int64_t in, int64_t out, int64_t taps, shmt__resample_args* s) {
  *s = (shmt__resample_args){.in = in, .out = out, .taps = taps, .first = p->first, .count = p->count,
                             .weights = p->weights};
}

shmt_status shmt__resample_plan_make(plan* p, int64_t in, int64_t out, const char* mode, double scale, bool bytes,
                                     shmt__resample_args* s) {
  SHMT_REQUIRE(strcmp(mode, "linear") == 0 || strcmp(mode, "cubic") == 0, SHMT_E_RUNTIME,
               "_resample(): mode must be linear or cubic, got %s", mode);
  SHMT_REQUIRE(in > 0 && out > 0, SHMT_E_RUNTIME, SHMT_RESAMPLE_SIZES, in, out);
  p->cubic = mode[0] == 'c';
  if (p->align_corners)
    p->scale = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  else
    p->scale = scale > 0 ? 1 / scale : (double)in / (double)out;
  const double reach = (p->cubic ? 2 : 1) * (p->antialias && p->scale > 1 ? p->scale : 1);
  const int64_t taps = p->antialias ? (2 * reach + 3 < (double)in + 4 ? (int64_t)(2 * reach) + 3 : in + 4)
                       : p->cubic   ? 4
                                    : 2;
  SHMT_TRY(allocate(p, out, taps));
  refer(p, in, out, taps, s);
  for (int64_t o = 0; o < out; o++) {
    double* w = p->weights + o * s->taps;
    if (p->antialias)
      find_antialiased_neighbours(p, o, in, &p->first[o], &p->count[o], w);
    else
      find_neighbours(p, o, in, &p->first[o], &p->count[o], w);
  }
  return bytes ? fix_weights(p, s) : SHMT_OK;
}

/* The neighbours of output slices are in the order of the slices, so the outputs that have an input slice as neighbour
 * are a range. */
shmt_status shmt__resample_plan_backward(plan* p, int64_t in, int64_t out, const char* mode, double scale,
                                         shmt__resample_args* s) {
  plan forward = {.align_corners = p->align_corners, .antialias = p->antialias};
  shmt__resample_args shape;
  int64_t taps = 1;
  shmt_status status = shmt__resample_plan_make(&forward, in, out, mode, scale, false, &shape);

  if (status == SHMT_OK) {
    int64_t* const counts = calloc((size_t)in, sizeof *counts);
    for (int64_t o = 0; counts && o < out; o++)
      for (int64_t k = 0; k < shape.count[o]; k++) {
        int64_t* const count = &counts[shape.first[o] + k];
        taps = ++*count > taps ? *count : taps;
      }
    status = counts ? allocate(p, in, taps) : shmt__fail(SHMT_E_NOMEM, "_resample(): %" PRId64 " slices", in);
    free(counts);
  }
  for (int64_t o = 0; status == SHMT_OK && o < out; o++)
    for (int64_t k = 0; k < shape.count[o]; k++) {
      const int64_t slice = shape.first[o] + k;
      if (p->count[slice] == 0) p->first[slice] = o;
      p->weights[slice * taps + p->count[slice]++] = forward.weights[o * shape.taps + k];
    }
  shmt__resample_plan_fini(&forward);
  refer(p, out, in, taps, s);
  return status;
}
