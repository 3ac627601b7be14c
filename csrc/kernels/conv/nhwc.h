/* kernels/conv/nhwc.h -- convolution of images whose channels are neighbours (kernels/conv/nhwc.tmpl.h). */
#ifndef SHMT_KERNELS_CONV_NHWC_H
#define SHMT_KERNELS_CONV_NHWC_H

#include "kernels/loop_args.h"

/* Filters that a row of weights is rounded up to; those of the largest tile. */
enum { SHMT_NHWC_LANES = 16, SHMT_NHWC_FILTERS = 48 };

/* Some filters with a part of their elements: rows of a kernel (depth, height) and, of every place, channels. */
typedef struct shmt__conv_nhwc_args {
  const shmt__conv_shape* conv;
  int64_t image_step, step[3]; /* elements between images, planes, rows, pixels */
  int64_t first;               /* of the outputs, counted through the images */
  int64_t begin[2], rows;      /* of a kernel: depth and height of the first row, how many there are */
  int64_t channels;
  int64_t channel_step, position_step; /* elements between the rows of weights of two channels, of two lanes of a kernel */
  int64_t filters;
  int64_t pitch;               /* elements between two outputs' filters */
  bool adds;                   /* to what the outputs are */
  const void* bias;            /* of the filters, which is added last; NULL: none */
  const void* zeros;           /* as many as channels: a pixel of padding */
} shmt__conv_nhwc_args;

#endif
