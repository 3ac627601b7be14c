/* storage/fork.h -- the lists of small blocks around fork(). */
#ifndef SHMT_STORAGE_FORK_H
#define SHMT_STORAGE_FORK_H

/* Register the fork handlers of the lists now, which happens by itself at a thread's first block.
 * Handlers that were registered last lock first: whoever takes blocks under a lock of its own
 * registers after this. */
void shmt__storage_blocks_set_up(void);

#endif
