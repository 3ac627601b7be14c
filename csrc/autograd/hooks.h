/* autograd/hooks.h -- registering hooks of tensors and nodes. */
#ifndef SHMT_AUTOGRAD_HOOKS_H
#define SHMT_AUTOGRAD_HOOKS_H

#include "autograd/hook_list.h"
#include "autograd/node.h"

/* Register. Errors: SHMT_E_NOMEM. Ownership: ctx is the hook's on success only; *out is a new
 * reference. */
shmt_status shmt__node_add_hook(shmt_node* n, shmt__hook_kind kind, uint32_t input_nr,
                                shmt__hook_call call, void* ctx, void (*free_ctx)(void*),
                                shmt__hook** out);
/* TENSOR hooks go to the grad_fn of a non-leaf. Errors: also SHMT_E_RUNTIME when t does not require
 * grad. */
shmt_status shmt__tensor_add_hook(shmt_tensor* t, shmt__hook_kind kind, shmt__hook_call call,
                                  void* ctx, void (*free_ctx)(void*), shmt__hook** out);

#endif
