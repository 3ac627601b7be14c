/* shm/block.h -- the steps on a block's record: hold, lease, reclaim. See the Notes in
 * shm/layout.h. */
#ifndef SHMT_SHM_BLOCK_H
#define SHMT_SHM_BLOCK_H

#include "shm/layout.h"

/* Begin to hold a block of this generation; false, and nothing changed, when it is gone. */
bool shmt__block_hold(shmt__block* b, unsigned client, uint64_t generation);
/* Stop holding. */
void shmt__block_unhold(shmt__block* b, unsigned client);
bool shmt__block_is_held_by(const shmt__block* b, unsigned client);
/* Does nothing else keep it, neither another hold nor a lease? */
bool shmt__block_is_last_held_by(const shmt__block* b, unsigned client);

/* Take a lease on a block that the caller holds; returns the lease's number. */
unsigned shmt__block_lease(shmt__block* b, uint64_t generation);
/* Take one without a number: SHMT_PLAIN_LEASE. */
void shmt__block_plain_lease(shmt__block* b, uint64_t generation);
/* Use a lease up, once: false when it was not outstanding. */
bool shmt__block_end_lease(shmt__block* b, unsigned lease);
/* Take one for a message in a ring, or end it. The caller holds one of the ring's locks, and when
 * taking, the block. */
void shmt__block_ring_lease(shmt__block* b, uint64_t generation);
void shmt__block_end_ring_lease(shmt__block* b);
/* Leases outstanding, of all kinds. */
unsigned shmt__block_n_leases(const shmt__block* b);
/* Drop all leases but those of rings. */
void shmt__block_clear_leases(shmt__block* b);

/* Does a hold or a lease keep the block? A hint unless the block is marked RECLAIM. */
bool shmt__block_is_kept(const shmt__block* b, unsigned clients_end);
/* Turn a USED block that nothing keeps into a FREE one; false when something does. */
bool shmt__block_reclaim(shmt__block* b, unsigned marker, unsigned clients_end);
/* Take off the mark that `marker` may have left when it died. */
void shmt__block_unmark(shmt__block* b, unsigned marker);

/* The owner's way from FREE or COLD to USED, with its hold; false: not free (any more). */
bool shmt__block_take(shmt__block* b, unsigned client, uint64_t nbytes, uint64_t* out_generation);
/* The manager's way from FREE or COLD through TRIM to COLD (trimmed) or FREE. */
bool shmt__block_begin_trim(shmt__block* b);
void shmt__block_end_trim(shmt__block* b, bool trimmed);
/* The same when some of the pages may be gone and others not: FREE, without any for who takes it. */
void shmt__block_fail_trim(shmt__block* b);

#endif
