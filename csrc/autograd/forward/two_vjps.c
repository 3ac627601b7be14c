/* autograd/forward/two_vjps.c -- the tangent of any operator that has a vjp, by two vector-Jacobian products.
 *
 *   x, t  ──>  y = f(x)                 recorded, with x as an input of its own
 *              g(u) = J^H u             the first product, of a cotangent u of y; recorded too
 *              <g, t> in u: J t         the second: g is linear in u, and its transposed Jacobian is J
 *
 * u is ones: where a linear function is differentiated does not matter, but some are written with logarithms of u.
 */
#include "autograd/forward/two_vjps.h"

#include "autograd/engine/engine.h"
#include "autograd/forward/tangents.h"
#include "autograd/meta.h"
#include "dispatch/registry.h"
#include "generated/ops.h"
#include "ops/scalar_expression.h"

#include <stdlib.h>
#include <string.h>

/* Tensors of a call in one row. */
typedef struct row {
  shmt_tensor** data; /* owned references; entries may be NULL */
  uint32_t n;
} row;

static void row_fini(row* r) {
  for (uint32_t i = 0; r->data && i < r->n; i++) shmt__tensor_release(r->data[i]);
  free(r->data);
}
#define AUTO_ROW __attribute__((cleanup(row_fini))) row

static shmt_status row_alloc(uint32_t n, row* r) {
  r->data = calloc((size_t)n + 1, sizeof *r->data);
  SHMT_REQUIRE(r->data, SHMT_E_NOMEM, "out of memory for %u tensors", n);
  r->n = n;
  return SHMT_OK;
}

static uint32_t count(const shmt_value* values, int n) {
  int64_t total = 0;
  for (int i = 0; i < n; i++) total += values[i].tag == SHMT_VALUE_TENSORS ? values[i].v.tensors.len : 1;
  return (uint32_t)total;
}

/* An input of the recorded function in place of x: a view where x has a history, which the tangent then has too. */
static shmt_status as_input(shmt_tensor* x, bool recorded, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) fresh = NULL;
  if (recorded && shmt__tensor_requires_grad(x)) return shmt_op_alias(x, out);
  if (x->flags & SHMT_TENSOR_INFERENCE)
    SHMT_TRY(shmt_op_clone(x, SHMT_MEMORY_FORMAT_NONE, &fresh));
  else
    SHMT_TRY(shmt__tensor_detached(x, &fresh));
  SHMT_TRY(shmt__tensor_set_requires_grad(fresh, true));
  fresh->autograd->of_transform = true; /* nobody else will ask for its gradient */
  SHMT_TRY(shmt__tangents_copy(fresh, x)); /* those of outer levels */
  *out = SHMT_TAKE(fresh);
  return SHMT_OK;
}

/* A copy of a call's arguments with its dual tensors replaced. */
typedef struct inputs {
  shmt_value args[SHMT_SCHEMA_MAX_ARGS];
  shmt_tensor** lists[SHMT_SCHEMA_MAX_ARGS]; /* memory of replaced lists */
  row xs, ts;                             /* the replacements and their tangents */
} inputs;

static void inputs_fini(inputs* in) {
  for (int i = 0; i < SHMT_SCHEMA_MAX_ARGS; i++) free(in->lists[i]);
  row_fini(&in->xs);
  row_fini(&in->ts);
}

static shmt_status replace(inputs* in, shmt_tensor* x, shmt_tensor* t, bool recorded, shmt_tensor** at) {
  shmt_tensor** fresh = &in->xs.data[in->xs.n];
  SHMT_TRY(as_input(x, recorded, fresh));
  in->xs.n++;
  in->ts.data[in->ts.n++] = shmt__tensor_ref(t);
  *at = *fresh;
  return SHMT_OK;
}

