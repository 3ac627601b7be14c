/* autograd/recording/recording.h -- what the generated Autograd kernels and nodes share.
 *
 * A node keeps the arguments that its derivatives use: tensors as shmt__saved (saved.h), lists and strings in
 * the structs below. When a derivative uses only the shape of a tensor, only the shape is kept.
 *
 * Note [What an Autograd kernel does], in this order, when shmt__grad_enabled() and an argument
 * shmt__wants_grad:
 *   1. in place: shmt__check_inplace(self, true) (with false when nothing is recorded)
 *   2. shmt__node_create, then shmt__node_connect for each differentiable argument. An in-place
 * operator's edge 0 is always self, also when self gets no gradient
 *   3. shmt__saved_init of the arguments that its derivatives use; an in-place operator that needs the old
 * self saves a clone
 *   4. the kernels below, with Autograd and ADInplaceOrView excluded for whatever they call inside
 *   5. shmt__set_history for each output, or shmt__rebase_history
 *   6. shmt__saved_init(.., true) of the outputs that its derivatives use
 */
#ifndef SHMT_AUTOGRAD_RECORDING_RECORDING_H
#define SHMT_AUTOGRAD_RECORDING_RECORDING_H

#include "autograd/engine/needed_nodes.h"
#include "autograd/meta.h"
#include "autograd/recording/connect.h"
#include "autograd/recording/history.h"
#include "autograd/recording/inplace.h"
#include "autograd/recording/saved.h"

/* Shape, strides and dtype of a tensor that itself is not saved. */
typedef struct shmt__saved_shape {
  int64_t* sizes; /* n_dims sizes, then n_dims strides; = dims when there are few */
  int64_t numel;
  int64_t n_dims;
  shmt_dtype dtype;
  shmt_device device;
  int64_t dims[2 * SHMT_INLINE_DIMS];
} shmt__saved_shape;

/* t may be NULL: then it looks 0-d. Errors: SHMT_E_NOMEM. */
shmt_status shmt__saved_shape_init(shmt__saved_shape* s, const shmt_tensor* t);
void shmt__saved_shape_fini(shmt__saved_shape* s);
static inline shmt_ints shmt__saved_shape_sizes(const shmt__saved_shape* s) {
  return (shmt_ints){s->sizes, s->n_dims};
}
static inline shmt_ints shmt__saved_shape_strides(const shmt__saved_shape* s) {
  return (shmt_ints){s->sizes + s->n_dims, s->n_dims};
}

typedef struct shmt__saved_ints {
  shmt_ints value; /* data is owned */
} shmt__saved_ints;
shmt_status shmt__saved_ints_init(shmt__saved_ints* s, shmt_ints value);
void shmt__saved_ints_fini(shmt__saved_ints* s);

typedef struct shmt__saved_floats {
  shmt_floats value; /* data is owned */
} shmt__saved_floats;
shmt_status shmt__saved_floats_init(shmt__saved_floats* s, shmt_floats value);
void shmt__saved_floats_fini(shmt__saved_floats* s);

/* Owned copy of text; NULL stays NULL. */
shmt_status shmt__saved_text_init(char** s, const char* text);
void shmt__saved_text_fini(char** s);

typedef struct shmt__saved_list {
  shmt__saved* items;
  int64_t len;
} shmt__saved_list;
shmt_status shmt__saved_list_init(shmt__saved_list* s, shmt_tensors list);
/* New references to all into *out (released by shmt__tensor_vec_fini). Errors: as shmt__saved_unpack, SHMT_E_NOMEM. */
shmt_status shmt__saved_list_unpack(const shmt__saved_list* s, shmt_node* owner, shmt_tensor_vec* out);
/* Drop the tensors; the count stays, for the errors of a second backward. */
void shmt__saved_list_release(shmt__saved_list* s);
void shmt__saved_list_fini(shmt__saved_list* s);

/* All gradients of a node's n outputs, undefined ones as zeros, into *out. */
shmt_status shmt__materialize_grads(shmt_node* node, shmt_tensor* const* grads, uint32_t n, shmt_tensor_vec* out);

/* Store new references of the list's tensors in out[0..n), for the edges of a Tensor[] argument. Errors:
 * SHMT_E_RUNTIME when the list has another length. */
shmt_status shmt__return_list(const char* name, shmt_tensors list, shmt_tensor** out, int64_t n);

/* Is any of the edges first, ..., first + n - 1 wanted? */
static inline bool shmt__node_needs_any(const shmt_node* node, uint32_t first, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (shmt__node_needs(node, first + i)) return true;
  return false;
}

/* Does any of the list want a gradient? */
bool shmt__list_wants_grad(shmt_tensors list);

/* A node for an operator without a derivative: backward through it raises
 * "derivative for X is not implemented". Connects the n edges to inputs (entries may be NULL). */
shmt_status shmt__not_implemented_create(const char* op, shmt_tensors inputs, uint32_t n_outputs, shmt_node** out);

/* The same with edges that are still empty. */
shmt_status shmt__not_implemented_alone(const char* op, uint32_t n_edges, uint32_t n_outputs, shmt_node** out);

/* apply and release_saved of nodes whose input has a zero gradient, because the operator overwrote it: no state, one
 * edge. */
shmt_status shmt__zeros_apply(shmt_node* node, shmt_tensor* const* grads, shmt_tensor** out);
void shmt__zeros_release(shmt_node* node);

/* An argument that counts as a constant requires grad while recording: torch's RuntimeError. */
SHMT_COLD shmt_status shmt__fail_constant(const char* op, const char* argument);

/* out= with something that requires grad while recording: torch's RuntimeError. */
SHMT_COLD shmt_status shmt__fail_out_requires_grad(const char* op);

#endif
