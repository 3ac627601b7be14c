/* autograd/engine/engine.c -- running a graph backwards, on the calling thread. */
#include "autograd/engine/engine.h"

#include "autograd/accumulate.h"
#include "autograd/engine/anomaly.h"
#include "autograd/engine/fit_gradients.h"
#include "autograd/engine/needed_nodes.h"
#include "autograd/hook_list.h"
#include "autograd/meta.h"
#include "autograd/retained_grads.h"
#include "dispatch/profile.h"
#include "dispatch/trace.h"

#include <stdlib.h>
#include <string.h>

enum { INLINE_SLOTS = 16, INLINE_TABLE = 32, INLINE_OUTS = 8 };

/* A node that has received gradients and waits to run. */
typedef struct slot {
  shmt_node* node; /* NULL: a leaf that has already run */
  uint64_t key;    /* the highest runs first; leaves come last, in order of arrival */
  uint32_t arrivals;
  uint32_t next_free;
  shmt_tensor* one;   /* n_inputs == 1 */
  shmt_tensor** many; /* else; calloc'ed */
} slot;

typedef struct task {
  const shmt__backward* b;
  shmt__needed_nodes* needed; /* NULL: everything runs */
  /* While no other node waits, the next node and its only gradient are here instead of in a slot. */
  shmt_node* hot;
  shmt_tensor* hot_grad;
  uint64_t leaf_order;
  slot* slots;
  uint32_t* heap;  /* slot numbers, a max-heap by key */
  uint32_t* table; /* node -> slot number + 1, open addressing */
  uint32_t n_slots, cap_slots, free_slot;
  uint32_t n_heap;
  uint32_t n_inner; /* slots of nodes that are no leaves */
  uint32_t n_table, cap_table;
  uint64_t number; /* 0: nobody has asked for it yet */
  struct task* outer; /* the run inside of which this one goes on; NULL: none */
  slot inline_slots[INLINE_SLOTS];
  uint32_t inline_heap[INLINE_SLOTS];
  uint32_t inline_table[INLINE_TABLE];
} task;

/* The run in progress on this thread; hooks may start others inside it. */
static _Thread_local task* in_progress __attribute__((tls_model("initial-exec")));

static void task_init(task* t, const shmt__backward* b) {
  t->b = b;
  t->needed = NULL;
  t->hot = NULL;
  t->hot_grad = NULL;
  t->leaf_order = (uint64_t)1 << 62;
  t->number = 0;
  t->slots = t->inline_slots;
  t->heap = t->inline_heap;
  t->table = t->inline_table;
  t->n_slots = t->n_heap = t->n_inner = t->n_table = 0;
  t->cap_slots = INLINE_SLOTS;
  t->cap_table = INLINE_TABLE;
  t->free_slot = UINT32_MAX;
  memset(t->inline_table, 0, sizeof t->inline_table);
}

static void release_all(shmt_tensor** v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) shmt__tensor_release(v[i]);
}

static shmt_tensor** slot_grads(slot* s) { return s->many ? s->many : &s->one; }

static void task_fini(task* t) {
  shmt__tensor_release(t->hot_grad);
  for (uint32_t i = 0; i < t->n_heap; i++) {
    slot* s = &t->slots[t->heap[i]];
    if (!s->node) continue;
    release_all(slot_grads(s), s->many ? s->node->n_inputs : 1);
    free(s->many);
  }
  if (t->slots != t->inline_slots) free(t->slots);
  if (t->heap != t->inline_heap) free(t->heap);
  if (t->table != t->inline_table) free(t->table);
  if (t->needed) shmt__needed_nodes_free(t->needed);
}

/* --- the table and the heap ----------------------------------------------------------- */

static uint32_t table_start(const task* t, const shmt_node* n) {
  return (uint32_t)(((uint64_t)(uintptr_t)n * 0x9e3779b97f4a7c15u) >> 32) & (t->cap_table - 1);
}

