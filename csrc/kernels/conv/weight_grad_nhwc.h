/* kernels/conv/weight_grad_nhwc.h -- the gradient of a convolution's weight (kernels/conv/weight_grad_nhwc.tmpl.h). */
#ifndef SHMT_KERNELS_CONV_WEIGHT_GRAD_NHWC_H
#define SHMT_KERNELS_CONV_WEIGHT_GRAD_NHWC_H

#include <stdbool.h>
#include <stdint.h>

/* Elements that are summed together: offsets, and rows of sums, are filled up to a multiple of them. */
enum { SHMT_WEIGHT_GRAD_ELEMENTS = 8, SHMT_WEIGHT_GRAD_ELEMENTS_GROUPED = 9 };

/* A box of outputs, dense but for the pitch, and the windows that they came from. */
typedef struct shmt__weight_grad_args {
  int64_t n[4];          /* outputs: images, planes, rows, those of a row */
  int64_t step[4];       /* elements between the patches of neighbours along each */
  const int64_t* offset; /* of the elements of a window, from where it begins */
  int64_t channels;      /* of a group; only of conv_weight_grad_grouped */
  int64_t filters;       /* a multiple of SHMT_NHWC_LANES */
  int64_t pitch;         /* elements from one output's filters to the next one's, and between rows of sums */
  bool adds;             /* to what the sums are */
} shmt__weight_grad_args;

#endif
