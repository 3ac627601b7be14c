/* autograd/vmap/levels.c -- the stack of function transforms. */
#include "autograd/vmap/levels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
  shmt__level* levels; /* SHMT_MAX_LEVELS of them while there are any */
  int n;               /* entered */
  int count;           /* those that calls see: n, or fewer inside of a batching rule */
  int n_vmap;          /* among those that calls see */
  int n_calls;         /* of shmt__level_call_below that are under way: the array stays */
  int own_work;        /* the count at which an operator works with ordinary tensors alone; 0: none does */
} stack;

static void update_key(void) {
  stack.n_vmap = 0;
  for (int i = 0; i < stack.count; i++) stack.n_vmap += stack.levels[i].kind == SHMT_LEVEL_VMAP;
  if (stack.n_vmap)
    shmt__tls_keys.included |= SHMT_KEYBIT_FuncTorchDynamicLayerFrontMode;
  else
    shmt__tls_keys.included &= ~(shmt_keyset)SHMT_KEYBIT_FuncTorchDynamicLayerFrontMode;
}

shmt_status shmt__level_push(shmt__level_kind kind, int64_t batch_size, shmt__randomness randomness, int* out) {
  static _Atomic(uint64_t) last_id;
  if (!stack.levels) stack.levels = calloc(SHMT_MAX_LEVELS, sizeof *stack.levels);
  SHMT_REQUIRE(stack.levels != NULL, SHMT_E_NOMEM, "function transforms: no memory for their levels");
  SHMT_REQUIRE(stack.count < SHMT_MAX_LEVELS, SHMT_E_RUNTIME, "function transforms are nested more than %d deep",
               SHMT_MAX_LEVELS);
  SHMT_REQUIRE(stack.count == stack.n, SHMT_E_RUNTIME, "a function transform was called inside of a batching rule");
  stack.levels[stack.n++] = (shmt__level){
      .kind = kind,
      .id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1,
      .batch_size = batch_size,
      .randomness = randomness,
      .grad_off = shmt__tls_grad_mode_off,
      .excluded = shmt__tls_keys.excluded,
  };
  *out = stack.count = stack.n;
  update_key();
  return SHMT_OK;
}

shmt_status shmt__level_pop(void) {
  SHMT_REQUIRE(stack.n > 0, SHMT_E_RUNTIME, "no function transform is active on this thread");
  stack.count = --stack.n;
  update_key();
  if (stack.n == 0 && stack.n_calls == 0) {
    free(stack.levels);
    stack.levels = NULL;
  }
  return SHMT_OK;
}

int shmt__level_count(void) { return stack.count; }

const shmt__level* shmt__level_at(int level) { return &stack.levels[level - 1]; }

int shmt__level_of_vmap(void) {
  int level = stack.n_vmap ? stack.count : 0;
  while (level > 0 && stack.levels[level - 1].kind != SHMT_LEVEL_VMAP) level--;
  return level;
}

bool shmt__level_adopts(void) {
  return stack.n_vmap > 0 && stack.own_work != stack.count && stack.levels[stack.count - 1].kind != SHMT_LEVEL_VMAP;
}

int shmt__level_begin_own_work(void) {
  const int before = stack.own_work;
  stack.own_work = stack.count;
  return before;
}

void shmt__level_end_own_work(int before) { stack.own_work = before; }

bool shmt__level_is_live(const shmt__batched* b) {
  return b->level <= stack.count && stack.levels[b->level - 1].id == b->level_id;
}

shmt__level_guard shmt__level_below(int level) {
  const shmt__level_guard guard = {stack.count, shmt__tls_grad_mode_off, shmt__tls_keys};
  for (int i = level; i < stack.count; i++) { /* the lowest grad level above this one has the mode for lower levels */
    if (stack.levels[i].kind != SHMT_LEVEL_GRAD) continue;
    shmt__tls_grad_mode_off = stack.levels[i].grad_off;
    break;
  }
  const shmt_keyset of_recording = SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ADInplaceOrView | SHMT_KEYBIT_ForwardAD;
  shmt__tls_keys.excluded =
      (shmt__tls_keys.excluded & ~of_recording) | (stack.levels[level - 1].excluded & of_recording);
  stack.count = level - 1;
  update_key();
  return guard;
}

void shmt__level_restore(const shmt__level_guard* guard) {
  stack.count = guard->count;
  shmt__tls_grad_mode_off = guard->grad_off;
  update_key();
  shmt__tls_keys = guard->keys;
}

shmt_status shmt__level_call_below(int level, shmt_status (*call)(void* arg), void* arg) {
  SHMT_BELOW_LEVEL(level);
  shmt__level hidden[SHMT_MAX_LEVELS];
  const int n = stack.n, n_hidden = n - stack.count, own_work = stack.own_work;
  memcpy(hidden, stack.levels + stack.count, (size_t)n_hidden * sizeof *hidden);
  stack.n = stack.count; /* what the call enters goes where the hidden levels are */
  stack.own_work = 0;
  stack.n_calls++;
  shmt_status status = call(arg);
  stack.n_calls--;
  stack.own_work = own_work;
  memcpy(stack.levels + (n - n_hidden), hidden, (size_t)n_hidden * sizeof *hidden);
  stack.n = n;
  return status;
}
