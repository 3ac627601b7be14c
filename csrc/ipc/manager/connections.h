/* ipc/manager/connections.h -- the manager's table of connections. */
#ifndef SHMT_IPC_MANAGER_CONNECTIONS_H
#define SHMT_IPC_MANAGER_CONNECTIONS_H

#include "ipc/manager/manager.h"
#include "os/socket.h"

/* Enter a connection of the process `peer` and watch it. Returns its index; SHMT_MANAGER_CONNECTIONS: there is no room.
 * Consumes fd. */
uint32_t shmt__manager_enter_connection(shmt__manager* m, int fd, const shmt__peer* peer);
/* Close a connection, without asking what became of its client. */
void shmt__manager_close_connection(shmt__manager* m, uint32_t connection);

#endif
