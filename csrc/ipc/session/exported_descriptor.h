/* ipc/session/exported_descriptor.h -- the descriptor of a storage that the program gets (_share_fd_).
 *
 * It belongs to the storage, as in torch: it stays open as long as the storage, and is the same each time the program
 * asks. The program knows the number, so it may close it, and open something else under it. So the number is
 * returned again, or closed in the end, only while identity and file position say that it is the descriptor.
 */
#ifndef SHMT_IPC_SESSION_EXPORTED_DESCRIPTOR_H
#define SHMT_IPC_SESSION_EXPORTED_DESCRIPTOR_H

#include "ipc/session/session.h"

/* All under the sessions' lock. */

/* The descriptor of the held block that the program has got; borrowed. -1: none, or the program has closed it. */
int shmt__exported_descriptor(const shmt__held_block* h);
/* Remember a descriptor that the program gets. Consumes fd, also on failure. Errors: SHMT_E_NOMEM. */
shmt_status shmt__exported_descriptor_set(shmt__held_block* h, int fd);
/* The held block is being dropped: close its descriptor, if there is one. */
void shmt__exported_descriptor_close(shmt__held_block* h);

#endif
