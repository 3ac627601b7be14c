/* storage/weak.c -- weak references to storages.
 *
 * Weak references are rare: one for each storage in the table of received storages. So a storage has
 * only a flag for them, and they are in hash lists under one lock. A storage with the flag takes the
 * lock when it is destroyed, before its memory is reused. So shmt__storage_weak_lock() either finds
 * the storage with a count above 0, or does not find it.
 */
#include "storage/storage.h"

#include "storage/allocator.h"

#include <pthread.h>

struct shmt__storage_weak {
  shmt_storage* storage; /* NULL: expired */
  shmt__storage_weak *next, *prev;
};

enum { N_BUCKETS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static shmt__storage_weak* buckets[N_BUCKETS]; /* by the storage's address; under lock */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork_parent(void) { pthread_mutex_unlock(&lock); }
static void after_fork_child(void) { pthread_mutex_init(&lock, NULL); }
static void set_up(void) { (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

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
  pthread_once(&once, set_up);
  SHMT_TRY(shmt__alloc(sizeof(shmt__storage_weak), &p));
  shmt__storage_weak* weak = p;
  pthread_mutex_lock(&lock);
  shmt__storage_weak** head = bucket_of(s);
  *weak = (shmt__storage_weak){.storage = s, .next = *head};
  if (*head) (*head)->prev = weak;
  *head = weak;
  /* relaxed: the count orders this before the destruction of s, since the caller holds a reference. */
  __atomic_fetch_or(&s->flags, SHMT_STORAGE_WEAK, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&lock);
  *out = weak;
  return SHMT_OK;
}

shmt_storage* shmt__storage_weak_lock(shmt__storage_weak* weak) {
  pthread_mutex_lock(&lock);
  shmt_storage* s = weak->storage;
  if (s != NULL) {
    int_least32_t refs = atomic_load_explicit(&s->refs, memory_order_relaxed);
    /* relaxed: the lock orders this before the expiry, and so before the memory is reused. */
    while (refs > 0 && !atomic_compare_exchange_weak_explicit(&s->refs, &refs, refs + 1, memory_order_relaxed,
                                                              memory_order_relaxed)) {
    }
    if (refs <= 0) s = NULL;
  }
  pthread_mutex_unlock(&lock);
  return s;
}

void shmt__storage_weak_free(shmt__storage_weak* weak) {
  if (weak == NULL) return;
  pthread_mutex_lock(&lock);
  if (weak->storage != NULL) unlink_locked(weak);
  pthread_mutex_unlock(&lock);
  shmt__dealloc(weak, sizeof *weak);
}

void shmt__storage_weak_expire(shmt_storage* s) {
  pthread_mutex_lock(&lock);
  shmt__storage_weak* weak = *bucket_of(s);
  while (weak != NULL) {
    shmt__storage_weak* next = weak->next;
    if (weak->storage == s) unlink_locked(weak);
    weak = next;
  }
  pthread_mutex_unlock(&lock);
}
