/* shm/manager/arena_manager.h -- the manager's side of a session's memory: it grants slabs, frees what dead clients
 * held, and returns idle pages to the kernel.
 *
 * There is one arena manager for each session. It lives in the manager process (ipc/manager/).
 *
 * Note [Private tables]
 * Every member can write anywhere in the control file. So the manager decides by tables of its own: which slabs exist,
 * where they lie, who owns them, and which clients exist. The tables in the control file are a copy, which members
 * read. A manager that takes over after a kill starts from that copy: it reads it once and checks that it makes sense
 * (adopt.c). The manager rewrites the copy where it differs from the private tables (repair.c). Only the holds, the
 * leases and the states of blocks belong to the members. The manager reads them in place, and never uses a value that
 * it reads there as an index or an address.
 *
 * Note [Times of others]
 * The clocks of members may differ from the manager's: time namespaces shift them, the time of day may be set, and a
 * member may write anything. So the age of a block or a lease is how long ago the manager first saw it as it is, by the
 * manager's own clock. The stamps that members write only tell one event from the next, and are shown to people.
 *
 * Note [Parking]
 * A client keeps its empty slabs, to allocate from them again. Under a bound, slabs that nobody uses must not be the
 * reason to refuse others. So when a bound is reached, the manager returns all idle pages and parks the slabs that are
 * wholly empty: all their blocks become TRIM, so that the owner cannot take one, and they count no more. The owner
 * keeps the range of addresses and the block records, since its lists name them. When it asks for such a slab, it gets
 * the parked one back, and that counts again. A parked slab is retired like others when its owner ends or returns it.
 */
#ifndef SHMT_SHM_MANAGER_ARENA_MANAGER_H
#define SHMT_SHM_MANAGER_ARENA_MANAGER_H

#include "shm/control_file.h"
#include "shm/manager/ranges.h"

enum {
  SHMT_TRIM_AGE_MS = 1000, /* a free block keeps its pages this long */
};

typedef struct shmt__arena_manager_slab {
  shmt__slab_view view; /* state NONE: no slab has this index */
  int file;             /* descriptor of a FILE slab, or -1 */
  bool is_parked;       /* Note [Parking] */
  char* posix_name;     /* owned; with view.has_posix_name, else NULL */
} shmt__arena_manager_slab;

typedef struct shmt__arena_manager_client {
  uint32_t state; /* shmt__client_state */
  int32_t pid;
  uint64_t start, pid_namespace; /* as in shmt__client_entry */
} shmt__arena_manager_client;

/* When we first saw something, by our own clock: Note [Times of others]. */
typedef struct shmt__sighting {
  uint64_t since_ms; /* 0: we saw nothing yet */
  uint32_t what;     /* tells it from what was at this place before */
} shmt__sighting;

typedef struct shmt__arena_manager {
  shmt__map map;
  int control_fd, arena_fd;        /* owned */
  shmt__ranges arena, blocks;      /* free parts of the arena, free block records */
  shmt__arena_manager_slab* slabs; /* Note [Private tables]; room for slabs_room */
  uint32_t slabs_end, slabs_room, blocks_end;
  uint32_t* slab_of; /* by block: index of its slab plus 1; 0: no slab has it */
  shmt__arena_manager_client clients[SHMT_MAX_CLIENTS];
  uint32_t clients_end;       /* highest client number that was in use, plus 1 */
  uint32_t files_until_sweep; /* files that may still be added before the next sweep of the files */
  uint64_t granted_bytes;     /* in slabs that are not parked */
  shmt__sighting* block_stamps; /* by block */
  shmt__sighting* leases_seen;  /* by slot of the record */
  bool must_sweep_again;      /* the last sweep found blocks that are not old enough yet */
} shmt__arena_manager;

typedef struct shmt__arena_manager_options {
  uint64_t session;
  uint64_t arena_bytes;                     /* at most; the limits of this process may make it less */
  uint64_t limit_bytes, client_limit_bytes; /* what slabs may cover; 0: no bound */
  uint32_t flags, gid;                      /* as in the control file */
  const char* name;                         /* of a service; NULL: the session is none */
} shmt__arena_manager_options;

