/* shm/arena_manager.h -- the manager's side of the shared memory: slabs, dead clients, idle pages.
 *
 * One keeper per session, in the manager.
 *
 * Note [Private tables]
 * Every member can write anywhere in the control file. So the manager decides by tables of its own: which
 * slabs there are, where and whose, and which clients. What lies in the control file is the copy that
 * members read, and that a manager which takes over after a kill begins with, once, after it has
 * looked whether it makes sense (adopt.c). The keeper writes its copy anew where it differs
 * (repair.c). Only holds, leases and states of blocks are the members' own; they are looked at where
 * they lie, and nothing that is read there is ever an index or an address.
 */
#ifndef SHMT_SHM_ARENA_MANAGER_H
#define SHMT_SHM_ARENA_MANAGER_H

#include "shm/control_file.h"
#include "shm/ranges.h"

enum {
  SHMT_TRIM_AGE_MS = 1000, /* a free block keeps its pages this long */
};

typedef struct shmt__arena_manager_slab {
  shmt__slab_view view; /* state NONE: there is none */
  int file;             /* descriptor of a FILE slab, or -1 */
} shmt__arena_manager_slab;

typedef struct shmt__arena_manager_client {
  uint32_t state; /* shmt__client_state */
  int32_t pid;
  uint64_t start, pid_namespace; /* as in shmt__client_entry */
} shmt__arena_manager_client;

typedef struct shmt__arena_manager {
  shmt__map map;
  int control_fd, arena_fd;   /* owned */
  shmt__ranges arena, blocks; /* free parts of the arena, free block records */
  shmt__arena_manager_slab* slabs;   /* Note [Private tables]; room for slabs_room */
  uint32_t slabs_end, slabs_room, blocks_end;
  uint32_t* slab_of; /* by block: index of its slab plus 1, 0: none */
  shmt__arena_manager_client clients[SHMT_MAX_CLIENTS];
  uint32_t clients_end;   /* highest number that was in use, plus 1 */
  uint32_t files_until_sweep; /* so many are added before the next look over them */
  uint64_t granted_bytes; /* in slabs */
  bool must_sweep_again;        /* the last look left something that will age */
} shmt__arena_manager;

typedef struct shmt__arena_manager_options {
  uint64_t session;
  uint64_t arena_bytes;                     /* at most; limits of this process may make it less */
  uint64_t limit_bytes, client_limit_bytes; /* of what slabs cover; 0: no bound */
  uint32_t flags, gid;                      /* as in the control file */
  const char* name;                         /* of a service; NULL: none */
} shmt__arena_manager_options;

/* Make a new session's files. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__arena_manager_create(const shmt__arena_manager_options* options, shmt__arena_manager* out);
/* Go on with files that clients kept. Consumes the descriptors. Errors: SHMT_E_MANAGER when they make no
 * sense; they are marked as ended then, so that nobody tries again. SHMT_E_NOMEM. (adopt.c) */
shmt_status shmt__arena_manager_adopt(uint64_t session, int control_fd, int arena_fd, shmt__arena_manager* out);

/* A client id that is free, RESERVED from now on by the process and locked on fd (shm/client.h).
 * Errors: SHMT_E_RUNTIME (all are taken). */
shmt_status shmt__arena_manager_reserve_client(shmt__arena_manager* k, int fd, int32_t pid, uint32_t* out_id);
/* The process behind a number has come. */
void shmt__arena_manager_mark_client_alive(shmt__arena_manager* k, uint32_t id, int32_t pid);
/* A number that is taken in the control file, by Note [Claims]: know it too. False: it is not. */
bool shmt__arena_manager_adopt_client(shmt__arena_manager* k, uint32_t id);
/* Numbers up to here may be taken, by claims too. */
uint32_t shmt__arena_manager_clients_end(const shmt__arena_manager* k);
/* The client is gone: its holds go, its slabs are orphans, its id is free. */
void shmt__arena_manager_client_died(shmt__arena_manager* k, uint32_t id);

/* May a client get a slab of so many bytes? Errors: SHMT_E_NOMEM naming the bytes, and who has most.
 * (quota.c) */
shmt_status shmt__arena_manager_check_quota(shmt__arena_manager* k, uint32_t client, uint64_t nbytes);
/* Grant a slab to a client. Errors: SHMT_E_NOMEM naming the bytes. */
shmt_status shmt__arena_manager_grant(shmt__arena_manager* k, uint32_t client, uint64_t block_bytes,
                               uint32_t n_blocks, uint32_t* out_slab);
