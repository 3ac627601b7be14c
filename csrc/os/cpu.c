/* os/cpu.c -- how many processors this process may use, and how they treat very small numbers. */
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

#if defined(__x86_64__)

enum { FLUSH = 0x8040 }; /* of MXCSR: results (bit 15) and operands (bit 6) */

uint64_t shmt__os_float_mode(void) { return __builtin_ia32_stmxcsr() & FLUSH; }

void shmt__os_set_float_mode(uint64_t mode) {
  __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~(unsigned)FLUSH) | (unsigned)mode);
}

#elif defined(__aarch64__)

enum { FLUSH = 1 << 24 }; /* FZ of FPCR */

static uint64_t control(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}

uint64_t shmt__os_float_mode(void) { return control() & FLUSH; }

void shmt__os_set_float_mode(uint64_t mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"((control() & ~(uint64_t)FLUSH) | mode));
}

#else

enum { FLUSH = 0 };

uint64_t shmt__os_float_mode(void) { return 0; }

void shmt__os_set_float_mode(uint64_t mode) { (void)mode; }

#endif

bool shmt__os_flush_denormals(bool on) {
  if (FLUSH == 0) return false;
  shmt__os_set_float_mode(on ? FLUSH : 0);
  return true;
}
