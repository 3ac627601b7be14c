/* kernels/optim/step.h -- arguments of the loops of optimizer steps, their ctx. */
#ifndef SHMT_KERNELS_OPTIM_STEP_H
#define SHMT_KERNELS_OPTIM_STEP_H

#include "iter/iter.h"

#include <stdbool.h>

enum { SHMT_STEP_MAX_LISTS = 5 }; /* parameter, gradient and what is remembered */

/* The coefficients of one tensor's step. A loop uses those of its algorithm; kernels/optim/step.tmpl.h has the
 * formulas. */
typedef struct shmt__step_coefficients {
  double weight_decay; /* times the parameter, added to the gradient */
  double keep;         /* what the parameter is multiplied by first: 1, or less with decoupled decay */
  double eps;
  double size;         /* what the direction is multiplied by; negative where the step goes down */
  double second_size;  /* the same for the moment, where gradient and moment have their own */
  double decay, decay2; /* of the first and the second average */
  double take, take2;  /* what a new value counts: 1 - decay, or less */
  double correction;   /* what a root or a moment is divided by */
  double scale;        /* a further factor */
  double low, high;    /* bounds */
  bool maximize, has_weight_decay;
  bool is_first;       /* the remembered direction is yet to be made */
  bool nesterov, use_root, replace_average;
} shmt__step_coefficients;

/* For tensors with gaps and for float16 and bfloat16 that are calculated in float: blocks of all operands are brought
 * together, and those that `loop` has written go back. */
typedef struct shmt__step_gathered {
  shmt__loop loop; /* of the dtype that the stretches have */
  const shmt__step_coefficients* coefficients;
  int n_lists;
  unsigned written; /* bit k: the loop writes operand k */
  int first;        /* the place of the parameter among the operands */
  double unscale;   /* what the gradient is divided by first; 1: nothing */
} shmt__step_gathered;

#endif
