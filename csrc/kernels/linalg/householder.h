/* kernels/linalg/householder.h -- arguments of the loops in kernels/linalg/householder.tmpl.h. */
#ifndef SHMT_KERNELS_LINALG_HOUSEHOLDER_H
#define SHMT_KERNELS_LINALG_HOUSEHOLDER_H

#include <stdbool.h>
#include <stdint.h>

/* Rows are rounded up to LANES; a matrix with its rows rounded up has at most ELEMENTS. */
enum { SHMT_HOUSEHOLDER_LANES = 16, SHMT_HOUSEHOLDER_ELEMENTS = 1024 };

typedef struct shmt__householder_args {
  int64_t columns, pitch; /* number of columns; elements from one column to the next */
  int64_t count;          /* number of reflectors */
} shmt__householder_args;

static inline bool shmt__householder_fits(int64_t rows, int64_t columns) {
  const int64_t most = SHMT_HOUSEHOLDER_ELEMENTS / SHMT_HOUSEHOLDER_LANES;
  return rows <= SHMT_HOUSEHOLDER_ELEMENTS &&
         (rows + SHMT_HOUSEHOLDER_LANES - 1) / SHMT_HOUSEHOLDER_LANES * columns <= most;
}

#endif
