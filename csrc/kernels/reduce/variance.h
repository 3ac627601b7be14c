/* kernels/reduce/variance.h -- the arguments and the state of the loop of var and std. */
#ifndef SHMT_KERNELS_REDUCE_VARIANCE_H
#define SHMT_KERNELS_REDUCE_VARIANCE_H

#include <stdbool.h>

typedef struct shmt__var_args {
  double correction; /* subtracted from the count before dividing */
  bool root;         /* the standard deviation */
} shmt__var_args;

typedef struct shmt__var_state {
  double n, mean, squares;
} shmt__var_state;

#endif
