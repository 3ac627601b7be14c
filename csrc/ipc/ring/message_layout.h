/* ipc/ring/message_layout.h -- the layout of a ring and of the messages in it: a queue in a block of shared memory.
 *
 *   0          128        192        256        320        4928   5120        24576        end
 *   +----------+----------+----------+----------+----------+------+-----------+------------+
 *   | constant | put_lock | get_lock | events   | ends     | ...  | pending   | messages   |
 *   |          | tail     | head     | counters |          |      | by client | (circular) |
 *   +----------+----------+----------+----------+----------+------+-----------+------------+
 *
 * A bare ring has neither `ends` nor `pending`; its messages begin at 320. Who puts and gets there is known otherwise,
 * and no message waits for room (ipc/topic/topic_layout.h).
 *
 * A message in the circular area consists of, in this order:
 *
 *   shmt__ring_message      16 bytes: the length, the numbers of what follows, flags
 *   shmt__ring_block        24 bytes for each storage: which block it is
 *   data                    the pickled object, padded to a multiple of 8 bytes
 *
 * A message may wrap round the end of the area. `tail` and `head` are one word each: how many messages have ever been
 * put (or taken), and where the next one begins. A producer takes put_lock, writes a message behind the tail, and
 * publishes it by one store of the tail. A consumer takes get_lock, copies the message at the head, and claims it by
 * one store of the head. So a process that is killed before its store has changed nothing.
 *
 * Note [Ring locks]
 * A lock word has the client number of its owner. When a client dies, the manager learns of it at once and marks the
 * locks that it had as DEAD. Anyone may take such a lock: as said above, nothing half done can be seen. A lock has no
 * pointers, so the manager can use it without trusting the memory that it lies in.
 *
 * Note [Ring messages keep their blocks]
 * A producer gives each block of a message a ring lease, under put_lock, before it moves the tail. A consumer holds all
 * blocks of the message, under get_lock, before it moves the head, and ends the leases afterwards. (When it could not
 * hold them, `n_unheld` says so to the audit until the leases have ended.) A process that is killed in between leaves
 * counts that are too high. The manager's audit corrects them (ipc/manager/ring_audit.h).
 *
 * Note [Pages of rings]
 * A new ring has pages for its header and a few messages. Whoever writes a message where there are none yet gets them
 * first, under the lock under which it writes; when there is no memory, the message is not written. The ring's block
 * says how many of its bytes have pages (`warm`). Messages are read only where they were written. The manager, which
 * must not trust the positions, reads messages through the descriptor of the arena, where a page that is missing reads
 * as zeros.
 *
 * Note [Long lists]
 * A message of more than SHMT_RING_MAX_BLOCKS blocks (SHMT_RING_LISTED) names one block in the ring, and this has the
 * references to all others, which were written before the message and never change. Each block on the list has a ring
 * lease, as if it were named in the ring, and the audit reads the lists. A consumer that cannot open the list ends the
 * lease of that block only, and asks for an audit. Queues of a service have no such messages.
 *
 * Note [Unacknowledged messages]
 * A consumer that gets with an acknowledgement moves the message into a second ring, U, and acknowledges it there when
 * its work is done. U is a bare ring, and the queue's ring keeps it by a ring lease, which the audit counts like a
 * message's. In U, the data of a message begins with a shmt__ring_taken: who has the message, and how it stands. U has
 * one lock in use, its get_lock; the locks of the queue come before it. Messages in U are changed in place:
 *
 *   PREPARED    not valid yet: the message is still the first of the queue, or in U before this one (MOVED follows)
 *   LIVE        its taker works on it
 *   RELEASED    its taker let it go, or is dead, and there was no room in the queue
 *   COUNTING    acknowledged, and perhaps not counted: it is if the low half of n_acked is that of its id
 *   MOVED       it was copied to the tail of U, so that those behind it can be trimmed
 *   GONE        acknowledged, or back in the queue; its blocks have no leases any more
 *
 * A message that is let go, or whose taker is dead, goes back to the front of the queue: it is written before the head,
 * then the head moves backwards. Any process that gets or waits looks for dead takers: when `unacked_stale` says so,
 * which the manager sets when a client has died, and now and then while the queue is empty. A taker is dead when nobody
 * has the lock of its client number, or when another process has the number.
 *
 * Note [Moves between the rings]
 * One store of the queue's head moves a message between the rings, in both directions. `moving` says before which store
 * that is, `moving_id` of which message. Whoever takes the queue's get_lock after a process that was killed there
 * compares: if the head is where it was to move, the message has moved, and `moved_id` keeps that for the next process
 * that has U's lock too. So a kill at any moment neither loses a message nor leaves it twice.
 */
