/* autograd/vmap/loop.c -- an operator without a batching rule: once for each example. */
#include "autograd/vmap/loop.h"

#include "autograd/vmap/parts.h"
#include "base/warn.h"
#include "generated/ops.h"

#include <stdlib.h>
#include <string.h>

/* The arguments of one example. */
typedef struct example {
  shmt_value values[SHMT_SCHEMA_MAX_ARGS]; /* tensors and the arrays of lists are owned */
  int n;
} example;

static void release_example(example* e) {
  for (int i = 0; i < e->n; i++) {
    shmt_value* v = &e->values[i];
    if (v->tag == SHMT_VALUE_TENSOR) shmt__tensor_release(v->v.tensor);
    if (v->tag != SHMT_VALUE_TENSORS) continue;
    for (int64_t k = 0; k < v->v.tensors.len; k++) shmt__tensor_release(v->v.tensors.data[k]);
    free((void*)v->v.tensors.data);
  }
}

static shmt_status slice(const shmt__batch_call* c, shmt_tensor* t, int dim, int64_t b, shmt_tensor** out) {
  if (t && dim != SHMT_NOT_BATCHED) {
    SHMT_TRY(shmt_op_select_int(t, dim, b, out));
    if (!strstr(c->op->schema->name, "as_strided")) return SHMT_OK;
    SHMT_AUTO(shmt_tensor) view = *out; /* these look at the storage, which is to be that of one example */
    *out = NULL;
    return shmt_op_clone(view, SHMT_CONTIGUOUS_FORMAT, out);
  }
  *out = t ? shmt__tensor_ref(t) : NULL;
  return SHMT_OK;
}

static shmt_status slice_list(const shmt__batch_call* c, int i, int64_t b, shmt_value* out) {
  const shmt_tensors list = c->values[i].v.tensors;
  shmt_tensor** made = calloc((size_t)list.len + 1, sizeof *made);
  SHMT_REQUIRE(made != NULL, SHMT_E_NOMEM, "vmap: no memory for %lld tensors", (long long)list.len);
  *out = (shmt_value){.v.tensors = {made, list.len}, .tag = SHMT_VALUE_TENSORS};
  for (int64_t k = 0; k < list.len; k++) SHMT_TRY(slice(c, list.data[k], c->list_dims[i][k], b, &made[k]));
  return SHMT_OK;
}

static shmt_status slice_all(const shmt__batch_call* c, int64_t b, example* e) {
  for (e->n = 0; e->n < c->op->schema->n_args;) {
    const int i = e->n++;
    e->values[i] = c->values[i];
    if (c->values[i].tag == SHMT_VALUE_TENSOR) {
      e->values[i].v.tensor = NULL;
      SHMT_TRY(slice(c, c->values[i].v.tensor, c->dims[i], b, &e->values[i].v.tensor));
    } else if (c->values[i].tag == SHMT_VALUE_TENSORS) {
      e->values[i].tag = SHMT_VALUE_NONE;
      SHMT_TRY(slice_list(c, i, b, &e->values[i]));
    }
  }
  return SHMT_OK;
}

static shmt_status call_example(const shmt__batch_call* c, int64_t b, shmt_value* results) {
  example e = {.n = 0};
  shmt_status status = slice_all(c, b, &e);
  if (status == SHMT_OK) status = shmt__operator_call(c->op, false, 0, e.values, results);
  release_example(&e);
  return status;
}

/* Stack results[r], results[n_returns + r], ... of all examples; element k of lists. */
static shmt_status stack_one(const shmt__batch_call* c, const shmt_value* all, int r, int64_t k, shmt_tensor** parts,
                             shmt_tensor** out) {
  const int n = c->op->schema->n_returns;
  for (int64_t b = 0; b < c->batch_size; b++) {
    const shmt_value* v = &all[b * n + r];
    parts[b] = k < 0 ? v->v.tensor : v->v.tensors.data[k];
  }
  return shmt_op_stack((shmt_tensors){parts, c->batch_size}, 0, out);
}

