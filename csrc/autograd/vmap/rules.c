/* autograd/vmap/rules.c -- batching rules for families of operators. */
#include "autograd/vmap/rules.h"

#include "autograd/vmap/parts.h"
#include "base/promote.h"
#include "generated/ops.h"

#include <stdio.h>
#include <string.h>

static int n_args(const shmt__batch_call* c) { return c->op->schema->n_args; }

/* --- pointwise ---------------------------------------------------------------------------------------- */

/* Batched scalars promote as scalars, also when they stand in a row. */
static shmt_status cast_scalars(shmt__batch_call* c) {
  shmt__result_type examples = SHMT_RESULT_TYPE_INIT, values = SHMT_RESULT_TYPE_INIT;
  shmt_dtype wanted, got;
  for (int i = 0; i < n_args(c); i++) {
    const shmt_tensor* t = shmt__batch_tensor(c, i);
    if (!t) continue;
    const bool wrapped = (t->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0;
    SHMT_TRY(shmt__result_type_add(&examples, t->dtype, shmt__batch_rank(c, i) == 0, wrapped));
    SHMT_TRY(shmt__result_type_add(&values, t->dtype, t->n_dims == 0, wrapped));
  }
  SHMT_TRY(shmt__result_type_get(&examples, &wanted));
  SHMT_TRY(shmt__result_type_get(&values, &got));
  if (wanted == got) return SHMT_OK;
  for (int i = 0; i < n_args(c); i++) {
    shmt_tensor* t = shmt__batch_tensor(c, i);
    shmt_tensor* made = NULL;
    if (!t || !shmt__batch_has(c, i) || shmt__batch_rank(c, i) > 0 || t->dtype == wanted) continue;
    if (c->op->schema->args[i].flags & SHMT_ARG_WRITE) continue;
    SHMT_TRY(shmt_op_to_dtype(t, wanted, false, false, SHMT_MEMORY_FORMAT_NONE, &made));
    shmt__batch_set(c, i, made, c->dims[i]);
  }
  return SHMT_OK;
}

shmt_status shmt__batch_pointwise(shmt__batch_call* c) {
  int rank = 0, n_tensors = 0;
  for (int i = 0; i < n_args(c); i++) {
    if (!shmt__batch_tensor(c, i)) continue;
    n_tensors++;
    if (shmt__batch_rank(c, i) > rank) rank = shmt__batch_rank(c, i);
    SHMT_TRY(shmt__batch_to_front(c, i));
  }
  if (n_tensors > 1) {
    SHMT_TRY(cast_scalars(c));
    for (int i = 0; i < n_args(c); i++)
      if (shmt__batch_tensor(c, i)) SHMT_TRY(shmt__batch_pad_rank(c, i, rank));
  }
  return shmt__batch_call_self(c);
}

/* --- dimensions and sizes among the arguments ------------------------------------------------------------ */

static bool is_one_of(const char* name, const char* const* names) {
  for (; *names; names++)
    if (strcmp(name, *names) == 0) return true;
  return false;
}

static const char* const dim_names[] = {"dim", "dims", "dim0", "dim1", "dim2", "dimension", NULL};
static const char* const size_names[] = {"size", "sizes", "input_sizes", "strides", NULL};

/* Arguments as they are for values whose first dimension is the batch. */
typedef struct shifted {
  shmt_value values[SHMT_SCHEMA_MAX_ARGS];
  int64_t lists[4][SHMT_MAX_DIMS + 1];
  int n_lists;
} shifted;

static shmt_status shift_dims(shifted* s, shmt_value* v, int rank, bool none_is_all) {
  if (v->tag == SHMT_VALUE_INT) {
    SHMT_TRY(shmt__wrap_dim(v->v.i, rank, &v->v.i));
    v->v.i++;
    return SHMT_OK;
  }
  const bool none = v->tag == SHMT_VALUE_NONE || (v->tag == SHMT_VALUE_INTS && v->v.ints.len <= 0);
  if (none ? !none_is_all : v->tag != SHMT_VALUE_INTS) return SHMT_OK;
  int64_t* list = s->lists[s->n_lists++];
  const int64_t n = none ? rank : v->v.ints.len;
  SHMT_REQUIRE(n <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "vmap: a list of %lld dims", (long long)n);
  for (int64_t k = 0; k < n; k++) {
    SHMT_TRY(shmt__wrap_dim(none ? k : v->v.ints.data[k], rank, &list[k]));
    list[k]++;
  }
  *v = (shmt_value){.v.ints = {list, n}, .tag = SHMT_VALUE_INTS};
  return SHMT_OK;
}

static shmt_status prefix_sizes(shifted* s, shmt_value* v, int64_t size) {
  if (v->tag != SHMT_VALUE_INTS || v->v.ints.len < 0) return SHMT_OK;
  int64_t* list = s->lists[s->n_lists++];
  SHMT_REQUIRE(v->v.ints.len < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "vmap: tensor has too many (>%d) dims", SHMT_MAX_DIMS);
  list[0] = size;
  shmt__copy_ints(list + 1, v->v.ints);
  v->v.ints = (shmt_ints){list, v->v.ints.len + 1};
  return SHMT_OK;
}

/* Memory formats of images say nothing of a batch of them. */
static void drop_memory_format(shmt_value* v) {
  if (v->tag == SHMT_VALUE_INT && (v->v.i == SHMT_CHANNELS_LAST || v->v.i == SHMT_CHANNELS_LAST_3D))
    v->v.i = SHMT_CONTIGUOUS_FORMAT;
}

static shmt_status shift_arguments(const shmt__batch_call* c, int rank, bool none_is_all, shifted* s) {
  const shmt_schema* schema = c->op->schema;
  memcpy(s->values, c->values, (size_t)schema->n_args * sizeof *s->values);
  s->n_lists = 0;
  for (int i = 0; i < schema->n_args; i++) {
    const shmt_arg* a = &schema->args[i];
    const bool ints = a->type == SHMT_TYPE_INT || a->type == SHMT_TYPE_INTS;
    if (a->type == SHMT_TYPE_MEMORY_FORMAT) drop_memory_format(&s->values[i]);
    if (!ints || s->n_lists == 4) continue;
    if (is_one_of(a->name, dim_names)) SHMT_TRY(shift_dims(s, &s->values[i], rank, none_is_all));
    if (is_one_of(a->name, size_names)) SHMT_TRY(prefix_sizes(s, &s->values[i], c->batch_size));
  }
  return SHMT_OK;
}

/* --- front, expand, matrices, reduce -------------------------------------------------------------------------- */

static shmt_status lead(shmt__batch_call* c, bool expands) {
  for (int i = 0; i < n_args(c); i++)
    if (shmt__batch_tensor(c, i))
      SHMT_TRY(expands ? shmt__batch_to_front_expanded(c, i) : shmt__batch_to_front(c, i));
  return SHMT_OK;
}

/* The rank that dims count in: that of the first tensor. */
static int first_rank(const shmt__batch_call* c) {
  for (int i = 0; i < n_args(c); i++)
    if (shmt__batch_tensor(c, i)) return shmt__batch_rank(c, i);
  return 0;
}

static bool takes_dims(const shmt__batch_call* c) {
  for (int i = 0; i < n_args(c); i++)
    if (is_one_of(c->op->schema->args[i].name, dim_names)) return true;
  return false;
}

/* A scalar has one dimension for operators that take one: it becomes a row of one element. */
static shmt_status rows_of_scalars(shmt__batch_call* c) {
  for (int i = 0; i < n_args(c); i++) {
    if (!shmt__batch_tensor(c, i) || shmt__batch_rank(c, i) > 0) continue;
    if (shmt__batch_has(c, i)) {
      SHMT_TRY(shmt__batch_pad_rank(c, i, 1));
      continue;
    }
    shmt_tensor* row = NULL;
    SHMT_TRY(shmt_op_unsqueeze(shmt__batch_tensor(c, i), 0, &row));
    shmt__batch_set(c, i, row, SHMT_NOT_BATCHED);
  }
  return SHMT_OK;
}

static shmt_status scalars_of_rows(shmt__batch_call* c) {
  for (int r = 0; r < c->op->schema->n_returns; r++) {
    shmt_tensor** t = shmt__batch_result(c, r);
    shmt_tensor* made = NULL;
    if (!t || (*t)->n_dims == 1) continue;
    SHMT_TRY(shmt_op_reshape(*t, SHMT_INTS(c->batch_size), &made));
    shmt__batch_give(c, r, made);
  }
  return SHMT_OK;
}

/* Results that an operator leaves empty, such as the Q of a QR that was not asked for, have no batch of their own. */
static shmt_status give_batch_to_empty(shmt__batch_call* c) {
  for (int r = 0; r < c->op->schema->n_returns; r++) {
    shmt_tensor** t = shmt__batch_result(c, r);
    shmt_tensor* made = NULL;
    if (!t || (*t)->numel || (*t)->n_dims != 1 || (*t)->sizes[0] == c->batch_size) continue;
    SHMT_TRY(shmt_op_reshape(*t, SHMT_INTS(c->batch_size, 0), &made));
    shmt__batch_give(c, r, made);
  }
  return SHMT_OK;
}

static shmt_status call_shifted(shmt__batch_call* c, bool none_is_all) {
  shifted s;
  const int of_input = shmt__batch_argument(c, "input_sizes"); /* a derivative counts dims as its operator does */
  int rank = of_input < 0 ? first_rank(c) : (int)c->values[of_input].v.ints.len;
  const bool is_scalar = rank == 0 && takes_dims(c);
  if (is_scalar) SHMT_TRY(rows_of_scalars(c));
  if (is_scalar) rank = 1;
  SHMT_TRY(shift_arguments(c, rank, none_is_all, &s));
  SHMT_TRY(shmt__batch_call_with(c, s.values));
  return is_scalar ? scalars_of_rows(c) : give_batch_to_empty(c);
}

shmt_status shmt__batch_front(shmt__batch_call* c) {
  SHMT_TRY(lead(c, false));
  return call_shifted(c, false);
}

shmt_status shmt__batch_expand(shmt__batch_call* c) {
  SHMT_TRY(lead(c, true));
  return call_shifted(c, false);
}

shmt_status shmt__batch_align(shmt__batch_call* c) {
  int rank = 0;
  SHMT_TRY(lead(c, true));
  for (int i = 0; i < n_args(c); i++)
    if (shmt__batch_tensor(c, i) && shmt__batch_rank(c, i) > rank) rank = shmt__batch_rank(c, i);
  for (int i = 0; i < n_args(c); i++)
    if (shmt__batch_tensor(c, i))
      SHMT_TRY(shmt__batch_pad_rank(c, i, strcmp(c->op->schema->args[i].name, "pivots") == 0 ? rank - 1 : rank));
  return call_shifted(c, false);
}

/* Each example of the first argument as a row. */
static shmt_status flatten_examples(shmt__batch_call* c) {
  shmt_tensor* t = shmt__batch_tensor(c, 0);
  shmt_tensor* rows = NULL;
  const int64_t n = shmt__tensor_extent(t, 1, t->n_dims);
  SHMT_TRY(shmt_op_reshape(t, SHMT_INTS(c->batch_size, n), &rows));
  shmt__batch_set(c, 0, rows, 0);
  return SHMT_OK;
}

/* dim=None of operators that take one dim: all elements in a row; with keepdim the result has ones. */
static shmt_status reduce_rows(shmt__batch_call* c, int dim) {
  const int keepdim = shmt__batch_argument(c, "keepdim"), rank = shmt__batch_rank(c, 0);
  int64_t sizes[SHMT_MAX_DIMS + 1] = {c->batch_size};
  SHMT_TRY(flatten_examples(c));
  c->values[dim] = (shmt_value){.v.i = 1, .tag = SHMT_VALUE_INT};
  SHMT_TRY(shmt__batch_call_self(c));
  if (keepdim < 0 || c->values[keepdim].tag != SHMT_VALUE_BOOL || !c->values[keepdim].v.b) return SHMT_OK;
  for (int d = 1; d <= rank; d++) sizes[d] = 1;
  for (int r = 0; r < c->op->schema->n_returns; r++) {
    shmt_tensor* made = NULL;
    if (!shmt__batch_result(c, r)) continue;
    SHMT_TRY(shmt_op_reshape(*shmt__batch_result(c, r), (shmt_ints){sizes, rank + 1}, &made));
    shmt__batch_give(c, r, made);
  }
  return SHMT_OK;
}

shmt_status shmt__batch_reduce(shmt__batch_call* c) {
  const int dim = shmt__batch_argument(c, "dim");
  SHMT_TRY(lead(c, false));
  if (dim >= 0 && c->op->schema->args[dim].type == SHMT_TYPE_INT && c->values[dim].tag == SHMT_VALUE_NONE)
    return reduce_rows(c, dim);
  return call_shifted(c, true);
}

/* The overload of a full reduction that reduces one dimension. */
static const shmt_operator* along_dim(const shmt__batch_call* c) {
  static const char* const overloads[] = {"dim_IntList", "dim", "dim_int", NULL};
  for (const char* const* o = overloads; *o; o++) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", c->op->schema->name, *o);
    const shmt_operator* found = shmt__operator_lookup(name);
    if (found) return found;
  }
  return NULL;
}

