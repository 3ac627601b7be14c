/* ipc/manager/names.h -- the manager's side of a service's names: publishing, removing, and what happens when a
 * publisher dies.
 *
 * See Note [Names] in shm/names.h. Names, their versions, their publishers and the users of named locks are kept in
 * private tables (Note [Private tables] in shm/manager/arena_manager.h). A new manager builds these from the control
 * file and from the descriptions in the arena.
 */
#ifndef SHMT_IPC_MANAGER_NAMES_H
#define SHMT_IPC_MANAGER_NAMES_H

#include "shm/manager/arena_manager.h"

typedef struct shmt__name_blocks {
  uint32_t n;
  uint32_t* at;
} shmt__name_blocks;

/* A name, also one without a value: its versions are counted on. */
typedef struct shmt__name_entry {
  bool is_used;
  bool is_listed;    /* among those without a value; it may have one again */
  uint32_t next_gone; /* the one that lost its value next */
  uint32_t sequence;
  uint64_t hash;
  shmt__version version;
  shmt__name_blocks blocks; /* of the version, its description included */
  char text[SHMT_NAME_BYTES];
} shmt__name_entry;

/* A lock, semaphore or barrier. */
typedef struct shmt__lock_entry {
  uint32_t kind; /* 0: unused */
  uint32_t n_slots;
  bool is_settled; /* somebody has said n_slots */
  uint64_t users[SHMT_NAMED_LOCK_USER_WORDS];
  char text[SHMT_NAMED_LOCK_NAME_BYTES];
} shmt__lock_entry;

typedef struct shmt__names {
  shmt__name_entry* entries; /* as many as the control file has; NULL: the session has no names */
  shmt__lock_entry* named_locks;
  uint32_t n_names, n_named_locks; /* in these */
  uint32_t names_end, locks_end;   /* of these, how many were ever used; the ones behind have no pages */
  uint32_t n_values, n_persisting; /* entries that have a value, and one that persists */
  uint32_t* n_values_of;           /* by client: how many it published that do not persist */
  struct {
    uint32_t* buckets; /* the table in use: Note [Index of names] in shm/names.h */
    unsigned bits, which;
    uint32_t n_used, n_changes;
  } index;
  struct {
    uint32_t n, first, last; /* entries without a value, the longest so first */
  } gone;
  uint32_t repaired; /* how far repair has come in its rounds */
  uint64_t floor; /* the versions of new names start above it */
  uint32_t* uses; /* by block: how many values contain it */
  uint32_t n_uses;
  bool is_adopting; /* no hold may be cleared yet */
} shmt__names;

/* Who sent a request; uid and pid come from the kernel. */
typedef struct shmt__requester {
  uint32_t client, uid;
  int32_t pid;
} shmt__requester;

/* Read the names that a manager before us has left; a new session has none. Errors: SHMT_E_NOMEM. */
shmt_status shmt__names_adopt(shmt__names* n, shmt__arena_manager* k);
/* Free the tables. The control file stays as it is. */
void shmt__names_fini(shmt__names* n);
/* For some thousand entries at each call: take back the names of queues that no process holds, and rewrite the
 * members' copy where it differs from the private tables. */
void shmt__names_repair(shmt__names* n, shmt__arena_manager* k);

/* Publish under `name` the value that a block describes. The requester holds the block. Publishing the same block again
 * changes nothing. With SHMT_NAME_IF_NONE a name that has a value keeps it, and *out_version is that value's. flags:
 * SHMT_NAME_*. Errors: SHMT_E_VALUE (no name, no description, a name of another kind), SHMT_E_HANDLE (a block is gone),
 * SHMT_E_RUNTIME (the name is another user's, or there is no room), SHMT_E_NOMEM. */
shmt_status shmt__names_publish(shmt__names* n, shmt__arena_manager* k, shmt__requester who, const char* name,
                                uint32_t block, uint64_t generation, uint32_t flags,
                                uint64_t* out_version);
/* Remove a name's value. Errors: SHMT_E_KEY (no such name), SHMT_E_RUNTIME (it is another user's). */
shmt_status shmt__names_remove(shmt__names* n, shmt__arena_manager* k, shmt__requester who, const char* name);
/* The client's process is this other client by now: that one is the publisher of its names. */
void shmt__names_client_moved(shmt__names* n, shmt__arena_manager* k, uint32_t client, uint32_t to);
/* The client is dead: remove its names that do not persist, and empty its slots in named locks. */
void shmt__names_client_died(shmt__names* n, shmt__arena_manager* k, uint32_t client);
/* Does a name persist, so that the session must stay without clients? */
bool shmt__names_persist(const shmt__names* n);

#endif
