/* shm/block.h -- the steps on a block's record: hold, lease, reclaim. See the Notes in
 * shm/control_file.h. */
#ifndef SHMT_SHM_BLOCK_H
#define SHMT_SHM_BLOCK_H

#include "shm/control_file.h"

/* Begin to hold a block of this generation; false, and nothing changed, when it is gone. */
bool shmt__block_hold(const shmt__map* m, uint32_t block, unsigned client, uint64_t generation);
/* Stop holding. */
void shmt__block_unhold(const shmt__map* m, uint32_t block, unsigned client);
bool shmt__block_is_held_by(const shmt__map* m, uint32_t block, unsigned client);
/* Does nothing else keep it, neither another hold nor a lease? */
bool shmt__block_is_last_held_by(const shmt__map* m, uint32_t block, unsigned client);
/* The bits of 64 clients, from 64 * word on. */
uint64_t shmt__block_holds(const shmt__map* m, uint32_t block, unsigned word);

/* The steps of a lease on the block's record; the rest is in shm/lease.h. The caller of the first
 * holds the block. */
void shmt__block_add_lease(shmt__block* b, uint64_t generation, uint32_t now_ms);
void shmt__block_drop_lease(shmt__block* b);
/* One more lease without a record. The caller holds the block. */
void shmt__block_add_plain_lease(shmt__block* b, uint64_t generation);
/* One fewer: false when there was none. */
bool shmt__block_end_plain_lease(shmt__block* b);
/* None any more; returns how many there were. */
uint32_t shmt__block_end_plain_leases(shmt__block* b);
/* Take one for a message in a ring, or end it. The caller holds one of the ring's locks, and when
 * taking, the block. */
void shmt__block_add_ring_lease(shmt__block* b, uint64_t generation);
void shmt__block_end_ring_lease(shmt__block* b);
/* Leases outstanding, of all kinds. */
unsigned shmt__block_n_leases(const shmt__block* b);
/* No leases any more but those of rings. */
void shmt__block_clear_leases(shmt__block* b);

/* Does a hold or a lease keep the block? A hint unless the block is marked RECLAIM. */
bool shmt__block_is_kept(const shmt__map* m, uint32_t block);
/* Turn a USED block that nothing keeps into a FREE one; false when something does. */
bool shmt__block_reclaim(const shmt__map* m, uint32_t block, unsigned marker);
/* Take off the mark that `marker` may have left when it died. */
void shmt__block_unmark(shmt__block* b, unsigned marker);

/* The owner's way from FREE or COLD to USED, with its hold; false: not free (any more). */
bool shmt__block_take(const shmt__map* m, uint32_t block, unsigned client, uint64_t nbytes,
                      uint64_t* out_generation);
/* The same from FREE of this generation only: the block may have become another's. */
bool shmt__block_reuse(const shmt__map* m, uint32_t block, unsigned client, uint64_t nbytes,
                            uint64_t generation);
/* The manager's way from FREE or COLD through TRIM to COLD (trimmed) or FREE. */
bool shmt__block_begin_trim(shmt__block* b);
void shmt__block_end_trim(shmt__block* b, bool trimmed);
/* The same when some of the pages may be gone and others not: FREE, without any for who takes it. */
void shmt__block_fail_trim(shmt__block* b);

#endif
