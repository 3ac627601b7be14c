/* kernels/linalg/lu.h -- arguments of the loop in kernels/linalg/lu.tmpl.h. */
#ifndef SHMT_KERNELS_LINALG_LU_H
#define SHMT_KERNELS_LINALG_LU_H

#include <stdint.h>

typedef struct shmt__lu_args {
  int64_t columns, pitch; /* number of columns; elements from one column to the next */
  int* info;              /* the first zero pivot, counted from 1, or 0 */
} shmt__lu_args;

#endif
