/* os/cpu.c -- how many processors this process may use. */
#define _GNU_SOURCE
#include "os/cpu.h"

#include <sched.h>
#include <unistd.h>

int shmt__os_cpu_count(void) {
  cpu_set_t set;
  long online;

  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  online =
      sysconf(_SC_NPROCESSORS_ONLN); /* more than 1024 processors: the mask above is too small */
  return online > 0 ? (int)online : 1;
}
