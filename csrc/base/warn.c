/* base/warn.c -- formats a warning and hands it to the installed hook. */
#include "base/warn.h"

#include <stdarg.h>
#include <stdio.h>

static _Atomic(shmt__warn_hook) the_hook;
static _Atomic(bool) always;

void shmt__warn_set_hook(shmt__warn_hook hook) {
  /* release: whatever the hook reads was set up before it is seen. */
  atomic_store_explicit(&the_hook, hook, memory_order_release);
}

void shmt__warn_set_always(bool on) { atomic_store_explicit(&always, on, memory_order_relaxed); }

static shmt_status warn(const char* fmt, va_list args) {
  shmt__warn_hook hook = atomic_load_explicit(&the_hook, memory_order_acquire);
  char message[1024];

  if (!hook) return SHMT_OK;
  (void)vsnprintf(message, sizeof message, fmt, args);
  return hook(message);
}

shmt_status shmt__warn(const char* fmt, ...) {
  va_list args;

  va_start(args, fmt);
  shmt_status s = warn(fmt, args);
  va_end(args);
  return s;
}

shmt_status shmt__warn_once(_Atomic(bool)* warned, const char* fmt, ...) {
  va_list args;

  /* relaxed: no other memory depends on it, and exactly one of two threads warns. */
  if (atomic_exchange_explicit(warned, true, memory_order_relaxed) &&
      !atomic_load_explicit(&always, memory_order_relaxed))
    return SHMT_OK;
  va_start(args, fmt);
  shmt_status s = warn(fmt, args);
  va_end(args);
  return s;
}
