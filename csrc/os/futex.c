/* os/futex.c -- waiting until a word of shared memory changes, a clock in nanoseconds, threads. */
#define _GNU_SOURCE
#include "os/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec timespec_of(uint64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

uint64_t shmt__os_now_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static _Thread_local uint32_t n_interrupted;

uint32_t shmt__os_n_interrupted(void) { return n_interrupted; }

static shmt__os_wait interrupted(void) {
  n_interrupted++;
  return SHMT_OS_WAIT_INTERRUPTED;
}

shmt__os_wait shmt__os_futex_wait(atomic_uint_least32_t* word, uint32_t expected,
                                  uint64_t deadline_ns) {
  struct timespec t = timespec_of(deadline_ns);
  /* The BITSET form takes an absolute time of the monotonic clock. */
  long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, &t, NULL, FUTEX_BITSET_MATCH_ANY);
  if (r == 0 || errno == EAGAIN) return SHMT_OS_WAIT_WOKEN;
  if (errno == EINTR) return interrupted();
  return SHMT_OS_WAIT_TIMED_OUT;
}

/* --- several words; the headers of older kernels do not have this --- */

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
enum { FUTEX_OF_32_BITS = 2 };

typedef struct waiter {
  uint64_t expected, address;
  uint32_t flags, zero;
} waiter;
_Static_assert(sizeof(waiter) == 24, "struct futex_waitv");

uint32_t shmt__os_most_futexes(void) {
  static atomic_uint most; /* relaxed: a cached constant */
  uint32_t n = atomic_load_explicit(&most, memory_order_relaxed);
  if (n == 0) {
    /* None is one too few, says a kernel that has the call. */
    const bool has_call = syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == EINVAL;
    n = has_call ? SHMT_OS_MOST_FUTEXES : 1;
    atomic_store_explicit(&most, n, memory_order_relaxed);
  }
  return n;
}

shmt__os_wait shmt__os_futex_wait_any(atomic_uint_least32_t* const* words, const uint32_t* expected, uint32_t n,
                                      uint64_t deadline_ns) {
  waiter waiters[SHMT_OS_MOST_FUTEXES];
  struct timespec t = timespec_of(deadline_ns);
  SHMT_ASSERT(n > 0 && n <= shmt__os_most_futexes());
  if (n == 1) return shmt__os_futex_wait(words[0], expected[0], deadline_ns);
  for (uint32_t i = 0; i < n; i++)
    waiters[i] = (waiter){.expected = expected[i], .address = (uintptr_t)words[i], .flags = FUTEX_OF_32_BITS};
  long r = syscall(SYS_futex_waitv, waiters, n, 0, &t, CLOCK_MONOTONIC);
  if (r >= 0 || errno == EAGAIN) return SHMT_OS_WAIT_WOKEN;
  if (errno == EINTR) return interrupted();
  return SHMT_OS_WAIT_TIMED_OUT;
}

bool shmt__os_restarts_calls(void) {
  for (int number = 1; number < NSIG; number++) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0) continue; /* the C library's own */
    const bool is_handled = (action.sa_flags & SA_SIGINFO) != 0 ||
                            (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
    if (is_handled && (action.sa_flags & SA_RESTART) != 0) return true;
  }
  return false;
}

unsigned shmt__os_futex_wake(atomic_uint_least32_t* word, unsigned n) {
  long r = syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
  return r > 0 ? (unsigned)r : 0;
}

int shmt__os_thread_start(void* (*f)(void* arg), void* arg) {
  sigset_t all, old;
  pthread_attr_t attributes;
  pthread_t thread;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &old);
  (void)pthread_attr_init(&attributes);
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  (void)pthread_attr_setstacksize(&attributes, 128 << 10);
  int err = pthread_create(&thread, &attributes, f, arg);
  (void)pthread_attr_destroy(&attributes);
  (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
  return -err;
}

void shmt__os_thread_name(const char* name) { (void)pthread_setname_np(pthread_self(), name); }
