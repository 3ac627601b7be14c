/* ipc/session/join.h -- joins a session, and rejoins it after its manager was killed. */
#ifndef SHMT_IPC_SESSION_JOIN_H
#define SHMT_IPC_SESSION_JOIN_H

#include "ipc/session/session.h"

/* Connect to the manager of the session and say hello; start a manager when none listens. may_create: begin the session
 * anew when nobody has its memory any more. The caller has the sessions' lock and is the requester
 * (shmt__request_begin). Errors: SHMT_E_MANAGER, SHMT_E_HANDLE (nobody has the memory), SHMT_E_NOMEM. */
shmt_status shmt__session_join(shmt__session* s, bool may_create);

/* This process has a new number: hold all its blocks under it, and end what has kept them until now. new_control_fd:
 * the descriptor with the number's lock, which takes the place of the old one; -1: the old one has it. */
void shmt__session_hold_again(shmt__session* s, int new_control_fd);

#endif
