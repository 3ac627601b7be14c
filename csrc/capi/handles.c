/* capi/handles.c -- the handles that programs have in place of pointers. See Note [Handles]. */
#include "capi/handles.h"

#include "api/error.h"
#include "os/futex.h"
#include "os/mutex.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The word of an entry: generation << 32 | kind << 24 | OPEN | uses. */
enum {
  CHUNK = 256,
  MOST_CHUNKS = 256,
  OPEN = 1 << 23,
  USES = OPEN - 1,
  KIND_SHIFT = 24,
  /* A handle is generation << 24 | index << 4 | 8, the address of nothing that is aligned to 16. */
  INDEX_BITS = 20,
};

struct shmt__handle_entry {
  _Atomic uint64_t word;
  void* object;
  void (*destroy)(void* object);
  uint32_t next_free; /* index + 1; 0: the last */
};

SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_PUBLIC_HANDLES);
static shmt__handle_entry* _Atomic chunks[MOST_CHUNKS]; /* written under the lock, once each */
static uint32_t n_entries, first_free;                  /* under the lock; first_free: index + 1 */

_Static_assert(sizeof(void*) == 8 && CHUNK * MOST_CHUNKS <= 1 << INDEX_BITS, "a handle fits a pointer");

static const char* title(shmt__handle_kind kind) {
  static const char* const titles[SHMT_N_HANDLE_KINDS] = {
      [SHMT_HANDLE_SERVICE] = "service",           [SHMT_HANDLE_QUEUE] = "queue",   [SHMT_HANDLE_DELIVERY] = "delivery",
      [SHMT_HANDLE_TOPIC] = "topic",               [SHMT_HANDLE_LOAN] = "loan",     [SHMT_HANDLE_CLIENT] = "client",
      [SHMT_HANDLE_SUBSCRIPTION] = "subscription", [SHMT_HANDLE_SERVER] = "server", [SHMT_HANDLE_REQUEST] = "request",
      [SHMT_HANDLE_EVENT] = "event",               [SHMT_HANDLE_LOCK] = "lock",
      [SHMT_HANDLE_BARRIER] = "barrier",           [SHMT_HANDLE_CALL] = "call",
  };
  return titles[kind];
}

static shmt__handle_entry* entry_at(uint32_t index) {
  /* acquire: the entries are there. */
  shmt__handle_entry* chunk =
      index < CHUNK * MOST_CHUNKS ? atomic_load_explicit(&chunks[index / CHUNK], memory_order_acquire) : NULL;
  return chunk != NULL ? &chunk[index % CHUNK] : NULL;
}

/* --- the table, under the lock --- */

/* An entry that nobody uses. Returns index + 1; 0: there is no memory, or no place. */
static uint32_t take_entry(void) {
  if (first_free != 0) {
    const uint32_t taken = first_free;
    first_free = entry_at(taken - 1)->next_free;
    return taken;
  }
  if (n_entries == CHUNK * MOST_CHUNKS) return 0;
  if (n_entries % CHUNK == 0) {
    shmt__handle_entry* chunk = calloc(CHUNK, sizeof *chunk);
    if (chunk == NULL) return 0;
    atomic_store_explicit(&chunks[n_entries / CHUNK], chunk, memory_order_release);
  }
  return ++n_entries;
}

static uint32_t index_of(const shmt__handle_entry* e) {
  for (uint32_t i = 0; i < MOST_CHUNKS; i++) {
    const shmt__handle_entry* chunk = atomic_load_explicit(&chunks[i], memory_order_relaxed);
    if (chunk != NULL && e >= chunk && e < chunk + CHUNK) return i * CHUNK + (uint32_t)(e - chunk);
  }
  return 0;
}

