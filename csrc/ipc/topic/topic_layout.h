/* ipc/topic/topic_layout.h -- the layout of a topic: one writer or many, and every subscriber gets every message.
 *
 * A topic has two blocks of its own, which its name keeps (ipc/manager/names.c) and everybody who has it open holds:
 *
 *   log      a bare ring (ipc/ring/message_layout.h) of at most one message, which refers to the block of `past`
 *   table    what was said of the topic, counters, and a slot for each subscriber
 *
 * one with the last `history` messages, for those who come late, if it keeps any:
 *
 *   past     a bare ring, which the lease of the log's message keeps
 *
 * and one for each subscriber, which only that one holds: a bare ring of its own. A slot says which block it is.
 *
 * Note [What was said of a topic]
 * Who opens a topic may say its depth, its history and its overflow, or leave any of them open. What nobody has said is
 * a default, and whoever says it first settles it, at any time; another value is an error from then on. All three are
 * in one word, so a wish is entered as a whole or not at all, by one step that needs no lock. Publishers and
 * subscribers read the word anew each time. So an overflow counts from the next message on, a depth for the
 * subscriptions to come (a ring stays as long as it was made, and its slot says how long), and a history for the
 * messages to come: the first publisher that finds one makes `past`.
 *
 * Note [Publishing]
 * The put_lock of the log is the topic's lock. Who has it puts a message into `past` and into the ring of each
 * subscriber, so all subscribers see all messages in one order. The payload lies in memory once: each ring has block
 * references, and each message a ring lease on its blocks. Whoever is killed in the middle has reached some subscribers
 * and not the others. While it puts, a publisher holds the subscriber's ring. When it cannot hold it, or nobody else
 * does, the subscriber is gone, and the publisher empties the slot. A publisher also holds the ring while it waits for
 * room there, but only if the process that subscribed holds it: else two that wait would each take the other for a
 * subscriber. So the manager need not know what a topic is: a killed subscriber's ring is reclaimed like any block, and
 * the audit of rings ends the leases of what was in it.
 *
 * Note [Slow subscribers]
 * A subscriber's ring takes `depth` messages. When it is full, the publisher drops the oldest one there, or does not
 * put the new one, or waits before it puts the message anywhere, by the topic's `overflow`. What a subscriber loses is
 * counted in its ring, and what all of them ever lost in the table. It is counted first: a publisher that is killed in
 * between has counted one too many, and not one too few. The subscriber may be stopped in the middle of a get: then
 * its oldest message cannot be dropped, and the new one is lost for it. Nobody else waits for it.
 *
 * Note [Forwarded messages]
 * Who carries a topic to another machine publishes there what comes from here, and subscribes there to what is to come
 * here. It must not get its own messages back: those that it publishes are SHMT_RING_FORWARDED, and its ring says that
 * it is `only_local`. No publisher puts the one into the other, not even when two processes carry the topic to two
 * machines, nor counts it as lost, nor waits for room there. The flag stays with the message in the history.
 */
#ifndef SHMT_IPC_TOPIC_TOPIC_LAYOUT_H
#define SHMT_IPC_TOPIC_TOPIC_LAYOUT_H

#include "ipc/ring/message_layout.h"

#define SHMT_TOPIC_MAGIC UINT64_C(0x3143504f54544d53) /* "SMTTOPC1" */

enum {
  SHMT_TOPIC_VERSION = 3,
  SHMT_TOPIC_SLOTS = 1020,       /* subscribers at most: the table has 24 KiB */
  SHMT_TOPIC_MOST_DEPTH = 65536, /* of a subscriber's ring, and of the history */
  SHMT_TOPIC_DEFAULT_DEPTH = 16,
  SHMT_TOPIC_INLINE = 1 << 10,   /* most data of one message; longer data goes into a block of its own */
};

typedef enum shmt__overflow {
  SHMT_OVERFLOW_DROP_OLDEST = 0,
  SHMT_OVERFLOW_BLOCK = 1,
  SHMT_OVERFLOW_DROP_NEWEST = 2,
  SHMT_N_OVERFLOWS
} shmt__overflow;
static inline const char* shmt__overflow_name(uint32_t overflow) {
  static const char* const names[SHMT_N_OVERFLOWS] = {"drop_oldest", "block", "drop_newest"};
  return overflow < SHMT_N_OVERFLOWS ? names[overflow] : "unknown";
}

