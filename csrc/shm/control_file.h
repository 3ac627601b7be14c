/* shm/control_file.h -- the layout of a session's control file, which says whose the shared memory is.
 *
 * A session has two memory files. The *arena* holds nothing but tensor bytes. The *control file* holds everything that
 * says whose bytes they are:
 *
 *   0        4096      +64*N_CLIENTS  +64*n_slabs  +128*n_blocks
 *   +--------+---------+--------------+------------+--------------+---------+-------+---------+-------+
 *   | header | clients | slabs        | blocks     | names, locks | leases  | sites | POSIX   | more  |
 *   |        |         |              |            |              |         |       | names   | holds |
 *   +--------+---------+--------------+------------+--------------+---------+-------+---------+-------+
 *     manager  manager   manager        see below    shm/names.h    senders   owners  manager   clients
 *
 * The last line says who writes each part. A slab is a range of the arena that the manager granted to one client, its
 * owner. It is cut into blocks of one size, and a block backs one storage. A slab of kind FILE is a memory file of its
 * own with one block. Only the manager writes the header, the clients and the slabs, with two exceptions: Note
 * [Claims], and a client's own label. Many processes write a block's record. Each step on it is one atomic operation,
 * so that a process may be killed between any two steps.
 *
 * Note [Pages of the control file]
 * The file is sparse: a session that could have two million blocks takes a few pages while it is small. Whoever is the
 * first to use a record gives it its page, and reports an error when memory is out. Only then does the record count as
 * used. Nobody stores to or reads a record that was never used: the access would allocate the page, and raise SIGBUS
 * when memory is out. Which were used is said by clients_end, slabs_end, blocks_end and lease_pages_end in the header,
 * and by names_end, locks_end and index in the head of the names.
 *
 * Note [Client locks]
 * A client number is taken as long as its byte of the control file is locked (shm/client.h). Each client has an open
 * file description of its own for the control file, and this description has the lock. The kernel drops the lock when
 * the last copy of the descriptor is gone, whatever ended the process and in whatever pid namespace it ran. A forked
 * child closes its copy of the parent's descriptor as soon as it runs. Until then the parent counts as alive, which is
 * the safe side. A program may close descriptors that are not its own, so each client also maps a page through that
 * description, which keeps the lock until the process ends or has another number; children do not inherit this map
 * (shmt__os_pin_locks). A client without its descriptor joins anew, under another number.
 * Nobody maps the file in another way through such a description: children would inherit the map, and it would keep the
 * lock. The table of clients only tells who is behind a number.
 *
 * Note [Results]
 * A function writes its results only when it succeeds, and a caller reads them only then. A process that could get no
 * number has none (0), and neither have its children: it acts under no number, not even under the last that was tried.
 *
 * Note [Claims]
 * When a process forks and the manager does not answer (it is stopped, or was killed), the process takes a number for
 * the child itself: it locks a free byte on a new description and makes the entry RESERVED. The child writes its pid
 * and makes the entry ALIVE. The manager finds it at its next tick.
 *
 * Note [Holds]
 * A client has one bit for each block. Only the client sets its bit ("this process uses the block") and clears it. When
 * the client is dead the manager clears all its bits. So a crash can neither free what others use nor leave a count
 * wrong. The bits of the first 512 clients lie in the block's record. Each further 512 clients have 64 bytes for each
 * block at the end of the file; these get pages when there are such clients.
 *
 * Note [Leases]
 * A message that nobody has opened yet keeps its blocks by leases (shm/lease.h). A lease is a record with an identity
 * that is never used again and that travels in the handle, and one more in the block's count. A lease has no owner, so
 * it stays when the sender is gone. It ends when the message is opened, or when nobody is left who could read the pipe
 * or socket that the message was sent through.
 *
 * Note [Ring leases]
 * A message in a ring (ipc/ring/message_layout.h) keeps its blocks by `n_ring_leases`. This counter changes only under
 * one of the ring's locks. So the manager, when it has the locks of the rings, can count what the messages in them
 * name, and set the counters right: after a client died, and after a ring went. Note [Auditing rings] in
 * ipc/manager/ring_audit.c says what it does when it cannot get a lock.
 *
 * Note [Reclaiming]
 * head = generation << 20 | marker << 4 | state. A process frees a block in three steps. It sets USED -> RECLAIM with
 * its own marker. It looks at the holds and leases. Then it sets RECLAIM -> FREE with the next generation, or back to
 * USED when it found any. Whoever adds a hold or a lease adds it first and then looks at the head: RECLAIM is put back
 * to USED, and another generation means that the block is gone. All of it is sequentially consistent, so either the
 * reclaimer sees the new bit, or the other process sees the mark. A reclaimer that dies leaves a mark that anyone may
 * take off.
 */