static shmt_status replace_all(const shmt__jvp_call* c, bool recorded, inputs* in) {
  const int n = c->op->schema->n_args;
  memcpy(in->args, c->args, (size_t)n * sizeof *in->args);
  SHMT_TRY(row_alloc(count(c->args, n), &in->xs));
  SHMT_TRY(row_alloc(in->xs.n, &in->ts));
  in->xs.n = in->ts.n = 0;
  for (int i = 0; i < n; i++) {
    const shmt_value* t = &c->tangents[i];
    if (!(c->jvp->arguments >> i & 1)) continue;
    if (t->tag == SHMT_VALUE_TENSOR) {
      SHMT_TRY(replace(in, c->args[i].v.tensor, t->v.tensor, recorded, &in->args[i].v.tensor));
    } else if (t->tag == SHMT_VALUE_TENSORS) {
      const shmt_tensors list = c->args[i].v.tensors;
      shmt_tensor** fresh = in->lists[i] = calloc((size_t)list.len + 1, sizeof *fresh);
      SHMT_REQUIRE(fresh, SHMT_E_NOMEM, "out of memory for a list of tensors");
      in->args[i].v.tensors = (shmt_tensors){fresh, list.len};
      for (int64_t k = 0; k < list.len; k++) {
        fresh[k] = list.data[k];
        if (t->v.tensors.data[k]) SHMT_TRY(replace(in, list.data[k], t->v.tensors.data[k], recorded, &fresh[k]));
      }
    }
  }
  return SHMT_OK;
}

/* The results that depend on an input, and a cotangent of each. */
static shmt_status gather_results(const shmt_value* results, int n, row* ys, row* us) {
  SHMT_TRY(row_alloc(count(results, n), ys));
  SHMT_TRY(row_alloc(ys->n, us));
  ys->n = us->n = 0;
  for (int r = 0; r < n; r++) {
    shmt_tensor* const one = results[r].tag == SHMT_VALUE_TENSOR ? results[r].v.tensor : NULL;
    const shmt_tensors list =
        results[r].tag == SHMT_VALUE_TENSORS ? results[r].v.tensors : (shmt_tensors){&one, one ? 1 : 0};
    for (int64_t k = 0; k < list.len; k++) {
      if (!list.data[k] || !shmt__tensor_requires_grad(list.data[k])) continue;
      ys->data[ys->n++] = shmt__tensor_ref(list.data[k]);
      SHMT_TRY(shmt__zero_tangent(list.data[k], &us->data[us->n++]));
      SHMT_TRY(shmt_op_fill__Scalar(us->data[us->n - 1], shmt__scalar_int(1)));
      SHMT_TRY(shmt__tensor_set_requires_grad(us->data[us->n - 1], true));
      us->data[us->n - 1]->autograd->of_transform = true;
    }
  }
  return SHMT_OK;
}

shmt_status shmt__jvp_refuse(const shmt_operator* op) {
  SHMT_FAIL(SHMT_E_NOT_IMPLEMENTED,
            "Trying to use forward AD with %s that does not support it because it has not been implemented yet.",
            op->schema->name);
}

/* The gradient was computed without a record of how it depends on the cotangent: then nothing says what J t is. A
 * gradient of zeros is that of an input that the results do not depend on. */
static shmt_status check_unrecorded(const shmt__jvp_call* c, shmt_tensor* gradient) {
  SHMT_AUTO(shmt_tensor) any = NULL;
  shmt_scalar found;
  shmt_tensor* all = shmt__all_examples(gradient);
  if (all->numel == 0 || shmt__tensor_is_meta(all)) return SHMT_OK;
  SHMT_TRY(shmt_op_any(all, &any));
  SHMT_TRY(shmt__tensor_item(any, &found));
  return !shmt__scalar_to_bool(found) ? SHMT_OK : shmt__jvp_refuse(c->op);
}

/* products: per cotangent, J t or NULL. */
static shmt_status two_products(const shmt__jvp_call* c, const inputs* in, const row* ys, const row* us,
                                bool recorded, row* products) {
  AUTO_ROW gradients = {0};
  AUTO_ROW linear = {0}, tangents = {0};
  SHMT_TRY(row_alloc(in->xs.n, &gradients));
  SHMT_TRY(row_alloc(in->xs.n, &linear));
  SHMT_TRY(row_alloc(in->xs.n, &tangents));
  SHMT_TRY(row_alloc(us->n, products));
  shmt__backward_args first = {.tensors = ys->data,
                               .grads = us->data,
                               .n_tensors = ys->n,
                               .inputs = in->xs.data,
                               .n_inputs = in->xs.n,
                               .captured = gradients.data,
                               .keep_graph = true,
                               .create_graph = true,
                               .allow_unused = true};
  SHMT_TRY(shmt__backward_run(&first));
  linear.n = tangents.n = 0;
  for (uint32_t i = 0; i < in->xs.n; i++) {
    if (!gradients.data[i]) continue;
    if (!shmt__tensor_requires_grad(gradients.data[i])) {
      SHMT_TRY(check_unrecorded(c, gradients.data[i]));
      continue;
    }
    linear.data[linear.n++] = shmt__tensor_ref(gradients.data[i]);
    tangents.data[tangents.n++] = shmt__tensor_ref(in->ts.data[i]);
  }
  if (linear.n == 0) return SHMT_OK;
  shmt__backward_args second = {.tensors = linear.data,
                                .grads = tangents.data,
                                .n_tensors = linear.n,
                                .inputs = us->data,
                                .n_inputs = us->n,
                                .captured = products->data,
                                .keep_graph = recorded,
                                .create_graph = recorded,
                                .allow_unused = true};
  return shmt__backward_run(&second);
}

