/* shm/names.h -- the part of a service's control file that has names: of published values, and of locks.
 *
 * It lies behind the blocks. Only the manager writes it, except the slots of a named lock, which clients take and
 * release by compare-and-swap.
 *
 * Note [Index of names]
 * Entries lie in the order in which they were first used. An index finds them: buckets with the number of an entry plus
 * one, 0 where there is none, by open addressing with the hash of the name. A bucket never becomes empty again, so a
 * search ends at the first empty one; it passes over entries that were given to other names meanwhile. Of each size,
 * a power of two, there are two tables. When most buckets of one are used, the manager fills another table, the other
 * one of this size or a larger one, and says so in `index`. Whoever has found nothing looks whether `index` is still
 * the same, and else searches again. Entries and tables get their pages with their first use, so a service takes memory
 * by the names it has.
 *
 * Note [Names]
 * The value of a name is in one of two slots: `sequence` counts the changes, and its
 * lowest bit says which slot. The manager fills the other slot and then increments `sequence`. So a reader that finds
 * the same number before and after reading has read a whole slot, a manager that is killed in between has changed
 * nothing, and nobody waits. `sequence` is also the futex word for processes that wait for a newer version. The
 * manager holds the blocks of a version as client 0. A reader that gets its own holds in time keeps the version; one
 * that comes too late reads the entry again.
 *
 * Note [Named locks]
 * A lock, semaphore or barrier is an array of slots. Each taken slot has the number of the client that took it. When a
 * client is dead the manager empties its slots, as it clears its holds, so no count can be wrong. A process that gets
 * another number, because it had closed its descriptors, writes that into its slots while its old number is still
 * locked. When the manager then frees the old one, it counts those who have slots as users of the lock. A barrier also
 * has one word with its phase and a bit for each slot whose owner has arrived. To arrive, to withdraw, and to begin the
 * next phase as the last one are each one atomic step on this word.
 */
#ifndef SHMT_SHM_NAMES_H
#define SHMT_SHM_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  SHMT_NAME_BYTES = 128, /* with the zero at the end */
  SHMT_NAMED_LOCK_NAME_BYTES = 96,
  SHMT_VERSION_WORDS = 7,
  SHMT_NAMED_LOCK_SLOTS = 232,
  SHMT_NAMED_LOCK_USER_WORDS = 72, /* a bit for each client */
  SHMT_BARRIER_SLOTS = 48, /* parties of a barrier at most */
  SHMT_NAMED_CLIENT = 0,   /* the client number under which the manager holds the blocks of names */
};

/* The value of a name: the block that describes it (ipc/service/description.h). */
typedef struct shmt__version {
  uint64_t version; /* grows with each publication of the name */
  uint64_t generation;
  uint64_t nbytes;       /* of all its storages */
  uint64_t published_ms; /* time of day, for people */
  uint32_t block;        /* SHMT_NAME_GONE: the name has no value */
  uint32_t publisher;    /* client */
  uint32_t uid;          /* of the publisher, from the kernel */
  int32_t pid;
  uint32_t flags; /* SHMT_NAME_* */
  uint32_t pad;
} shmt__version;
_Static_assert(sizeof(shmt__version) == SHMT_VERSION_WORDS * 8, "version");

#define SHMT_NAME_GONE UINT32_MAX
enum {
  SHMT_NAME_PERSISTS = 1 << 0, /* the name outlives its publisher */
  SHMT_NAME_KIND_SHIFT = 1,    /* of the name's shmt__name_kind */
  SHMT_NAME_FLAGS = 0x0f,
  SHMT_NAME_IF_NONE = 1 << 4, /* of a request: leave the value that there is, but with SHMT_NAME_PERSISTS it persists */
  SHMT_NAME_CLOSING = 1 << 5, /* the manager looks whether anybody holds it: for readers it is gone */
};

