/* os/cpu.c -- the processors that a thread may use, how they treat subnormal numbers, and AMX tile registers. */
#define _GNU_SOURCE
#include "os/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

int shmt__os_cpu_count(void) {
  cpu_set_t set;
  long online;

  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  /* With more than 1024 processors, the mask above is too small. */
  online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

int shmt__os_current_cpu(void) { return sched_getcpu(); }

void shmt__os_leave_cpu(int cpu) {
  cpu_set_t set, others, now;

  if (sched_getaffinity(0, sizeof set, &set) != 0 || !CPU_ISSET((size_t)cpu, &set) || CPU_COUNT(&set) < 2) return;
  others = set;
  CPU_CLR((size_t)cpu, &others);
  if (sched_setaffinity(0, sizeof others, &others) != 0) return;
  /* The move took a while: somebody may have changed this thread's mask meanwhile. Keep that change. */
  if (sched_getaffinity(0, sizeof now, &now) == 0 && !CPU_EQUAL(&now, &others)) return;
  (void)sched_setaffinity(0, sizeof set, &set);
}

/* --- AMX tiles ---------------------------------------------------------------------- */

#if defined(__x86_64__)

static pthread_once_t tiles_once = PTHREAD_ONCE_INIT;
static bool tiles_allowed;

static void request_tiles(void) {
  enum { LEAF = 7, BFLOAT16 = 1 << 22, TILES = 1 << 24 };      /* of cpuid, in edx */
  enum { GRANTED = 0x1022, REQUEST = 0x1023, TILE_DATA = 18 }; /* of arch_prctl */
  const unsigned wanted = BFLOAT16 | TILES;
  unsigned a, b, c, d;
  uint64_t granted = 0;

  if (!__get_cpuid_count(LEAF, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return;
  if (syscall(SYS_arch_prctl, REQUEST, TILE_DATA) != 0 || syscall(SYS_arch_prctl, GRANTED, &granted) != 0) return;
  tiles_allowed = (granted >> TILE_DATA & 1) != 0;
}

bool shmt__os_allow_amx(void) {
  (void)pthread_once(&tiles_once, request_tiles);
  return tiles_allowed;
}

#else

bool shmt__os_allow_amx(void) { return false; }

#endif

/* --- subnormal numbers -------------------------------------------------------------- */

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
