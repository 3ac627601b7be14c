/* autograd/forward/tangents.c -- the tangents of tensors, and the levels that they belong to. */
#include "autograd/forward/tangents.h"

#include "autograd/pool.h"
#include "autograd/recording/connect.h"
#include "autograd/recording/replay_views.h"
#include "dispatch/registry.h"
#include "generated/ops.h"
#include "autograd/vmap/levels.h"
#include "os/mutex.h"

#include <inttypes.h>
#include <stdlib.h>

_Thread_local shmt__hidden_levels shmt__tls_hidden __attribute__((tls_model("initial-exec"))) = {INT64_MAX, 0};
_Thread_local shmt__saved_outputs* shmt__tls_saved_outputs __attribute__((tls_model("initial-exec")));

/* --- the lists ------------------------------------------------------------------------------ */

/* A level that has begun, in any thread. */
typedef struct forward_level {
  struct forward_level* next; /* begun before it */
  shmt__tangent* tangents;    /* made in it */
  shmt__forward_number number;
} forward_level;

SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_TANGENT)
static forward_level* live; /* the last first; under the lock, as all tangents' links are */
static _Atomic(shmt__forward_number) n_begun, outermost = INT64_MAX;

/* The levels of this thread. */
static _Thread_local struct {
  struct {
    shmt__forward_number number;
    int n_transforms;
  } level[SHMT_MAX_FORWARD_LEVELS];
  int n;
} mine;

static forward_level* find_live(shmt__forward_number number) {
  forward_level* l = live;
  while (l && l->number != number) l = l->next;
  return l;
}

static void link_to_level(shmt__tangent* g, forward_level* l) {
  g->level_next = l->tangents;
  g->level_link = &l->tangents;
  if (g->level_next) g->level_next->level_link = &g->level_next;
  l->tangents = g;
}

static void unlink_from_level(shmt__tangent* g) {
  *g->level_link = g->level_next;
  if (g->level_next) g->level_next->level_link = g->level_link;
}

static shmt__tangent* find_tangent(const shmt_tensor* t, shmt__forward_number level) {
  shmt__tangent* g = t->autograd ? t->autograd->tangents : NULL;
  while (g && g->level != level) g = g->next;
  return g;
}

static void set_key(shmt_tensor* t, bool has) {
  const shmt_keyset k = shmt__tensor_own_keys(t);
  shmt__tensor_set_own_keys(t, has ? k | SHMT_KEYBIT_ForwardAD : k & ~SHMT_KEYBIT_ForwardAD);
}

static void unlink_from_owner(shmt__tangent* g) {
  shmt__tangent** at = &g->meta->tangents;
  if (*at == g && !g->next) set_key(g->owner, false);
  while (*at != g) at = &(*at)->next;
  /* release: a thread that is freeing the owner and finds no tangents may free it at once. */
  __atomic_store_n(at, g->next, __ATOMIC_RELEASE);
}

/* Takes over g when t had no tangent at this level; else only its tensor. What is to be released comes back in *g: all
 * of it when the level is over. */
