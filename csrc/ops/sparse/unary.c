/* ops/sparse/unary.c -- functions of one tensor that map 0 to 0, of the values of a sparse tensor.
 *
 * One boxed kernel serves all operators tagged sparse_unary, with their in-place and out= forms. Entries of one place
 * are added first, since f(a) + f(b) is not f(a + b).
 */
#include "dispatch/registry.h"
#include "ops/sparse/sparse.h"

#include <string.h>

enum { MAX_ARGS = 8 };

/* Calls the functional operator on the values: `op` itself, or that of which it is the in-place or out= form. */
static shmt_status call_on_values(const shmt_operator* op, shmt_tensor* values, const shmt_value* args, int n_args,
                                  shmt_value* result) {
  shmt_value boxed[MAX_ARGS];
  SHMT_REQUIRE(n_args <= MAX_ARGS, SHMT_E_RUNTIME, "%s: %d arguments with a sparse tensor", op->schema->name, n_args);
  memcpy(boxed, args, (size_t)n_args * sizeof *args);
  boxed[0].v.tensor = values;
  return shmt__operator_call(op, true, SHMT_KEYBIT_CPU, boxed, result);
}

/* "sin_" and "sin.out" to "sin"; "pow_.Tensor_Scalar" and "pow.Tensor_Scalar_out" to "pow.Tensor_Scalar". */
static const shmt_operator* functional_form(const shmt_operator* op) {
  char name[160];
  const shmt_schema* s = op->schema;
  size_t n = strlen(s->name), m = strlen(s->overload);
  const bool is_out = s->n_args > 0 && (s->args[s->n_args - 1].flags & SHMT_ARG_OUT) != 0;
  const bool is_inplace = n > 0 && s->name[n - 1] == '_';
  if (!is_out && !is_inplace) return op;
  if (is_inplace) n--;
  if (is_out) m = m > 4 ? m - 4 : 0;
  if (n + m + 2 > sizeof name) return NULL;
  memcpy(name, s->name, n);
  name[n] = '.';
  memcpy(name + n + 1, s->overload, m);
  name[m > 0 ? n + 1 + m : n] = 0;
  return shmt__operator_lookup(name);
}

static shmt_status unary(void* ctx, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                         shmt_value* results) {
  SHMT_AUTO(shmt_tensor) coalesced = NULL;
  SHMT_AUTO(shmt_tensor) made = NULL;
  const shmt_schema* s = op->schema;
  const shmt_operator* plain = functional_form(op);
  shmt_tensor* self = args[0].v.tensor;
  shmt_tensor* to = NULL;
  (void)ctx, (void)ks;

  SHMT_REQUIRE(plain, SHMT_E_RUNTIME, "%s has no functional form", s->name);
  for (int i = 0; i < s->n_args; i++)
    if (s->args[i].flags & SHMT_ARG_WRITE) to = args[i].v.tensor;
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "%s: the result has layout Strided, but the tensor to write to is sparse",
               s->name);
  SHMT_REQUIRE(to != self || !shmt__is_coo(self) || self->sparse->is_coalesced, SHMT_E_RUNTIME,
               "%s requires coalesced input", s->name);
  if (shmt__is_coo(self))
    SHMT_TRY(shmt__as_coalesced(self, &coalesced));
  else
    coalesced = shmt__tensor_ref(self);
  SHMT_TRY(shmt__sparse_check_memory(coalesced->sparse));
  shmt_value value = {0};
  SHMT_TRY(call_on_values(plain, coalesced->sparse->values, args, plain->schema->n_args, &value));
  shmt_status status = shmt__sparse_with_new_values(coalesced, value.v.tensor, &made);
  shmt__value_fini(&value);
  SHMT_TRY(status);
  SHMT_TRY(shmt__sparse_finish(s->name, made, &to));
  /* In-place and out= forms return their argument: a new reference in a boxed result. */
  if (s->n_returns > 0) results[0] = (shmt_value){.v.tensor = shmt__tensor_ref(to), .tag = SHMT_VALUE_TENSOR};
  if (to == made) shmt__tensor_release(made);
  return SHMT_OK;
}

const shmt__kernel shmt__sparse_unary_kernel = {.boxed = unary, .where = "csrc/ops/sparse/unary.c"};
