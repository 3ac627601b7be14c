/* autograd/recording/saved_hooks.h -- saved_tensors_hooks: the user's functions pack what nodes save. */
#ifndef SHMT_AUTOGRAD_RECORDING_SAVED_HOOKS_H
#define SHMT_AUTOGRAD_RECORDING_SAVED_HOOKS_H

#include "autograd/node.h"

typedef struct shmt__saved_hooks shmt__saved_hooks;

/* One pair of functions. It is on the stack of its thread while active, and what it packed refers to it. */
struct shmt__saved_hooks {
  shmt_status (*pack)(void* ctx, shmt_tensor* t,
                      void** data); /* borrows t; data is owned by the node */
  shmt_status (*unpack)(void* ctx, void* data, shmt_tensor** out); /* new reference */
  void (*drop)(void* ctx, void* data);
  void (*retain)(void* ctx);
  void (*release)(void* ctx);
  void* ctx;
};

/* The pair that tensors are packed with on this thread; NULL: kept as they are. */
extern _Thread_local const shmt__saved_hooks* shmt__tls_saved_hooks
    __attribute__((tls_model("initial-exec")));

#endif
