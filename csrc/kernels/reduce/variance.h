/* kernels/reduce/variance.h -- what var and std are told, and their state. */
#ifndef SHMT_KERNELS_REDUCE_VARIANCE_H
#define SHMT_KERNELS_REDUCE_VARIANCE_H

#include <stdbool.h>

typedef struct shmt__var_args {
  double correction; /* taken from the count before dividing */
  bool root;         /* the standard deviation */
} shmt__var_args;

typedef struct shmt__var_state {
  double n, mean, squares;
} shmt__var_state;

#endif
