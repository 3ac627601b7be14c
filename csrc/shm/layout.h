/* shm/layout.h -- what lies in the shared memory of a session.
 *
 * A session has two memory files. The *arena* holds nothing but tensor bytes. The *control* file
 * holds everything that says whose bytes they are:
 *
 *   0         4096            +64*N_CLIENTS     +64*n_slabs         +128*n_blocks
 *   +---------+---------------+-----------------+-------------------+----------------+-----------+
 *   | header  | clients       | slabs           | blocks            | names, syncs   | sites     |
 *   +---------+---------------+-----------------+-------------------+----------------+-----------+
 *     manager   manager         manager           see below           see shm/named.h  owners
 *
 * A slab is a range of the arena that the manager granted to one client, its owner, cut into blocks
 * of one size. A block backs one storage. A slab of kind FILE is a memory file of its own with one
 * block. Only the manager writes the header, the clients and the slabs; but see Note [Claims]. A
 * block's record is written by many, and every step on it is one atomic operation, so that a process may be killed between
 * any two.
 *
 * Note [Claims]
 * A process that forks and gets no answer from the manager (it is stopped, or was killed) takes a
 * number for the child itself: NONE -> RESERVED, one compare-and-swap, as the manager does. The
 * child writes its pid and makes the number ALIVE; the manager finds it at its next look. A number
 * that stays RESERVED, because parent or child was killed, is free again when 5 s old and no unknown
 * process maps the control file.
 *
 * Note [Holds]
 * A client has one bit in each block's record. It alone sets its bit ("this process uses the
 * block") and clears it; when the client is gone the manager clears all its bits. So a crash can
 * neither free what others use nor leave a count wrong.
 *
 * Note [Leases]
 * A message under way keeps its block by a lease: a bit of `leases` whose number travels in the
 * handle, or, beyond 64 of them, one of `n_plain_leases`. A lease has no owner, so it stays when
 * the sender is gone.
 *
 * Note [Ring leases]
 * A message in a ring (ipc/ring_layout.h) keeps its blocks by `n_ring_leases`, which changes only
 * under one of the ring's locks. So the manager, holding the locks of all rings, can count what the
 * rings' messages name and set the counters right: after a client died, and when a ring went.
 *
 * Note [Reclaiming]
 * head = generation << 16 | marker << 4 | state. A block is given back by: USED -> RECLAIM with the
 * reclaimer's marker; look at holds and leases; RECLAIM -> FREE with the next generation, or back
 * to USED when there are any. Whoever adds a hold or a lease does it first and then looks at the
 * head: RECLAIM is put back to USED, and an older generation means the block is gone. All of it is
 * sequentially consistent: either the reclaimer sees the new bit, or the other sees the mark. A
 * reclaimer that dies leaves a mark that anyone may take off.
 */
#ifndef SHMT_SHM_LAYOUT_H
#define SHMT_SHM_LAYOUT_H

#include "base/error.h"
#include "shm/named.h"

#include <stdatomic.h>

#define SHMT_CONTROL_MAGIC UINT64_C(0x324c5254434d4853) /* "SHMCTRL2" */

enum {
  SHMT_LAYOUT_VERSION = 3,
  SHMT_MAX_CLIENTS = 512, /* ids 1..511; 0 is nobody, the manager marks as 0xfff */
  SHMT_HOLD_WORDS = SHMT_MAX_CLIENTS / 64,
  SHMT_MANAGER_MARKER = 0xfff,
  SHMT_SLAB_ALIGN = 64 << 10, /* slabs start at and are multiples of this */
  SHMT_PLAIN_LEASE = 255,     /* the lease number of one of n_plain_leases */
  SHMT_NO_LEASE = 254,
};

/* In a block's `nbytes`: the bytes are a ring. */
#define SHMT_BLOCK_IS_RING (UINT64_C(1) << 63)

typedef enum shmt__block_state {
  SHMT_BLOCK_NONE = 0, /* belongs to no slab */
  SHMT_BLOCK_COLD = 1, /* free, without pages */
  SHMT_BLOCK_FREE = 2, /* free, `warm` bytes have pages */
  SHMT_BLOCK_USED = 3,
  SHMT_BLOCK_RECLAIM = 4, /* see Note [Reclaiming] */
  SHMT_BLOCK_TRIM = 5,    /* the manager is taking the pages away */
} shmt__block_state;

