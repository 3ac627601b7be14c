/* storage/small_blocks.c -- small blocks: size classes, thread lists, batches for all threads, thread exit. */
#include "storage/blocks.h"

#include "api/storage.h"
#include "os/mutex.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Thread_local shmt__thread_cache* shmt__tls_cache __attribute__((tls_model("initial-exec")));

const uint16_t shmt__small_class_bytes[SHMT_N_SMALL_CLASSES] = {
    64,  128, 192,  256,  320,  384,  448,  512,  640,  768,
    896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096,
};

const uint8_t shmt__small_class_of[SHMT_SMALL_MAX_BYTES / SHMT_SMALL_UNIT + 1] = {
    0,  0,  1,  2,  3,  4,  5,  6,  7,  8,  8,  9,  9,  10, 10, 11, 11, 12, 12, 12, 12, 13,
    13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15, 16, 16, 16, 16, 16, 16, 16, 16, 17, 17, 17,
    17, 17, 17, 17, 17, 18, 18, 18, 18, 18, 18, 18, 18, 19, 19, 19, 19, 19, 19, 19, 19,
};

/* A slab that was divided into blocks. The list of slabs keeps it reachable for leak checkers. */
typedef struct slab {
  struct slab* next;
} slab;

enum { SLAB_HEADER_BYTES = 64, BATCH_BYTES = 32 << 10, BATCH_MIN_BLOCKS = 16, N_SHARED = 8 };

/* A batch that is not among the shared ones: the first bytes of its first block. */
typedef struct batch {
  shmt__small_block first;
  struct batch* next;
} batch;

static struct {
  shmt__small_block_list lists[SHMT_N_SMALL_CLASSES]; /* single blocks */
  batch* batches[SHMT_N_SMALL_CLASSES];
  slab* slabs;
  shmt__thread_cache* caches;
} central; /* under the lock */
SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_SMALL_BLOCKS)

/* Batches for all threads; NULL: none. Who takes one out by an exchange has it alone, so nobody reads blocks that
 * another thread may use. Each class has a cache line. */
static struct {
  _Alignas(64) _Atomic(shmt__small_block*) batches[N_SHARED];
} shared[SHMT_N_SMALL_CLASSES];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;

static uint32_t list_limit(unsigned c) {
  uint32_t n = BATCH_BYTES / shmt__small_class_bytes[c];
  return n > BATCH_MIN_BLOCKS ? n : BATCH_MIN_BLOCKS;
}

/* --- counters ------------------------------------------------------------------ */

void shmt__count_flush(shmt__thread_cache* cache) {
  int64_t pending = atomic_exchange_explicit(&cache->pending, 0, memory_order_relaxed);
  shmt__count_move(&shmt__counters.allocated, &shmt__counters.allocated_peak, pending);
}

/* --- lists --------------------------------------------------------------------- */

/* Move up to n blocks from one list's head to another's. */
static void move_blocks(shmt__small_block_list* from, shmt__small_block_list* to, uint32_t n) {
  while (n-- > 0 && from->head != NULL) {
    shmt__small_block* b = from->head;
    from->head = b->next;
    from->count--;
    b->next = to->head;
    to->head = b;
    to->count++;
  }
}

/* Give a batch to all threads. False: there are enough of them. */
static bool put_batch(unsigned c, shmt__small_block* first) {
  for (unsigned i = 0; i < N_SHARED; i++) {
    shmt__small_block* none = NULL;
    /* release: whoever takes it sees its links. */
    if (atomic_load_explicit(&shared[c].batches[i], memory_order_relaxed) == NULL &&
        atomic_compare_exchange_strong_explicit(&shared[c].batches[i], &none, first, memory_order_release,
                                                memory_order_relaxed))
      return true;
  }
  return false;
}

static shmt__small_block* take_batch(unsigned c) {
  for (unsigned i = 0; i < N_SHARED; i++) {
    if (atomic_load_explicit(&shared[c].batches[i], memory_order_relaxed) == NULL) continue;
    shmt__small_block* first = atomic_exchange_explicit(&shared[c].batches[i], NULL, memory_order_acquire);
    if (first != NULL) return first;
  }
  return NULL;
}

