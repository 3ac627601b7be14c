/* kernels/linalg/trsm.h -- arguments of the loop in kernels/linalg/trsm.tmpl.h. */
#ifndef SHMT_KERNELS_LINALG_TRSM_H
#define SHMT_KERNELS_LINALG_TRSM_H

#include <stdbool.h>
#include <stdint.h>

enum {
  SHMT_TRSM_PANEL_BYTES = 128
}; /* bytes of a row of right-hand sides: at least two, and a whole number of, vectors */

/* A triangular matrix and a panel of right-hand sides. An upper triangular matrix is a lower one whose rows and columns
 * are counted from the end, with negative strides. */
typedef struct shmt__trsm_panel_args {
  int64_t row_stride, column_stride; /* elements */
  int64_t columns;                   /* right-hand sides in the panel */
  int64_t begin;                     /* rows of the panel above this one are 0, and are not read */
  bool is_unit;                      /* the diagonal counts as ones and is not read */
  bool is_reversed;                  /* the panel's rows are counted from its end too */
} shmt__trsm_panel_args;

#endif
