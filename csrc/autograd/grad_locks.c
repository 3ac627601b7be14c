/* autograd/grad_locks.c -- the locks of .grad and of lazily made histories. */
#include "autograd/meta.h"

#include <pthread.h>

enum { N_LOCKS = 64 };
static struct {
  _Alignas(64) pthread_mutex_t mutex;
} locks[N_LOCKS];

static pthread_mutex_t* lock_for(const void* what) {
  uint64_t h = (uint64_t)(uintptr_t)what * 0x9e3779b97f4a7c15u;
  return &locks[h >> 58].mutex;
}
void shmt__grad_lock(const void* what) { pthread_mutex_lock(lock_for(what)); }
void shmt__grad_unlock(const void* what) { pthread_mutex_unlock(lock_for(what)); }

/* A forked child gets fresh locks: other threads of its parent may have held any of them. */
static void locks_init(void) {
  for (int i = 0; i < N_LOCKS; i++) pthread_mutex_init(&locks[i].mutex, NULL);
}

__attribute__((constructor)) static void install(void) {
  locks_init();
  (void)pthread_atfork(NULL, NULL, locks_init);
}