static slot* find_slot(const task* t, const shmt_node* n) {
  for (uint32_t i = table_start(t, n); t->table[i] != 0; i = (i + 1) & (t->cap_table - 1))
    if (t->slots[t->table[i] - 1].node == n) return &t->slots[t->table[i] - 1];
  return NULL;
}

static void table_insert(task* t, uint32_t index) {
  uint32_t i = table_start(t, t->slots[index].node);
  while (t->table[i] != 0) i = (i + 1) & (t->cap_table - 1);
  t->table[i] = index + 1;
  t->n_table++;
}

/* Entries after the hole move into it when their start position allows it. */
static void table_remove(task* t, const slot* s) {
  const uint32_t wrap = t->cap_table - 1;
  uint32_t hole = table_start(t, s->node);
  while (&t->slots[t->table[hole] - 1] != s) hole = (hole + 1) & wrap;
  for (uint32_t i = (hole + 1) & wrap; t->table[i] != 0; i = (i + 1) & wrap) {
    uint32_t start = table_start(t, t->slots[t->table[i] - 1].node);
    if (((i - start) & wrap) < ((i - hole) & wrap)) continue;
    t->table[hole] = t->table[i];
    hole = i;
  }
  t->table[hole] = 0;
  t->n_table--;
}

static SHMT_COLD shmt_status no_memory(void) {
  return shmt__fail(SHMT_E_NOMEM, "backward(): out of memory for the queue of nodes");
}

static SHMT_COLD shmt_status grow_slots(task* t) {
  const uint32_t cap = 2 * t->cap_slots;
  slot* slots = malloc(cap * sizeof *slots);
  uint32_t* heap = malloc(cap * sizeof *heap);
  if (!slots || !heap) {
    free(slots);
    free(heap);
    return no_memory();
  }
  memcpy(slots, t->slots, t->n_slots * sizeof *slots);
  memcpy(heap, t->heap, t->n_heap * sizeof *heap);
  if (t->slots != t->inline_slots) free(t->slots);
  if (t->heap != t->inline_heap) free(t->heap);
  t->slots = slots;
  t->heap = heap;
  t->cap_slots = cap;
  return SHMT_OK;
}

static SHMT_COLD shmt_status grow_table(task* t) {
  uint32_t* old = t->table;
  const uint32_t old_cap = t->cap_table;
  uint32_t* table = calloc(2 * (size_t)old_cap, sizeof *table);
  if (!table) return no_memory();
  t->table = table;
  t->cap_table = 2 * old_cap;
  t->n_table = 0;
  for (uint32_t i = 0; i < old_cap; i++)
    if (old[i]) table_insert(t, old[i] - 1);
  if (old != t->inline_table) free(old);
  return SHMT_OK;
}

static void heap_push(task* t, uint32_t index) {
  uint32_t at = t->n_heap++;
  const uint64_t key = t->slots[index].key;
  while (at > 0) {
    uint32_t up = (at - 1) / 2;
    if (t->slots[t->heap[up]].key >= key) break;
    t->heap[at] = t->heap[up];
    at = up;
  }
  t->heap[at] = index;
}

static uint32_t heap_pop(task* t) {
  const uint32_t top = t->heap[0], last = t->heap[--t->n_heap];
  const uint64_t key = t->slots[last].key;
  uint32_t at = 0;
  for (uint32_t child; (child = 2 * at + 1) < t->n_heap; at = child) {
    if (child + 1 < t->n_heap && t->slots[t->heap[child + 1]].key > t->slots[t->heap[child]].key)
      child++;
    if (t->slots[t->heap[child]].key <= key) break;
    t->heap[at] = t->heap[child];
  }
  t->heap[at] = last;
  return top;
}

