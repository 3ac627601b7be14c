/* ipc/ring/lock.h -- locks and events in a ring: words of memory that are shared by processes which may be killed.
 *
 * Note [Lock words]
 *   bit 31   a process sleeps until the lock is free
 *   14..30   serial number, different each time the lock is taken
 *    0..13   owner: a client's number, MANAGER, or DEAD; the whole word 0 is free
 *
 * Note [Event words]
 *   bit 0    a process sleeps
 *   bit 1    perhaps more than one does
 *    2..31   grows with each event for which a process slept
 * A waiter sets the bits and then sleeps on the word that it made, so it does not miss an event in between. Without a
 * sleeper an event costs one load. When a woken process is killed before it acts, the wake-up is lost. So nobody sleeps
 * longer than SHMT_RING_SLICE_MS without checking the condition.
 */
#ifndef SHMT_IPC_RING_LOCK_H
#define SHMT_IPC_RING_LOCK_H

#include "os/futex.h"

enum {
  SHMT_RING_SLICE_MS = 250, /* longest sleep for an event */
  SHMT_RING_LOCK_SLICE_MS = 50,
  SHMT_RING_OWNER_MASK = 0x3fff,
  SHMT_RING_OWNER_DEAD = 0x3ffe,
};

/* Take the lock if it is free. Sets *was_dead when its last owner died with it. Returns the word to unlock with, or
 * 0. */
uint32_t shmt__ring_try_lock(atomic_uint_least32_t* lock, unsigned owner, bool* was_dead);
/* Sleep until it may be free, at most until the deadline or for a slice. */
shmt__os_wait shmt__ring_lock_sleep(atomic_uint_least32_t* lock, uint64_t deadline_ns);
/* The same for a process that has slept for the lock: the lock stays marked, as others may sleep for it too. */
uint32_t shmt__ring_try_lock_contended(atomic_uint_least32_t* lock, unsigned owner, bool* was_dead);
/* Unlock with the word that taking it gave. Does nothing when the manager has released the lock meanwhile, because it
 * regarded us as dead. */
void shmt__ring_unlock(atomic_uint_least32_t* lock, uint32_t word);
/* The word that the lock is taken with at the moment, without the sleepers' bit; 0: it is free. */
uint32_t shmt__ring_lock_word(const atomic_uint_least32_t* lock);
/* The owner is dead: mark the lock, so that others may take it. */
void shmt__ring_lock_mark_owner_dead(atomic_uint_least32_t* lock, unsigned owner);

/* Announce that this process will sleep. Returns the word to sleep on. Check the condition after this. */
uint32_t shmt__ring_event_arm(atomic_uint_least32_t* event);
/* Wake one sleeper, or all. Change the condition before this. */
void shmt__ring_event_signal(atomic_uint_least32_t* event, bool all);

#endif
