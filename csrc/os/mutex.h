/* os/mutex.h -- a mutex for sections of some dozen instructions: a thread that finds it locked spins before it
 * sleeps. */
#ifndef SHMT_OS_MUTEX_H
#define SHMT_OS_MUTEX_H

#include <pthread.h>

#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#define SHMT_OS_SHORT_MUTEX PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#else
#define SHMT_OS_SHORT_MUTEX PTHREAD_MUTEX_INITIALIZER
#endif

/* Unlock it in a forked child, where the thread that may have held it does not exist. */
static inline void shmt__os_short_mutex_reset(pthread_mutex_t* m) {
  static const pthread_mutex_t fresh = SHMT_OS_SHORT_MUTEX;
  *m = fresh;
}

#endif
