/* kernels/sparse/sparse.h -- what the loops over sparse entries are told beside pointers. */
#ifndef SHMT_KERNELS_SPARSE_SPARSE_H
#define SHMT_KERNELS_SPARSE_SPARSE_H

#include "base/types.h"

/* The ctx of all loops of kernels/sparse/sparse.tmpl.h. Lists are the caller's own memory, and every index in them has
 * been checked. Positions and steps count in elements. */
typedef struct shmt__sparse_args {
  shmt_scalar alpha;      /* first: loops read it as they read the alpha of add */
  const int64_t* starts;  /* row i has the entries from starts[i] to starts[i + 1] - 1 */
  const int64_t* order;   /* entry k has the value at order[k]; NULL: at k */
  const int64_t* rows;    /* of entry k: its row of the first matrix, or where its row of the output begins */
  const int64_t* columns; /* of entry k: its row of the second matrix */
  int64_t width;          /* elements of a row */
  int64_t step, step2;    /* between rows of the first and the second matrix */
} shmt__sparse_args;

#endif
