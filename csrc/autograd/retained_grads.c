/* autograd/retained_grads.c -- .grad of tensors that are no leaves but keep theirs (retain_grad). */
#include "autograd/retained_grads.h"

#include "autograd/grad_locks.h"
#include "generated/ops.h"
#include "os/mutex.h"

#include <stdlib.h>

/* Guards the lists of all nodes: they change rarely and are short. Nothing of autograd is called under it but
 * shmt__grad_lock. */
SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_RETAINED_GRAD)

shmt_status shmt__node_retain_output(shmt_node* n, uint32_t nr, shmt_autograd_meta* meta) {
  shmt__node_extras* x = shmt__node_extras_of(n);
  if (!x) return SHMT_E_NOMEM;
  shmt__retain* r = malloc(sizeof *r);
  SHMT_REQUIRE(r, SHMT_E_NOMEM, "retain_grad(): out of memory");
  r->meta = meta;
  r->input_nr = nr;
  shmt__mutex_lock(&lock);
  r->next = x->retains;
  x->retains = r;
  shmt__mutex_unlock(&lock);
  return SHMT_OK;
}

void shmt__node_forget_output(shmt_node* n, const shmt_autograd_meta* meta) {
  if (!n->extras) return;
  shmt__retain* found = NULL;
  shmt__mutex_lock(&lock);
  for (shmt__retain** at = &n->extras->retains; *at; at = &(*at)->next) {
    if ((*at)->meta != meta) continue;
    found = *at;
    *at = found->next;
    break;
  }
  shmt__mutex_unlock(&lock);
  free(found);
}

/* The entry for meta; NULL when its tensor is gone or has moved on. Under the lock. */
static const shmt__retain* find_retain(const shmt_node* n, const shmt_autograd_meta* meta) {
  const shmt__retain* r = n->extras->retains;
  while (r && r->meta != meta) r = r->next;
  return r;
}

/* meta may be of a tensor that ends on another thread: it is touched only under the lock, while its
 * entry stands. */
static shmt_status store_one(shmt_node* n, shmt_autograd_meta* meta, shmt_tensor* const* grads) {
  for (;;) {
    SHMT_AUTO(shmt_tensor) old = NULL;
    SHMT_AUTO(shmt_tensor) sum = NULL;
    shmt__mutex_lock(&lock);
    const shmt__retain* r = find_retain(n, meta);
    shmt_tensor* g = r ? grads[r->input_nr] : NULL;
    if (g && meta->grad) old = shmt__tensor_ref(meta->grad);
    shmt__mutex_unlock(&lock);
    if (!g) return SHMT_OK;
    if (old)
      SHMT_TRY(shmt_op_add_Tensor(old, g, shmt__scalar_int(1), &sum));
    else
      SHMT_TRY(shmt_op_clone(g, SHMT_CONTIGUOUS_FORMAT, &sum));
    shmt_tensor* replaced = NULL;
    shmt__mutex_lock(&lock);
    bool stands = find_retain(n, meta) != NULL;
    if (stands) {
      shmt__grad_lock(meta);
      if (meta->grad == old) {
        replaced = old;
        meta->grad = SHMT_TAKE(sum);
      }
      shmt__grad_unlock(meta);
    }
    shmt__mutex_unlock(&lock);
    shmt__tensor_release(replaced);
    if (!stands || !sum) return SHMT_OK;
  }
}

static size_t count_retained(const shmt_node* n) {
  size_t count = 0;
  for (const shmt__retain* r = n->extras->retains; r; r = r->next) count++;
  return count;
}

/* The tensors of the list, as it is now. Ownership: the caller frees *out. Errors: SHMT_E_NOMEM. */
static shmt_status copy_retained(const shmt_node* n, shmt_autograd_meta*** out, size_t* out_count) {
  shmt__mutex_lock(&lock);
  const size_t count = count_retained(n);
  shmt_autograd_meta** metas = malloc(sizeof *metas * (count + 1));
  size_t i = 0;
  for (const shmt__retain* r = n->extras->retains; metas && r; r = r->next) metas[i++] = r->meta;
  shmt__mutex_unlock(&lock);
  SHMT_REQUIRE(metas, SHMT_E_NOMEM, "retain_grad(): tried to allocate %zu bytes", sizeof *metas * (count + 1));
  *out = metas;
  *out_count = count;
  return SHMT_OK;
}

shmt_status shmt__node_store_retained(shmt_node* n, shmt_tensor* const* grads) {
  shmt_autograd_meta** metas = NULL;
  size_t count = 0;
  SHMT_TRY(copy_retained(n, &metas, &count));
  shmt_status status = SHMT_OK;
  for (size_t i = 0; i < count && status == SHMT_OK; i++) status = store_one(n, metas[i], grads);
  free(metas);
  return status;
}
