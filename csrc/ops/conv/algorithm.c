/* ops/conv/algorithm.c -- chooses the algorithm of a convolution and of its two gradients. */
#include "ops/conv/algorithm.h"

#include "ops/conv/backward/input_grad_flipped.h"
#include "ops/conv/backward/input_grad_phases.h"
#include "ops/conv/backward/weight_grad_nhwc.h"
#include "ops/conv/backward/weight_grad_nhwc_amx.h"
#include "ops/conv/nchw/direct.h"
#include "ops/conv/nchw/im2col.h"
#include "ops/conv/nhwc/amx.h"
#include "ops/conv/nhwc/grouped.h"
#include "ops/conv/nhwc/nhwc.h"
#include "ops/conv/relayout.h"
#include "ops/dtype_names.h"

/* --- forward ------------------------------------------------------------------------ */

static bool is_nhwc_amx(const shmt__conv* c) {
  return !shmt__conv_is_depthwise(c) && !shmt__conv_has_nhwc_grouped(c) && shmt__conv_is_nhwc_amx(c);
}

/* The dtype to calculate in. The matrix products of im2col sum 16-bit floats in float32 themselves, so that its columns
 * need not be widened. The other algorithms widen what they read, and are faster yet; only AMX is faster than they
 * are. */
static shmt_dtype dtype_of(const shmt__conv* c) {
  if (!shmt__is_half(c->io_dtype) || c->groups != 1) return c->dtype;
  if (c->io_dtype == SHMT_BFLOAT16 && shmt__conv_prefers_im2col_amx(c)) return c->io_dtype;
  return shmt__conv_prefers_direct(c) || shmt__conv_prefers_relayout_nhwc(c) ? c->dtype : c->io_dtype;
}

shmt__conv_algorithm shmt__conv_choose_algorithm(shmt__conv* c, bool is_nhwc) {
  if (is_nhwc && is_nhwc_amx(c)) return SHMT_CONV_NHWC_AMX;
  if (shmt__conv_prefers_relayout_nhwc_amx(c)) return SHMT_CONV_RELAYOUT_NHWC;
  c->dtype = dtype_of(c);
  if (is_nhwc && shmt__conv_is_nhwc_grouped(c)) return SHMT_CONV_NHWC_GROUPED;
  if (is_nhwc && shmt__conv_is_nhwc(c)) return SHMT_CONV_NHWC;
  if (shmt__conv_prefers_relayout_nhwc(c)) return SHMT_CONV_RELAYOUT_NHWC;
  if (is_nhwc) return SHMT_CONV_RELAYOUT_NCHW;
  if (shmt__conv_is_depthwise(c)) return SHMT_CONV_DEPTHWISE;
  return shmt__conv_prefers_direct(c) ? SHMT_CONV_DIRECT : SHMT_CONV_IM2COL;
}

bool shmt__conv_takes_nhwc_weight(shmt__conv_algorithm algorithm) {
  return algorithm == SHMT_CONV_NHWC_GROUPED || algorithm == SHMT_CONV_NHWC || algorithm == SHMT_CONV_RELAYOUT_NHWC ||
         algorithm == SHMT_CONV_DIRECT;
}

/* --- gradients ---------------------------------------------------------------------- */

shmt__conv_input_grad_algorithm shmt__conv_choose_input_grad_algorithm(const shmt__conv* c, const shmt_tensor* grad,
                                                                       bool is_nhwc, shmt__conv* flipped) {
  const shmt__image_view from = shmt__image_view_of(grad);

  if (shmt__conv_input_grad_as_conv(c, flipped)) {
    shmt__conv strided = *flipped;
    shmt__conv_set_input(&strided, grad);
    /* AMX kernels flip the weight while they pack it. */
    flipped->flips_weight = (is_nhwc && is_nhwc_amx(&strided)) || shmt__conv_prefers_relayout_nhwc_amx(&strided);
    if (flipped->flips_weight || shmt__conv_prefers_direct(flipped) || shmt__conv_is_depthwise(flipped))
      return SHMT_CONV_INPUT_GRAD_FLIPPED;
  }
  shmt__conv stored = *c;
  stored.io_dtype = grad->dtype;
  return shmt__conv_has_input_grad_phases(&stored, &from) ? SHMT_CONV_INPUT_GRAD_PHASES : SHMT_CONV_INPUT_GRAD_COL2IM;
}

shmt__conv_weight_grad_algorithm shmt__conv_choose_weight_grad_algorithm(const shmt__conv* c,
                                                                         const shmt__image_view* images,
                                                                         const shmt__image_view* outputs) {
  if (shmt__conv_has_weight_grad_nhwc_amx(c, images, outputs)) return SHMT_CONV_WEIGHT_GRAD_NHWC_AMX;
  if (shmt__conv_prefers_weight_grad_nhwc(c, images)) return SHMT_CONV_WEIGHT_GRAD_NHWC;
  return shmt__conv_is_depthwise(c) ? SHMT_CONV_WEIGHT_GRAD_DEPTHWISE : SHMT_CONV_WEIGHT_GRAD_IM2COL;
}
