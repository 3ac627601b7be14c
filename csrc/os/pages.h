/* os/pages.h -- anonymous and file-backed private pages of this process. */
#ifndef SHMT_OS_PAGES_H
#define SHMT_OS_PAGES_H

#include "base/error.h"

enum { SHMT_HUGE_PAGE_BYTES = 2 << 20 };

/* Fresh zero pages, aligned to SHMT_HUGE_PAGE_BYTES and advised huge.
 *
 * nbytes  > 0, a multiple of 4096; the part behind the last huge page stays in small ones
 * Returns NULL when the kernel refuses; errno says why, no record is made (callers retry). */
void* shmt__os_pages_map(uint64_t nbytes);
/* Give pages of shmt__os_pages_map back. */
void shmt__os_pages_unmap(void* p, uint64_t nbytes);
/* Keep the addresses, drop the contents: the pages read as zero from now on. */
void shmt__os_pages_zero(void* p, uint64_t nbytes);
/* Bytes of memory in this machine. */
uint64_t shmt__os_memory_bytes(void);

enum {
  SHMT_FILE_SHARED = 1 << 0,   /* MAP_SHARED: writes reach the file */
  SHMT_FILE_WRITABLE = 1 << 1, /* private maps are writable in memory only */
  SHMT_FILE_CREATE = 1 << 2,   /* make the file when there is none; needs SHARED */
  SHMT_FILE_EXTEND = 1 << 3,   /* grow the file to nbytes; needs SHARED */
};

/* Map nbytes of the file at path from its start.
 *
 * nbytes  > 0
 * Errors: SHMT_E_RUNTIME "unable to open file <path> in read-only mode: No such file or directory (2)",
 *         "file <path> size <n> is smaller than the required mapping size <m>"; SHMT_E_NOMEM.
 * Ownership: the map is the caller's; shmt__os_file_unmap releases it. */
shmt_status shmt__os_file_map(const char* path, uint64_t nbytes, int flags, void** out);
void shmt__os_file_unmap(void* p, uint64_t nbytes);

/* Read or write exactly nbytes at fd's position (nothing when 0).
 * Errors: SHMT_E_RUNTIME "file read failed ..." / "unexpected EOF, expected N more bytes. The file might be corrupted.". */
shmt_status shmt__os_read_exact(int fd, void* p, uint64_t nbytes);
shmt_status shmt__os_write_exact(int fd, const void* p, uint64_t nbytes);

#endif
