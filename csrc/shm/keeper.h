/* shm/keeper.h -- the manager's side of the shared memory: slabs, dead clients, idle pages.
 *
 * One keeper per session, in the manager. What it keeps privately can be made anew from the control
 * file, which is how a manager that takes over after a kill begins.
 */
#ifndef SHMT_SHM_KEEPER_H
#define SHMT_SHM_KEEPER_H

#include "shm/layout.h"
#include "shm/ranges.h"

enum {
  SHMT_TRIM_AGE_MS = 1000, /* a free block keeps its pages this long */
};

typedef struct shmt__keeper {
  shmt__map map;
  int control_fd, arena_fd;   /* owned */
  shmt__ranges arena, blocks; /* free parts of the arena, free block records */
  int* files;                 /* per slab: descriptor of a FILE slab, or -1 */
  uint32_t n_files;
  uint32_t n_files_ahead; /* so many are added before the next look over them */
  uint64_t granted_bytes; /* in slabs */
  bool is_waiting;        /* the last look left something that will age */
} shmt__keeper;

typedef struct shmt__keeper_options {
  uint64_t session;
  uint64_t arena_bytes;                     /* at most; limits of this process may make it less */
  uint64_t limit_bytes, client_limit_bytes; /* of what slabs cover; 0: no bound */
  uint32_t flags, gid;                      /* as in the control file */
} shmt__keeper_options;

/* Make a new session's files. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__keeper_create(const shmt__keeper_options* options, shmt__keeper* out);
/* Go on with files that clients kept. Consumes the descriptors. Errors: SHMT_E_MANAGER. */
shmt_status shmt__keeper_adopt(uint64_t session, int control_fd, int arena_fd, shmt__keeper* out);

/* A client id that is free, RESERVED from now on by the process and locked on fd (shm/client.h).
 * Errors: SHMT_E_RUNTIME (all are taken). */
shmt_status shmt__keeper_reserve_client(shmt__keeper* k, int fd, int32_t pid, uint32_t* out_id);
/* The client is gone: its holds go, its slabs are orphans, its id is free. */
void shmt__keeper_erase_client(shmt__keeper* k, uint32_t id);

/* May a client get a slab of so many bytes? Errors: SHMT_E_NOMEM naming the bytes, and who has most.
 * (quota.c) */
shmt_status shmt__keeper_check_quota(shmt__keeper* k, uint32_t client, uint64_t nbytes);
/* Grant a slab to a client. Errors: SHMT_E_NOMEM naming the bytes. */
shmt_status shmt__keeper_grant(shmt__keeper* k, uint32_t client, uint64_t block_bytes,
                               uint32_t n_blocks, uint32_t* out_slab);
/* Take back a slab whose blocks are all free; false when one is not, or the client is not the
 * owner. */
bool shmt__keeper_take_back(shmt__keeper* k, uint32_t client, uint32_t slab);
/* Register a memory file with one storage, held by the client. Consumes fd, also on failure.
 * Errors: SHMT_E_VALUE (no sealed file of that size), SHMT_E_NOMEM. */
shmt_status shmt__keeper_add_file(shmt__keeper* k, uint32_t client, int fd, uint64_t nbytes,
                                  uint32_t* out_block, uint64_t* out_generation);
/* Put the descriptor of a known FILE block back after a restart. Consumes fd. */
void shmt__keeper_restore_file(shmt__keeper* k, uint32_t block, uint64_t generation, int fd);
/* The descriptor of a FILE block; borrowed, -1 when there is none of this generation. */
int shmt__keeper_file(shmt__keeper* k, uint32_t block, uint64_t generation);

/* The slab exists no more; its blocks are free and without pages. */
void shmt__keeper_retire(shmt__keeper* k, uint32_t slab);

/* Look over all blocks: give back what nobody keeps, take the pages of what has been free long
 * enough, retire orphans. Cheap when nothing changed. all: as if everything were old enough. */
void shmt__keeper_look(shmt__keeper* k, bool all);
/* One more memory file is coming: look over the others, once for as many as were left by the look
 * before. */
void shmt__keeper_expect_file(shmt__keeper* k);
/* Whether the session is a service, begun for unrelated processes: it has names, and may have a
 * supervisor. */
static inline bool shmt__keeper_is_service(const shmt__keeper* k) {
  return (k->map.fixed.flags & SHMT_SESSION_SERVICE) != 0;
}

/* Let go of a keeper's files and lists. */
void shmt__keeper_fini(shmt__keeper* k);
/* Leases outstanding in the whole session. */
uint64_t shmt__keeper_n_leases(const shmt__keeper* k);
/* End the leases whose block was last sent more than age_ms ago; returns how many. */
uint64_t shmt__keeper_drop_leases(shmt__keeper* k, uint32_t age_ms);

#endif
