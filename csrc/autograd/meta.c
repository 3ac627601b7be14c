/* autograd/meta.c -- a tensor's place in the graph: metadata, requires_grad, .grad. */
#include "autograd/meta.h"

#include "autograd/grad_locks.h"
#include "autograd/hook_list.h"
#include "autograd/pool.h"
#include "autograd/recording/changed_views.h"
#include "autograd/recording/replay_views.h"
#include "autograd/recording/version_cell.h"
#include "autograd/retained_grads.h"
#include "dispatch/registry.h"
#include "generated/ops.h"

#include <string.h>

/* --- life ------------------------------------------------------------------------- */

static shmt_autograd_meta* empty_meta(void) {
  shmt_autograd_meta* m = shmt__pool_take(sizeof *m);
  if (SHMT_UNLIKELY(!m)) {
    (void)shmt__fail(SHMT_E_NOMEM, "out of memory for %zu bytes of autograd metadata", sizeof *m);
    return NULL;
  }
  memset(m, 0, sizeof *m);
  return m;
}

shmt_autograd_meta* shmt__meta_create(shmt_tensor* t) {
  shmt_autograd_meta* m = empty_meta();
  if (SHMT_UNLIKELY(!m)) return NULL;
  if (t->flags & SHMT_TENSOR_VIEW) m->attr_version = shmt__tensor_version(t);
  t->autograd = m;
  return m;
}

/* Make the metadata of a view whose base has joined the graph; the view has no history yet. Other threads may do the
 * same at once. */
