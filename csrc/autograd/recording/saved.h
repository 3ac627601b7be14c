/* autograd/recording/saved.h -- tensors that a node keeps for its backward, and the hooks that pack them. */
#ifndef SHMT_AUTOGRAD_RECORDING_SAVED_H
#define SHMT_AUTOGRAD_RECORDING_SAVED_H

#include "autograd/node.h"

typedef struct shmt__saved {
  shmt_tensor* tensor; /* owned; NULL: none was saved */
  uint32_t version;    /* at saving */
  uint32_t output_nr;
  bool is_output; /* of the node that saves it: kept without history */
  bool released;   /* there was one, and it was freed */
  void* hook_data; /* packed by a saved-tensor hook instead of tensor; or an output's version */
} shmt__saved;

/* t may be NULL. */
shmt_status shmt__saved_init(shmt__saved* s, shmt_tensor* t, bool is_output);
/* The same for another argument of an in-place operator. It saves a clone when t shares memory with `changed`: t
 * itself would be changed, and would own the node that saves it. */
shmt_status shmt__saved_init_unaliased(shmt__saved* s, shmt_tensor* t, shmt_tensor* changed);
/* The same for a copy of t, which is about to be changed. */
shmt_status shmt__saved_init_copy(shmt__saved* s, shmt_tensor* t);
/* New reference (NULL when none was saved). owner: the node, needed for outputs.
 * Errors: SHMT_E_RUNTIME "Trying to backward through the graph a second time ...",
 * "one of the variables needed for gradient computation has been modified by an inplace operation
 * ...". */
shmt_status shmt__saved_unpack(const shmt__saved* s, shmt_node* owner, shmt_tensor** out);
/* The same for tensors that Python gets: an output has its history back even where nothing is recorded. */
shmt_status shmt__saved_unpack_for_user(const shmt__saved* s, shmt_node* owner, shmt_tensor** out);
/* Record that the saved tensors were freed by the node's last backward pass; returns SHMT_E_RUNTIME. */
shmt_status shmt__saved_freed(void) SHMT_COLD;
void shmt__saved_fini(shmt__saved* s);

/* --- hooks: the user's functions pack what nodes save ------------------------------------ */

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

/* Pack an already saved tensor with hooks (retained on success). Errors: SHMT_E_RUNTIME when there is none, when it was
 * freed, when hooks have packed it before; those of the hooks. */
shmt_status shmt__saved_repack(shmt__saved* s, shmt_node* owner, const shmt__saved_hooks* hooks);
/* What hooks have packed, or NULL: borrowed. *hooks: whose pack it was. */
void* shmt__saved_packed_data(const shmt__saved* s, const shmt__saved_hooks** hooks);

/* --- what Python is shown ------------------------------------------------------------ */

/* One thing that nodes of a class saved, for Python's _saved_<name>. */
typedef enum shmt__saved_kind {
  SHMT_SAVED_TENSOR, /* shmt__saved */
  SHMT_SAVED_TENSORS, /* shmt__saved_list */
  SHMT_SAVED_SHAPE, /* shmt__saved_shape */
  SHMT_SAVED_INT,
  SHMT_SAVED_OPT_INT,
  SHMT_SAVED_INTS, /* shmt__saved_ints */
  SHMT_SAVED_FLOAT,
  SHMT_SAVED_OPT_FLOAT,
  SHMT_SAVED_FLOATS, /* shmt__saved_floats */
  SHMT_SAVED_BOOL,
  SHMT_SAVED_OPT_BOOL,
  SHMT_SAVED_SCALAR,
  SHMT_SAVED_STR,
  SHMT_SAVED_DTYPE,
  SHMT_SAVED_LAYOUT,
  SHMT_SAVED_DEVICE,
  SHMT_SAVED_MEMORY_FORMAT,
} shmt__saved_kind;
typedef struct shmt__saved_field {
  const char* name; /* of the argument or result */
  shmt__saved_kind kind;
  uint32_t offset; /* in the node */
} shmt__saved_field;

#endif
