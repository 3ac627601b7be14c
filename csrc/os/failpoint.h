/* os/failpoint.h -- places where crash tests kill or stop the process.
 *
 * They are compiled in only with -DSHMT_FAILPOINTS, which the tests' own build sets. SHMTENSOR_FAILPOINT
 * is "name:path". The process that reaches the point of that name and can remove the file at path is
 * killed, or stopped when SHMTENSOR_FAILPOINT_STOPS is set. So each run kills exactly one process, the
 * first one there. The names are in spec/failpoints.yaml; any other name does not compile.
 */
#ifndef SHMT_OS_FAILPOINT_H
#define SHMT_OS_FAILPOINT_H

#include "generated/failpoints.h"

#ifdef SHMT_FAILPOINTS
void shmt__failpoint(const char* name);
#define SHMT_FAILPOINT(name) ((void)SHMT_POINT_##name, shmt__failpoint(#name))
#else
#define SHMT_FAILPOINT(name) ((void)SHMT_POINT_##name)
#endif

#endif
