/* autograd/engine/needed_nodes.h -- which nodes lead to the tensors that gradients were asked for. */
#ifndef SHMT_AUTOGRAD_ENGINE_NEEDED_NODES_H
#define SHMT_AUTOGRAD_ENGINE_NEEDED_NODES_H

#include "autograd/node.h"

struct shmt__backward; /* autograd/engine/engine.h */

typedef struct shmt__needed_nodes shmt__needed_nodes;
enum { SHMT_NO_INPUT = UINT32_MAX };
/* New; free with shmt__needed_nodes_free. Errors: SHMT_E_NOMEM. */
shmt_status shmt__needed_nodes_create(const struct shmt__backward* b, shmt__needed_nodes** out);
void shmt__needed_nodes_free(shmt__needed_nodes* s);
/* Does n lead to an input, or is it one? first: an index of the inputs at n, or SHMT_NO_INPUT. */
bool shmt__needed_nodes_find(const shmt__needed_nodes* s, const shmt_node* n, bool* execute, uint32_t* first);
/* The next input at the same node, or SHMT_NO_INPUT. */
uint32_t shmt__needed_nodes_next(const shmt__needed_nodes* s, uint32_t input);

/* reached[i]: the roots of b lead to a node at nodes[i], or it is one. Errors: SHMT_E_NOMEM. */
shmt_status shmt__needed_nodes_reached(const struct shmt__backward* b, const void* const* nodes, uint32_t n,
                               bool* reached);

/* While a backward for given inputs applies a node on this thread: the nodes that lead to those inputs; else NULL. */
extern _Thread_local const shmt__needed_nodes* shmt__tls_needed_nodes __attribute__((tls_model("initial-exec")));
/* Does n lead to an input, or is it one? */
bool shmt__needed_nodes_wants(const shmt__needed_nodes* needed, const shmt_node* n);
/* Is the gradient along edge i needed? */
static inline bool shmt__node_needs(const shmt_node* n, uint32_t i) {
  const shmt_node* to = n->edges[i].node;
  return to && (SHMT_LIKELY(!shmt__tls_needed_nodes) || shmt__needed_nodes_wants(shmt__tls_needed_nodes, to));
}

#endif
