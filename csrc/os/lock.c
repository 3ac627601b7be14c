/* os/lock.c -- locks on bytes of a file that belong to an open file description. */
#define _GNU_SOURCE
#include "os/lock.h"

#include <errno.h>
#include <fcntl.h>

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

bool shmt__os_byte_is_locked(int fd, uint64_t at) {
  struct flock lock;
  return control(fd, F_OFD_GETLK, F_WRLCK, at, &lock) != 0 || lock.l_type != F_UNLCK;
}
