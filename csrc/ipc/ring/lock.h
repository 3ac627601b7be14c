/* ipc/ring/lock.h -- locks and events in a ring: words of memory shared by processes that may be
 * killed.
 *
 * Note [Lock words]
 *   bit 31   somebody sleeps for it
 *   14..30   serial, differs from one taking to the next
 *    0..13   owner: a client's number, MANAGER, or DEAD; the whole word 0 is free
 *
 * Note [Event words]
 *   bit 0    somebody sleeps
 *   bit 1    perhaps more than one does
 *    2..31   grows with each event that somebody slept for
 * A waiter sets the bits and then sleeps on the word it made, so it does not miss an event that came
 * between. Without a sleeper an event costs one load. A wake-up that goes to a process which is
 * killed before it acts is lost; therefore nobody sleeps longer than SHMT_RING_SLICE_MS without
 * looking.
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

/* Take a lock that is free; sets *was_dead when its last owner died with it. Returns the word to
 * unlock with, or 0. */
uint32_t shmt__ring_try_lock(atomic_uint_least32_t* lock, unsigned owner, bool* was_dead);
/* Sleep until it may be free, at most until the deadline or for a slice. */
shmt__os_wait shmt__ring_lock_sleep(atomic_uint_least32_t* lock, uint64_t deadline_ns);
/* As try, but the lock stays marked as one that others sleep for: for those who slept. */
uint32_t shmt__ring_try_lock_contended(atomic_uint_least32_t* lock, unsigned owner, bool* was_dead);
/* Unlock with the word that taking gave. When the manager gave the lock away meanwhile (it took us
 * for dead) nothing happens. */
void shmt__ring_unlock(atomic_uint_least32_t* lock, uint32_t word);
/* The word that the lock is taken with at the moment, whoever sleeps for it; 0: free. */
uint32_t shmt__ring_lock_word(const atomic_uint_least32_t* lock);
/* The owner is dead: let others have the lock. */
void shmt__ring_lock_mark_owner_dead(atomic_uint_least32_t* lock, unsigned owner);

/* Announce a sleeper; the word to sleep on. The condition is to be looked at after this. */
uint32_t shmt__ring_event_arm(atomic_uint_least32_t* event);
/* Wake one sleeper, or all. The change of the condition comes before. */
void shmt__ring_event_signal(atomic_uint_least32_t* event, bool all);

#endif
