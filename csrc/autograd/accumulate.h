/* autograd/accumulate.h -- AccumulateGrad: where a leaf's gradients end. */
#ifndef SHMT_AUTOGRAD_ACCUMULATE_H
#define SHMT_AUTOGRAD_ACCUMULATE_H

#include "autograd/meta.h"

/* The AccumulateGrad of a leaf that requires grad; a new reference. NULL and a record when out of
 * memory. */
shmt_node* shmt__accumulator_of(shmt_tensor* leaf);
/* An AccumulateGrad node; node.h says who owns what. */
typedef struct shmt__accumulate_grad {
  shmt_node node;
  shmt_tensor* variable; /* the leaf; referenced while node.refs > 0 */
} shmt__accumulate_grad;
/* The leaf of an AccumulateGrad node; borrowed. */
static inline shmt_tensor* shmt__accumulator_variable(const shmt_node* n) {
  return ((const shmt__accumulate_grad*)n)->variable;
}
/* Add a gradient that fits the leaf. *grad is taken over when possible, and then set to NULL.
 * Errors: whatever the operators return. */
shmt_status shmt__accumulate(shmt_node* n, shmt_tensor** grad);

#endif
