/* dispatch/trace.h -- seeing each call: printing it with its key, and recording it for a profiler.
 *
 * Printing is on by SHMTENSOR_SHOW_DISPATCH_TRACE=1 or shmt__trace_set. One line a call on stderr, indented by
 * the depth of calls inside calls:
 *   [call] op=[shmtensor::add.Tensor], key=[Autograd]
 *    [redispatch] op=[shmtensor::add.Tensor], key=[ADInplaceOrView]
 */
#ifndef SHMT_DISPATCH_TRACE_H
#define SHMT_DISPATCH_TRACE_H

#include "dispatch/operator.h"

/* Turn printing on or off for all threads; returns what it was. */
bool shmt__trace_set(bool on);
extern _Atomic bool shmt__trace_prints, shmt__trace_records; /* what shmt__trace_on stands for */
/* Let calls be recorded by dispatch/profile.c, or no longer. */
void shmt__trace_profile(bool on);

#endif
