/* autograd/recording/double_backward.c -- second derivatives that no expression gives: zero, or an error. */
#include "autograd/recording/double_backward.h"

#include "autograd/engine/engine.h"
#include "autograd/engine/fit_gradients.h"
#include "autograd/recording/recording.h"

/* Connect `made`: edge 0 leads to the gradient's own history, the others lead where node's edges lead. */
static shmt_status lead(shmt_node* made, const shmt_node* node, shmt_tensor* gradient) {
  SHMT_TRY(shmt__node_connect(made, 0, gradient));
  for (uint32_t i = 0; i < node->n_edges; i++) {
    if (!shmt__node_needs(node, i)) continue;
    shmt__node_retain(node->edges[i].node);
    shmt__node_set_edge(made, i + 1, node->edges[i]);
  }
  return SHMT_OK;
}

/* The gradient may have other holders, or be an input of this run, so an alias of it gets the node. */
static shmt_status give_history(shmt_node* made, const shmt_node* node, shmt_tensor** gradient) {
  shmt_tensor* g = *gradient;
  SHMT_AUTO(shmt_tensor) again = NULL;
  SHMT_TRY(lead(made, node, g));
  SHMT_TRY(shmt__tensor_detached(g, &again));
  SHMT_TRY(shmt__set_history(again, made, 0));
  *gradient = SHMT_TAKE(again);
  shmt__tensor_release(g);
  return SHMT_OK;
}

shmt_status shmt__double_backward_zero(const shmt_node* node, const shmt__node_class* k, shmt_tensor** gradient) {
  if (!*gradient || !shmt__grad_enabled()) return SHMT_OK;
  SHMT_AUTO(shmt_node) made = shmt__node_create(k, node->n_edges + 1, 1);
  if (!made) return SHMT_E_NOMEM; /* recorded */
  return give_history(made, node, gradient);
}

shmt_status shmt__double_backward_missing(const shmt_node* node, const char* name, shmt_tensor** gradient) {
  if (!*gradient || !shmt__grad_enabled()) return SHMT_OK;
  SHMT_AUTO(shmt_node) made = NULL;
  SHMT_TRY(shmt__not_implemented_alone(name, node->n_edges + 1, 1, &made));
  return give_history(made, node, gradient);
}

shmt_status shmt__double_backward_zero_apply(shmt_node* node, shmt_tensor* const* grads, shmt_tensor** out) {
  if (!grads[0]) return SHMT_OK;
  if (shmt__node_needs(node, 0)) out[0] = shmt__tensor_ref(grads[0]);
  for (uint32_t i = 1; i < node->n_edges; i++)
    if (shmt__node_needs(node, i)) SHMT_TRY(shmt__grad_zeros(&node->edges[i], &out[i]));
  return SHMT_OK;
}