static shmt_status slot_for(task* t, shmt_node* n, slot** out) {
  slot* s = t->n_table ? find_slot(t, n) : NULL;
  if (!s) {
    uint32_t index = t->free_slot;
    if (index == UINT32_MAX && t->n_slots == t->cap_slots) SHMT_TRY(grow_slots(t));
    if (2 * (t->n_table + 1) > t->cap_table) SHMT_TRY(grow_table(t));
    shmt_tensor** many = NULL;
    if (n->n_inputs > 1 && !(many = calloc(n->n_inputs, sizeof *many))) return no_memory();
    if (index == UINT32_MAX)
      index = t->n_slots++;
    else
      t->free_slot = t->slots[index].next_free;
    s = &t->slots[index];
    *s = (slot){.node = n, .many = many};
    if (n->klass->is_accumulate) {
      s->key = --t->leaf_order;
    } else {
      s->key = n->sequence_nr | (uint64_t)1 << 63;
      t->n_inner++;
    }
    table_insert(t, index);
    heap_push(t, index);
  }
  *out = s;
  return SHMT_OK;
}

static void slot_give_back(task* t, uint32_t index) {
  t->slots[index].next_free = t->free_slot;
  t->free_slot = index;
}

/* --- leaves --------------------------------------------------------------------------- */

static shmt_status capture(const task* t, const shmt_node* n, shmt_tensor* const* grads) {
  bool execute;
  uint32_t i;
  if (!shmt__needed_nodes_find(t->needed, n, &execute, &i)) return SHMT_OK;
  for (; i != SHMT_NO_INPUT; i = shmt__needed_nodes_next(t->needed, i)) {
    shmt_tensor* g = grads[t->b->inputs[i].input_nr];
    if (!g || !t->b->captured) continue;
    shmt_tensor** place = &t->b->captured[i];
    if (*place)
      SHMT_TRY(shmt__grad_add(place, shmt__tensor_ref(g)));
    else
      *place = shmt__tensor_ref(g);
  }
  return SHMT_OK;
}

/* Tell the profiler, if it runs, that n begins. */
static SHMT_COLD bool begin_node(shmt__profile_kind kind, const shmt_node* n) {
  if (!shmt__profile_runs()) return false;
  shmt__profile_enter_node(kind, n->klass->name, n->sequence_nr);
  return true;
}

/* All gradients of a leaf are in. Consumes g. */
static shmt_status run_leaf_with(task* t, shmt_node* n, shmt_tensor* g) {
  SHMT_AUTO(shmt_tensor) grad = g;
  shmt_tensor* leaf = shmt__accumulator_variable(n);
  shmt_autograd_meta* m = leaf->autograd;
  if (SHMT_UNLIKELY(m->hooks != NULL))
    SHMT_TRY(shmt__hooks_run(&m->hooks, SHMT_HOOK_TENSOR, 0, &grad, 1, NULL, 0));
  if (t->needed && t->b->captured) return capture(t, n, &grad);
  if (SHMT_UNLIKELY(n->extras != NULL))
    SHMT_TRY(shmt__hooks_run(&n->extras->hooks, SHMT_HOOK_PRE, 0, &grad, 1, NULL, 0));
  SHMT_AUTO(shmt_tensor) shown = NULL; /* what POST hooks are shown */
  if (SHMT_UNLIKELY(n->extras && grad)) shown = shmt__tensor_ref(grad);
  if (grad) SHMT_TRY(shmt__accumulate(n, &grad));
  if (SHMT_UNLIKELY(m->hooks != NULL))
    SHMT_TRY(shmt__hooks_run(&m->hooks, SHMT_HOOK_POST_ACCUMULATE, 0, NULL, 0, &leaf, 1));
  if (SHMT_UNLIKELY(n->extras != NULL))
    SHMT_TRY(shmt__hooks_run(&n->extras->hooks, SHMT_HOOK_POST, 0, NULL, 0, &shown, 1));
  return SHMT_OK;
}

static shmt_status run_leaf(task* t, shmt_node* n, shmt_tensor* g) {
  const bool profiled = SHMT_UNLIKELY(shmt__trace_on) && begin_node(SHMT_PROFILE_ENGINE, n);
  if (SHMT_UNLIKELY(profiled)) shmt__profile_enter_node(SHMT_PROFILE_NODE, n->klass->name, n->sequence_nr);
  shmt_status status = run_leaf_with(t, n, g);
  if (SHMT_UNLIKELY(profiled)) {
    shmt__profile_leave();
    shmt__profile_leave();
  }
  return status;
}

