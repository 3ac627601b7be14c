/* os/stat.c -- what the kernel knows of a file, without asking whoever serves it. See os/stat.h. */
#define _GNU_SOURCE
#include "os/stat.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>

static bool known_stat(int dir, const char* name, int flags, struct stat* out) {
  struct statx st;
  if (statx(dir, name, flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) != 0) {
    const bool is_missing = errno == ENOSYS || errno == EPERM || errno == EINVAL; /* an old kernel, or a sandbox */
    return is_missing && fstatat(dir, name, out, flags) == 0;
  }
  *out = (struct stat){.st_dev = makedev(st.stx_dev_major, st.stx_dev_minor),
                       .st_ino = st.stx_ino,
                       .st_mode = st.stx_mode,
                       .st_nlink = st.stx_nlink,
                       .st_uid = st.stx_uid,
                       .st_gid = st.stx_gid,
                       .st_size = (off_t)st.stx_size};
  return true;
}

bool shmt__os_known_stat(int fd, struct stat* out) { return known_stat(fd, "", AT_EMPTY_PATH, out); }

bool shmt__os_known_stat_at(int dir, const char* name, struct stat* out) { return known_stat(dir, name, 0, out); }