/* --- sessions (arena_manager.c, adopt.c) --- */

/* Create the files of a new session. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__arena_manager_create(const shmt__arena_manager_options* options, shmt__arena_manager* out);
/* Continue with the files of a session whose manager was killed. Consumes the descriptors. Errors: SHMT_E_MANAGER (the
 * tables make no sense; the files are then marked as ended, so that nobody tries again), SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__arena_manager_adopt(uint64_t session, int control_fd, int arena_fd, shmt__arena_manager* out);
/* Close the files and free the tables. */
void shmt__arena_manager_fini(shmt__arena_manager* k);
/* Is the session a service for unrelated processes? Services have names, and may have a supervisor. */
static inline bool shmt__arena_manager_is_service(const shmt__arena_manager* k) {
  return (k->map.fixed.flags & SHMT_SESSION_SERVICE) != 0;
}
/* May processes of other users be members? */
static inline bool shmt__arena_manager_has_group(const shmt__arena_manager* k) {
  return (k->map.fixed.flags & SHMT_SESSION_GROUP) != 0;
}

/* --- clients (arena_manager.c) --- */

/* Reserve a free client number for the process and lock it on fd (shm/client.h). The number is RESERVED until the
 * process joins. Errors: SHMT_E_RUNTIME (all numbers are taken). */
shmt_status shmt__arena_manager_reserve_client(shmt__arena_manager* k, int fd, int32_t pid, uint32_t* out_id);
/* The process behind a reserved number has joined. */
void shmt__arena_manager_mark_client_alive(shmt__arena_manager* k, uint32_t id, int32_t pid);
/* Free what a dead client had: clear its holds, make its slabs orphans, free its number. */
void shmt__arena_manager_client_died(shmt__arena_manager* k, uint32_t id);

/* --- slabs and files (arena_manager.c, quota.c, park.c) --- */

/* Park the empty slabs that live clients own: Note [Parking]. The pages of idle blocks must have been returned. */
void shmt__arena_manager_park(shmt__arena_manager* k);
/* Let the owner use a slab again, parked or not; its blocks are COLD. */
void shmt__arena_manager_unpark(shmt__arena_manager* k, uint32_t slab);
/* A parked slab of the client with such blocks. False: there is none. */
bool shmt__arena_manager_find_parked(const shmt__arena_manager* k, uint32_t client, uint64_t block_bytes,
                                     uint32_t n_blocks, uint32_t* out_slab);
/* May the client get a slab of so many bytes? Errors: SHMT_E_NOMEM; the text says the bytes and who has most. */
shmt_status shmt__arena_manager_check_quota(shmt__arena_manager* k, uint32_t client, uint64_t nbytes);
/* Grant a slab to a client. Errors: SHMT_E_NOMEM; the text says the bytes. */
shmt_status shmt__arena_manager_grant(shmt__arena_manager* k, uint32_t client, uint64_t block_bytes, uint32_t n_blocks,
                                      uint32_t* out_slab);
/* Register a file that holds one storage. The client holds its block from now on. Consumes fd, also on failure.
 * Errors: SHMT_E_VALUE (no such file, of another size, or not in our /dev/shm), SHMT_E_KEY (the name is not that of
 * the file), SHMT_E_NOMEM. */
shmt_status shmt__arena_manager_add_file(shmt__arena_manager* k, uint32_t client, int fd, const shmt__new_file* file,
                                         uint32_t* out_block, uint64_t* out_generation);
/* After a restart, take the descriptor of a known FILE block from a member. Consumes fd. */
void shmt__arena_manager_restore_file(shmt__arena_manager* k, uint32_t block, uint64_t generation, int fd);
/* The descriptor of a FILE block; borrowed. -1: there is none of this generation. *out_nbytes: size of the file.
 * *out_posix_name: borrowed from the slab; NULL: it has none that goes with it. */
int shmt__arena_manager_file(shmt__arena_manager* k, uint32_t block, uint64_t generation, uint64_t* out_nbytes,
                             const char** out_posix_name);

/* --- ages (ages.c): Note [Times of others] --- */

