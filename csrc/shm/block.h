/* shm/block.h -- the atomic steps on a block's record: hold, lease, reclaim. See the Notes in shm/control_file.h. */
#ifndef SHMT_SHM_BLOCK_H
#define SHMT_SHM_BLOCK_H

#include "shm/control_file.h"

/* Have the cache lines of a block on their way, that of its head and that of its near holds: both will be written. */
static inline void shmt__block_prefetch(const shmt__map* m, uint32_t block) {
  __builtin_prefetch(&m->blocks[block].head, 1);
  __builtin_prefetch(&m->blocks[block].holds, 1);
}

/* Begin to hold a block of this generation. False: the block is gone, and nothing has changed. */
bool shmt__block_hold(const shmt__map* m, uint32_t block, unsigned client, uint64_t generation);
/* Stop holding. */
void shmt__block_unhold(const shmt__map* m, uint32_t block, unsigned client);
bool shmt__block_is_held_by(const shmt__map* m, uint32_t block, unsigned client);
/* Is this client's hold the only thing that keeps the block: no other hold, and no lease? */
bool shmt__block_is_last_held_by(const shmt__map* m, uint32_t block, unsigned client);
/* Forget all holds of a block that is in nobody's use. The holds of all numbers in use must have pages. */
void shmt__block_clear_holds(const shmt__map* m, uint32_t block);
/* The bits of 64 clients, from 64 * word on. */
uint64_t shmt__block_holds(const shmt__map* m, uint32_t block, unsigned word);

/* Count a lease in the block's record, or count it down; shm/lease.h does the rest. To add one, the caller must hold
 * the block. */
void shmt__block_add_lease(shmt__block* b, uint64_t generation, uint32_t now_ms);
void shmt__block_drop_lease(shmt__block* b);
/* Add a lease that has no record of its own. The caller holds the block. */
void shmt__block_add_plain_lease(shmt__block* b, uint64_t generation);
/* End such a lease. False: there was none. */
bool shmt__block_end_plain_lease(shmt__block* b);
/* End all of them. Returns how many there were. */
uint32_t shmt__block_end_plain_leases(shmt__block* b);
/* Add a lease for a message in a ring, or end it. The caller has one of the ring's locks; to add one, it also holds the
 * block. */
void shmt__block_add_ring_lease(shmt__block* b, uint64_t generation);
void shmt__block_end_ring_lease(shmt__block* b);
/* How many leases of all kinds does the block have? */
unsigned shmt__block_n_leases(const shmt__block* b);
/* Forget all leases except those of rings. */
void shmt__block_clear_leases(shmt__block* b);

/* Does a hold or a lease keep the block? The answer is only a hint unless the block is marked RECLAIM. */
bool shmt__block_is_kept(const shmt__map* m, uint32_t block);
/* Free a USED block that no hold and no lease keeps. False: something keeps it. */
bool shmt__block_reclaim(const shmt__map* m, uint32_t block, unsigned marker);
/* Take off the mark that `marker` may have left when it died. */
void shmt__block_unmark(shmt__block* b, unsigned marker);

/* The owner allocates a FREE or COLD block: it becomes USED and held. False: it is not free. */
bool shmt__block_take(const shmt__map* m, uint32_t block, unsigned client, uint64_t nbytes,
                      uint64_t* out_generation);
/* The same, only if the block is FREE and of this generation: another process may have got it meanwhile. */
bool shmt__block_reuse(const shmt__map* m, uint32_t block, unsigned client, uint64_t nbytes,
                            uint64_t generation);
/* The manager returns the pages of a block: FREE or COLD becomes TRIM, then COLD (trimmed) or FREE. */
bool shmt__block_begin_trim(shmt__block* b);
void shmt__block_end_trim(shmt__block* b, bool trimmed);
/* The same when some pages may be gone and others not: the block is FREE, and its next owner assumes no pages. */
void shmt__block_fail_trim(shmt__block* b);

#endif
