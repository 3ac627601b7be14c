/* os/memfd.c -- sealed memory files, and mappings of them. */
#define _GNU_SOURCE
#include "os/memfd.h"

#include "os/descriptor.h"
#include "os/stat.h"
#include "os/users.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
  SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
  /* Requests of this size and more compare with the free memory first: the kernel does not refuse them, but kills
   * processes when it has no pages. */
  CHECKED_BYTES = 4 << 20,
};

/* Without memfd_create (old kernels, sandboxes), memory files are files in /dev/shm that never had a name. They
 * cannot be sealed, and the size of /dev/shm bounds them. */
static bool has_memfd(void) {
  static atomic_int known; /* 0: not known, 1: yes, 2: no. relaxed: every thread writes the same value */
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer == 0) {
    int fd = memfd_create("shmtensor-probe", MFD_CLOEXEC);
    answer = fd < 0 && (errno == ENOSYS || errno == EPERM) ? 2 : 1;
    if (fd >= 0) (void)close(fd);
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == 1;
}

shmt_status shmt__os_memfd_create(const char* name, uint64_t nbytes, int* out_fd) {
  SHMT_REQUIRE(nbytes <= INT64_MAX, SHMT_E_NOMEM,
               "unable to allocate shared memory: tried %" PRIu64 " bytes", nbytes);
  bool sealed = has_memfd();
  int fd = shmt__os_above_streams(
      sealed ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)
             : open("/dev/shm", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
  if (fd < 0)
    return shmt__fail_errno(errno, "%s(%s) of %" PRIu64 " bytes",
                            sealed ? "memfd_create" : "open(/dev/shm)", name, nbytes);
  int err = 0;
  if (fchmod(fd, 0600) != 0 || ftruncate(fd, (off_t)nbytes) != 0 ||
      (sealed && fcntl(fd, F_ADD_SEALS, SEALS) != 0))
    err = errno;
  if (err != 0) {
    (void)close(fd);
    /* EFBIG: RLIMIT_FSIZE. */
    if (err == EFBIG || err == EINVAL) err = ENOSPC;
    return shmt__fail_errno(err, "unable to allocate shared memory: tried %" PRIu64 " bytes",
                            nbytes);
  }
  *out_fd = fd;
  return SHMT_OK;
}

bool shmt__os_memfd_check(int fd, uint64_t* out_nbytes) {
  return shmt__os_memfd_check_of(fd, (uint32_t)geteuid(), out_nbytes);
}

bool shmt__os_memfd_check_of(int fd, uint32_t uid, uint64_t* out_nbytes) {
  struct stat st;
  /* First of all: only files in memory have seals, and about those the kernel asks nobody.
   * See Note [Descriptors of others] in os/closer.h. */
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint32_t)st.st_uid != uid ||
      !shmt__os_user_is_known(uid))
    return false;
  if (has_memfd()) {
    if ((seals & SEALS) != SEALS) return false;
  } else {
    struct statfs fs;
    if (st.st_nlink != 0 || fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC) return false;
  }
  *out_nbytes = (uint64_t)st.st_size;
  return true;
}

bool shmt__os_file_identity(int fd, uint64_t out[2]) {
  struct stat st;
  if (!shmt__os_known_stat(fd, &st)) return false;
  out[0] = (uint64_t)st.st_dev;
  out[1] = (uint64_t)st.st_ino;
  return true;
}

/* The sticky bit has no meaning of its own here. */
int shmt__os_file_mark_group(int fd, uint32_t gid) {
  return fchown(fd, (uid_t)-1, (gid_t)gid) == 0 && fchmod(fd, S_ISVTX | 0600) == 0 ? 0 : -errno;
}

bool shmt__os_file_is_of_group(int fd, uint32_t* out_gid) {
  struct stat st;
  if (fstat(fd, &st) != 0 || (st.st_mode & S_ISVTX) == 0) return false;
  *out_gid = (uint32_t)st.st_gid;
  return true;
}

