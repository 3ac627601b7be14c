/* os/daemon.c -- running under a supervisor: readiness, termination, lock files, exec. */
#define _GNU_SOURCE
#include "os/daemon.h"

#include "os/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static volatile sig_atomic_t asked_to_end;

static void on_signal(int number) {
  (void)number;
  asked_to_end = 1;
}

void shmt__os_watch_termination(void) {
  struct sigaction action = {.sa_handler = on_signal};
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGTERM, &action, NULL);
  (void)sigaction(SIGINT, &action, NULL);
}

bool shmt__os_is_asked_to_end(void) { return asked_to_end != 0; }

void shmt__os_notify(const char* state) {
  const char* to = getenv("NOTIFY_SOCKET");
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  size_t len = to == NULL ? 0 : strlen(to);
  if (len < 2 || len >= sizeof a.sun_path || (to[0] != '/' && to[0] != '@')) return;
  memcpy(a.sun_path, to, len);
  if (a.sun_path[0] == '@') a.sun_path[0] = '\0';
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr*)&a,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
  (void)close(fd);
}

int shmt__os_lock_file(const char* path) {
  int fd = shmt__os_above_streams(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd < 0) return -errno;
  int done;
  do {
    done = flock(fd, LOCK_EX | LOCK_NB);
  } while (done != 0 && errno == EINTR);
  if (done == 0) return fd;
  int err = errno;
  (void)close(fd);
  return -err;
}

int shmt__os_activation_fd(void) {
  const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
  if (pid == NULL || n == NULL || strtol(pid, NULL, 10) != (long)getpid()) return -1;
  long count = strtol(n, NULL, 10);
  if (count == 0) return -1;
  int fd = 3, type = 0; /* SD_LISTEN_FDS_START */
  socklen_t len = sizeof type;
  bool good = count == 1 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
              type == SOCK_SEQPACKET && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
  return good ? fd : -EINVAL;
}

shmt_status shmt__os_exec(const char* path, char* const argv[], const int* fds, int n_fds) {
  enum { MAX_FDS = 8, PARKED = 16 };
  int parked[MAX_FDS], err = 0;
  SHMT_ASSERT(n_fds <= MAX_FDS);
  /* Copy the descriptors above their target numbers, so that moving one into place never overwrites another. */
  for (int i = 0; i < n_fds && err == 0; i++) {
    parked[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, PARKED);
    if (parked[i] < 0) err = errno;
  }
  for (int i = 0; i < n_fds && err == 0; i++)
    if (dup2(parked[i], 3 + i) < 0) err = errno;
  if (err == 0) {
    (void)execv(path, argv);
    err = errno;
  }
  if (shmt__os_is_out_of_descriptors(err)) return shmt__fail_errno(err, "cannot run the manager %s", path);
  SHMT_FAIL(SHMT_E_MANAGER, "cannot run the manager %s: %s (%d)", path, strerror(err), err);
}