#ifndef SHMT_IPC_RING_MESSAGE_LAYOUT_H
#define SHMT_IPC_RING_MESSAGE_LAYOUT_H

#include "shm/control_file.h"

#define SHMT_RING_MAGIC UINT64_C(0x31474e4952544d53) /* "SMTRING1" */

enum {
  SHMT_RING_VERSION = 9,
  SHMT_RING_DATA = 24 << 10,          /* where the messages begin */
  SHMT_RING_BARE_DATA = 320,          /* the same of a bare ring */
  SHMT_RING_LINE_DATA = 4352,         /* the same of a bare ring with the words of calls (ipc/call/call_layout.h) */
  SHMT_RING_CAPACITY = 252 << 10,     /* bytes of messages of a queue's ring */
  SHMT_RING_UNACKED_CAPACITY = 1 << 20, /* the same of the ring of its unacknowledged messages */
  SHMT_RING_LEAST_CAPACITY = 1 << 10, /* of any ring */
  SHMT_RING_MOST_CAPACITY = 1 << 30,
  SHMT_RING_INLINE = 32 << 10, /* most data of one message; longer data goes into a block of its own */
  SHMT_RING_MAX_BLOCKS = 2048,  /* block references of one message, in the ring */
  SHMT_RING_MOST_LISTED = 1 << 20, /* the same in a list */
};

/* Bits of shmt__ring.ends[client]. */
enum { SHMT_RING_NO_GET = 1, SHMT_RING_NO_PUT = 2 };

typedef struct shmt__ring_header {
  uint64_t magic;
  uint32_t version;
  uint32_t capacity;     /* bytes of the messages' area; a multiple of 8 */
  atomic_uint_least32_t max_messages; /* put waits while there are so many; 0: no bound. Of a named ring: settled once,
                                         by compare-and-swap, and never changed again */
  uint32_t data_begin;     /* SHMT_RING_DATA, SHMT_RING_BARE_DATA or SHMT_RING_LINE_DATA */
  atomic_uint_least32_t max_deliveries; /* a message that was delivered so often in vain is dropped; 0: no bound.
                                           Settled like max_messages */
  atomic_uint_least32_t caller; /* of a line: who calls, as shmt__client_member says it */
  /* --- of an event: ipc/ring/event.h --- */
  atomic_uint_least64_t n_pulses;     /* written after the pulse's id; under put_lock */
  atomic_uint_least64_t pulse_ids[2]; /* of the last two pulses, by the lowest bit of their number */
  atomic_uint_least32_t n_sets;
  atomic_uint_least32_t only_local; /* of a subscriber's ring: 1: it gets no SHMT_RING_FORWARDED. Never changes */
  uint32_t pad0[16];
  atomic_uint_least32_t put_lock; /* Note [Ring locks] */
  uint32_t pad1;
  atomic_uint_least64_t tail; /* shmt__ring_position */
  uint64_t pad2[6];
  atomic_uint_least32_t get_lock;
  atomic_uint_least32_t n_unheld; /* odd while leases of blocks end that could not be held; under get_lock */
  atomic_uint_least64_t head; /* shmt__ring_position */
  atomic_uint_least64_t moving;    /* Note [Moves between the rings]: a position, plus 1; 0: none. Under get_lock */
  atomic_uint_least64_t moving_id; /* of the message in U, with SHMT_RING_MOVES_BACK */
  atomic_uint_least64_t moved_id;
  atomic_uint_least64_t last_id;  /* of U: the last that was given */
  atomic_uint_least32_t is_dirty; /* of U: its messages are being changed */
  uint32_t pad4[3];
  atomic_uint_least32_t data_event;  /* a message was put; ipc/ring/lock.h */
  atomic_uint_least32_t room_event;  /* a message was taken */
  atomic_uint_least32_t watch_event; /* either, for the threads of ipc/ring/readiness.c */
  atomic_uint_least32_t done_event;  /* the last unfinished message was finished */
  atomic_uint_least32_t n_done;      /* how many of all messages ever put are finished */
  atomic_uint_least32_t has_pending; /* 0: all of `pending` are 0; put_lock */
  atomic_uint_least64_t n_lost; /* of a subscriber's ring: messages that did not reach it; under the topic's lock */
  atomic_uint_least64_t unacked_generation; /* of the block that is U; 0: there is none. Written last, under get_lock */
  atomic_uint_least32_t unacked_block;
  atomic_uint_least32_t unacked_stale;  /* 1: the taker of a message in U may be dead */
  atomic_uint_least64_t n_acked;        /* count << 32 | low half of the id that was counted last; under U's lock */
  atomic_uint_least32_t n_unacked;      /* messages in U that are not gone, or more; under U's lock */
  atomic_uint_least32_t n_dead_letters; /* dropped: max_deliveries */
  atomic_uchar ends[SHMT_MAX_CLIENTS]; /* by client: SHMT_RING_NO_GET, SHMT_RING_NO_PUT */
  uint64_t pad6[24];
  atomic_uint_least32_t pending[SHMT_MAX_CLIENTS]; /* by client: messages that wait there for room; under put_lock */
} shmt__ring_header;
_Static_assert(offsetof(shmt__ring_header, put_lock) == 128, "ring: producers' line");
_Static_assert(offsetof(shmt__ring_header, get_lock) == 192, "ring: consumers' line");
_Static_assert(offsetof(shmt__ring_header, data_event) == 256, "ring: events' line");
_Static_assert(offsetof(shmt__ring_header, ends) == SHMT_RING_BARE_DATA, "ring: a bare header");
_Static_assert(sizeof(shmt__ring_header) <= SHMT_RING_DATA, "ring header");

