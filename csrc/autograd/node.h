/* autograd/node.h -- the graph: nodes and edges.
 *
 * All nodes begin with a shmt_node and differ by their class: generated nodes (generated/autograd/), those of Python's
 * Function, AccumulateGrad, CopySlices.
 *
 *   tensor --autograd->grad_fn--> node --edges[i]--> (node, input number)
 *
 * Ownership. A non-leaf tensor owns its grad_fn. A node owns the nodes to which its edges lead. A node never owns a
 * tensor that owns the node: an output saved by its own node is kept without history and gets it back when it is
 * unpacked (Note [Saved outputs] in recording/saved.c). The memory of an AccumulateGrad belongs to its leaf's metadata;
 * while anything refers to the node, the node owns a reference of the leaf in turn.
 *
 * Note [Sequence numbers]
 * A node's number is higher than those of all nodes to which its edges lead, whichever threads made them:
 * shmt__node_connect raises it where needed. Descending order is therefore a topological order, and the engine need not
 * count dependencies first. AccumulateGrad nodes have UINT64_MAX.
 */
#ifndef SHMT_AUTOGRAD_NODE_H
#define SHMT_AUTOGRAD_NODE_H

#include "dispatch/operator.h"
#include "tensor/tensor.h"

typedef struct shmt_edge {
  shmt_node* node;   /* owned; NULL: no gradient wanted */
  uint32_t input_nr; /* which of node's inputs (= outputs of the forward operator) */
} shmt_edge;

typedef struct shmt__node_class {
  const char* name; /* "MulBackward0" */
  size_t size;      /* of the whole struct */
  /* grads: one per forward output, NULL where undefined; borrowed. out: one new reference or NULL
   * per edge; entries that nobody asked for need not be computed (shmt__node_needs). */
  shmt_status (*apply)(shmt_node* node, shmt_tensor* const* grads, shmt_tensor** out);
  void (*release_saved)(shmt_node* node); /* drop saved tensors; may be called twice */
  void (*destroy)(shmt_node* node);       /* NULL: release_saved is all there is */
  void (*unreferenced)(shmt_node* node);  /* NULL: the node is freed with its last reference; else called instead */
  const struct shmt__saved_field* fields; /* n_fields of them (recording/saved.h); NULL: none that Python is shown */
  uint32_t n_fields;
  bool is_accumulate;
  bool is_python; /* of a Python Function (python/autograd/function.h) */
  bool takes_undefined; /* apply is called also when all grads are NULL */
} shmt__node_class;

struct shmt_node {
  atomic_int_least32_t refs;
  uint32_t n_edges;     /* = forward inputs that can have a gradient */
  uint32_t n_inputs;    /* = forward outputs */
  uint32_t n_inline;    /* input metadata that fit behind the edges */
  uint64_t sequence_nr; /* see Note [Sequence numbers] */
  const shmt__node_class* klass;
  shmt_edge* edges;                     /* points behind the node's own struct */
  struct shmt__node_extras* extras;     /* hooks, metadata, anomaly trace; NULL until needed */
  struct shmt__input_meta* more_inputs; /* malloc'ed; used when n_inputs > n_inline */
  void* py_object;                      /* live Python wrapper, borrowed */
};

/* What is known of one forward output, so that the engine can check and fit its gradient. It is stored behind the
 * edges. */
enum { SHMT_INPUT_META_DIMS = 5 };
typedef struct shmt__input_meta {
  int16_t dtype; /* SHMT_DTYPE_NONE: nothing is known (the output takes no gradient) */
  int8_t device;
  uint8_t n_dims;
  uint32_t reserved;
  union {
    int64_t sizes[SHMT_INPUT_META_DIMS];
    int64_t* more; /* n_dims > SHMT_INPUT_META_DIMS: malloc'ed */
  };
} shmt__input_meta;
static inline shmt__input_meta* shmt__node_input_meta(const shmt_node* n, uint32_t i) {
  if (__builtin_expect(n->n_inputs > n->n_inline, 0)) return n->more_inputs + i;
  return (shmt__input_meta*)(n->edges + n->n_edges) + i;
}
static inline const int64_t* shmt__input_meta_sizes(const shmt__input_meta* m) {
  return m->n_dims > SHMT_INPUT_META_DIMS ? m->more : m->sizes;
}

static inline void shmt__node_retain(shmt_node* n) {
  atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
}
void shmt__node_release(shmt_node* n); /* NULL is fine; long chains are freed without recursion */
static inline void shmt__auto_shmt_node(shmt_node** p) { shmt__node_release(*p); }

/* A zeroed node of class k (count 1) with room for n_edges; takes the next sequence number. NULL
 * and a record on OOM. */
shmt_node* shmt__node_create(const shmt__node_class* k, uint32_t n_edges, uint32_t n_inputs);
/* Set the number of forward outputs when it was not known at creation (an operator that returns a list). Call it
 * before any set_history. Errors: SHMT_E_NOMEM. */
shmt_status shmt__node_set_n_inputs(shmt_node* n, uint32_t n_inputs);
/* How many gradients n is shown to take: those of the forward outputs, without outputs at the end that never get one
 * (the indices of a maximum). A Python Function's outputs all count. */
uint32_t shmt__node_n_gradients(const shmt_node* n);
/* *out: g again, or zeros like forward output i when g is NULL (NULL when that output takes no
 * gradient). New reference. */
shmt_status shmt__materialize_grad(shmt_node* n, uint32_t i, shmt_tensor* g, shmt_tensor** out);
/* Put an edge (consumed) in place i; for nodes made by hand. Only before anyone else sees n. */
void shmt__node_set_edge(shmt_node* n, uint32_t i, shmt_edge edge);
/* "Mul" for "MulBackward0", as torch's messages name forward functions; into buf, returned. */
const char* shmt__node_operator_name(const shmt_node* n, char* buf, size_t cap);

/* Nodes alive in this process, without those of leaves. */
int64_t shmt__node_count(void);

/* --- what only few nodes have --------------------------------------------------------- */

typedef struct shmt__node_extras {
  struct shmt__hook* hooks;     /* autograd/hook_list.h */
  struct shmt__retain* retains; /* outputs that keep .grad (autograd/retained_grads.h) */
  char* trace;                  /* anomaly mode: where the forward call stood; malloc'ed */
  shmt_node* parent;            /* anomaly mode: the node whose backward made this one; owned */
  void* metadata;               /* the Python dict of Node.metadata */
  void (*metadata_free)(void*);
} shmt__node_extras;

/* n's extras, made when there are none; NULL and a record when out of memory. */
shmt__node_extras* shmt__node_extras_of(shmt_node* n);
void shmt__node_extras_free(shmt_node* n);

/* Do nodes record the stack of their forward call (anomaly mode)? */
extern bool shmt__anomaly_on;
/* Installed by the Python layer: a malloc'ed text of the stack, or NULL. */
extern char* (*shmt__anomaly_stack)(void);
/* The node whose apply runs on this thread, for `parent`; NULL outside. */
extern _Thread_local shmt_node* shmt__tls_current_node __attribute__((tls_model("initial-exec")));

#endif
