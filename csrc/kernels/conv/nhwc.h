/* kernels/conv/nhwc.h -- arguments of the NHWC convolution kernels (kernels/conv/nhwc.tmpl.h, nhwc_grouped.tmpl.h). */
#ifndef SHMT_KERNELS_CONV_NHWC_H
#define SHMT_KERNELS_CONV_NHWC_H

#include "kernels/loop_args.h"

/* A row of weights has a multiple of so many filters; the largest tile has so many. */
enum { SHMT_NHWC_LANES = 16, SHMT_NHWC_FILTERS = 48 };

/* Some filters with some of their elements: rows of a kernel (depth, height) and channels of each position. */
typedef struct shmt__conv_nhwc_args {
  const shmt__conv_shape* conv;
  int64_t image_step, step[3]; /* elements between images, planes, rows, columns of the input */
  int64_t first;               /* output, counted through the images */
  int64_t begin[2], rows;      /* of the kernel: depth and height of the first row, and how many rows */
  int64_t channels;
  int64_t channel_step,
      position_step; /* elements between the weights of two channels, of two positions of the kernel */
  int64_t filters;
  int64_t pitch;               /* elements between two outputs */
  bool adds;                   /* to the outputs, instead of overwriting them */
  const void* bias;            /* of the filters, added last; NULL: none */
  const void* zeros;           /* one for each channel: the input in the padding */
} shmt__conv_nhwc_args;

#endif
