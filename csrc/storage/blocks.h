/* storage/blocks.h -- the caching allocator behind shmt__alloc, with its fast path inline.
 *
 *   <= 4 KB    20 size classes. A thread takes blocks from its own list of a class and returns them there.
 *              A list that becomes full turns into a batch, and one that becomes empty is refilled by a
 *              batch. A thread keeps one batch of each class; a few more are kept for all threads, and
 *              an exchange of a pointer puts or takes a whole one. Only when there are too many of those,
 *              or none, does a thread need the lock. Slabs are divided into blocks; a slab is kept until the process
 *              ends.
 *   above      8 size classes for each power of two, with one list each, all under one lock. When the
 *              cache exceeds its limit, the blocks that were freed longest ago leave it first. From 2 MB
 *              on, a block consists of whole pages with advice for huge pages, and can be zeroed without
 *              touching it.
 *
 * Note [Counting]
 * A thread counts bytes in `pending`, and adds them to the process's counter when they exceed
 * SHMT_FLUSH_BYTES. So the peak is exact up to that amount for each thread.
 */
#ifndef SHMT_STORAGE_BLOCKS_H
#define SHMT_STORAGE_BLOCKS_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define SHMT_POISON(p, n) __asan_poison_memory_region((p), (n))
#define SHMT_UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#else
#define SHMT_POISON(p, n) ((void)(p), (void)(n))
#define SHMT_UNPOISON(p, n) ((void)(p), (void)(n))
#endif

enum {
  SHMT_N_SMALL_CLASSES = 20,
  SHMT_SMALL_MAX_BYTES = 4096,
  SHMT_SMALL_UNIT = 64,
  SHMT_FLUSH_BYTES = 64 << 10,
};

/* A free block's first bytes. */
typedef struct shmt__small_block {
  struct shmt__small_block* next;
} shmt__small_block;

typedef struct shmt__small_block_list {
  shmt__small_block* head;
  uint32_t count;
  uint32_t limit; /* most blocks of a thread's list, and how many a batch has */
  shmt__small_block* batch; /* of a thread: its first block; NULL: none */
} shmt__small_block_list;

typedef struct shmt__thread_cache {
  shmt__small_block_list lists[SHMT_N_SMALL_CLASSES];
  atomic_int_least64_t pending;    /* bytes allocated minus freed since the last flush; other threads read it */
  atomic_uint_least64_t n_allocs;
  atomic_uint_least64_t n_frees;
  struct shmt__thread_cache* next; /* registry, under the central lock */
  struct shmt__thread_cache* prev;
} shmt__thread_cache;

extern _Thread_local shmt__thread_cache* shmt__tls_cache __attribute__((tls_model("initial-exec")));

/* By (nbytes + 63) / 64. */
extern const uint8_t shmt__small_class_of[SHMT_SMALL_MAX_BYTES / SHMT_SMALL_UNIT + 1];
extern const uint16_t shmt__small_class_bytes[SHMT_N_SMALL_CLASSES];

/* The slow paths: refill returns a block of class c, or NULL without an error record when memory is out; spill frees
 * p. */
void* shmt__small_refill(unsigned c);
void shmt__small_spill(void* p, unsigned c);
void shmt__count_flush(shmt__thread_cache* cache);

static inline unsigned shmt__small_class(uint64_t nbytes) {
  return shmt__small_class_of[(nbytes + SHMT_SMALL_UNIT - 1) / SHMT_SMALL_UNIT];
}

/* A block of class c that is not counted, for headers. NULL: memory is out. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* With sanitizers blocks come from malloc, since a sanitizer finds uses after free only in memory that is really
 * freed. */
static inline void shmt__small_count(unsigned c) { /* refill makes the cache, which counts */
  void* p = SHMT_LIKELY(shmt__tls_cache != NULL) ? NULL : shmt__small_refill(c);
  if (p != NULL) shmt__small_spill(p, c);
}
static inline void* shmt__small_pop(unsigned c) {
  shmt__small_count(c);
  return aligned_alloc(SHMT_SMALL_UNIT, shmt__small_class_bytes[c]);
}
static inline void shmt__small_push(void* p, unsigned c) {
  shmt__small_count(c);
  free(p);
}
#else
static inline void* shmt__small_pop(unsigned c) {
  shmt__thread_cache* cache = shmt__tls_cache;
  if (SHMT_LIKELY(cache != NULL)) {
    shmt__small_block_list* list = &cache->lists[c];
    shmt__small_block* b = list->head;
    if (SHMT_LIKELY(b != NULL)) {
      list->head = b->next;
      list->count--;
      SHMT_UNPOISON(b, shmt__small_class_bytes[c]);
      return b;
    }
  }
  return shmt__small_refill(c);
}

