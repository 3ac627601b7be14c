/* autograd/engine/needed_nodes.c -- which nodes lead to the tensors that gradients were asked for. */
#include "autograd/engine/needed_nodes.h"

#include "autograd/engine/engine.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
  const shmt_node* node; /* NULL: empty */
  uint32_t first;        /* an input at this node, or SHMT_NO_INPUT */
  bool wanted;           /* leads to an input or is one */
  bool execute;          /* leads to one beyond itself, or is a leaf to accumulate into */
} entry;

struct shmt__needed_nodes {
  entry* table;
  size_t cap, n;
  uint32_t* next; /* per input: another one at the same node */
  uint32_t n_inputs;
};

typedef struct frame {
  const shmt_node* node;
  uint32_t edge;
} frame;

_Thread_local const shmt__needed_nodes* shmt__tls_needed_nodes __attribute__((tls_model("initial-exec")));

static SHMT_COLD shmt_status no_memory(void) {
  return shmt__fail(SHMT_E_NOMEM,
                    "backward(): out of memory while looking for the inputs in the graph");
}

static entry* place(entry* table, size_t cap, const shmt_node* n) {
  size_t i = (size_t)(((uint64_t)(uintptr_t)n * 0x9e3779b97f4a7c15u) >> 20) & (cap - 1);
  while (table[i].node && table[i].node != n) i = (i + 1) & (cap - 1);
  return &table[i];
}

static shmt_status grow_table(shmt__needed_nodes* s) {
  size_t cap = s->cap ? 2 * s->cap : 64;
  entry* table = calloc(cap, sizeof *table);
  if (!table) return no_memory();
  for (size_t i = 0; i < s->cap; i++)
    if (s->table[i].node) *place(table, cap, s->table[i].node) = s->table[i];
  free(s->table);
  s->table = table;
  s->cap = cap;
  return SHMT_OK;
}

/* The entry of n; a new one when there is none. */
static shmt_status visit(shmt__needed_nodes* s, const shmt_node* n, entry** out, bool* fresh) {
  if (2 * (s->n + 1) > s->cap) SHMT_TRY(grow_table(s));
  entry* e = place(s->table, s->cap, n);
  *fresh = e->node == NULL;
  if (*fresh) {
    *e = (entry){.node = n, .first = SHMT_NO_INPUT};
    s->n++;
  }
  *out = e;
  return SHMT_OK;
}

static shmt_status mark_inputs(shmt__needed_nodes* s, const shmt__backward* b, uint64_t* lowest) {
  *lowest = UINT64_MAX;
  for (uint32_t i = 0; i < b->n_inputs; i++) {
    s->next[i] = SHMT_NO_INPUT;
    const shmt_node* n = b->inputs[i].node;
    if (!n) continue;
    entry* e;
    bool fresh;
    SHMT_TRY(visit(s, n, &e, &fresh));
    s->next[i] = e->first;
    e->first = i;
    e->wanted = true;
    if (n->klass->is_accumulate) {
      *lowest = 0;
      e->execute = b->captured == NULL;
    } else if (n->sequence_nr < *lowest) {
      *lowest = n->sequence_nr;
    }
  }
  return SHMT_OK;
}

typedef struct stack {
  frame* frames;
  size_t n, cap;
} stack;

static shmt_status push(stack* st, const shmt_node* n) {
  if (st->n == st->cap) {
    size_t cap = st->cap ? 2 * st->cap : 256;
    frame* p = realloc(st->frames, cap * sizeof *p);
    if (!p) return no_memory();
    st->frames = p;
    st->cap = cap;
  }
  st->frames[st->n++] = (frame){n, 0};
  return SHMT_OK;
}

/* Depth first, children before parents. The inputs are in the table from the start, unvisited, so a second table has
 * the set of visited nodes. */
static shmt_status mark_ancestors(shmt__needed_nodes* s, shmt__needed_nodes* seen, stack* st, const shmt_node* root,
                        uint64_t lowest) {
  entry* e;
  bool fresh;
  SHMT_TRY(visit(seen, root, &e, &fresh));
  if (fresh) SHMT_TRY(push(st, root));
  while (st->n) {
    frame* f = &st->frames[st->n - 1];
    if (f->edge < f->node->n_edges) {
      const shmt_node* child = f->node->edges[f->edge++].node;
      /* Nodes before the first input cannot lead to one. */
      if (!child || child->sequence_nr < lowest) continue;
      SHMT_TRY(visit(seen, child, &e, &fresh));
      if (fresh) SHMT_TRY(push(st, child));
      continue;
    }
    bool leads = false;
    for (uint32_t i = 0; i < f->node->n_edges && !leads; i++) {
      const shmt_node* child = f->node->edges[i].node;
      if (child && child->sequence_nr >= lowest) leads = place(s->table, s->cap, child)->wanted;
    }
    if (leads) {
      SHMT_TRY(visit(s, f->node, &e, &fresh));
      e->wanted = e->execute = true;
    }
    st->n--;
  }
  return SHMT_OK;
}

shmt_status shmt__needed_nodes_create(const shmt__backward* b, shmt__needed_nodes** out) {
  shmt__needed_nodes* s = calloc(1, sizeof *s);
  shmt__needed_nodes seen = {0};
  stack st = {0};
  uint64_t lowest;
  if (!s) return no_memory();
  s->next = malloc((b->n_inputs + 1) * sizeof *s->next);
  s->n_inputs = b->n_inputs;
  shmt_status status = s->next ? grow_table(s) : no_memory();
  if (status == SHMT_OK) status = mark_inputs(s, b, &lowest);
  for (uint32_t i = 0; i < b->n_roots && status == SHMT_OK; i++)
    status = mark_ancestors(s, &seen, &st, b->roots[i].node, lowest);
  free(st.frames);
  free(seen.table);
  if (status != SHMT_OK) {
    shmt__needed_nodes_free(s);
    return status;
  }
  *out = s;
  return SHMT_OK;
}

shmt_status shmt__needed_nodes_reached(const shmt__backward* b, const void* const* nodes, uint32_t n,
                               bool* reached) {
  shmt__needed_nodes leading = {0}, seen = {0}; /* leading stays empty: nothing is marked as an input */
  stack st = {0};
  shmt_status status = grow_table(&leading);
  if (status == SHMT_OK) status = grow_table(&seen);
  for (uint32_t i = 0; i < b->n_roots && status == SHMT_OK; i++)
    status = mark_ancestors(&leading, &seen, &st, b->roots[i].node, 0);
  for (uint32_t i = 0; i < n && status == SHMT_OK; i++)
    reached[i] = place(seen.table, seen.cap, nodes[i])->node != NULL;
  free(st.frames);
  free(seen.table);
  free(leading.table);
  return status;
}

void shmt__needed_nodes_free(shmt__needed_nodes* s) {
  if (!s) return;
  free(s->table);
  free(s->next);
  free(s);
}

bool shmt__needed_nodes_find(const shmt__needed_nodes* s, const shmt_node* n, bool* execute, uint32_t* first) {
  const entry* e = place(s->table, s->cap, n);
  *execute = e->execute;
  *first = e->node ? e->first : SHMT_NO_INPUT;
  return e->wanted;
}

bool shmt__needed_nodes_wants(const shmt__needed_nodes* s, const shmt_node* n) {
  return place(s->table, s->cap, n)->wanted; /* that of an empty place is false */
}

uint32_t shmt__needed_nodes_next(const shmt__needed_nodes* s, uint32_t input) { return s->next[input]; }
