/* autograd/hooks.c -- functions called as gradients pass, and retained gradients. */
#include "autograd/hooks.h"

#include "generated/ops.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUN = 256 }; /* hooks of one list run at a time; more are run in further rounds */

/* Guards all lists: they change rarely and are short. Nothing is called under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_id;

static void reset_lock(void) { pthread_mutex_init(&lock, NULL); }
__attribute__((constructor)) static void install(void) {
  (void)pthread_atfork(NULL, NULL, reset_lock);
}

void shmt__hook_release(shmt__hook* h) {
  if (!h || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1) return;
  if (h->free) h->free(h->ctx);
  free(h);
}

void shmt__hook_drop(shmt__hook* h) {
  shmt__hook_remove(h);
  pthread_mutex_lock(&lock);
  void* ctx = SHMT_TAKE(h->ctx);
  pthread_mutex_unlock(&lock);
  if (ctx && h->free) h->free(ctx);
}

shmt__node_extras* shmt__node_extras_of(shmt_node* n) {
  if (n->extras) return n->extras;
  shmt__node_extras* fresh = calloc(1, sizeof *fresh);
  if (!fresh) {
    (void)shmt__fail(SHMT_E_NOMEM, "%s: out of memory for hooks", n->klass->name);
    return NULL;
  }
  pthread_mutex_lock(&lock);
  if (!n->extras) n->extras = SHMT_TAKE(fresh);
  pthread_mutex_unlock(&lock);
  free(fresh);
  return n->extras;
}

void shmt__hooks_free(shmt__hook* list) {
  while (list) {
    shmt__hook* next = list->next;
    shmt__hook_drop(list);
    shmt__hook_release(list);
    list = next;
  }
}

void shmt__node_extras_free(shmt_node* n) {
  shmt__node_extras* x = n->extras;
  n->extras = NULL;
  shmt__hooks_free(x->hooks);
  while (x->retains) {
    shmt__retain* next = x->retains->next;
    free(x->retains);
    x->retains = next;
  }
  free(x->trace);
  shmt__node_release(x->parent);
  if (x->metadata) x->metadata_free(x->metadata);
  free(x);
}

/* Take removed hooks out of a list; they are linked to *gone. Under the lock. */
static void unlink_removed(shmt__hook** list, shmt__hook** gone) {
  while (*list) {
    shmt__hook* h = *list;
    if (!atomic_load_explicit(&h->removed, memory_order_relaxed)) {
      list = &h->next;
      continue;
    }
    *list = h->next;
    h->next = *gone;
    *gone = h;
  }
}

static shmt_status add_hook(shmt__hook** list, shmt__hook_kind kind, uint32_t input_nr,
                            shmt__hook_call call, void* ctx, void (*free_ctx)(void*),
                            shmt__hook** out) {
  shmt__hook* gone = NULL;
  shmt__hook* h = calloc(1, sizeof *h);
  SHMT_REQUIRE(h, SHMT_E_NOMEM, "out of memory for a hook");
  atomic_init(&h->refs, 2); /* the list's and the caller's */
  h->kind = kind;
  h->input_nr = input_nr;
  h->call = call;
  h->free = free_ctx;
  h->ctx = ctx;
  pthread_mutex_lock(&lock);
  unlink_removed(list, &gone);
  h->id = ++last_id;
  while (*list) list = &(*list)->next;
  *list = h;
  pthread_mutex_unlock(&lock);
  shmt__hooks_free(gone);
  *out = h;
  return SHMT_OK;
}

shmt_status shmt__node_add_hook(shmt_node* n, shmt__hook_kind kind, uint32_t input_nr,
                                shmt__hook_call call, void* ctx, void (*free_ctx)(void*),
                                shmt__hook** out) {
  if (n->klass->is_accumulate && kind == SHMT_HOOK_TENSOR)
    return shmt__tensor_add_hook(shmt__accumulator_variable(n), kind, call, ctx, free_ctx, out);
  shmt__node_extras* x = shmt__node_extras_of(n);
  if (!x) return SHMT_E_NOMEM;
  return add_hook(&x->hooks, kind, input_nr, call, ctx, free_ctx, out);
}

