/* ipc/ring/wait.h -- locking, counting and waiting, as the files of ipc/ring/ and ipc/topic/ share it.
 *
 * Note [Rounds of a wait]
 * Who waits looks, sleeps and looks again. Others may wake it in vain, or take away what it has just seen, as often and
 * for as long as they like. So it reads the clock after each round in vain (shmt__ring_round). It ends at its deadline,
 * and once a slice it returns all the same, so that its caller runs the handlers of signals and notices what else there
 * is to notice.
 */
#ifndef SHMT_IPC_RING_WAIT_H
#define SHMT_IPC_RING_WAIT_H

#include "ipc/ring/ring.h"

/* Take one of the ring's locks: SHMT_RING_DONE, SHMT_RING_BUSY, SHMT_RING_INTERRUPTED, SHMT_RING_FAILED. *out_word is
 * the word to unlock it with. Who may not wait for a message or for room still waits for a moment here: whoever has
 * the lock may just have lost the processor. */
shmt__ring_result shmt__ring_lock(shmt__ring* r, atomic_uint_least32_t* lock, uint64_t deadline_ns,
                                  uint32_t* out_word);
/* Is no process at the other end, now or later? end: SHMT_RING_NO_PUT (nobody puts) or SHMT_RING_NO_GET (nobody
 * gets). */
bool shmt__ring_is_alone(shmt__ring* r, unsigned end);
/* The deadline, or a slice from now when that is earlier. */
uint64_t shmt__ring_slice(uint64_t deadline_ns);
/* A round was in vain: Note [Rounds of a wait]. *begun_ns is 0 before the first one. Returns SHMT_RING_DONE: begin
 * another round; SHMT_RING_EMPTY: the deadline has passed; SHMT_RING_INTERRUPTED: return that. Who does not wait
 * (deadline_ns 0) has some rounds all the same: what it has seen is there, but others are faster. */
shmt__ring_result shmt__ring_round(uint64_t* begun_ns, uint64_t deadline_ns);
/* The same after a sleep, whose result is w. Looks after the manager before it returns SHMT_RING_INTERRUPTED. */
shmt__ring_result shmt__ring_woken(shmt__ring* r, shmt__os_wait w, uint64_t* begun_ns, uint64_t deadline_ns);
/* Spin until the tail moves, if that may pay. True: it has moved. */
bool shmt__ring_spin(shmt__ring* r);
/* Messages that wait in some process for room. */
uint32_t shmt__ring_n_pending(const shmt__ring* r);
/* Does this process have two processors? */
bool shmt__ring_may_spin(void);
/* Our client number in the ring's session. Joins the session if a fork left us without a number. 0: not possible, the
 * error record says why. */
unsigned shmt__ring_client(shmt__ring* r);
/* A lock stays taken. If the manager, which would see that the owner is dead, was killed, start another. */
void shmt__ring_restart_manager(shmt__ring* r);
/* While waiting: start another manager if it was killed. Only a manager sees that the processes at the other end are
 * dead, and when it was killed as well, only a waiting process can start another. */
void shmt__ring_check_manager(shmt__ring* r);

#endif
