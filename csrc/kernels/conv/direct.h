/* kernels/conv/direct.h -- arguments of direct convolution (kernels/conv/direct.tmpl.h): the layout of a padded
 * image. */
#ifndef SHMT_KERNELS_CONV_DIRECT_H
#define SHMT_KERNELS_CONV_DIRECT_H

#include "kernels/loop_args.h"

/* Elements behind an image and behind scratch that vectors may read; filters and outputs of the largest tile. */
enum { SHMT_DIRECT_SLACK = 64, SHMT_DIRECT_FILTERS = 8, SHMT_DIRECT_BLOCK = 48 };

typedef struct shmt__conv_direct_args {
  const shmt__conv_shape* conv; /* of the tile; the other fields are the layout of its padded image */
  const int64_t* offset; /* of each element of a filter, in the image */
  int64_t filters, k;    /* of a group; elements of one filter */
  int64_t row, rows;     /* elements of a padded row, rows of a plane */
  int64_t volume;        /* elements of a phase: the positions with one remainder modulo the stride */
  int64_t channel;       /* elements of all phases of a channel */
  int64_t pitch;         /* elements between the outputs of two filters */
  bool is_in_place;      /* the image is not a copy: nothing behind it may be read */
} shmt__conv_direct_args;

#endif
