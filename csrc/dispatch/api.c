/* dispatch/api.c -- the functions of api/dispatch.h: inspecting the dispatcher. */
#include "api/dispatch.h"

#include "dispatch/registry.h"
#include "dispatch/trace.h"

const char* shmt_operator_schema(int64_t i) {
  const shmt_operator* op = i < 0 ? NULL : shmt__operator_at((size_t)i);
  return op ? op->schema->text : NULL;
}

const char* shmt_find_operator_schema(const char* name) {
  const shmt_operator* op = shmt__operator_lookup(name);
  return op ? op->schema->text : NULL;
}

const char* shmt_dispatch_key_name(int key) { return shmt__dispatch_key_name(key); }

uint64_t shmt_operator_keys(const char* name) {
  const shmt_operator* op = shmt__operator_lookup(name);
  /* relaxed: a snapshot for the reader's eyes. */
  return op ? atomic_load_explicit(&op->mask, memory_order_relaxed) : 0;
}

uint64_t shmt_included_keys(void) { return shmt__tls_keys.included; }
int shmt_set_dispatch_trace(int on) { return shmt__trace_set(on != 0); }
