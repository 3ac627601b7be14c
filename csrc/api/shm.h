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
  uint64_t session, incarnation;
  int64_t manager_pid;
  uint64_t n_clients, n_leases, n_slabs;
  uint64_t resident_bytes; /* memory that the arena occupies */
  uint64_t granted_bytes;  /* covered by slabs */
  uint64_t n_held;         /* blocks this process holds */
} shmt_sharing_status_info;

/* Errors: SHMT_E_MANAGER. */
int shmt_sharing_status(shmt_sharing_status_info* out);
/* Set the label that the tools show for this process, in every session that it is in: UTF-8, cut to
 * 35 bytes. A forked child begins without a label. */
void shmt_sharing_set_label(const char* label);
/* Let the manager sweep, and return idle memory to the kernel now. *out: the bytes that the arena still occupies. */
int shmt_sharing_trim(uint64_t* out_resident_bytes);
/* End the leases of messages that were sent more than age_ms ago and that nobody has opened. */
int shmt_sharing_gc(uint32_t age_ms, uint64_t* out_n);

/* --- placement --- */

/* Get the number of a placement of shared memory. huge: pages of 2 MiB where a block covers them. numa:
 * 0 any node, 1 only `nodes` (bit n: node n), 2 that node first, 3 `nodes` in turn. Equal placements
 * have the same number. Errors: SHMT_E_RUNTIME (more than 7 in this process). */
int shmt_placement_open(int huge, int numa, uint64_t nodes, uint32_t* out);
/* From now on this thread allocates shared memory with this placement; 0 leaves the choice to the kernel. Returns the
 * placement before. */
uint32_t shmt_placement_use(uint32_t placement);
/* Try a placement on a little memory. *out_..: 0, or why the kernel refused that part. Errors: SHMT_E_NOMEM. */
int shmt_placement_try(int huge, int numa, uint64_t nodes, int* out_huge_errno,
                       int* out_numa_errno);
/* The errno of each part when the kernel last refused this placement; 0: it did not. */
void shmt_placement_refused(uint32_t placement, int* out_huge_errno, int* out_numa_errno);

/* --- storages --- */

int shmt_storage_is_shared(const shmt_storage* s);
/* Move the bytes into shared memory. Does nothing when they are there already.
 * Errors: SHMT_E_BUFFER (live exports), SHMT_E_NOT_IMPLEMENTED (meta), SHMT_E_NOMEM,
 * SHMT_E_MANAGER. */
int shmt_storage_share(shmt_storage* s);
/* Make a shared storage of zero bytes by a strategy, see shmt_sharing_set_strategy. *out is a new reference. Errors:
 * SHMT_E_NOMEM, SHMT_E_MANAGER. */
int shmt_storage_create_shared(uint64_t nbytes, int strategy, shmt_storage** out);
/* Path of the file of which the storage is a shared mapping; borrowed from it. NULL: it is none. */
const char* shmt_storage_file_path(const shmt_storage* s);

/* Share the storage, and write the manager's socket and a handle, both zero-terminated. Takes no lease.
 * Errors: those of shmt_storage_share; SHMT_E_RUNTIME (a buffer is too small). */
int shmt_storage_export_name(shmt_storage* s, char* manager, uint64_t manager_capacity,
                             char* handle, uint64_t handle_capacity);
/* Open a storage by socket and handle. *out is a new reference. Errors: SHMT_E_HANDLE with the values. */
int shmt_storage_import_name(const char* manager, const char* handle, uint64_t nbytes,
                             shmt_storage** out);
/* Share the storage, and open a descriptor for it, which belongs to the storage: it is the same each time, and closed
 * with it. A private storage becomes a memory file. Errors: those of shmt_storage_share, SHMT_E_OS. */
int shmt_storage_export_fd(shmt_storage* s, int* out_fd);
/* Open the storage of such a descriptor, which stays the caller's. *out is a new reference. Errors:
 * SHMT_E_HANDLE. */
int shmt_storage_import_fd(int fd, uint64_t nbytes, shmt_storage** out);
/* Map a shared storage in another mode. 1: this process cannot write to it. 2: copy-on-write, so writes
 * stay in this process. *out is a new reference, which keeps s. Errors: SHMT_E_RUNTIME (not shared),
 * SHMT_E_MANAGER, SHMT_E_NOMEM. */
int shmt_storage_in_mode(shmt_storage* s, int mode, shmt_storage** out);
/* Keep the block of a shared storage alive even when no process holds it any more; undo that once. */
int shmt_storage_shared_incref(shmt_storage* s);
int shmt_storage_shared_decref(shmt_storage* s);

#endif
