/* kernels/grid_sample.tmpl.h -- values of images at given positions, and the gradients. One dtype.
 *
 * n batch entries; ctx: shmt__grid_shape. A position is the product of one set of neighbours per dim; a set has up to
 * four, each with its weight and the weight's first and second derivative by the coordinate. Images have depth 1, and then
 * positions have two coordinates. Coordinates come in the order width, height, depth.
 */
#include "kernels/loops.h"
#include "kernels/shapes.h"

#ifndef SHMT_KERNELS_GRID_SAMPLE_ONCE
#define SHMT_KERNELS_GRID_SAMPLE_ONCE
enum { SHMT_GRID_LINEAR, SHMT_GRID_NEAREST, SHMT_GRID_CUBIC };
enum { SHMT_GRID_ZEROS, SHMT_GRID_BORDER, SHMT_GRID_REFLECTION };
#endif

/* The neighbours along one dim; index -1: outside, counts as zero. */
typedef struct SHMT_LOOP(neighbours) {
  int n;
  int64_t at[4];
  ACC weight[4], slope[4], curve[4];
} SHMT_LOOP(neighbours);

static inline ACC SHMT_LOOP(clip)(ACC x, int64_t size, ACC* slope) {
  if (x <= 0 || x != x) {
    *slope = 0;
    return 0;
  }
  if (x >= (ACC)(size - 1)) {
    *slope = 0;
    return (ACC)(size - 1);
  }
  return x;
}

/* Reflect about the middles (align) or the edges of the outermost elements until x is inside. */
static inline ACC SHMT_LOOP(reflect)(ACC x, int64_t size, bool align, ACC* slope) {
  const ACC low = align ? 0 : (ACC)-0.5, span = (ACC)(align ? size - 1 : size);

  if (span == 0) {
    *slope = 0;
    return 0;
  }
  x -= low;
  if (x < 0) {
    x = -x;
    *slope = -*slope;
  }
  const ACC extra = (ACC)fmod((double)x, (double)span);
  const ACC flips = (ACC)floor((double)(x / span));
  if ((ACC)fmod((double)flips, 2.0) == 0) return extra + low;
  *slope = -*slope;
  return span - extra + low;
}

static inline ACC SHMT_LOOP(bring_inside)(const shmt__grid_shape* s, ACC x, int64_t size, ACC* slope) {
  if (s->padding == SHMT_GRID_REFLECTION) x = SHMT_LOOP(reflect)(x, size, s->align_corners, slope);
  return s->padding == SHMT_GRID_ZEROS ? x : SHMT_LOOP(clip)(x, size, slope);
}

/* An index from a whole number; -1 when it is not one of the size. */
static inline int64_t SHMT_LOOP(index_of)(ACC x, int64_t size) {
  return x >= 0 && x < (ACC)size ? (int64_t)x : -1;
}

/* Cubic convolution with a = -0.75 at distance t behind the second of four neighbours. */
static inline void SHMT_LOOP(cubic)(ACC t, ACC* w, ACC* slope, ACC* curve) {
  const ACC a = (ACC)-0.75;
  const ACC d[4] = {t + 1, t, 1 - t, 2 - t};

  for (int k = 0; k < 4; k++) {
    const ACC x = d[k], sign = k < 2 ? (ACC)1 : (ACC)-1;
    if (k == 0 || k == 3) {
      w[k] = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      slope[k] = sign * ((3 * a * x - 10 * a) * x + 8 * a);
      curve[k] = 6 * a * x - 10 * a;
    } else {
      w[k] = ((a + 2) * x - (a + 3)) * x * x + 1;
      slope[k] = sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
      curve[k] = 6 * (a + 2) * x - 2 * (a + 3);
    }
  }
}

static inline void SHMT_LOOP(find_neighbours)(const shmt__grid_shape* s, ACC given, int64_t size,
                                              SHMT_LOOP(neighbours)* out) {
  ACC slope = (ACC)(s->align_corners ? size - 1 : size) / 2;
  ACC x = s->align_corners ? (given + 1) / 2 * (ACC)(size - 1) : ((given + 1) * (ACC)size - 1) / 2;

  if (s->mode == SHMT_GRID_CUBIC) {
    const ACC base = (ACC)floor((double)x);
    out->n = 4;
    SHMT_LOOP(cubic)(x - base, out->weight, out->slope, out->curve);
    for (int k = 0; k < 4; k++) {
      ACC unused = 1;
      out->at[k] = SHMT_LOOP(index_of)(SHMT_LOOP(bring_inside)(s, base + (ACC)(k - 1), size, &unused), size);
      out->slope[k] *= slope;
      out->curve[k] *= slope * slope;
    }
    return;
  }
  x = SHMT_LOOP(bring_inside)(s, x, size, &slope);
  if (s->mode == SHMT_GRID_NEAREST) {
    out->n = 1;
    out->at[0] = SHMT_LOOP(index_of)((ACC)nearbyint((double)x), size);
    out->weight[0] = 1;
    out->slope[0] = out->curve[0] = 0;
    return;
  }
  const ACC base = (ACC)floor((double)x);
  out->n = 2;
  out->at[0] = SHMT_LOOP(index_of)(base, size);
  out->at[1] = SHMT_LOOP(index_of)(base + 1, size);
  out->weight[0] = base + 1 - x;
  out->weight[1] = x - base;
  out->slope[0] = -slope;
  out->slope[1] = slope;
  out->curve[0] = out->curve[1] = 0;
}