/* The tangent of one result: its product, zeros, or nothing for a result that has none. */
static shmt_status tangent_of_result(shmt_tensor* y, const row* ys, const row* products, shmt_tensor** out) {
  *out = NULL;
  if (!y || !shmt__dtype_differentiable(y->dtype)) return SHMT_OK;
  for (uint32_t i = 0; i < ys->n; i++)
    if (ys->data[i] == y && products->data[i]) {
      *out = shmt__tensor_ref(products->data[i]);
      return SHMT_OK;
    }
  return shmt__zero_tangent(y, out);
}

static shmt_status distribute(const shmt__jvp_call* c, const shmt_value* results, const row* ys, const row* products,
                              shmt_value* out) {
  for (int r = 0; r < c->op->schema->n_returns; r++) {
    if (!(c->jvp->results >> r & 1)) continue;
    if (results[r].tag == SHMT_VALUE_TENSOR) {
      SHMT_TRY(tangent_of_result(results[r].v.tensor, ys, products, &out[r].v.tensor));
      if (out[r].v.tensor) out[r].tag = SHMT_VALUE_TENSOR;
    } else if (results[r].tag == SHMT_VALUE_TENSORS) {
      const shmt_tensors list = results[r].v.tensors;
      SHMT_AUTO_LIST vec = {0, 0};
      SHMT_TRY(shmt__tensor_vec_alloc(list.len, &vec));
      for (int64_t k = 0; k < list.len; k++) SHMT_TRY(tangent_of_result(list.data[k], ys, products, &vec.data[k]));
      out[r] = (shmt_value){.v.tensors = {vec.data, vec.len}, .tag = SHMT_VALUE_TENSORS};
      vec = (shmt_tensor_vec){0, 0};
    }
  }
  return SHMT_OK;
}

static bool requires_grad(const shmt_value* values, int n) {
  for (int i = 0; i < n; i++) {
    if (values[i].tag == SHMT_VALUE_TENSOR && values[i].v.tensor && shmt__any_requires_grad(values[i].v.tensor))
      return true;
    for (int64_t k = 0; values[i].tag == SHMT_VALUE_TENSORS && k < values[i].v.tensors.len; k++)
      if (values[i].v.tensors.data[k] && shmt__any_requires_grad(values[i].v.tensors.data[k])) return true;
  }
  return false;
}

static void restore_inference_mode(const bool* was) { shmt__tls_inference_mode = *was; }

shmt_status shmt__jvp_by_two_vjps(const shmt__jvp_call* c, shmt_value* out) {
  const int n = c->op->schema->n_args, n_results = c->op->schema->n_returns;
  const bool recorded = shmt__grad_enabled() && (requires_grad(c->args, n) || requires_grad(c->tangents, n));
  __attribute__((cleanup(restore_inference_mode), unused)) bool inference = shmt__tls_inference_mode;
  shmt__tls_inference_mode = false;
  SHMT_KEYS_GUARD(keys);
  shmt__tls_keys.excluded &= ~(shmt_keyset)(SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ADInplaceOrView);
  SHMT_GRAD_MODE(true);
  __attribute__((cleanup(inputs_fini))) inputs in = {0};
  shmt_value results[SHMT_SCHEMA_MAX_RETURNS] = {0};
  AUTO_ROW ys = {0}, us = {0}, products = {0};
  SHMT_TRY(replace_all(c, recorded, &in));
  shmt_status status = shmt__operator_call(c->op, false, 0, in.args, results);
  if (status == SHMT_OK) status = gather_results(results, n_results, &ys, &us);
  if (status == SHMT_OK && ys.n) status = two_products(c, &in, &ys, &us, recorded, &products);
  if (status == SHMT_OK) status = distribute(c, results, &ys, &products, out);
  shmt__results_drop(results, n_results);
  return status;
}
