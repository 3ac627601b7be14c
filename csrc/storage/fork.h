/* storage/fork.h -- the fork handlers of the small block lists. */
#ifndef SHMT_STORAGE_FORK_H
#define SHMT_STORAGE_FORK_H

/* Register the fork handlers of the block lists now; otherwise that happens at the first allocation. The handlers that
 * were registered last run first before a fork. So a module that allocates under its own lock must register its
 * handlers after these. */
void shmt__storage_blocks_set_up(void);

#endif
