/* shm/arena.h -- the owner's side of the arena: which of its blocks to use next.
 *
 * A client allocates only from slabs it owns, so no lock is shared between processes. Blocks come
 * back warm: one that this process let go while others still held it waits in a deferred list, and is
 * looked at when memory is wanted. All functions are called with the session's lock held.
 *
 * Size classes: four to a doubling from 64 bytes to 1 MiB, many blocks to a slab; above, a slab of
 * one block each, in steps of an eighth.
 */
#ifndef SHMT_SHM_ARENA_H
#define SHMT_SHM_ARENA_H

#include "os/placement.h"
#include "shm/control_file.h"

enum {
  SHMT_ARENA_CLASSES = 52,               /* 64 ... 1 MiB */
  SHMT_ARENA_LARGE = SHMT_ARENA_CLASSES, /* index of the lists of large blocks */
  SHMT_ARENA_PLACEMENTS = 8,             /* of a process, with the default one */
};

typedef struct shmt__block_list {
  uint32_t* at;
  uint32_t len, cap;
} shmt__block_list;

/* A slab as the manager says that it granted it. */
typedef struct shmt__granted {
  uint32_t slab, first_block;
  uint64_t offset;
} shmt__granted;

/* How an arena gets and gives back slabs; ipc/ asks the manager. */
typedef struct shmt__slab_source {
  shmt_status (*grant)(void* arg, uint64_t block_bytes, uint32_t n_blocks, shmt__granted* out);
  bool (*give_back)(void* arg, uint32_t slab); /* false: keep it for now */
  void* arg;
} shmt__slab_source;

/* A slab of ours. What the control file says of it any member can write over; this not. */
typedef struct shmt__own_slab {
  uint32_t slab;
  uint32_t first_block, n_blocks; /* 0: given back, the place is free */
  uint64_t offset, block_bytes;
} shmt__own_slab;

/* Slabs of different placements are kept apart. */
typedef struct shmt__arena_lists {
  shmt__block_list free[SHMT_ARENA_CLASSES + 1];
  shmt__block_list deferred[SHMT_ARENA_CLASSES + 1];
  uint32_t deferred_cursor;
  uint32_t spare[SHMT_ARENA_CLASSES + 1]; /* blocks that slabs may bring before deferred is swept */
} shmt__arena_lists;

typedef struct shmt__arena {
  const shmt__map* map; /* borrowed */
  int fd;               /* borrowed */
  char* base;           /* of the arena's map, borrowed */
  unsigned client;
  shmt__slab_source source;
  shmt__arena_lists lists[SHMT_ARENA_PLACEMENTS]; /* by placement */
  shmt__arena_lists* now;                         /* those of the call under way */
  uint8_t* placed;                                /* placement of each slab; NULL: all 0 */
  shmt__own_slab* own;                            /* our slabs */
  uint32_t n_own, own_capacity;
  uint32_t* own_of; /* by block: index in `own` plus 1, 0: not of ours; NULL until there is one */
} shmt__arena;

/* Begin without a client, a descriptor and a map. */
void shmt__arena_init(shmt__arena* a, const shmt__map* map, shmt__slab_source source);

/* The placement of what this thread allocates: 0, or a number of shmt__placement_open. */
extern _Thread_local unsigned shmt__tls_placement __attribute__((tls_model("initial-exec")));
/* The number of a placement; the same for equal ones. Errors: SHMT_E_RUNTIME (too many). */
shmt_status shmt__placement_open(shmt__placement what, unsigned* out);
/* Why the kernel refused it when it was last applied to a slab; 0: it did not. */
void shmt__placement_refused(unsigned placement, int* out_huge_errno, int* out_numa_errno);

/* A block for nbytes > 0, held by the client, with pages; is_filled_next: perhaps without, until
 * shmt__arena_fill. Errors: SHMT_E_NOMEM naming the bytes, and what the source says. */
shmt_status shmt__arena_alloc(shmt__arena* a, uint64_t nbytes, bool is_filled_next,
                              uint32_t* out_block, uint64_t* out_generation);
/* Give a block that was allocated so its bytes, and pages where it has none; offset: its place. Needs no
 * lock. Errors: SHMT_E_NOMEM naming the bytes, SHMT_E_OS. */
shmt_status shmt__arena_fill(const shmt__arena* a, uint32_t block, uint64_t offset,
                             const void* bytes, uint64_t nbytes);
/* Where a block of ours begins in the arena. */
uint64_t shmt__arena_offset(const shmt__arena* a, uint32_t block);
/* The owner stops using a block of its own. */
void shmt__arena_free(shmt__arena* a, uint32_t block);
/* With SHMTENSOR_DEBUG: fill the bytes of a block that the client is about to let go last. */
void shmt__arena_poison(const shmt__map* map, char* base, uint32_t block, unsigned client);
/* Forget all lists and slabs; these stay whose they are. */
void shmt__arena_reset(shmt__arena* a);
/* The same, and let go of the memory that stays otherwise. */
void shmt__arena_fini(shmt__arena* a);
/* Give every slab back that holds one free large block. */
void shmt__arena_give_back_large(shmt__arena* a);

/* Bytes of the blocks that serve nbytes, and how many of them a slab has. */
uint64_t shmt__arena_block_bytes(uint64_t nbytes, uint32_t* out_n_blocks);

#endif
