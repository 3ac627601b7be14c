/* kernels/conv/nhwc_offsets.tmpl.h -- where the patches of a tile of outputs begin in NHWC images, one dtype.
 *
 * Part of kernels/conv/nhwc.tmpl.h and kernels/conv/nhwc_grouped.tmpl.h. The patch of an output is the part of the
 * input under the kernel. */
#include "kernels/conv/filter_vectors.tmpl.h"
#include "kernels/conv/nhwc.h"

#define OUTPUTS      (SHMT_ISA_LEVEL == 2 ? 8 : 4)
#define MOST_OUTPUTS 8 /* of one vector of filters: so many independent sums hide the latency of an addition */

/* Where patches begin, which may be in the padding: the position, and the offset in elements. */
typedef struct FN(patches) {
  int64_t position[3][MOST_OUTPUTS], at[MOST_OUTPUTS];
} FN(patches);

INLINE bool FN(is_inside)(const shmt__conv_shape* c, int d, int64_t position) {
  return (uint64_t)position < (uint64_t)c->in[d];
}

/* The next output, and the outputs [begin, end) of a row whose patches do not reach into the padding along the row. */
typedef struct FN(cursor) {
  int64_t begin, end, image, out[3];
} FN(cursor);

INLINE FN(cursor) FN(cursor_at)(const shmt__conv_nhwc_args* s) {
  const shmt__conv_shape* c = s->conv;
  const int64_t plane = c->out[1] * c->out[2], volume = c->out[0] * plane, in_image = s->first % volume;
  const int64_t reach = (c->kernel[2] - 1) * c->dilation[2] + 1, room = c->in[2] + c->padding[2] - reach;
  const int64_t end = room < 0 ? 0 : room / c->stride[2] + 1;

  return (FN(cursor)){.begin = (c->padding[2] + c->stride[2] - 1) / c->stride[2],
                      .end = end < c->out[2] ? end : c->out[2], /* no output reads output_padding */
                      .image = s->first / volume,
                      .out = {in_image / plane, in_image / c->out[2] % c->out[1], in_image % c->out[2]}};
}

/* Advance by n outputs of a row. */
INLINE void FN(advance)(const shmt__conv_shape* c, FN(cursor) * at, int64_t n) {
  if ((at->out[2] += n) < c->out[2]) return;
  at->out[2] = 0;
  if (++at->out[1] < c->out[1]) return;
  at->out[1] = 0;
  if (++at->out[0] < c->out[0]) return;
  at->out[0] = 0;
  at->image++;
}

/* Find the patches of the next n outputs; up to n_outputs, the last is repeated. True: none reaches into the
 * padding. */
INLINE bool FN(next_patches)(const shmt__conv_nhwc_args* s, int64_t n, FN(cursor) * from, FN(patches) * w,
                             const int n_outputs) {
  const shmt__conv_shape* c = s->conv;
  const int64_t step = c->stride[2] * s->step[2];
  int64_t i = 0;

  while (i < n) {
    const int64_t rest = c->out[2] - from->out[2], run = rest < n - i ? rest : n - i;
    int64_t position[3], at = from->image * s->image_step;
    bool is_whole = run == n_outputs && from->out[2] >= from->begin && from->out[2] + n_outputs <= from->end;
    for (int d = 0; d < 3; d++) {
      position[d] = from->out[d] * c->stride[d] - c->padding[d];
      at += position[d] * s->step[d];
      is_whole =
          is_whole && (d == 2 || (position[d] >= 0 && position[d] + (c->kernel[d] - 1) * c->dilation[d] < c->in[d]));
    }
    FN(advance)(c, from, run);
    if (is_whole) {
      for (int k = 0; k < n_outputs; k++) w->at[k] = at + k * step;
      return true;
    }
    for (const int64_t end = i + run; i < end; i++, at += step, position[2] += c->stride[2]) {
      w->at[i] = at;
      for (int d = 0; d < 3; d++) w->position[d][i] = position[d];
    }
  }
  for (; i < n_outputs; i++) {
    w->at[i] = w->at[n - 1];
    for (int d = 0; d < 3; d++) w->position[d][i] = w->position[d][n - 1];
  }
  return false;
}
