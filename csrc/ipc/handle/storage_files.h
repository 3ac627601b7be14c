/* ipc/handle/storage_files.h -- shared storages that are memory files of their own (strategy "file_descriptor"), and
 * what these have in common with files of the program (program_files.h). */
#ifndef SHMT_IPC_HANDLE_STORAGE_FILES_H
#define SHMT_IPC_HANDLE_STORAGE_FILES_H

#include "ipc/session/session.h"

/* All under the sessions' lock. */

/* Make a sealed file of nbytes, map it, and register it with the manager, which keeps a descriptor of it. The file has
 * pages; is_filled_next: they may be missing until the caller writes the bytes. Errors: SHMT_E_NOMEM,
 * SHMT_E_MANAGER. */
shmt_status shmt__file_block_create(shmt__session* s, uint64_t nbytes, bool is_filled_next,
                                    shmt__held_block** out);
/* Register a file with the manager, which keeps a descriptor of it. The caller maps the file. Borrows fd. Errors:
 * SHMT_E_VALUE, SHMT_E_KEY (shmt__arena_manager_add_file), SHMT_E_NOMEM, SHMT_E_MANAGER, SHMT_E_OS (no descriptors). */
shmt_status shmt__file_block_register(shmt__session* s, int fd, const shmt__new_file* file, shmt__held_block** out);
/* Save the descriptor for a next manager, after making room. Borrows fd. */
void shmt__file_block_save(shmt__held_block* h, int fd);
/* Get the file behind a held block from the manager and map it. Errors: SHMT_E_HANDLE (it is another file, or too
 * short by now), SHMT_E_NOMEM. */
shmt_status shmt__file_block_open(shmt__held_block* h, uint64_t nbytes);
/* Get a descriptor for the block; the caller closes it. For a block of the arena it is the arena, with its file
 * position at the block. Errors: SHMT_E_OS, SHMT_E_HANDLE. */
shmt_status shmt__block_descriptor(shmt__held_block* h, int* out_fd);
/* Find the block that such a descriptor names, in all sessions of this process. nbytes: of the storage, which tells
 * storages over one file of the program apart. False: it is in none. */
bool shmt__block_by_descriptor(int fd, uint64_t nbytes, shmt__session** out_session, uint32_t* out_block);
/* Register a sealed file that no session knows. Borrows fd. Errors: SHMT_E_HANDLE (no sealed file of at least nbytes),
 * SHMT_E_NOMEM. */
shmt_status shmt__file_block_adopt(shmt__session* s, int fd, uint64_t nbytes, shmt__held_block** out);

#endif
