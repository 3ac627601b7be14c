/* autograd/engine/anomaly.c -- anomaly mode during backward: failed nodes are reported, results are searched for
 * NaN. */
#include "autograd/engine/anomaly.h"

#include "autograd/meta.h"
#include "generated/ops.h"

#include <stdlib.h>

bool shmt__anomaly_check_nan = true;
void (*shmt__anomaly_report)(const char* node_name, const char* trace);

SHMT_COLD void shmt__anomaly_failed(shmt_node* n) {
  for (; n; n = n->extras ? n->extras->parent : NULL)
    if (shmt__anomaly_report)
      shmt__anomaly_report(n->klass->name, n->extras ? n->extras->trace : NULL);
}

static shmt_status has_nan(shmt_tensor* t, bool* out) {
  SHMT_AUTO(shmt_tensor) which = NULL;
  SHMT_AUTO(shmt_tensor) any = NULL;
  shmt_scalar value;
  *out = false;
  if (shmt__tensor_is_meta(t)) return SHMT_OK;
  SHMT_TRY(shmt_op_ne_Tensor(t, t, &which)); /* NaN alone differs from itself */
  SHMT_TRY(shmt_op_any(which, &any));
  SHMT_TRY(shmt__tensor_item(any, &value));
  *out = value.v.b;
  return SHMT_OK;
}

SHMT_COLD shmt_status shmt__anomaly_search_nan(shmt_node* n, shmt_tensor* const* out) {
  if (!shmt__anomaly_check_nan) return SHMT_OK;
  SHMT_GRAD_MODE(false);
  for (uint32_t i = 0; i < n->n_edges; i++) {
    bool nan = false;
    if (out[i]) SHMT_TRY(has_nan(out[i], &nan));
    if (!nan) continue;
    shmt__anomaly_failed(n);
    SHMT_FAIL(SHMT_E_RUNTIME, "Function '%s' returned nan values in its %uth output.",
              n->klass->name, i);
  }
  return SHMT_OK;
}