/* A block that a message refers to. It needs no checksum, since ring and block are in the same session. */
typedef struct shmt__ring_block {
  uint64_t generation;
  uint64_t nbytes;
  uint32_t block; /* SHMT_HANDLE_NO_BLOCK: a storage of no bytes */
  uint32_t zero;
} shmt__ring_block;
_Static_assert(sizeof(shmt__ring_block) == 24, "ring block");

/* Where the messages of a ring lie in this process, as it was checked when the ring was opened: others can write to the
 * header. */
typedef struct shmt__ring_area {
  char* at;
  uint32_t capacity; /* a multiple of 8; 0: no ring */
} shmt__ring_area;
/* Bytes of messages of a ring whose messages begin there, in a block of nbytes; 0: there is no such ring. */
static inline uint32_t shmt__ring_capacity_of(uint32_t data_begin, uint64_t nbytes) {
  bool good = (data_begin == SHMT_RING_DATA || data_begin == SHMT_RING_BARE_DATA ||
               data_begin == SHMT_RING_LINE_DATA) && nbytes % 8 == 0 &&
              nbytes >= (uint64_t)data_begin + SHMT_RING_LEAST_CAPACITY &&
              nbytes <= (uint64_t)data_begin + SHMT_RING_MOST_CAPACITY;
  return good ? (uint32_t)(nbytes - data_begin) : 0;
}
static inline shmt__ring_area shmt__ring_area_of(const void* header, uint32_t data_begin, uint64_t nbytes) {
  const uint32_t capacity = shmt__ring_capacity_of(data_begin, nbytes);
  /* Where there is no ring there may be no memory either. */
  if (capacity == 0) return (shmt__ring_area){NULL, 0};
  return (shmt__ring_area){(char*)(uintptr_t)header + data_begin, capacity};
}

/* Flags of a message. */
enum {
  SHMT_RING_SPILLED = 1, /* the data is the bytes of the last block; of a request, of the last but one */
  SHMT_RING_CALL = 2,    /* a request (ipc/call/call_layout.h) */
  SHMT_RING_ERROR = 4,   /* a reply that says why there is none */
  SHMT_RING_TAKEN = 8,   /* the data begins with a shmt__ring_taken */
  SHMT_RING_FORWARDED = 16, /* of a topic: it comes from another machine */
  SHMT_RING_LISTED = 32, /* Note [Long lists] */
  SHMT_RING_FLAGS = 0xff,
  SHMT_RING_DELIVERIES_SHIFT = 8, /* above: how often it was delivered before */
  SHMT_RING_MOST_DELIVERIES = 0xffffff,
};
#define SHMT_RING_MOVES_BACK (UINT64_C(1) << 63) /* in moving_id: from U to the queue */

/* Note [Unacknowledged messages] */
typedef enum shmt__taken_state {
  SHMT_TAKEN_PREPARED = 1,
  SHMT_TAKEN_LIVE = 2,
  SHMT_TAKEN_RELEASED = 3,
  SHMT_TAKEN_COUNTING = 4,
  SHMT_TAKEN_MOVED = 5,
  SHMT_TAKEN_GONE = 6,
} shmt__taken_state;

