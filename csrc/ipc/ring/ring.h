/* ipc/ring/ring.h -- rings, the queues behind multiprocessing's Queue: putting, getting, waiting.
 *
 * A ring is a shared storage that the process holds. Layout and protocol are in ipc/ring/message_layout.h. Any thread
 * may call. Calls that wait return when a signal came, so that the caller can run its handlers and call again with the
 * same deadline.
 *
 * Lock order: the locks in a ring come before the sessions' lock. Nothing under them waits for a peer, except for the
 * manager when a block is a memory file of its own.
 */
#ifndef SHMT_IPC_RING_RING_H
#define SHMT_IPC_RING_RING_H

#include "ipc/handle/handle.h"
#include "ipc/ring/message_layout.h"
#include "ipc/ring/lock.h"
#include "os/mutex.h"
#include "storage/storage.h"

typedef enum shmt__ring_result {
  SHMT_RING_DONE,
  SHMT_RING_EMPTY,       /* nothing came until the deadline */
  SHMT_RING_FULL,        /* max_messages are in the ring or pending, until the deadline */
  SHMT_RING_NO_ROOM,     /* the bytes do not fit, until the deadline */
  SHMT_RING_BUSY,        /* another process had the lock until the deadline */
  SHMT_RING_INTERRUPTED, /* a signal came */
  SHMT_RING_ALONE,       /* no process is at the other end, now or later: waiting is pointless */
  SHMT_RING_FAILED,      /* the error record says why */
} shmt__ring_result;

typedef struct shmt__received_message shmt__received_message;

typedef struct shmt__ring {
  shmt_storage* storage; /* owned */
  struct shmt__session* session;
  shmt__ring_header* header; /* the storage's bytes */
  shmt__block* block;        /* the ring's own record */
  shmt__ring_area area;
  uint32_t n_paged; /* bytes of the area that have pages, or more have; under put_lock, or the lock for writing there */
  bool is_bare, is_line;
  uint32_t inline_bytes; /* most data of a message; longer data goes into a block of its own */
  /* Of a server: called under get_lock with each message before it leaves the ring; false: it is dropped. NULL of other
   * rings. */
  bool (*mark_taken)(struct shmt__ring* r, const shmt__received_message* m);
  atomic_int spin_credit; /* grows while short waits pay */
  struct shmt__ring* _Atomic unacked; /* owned: the ring of its unacknowledged messages; NULL: not opened yet */
  atomic_uint_least64_t searched_ns;  /* when this process last searched for dead takers */
  /* --- ipc/ring/readiness.c; guarded by watch_lock --- */
  shmt__mutex watch_lock;
  /* Both are set under watch_lock, and looked at without. */
  atomic_uint_least32_t watch_fork; /* shmt__fork_count() of the process that made the descriptors and the thread */
  struct shmt__ring_readiness* _Atomic watch;
  atomic_uint n_kept; /* messages that were taken and that the next get of this process returns all the same */
} shmt__ring;

/* A message to put. The caller keeps ownership of everything. */
typedef struct shmt__outgoing_message {
  shmt_storage* const* storages; /* all shared; each becomes a block reference, in this order */
  uint32_t n_storages;
  uint32_t flags;       /* SHMT_RING_SPILLED */
  const void* parts[2]; /* the data, in two pieces; at most SHMT_RING_INLINE bytes together */
  uint32_t part_bytes[2];
} shmt__outgoing_message;

/* A message that was taken. */
struct shmt__received_message {
  shmt_storage** storages; /* new references */
  uint32_t n_storages;
  uint32_t flags;
  void* data; /* malloc'd */
  uint32_t nbytes;
};

/* A new, empty ring. max_messages 0: no bound. Errors: SHMT_E_NOMEM, SHMT_E_MANAGER. */
shmt_status shmt__ring_create(uint32_t max_messages, shmt__ring** out);
/* The same in any session: a ring with `capacity` bytes of messages, which begin at data_begin. */
shmt_status shmt__ring_create_in(struct shmt__session* s, uint32_t data_begin, uint32_t capacity, uint32_t max_messages,
                                 shmt__ring** out);
/* The same in a storage that nobody else has seen: all that data_begin leaves is for messages. Consumes the reference,
 * also on failure. */
