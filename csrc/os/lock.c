/* os/lock.c -- locks on bytes of a file that belong to an open file description. */
#define _GNU_SOURCE
#include "os/lock.h"

#include <errno.h>
#include <fcntl.h>

static int control(int fd, int command, short type, uint64_t at, struct flock* out) {
  *out = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
  int done;
  do {
    done = fcntl(fd, command, out);
  } while (done != 0 && errno == EINTR);
  return done;
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
