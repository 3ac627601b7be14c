/* dispatch/trace_switch.c -- whether calls are printed, recorded, or neither. */
#include "dispatch/trace.h"

#include "generated/options.h"

bool shmt__trace_on;
_Atomic bool shmt__trace_prints, shmt__trace_records;

/* relaxed: calls see it soon. */
static void update(void) {
  const bool on = atomic_load_explicit(&shmt__trace_prints, memory_order_relaxed) ||
                  atomic_load_explicit(&shmt__trace_records, memory_order_relaxed);
  __atomic_store_n(&shmt__trace_on, on, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void trace_init(void) {
  (void)shmt__trace_set(shmt__options_get()->show_dispatch_trace);
}

bool shmt__trace_set(bool on) {
  const bool was = atomic_exchange_explicit(&shmt__trace_prints, on, memory_order_relaxed);
  update();
  return was;
}

void shmt__trace_profile(bool on) {
  atomic_store_explicit(&shmt__trace_records, on, memory_order_relaxed);
  update();
}
