/* ipc/manager/named_locks.c -- the manager's side of named locks, semaphores and barriers: who uses which. See Note
 * [Named locks] in shm/names.h. */
#include "ipc/manager/named_locks.h"

#include "ipc/manager/names.h"
#include "os/futex.h"
#include "os/memfd.h"

#include <inttypes.h>
#include <string.h>

static void wake_lock(shmt__named_lock* s) {
  atomic_fetch_add_explicit(&s->wake, 1, memory_order_release);
  (void)shmt__os_futex_wake(&s->wake, INT32_MAX);
}

static void add_user(shmt__lock_entry* own, shmt__named_lock* s, uint32_t client) {
  const uint64_t bit = (uint64_t)1 << (client % 64);
  own->users[client / 64] |= bit;
  atomic_fetch_or_explicit(&s->users[client / 64], bit, memory_order_relaxed);
}

/* Is it the number of a client? Any member can write into a slot. */
static bool is_client(const shmt__arena_manager* k, uint64_t number) {
  return number > 0 && number < SHMT_MAX_CLIENTS && k->clients[number].state != SHMT_CLIENT_NONE;
}

/* The client's process may be another client by now, and have written that number into its slots; then that one is a
 * user. If it was killed soon after that, and the other number was freed first, nobody has the slot any more. */
static void free_slots_of(shmt__lock_entry* own, shmt__named_lock* s, const shmt__arena_manager* k, uint32_t client) {
  uint64_t users = 0, bit = (uint64_t)1 << (client % 64);
  if (!(own->users[client / 64] & bit)) return;
  for (uint32_t i = 0; i < own->n_slots; i++) {
    /* seq_cst: the process wrote there before it gave up the lock of the number that we have found free. */
    const uint64_t number = atomic_load_explicit(&s->slots[i], memory_order_seq_cst);
    if (number == 0) continue;
    if (number != client && is_client(k, number)) {
      add_user(own, s, (uint32_t)number);
      continue;
    }
    /* Clear the bit first: it belongs to the slot's owner. */
    if (own->kind == SHMT_NAMED_LOCK_BARRIER)
      atomic_fetch_and_explicit(&s->arrived, ~((uint64_t)1 << i), memory_order_seq_cst);
    /* release: what the dead client did under the lock comes before what the next one does. */
    atomic_store_explicit(&s->slots[i], 0, memory_order_release);
  }
  own->users[client / 64] &= ~bit;
  atomic_fetch_and_explicit(&s->users[client / 64], ~bit, memory_order_relaxed);
  for (unsigned i = 0; i < SHMT_NAMED_LOCK_USER_WORDS; i++) users |= own->users[i];
  if (users == 0) {
    own->kind = 0;
    atomic_store_explicit(&s->state, 0, memory_order_release);
  }
  wake_lock(s);
}

void shmt__named_locks_client_died(shmt__names* n, shmt__arena_manager* k, uint32_t client) {
  for (uint32_t i = 0; i < n->locks_end; i++) {
    if (n->named_locks[i].kind != 0) free_slots_of(&n->named_locks[i], &k->map.named_locks[i], k, client);
  }
}

static uint32_t most_slots(uint32_t kind) {
  return kind == SHMT_NAMED_LOCK_BARRIER ? SHMT_BARRIER_SLOTS : SHMT_NAMED_LOCK_SLOTS;
}

/* Read once what the manager before us has left. False: it makes no sense, and the entry becomes free. */
static bool read_lock(shmt__lock_entry* own, const shmt__named_lock* s) {
  if (atomic_load_explicit(&s->state, memory_order_acquire) == 0) return false;
  own->kind = s->kind;
  own->n_slots = s->n_slots;
  own->is_settled = s->is_settled != 0;
  memcpy(own->text, s->text, SHMT_NAMED_LOCK_NAME_BYTES);
  for (unsigned i = 0; i < SHMT_NAMED_LOCK_USER_WORDS; i++)
    own->users[i] = atomic_load_explicit(&s->users[i], memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst); /* check the copy, not the entry */
  return (own->kind == SHMT_NAMED_LOCK_SEMAPHORE || own->kind == SHMT_NAMED_LOCK_BARRIER) && own->n_slots >= 1 &&
         own->n_slots <= most_slots(own->kind) && own->text[0] != '\0' &&
         own->text[SHMT_NAMED_LOCK_NAME_BYTES - 1] == '\0';
}

shmt_status shmt__named_locks_adopt(shmt__names* n, const shmt__arena_manager* k) {
  n->locks_end = shmt__map_named_locks_end(&k->map);
  SHMT_TRY(shmt__map_populate(&k->map, k->control_fd, k->map.named_locks, sizeof(shmt__named_lock) * n->locks_end));
  for (uint32_t i = 0; i < n->locks_end; i++) {
    if (read_lock(&n->named_locks[i], &k->map.named_locks[i])) continue;
    n->named_locks[i] = (shmt__lock_entry){0};
    atomic_store_explicit(&k->map.named_locks[i].state, 0, memory_order_release);
  }
  return SHMT_OK;
}

/* The slots and the bits of who has arrived belong to the members and stay as they are. */
void shmt__named_locks_repair(const shmt__names* n, const shmt__arena_manager* k) {
  for (uint32_t i = 0; i < n->locks_end; i++) {
    const shmt__lock_entry* own = &n->named_locks[i];
    shmt__named_lock* s = &k->map.named_locks[i];
    uint32_t state = own->kind != 0;
    if (state) {
      if (s->kind != own->kind) s->kind = own->kind;
      if (s->n_slots != own->n_slots) s->n_slots = own->n_slots;
      if (s->is_settled != own->is_settled) s->is_settled = own->is_settled;
      if (memcmp(s->text, own->text, SHMT_NAMED_LOCK_NAME_BYTES) != 0)
        memcpy(s->text, own->text, SHMT_NAMED_LOCK_NAME_BYTES);
      for (unsigned j = 0; j < SHMT_NAMED_LOCK_USER_WORDS; j++) {
        if (atomic_load_explicit(&s->users[j], memory_order_relaxed) != own->users[j])
          atomic_store_explicit(&s->users[j], own->users[j], memory_order_relaxed);
      }
    }
    if (atomic_load_explicit(&s->state, memory_order_relaxed) != state)
      atomic_store_explicit(&s->state, state, memory_order_release);
  }
}

