/* autograd/accumulate.c -- AccumulateGrad: where a leaf's gradients end.
 *
 * The node lives as long as its leaf's metadata. Its reference count is the number of edges and Python objects that
 * refer to it. While that is not zero, the node holds one reference of the leaf, so that a graph keeps its leaves.
 */
#include "autograd/accumulate.h"

#include "autograd/engine/engine.h"
#include "autograd/engine/fit_gradients.h"
#include "autograd/grad_locks.h"
#include "autograd/meta.h"
#include "autograd/pool.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/pointwise/conj_neg_views.h"
#include "tensor/sparse.h"

#include <string.h>

static shmt_status accumulate_apply(shmt_node* n, shmt_tensor* const* grads, shmt_tensor** out) {
  (void)out;
  if (!grads[0]) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) grad = shmt__tensor_ref(grads[0]);
  return shmt__accumulate(n, &grad);
}

/* Nobody refers to the node any more: it lets go of its leaf, whose metadata keeps it. */
static void accumulate_unreferenced(shmt_node* n) { shmt__tensor_release(shmt__accumulator_variable(n)); }

/* The leaf's metadata ends. */
static void accumulate_destroy(shmt_node* n) {
  if (SHMT_UNLIKELY(n->extras != NULL)) shmt__node_extras_free(n);
  shmt__pool_give(n, sizeof(shmt__accumulate_grad) + sizeof(shmt__input_meta));
}

static const shmt__node_class accumulate_class = {.name = "AccumulateGrad",
                                                  .size = sizeof(shmt__accumulate_grad),
                                                  .apply = accumulate_apply,
                                                  .destroy = accumulate_destroy,
                                                  .unreferenced = accumulate_unreferenced,
                                                  .is_accumulate = true};

shmt_node* shmt__accumulator_of(shmt_tensor* leaf) {
  shmt_autograd_meta* m = shmt__meta_of(leaf);
  if (!m) return NULL;
  /* acquire: the node was filled before its pointer was stored. */
  shmt_node* n = atomic_load_explicit(&m->accumulator, memory_order_acquire);
  if (SHMT_UNLIKELY(!n)) {
    shmt_node* fresh = shmt__node_create(&accumulate_class, 0, 1);
    if (!fresh) return NULL;
    atomic_store_explicit(&fresh->refs, 0, memory_order_relaxed);
    ((shmt__accumulate_grad*)fresh)->variable = leaf;
    /* release: publishes the node; acquire: sees the other thread's. */
    if (atomic_compare_exchange_strong_explicit(&m->accumulator, &n, fresh, memory_order_acq_rel,
                                                memory_order_acquire))
      n = fresh;
    else
      accumulate_destroy(fresh);
  }
  /* relaxed: the caller holds the leaf, so the node cannot go meanwhile. */
  if (atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed) == 0) shmt_tensor_retain(leaf);
  return n;
}

/* --- adding ------------------------------------------------------------------------- */

/* Does g have the layout that .grad is to have: the strides of a dense leaf, else row-major? */
static bool layout_fits(const shmt_tensor* g, const shmt_tensor* v) {
  if (g->flags & v->flags & SHMT_TENSOR_CONTIGUOUS) return true;
  if (!(v->flags & SHMT_TENSOR_DENSE)) return (g->flags & SHMT_TENSOR_CONTIGUOUS) != 0;
  return memcmp(g->strides, v->strides, (size_t)v->n_dims * sizeof *v->strides) == 0;
}

/* May g become .grad as it is? Only if no other holder can see it or its bytes. */
static bool may_keep(const shmt_tensor* g, const shmt_tensor* v) {
  return shmt__is_last_reference(&g->refs) && !g->base && !g->py_object &&
         !(shmt__tensor_own_keys(g) & (SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD)) &&
         shmt__is_last_reference(&g->storage->refs) &&
         !shmt__storage_has(g->storage, SHMT_STORAGE_SHARED | SHMT_STORAGE_READ_ONLY) && layout_fits(g, v);
}

/* Is g a view of a whole tensor that only g refers to? */
static bool is_last_view(const shmt_tensor* g) {
  const shmt_tensor* root = g->base;
  return root && root->numel == g->numel && !root->base && !root->py_object &&
         shmt__is_last_reference(&root->refs) && shmt__is_last_reference(&g->refs) && !g->py_object &&
         root->storage == g->storage && atomic_load_explicit(&g->storage->refs, memory_order_acquire) == 2;
}