#ifndef SHMT_SHM_CONTROL_FILE_H
#define SHMT_SHM_CONTROL_FILE_H

#include "base/error.h"
#include "shm/names.h"

#include <stdatomic.h>

#define SHMT_CONTROL_MAGIC UINT64_C(0x324c5254434d4853) /* "SHMCTRL2" */

enum {
  SHMT_LAYOUT_VERSION = 9,
  SHMT_MAX_CLIENTS = 4608, /* ids 1..4607; 0 is nobody */
  SHMT_NEAR_CLIENTS = 512, /* the clients whose holds lie in the block's record */
  SHMT_NEAR_WORDS = SHMT_NEAR_CLIENTS / 64,
  SHMT_HOLD_WORDS = SHMT_MAX_CLIENTS / 64,
  SHMT_HOLD_PLANES = SHMT_MAX_CLIENTS / SHMT_NEAR_CLIENTS - 1, /* groups of 512 clients beyond these */
  SHMT_MANAGER_MARKER = 0x3fff,                                /* the manager, in place of a client's number */
  SHMT_LABEL_BYTES = 32,                                       /* with the zero at the end */
  SHMT_POSIX_NAME_BYTES = 176,                                 /* the same: what a message has room for */
  SHMT_SLAB_ALIGN = 64 << 10, /* slabs start at and are multiples of this */
  SHMT_MOST_SLABS = 1 << 16,
  SHMT_MOST_BLOCKS = 1 << 21, /* of a session of full size; smaller sessions have a half, a quarter, ... */
  SHMT_FEWEST_BLOCKS = 1 << 12,
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
  SHMT_CLIENT_RESERVED = 1, /* for a child that is being forked, or a process that is joining */
  SHMT_CLIENT_ALIVE = 2,
} shmt__client_state;

typedef enum shmt__slab_state {
  SHMT_SLAB_NONE = 0,
  SHMT_SLAB_ARENA = 1,
  SHMT_SLAB_FILE = 2,         /* one block: a memory file that a client made */
  SHMT_SLAB_PROGRAM_FILE = 3, /* one block: a file with a name, which a program has mapped. Its pages are no memory of
                               * the session: nobody returns or reuses them */
} shmt__slab_state;

/* Has the slab a file of its own behind its one block, which the manager keeps a descriptor of? */
static inline bool shmt__slab_state_is_file(uint32_t state) {
  return state == SHMT_SLAB_FILE || state == SHMT_SLAB_PROGRAM_FILE;
}

/* What a client says of a file that it registers. */
typedef struct shmt__new_file {
  uint64_t nbytes;        /* of the storage */
  bool has_name;          /* a file that a program has mapped (os/files.h); else a memory file */
  const char* posix_name; /* with has_name: its name in /dev/shm, which goes with the slab; NULL: the name stays */
  bool is_named_later;    /* the name is made once this has succeeded */
} shmt__new_file;

/* What never changes in the life of a control file. Everybody copies it when mapping the file, and uses the copy. */
typedef struct shmt__fixed {
  uint64_t session;     /* names the manager's socket */
  uint64_t incarnation; /* tells this control file from an earlier one of the session */
  uint64_t secret;      /* key of the handles' checksum */
  uint64_t arena_bytes;
  uint64_t arena_identity[2];  /* device and inode of the arena that belongs to this file */
  uint64_t limit_bytes;        /* bound of what slabs may cover; 0: none */
  uint64_t client_limit_bytes; /* bound of the slabs of one client; 0: none */
  uint64_t net_namespace;      /* inode of the manager's network namespace: it sees only the sockets there */
  uint32_t n_slabs, n_blocks;
  uint32_t flags; /* SHMT_SESSION_* */
  uint32_t gid;   /* with SHMT_SESSION_GROUP: whose members may join */
} shmt__fixed;
_Static_assert(sizeof(shmt__fixed) == 88, "constants");
_Static_assert((int)SHMT_NAMED_LOCK_USER_WORDS == (int)SHMT_HOLD_WORDS, "users of a named lock are clients");

