/* ipc/manager/dead_clients.h -- notices that a client is dead, and frees everything it had.
 *
 * Three things make the manager check a client: its connection ends, its pidfd reports the end of its process, or the
 * manager's tick comes and nothing else watches the client. Note [Liveness] in ipc/manager/manager.h says when a client
 * counts as dead. A dead client loses, in this order: its locks on rings (ring_audit.c), its names and named locks
 * (names.c, named_locks.c), and its holds, slabs and client number (shm/manager/arena_manager.c). The functions that do
 * this end in `_client_died`.
 */
#ifndef SHMT_IPC_MANAGER_DEAD_CLIENTS_H
#define SHMT_IPC_MANAGER_DEAD_CLIENTS_H

#include "ipc/manager/manager.h"

/* A connection ended, or sent something invalid. Its client may be dead. */
void shmt__manager_connection_lost(shmt__manager* m, uint32_t connection);
/* The process behind a client's pidfd ended. A child of it may still be the client. */
void shmt__manager_process_ended(shmt__manager* m, uint32_t id);
/* Watch a client that has no connection, or free what it had if it is dead. */
void shmt__manager_watch_client(shmt__manager* m, uint32_t id);
/* Check all clients whose end nothing would report: they lost their connection, they are older than this manager, or
 * they are children that took their number without the manager. */
void shmt__manager_check_unwatched(shmt__manager* m);

#endif