static shmt_autograd_meta* meta_of_stale_view(shmt_tensor* view, uint32_t version) {
  shmt_autograd_meta *m = empty_meta(), *found = NULL;
  if (!m) return NULL;
  m->attr_version = version - 1;
  /* release: publishes it filled; acquire: sees the other thread's. */
  if (__atomic_compare_exchange_n(&view->autograd, &found, m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return m;
  shmt__pool_give(m, sizeof *m);
  return found;
}

void (*shmt__tangents_free)(shmt_autograd_meta* m);

static void meta_free(shmt_autograd_meta* m) {
  shmt__version_cell* cell = atomic_load_explicit(&m->cell, memory_order_relaxed);
  if (SHMT_UNLIKELY(cell != NULL)) shmt__version_cell_root_destroyed(cell);
  if (m->grad_fn) {
    if (SHMT_UNLIKELY(m->retains_grad)) shmt__node_forget_output(m->grad_fn, m);
    shmt__node_release(m->grad_fn);
  }
  /* relaxed: the last reference is gone, no other thread reads it. */
  shmt_node* acc = atomic_load_explicit(&m->accumulator, memory_order_relaxed);
  if (acc) acc->klass->destroy(acc);
  shmt__tensor_release(m->grad);
  if (SHMT_UNLIKELY(m->hooks != NULL)) shmt__hooks_free(m->hooks);
  /* acquire: a thread that ends a level is done with this tensor. */
  if (SHMT_UNLIKELY(__atomic_load_n(&m->tangents, __ATOMIC_ACQUIRE) != NULL)) shmt__tangents_free(m);
  shmt__pool_give(m, sizeof *m);
}

__attribute__((constructor)) static void install(void) {
  shmt__autograd_meta_free = meta_free;
}

/* --- views ------------------------------------------------------------------------ */

shmt_status shmt__fail_inference_write(void) {
  SHMT_FAIL(SHMT_E_RUNTIME,
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a "
            "clone to get a normal tensor before doing inplace update.");
}

shmt_status shmt__view_created(shmt_tensor* view, shmt_tensor* src, bool several) {
  if (SHMT_UNLIKELY(src->flags & SHMT_TENSOR_INFERENCE)) return SHMT_OK; /* not tracked */
  if (SHMT_UNLIKELY(view->sparse != NULL || src->sparse != NULL)) return SHMT_OK; /* it has parts of its own */
  shmt__tensor_set_base(view, src, true);
  uint32_t kind = src->flags & (SHMT_VIEWS_WITHOUT_HISTORY | SHMT_TENSOR_VIEW_NO_TANGENT);
  if (SHMT_UNLIKELY(shmt__tls_grad_mode_off)) {
    kind = (kind & SHMT_TENSOR_VIEW_NO_TANGENT) |
           (shmt__tls_inference_mode ? SHMT_TENSOR_VIEW_INFERENCE : SHMT_TENSOR_VIEW_NO_GRAD);
    /* The base already has a history, which this view does not share before the next in-place
     * change. */
    if ((shmt__tensor_own_keys(view->base) & SHMT_KEYBIT_Autograd) && !shmt__meta_of(view)) return SHMT_E_NOMEM;
  } else if (several) {
    kind = (kind & SHMT_TENSOR_VIEW_NO_TANGENT) | SHMT_TENSOR_VIEW_MULTI;
  }
  view->flags |= kind;
  return SHMT_OK;
}

/* The node that takes a gradient of view to base. */
static shmt_status make_view_node(shmt_tensor* view, shmt_node** out) {
  SHMT_KEYS_GUARD(keys);
  SHMT_GRAD_MODE(true);
  shmt__tls_keys.excluded |= SHMT_KEYBIT_Python | SHMT_KEYBIT_PythonBelowAutograd | SHMT_KEYBIT_ADInplaceOrView;
  shmt__tls_keys.excluded &= ~(shmt_keyset)SHMT_KEYBIT_Autograd;
  SHMT_AUTO(shmt_tensor) again = NULL;
  shmt__view_recipe how;
  *out = NULL;
  SHMT_TRY(shmt__view_recipe_init(&how, view->base, view));
  shmt_status status = shmt__view_replay(&how, view->base, &again);
  shmt__view_recipe_fini(&how);
  if (status != SHMT_OK) return status;
  if (!again->autograd || !again->autograd->grad_fn) return SHMT_OK;
  *out = again->autograd->grad_fn;
  shmt__node_retain(*out);
  return SHMT_OK;
}

shmt_status shmt__meta_refresh_slow(shmt_tensor* view) {
  /* acquire, here and below: a thread that sees the version sees the history that belongs to it. */
  shmt_autograd_meta* m = __atomic_load_n(&view->autograd, __ATOMIC_ACQUIRE);
  const uint32_t version = shmt__tensor_version(view);
  if (m) {
    if (__atomic_load_n(&m->attr_version, __ATOMIC_ACQUIRE) == version) return SHMT_OK;
    const bool has_history = __atomic_load_n(&m->grad_fn, __ATOMIC_RELAXED) != NULL;
    if (!has_history && !(shmt__tensor_own_keys(view->base) & SHMT_KEYBIT_Autograd)) return SHMT_OK;
  } else {
    if (!view->base->autograd || !view->base->autograd->grad_fn) return SHMT_OK;
    m = meta_of_stale_view(view, version);
    if (!m) return SHMT_E_NOMEM;
  }
  if (SHMT_UNLIKELY(shmt__view_has_no_history(view))) return shmt__fail_changed_view(view, true);
  shmt_node* fn;
  SHMT_TRY(make_view_node(view, &fn));
  shmt__grad_lock(m);
  shmt_node* old = fn;
  if (m->attr_version != version) {
    if (fn) {
      old = m->grad_fn;
      __atomic_store_n(&m->grad_fn, fn, __ATOMIC_RELAXED);
      m->output_nr = 0;
      shmt__tensor_set_autograd_bit(view, true);
    }
    __atomic_store_n(&m->attr_version, version, __ATOMIC_RELEASE);
  }
  shmt__grad_unlock(m);
  shmt_status status = SHMT_OK;
  if (old != fn && m->retains_grad) {
    if (old) shmt__node_forget_output(old, m);
    status = shmt__node_retain_output(fn, 0, m);
  }
  shmt__node_release(old);
  return status;
}

/* --- requires_grad ------------------------------------------------------------------ */

shmt_status shmt__tensor_grad_fn(shmt_tensor* t, shmt_node** out) {
  SHMT_TRY(shmt__meta_refresh(t));
  *out = t->autograd ? t->autograd->grad_fn : NULL;
  return SHMT_OK;
}

bool shmt__tensor_is_leaf(shmt_tensor* t) {
  shmt_node* fn = NULL;
  if (shmt__tensor_grad_fn(t, &fn) != SHMT_OK) return true;
  return fn == NULL;
}

shmt_status shmt__tensor_set_requires_grad(shmt_tensor* t, bool on) {
  shmt_node* fn = NULL;
  SHMT_TRY(shmt__tensor_grad_fn(t, &fn));
  if (fn != NULL) {
    if (on) return SHMT_OK;
    SHMT_FAIL(SHMT_E_RUNTIME,
              "you can only change requires_grad flags of leaf variables. If you want to use a "
              "computed variable in a "
              "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  }
  SHMT_REQUIRE(
      !on || !(t->flags & SHMT_TENSOR_INFERENCE) || shmt__tls_inference_mode, SHMT_E_RUNTIME,
      "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
  SHMT_REQUIRE(!on || shmt__dtype_differentiable(t->dtype), SHMT_E_RUNTIME,
               "only Tensors of floating point dtype can require gradients");
  if (!on && !t->autograd) return SHMT_OK;
  shmt_autograd_meta* m = shmt__meta_of(t);
  if (!m) return SHMT_E_NOMEM;
  m->requires_grad = on;
  shmt__tensor_set_autograd_bit(t, on);
  return SHMT_OK;
}

/* --- grad --------------------------------------------------------------------------- */

shmt_tensor* shmt__tensor_grad(shmt_tensor* t) {
  shmt_autograd_meta* m = t->autograd;
  if (!m) return NULL;
  shmt__grad_lock(m);
  shmt_tensor* grad = m->grad;
  if (grad) shmt_tensor_retain(grad);
  shmt__grad_unlock(m);
  return grad;
}

shmt_status shmt__tensor_set_grad(shmt_tensor* t, shmt_tensor* grad) {
  if (!grad && !t->autograd) return SHMT_OK;
  if (grad) {
    SHMT_REQUIRE(grad != t, SHMT_E_RUNTIME, "can't assign Variable as its own grad");
    SHMT_REQUIRE(grad->dtype == t->dtype, SHMT_E_RUNTIME,
                 "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype "
                 "'%s'. The gradient must "
                 "match the tensor's grad_dtype (defaults to the tensor's dtype).",
                 shmt__dtype_name[grad->dtype], shmt__dtype_name[t->dtype]);
    SHMT_REQUIRE(grad->device == t->device, SHMT_E_RUNTIME,
                 "attempting to assign a gradient located on device '%s' to a tensor located on "
                 "device '%s'. Please "
                 "ensure that the gradient and the tensor are on the same device",
                 grad->device == SHMT_META ? "meta" : "cpu",
                 t->device == SHMT_META ? "meta" : "cpu");
    SHMT_REQUIRE(shmt__same_sizes(grad, t), SHMT_E_RUNTIME,
                 "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please "
                 "ensure that the "
                 "gradient and the tensor are the same size",
                 SHMT_SHAPE_TEXT(grad), SHMT_SHAPE_TEXT(t));
  }
  shmt_autograd_meta* m = shmt__meta_of(t);
  if (!m) return SHMT_E_NOMEM;
  if (grad) shmt_tensor_retain(grad);
  shmt__grad_lock(m);
  shmt_tensor* old = m->grad;
  m->grad = grad;
  shmt__grad_unlock(m);
  shmt__tensor_release(old);
  return SHMT_OK;
}

shmt_status shmt__tensor_retain_grad(shmt_tensor* t) {
  SHMT_REQUIRE(shmt__tensor_requires_grad(t), SHMT_E_RUNTIME,
               "can't retain_grad on Tensor that has requires_grad=False");
  SHMT_TRY(shmt__meta_refresh(t));
  shmt_autograd_meta* m = t->autograd;
  if (!m || !m->grad_fn || m->retains_grad) return SHMT_OK; /* leaves always keep theirs */
  SHMT_TRY(shmt__node_retain_output(m->grad_fn, m->output_nr, m));
  m->retains_grad = true;
  return SHMT_OK;
}

static SHMT_COLD shmt_status detached_by_class(shmt_tensor* t, shmt_tensor** out) {
  SHMT_KEYS_GUARD(keys);
  shmt__tls_keys.excluded |= SHMT_KEYBIT_ADInplaceOrView | SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD;
  SHMT_AUTO(shmt_tensor) own = NULL;
  SHMT_TRY(shmt_op_detach(t, &own));
  SHMT_REQUIRE(own != t, SHMT_E_RUNTIME,
               "detach: __torch_dispatch__ returned its argument of shape %s, where autograd needs another tensor",
               SHMT_SHAPE_TEXT(t));
  *out = SHMT_TAKE(own);
  return SHMT_OK;
}

shmt_status shmt__tensor_detached(shmt_tensor* t, shmt_tensor** out) {
  if (SHMT_UNLIKELY(shmt__tensor_is_answered(t))) return detached_by_class(t, out);
  return shmt__tensor_alias(t, shmt__tensor_sizes(t), shmt__tensor_strides(t), t->offset, out);
}

shmt_status shmt__tensor_detach_inplace(shmt_tensor* t) {
  SHMT_REQUIRE(!(t->flags & SHMT_TENSOR_VIEW), SHMT_E_RUNTIME,
               "Can't detach views in-place. Use detach() instead.");
  shmt_autograd_meta* m = t->autograd;
  if (!m) return SHMT_OK;
  if (m->tangents) {
    shmt__tangents_free(m);
    shmt__tensor_set_own_keys(t, shmt__tensor_own_keys(t) & ~(shmt_keyset)SHMT_KEYBIT_ForwardAD);
  }
  shmt_node* fn = m->grad_fn;
  if (fn && m->retains_grad) shmt__node_forget_output(fn, m);
  m->grad_fn = NULL;
  m->output_nr = 0;
  m->requires_grad = m->retains_grad = false;
  shmt__tensor_set_autograd_bit(t, false);
  shmt__node_release(fn);
  return SHMT_OK;
}
