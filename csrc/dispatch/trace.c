/* dispatch/trace.c -- printing each call and redispatch with its key, and showing calls to the profiler. */
#include "dispatch/trace.h"

#include "dispatch/profile.h"
#include "dispatch/registry.h"

#include <stdio.h>

enum { PRINTED = 1, RECORDED = 2 }; /* what was done at the begin of a call */
static _Thread_local int depth;

static void print(const shmt_operator* op, shmt_keyset ks, bool redispatch) {
  char name[256];
  int at = depth < 64 ? depth : 64;
  depth++;
  ks &= atomic_load_explicit(&op->mask, memory_order_relaxed);
  const bool own_namespace = __builtin_strchr(op->schema->name, ':') != NULL;
  fprintf(stderr, "%*s[%s] op=[%s%s], key=[%s]\n", at, "", redispatch ? "redispatch" : "call",
          own_namespace ? "" : "shmtensor::", shmt__operator_name(op, name, sizeof name),
          ks ? shmt__dispatch_key_name(shmt__highest_key(ks)) : "Undefined");
}

int shmt__trace_enter(const shmt_operator* op, shmt_keyset ks, bool redispatch, const shmt_value* args) {
  int done = 0;
  if (atomic_load_explicit(&shmt__trace_prints, memory_order_relaxed)) {
    print(op, ks, redispatch);
    done |= PRINTED;
  }
  /* A call is one event, however many keys it passes. */
  if (!redispatch && atomic_load_explicit(&shmt__trace_records, memory_order_relaxed)) {
    shmt__profile_enter(op, args);
    done |= RECORDED;
  }
  return done;
}

void shmt__trace_leave(int done) {
  if ((done & PRINTED) && depth > 0) depth--;
  if (done & RECORDED) shmt__profile_leave();
}
