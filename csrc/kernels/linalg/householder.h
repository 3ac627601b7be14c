/* kernels/linalg/householder.h -- what kernels/linalg/householder.tmpl.h is told. */
#ifndef SHMT_KERNELS_LINALG_HOUSEHOLDER_H
#define SHMT_KERNELS_LINALG_HOUSEHOLDER_H

#include <stdbool.h>
#include <stdint.h>

/* LANES: rows are rounded up to; ELEMENTS: of a matrix of rows rounded up, at most. */
enum { SHMT_HOUSEHOLDER_LANES = 16, SHMT_HOUSEHOLDER_ELEMENTS = 1024 };

typedef struct shmt__householder_args {
  int64_t columns, pitch; /* how many, and elements from one to the next */
  int64_t count;          /* of the reflections */
} shmt__householder_args;

static inline bool shmt__householder_fits(int64_t rows, int64_t columns) {
  const int64_t most = SHMT_HOUSEHOLDER_ELEMENTS / SHMT_HOUSEHOLDER_LANES;
  return rows <= SHMT_HOUSEHOLDER_ELEMENTS && (rows + SHMT_HOUSEHOLDER_LANES - 1) / SHMT_HOUSEHOLDER_LANES * columns <= most;
}

#endif