typedef struct shmt__control {
  uint64_t magic;
  uint32_t version;
  uint32_t n_clients; /* SHMT_MAX_CLIENTS */
  shmt__fixed fixed;
  atomic_uint_least32_t slabs_end;       /* slabs ever used */
  atomic_uint_least32_t clients_end;     /* highest client id ever used, plus 1 */
  atomic_uint_least32_t blocks_end;      /* block records ever used; the ones behind have no pages */
  atomic_uint_least32_t lease_pages_end; /* pages of leases ever used */
  atomic_uint_least32_t activity;        /* 1: a hold or a lease has ended since the last sweep */
  atomic_uint_least32_t rings_stale;     /* 1: ring leases may be counted wrong */
  atomic_uint_least32_t leases_stale;    /* 1: the other leases may be counted wrong */
  atomic_uint_least32_t ended;           /* 1: the session ended in order; nobody may continue with it */
  atomic_uint_least32_t has_sites;       /* 1: a client has written into `sites`; set by that client */
  atomic_uint_least32_t rings_made;      /* counts the rings that were ever made */
  char name[SHMT_NAME_BYTES]; /* of a service, for people: its name, or its socket's path */
} shmt__control;

enum {
  SHMT_SESSION_SERVICE = 1 << 0, /* for unrelated processes: it has names */
  SHMT_SESSION_GROUP = 1 << 1,
};
_Static_assert(sizeof(shmt__control) == 272, "control header");

typedef struct shmt__client_entry {
  atomic_uint_least32_t state;
  int32_t pid;            /* as the writer of the entry sees it; 0: the writer cannot see it */
  uint64_t start;         /* clock ticks after boot, tells a reused pid apart */
  uint64_t pid_namespace; /* inode of the one in which pid means something */
  atomic_uint_least32_t touching; /* block whose leases it is changing, plus 1; 0: none */
  atomic_uint_least32_t n_claims; /* how often the number was taken: tells the processes that had it apart */
  char label[SHMT_LABEL_BYTES]; /* what the process says of itself, for people; the client writes it */
} shmt__client_entry;
_Static_assert(sizeof(shmt__client_entry) == 64, "client entry");

typedef struct shmt__slab {
  atomic_uint_least32_t state; /* written last when a slab is made */
  atomic_uint_least32_t owner; /* client number; 0: the slab is an orphan */
  uint32_t first_block, n_blocks;
  uint64_t offset, nbytes; /* in the arena */
  uint64_t block_bytes;
  uint64_t file_identity[2]; /* of the file behind the block: device and inode */
  atomic_uint_least32_t is_exported; /* 1: processes that are no members may have its file; members set it */
  uint32_t has_posix_name; /* 1: the file has the name in posix_names, which goes with the slab: Note [POSIX names] in
                            * shm/manager/posix_names.h */
} shmt__slab;
_Static_assert(sizeof(shmt__slab) == 64, "slab entry");

