/* storage/allocator.h -- the allocators of this process's private memory.
 *
 * default      64-byte aligned, caching: a freed block goes to a thread's list of its
 *              size class, or to a shared list when large, and is reused instead of returned
 *              to the kernel. Fresh large blocks are mapped with MADV_HUGEPAGE.
 * blob         foreign memory and a deleter (storage/blob.c).
 * mapped_file  a file mapped private or shared, read-only or writable.
 * The managed allocator (shared memory) lives above, in ipc/.
 */
#ifndef SHMT_STORAGE_ALLOCATOR_H
#define SHMT_STORAGE_ALLOCATOR_H

#include "storage/storage.h"

extern const shmt__allocator shmt__allocator_default;
extern const shmt__allocator shmt__allocator_blob;
extern const shmt__allocator shmt__allocator_mapped_file;

/* The default allocator without a storage, for scratch space; never NULL on success.
 * shmt__alloc(0) gives a valid pointer. Release with shmt__dealloc(p, the same nbytes). */
shmt_status shmt__alloc(uint64_t nbytes, void** out);
void shmt__dealloc(void* p, uint64_t nbytes);
/* The same with every byte zero; large blocks come as untouched pages. */
shmt_status shmt__alloc_zeroed(uint64_t nbytes, void** out);

/* The blob allocator's arg. */
typedef struct shmt__blob {
  void* data;
  void (*deleter)(void* arg, void* data); /* NULL: nobody needs to know */
  void* deleter_arg;
} shmt__blob;

/* A storage over foreign memory; deleter runs once, when the last reference goes.
 *
 * Errors: SHMT_E_NOMEM; then the deleter does not run. Ownership: on success the storage owns data; *out is a
 * new reference. */
shmt_status shmt__storage_from_blob(void* data, uint64_t nbytes, void (*deleter)(void* arg, void* data), void* arg,
                                    uint32_t flags, shmt_storage** out);

/* The mapped-file allocator's arg. */
typedef struct shmt__mapped_file {
  const char* path;
  int flags; /* SHMT_FILE_*, os/pages.h */
} shmt__mapped_file;

#endif
