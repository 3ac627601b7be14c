/* os/mutex.h -- a mutex for sections of some dozen instructions: whoever finds it taken spins before sleeping. */
#ifndef SHMT_OS_MUTEX_H
#define SHMT_OS_MUTEX_H

#include <pthread.h>

#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#define SHMT_OS_SHORT_MUTEX PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#else
#define SHMT_OS_SHORT_MUTEX PTHREAD_MUTEX_INITIALIZER
#endif

/* Free again, in the child of a fork, where the thread that may have held it is gone. */
static inline void shmt__os_short_mutex_reset(pthread_mutex_t* m) {
  static const pthread_mutex_t fresh = SHMT_OS_SHORT_MUTEX;
  *m = fresh;
}

#endif