typedef enum shmt__client_state {
  SHMT_CLIENT_NONE = 0,
  SHMT_CLIENT_RESERVED = 1, /* for a child that is being forked */
  SHMT_CLIENT_ALIVE = 2,
} shmt__client_state;

typedef enum shmt__slab_state {
  SHMT_SLAB_NONE = 0,
  SHMT_SLAB_ARENA = 1,
  SHMT_SLAB_FILE = 2,
} shmt__slab_state;

typedef struct shmt__control {
  uint64_t magic;
  uint32_t version;
  uint32_t n_clients; /* SHMT_MAX_CLIENTS */
  uint64_t session;   /* names the manager's socket */
  uint64_t world;     /* tells this control file from an earlier one of the session */
  uint64_t secret;    /* key of the handles' checksum */
  uint64_t arena_bytes;
  uint64_t limit_bytes; /* bound of what slabs may cover; 0: none */
  uint32_t n_slabs, n_blocks;
  atomic_uint_least32_t slabs_end;   /* slabs ever used */
  atomic_uint_least32_t clients_end; /* highest client id ever used, plus 1 */
  atomic_uint_least32_t blocks_end;  /* records ever used; the ones behind have no pages */
  atomic_uint_least32_t activity;    /* 1: a hold or a lease went since the manager looked */
  uint64_t arena_identity[2];        /* device and inode of the arena that belongs to this file */
  atomic_uint_least32_t rings_stale; /* 1: ring leases may be counted wrong */
  uint32_t flags;                    /* SHMT_SESSION_* */
  uint64_t client_limit_bytes;       /* bound of the slabs of one client; 0: none */
  uint32_t gid;                      /* with SHMT_SESSION_GROUP: whose members may join */
  atomic_uint_least32_t ended;       /* 1: ended in order; nobody is to go on with it */
  atomic_uint_least32_t has_sites;   /* 1: a client wrote into `sites`; by that client */
  uint32_t pad;
} shmt__control;

enum {
  SHMT_SESSION_SERVICE = 1 << 0, /* has names; begun for unrelated processes */
  SHMT_SESSION_GROUP = 1 << 1,
};
_Static_assert(sizeof(shmt__control) == 128, "control header");

typedef struct shmt__client_entry {
  atomic_uint_least32_t state;
  int32_t pid;
  uint64_t start;                   /* clock ticks after boot, tells a reused pid apart */
  uint64_t nonce;                   /* what a client shows to rejoin */
  atomic_uint_least64_t claimed_ms; /* when it became RESERVED */
  uint64_t pad[4];
} shmt__client_entry;
_Static_assert(sizeof(shmt__client_entry) == 64, "client entry");

typedef struct shmt__slab {
  atomic_uint_least32_t state; /* written last when a slab is made */
  atomic_uint_least32_t owner; /* client id; 0: an orphan */
  uint32_t first_block, n_blocks;
  uint64_t offset, nbytes; /* in the arena */
  uint64_t block_bytes;
  uint64_t file_identity[2]; /* of a FILE slab: device and inode */
  uint64_t pad[1];
} shmt__slab;
_Static_assert(sizeof(shmt__slab) == 64, "slab entry");

