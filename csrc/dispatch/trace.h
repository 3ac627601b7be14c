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

/* True while calls are printed or recorded. */
extern bool shmt__trace_on;
/* A call begins; args are borrowed. Returns what shmt__trace_leave is to be given when it ends. */
int shmt__trace_enter(const shmt_operator* op, shmt_keyset ks, bool redispatch, const shmt_value* args);
void shmt__trace_leave(int done);

/* Does nothing observe the operators that a composite calls? That is: they are not recorded, and neither a mode, a
 * profiler nor a backend of another kind sees them. keys: the keys of the arguments. */
static inline bool shmt__is_unobserved_call(shmt_keyset keys) {
  const shmt_keyset unseen = SHMT_KEYBIT_CPU | SHMT_KEYBIT_ADInplaceOrView;
  return !shmt__trace_on &&
         (shmt__call_keys(keys) & ~(shmt__grad_enabled() ? unseen : unseen | SHMT_KEYBIT_Autograd)) == 0;
}

/* Turn printing on or off for all threads; returns what it was. */
bool shmt__trace_set(bool on);
extern _Atomic bool shmt__trace_prints, shmt__trace_records; /* what shmt__trace_on stands for */
/* Let calls be recorded by dispatch/profile.c, or no longer. */
void shmt__trace_profile(bool on);

#endif
