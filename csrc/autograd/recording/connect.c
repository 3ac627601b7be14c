/* autograd/recording/connect.c -- where a tensor's gradient goes, and edges that lead there. */
#include "autograd/recording/connect.h"

#include "autograd/accumulate.h"
#include "autograd/meta.h"

shmt_status shmt__gradient_edge(shmt_tensor* t, shmt_edge* out) {
  *out = (shmt_edge){NULL, 0};
  if (!t) return SHMT_OK;
  SHMT_TRY(shmt__meta_refresh(t));
  if (!(shmt__tensor_own_keys(t) & SHMT_KEYBIT_Autograd)) return SHMT_OK;
  shmt_autograd_meta* m = t->autograd;
  if (m->grad_fn) {
    shmt__node_retain(m->grad_fn);
    *out = (shmt_edge){m->grad_fn, m->output_nr};
    return SHMT_OK;
  }
  shmt_node* acc = shmt__accumulator_of(t);
  if (SHMT_UNLIKELY(!acc)) return SHMT_E_NOMEM;
  *out = (shmt_edge){acc, 0};
  return SHMT_OK;
}

shmt_status shmt__node_connect(shmt_node* n, uint32_t i, shmt_tensor* t) {
  if (!t || (SHMT_LIKELY(!(t->flags & SHMT_TENSOR_VIEW)) && !(shmt__tensor_own_keys(t) & SHMT_KEYBIT_Autograd)))
    return SHMT_OK;
  shmt_edge edge;
  SHMT_TRY(shmt__gradient_edge(t, &edge));
  if (edge.node) shmt__node_set_edge(n, i, edge);
  return SHMT_OK;
}
