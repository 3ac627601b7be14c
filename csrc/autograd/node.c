/* autograd/node.c -- making nodes, what only some of them carry, and freeing long chains without recursion. */
#include "autograd/node.h"

#include "autograd/hook_list.h"
#include "autograd/pool.h"
#include "autograd/retained_grads.h"
#include "dispatch/profile.h"

#include <stdlib.h>
#include <string.h>

/* The last sequence number of this thread, raised by what nodes are connected to; see Note [Sequence numbers]. */
static _Thread_local uint64_t last_sequence __attribute__((tls_model("initial-exec")));

/* Nodes without references that wait to be freed, linked through py_object, which is free then. */
static _Thread_local struct {
  shmt_node* head;
  bool active;
} doomed __attribute__((tls_model("initial-exec")));

/* Nodes created minus nodes freed on each thread. A node may be freed on another thread, so that only the sum
 * counts. */
typedef struct thread_count {
  int64_t n; /* written by its thread, read by any */
  struct thread_count* next;
} thread_count;
static _Thread_local thread_count* my_count __attribute__((tls_model("initial-exec")));
static _Atomic(thread_count*) all_counts; /* kept when threads end: their nodes may live on */

static SHMT_COLD thread_count* count_create(void) {
  static thread_count shared; /* out of memory: then the sum is only about right */
  thread_count* c = calloc(1, sizeof *c);
  if (!c) return my_count = &shared;
  c->next = atomic_load_explicit(&all_counts, memory_order_relaxed);
  /* release: readers of the list see the entry filled. */
  while (!atomic_compare_exchange_weak_explicit(&all_counts, &c->next, c, memory_order_release,
                                                memory_order_relaxed)) {
  }
  return my_count = c;
}

static inline void count_nodes(int64_t d) {
  thread_count* c = SHMT_LIKELY(my_count != NULL) ? my_count : count_create();
  __atomic_store_n(&c->n, c->n + d, __ATOMIC_RELAXED);
}

int64_t shmt__node_count(void) {
  int64_t sum = 0;
  const thread_count* c = atomic_load_explicit(&all_counts, memory_order_acquire);
  for (; c; c = c->next) sum += __atomic_load_n(&c->n, __ATOMIC_RELAXED);
  return sum;
}

static size_t edges_offset(const shmt__node_class* k) { return (k->size + 7) & ~(size_t)7; }

static size_t node_bytes(const shmt__node_class* k, uint32_t n_edges, uint32_t n_inputs) {
  return edges_offset(k) + (size_t)n_edges * sizeof(shmt_edge) +
         (size_t)n_inputs * sizeof(shmt__input_meta);
}

/* --- what only some nodes carry ------------------------------------------------------- */

bool shmt__anomaly_on;
char* (*shmt__anomaly_stack)(void);
_Thread_local shmt_node* shmt__tls_current_node __attribute__((tls_model("initial-exec")));

