/* shm/names.h -- the part of a service's control file that has names: of published values, and of locks.
 *
 * It lies behind the blocks. Only the manager writes it, except the slots of a named lock, which clients take and
 * release by compare-and-swap.
 *
 * Note [Names]
 * Entries are found by open addressing with the hash of the name. A used entry never becomes empty again, so a search
 * ends at the first empty one. The value of a name is in one of two slots: `sequence` counts the changes, and its
 * lowest bit says which slot. The manager fills the other slot and then increments `sequence`. So a reader that finds
 * the same number before and after reading has read a whole slot, a manager that is killed in between has changed
 * nothing, and nobody waits. `sequence` is also the futex word for processes that wait for a newer version. The
 * manager holds the blocks of a version as client 0. A reader that gets its own holds in time keeps the version; one
 * that comes too late reads the entry again.
 *
 * Note [Named locks]
 * A lock, semaphore or barrier is an array of slots. Each taken slot has the number of the client that took it. When a
 * client is dead the manager empties its slots, as it clears its holds, so no count can be wrong. A barrier also has
 * one word with its phase and a bit for each slot whose owner has arrived. To arrive, to withdraw, and to begin the
 * next phase as the last one are each one atomic step on this word.
 */
#ifndef SHMT_SHM_NAMES_H
#define SHMT_SHM_NAMES_H

#include <stdatomic.h>
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
};

typedef struct shmt__name {
  atomic_uint_least32_t state;    /* 0: never used; written last */
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
  uint32_t pad;
  char text[SHMT_NAMED_LOCK_NAME_BYTES];
  atomic_uint_least64_t users[SHMT_NAMED_LOCK_USER_WORDS]; /* a bit for each client that opened it; the end of the last
                                                              one frees it */
  atomic_uint_least64_t slots[SHMT_NAMED_LOCK_SLOTS];
} shmt__named_lock;
_Static_assert(sizeof(shmt__named_lock) == 2560, "named lock");
_Static_assert(offsetof(shmt__named_lock, users) == 128, "named lock");

/* The beginning of the names. */
typedef struct shmt__names_head {
  atomic_uint_least32_t sequence; /* futex: changes with every new name */
  uint32_t n_used;
  uint64_t floor; /* the versions of new names start above it */
  uint64_t pad[6];
} shmt__names_head;
_Static_assert(sizeof(shmt__names_head) == 64, "head of the names");

static inline uint64_t shmt__name_hash(const char* text) {
  uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  for (const unsigned char* at = (const unsigned char*)text; *at != 0; at++)
    h = (h ^ *at) * UINT64_C(0x100000001b3);
  return h ^ h >> 29;
}

#endif
