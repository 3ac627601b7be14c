/* os/pages.h -- anonymous and file-backed private pages of this process. */
#ifndef SHMT_OS_PAGES_H
#define SHMT_OS_PAGES_H

#include "base/error.h"

enum { SHMT_HUGE_PAGE_BYTES = 2 << 20 };

/* Map fresh zero pages, aligned to SHMT_HUGE_PAGE_BYTES, with advice to use huge pages.
 *
 * nbytes  > 0, a multiple of 4096; the part after the last huge page has small pages
 * Returns NULL when the kernel refuses. Then errno says why, and there is no error record, since callers retry.
 * Ownership: the caller's; shmt__os_pages_unmap releases them. */
void* shmt__os_pages_map(uint64_t nbytes);
/* Release pages of shmt__os_pages_map. */
void shmt__os_pages_unmap(void* p, uint64_t nbytes);
/* Keep the addresses and drop the contents: the pages read as zero from now on. */
void shmt__os_pages_zero(void* p, uint64_t nbytes);
/* How many bytes of memory this machine has. */
uint64_t shmt__os_memory_bytes(void);

enum {
  SHMT_FILE_SHARED = 1 << 0,   /* MAP_SHARED: writes reach the file */
  SHMT_FILE_WRITABLE = 1 << 1, /* without SHARED: writes stay in this process's memory */
  SHMT_FILE_CREATE = 1 << 2,   /* make the file when it does not exist; needs SHARED */
  SHMT_FILE_EXTEND = 1 << 3,   /* grow the file to nbytes; needs SHARED */
};

/* Map nbytes of the file at path from its start.
 *
 * nbytes  > 0
 * Errors: SHMT_E_RUNTIME "unable to open file <path> in read-only mode: No such file or directory (2)",
 *         "file <path> size <n> is smaller than the required mapping size <m>"; SHMT_E_NOMEM.
 * Ownership: the mapping is the caller's; shmt__os_file_unmap releases it. */
shmt_status shmt__os_file_map(const char* path, uint64_t nbytes, int flags, void** out);
void shmt__os_file_unmap(void* p, uint64_t nbytes);

/* Read or write exactly nbytes at fd's position (nothing when 0).
 * Errors: SHMT_E_RUNTIME "file read failed ..." / "unexpected EOF, expected N more bytes. The file might be
 * corrupted.". */
shmt_status shmt__os_read_exact(int fd, void* p, uint64_t nbytes);
shmt_status shmt__os_write_exact(int fd, const void* p, uint64_t nbytes);

#endif
