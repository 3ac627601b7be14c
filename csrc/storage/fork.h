/* storage/fork.h -- the fork handlers of the small block lists. */
#ifndef SHMT_STORAGE_FORK_H
#define SHMT_STORAGE_FORK_H

/* Register the fork handlers of the block lists now. Otherwise this happens at the first block. Handlers that were
 * registered last run first before a fork. So a module that allocates under a lock of its own registers its handlers after
 * this. */
void shmt__storage_blocks_set_up(void);

#endif
