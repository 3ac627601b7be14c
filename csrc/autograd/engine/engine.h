/* autograd/engine/engine.h -- running a graph backwards, on the calling thread.
 *
 * Note [One pass]
 * Nodes run in descending order of their sequence numbers, which is a topological order (node.h). A node's gradient is
 * therefore complete when the node runs, and no pass over the graph counts dependencies first. A chain, the common
 * case, needs no queue: while only one node has gradients, it is kept in a variable. A leaf runs as soon as all edges
 * to it have delivered; if other graphs have edges to it, it runs at the end.
 *
 * Only a run for given inputs visits the graph first (needed_nodes.c), to skip nodes that do not lead to them.
 */
#ifndef SHMT_AUTOGRAD_ENGINE_ENGINE_H
#define SHMT_AUTOGRAD_ENGINE_ENGINE_H

#include "autograd/node.h"

typedef struct shmt__backward {
  const shmt_edge* roots;    /* borrowed; edges with a node */
  shmt_tensor* const* grads; /* one per root, NULL where undefined */
  uint32_t n_roots;
  bool keep_graph;
  bool create_graph;
  const shmt_edge* inputs; /* NULL: every leaf gets its .grad */
  uint32_t n_inputs;
  shmt_tensor**
      captured; /* with inputs: one new reference or NULL each; NULL: accumulate into leaves */
} shmt__backward;

/* Errors: those of nodes and hooks; SHMT_E_RUNTIME for gradients that do not fit. */
shmt_status shmt__engine_run(const shmt__backward* b);

/* What torch.autograd.backward and grad do before and after the engine.
 *
 * grads      NULL, or one per tensor, NULL for "implicit": ones, for real scalars only
 * inputs     NULL: all leaves
 * captured   NULL: accumulate; else one new reference per input, NULL where unused
 * Errors:    SHMT_E_RUNTIME with torch's wording; see engine_run. */
typedef struct shmt__backward_args {
  shmt_tensor* const* tensors;
  shmt_tensor* const* grads;
  uint32_t n_tensors;
  shmt_tensor* const* inputs;
  uint32_t n_inputs;
  shmt_tensor** captured;
  bool keep_graph, create_graph, allow_unused;
} shmt__backward_args;
shmt_status shmt__backward_run(const shmt__backward_args* a);

/* --- the run in progress on this thread ---------------------------------------------- */

/* A number of this run that no other run has, above zero; 0: no run is in progress. */
uint64_t shmt__engine_run_number(void);
/* Does this thread's run end at given inputs? false outside of a run. */
bool shmt__engine_has_inputs(void);
/* reached[i]: does the run in progress visit the node at nodes[i]? The address is only compared: the node need not be
 * alive. Errors: SHMT_E_NOMEM; SHMT_E_RUNTIME without a run. */
shmt_status shmt__engine_reaches(const void* const* nodes, uint32_t n, bool* reached);

/* --- what leads to the inputs (autograd/engine/needed_nodes.c) ---------------------------------------------- */

typedef struct shmt__needed_nodes shmt__needed_nodes;
enum { SHMT_NO_INPUT = UINT32_MAX };
/* New; free with shmt__needed_nodes_free. Errors: SHMT_E_NOMEM. */
shmt_status shmt__needed_nodes_create(const shmt__backward* b, shmt__needed_nodes** out);
void shmt__needed_nodes_free(shmt__needed_nodes* s);
/* Does n lead to an input, or is it one? first: an index of the inputs at n, or SHMT_NO_INPUT. */
bool shmt__needed_nodes_find(const shmt__needed_nodes* s, const shmt_node* n, bool* execute, uint32_t* first);
/* The next input at the same node, or SHMT_NO_INPUT. */
uint32_t shmt__needed_nodes_next(const shmt__needed_nodes* s, uint32_t input);

/* reached[i]: the roots of b lead to a node at nodes[i], or it is one. Errors: SHMT_E_NOMEM. */
shmt_status shmt__needed_nodes_reached(const shmt__backward* b, const void* const* nodes, uint32_t n,
                               bool* reached);

/* --- gradients (autograd/engine/fit_gradients.c) --------------------------------------------------------------- */

/* Fit *g (owned) to what target's input nr expects: sum it to the shape, cast it to the dtype. fn, index: the node
 * that delivers it, for messages; fn NULL: a root. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__grad_validate_slow(shmt_tensor** g, const shmt_edge* target, const shmt_node* fn,
                                uint32_t index);
/* Zeros as target's gradient; NULL where nothing is known of it. Errors: SHMT_E_NOMEM. */
shmt_status shmt__grad_zeros(const shmt_edge* target, shmt_tensor** out);
/* sum += other, of one shape, without dispatch. Borrows both. Errors: SHMT_E_NOMEM. */
shmt_status shmt__grad_add_inplace(shmt_tensor* sum, shmt_tensor* other);
/* *sum += g; consumes g. In place when no other holder can see the sum. Errors: those of add. */
shmt_status shmt__grad_add(shmt_tensor** sum, shmt_tensor* g);

/* Does the graph of the outputs lead to a leaf that is none of the inputs? Then something beside a function transform
 * can differentiate them (engine/reached_leaves.c). Errors: SHMT_E_NOMEM. */
shmt_status shmt__graph_reaches_others(shmt_tensors outputs, shmt_tensors inputs, bool* out);

#endif
