/* autograd/node.h -- the graph: nodes, edges, saved tensors.
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
 *
 * Note [What an Autograd kernel does], in this order, when shmt__grad_enabled() and an argument
 * shmt__wants_grad:
 *   1. in place: shmt__check_inplace(self, true) (with false when nothing is recorded)
 *   2. shmt__node_create, then shmt__node_connect for each differentiable argument. An in-place
 * operator's edge 0 is always self, also when self gets no gradient
 *   3. shmt__saved_init of the arguments that its derivatives use; an in-place operator that needs the old
 * self saves a clone
 *   4. the kernels below, with Autograd and ADInplaceOrView excluded for whatever they call inside
 *   5. shmt__set_history for each output, or shmt__rebase_history
 *   6. shmt__saved_init(.., true) of the outputs that its derivatives use
 */
#ifndef SHMT_AUTOGRAD_NODE_H
#define SHMT_AUTOGRAD_NODE_H

#include "dispatch/operator.h"
#include "tensor/tensor.h"

typedef struct shmt_edge {
  shmt_node* node;   /* owned; NULL: no gradient wanted */
  uint32_t input_nr; /* which of node's inputs (= outputs of the forward operator) */
} shmt_edge;

/* One thing that nodes of a class saved, for Python's _saved_<name>. */
typedef enum shmt__saved_kind {
  SHMT_SAVED_TENSOR, /* shmt__saved */
  SHMT_SAVED_TENSORS, /* shmt__saved_list */
  SHMT_SAVED_SHAPE, /* shmt__saved_shape */
  SHMT_SAVED_INT,
  SHMT_SAVED_OPT_INT,
  SHMT_SAVED_INTS, /* shmt__saved_ints */
  SHMT_SAVED_FLOAT,
  SHMT_SAVED_OPT_FLOAT,
  SHMT_SAVED_FLOATS, /* shmt__saved_floats */
  SHMT_SAVED_BOOL,
  SHMT_SAVED_OPT_BOOL,
  SHMT_SAVED_SCALAR,
  SHMT_SAVED_STR,
  SHMT_SAVED_DTYPE,
  SHMT_SAVED_LAYOUT,
  SHMT_SAVED_DEVICE,
  SHMT_SAVED_MEMORY_FORMAT,
} shmt__saved_kind;
typedef struct shmt__saved_field {
  const char* name; /* of the argument or result */
  shmt__saved_kind kind;
  uint32_t offset; /* in the node */
} shmt__saved_field;