shmt_status shmt__tensor_add_hook(shmt_tensor* t, shmt__hook_kind kind, shmt__hook_call call,
                                  void* ctx, void (*free_ctx)(void*), shmt__hook** out) {
  SHMT_REQUIRE(shmt__tensor_requires_grad(t), SHMT_E_RUNTIME,
               "cannot register a hook on a tensor that doesn't require gradient");
  SHMT_TRY(shmt__meta_refresh(t));
  shmt_autograd_meta* m = shmt__meta_of(t);
  if (!m) return SHMT_E_NOMEM;
  if (kind == SHMT_HOOK_POST_ACCUMULATE)
    SHMT_REQUIRE(!m->grad_fn, SHMT_E_RUNTIME,
                 "post accumulate grad hooks cannot be registered on non-leaf tensors");
  if (m->grad_fn)
    return shmt__node_add_hook(m->grad_fn, kind, m->output_nr, call, ctx, free_ctx, out);
  return add_hook(&m->hooks, kind, 0, call, ctx, free_ctx, out);
}

static bool matches(const shmt__hook* h, shmt__hook_kind kind, uint32_t input_nr) {
  return !atomic_load_explicit(&h->removed, memory_order_relaxed) && h->kind == kind &&
         (kind != SHMT_HOOK_TENSOR || h->input_nr == input_nr);
}

shmt_status shmt__hooks_run(shmt__hook* const* list, shmt__hook_kind kind, uint32_t input_nr,
                            shmt_tensor** values, uint32_t n_values, shmt_tensor* const* grads,
                            uint32_t n_grads) {
  shmt_status status = SHMT_OK;
  uint64_t done = 0; /* ids rise along a list */
  for (bool more = true; more && status == SHMT_OK;) {
    shmt__hook* run[MAX_RUN];
    int n = 0;
    more = false;
    /* Hooks may register or remove hooks while they run, so they run from a copy. */
    pthread_mutex_lock(&lock);
    for (shmt__hook* h = *list; h && !more; h = h->next) {
      if (h->id <= done || !matches(h, kind, input_nr)) continue;
      if (n == MAX_RUN) {
        more = true;
        break;
      }
      atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
      run[n++] = h;
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n; i++) {
      done = run[i]->id;
      if (status == SHMT_OK && matches(run[i], kind, input_nr))
        status = run[i]->call(run[i], values, n_values, grads, n_grads);
      shmt__hook_release(run[i]);
    }
  }
  return status;
}

/* --- retained gradients ---------------------------------------------------------------- */

shmt_status shmt__node_retain_output(shmt_node* n, uint32_t nr, shmt_autograd_meta* meta) {
  shmt__node_extras* x = shmt__node_extras_of(n);
  if (!x) return SHMT_E_NOMEM;
  shmt__retain* r = malloc(sizeof *r);
  SHMT_REQUIRE(r, SHMT_E_NOMEM, "retain_grad(): out of memory");
  r->meta = meta;
  r->input_nr = nr;
  pthread_mutex_lock(&lock);
  r->next = x->retains;
  x->retains = r;
  pthread_mutex_unlock(&lock);
  return SHMT_OK;
}

void shmt__node_forget_output(shmt_node* n, const shmt_autograd_meta* meta) {
  if (!n->extras) return;
  shmt__retain* found = NULL;
  pthread_mutex_lock(&lock);
  for (shmt__retain** at = &n->extras->retains; *at; at = &(*at)->next) {
    if ((*at)->meta != meta) continue;
    found = *at;
    *at = found->next;
    break;
  }
  pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    const shmt__retain* r = find_retain(n, meta);
    shmt_tensor* g = r ? grads[r->input_nr] : NULL;
    if (g && meta->grad) old = shmt__tensor_ref(meta->grad);
    pthread_mutex_unlock(&lock);
    if (!g) return SHMT_OK;
    if (old)
      SHMT_TRY(shmt_op_add_Tensor(old, g, shmt__scalar_int(1), &sum));
    else
      SHMT_TRY(shmt_op_clone(g, SHMT_CONTIGUOUS_FORMAT, &sum));
    shmt_tensor* replaced = NULL;
    pthread_mutex_lock(&lock);
    bool stands = find_retain(n, meta) != NULL;
    if (stands) {
      shmt__grad_lock(meta);
      if (meta->grad == old) {
        replaced = old;
        meta->grad = SHMT_TAKE(sum);
      }
      shmt__grad_unlock(meta);
    }
    pthread_mutex_unlock(&lock);
    shmt__tensor_release(replaced);
    if (!stands || !sum) return SHMT_OK;
  }
}

shmt_status shmt__node_store_retained(shmt_node* n, shmt_tensor* const* grads) {
  shmt_autograd_meta* metas[MAX_RUN];
  int count = 0;
  pthread_mutex_lock(&lock);
  for (shmt__retain* r = n->extras->retains; r && count < MAX_RUN; r = r->next)
    metas[count++] = r->meta;
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < count; i++) SHMT_TRY(store_one(n, metas[i], grads));
  return SHMT_OK;
}