/* The neighbours of position p of a grid: width, height, depth. */
static inline void SHMT_LOOP(locate)(const shmt__grid_shape* s, const T* grid, int64_t p,
                                     SHMT_LOOP(neighbours) sets[3]) {
  sets[2] = (SHMT_LOOP(neighbours)){.n = 1, .at = {0}, .weight = {1}, .slope = {0}, .curve = {0}};
  for (int d = 0; d < s->n; d++)
    SHMT_LOOP(find_neighbours)(s, (ACC)SHMT_LOAD(grid[p * s->n + d]), s->in[2 - d], &sets[d]);
}

/* For every combination of neighbours inside: its offset in a plane, as OFFSET. */
#define GRID_EACH(sets, OFFSET)                                                                              \
  for (int kd = 0; kd < (sets)[2].n; kd++)                                                                   \
    for (int kh = 0; kh < (sets)[1].n; kh++)                                                                 \
      for (int kw = 0; kw < (sets)[0].n; kw++)                                                               \
        for (int64_t OFFSET = ((sets)[2].at[kd] * s->in[1] + (sets)[1].at[kh]) * s->in[2] + (sets)[0].at[kw], \
                     once = (sets)[2].at[kd] >= 0 && (sets)[1].at[kh] >= 0 && (sets)[0].at[kw] >= 0;          \
             once; once = 0)

/* data: out, image, grid. */
void SHMT_LOOP(grid_sample)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_shape* s = ctx;
  const int64_t plane = s->in[0] * s->in[1] * s->in[2];
  T* out = (T*)(void*)data[0];
  const T* image = (const T*)(const void*)data[1];
  const T* grid = (const T*)(const void*)data[2];

  (void)strides;
  for (int64_t b = 0; b < n; b++, out += s->channels * s->points, image += s->channels * plane) {
    for (int64_t p = 0; p < s->points; p++) {
      SHMT_LOOP(neighbours) sets[3];
      SHMT_LOOP(locate)(s, grid, p, sets);
      for (int64_t c = 0; c < s->channels; c++) {
        ACC sum = 0;
        GRID_EACH(sets, offset)
        sum += sets[2].weight[kd] * sets[1].weight[kh] * sets[0].weight[kw] *
               (ACC)SHMT_LOAD(image[c * plane + offset]);
        out[c * s->points + p] = SHMT_STORE((C)sum);
      }
    }
    grid += s->points * s->n;
  }
}

/* data: gradients of image (zeros so far) and grid, each NULL if not wanted; gradient of out, image, grid. */
void SHMT_LOOP(grid_sample_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_shape* s = ctx;
  const int64_t plane = s->in[0] * s->in[1] * s->in[2];
  T* image_grad = (T*)(void*)data[0];
  T* grid_grad = (T*)(void*)data[1];
  const T* grad = (const T*)(const void*)data[2];
  const T* image = (const T*)(const void*)data[3];
  const T* grid = (const T*)(const void*)data[4];

  (void)strides;
  for (int64_t b = 0; b < n; b++) {
    for (int64_t p = 0; p < s->points; p++) {
      SHMT_LOOP(neighbours) sets[3];
      ACC slopes[3] = {0, 0, 0};
      SHMT_LOOP(locate)(s, grid, p, sets);
      for (int64_t c = 0; c < s->channels; c++) {
        const ACC g = (ACC)SHMT_LOAD(grad[c * s->points + p]);
        GRID_EACH(sets, offset) {
          const ACC wd = sets[2].weight[kd], wh = sets[1].weight[kh], ww = sets[0].weight[kw];
          const ACC v = g * (ACC)SHMT_LOAD(image[c * plane + offset]);
          if (image_grad) {
            T* at = &image_grad[c * plane + offset];
            *at = SHMT_STORE((C)((ACC)SHMT_LOAD(*at) + wd * wh * ww * g));
          }
          slopes[0] += v * wd * wh * sets[0].slope[kw];
          slopes[1] += v * wd * sets[1].slope[kh] * ww;
          slopes[2] += v * sets[2].slope[kd] * wh * ww;
        }
      }
      if (grid_grad)
        for (int d = 0; d < s->n; d++) grid_grad[p * s->n + d] = SHMT_STORE((C)slopes[d]);
    }
    if (image_grad) image_grad += s->channels * plane;
    if (grid_grad) grid_grad += s->points * s->n;
    grad += s->channels * s->points;
    image += s->channels * plane;
    grid += s->points * s->n;
  }
}

