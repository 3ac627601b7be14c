/* dispatch/keys.c -- names of keys, the thread's key sets and its recording state. */
#include "dispatch/keys.h"

#include "generated/key_names.h"

#include <string.h>

_Thread_local bool shmt__tls_grad_mode_off __attribute__((tls_model("initial-exec")));
_Thread_local shmt__thread_keys shmt__tls_keys __attribute__((tls_model("initial-exec")));

const char* shmt__dispatch_key_name(int key) {
  if (key >= 0 && key < SHMT_N_KEYS) return shmt__key_names[key];
  if (key >= 64 && key < 64 + SHMT_N_ALIAS_KEYS) return shmt__alias_key_names[key - 64];
  return "Undefined";
}

int shmt__key_find(const char* name) {
  for (int key = 0; key < SHMT_N_KEYS; key++)
    if (strcmp(shmt__dispatch_key_name(key), name) == 0) return key;
  for (int key = 64; key < 64 + SHMT_N_ALIAS_KEYS; key++)
    if (strcmp(shmt__dispatch_key_name(key), name) == 0) return key;
  if (*name == 0) return SHMT_ALIAS_CatchAll;
  if (strcmp(name, "AutogradCPU") == 0 || strcmp(name, "AutogradMeta") == 0)
    return SHMT_KEY_Autograd;
  return -1;
}
