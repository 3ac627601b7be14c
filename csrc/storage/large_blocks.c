/* storage/large_blocks.c -- blocks above 4 KB: size classes, one shared cache, its limit. */
#include "os/mutex.h"
#include "os/pages.h"
#include "storage/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
  FIRST_LOG2 = 12, /* blocks are larger than 2^12 bytes */
  LAST_LOG2 = 46,  /* and at most 2^47, the address space */
  N_CLASSES = (LAST_LOG2 - FIRST_LOG2 + 1) * 8,
};
static const uint64_t pages_from_bytes = SHMT_HUGE_PAGE_BYTES; /* from this size on, blocks are mapped pages */
static const uint64_t zero_by_new_pages_bytes =
    16u << 20; /* below this size, writing zeros is faster than taking new pages */

/* The first bytes of a free block. */
typedef struct free_block {
  struct free_block *next, *prev;   /* of its class */
  struct free_block *newer, *older; /* of all, by the time they were freed */
  uint64_t nbytes;
  unsigned c;
} free_block;

static struct {
  free_block* heads[N_CLASSES];
  free_block *newest, *oldest;
  uint64_t cached_bytes;
  uint64_t limit_bytes; /* 0: not decided yet */
} cache; /* under the lock */
SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_LARGE_BLOCKS)

uint64_t shmt__large_class_bytes(uint64_t nbytes, unsigned* c) {
  unsigned e = 63u - (unsigned)__builtin_clzll(nbytes - 1);
  if (e > LAST_LOG2) return 0;
  unsigned k = (unsigned)((nbytes - 1) >> (e - 3)); /* 8 .. 15 */
  *c = (e - FIRST_LOG2) * 8 + (k - 8);
  return (uint64_t)(k + 1) << (e - 3);
}

static void unlink_locked(free_block* b) {
  if (b->prev) b->prev->next = b->next;
  else cache.heads[b->c] = b->next;
  if (b->next) b->next->prev = b->prev;
  if (b->newer) b->newer->older = b->older;
  else cache.newest = b->older;
  if (b->older) b->older->newer = b->newer;
  else cache.oldest = b->newer;
  cache.cached_bytes -= b->nbytes;
  shmt__count_move(&shmt__counters.cached, &shmt__counters.reserved_peak, -(int64_t)b->nbytes);
}

static void link_locked(free_block* b) {
  b->prev = NULL;
  b->next = cache.heads[b->c];
  if (b->next) b->next->prev = b;
  cache.heads[b->c] = b;
  b->newer = NULL;
  b->older = cache.newest;
  if (b->older) b->older->newer = b;
  else cache.oldest = b;
  cache.newest = b;
  cache.cached_bytes += b->nbytes;
  atomic_fetch_add_explicit(&shmt__counters.cached, (int64_t)b->nbytes, memory_order_relaxed);
}

/* An eighth of the machine's memory, between 256 MB and 4 GB. */
static uint64_t limit_locked(void) {
  if (cache.limit_bytes == 0) {
    uint64_t limit = shmt__os_memory_bytes() / 8;
    if (limit > (uint64_t)4 << 30) limit = (uint64_t)4 << 30;
    if (limit < (uint64_t)256 << 20) limit = (uint64_t)256 << 20;
    cache.limit_bytes = limit;
  }
  return cache.limit_bytes;
}

static void give_back(void* p, uint64_t nbytes) {
  shmt__count_move(&shmt__counters.reserved, &shmt__counters.reserved_peak, -(int64_t)nbytes);
  SHMT_UNPOISON(p, nbytes);
  if (nbytes >= pages_from_bytes)
    shmt__os_pages_unmap(p, nbytes);
  else
    free(p);
}

/* Remove blocks from the cache, oldest first, until it has at most `keep` bytes. Returns them, linked through next. */
static free_block* evict_locked(uint64_t keep) {
  free_block* victims = NULL;
  while (cache.cached_bytes > keep && cache.oldest != NULL) {
    free_block* b = cache.oldest;
    unlink_locked(b);
    b->next = victims;
    victims = b;
  }
  return victims;
}

static void give_back_all(free_block* victims) {
  while (victims != NULL) {
    free_block* b = victims;
    victims = b->next;
    give_back(b, b->nbytes);
  }
}

void shmt__large_empty(void) {
  shmt__mutex_lock(&lock);
  free_block* victims = evict_locked(0);
  shmt__mutex_unlock(&lock);
  give_back_all(victims);
}

static void* obtain(uint64_t size) {
  void* p = size >= pages_from_bytes ? shmt__os_pages_map(size) : aligned_alloc(64, size);
  if (p != NULL) {
    shmt__count_move(&shmt__counters.reserved, &shmt__counters.reserved_peak, (int64_t)size);
    atomic_fetch_add_explicit(&shmt__counters.n_fresh, 1, memory_order_relaxed);
  }
  return p;
}

void* shmt__large_alloc(uint64_t nbytes, bool zeroed) {
  unsigned c = 0;
  uint64_t size = shmt__large_class_bytes(nbytes, &c);
  if (size == 0) return NULL;

  shmt__mutex_lock(&lock);
  free_block* b = cache.heads[c];
  if (b != NULL) unlink_locked(b);
  shmt__mutex_unlock(&lock);

  void* p = b;
  bool is_zero = false;
  if (p != NULL) {
    SHMT_UNPOISON(p, size);
    atomic_fetch_add_explicit(&shmt__counters.n_reused, 1, memory_order_relaxed);
    if (zeroed && size >= zero_by_new_pages_bytes) {
      shmt__os_pages_zero(p, size);
      is_zero = true;
    }
  } else {
    p = obtain(size);
    if (p == NULL) {
      shmt__large_empty();
      p = obtain(size);
    }
    if (p == NULL) return NULL;
    is_zero = size >= pages_from_bytes;
  }
  if (zeroed && !is_zero) memset(p, 0, nbytes);
  SHMT_POISON((char*)p + nbytes, size - nbytes);
  atomic_fetch_add_explicit(&shmt__counters.n_allocs, 1, memory_order_relaxed);
  shmt__count_move(&shmt__counters.allocated, &shmt__counters.allocated_peak, (int64_t)size);
  return p;
}

void shmt__large_free(void* p, uint64_t nbytes) {
  unsigned c = 0;
  uint64_t size = shmt__large_class_bytes(nbytes, &c);
  free_block* b = p;
  free_block* victims = NULL;
  atomic_fetch_add_explicit(&shmt__counters.n_frees, 1, memory_order_relaxed);
  shmt__count_move(&shmt__counters.allocated, &shmt__counters.allocated_peak, -(int64_t)size);
  SHMT_UNPOISON(p, size);
#if SHMT_DEBUG >= 1
  memset(p, 0xdb, nbytes);
#endif
  shmt__mutex_lock(&lock);
  uint64_t limit = limit_locked();
  bool keep = size <= limit;
  if (keep) {
    victims = evict_locked(limit - size);
    b->nbytes = size;
    b->c = c;
    link_locked(b);
    SHMT_POISON(b + 1, size - sizeof *b);
  }
  shmt__mutex_unlock(&lock);
  give_back_all(victims);
  if (!keep) give_back(p, size);
}