/* What a name stands for. A value belongs to its publisher; other kinds live while any process holds their storages. */
typedef enum shmt__name_kind {
  SHMT_NAME_VALUE = 0,
  SHMT_NAME_QUEUE = 1, /* its first storage is a ring (ipc/ring/message_layout.h) */
  SHMT_NAME_TOPIC = 2, /* its storages are a log and a table (ipc/topic/topic_layout.h) */
  SHMT_NAME_EVENT = 3, /* its storage is a bare ring (ipc/ring/event.h) */
  SHMT_NAME_SERVER = 4, /* its first storage is a ring of requests (ipc/call/call_layout.h) */
  SHMT_N_NAME_KINDS
} shmt__name_kind;
static inline shmt__name_kind shmt__name_kind_of(uint64_t flags) {
  return (shmt__name_kind)(flags >> SHMT_NAME_KIND_SHIFT & 7);
}
static inline bool shmt__name_is_there(const shmt__version* v) {
  return v->block != SHMT_NAME_GONE && (v->flags & SHMT_NAME_CLOSING) == 0;
}
static inline const char* shmt__name_kind_title(shmt__name_kind kind) {
  static const char* const titles[SHMT_N_NAME_KINDS] = {"a value", "a queue", "a topic", "an event", "a server"};
  return kind < SHMT_N_NAME_KINDS ? titles[kind] : "a thing that is not known here";
}

typedef struct shmt__name {
  atomic_uint_least32_t state;    /* 0: not used yet; written last */
  atomic_uint_least32_t sequence; /* see Note [Names] */
  uint64_t hash;
  atomic_uint_least64_t slots[2][SHMT_VERSION_WORDS];
  char text[SHMT_NAME_BYTES];
} shmt__name;
_Static_assert(sizeof(shmt__name) == 256, "name");

typedef enum shmt__named_lock_kind {
  SHMT_NAMED_LOCK_SEMAPHORE = 1,
  SHMT_NAMED_LOCK_BARRIER = 2,
} shmt__named_lock_kind;

typedef struct shmt__named_lock {
  atomic_uint_least32_t state; /* 0: unused; written last */
  uint32_t kind;
  uint32_t n_slots;
  atomic_uint_least32_t wake;    /* futex: changes whenever a waiter should check again */
  atomic_uint_least64_t arrived; /* of a barrier: phase << 48 | a bit for each slot */
  atomic_uint_least32_t waiters; /* never too low; a killed waiter leaves it too high */
  uint32_t is_settled; /* 0: nobody has said n_slots yet. It is 1, and the first who says it settles it */
  char text[SHMT_NAMED_LOCK_NAME_BYTES];
  atomic_uint_least64_t users[SHMT_NAMED_LOCK_USER_WORDS]; /* a bit for each client that opened it; the end of the last
                                                              one frees it */
  atomic_uint_least64_t slots[SHMT_NAMED_LOCK_SLOTS];
} shmt__named_lock;
_Static_assert(sizeof(shmt__named_lock) == 2560, "named lock");
_Static_assert(offsetof(shmt__named_lock, users) == 128, "named lock");

/* The beginning of the names. */
typedef struct shmt__names_head {
  atomic_uint_least32_t sequence;  /* futex: changes with every new name */
  atomic_uint_least32_t index;     /* the table in use (shmt__name_table_code), and above it a count of the changes */
  atomic_uint_least32_t names_end; /* entries ever used; the ones behind have no pages */
  atomic_uint_least32_t locks_end; /* the same of named locks */
  uint64_t floor; /* the versions of new names start above it */
  uint64_t pad[5];
} shmt__names_head;
_Static_assert(sizeof(shmt__names_head) == 64, "head of the names");

/* --- tables of the index: Note [Index of names] --- */

enum {
  SHMT_NAME_TABLE_BITS = 10, /* the smallest table has 1024 buckets, a page */
  SHMT_NAME_TABLE_SHIFT = 8, /* of the count of changes in shmt__names_head.index */
};

/* The largest table for so many entries: half of its buckets are used when all entries are. */
static inline unsigned shmt__name_table_most_bits(uint32_t n_names) {
  unsigned bits = SHMT_NAME_TABLE_BITS;
  while (((uint64_t)1 << bits) < 2 * (uint64_t)n_names) bits++;
  return bits;
}
/* Where the two tables of 2^bits buckets begin, in buckets. */
static inline uint64_t shmt__name_table_begin(unsigned bits) {
  return 2 * (((uint64_t)1 << bits) - ((uint64_t)1 << SHMT_NAME_TABLE_BITS));
}
/* A table by its size and which of the two it is, as it stands in the low byte of shmt__names_head.index. */
static inline uint32_t shmt__name_table_code(unsigned bits, unsigned which) {
  return (bits - SHMT_NAME_TABLE_BITS) << 1 | which;
}

static inline uint64_t shmt__name_hash(const char* text) {
  uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  for (const unsigned char* at = (const unsigned char*)text; *at != 0; at++)
    h = (h ^ *at) * UINT64_C(0x100000001b3);
  return h ^ h >> 29;
}

#endif
