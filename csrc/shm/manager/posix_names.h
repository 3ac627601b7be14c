/* shm/manager/posix_names.h -- names of POSIX shared memory that are removed with the last process that owns them.
 *
 * Note [POSIX names]
 * The kernel keeps a name of shm_open() until somebody unlinks it, whoever has died. The manager knows who lives: a
 * file with such a name is a slab of one block (SHMT_SLAB_PROGRAM_FILE), and its owners are the processes that hold the
 * block. So the name is removed when the slab is retired, which comes after the last hold and the last message that
 * names the block. The order of the steps, each of which may be the last of a process:
 *
 *   owner    makes a file without a name and gives it its size
 *   owner    registers it: the manager writes name, identity and hold, the slab's state last, and answers
 *   owner    links the file to its name
 *   ...      holds end, messages end
 *   manager  removes the name, if it is still that of the file (os/posix_names.h)
 *   manager  retires the slab
 *
 * Before the registration there is no name that could stay; after it the manager removes what there is. A manager that
 * takes over finds the slab with its name in the control file, and removes it again if need be. Several slabs may have
 * one file (each process that opens a name as an owner has one of its own): the last of them removes the name. A
 * process cannot become an owner in between: the manager does one thing at a time, and registers a file only while the
 * name is the file's.
 *
 * The text in the control file is only a copy for the next manager, which removes nothing outside /dev/shm, and nothing
 * of another identity. A member that writes there is of the same user as the manager: sessions of a group register no
 * files with names.
 */
#ifndef SHMT_SHM_MANAGER_POSIX_NAMES_H
#define SHMT_SHM_MANAGER_POSIX_NAMES_H

#include "shm/manager/arena_manager.h"

/* Write the name of a slab that gets its state next. Copies name. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__arena_manager_write_posix_name(shmt__arena_manager* k, uint32_t slab, const char* name);
/* Take over the name of a slab from the control file; where that has none that may be removed, the slab gets none
 * (view->has_posix_name). Errors: SHMT_E_NOMEM. */
shmt_status shmt__arena_manager_adopt_posix_name(shmt__arena_manager* k, uint32_t slab, shmt__slab_view* view);
/* Rewrite the copy in the control file, where it differs. */
void shmt__arena_manager_repair_posix_name(shmt__arena_manager* k, uint32_t slab);
/* The slab goes and its name, if it has one, stays. */
void shmt__arena_manager_forget_posix_name(shmt__arena_manager* k, uint32_t slab);
/* The slab goes: remove its name, unless another slab has the same file. */
void shmt__arena_manager_unlink_posix_name(shmt__arena_manager* k, uint32_t slab);
/* The session ends: remove all names. */
void shmt__arena_manager_unlink_posix_names(shmt__arena_manager* k);

#endif
