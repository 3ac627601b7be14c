/* ipc/manager/channel_watch.h -- the manager checks the pipes and sockets that messages were sent through, and ends the
 * leases of messages that nobody can read any more (Note [Channels]).
 *
 * Note [Watching channels]
 * The kernel tells whether a socket still exists. For a pipe, the manager must find a process that has an end of it
 * open, and remembers it. Through that end the kernel tells whether the pipe has readers, including descriptors that
 * are in flight in messages. When no process is found, readers can only be in flight, or in processes that the manager
 * cannot look at: of several user ids, behind hidepid, or, for a manager in a pid namespace, outside of it. Where there
 * may be any, the pipe counts as alive, and its messages stay until they are opened or collected, or the session ends.
 * The leases of a channel end only when two checks have found no reader, far enough apart for a receiver to open what
 * it has just read. Young messages are not checked at all, since most are opened at once.
 */
#ifndef SHMT_IPC_MANAGER_CHANNEL_WATCH_H
#define SHMT_IPC_MANAGER_CHANNEL_WATCH_H

#include "os/channel.h"
#include "shm/manager/arena_manager.h"

enum {
  SHMT_CHANNEL_YOUNG_MS = 250,
  SHMT_CHANNEL_GRACE_MS = 450, /* a little less than the manager's tick */
  SHMT_CHANNEL_UNSENT_MS = 3000, /* so long an unsent message may wait for a reader that has taken it */
  SHMT_CHANNEL_BUDGET = 1024, /* channels that one sweep checks */
  SHMT_CHANNEL_REST = 20,     /* searching /proc takes at most one part in so many of the time */
  SHMT_CHANNEL_MAX_BACKOFF_MS = 10000,
};

typedef struct shmt__watched_channel {
  uint64_t channel;   /* 0: an unused entry */
  uint64_t missed_ms; /* since when no reader was seen; 0: one was seen */
  int32_t pid, fd;    /* a process that has an end of the pipe open; pid 0: none is known */
  shmt__os_seen seen; /* in this sweep */
  bool is_used;       /* by a lease, in this sweep */
  bool is_over;       /* nobody can read there any more */
  bool has_unsent;    /* leases of unsent messages, in this sweep */
  bool is_empty;      /* nothing waits to be read, in this sweep */
  uint64_t empty_ms;   /* when that was seen; 0: not since drained_ms was set */
  uint64_t drained_ms; /* what was unsent then is over; 0: nothing is */
} shmt__watched_channel;

/* It starts as zeros. */
typedef struct shmt__channel_watch {
  shmt__watched_channel* at; /* by hash */
  uint32_t capacity, n;
  uint32_t cursor; /* where the next sweep begins to check */
  uint64_t next_search_ms, backoff_ms;
  uint64_t net_namespace; /* ours */
} shmt__channel_watch;

/* End the leases of messages that nobody can open any more: their channel has no reader, or the lock that they are tied
 * to is gone. */
void shmt__channels_sweep(shmt__channel_watch* w, const shmt__arena_manager* k, uint64_t now_ms);

#endif
