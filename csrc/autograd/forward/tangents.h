/* autograd/forward/tangents.h -- forward mode: the tangents of tensors, and the levels that they belong to.
 *
 *   level 7 ──> tangent ──> tangent ──> ...      every tangent that was made in the level
 *                  │ owner      │
 *                  v            v
 *               tensor       tensor              its metadata lists its tangents, the highest level first
 *
 * A tensor with a tangent is a dual tensor. Its key set has ForwardAD, whose kernel (follow.c) gives the results of an
 * operator their tangents. A tangent belongs to a level, and the tangent of an inner level may itself have a tangent of
 * an outer one.
 *
 * Note [Levels of forward mode]
 * A level is one run of forward mode: a dual_level, or a call of func.jvp. No two levels of a process have the same
 * number, and one that begins later has a higher one. So a level inside of another has the higher number, tangents of
 * different levels are never taken for one another, and those of different threads are not either. Any thread follows
 * the tangents of a tensor that it gets.
 *
 * Each thread keeps the levels that it has begun, with the number of function transforms that were around. An operator
 * with tensors of a vmap follows at its own level those tangents alone whose level began inside of that vmap: they are
 * tangents of batched tensors. Tangents of levels around the vmap are tangents of what batched tensors stand for, and
 * are followed where the batching rule calls operators for these. Their calculation is outside of the vmap, also when
 * the operator was called inside of it with ordinary tensors only.
 *
 * Note [Life of a tangent]
 * A shmt__tangent is in two lists, that of its owner and that of its level, and ends with the first of both: when the
 * owner is freed, or when the level is left. It owns the tensor that is the tangent and borrows its owner. One lock
 * guards all lists. Tensors are released after it is let go, since releasing one may end other tangents.
 *
 * Note [Hidden levels]
 * While the kernel of a level computes, tangents of that level and of inner ones must not be followed again: the
 * thread's shmt__tls_hidden hides all levels from that one to the last that had begun. A level that begins meanwhile,
 * because the jvp of a Function calls func.jvp, is followed. With one level everything is hidden, which is the same as
 * to exclude the key.
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

typedef int64_t shmt__forward_number; /* of a level, from 0 */
enum { SHMT_MAX_FORWARD_LEVELS = 32 /* of a thread */, SHMT_NO_LEVEL = -1 };

struct shmt__tangent {
  shmt__tangent* next;        /* of the same owner, at a lower level */
  shmt__tangent* level_next;  /* of the same level */
  shmt__tangent** level_link; /* what points to this one there */
  shmt_autograd_meta* meta;   /* the owner's */
  shmt_tensor* owner;         /* borrowed */
  shmt_tensor* tensor;        /* owned */
  shmt__forward_number level;
};

/* --- levels --------------------------------------------------------------------------------- */

/* Begin a level inside of those of this thread; *level is its number. n_transforms: how many function transforms it is
 * inside of. Errors: SHMT_E_RUNTIME when there are too many; SHMT_E_NOMEM. */
shmt_status shmt__forward_level_enter(int n_transforms, shmt__forward_number* level);
/* Leave it: all tangents made in it are gone. A thread that has not begun it may leave it too. Errors: SHMT_E_RUNTIME
 * when it has not begun, or is not the last of this thread. */
shmt_status shmt__forward_level_exit(shmt__forward_number level);
bool shmt__forward_level_is_live(shmt__forward_number level);
/* How many levels this thread is in. */
int shmt__forward_level_count(void);
/* Has no level begun before this one that goes on still? */
bool shmt__forward_level_is_outermost(shmt__forward_number level);
/* The lowest level of this thread that began inside of that many transforms or more; the highest number there is when
 * none did. */
shmt__forward_number shmt__forward_level_inside(int n_transforms);

/* The outermost vmap that this thread is in and that began inside of the level; 0: there is none. */
int shmt__forward_level_vmap_inside(shmt__forward_number level);