/* A gradient that came through views, such as a transposed product, is separated from its root, so that it can be
 * kept without a copy. */
static shmt_status leave_root(shmt_tensor* v, shmt_tensor** grad) {
  shmt_tensor* g = *grad;
  shmt_tensor* alone = NULL;

  if (SHMT_LIKELY(!g->base) || !is_last_view(g) || !layout_fits(g, v)) return SHMT_OK;
  SHMT_TRY(shmt__tensor_detached(g, &alone));
  shmt__tensor_release(g);
  *grad = alone;
  return SHMT_OK;
}

static shmt_status copy_for(shmt_tensor* v, shmt_tensor* g, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;
  if (v->flags & SHMT_TENSOR_DENSE)
    SHMT_TRY(shmt__tensor_empty_strided(shmt__tensor_sizes(v), shmt__tensor_strides(v), g->dtype,
                                        g->device, &copy));
  else
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(v), g->dtype, g->device, SHMT_CONTIGUOUS_FORMAT,
                                &copy));
  SHMT_TRY(shmt__tensor_copy(copy, g));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}

/* The first gradient of a leaf, when it is sparse: the parts become those of .grad unless somebody else may see
 * them. */
static shmt_status keep_sparse(shmt_tensor* g, shmt_tensor** out) {
  const shmt_sparse* p = g->sparse;
  const bool is_plain = shmt__tensor_is_contiguous(p->indices) && shmt__tensor_is_contiguous(p->values) &&
                        shmt__is_last_reference(&p->values->refs) &&
                        shmt__is_last_reference(&p->values->storage->refs) &&
                        !shmt__storage_has(p->values->storage, SHMT_STORAGE_SHARED | SHMT_STORAGE_READ_ONLY);
  if (is_plain) return shmt__tensor_alias(g, shmt__tensor_sizes(g), shmt__tensor_strides(g), 0, out);
  return shmt_op_clone_below(shmt__tensor_backend(g), g, SHMT_PRESERVE_FORMAT, out);
}

/* The same as accumulate_plain where the gradient or .grad is sparse. A sparse .grad to which a dense gradient comes is
 * replaced by their dense sum. */
static shmt_status accumulate_sparse(shmt_autograd_meta* m, shmt_tensor* g) {
  SHMT_AUTO(shmt_tensor) fresh = NULL;
  SHMT_AUTO(shmt_tensor) old = NULL;
  shmt_status status = SHMT_OK;

  shmt__grad_lock(m);
  const shmt_keyset backend = (m->grad ? shmt__tensor_backend(m->grad) : 0) | shmt__tensor_backend(g);
  if (!m->grad) {
    status = keep_sparse(g, &fresh);
    if (status == SHMT_OK) m->grad = SHMT_TAKE(fresh);
  } else if (m->grad->sparse && !g->sparse) {
    status = shmt_op_add_Tensor_below(backend, g, m->grad, shmt__scalar_int(1), &fresh);
    if (status == SHMT_OK) {
      old = m->grad;
      m->grad = SHMT_TAKE(fresh);
    }
  } else {
    status = shmt__grad_add_inplace(m->grad, g);
    if (status == SHMT_OK) shmt__tensor_bump_version(m->grad);
  }
  shmt__grad_unlock(m);
  return status;
}

/* Are sums with t the business of its class? See Note [Wrappers] in tensor/tensor.h. */
static bool is_answered(const shmt_tensor* t) {
  return (shmt__tensor_own_keys(t) & (SHMT_KEYBIT_PythonBelowAutograd | SHMT_KEYBIT_NoMemory)) != 0;
}

/* Without recording, where a class answers operators for the gradient or for .grad. It may run Python code, so nothing
 * is done under the lock. */
