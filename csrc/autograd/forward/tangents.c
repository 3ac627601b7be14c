/* autograd/forward/tangents.c -- the tangents of tensors, and the levels that they belong to. */
#include "autograd/forward/tangents.h"

#include "autograd/pool.h"
#include "autograd/recording/connect.h"
#include "autograd/recording/replay_views.h"
#include "dispatch/registry.h"
#include "generated/ops.h"
#include "os/mutex.h"

#include <inttypes.h>
#include <limits.h>

_Thread_local int shmt__tls_hidden_level __attribute__((tls_model("initial-exec"))) = INT_MAX;
_Thread_local shmt__saved_outputs* shmt__tls_saved_outputs __attribute__((tls_model("initial-exec")));

/* --- the lists ------------------------------------------------------------------------------ */

SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_TANGENT)
static shmt__tangent* made_in[SHMT_MAX_FORWARD_LEVELS]; /* under the lock, as all tangents' links are */
static _Atomic(int) n_levels;

static void link_to_level(shmt__tangent* g) {
  g->level_next = made_in[g->level];
  g->level_link = &made_in[g->level];
  if (g->level_next) g->level_next->level_link = &g->level_next;
  made_in[g->level] = g;
}

static void unlink_from_level(shmt__tangent* g) {
  *g->level_link = g->level_next;
  if (g->level_next) g->level_next->level_link = g->level_link;
}

static shmt__tangent* find_tangent(const shmt_tensor* t, int level) {
  shmt__tangent* g = t->autograd ? t->autograd->tangents : NULL;
  while (g && g->level != level) g = g->next;
  return g;
}

static void set_key(shmt_tensor* t, bool has) {
  /* relaxed: as shmt__tensor_set_autograd_bit. */
  __atomic_store_n(&t->keys, has ? t->keys | SHMT_KEYBIT_ForwardAD : t->keys & ~SHMT_KEYBIT_ForwardAD,
                   __ATOMIC_RELAXED);
}

static void unlink_from_owner(shmt__tangent* g) {
  shmt__tangent** at = &g->meta->tangents;
  if (*at == g && !g->next) set_key(g->owner, false);
  while (*at != g) at = &(*at)->next;
  /* release: a thread that is freeing the owner and finds no tangents may free it at once. */
  __atomic_store_n(at, g->next, __ATOMIC_RELEASE);
}

/* Takes over g when t had no tangent at this level; else only its tensor. What is to be released comes back in *g. */
static void insert_locked(shmt_tensor* t, shmt__tangent** g) {
  shmt__tangent* old = find_tangent(t, (*g)->level);
  if (old) {
    shmt_tensor* tensor = old->tensor;
    old->tensor = (*g)->tensor;
    (*g)->tensor = tensor;
    return;
  }
  shmt__tangent** at = &t->autograd->tangents;
  while (*at && (*at)->level > (*g)->level) at = &(*at)->next;
  (*g)->next = *at;
  *at = *g;
  link_to_level(*g);
  set_key(t, true);
  *g = NULL;
}

static void tangent_free(shmt__tangent* g) {
  if (!g) return;
  shmt__tensor_release(g->tensor);
  shmt__pool_give(g, sizeof *g);
}

/* The owner is being freed or detached. */
static void tangents_free(shmt_autograd_meta* m) {
  shmt__mutex_lock(&lock);
  shmt__tangent* list = m->tangents;
  m->tangents = NULL;
  for (shmt__tangent* g = list; g; g = g->next) unlink_from_level(g);
  shmt__mutex_unlock(&lock);
  while (list) {
    shmt__tangent* next = list->next;
    tangent_free(list);
    list = next;
  }
}

__attribute__((constructor)) static void install(void) {
  shmt__tangents_free = tangents_free;
}

/* --- levels --------------------------------------------------------------------------------- */

int shmt__forward_level_count(void) { return atomic_load_explicit(&n_levels, memory_order_relaxed); }

shmt_status shmt__forward_level_enter(int* level) {
  shmt__mutex_lock(&lock);
  const int n = shmt__forward_level_count();
  if (n < SHMT_MAX_FORWARD_LEVELS) atomic_store_explicit(&n_levels, n + 1, memory_order_relaxed);
  shmt__mutex_unlock(&lock);
  SHMT_REQUIRE(n < SHMT_MAX_FORWARD_LEVELS, SHMT_E_RUNTIME, "%d levels of forward mode AD, at most %d may nest", n + 1,
               SHMT_MAX_FORWARD_LEVELS);
  *level = n;
  return SHMT_OK;
}

