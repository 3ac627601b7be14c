/* autograd/meta.h -- a tensor's autograd metadata, made when the tensor first takes part in a graph.
 *
 * A leaf that requires grad has `accumulator`; any other tensor in the graph has `grad_fn`. The tensor's Autograd key
 * bit is set exactly when it requires grad by one of the two.
 *
 * Note [Views in the graph]
 * When the base of a view is changed in place, the view's history is stale: attr_version is no longer the version.
 * shmt__meta_refresh then makes a new grad_fn, an AsStridedBackward0 of the base; or it fails, if the view was made in
 * a way that says nothing of its history. Every function that reads the grad_fn of a view calls it first; several
 * threads may do so at once. A view without metadata did not require grad when it was made; it joins the graph when its
 * base has a grad_fn.
 */
#ifndef SHMT_AUTOGRAD_META_H
#define SHMT_AUTOGRAD_META_H

#include "autograd/node.h"
#include "tensor/batched.h"

typedef struct shmt__version_cell shmt__version_cell; /* autograd/recording/version_cell.h */
typedef struct shmt__hook shmt__hook;                 /* autograd/hook_list.h */
typedef struct shmt__tangent shmt__tangent;           /* autograd/forward/tangents.h */

struct shmt_autograd_meta {
  shmt_node* grad_fn;              /* owned */
  _Atomic(shmt_node*) accumulator; /* owned memory; see Ownership in node.h */
  shmt_tensor* grad; /* owned; under shmt__grad_lock when the tensor is shared by threads */
  shmt__hook* hooks; /* of a leaf; those of other tensors are on grad_fn */
  _Atomic(shmt__version_cell*) cell; /* owned reference; for saved outputs */
  shmt__tangent* tangents; /* owned, the highest level first; NULL unless forward mode is used */
  uint32_t output_nr;                /* of grad_fn */
  uint32_t attr_version;             /* views: the version that grad_fn is right for */
  bool requires_grad;                /* a leaf was asked to */
  bool retains_grad;                 /* a non-leaf keeps .grad */
  bool of_transform;                 /* a leaf that was an input of a function transform, which has ended */
};

/* t requires grad itself, through its grad_fn, or as a view of a tensor that does (even when it has
 * no grad_fn, having been made without recording). */
static inline bool shmt__tensor_requires_grad(const shmt_tensor* t) {
  return (shmt__tensor_keys(t) & SHMT_KEYBIT_Autograd) != 0;
}
/* For generated kernels: does t require grad? t may be NULL. */
static inline bool shmt__wants_grad(const shmt_tensor* t) {
  return t && (shmt__tensor_keys(t) & SHMT_KEYBIT_Autograd);
}

/* The same for t or what it stands for under vmap. */
static inline bool shmt__any_requires_grad(const shmt_tensor* t) {
  const shmt__batched* b = shmt__batched_of(t);
  return shmt__tensor_requires_grad(t) || (b && shmt__any_requires_grad(b->value));
}

/* t's metadata, made when there is none. NULL and a record when out of memory. */
shmt_autograd_meta* shmt__meta_create(shmt_tensor* t);
static inline shmt_autograd_meta* shmt__meta_of(shmt_tensor* t) {
  return SHMT_LIKELY(t->autograd != NULL) ? t->autograd : shmt__meta_create(t);
}

/* Bring a view's history up to date, see Note [Views in the graph]. Errors: SHMT_E_NOMEM; SHMT_E_RUNTIME
 * (autograd/recording/changed_views.h). */
shmt_status shmt__meta_refresh_slow(shmt_tensor* view);
static inline shmt_status shmt__meta_refresh(shmt_tensor* t) {
  if (SHMT_LIKELY(!(t->flags & SHMT_TENSOR_VIEW))) return SHMT_OK;
  if (!__atomic_load_n(&t->autograd, __ATOMIC_RELAXED) && !(t->base->keys & SHMT_KEYBIT_Autograd)) return SHMT_OK;
  return shmt__meta_refresh_slow(t);
}

/* The ADInplaceOrView kernel of a view operator: view becomes a view of src (which may be a view
 * itself). several: the operator returns more than one view, which forbids changing them in place.
 */
shmt_status shmt__view_created(shmt_tensor* view, shmt_tensor* src, bool several);

/* May t be changed in place here? A tensor made in inference mode has no version by which a later use would notice
 * the change, so that it may change in that mode only. Errors: SHMT_E_RUNTIME. */
SHMT_COLD shmt_status shmt__fail_inference_write(void);
static inline shmt_status shmt__check_tracked(const shmt_tensor* t) {
  if (SHMT_LIKELY(!(t->flags & SHMT_TENSOR_INFERENCE) || shmt__tls_inference_mode)) return SHMT_OK;
  return shmt__fail_inference_write();
}

/* The tensor's grad_fn, borrowed; NULL for leaves. Errors: as refresh. */
shmt_status shmt__tensor_grad_fn(shmt_tensor* t, shmt_node** out);
bool shmt__tensor_is_leaf(shmt_tensor* t);
/* Errors: SHMT_E_RUNTIME for dtypes without gradient and for non-leaves, with torch's wording. */
shmt_status shmt__tensor_set_requires_grad(shmt_tensor* t, bool on);
/* The gradient, a new reference or NULL. */
shmt_tensor* shmt__tensor_grad(shmt_tensor* t);
/* grad NULL clears. Errors: SHMT_E_RUNTIME when size, dtype or device do not fit. Borrows grad. */
shmt_status shmt__tensor_set_grad(shmt_tensor* t, shmt_tensor* grad);
/* Keep .grad of a non-leaf. Errors: SHMT_E_RUNTIME when t does not require grad. */
shmt_status shmt__tensor_retain_grad(shmt_tensor* t);
/* t without its history, over the same memory: for what autograd keeps itself. A class that answers operators is asked
 * for it, since an alias would not be one of its tensors (Note [Wrappers] in tensor/tensor.h). New reference. */
shmt_status shmt__tensor_detached(shmt_tensor* t, shmt_tensor** out);
/* Cut t from its history in place. Errors: SHMT_E_RUNTIME for views. */
shmt_status shmt__tensor_detach_inplace(shmt_tensor* t);

/* Installed by forward/tangents.c: frees the tangents of metadata. Its tensor's key ForwardAD is the caller's to
 * clear. */
extern void (*shmt__tangents_free)(shmt_autograd_meta* m);

static inline bool shmt__dtype_differentiable(shmt_dtype d) {
  return shmt__dtype_kind[d] == SHMT_KIND_FLOATING || shmt__dtype_kind[d] == SHMT_KIND_COMPLEX;
}

/* Switch recording for this thread; returns what it was. */
static inline bool shmt__grad_set_enabled(bool on) {
  bool was = !shmt__tls_grad_mode_off;
  shmt__tls_grad_mode_off = !on;
  return was;
}
static inline void shmt__auto_grad_mode(bool* was_off) { shmt__tls_grad_mode_off = *was_off; }
/* Set recording to `on` until the end of the scope. */
#define SHMT_GRAD_MODE(on)                                                      \
  __attribute__((cleanup(shmt__auto_grad_mode), unused)) bool shmt_grad_mode_ = \
      shmt__tls_grad_mode_off;                                                  \
  shmt__tls_grad_mode_off = !(on)

#endif