/* One edge to a leaf has delivered g (may be NULL; consumed). */
static shmt_status deliver_leaf(task* t, shmt_node* n, shmt_tensor* g) {
  /* acquire: pairs with the releases of edges that went. Every reference may be an edge that still
   * delivers; when as many have, none is left. */
  const uint32_t refs = (uint32_t)atomic_load_explicit(&n->refs, memory_order_acquire);
  if (SHMT_LIKELY(refs == 1)) return run_leaf(t, n, g);
  slot* s;
  shmt_status status = slot_for(t, n, &s);
  if (status != SHMT_OK) {
    shmt__tensor_release(g);
    return status;
  }
  if (!s->one)
    s->one = g;
  else if (g)
    SHMT_TRY(shmt__grad_add(&s->one, g));
  if (++s->arrivals < refs) return SHMT_OK;
  shmt_tensor* sum = SHMT_TAKE(s->one);
  table_remove(t, s);
  s->node = NULL; /* stays in the heap until its turn */
  return run_leaf(t, n, sum);
}

/* --- delivering ------------------------------------------------------------------------ */

static inline bool fits(const shmt_tensor* g, const shmt_edge* target) {
  const shmt__input_meta* m = shmt__node_input_meta(target->node, target->input_nr);
  if (SHMT_UNLIKELY(target->node->klass->is_accumulate)) {
    const shmt_tensor* v = shmt__accumulator_variable(target->node);
    return g->dtype == v->dtype && g->device == v->device && shmt__same_sizes(g, v);
  }
  return g->dtype == m->dtype && g->device == m->device &&
         shmt__same_ints(shmt__tensor_sizes(g), (shmt_ints){shmt__input_meta_sizes(m), m->n_dims});
}

/* Move the node in `hot` to a slot, with the others. */
static shmt_status spill(task* t) {
  slot* s;
  SHMT_TRY(slot_for(t, t->hot, &s));
  s->one = SHMT_TAKE(t->hot_grad);
  t->hot = NULL;
  return SHMT_OK;
}

static shmt_status store(task* t, const shmt_edge* to, shmt_tensor* g) {
  shmt_node* n = to->node;
  if (t->hot == n) { /* n has one input */
    if (!t->hot_grad) {
      t->hot_grad = g;
      return SHMT_OK;
    }
    return g ? shmt__grad_add(&t->hot_grad, g) : SHMT_OK;
  }
  if (!t->hot && t->n_inner == 0 && n->n_inputs == 1) {
    t->hot = n;
    t->hot_grad = g;
    return SHMT_OK;
  }
  slot* s;
  shmt_status status = t->hot ? spill(t) : SHMT_OK;
  if (status == SHMT_OK) status = slot_for(t, n, &s);
  if (status != SHMT_OK) {
    shmt__tensor_release(g);
    return status;
  }
  shmt_tensor** place = s->many ? &s->many[to->input_nr] : &s->one;
  if (*place && g) return shmt__grad_add(place, g);
  if (g) *place = g;
  return SHMT_OK;
}

/* Hand g (may be NULL; consumed) along an edge. */
static inline shmt_status deliver(task* t, const shmt_edge* to, shmt_tensor* g, const shmt_node* fn,
                                  uint32_t index) {
  bool execute;
  uint32_t first;
  if (SHMT_UNLIKELY(t->needed != NULL) && !shmt__needed_nodes_find(t->needed, to->node, &execute, &first)) {
    shmt__tensor_release(g);
    return SHMT_OK;
  }
  if (g && SHMT_UNLIKELY(!fits(g, to))) {
    shmt_status status = shmt__grad_validate_slow(&g, to, fn, index);
    if (status != SHMT_OK) {
      shmt__tensor_release(g);
      return status;
    }
  }
  if (to->node->klass->is_accumulate) return deliver_leaf(t, to->node, g);
  return store(t, to, g);
}