typedef struct shmt__block {
  atomic_uint_least64_t head;   /* see Note [Reclaiming] */
  atomic_uint_least64_t leases; /* see Note [Leases] */
  atomic_uint_least32_t n_plain_leases;
  uint32_t slab;                  /* manager */
  uint64_t offset, capacity;      /* manager; in the arena */
  atomic_uint_least64_t nbytes;   /* of the storage, and SHMT_BLOCK_IS_RING; written by the owner */
  atomic_uint_least64_t warm;     /* bytes with pages */
  atomic_uint_least32_t stamp_ms; /* of a FREE block: since when; else when the last lease was taken */
  atomic_uint_least32_t n_ring_leases; /* see Note [Ring leases] */
  atomic_uint_least64_t holds[SHMT_HOLD_WORDS]; /* see Note [Holds] */
} shmt__block;
_Static_assert(sizeof(shmt__block) == 128, "block record");
_Static_assert(offsetof(shmt__block, holds) == 64, "holds have a cache line of their own");
_Static_assert(sizeof(atomic_uint_least64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
               "lock-free 64-bit atomics");

/* Where a block's storage was made, by a client with SHMTENSOR_TRACE_ALLOC; the owner writes it
 * after it took the block, and nobody's safety depends on it. */
typedef struct shmt__site {
  uint64_t generation; /* of the block */
  char text[56];       /* the end of "path:line", zero-terminated */
} shmt__site;
_Static_assert(sizeof(shmt__site) == 64, "site");

/* A mapped control file with its parts. */
typedef struct shmt__map {
  shmt__control* control;
  shmt__client_entry* clients;
  shmt__slab* slabs;
  shmt__block* blocks;
  shmt__names_head* names_head;
  shmt__name* names;
  shmt__sync* syncs;
  uint32_t n_names, n_syncs;
  shmt__site* sites; /* by block; holes until somebody traces */
  uint64_t nbytes;   /* of the control file */
  uint32_t uid;    /* whose file it is */
} shmt__map;

/* Offsets of the parts for so many slabs and blocks; the last one is the size of the file. */
typedef struct shmt__layout {
  uint64_t clients, slabs, blocks, names, syncs, sites, end;
  uint32_t n_names, n_syncs;
} shmt__layout;
static inline shmt__layout shmt__layout_of(uint64_t n_slabs, uint64_t n_blocks) {
  shmt__layout l;
  l.clients = 4096;
  l.slabs = l.clients + sizeof(shmt__client_entry) * SHMT_MAX_CLIENTS;
  l.blocks = l.slabs + sizeof(shmt__slab) * n_slabs;
  l.names = l.blocks + sizeof(shmt__block) * n_blocks;
  l.n_names = (uint32_t)(n_blocks / 2048 + 1); /* 1 025 and 129 in a session of full size */
  l.n_syncs = (uint32_t)(n_blocks / 16384 + 1);
  l.syncs = l.names + sizeof(shmt__names_head) + sizeof(shmt__name) * l.n_names;
  l.sites = l.syncs + sizeof(shmt__sync) * l.n_syncs;
  l.sites = (l.sites + SHMT_SLAB_ALIGN - 1) & ~(uint64_t)(SHMT_SLAB_ALIGN - 1);
  l.end = l.sites + sizeof(shmt__site) * n_blocks;
  l.end = (l.end + SHMT_SLAB_ALIGN - 1) & ~(uint64_t)(SHMT_SLAB_ALIGN - 1);
  return l;
}

/* Map the control file behind fd and check that it is one. Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__map_open(int fd, shmt__map* out);
/* The same without the right to write to it. */
shmt_status shmt__map_open_read_only(int fd, shmt__map* out);
/* The same, of another user. */
shmt_status shmt__map_open_of(int fd, uint32_t uid, shmt__map* out);
void shmt__map_close(shmt__map* m);
/* Is fd the sealed arena that belongs to the control file? */
bool shmt__arena_matches(const shmt__map* m, int fd);
/* Do the slab's blocks own whole pages, so that each can lose its pages alone? */
bool shmt__slab_is_paged(const shmt__slab* s);

/* A free client number, RESERVED from now on by the process; false when all are taken. */
bool shmt__client_claim(const shmt__map* m, int32_t pid, uint32_t* out_id);
/* The process behind a number is there. */
void shmt__client_settle(const shmt__map* m, uint32_t id, int32_t pid);

/* Something may be free now: let the manager look. seq_cst: the hold or lease went before, and is
 * seen gone by the look that follows the manager's reset of the flag. */
static inline void shmt__map_note_activity(const shmt__map* m) {
  if (atomic_load_explicit(&m->control->activity, memory_order_seq_cst) == 0)
    atomic_store_explicit(&m->control->activity, 1, memory_order_seq_cst);
}

/* --- a block's head --- */

static inline uint64_t shmt__head(uint64_t generation, unsigned marker, shmt__block_state state) {
  return generation << 16 | (uint64_t)(marker & 0xfff) << 4 | (uint64_t)state;
}
static inline uint64_t shmt__head_generation(uint64_t head) { return head >> 16; }
static inline unsigned shmt__head_marker(uint64_t head) { return (unsigned)(head >> 4) & 0xfff; }
static inline shmt__block_state shmt__head_state(uint64_t head) {
  return (shmt__block_state)(head & 0xf);
}

#endif