static shmt_status stack_results(shmt__batch_call* c, shmt_value* all, shmt_tensor** parts) {
  for (int r = 0; r < c->op->schema->n_returns; r++) {
    shmt_value* first = &all[r];
    if (first->tag == SHMT_VALUE_NONE || (first->tag == SHMT_VALUE_TENSOR && !first->v.tensor)) continue;
    if (first->tag == SHMT_VALUE_TENSOR) {
      shmt_tensor* made = NULL;
      SHMT_TRY(stack_one(c, all, r, -1, parts, &made));
      shmt__batch_give(c, r, made);
      continue;
    }
    SHMT_REQUIRE(first->tag == SHMT_VALUE_TENSORS, SHMT_E_RUNTIME,
                 "Batching rule not implemented for %s%s. We could not generate a fallback.",
                 shmt__schema_namespace(c->op->schema), c->op->schema->name);
    for (int64_t b = 1; b < c->batch_size; b++)
      SHMT_REQUIRE(all[b * c->op->schema->n_returns + r].v.tensors.len == first->v.tensors.len, SHMT_E_RUNTIME,
                   "vmap: %s%s gives lists of different lengths for the examples",
                   shmt__schema_namespace(c->op->schema), c->op->schema->name);
    for (int64_t k = 0; k < first->v.tensors.len; k++) {
      shmt_tensor* made = NULL;
      SHMT_TRY(stack_one(c, all, r, k, parts, &made));
      shmt__tensor_release(first->v.tensors.data[k]);
      ((shmt_tensor**)first->v.tensors.data)[k] = made;
    }
    c->results[r] = *first;
    first->tag = SHMT_VALUE_NONE;
  }
  return SHMT_OK;
}

static shmt_status run_examples(shmt__batch_call* c) {
  const size_t n = c->op->schema->n_returns, size = (size_t)c->batch_size;
  shmt_value* all = calloc(size * n + 1, sizeof *all);
  shmt_tensor** parts = calloc(size + 1, sizeof *parts);
  shmt_status status = SHMT_OK;
  if (!all || !parts) status = shmt__fail(SHMT_E_NOMEM, "vmap: no memory for the results of %zu examples", size);
  for (size_t b = 0; status == SHMT_OK && b < size; b++) status = call_example(c, (int64_t)b, &all[b * n]);
  if (status == SHMT_OK) status = stack_results(c, all, parts);
  for (size_t i = 0; all && i < size * n; i++) shmt__value_fini(&all[i]);
  free(all);
  free(parts);
  return status;
}

static bool gives_no_tensor(const shmt_schema* s) {
  for (int r = 0; r < s->n_returns; r++)
    if (s->returns[r].type != SHMT_TYPE_TENSOR && s->returns[r].type != SHMT_TYPE_TENSORS) return true;
  return false;
}

shmt_status shmt__batch_each(shmt__batch_call* c) {
  const char* name = c->op->schema->name;
  const char* prefix = shmt__schema_namespace(c->op->schema);
  SHMT_REQUIRE(!gives_no_tensor(c->op->schema), SHMT_E_RUNTIME,
               "Batching rule not implemented for %s%s. We could not generate a fallback.", prefix, name);
  SHMT_REQUIRE(c->batch_size > 0, SHMT_E_RUNTIME,
               "Batching rule not implemented for %s%s. The fallback path does not support vmap over dims of size 0.",
               prefix, name);
  return run_examples(c);
}

shmt_status shmt__batch_loop(shmt__batch_call* c) {
  const char* name = c->op->schema->name;
  const char* prefix = shmt__schema_namespace(c->op->schema);
  if (*name != '_' && !gives_no_tensor(c->op->schema))
    SHMT_TRY(
        shmt__warn("There is a performance drop because we have not yet implemented the batching rule for %s%s. "
                   "Please file us an issue on GitHub so that we can prioritize its implementation.",
                   prefix, name));
  return shmt__batch_each(c);
}