static void begin_lock(shmt__lock_entry* own, shmt__named_lock* s, const char* name, uint32_t kind,
                       uint32_t n_slots) {
  *own = (shmt__lock_entry){.kind = kind, .n_slots = n_slots > 0 ? n_slots : 1, .is_settled = n_slots > 0};
  strncpy(own->text, name, SHMT_NAMED_LOCK_NAME_BYTES - 1);
  memset(s, 0, sizeof *s);
  s->kind = kind;
  s->n_slots = own->n_slots;
  s->is_settled = own->is_settled;
  memcpy(s->text, own->text, SHMT_NAMED_LOCK_NAME_BYTES);
  /* release: a manager that takes over sees the whole entry or none. */
  atomic_store_explicit(&s->state, 1, memory_order_release);
}

/* The size of a lock is said for the first time. It only grows, so permits that are taken stay. */
static void settle(shmt__lock_entry* own, shmt__named_lock* s, uint32_t n_slots) {
  own->n_slots = n_slots;
  own->is_settled = true;
  s->n_slots = n_slots;
  s->is_settled = 1;
  wake_lock(s); /* there may be permits now for those who wait */
}

static const char* kind_title(uint32_t kind) { return kind == SHMT_NAMED_LOCK_BARRIER ? "barrier" : "semaphore"; }

/* May what was found, or NULL, be used as this? */
static shmt_status check_found(const shmt__lock_entry* found, const char* name, uint32_t kind, uint32_t n_slots) {
  if (found == NULL) return SHMT_OK;
  SHMT_REQUIRE(found->kind == kind, SHMT_E_VALUE, "\"%s\" is in use as a %s of %" PRIu32 " places, not as a %s", name,
               kind_title(found->kind), found->n_slots, kind_title(kind));
  SHMT_REQUIRE(n_slots == 0 || !found->is_settled || found->n_slots == n_slots, SHMT_E_VALUE,
               "\"%s\" is in use as a %s of %" PRIu32 " places, not of %" PRIu32, name, kind_title(kind),
               found->n_slots, n_slots);
  return SHMT_OK;
}

/* Use one more entry. Errors: SHMT_E_RUNTIME (all are in use), SHMT_E_NOMEM. */
static shmt_status add_lock(shmt__names* n, shmt__arena_manager* k, shmt__lock_entry** out) {
  const uint32_t i = n->locks_end;
  SHMT_REQUIRE(i < n->n_named_locks, SHMT_E_RUNTIME,
               "all %" PRIu32 " locks, semaphores and barriers of the service are in use", n->n_named_locks);
  SHMT_TRY(shmt__map_populate(&k->map, k->control_fd, &k->map.named_locks[i], sizeof(shmt__named_lock)));
  n->locks_end = i + 1;
  /* release: the entry has its page. */
  atomic_store_explicit(&k->map.names_head->locks_end, n->locks_end, memory_order_release);
  *out = &n->named_locks[i];
  return SHMT_OK;
}

shmt_status shmt__named_locks_open(shmt__names* n, shmt__arena_manager* k, uint32_t client, const char* name,
                             uint32_t kind, uint32_t n_slots, uint32_t* out_index) {
  shmt__lock_entry *unused = NULL, *found = NULL;
  SHMT_REQUIRE(n->n_named_locks > 0, SHMT_E_VALUE, "this session has no names");
  SHMT_REQUIRE(kind == SHMT_NAMED_LOCK_SEMAPHORE || kind == SHMT_NAMED_LOCK_BARRIER, SHMT_E_VALUE,
               "no kind %" PRIu32 " of lock", kind);
  SHMT_REQUIRE(name[0] != 0 && strlen(name) < SHMT_NAMED_LOCK_NAME_BYTES, SHMT_E_VALUE,
               "the name of a lock, semaphore or barrier must have 1 to %d bytes, got %zu",
               SHMT_NAMED_LOCK_NAME_BYTES - 1, strlen(name));
  const uint32_t least = kind == SHMT_NAMED_LOCK_BARRIER ? 1 : 0;
  SHMT_REQUIRE(n_slots >= least && n_slots <= most_slots(kind), SHMT_E_VALUE,
               "\"%s\" needs 1 to %" PRIu32 " places, got %" PRIu32, name, most_slots(kind), n_slots);
  for (uint32_t i = 0; i < n->locks_end && found == NULL; i++) {
    shmt__lock_entry* own = &n->named_locks[i];
    if (own->kind == 0 && unused == NULL) unused = own;
    if (own->kind != 0 && strcmp(own->text, name) == 0) found = own;
  }
  SHMT_TRY(check_found(found, name, kind, n_slots));
  if (found == NULL) {
    if (unused == NULL) SHMT_TRY(add_lock(n, k, &unused));
    begin_lock(unused, &k->map.named_locks[unused - n->named_locks], name, kind, n_slots);
    found = unused;
  } else if (n_slots > 0 && !found->is_settled) {
    settle(found, &k->map.named_locks[found - n->named_locks], n_slots);
  }
  uint32_t index = (uint32_t)(found - n->named_locks);
  add_user(found, &k->map.named_locks[index], client);
  *out_index = index;
  return SHMT_OK;
}
