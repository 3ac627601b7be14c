/* ipc/handle/import.h -- receiving storages: what is behind handles and the blocks of messages. */
#ifndef SHMT_IPC_HANDLE_IMPORT_H
#define SHMT_IPC_HANDLE_IMPORT_H

#include "ipc/handle/handle.h"
#include "ipc/ring/message_layout.h"
#include "storage/storage.h"

/* Bytes that travel beside a handle, with their checksum. */
typedef struct shmt__checked_bytes {
  const void* data;
  size_t nbytes;
  uint32_t check;
} shmt__checked_bytes;

/* The storage behind a handle. If this process has the storage already, that one. Ends the handle's lease. beside:
 * bytes that are also checked, before anything is changed; may be NULL. Errors: SHMT_E_HANDLE with the values. New
 * reference. */
shmt_status shmt__storage_import(const shmt__handle* h, const shmt__checked_bytes* beside,
                                 shmt_storage** out);

/* The same for n handles at any address, all or none. `beside` is checked with the first. */
shmt_status shmt__storages_import(const void* handles, uint32_t n, const shmt__checked_bytes* beside,
                                  shmt_storage** out);

struct shmt__session;
/* The storages behind the blocks of a ring message, all or none. This process holds each block from now on. The caller
 * has one of the ring's locks. Errors: SHMT_E_HANDLE, SHMT_E_NOMEM. New references. */
shmt_status shmt__ring_blocks_open(struct shmt__session* s, const shmt__ring_block* blocks,
                                   uint32_t n, shmt_storage** out);

#endif
