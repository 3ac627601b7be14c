/* storage/weak.c -- weak references to storages.
 *
 * Weak references are rare: one for each storage in the table of received storages. So a storage has
 * only a flag for them, and they are in hash lists under one lock. A storage with the flag takes the
 * lock when it is destroyed, before its memory is reused. So shmt__storage_weak_lock() either finds
 * the storage with a count above 0, or does not find it.
 */
#include "storage/storage.h"

#include "os/mutex.h"
#include "storage/allocator.h"

struct shmt__storage_weak {
  shmt_storage* storage; /* NULL: expired */
  shmt__storage_weak *next, *prev;
};

enum { N_BUCKETS = 1024 };

SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_WEAK_STORAGES)
static shmt__storage_weak* buckets[N_BUCKETS]; /* by the storage's address; under lock */

static shmt__storage_weak** bucket_of(const shmt_storage* s) {
  uintptr_t address = (uintptr_t)s >> 6; /* headers are 64 bytes apart */
  return &buckets[(address ^ address >> 10) % N_BUCKETS];
}

static void unlink_locked(shmt__storage_weak* weak) {
  if (weak->prev)
    weak->prev->next = weak->next;
  else
    *bucket_of(weak->storage) = weak->next;
  if (weak->next) weak->next->prev = weak->prev;
  weak->storage = NULL;
}

shmt_status shmt__storage_weak_create(shmt_storage* s, shmt__storage_weak** out) {
  void* p = NULL;
  SHMT_TRY(shmt__alloc(sizeof(shmt__storage_weak), &p));
  shmt__storage_weak* weak = p;
  shmt__mutex_lock(&lock);
  shmt__storage_weak** head = bucket_of(s);
  *weak = (shmt__storage_weak){.storage = s, .next = *head};
  if (*head) (*head)->prev = weak;
  *head = weak;
  /* relaxed: the count orders this before the destruction of s, since the caller holds a reference. */
  __atomic_fetch_or(&s->flags, SHMT_STORAGE_WEAK, __ATOMIC_RELAXED);
  shmt__mutex_unlock(&lock);
  *out = weak;
  return SHMT_OK;
}

shmt_storage* shmt__storage_weak_lock(shmt__storage_weak* weak) {
  shmt__mutex_lock(&lock);
  shmt_storage* s = weak->storage;
  if (s != NULL) {
    int_least32_t refs = atomic_load_explicit(&s->refs, memory_order_relaxed);
    /* relaxed: the lock orders this before the expiry, and so before the memory is reused. */
    while (refs > 0 && !atomic_compare_exchange_weak_explicit(&s->refs, &refs, refs + 1, memory_order_relaxed,
                                                              memory_order_relaxed)) {
    }
    if (refs <= 0) s = NULL;
  }
  shmt__mutex_unlock(&lock);
  return s;
}

void shmt__storage_weak_free(shmt__storage_weak* weak) {
  if (weak == NULL) return;
  shmt__mutex_lock(&lock);
  if (weak->storage != NULL) unlink_locked(weak);
  shmt__mutex_unlock(&lock);
  shmt__dealloc(weak, sizeof *weak);
}

void shmt__storage_weak_expire(shmt_storage* s) {
  shmt__mutex_lock(&lock);
  shmt__storage_weak* weak = *bucket_of(s);
  while (weak != NULL) {
    shmt__storage_weak* next = weak->next;
    if (weak->storage == s) unlink_locked(weak);
    weak = next;
  }
  shmt__mutex_unlock(&lock);
}
