/* autograd/recording/history.c -- results get their node: set_history, and in-place changes of tensors and
 * views. */
#include "autograd/recording/copy_slices.h"
#include "autograd/hooks.h"
#include "autograd/meta.h"

#include <stdio.h>
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

/* t had a history before: an in-place change. Hooks stay with the old node; .grad is now of the new
 * one. */
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
  out->keys |= SHMT_KEYBIT_Autograd;
  return SHMT_UNLIKELY(old != NULL) ? replace_history(m, old) : SHMT_OK;
}

/* --- in place ------------------------------------------------------------------------- */

static SHMT_COLD shmt_status forbidden_view(shmt_tensor* t) {
  static const char* const ambiguous =
      "is being modified inplace %s. Given that this use case is ambiguous and error-prone, it is "
      "forbidden. You can "
      "clarify your code by moving both the view and the inplace either both inside the %s block "
      "(if you don't want "
      "the inplace to be tracked) or both outside (if you want the inplace to be tracked).";
  char what[128], tail[512];
  shmt_node* fn = NULL;
  SHMT_TRY(shmt__tensor_grad_fn(t, &fn));
  if (t->flags & (SHMT_TENSOR_VIEW_NO_GRAD | SHMT_TENSOR_VIEW_INFERENCE)) {
    const bool inference = (t->flags & SHMT_TENSOR_VIEW_INFERENCE) != 0;
    snprintf(tail, sizeof tail, ambiguous, inference ? "in normal mode" : "with grad mode enabled",
             inference ? "inference_mode" : "no_grad");
    SHMT_FAIL(SHMT_E_RUNTIME, "A view was created in %s mode and %s",
              inference ? "inference" : "no_grad", tail);
  }
  char name[96];
  if (fn)
    snprintf(what, sizeof what, "Output %u of %s is a view and is being modified inplace.",
             t->autograd->output_nr, shmt__node_operator_name(fn, name, sizeof name));
  else
    snprintf(what, sizeof what, "This view is being modified inplace.");
  if (t->flags & SHMT_TENSOR_VIEW_MULTI)
    SHMT_FAIL(SHMT_E_RUNTIME,
              "%s This view is the output of a function that returns multiple views. Such "
              "functions do not allow the "
              "output views to be modified inplace. You should replace the inplace operation by an "
              "out-of-place one.",
              what);
  SHMT_FAIL(SHMT_E_RUNTIME,
            "%s This view was created inside a custom Function (or because an input was returned "
            "as-is) and the "
            "autograd logic to handle view+inplace would override the custom backward associated "
            "with the custom "
            "Function, leading to incorrect gradients. This behavior is forbidden. You can fix "
            "this by cloning the "
            "output of the custom Function.",
            what);
}

shmt_status shmt__check_inplace(shmt_tensor* self, bool will_record) {
  if (!will_record || !shmt__grad_enabled()) return SHMT_OK;
  if (self->flags & SHMT_TENSOR_VIEW) {
    if (SHMT_UNLIKELY(self->flags & (SHMT_TENSOR_VIEW_NO_GRAD | SHMT_TENSOR_VIEW_INFERENCE |
                                     SHMT_TENSOR_VIEW_MULTI | SHMT_TENSOR_VIEW_CUSTOM)))
      return forbidden_view(self);
    if (shmt__tensor_requires_grad(self) && shmt__tensor_is_leaf(self->base))
      SHMT_FAIL(
          SHMT_E_RUNTIME,
          "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  if (shmt__tensor_requires_grad(self) && shmt__tensor_is_leaf(self))
    SHMT_FAIL(SHMT_E_RUNTIME,
              "a leaf Variable that requires grad is being used in an in-place operation.");
  return SHMT_OK;
}

shmt_status shmt__rebase_history(shmt_tensor* self, shmt_node* node) {
  if (!shmt__dtype_differentiable(self->dtype)) return SHMT_OK;
  if (!(self->flags & SHMT_TENSOR_VIEW)) return shmt__set_history(self, node, 0);
  shmt_tensor* base = self->base;
  shmt_node* slices = NULL;
  SHMT_TRY(fill_input_meta(shmt__node_input_meta(node, 0), self));
  SHMT_TRY(shmt__copy_slices_create(base, self, node, &slices));
  shmt_status status = shmt__set_history(base, slices, 0);
  shmt__node_release(slices);
  if (status == SHMT_OK && !shmt__meta_of(self)) status = SHMT_E_NOMEM;
  if (status != SHMT_OK) return status;
  self->autograd->attr_version =
      shmt__tensor_version(self) - 1; /* stale: the view's history is the base's now */
  return shmt__meta_refresh(self);
}

/* CopySlices lends its node's first edge to the history of a view's base. A second view of the same base would have it
 * lead back to the first CopySlices, which owns the node: a cycle that is never freed. */
shmt_status shmt__rebase_histories(shmt_tensors changed, shmt_node* node) {
  for (int64_t i = 0; i < changed.len; i++) {
    shmt_tensor* t = changed.data[i];
    if (!shmt__dtype_differentiable(t->dtype)) continue;
    const bool view = (t->flags & SHMT_TENSOR_VIEW) != 0;
    SHMT_REQUIRE(!view || i == 0, SHMT_E_RUNTIME,
                 "Functions which modify views in-place must return a single Variable");
    SHMT_TRY(view ? shmt__rebase_history(t, node) : shmt__set_history(t, node, (uint32_t)i));
  }
  return SHMT_OK;
}
