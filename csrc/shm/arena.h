/* shm/arena.h -- the allocator of shared memory: a client's side of the arena.
 *
 * A client allocates only from slabs that it owns, so processes share no lock. A free block keeps its pages and is
 * reused by size class. When this process frees a block that others still hold, the block waits in a deferred list,
 * which is searched when memory is wanted. All functions are called with the sessions' lock held.
 *
 * Size classes: up to 1 MiB there are four classes for each power of two, from 64 bytes on, and many blocks to a slab.
 * Above, a slab has one block, and sizes go in steps of an eighth.
 */
#ifndef SHMT_SHM_ARENA_H
#define SHMT_SHM_ARENA_H

#include "os/descriptor.h"
#include "os/placement.h"
#include "shm/control_file.h"

enum {
  SHMT_ARENA_CLASSES = 52,               /* 64 ... 1 MiB */
  SHMT_ARENA_LARGE = SHMT_ARENA_CLASSES, /* index of the lists of large blocks */
  SHMT_ARENA_PLACEMENTS = 8,             /* of a process, including the default placement */
};

typedef struct shmt__block_list {
  uint32_t* at;
  uint32_t len, cap;
} shmt__block_list;

/* A slab that the manager granted. */
typedef struct shmt__granted {
  uint32_t slab, first_block;
  uint64_t offset;
} shmt__granted;

/* How an arena gets and returns slabs. In ipc/ these are requests to the manager. */
typedef struct shmt__slab_source {
  shmt_status (*grant)(void* arg, uint64_t block_bytes, uint32_t n_blocks, shmt__granted* out);
  bool (*give_back)(void* arg, uint32_t slab); /* false: not possible now, keep the slab */
  void* arg;
} shmt__slab_source;

/* A slab that this process owns. This is private memory, which other members cannot change. */
typedef struct shmt__own_slab {
  uint32_t slab;
  uint32_t first_block, n_blocks; /* n_blocks 0: the slab was returned, this entry is unused */
  uint64_t offset, block_bytes;
} shmt__own_slab;

/* The free blocks of the slabs of one placement. */
typedef struct shmt__arena_lists {
  shmt__block_list free[SHMT_ARENA_CLASSES + 1];
  shmt__block_list deferred[SHMT_ARENA_CLASSES + 1];
  uint32_t deferred_cursor;
  uint32_t spare[SHMT_ARENA_CLASSES + 1]; /* so many blocks may be added before the whole deferred list is searched */
} shmt__arena_lists;

typedef struct shmt__arena {
  const shmt__map* map; /* borrowed */
  const shmt__descriptor* file; /* borrowed; the program may have closed it */
  char* base;           /* of the arena's map, borrowed */
  unsigned client;
  shmt__slab_source source;
  shmt__arena_lists lists[SHMT_ARENA_PLACEMENTS]; /* by placement */
  shmt__arena_lists* now;                         /* the lists of the call in progress */
  uint8_t* placed;                                /* placement of each slab; NULL: all have placement 0 */
  shmt__own_slab* own;                            /* our slabs */
  uint32_t n_own, own_capacity;
  uint32_t n_unused_own, unused_own; /* entries of `own` that are unused; none of them lies before the second */
  uint32_t* own_of; /* by block: index in `own` plus 1; 0: not in a slab of ours. NULL until there is one */
} shmt__arena;

/* Start empty. The caller sets client, file and base afterwards. */
void shmt__arena_init(shmt__arena* a, const shmt__map* map, shmt__slab_source source);

/* The placement of what this thread allocates: 0, or a number from shmt__placement_open. */
extern _Thread_local unsigned shmt__tls_placement __attribute__((tls_model("initial-exec")));
/* The number of a placement; equal placements have the same number. Errors: SHMT_E_RUNTIME (too many). */
shmt_status shmt__placement_open(shmt__placement what, unsigned* out);
/* The errno with which the kernel last refused the placement for a slab; 0: it did not refuse. */
void shmt__placement_refused(unsigned placement, int* out_huge_errno, int* out_numa_errno);

/* Allocate a block for nbytes > 0. The client holds it, and its first n_paged bytes have pages; those behind them may
 * be missing until shmt__arena_fill or shmt__arena_extend. Errors: SHMT_E_NOMEM, and what the slab source says. */
shmt_status shmt__arena_alloc(shmt__arena* a, uint64_t nbytes, uint64_t n_paged, uint32_t* out_block,
                              uint64_t* out_generation);
/* Have the first bytes of a block pages already? As the block says, which any member could have written. */
bool shmt__arena_has_pages(const shmt__arena* a, uint32_t block, uint64_t nbytes);
/* Write the first bytes of a block, and give it the pages that are missing there. offset: where the block begins. Needs
 * no lock. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__arena_fill(const shmt__arena* a, uint32_t block, uint64_t offset,
                             const void* bytes, uint64_t nbytes);
/* See that the first nbytes of a block have pages; if they have not, as many more get some as `ahead` says. The client
 * holds the block, whoever made it, and the callers for one block take turns. offset: where it begins.
 * *out_n_paged: how many bytes have pages. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__arena_extend(const shmt__arena* a, uint32_t block, uint64_t offset, uint64_t nbytes, uint64_t ahead,
                               uint64_t* out_n_paged);
/* Where a block of our own slabs begins in the arena. */
uint64_t shmt__arena_offset(const shmt__arena* a, uint32_t block);
/* Free a block of our own slabs: stop holding it, and reuse it as soon as nobody else holds it. */
void shmt__arena_free(shmt__arena* a, uint32_t block);
/* With SHMTENSOR_DEBUG: overwrite the bytes of a block whose last holder, the client, is about to stop holding it. */
void shmt__arena_poison(const shmt__map* map, char* base, uint32_t block, unsigned client);
/* Forget all lists and slabs. The slabs still exist, but this process allocates from them no more. */
void shmt__arena_reset(shmt__arena* a);
/* The same, and free the tables. */
void shmt__arena_fini(shmt__arena* a);
/* Return every slab that consists of one free large block. */
void shmt__arena_give_back_large(shmt__arena* a);

/* The block size that serves nbytes, and how many such blocks a slab has. */
uint64_t shmt__arena_block_bytes(uint64_t nbytes, uint32_t* out_n_blocks);

#endif