shmt_status shmt__ring_create_over(shmt_storage* storage, uint32_t max_messages, uint32_t data_begin, shmt__ring** out);
/* Give pages to the messages' area up to `end`, and to some bytes behind it: Note [Pages of rings]. The caller has the
 * lock under which it writes there. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__ring_extend(shmt__ring* r, uint32_t end);
/* See that nbytes can be written at an offset; otherwise like shmt__ring_extend. */
static inline shmt_status shmt__ring_reserve(shmt__ring* r, uint32_t offset, uint32_t nbytes) {
  const uint32_t end = nbytes < r->area.capacity - offset ? offset + nbytes : r->area.capacity;
  return SHMT_LIKELY(end <= r->n_paged) ? SHMT_OK : shmt__ring_extend(r, end);
}
/* The ring that a storage is. Consumes the reference, also on failure. Errors: SHMT_E_HANDLE (it is none). */
shmt_status shmt__ring_over(shmt_storage* storage, shmt__ring** out);
/* The same in the caller's variable, which needs no shmt__ring_close. The reference stays the caller's. */
shmt_status shmt__ring_view(shmt_storage* storage, shmt__ring* out);
/* May its messages be pickles? Not in a service where they may come from other users. */
bool shmt__ring_takes_pickles(const shmt__ring* r);
/* How many storages may a message have? More than SHMT_RING_MAX_BLOCKS only where shmt__ring_put puts them all. */
uint32_t shmt__ring_most_storages(const shmt__ring* r);
/* The ring of a handle that shmt__ring_export made in any process. Errors: SHMT_E_HANDLE. */
shmt_status shmt__ring_open(const shmt__handle* h, shmt__ring** out);
/* Make a handle with a lease. It can be opened once. */
shmt_status shmt__ring_export(shmt__ring* r, shmt__handle* out);
/* Stop using the ring and close its descriptors. NULL is fine. */
void shmt__ring_close(shmt__ring* r);
/* This process no longer gets (SHMT_RING_NO_GET) or puts (SHMT_RING_NO_PUT). Processes that wait at the other end may
 * now return SHMT_RING_ALONE. */
void shmt__ring_end(shmt__ring* r, unsigned ends);

enum {
  SHMT_RING_KEEP = 1,    /* put: when the bytes do not fit, count the message as pending and return
                            SHMT_RING_NO_ROOM at once; the caller puts it later */
  SHMT_RING_PENDING = 2, /* put: this message is one of those */
  SHMT_RING_BEHIND = 4,  /* put, with KEEP: as if the bytes did not fit */
};

/* Put one message. deadline_ns 0: do not wait. */
shmt__ring_result shmt__ring_put(shmt__ring* r, const shmt__outgoing_message* p, unsigned flags,
                                 uint64_t deadline_ns);
/* Put one message if there is room; the caller has put_lock. Wakes nobody. */
shmt__ring_result shmt__ring_put_in_lock(shmt__ring* r, const shmt__outgoing_message* p);
/* Put as many of n messages as there is room for now, taking the lock once. *out_n: how many. Returns SHMT_RING_DONE
 * unless one failed. */
shmt__ring_result shmt__ring_put_many(shmt__ring* r, const shmt__outgoing_message* packed_messages, uint32_t n,
                                      uint32_t* out_n);
/* n pending messages of this process will never be put. */
void shmt__ring_forget_pending(shmt__ring* r, uint32_t n);
/* Take the first message, or up to n_max messages that are there; *n_out says how many. After SHMT_RING_FAILED the
 * messages in `out` are good. The one behind them is lost when its blocks are gone (SHMT_E_HANDLE); else it stays. */
shmt__ring_result shmt__ring_get(shmt__ring* r, shmt__received_message* out, uint32_t n_max,
                                 uint32_t* n_out, uint64_t deadline_ns);
void shmt__received_message_fini(shmt__received_message* d);
/* Drop the first message. Returns SHMT_RING_DONE, SHMT_RING_EMPTY, SHMT_RING_BUSY (a process stays in the middle of a
 * get), SHMT_RING_INTERRUPTED, SHMT_RING_FAILED. */
shmt__ring_result shmt__ring_drop(shmt__ring* r);
/* Read the message at *position, before the tail, and move *position behind it; the message stays. The caller keeps
 * others from putting and taking. Errors: SHMT_E_HANDLE, SHMT_E_NOMEM. */
shmt_status shmt__ring_peek(shmt__ring* r, uint64_t* position, uint64_t tail, shmt__received_message* out);

/* Wait until there is a message: SHMT_RING_DONE, SHMT_RING_EMPTY, ... */
shmt__ring_result shmt__ring_poll(shmt__ring* r, uint64_t deadline_ns);
/* put waits while there are so many messages; 0: no bound. Any member can write there. */
static inline uint32_t shmt__ring_max_messages(const shmt__ring* r) {
  return atomic_load_explicit(&r->header->max_messages, memory_order_relaxed);
}
/* How many messages are in the ring, and how many including the pending ones. */
uint32_t shmt__ring_n_messages(const shmt__ring* r);
uint32_t shmt__ring_size(const shmt__ring* r);
/* A message was processed (task_done). False: more messages were finished than put. */
bool shmt__ring_task_done(shmt__ring* r);
/* Wait until all messages are finished (join): SHMT_RING_DONE, SHMT_RING_BUSY, ... */
shmt__ring_result shmt__ring_join(shmt__ring* r, uint64_t deadline_ns);

/* A descriptor that is readable while there is a message (data), or room for one. The ring owns it; each process has
 * its own. Errors: SHMT_E_OS. (ipc/ring/readiness.c) */
shmt_status shmt__ring_fileno(shmt__ring* r, bool data, int* out_fd);
/* This process keeps so many messages that were taken: the descriptor for data is readable while there are any. */
void shmt__ring_readiness_keep(shmt__ring* r, unsigned n_kept);
/* This process has changed the ring: bring the descriptors up to date. */
void shmt__ring_readiness_update(shmt__ring* r);
void shmt__ring_readiness_close(shmt__ring* r);

#endif
