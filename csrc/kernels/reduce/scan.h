/* kernels/reduce/scan.h -- what loops along many lines at once are told. */
#ifndef SHMT_KERNELS_REDUCE_SCAN_H
#define SHMT_KERNELS_REDUCE_SCAN_H

#include <stdint.h>

typedef struct shmt__needed_nodes_shape {
  int64_t length;
  int64_t steps[2]; /* bytes from element to element of the output and of the input */
} shmt__needed_nodes_shape;

#endif