typedef struct shmt__ring_taken {
  uint64_t id;
  uint64_t zero;
  uint32_t client;  /* who has it */
  uint32_t n_claims; /* of that number, when he took it: it may be another process's by now */
  uint32_t state;   /* shmt__taken_state; changes in place */
  uint32_t becomes; /* of PREPARED: the state to come */
  uint32_t deliveries;
  uint32_t zero1;
} shmt__ring_taken;
_Static_assert(sizeof(shmt__ring_taken) == 40, "taken message");

typedef struct shmt__ring_message {
  uint32_t nbytes;   /* of the whole, a multiple of 8 */
  uint32_t n_data;   /* bytes behind the blocks */
  uint32_t n_blocks; /* shmt__ring_block each */
  uint32_t flags;
} shmt__ring_message;
_Static_assert(sizeof(shmt__ring_message) == 16, "ring message");

/* --- head and tail: count << 32 | offset in the messages' area --- */

static inline uint64_t shmt__ring_position(uint32_t count, uint32_t offset) {
  return (uint64_t)count << 32 | offset;
}
static inline uint32_t shmt__ring_count(uint64_t position) { return (uint32_t)(position >> 32); }
static inline uint32_t shmt__ring_offset(uint64_t position) { return (uint32_t)position; }
/* The position behind a message of nbytes. */
static inline uint64_t shmt__ring_next(uint64_t position, uint32_t nbytes, uint32_t capacity) {
  uint32_t offset = shmt__ring_offset(position) + nbytes;
  return shmt__ring_position(shmt__ring_count(position) + 1, offset >= capacity ? offset - capacity : offset);
}
/* Can a message begin there? Any member can overwrite head and tail. */
static inline bool shmt__ring_position_is_valid(uint64_t position, uint32_t capacity) {
  return shmt__ring_offset(position) < capacity && shmt__ring_offset(position) % 8 == 0;
}
/* Bytes in use. */
static inline uint32_t shmt__ring_used(uint64_t head, uint64_t tail, uint32_t capacity) {
  uint32_t h = shmt__ring_offset(head), t = shmt__ring_offset(tail);
  if (shmt__ring_count(head) == shmt__ring_count(tail)) return 0;
  return t > h ? t - h : t + capacity - h;
}

/* The whole length of a message, a multiple of 8. */
static inline uint64_t shmt__ring_message_bytes(uint64_t n_blocks, uint64_t n_data) {
  uint64_t n = sizeof(shmt__ring_message) + n_blocks * sizeof(shmt__ring_block) + n_data;
  return (n + 7) & ~(uint64_t)7;
}

/* Copy bytes out of the circular area. Returns the offset behind them. */
static inline uint32_t shmt__ring_read(shmt__ring_area area, uint32_t offset, void* out, size_t nbytes) {
  size_t first = nbytes < area.capacity - offset ? nbytes : area.capacity - offset;
  if (nbytes == 0) return offset; /* there may be no buffer at all */
  __builtin_memcpy(out, area.at + offset, first);
  if (nbytes > first) __builtin_memcpy((char*)out + first, area.at, nbytes - first);
  atomic_signal_fence(memory_order_seq_cst); /* from here on use the copy only: others can write there */
  return (uint32_t)((offset + nbytes) % area.capacity);
}
static inline uint32_t shmt__ring_write(shmt__ring_area area, uint32_t offset, const void* data, size_t nbytes) {
  size_t first = nbytes < area.capacity - offset ? nbytes : area.capacity - offset;
  if (nbytes == 0) return offset; /* there may be no buffer at all */
  __builtin_memcpy(area.at + offset, data, first);
  if (nbytes > first) __builtin_memcpy(area.at, (const char*)data + first, nbytes - first);
  return (uint32_t)((offset + nbytes) % area.capacity);
}

/* How many references a list of nbytes has; 0: it is none. */
static inline uint32_t shmt__ring_list_length(uint64_t nbytes) {
  const uint64_t n = nbytes / sizeof(shmt__ring_block);
  return nbytes % sizeof(shmt__ring_block) == 0 && n <= SHMT_RING_MOST_LISTED ? (uint32_t)n : 0;
}

/* Does a message's header fit a ring with so many bytes in use? */
static inline bool shmt__ring_message_is_valid(const shmt__ring_message* m, uint32_t used) {
  return m->nbytes <= used && m->n_blocks <= SHMT_RING_MAX_BLOCKS &&
         m->n_data <= SHMT_RING_INLINE + sizeof(shmt__ring_taken) &&
         m->nbytes == shmt__ring_message_bytes(m->n_blocks, m->n_data);
}

#endif
