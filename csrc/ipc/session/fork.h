/* ipc/session/fork.h -- what fork() means for a member of a session.
 *
 * Note [Fork]
 * Before the fork the parent opens a connection for the child, gets a client id for it and sets
 * that id's hold on every block it holds itself. Parent and child both have the connection; the
 * parent closes its own copy at once. So there is no instant at which the child uses a block
 * without a hold, and wherever either of them is killed, or if the fork fails, the kernel closes
 * the connection and the manager erases the child. A process that has joined no session pays
 * nothing.
 */
#ifndef SHMT_IPC_SESSION_FORK_H
#define SHMT_IPC_SESSION_FORK_H

#include "base/error.h"

/* Install the handlers, once. Errors: SHMT_E_OS. */
shmt_status shmt__fork_init(void);

#endif
