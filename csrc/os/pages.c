/* os/pages.c -- anonymous pages of this process, and whole reads and writes. */
#define _GNU_SOURCE
#include "os/pages.h"

#include "os/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void* shmt__os_pages_map(uint64_t nbytes) {
  uint64_t padded = nbytes + SHMT_HUGE_PAGE_BYTES;
  if (padded < nbytes || padded > PTRDIFF_MAX) {
    errno = ENOMEM;
    return NULL;
  }
  char* p = mmap(NULL, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  uint64_t head = (uint64_t)(-(uintptr_t)p & (SHMT_HUGE_PAGE_BYTES - 1));
  if (head > 0) munmap(p, head);
  if (head < SHMT_HUGE_PAGE_BYTES) munmap(p + head + nbytes, SHMT_HUGE_PAGE_BYTES - head);
  /* Advice only: kernels without huge pages answer EINVAL. */
  (void)madvise(p + head, nbytes, MADV_HUGEPAGE);
  return p + head;
}

void shmt__os_pages_unmap(void* p, uint64_t nbytes) { munmap(p, nbytes); }

void shmt__os_pages_zero(void* p, uint64_t nbytes) {
  /* Anonymous private pages read as zero after MADV_DONTNEED; locked ones refuse it. */
  if (madvise(p, nbytes, MADV_DONTNEED) != 0) memset(p, 0, nbytes);
}

uint64_t shmt__os_memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 30;
}

shmt_status shmt__os_read_exact(int fd, void* p, uint64_t nbytes) {
  char* at = p;
  while (nbytes > 0) {
    ssize_t n = read(fd, at, nbytes < (1u << 30) ? nbytes : (1u << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return shmt__fail_errno(errno, "reading %" PRIu64 " bytes from descriptor %d", nbytes, fd);
    SHMT_REQUIRE(n > 0, SHMT_E_RUNTIME,
                 "unexpected EOF, expected %" PRIu64 " more bytes. The file might be corrupted.", nbytes);
    at += n;
    nbytes -= (uint64_t)n;
  }
  return SHMT_OK;
}

shmt_status shmt__os_write_exact(int fd, const void* p, uint64_t nbytes) {
  const char* at = p;
  while (nbytes > 0) {
    ssize_t n = write(fd, at, nbytes < (1u << 30) ? nbytes : (1u << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return shmt__fail_errno(errno, "writing %" PRIu64 " bytes to descriptor %d", nbytes, fd);
    at += n;
    nbytes -= (uint64_t)n;
  }
  return SHMT_OK;
}
