/* ipc/session/fork.h -- makes the child of a fork() a member of the parent's sessions.
 *
 * Note [Fork]
 * Before the fork the parent gets a client number and a connection for the child from the manager, over its own
 * connection, and sets that number's hold on every block that it holds itself. This needs nothing but that connection:
 * it works after setuid() and in another network namespace. After the fork both have the child's connection, and the
 * parent closes its copy at once.
 * So at no instant does the child use a block without a hold. When either of them is killed, or the fork fails, the
 * kernel closes the connection and the manager frees what the child's number had. A process that has joined no session
 * pays nothing.
 *
 * Note [Without a number]
 * When all numbers are taken, or the parent cannot open one more descriptor (EMFILE; after setuid() the control file
 * belongs to another user), leases keep what the child inherits (SHMT_CHANNEL_LOCK). They live as long as a byte, the
 * token, is locked: by a description of the child's own, or else by the parent's, which the child inherits; then they
 * end with the last of the two processes. A child that has the parent's description tries at once to get
 * one of its own. Its own children share what it has. Such a process joins when it first shares or receives something.
 * When not even a lease can be had, the blocks stay for good (plain leases). So whatever fails, a child never sees
 * another tensor's bytes.
 */
#ifndef SHMT_IPC_SESSION_FORK_H
#define SHMT_IPC_SESSION_FORK_H

#include "base/error.h"

/* Install the fork handlers, once. Errors: SHMT_E_OS. */
shmt_status shmt__fork_init(void);

#endif
