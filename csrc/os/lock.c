/* os/lock.c -- locks on bytes of a file that belong to an open file description. */
#define _GNU_SOURCE
#include "os/lock.h"

#include "os/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

enum { ATTEMPTS = 4 };

/* A call that fails without an answer is repeated, because much depends on the answer: the manager gives a client whose
 * lock it cannot confirm another number. */
static int control(int fd, int command, short type, uint64_t at, struct flock* out) {
  for (int failures = 0; failures < ATTEMPTS;) {
    *out = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    if (fcntl(fd, command, out) == 0) return 0;
    if (errno == EAGAIN || errno == EACCES) return -1;
    if (errno != EINTR) failures++;
  }
  return -1;
}

bool shmt__os_lock_byte(int fd, uint64_t at) {
  struct flock lock;
  return control(fd, F_OFD_SETLK, F_WRLCK, at, &lock) == 0;
}

void shmt__os_unlock_byte(int fd, uint64_t at) {
  struct flock lock;
  (void)control(fd, F_OFD_SETLK, F_UNLCK, at, &lock);
}

void* shmt__os_pin_locks(int fd) {
  void* pin = mmap(NULL, shmt__os_page_bytes(), PROT_NONE, MAP_SHARED, fd, 0);
  if (pin == MAP_FAILED) return NULL;
  if (madvise(pin, shmt__os_page_bytes(), MADV_DONTFORK) == 0) return pin;
  shmt__os_unpin_locks(pin);
  return NULL;
}

void shmt__os_unpin_locks(void* pin) { shmt__os_unmap(pin, shmt__os_page_bytes()); }

bool shmt__os_byte_is_locked(int fd, uint64_t at) {
  struct flock lock;
  return control(fd, F_OFD_GETLK, F_WRLCK, at, &lock) != 0 || lock.l_type != F_UNLCK;
}