/* The levels from..to - 1 are hidden on this thread. */
typedef struct shmt__hidden_levels {
  shmt__forward_number from, to;
} shmt__hidden_levels;
extern _Thread_local shmt__hidden_levels shmt__tls_hidden __attribute__((tls_model("initial-exec")));
static inline bool shmt__forward_is_hidden(shmt__forward_number level) {
  return level >= shmt__tls_hidden.from && level < shmt__tls_hidden.to;
}
/* What is hidden when this level and all inner ones are too. */
shmt__hidden_levels shmt__hidden_with(shmt__forward_number level);
static inline void shmt__auto_hidden_levels(const shmt__hidden_levels* saved) { shmt__tls_hidden = *saved; }
/* Hide a level until the end of the scope. */
#define SHMT_HIDE_LEVEL(level)                                                                              \
  __attribute__((cleanup(shmt__auto_hidden_levels), unused)) shmt__hidden_levels shmt_hidden_ = shmt__tls_hidden; \
  shmt__tls_hidden = shmt__hidden_with(level)

/* Are tangents followed on this thread? Switching returns what was. */
static inline bool shmt__forward_enabled(void) { return !(shmt__tls_keys.excluded & SHMT_KEYBIT_ForwardAD); }
bool shmt__forward_set_enabled(bool on);

/* --- tangents ------------------------------------------------------------------------------- */

/* The highest level that is not hidden at which t (may be NULL) or its base has a tangent; SHMT_NO_LEVEL: none. */
shmt__forward_number shmt__tangent_level(const shmt_tensor* t);
/* The lowest level above this one that is not hidden and at which t or its base has a tangent; SHMT_NO_LEVEL: none. */
shmt__forward_number shmt__tangent_level_after(const shmt_tensor* t, shmt__forward_number above);
/* *out: the tangent of t at that level, or NULL; a new reference. Errors: those of the operators that make the view of
 * a base's tangent. */
shmt_status shmt__tangent_of(shmt_tensor* t, shmt__forward_number level, shmt_tensor** out);
/* The tangent of t at that level becomes `tangent` (borrowed), or a copy of it in the layout of t. Errors:
 * SHMT_E_RUNTIME with torch's words when it does not fit; SHMT_E_NOMEM. */
shmt_status shmt__tangent_set(shmt_tensor* t, shmt__forward_number level, shmt_tensor* tangent);
/* The same after an operator that changed t in place: a tangent that t has is overwritten, and a view gives its base
 * one. */
shmt_status shmt__tangent_assign(shmt_tensor* t, shmt__forward_number level, shmt_tensor* tangent);
/* *out: the tangent of t, which becomes zeros when it has none; for operators that change t in place. like: what will
 * be written there, or NULL; zeros have its batches. */
shmt_status shmt__tangent_to_change(shmt_tensor* t, shmt__forward_number level, shmt_tensor* like, shmt_tensor** out);
/* to gets the tangents that from has and that are not hidden. */
shmt_status shmt__tangents_copy(shmt_tensor* to, shmt_tensor* from);
/* Another tensor over the memory of t, with its history, its version and those of its tangents that are not hidden:
 * what a derivative may save. New reference. */
shmt_status shmt__without_hidden_tangents(shmt_tensor* t, shmt_tensor** out);
/* *out: zeros with the shape, dtype and batches of t. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__zero_tangent(shmt_tensor* t, shmt_tensor** out);

/* --- tensors that nodes save ------------------------------------------------------------------ */

/* An output that its own node saves as an alias (saved.c) gets its tangent only when the operator is done. The kernel
 * of ForwardAD keeps a list of them while it calls the operator. */
typedef struct shmt__saved_outputs {
  shmt_tensor* alias[SHMT_SCHEMA_MAX_RETURNS]; /* owned */
  const shmt_tensor* output[SHMT_SCHEMA_MAX_RETURNS];
  int n;
  shmt__hidden_levels hidden; /* as it was outside the kernel */
  struct shmt__saved_outputs* outer; /* that of the kernel's call at an inner level */
} shmt__saved_outputs;
extern _Thread_local shmt__saved_outputs* shmt__tls_saved_outputs __attribute__((tls_model("initial-exec")));

#endif