/* How long ago we first saw the block's stamp, in milliseconds. */
uint64_t shmt__arena_manager_block_age(const shmt__arena_manager* k, uint32_t block, uint64_t now_ms);
/* How long ago we first saw the lease, or saw that its message is unsent. */
uint64_t shmt__arena_manager_lease_age(const shmt__arena_manager* k, const shmt__lease* l, uint64_t now_ms);

/* --- the sweep (sweep.c) --- */

/* Sweep over all blocks: free the blocks that nobody holds and no message needs, return the pages of blocks that have
 * been free long enough, and retire empty orphan slabs. Costs next to nothing when nothing has changed. all: treat
 * every free block as old enough. */
void shmt__arena_manager_sweep(shmt__arena_manager* k, bool all);
/* A memory file is about to be added. Sweep the other files once for every so many additions, so that files nobody uses
 * do not use up the manager's descriptors. */
void shmt__arena_manager_sweep_files(shmt__arena_manager* k);
/* A client returns a slab of its own: the slab becomes an orphan and is retired as soon as all its blocks are free.
 * False: the client does not own such a slab. */
bool shmt__arena_manager_return_slab(shmt__arena_manager* k, uint32_t client, uint32_t slab);
/* How many leases are outstanding in the session? */
uint64_t shmt__arena_manager_n_leases(const shmt__arena_manager* k);
/* End the leases of blocks that were last sent more than age_ms ago. Returns how many. */
uint64_t shmt__arena_manager_drop_leases(shmt__arena_manager* k, uint32_t age_ms);

/* --- the private tables (private_tables.c, repair.c) --- */

/* Allocate the tables of a manager whose files are mapped. Errors: SHMT_E_NOMEM. */
shmt_status shmt__arena_manager_init_tables(shmt__arena_manager* k);
/* Enter a client into the private table. */
void shmt__arena_manager_enter_client(shmt__arena_manager* k, uint32_t id, shmt__arena_manager_client who);
/* Enter a client that took its number without the manager, Note [Claims]. False: nobody has taken the number. */
bool shmt__arena_manager_adopt_client(shmt__arena_manager* k, uint32_t id);
/* All client numbers in use are below this one, claimed ones included. */
uint32_t shmt__arena_manager_clients_end(const shmt__arena_manager* k);
/* The slab of this index, or NULL. Borrowed, valid until the next slab is made. */
static inline const shmt__slab_view* shmt__arena_manager_slab_at(const shmt__arena_manager* k, uint32_t slab) {
  if (slab >= k->slabs_end || k->slabs[slab].view.state == SHMT_SLAB_NONE) return NULL;
  return &k->slabs[slab].view;
}
/* The slab of a block, or NULL. */
static inline const shmt__slab_view* shmt__arena_manager_slab_of(const shmt__arena_manager* k, uint32_t block) {
  if (block >= k->blocks_end || k->slab_of[block] == 0) return NULL;
  return shmt__arena_manager_slab_at(k, k->slab_of[block] - 1);
}
/* Where a block of the slab begins in the arena. */
static inline uint64_t shmt__slab_offset_of(const shmt__slab_view* s, uint32_t block) {
  return s->offset + s->block_bytes * (block - s->first_block);
}
/* How much memory of the session a slab covers: none where it is a program's own file. */
uint64_t shmt__slab_session_bytes(const shmt__slab_view* s);
/* Make room for a slab of this index. False: out of memory. */
bool shmt__arena_manager_reserve_slab(shmt__arena_manager* k, uint32_t slab);
/* Enter a slab into the private table and into the members' copy. */
void shmt__arena_manager_enter_slab(shmt__arena_manager* k, uint32_t slab, const shmt__slab_view* view);
/* Take the slab's owner away: its process is dead, or has returned it. */
void shmt__arena_manager_orphan_slab(shmt__arena_manager* k, uint32_t slab);
/* Delete a slab whose blocks are all free and have no pages. */
void shmt__arena_manager_retire(shmt__arena_manager* k, uint32_t slab);
/* Rewrite the members' copy where it differs from the private tables. */
void shmt__arena_manager_repair(shmt__arena_manager* k);
/* The same for the place of one block. */
void shmt__arena_manager_repair_block(const shmt__arena_manager* k, const shmt__slab_view* s, uint32_t block);

#endif
