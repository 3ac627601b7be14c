/* base/warn.c -- formats a warning and hands it to the installed hook. */
#include "base/warn.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic(shmt__warn_hook) the_hook;

void shmt__warn_set_hook(shmt__warn_hook hook) {
  /* release: whatever the hook reads was set up before it is seen. */
  atomic_store_explicit(&the_hook, hook, memory_order_release);
}

shmt_status shmt__warn(const char* fmt, ...) {
  shmt__warn_hook hook = atomic_load_explicit(&the_hook, memory_order_acquire);
  char message[1024];
  va_list args;

  if (!hook) return SHMT_OK;
  va_start(args, fmt);
  (void)vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return hook(message);
}
