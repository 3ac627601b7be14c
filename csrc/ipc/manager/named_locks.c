/* ipc/manager/named_locks.c -- the manager's side of locks, semaphores and barriers: who uses which. See Note
 * [Syncs] in shm/named.h. */
#include "ipc/manager/names.h"
#include "os/futex.h"

#include <inttypes.h>
#include <string.h>

static void wake_sync(shmt__sync* s) {
  atomic_fetch_add_explicit(&s->wake, 1, memory_order_release);
  (void)shmt__os_futex_wake(&s->wake, INT32_MAX);
}

static void forget_in_sync(shmt__named_sync* own, shmt__sync* s, uint32_t client) {
  uint64_t users = 0, bit = (uint64_t)1 << (client % 64);
  if (!(own->users[client / 64] & bit)) return;
  for (uint32_t i = 0; i < own->n_slots; i++) {
    if (atomic_load_explicit(&s->slots[i], memory_order_relaxed) != client) continue;
    /* The bit first: it belongs to the slot's owner. */
    if (own->kind == SHMT_SYNC_BARRIER)
      atomic_fetch_and_explicit(&s->arrived, ~((uint64_t)1 << i), memory_order_seq_cst);
    /* release: what the dead client did with it is before what the next one does. */
    atomic_store_explicit(&s->slots[i], 0, memory_order_release);
  }
  own->users[client / 64] &= ~bit;
  atomic_fetch_and_explicit(&s->users[client / 64], ~bit, memory_order_relaxed);
  for (unsigned i = 0; i < SHMT_SYNC_USER_WORDS; i++) users |= own->users[i];
  if (users == 0) {
    own->kind = 0;
    atomic_store_explicit(&s->state, 0, memory_order_release);
  }
  wake_sync(s);
}

void shmt__syncs_forget_client(shmt__names* n, shmt__keeper* k, uint32_t client) {
  for (uint32_t i = 0; i < n->n_syncs; i++) {
    if (n->syncs[i].kind != 0) forget_in_sync(&n->syncs[i], &k->map.syncs[i], client);
  }
}

static uint32_t most_slots(uint32_t kind) {
  return kind == SHMT_SYNC_BARRIER ? SHMT_BARRIER_SLOTS : SHMT_SYNC_SLOTS;
}

/* Read what a predecessor left, once; what makes no sense is free from now on. */
static bool read_sync(shmt__named_sync* own, const shmt__sync* s) {
  if (atomic_load_explicit(&s->state, memory_order_acquire) == 0) return false;
  own->kind = s->kind;
  own->n_slots = s->n_slots;
  memcpy(own->text, s->text, SHMT_SYNC_NAME_BYTES);
  for (unsigned i = 0; i < SHMT_SYNC_USER_WORDS; i++)
    own->users[i] = atomic_load_explicit(&s->users[i], memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst); /* what was copied is what is looked at */
  return (own->kind == SHMT_SYNC_SEMAPHORE || own->kind == SHMT_SYNC_BARRIER) && own->n_slots >= 1 &&
         own->n_slots <= most_slots(own->kind) && own->text[0] != '\0' &&
         own->text[SHMT_SYNC_NAME_BYTES - 1] == '\0';
}

void shmt__syncs_adopt(shmt__names* n, const shmt__keeper* k) {
  for (uint32_t i = 0; i < n->n_syncs; i++) {
    if (read_sync(&n->syncs[i], &k->map.syncs[i])) continue;
    n->syncs[i] = (shmt__named_sync){0};
    atomic_store_explicit(&k->map.syncs[i].state, 0, memory_order_release);
  }
}

