/* ipc/handle/export.h -- sending storages of shared memory: leases and handles. */
#ifndef SHMT_IPC_HANDLE_EXPORT_H
#define SHMT_IPC_HANDLE_EXPORT_H

#include "ipc/handle/handle.h"
#include "storage/storage.h"

/* Add a lease on the block of a shared storage, or end one, without a handle (_shared_incref, _shared_decref). Errors,
 * with SHMTENSOR_DEBUG only: SHMT_E_HANDLE (the block is gone), SHMT_E_RUNTIME (there is no lease). */
shmt_status shmt__storage_add_plain_lease(shmt_storage* s);
shmt_status shmt__storage_end_plain_lease(shmt_storage* s);

/* May another process get write access to this shared storage? Errors: SHMT_E_RUNTIME (it is read-only, or mapped from
 * a file). */
shmt_status shmt__storage_check_sendable(const shmt_storage* s);
/* Make the handle of a shared storage. With a lease, the block lives until the handle is opened. out_secret (may be
 * NULL) gets the key for a checksum over bytes that travel beside the handle. Errors: SHMT_E_RUNTIME (not shared, or
 * not sendable), SHMT_E_HANDLE (its session is gone). */
shmt_status shmt__storage_export(shmt_storage* s, bool lease, shmt__handle* out,
                                 uint64_t* out_secret);

/* The same for n storages, with leases, all or none. out has room for n handles, at any address. */
shmt_status shmt__storages_export(shmt_storage* const* storages, uint32_t n, void* out,
                                  uint64_t* out_secret);

#endif
