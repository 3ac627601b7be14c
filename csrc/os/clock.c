/* os/clock.c -- clocks that are cheap to read. */
#define _GNU_SOURCE
#include "os/clock.h"

#include <time.h>

uint64_t shmt__os_now_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t shmt__os_wall_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_REALTIME_COARSE, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t shmt__os_thread_cpu_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
