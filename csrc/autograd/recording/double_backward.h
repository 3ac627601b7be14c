/* autograd/recording/double_backward.h -- gradients that depend on the forward operator's inputs in a way their formula does not show.
 *
 * Note [Double backward without an expression]
 * `second: zero` in the specification: a gradient is constant piece by piece (where a maximum lies, say), so that its
 * formula does not look at the input. With create_graph it requires grad all the same, and the derivative is zeros, not
 * an error. `second: missing NAME`: going through the gradient again raises. Neither keeps a tensor: the new node leads
 * where the forward node's edges lead.
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