static void put_batch_locked(unsigned c, shmt__small_block* first) {
  batch* b = (batch*)first;
  SHMT_UNPOISON(&b->next, sizeof(batch*));
  b->next = central.batches[c];
  central.batches[c] = b;
}

static void put_batch_anywhere(unsigned c, shmt__small_block* first) {
  if (put_batch(c, first)) return;
  shmt__mutex_lock(&lock);
  put_batch_locked(c, first);
  shmt__mutex_unlock(&lock);
}

/* Divide a new slab into n blocks of class c, and put them on `to`. False: memory is out. */
static bool carve_locked(unsigned c, uint32_t n, shmt__small_block_list* to) {
  uint64_t size = shmt__small_class_bytes[c], total = SLAB_HEADER_BYTES + size * n;
  slab* s = aligned_alloc(64, total);
  if (s == NULL) return false;
  s->next = central.slabs;
  central.slabs = s;
  /* The last block first, so that blocks are taken in the order of their addresses. */
  for (uint32_t i = n; i-- > 0;) {
    shmt__small_block* b = (shmt__small_block*)((char*)s + SLAB_HEADER_BYTES + size * i);
    b->next = to->head;
    to->head = b;
    SHMT_POISON(b + 1, size - sizeof *b);
  }
  to->count += n;
  shmt__count_move(&shmt__counters.reserved, &shmt__counters.reserved_peak, (int64_t)total);
  return true;
}

/* --- threads and fork ------------------------------------------------------------- */

static void unlink_cache_locked(shmt__thread_cache* cache) {
  if (cache->prev)
    cache->prev->next = cache->next;
  else
    central.caches = cache->next;
  if (cache->next) cache->next->prev = cache->prev;
}

/* Give the blocks of a thread to all. */
static void empty_lists_locked(shmt__thread_cache* cache) {
  for (unsigned c = 0; c < SHMT_N_SMALL_CLASSES; c++) {
    shmt__small_block_list* list = &cache->lists[c];
    if (list->batch != NULL && !put_batch(c, list->batch)) put_batch_locked(c, list->batch);
    list->batch = NULL;
    move_blocks(list, &central.lists[c], UINT32_MAX);
  }
}

/* A thread ends: its blocks go to the others. */
static void drain_cache(void* arg) {
  shmt__thread_cache* cache = arg;
  shmt__mutex_lock(&lock);
  empty_lists_locked(cache);
  /* The counts move under the lock, so that a reader finds them either here or there. */
  shmt__count_flush(cache);
  atomic_fetch_add_explicit(&shmt__counters.n_allocs, cache->n_allocs, memory_order_relaxed);
  atomic_fetch_add_explicit(&shmt__counters.n_frees, cache->n_frees, memory_order_relaxed);
  unlink_cache_locked(cache);
  shmt__mutex_unlock(&lock);
  if (shmt__tls_cache == cache) shmt__tls_cache = NULL;
  free(cache);
}

static void make_key(void) { (void)pthread_key_create(&exit_key, drain_cache); }

/* In a forked child the other threads do not exist. Their caches stay in the registry, since live tensors may have been
 * counted there. Their free blocks (at most 64 KB a class, and a batch on its way) are not used again, because a thread
 * may have been in the middle of a push when the process forked. */
static shmt__thread_cache* make_cache(void) {
  pthread_once(&once, make_key);
  shmt__thread_cache* cache = calloc(1, sizeof *cache);
  if (cache == NULL) return NULL;
  for (unsigned c = 0; c < SHMT_N_SMALL_CLASSES; c++) cache->lists[c].limit = list_limit(c);
  if (pthread_setspecific(exit_key, cache) != 0) {
    free(cache);
    return NULL;
  }
  shmt__mutex_lock(&lock);
  cache->next = central.caches;
  if (central.caches) central.caches->prev = cache;
  central.caches = cache;
  shmt__mutex_unlock(&lock);
  shmt__tls_cache = cache;
  return cache;
}

/* --- slow paths ------------------------------------------------------------------- */

