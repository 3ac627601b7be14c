/* autograd/hooks.h -- hooks of tensors and nodes, and what else only few nodes have: retained gradients, anomaly
 * traces.
 *
 * kind             on          called with
 * TENSOR           node, leaf  the gradient of forward output input_nr, which it may replace; NULL when there is none
 * PRE              node        all incoming gradients, which it may replace
 * POST             node        the outgoing gradients, which it may replace, and the incoming ones
 * POST_ACCUMULATE  leaf        the leaf itself, as grads, after .grad was updated
 *
 * TENSOR hooks run before PRE hooks. Then .grad of tensors that retain it is set, and the node itself runs. A hook is a
 * C function with a context: the autograd layer knows nothing of Python.
 */
#ifndef SHMT_AUTOGRAD_HOOKS_H
#define SHMT_AUTOGRAD_HOOKS_H

#include "autograd/meta.h"

typedef enum shmt__hook_kind {
  SHMT_HOOK_TENSOR,
  SHMT_HOOK_PRE,
  SHMT_HOOK_POST,
  SHMT_HOOK_POST_ACCUMULATE,
} shmt__hook_kind;

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

/* What only few nodes have. */
typedef struct shmt__node_extras {
  shmt__hook* hooks;
  struct shmt__retain* retains; /* outputs that keep .grad */
  char* trace;                  /* anomaly mode: where the forward call stood; malloc'ed */
  shmt_node* parent;            /* anomaly mode: the node whose backward made this one; owned */
  void* metadata;               /* the Python dict of Node.metadata */
  void (*metadata_free)(void*);
} shmt__node_extras;

/* An output whose tensor keeps its gradient. The tensor owns the node, so its metadata is borrowed,
 * and the entry goes when the tensor does. */
typedef struct shmt__retain {
  struct shmt__retain* next;
  shmt_autograd_meta* meta;
  uint32_t input_nr;
} shmt__retain;

/* n's extras, made when there are none; NULL and a record when out of memory. */
shmt__node_extras* shmt__node_extras_of(shmt_node* n);
void shmt__node_extras_free(shmt_node* n);

typedef shmt_status (*shmt__hook_call)(shmt__hook* hook, shmt_tensor** values, uint32_t n_values,
                                       shmt_tensor* const* grads, uint32_t n_grads);

/* Register. Errors: SHMT_E_NOMEM. Ownership: ctx is the hook's on success only; *out is a new
 * reference. */
shmt_status shmt__node_add_hook(shmt_node* n, shmt__hook_kind kind, uint32_t input_nr,
                                shmt__hook_call call, void* ctx, void (*free_ctx)(void*),
                                shmt__hook** out);
/* TENSOR hooks go to the grad_fn of a non-leaf. Errors: also SHMT_E_RUNTIME when t does not require
 * grad. */
shmt_status shmt__tensor_add_hook(shmt_tensor* t, shmt__hook_kind kind, shmt__hook_call call,
                                  void* ctx, void (*free_ctx)(void*), shmt__hook** out);
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

/* The tensor of this metadata, output nr of n, retains its gradient (or no longer does). */
shmt_status shmt__node_retain_output(shmt_node* n, uint32_t nr, shmt_autograd_meta* meta);
void shmt__node_forget_output(shmt_node* n, const shmt_autograd_meta* meta);
shmt_status shmt__node_store_retained(shmt_node* n, shmt_tensor* const* grads);

/* --- anomaly mode ---------------------------------------------------------------- */

extern bool shmt__anomaly_on;        /* nodes record the stack of their forward call */
extern bool shmt__anomaly_check_nan; /* and their results are searched for NaN */
/* Installed by the Python layer: a malloc'ed text of the stack, or NULL. */
extern char* (*shmt__anomaly_stack)(void);
/* Installed by the Python layer: show the stack of a node that failed. */
extern void (*shmt__anomaly_report)(const char* node_name, const char* trace);
void shmt__anomaly_failed(shmt_node* n); /* its apply returned an error */
shmt_status shmt__anomaly_search_nan(shmt_node* n, shmt_tensor* const* out);
/* The node whose apply runs on this thread, for `parent`; NULL outside. */
extern _Thread_local shmt_node* shmt__tls_current_node __attribute__((tls_model("initial-exec")));

#endif