shmt_status shmt__batch_reduce_all(shmt__batch_call* c) {
  const int64_t one = 1;
  const shmt_operator* op = along_dim(c);
  shmt_value values[8] = {{.tag = SHMT_VALUE_NONE}}, results[4] = {{.tag = SHMT_VALUE_NONE}};
  SHMT_TRY(shmt__batch_to_front(c, 0));
  SHMT_TRY(flatten_examples(c));
  for (int i = 0; i < op->schema->n_args && i < 8; i++) {
    const shmt_arg* a = &op->schema->args[i];
    const int same = shmt__batch_argument(c, a->name);
    if (same >= 0)
      values[i] = c->values[same];
    else if (a->type == SHMT_TYPE_INTS)
      values[i] = (shmt_value){.v.ints = {&one, 1}, .tag = SHMT_VALUE_INTS};
    else if (a->type == SHMT_TYPE_INT)
      values[i] = (shmt_value){.v.i = 1, .tag = SHMT_VALUE_INT};
    else if (a->type == SHMT_TYPE_BOOL)
      values[i] = (shmt_value){.v.b = false, .tag = SHMT_VALUE_BOOL};
  }
  SHMT_TRY(shmt__operator_call(op, false, 0, values, results));
  c->results[0] = results[0];
  for (int r = 1; r < op->schema->n_returns; r++) shmt__value_fini(&results[r]);
  return SHMT_OK;
}