shmtensor_status shmt__handle_open(shmt__handle_kind kind, void* object, void (*destroy)(void* object), void** out) {
  shmt__mutex_lock(&lock);
  const uint32_t taken = take_entry();
  shmt__mutex_unlock(&lock);
  if (taken == 0) {
    destroy(object);
    return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "a %s: there are too many handles", title(kind));
  }
  shmt__handle_entry* e = entry_at(taken - 1);
  e->object = object;
  e->destroy = destroy;
  const uint32_t generation =
      (uint32_t)(atomic_load_explicit(&e->word, memory_order_relaxed) >> 32) + 1;
  /* release: who uses the handle sees the object. */
  atomic_store_explicit(&e->word, (uint64_t)generation << 32 | (uint64_t)kind << KIND_SHIFT | OPEN,
                        memory_order_release);
  *out = (void*)(uintptr_t)((uint64_t)generation << (INDEX_BITS + 4) | (uint64_t)(taken - 1) << 4 | 8);
  return SHMTENSOR_OK;
}

/* Nobody uses the entry, and nobody will. */
static void finish(shmt__handle_entry* e) {
  e->destroy(e->object);
  e->object = NULL;
  shmt__mutex_lock(&lock);
  e->next_free = first_free;
  first_free = index_of(e) + 1;
  shmt__mutex_unlock(&lock);
}

/* --- using --- */

static uint32_t generation_of(uint64_t word) { return (uint32_t)(word >> 32); }

/* The entry that a handle names, whether or not it is open. NULL: it was never a handle. */
static shmt__handle_entry* find(const void* handle, uint32_t* out_generation) {
  const uint64_t number = (uint64_t)(uintptr_t)handle;
  if ((number & 15) != 8) return NULL;
  *out_generation = (uint32_t)(number >> (INDEX_BITS + 4));
  return entry_at((uint32_t)(number >> 4) & ((1u << INDEX_BITS) - 1));
}

static shmtensor_status refuse(shmt__handle_kind kind, const void* handle, const shmt__handle_entry* e, uint64_t word,
                               uint32_t generation, const char* function, const char* argument) {
  if (handle == NULL) return shmt__public_fail(SHMTENSOR_E_VALUE, "%s(): %s is NULL", function, argument);
  const shmt__handle_kind is = (shmt__handle_kind)(word >> KIND_SHIFT & 0xff);
  if (e == NULL || generation == 0 || generation_of(word) < generation)
    return shmt__public_fail(SHMTENSOR_E_VALUE, "%s(): %s is not a handle of this library", function, argument);
  if (generation_of(word) == generation && is != kind)
    return shmt__public_fail(SHMTENSOR_E_VALUE, "%s(): %s is a %s, not a %s", function, argument, title(is),
                             title(kind));
  return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): %s is closed", function, argument);
}

shmt__handle_use shmt__handle_begin(shmt__handle_kind kind, const void* handle, const char* function,
                                    const char* argument) {
  uint32_t generation = 0;
  shmt__handle_entry* e = find(handle, &generation);
  uint64_t word = e != NULL ? atomic_load_explicit(&e->word, memory_order_relaxed) : 0;
  const uint64_t wanted = (uint64_t)generation << 32 | (uint64_t)kind << KIND_SHIFT | OPEN;
  while (e != NULL && (word & ~(uint64_t)USES) == wanted)
    /* acquire: the object as it was when the handle was made. */
    if (atomic_compare_exchange_weak_explicit(&e->word, &word, word + 1, memory_order_acquire, memory_order_relaxed))
      return (shmt__handle_use){.object = e->object, .entry = e};
  return (shmt__handle_use){.status = refuse(kind, handle, e, word, generation, function, argument)};
}

void shmt__handle_end(shmt__handle_use* use) {
  if (use->entry == NULL) return;
  /* acq_rel: all uses come before the end. */
  const uint64_t before = atomic_fetch_sub_explicit(&use->entry->word, 1, memory_order_acq_rel);
  if ((before & OPEN) == 0 && (before & USES) == 1) finish(use->entry);
  use->entry = NULL;
}

