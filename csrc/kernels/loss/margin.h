/* kernels/loss/margin.h -- the arguments of the loops of margin losses. */
#ifndef SHMT_KERNELS_LOSS_MARGIN_H
#define SHMT_KERNELS_LOSS_MARGIN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct shmt__margin_args {
  int64_t classes;
  double margin;
  bool squared;
} shmt__margin_args;

#endif
