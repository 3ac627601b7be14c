/* os/memfd.h -- sealed memory files and the maps of them.
 *
 * A memory file has no name that could stay behind: the kernel frees it with its last descriptor
 * and map. Sealed against shrinking and growing, nobody can make a mapped page go away, so a page
 * that was populated once never raises SIGBUS.
 */
#ifndef SHMT_OS_MEMFD_H
#define SHMT_OS_MEMFD_H

#include "base/error.h"

/* Make a sparse memory file of nbytes, sealed, mode 0600, close-on-exec. Where the system has no
 * memfd_create it is a file of /dev/shm without a name, which cannot be sealed.
 * name is what /proc shows. Errors: SHMT_E_OS, SHMT_E_NOMEM. Ownership: *out_fd is the caller's. */
shmt_status shmt__os_memfd_create(const char* name, uint64_t nbytes, int* out_fd);
/* Is fd such a file of this user? Gives its size. */
bool shmt__os_memfd_check(int fd, uint64_t* out_nbytes);
/* The same, of another user. */
bool shmt__os_memfd_check_of(int fd, uint32_t uid, uint64_t* out_nbytes);
/* Device and inode, to tell whether two descriptors are one file. */
bool shmt__os_file_identity(int fd, uint64_t out[2]);
/* Bytes of memory the file occupies now. */
uint64_t shmt__os_file_resident(int fd);

/* Map nbytes from the start, shared and writable. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__os_map_shared(int fd, uint64_t nbytes, void** out);
/* The same without the right to write. */
shmt_status shmt__os_map_read_only(int fd, uint64_t nbytes, void** out);
/* Map a part of the file whose pages exist; false when it has none there, or they cannot be had. */
bool shmt__os_map_part(int fd, uint64_t offset, uint64_t nbytes, void** out);
/* Map the pages of a range so that stores to them stay in this process. *out is the first byte of
 * the range, *out_map and *out_nbytes what to unmap. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__os_map_private(int fd, uint64_t offset, uint64_t nbytes, void** out,
                                 void** out_map, uint64_t* out_nbytes);
void shmt__os_unmap(void* p, uint64_t nbytes);
/* Drop the page-table entries of a shared map. The file keeps its pages. */
void shmt__os_map_forget(void* p, uint64_t nbytes);

/* Give the range pages, so that no later store can fail. base: the map, or NULL for none.
 * The range is widened to whole pages. Errors: SHMT_E_NOMEM naming the bytes. */
shmt_status shmt__os_populate(int fd, void* base, uint64_t offset, uint64_t nbytes);
/* Write into the range, whose pages may be missing. That costs a third of populating it and storing to it:
 * pages that are written whole are never cleared, and enter no page table. The rest of a last page
 * that was missing reads as zero. Errors: SHMT_E_NOMEM naming the bytes; SHMT_E_OS. */
shmt_status shmt__os_write_pages(int fd, uint64_t offset, const void* bytes, uint64_t nbytes);
/* Return the whole pages inside the range to the kernel; they read as zero from then on. False: the kernel could
 * not, some may be there still. */
bool shmt__os_punch(int fd, uint64_t offset, uint64_t nbytes);

uint64_t shmt__os_page_bytes(void);
/* Largest file and address space this process may make (UINT64_MAX: no limit). */
uint64_t shmt__os_file_limit(void);
uint64_t shmt__os_address_limit(void);

void shmt__os_close(int fd); /* negative is fine */
/* A second, close-on-exec descriptor of the same open file, or -1. */
int shmt__os_dup(int fd);
/* Open the file behind fd anew, with a file position of its own, or -1. */
int shmt__os_reopen(int fd);
/* The same, for reading only. */
int shmt__os_reopen_read_only(int fd);
bool shmt__os_seek(int fd, uint64_t position);
bool shmt__os_tell(int fd, uint64_t* out_position);
/* Read exactly nbytes at offset, without a map. */
bool shmt__os_read_at(int fd, void* p, uint64_t nbytes, uint64_t offset);

#endif
