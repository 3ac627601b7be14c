/* ipc/handle/share.h -- making storages in shared memory; export.h sends them, import.h receives them. */
#ifndef SHMT_IPC_HANDLE_SHARE_H
#define SHMT_IPC_HANDLE_SHARE_H

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
/* The same in the arena, with pages for the first n_paged bytes, one or more: the others are used after
 * shmt__arena_extend. */
shmt_status shmt__storage_create_sparse(uint64_t nbytes, uint64_t n_paged, shmt_storage** out);
/* With SHMTENSOR_TRACE_ALLOC: writes where the program of this thread makes a shared storage, as the end of
 * "path:line", zero-terminated. NULL: not traced. It is called without locks, and set once. */
extern void (*shmt__allocation_site)(char* out, size_t capacity);
/* Where factories called with shared=True make their storages: in shared memory, by the strategy in use. */
extern const shmt__storage_source shmt__place_shared;
typedef struct shmt__held_block shmt__held_block;
typedef struct shmt__session shmt__session;
/* Allocate a block of this session's arena, held by this process. The caller has the sessions' lock. The first n_paged
 * bytes have pages; those behind them may be missing: shmt__arena_alloc. Errors: SHMT_E_NOMEM, SHMT_E_MANAGER. */
shmt_status shmt__arena_block_create(shmt__session* s, uint64_t nbytes, uint64_t n_paged, shmt__held_block** out);
/* Make a storage of uninitialised bytes in this session's arena. New reference. Errors: SHMT_E_NOMEM,
 * SHMT_E_MANAGER. */
shmt_status shmt__storage_create_in(shmt__session* s, uint64_t nbytes, shmt_storage** out);
/* The same, with pages for the first n_paged bytes only: the others are used after shmt__arena_extend. */
shmt_status shmt__storage_create_sparse_in(shmt__session* s, uint64_t nbytes, uint64_t n_paged, shmt_storage** out);
/* Make the storage over a block that was just allocated. h may be NULL when nbytes is 0. Consumes h, also on failure.
 * New reference. */
shmt_status shmt__storage_of_held_block(shmt__held_block* h, uint64_t nbytes, shmt_storage** out);

#endif
