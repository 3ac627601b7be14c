/* os/user.h -- which user and group ids the kernel tells apart.
 *
 * Note [Unknown users]
 * In a user namespace the kernel shows every user and group that has no number there as one number, the overflow id
 * (65534). Where such a namespace maps only some ids, that number says nothing: it may be anybody, also when it is our
 * own. So nobody with that id is "the same user", no file with it is ours, and a process that has it cannot share. Where
 * all ids are mapped, as outside of user namespaces, it is a user like any other ("nobody").
 */
#ifndef SHMT_OS_USER_H
#define SHMT_OS_USER_H

#include "base/error.h"

/* Does the number stand for one user, or group, in this process's user namespace? In doubt it does not. */
bool shmt__os_user_is_known(uint32_t uid);
bool shmt__os_group_is_known(uint32_t gid);
/* Can this process be told from strangers? Errors: SHMT_E_MANAGER, saying what to do. */
shmt_status shmt__os_check_own_user(void);

#endif
