/* dispatch/operator_call.c -- calls with boxed arguments and results. */
#include "dispatch/registry.h"
#include "dispatch/trace.h"
#include "tensor/tensor.h"

/* The keys of a call without tensors. BackendSelect decides when the operator has a kernel there, else the device
 * argument. */
static shmt_keyset factory_keys(const shmt_operator* op, const shmt_value* args) {
  if (atomic_load_explicit(&op->mask, memory_order_relaxed) & SHMT_KEYBIT_BackendSelect)
    return SHMT_KEYBIT_BackendSelect;
  const shmt_schema* s = op->schema;
  shmt_keyset backend = SHMT_KEYBIT_CPU;
  for (int i = 0; i < s->n_args; i++)
    if (s->args[i].type == SHMT_TYPE_DEVICE && args[i].tag == SHMT_VALUE_INT &&
        args[i].v.i == SHMT_META)
      backend = SHMT_KEYBIT_Meta;
  return backend;
}

static shmt_keyset argument_keys(const shmt_operator* op, const shmt_value* args) {
  shmt_keyset ks = 0;
  for (int i = 0, n = op->schema->n_args; i < n; i++) {
    if (args[i].tag == SHMT_VALUE_TENSOR) {
      if (args[i].v.tensor) ks |= shmt__tensor_keys(args[i].v.tensor);
    } else if (args[i].tag == SHMT_VALUE_TENSORS) {
      const shmt_tensors list = args[i].v.tensors;
      for (int64_t k = 0; k < list.len; k++)
        if (list.data[k]) ks |= shmt__tensor_keys(list.data[k]);
    }
  }
  return SHMT_LIKELY(ks != 0) ? ks : factory_keys(op, args);
}

static shmt_status call_kernel(const shmt__kernel* k, const shmt_operator* op, shmt_keyset ks,
                               const shmt_value* args, shmt_value* results) {
  if (SHMT_LIKELY(k->unboxed && op->call_unboxed))
    return op->call_unboxed(k->unboxed, op, ks, args, results);
  return k->boxed(k->ctx, op, ks, args, results);
}

static SHMT_COLD shmt_status traced_call(const shmt__kernel* k, const shmt_operator* op,
                                         bool redispatch, shmt_keyset ks, const shmt_value* args,
                                         shmt_value* results) {
  const int done = shmt__trace_enter(op, ks, redispatch, args);
  shmt_status status = call_kernel(k, op, ks, args, results);
  shmt__trace_leave(done);
  return status;
}

static shmt_status call(const shmt__kernel* k, const shmt_operator* op, bool redispatch,
                        shmt_keyset ks, const shmt_value* args, shmt_value* results) {
  shmt_status status = SHMT_UNLIKELY(shmt__trace_on)
                           ? traced_call(k, op, redispatch, ks, args, results)
                           : call_kernel(k, op, ks, args, results);
  if (SHMT_UNLIKELY(status != SHMT_OK)) shmt__results_drop(results, op->schema->n_returns);
  return status;
}

shmt_status shmt__operator_call(const shmt_operator* op, bool redispatch, shmt_keyset ks,
                                const shmt_value* args, shmt_value* results) {
  if (!redispatch) ks = shmt__call_keys(argument_keys(op, args));
  const shmt__kernel* k = shmt__operator_find(op, ks);
  if (SHMT_UNLIKELY(!k))
    return shmt__operator_alive(op) ? SHMT_E_NOT_IMPLEMENTED
                                    : SHMT_E_RUNTIME; /* as recorded by find */
  return call(k, op, redispatch, ks, args, results);
}

void shmt__result_drop(shmt_tensor** result) {
  shmt__tensor_release(*result);
  *result = NULL;
}

void shmt__results_drop(shmt_value* results, int n) {
  for (int i = 0; i < n; i++) shmt__value_fini(&results[i]);
}