uint64_t shmt__os_file_resident(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static shmt_status map_file(int fd, uint64_t nbytes, int protection, void** out) {
  void* p = mmap(NULL, nbytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED)
    return shmt__fail_errno(errno, "unable to map %" PRIu64 " bytes of shared memory", nbytes);
  /* Leave the arena, a sparse terabyte, out of core dumps. */
  (void)madvise(p, nbytes, MADV_DONTDUMP);
  *out = p;
  return SHMT_OK;
}

shmt_status shmt__os_map_shared(int fd, uint64_t nbytes, void** out) {
  return map_file(fd, nbytes, PROT_READ | PROT_WRITE, out);
}

shmt_status shmt__os_map_read_only(int fd, uint64_t nbytes, void** out) {
  return map_file(fd, nbytes, PROT_READ, out);
}

shmt_status shmt__os_map_private(int fd, uint64_t offset, uint64_t nbytes, void** out,
                                 void** out_map, uint64_t* out_nbytes) {
  uint64_t page = shmt__os_page_bytes(), begin = offset & ~(page - 1);
  uint64_t len = (offset + nbytes - begin + page - 1) & ~(page - 1);
  void* p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, (off_t)begin);
  if (p == MAP_FAILED)
    return shmt__fail_errno(errno, "unable to map %" PRIu64 " bytes of shared memory privately",
                            nbytes);
  *out_map = p;
  *out_nbytes = len;
  *out = (char*)p + (offset - begin);
  return SHMT_OK;
}

void shmt__os_unmap(void* p, uint64_t nbytes) {
  if (p != NULL) (void)munmap(p, nbytes);
}

void shmt__os_map_forget(void* p, uint64_t nbytes) { (void)madvise(p, nbytes, MADV_DONTNEED); }

/* The memory that processes can still get (MemAvailable and SwapFree of /proc/meminfo), in bytes; UINT64_MAX:
 * unknown. */
static uint64_t available_bytes(void) {
  char text[1024];
  int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return UINT64_MAX;
  ssize_t n = read(fd, text, sizeof text - 1);
  (void)close(fd);
  if (n <= 0) return UINT64_MAX;
  text[n] = '\0';
  const char* line = strstr(text, "MemAvailable:");
  const char* swap = strstr(text, "SwapFree:");
  uint64_t available = 0, swap_free = 0;
  if (line == NULL || sscanf(line, "MemAvailable: %" SCNu64, &available) != 1) return UINT64_MAX;
  if (swap != NULL && sscanf(swap, "SwapFree: %" SCNu64, &swap_free) == 1) available += swap_free;
  return available * 1024;
}

/* Refuse a request so large that the kernel would have to kill processes for it. */
static shmt_status check_available(uint64_t nbytes) {
  if (nbytes < CHECKED_BYTES) return SHMT_OK;
  uint64_t available = available_bytes();
  SHMT_REQUIRE(nbytes <= available, SHMT_E_NOMEM,
               "unable to allocate shared memory: tried %" PRIu64 " bytes, %" PRIu64
               " are available",
               nbytes, available);
  return SHMT_OK;
}

