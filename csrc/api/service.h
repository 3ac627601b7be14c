/* api/service.h -- named values, locks and barriers for unrelated processes, for the Python package.
 *
 * Functions that return int return a status (api/status.h). The functions here wait at most timeout_ms; the caller
 * waits in slices, so that it can handle signals.
 */
#ifndef SHMT_API_SERVICE_H
#define SHMT_API_SERVICE_H

#include <stdint.h>

#include "api/storage.h"

/* --- a service --- */

typedef struct shmt_service shmt_service;

#define SHMT_OWN_SERVICE UINT32_MAX /* of whatever user the process has when it uses the service */

/* Describe a service of user `owner`, at an abstract socket (path NULL) or at a path. may_start: start its manager when
 * none runs. Joins nothing yet. Errors: SHMT_E_VALUE (the path is too long), SHMT_E_NOMEM.
 * Ownership: *out is the caller's; shmt_service_free. */
int shmt_service_create(const char* name, const char* path, uint32_t owner, int may_start,
                        shmt_service** out);
void shmt_service_free(shmt_service* v); /* NULL is fine; tensors stay usable */
void shmt_service_clear(shmt_service** place); /* free *place and make it NULL */
/* Join it now, for reading only (writing = 0) or for more. Errors: SHMT_E_MANAGER. */
int shmt_service_join(shmt_service* v, int writing);

typedef struct shmt_service_options {
  uint64_t limit_bytes, client_limit_bytes; /* 0: no bound */
  int64_t gid;                              /* -1: this user only */
} shmt_service_options;

/* Become the service's manager, in the foreground until SIGTERM: this program is replaced. Uses the socket that systemd
 * passed, if any. Returns only on failure.
 * Errors: SHMT_E_MANAGER (it runs already), SHMT_E_OS (its socket cannot be bound), SHMT_E_VALUE (the group). */
int shmt_service_serve(const shmt_service* v, const shmt_service_options* how);

typedef struct shmt_service_counters {
  int64_t manager_pid;
  uint64_t n_clients, n_names, granted_bytes, resident_bytes, limit_bytes, client_limit_bytes;
  int is_group;   /* other users may be members, says the manager */
  uint32_t owner; /* the user who runs it; the kernel has confirmed that */
} shmt_service_counters;

/* Errors: SHMT_E_MANAGER. */
int shmt_service_status(shmt_service* v, shmt_service_counters* out);

/* --- values --- */

typedef struct shmt_service_entry {
  uint64_t version, nbytes;
  uint64_t age_ms; /* since it was published */
  uint32_t uid;    /* of the publisher */
  int64_t pid;
  int persists;
  uint32_t kind; /* shmt__name_kind: 0 a value, 1 a queue, ... */
} shmt_service_entry;

/* Is the storage a block of this service, so that it can be published as it is? */
int shmt_service_owns(shmt_service* v, const shmt_storage* s);
/* Make a storage of uninitialised bytes in the service. *out is a new reference. Errors: SHMT_E_NOMEM
 * (also when a limit of the service is reached), SHMT_E_MANAGER. */
int shmt_service_new_storage(shmt_service* v, uint64_t nbytes, shmt_storage** out);
/* Make a storage that maps a file of /dev/shm (shmt_storage_map_file, shared and writable) an owner of the file's
 * name: the service's manager removes the name when its last owner is gone, however it ended, and no message has the
 * storage.
 *
 * fd      the file; stays the caller's
 * name    a slash and 1 to 174 bytes
 * is_new  the file has no name yet; the caller links it to this name next
 * Errors: SHMT_E_VALUE (the name, no such mapping, a service of a group, or its manager sees another /dev/shm),
 * SHMT_E_KEY (the name is another file's by now), SHMT_E_RUNTIME (the storage was sent before), SHMT_E_MANAGER,
 * SHMT_E_NOMEM, SHMT_E_OS. Ownership: the storage stays the caller's; each process that holds it is an owner. */
int shmt_service_own_posix_name(shmt_service* v, shmt_storage* s, int fd, const char* name, int is_new);
/* Bits of `how`: the name outlives its publisher; it is a queue, a topic, an event, or a server (one of these at most);
 * leave the value that it has. */
enum {
  SHMT_PUBLISH_PERSISTS = 1,
  SHMT_PUBLISH_QUEUE = 2,
  SHMT_PUBLISH_TOPIC = 4,
  SHMT_PUBLISH_EVENT = 6,
  SHMT_PUBLISH_SERVER = 8,
  SHMT_PUBLISH_IF_NONE = 16
};
/* Publish these storages, all of this service, under `name`, with a text that says what they are.
 * Errors: SHMT_E_VALUE (the name, or it is of another kind), SHMT_E_HANDLE, SHMT_E_NOMEM, SHMT_E_RUNTIME,
 * SHMT_E_MANAGER. */
int shmt_service_publish(shmt_service* v, const char* name, shmt_storage* const* storages,
                         uint64_t n_storages, const char* text, uint64_t n_text, uint32_t how,
                         uint64_t* out_version);
/* Remove the value of a name. Errors: SHMT_E_KEY. */
int shmt_service_unpublish(shmt_service* v, const char* name);
/* The current value of a name, without a system call once joined. Errors: SHMT_E_KEY (it has none). */
int shmt_service_find(shmt_service* v, const char* name, shmt_service_entry* out);
/* Read the entry at a position. *out_next: the next position; 0: this was the last one. name has room
 * for 128 bytes; empty: there is no entry here. */
int shmt_service_entry_at(shmt_service* v, uint32_t at, shmt_service_entry* out, char* name,
                         uint32_t* out_next);
/* Wait until the name has a version above `version`. Errors: SHMT_E_TIMEOUT, SHMT_E_MANAGER
 * (the service has ended). */
int shmt_service_wait(shmt_service* v, const char* name, uint64_t version, int timeout_ms);

typedef struct shmt_snapshot shmt_snapshot;

/* Attach the newest version and hold its blocks. mode: 0 read-write, 1 read-only, 2 copy-on-write.
 * Errors: SHMT_E_KEY, SHMT_E_HANDLE, SHMT_E_NOMEM, SHMT_E_MANAGER.
 * Ownership: *out is the caller's; shmt_snapshot_free. Storages taken from it outlive it. */
int shmt_snapshot_open(shmt_service* v, const char* name, int mode, shmt_snapshot** out);
void shmt_snapshot_free(shmt_snapshot* s); /* NULL is fine */
void shmt_snapshot_clear(shmt_snapshot** place); /* free *place and make it NULL */
const shmt_service_entry* shmt_snapshot_entry(const shmt_snapshot* s);
/* Borrowed, not terminated. */
const char* shmt_snapshot_text(const shmt_snapshot* s, uint64_t* out_n);
uint64_t shmt_snapshot_n_storages(const shmt_snapshot* s);
/* Store a new reference to a storage; i is below the number. */
void shmt_snapshot_get(const shmt_snapshot* s, uint64_t i, shmt_storage** out);
/* The same, returned. */
shmt_storage* shmt_snapshot_storage(const shmt_snapshot* s, uint64_t i);

#endif
