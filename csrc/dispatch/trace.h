/* dispatch/trace.h -- printing each call and redispatch with its key.
 *
 * On by SHMTENSOR_SHOW_DISPATCH_TRACE=1 or shmt__trace_set. One line a call on stderr, indented by
 * the depth of calls inside calls:
 *   [call] op=[shmtensor::add.Tensor], key=[Autograd]
 *    [redispatch] op=[shmtensor::add.Tensor], key=[ADInplaceOrView]
 */
#ifndef SHMT_DISPATCH_TRACE_H
#define SHMT_DISPATCH_TRACE_H

#include "dispatch/operator.h"

/* Turn printing on or off for all threads; returns what it was. */
bool shmt__trace_set(bool on);

#endif
