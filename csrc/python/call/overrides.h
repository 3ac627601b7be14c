/* python/call/overrides.h -- __torch_function__: arguments whose class overrides calls.
 *
 * For methods, properties and operators, shmtensor/overrides.py puts wrappers into subclasses of Tensor that override
 * __torch_function__, so that they cost plain tensors nothing. Functions are handled here: after parsing, when an
 * operand was of such a class, and when parsing failed, since any object, not only a tensor, may have a
 * __torch_function__.
 */
#ifndef SHMT_PYTHON_CALL_OVERRIDES_H
#define SHMT_PYTHON_CALL_OVERRIDES_H

#include "python/call/call.h"
#include "python/call/parse.h"

/* Call the __torch_function__ of the arguments in turn. NULL without an exception: no argument has one. */
SHMT_COLD PyObject* shmt__py_call_torch_function(const shmt__py_function* f, const shmt__py_call_args* call);

/* Modes that are active on this thread: they are asked before the arguments, and about every call. */
extern _Thread_local int shmt__py_n_function_modes __attribute__((tls_model("initial-exec")));

extern PyMethodDef shmt__py_override_functions[];

#endif
