/* os/flag.c -- descriptors that are readable while a flag is up. See os/flag.h. */
#define _GNU_SOURCE
#include "os/flag.h"

#include "os/descriptor.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int shmt__os_flag_open(void) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  socklen_t len = sizeof a;
  int fd = shmt__os_above_streams(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0) return -errno;
  /* An address without a path: the kernel chooses an abstract one. */
  if (bind(fd, (struct sockaddr*)&a, sizeof a.sun_family) != 0 ||
      getsockname(fd, (struct sockaddr*)&a, &len) != 0 || connect(fd, (struct sockaddr*)&a, len) != 0) {
    int err = errno;
    (void)close(fd);
    return -err;
  }
  /* Since it is connected nobody else can send to it. What came before that is of no meaning. */
  shmt__os_flag_lower(fd);
  return fd;
}

void shmt__os_flag_raise(int fd) { (void)send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); }

void shmt__os_flag_lower(int fd) {
  char byte;
  while (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0) {
  }
}
