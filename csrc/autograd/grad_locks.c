/* autograd/grad_locks.c -- the locks of .grad and of lazily made histories. */
#include "autograd/grad_locks.h"

#include "os/mutex.h"

enum { N_LOCKS = 64 };
static struct {
  _Alignas(64) shmt__mutex mutex;
} locks[N_LOCKS];

static shmt__mutex* lock_for(const void* what) {
  uint64_t h = (uint64_t)(uintptr_t)what * 0x9e3779b97f4a7c15u;
  return &locks[h >> 58].mutex;
}
void shmt__grad_lock(const void* what) { shmt__mutex_lock(lock_for(what)); }
void shmt__grad_unlock(const void* what) { shmt__mutex_unlock(lock_for(what)); }

__attribute__((constructor)) static void init_locks(void) {
  for (int i = 0; i < N_LOCKS; i++) shmt__mutex_init(&locks[i].mutex, SHMT_MUTEX_GRAD);
}
