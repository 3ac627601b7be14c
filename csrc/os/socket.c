/* os/socket.c -- Unix sockets that carry packets, descriptors and credentials. */
#define _GNU_SOURCE
#include "os/socket.h"

#include "os/clock.h"
#include "os/closer.h"
#include "os/descriptor.h"
#include "os/users.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

enum {
  BACKLOG = 1024,
  FEW_POLLED = 16,       /* so many need no memory */
  MOST_OF_PACKET = 253, /* descriptors: SCM_MAX_FD of the kernel */
};

/* Fill in the address of a name. In an abstract one, sun_path begins with a zero byte. */
static socklen_t fill_address(struct sockaddr_un* a, const char* name) {
  size_t len = strlen(name);
  memset(a, 0, sizeof *a);
  a->sun_family = AF_UNIX;
  if (name[0] == '/') {
    if (len > sizeof a->sun_path - 1) len = sizeof a->sun_path - 1;
    memcpy(a->sun_path, name, len);
    return (socklen_t)sizeof *a;
  }
  if (len > sizeof a->sun_path - 1) len = sizeof a->sun_path - 1;
  memcpy(a->sun_path + 1, name, len);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

int shmt__os_listen(const char* name) {
  struct sockaddr_un a;
  socklen_t len = fill_address(&a, name);
  int fd = shmt__os_above_streams(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0) return -errno;
  /* Set the mode, and that credentials come, before listen(): nobody can connect to a socket that does not listen. */
  if (bind(fd, (struct sockaddr*)&a, len) != 0 || (name[0] == '/' && chmod(name, 0600) != 0) ||
      !shmt__os_pass_credentials(fd) || listen(fd, BACKLOG) != 0) {
    int err = errno;
    (void)close(fd);
    return -err;
  }
  return fd;
}

int shmt__os_connect(const char* name) {
  struct sockaddr_un a;
  socklen_t len = fill_address(&a, name);
  int fd = shmt__os_above_streams(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0) return -errno;
  int done;
  do {
    done = connect(fd, (struct sockaddr*)&a, len);
  } while (done != 0 && errno == EINTR);
  if (done != 0) {
    int err = errno;
    (void)close(fd);
    return err == ENOENT ? -ECONNREFUSED : -err;
  }
  return fd;
}

int shmt__os_open_socket_to(const char* path, uint32_t gid) {
  return chown(path, (uid_t)-1, (gid_t)gid) == 0 && chmod(path, 0660) == 0 ? 0 : -errno;
}

bool shmt__os_socket_exists(const char* path) {
  struct stat st;
  return lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

void shmt__os_remove_socket(const char* path) {
  if (shmt__os_socket_exists(path)) (void)unlink(path);
}

/* The path at which the socket listens. False: it has none. */
static bool path_of(int listener, char out[sizeof(struct sockaddr_un)]) {
  struct sockaddr_un a = {0};
  socklen_t len = sizeof a;
  if (getsockname(listener, (struct sockaddr*)&a, &len) != 0 || a.sun_path[0] != '/') return false;
  memcpy(out, a.sun_path, sizeof a.sun_path);
  out[sizeof a.sun_path] = '\0';
  return true;
}

int shmt__os_open_path_of(int listener, uint32_t gid) {
  char path[sizeof(struct sockaddr_un)];
  return path_of(listener, path) ? shmt__os_open_socket_to(path, gid) : 0;
}

void shmt__os_remove_path_of(int listener) {
  char path[sizeof(struct sockaddr_un)];
  if (path_of(listener, path)) shmt__os_remove_socket(path);
}

bool shmt__os_pass_credentials(int listener) {
  int on = 1;
  return setsockopt(listener, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0;
}

int shmt__os_socket_pair(int out[2]) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return -errno;
  if (!shmt__os_pass_credentials(pair[0]) || !shmt__os_pass_credentials(pair[1])) {
    int err = errno;
    (void)close(pair[0]);
    (void)close(pair[1]);
    return -err;
  }
  out[0] = pair[0];
  out[1] = pair[1];
  return 0;
}

int shmt__os_accept(int listener) {
  int fd = shmt__os_above_streams(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
  return fd < 0 ? -errno : fd;
}

bool shmt__os_peer(int fd, shmt__peer* out) {
  struct ucred cred;
  socklen_t len = sizeof cred;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || !shmt__os_user_is_known((uint32_t)cred.uid))
    return false;
  out->pid = (int32_t)cred.pid;
  out->uid = (uint32_t)cred.uid;
  return true;
}

bool shmt__os_peer_in_group(int fd, uint32_t gid) {
  struct ucred cred;
  gid_t groups[256];
  socklen_t len = sizeof cred;
  if (!shmt__os_group_is_known(gid)) return false;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) return false;
  if ((uint32_t)cred.gid == gid) return true;
  len = sizeof groups;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) != 0) return false;
  for (size_t i = 0; i < len / sizeof groups[0]; i++)
    if ((uint32_t)groups[i] == gid) return true;
  return false;
}

