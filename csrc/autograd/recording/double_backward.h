/* autograd/recording/double_backward.h -- second derivatives that no expression gives: zero, or an error.
 *
 * Note [Double backward without an expression]
 * `double_backward: zero` in the specification: the gradient is piecewise constant in the input (that of max, for
 * example), so that its expression does not use the input. With create_graph it still requires grad, as in torch, and
 * its derivative is zeros. `double_backward: missing NAME`: backward through the gradient raises. Neither saves a
 * tensor: the edges of the new node lead where those of the forward node lead.
 */
#ifndef SHMT_AUTOGRAD_RECORDING_DOUBLE_BACKWARD_H
#define SHMT_AUTOGRAD_RECORDING_DOUBLE_BACKWARD_H

#include "autograd/node.h"

/* While recording, *gradient (owned, may be NULL) becomes the output of a node of class k that leads to its own history
 * and to all that node leads to. Errors: SHMT_E_NOMEM; *gradient stays as it was. */
shmt_status shmt__double_backward_zero(const shmt_node* node, const shmt__node_class* k, shmt_tensor** gradient);
/* The same with a node that raises "derivative for NAME is not implemented"; name is static text. */
shmt_status shmt__double_backward_missing(const shmt_node* node, const char* name, shmt_tensor** gradient);

/* apply of the classes given to shmt__double_backward_zero, which have no state. */
shmt_status shmt__double_backward_zero_apply(shmt_node* node, shmt_tensor* const* grads, shmt_tensor** out);

#endif
