/* autograd/recording/changed_views.c -- the texts for views that take part in no graph once they were changed. */
#include "autograd/recording/changed_views.h"

#include "autograd/meta.h"

#include <stdio.h>

/* What was done to the view. */
static const char* head_of(const shmt_tensor* view, const char* changed, char* buffer, size_t size) {
  const shmt_autograd_meta* m = view->autograd;
  const shmt_node* fn = m != NULL ? m->grad_fn : NULL;
  const bool inference = (view->flags & SHMT_TENSOR_VIEW_INFERENCE) != 0;
  const bool unrecorded = inference || (view->flags & SHMT_TENSOR_VIEW_NO_GRAD) || fn == NULL;
  char name[96], whose[160] = "A view";
  if (fn != NULL)
    snprintf(whose, sizeof whose, "Output %u of %s is a view%s", m->output_nr,
             shmt__node_operator_name(fn, name, sizeof name), unrecorded ? " of a view which" : "");
  if (unrecorded)
    snprintf(buffer, size, "%s was created in %s mode and %s modified inplace %s.", whose,
             inference ? "inference" : "no_grad", changed, inference ? "in normal mode" : "with grad mode enabled");
  else
    snprintf(buffer, size, "%s and %s modified inplace.", whose, changed);
  return buffer;
}

shmt_status shmt__fail_changed_view(const shmt_tensor* view, bool through_base) {
  char head[384];
  (void)head_of(view, through_base ? "its base or another view of its base has been" : "is being", head, sizeof head);
  if (view->flags & (SHMT_TENSOR_VIEW_NO_GRAD | SHMT_TENSOR_VIEW_INFERENCE))
    SHMT_FAIL(SHMT_E_RUNTIME,
              "%s Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
              "moving both the view and the inplace either both inside the %s block (if you don't want the inplace to "
              "be tracked) or both outside (if you want the inplace to be tracked).",
              head, view->flags & SHMT_TENSOR_VIEW_INFERENCE ? "inference_mode" : "no_grad");
  if (view->flags & SHMT_TENSOR_VIEW_MULTI)
    SHMT_FAIL(SHMT_E_RUNTIME,
              "%s This view is the output of a function that returns multiple views. Such functions do not allow the "
              "output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
              head);
  SHMT_FAIL(SHMT_E_RUNTIME,
            "%s This view was created inside a custom Function (or because an input was returned as-is) and the "
            "autograd logic to handle view+inplace would override the custom backward associated with the custom "
            "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the "
            "output of the custom Function.",
            head);
}
