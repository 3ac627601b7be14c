/* os/memfd.h -- sealed memory files, and mappings of them.
 *
 * A memory file has no name that could stay behind: the kernel frees it with its last descriptor
 * and mapping. It is sealed against shrinking and growing, so nobody can take a mapped page away, and
 * a page that was populated once never raises SIGBUS.
 */
#ifndef SHMT_OS_MEMFD_H
#define SHMT_OS_MEMFD_H

#include "base/error.h"

/* Make a sparse memory file of nbytes: sealed, mode 0600, close-on-exec. Where the system has no
 * memfd_create, it is an unnamed file in /dev/shm, which cannot be sealed. name: what /proc shows.
 * Errors: SHMT_E_OS, SHMT_E_NOMEM. Ownership: the caller closes *out_fd. */
shmt_status shmt__os_memfd_create(const char* name, uint64_t nbytes, int* out_fd);
/* Is fd such a file, and does it belong to this user? *out_nbytes: its size. */
bool shmt__os_memfd_check(int fd, uint64_t* out_nbytes);
/* The same, for a file of another user. */
bool shmt__os_memfd_check_of(int fd, uint32_t uid, uint64_t* out_nbytes);
/* Store device and inode, which tell whether two descriptors are of one file. Asks nobody but the kernel (os/stat.h).
 * False: fd is invalid. */
bool shmt__os_file_identity(int fd, uint64_t out[2]);
/* Note on the file, for good, that it is open to a group. Only the file's owner can do that, and the kernel keeps it.
 * Returns 0 or -errno (EPERM: this user is no member of the group). */
int shmt__os_file_mark_group(int fd, uint32_t gid);
/* Was that noted? *out_gid: the group. */
bool shmt__os_file_is_of_group(int fd, uint32_t* out_gid);
/* How many bytes of memory the file occupies now; 0 when fd is invalid. */
uint64_t shmt__os_file_resident(int fd);

/* Map the first nbytes, shared and writable. Errors: SHMT_E_NOMEM, SHMT_E_OS.
 * Ownership: of this and the mappings below, the caller's; shmt__os_unmap releases them. */
shmt_status shmt__os_map_shared(int fd, uint64_t nbytes, void** out);
/* The same, read-only. */
shmt_status shmt__os_map_read_only(int fd, uint64_t nbytes, void** out);
/* Map a range of the file, shared and writable, after its pages were populated. offset must be a multiple
 * of the page size. False: the range is not inside the file, or memory is out. */
bool shmt__os_map_part(int fd, uint64_t offset, uint64_t nbytes, void** out);
/* Map the pages of a range privately, so that stores to them stay in this process. *out: the first byte
 * of the range. *out_map, *out_nbytes: what to unmap. Errors: SHMT_E_NOMEM, SHMT_E_OS. */
shmt_status shmt__os_map_private(int fd, uint64_t offset, uint64_t nbytes, void** out,
                                 void** out_map, uint64_t* out_nbytes);
void shmt__os_unmap(void* p, uint64_t nbytes); /* p may be NULL */
/* Drop the page-table entries of a shared mapping. The file keeps its pages. */
void shmt__os_map_forget(void* p, uint64_t nbytes);

/* Allocate the pages of a range, so that no later store to it can fail. The range is widened to whole
 * pages. base: where this process has mapped the file; NULL: nowhere. With a base, fd may be -1: it
 * is for kernels before 5.14 then. Errors: SHMT_E_NOMEM with the bytes, SHMT_E_OS. */
shmt_status shmt__os_populate(int fd, void* base, uint64_t offset, uint64_t nbytes);
/* Write bytes into a range whose pages may be missing. That takes a third of the time of populating the
 * range and storing to it: pages that are written whole are not cleared and enter no page table. The rest
 * of a last page that was missing reads as zero. Errors: SHMT_E_NOMEM with the bytes; SHMT_E_OS. */
shmt_status shmt__os_write_pages(int fd, uint64_t offset, const void* bytes, uint64_t nbytes);
/* Return the whole pages inside the range to the kernel; they read as zero from then on. False: the kernel could
 * not do it, and some pages may still be there. */
bool shmt__os_punch(int fd, uint64_t offset, uint64_t nbytes);

uint64_t shmt__os_page_bytes(void);
/* The largest file that this process may make, and its largest address space; UINT64_MAX: no limit. */
uint64_t shmt__os_file_limit(void);
uint64_t shmt__os_address_limit(void);

void shmt__os_close(int fd); /* negative is fine */
/* Each returns a close-on-exec descriptor above the standard streams, which the caller closes, or -1 with errno. */
/* A second descriptor of the same open file description. */
int shmt__os_dup(int fd);
/* Open the file behind fd anew: a new description, with its own file position and locks. */
int shmt__os_reopen(int fd);
/* The same, read-only. */
int shmt__os_reopen_read_only(int fd);
bool shmt__os_seek(int fd, uint64_t position);
bool shmt__os_tell(int fd, uint64_t* out_position);
/* Read exactly nbytes at offset, without mapping the file. False: not all could be read. */
bool shmt__os_read_at(int fd, void* p, uint64_t nbytes, uint64_t offset);

#endif