int shmt__os_send(int fd, const void* p, size_t nbytes, const int* fds, int n_fds) {
  union {
    char bytes[CMSG_SPACE(sizeof(int) * SHMT_SOCKET_MAX_FDS)];
    struct cmsghdr align;
  } control;
  struct iovec part = {(void*)(uintptr_t)p, nbytes};
  struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
  if (n_fds > 0) {
    memset(&control, 0, sizeof control);
    msg.msg_control = control.bytes;
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
    struct cmsghdr* c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n_fds);
  }
  ssize_t n;
  do {
    n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n < 0 ? -errno : 0;
}

static void close_all(int* fds, int* n_fds) {
  while (*n_fds > 0) shmt__closers_close(fds[--*n_fds]);
}

/* Take descriptors and credentials out of a received message. False: not all of its descriptors could be kept. */
static bool read_control(struct msghdr* msg, int* fds, int* n_fds, shmt__peer* peer) {
  bool all = (msg->msg_flags & MSG_CTRUNC) == 0;
  for (struct cmsghdr* c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_RIGHTS) {
      size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < n; i++) {
        int got;
        memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof got);
        got = shmt__os_above_streams(got);
        if (got >= 0 && *n_fds < SHMT_SOCKET_MAX_FDS)
          fds[(*n_fds)++] = got;
        else if (got >= 0)
          shmt__closers_close(got);
        else
          all = false;
      }
    } else if (c->cmsg_type == SCM_CREDENTIALS && peer != NULL) {
      struct ucred cred;
      memcpy(&cred, CMSG_DATA(c), sizeof cred);
      peer->pid = (int32_t)cred.pid;
      peer->uid = (uint32_t)cred.uid;
    }
  }
  return all;
}

int shmt__os_receive(int fd, void* p, size_t capacity, int* fds, int* n_fds, shmt__peer* peer) {
  /* The kernel closes what it finds no room for: Note [Descriptors of others] in os/closer.h. */
  union {
    char bytes[CMSG_SPACE(sizeof(int) * MOST_OF_PACKET) + CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr align;
  } control;
  struct iovec part = {p, capacity};
  struct msghdr msg = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
  *n_fds = 0;
  if (peer != NULL) *peer = (shmt__peer){0, UINT32_MAX};
  ssize_t n;
  const bool hurries = shmt__closers_hurry_to_receive(MOST_OF_PACKET);
  do {
    n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (hurries) shmt__closers_hurry(false);
  if (n < 0) return -errno;
  if (!read_control(&msg, fds, n_fds, peer)) {
    close_all(fds, n_fds);
    *n_fds = SHMT_SOCKET_FDS_LOST;
  }
  if (msg.msg_flags & MSG_TRUNC) {
    close_all(fds, n_fds);
    *n_fds = 0;
    return -EMSGSIZE;
  }
  return (int)n;
}

int shmt__os_wait_readable_once(int fd, int timeout_ms) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  int n = poll(&p, 1, timeout_ms);
  return n < 0 ? (errno == EINTR ? 0 : -errno) : n;
}

int shmt__os_wait_any_readable(shmt__os_polled* polled, size_t n, int timeout_ms) {
  struct pollfd few[FEW_POLLED];
  struct pollfd* p = n <= FEW_POLLED ? few : malloc(n * sizeof *p);
  if (p == NULL) return -ENOMEM;
  for (size_t i = 0; i < n; i++) p[i] = (struct pollfd){.fd = polled[i].fd, .events = POLLIN};
  int n_ready = poll(p, (nfds_t)n, timeout_ms);
  if (n_ready < 0) n_ready = -errno;
  bool are_open = true;
  for (size_t i = 0; n_ready >= 0 && are_open && i < n; i++) are_open = (p[i].revents & POLLNVAL) == 0;
  for (size_t i = 0; n_ready >= 0 && i < n; i++)
    polled[i].is_ready = are_open ? p[i].revents != 0 : (p[i].revents & POLLNVAL) != 0;
  if (p != few) free(p);
  return are_open ? n_ready : -EBADF;
}

void shmt__os_wait_end(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLRDHUP};
  while (poll(&p, 1, -1) < 0 && errno == EINTR) {
  }
}

int shmt__os_wait_readable(int fd, int timeout_ms) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : shmt__os_now_ms() + (uint64_t)timeout_ms;
  for (;;) {
    int n = poll(&p, 1, timeout_ms);
    if (n > 0) return 1;
    if (n == 0) return 0;
    if (errno != EINTR) return -errno;
    if (timeout_ms >= 0) {
      uint64_t now = shmt__os_now_ms();
      if (now >= deadline) return 0;
      timeout_ms = (int)(deadline - now);
    }
  }
}