/* The weight of one combination of neighbours, its derivatives, and along u those of them. */
typedef struct SHMT_LOOP(corner) {
  ACC weight, first[3], along, second[3];
} SHMT_LOOP(corner);

static inline SHMT_LOOP(corner) SHMT_LOOP(corner_of)(const SHMT_LOOP(neighbours) sets[3], int kw, int kh, int kd,
                                                     const ACC u[3]) {
  const ACC w[3] = {sets[0].weight[kw], sets[1].weight[kh], sets[2].weight[kd]};
  const ACC s[3] = {sets[0].slope[kw], sets[1].slope[kh], sets[2].slope[kd]};
  const ACC c[3] = {sets[0].curve[kw], sets[1].curve[kh], sets[2].curve[kd]};
  SHMT_LOOP(corner) made = {.weight = w[0] * w[1] * w[2]};

  for (int d = 0; d < 3; d++) {
    const int e = (d + 1) % 3, f = (d + 2) % 3;
    made.first[d] = s[d] * w[e] * w[f];
    made.along += u[d] * made.first[d];
    made.second[d] = u[d] * c[d] * w[e] * w[f] + u[e] * s[d] * s[e] * w[f] + u[f] * s[d] * s[f] * w[e];
  }
  return made;
}

/* data: gradients of the gradient of out, of image (zeros so far) and of grid, each NULL if not wanted; those of the
 * gradients of image and grid, each NULL if it is zero; gradient of out, image, grid. */
void SHMT_LOOP(grid_sample_second)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__grid_shape* s = ctx;
  const int64_t plane = s->in[0] * s->in[1] * s->in[2], outs = s->channels * s->points, ins = s->channels * plane;
  T* to_grad = (T*)(void*)data[0];
  T* to_image = (T*)(void*)data[1];
  T* to_grid = (T*)(void*)data[2];
  const T* a = (const T*)(const void*)data[3];
  const T* u = (const T*)(const void*)data[4];
  const T* grad = (const T*)(const void*)data[5];
  const T* image = (const T*)(const void*)data[6];
  const T* grid = (const T*)(const void*)data[7];

  (void)strides;
  for (int64_t b = 0; b < n; b++) {
    for (int64_t p = 0; p < s->points; p++) {
      SHMT_LOOP(neighbours) sets[3];
      ACC along[3] = {0, 0, 0}, sums[3] = {0, 0, 0};
      SHMT_LOOP(locate)(s, grid, p, sets);
      for (int d = 0; u && d < s->n; d++) along[d] = (ACC)SHMT_LOAD(u[p * s->n + d]);
      for (int64_t c = 0; c < s->channels; c++) {
        const ACC g = (ACC)SHMT_LOAD(grad[c * s->points + p]);
        ACC sum = 0;
        GRID_EACH(sets, offset) {
          const SHMT_LOOP(corner) k = SHMT_LOOP(corner_of)(sets, kw, kh, kd, along);
          const ACC v = (ACC)SHMT_LOAD(image[c * plane + offset]);
          const ACC w = a ? (ACC)SHMT_LOAD(a[c * plane + offset]) : 0;
          sum += k.weight * w + k.along * v;
          for (int d = 0; d < s->n; d++) sums[d] += g * (k.first[d] * w + k.second[d] * v);
          if (to_image) {
            T* at = &to_image[c * plane + offset];
            *at = SHMT_STORE((C)((ACC)SHMT_LOAD(*at) + k.along * g));
          }
        }
        if (to_grad) to_grad[c * s->points + p] = SHMT_STORE((C)sum);
      }
      if (to_grid)
        for (int d = 0; d < s->n; d++) to_grid[p * s->n + d] = SHMT_STORE((C)sums[d]);
    }
    if (to_grad) to_grad += outs;
    if (to_image) to_image += ins;
    if (to_grid) to_grid += s->points * s->n;
    if (a) a += ins;
    if (u) u += s->points * s->n;
    grad += outs;
    image += ins;
    grid += s->points * s->n;
  }
}

#undef GRID_EACH