shmt_status shmt__os_write_pages(int fd, uint64_t offset, const void* bytes, uint64_t nbytes) {
  SHMT_TRY(check_available(nbytes));
  for (uint64_t at = 0; at < nbytes;) {
    ssize_t n = pwrite(fd, (const char*)bytes + at, nbytes - at, (off_t)(offset + at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return shmt__fail_errno(n < 0 ? errno : ENOSPC,
                              "unable to allocate shared memory: tried %" PRIu64 " bytes", nbytes);
    at += (uint64_t)n;
  }
  return SHMT_OK;
}

shmt_status shmt__os_populate(int fd, void* base, uint64_t offset, uint64_t nbytes) {
  uint64_t page = shmt__os_page_bytes();
  uint64_t begin = offset & ~(page - 1), end = (offset + nbytes + page - 1) & ~(page - 1);
  if (begin == end) return SHMT_OK;
  SHMT_TRY(check_available(end - begin));
  if (base != NULL) {
    /* One call allocates the pages and enters them into the page table, in half the time of page faults. */
    int done;
    do {
      done = madvise((char*)base + begin, end - begin, MADV_POPULATE_WRITE);
    } while (done != 0 && (errno == EINTR || errno == EAGAIN));
    if (done == 0) return SHMT_OK;
    /* EINVAL: a kernel before 5.14. EFAULT: out of pages; fallocate reports the reason. */
  }
  int done, refused = errno;
  do {
    done = fallocate(fd, 0, (off_t)begin, (off_t)(end - begin));
  } while (done != 0 && errno == EINTR);
  if (fd < 0 && base != NULL && refused != EINVAL) errno = ENOMEM; /* madvise() has told the reason */
  if (done != 0)
    return shmt__fail_errno(errno, "unable to allocate shared memory: tried %" PRIu64 " bytes",
                            nbytes);
  return SHMT_OK;
}

bool shmt__os_punch(int fd, uint64_t offset, uint64_t nbytes) {
  uint64_t page = shmt__os_page_bytes();
  uint64_t begin = (offset + page - 1) & ~(page - 1), end = (offset + nbytes) & ~(page - 1);
  if (begin >= end) return true;
  int done;
  do {
    done = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin,
                     (off_t)(end - begin));
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

bool shmt__os_map_part(int fd, uint64_t offset, uint64_t nbytes, void** out) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size < 0 || offset > (uint64_t)st.st_size ||
      nbytes > (uint64_t)st.st_size - offset || offset % shmt__os_page_bytes() != 0)
    return false;
  /* The first access to a page that is missing would allocate it, and fail with a signal. */
  if (shmt__os_populate(fd, NULL, offset, nbytes) != SHMT_OK) return false;
  void* p = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
  if (p == MAP_FAILED) return false;
  *out = p;
  return true;
}

uint64_t shmt__os_page_bytes(void) {
  static atomic_uint_least64_t cached; /* relaxed: every thread writes the same value */
  uint64_t bytes = atomic_load_explicit(&cached, memory_order_relaxed);
  if (bytes == 0) {
    long page = sysconf(_SC_PAGESIZE);
    bytes = page > 0 ? (uint64_t)page : 4096;
    atomic_store_explicit(&cached, bytes, memory_order_relaxed);
  }
  return bytes;
}

static uint64_t soft_limit(__rlimit_resource_t which) {
  struct rlimit limit;
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return (uint64_t)limit.rlim_cur;
}

uint64_t shmt__os_file_limit(void) { return soft_limit(RLIMIT_FSIZE); }
uint64_t shmt__os_address_limit(void) { return soft_limit(RLIMIT_AS); }

void shmt__os_close(int fd) {
  if (fd >= 0) (void)close(fd);
}

int shmt__os_dup(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 3); }

static int reopen(int fd, int access) {
  char path[32];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return shmt__os_above_streams(open(path, access | O_CLOEXEC));
}

int shmt__os_reopen(int fd) { return reopen(fd, O_RDWR); }
int shmt__os_reopen_read_only(int fd) { return reopen(fd, O_RDONLY); }

bool shmt__os_seek(int fd, uint64_t position) { return lseek(fd, (off_t)position, SEEK_SET) >= 0; }

bool shmt__os_tell(int fd, uint64_t* out_position) {
  off_t at = lseek(fd, 0, SEEK_CUR);
  if (at < 0) return false;
  *out_position = (uint64_t)at;
  return true;
}

bool shmt__os_read_at(int fd, void* p, uint64_t nbytes, uint64_t offset) {
  char* at = p;
  while (nbytes > 0) {
    ssize_t n = pread(fd, at, nbytes, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    offset += (uint64_t)n;
    nbytes -= (uint64_t)n;
  }
  return true;
}
