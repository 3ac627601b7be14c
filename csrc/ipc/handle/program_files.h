/* ipc/handle/program_files.h -- storages over files that the program has mapped (from_file), when they are sent.
 *
 * Note [Files of the program]
 * A path may name another file by the time a message is opened, or none. So a file is sent by a descriptor, which the
 * manager keeps as long as somebody holds the block or a message names it, like that of a memory file. The sender may
 * exit, and the file may be renamed or deleted meanwhile. No process keeps a descriptor for each such storage: a
 * mapping needs none, so the sender opens the path once more and compares the identity with that of the file which it
 * has mapped. If the path names another file by then, sending is refused. What is sent can only be asked what it is and
 * opened anew (O_PATH), so the manager never waits for the disk of a file.
 */
#ifndef SHMT_IPC_HANDLE_PROGRAM_FILES_H
#define SHMT_IPC_HANDLE_PROGRAM_FILES_H

#include "ipc/session/session.h"

/* Is the storage a shared, writable mapping of a file that no session knows yet? */
bool shmt__storage_is_unknown_file(const shmt_storage* s);
/* Make its file known to the default session, so that it can be sent. The bytes stay where they are. Several threads
 * may do this with one storage at once. Errors: SHMT_E_RUNTIME (the file cannot be found under its path any more, or is
 * too short by now), SHMT_E_MANAGER, SHMT_E_OS. */
shmt_status shmt__storage_register_file(shmt_storage* s);
/* Make a storage that maps a file of /dev/shm, shared and writable, an owner of the file's name: the name is removed
 * when the last owner of the session is gone, Note [POSIX names] in shm/manager/posix_names.h. The bytes stay where
 * they are.
 *
 * session  pinned
 * fd       the file; stays the caller's
 * is_new   the file has no name yet, and gets this one next
 * Errors: SHMT_E_VALUE (no such name, no such mapping, a session of a group, or its manager sees another /dev/shm),
 * SHMT_E_KEY (the name is another file's by now), SHMT_E_RUNTIME (a session knows the storage already),
 * SHMT_E_MANAGER, SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__storage_own_posix_name(shmt_storage* s, shmt__session* session, int fd, const char* name,
                                         bool is_new);
/* The path of the file that a shared storage maps; borrowed from the storage. NULL: it maps none. */
const char* shmt__storage_file_path(const shmt_storage* s);

#endif
