/* os/descriptor.c -- descriptors that the library keeps in the midst of a program. See Note [Kept descriptors]. */
#define _GNU_SOURCE
#include "os/descriptor.h"

#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  FIRST = 3,
  HIGH = 1024, /* higher numbers would make every fork() copy a longer table */
  LIMIT_READ_MS = 100,
};

int shmt__os_descriptor_limit(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > INT_MAX) return INT_MAX;
  return (int)files.rlim_cur;
}

int shmt__os_recent_descriptor_limit(void) {
  /* The limit, and the time in its upper half. relaxed: each value is whole by itself. */
  static atomic_uint_least64_t known;
  const uint32_t now_ms = (uint32_t)shmt__os_now_ms();
  uint64_t read = atomic_load_explicit(&known, memory_order_relaxed);
  if (read == 0 || now_ms - (uint32_t)(read >> 32) >= LIMIT_READ_MS) {
    read = (uint64_t)now_ms << 32 | (uint32_t)shmt__os_descriptor_limit();
    atomic_store_explicit(&known, read, memory_order_relaxed);
  }
  return (int)(uint32_t)read;
}

static atomic_int highest;

/* Returns fd. relaxed: the number is all there is to know. */
static int note(int fd) {
  int known = atomic_load_explicit(&highest, memory_order_relaxed);
  while (fd > known &&
         !atomic_compare_exchange_weak_explicit(&highest, &known, fd, memory_order_relaxed, memory_order_relaxed)) {
  }
  return fd;
}

int shmt__os_highest_descriptor(void) { return atomic_load_explicit(&highest, memory_order_relaxed); }

static int duplicate(int fd, int from) { return note(fcntl(fd, F_DUPFD_CLOEXEC, from)); }

/* A duplicate with a high number, or else with any above the standard streams. */
static int duplicate_high(int fd) {
  int high = duplicate(fd, HIGH);
  if (high < 0) high = duplicate(fd, shmt__os_descriptor_limit() / 2);
  return high >= 0 ? high : duplicate(fd, FIRST);
}

static bool leads_to(int fd, const shmt__descriptor* d) {
  struct stat st;
  return fstat(fd, &st) == 0 && (uint64_t)st.st_dev == d->device &&
         (uint64_t)st.st_ino == d->inode && (st.st_mode & S_IFMT) == d->kind;
}

shmt__descriptor shmt__descriptor_of(int fd) {
  struct stat st;
  if (fd < 0) return SHMT_NO_DESCRIPTOR;
  if (fstat(fd, &st) != 0) {
    (void)close(fd);
    return SHMT_NO_DESCRIPTOR;
  }
  return (shmt__descriptor){.number = fd,
                            .kind = st.st_mode & S_IFMT,
                            .device = (uint64_t)st.st_dev,
                            .inode = (uint64_t)st.st_ino};
}

shmt__descriptor shmt__descriptor_own(int fd) {
  int high = fd < 0 ? -1 : duplicate_high(fd);
  if (high < 0) return shmt__descriptor_of(fd);
  (void)close(fd);
  return shmt__descriptor_of(high);
}

shmt__descriptor shmt__descriptor_dup(int fd) { return shmt__descriptor_of(fd < 0 ? -1 : duplicate_high(fd)); }

shmt__descriptor shmt__descriptor_copy(const shmt__descriptor* d) {
  return shmt__descriptor_dup(shmt__descriptor_number(d));
}

int shmt__descriptor_number(const shmt__descriptor* d) {
  int fd = atomic_load_explicit(&d->number, memory_order_relaxed);
  return fd >= 0 && leads_to(fd, d) ? fd : -1;
}

void shmt__descriptor_close(shmt__descriptor* d) {
  int fd = atomic_exchange_explicit(&d->number, -1, memory_order_relaxed);
  if (fd >= 0 && leads_to(fd, d)) (void)close(fd);
}

void shmt__descriptor_replace(shmt__descriptor* d, shmt__descriptor next) {
  shmt__descriptor_close(d);
  if (d->inode != next.inode || d->device != next.device) { /* not where another thread reads the same values */
    d->kind = next.kind;
    d->device = next.device;
    d->inode = next.inode;
  }
  atomic_store_explicit(&d->number, atomic_load_explicit(&next.number, memory_order_relaxed),
                        memory_order_relaxed);
}

int shmt__os_above_streams(int fd) {
  if (fd < 0 || fd >= FIRST) return note(fd);
  int moved = duplicate(fd, FIRST), err = errno;
  (void)close(fd);
  errno = err;
  return moved;
}

int shmt__os_try_descriptors(int fd, int n) {
  if (n == 0) return 0;
  int copy = duplicate(fd, FIRST);
  if (copy < 0) return -errno;
  int err = shmt__os_try_descriptors(fd, n - 1);
  (void)close(copy);
  return err;
}

bool shmt__os_is_out_of_descriptors(int err) { return err == EMFILE || err == ENFILE; }

void shmt__os_open_streams(void) {
  int fd;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < FIRST) {
  }
  if (fd >= FIRST) (void)close(fd);
}