shmt_status shmt__forward_level_exit(int level) {
  shmt__mutex_lock(&lock);
  const bool is_last = level >= 0 && level + 1 == shmt__forward_level_count();
  shmt__tangent* gone = NULL;
  if (is_last) {
    /* The level's list is reused as the list of what is to be freed. */
    gone = made_in[level];
    made_in[level] = NULL;
    for (shmt__tangent* g = gone; g; g = g->level_next) unlink_from_owner(g);
    atomic_store_explicit(&n_levels, level, memory_order_relaxed);
  }
  shmt__mutex_unlock(&lock);
  SHMT_REQUIRE(is_last, SHMT_E_RUNTIME,
               "Trying to exit a forward AD level that was not the last one that was created. This is not supported.");
  while (gone) {
    shmt__tangent* next = gone->level_next;
    tangent_free(gone);
    gone = next;
  }
  return SHMT_OK;
}

bool shmt__forward_set_enabled(bool on) {
  const bool was = shmt__forward_enabled();
  if (on)
    shmt__tls_keys.excluded &= ~(shmt_keyset)SHMT_KEYBIT_ForwardAD;
  else
    shmt__tls_keys.excluded |= SHMT_KEYBIT_ForwardAD;
  return was;
}

/* --- reading -------------------------------------------------------------------------------- */

static bool follows_base(const shmt_tensor* t) {
  return (t->flags & (SHMT_TENSOR_VIEW | SHMT_TENSOR_VIEW_NO_TANGENT)) == SHMT_TENSOR_VIEW;
}

static int level_locked(const shmt_tensor* t) {
  shmt__tangent* g = t->autograd ? t->autograd->tangents : NULL;
  while (g && g->level >= shmt__tls_hidden_level) g = g->next;
  return g ? g->level : SHMT_NO_LEVEL;
}

int shmt__tangent_level(const shmt_tensor* t) {
  if (!t || !(shmt__tensor_keys(t) & SHMT_KEYBIT_ForwardAD)) return SHMT_NO_LEVEL;
  shmt__mutex_lock(&lock);
  int level = level_locked(t);
  if (follows_base(t)) {
    const int of_base = level_locked(t->base);
    if (of_base > level) level = of_base;
  }
  shmt__mutex_unlock(&lock);
  return level;
}

static shmt_tensor* own_tangent(const shmt_tensor* t, int level) {
  shmt__mutex_lock(&lock);
  shmt__tangent* g = find_tangent(t, level);
  shmt_tensor* tensor = g ? shmt__tensor_ref(g->tensor) : NULL;
  shmt__mutex_unlock(&lock);
  return tensor;
}

/* The view of a base's tangent that view is of the base. */
static shmt_status same_view(shmt_tensor* view, shmt_tensor* tangent_of_base, shmt_tensor** out) {
  shmt__view_recipe how;
  SHMT_TRY(shmt__view_recipe_init(&how, view->base, view));
  how.base_offset = view->base->offset;
  shmt_status status = shmt__view_replay(&how, tangent_of_base, out);
  shmt__view_recipe_fini(&how);
  return status;
}

shmt_status shmt__tangent_of(shmt_tensor* t, int level, shmt_tensor** out) {
  *out = NULL;
  if (!(shmt__tensor_keys(t) & SHMT_KEYBIT_ForwardAD)) return SHMT_OK;
  *out = own_tangent(t, level);
  if (*out || !follows_base(t)) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) whole = own_tangent(t->base, level);
  return whole ? same_view(t, whole, out) : SHMT_OK;
}

/* --- writing -------------------------------------------------------------------------------- */

static bool same_layout(const shmt_tensor* a, const shmt_tensor* b) {
  for (int d = 0; d < a->n_dims; d++)
    if (a->sizes[d] != 1 && a->strides[d] != b->strides[d]) return false;
  return true;
}

static bool overlaps_itself(const shmt_tensor* t) {
  for (int d = 0; d < t->n_dims; d++)
    if (t->sizes[d] > 1 && t->strides[d] == 0) return true;
  return false;
}

/* Zeros of the given dtype in the layout of t. */
static shmt_status zeros_in_layout(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) zeros = NULL;
  SHMT_TRY(shmt__tensor_empty_strided(shmt__tensor_sizes(t), shmt__tensor_strides(t), dtype, t->device, &zeros));
  SHMT_TRY(shmt_op_zero_(zeros));
  *out = SHMT_TAKE(zeros);
  return SHMT_OK;
}

shmt_status shmt__zero_tangent(shmt_tensor* t, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) zeros = NULL;
  SHMT_TRY(shmt__tensor_empty_like(t, t->dtype, &zeros));
  SHMT_TRY(shmt_op_zero_(zeros));
  *out = SHMT_TAKE(zeros);
  return SHMT_OK;
}

/* A tangent in the layout of t. Where elements of t share a place there is no such layout for a tangent that
 * differs. */
