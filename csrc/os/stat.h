/* os/stat.h -- what the kernel knows of a file, without asking whoever serves it.
 *
 * fstat() of a file of FUSE or of another machine asks the file's server and waits for the answer. The process that
 * sent us the descriptor may be that server, and never answer. Where only a file's identity, kind and owner are wanted,
 * what the kernel knows already is enough: they do not change.
 */
#ifndef SHMT_OS_STAT_H
#define SHMT_OS_STAT_H

#include <stdbool.h>
#include <sys/stat.h>

/* Like fstat(), for any descriptor, but waits for nobody: the size may be an old one where the kernel is not the one
 * that keeps the file. Of the times nothing is told. False, with errno: fd is invalid. */
bool shmt__os_known_stat(int fd, struct stat* out);
/* The same, of the file that a name in the folder `dir` leads to. */
bool shmt__os_known_stat_at(int dir, const char* name, struct stat* out);

#endif
