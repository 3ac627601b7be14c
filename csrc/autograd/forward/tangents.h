/* autograd/forward/tangents.h -- forward mode: the tangents of tensors, and the levels that they belong to.
 *
 *   level 0 ──> tangent ──> tangent ──> ...      every tangent that was made in the level
 *                  │ owner      │
 *                  v            v
 *               tensor       tensor              its metadata lists its tangents, the highest level first
 *
 * A tensor with a tangent is a dual tensor. Its key set has ForwardAD, whose kernel (follow.c) gives the results of an
 * operator their tangents. A tangent belongs to a level. The public functions allow one level at a time; more of them
 * nest, and the tangent of an inner level may itself have a tangent of an outer one.
 *
 * Note [Life of a tangent]
 * A shmt__tangent is in two lists, that of its owner and that of its level, and ends with the first of both: when the
 * owner is freed, or when the level is left. It owns the tensor that is the tangent and borrows its owner. One lock
 * guards all lists. Tensors are released after it is let go, since releasing one may end other tangents.
 *
 * Note [Hidden levels]
 * While the kernel of a level computes, tangents of that level and of inner ones must not be followed again: the
 * thread's shmt__tls_hidden_level hides them. With one level everything is hidden, which is the same as to exclude the
 * key.
 *
 * Note [Tangents of views]
 * A tangent has the sizes and strides of its tensor, so that a view of a dual tensor has the same view of the tangent
 * as its tangent, and a change in place is seen by both. A view that was made before its base got a tangent finds it
 * through the base. A view without a tangent that gets one by a change in place gives its base one, zero elsewhere.
 * What make_dual and unpack_dual return are views that do not follow their base (SHMT_TENSOR_VIEW_NO_TANGENT).
 */
#ifndef SHMT_AUTOGRAD_FORWARD_TANGENTS_H
#define SHMT_AUTOGRAD_FORWARD_TANGENTS_H

#include "autograd/meta.h"

enum { SHMT_MAX_FORWARD_LEVELS = 32, SHMT_NO_LEVEL = -1 };

struct shmt__tangent {
  shmt__tangent* next;        /* of the same owner, at a lower level */
  shmt__tangent* level_next;  /* of the same level */
  shmt__tangent** level_link; /* what points to this one there */
  shmt_autograd_meta* meta;   /* the owner's */
  shmt_tensor* owner;         /* borrowed */
  shmt_tensor* tensor;        /* owned */
  int level;
};

/* --- levels --------------------------------------------------------------------------------- */

/* Begin a level; *level is its number, 0 for the outermost. Errors: SHMT_E_RUNTIME when there are too many. */
shmt_status shmt__forward_level_enter(int* level);
/* Leave it: all tangents made in it are gone. Errors: SHMT_E_RUNTIME unless it is the last that was begun. */
shmt_status shmt__forward_level_exit(int level);
/* How many levels have begun, in this process. */
int shmt__forward_level_count(void);

/* This level and inner ones are hidden on this thread. */
extern _Thread_local int shmt__tls_hidden_level __attribute__((tls_model("initial-exec")));
static inline void shmt__auto_hidden_level(const int* saved) { shmt__tls_hidden_level = *saved; }
/* Hide a level until the end of the scope. */
#define SHMT_HIDE_LEVEL(level)                                                                         \
  __attribute__((cleanup(shmt__auto_hidden_level), unused)) int shmt_hidden_ = shmt__tls_hidden_level; \
  shmt__tls_hidden_level = (level)

/* Are tangents followed on this thread? Switching returns what was. */
static inline bool shmt__forward_enabled(void) { return !(shmt__tls_keys.excluded & SHMT_KEYBIT_ForwardAD); }
bool shmt__forward_set_enabled(bool on);

/* --- tangents ------------------------------------------------------------------------------- */

/* The highest level that is not hidden at which t (may be NULL) or its base has a tangent; SHMT_NO_LEVEL: none. */
int shmt__tangent_level(const shmt_tensor* t);
/* *out: the tangent of t at that level, or NULL; a new reference. Errors: those of the operators that make the view of
 * a base's tangent. */
shmt_status shmt__tangent_of(shmt_tensor* t, int level, shmt_tensor** out);
/* The tangent of t at that level becomes `tangent` (borrowed), or a copy of it in the layout of t. Errors:
 * SHMT_E_RUNTIME with torch's words when it does not fit; SHMT_E_NOMEM. */
shmt_status shmt__tangent_set(shmt_tensor* t, int level, shmt_tensor* tangent);
/* The same after an operator that changed t in place: a tangent that t has is overwritten, and a view gives its base
 * one. */
shmt_status shmt__tangent_assign(shmt_tensor* t, int level, shmt_tensor* tangent);
/* *out: the tangent of t, which becomes zeros when it has none; for operators that change t in place. */
shmt_status shmt__tangent_to_change(shmt_tensor* t, int level, shmt_tensor** out);
/* to gets the tangents that from has below the level. */
shmt_status shmt__tangents_copy(shmt_tensor* to, shmt_tensor* from, int below);
/* Another tensor over the memory of t, with its history, its version and its tangents below the level: what a
 * derivative may save. New reference. */
shmt_status shmt__without_tangent(shmt_tensor* t, int level, shmt_tensor** out);
/* *out: zeros with the shape and dtype of t. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__zero_tangent(shmt_tensor* t, shmt_tensor** out);

/* --- tensors that nodes save ------------------------------------------------------------------ */

/* An output that its own node saves as an alias (saved.c) gets its tangent only when the operator is done. The kernel
 * of ForwardAD keeps a list of them while it calls the operator. */
typedef struct shmt__saved_outputs {
  shmt_tensor* alias[SHMT_SCHEMA_MAX_RETURNS]; /* owned */
  const shmt_tensor* output[SHMT_SCHEMA_MAX_RETURNS];
  int n;
  int hidden_level; /* as it was outside the kernel */
  struct shmt__saved_outputs* outer; /* that of the kernel's call at an inner level */
} shmt__saved_outputs;
extern _Thread_local shmt__saved_outputs* shmt__tls_saved_outputs __attribute__((tls_model("initial-exec")));

#endif