static shmt_status fitted(shmt_tensor* t, shmt_tensor* tangent, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;
  SHMT_REQUIRE(
      shmt__same_sizes(t, tangent), SHMT_E_RUNTIME,
      "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
      "supported. Tensor is of size %s while the given forward gradient is of size %s.",
      SHMT_SHAPE_TEXT(t), SHMT_SHAPE_TEXT(tangent));
  const uint32_t bits = tangent->flags & ~t->flags & SHMT_TENSOR_CONJ_NEG;
  if ((same_layout(t, tangent) && bits == 0) || t->numel == 0) {
    *out = shmt__tensor_ref(tangent);
    return SHMT_OK;
  }
  SHMT_REQUIRE(
      !overlaps_itself(t), SHMT_E_RUNTIME,
      "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
      "Please clone() the tensor before performing the operation.");
  SHMT_TRY(zeros_in_layout(t, tangent->dtype, &copy));
  SHMT_TRY(shmt_op_copy_(copy, tangent, false));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}

static shmt_status store(shmt_tensor* t, int level, shmt_tensor* tangent) {
  SHMT_ASSERT(level >= 0 && level < SHMT_MAX_FORWARD_LEVELS);
  if (!shmt__meta_of(t)) return SHMT_E_NOMEM;
  shmt__tangent* g = shmt__pool_take(sizeof *g);
  SHMT_REQUIRE(g, SHMT_E_NOMEM, "out of memory for a tangent");
  *g = (shmt__tangent){.meta = t->autograd, .owner = t, .tensor = shmt__tensor_ref(tangent), .level = level};
  shmt__mutex_lock(&lock);
  insert_locked(t, &g);
  shmt__mutex_unlock(&lock);
  tangent_free(g);
  return SHMT_OK;
}

shmt_status shmt__tangent_set(shmt_tensor* t, int level, shmt_tensor* tangent) {
  SHMT_AUTO(shmt_tensor) fit = NULL;
  SHMT_TRY(fitted(t, tangent, &fit));
  return store(t, level, fit);
}

shmt_status shmt__tangent_to_change(shmt_tensor* t, int level, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) zeros = NULL;
  SHMT_TRY(shmt__tangent_of(t, level, out));
  if (*out) return SHMT_OK;
  if (!follows_base(t)) {
    SHMT_TRY(zeros_in_layout(t, t->dtype, &zeros));
    SHMT_TRY(store(t, level, zeros));
    *out = SHMT_TAKE(zeros);
    return SHMT_OK;
  }
  SHMT_TRY(zeros_in_layout(t->base, t->base->dtype, &zeros));
  SHMT_TRY(store(t->base, level, zeros));
  return same_view(t, zeros, out);
}

shmt_status shmt__tangent_assign(shmt_tensor* t, int level, shmt_tensor* tangent) {
  SHMT_AUTO(shmt_tensor) old = NULL;
  SHMT_TRY(shmt__tangent_of(t, level, &old));
  if (!old && !follows_base(t)) return shmt__tangent_set(t, level, tangent);
  if (!old) SHMT_TRY(shmt__tangent_to_change(t, level, &old));
  return shmt_op_copy_(old, tangent, false);
}

shmt_status shmt__tangents_copy(shmt_tensor* to, shmt_tensor* from, int below) {
  if (!(shmt__tensor_keys(from) & SHMT_KEYBIT_ForwardAD)) return SHMT_OK;
  if (below > SHMT_MAX_FORWARD_LEVELS) below = SHMT_MAX_FORWARD_LEVELS;
  for (int level = below - 1; level >= 0; level--) {
    SHMT_AUTO(shmt_tensor) tangent = NULL;
    SHMT_TRY(shmt__tangent_of(from, level, &tangent));
    if (tangent) SHMT_TRY(store(to, level, tangent));
  }
  return SHMT_OK;
}

shmt_status shmt__without_tangent(shmt_tensor* t, int level, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) plain = NULL;
  SHMT_TRY(shmt__tensor_alias(t, shmt__tensor_sizes(t), shmt__tensor_strides(t), t->offset, &plain));
  plain->flags |= t->flags & SHMT_TENSOR_WRAPPED_NUMBER;
  shmt__tensor_set_base(plain, t, false);
  if (shmt__tensor_requires_grad(t)) {
    shmt_edge edge;
    SHMT_TRY(shmt__gradient_edge(t, &edge));
    if (edge.node) {
      shmt_autograd_meta* m = shmt__meta_of(plain);
      if (!m) {
        shmt__node_release(edge.node);
        return SHMT_E_NOMEM;
      }
      m->grad_fn = edge.node;
      m->output_nr = edge.input_nr;
      shmt__tensor_set_autograd_bit(plain, true);
    }
  }
  SHMT_TRY(shmt__tangents_copy(plain, t, level));
  *out = SHMT_TAKE(plain);
  return SHMT_OK;
}
