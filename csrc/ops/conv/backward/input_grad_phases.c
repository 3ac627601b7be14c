/* ops/conv/backward/input_grad_phases.c -- input gradient with strides: one convolution for each phase of the stride.
 *
 * Note [Phases]
 * A phase is the positions of the input that have one remainder modulo the stride s. Every output that reads such a
 * position reads it with the same elements of the kernel: every s-th one, or none. So the input gradient at these
 * positions is a convolution of the output's gradient with stride 1 and those elements of the kernel, flipped; its
 * results lie s apart in the image. No column matrix is made and summed.
 */
#include "ops/conv/backward/input_grad_phases.h"

#include "generated/impls.h"
#include "ops/conv/nhwc/grouped.h"
#include "ops/conv/relayout.h"
#include "ops/conv/nhwc/amx.h"
#include "ops/conv/backward/input_grad_flipped.h"

enum {
  MOST_PHASES = 16,
  FEW_FILTERS = 8, /* which leave AMX tiles nearly empty, while the im2col copies take as long as for many */
};

/* A phase along a dim. */
typedef struct axis {
  int64_t first, step, n;   /* the elements of the kernel: which, and how many */
  int64_t dilation;         /* of those */
  int64_t padding, cropped; /* before the output's gradient; one of the two is 0 */
  int64_t in, out;          /* elements of the cropped gradient, and of the phase */
} axis;

static int64_t common_divisor(int64_t a, int64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

/* The first output that reads a position of the phase reads it with the last of these elements of the kernel. */
static axis axis_of(const shmt__conv_shape* s, int d, int64_t phase) {
  const int64_t stride = s->stride[d], dilation = s->dilation[d], at = phase + s->padding[d];
  axis a = {.step = stride / common_divisor(stride, dilation), .out = (s->in[d] - phase + stride - 1) / stride};

  while (a.first < s->kernel[d] && a.first < stride && (at - a.first * dilation) % stride != 0) a.first++;
  if (a.first >= s->kernel[d] || a.first >= stride) return a;
  a.n = (s->kernel[d] - 1 - a.first) / a.step + 1;
  a.dilation = a.step * dilation / stride;
  const int64_t last = (at - a.first * dilation) / stride - (a.n - 1) * a.dilation;
  a.padding = last < 0 ? -last : 0;
  a.cropped = last > 0 ? last : 0;
  a.in = s->out[d] - a.cropped;
  return a;
}

/* The convolution from the output's side, with its dtypes and channels only. */
static shmt__conv transposed_of(const shmt__conv* c) {
  shmt__conv transposed = *c;

  transposed.channels = c->filters;
  transposed.filters = c->channels;
  for (int d = 0; d < 3; d++) {
    transposed.shape.in[d] = c->shape.out[d];
    transposed.shape.out[d] = c->shape.in[d];
    transposed.shape.stride[d] = 1;
  }
  return transposed;
}

bool shmt__conv_has_input_grad_phases(const shmt__conv* c, const shmt__image_view* outputs) {
  const shmt__conv transposed = transposed_of(c);
  double phases = 1;

  if (shmt__conv_has_nhwc_amx(&transposed) && transposed.filters / transposed.groups <= FEW_FILTERS &&
      !shmt__conv_is_depthwise(&transposed) && !shmt__conv_has_nhwc_grouped(&transposed))
    return false;
  for (int d = 0; d < 3; d++) phases *= (double)c->shape.stride[d];
  return phases > 1 && phases <= MOST_PHASES && outputs->stride[1] == shmt__dtype_size[outputs->dtype] &&
         shmt__conv_can_pad(c) && shmt__conv_has_relayout_nhwc(&transposed);
}

/* Positions that no output reads: the bias, or 0. */
static void fill_outputs(const shmt__conv* c, const void* bias, const shmt__image_view* to, const int64_t* n) {
  static const char ZERO[8];
  const shmt__image_view from = {bias ? (char*)(uintptr_t)bias : (char*)(uintptr_t)ZERO, c->dtype,
                                 {0, bias ? shmt__dtype_size[c->dtype] : 0}};

  shmt__image_view_copy_parallel(to, &from, n);
}

/* The elements of the kernel that belong to a phase, flipped. */
static shmt_status phase_weight(const shmt__conv* c, shmt_tensor* weight, const axis* axes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) part = NULL;
  int64_t sizes[5] = {weight->sizes[0], weight->sizes[1]}, strides[5] = {weight->strides[0], weight->strides[1]};
  int64_t offset = weight->offset;
  shmt__conv sub = *c;

  for (int d = 2; d < weight->n_dims; d++) {
    const axis* a = &axes[d + 3 - weight->n_dims];
    sizes[d] = a->n;
    strides[d] = weight->strides[d] * a->step;
    offset += weight->strides[d] * a->first;
  }
  for (int d = 0; d < 3; d++) sub.shape.kernel[d] = axes[d].n;
  SHMT_TRY(shmt__impl_as_strided(weight, (shmt_ints){sizes, weight->n_dims}, (shmt_ints){strides, weight->n_dims},
                                 (shmt_opt_int){offset, true}, &part));
  return shmt__conv_flip_weight(&sub, part, out);
}

