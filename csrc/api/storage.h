/* api/storage.h -- storages, private memory and its statistics, for the Python package.
 *
 * Functions that make a storage store a new reference in *out; shmt_storage_release releases it.
 * Functions that return int return a status (api/status.h).
 */
#ifndef SHMT_API_STORAGE_H
#define SHMT_API_STORAGE_H

#include <stdint.h>

typedef struct shmt_storage shmt_storage;

/* --- references, making storages --- */

void shmt_storage_retain(shmt_storage* s);
/* NULL is fine. */
void shmt_storage_release(shmt_storage* s);
/* Release *place and make it NULL; for an object that owns the place before a function here fills it. */
void shmt_storage_clear(shmt_storage** place);

/* Make a storage of uninitialised (zeroed = 0) or zero bytes. Errors: SHMT_E_NOMEM. */
int shmt_storage_create(uint64_t nbytes, int zeroed, shmt_storage** out);
/* Make a storage without data, for Meta tensors. Errors: SHMT_E_NOMEM. */
int shmt_storage_create_meta(uint64_t nbytes, shmt_storage** out);
/* Map the first nbytes of a file; flags: 1 shared, 2 writable, 4 create, 8 extend, 16 map same_fd itself. same_fd: a
 * descriptor of the file that it must be; -1: any. Errors: SHMT_E_RUNTIME with path and sizes, SHMT_E_NOMEM. */
int shmt_storage_map_file(const char* path, uint64_t nbytes, int flags, int same_fd, shmt_storage** out);

/* Make a storage of the bytes offset .. offset + nbytes of s. It keeps s alive and pinned, and cannot be resized.
 * is_own: the program shows these bytes by this storage alone.
 * Errors: SHMT_E_RUNTIME (range), SHMT_E_NOMEM. */
int shmt_storage_part(shmt_storage* s, uint64_t offset, uint64_t nbytes, int is_own, shmt_storage** out);

/* --- reading --- */

void* shmt_storage_data(const shmt_storage* s);
uint64_t shmt_storage_nbytes(const shmt_storage* s);
/* SHMT_STORAGE_* bits: 1 resizable, 2 shared, 4 read-only, 8 meta. */
uint32_t shmt_storage_flags(const shmt_storage* s);
/* "default", "blob", "mapped_file", "managed". */
const char* shmt_storage_allocator(const shmt_storage* s);
/* Add or remove an export (a NumPy array, DLPack or buffer), which pins the address. */
void shmt_storage_pin(shmt_storage* s);
void shmt_storage_unpin(shmt_storage* s);

/* --- changing --- */

/* Resize. Errors: SHMT_E_RUNTIME (not resizable, or exported), SHMT_E_NOMEM. */
int shmt_storage_resize(shmt_storage* s, uint64_t nbytes);
/* Copy nbytes between storages. Errors: SHMT_E_RUNTIME (ranges, read-only, meta). */
int shmt_storage_copy(shmt_storage* dst, uint64_t dst_offset, const shmt_storage* src, uint64_t src_offset,
                      uint64_t nbytes);
int shmt_storage_fill(shmt_storage* s, uint64_t offset, uint64_t nbytes, int byte);
/* Reverse the bytes of each element of `width` bytes. Errors: SHMT_E_VALUE (nbytes is not a multiple of width). */
int shmt_storage_byteswap(shmt_storage* s, uint64_t width);
/* Read or write exactly nbytes at offset, from or to a descriptor. Errors: SHMT_E_RUNTIME (end of file), SHMT_E_OS. */
int shmt_storage_read_fd(shmt_storage* s, uint64_t offset, uint64_t nbytes, int fd);
int shmt_storage_write_fd(const shmt_storage* s, uint64_t offset, uint64_t nbytes, int fd);

/* --- semaphores --- */

/* Bytes of a semaphore in its file, as sem_open() expects it. */
uint64_t shmt_storage_semaphore_bytes(void);
/* Make a semaphore of `value` permits, for several processes, at the beginning of a mapped file.
 * Errors: SHMT_E_RUNTIME (too few bytes, read-only), SHMT_E_VALUE (more permits than a semaphore can have). */
int shmt_storage_init_semaphore(shmt_storage* s, uint32_t value);

/* --- weak references --- */

typedef struct shmt__storage_weak shmt__storage_weak;
/* Make a reference that does not keep s alive; shmt_storage_weak_clear frees it. Errors: SHMT_E_NOMEM. */
int shmt_storage_weak_create(shmt_storage* s, shmt__storage_weak** out);
/* Store a new reference to the storage, or NULL when it was destroyed. */
void shmt_storage_weak_lock(shmt__storage_weak* weak, shmt_storage** out);
void shmt_storage_weak_clear(shmt__storage_weak** place); /* free *place and make it NULL */

/* --- private memory --- */

typedef struct shmt_memory_stats {
  int64_t allocated_bytes;      /* in live blocks, rounded up to their size classes */
  int64_t allocated_bytes_peak;
  int64_t reserved_bytes;       /* obtained from the kernel */
  int64_t reserved_bytes_peak;
  int64_t cached_bytes;         /* free, kept for reuse; blocks above 4 KB only */
  int64_t n_allocations;
  int64_t n_frees;
  int64_t n_large_fresh;        /* blocks above 4 KB that came from the kernel ... */
  int64_t n_large_reused;       /* ... and from the cache */
} shmt_memory_stats;

void shmt_memory_statistics(shmt_memory_stats* out);
void shmt_memory_reset_peak(void);
/* Return cached large blocks to the kernel. */
void shmt_memory_empty_cache(void);

#endif