static void insert_locked(shmt_tensor* t, shmt__tangent** g) {
  forward_level* l = find_live((*g)->level);
  if (!l) return;
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
  link_to_level(*g, l);
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

int shmt__forward_level_count(void) { return mine.n; }

bool shmt__forward_level_is_outermost(shmt__forward_number level) {
  /* relaxed: only a level that this thread knows of is asked for, and those before it. */
  return level <= atomic_load_explicit(&outermost, memory_order_relaxed);
}

int shmt__forward_level_vmap_inside(shmt__forward_number level) {
  int i = 1;
  for (int k = 0; k < mine.n; k++)
    if (mine.level[k].number == level) i = mine.level[k].n_transforms + 1;
  while (i <= shmt__level_count() && shmt__level_at(i)->kind != SHMT_LEVEL_VMAP) i++;
  return i <= shmt__level_count() ? i : 0;
}

shmt__forward_number shmt__forward_level_inside(int n_transforms) {
  for (int i = 0; i < mine.n; i++)
    if (mine.level[i].n_transforms >= n_transforms) return mine.level[i].number;
  return INT64_MAX;
}

shmt__hidden_levels shmt__hidden_with(shmt__forward_number level) {
  const shmt__forward_number next = atomic_load_explicit(&n_begun, memory_order_relaxed);
  return (shmt__hidden_levels){level < shmt__tls_hidden.from ? level : shmt__tls_hidden.from, next};
}

bool shmt__forward_level_is_live(shmt__forward_number level) {
  shmt__mutex_lock(&lock);
  const bool is_live = find_live(level) != NULL;
  shmt__mutex_unlock(&lock);
  return is_live;
}

static void update_outermost(void) {
  shmt__forward_number lowest = INT64_MAX;
  for (const forward_level* l = live; l; l = l->next) lowest = l->number;
  atomic_store_explicit(&outermost, lowest, memory_order_relaxed);
}

shmt_status shmt__forward_level_enter(int n_transforms, shmt__forward_number* level) {
  SHMT_REQUIRE(mine.n < SHMT_MAX_FORWARD_LEVELS, SHMT_E_RUNTIME, "%d levels of forward mode AD, at most %d may nest",
               mine.n + 1, SHMT_MAX_FORWARD_LEVELS);
  forward_level* l = calloc(1, sizeof *l);
  SHMT_REQUIRE(l, SHMT_E_NOMEM, "out of memory for a level of forward mode AD");
  shmt__mutex_lock(&lock);
  l->number = *level = atomic_fetch_add_explicit(&n_begun, 1, memory_order_relaxed);
  l->next = live;
  live = l;
  update_outermost();
  shmt__mutex_unlock(&lock);
  mine.level[mine.n].number = *level;
  mine.level[mine.n++].n_transforms = n_transforms;
  return SHMT_OK;
}

static bool is_mine(shmt__forward_number level) {
  for (int i = 0; i < mine.n; i++)
    if (mine.level[i].number == level) return true;
  return false;
}

static forward_level* take_live(shmt__forward_number level) {
  forward_level** at = &live;
  while (*at && (*at)->number != level) at = &(*at)->next;
  forward_level* l = *at;
  if (!l) return NULL;
  *at = l->next;
  update_outermost();
  for (shmt__tangent* g = l->tangents; g; g = g->level_next) unlink_from_owner(g);
  return l;
}

shmt_status shmt__forward_level_exit(shmt__forward_number level) {
  const bool is_last = mine.n > 0 && mine.level[mine.n - 1].number == level;
  forward_level* l = NULL;
  if (is_last || !is_mine(level)) {
    shmt__mutex_lock(&lock);
    l = take_live(level);
    shmt__mutex_unlock(&lock);
  }
  if (is_last) mine.n--;
  SHMT_REQUIRE(l, SHMT_E_RUNTIME,
               "Trying to exit a forward AD level that was not the last one that was created. This is not supported.");
  shmt__tangent* gone = l->tangents;
  free(l);
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

static shmt__forward_number level_locked(const shmt_tensor* t) {
  shmt__tangent* g = t->autograd ? t->autograd->tangents : NULL;
  while (g && shmt__forward_is_hidden(g->level)) g = g->next;
  return g ? g->level : SHMT_NO_LEVEL;
}

shmt__forward_number shmt__tangent_level(const shmt_tensor* t) {
  if (!t || !(shmt__tensor_keys(t) & SHMT_KEYBIT_ForwardAD)) return SHMT_NO_LEVEL;
  shmt__mutex_lock(&lock);
  shmt__forward_number level = level_locked(t);
  if (follows_base(t)) {
    const shmt__forward_number of_base = level_locked(t->base);
    if (of_base > level) level = of_base;
  }
  shmt__mutex_unlock(&lock);
  return level;
}

static shmt__forward_number lowest_locked(const shmt_tensor* t, shmt__forward_number above) {
  shmt__forward_number lowest = SHMT_NO_LEVEL;
  for (shmt__tangent* g = t->autograd ? t->autograd->tangents : NULL; g && g->level > above; g = g->next)
    if (!shmt__forward_is_hidden(g->level)) lowest = g->level;
  return lowest;
}

shmt__forward_number shmt__tangent_level_after(const shmt_tensor* t, shmt__forward_number above) {
  if (!(shmt__tensor_keys(t) & SHMT_KEYBIT_ForwardAD)) return SHMT_NO_LEVEL;
  shmt__mutex_lock(&lock);
  shmt__forward_number level = lowest_locked(t, above);
  if (follows_base(t)) {
    const shmt__forward_number of_base = lowest_locked(t->base, above);
    if (of_base != SHMT_NO_LEVEL && (level == SHMT_NO_LEVEL || of_base < level)) level = of_base;
  }
  shmt__mutex_unlock(&lock);
  return level;
}

static shmt_tensor* own_tangent(const shmt_tensor* t, shmt__forward_number level) {
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

shmt_status shmt__tangent_of(shmt_tensor* t, shmt__forward_number level, shmt_tensor** out) {
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

static int batch_level(const shmt_tensor* t) {
  const shmt__batched* b = shmt__batched_of(t);
  return b ? b->level : 0;
}

/* A number for each example of a or b. */
static shmt_status with_batches_of_both(shmt_tensor* a, shmt_tensor* b, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) one = NULL;
  SHMT_AUTO(shmt_tensor) other = NULL;
  const shmt_ints none = {NULL, 0};
  SHMT_TRY(shmt_op_as_strided(a, none, none, (shmt_opt_int){a->offset, true}, &one));
  SHMT_TRY(shmt_op_as_strided(b, none, none, (shmt_opt_int){b->offset, true}, &other));
  return shmt_op_mul_Tensor(one, other, out);
}

/* Zeros of the given dtype in the layout of t, for the examples of t and of `like`. */
static shmt_status zeros_in_layout(shmt_tensor* t, shmt_tensor* like, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) zeros = NULL;
  const shmt__batched* b = shmt__batched_of(t);
  if (b && b->dim != SHMT_NOT_BATCHED && batch_level(like) <= b->level) {
    {
      SHMT_BELOW_LEVEL(b->level);
      const shmt__batched* of_like = batch_level(like) == b->level ? shmt__batched_of(like) : NULL;
      SHMT_TRY(zeros_in_layout(b->value, of_like ? of_like->value : like, dtype, &zeros));
    }
    return shmt__batched_create(zeros, b->dim, b->level, b->level_id, out);
  }
  if (!b && batch_level(like) == 0) {
    SHMT_TRY(shmt__tensor_empty_strided(shmt__tensor_sizes(t), shmt__tensor_strides(t), dtype, t->device, &zeros));
  } else {
    SHMT_AUTO(shmt_tensor) batches = NULL;
    if (b && batch_level(like) && t->numel)
      SHMT_TRY(with_batches_of_both(t, like, &batches));
    else
      batches = shmt__tensor_ref(b ? t : like);
    SHMT_TRY(shmt_op_new_empty_strided(batches, shmt__tensor_sizes(t), shmt__tensor_strides(t), dtype, SHMT_LAYOUT_NONE,
                                       SHMT_DEVICE_NONE, (shmt_opt_bool){0}, &zeros));
  }
  SHMT_TRY(shmt_op_zero_(zeros));
  *out = SHMT_TAKE(zeros);
  return SHMT_OK;
}

shmt_status shmt__zero_tangent(shmt_tensor* t, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) zeros = NULL;
  if (batch_level(t))
    return shmt_op_zeros_like(t, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                              SHMT_MEMORY_FORMAT_NONE, out);
  SHMT_TRY(shmt__tensor_empty_like(t, t->dtype, &zeros));
  SHMT_TRY(shmt_op_zero_(zeros));
  *out = SHMT_TAKE(zeros);
  return SHMT_OK;
}

/* Does the tangent differ from example to example wherever t does? What is written into t in place may, and what is
 * written into the tangent then too. */
static bool has_batches_of(const shmt_tensor* tangent, const shmt_tensor* t) {
  for (const shmt__batched* b = shmt__batched_of(t); b; b = shmt__batched_of(t)) {
    const shmt__batched* own = shmt__batched_of(tangent);
    while (own && own->level > b->level) {
      tangent = own->value;
      own = shmt__batched_of(tangent);
    }
    if (b->dim != SHMT_NOT_BATCHED && !(own && own->level == b->level && own->dim != SHMT_NOT_BATCHED)) return false;
    t = b->value;
  }
  return true;
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
  if ((same_layout(t, tangent) && bits == 0 && has_batches_of(tangent, t)) || t->numel == 0) {
    *out = shmt__tensor_ref(tangent);
    return SHMT_OK;
  }
  SHMT_REQUIRE(
      !overlaps_itself(t), SHMT_E_RUNTIME,
      "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
      "Please clone() the tensor before performing the operation.");
  SHMT_TRY(zeros_in_layout(t, tangent, tangent->dtype, &copy));
  SHMT_TRY(shmt_op_copy_(copy, tangent, false));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}

static shmt_status store(shmt_tensor* t, shmt__forward_number level, shmt_tensor* tangent) {
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

shmt_status shmt__tangent_set(shmt_tensor* t, shmt__forward_number level, shmt_tensor* tangent) {
  SHMT_AUTO(shmt_tensor) fit = NULL;
  SHMT_TRY(fitted(t, tangent, &fit));
  return store(t, level, fit);
}

shmt_status shmt__tangent_to_change(shmt_tensor* t, shmt__forward_number level, shmt_tensor* like, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) zeros = NULL;
  SHMT_TRY(shmt__tangent_of(t, level, out));
  if (*out) return SHMT_OK;
  if (!follows_base(t)) {
    SHMT_TRY(zeros_in_layout(t, like ? like : t, t->dtype, &zeros));
    SHMT_TRY(store(t, level, zeros));
    *out = SHMT_TAKE(zeros);
    return SHMT_OK;
  }
  SHMT_TRY(zeros_in_layout(t->base, like ? like : t, t->base->dtype, &zeros));
  SHMT_TRY(store(t->base, level, zeros));
  return same_view(t, zeros, out);
}

shmt_status shmt__tangent_assign(shmt_tensor* t, shmt__forward_number level, shmt_tensor* tangent) {
  SHMT_AUTO(shmt_tensor) old = NULL;
  SHMT_TRY(shmt__tangent_of(t, level, &old));
  if (!old && !follows_base(t)) return shmt__tangent_set(t, level, tangent);
  if (!old) SHMT_TRY(shmt__tangent_to_change(t, level, tangent, &old));
  return shmt_op_copy_(old, tangent, false);
}

shmt_status shmt__tangents_copy(shmt_tensor* to, shmt_tensor* from) {
  if (!(shmt__tensor_keys(from) & SHMT_KEYBIT_ForwardAD)) return SHMT_OK;
  shmt__forward_number level = SHMT_NO_LEVEL;
  while ((level = shmt__tangent_level_after(from, level)) != SHMT_NO_LEVEL) {
    SHMT_AUTO(shmt_tensor) tangent = NULL;
    SHMT_TRY(shmt__tangent_of(from, level, &tangent));
    if (tangent) SHMT_TRY(store(to, level, tangent));
  }
  return SHMT_OK;
}

shmt_status shmt__without_hidden_tangents(shmt_tensor* t, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) plain = NULL;
  SHMT_TRY(shmt__tensor_detached(t, &plain));
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
  SHMT_TRY(shmt__tangents_copy(plain, t));
  *out = SHMT_TAKE(plain);
  return SHMT_OK;
}