/* Fill an empty list. False: memory is out. */
static bool fill_locked(unsigned c, shmt__small_block_list* list) {
  batch* b = central.batches[c];
  if (b != NULL) {
    central.batches[c] = b->next;
    SHMT_POISON(&b->next, sizeof(batch*));
    list->head = &b->first;
    list->count = list->limit;
    return true;
  }
  move_blocks(&central.lists[c], list, list->limit);
  return list->head != NULL || carve_locked(c, list->limit, list);
}

void* shmt__small_refill(unsigned c) {
  shmt__thread_cache* cache = shmt__tls_cache ? shmt__tls_cache : make_cache();
  if (cache == NULL) return NULL;
  shmt__small_block_list* list = &cache->lists[c];
  if (list->head == NULL) {
    list->head = list->batch != NULL ? list->batch : take_batch(c);
    list->batch = NULL;
    list->count = list->head != NULL ? list->limit : 0;
  }
  if (list->head == NULL) {
    shmt__mutex_lock(&lock);
    bool ok = fill_locked(c, list);
    shmt__mutex_unlock(&lock);
    if (!ok) return NULL;
  }
  shmt__small_block* b = list->head;
  list->head = b->next;
  list->count--;
  SHMT_UNPOISON(b, shmt__small_class_bytes[c]);
  return b;
}

static void push(shmt__small_block_list* to, shmt__small_block* b, unsigned c) {
  b->next = to->head;
  to->head = b;
  to->count++;
  SHMT_POISON(b + 1, shmt__small_class_bytes[c] - sizeof *b);
}

void shmt__small_spill(void* p, unsigned c) {
  shmt__thread_cache* cache = shmt__tls_cache ? shmt__tls_cache : make_cache();
  if (cache == NULL) {
    shmt__mutex_lock(&lock);
    push(&central.lists[c], p, c);
    shmt__mutex_unlock(&lock);
    return;
  }
  shmt__small_block_list* list = &cache->lists[c];
  if (list->count >= list->limit) {
    if (list->batch != NULL) put_batch_anywhere(c, list->batch);
    list->batch = list->head;
    list->head = NULL;
    list->count = 0;
  }
  push(list, p, c);
}

/* --- statistics ---------------------------------------------------------------------- */

void shmt_memory_statistics(shmt_memory_stats* out) {
  int64_t pending = 0;
  uint64_t n_allocs = 0, n_frees = 0;
  shmt__mutex_lock(&lock);
  for (shmt__thread_cache* t = central.caches; t; t = t->next) {
    pending += atomic_load_explicit(&t->pending, memory_order_relaxed);
    n_allocs += atomic_load_explicit(&t->n_allocs, memory_order_relaxed);
    n_frees += atomic_load_explicit(&t->n_frees, memory_order_relaxed);
  }
#define READ(field) atomic_load_explicit(&shmt__counters.field, memory_order_relaxed)
  out->allocated_bytes = READ(allocated) + pending;
  shmt__count_peak(&shmt__counters.allocated_peak, out->allocated_bytes);
  out->allocated_bytes_peak = READ(allocated_peak);
  out->reserved_bytes = READ(reserved);
  out->reserved_bytes_peak = READ(reserved_peak);
  out->cached_bytes = READ(cached);
  out->n_allocations = (int64_t)(READ(n_allocs) + n_allocs);
  out->n_frees = (int64_t)(READ(n_frees) + n_frees);
  out->n_large_fresh = (int64_t)READ(n_fresh);
  out->n_large_reused = (int64_t)READ(n_reused);
#undef READ
  shmt__mutex_unlock(&lock);
}

void shmt_memory_reset_peak(void) {
  shmt_memory_stats now;
  shmt_memory_statistics(&now);
  atomic_store_explicit(&shmt__counters.allocated_peak, now.allocated_bytes, memory_order_relaxed);
  atomic_store_explicit(&shmt__counters.reserved_peak, now.reserved_bytes, memory_order_relaxed);
}

void shmt_memory_empty_cache(void) {
  shmt__thread_cache* cache = shmt__tls_cache;
  if (cache != NULL) {
    shmt__mutex_lock(&lock);
    empty_lists_locked(cache);
    shmt__mutex_unlock(&lock);
  }
  shmt__large_empty();
}
