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
/* The same of the run that a hook or a node started this one in, or one outside of that. */
uint64_t shmt__engine_outermost_number(void);
/* Does this thread's run end at given inputs? false outside of a run. */
bool shmt__engine_has_inputs(void);
/* reached[i]: does the run in progress visit the node at nodes[i]? The address is only compared: the node need not be
 * alive. Errors: SHMT_E_NOMEM; SHMT_E_RUNTIME without a run. */
shmt_status shmt__engine_reaches(const void* const* nodes, uint32_t n, bool* reached);

/* Does the graph of the outputs lead to a leaf that is none of the inputs? Then something beside a function transform
 * can differentiate them (engine/reached_leaves.c). Errors: SHMT_E_NOMEM. */
shmt_status shmt__graph_reaches_others(shmt_tensors outputs, shmt_tensors inputs, bool* out);

#endif