typedef struct shmt__block {
  atomic_uint_least64_t head;   /* see Note [Reclaiming] */
  atomic_uint_least64_t leases; /* low half: how many; upper half: counts the changes. Note [Leases] */
  atomic_uint_least32_t n_plain_leases; /* leases without a record */
  uint32_t slab;                  /* the manager writes it */
  uint64_t offset, capacity;      /* in the arena; the manager writes them */
  atomic_uint_least64_t nbytes;   /* of the storage, and SHMT_BLOCK_IS_RING; written by the owner */
  atomic_uint_least64_t warm;     /* bytes with pages */
  atomic_uint_least32_t stamp_ms; /* time of day when a FREE block became free, or else its last lease was taken */
  atomic_uint_least32_t n_ring_leases; /* see Note [Ring leases] */
  atomic_uint_least64_t holds[SHMT_NEAR_WORDS]; /* see Note [Holds] */
} shmt__block;
_Static_assert(sizeof(shmt__block) == 128, "block record");
_Static_assert(offsetof(shmt__block, holds) == 64, "holds have a cache line of their own");
_Static_assert(sizeof(atomic_uint_least64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
               "lock-free 64-bit atomics");

/* Where a block's storage was made. Clients with SHMTENSOR_TRACE_ALLOC write it after they took the block. Nothing
 * depends on it. */
typedef struct shmt__site {
  uint64_t generation; /* of the block */
  char text[56];       /* the end of "path:line", zero-terminated */
} shmt__site;
_Static_assert(sizeof(shmt__site) == 64, "site");

/* The name of a slab's file in /dev/shm, by slab: "/name", zero-terminated. Only the manager reads it, when it takes
 * over; it had written it before the slab got a state. */
typedef struct shmt__posix_name {
  char text[SHMT_POSIX_NAME_BYTES];
} shmt__posix_name;
_Static_assert(sizeof(shmt__posix_name) == 176, "POSIX name");

/* One message's claim on a block; see shm/lease.h. */
typedef struct shmt__lease {
  atomic_uint_least64_t id; /* 0: unused; written last */
  /* Relaxed: a reader tells by the id, or by the block's count, whether the fields belong together. */
  atomic_uint_least64_t generation; /* of the block */
  atomic_uint_least64_t channel;    /* what the message was sent through, see shmt__channel; 0: not known */
  atomic_uint_least32_t block;
  atomic_uint_least32_t stamp_ms; /* time of day when it was sent, for people */
} shmt__lease;
_Static_assert(sizeof(shmt__lease) == 32, "lease");

enum { SHMT_LEASES_OF_PAGE = 127 };

typedef struct shmt__lease_page {
  atomic_uint_least32_t owner; /* the client that takes leases here; 0: nobody */
  uint32_t pad[7];
  shmt__lease at[SHMT_LEASES_OF_PAGE];
} shmt__lease_page;
_Static_assert(sizeof(shmt__lease_page) == 4096, "page of leases");

/* The holds of 512 further clients on one block. */
typedef struct shmt__far_holds {
  atomic_uint_least64_t words[SHMT_NEAR_WORDS];
} shmt__far_holds;

/* A mapped control file with its parts. */
typedef struct shmt__map {
  shmt__control* control;
  shmt__fixed fixed; /* a copy, checked */
  shmt__client_entry* clients;
  shmt__slab* slabs;
  shmt__block* blocks;
  shmt__names_head* names_head;
  atomic_uint_least32_t* name_buckets; /* all tables of the index */
  shmt__name* names;
  shmt__named_lock* named_locks;
  uint32_t n_names, n_named_locks, n_lease_pages;
  shmt__lease_page* lease_pages;
  shmt__site* sites; /* by block; without pages until a client traces */
  shmt__posix_name* posix_names; /* by slab */
  shmt__far_holds* far_holds; /* by plane * n_blocks + block */
  uint64_t nbytes;   /* of the control file */
  uint32_t uid;    /* whose file it is */
} shmt__map;

/* Offsets of the parts, for so many slabs and blocks. `end` is the size of the file. */
typedef struct shmt__layout {
  uint64_t clients, slabs, blocks, names_head, name_buckets, names, named_locks, leases, sites, posix_names, far_holds,
      end;
  uint32_t n_names, n_named_locks, n_lease_pages;
} shmt__layout;
static inline shmt__layout shmt__layout_of(uint64_t n_slabs, uint64_t n_blocks) {
  const uint64_t align = SHMT_SLAB_ALIGN - 1;
  shmt__layout l;
  l.clients = 4096;
  l.slabs = l.clients + sizeof(shmt__client_entry) * SHMT_MAX_CLIENTS;
  l.blocks = l.slabs + sizeof(shmt__slab) * n_slabs;
  l.names_head = l.blocks + sizeof(shmt__block) * n_blocks;
  l.n_names = (uint32_t)(n_blocks / 16); /* 131 072 and 16 384 in a session of full size */
  l.n_named_locks = (uint32_t)(n_blocks / 128);
  l.name_buckets = l.names_head + 4096;
  l.names = l.name_buckets +
            sizeof(uint32_t) * shmt__name_table_begin(shmt__name_table_most_bits(l.n_names) + 1);
  l.named_locks = l.names + sizeof(shmt__name) * l.n_names;
  l.leases = (l.named_locks + sizeof(shmt__named_lock) * l.n_named_locks + align) & ~align;
  l.n_lease_pages = (uint32_t)(n_blocks / 128 + 1);
  l.sites = (l.leases + sizeof(shmt__lease_page) * l.n_lease_pages + align) & ~align;
  l.posix_names = (l.sites + sizeof(shmt__site) * n_blocks + align) & ~align;
  l.far_holds = (l.posix_names + sizeof(shmt__posix_name) * n_slabs + align) & ~align;
  l.end = l.far_holds + sizeof(shmt__far_holds) * SHMT_HOLD_PLANES * n_blocks;
  l.end = (l.end + align) & ~align;
  return l;
}

/* How many slabs a session with so many blocks has. */
uint32_t shmt__slabs_for(uint32_t n_blocks);
/* How many blocks a session has whose control file has this size; 0: no control file has it. */
uint32_t shmt__blocks_of_size(uint64_t nbytes);

/* Map the control file behind fd and check that it is one. Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__map_open(int fd, shmt__map* out);
/* Map that of user `uid` without the right to write to it. */
shmt_status shmt__map_open_read_only(int fd, uint32_t uid, shmt__map* out);
/* The same, for a file of another user. */
shmt_status shmt__map_open_of(int fd, uint32_t uid, shmt__map* out);
/* Take over what a manager says of the session whose control file it sent, in place of what members may have written
 * there. Errors: SHMT_E_MANAGER (the file is of another session or incarnation). */
shmt_status shmt__map_believe(shmt__map* m, uint64_t session, uint64_t incarnation, uint32_t flags);
void shmt__map_close(shmt__map* m);
/* Give pages to records that will be used now: Note [Pages of the control file]. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__map_populate(const shmt__map* m, int fd, const void* at, uint64_t nbytes);
/* Is fd the sealed arena that belongs to the control file? */
bool shmt__arena_matches(const shmt__map* m, int fd);

/* A copy of a slab's entry that was read once and checked, since any member can write to the entry. */
typedef struct shmt__slab_view {
  uint32_t state, owner;
  uint32_t first_block, n_blocks;
  uint64_t offset, nbytes, block_bytes;
  uint64_t file_identity[2]; /* of the file behind the block */
  bool has_posix_name;
} shmt__slab_view;
/* Copy and check a slab's entry. False: there is no such slab, or its fields do not fit the session. */
bool shmt__slab_read(const shmt__map* m, uint32_t slab, shmt__slab_view* out);
/* The same for the slab of a block. */
bool shmt__slab_of_block(const shmt__map* m, uint32_t block, shmt__slab_view* out);
/* Was a descriptor of the block's file given to another program? */
bool shmt__slab_is_exported(const shmt__map* m, uint32_t block);
void shmt__slab_set_exported(const shmt__map* m, uint32_t block);
/* Do blocks of this size consist of whole pages, so that the pages of each can be returned alone? */
bool shmt__is_paged(uint64_t block_bytes);

/* How much of each table is in use. Each word is read once and bounded, since any member can write there. */
static inline uint32_t shmt__map_bounded(const atomic_uint_least32_t* word, uint32_t limit) {
  /* acquire: the records below the end are there. */
  uint32_t n = atomic_load_explicit(word, memory_order_acquire);
  return n < limit ? n : limit;
}
static inline uint32_t shmt__map_slabs_end(const shmt__map* m) {
  return shmt__map_bounded(&m->control->slabs_end, m->fixed.n_slabs);
}
static inline uint32_t shmt__map_blocks_end(const shmt__map* m) {
  return shmt__map_bounded(&m->control->blocks_end, m->fixed.n_blocks);
}
static inline uint32_t shmt__map_lease_pages_end(const shmt__map* m) {
  return shmt__map_bounded(&m->control->lease_pages_end, m->n_lease_pages);
}
static inline uint32_t shmt__map_names_end(const shmt__map* m) {
  return shmt__map_bounded(&m->names_head->names_end, m->n_names);
}
static inline uint32_t shmt__map_named_locks_end(const shmt__map* m) {
  return shmt__map_bounded(&m->names_head->locks_end, m->n_named_locks);
}
/* seq_cst: a process that reads the holds sees a client number before the number's first hold, see
 * shmt__client_claim. */
static inline uint32_t shmt__map_clients_end(const shmt__map* m) {
  uint32_t n = atomic_load_explicit(&m->control->clients_end, memory_order_seq_cst);
  return n < SHMT_MAX_CLIENTS ? n : SHMT_MAX_CLIENTS;
}

/* A block may be free now: have the manager sweep at its next tick. seq_cst: the hold or lease ended before, so the
 * sweep that follows the manager's reset of the flag sees that. */
static inline void shmt__map_note_activity(const shmt__map* m) {
  if (atomic_load_explicit(&m->control->activity, memory_order_seq_cst) == 0)
    atomic_store_explicit(&m->control->activity, 1, memory_order_seq_cst);
}

/* --- a block's head --- */

static inline uint64_t shmt__head(uint64_t generation, unsigned marker, shmt__block_state state) {
  return generation << 20 | (uint64_t)(marker & 0xffff) << 4 | (uint64_t)state;
}
static inline uint64_t shmt__head_generation(uint64_t head) { return head >> 20; }
static inline unsigned shmt__head_marker(uint64_t head) { return (unsigned)(head >> 4) & 0xffff; }
static inline shmt__block_state shmt__head_state(uint64_t head) {
  return (shmt__block_state)(head & 0xf);
}

#endif
