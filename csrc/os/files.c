/* os/files.c -- files that the program names: mapping them, and finding them again. */
#define _GNU_SOURCE
#include "os/files.h"

#include "os/memfd.h"
#include "os/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static shmt_status fail_open(const char* path, int flags, int err) {
  const char* mode = (flags & SHMT_FILE_SHARED) && (flags & SHMT_FILE_WRITABLE) ? "read-write" : "read-only";
  SHMT_FAIL(SHMT_E_RUNTIME, "unable to open file <%s> in %s mode: %s (%d)", path, mode, strerror(err), err);
}

/* Make the file behind fd at least nbytes long, or say why it cannot be mapped that far. */
static shmt_status check_size(int fd, const struct stat* st, const char* path, uint64_t nbytes, int flags) {
  if ((uint64_t)st->st_size >= nbytes) return SHMT_OK;
  SHMT_REQUIRE(flags & SHMT_FILE_EXTEND, SHMT_E_RUNTIME,
               "file <%s> size <%" PRId64 "> is smaller than the required mapping size <%" PRIu64 ">", path,
               (int64_t)st->st_size, nbytes);
  /* Blocks, not a hole: a full disk must fail here, not as SIGBUS at a later store. */
  int err = posix_fallocate(fd, 0, (off_t)nbytes);
  if (err == EOPNOTSUPP || err == EINVAL) err = ftruncate(fd, (off_t)nbytes) == 0 ? 0 : errno;
  if (err != 0)
    return shmt__fail_errno(err, "unable to resize file <%s> to the right size of %" PRIu64 " bytes", path, nbytes);
  return SHMT_OK;
}

static shmt_status make_origin(const struct stat* st, const char* path, shmt__file_origin** out) {
  size_t n = strlen(path) + 1;
  shmt__file_origin* origin = malloc(sizeof *origin + n);
  SHMT_REQUIRE(origin != NULL, SHMT_E_NOMEM, "file <%s>: tried to allocate %zu bytes", path, sizeof *origin + n);
  origin->identity[0] = (uint64_t)st->st_dev;
  origin->identity[1] = (uint64_t)st->st_ino;
  memcpy(origin->path, path, n);
  *out = origin;
  return SHMT_OK;
}