typedef struct shmt__node_class {
  const char* name; /* "MulBackward0" */
  size_t size;      /* of the whole struct */
  /* grads: one per forward output, NULL where undefined; borrowed. out: one new reference or NULL
   * per edge; entries that nobody asked for need not be computed (shmt__node_needs). */
  shmt_status (*apply)(shmt_node* node, shmt_tensor* const* grads, shmt_tensor** out);
  void (*release_saved)(shmt_node* node); /* drop saved tensors; may be called twice */
  void (*destroy)(shmt_node* node);       /* NULL: release_saved is all there is */
  void (*unreferenced)(shmt_node* node);  /* NULL: the node is freed with its last reference; else called instead */
  const shmt__saved_field* fields; /* n_fields of them; NULL: none that Python is shown */
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
/* Edge i leads to where t's gradient goes (grad_fn, or its AccumulateGrad); empty when t is NULL or
 * needs none. */
shmt_status shmt__node_connect(shmt_node* n, uint32_t i, shmt_tensor* t);
/* Set the number of forward outputs when it was not known at creation (an operator that returns a list). Call it
 * before any set_history. Errors: SHMT_E_NOMEM. */
shmt_status shmt__node_set_n_inputs(shmt_node* n, uint32_t n_inputs);
/* Forward output i looks like t; set_history does this too. Errors: SHMT_E_NOMEM. */
shmt_status shmt__node_describe_input(shmt_node* n, uint32_t i, const shmt_tensor* t);
/* *out: g again, or zeros like forward output i when g is NULL (NULL when that output takes no
 * gradient). New reference. */
shmt_status shmt__materialize_grad(shmt_node* n, uint32_t i, shmt_tensor* g, shmt_tensor** out);
/* Put an edge (consumed) in place i; for nodes made by hand. Only before anyone else sees n. */
void shmt__node_set_edge(shmt_node* n, uint32_t i, shmt_edge edge);
/* "Mul" for "MulBackward0", as torch's messages name forward functions; into buf, returned. */
const char* shmt__node_operator_name(const shmt_node* n, char* buf, size_t cap);

/* While a backward for given inputs applies a node on this thread: the nodes that lead to those inputs; else NULL. */
struct shmt__needed_nodes;
extern _Thread_local const struct shmt__needed_nodes* shmt__tls_needed_nodes __attribute__((tls_model("initial-exec")));
/* Does n lead to an input, or is it one? */
bool shmt__needed_nodes_wants(const struct shmt__needed_nodes* needed, const shmt_node* n);
/* Is the gradient along edge i needed? */
static inline bool shmt__node_needs(const shmt_node* n, uint32_t i) {
  const shmt_node* to = n->edges[i].node;
  return to && (SHMT_LIKELY(!shmt__tls_needed_nodes) || shmt__needed_nodes_wants(shmt__tls_needed_nodes, to));
}

/* --- saved tensors ------------------------------------------------------------- */

typedef struct shmt__saved {
  shmt_tensor* tensor; /* owned; NULL: none was saved */
  uint32_t version;    /* at saving */
  uint32_t output_nr;
  bool is_output; /* of the node that saves it: kept without history */
  bool released;   /* there was one, and it was freed */
  void* hook_data; /* packed by a saved-tensor hook instead of tensor; or an output's version */
} shmt__saved;

/* t may be NULL. */
shmt_status shmt__saved_init(shmt__saved* s, shmt_tensor* t, bool is_output);
/* The same for another argument of an in-place operator. It saves a clone when t shares memory with `changed`: t
 * itself would be changed, and would own the node that saves it. */
shmt_status shmt__saved_init_unaliased(shmt__saved* s, shmt_tensor* t, shmt_tensor* changed);
/* The same for a copy of t, which is about to be changed. */
shmt_status shmt__saved_init_copy(shmt__saved* s, shmt_tensor* t);
/* New reference (NULL when none was saved). owner: the node, needed for outputs.
 * Errors: SHMT_E_RUNTIME "Trying to backward through the graph a second time ...",
 * "one of the variables needed for gradient computation has been modified by an inplace operation
 * ...". */
shmt_status shmt__saved_unpack(const shmt__saved* s, shmt_node* owner, shmt_tensor** out);
/* Record that the saved tensors were freed by the node's last backward pass; returns SHMT_E_RUNTIME. */
shmt_status shmt__saved_freed(void) SHMT_COLD;
void shmt__saved_fini(shmt__saved* s);
/* Pack an already saved tensor with hooks (retained on success). Errors: SHMT_E_RUNTIME when there is none, when it was
 * freed, when hooks have packed it before; those of the hooks. */
struct shmt__saved_hooks;
shmt_status shmt__saved_repack(shmt__saved* s, shmt_node* owner, const struct shmt__saved_hooks* hooks);
/* What hooks have packed, or NULL: borrowed. *hooks: whose pack it was. */
void* shmt__saved_packed_data(const shmt__saved* s, const struct shmt__saved_hooks** hooks);

/* --- recording ------------------------------------------------------------------ */

/* t requires grad itself, through its grad_fn, or as a view of a tensor that does (even when it has
 * no grad_fn, having been made without recording). */
static inline bool shmt__tensor_requires_grad(const shmt_tensor* t) {
  return (shmt__tensor_keys(t) & SHMT_KEYBIT_Autograd) != 0;
}
/* For generated kernels: does t require grad? t may be NULL. */
static inline bool shmt__wants_grad(const shmt_tensor* t) {
  return t && (shmt__tensor_keys(t) & SHMT_KEYBIT_Autograd);
}

/* out becomes output number nr of node (borrows node; out keeps its own reference). Integral
 * outputs are left alone. */
shmt_status shmt__set_history(shmt_tensor* out, shmt_node* node, uint32_t nr);
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
/* Call before an in-place operator that will be recorded: checks leaves and views, with torch's messages. */
shmt_status shmt__check_inplace(shmt_tensor* self, bool will_record);
/* Call after it: node becomes the history of self and, for a view, of its base, through CopySlices. */
shmt_status shmt__rebase_history(shmt_tensor* self, shmt_node* node);
/* The same for several tensors that one operator wrote to: output i of node is changed.data[i]. A view among them
 * other than the first is refused (RUNTIME); see there. */
shmt_status shmt__rebase_histories(shmt_tensors changed, shmt_node* node);

#endif
