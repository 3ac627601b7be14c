/* ipc/manager/channel_watch.h -- the manager's look at what messages were sent through (Note [Channels]).
 *
 * Note [Watching channels]
 * A socket is there or not: the kernel says so. Of a pipe, some process must be found that has an end
 * open, which is then remembered; through it the kernel tells whether there are readers, those on their way in
 * messages included. When no process is found, readers can only be on their way, or in processes
 * that we may not look at; where there may be any, the pipe stays.
 * Nobody must have seen a channel at two looks, far enough apart for a receiver to open what it has just
 * read, before its leases end. Messages are young for a while, in which nobody asks about them: most
 * are opened at once.
 */
#ifndef SHMT_IPC_MANAGER_CHANNEL_WATCH_H
#define SHMT_IPC_MANAGER_CHANNEL_WATCH_H

#include "os/channel.h"
#include "shm/arena_manager.h"

enum {
  SHMT_CHANNEL_YOUNG_MS = 250,
  SHMT_CHANNEL_GRACE_MS = 450, /* a little less than the manager's tick */
  SHMT_CHANNEL_BUDGET = 1024, /* channels asked about at one look */
  SHMT_CHANNEL_REST = 20,     /* looking through /proc takes at most one part in so many */
  SHMT_CHANNEL_DOUBT_MAX_MS = 10000,
};

typedef struct shmt__watched_channel {
  uint64_t channel;   /* 0: an unused place */
  uint64_t missed_ms; /* since when nobody has been seen there; 0: somebody was */
  int32_t pid, fd;    /* who has an end of the pipe open; pid 0: not known */
  shmt__os_seen seen; /* at this look */
  bool is_used;       /* by a lease, at this look */
  bool is_over;       /* nobody can read there any more */
} shmt__watched_channel;

/* Begun with zeros. */
typedef struct shmt__channel_watch {
  shmt__watched_channel* at; /* by hash */
  uint32_t capacity, n;
  uint32_t cursor; /* where the next look begins to ask */
  uint64_t next_search_ms, doubt_ms;
  uint64_t net_namespace; /* ours */
} shmt__channel_watch;

/* End the leases that nobody can use up any more: their channel has no reader, or the lock that they
 * are tied to is gone. may_hide: there may be readers in processes that /proc does not show us. */
void shmt__channels_sweep(shmt__channel_watch* w, const shmt__arena_manager* k, uint64_t now_ms,
                         bool may_hide);

#endif
