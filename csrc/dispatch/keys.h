/* dispatch/keys.h -- dispatch keys: their names, the thread's key sets and its recording state. */
#ifndef SHMT_DISPATCH_KEYS_H
#define SHMT_DISPATCH_KEYS_H

#include "api/keys.h"
#include "base/error.h"

/* "CPU", "CompositeImplicitAutograd", ...; "Undefined" for -1. */
const char* shmt__dispatch_key_name(int key);
/* The key of that name; -1 when there is none. "" and "CatchAll" are the same. "AutogradCPU" means
 * Autograd. */
int shmt__key_find(const char* name);

/* The thread's included and excluded keys. */
typedef struct shmt__thread_keys {
  shmt_keyset included;
  shmt_keyset excluded;
} shmt__thread_keys;
extern _Thread_local shmt__thread_keys shmt__tls_keys __attribute__((tls_model("initial-exec")));

/* Whether this thread's calls are recorded; set by the autograd layer. */
extern _Thread_local bool shmt__tls_grad_mode_off __attribute__((tls_model("initial-exec")));
static inline bool shmt__grad_enabled(void) { return !shmt__tls_grad_mode_off; }

/* SHMT_KEYS_GUARD(guard); shmt__tls_keys.excluded |= ...; the keys come back at the end of the
 * scope. */
static inline void shmt__auto_thread_keys(shmt__thread_keys* saved) { shmt__tls_keys = *saved; }
#define SHMT_KEYS_GUARD(name) \
  __attribute__((cleanup(shmt__auto_thread_keys), unused)) shmt__thread_keys name = shmt__tls_keys

static inline int shmt__highest_key(shmt_keyset ks) { return 63 - __builtin_clzll(ks); }

/* The keys a call from outside starts with. */
static inline shmt_keyset shmt__call_keys(shmt_keyset tensors) {
  return (tensors | shmt__tls_keys.included) & ~shmt__tls_keys.excluded;
}
/* The bits below key. */
static inline shmt_keyset shmt__keys_below(shmt_keyset ks, int key) { return ks & (((shmt_keyset)1 << key) - 1); }

#endif
