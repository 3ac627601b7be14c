/* ops/conv/algorithm.h -- chooses the algorithm of a convolution and of its two gradients.
 *
 * README.md of this folder explains the choice; each algorithm is a file of nchw/, nhwc/ or backward/.
 */
#ifndef SHMT_OPS_CONV_ALGORITHM_H
#define SHMT_OPS_CONV_ALGORITHM_H

#include "ops/conv/image_view.h"
#include "ops/conv/problem.h"

typedef enum shmt__conv_algorithm {
  SHMT_CONV_NHWC_AMX,      /* nhwc/amx.c: bfloat16 on AMX tiles */
  SHMT_CONV_NHWC_GROUPED,  /* nhwc/grouped.c: depthwise, or groups that fill a vector */
  SHMT_CONV_NHWC,          /* nhwc/nhwc.c */
  SHMT_CONV_RELAYOUT_NHWC, /* relayout.c: copies tiles to NHWC, runs one of the three above, copies the result */
  SHMT_CONV_RELAYOUT_NCHW, /* relayout.c: an NHWC result from the algorithms below */
  SHMT_CONV_DEPTHWISE,     /* nchw/depthwise.c */
  SHMT_CONV_DIRECT,        /* nchw/direct.c: no column matrix, or one of panels (nchw/im2col_panels.c) */
  SHMT_CONV_IM2COL,        /* nchw/im2col.c: matrix products */
} shmt__conv_algorithm;

typedef enum shmt__conv_input_grad_algorithm {
  SHMT_CONV_INPUT_GRAD_FLIPPED, /* stride 1: a forward convolution with the flipped weight */
  SHMT_CONV_INPUT_GRAD_PHASES,  /* larger strides, NHWC: one such convolution for each phase of the stride */
  SHMT_CONV_INPUT_GRAD_COL2IM,  /* matrix products, whose columns are summed into the image */
} shmt__conv_input_grad_algorithm;

typedef enum shmt__conv_weight_grad_algorithm {
  SHMT_CONV_WEIGHT_GRAD_NHWC_AMX,
  SHMT_CONV_WEIGHT_GRAD_NHWC,
  SHMT_CONV_WEIGHT_GRAD_DEPTHWISE,
  SHMT_CONV_WEIGHT_GRAD_IM2COL,
} shmt__conv_weight_grad_algorithm;

/* The algorithm of a forward convolution whose input is as c describes it. is_nhwc: the result is to be NHWC. Sets
 * c->dtype to the dtype that the algorithm calculates in. */
shmt__conv_algorithm shmt__conv_choose_algorithm(shmt__conv* c, bool is_nhwc);
/* May it read the weight as NHWC (c->weight_is_nhwc)? */
bool shmt__conv_takes_nhwc_weight(shmt__conv_algorithm algorithm);

/* The algorithm of the input gradient from `grad`, the gradient of the output. is_nhwc: the result is to be NHWC. Where
 * it is FLIPPED, *flipped is the forward convolution to run, whose flips_weight says who flips the weight. */
shmt__conv_input_grad_algorithm shmt__conv_choose_input_grad_algorithm(const shmt__conv* c, const shmt_tensor* grad,
                                                                       bool is_nhwc, shmt__conv* flipped);

/* The algorithm of the weight gradient from the input and the gradient of the output. */
shmt__conv_weight_grad_algorithm shmt__conv_choose_weight_grad_algorithm(const shmt__conv* c,
                                                                         const shmt__image_view* images,
                                                                         const shmt__image_view* outputs);

#endif
