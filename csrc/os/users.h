/* os/users.h -- users and groups, and whether the kernel tells them apart here.
 *
 * In a user namespace the kernel shows every user that it has no number for as one, the overflow id: whoever has that
 * number may be anybody.
 */
#ifndef SHMT_OS_USERS_H
#define SHMT_OS_USERS_H

#include "base/error.h"

uint32_t shmt__os_uid(void); /* the effective user id */
/* Does the number stand for one user, or group, in this process's user namespace? In doubt it does not. */
bool shmt__os_user_is_known(uint32_t uid);
bool shmt__os_group_is_known(uint32_t gid);
/* Can this process be told from strangers? Errors: SHMT_E_MANAGER, saying what to do. */
shmt_status shmt__os_check_own_user(void);

#endif
