/* os/events.c -- waiting for many descriptors (epoll). */
#define _GNU_SOURCE
#include "os/events.h"

#include <errno.h>
#include <sys/epoll.h>

int shmt__os_events_create(void) {
  int fd = epoll_create1(EPOLL_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

bool shmt__os_events_add(int events, int fd, uint64_t key) {
  struct epoll_event e = {.events = EPOLLIN, .data.u64 = key};
  return epoll_ctl(events, EPOLL_CTL_ADD, fd, &e) == 0;
}

void shmt__os_events_remove(int events, int fd) { (void)epoll_ctl(events, EPOLL_CTL_DEL, fd, NULL); }

int shmt__os_events_wait(int events, uint64_t* keys, int capacity, int timeout_ms) {
  struct epoll_event got[64];
  int n = epoll_wait(events, got, capacity < 64 ? capacity : 64, timeout_ms);
  if (n < 0) return 0;
  for (int i = 0; i < n; i++) keys[i] = got[i].data.u64;
  return n;
}
