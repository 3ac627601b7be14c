/* os/failpoint.h -- places where crash tests kill the process.
 *
 * Compiled in only with -DSHMT_FAILPOINTS, which the tests' own build sets. There, the process that
 * reaches the point named in SHMTENSOR_FAILPOINT ("name:path") and can remove the file at path is
 * killed; so each run kills once, whoever comes first. The tests find the points in the sources.
 */
#ifndef SHMT_OS_FAILPOINT_H
#define SHMT_OS_FAILPOINT_H

#ifdef SHMT_FAILPOINTS
void shmt__failpoint(const char* name);
#define SHMT_FAILPOINT(name) shmt__failpoint(#name)
#else
#define SHMT_FAILPOINT(name) ((void)0)
#endif

#endif
