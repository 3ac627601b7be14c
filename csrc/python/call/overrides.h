/* python/call/overrides.h -- objects that answer calls themselves: __torch_function__.
 *
 * Subclasses of Tensor that override it catch methods, properties and operators by wrappers that
 * shmtensor/overrides.py puts in the class, so those cost plain tensors nothing. Free functions are
 * caught here: after parsing, when an operand was of such a class, and when parsing failed, since an
 * argument may be no tensor at all and answer all the same.
 */
#ifndef SHMT_PYTHON_CALL_OVERRIDES_H
#define SHMT_PYTHON_CALL_OVERRIDES_H

#include "python/call/call.h"
#include "python/call/parse.h"

/* Ask the arguments' __torch_function__. NULL without an exception: nobody wants to answer. */
SHMT_COLD PyObject* shmt__py_call_torch_function(const shmt__py_function* f, const shmt__py_call_args* call);

extern PyMethodDef shmt__py_override_functions[];

#endif
