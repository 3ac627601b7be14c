/* iter/threads.h -- the thread pool that kernels share their work over.
 *
 * There is one job at a time. The caller publishes it, takes pieces itself until none are left, closes the job, and
 * waits only for helpers (worker threads) that are inside a piece. A helper that did not wake in time finds the job
 * closed. A call from inside a piece, or while another thread owns the pool, runs inline.
 *
 *   caller   publish -> take pieces ... -> close -> wait for `inside` to be 0
 *   helper   awake or asleep -> enter (only while open) -> take pieces -> leave
 *
 * Note [Waking]
 * A helper stays awake for a fraction of a millisecond after a job, so that the next job of a loop finds it. It sleeps
 * at once when another thread wants its processor. When helpers sleep, the caller does a piece first. It wakes them if
 * the rest is worth it, or if such jobs follow each other. A caller that waits for the last piece longer than a piece
 * takes goes to sleep, since the thread that has the piece has lost its processor. Helpers never stay on the caller's
 * processor.
 *
 * Note [Fork]
 * The child has no helpers and fresh conditions; it starts its own at its first parallel call. Helpers
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
/* True while a helper waits for work without sleeping. Such a helper takes part at once; waking one takes about 15
 * microseconds. */
bool shmt__workers_awake(void);

#endif
