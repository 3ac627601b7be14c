/* os/failpoint.h -- places where crash tests kill or stop the process.
 *
 * Compiled in only with -DSHMT_FAILPOINTS, which the tests' own build sets. There, the process that
 * reaches the point named in SHMTENSOR_FAILPOINT ("name:path") and can remove the file at path is
 * killed, or stopped if it has SHMTENSOR_FAILPOINT_STOPS; so each run kills once, whoever comes first.
 * The names are in spec/failpoints.yaml; any other does not compile.
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
