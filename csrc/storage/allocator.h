/* storage/allocator.h -- the allocators of this process's private memory.
 *
 * default      caching, 64-byte aligned: a freed block goes to the thread's list of its size class,
 *              or to a shared list when it is large. It is reused and not returned to the kernel.
 *              Fresh large blocks are mapped with MADV_HUGEPAGE.
 * blob         memory of somebody else, with a deleter (storage/blob.c).
 * mapped_file  a file that is mapped private or shared, read-only or writable (storage/mapped_file.c).
 * The allocator of shared memory ("managed") is above this layer, in ipc/handle/share.h.
 */
#ifndef SHMT_STORAGE_ALLOCATOR_H
#define SHMT_STORAGE_ALLOCATOR_H

#include "storage/storage.h"

extern const shmt__allocator shmt__allocator_default;
extern const shmt__allocator shmt__allocator_blob;
extern const shmt__allocator shmt__allocator_mapped_file;

/* Allocate scratch memory by the default allocator; shmt__dealloc(p, the same nbytes) frees it. *out is never NULL on
 * success, also for 0 bytes. Errors: SHMT_E_NOMEM. */
shmt_status shmt__alloc(uint64_t nbytes, void** out);
void shmt__dealloc(void* p, uint64_t nbytes);
/* The same, with zeros; large blocks are fresh pages, not yet touched. */
shmt_status shmt__alloc_zeroed(uint64_t nbytes, void** out);

/* The blob allocator's arg. */
typedef struct shmt__blob {
  void* data;
  void (*deleter)(void* arg, void* data); /* NULL: nothing is called at the end */
  void* deleter_arg;
} shmt__blob;

/* Make a storage over memory of somebody else. The deleter runs once, when the last reference is released.
 *
 * Errors: SHMT_E_NOMEM; then the deleter does not run. Ownership: on success the storage owns data; *out is a
 * new reference. */
shmt_status shmt__storage_from_blob(void* data, uint64_t nbytes, void (*deleter)(void* arg, void* data), void* arg,
                                    uint32_t flags, shmt_storage** out);

/* Forget the deleter: the memory behind s stays whose it was. */
void shmt__storage_disown(shmt_storage* s);
/* What is behind a storage over memory of somebody else; borrowed. NULL: s is none. */
const shmt__blob* shmt__storage_blob(const shmt_storage* s);
/* Is s a part that nobody else shows the bytes of? */
bool shmt__storage_is_own_part(const shmt_storage* s);
/* The storage that s is any other part of (shmt_storage_part); borrowed. NULL: of none. */
const shmt_storage* shmt__storage_whole(const shmt_storage* s);

/* Note [What producers say]
 * A capsule, an array or a buffer of another library is checked as a file would be, before any of its memory is read:
 * pointers that are missing, sizes and strides that are negative or whose extent overflows, types, lanes and versions
 * that are unknown, bytes that lie outside of a process's addresses. What is refused stays its producer's, which ends
 * it once; what is taken over is ended once by the storage. */
/* Can so many bytes lie `offset` bytes after data? 0 bytes lie anywhere. */
static inline bool shmt__bytes_can_lie_at(const void* data, uint64_t offset, uint64_t nbytes) {
  const uint64_t end = INTPTR_MAX, at = (uintptr_t)data;
  return nbytes == 0 || (data != NULL && at <= end && offset <= end - at && nbytes <= end - at - offset);
}

/* The mapped-file allocator's arg. The ctx of its storages is the file's shmt__file_origin where writes reach the file,
 * else NULL. */
typedef struct shmt__mapped_file {
  const char* path;
  int flags;   /* SHMT_FILE_*, os/files.h */
  int same_fd; /* a descriptor of the file that it must be; -1: any */
} shmt__mapped_file;

#endif
