/* autograd/hooks.c -- hooks of nodes and of tensors. */
#include "autograd/hooks.h"

#include "autograd/accumulate.h"
#include "autograd/meta.h"

shmt_status shmt__node_add_hook(shmt_node* n, shmt__hook_kind kind, uint32_t input_nr,
                                shmt__hook_call call, void* ctx, void (*free_ctx)(void*),
                                shmt__hook** out) {
  if (n->klass->is_accumulate && kind == SHMT_HOOK_TENSOR)
    return shmt__tensor_add_hook(shmt__accumulator_variable(n), kind, call, ctx, free_ctx, out);
  shmt__node_extras* x = shmt__node_extras_of(n);
  if (!x) return SHMT_E_NOMEM;
  return shmt__hooks_add(&x->hooks, kind, input_nr, call, ctx, free_ctx, out);
}

shmt_status shmt__tensor_add_hook(shmt_tensor* t, shmt__hook_kind kind, shmt__hook_call call,
                                  void* ctx, void (*free_ctx)(void*), shmt__hook** out) {
  SHMT_REQUIRE(shmt__tensor_requires_grad(t), SHMT_E_RUNTIME,
               "cannot register a hook on a tensor that doesn't require gradient");
  SHMT_TRY(shmt__meta_refresh(t));
  shmt_autograd_meta* m = shmt__meta_of(t);
  if (!m) return SHMT_E_NOMEM;
  if (kind == SHMT_HOOK_POST_ACCUMULATE)
    SHMT_REQUIRE(!m->grad_fn, SHMT_E_RUNTIME,
                 "post accumulate grad hooks cannot be registered on non-leaf tensors");
  if (m->grad_fn)
    return shmt__node_add_hook(m->grad_fn, kind, m->output_nr, call, ctx, free_ctx, out);
  return shmt__hooks_add(&m->hooks, kind, 0, call, ctx, free_ctx, out);
}