shmt__handle_kind shmt__handle_kind_of(const void* handle) {
  uint32_t generation = 0;
  const shmt__handle_entry* e = find(handle, &generation);
  const uint64_t word = e != NULL ? atomic_load_explicit(&e->word, memory_order_relaxed) : 0;
  return (word & OPEN) && generation_of(word) == generation ? (shmt__handle_kind)(word >> KIND_SHIFT & 0xff) : 0;
}

bool shmt__handle_is_closed(const shmt__handle_use* use) {
  return (atomic_load_explicit(&use->entry->word, memory_order_relaxed) & OPEN) == 0;
}

shmtensor_status shmt__handle_close(shmt__handle_kind kind, const void* handle, const char* function,
                                    const char* argument) {
  __attribute__((cleanup(shmt__handle_end))) shmt__handle_use use =
      shmt__handle_begin(kind, handle, function, argument);
  if (use.object == NULL) return use.status;
  const uint64_t before = atomic_fetch_and_explicit(&use.entry->word, ~(uint64_t)OPEN, memory_order_acq_rel);
  if (before & OPEN) return SHMTENSOR_OK;
  return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): %s is closed", function, argument);
}

/* --- waiting --- */

shmt__ring_result shmt__public_wait_run(shmt__public_wait* w, const shmt__handle_use* use, uint64_t deadline_ns,
                                        bool* out_closed) {
  const uint32_t n_signals = shmt__os_n_interrupted();
  for (;;) {
    const shmt__ring_result result = w->call(w, deadline_ns);
    *out_closed = shmt__handle_is_closed(use);
    if (result != SHMT_RING_INTERRUPTED) return result;
    if (*out_closed) return SHMT_RING_ALONE;
    if (shmt__os_n_interrupted() != n_signals) return result; /* else a slice has ended */
  }
}

bool shmt__public_pause(uint64_t deadline_ns, int ms) {
  atomic_uint_least32_t nobody = 0; /* nobody wakes this */
  const uint64_t end_ns = shmt__os_now_ns() + (uint64_t)ms * UINT64_C(1000000);
  const shmt__os_wait w = shmt__os_futex_wait(&nobody, 0, end_ns < deadline_ns ? end_ns : deadline_ns);
  return w != SHMT_OS_WAIT_INTERRUPTED;
}

shmtensor_status shmt__public_room(const char* function, const shmt__handle_use* use, shmt_status status,
                                   uint64_t deadline_ns, bool* out_again) {
  enum { RETRY_MS = 5 };
  *out_again = false;
  if (status != SHMT_E_NOMEM || shmt__slice_ms(deadline_ns, RETRY_MS) == 0) return shmt__public_status(status);
  if (shmt__handle_is_closed(use))
    return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): it was closed meanwhile", function);
  if (!shmt__public_pause(deadline_ns, RETRY_MS))
    return shmt__public_fail(SHMTENSOR_E_INTERRUPTED, "%s(): a signal came", function);
  *out_again = true;
  return SHMTENSOR_OK;
}

shmtensor_status shmt__public_result(const char* function, shmt__ring_result result, bool is_closed,
                                     shmtensor_status late) {
  switch (result) {
    case SHMT_RING_DONE: return SHMTENSOR_OK;
    case SHMT_RING_INTERRUPTED:
      return shmt__public_fail(SHMTENSOR_E_INTERRUPTED, "%s(): a signal came", function);
    case SHMT_RING_FAILED: return shmt__public_status((shmt_status)shmt_error_code());
    case SHMT_RING_ALONE:
      if (is_closed) return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): it was closed meanwhile", function);
      return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): nobody is at the other end", function);
    default: break;
  }
  const char* what = late == SHMTENSOR_E_EMPTY  ? "no message came in time"
                     : late == SHMTENSOR_E_FULL ? "there was no room in time"
                                                : "the time has passed";
  return shmt__public_fail(late, "%s(): %s", function, what);
}
