/* autograd/hook_list.h -- hooks and lists of them: registering, running, removing.
 *
 * kind             on          called with
 * TENSOR           node, leaf  the gradient of forward output input_nr, which it may replace; NULL when there is none
 * PRE              node        all incoming gradients, which it may replace
 * POST             node        the outgoing gradients, which it may replace, and the incoming ones
 * POST_ACCUMULATE  leaf        the leaf itself, as grads, after .grad was updated
 *
 * TENSOR hooks run first. Then .grad of tensors that retain it is set, and a run for given inputs has their gradients:
 * a node that leads to none of them ends here. Else PRE hooks run, and the node itself. A hook is a C function with a
 * context: the autograd layer knows nothing of Python.
 */
#ifndef SHMT_AUTOGRAD_HOOK_LIST_H
#define SHMT_AUTOGRAD_HOOK_LIST_H

#include "tensor/tensor.h"

#include <stdatomic.h>

typedef enum shmt__hook_kind {
  SHMT_HOOK_TENSOR,
  SHMT_HOOK_PRE,
  SHMT_HOOK_POST,
  SHMT_HOOK_POST_ACCUMULATE,
} shmt__hook_kind;

typedef struct shmt__hook shmt__hook;
struct shmt__hook {
  shmt__hook* next; /* in order of registration */
  atomic_int_least32_t refs;
  shmt__hook_kind kind;
  uint32_t input_nr; /* TENSOR: which forward output */
  uint64_t id;
  atomic_bool removed;
  bool dropped;     /* under the lock of lists: ctx is freed when no run has the hook */
  uint32_t running; /* under that lock: runs that took the hook */
  /* values: owned entries that may be replaced (TENSOR: one). grads: the incoming gradients for POST, else NULL. */
  shmt_status (*call)(shmt__hook* hook, shmt_tensor** values, uint32_t n_values,
                      shmt_tensor* const* grads, uint32_t n_grads);
  void (*free)(void* ctx);
  void* ctx;
};

typedef shmt_status (*shmt__hook_call)(shmt__hook* hook, shmt_tensor** values, uint32_t n_values,
                                       shmt_tensor* const* grads, uint32_t n_grads);

/* The hook is not called again. It leaves its list when the list is next changed. */
static inline void shmt__hook_remove(shmt__hook* h) {
  /* relaxed: a call under way may still finish. */
  atomic_store_explicit(&h->removed, true, memory_order_relaxed);
}
/* The same, and free its context at once, whoever else holds the hook. May be called more than once. */
void shmt__hook_drop(shmt__hook* h);
void shmt__hook_release(shmt__hook* h);
/* Free a list that is not running, and the contexts of its hooks, even where handles still hold those: the tensor or
 * node they belonged to is gone. */
void shmt__hooks_free(shmt__hook* list);

/* Append a hook to a list. Errors, ownership: as shmt__node_add_hook. */
shmt_status shmt__hooks_add(shmt__hook** list, shmt__hook_kind kind, uint32_t input_nr, shmt__hook_call call, void* ctx,
                            void (*free_ctx)(void*), shmt__hook** out);
/* Run the hooks of one kind in a list. input_nr: TENSOR only. Errors: those of the hooks. */
shmt_status shmt__hooks_run(shmt__hook* const* list, shmt__hook_kind kind, uint32_t input_nr,
                            shmt_tensor** values, uint32_t n_values, shmt_tensor* const* grads,
                            uint32_t n_grads);

#endif
