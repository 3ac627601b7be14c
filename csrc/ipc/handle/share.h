/* ipc/handle/share.h -- storages in shared memory: making them (share.c), sending them (export.c), receiving them
 * (import.c). */
#ifndef SHMT_IPC_HANDLE_SHARE_H
#define SHMT_IPC_HANDLE_SHARE_H

#include "ipc/handle/handle.h"
#include "ipc/ring/message_layout.h"
#include "storage/storage.h"

/* The allocator of shared memory. Its storages are SHMT_STORAGE_SHARED and are never resized. */
extern const shmt__allocator shmt__allocator_managed;

enum { SHMT_SHARING_FILE_SYSTEM, SHMT_SHARING_FILE_DESCRIPTOR };

/* What new shared storages are made of: a block of the arena, or a memory file of their own. */
void shmt__sharing_set_strategy(int strategy);
int shmt__sharing_strategy(void);

/* acquire: whoever sees that a storage is shared sees its shared bytes. */
static inline bool shmt__storage_is_shared(const shmt_storage* s) {
  return (__atomic_load_n(&s->flags, __ATOMIC_ACQUIRE) & SHMT_STORAGE_SHARED) != 0;
}

/* Move the bytes of a private storage into shared memory. Does nothing when the storage is shared. Several threads may
 * share one storage at once. Errors: SHMT_E_BUFFER (live exports), SHMT_E_NOT_IMPLEMENTED (Meta), SHMT_E_NOMEM,
 * SHMT_E_MANAGER. */
shmt_status shmt__storage_share(shmt_storage* s);
/* The same, into a memory file whatever the strategy says. */
shmt_status shmt__storage_share_as_file(shmt_storage* s);
/* A storage of uninitialised bytes that is shared from the start, made by the strategy `how`. New reference. */
shmt_status shmt__storage_create_shared(uint64_t nbytes, int how, shmt_storage** out);
/* With SHMTENSOR_TRACE_ALLOC: writes where the program of this thread makes a shared storage, as the end of
 * "path:line", zero-terminated. NULL: not traced. It is called without locks, and set once. */
extern void (*shmt__allocation_site)(char* out, size_t capacity);
/* Where factories called with shared=True make their storages: in shared memory, by the strategy in use. */
extern const shmt__storage_source shmt__place_shared;
typedef struct shmt__held_block shmt__held_block;
typedef struct shmt__session shmt__session;
/* Allocate a block of this session's arena, held by this process. The caller has the sessions' lock. The block has
 * pages; is_filled_next: they may be missing until the caller writes the bytes. Errors: SHMT_E_NOMEM,
 * SHMT_E_MANAGER. */
shmt_status shmt__arena_block_create(shmt__session* s, uint64_t nbytes, bool is_filled_next,
                                     shmt__held_block** out);
/* Make the storage over a block that was just allocated. h may be NULL when nbytes is 0. Consumes h, also on failure.
 * New reference. */
shmt_status shmt__storage_of_held_block(shmt__held_block* h, uint64_t nbytes, shmt_storage** out);
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
