/* os/pages.c -- anonymous and file-backed private pages of this process. */
#define _GNU_SOURCE
#include "os/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static shmt_status fail_open(const char* path, int flags, int err) {
  const char* mode = (flags & SHMT_FILE_SHARED) && (flags & SHMT_FILE_WRITABLE) ? "read-write" : "read-only";
  SHMT_FAIL(SHMT_E_RUNTIME, "unable to open file <%s> in %s mode: %s (%d)", path, mode, strerror(err), err);
}

/* Make the file behind fd at least nbytes long, or say why it cannot be mapped that far. */
static shmt_status check_size(int fd, const char* path, uint64_t nbytes, int flags) {
  struct stat st;
  if (fstat(fd, &st) != 0)
    SHMT_FAIL(SHMT_E_RUNTIME, "unable to stat the file <%s>: %s (%d)", path, strerror(errno), errno);
  if ((uint64_t)st.st_size >= nbytes) return SHMT_OK;
  SHMT_REQUIRE(flags & SHMT_FILE_EXTEND, SHMT_E_RUNTIME,
               "file <%s> size <%" PRId64 "> is smaller than the required mapping size <%" PRIu64 ">", path,
               (int64_t)st.st_size, nbytes);
  /* Blocks, not a hole: a full disk must fail here, not as SIGBUS at a later store. */
  int err = posix_fallocate(fd, 0, (off_t)nbytes);
  if (err == EOPNOTSUPP || err == EINVAL) err = ftruncate(fd, (off_t)nbytes) == 0 ? 0 : errno;
  if (err != 0)
    return shmt__fail_errno(err, "unable to resize file <%s> to the right size of %" PRIu64 " bytes", path, nbytes);
  return SHMT_OK;
}

shmt_status shmt__os_file_map(const char* path, uint64_t nbytes, int flags, void** out) {
  bool shared = flags & SHMT_FILE_SHARED, writable = flags & SHMT_FILE_WRITABLE;
  int open_flags = (shared && writable ? O_RDWR : O_RDONLY) | O_CLOEXEC;
  SHMT_REQUIRE(nbytes <= PTRDIFF_MAX, SHMT_E_NOMEM, "mapping file <%s>: tried to map %" PRIu64 " bytes", path, nbytes);
  if (shared && (flags & SHMT_FILE_CREATE)) open_flags |= O_CREAT;
  int fd = open(path, open_flags, 0600);
  if (fd < 0) return fail_open(path, flags, errno);

  shmt_status status = check_size(fd, path, nbytes, shared ? flags : flags & ~SHMT_FILE_EXTEND);
  if (status == SHMT_OK) {
    int prot = PROT_READ | (writable ? PROT_WRITE : 0);
    void* p = mmap(NULL, nbytes, prot, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
      status = shmt__fail_errno(errno, "unable to mmap %" PRIu64 " bytes from file <%s>", nbytes, path);
    else
      *out = p;
  }
  (void)close(fd);
  return status;
}

void shmt__os_file_unmap(void* p, uint64_t nbytes) { munmap(p, nbytes); }

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