static inline void shmt__small_push(void* p, unsigned c) {
  shmt__thread_cache* cache = shmt__tls_cache;
#if SHMT_DEBUG >= 1
  __builtin_memset(p, 0xdb, shmt__small_class_bytes[c]);
#endif
  if (SHMT_LIKELY(cache != NULL)) {
    shmt__small_block_list* list = &cache->lists[c];
    if (SHMT_LIKELY(list->count < list->limit)) {
      shmt__small_block* b = p;
      b->next = list->head;
      list->head = b;
      list->count++;
      SHMT_POISON(b + 1, shmt__small_class_bytes[c] - sizeof *b);
      return;
    }
  }
  shmt__small_spill(p, c);
}
#endif

/* Only one thread writes a cache, so a load and a store make an increment. Other threads may read at any time. */
#define SHMT_COUNT_ADD(cell, n) \
  atomic_store_explicit(&(cell), atomic_load_explicit(&(cell), memory_order_relaxed) + (n), memory_order_relaxed)

static inline void* shmt__small_alloc(uint64_t nbytes) {
  unsigned c = shmt__small_class(nbytes);
  void* p = shmt__small_pop(c);
  shmt__thread_cache* cache = shmt__tls_cache;
  if (SHMT_LIKELY(p != NULL && cache != NULL)) {
    SHMT_COUNT_ADD(cache->n_allocs, 1);
    SHMT_COUNT_ADD(cache->pending, shmt__small_class_bytes[c]);
    if (SHMT_UNLIKELY(atomic_load_explicit(&cache->pending, memory_order_relaxed) > SHMT_FLUSH_BYTES))
      shmt__count_flush(cache);
#if defined(__SANITIZE_ADDRESS__)
    SHMT_POISON((char*)p + nbytes, shmt__small_class_bytes[c] - nbytes);
#endif
  }
  return p;
}

static inline void shmt__small_free(void* p, uint64_t nbytes) {
  unsigned c = shmt__small_class(nbytes);
  SHMT_UNPOISON(p, shmt__small_class_bytes[c]);
  shmt__small_push(p, c);
  shmt__thread_cache* cache = shmt__tls_cache;
  if (SHMT_LIKELY(cache != NULL)) {
    SHMT_COUNT_ADD(cache->n_frees, 1);
    SHMT_COUNT_ADD(cache->pending, -(int64_t)shmt__small_class_bytes[c]);
    if (SHMT_UNLIKELY(atomic_load_explicit(&cache->pending, memory_order_relaxed) < -SHMT_FLUSH_BYTES))
      shmt__count_flush(cache);
  }
}

/* --- large blocks (storage/large_blocks.c) ------------------------------------------------ */

/* Allocate nbytes > SHMT_SMALL_MAX_BYTES. NULL, without an error record: memory is out even after the cache was
 * emptied. */
void* shmt__large_alloc(uint64_t nbytes, bool zeroed);
void shmt__large_free(void* p, uint64_t nbytes);
/* The size of the block that serves nbytes, and its class; 0: no block can be that large. */
uint64_t shmt__large_class_bytes(uint64_t nbytes, unsigned* c);
/* Return every cached large block to the kernel. */
void shmt__large_empty(void);

/* --- the process's counters (storage/counters.c) --------------------------------------- */

typedef struct shmt__block_counters {
  atomic_int_least64_t allocated;      /* bytes in live blocks, without the threads' pending ones */
  atomic_int_least64_t allocated_peak;
  atomic_int_least64_t reserved;       /* bytes obtained from the kernel and not returned */
  atomic_int_least64_t reserved_peak;
  atomic_int_least64_t cached;         /* bytes of free large blocks */
  atomic_uint_least64_t n_allocs, n_frees;
  atomic_uint_least64_t n_fresh;       /* large blocks that came from the kernel */
  atomic_uint_least64_t n_reused;      /* large blocks that came from the cache */
} shmt__block_counters;

extern shmt__block_counters shmt__counters;
void shmt__count_peak(atomic_int_least64_t* peak, int64_t value);
static inline void shmt__count_move(atomic_int_least64_t* now, atomic_int_least64_t* peak, int64_t by) {
  /* relaxed: these are figures for people, and order nothing. */
  int64_t value = atomic_fetch_add_explicit(now, by, memory_order_relaxed) + by;
  if (by > 0 && value > atomic_load_explicit(peak, memory_order_relaxed)) shmt__count_peak(peak, value);
}

#endif
