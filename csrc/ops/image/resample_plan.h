/* ops/image/resample_plan.h -- which lines a resized dim's lines are made of, and with which weights. */
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
  double* weights; /* floats once they are narrowed */
  int16_t* fixed; /* for bytes only */
} shmt__resample_plan;

/* The fields of p and s for resizing `in` lines to `out` in mode linear or cubic; a scale of 0 is the quotient of the
 * sizes. bytes: weights in fixed point too. p, whose options are set, owns the tables, which the caller releases by
 * _fini() whatever is returned. Errors: SHMT_E_RUNTIME, SHMT_E_NOMEM. */
shmt_status shmt__resample_plan_make(shmt__resample_plan* p, int64_t in, int64_t out, const char* mode, double scale,
                                     bool bytes, shmt__resample_args* s);
/* The same for the way back: from a gradient of `out` lines to one of `in`. Errors: the same. */
shmt_status shmt__resample_plan_backward(shmt__resample_plan* p, int64_t in, int64_t out, const char* mode, double scale,
                                         shmt__resample_args* s);
/* The weights in float, which p->weights then holds; no more may be made of p. */
void shmt__resample_plan_to_float(shmt__resample_plan* p, const shmt__resample_args* s);
void shmt__resample_plan_fini(shmt__resample_plan* p);

#endif