static shmt_status map_open_file(int fd, const char* path, uint64_t nbytes, int flags, void** out,
                                 shmt__file_origin** out_origin) {
  bool shared = flags & SHMT_FILE_SHARED, writable = flags & SHMT_FILE_WRITABLE;
  struct stat st;
  if (fstat(fd, &st) != 0)
    SHMT_FAIL(SHMT_E_RUNTIME, "unable to stat the file <%s>: %s (%d)", path, strerror(errno), errno);
  SHMT_REQUIRE(S_ISREG(st.st_mode), SHMT_E_RUNTIME, "unable to map file <%s>: it is no regular file (mode %o)", path,
               (unsigned)st.st_mode);
  SHMT_TRY(check_size(fd, &st, path, nbytes, shared ? flags : flags & ~SHMT_FILE_EXTEND));
  if (out_origin != NULL) {
    char* whole = realpath(path, NULL);
    shmt_status status = make_origin(&st, whole != NULL ? whole : path, out_origin);
    free(whole);
    if (status != SHMT_OK) return status;
  }
  int prot = PROT_READ | (writable ? PROT_WRITE : 0);
  void* p = mmap(NULL, nbytes, prot, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
  if (p != MAP_FAILED) {
    *out = p;
    return SHMT_OK;
  }
  int err = errno;
  if (out_origin != NULL) free(*out_origin);
  return shmt__fail_errno(err, "unable to mmap %" PRIu64 " bytes from file <%s>", nbytes, path);
}

static shmt_status check_same(int fd, int same_fd, const char* path) {
  uint64_t is[2] = {0, 0}, wanted[2] = {0, 0};
  bool same = same_fd < 0 || (shmt__os_file_identity(fd, is) && shmt__os_file_identity(same_fd, wanted) &&
                              is[0] == wanted[0] && is[1] == wanted[1]);
  SHMT_REQUIRE(same, SHMT_E_RUNTIME,
               "unable to map file <%s>: it is another file by now (inode %" PRIu64 ") than the one that was read "
               "(inode %" PRIu64 ")",
               path, is[1], wanted[1]);
  return SHMT_OK;
}

shmt_status shmt__os_file_map(const char* path, uint64_t nbytes, int flags, int same_fd, void** out,
                              shmt__file_origin** out_origin) {
  bool shared = flags & SHMT_FILE_SHARED, writable = flags & SHMT_FILE_WRITABLE;
  int open_flags = (shared && writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  SHMT_REQUIRE(nbytes <= PTRDIFF_MAX, SHMT_E_NOMEM, "mapping file <%s>: tried to map %" PRIu64 " bytes", path, nbytes);
  if (flags & SHMT_FILE_IS_OPEN) return map_open_file(same_fd, path, nbytes, flags, out, out_origin);
  if (shared && (flags & SHMT_FILE_CREATE)) open_flags |= O_CREAT;
  int fd = open(path, open_flags, 0600);
  if (fd < 0) return fail_open(path, flags, errno);
  shmt_status status = check_same(fd, same_fd, path);
  if (status == SHMT_OK) status = map_open_file(fd, path, nbytes, flags, out, out_origin);
  (void)close(fd);
  return status;
}

void shmt__os_file_unmap(void* p, uint64_t nbytes) { munmap(p, nbytes); }

shmt_status shmt__os_file_find(const shmt__file_origin* origin, uint64_t nbytes, int* out_fd) {
  struct stat st;
  const char* path = origin->path;
  int fd = open(path, O_PATH | O_CLOEXEC);
  SHMT_REQUIRE(fd >= 0, SHMT_E_RUNTIME,
               "the file <%s> was mapped here and cannot be found any more: %s (%d); was it renamed or deleted?", path,
               strerror(errno), errno);
  bool is_same = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_dev == origin->identity[0] &&
                 (uint64_t)st.st_ino == origin->identity[1];
  if (is_same && (uint64_t)st.st_size >= nbytes) {
    *out_fd = fd;
    return SHMT_OK;
  }
  (void)close(fd);
  SHMT_REQUIRE(is_same, SHMT_E_RUNTIME,
               "the file <%s> was mapped here as device %" PRIu64 " inode %" PRIu64
               ", and the path names another file now; was it replaced?",
               path, origin->identity[0], origin->identity[1]);
  SHMT_FAIL(SHMT_E_RUNTIME, "the file <%s> was mapped here with %" PRIu64 " bytes and has %" PRId64 " now", path,
            nbytes, (int64_t)st.st_size);
}

int shmt__os_file_as_found(int fd) {
  char link[32];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  return open(link, O_PATH | O_CLOEXEC);
}

bool shmt__os_file_is_found(int fd, uint64_t out_identity[2]) {
  struct stat st;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || !(flags & O_PATH) || !shmt__os_known_stat(fd, &st) || !S_ISREG(st.st_mode)) return false;
  out_identity[0] = (uint64_t)st.st_dev;
  out_identity[1] = (uint64_t)st.st_ino;
  return true;
}

/* The path of an open file, as the kernel knows it. */
static void read_path(int fd, char out[PATH_MAX]) {
  char link[32];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, out, PATH_MAX - 1);
  out[n > 0 ? n : 0] = '\0';
}

shmt_status shmt__os_file_map_found(int fd, const uint64_t identity[2], uint64_t nbytes, const char* path, void** out,
                                    shmt__file_origin** out_origin) {
  struct stat st;
  char current[PATH_MAX];
  uint64_t is[2] = {0, 0};
  if (path == NULL) {
    read_path(fd, current);
    path = current;
  }
  SHMT_REQUIRE(shmt__os_file_is_found(fd, is) && is[0] == identity[0] && is[1] == identity[1] && fstat(fd, &st) == 0,
               SHMT_E_HANDLE,
               "the file of a message is device %" PRIu64 " inode %" PRIu64 ", expected device %" PRIu64
               " inode %" PRIu64,
               is[0], is[1], identity[0], identity[1]);
  SHMT_REQUIRE((uint64_t)st.st_size >= nbytes, SHMT_E_HANDLE,
               "the file <%s> of a message has %" PRId64 " bytes, and had %" PRIu64 " when it was sent", path,
               (int64_t)st.st_size, nbytes);
  int writable = shmt__os_reopen(fd);
  SHMT_REQUIRE(writable >= 0, SHMT_E_HANDLE, "the file <%s> of a message cannot be opened for writing: %s (%d)", path,
               strerror(errno), errno);
  shmt_status status = make_origin(&st, path, out_origin);
  if (status == SHMT_OK) {
    status = shmt__os_map_shared(writable, nbytes, out);
    if (status != SHMT_OK) free(*out_origin);
  }
  (void)close(writable);
  return status;
}
