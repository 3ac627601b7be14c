/* autograd/forward/jvp.c -- the tangents of results by an operator's record, and helpers of generated formulas. */
#include "autograd/forward/jvp.h"

#include "autograd/forward/tangents.h"
#include "autograd/forward/two_vjps.h"
#include "generated/ops.h"
#include "ops/scalar_expression.h"

#include <string.h>

/* --- helpers of formulas ------------------------------------------------------------------------ */

shmt_status shmt__jvp_add(shmt_tensor** sum, shmt_tensor** term) {
  SHMT_AUTO(shmt_tensor) more = SHMT_TAKE(*term);
  SHMT_AUTO(shmt_tensor) total = NULL;
  if (!more) return SHMT_OK;
  if (!*sum) {
    *sum = SHMT_TAKE(more);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op_add_Tensor(*sum, more, shmt__scalar_int(1), &total));
  shmt__tensor_release(*sum);
  *sum = SHMT_TAKE(total);
  return SHMT_OK;
}

shmt_status shmt__jvp_conj(shmt_tensor** term) {
  SHMT_AUTO(shmt_tensor) t = SHMT_TAKE(*term);
  if (!t || shmt__dtype_kind[t->dtype] != SHMT_KIND_COMPLEX) {
    *term = SHMT_TAKE(t);
    return SHMT_OK;
  }
  /* No lazy conjugate: views of the result are taken of its tangent too. */
  return t->flags & SHMT_TENSOR_CONJ ? shmt_op__conj(t, term) : shmt_op__conj_complex(t, term);
}

static shmt_status cast(shmt_tensor** t, shmt_dtype dtype) {
  SHMT_AUTO(shmt_tensor) from = SHMT_TAKE(*t);
  if (from->dtype == dtype) {
    *t = SHMT_TAKE(from);
    return SHMT_OK;
  }
  return shmt_op__to_copy(from, dtype, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, false,
                          SHMT_MEMORY_FORMAT_NONE, t);
}

shmt_status shmt__jvp_as_cotangent(shmt_tensor* tangent, shmt_tensor* result, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) t = NULL;
  if (shmt__same_sizes(tangent, result))
    t = shmt__tensor_ref(tangent);
  else
    SHMT_TRY(shmt_op_expand(tangent, shmt__tensor_sizes(result), false, &t));
  SHMT_TRY(cast(&t, result->dtype));
  SHMT_TRY(shmt__jvp_conj(&t));
  *out = SHMT_TAKE(t);
  return SHMT_OK;
}

static bool is_set(const shmt_value* v) { return v->tag != SHMT_VALUE_NONE; }

/* The tangent of an argument, with zeros where it has none; a new value. */
static shmt_status filled(const shmt_value* arg, const shmt_value* tangent, shmt_value* out) {
  if (arg->tag == SHMT_VALUE_TENSOR) {
    SHMT_AUTO(shmt_tensor) t = NULL;
    if (is_set(tangent))
      t = shmt__tensor_ref(tangent->v.tensor);
    else
      SHMT_TRY(shmt__zero_tangent(arg->v.tensor, &t));
    *out = (shmt_value){.v.tensor = SHMT_TAKE(t), .tag = SHMT_VALUE_TENSOR};
    return SHMT_OK;
  }
  const shmt_tensors list = arg->v.tensors;
  SHMT_AUTO_LIST vec = {0, 0};
  SHMT_TRY(shmt__tensor_vec_alloc(list.len, &vec));
  for (int64_t k = 0; k < list.len; k++) {
    shmt_tensor* t = is_set(tangent) ? tangent->v.tensors.data[k] : NULL;
    if (t)
      vec.data[k] = shmt__tensor_ref(t);
    else if (list.data[k])
      SHMT_TRY(shmt__zero_tangent(list.data[k], &vec.data[k]));
  }
  *out = (shmt_value){.v.tensors = {vec.data, vec.len}, .tag = SHMT_VALUE_TENSORS};
  vec = (shmt_tensor_vec){0, 0};
  return SHMT_OK;
}

static bool is_tensors(const shmt_value* v) {
  return (v->tag == SHMT_VALUE_TENSOR && v->v.tensor) || v->tag == SHMT_VALUE_TENSORS;
}

