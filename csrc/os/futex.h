/* os/futex.h -- waiting for a word of shared memory to change, and a finer clock.
 *
 * The word may be mapped at different addresses in different processes.
 */
#ifndef SHMT_OS_FUTEX_H
#define SHMT_OS_FUTEX_H

#include "base/error.h"

#include <stdatomic.h>

typedef enum shmt__os_wait {
  SHMT_OS_WAIT_WOKEN, /* or the word had changed, or for no reason: look again */
  SHMT_OS_WAIT_TIMED_OUT,
  SHMT_OS_WAIT_INTERRUPTED, /* by a signal */
} shmt__os_wait;

/* Sleep while *word is `expected`, until deadline_ns of shmt__os_now_ns(). */
shmt__os_wait shmt__os_futex_wait(atomic_uint_least32_t* word, uint32_t expected,
                                  uint64_t deadline_ns);
/* Wake up to n sleepers; returns how many there were. */
unsigned shmt__os_futex_wake(atomic_uint_least32_t* word, unsigned n);

/* Nanoseconds of a clock that never steps. */
uint64_t shmt__os_now_ns(void);
/* Tell the processor that this is a busy wait. */
static inline void shmt__os_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* A counter of events as a descriptor: readable while it was set and not cleared. -errno. */
int shmt__os_eventfd(void);
void shmt__os_eventfd_set(int fd);
void shmt__os_eventfd_clear(int fd);

/* Run f(arg) in a thread of its own that takes no signals and nobody joins. -errno or 0. */
int shmt__os_thread_start(void* (*f)(void* arg), void* arg);

#endif
