/* os/futex.h -- waiting until a word of shared memory changes, a clock in nanoseconds, threads.
 *
 * The word may be mapped at different addresses in different processes.
 */
#ifndef SHMT_OS_FUTEX_H
#define SHMT_OS_FUTEX_H

#include "base/error.h"

#include <stdatomic.h>

typedef enum shmt__os_wait {
  SHMT_OS_WAIT_WOKEN, /* or the word had changed already, or for no reason: check the condition again */
  SHMT_OS_WAIT_TIMED_OUT,
  SHMT_OS_WAIT_INTERRUPTED, /* by a signal */
} shmt__os_wait;

/* Sleep while *word is `expected`, at most until deadline_ns of the clock of shmt__os_now_ns(). */
shmt__os_wait shmt__os_futex_wait(atomic_uint_least32_t* word, uint32_t expected,
                                  uint64_t deadline_ns);

/* How many sleeps of this thread a signal has ended so far. Whoever waits in slices, which end in the same way, sees by
 * it whether there was a signal. */
uint32_t shmt__os_n_interrupted(void);

enum { SHMT_OS_MOST_FUTEXES = 128 };
/* How many words shmt__os_futex_wait_any takes: SHMT_OS_MOST_FUTEXES, or 1 where the kernel is older than Linux 5.16 or
 * a container forbids the call. */
uint32_t shmt__os_most_futexes(void);
/* Sleep while each of n words is as expected, 1 to shmt__os_most_futexes() of them, at most until deadline_ns. With
 * several words, a signal whose handler has SA_RESTART does not end it. */
shmt__os_wait shmt__os_futex_wait_any(atomic_uint_least32_t* const* words, const uint32_t* expected, uint32_t n,
                                      uint64_t deadline_ns);
/* Has this process a handler with SA_RESTART, for any signal? */
bool shmt__os_restarts_calls(void);
/* Wake at most n sleepers. Returns how many were woken. */
unsigned shmt__os_futex_wake(atomic_uint_least32_t* word, unsigned n);

/* Nanoseconds of the monotonic clock, which is never set. */
uint64_t shmt__os_now_ns(void);
/* Tell the processor that this is a busy wait. */
static inline void shmt__os_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Run f(arg) in a new, detached thread that blocks all signals. Returns 0 or -errno. */
int shmt__os_thread_start(void* (*f)(void* arg), void* arg);
/* Name the calling thread, for debuggers and top: at most 15 bytes. */
void shmt__os_thread_name(const char* name);

#endif