static void values_fini(shmt_value* values, int n) {
  for (int i = 0; i < n; i++) shmt__value_fini(&values[i]);
}

/* --- kinds of records ----------------------------------------------------------------------------- */

shmt_status shmt__jvp_fill_tangents(const shmt_operator* op, const shmt__jvp* jvp, const shmt_value* args,
                                    const shmt_value* tangents, shmt_value* out) {
  for (int i = 0; i < op->schema->n_args; i++)
    if (jvp->arguments >> i & 1 && is_tensors(&args[i])) SHMT_TRY(filled(&args[i], &tangents[i], &out[i]));
  return SHMT_OK;
}

static shmt_status linear(const shmt__jvp_call* c, shmt_value* out) {
  const int n = c->op->schema->n_args;
  shmt_value fresh[SHMT_SCHEMA_MAX_ARGS] = {0}, args[SHMT_SCHEMA_MAX_ARGS];
  memcpy(args, c->args, (size_t)n * sizeof *args);
  shmt_status status = shmt__jvp_fill_tangents(c->op, c->jvp, c->args, c->tangents, fresh);
  for (int i = 0; i < n; i++)
    if (is_set(&fresh[i])) args[i] = fresh[i];
  if (status == SHMT_OK) status = shmt__operator_call(c->op, false, 0, args, out);
  values_fini(fresh, n);
  return status;
}

static shmt_status each(const shmt__jvp_call* c, shmt_value* out) {
  const int n = c->op->schema->n_args, n_results = c->op->schema->n_returns;
  shmt_value args[SHMT_SCHEMA_MAX_ARGS];
  memcpy(args, c->args, (size_t)n * sizeof *args);
  for (int i = 0; i < n; i++) {
    shmt_value term[SHMT_SCHEMA_MAX_RETURNS] = {0};
    if (!(c->jvp->arguments >> i & 1) || !is_set(&c->tangents[i])) continue;
    args[i] = c->tangents[i];
    SHMT_TRY(shmt__operator_call(c->op, false, 0, args, term));
    args[i] = c->args[i];
    shmt_status status = SHMT_OK;
    for (int r = 0; r < n_results && status == SHMT_OK; r++)
      if (term[r].tag == SHMT_VALUE_TENSOR && c->jvp->results >> r & 1) {
        status = shmt__jvp_add(&out[r].v.tensor, &term[r].v.tensor);
        out[r].tag = SHMT_VALUE_TENSOR;
      }
    values_fini(term, n_results);
    SHMT_TRY(status);
  }
  return SHMT_OK;
}

static shmt_status by_expression(const shmt__jvp_call* c, shmt_value* out) {
  shmt_tensor* tangents[SHMT_SCHEMA_MAX_RETURNS] = {0};
  shmt_status status = c->jvp->expression(c->args, c->results, c->tangents, tangents);
  for (int r = 0; r < c->op->schema->n_returns; r++)
    if (tangents[r]) out[r] = (shmt_value){.v.tensor = tangents[r], .tag = SHMT_VALUE_TENSOR};
  return status;
}

static shmt_status zero(const shmt__jvp_call* c, shmt_value* out) {
  for (int r = 0; r < c->op->schema->n_returns; r++) {
    if (!(c->jvp->results >> r & 1) || c->results[r].tag != SHMT_VALUE_TENSOR) continue;
    SHMT_TRY(shmt__zero_tangent(c->results[r].v.tensor, &out[r].v.tensor));
    out[r].tag = SHMT_VALUE_TENSOR;
  }
  return SHMT_OK;
}

shmt_status shmt__jvp_compute(const shmt__jvp_call* c, shmt_value* out) {
  switch (c->jvp->kind) {
    case SHMT_JVP_LINEAR: return linear(c, out);
    case SHMT_JVP_EACH: return each(c, out);
    case SHMT_JVP_EXPRESSION: return by_expression(c, out);
    case SHMT_JVP_ZERO: return zero(c, out);
    case SHMT_JVP_TWO_VJPS: return shmt__jvp_by_two_vjps(c, out);
    case SHMT_JVP_MISSING: break;
  }
  return SHMT_OK;
}
