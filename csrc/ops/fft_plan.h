/* ops/fft_plan.h -- the tables of a Fourier transform. */
#ifndef SHMT_OPS_FFT_PLAN_H
#define SHMT_OPS_FFT_PLAN_H

#include "base/error.h"
#include "base/types.h"
#include "kernels/shapes.h"

/* A plan and what it owns. */
typedef struct shmt__fft {
  shmt__fft_plan plan, inner;
  shmt_dtype dtype; /* complex */
  void* memory;
  uint64_t nbytes;
} shmt__fft;

/* Tables for lines of n elements. Errors: SHMT_E_NOMEM. Release with shmt__fft_fini (also after a failure). */
shmt_status shmt__fft_init(shmt__fft* f, int64_t n, shmt_dtype dtype);
void shmt__fft_fini(shmt__fft* f);
/* Transform n_lines dense lines in place. Errors: SHMT_E_NOMEM. */
shmt_status shmt__fft_run(const shmt__fft* f, void* lines, int64_t n_lines, bool is_forward, double scale);

#endif
