/* autograd/grad_locks.h -- the locks of .grad and of lazily made histories. */
#ifndef SHMT_AUTOGRAD_GRAD_LOCKS_H
#define SHMT_AUTOGRAD_GRAD_LOCKS_H

/* Lock .grad or a lazily made history: one of a few locks, chosen by the address. Code that may wait for the
 * interpreter lock must not run under it. */
void shmt__grad_lock(const void* what);
void shmt__grad_unlock(const void* what);

#endif
