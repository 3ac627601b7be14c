/* api/shm.h -- sharing storages between processes, for the Python package.
 *
 * Functions that return int return a status (api/status.h).
 */
#ifndef SHMT_API_SHM_H
#define SHMT_API_SHM_H

#include <stdint.h>

#include "api/storage.h"

/* --- the session --- */

/* Set where the manager program is, the name of this process's session (0: make one), and the most bytes that a session
 * begun by this process may cover (0: no bound). Returns the name. Starts nothing. */
uint64_t shmt_sharing_configure(const char* manager_path, uint64_t session, uint64_t limit_bytes);
/* Join the session now. Otherwise this happens at the first need. Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
int shmt_sharing_join(void);
/* 0 "file_system", 1 "file_descriptor": what new shared storages are made of. */
void shmt_sharing_set_strategy(int strategy);
int shmt_sharing_strategy(void);

typedef struct shmt_sharing_status_info {
  uint64_t session, world;
  int64_t manager_pid;
  uint64_t n_clients, n_leases, n_slabs;
  uint64_t resident_bytes; /* memory that the arena occupies */
  uint64_t granted_bytes;  /* covered by slabs */
  uint64_t n_held;         /* blocks this process holds */
} shmt_sharing_status_info;

/* Errors: SHMT_E_MANAGER. */
int shmt_sharing_status(shmt_sharing_status_info* out);
/* What the tools show of this process beside its number, in every session it is in: at most 35 bytes
 * of UTF-8, the rest is cut. Forked children begin without one. */
void shmt_sharing_set_label(const char* label);
/* Have the manager sweep, and return idle memory to the kernel now. Gives the bytes that the arena still occupies. */
int shmt_sharing_trim(uint64_t* out_resident_bytes);
/* End the leases of messages that were sent more than age_ms ago and that nobody has opened. */
int shmt_sharing_gc(uint32_t age_ms, uint64_t* out_n);

/* --- placement --- */

/* A number for a placement of shared memory: huge, pages of 2 MiB where a block covers them; numa:
 * 0 any node, 1 only `nodes` (bit n: node n), 2 that node first, 3 `nodes` in turn. The same number
 * for the same placement. Errors: SHMT_E_RUNTIME (more than 7 in this process). */
int shmt_placement_open(int huge, int numa, uint64_t nodes, uint32_t* out);
/* From now on this thread allocates shared memory with this placement; 0 leaves the choice to the kernel. Returns the
 * placement before. */
uint32_t shmt_placement_use(uint32_t placement);
/* Try a placement on a little memory of its own: 0 or errno of each part. Errors: SHMT_E_NOMEM. */
int shmt_placement_try(int huge, int numa, uint64_t nodes, int* out_huge_errno,
                       int* out_numa_errno);
/* The same of the last memory that a placement was applied to and refused for; 0: none. */
void shmt_placement_refused(uint32_t placement, int* out_huge_errno, int* out_numa_errno);

/* --- storages --- */

int shmt_storage_is_shared(const shmt_storage* s);
/* Move the bytes into shared memory. Does nothing when they are there.
 * Errors: SHMT_E_BUFFER (live exports), SHMT_E_NOT_IMPLEMENTED (meta), SHMT_E_NOMEM,
 * SHMT_E_MANAGER. */
int shmt_storage_share(shmt_storage* s);
/* Shared bytes, all zero or uninitialised. *out is a new reference. Errors: SHMT_E_NOMEM,
 * SHMT_E_MANAGER. */
int shmt_storage_create_shared(uint64_t nbytes, int zeroed, shmt_storage** out);

/* Share, then name the storage: the manager's socket and a handle, zero-terminated. No lease is
 * taken. Errors: those of shmt_storage_share; SHMT_E_RUNTIME (a buffer is too small). */
int shmt_storage_export_name(shmt_storage* s, char* manager, uint64_t manager_capacity,
                             char* handle, uint64_t handle_capacity);
/* The storage of that name. *out is a new reference. Errors: SHMT_E_HANDLE with the values. */
int shmt_storage_import_name(const char* manager, const char* handle, uint64_t nbytes,
                             shmt_storage** out);
/* Share, then a descriptor for the storage, the caller's to close. A private storage becomes a
 * memory file. */
int shmt_storage_export_fd(shmt_storage* s, int* out_fd);
/* The storage of a descriptor; fd stays the caller's. *out is a new reference. Errors:
 * SHMT_E_HANDLE. */
int shmt_storage_import_fd(int fd, uint64_t nbytes, shmt_storage** out);
/* A shared storage in another mode: 1, its bytes cannot be written by this process; 2, what this
 * process writes stays its own. *out is a new reference, which keeps s. Errors: SHMT_E_RUNTIME (not
 * shared), SHMT_E_MANAGER, SHMT_E_NOMEM. */
int shmt_storage_in_mode(shmt_storage* s, int mode, shmt_storage** out);
/* Keep the block of a shared storage alive when no process holds it any more, and end that. */
int shmt_storage_shared_incref(shmt_storage* s);
int shmt_storage_shared_decref(shmt_storage* s);

#endif
