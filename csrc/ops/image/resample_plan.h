/* ops/image/resample_plan.h -- the neighbours and weights of each output slice along a resized dim. */
#ifndef SHMT_OPS_IMAGE_RESAMPLE_PLAN_H
#define SHMT_OPS_IMAGE_RESAMPLE_PLAN_H

#include "kernels/loop_args.h"
#include "tensor/tensor.h"

#include <inttypes.h>

#define SHMT_RESAMPLE_SIZES \
  "Input and output sizes should be greater than 0, but got input size %" PRId64 " and output size %" PRId64

typedef struct shmt__resample_plan {
  bool cubic, align_corners, antialias;
  double scale; /* input elements per output element */
  int64_t* first;
  int64_t* count;
  double* weights; /* float after shmt__resample_plan_to_float() */
  int16_t* fixed;  /* fixed-point weights, for uint8 only */
} shmt__resample_plan;

/* Fill p and s for resizing `in` slices to `out` in mode linear or cubic; a scale of 0 means the quotient of the sizes.
 * bytes: make fixed-point weights too. The options of p are set before. p owns the tables; the caller frees them with
 * _fini(), whatever is returned. Errors: SHMT_E_RUNTIME, SHMT_E_NOMEM. */
shmt_status shmt__resample_plan_make(shmt__resample_plan* p, int64_t in, int64_t out, const char* mode, double scale,
                                     bool bytes, shmt__resample_args* s);
/* The same for the gradient: from `out` slices to `in`. Errors: the same. */
shmt_status shmt__resample_plan_backward(shmt__resample_plan* p, int64_t in, int64_t out, const char* mode,
                                         double scale, shmt__resample_args* s);
/* Convert p->weights to float in place; p may not be used to make other plans afterwards. */
void shmt__resample_plan_to_float(shmt__resample_plan* p, const shmt__resample_args* s);
void shmt__resample_plan_fini(shmt__resample_plan* p);

#endif
