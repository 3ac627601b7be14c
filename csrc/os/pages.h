/* os/pages.h -- anonymous pages of this process, and whole reads and writes. */
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

/* Read or write exactly nbytes at fd's position (nothing when 0).
 * Errors: SHMT_E_RUNTIME "file read failed ..." / "unexpected EOF, expected N more bytes. The file might be
 * corrupted.". */
shmt_status shmt__os_read_exact(int fd, void* p, uint64_t nbytes);
shmt_status shmt__os_write_exact(int fd, const void* p, uint64_t nbytes);

#endif