/* Take back a slab whose blocks are all free; false when one is not, or the client is not the
 * owner. */
bool shmt__arena_manager_return_slab(shmt__arena_manager* k, uint32_t client, uint32_t slab);
/* Register a memory file with one storage, held by the client. Consumes fd, also on failure.
 * Errors: SHMT_E_VALUE (no sealed file of that size), SHMT_E_NOMEM. */
shmt_status shmt__arena_manager_add_file(shmt__arena_manager* k, uint32_t client, int fd, uint64_t nbytes,
                                  uint32_t* out_block, uint64_t* out_generation);
/* Put the descriptor of a known FILE block back after a restart. Consumes fd. */
void shmt__arena_manager_restore_file(shmt__arena_manager* k, uint32_t block, uint64_t generation, int fd);
/* The descriptor of a FILE block; borrowed, -1 when there is none of this generation. *out_nbytes: of
 * the file. */
int shmt__arena_manager_file(shmt__arena_manager* k, uint32_t block, uint64_t generation, uint64_t* out_nbytes);

/* The slab of this index, NULL: there is none. Borrowed, until the next slab is made. */
static inline const shmt__slab_view* shmt__arena_manager_slab_at(const shmt__arena_manager* k, uint32_t slab) {
  if (slab >= k->slabs_end || k->slabs[slab].view.state == SHMT_SLAB_NONE) return NULL;
  return &k->slabs[slab].view;
}
/* The slab of a block, NULL: it has none. */
static inline const shmt__slab_view* shmt__arena_manager_slab_of(const shmt__arena_manager* k, uint32_t block) {
  if (block >= k->blocks_end || k->slab_of[block] == 0) return NULL;
  return shmt__arena_manager_slab_at(k, k->slab_of[block] - 1);
}
/* Where a block of the slab begins in the arena. */
static inline uint64_t shmt__slab_offset_of(const shmt__slab_view* s, uint32_t block) {
  return s->offset + s->block_bytes * (block - s->first_block);
}
/* Make room for a slab of this index. False: no memory. */
bool shmt__arena_manager_reserve_slab(shmt__arena_manager* k, uint32_t slab);
/* Enter a slab into the private table, and into the copy for members. */
void shmt__arena_manager_enter_slab(shmt__arena_manager* k, uint32_t slab, const shmt__slab_view* view);
/* Nobody owns the slab any more. */
void shmt__arena_manager_orphan_slab(shmt__arena_manager* k, uint32_t slab);
/* Write the copy for members anew where it is not as the private tables are. (repair.c) */
void shmt__arena_manager_repair(shmt__arena_manager* k);
/* The same for one block's place. */
void shmt__arena_manager_repair_block(const shmt__arena_manager* k, const shmt__slab_view* s, uint32_t block);
/* Lists and tables of a keeper whose files are mapped. Errors: SHMT_E_NOMEM. */
shmt_status shmt__arena_manager_init_tables(shmt__arena_manager* k);

/* The slab exists no more; its blocks are free and without pages. */
void shmt__arena_manager_retire(shmt__arena_manager* k, uint32_t slab);

/* Look over all blocks: give back what nobody keeps, take the pages of what has been free long
 * enough, retire orphans. Cheap when nothing changed. all: as if everything were old enough. */
void shmt__arena_manager_sweep(shmt__arena_manager* k, bool all);
/* One more memory file is coming: look over the others, once for as many as were left by the look
 * before. */
void shmt__arena_manager_sweep_files(shmt__arena_manager* k);
/* Whether the session is a service, begun for unrelated processes: it has names, and may have a
 * supervisor. */
static inline bool shmt__arena_manager_is_service(const shmt__arena_manager* k) {
  return (k->map.fixed.flags & SHMT_SESSION_SERVICE) != 0;
}

/* Let go of a keeper's files and lists. */
void shmt__arena_manager_fini(shmt__arena_manager* k);
/* Leases outstanding in the whole session. */
uint64_t shmt__arena_manager_n_leases(const shmt__arena_manager* k);
/* End the leases whose block was last sent more than age_ms ago; returns how many. */
uint64_t shmt__arena_manager_drop_leases(shmt__arena_manager* k, uint32_t age_ms);

#endif
