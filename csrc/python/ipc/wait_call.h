/* python/ipc/wait_call.h -- runs operations of rings and topics that may wait.
 *
 * The first attempt is made with the interpreter lock held, since it takes less time than to release the lock. Only
 * waiting releases it. A signal ends a wait, so that its handlers run; then the wait continues with the time that is
 * left.
 */
#ifndef SHMT_PYTHON_IPC_WAIT_CALL_H
#define SHMT_PYTHON_IPC_WAIT_CALL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ipc/ring/ring.h"

/* An operation that may wait; the first member of what it works on. */
typedef struct shmt__py_wait_call {
  shmt__ring_result (*call)(struct shmt__py_wait_call* w, uint64_t deadline_ns);
  unsigned flags;  /* of shmt__ring_put */
  bool is_patient; /* put: KEEP after a moment without room */
} shmt__py_wait_call;

/* The deadline of a timeout: None waits for ever; seconds from now otherwise. False with an exception. */
bool shmt__py_deadline_of(PyObject* timeout, uint64_t* out_ns);
/* Run to the end or the deadline. SHMT_RING_INTERRUPTED: an exception is set. */
shmt__ring_result shmt__py_wait_call_run(shmt__py_wait_call* w, uint64_t deadline_ns);

#endif
