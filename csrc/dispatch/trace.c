/* dispatch/trace.c -- printing each call and redispatch with its key. */
#include "dispatch/trace.h"

#include "dispatch/registry.h"
#include "generated/options.h"

#include <stdio.h>

bool shmt__trace_on;
static _Thread_local int depth;

__attribute__((constructor)) static void trace_init(void) {
  shmt__trace_on = shmt__options_get()->show_dispatch_trace;
}

bool shmt__trace_set(bool on) {
  bool was = shmt__trace_on;
  shmt__trace_on = on;
  return was;
}

void shmt__trace_enter(const shmt_operator* op, shmt_keyset ks, bool redispatch) {
  char name[256];
  int at = depth < 64 ? depth : 64;
  depth++;
  ks &= atomic_load_explicit(&op->mask, memory_order_relaxed);
  const bool own_namespace = __builtin_strchr(op->schema->name, ':') != NULL;
  fprintf(stderr, "%*s[%s] op=[%s%s], key=[%s]\n", at, "", redispatch ? "redispatch" : "call",
          own_namespace ? "" : "shmtensor::", shmt__operator_name(op, name, sizeof name),
          ks ? shmt__dispatch_key_name(shmt__highest_key(ks)) : "Undefined");
}

void shmt__trace_leave(void) {
  if (depth > 0) depth--;
}