static shmt_status run_phase(const shmt__conv* c, const shmt__image_view* outputs, shmt_tensor* weight,
                             const void* bias, const shmt__image_view* images, const int64_t* phase) {
  SHMT_AUTO(shmt_tensor) w = NULL;
  shmt__conv transposed = transposed_of(c);
  shmt__image_view to = shmt__image_view_at(images, (int64_t[]){0, 0, phase[0], phase[1], phase[2]});
  axis axes[3];
  bool is_empty = false;

  for (int d = 0; d < 3; d++) {
    const axis a = axes[d] = axis_of(&c->shape, d, phase[d]);
    to.stride[2 + d] *= c->shape.stride[d];
    transposed.shape.in[d] = a.in;
    transposed.shape.out[d] = a.out;
    transposed.shape.kernel[d] = a.n;
    transposed.shape.padding[d] = a.padding;
    transposed.shape.dilation[d] = a.dilation;
    transposed.step[d] = outputs->stride[2 + d];
    is_empty = is_empty || a.n == 0 || a.in <= 0;
  }
  if (is_empty) {
    fill_outputs(c, bias, &to, (int64_t[]){c->n_images, c->channels, axes[0].out, axes[1].out, axes[2].out});
    return SHMT_OK;
  }
  transposed.image_step = outputs->stride[0];
  transposed.channel_step = outputs->stride[1];
  transposed.bias = bias;
  transposed.weight_is_nhwc = false;
  const shmt__image_view from =
      shmt__image_view_at(outputs, (int64_t[]){0, 0, axes[0].cropped, axes[1].cropped, axes[2].cropped});
  SHMT_TRY(phase_weight(c, weight, axes, &w));
  const shmt__image_view flipped_weight = shmt__image_view_of(w);
  return shmt__conv_relayout_nhwc(&transposed, &from, &flipped_weight, &to);
}

shmt_status shmt__conv_input_grad_phases(const shmt__conv* c, const shmt__image_view* outputs, shmt_tensor* weight,
                                         const void* bias, const shmt__image_view* images) {
  const shmt__conv_shape* s = &c->shape;

  for (int64_t i = 0; i < s->stride[0] * s->stride[1] * s->stride[2]; i++) {
    const int64_t phase[3] = {i / (s->stride[1] * s->stride[2]), i / s->stride[2] % s->stride[1], i % s->stride[2]};
    if (phase[0] >= s->in[0] || phase[1] >= s->in[1] || phase[2] >= s->in[2]) continue;
    SHMT_TRY(run_phase(c, outputs, weight, bias, images, phase));
  }
  return SHMT_OK;
}
