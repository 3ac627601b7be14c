/* ipc/manager/named_locks.h -- named locks of a session: who may use them, and what a dead client leaves. */
#ifndef SHMT_IPC_MANAGER_NAMED_LOCKS_H
#define SHMT_IPC_MANAGER_NAMED_LOCKS_H

#include "ipc/manager/names.h"

/* Find or make the lock of this name, kind and size for a client; n_slots 0 leaves the size of a semaphore open, and it
 * is 1 until somebody says it. Errors: SHMT_E_VALUE (it exists with another kind or size, or the name is empty),
 * SHMT_E_RUNTIME (no room). */
shmt_status shmt__named_locks_open(shmt__names* n, shmt__arena_manager* k, uint32_t client, const char* name,
                                   uint32_t kind, uint32_t n_slots, uint32_t* out_index);
/* The client is dead: empty its slots, and forget it as a user. Who has another slot is a user. A lock without users is
 * freed. */
void shmt__named_locks_client_died(shmt__names* n, shmt__arena_manager* k, uint32_t client);
/* As for names. */
shmt_status shmt__named_locks_adopt(shmt__names* n, const shmt__arena_manager* k);
void shmt__named_locks_repair(const shmt__names* n, const shmt__arena_manager* k);

#endif
