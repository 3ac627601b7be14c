/* ipc/manager/names.h -- the manager's side of names: publishing, taking back, what a publisher's end
 * means.
 *
 * See Note [Names] in shm/names.h, and Note [Private tables] in shm/arena_manager.h: names, their versions
 * and whose they are, and the users of locks, are decided here by private tables. A successor makes
 * them anew from the control file and the descriptions in the arena.
 */
#ifndef SHMT_IPC_MANAGER_NAMES_H
#define SHMT_IPC_MANAGER_NAMES_H

#include "shm/arena_manager.h"

typedef struct shmt__name_blocks {
  uint32_t n;
  uint32_t* at;
} shmt__name_blocks;

/* An entry of the table of names. */
typedef struct shmt__name_entry {
  bool is_used;
  uint32_t tick;
  uint64_t hash;
  shmt__version version;
  shmt__name_blocks blocks; /* those of the version, the description too */
  char text[SHMT_NAME_BYTES];
} shmt__name_entry;

/* A lock, semaphore or barrier. */
typedef struct shmt__lock_entry {
  uint32_t kind; /* 0: unused */
  uint32_t n_slots;
  uint64_t users[SHMT_NAMED_LOCK_USER_WORDS];
  char text[SHMT_NAMED_LOCK_NAME_BYTES];
} shmt__lock_entry;

typedef struct shmt__names {
  shmt__name_entry* entries; /* as many as the control file has; NULL: the session has none */
  shmt__lock_entry* named_locks;
  uint32_t n_names, n_named_locks; /* in these */
  uint32_t n_used;
  uint64_t floor; /* versions of new names begin above it */
  uint32_t* uses; /* per block: how often names have it */
  uint32_t n_uses;
  bool is_adopting; /* nothing is let go of yet */
} shmt__names;

/* Who asks, as the kernel says. */
typedef struct shmt__requester {
  uint32_t client, uid;
  int32_t pid;
} shmt__requester;

/* Take over what a predecessor left; nothing in a new session. Errors: SHMT_E_NOMEM. */
shmt_status shmt__names_adopt(shmt__names* n, shmt__arena_manager* k);
/* Let go of the tables; the control file stays as it is. */
void shmt__names_fini(shmt__names* n);
/* Write the tables that members read anew where they are not as they should be. */
void shmt__names_repair(const shmt__names* n, shmt__arena_manager* k);

/* Let `name` stand for the value that a block describes, which the asker holds. The same block
 * twice is one publication. Errors: SHMT_E_VALUE (no name, no description), SHMT_E_HANDLE (a block
 * is gone), SHMT_E_RUNTIME (of another user, or no room), SHMT_E_NOMEM. */
shmt_status shmt__names_publish(shmt__names* n, shmt__arena_manager* k, shmt__requester who, const char* name,
                                uint32_t block, uint64_t generation, uint32_t flags,
                                uint64_t* out_version);
/* Errors: SHMT_E_KEY (no such name), SHMT_E_RUNTIME (of another user). */
shmt_status shmt__names_remove(shmt__names* n, shmt__arena_manager* k, shmt__requester who, const char* name);
/* The client is gone: so are its names that do not persist, its slots in syncs and its part in
 * them. */
void shmt__names_client_died(shmt__names* n, shmt__arena_manager* k, uint32_t client);
/* Do names persist, so that the session must go on without clients? */
bool shmt__names_persist(const shmt__names* n);

/* Find or make the sync of this name, kind and size for a client. Errors: SHMT_E_VALUE (it exists
 * otherwise, no name), SHMT_E_RUNTIME (no room). */
shmt_status shmt__named_locks_open(shmt__names* n, shmt__arena_manager* k, uint32_t client, const char* name, uint32_t kind,
                             uint32_t n_slots, uint32_t* out_index);
/* The client uses syncs no more: its slots are free. */
void shmt__named_locks_client_died(shmt__names* n, shmt__arena_manager* k, uint32_t client);
void shmt__named_locks_adopt(shmt__names* n, const shmt__arena_manager* k);
void shmt__named_locks_repair(const shmt__names* n, const shmt__arena_manager* k);

#endif