/* --- one node --------------------------------------------------------------------------- */

/* What belongs to the tensors that n made; then their gradients are what a run for given inputs captures. */
static SHMT_COLD shmt_status run_tensor_hooks(shmt_node* n, shmt_tensor** grads) {
  for (uint32_t i = 0; i < n->n_inputs; i++)
    SHMT_TRY(shmt__hooks_run(&n->extras->hooks, SHMT_HOOK_TENSOR, i, &grads[i], 1, NULL, 0));
  return n->extras->retains ? shmt__node_store_retained(n, grads) : SHMT_OK;
}

/* What belongs to n itself, which is about to run. */
static SHMT_COLD shmt_status run_pre_hooks(shmt_node* n, shmt_tensor** grads) {
  return shmt__hooks_run(&n->extras->hooks, SHMT_HOOK_PRE, 0, grads, shmt__node_n_gradients(n), NULL, 0);
}

/* POST hooks of n see gradients in the shape and dtype that its edges expect. */
static SHMT_COLD shmt_status run_post_hooks(shmt_node* n, shmt_tensor** outs, shmt_tensor** grads) {
  for (uint32_t i = 0; i < n->n_edges; i++)
    if (n->edges[i].node && outs[i] && !fits(outs[i], &n->edges[i]))
      SHMT_TRY(shmt__grad_validate_slow(&outs[i], &n->edges[i], n, i));
  return shmt__hooks_run(&n->extras->hooks, SHMT_HOOK_POST, 0, outs, n->n_edges, grads, shmt__node_n_gradients(n));
}

static bool any_defined(shmt_tensor* const* v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (v[i]) return true;
  return false;
}

static shmt_status apply(task* t, shmt_node* n, shmt_tensor** grads, shmt_tensor** outs) {
  if (SHMT_UNLIKELY(n->extras != NULL)) SHMT_TRY(run_tensor_hooks(n, grads));
  if (SHMT_UNLIKELY(t->needed != NULL)) {
    bool execute = false;
    uint32_t first;
    SHMT_TRY(capture(t, n, grads));
    if (!shmt__needed_nodes_find(t->needed, n, &execute, &first) || !execute) return SHMT_OK;
  }
  if (SHMT_UNLIKELY(n->extras != NULL)) SHMT_TRY(run_pre_hooks(n, grads));
  if (any_defined(grads, n->n_inputs) || n->klass->takes_undefined) {
    shmt_node* outer = shmt__tls_current_node;
    const shmt__needed_nodes* outer_scan = shmt__tls_needed_nodes;
    shmt__tls_current_node = n;
    shmt__tls_needed_nodes = t->needed;
    const bool profiled = SHMT_UNLIKELY(shmt__trace_on) && begin_node(SHMT_PROFILE_NODE, n);
    shmt_status status = n->klass->apply(n, grads, outs);
    if (SHMT_UNLIKELY(profiled)) shmt__profile_leave();
    shmt__tls_current_node = outer;
    shmt__tls_needed_nodes = outer_scan;
    if (SHMT_UNLIKELY(status != SHMT_OK)) {
      if (shmt__anomaly_on) shmt__anomaly_failed(n);
      return status;
    }
    if (SHMT_UNLIKELY(shmt__anomaly_on)) SHMT_TRY(shmt__anomaly_search_nan(n, outs));
  }
  if (SHMT_UNLIKELY(n->extras != NULL)) SHMT_TRY(run_post_hooks(n, outs, grads));
  if (!t->b->keep_graph && n->klass->release_saved) n->klass->release_saved(n);
  return SHMT_OK;
}

