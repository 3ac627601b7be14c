/* ipc/session/fork.h -- makes the child of a fork() a member of the parent's sessions.
 *
 * Note [Fork]
 * Before the fork the parent opens a connection for the child, gets a client number for it, and sets that number's hold
 * on every block that it holds itself. After the fork both have the connection, and the parent closes its copy at once.
 * So at no instant does the child use a block without a hold. When either of them is killed, or the fork fails, the
 * kernel closes the connection and the manager frees what the child's number had. A process that has joined no session
 * pays nothing.
 */
#ifndef SHMT_IPC_SESSION_FORK_H
#define SHMT_IPC_SESSION_FORK_H

#include "base/error.h"

/* Install the fork handlers, once. Errors: SHMT_E_OS. */
shmt_status shmt__fork_init(void);

#endif
