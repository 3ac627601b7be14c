/* ipc/session/move_locks.c -- locks that threads take while they move a storage's bytes into shared memory. */
#include "ipc/session/move_locks.h"

#include <pthread.h>

static pthread_mutex_t locks[] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
enum { N_LOCKS = sizeof locks / sizeof *locks };

static pthread_mutex_t* lock_of(const shmt_storage* s) {
  return &locks[((uintptr_t)s >> 6) % N_LOCKS]; /* storage headers are 64 bytes apart */
}

void shmt__move_lock(const shmt_storage* s) { (void)pthread_mutex_lock(lock_of(s)); }
void shmt__move_unlock(const shmt_storage* s) { (void)pthread_mutex_unlock(lock_of(s)); }

void shmt__move_lock_all(void) {
  for (int i = 0; i < N_LOCKS; i++) (void)pthread_mutex_lock(&locks[i]);
}
void shmt__move_unlock_all(void) {
  for (int i = N_LOCKS - 1; i >= 0; i--) (void)pthread_mutex_unlock(&locks[i]);
}
