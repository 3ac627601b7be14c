/* ipc/ring/watchers.h -- threads that sleep for what other processes do to rings.
 *
 * Note [Watchers]
 * A thread sleeps on the watch events of many rings at once, on as many as the kernel takes in one call
 * (shmt__os_most_futexes), so that a program with hundreds of descriptors of rings has a few threads. It checks a ring
 * when its event word has changed, and all of them after SHMT_RING_SLICE_MS: a wake-up may be lost. A thread that has
 * nothing left to watch ends. A forked child has none of its parent's watchers.
 */
#ifndef SHMT_IPC_RING_WATCHERS_H
#define SHMT_IPC_RING_WATCHERS_H

#include "os/futex.h"

/* A ring to watch; in a structure of the caller's, who sets the first three. */
typedef struct shmt__watched shmt__watched;
struct shmt__watched {
  atomic_uint_least32_t* event; /* the ring's watch event; it is there until `end` is called */
  bool (*check)(shmt__watched* w); /* the ring may have changed; false: it is not to be watched any more */
  void (*end)(shmt__watched* w);  /* nothing looks at it any more */
  shmt__watched* next;
  uint32_t armed; /* the event word when a thread last checked */
  bool is_armed;
};

/* Let a thread watch the ring: it calls `check`, without a lock, at once, whenever the event is signalled, and now and
 * then; at last `end`. Returns 0 or -errno; then it calls neither. */
int shmt__watch_begin(shmt__watched* w);

#endif
