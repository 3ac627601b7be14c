/* kernels/linalg/trsm.h -- what kernels/linalg/trsm.tmpl.h is told: a triangle and its right-hand sides. */
#ifndef SHMT_KERNELS_LINALG_TRSM_H
#define SHMT_KERNELS_LINALG_TRSM_H

#include <stdbool.h>
#include <stdint.h>

enum { SHMT_TRSM_PANEL_BYTES = 128 }; /* of a row of right-hand sides: a whole number of vectors, two at least */

/* An upper triangle is a lower one whose rows and columns are counted from the end: with negative strides. */
typedef struct shmt__trsm_panel_args {
  int64_t row_stride, column_stride; /* elements */
  int64_t columns;                   /* right-hand sides in the panel */
  int64_t begin;                     /* rows of the panel above this one are 0, and are not looked at */
  bool is_unit;                      /* the diagonal counts as ones and is not read */
  bool is_reversed;                  /* the panel's rows are counted from its end too */
} shmt__trsm_panel_args;

#endif
