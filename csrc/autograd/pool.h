/* autograd/pool.h -- memory for nodes and metadata: per-thread lists of small blocks.
 *
 * Recording an operator allocates a node and metadata, and frees both soon after, mostly on the same thread. So a freed
 * block goes to a list of its thread and size class (64 bytes apart, up to 512), for reuse. Lists have a limit; at the
 * end of the thread their blocks go back to malloc.
 */
#ifndef SHMT_AUTOGRAD_POOL_H
#define SHMT_AUTOGRAD_POOL_H

#include "base/error.h"

#include <stdlib.h>

enum { SHMT_POOL_CLASSES = 8, SHMT_POOL_STEP = 64, SHMT_POOL_KEEP = 1024 };

typedef struct shmt__pool {
  void* head[SHMT_POOL_CLASSES];
  uint16_t count[SHMT_POOL_CLASSES];
  bool registered; /* the thread's end will empty the lists */
} shmt__pool;
extern _Thread_local shmt__pool shmt__tls_pool __attribute__((tls_model("initial-exec")));

/* An uninitialised block of nbytes > 0, or NULL. Slow paths of the two below. */
void* shmt__pool_take_slow(size_t nbytes);
void shmt__pool_give_slow(void* p, size_t nbytes);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Sanitizers see uses after the end only when blocks really end. */
static inline void* shmt__pool_take(size_t nbytes) { return malloc(nbytes); }
static inline void shmt__pool_give(void* p, size_t nbytes) {
  (void)nbytes;
  free(p);
}
#else
static inline void* shmt__pool_take(size_t nbytes) {
  size_t c = (nbytes - 1) / SHMT_POOL_STEP;
  if (SHMT_UNLIKELY(c >= SHMT_POOL_CLASSES || !shmt__tls_pool.head[c]))
    return shmt__pool_take_slow(nbytes);
  void* p = shmt__tls_pool.head[c];
  shmt__tls_pool.head[c] = *(void**)p;
  shmt__tls_pool.count[c]--;
  return p;
}
/* p is not NULL; nbytes as it was taken. */
static inline void shmt__pool_give(void* p, size_t nbytes) {
  size_t c = (nbytes - 1) / SHMT_POOL_STEP;
  if (SHMT_UNLIKELY(c >= SHMT_POOL_CLASSES || shmt__tls_pool.count[c] >= SHMT_POOL_KEEP ||
                    !shmt__tls_pool.registered)) {
    shmt__pool_give_slow(p, nbytes);
    return;
  }
  *(void**)p = shmt__tls_pool.head[c];
  shmt__tls_pool.head[c] = p;
  shmt__tls_pool.count[c]++;
}
#endif

#endif
