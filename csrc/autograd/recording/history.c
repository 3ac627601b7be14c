/* autograd/recording/history.c -- giving outputs their node (set_history). */
#include "autograd/recording/history.h"

#include "autograd/meta.h"
#include "autograd/retained_grads.h"

#include <stdlib.h>
#include <string.h>

static SHMT_COLD shmt_status fill_large_meta(shmt__input_meta* m, const shmt_tensor* t) {
  const size_t nbytes = (size_t)t->n_dims * sizeof *t->sizes;
  int64_t* sizes = malloc(nbytes);
  SHMT_REQUIRE(sizes, SHMT_E_NOMEM, "out of memory for the shape of a gradient");
  memcpy(sizes, t->sizes, nbytes);
  m->more = sizes;
  m->n_dims = t->n_dims;
  m->dtype = t->dtype;
  m->device = t->device;
  return SHMT_OK;
}

static inline shmt_status fill_input_meta(shmt__input_meta* m, const shmt_tensor* t) {
  if (SHMT_UNLIKELY(m->dtype != SHMT_DTYPE_NONE && m->n_dims > SHMT_INPUT_META_DIMS)) free(m->more);
  m->dtype = SHMT_DTYPE_NONE;
  if (SHMT_UNLIKELY(t->n_dims > SHMT_INPUT_META_DIMS)) return fill_large_meta(m, t);
  m->n_dims = t->n_dims;
  m->dtype = t->dtype;
  m->device = t->device;
  for (int i = 0; i < t->n_dims; i++) m->sizes[i] = t->sizes[i];
  return SHMT_OK;
}

shmt_status shmt__node_describe_input(shmt_node* n, uint32_t i, const shmt_tensor* t) {
  return fill_input_meta(shmt__node_input_meta(n, i), t);
}

/* The tensor had a history before: an in-place change. Hooks stay with the old node; retained gradients move to the
 * new one. */
static SHMT_COLD shmt_status replace_history(shmt_autograd_meta* m, shmt_node* old) {
  shmt_status status = SHMT_OK;
  if (m->retains_grad) {
    shmt__node_forget_output(old, m);
    status = shmt__node_retain_output(m->grad_fn, m->output_nr, m);
  }
  shmt__node_release(old);
  return status;
}

shmt_status shmt__set_history(shmt_tensor* out, shmt_node* node, uint32_t nr) {
  if (!out || !shmt__dtype_differentiable(out->dtype)) return SHMT_OK;
  SHMT_ASSERT(nr < node->n_inputs);
  shmt_autograd_meta* m = shmt__meta_of(out);
  if (SHMT_UNLIKELY(!m)) return SHMT_E_NOMEM;
  SHMT_TRY(fill_input_meta(shmt__node_input_meta(node, nr), out));
  if (out->flags & SHMT_TENSOR_VIEW) m->attr_version = shmt__tensor_version(out);
  shmt_node* old = m->grad_fn;
  shmt__node_retain(node);
  m->grad_fn = node;
  m->output_nr = nr;
  shmt__tensor_set_own_keys(out, shmt__tensor_own_keys(out) | SHMT_KEYBIT_Autograd);
  return SHMT_UNLIKELY(old != NULL) ? replace_history(m, old) : SHMT_OK;
}
