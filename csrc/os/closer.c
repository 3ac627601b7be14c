/* os/closer.c -- threads that close what came from others. See Note [Descriptors of others] in os/closer.h. */
#define _GNU_SOURCE
#include "os/closer.h"

#include "os/descriptor.h"
#include "os/futex.h"
#include "os/mutex.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Headers of the C library lack it; the kernel's have it. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
  MOST_CLOSERS = 64, /* each of them may be kept by a file that is never closed */
  FIRST_ROOM = 64,
  HURRY_NS = 1000000,
  NO_TIMER = -1,
  MOST_NOT_NOTED = 8192, /* descriptors: one for each process of the session, and few others */
};

static struct {
  int* fds;
  uint32_t n, room;
  uint32_t n_taken; /* ever; it may wrap */
} waiting; /* under the lock */
SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_CLOSERS)

static atomic_uint_least32_t n_given; /* ever; closers without work sleep on it */

/* Of the thread that gives: */
static unsigned n_closers;
static uint32_t n_taken_before; /* at its last check */
static bool has_waited;         /* something did then */

/* --- hurrying --- */

static _Thread_local int timer = NO_TIMER; /* as the kernel numbers them */
static bool confined = true;               /* is_confined, once the closers were started */

static void do_nothing(int number) { (void)number; }

/* Make the calling thread's timer. Without one it waits as long as it must. */
static void make_timer(void) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
  sigset_t its_signal;
  int made = NO_TIMER;
  event.sigev_notify_thread_id = (pid_t)shmt__os_thread_id();
  /* A system call: before version 2.34 the C library has timers in a library of their own. */
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &made) != 0) return;
  (void)sigemptyset(&its_signal);
  (void)sigaddset(&its_signal, SIGRTMIN);
  (void)pthread_sigmask(SIG_UNBLOCK, &its_signal, NULL);
  timer = made;
}

void shmt__closers_hurry(bool on) {
  const struct itimerspec never = {{0, 0}, {0, 0}}, each_ms = {{0, HURRY_NS}, {0, HURRY_NS}};
  const int err = errno;
  if (timer == NO_TIMER) return;
  (void)syscall(SYS_timer_settime, timer, 0, on ? &each_ms : &never, NULL);
  errno = err;
}

/* Is there a security module that confines this process? It may refuse any descriptor, which is closed then. */
static bool is_confined(void) {
  static const char unconfined[] = "unconfined"; /* so AppArmor says, and SELinux with a role behind it */
  char label[sizeof unconfined - 1];
  const int fd = open("/proc/thread-self/attr/current", O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? -1 : read(fd, label, sizeof label);
  if (fd >= 0) (void)close(fd);
  /* Without a module there is nothing to read. */
  return n > 0 && (n != (ssize_t)sizeof label || memcmp(label, unconfined, sizeof label) != 0);
}

/* May the kernel find no number for one of n new descriptors? It gives the lowest that is free. So no number was ever
 * higher than the highest noted one, and those that are not noted counted on top. */
static bool may_lack_descriptors(int n) {
  return shmt__os_highest_descriptor() > shmt__os_recent_descriptor_limit() - MOST_NOT_NOTED - n;
}

bool shmt__closers_hurry_to_receive(int most) {
  if (timer == NO_TIMER || (!confined && !may_lack_descriptors(most))) return false;
  shmt__closers_hurry(true);
  return true;
}

/* --- closing --- */

static void close_here(int fd) {
  shmt__closers_hurry(true);
  (void)close(fd);
  shmt__closers_hurry(false);
}

/* A descriptor that waits, which is the caller's now; -1: none does. */
static int take(void) {
  int fd = -1;
  shmt__mutex_lock(&lock);
  if (waiting.n > 0) {
    fd = waiting.fds[--waiting.n];
    waiting.n_taken++;
  }
  shmt__mutex_unlock(&lock);
  return fd;
}

static void* run_closer(void* unused) {
  shmt__os_thread_name("shmt-closer");
  make_timer();
  for (;;) {
    /* acquire: what was given before this count is on the list. */
    const uint32_t seen = atomic_load_explicit(&n_given, memory_order_acquire);
    const int fd = take();
    if (fd >= 0) close_here(fd);
    else (void)shmt__os_futex_wait(&n_given, seen, UINT64_MAX);
  }
  return unused;
}

static void start_closer(void) {
  if (n_closers < MOST_CLOSERS && shmt__os_thread_start(run_closer, NULL) == 0) n_closers++;
}

/* --- giving --- */

void shmt__closers_start(void) {
  struct sigaction action = {.sa_handler = do_nothing}; /* without SA_RESTART: the call must end */
  (void)sigemptyset(&action.sa_mask);
  if (sigaction(SIGRTMIN, &action, NULL) != 0) return;
  make_timer();
  confined = is_confined();
  start_closer();
}

/* Make room for one more. False: out of memory. Under the lock. */
static bool make_room(void) {
  if (waiting.n < waiting.room) return true;
  const uint32_t room = waiting.room == 0 ? FIRST_ROOM : 2 * waiting.room;
  int* fds = realloc(waiting.fds, room * sizeof *fds);
  if (fds == NULL) return false;
  waiting.fds = fds;
  waiting.room = room;
  return true;
}

void shmt__closers_close(int fd) {
  if (fd < 0) return;
  bool is_given = false;
  if (n_closers > 0) {
    shmt__mutex_lock(&lock);
    is_given = make_room();
    if (is_given) waiting.fds[waiting.n++] = fd;
    shmt__mutex_unlock(&lock);
  }
  if (!is_given) {
    close_here(fd);
    return;
  }
  /* release: as above. */
  (void)atomic_fetch_add_explicit(&n_given, 1, memory_order_release);
  (void)shmt__os_futex_wake(&n_given, 1);
}

void shmt__closers_check(void) {
  shmt__mutex_lock(&lock);
  const bool waits = waiting.n > 0;
  const uint32_t n_taken = waiting.n_taken;
  shmt__mutex_unlock(&lock);
  if (waits && has_waited && n_taken == n_taken_before) start_closer();
  if (waits) (void)shmt__os_futex_wake(&n_given, 1); /* a wake may have failed */
  has_waited = waits;
  n_taken_before = n_taken;
}