/* Run n with its gradients (consumed entries), deliver what comes out. */
static shmt_status run_node(task* t, shmt_node* n, shmt_tensor** grads) {
  shmt_tensor* few[INLINE_OUTS];
  shmt_tensor** outs = few;
  if (SHMT_UNLIKELY(n->n_edges > INLINE_OUTS)) {
    outs = malloc(n->n_edges * sizeof *outs);
    if (!outs) {
      release_all(grads, n->n_inputs);
      return no_memory();
    }
  }
  for (uint32_t i = 0; i < n->n_edges; i++) outs[i] = NULL;
  const bool profiled = SHMT_UNLIKELY(shmt__trace_on) && begin_node(SHMT_PROFILE_ENGINE, n);
  shmt_status status = apply(t, n, grads, outs);
  if (SHMT_UNLIKELY(profiled)) shmt__profile_leave();
  /* Done before delivery: a result that is the incoming gradient itself must not look shared. */
  release_all(grads, n->n_inputs);
  for (uint32_t i = 0; i < n->n_edges; i++) {
    shmt_tensor* g = outs[i];
    if (SHMT_LIKELY(n->edges[i].node && status == SHMT_OK))
      status = deliver(t, &n->edges[i], g, n, i);
    else
      shmt__tensor_release(g);
  }
  if (outs != few) free(outs);
  return status;
}

static shmt_status run_slot(task* t, uint32_t index) {
  slot s = t->slots[index];
  if (!s.node) {
    slot_give_back(t, index);
    return SHMT_OK;
  }
  table_remove(t, &t->slots[index]);
  slot_give_back(t, index);
  if (s.node->klass->is_accumulate) return run_leaf(t, s.node, s.one);
  t->n_inner--;
  shmt_status status = run_node(t, s.node, s.many ? s.many : &s.one);
  free(s.many);
  return status;
}

static shmt_status run_task(task* t) {
  for (;;) {
    if (t->hot) {
      shmt_node* n = t->hot;
      shmt_tensor* g = SHMT_TAKE(t->hot_grad);
      t->hot = NULL;
      SHMT_TRY(run_node(t, n, &g));
    } else if (t->n_heap) {
      SHMT_TRY(run_slot(t, heap_pop(t)));
    } else {
      return SHMT_OK;
    }
  }
}

static shmt_status deliver_roots(task* t) {
  const shmt__backward* b = t->b;
  for (uint32_t i = 0; i < b->n_roots; i++) {
    shmt_tensor* g = b->grads[i];
    if (g) shmt_tensor_retain(g);
    SHMT_TRY(deliver(t, &b->roots[i], g, NULL, i));
  }
  return SHMT_OK;
}

static uint64_t number_of(task* t) {
  static _Atomic uint64_t last;

  if (!t) return 0;
  /* relaxed: only that no two runs get the same number matters. */
  if (!t->number) t->number = 1 + atomic_fetch_add_explicit(&last, 1, memory_order_relaxed);
  return t->number;
}

uint64_t shmt__engine_run_number(void) { return number_of(in_progress); }

uint64_t shmt__engine_outermost_number(void) {
  task* t = in_progress;
  while (t && t->outer) t = t->outer;
  return number_of(t);
}

bool shmt__engine_has_inputs(void) { return in_progress && in_progress->b->inputs; }

shmt_status shmt__engine_reaches(const void* const* nodes, uint32_t n, bool* reached) {
  const task* t = in_progress;

  SHMT_REQUIRE(t, SHMT_E_RUNTIME, "no backward is in progress on this thread");
  SHMT_TRY(shmt__needed_nodes_reached(t->b, nodes, n, reached));
  for (uint32_t i = 0; t->needed && i < n; i++) {
    bool execute;
    uint32_t first;
    reached[i] = reached[i] && shmt__needed_nodes_find(t->needed, nodes[i], &execute, &first);
  }
  return SHMT_OK;
}

shmt_status shmt__engine_run(const shmt__backward* b) {
  SHMT_GRAD_MODE(b->create_graph);
  task t;
  task_init(&t, b);
  t.outer = in_progress;
  in_progress = &t;
  shmt_status status = b->inputs ? shmt__needed_nodes_create(b, &t.needed) : SHMT_OK;
  if (status == SHMT_OK) status = deliver_roots(&t);
  if (status == SHMT_OK) status = run_task(&t);
  in_progress = t.outer;
  task_fini(&t);
  return status;
}