/* --- merge --------------------------------------------------------------------------------------------- */

/* How many dims an image of this operator has: the digit in its name, half of its padding, else 2. */
static int image_dims(const shmt__batch_call* c) {
  const int pad = shmt__batch_argument(c, "pad");
  if (pad >= 0 && c->values[pad].tag == SHMT_VALUE_INTS) return (int)(c->values[pad].v.ints.len / 2);
  if (strcmp(c->op->schema->name, "col2im") == 0) return 1; /* an example is a matrix */
  for (const char* p = c->op->schema->name; *p; p++)
    if (*p >= '1' && *p <= '3' && p[1] == 'd') return *p - '0';
  const int n = shmt__batch_argument(c, "n");
  return n >= 0 && c->values[n].tag == SHMT_VALUE_INT ? (int)c->values[n].v.i : 2;
}

static int first_tensor(const shmt__batch_call* c) {
  int i = 0;
  while (!shmt__batch_tensor(c, i)) i++;
  return i;
}

shmt_status shmt__batch_merge(shmt__batch_call* c) {
  const int first = first_tensor(c), rank = shmt__batch_rank(c, first);
  const int fixed = shmt__batch_argument(c, "size") >= 0 && strstr(c->op->schema->name, "resample") ? rank : 0;
  if (!fixed && rank == image_dims(c) + 1) return shmt__batch_expand(c);
  int64_t list[SHMT_MAX_DIMS];
  SHMT_TRY(lead(c, true));
  for (int i = 0; i < n_args(c); i++)
    if (shmt__batch_tensor(c, i)) SHMT_TRY(shmt__batch_merge_dims(c, i, 0));
  for (int i = 0; i < n_args(c); i++) {
    shmt_value* v = &c->values[i];
    if (!is_one_of(c->op->schema->args[i].name, size_names) || v->tag != SHMT_VALUE_INTS || v->v.ints.len < rank)
      continue;
    if (strcmp(c->op->schema->args[i].name, "strides") == 0) continue;
    SHMT_REQUIRE(v->v.ints.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "%s: %s has %lld sizes, the most are %d",
                 c->op->schema->name, c->op->schema->args[i].name, (long long)v->v.ints.len, SHMT_MAX_DIMS);
    shmt__copy_ints(list, v->v.ints);
    list[0] *= c->batch_size;
    v->v.ints.data = list;
  }
  SHMT_TRY(shmt__batch_call_self(c));
  return shmt__batch_split_results(c);
}

shmt_status shmt__batch_allclose(shmt__batch_call* c) {
  (void)c;
  SHMT_FAIL(SHMT_E_RUNTIME, "vmap over torch.allclose isn't supported yet.");
}

shmt_status shmt__batch_dynamic(shmt__batch_call* c) {
  SHMT_FAIL(
      SHMT_E_RUNTIME,
      "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::%s.",
      c->op->schema->name);
}
