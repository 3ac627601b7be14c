/* kernels/linalg/lu.h -- what kernels/linalg/lu.tmpl.h is told. */
#ifndef SHMT_KERNELS_LINALG_LU_H
#define SHMT_KERNELS_LINALG_LU_H

#include <stdint.h>

typedef struct shmt__lu_args {
  int64_t columns, pitch; /* how many, and elements from one to the next */
  int* info;              /* the first zero pivot, counted from 1; 0: there is none */
} shmt__lu_args;

#endif
