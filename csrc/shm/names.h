/* shm/names.h -- names in the shared memory of a service: values and things to wait for.
 *
 * They lie behind the blocks of the control file. Only the manager writes them, except the slots of
 * a sync, which clients take and give back by compare-and-swap.
 *
 * Note [Names]
 * An entry is found by open addressing over the name's hash; it is never empty again once used, so
 * a search ends at the first empty one. What the name stands for is in one of two slots: `tick`
 * counts the changes and its lowest bit says which. The manager fills the other slot and then
 * counts, so a reader that finds the same tick before and after has read a whole slot, a manager
 * killed in between has changed nothing, and nobody waits for anybody. `tick` is also the futex
 * word of those who wait for a newer version. The manager holds the blocks of a version as client
 * 0; a reader that gets its own holds in time keeps the version, one that comes too late looks at
 * the entry again.
 *
 * Note [Syncs]
 * A lock, semaphore or barrier is an array of slots, each with the number of the client that has
 * it. A killed client's slots are emptied by the manager like its holds, so that no count can be
 * wrong. A barrier has, besides, one word with its phase and a bit for each slot whose owner has
 * arrived: arriving, withdrawing and the last one's moving on to the next phase are each one step
 * on it.
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
  SHMT_NAMED_CLIENT = 0,   /* as which the manager holds the blocks of names */
};

/* What a name stands for: the block that describes it (ipc/service/description.h). */
typedef struct shmt__version {
  uint64_t version; /* grows with each publication of the name */
  uint64_t generation;
  uint64_t nbytes;       /* of all its storages */
  uint64_t published_ms; /* of the clock that never steps */
  uint32_t block;        /* SHMT_NAME_GONE: nothing */
  uint32_t publisher;    /* client */
  uint32_t uid;          /* of the publisher, from the kernel */
  int32_t pid;
  uint32_t flags; /* SHMT_NAME_* */
  uint32_t pad;
} shmt__version;
_Static_assert(sizeof(shmt__version) == SHMT_VERSION_WORDS * 8, "version");

#define SHMT_NAME_GONE UINT32_MAX
enum {
  SHMT_NAME_PERSISTS = 1 << 0, /* beyond its publisher */
};

typedef struct shmt__name {
  atomic_uint_least32_t state; /* 0: never used; written last */
  atomic_uint_least32_t tick;  /* see Note [Names] */
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
  atomic_uint_least32_t wake;    /* changes whenever a waiter should look again; futex */
  atomic_uint_least64_t arrived; /* of a barrier: phase << 48 | a bit for each slot */
  atomic_uint_least32_t waiters; /* a hint: not too low; a killed one leaves it too high */
  uint32_t pad;
  char text[SHMT_NAMED_LOCK_NAME_BYTES];
  atomic_uint_least64_t users[SHMT_NAMED_LOCK_USER_WORDS]; /* clients that opened it; the last one's end frees it */
  atomic_uint_least64_t slots[SHMT_NAMED_LOCK_SLOTS];
} shmt__named_lock;
_Static_assert(sizeof(shmt__named_lock) == 2560, "sync");
_Static_assert(offsetof(shmt__named_lock, users) == 128, "sync");

/* The beginning of the names. */
typedef struct shmt__names_head {
  atomic_uint_least32_t tick; /* changes with every new name; futex */
  uint32_t n_used;
  uint64_t floor; /* versions of new names begin above it */
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
