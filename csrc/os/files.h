/* os/files.h -- files that the program names: mapping them, and finding them again. */
#ifndef SHMT_OS_FILES_H
#define SHMT_OS_FILES_H

#include "base/error.h"

enum {
  SHMT_FILE_SHARED = 1 << 0,   /* MAP_SHARED: writes reach the file */
  SHMT_FILE_WRITABLE = 1 << 1, /* without SHARED: writes stay in this process's memory */
  SHMT_FILE_CREATE = 1 << 2,   /* make the file when it does not exist; needs SHARED */
  SHMT_FILE_EXTEND = 1 << 3,   /* grow the file to nbytes; needs SHARED */
  SHMT_FILE_IS_OPEN = 1 << 4,  /* the program has opened it: same_fd is what is mapped, whatever the path names */
};

/* Which file a mapping shows, and under which path it was when it was mapped. The identity (device and inode) decides;
 * the path is a place to look. */
typedef struct shmt__file_origin {
  uint64_t identity[2];
  char path[];
} shmt__file_origin;

/* Map nbytes of the file at path from its start. Only regular files are mapped; opening a pipe waits for nobody.
 *
 * nbytes  > 0
 * same_fd: a descriptor of the file that it must be, because the program has read what is in it; -1: any. With
 *          SHMT_FILE_IS_OPEN this descriptor is mapped, and the path only says where the file can be found; CREATE is
 *          without effect then
 * *out_origin: where it comes from; free() releases it. NULL: the caller does not ask.
 * Errors: SHMT_E_RUNTIME "unable to open file <path> in read-only mode: No such file or directory (2)",
 *         "file <path> size <n> is smaller than the required mapping size <m>", "... it is no regular file",
 *         "... it is another file by now"; SHMT_E_NOMEM.
 * Ownership: the mapping is the caller's; shmt__os_file_unmap releases it. */
shmt_status shmt__os_file_map(const char* path, uint64_t nbytes, int flags, int same_fd, void** out,
                              shmt__file_origin** out_origin);
void shmt__os_file_unmap(void* p, uint64_t nbytes);

/* Find a mapped file again by its path. The descriptor can only be asked what it is, sent, and opened anew; closing it
 * never waits for a disk or another machine. Errors: SHMT_E_RUNTIME (the path names no file or another one by now; or
 * the file has less than nbytes). Ownership: the caller closes *out_fd. */
shmt_status shmt__os_file_find(const shmt__file_origin* origin, uint64_t nbytes, int* out_fd);
/* Such a descriptor of an open file. Returns it, or -1 with errno. Ownership: the caller closes it. */
int shmt__os_file_as_found(int fd);
/* Is fd such a descriptor of a regular file? *out_identity: of the file. */
bool shmt__os_file_is_found(int fd, uint64_t out_identity[2]);
/* Map the first nbytes of the file behind such a descriptor, shared and writable. identity: what it must be.
 * path: where it can be found; NULL: where the kernel says. *out_origin as above, with that path. Errors: SHMT_E_HANDLE
 * with the values; SHMT_E_NOMEM. Ownership: fd stays the caller's, the mapping becomes it. */
shmt_status shmt__os_file_map_found(int fd, const uint64_t identity[2], uint64_t nbytes, const char* path, void** out,
                                    shmt__file_origin** out_origin);

#endif
