/* os/events.h -- waiting for many descriptors (epoll). */
#ifndef SHMT_OS_EVENTS_H
#define SHMT_OS_EVENTS_H

#include "base/error.h"

int shmt__os_events_create(void); /* -errno when it fails */
/* Report `key` whenever fd is readable or at its end. Closing fd ends it. */
bool shmt__os_events_add(int events, int fd, uint64_t key);
/* Wait; returns how many keys were stored, 0 after timeout_ms (-1: for ever) or an interruption. */
int shmt__os_events_wait(int events, uint64_t* keys, int capacity, int timeout_ms);

#endif
