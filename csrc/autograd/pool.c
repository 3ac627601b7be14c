/* autograd/pool.c -- memory for nodes and metadata: per-thread lists of small blocks. */
#include "autograd/pool.h"

#include <pthread.h>

_Thread_local shmt__pool shmt__tls_pool __attribute__((tls_model("initial-exec")));

static pthread_key_t thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool have_key;

/* The list is emptied and `registered` cleared, so that destructors that run later free directly.
 */
static void empty(void* arg) {
  shmt__pool* pool = arg;
  pool->registered = false;
  for (int c = 0; c < SHMT_POOL_CLASSES; c++) {
    while (pool->head[c]) {
      void* p = pool->head[c];
      pool->head[c] = *(void**)p;
      free(p);
    }
    pool->count[c] = 0;
  }
}

static void make_key(void) { have_key = pthread_key_create(&thread_end, empty) == 0; }

void* shmt__pool_take_slow(size_t nbytes) {
  size_t c = (nbytes - 1) / SHMT_POOL_STEP;
  return malloc(c < SHMT_POOL_CLASSES ? (c + 1) * SHMT_POOL_STEP : nbytes);
}

void shmt__pool_give_slow(void* p, size_t nbytes) {
  size_t c = (nbytes - 1) / SHMT_POOL_STEP;
  shmt__pool* pool = &shmt__tls_pool;
  if (c >= SHMT_POOL_CLASSES || pool->count[c] >= SHMT_POOL_KEEP) {
    free(p);
    return;
  }
  pthread_once(&once, make_key);
  /* Without the key the lists would leak at the thread's end. A thread that is already ending may
   * come here again: setspecific then makes the destructor run once more. */
  if (!have_key || pthread_setspecific(thread_end, pool) != 0) {
    free(p);
    return;
  }
  pool->registered = true;
  *(void**)p = pool->head[c];
  pool->head[c] = p;
  pool->count[c]++;
}
