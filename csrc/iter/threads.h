/* iter/threads.h -- the pool that kernels split their work over.
 *
 * One job at a time. The caller publishes it, takes pieces itself until none are left, closes the
 * job and waits only for helpers that are inside a piece; a helper that did not wake in time finds
 * the job closed. A call from inside a piece, or while another thread owns the pool, runs inline.
 *
 *   caller   publish -> take pieces ... -> close -> wait for `inside` to be 0
 *   helper   awake or asleep -> enter (only while open) -> take pieces -> leave
 *
 * Note [Waking]
 * A helper stays awake for a fraction of a millisecond after a job, so that the next one of a loop finds it; it goes to
 * sleep at once when somebody else wants its processor. Where helpers sleep, the caller does a piece first and wakes
 * them if the rest is worth it, or if such jobs follow each other. Who waits for a last piece longer than pieces take
 * sleeps, since the thread that has it lost its processor; and helpers leave the caller's processor to the caller.
 *
 * Note [Fork]
 * The child has no helpers and fresh locks; it starts its own at its first parallel call. Helpers
 * block all signals, so that handlers run on the program's threads.
 */
#ifndef SHMT_ITER_THREADS_H
#define SHMT_ITER_THREADS_H

#include "base/error.h"
#include "iter/iter.h"

enum { SHMT_MAX_THREADS = 256 };

/* Threads a parallel call may use, the caller's included; at least 1. */
int shmt__num_threads(void);
/* n is clamped to [1, SHMT_MAX_THREADS]; takes effect with the next parallel call. */
void shmt__set_num_threads(int n);
/* True while the calling thread runs a piece (nested calls run inline). */
bool shmt__in_parallel(void);
/* True while a helper waits for work without sleeping: it takes part at once, where one that sleeps is woken in
 * some 15 microseconds. */
bool shmt__workers_awake(void);

#endif