shmt__node_extras* shmt__node_extras_of(shmt_node* n) {
  shmt__node_extras* there = __atomic_load_n(&n->extras, __ATOMIC_ACQUIRE);
  if (there) return there;
  shmt__node_extras* fresh = calloc(1, sizeof *fresh);
  if (!fresh) {
    (void)shmt__fail(SHMT_E_NOMEM, "%s: out of memory for hooks", n->klass->name);
    return NULL;
  }
  shmt__node_extras* found = NULL;
  /* release: publishes them zeroed; acquire: sees the other thread's. */
  if (__atomic_compare_exchange_n(&n->extras, &found, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return fresh;
  free(fresh);
  return found;
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

/* Anomaly mode: remember where the forward call stood. */
static SHMT_COLD void record_stack(shmt_node* n) {
  if (!shmt__anomaly_stack) return;
  shmt__node_extras* x = shmt__node_extras_of(n);
  if (!x) return;
  x->trace = shmt__anomaly_stack();
  x->parent = shmt__tls_current_node;
  if (x->parent) shmt__node_retain(x->parent);
}

static uint64_t sequence_of_thread(void) { return last_sequence; }
__attribute__((constructor)) static void tell_profiler(void) { shmt__profile_sequence = sequence_of_thread; }

/* --- making ------------------------------------------------------------------------------ */

shmt_node* shmt__node_create(const shmt__node_class* k, uint32_t n_edges, uint32_t n_inputs) {
  size_t nbytes = node_bytes(k, n_edges, n_inputs);
  shmt_node* n = shmt__pool_take(nbytes);
  if (SHMT_UNLIKELY(!n)) {
    (void)shmt__fail(SHMT_E_NOMEM, "%s: out of memory for a node of %zu bytes", k->name, nbytes);
    return NULL;
  }
  const size_t at = edges_offset(k);
  memset(n, 0, at + n_edges * sizeof(shmt_edge));
  /* relaxed: the node is still this thread's own. */
  atomic_store_explicit(&n->refs, 1, memory_order_relaxed);
  n->n_edges = n_edges;
  n->n_inputs = n->n_inline = n_inputs;
  n->klass = k;
  n->edges = (shmt_edge*)((char*)n + at);
  for (uint32_t i = 0; i < n_inputs; i++) shmt__node_input_meta(n, i)->dtype = SHMT_DTYPE_NONE;
  n->sequence_nr = k->is_accumulate ? UINT64_MAX : ++last_sequence;
  if (!k->is_accumulate) count_nodes(1);
  if (SHMT_UNLIKELY(shmt__anomaly_on) && !k->is_accumulate) record_stack(n);
  return n;
}

/* Sizes of many dims have memory of their own. */
static void input_metas_fini(shmt_node* n) {
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    shmt__input_meta* m = shmt__node_input_meta(n, i);
    if (SHMT_UNLIKELY(m->dtype != SHMT_DTYPE_NONE && m->n_dims > SHMT_INPUT_META_DIMS))
      free(m->more);
  }
  free(n->more_inputs);
}

shmt_status shmt__node_set_n_inputs(shmt_node* n, uint32_t n_inputs) {
  if (n_inputs > n->n_inline) {
    shmt__input_meta* more = calloc(n_inputs, sizeof *more);
    SHMT_REQUIRE(more, SHMT_E_NOMEM, "%s: out of memory for the shapes of %u outputs",
                 n->klass->name, n_inputs);
    for (uint32_t i = 0; i < n_inputs; i++) more[i].dtype = SHMT_DTYPE_NONE;
    free(n->more_inputs);
    n->more_inputs = more;
  }
  n->n_inputs = n_inputs;
  return SHMT_OK;
}

uint32_t shmt__node_n_gradients(const shmt_node* n) {
  uint32_t count = n->n_inputs;
  if (n->klass->is_python || n->klass->is_accumulate) return count;
  while (count > 1 && shmt__node_input_meta(n, count - 1)->dtype == SHMT_DTYPE_NONE) count--;
  return count;
}

shmt_status shmt__materialize_grad(shmt_node* n, uint32_t i, shmt_tensor* g, shmt_tensor** out) {
  const shmt__input_meta* m = shmt__node_input_meta(n, i);
  *out = NULL;
  if (g) {
    *out = shmt__tensor_ref(g);
    return SHMT_OK;
  }
  if (m->dtype == SHMT_DTYPE_NONE) return SHMT_OK;
  return shmt__tensor_zeros((shmt_ints){shmt__input_meta_sizes(m), m->n_dims}, m->dtype, m->device,
                            out);
}

/* --- freeing ----------------------------------------------------------------------------- */

static void node_free(shmt_node* n) {
  const shmt__node_class* k = n->klass;
  if (k->release_saved) k->release_saved(n);
  if (k->destroy) k->destroy(n);
  for (uint32_t i = 0; i < n->n_edges; i++)
    if (n->edges[i].node) shmt__node_release(n->edges[i].node); /* queued: `doomed` is active */
  if (SHMT_UNLIKELY(n->extras != NULL)) shmt__node_extras_free(n);
  input_metas_fini(n);
  count_nodes(-1);
  shmt__pool_give(n, node_bytes(k, n->n_edges, n->n_inline));
}

static void node_unreferenced(shmt_node* n) {
  if (SHMT_UNLIKELY(n->klass->unreferenced != NULL)) {
    n->klass->unreferenced(n);
    return;
  }
  if (doomed.active) {
    n->py_object = doomed.head;
    doomed.head = n;
    return;
  }
  doomed.active = true;
  while (n) {
    node_free(n);
    n = doomed.head;
    if (n) doomed.head = n->py_object;
  }
  doomed.active = false;
}

void shmt__node_release(shmt_node* n) {
  /* acq_rel: every earlier use of the node happens before its end. */
  if (n && atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) == 1) node_unreferenced(n);
}

void shmt__node_set_edge(shmt_node* n, uint32_t i, shmt_edge edge) {
  SHMT_ASSERT(i < n->n_edges);
  if (n->edges[i].node) shmt__node_release(n->edges[i].node);
  n->edges[i] = edge;
  if (edge.node && !edge.node->klass->is_accumulate && edge.node->sequence_nr >= n->sequence_nr) {
    n->sequence_nr = edge.node->sequence_nr + 1;
    if (last_sequence < n->sequence_nr) last_sequence = n->sequence_nr;
  }
}

/* Where the "Backward0" of a class's name begins; NULL when it does not end so. */
static const char* suffix_of(const char* name) {
  const char* last = NULL;
  for (const char* at = strstr(name, "Backward"); at; at = strstr(at + 1, "Backward")) last = at;
  if (!last || last == name) return NULL;
  const char* digits = last + strlen("Backward");
  return strspn(digits, "0123456789") == strlen(digits) ? last : NULL;
}

const char* shmt__node_operator_name(const shmt_node* n, char* buf, size_t cap) {
  const char* name = n->klass->name;
  const char* suffix = suffix_of(name);
  size_t len = suffix ? (size_t)(suffix - name) : strlen(name);
  if (len >= cap) len = cap - 1;
  memcpy(buf, name, len);
  buf[len] = 0;
  return buf;
}
