/* autograd/engine/reached_leaves.c -- does a graph lead to something else than the inputs of a transform? */
#include "autograd/accumulate.h"
#include "autograd/engine/engine.h"
#include "autograd/meta.h"
#include "autograd/recording/connect.h"

#include <stdlib.h>

/* Nodes that were met, in a hash table by address, and those of them whose edges are still to be followed. */
typedef struct walk {
  const shmt_node** met;
  size_t cap, n;
  const shmt_node** open;
  size_t n_open, cap_open;
} walk;

static SHMT_COLD shmt_status no_memory(void) {
  return shmt__fail(SHMT_E_NOMEM, "out of memory while looking at the graph of a function transform");
}

static const shmt_node** place(const shmt_node** met, size_t cap, const shmt_node* n) {
  size_t i = (size_t)(((uint64_t)(uintptr_t)n * 0x9e3779b97f4a7c15u) >> 20) & (cap - 1);
  while (met[i] && met[i] != n) i = (i + 1) & (cap - 1);
  return &met[i];
}

static shmt_status grow_walk(walk* w) {
  const size_t cap = w->cap ? 2 * w->cap : 64;
  const shmt_node** met = calloc(cap, sizeof *met);
  if (!met) return no_memory();
  for (size_t i = 0; i < w->cap; i++)
    if (w->met[i]) *place(met, cap, w->met[i]) = w->met[i];
  free((void*)w->met);
  w->met = met;
  w->cap = cap;
  return SHMT_OK;
}

/* Meet a node; its edges are followed later, unless it was met before or is not to be passed. */
static shmt_status meet(walk* w, const shmt_node* n, bool passes) {
  if (2 * (w->n + 1) > w->cap) SHMT_TRY(grow_walk(w));
  const shmt_node** slot = place(w->met, w->cap, n);
  if (*slot) return SHMT_OK;
  *slot = n;
  w->n++;
  if (!passes || n->n_edges == 0) return SHMT_OK;
  if (w->n_open == w->cap_open) {
    const size_t cap = w->cap_open ? 2 * w->cap_open : 64;
    const shmt_node** open = realloc((void*)w->open, cap * sizeof *open);
    if (!open) return no_memory();
    w->open = open;
    w->cap_open = cap;
  }
  w->open[w->n_open++] = n;
  return SHMT_OK;
}

/* The inputs' own accumulators are no others; an input that has a history leads outside. */
static shmt_status mark_inputs(walk* w, shmt_tensors inputs) {
  for (int64_t i = 0; i < inputs.len; i++) {
    shmt_edge edge = {NULL, 0};
    SHMT_TRY(shmt__gradient_edge(inputs.data[i], &edge));
    if (!edge.node) continue;
    shmt_status status = edge.node->klass->is_accumulate ? meet(w, edge.node, false) : SHMT_OK;
    shmt__node_release(edge.node);
    SHMT_TRY(status);
  }
  return SHMT_OK;
}

/* Is it a leaf that others may differentiate? */
static bool is_other(const walk* w, const shmt_node* leaf) {
  return *place(w->met, w->cap, leaf) == NULL && !shmt__accumulator_variable(leaf)->autograd->of_transform;
}

static shmt_status follow(walk* w, const shmt_node* n, bool* found) {
  for (uint32_t e = 0; e < n->n_edges && !*found; e++) {
    const shmt_node* to = n->edges[e].node;
    if (!to) continue;
    if (to->klass->is_accumulate)
      *found = is_other(w, to);
    else
      SHMT_TRY(meet(w, to, true));
  }
  return SHMT_OK;
}

static shmt_status walk_from(walk* w, shmt_tensors outputs, bool* found) {
  if (!w->cap) SHMT_TRY(grow_walk(w));
  for (int64_t i = 0; i < outputs.len && !*found; i++) {
    shmt_edge edge = {NULL, 0};
    SHMT_TRY(shmt__gradient_edge(outputs.data[i], &edge));
    if (!edge.node) continue;
    shmt_status status = SHMT_OK;
    if (edge.node->klass->is_accumulate)
      *found = is_other(w, edge.node);
    else
      status = meet(w, edge.node, true);
    while (status == SHMT_OK && !*found && w->n_open) status = follow(w, w->open[--w->n_open], found);
    shmt__node_release(edge.node);
    SHMT_TRY(status);
  }
  return SHMT_OK;
}

shmt_status shmt__graph_reaches_others(shmt_tensors outputs, shmt_tensors inputs, bool* out) {
  walk w = {0};
  *out = false;
  shmt_status status = mark_inputs(&w, inputs);
  if (status == SHMT_OK) status = walk_from(&w, outputs, out);
  free((void*)w.met);
  free((void*)w.open);
  return status;
}
