/* os/events.h -- waiting for many descriptors (epoll). */
#ifndef SHMT_OS_EVENTS_H
#define SHMT_OS_EVENTS_H

#include "base/error.h"

/* Make an epoll descriptor, which the caller closes. Returns it, or -errno. */
int shmt__os_events_create(void);
/* Report `key` whenever fd is readable or at its end, until fd is closed. False: the kernel refused. */
bool shmt__os_events_add(int events, int fd, uint64_t key);
/* Report nothing of fd from now on, though it stays open. */
void shmt__os_events_remove(int events, int fd);
/* Wait at most timeout_ms (-1: forever) for events, and store their keys. Returns how many, at most 64 and at most
 * capacity; 0 after the timeout, a signal or an error. */
int shmt__os_events_wait(int events, uint64_t* keys, int capacity, int timeout_ms);

#endif
