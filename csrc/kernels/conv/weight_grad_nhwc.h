/* kernels/conv/weight_grad_nhwc.h -- arguments of the NHWC weight gradient (kernels/conv/weight_grad_nhwc.tmpl.h). */
#ifndef SHMT_KERNELS_CONV_WEIGHT_GRAD_NHWC_H
#define SHMT_KERNELS_CONV_WEIGHT_GRAD_NHWC_H

#include <stdbool.h>
#include <stdint.h>

/* Elements of filters that are summed together: there is a multiple of so many offsets and rows of sums. */
enum { SHMT_WEIGHT_GRAD_ELEMENTS = 8, SHMT_WEIGHT_GRAD_ELEMENTS_GROUPED = 9 };

/* A tile of outputs, dense but for the pitch, and the patches of a padded NHWC image that belong to them. */
typedef struct shmt__weight_grad_args {
  int64_t n[4];          /* outputs: images, planes, rows, columns */
  int64_t step[4];       /* elements between the patches of neighbours along each */
  const int64_t* offset; /* of the elements of a patch, from its begin on */
  int64_t channels;      /* of a group; only of conv_weight_grad_grouped */
  int64_t filters;       /* a multiple of SHMT_NHWC_LANES */
  int64_t pitch;         /* elements between two outputs, and between two rows of sums */
  bool adds;             /* to the sums, instead of overwriting them */
} shmt__weight_grad_args;

#endif
