/* kernels/pooling/pool.h -- pooling windows, for the templates of pooling.
 *
 * Planes have three dims, of which leading ones may be 1. A window lies only partly inside the plane where there is
 * padding, or where ceil_mode cuts the last one.
 */
#ifndef SHMT_KERNELS_POOLING_POOL_H
#define SHMT_KERNELS_POOLING_POOL_H

#include "kernels/loop_args.h"

#include <stdbool.h>

/* The first element of the window of output o that is inside the plane, and its end; elements are `dilation` apart. */
static inline void shmt__pool_window(const shmt__pool_args* s, int d, int64_t o, int64_t* begin, int64_t* end) {
  const int64_t start = o * s->stride[d] - s->padding[d];
  const int64_t stop = start + (s->kernel[d] - 1) * s->dilation[d] + 1;

  *begin = start < 0 ? start + (-start + s->dilation[d] - 1) / s->dilation[d] * s->dilation[d] : start;
  *end = stop < s->in[d] ? stop : s->in[d];
}
/* The window of output o of adaptive pooling: the o-th of `out` equal shares. */
static inline void shmt__adaptive_pool_window(const shmt__pool_args* s, int d, int64_t o, int64_t* begin,
                                              int64_t* end) {
  *begin = o * s->in[d] / s->out[d];
  *end = ((o + 1) * s->in[d] + s->out[d] - 1) / s->out[d];
}
/* Rows that are their own planes, and whose windows tile them from end to end, are one long row: set *row to n of
 * them. */
static inline bool shmt__pool_merge_rows(const shmt__pool_args* s, int64_t n, shmt__pool_args* row) {
  for (int d = 0; d < 2; d++)
    if (s->in[d] != 1 || s->out[d] != 1 || s->kernel[d] != 1 || s->padding[d] != 0) return false;
  if (s->padding[2] != 0 || s->out[2] * s->stride[2] != s->in[2] ||
      (s->kernel[2] - 1) * s->dilation[2] >= s->stride[2])
    return false;
  *row = *s;
  row->in[2] *= n;
  row->out[2] *= n;
  return true;
}
/* The window of output ow of a row: begin and end along each dim. */
static inline void shmt__pool_row_window(const shmt__pool_row_args* r, int64_t ow, int64_t* window) {
  const int64_t o[3] = {r->od, r->oh, ow};

  for (int d = 0; d < 3; d++)
    if (r->is_adaptive)
      shmt__adaptive_pool_window(r->shape, d, o[d], &window[2 * d], &window[2 * d + 1]);
    else
      shmt__pool_window(r->shape, d, o[d], &window[2 * d], &window[2 * d + 1]);
}
#define SHMT_POOL_PLANE(v) ((v)[0] * (v)[1] * (v)[2])
#define SHMT_POOL_EACH_OUTPUT                              \
  for (int64_t od = 0; od < s->out[0]; od++)               \
    for (int64_t oh = 0; oh < s->out[1]; oh++)             \
      for (int64_t ow = 0; ow < s->out[2]; ow++)
#define SHMT_POOL_WINDOW(FN)      \
  int64_t d0, d1, h0, h1, w0, w1; \
  FN(s, 0, od, &d0, &d1);         \
  FN(s, 1, oh, &h0, &h1);         \
  FN(s, 2, ow, &w0, &w1)

/* Of outputs first .. last of a row, those for which the element `offset` behind the window's begin is inside the
 * plane. */
static inline void shmt__pool_outputs_inside(const shmt__pool_args* s, int64_t offset, int64_t first, int64_t last,
                                             int64_t* begin, int64_t* end) {
  const int64_t step = s->stride[2];

  *begin = first;
  *end = last;
  /* Divisions only at the border of the plane. */
  if (first * step + offset < 0) *begin = (-offset + step - 1) / step;
  if ((last - 1) * step + offset >= s->in[2]) *end = s->in[2] > offset ? (s->in[2] - 1 - offset) / step + 1 : 0;
}

/* The elements of the window along the last dim that are inside the plane for any of those outputs: a window may be far
 * larger. */
static inline void shmt__pool_taps(const shmt__pool_args* s, int64_t first, int64_t last, int64_t* begin,
                                   int64_t* end) {
  const int64_t before = s->padding[2] - (last - 1) * s->stride[2],
                behind = s->in[2] - 1 + s->padding[2] - first * s->stride[2];

  *begin = before > 0 ? (before + s->dilation[2] - 1) / s->dilation[2] : 0;
  *end = s->kernel[2];
  if (behind < (s->kernel[2] - 1) * s->dilation[2]) *end = behind < 0 ? 0 : behind / s->dilation[2] + 1;
}

/* Outputs of a row that are made together. */
enum { SHMT_POOL_BLOCK = 128 };

/* BODY for w from begin to end, with a constant `step` for the usual strides, so that strided loads become shuffles. */
#define SHMT_POOL_EACH_IN_ROW(BODY)            \
  if (s->stride[2] == 1) {                     \
    enum { step = 1 };                         \
    for (int64_t w = begin; w < end; w++) BODY \
  } else if (s->stride[2] == 2) {              \
    enum { step = 2 };                         \
    for (int64_t w = begin; w < end; w++) BODY \
  } else {                                     \
    const int64_t step = s->stride[2];         \
    for (int64_t w = begin; w < end; w++) BODY \
  }

#endif