static SHMT_COLD shmt_status accumulate_answered(shmt_autograd_meta* m, shmt_tensor* v, shmt_tensor* grad) {
  for (;;) {
    SHMT_AUTO(shmt_tensor) seen = shmt__tensor_grad(v);
    SHMT_AUTO(shmt_tensor) first = NULL;
    if (seen) return shmt_op_add__Tensor(seen, grad, shmt__scalar_int(1));
    if (shmt__is_last_reference(&grad->refs) && layout_fits(grad, v)) {
      SHMT_TRY(shmt__tensor_detached(grad, &first));
    } else if (v->flags & SHMT_TENSOR_DENSE) {
      SHMT_TRY(shmt_op_new_empty_strided(grad, shmt__tensor_sizes(v), shmt__tensor_strides(v), grad->dtype,
                                         SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, &first));
      SHMT_TRY(shmt_op_copy_(first, grad, false));
    } else {
      SHMT_TRY(shmt_op_clone(grad, SHMT_CONTIGUOUS_FORMAT, &first));
    }
    shmt__grad_lock(m);
    const bool is_first = !m->grad;
    if (is_first) m->grad = SHMT_TAKE(first);
    shmt__grad_unlock(m);
    if (is_first) return SHMT_OK; /* else another thread was faster */
  }
}

/* Without recording: the gradient becomes .grad, or is added to it in place. */
static shmt_status accumulate_plain(shmt_autograd_meta* m, shmt_tensor* v, shmt_tensor** grad) {
  SHMT_AUTO(shmt_tensor) copy = NULL;

  SHMT_TRY(leave_root(v, grad));
  for (;;) {
    shmt_status status = SHMT_OK;
    shmt_tensor** fresh = copy ? &copy : grad;
    shmt__grad_lock(m);
    bool done = true;
    if (SHMT_UNLIKELY(m->grad && (m->grad->sparse || is_answered(m->grad)))) {
      const bool is_sparse = m->grad->sparse != NULL;
      shmt__grad_unlock(m);
      return is_sparse ? accumulate_sparse(m, *fresh) : accumulate_answered(m, v, *fresh);
    }
    if (m->grad) {
      /* The kernel is called directly: no mode or hook may run under the lock. */
      status = shmt__grad_add_inplace(m->grad, *fresh);
      if (status == SHMT_OK) shmt__tensor_bump_version(m->grad);
    } else if (copy || may_keep(*grad, v)) {
      m->grad = SHMT_TAKE(*fresh);
    } else {
      done = false;
    }
    shmt__grad_unlock(m);
    if (done) return status;
    SHMT_TRY(copy_for(v, *grad, &copy));
  }
}

/* With recording (create_graph): .grad becomes a new tensor each time, made outside the lock. */
static shmt_status accumulate_recorded(shmt_autograd_meta* m, shmt_tensor* v, shmt_tensor* grad) {
  for (;;) {
    SHMT_AUTO(shmt_tensor) seen = shmt__tensor_grad(v);
    SHMT_AUTO(shmt_tensor) sum = NULL;
    const bool swap = seen && seen->sparse && !grad->sparse; /* only dense + sparse is defined */
    if (seen)
      SHMT_TRY(shmt_op_add_Tensor(swap ? grad : seen, swap ? seen : grad, shmt__scalar_int(1), &sum));
    else
      SHMT_TRY(shmt_op_clone(grad, SHMT_PRESERVE_FORMAT, &sum));
    shmt__grad_lock(m);
    shmt_tensor* old = m->grad;
    bool same = old == seen;
    if (same) m->grad = SHMT_TAKE(sum);
    shmt__grad_unlock(m);
    if (!same) continue; /* another thread has changed .grad meanwhile */
    shmt__tensor_release(old);
    return SHMT_OK;
  }
}

shmt_status shmt__accumulate(shmt_node* n, shmt_tensor** grad) {
  shmt_tensor* v = shmt__accumulator_variable(n);
  shmt_autograd_meta* m = v->autograd;
  if (!m->requires_grad) return SHMT_OK; /* turned off since the graph was recorded */
  if (SHMT_LIKELY(!shmt__grad_enabled() && !(shmt__tensor_own_keys(*grad) & SHMT_KEYBIT_ForwardAD))) {
    if (SHMT_UNLIKELY(is_answered(*grad))) return accumulate_answered(m, v, *grad);
    if (SHMT_UNLIKELY((*grad)->sparse != NULL)) return accumulate_sparse(m, *grad);
    if (SHMT_LIKELY(!shmt__tensor_is_conj_neg(*grad))) return accumulate_plain(m, v, grad);
    SHMT_AUTO(shmt_tensor) resolved = NULL;
    SHMT_TRY(shmt__resolve_conj_neg(*grad, &resolved));
    return accumulate_plain(m, v, &resolved);
  }
  return accumulate_recorded(m, v, *grad);
}
