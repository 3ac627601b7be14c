/* ipc/service/service.h -- values that unrelated processes publish and attach by name.
 *
 * A service is a session whose control file has names (Note [Names] in shm/names.h). A process that only attaches for
 * reading maps the arena from a descriptor that cannot be written. It maps the arena for writing when that is first
 * needed.
 */
#ifndef SHMT_IPC_SERVICE_SERVICE_H
#define SHMT_IPC_SERVICE_SERVICE_H

#include "ipc/service/description.h"
#include "ipc/session/session.h"

enum { SHMT_ATTACH_WRITING, SHMT_ATTACH_READING, SHMT_ATTACH_PRIVATE };

/* A storage over the block of `original`, a managed storage, in another mode. It keeps `original` alive.
 * READING: this process cannot write the bytes. PRIVATE: what this process writes stays its own (copy-on-write). New
 * reference. Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. (ipc/service/attach_modes.c) */
shmt_status shmt__storage_in_mode(shmt_storage* original, int mode, shmt_storage** out);

/* The number of the session that is the service of this name, or at this path. */
uint64_t shmt__service_number(const char* name);

/* The value of a name at this moment, without a system call. False: it has none. (ipc/service/read_names.c)
 * out_word, out_sequence: the futex word that changes with the value, and what it was. */
bool shmt__names_read(const shmt__map* map, const char* name, shmt__version* out,
                      atomic_uint_least32_t** out_word, uint32_t* out_sequence);
/* The same for an entry by its number; there are shmt__map_names_end(). It also gives the name. */
bool shmt__names_read_at(const shmt__map* map, uint32_t index, shmt__version* out,
                         char name[SHMT_NAME_BYTES]);

#endif
