/* kernels/reduce/scan.h -- arguments of the loops of scan_rows.tmpl.h. */
#ifndef SHMT_KERNELS_REDUCE_SCAN_H
#define SHMT_KERNELS_REDUCE_SCAN_H

#include <stdint.h>

typedef struct shmt__scan_args {
  int64_t length;
  int64_t steps[2]; /* bytes from element to element of the output and of the input */
} shmt__scan_args;

#endif