/* The slots, and who has arrived, are the members' own. */
void shmt__syncs_mend(const shmt__names* n, const shmt__keeper* k) {
  for (uint32_t i = 0; i < n->n_syncs; i++) {
    const shmt__named_sync* own = &n->syncs[i];
    shmt__sync* s = &k->map.syncs[i];
    uint32_t state = own->kind != 0;
    if (state) {
      if (s->kind != own->kind) s->kind = own->kind;
      if (s->n_slots != own->n_slots) s->n_slots = own->n_slots;
      if (memcmp(s->text, own->text, SHMT_SYNC_NAME_BYTES) != 0)
        memcpy(s->text, own->text, SHMT_SYNC_NAME_BYTES);
      for (unsigned j = 0; j < SHMT_SYNC_USER_WORDS; j++) {
        if (atomic_load_explicit(&s->users[j], memory_order_relaxed) != own->users[j])
          atomic_store_explicit(&s->users[j], own->users[j], memory_order_relaxed);
      }
    }
    if (atomic_load_explicit(&s->state, memory_order_relaxed) != state)
      atomic_store_explicit(&s->state, state, memory_order_release);
  }
}

static void begin_sync(shmt__named_sync* own, shmt__sync* s, const char* name, uint32_t kind,
                       uint32_t n_slots) {
  *own = (shmt__named_sync){.kind = kind, .n_slots = n_slots};
  strncpy(own->text, name, SHMT_SYNC_NAME_BYTES - 1);
  memset(s, 0, sizeof *s);
  s->kind = kind;
  s->n_slots = n_slots;
  memcpy(s->text, own->text, SHMT_SYNC_NAME_BYTES);
  /* release: a manager that takes over sees it whole or not at all. */
  atomic_store_explicit(&s->state, 1, memory_order_release);
}

shmt_status shmt__syncs_open(shmt__names* n, shmt__keeper* k, uint32_t client, const char* name,
                             uint32_t kind, uint32_t n_slots, uint32_t* out_index) {
  shmt__named_sync *unused = NULL, *found = NULL;
  SHMT_REQUIRE(n->n_syncs > 0, SHMT_E_VALUE, "this session has no names");
  SHMT_REQUIRE(kind == SHMT_SYNC_SEMAPHORE || kind == SHMT_SYNC_BARRIER, SHMT_E_VALUE,
               "no kind %" PRIu32 " of lock", kind);
  SHMT_REQUIRE(name[0] != 0 && strlen(name) < SHMT_SYNC_NAME_BYTES, SHMT_E_VALUE,
               "the name of a lock, semaphore or barrier must have 1 to %d bytes, got %zu",
               SHMT_SYNC_NAME_BYTES - 1, strlen(name));
  SHMT_REQUIRE(n_slots >= 1 && n_slots <= most_slots(kind), SHMT_E_VALUE,
               "\"%s\" needs 1 to %" PRIu32 " places, got %" PRIu32, name, most_slots(kind), n_slots);
  for (uint32_t i = 0; i < n->n_syncs && found == NULL; i++) {
    shmt__named_sync* own = &n->syncs[i];
    if (own->kind == 0 && unused == NULL) unused = own;
    if (own->kind != 0 && strcmp(own->text, name) == 0) found = own;
  }
  SHMT_REQUIRE(found == NULL || (found->kind == kind && found->n_slots == n_slots), SHMT_E_VALUE,
               "\"%s\" is in use as a %s of %" PRIu32 " places, not a %s of %" PRIu32, name,
               found->kind == SHMT_SYNC_BARRIER ? "barrier" : "semaphore", found->n_slots,
               kind == SHMT_SYNC_BARRIER ? "barrier" : "semaphore", n_slots);
  if (found == NULL) {
    SHMT_REQUIRE(unused != NULL, SHMT_E_RUNTIME,
                 "all %" PRIu32 " locks, semaphores and barriers of the service are in use",
                 n->n_syncs);
    begin_sync(unused, &k->map.syncs[unused - n->syncs], name, kind, n_slots);
    found = unused;
  }
  uint32_t index = (uint32_t)(found - n->syncs);
  uint64_t bit = (uint64_t)1 << (client % 64);
  found->users[client / 64] |= bit;
  atomic_fetch_or_explicit(&k->map.syncs[index].users[client / 64], bit, memory_order_relaxed);
  *out_index = index;
  return SHMT_OK;
}