/* A subscriber. Written under the topic's lock, except that its owner empties it. */
typedef struct shmt__topic_slot {
  atomic_uint_least64_t generation; /* of the ring's block; 0: nobody. Written last */
  atomic_uint_least32_t block;
  atomic_uint_least32_t subscriber; /* as shmt__client_member says it */
  atomic_uint_least32_t depth;      /* of the ring */
  uint32_t pad;
} shmt__topic_slot;
_Static_assert(sizeof(shmt__topic_slot) == 24, "slot of a topic");

/* What a topic is to be, as its opener says it, or as everybody did so far: Note [What was said of a topic]. Each may
 * be SHMT_TOPIC_UNSAID. */
typedef struct shmt__topic_wish {
  int64_t depth, history, overflow;
} shmt__topic_wish;
#define SHMT_TOPIC_UNSAID INT64_C(-1)

/* What it is now: what was said, and the defaults. */
typedef struct shmt__topic_kind {
  uint32_t depth;   /* 1 to SHMT_TOPIC_MOST_DEPTH */
  uint32_t history; /* 0 to SHMT_TOPIC_MOST_DEPTH */
  shmt__overflow overflow;
} shmt__topic_kind;

/* The word in which it is said: three fields with the value plus 1, and 0 for what nobody has said. */
enum { SHMT_TOPIC_FIELD_BITS = 20 };
static inline uint64_t shmt__topic_said_of(const shmt__topic_wish* w) {
  return (uint64_t)(w->depth + 1) | (uint64_t)(w->history + 1) << SHMT_TOPIC_FIELD_BITS |
         (uint64_t)(w->overflow + 1) << 2 * SHMT_TOPIC_FIELD_BITS;
}
static inline shmt__topic_wish shmt__topic_wish_of(uint64_t said) {
  const uint64_t mask = (UINT64_C(1) << SHMT_TOPIC_FIELD_BITS) - 1;
  return (shmt__topic_wish){.depth = (int64_t)(said & mask) - 1,
                            .history = (int64_t)(said >> SHMT_TOPIC_FIELD_BITS & mask) - 1,
                            .overflow = (int64_t)(said >> 2 * SHMT_TOPIC_FIELD_BITS) - 1};
}
static inline bool shmt__topic_wish_is_valid(const shmt__topic_wish* w) {
  return w->depth >= -1 && w->depth != 0 && w->depth <= SHMT_TOPIC_MOST_DEPTH && w->history >= -1 &&
         w->history <= SHMT_TOPIC_MOST_DEPTH && w->overflow >= -1 && w->overflow < SHMT_N_OVERFLOWS;
}
/* Any member can write the word: what makes no sense counts as not said. */
static inline shmt__topic_kind shmt__topic_kind_of(uint64_t said) {
  shmt__topic_wish w = shmt__topic_wish_of(said);
  if (!shmt__topic_wish_is_valid(&w)) w = shmt__topic_wish_of(0);
  return (shmt__topic_kind){
      .depth = w.depth < 0 ? SHMT_TOPIC_DEFAULT_DEPTH : (uint32_t)w.depth,
      .history = w.history < 0 ? 0 : (uint32_t)w.history,
      .overflow = w.overflow < 0 ? SHMT_OVERFLOW_DROP_OLDEST : (shmt__overflow)w.overflow,
  };
}

typedef struct shmt__topic_table {
  uint64_t magic;
  uint32_t version;
  atomic_uint_least32_t slots_end; /* slots ever used */
  atomic_uint_least64_t said;      /* Note [What was said of a topic] */
  atomic_uint_least64_t n_published;
  atomic_uint_least64_t n_lost; /* messages that did not reach a subscriber, of all there ever were */
  uint64_t pad[7];
  shmt__topic_slot slots[SHMT_TOPIC_SLOTS];
} shmt__topic_table;
_Static_assert(sizeof(shmt__topic_table) == 24576, "table of a topic");

/* Bytes of messages of a ring for n messages: so many of the longest inline ones with a few tensors each, and one of
 * any kind. */
static inline uint32_t shmt__topic_capacity(uint32_t n) {
  enum { FEW_BLOCKS = 8 };
  const uint64_t each = shmt__ring_message_bytes(FEW_BLOCKS, SHMT_TOPIC_INLINE);
  const uint64_t longest = shmt__ring_message_bytes(SHMT_RING_MAX_BLOCKS, SHMT_TOPIC_INLINE);
  return (uint32_t)(longest + n * each);
}

/* The same of `past`: whoever keeps a message puts it before another one goes. */
static inline uint32_t shmt__topic_past_capacity(uint32_t history) {
  return shmt__topic_capacity(history) + (uint32_t)shmt__ring_message_bytes(SHMT_RING_MAX_BLOCKS, SHMT_TOPIC_INLINE);
}

#endif
