/* ipc/session/move_locks.c -- locks that threads take while they move a storage's bytes into shared memory. */
#include "ipc/session/move_locks.h"

#include "os/mutex.h"

enum { N_LOCKS = 8 };
static shmt__mutex locks[N_LOCKS];

__attribute__((constructor)) static void init_locks(void) {
  for (int i = 0; i < N_LOCKS; i++) shmt__mutex_init(&locks[i], SHMT_MUTEX_MOVE);
}

static shmt__mutex* lock_of(const shmt_storage* s) {
  return &locks[((uintptr_t)s >> 6) % N_LOCKS]; /* storage headers are 64 bytes apart */
}

void shmt__move_lock(const shmt_storage* s) { shmt__mutex_lock(lock_of(s)); }
void shmt__move_unlock(const shmt_storage* s) { shmt__mutex_unlock(lock_of(s)); }
