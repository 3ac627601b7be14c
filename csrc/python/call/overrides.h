/* python/call/overrides.h -- __torch_function__: arguments whose class overrides calls.
 *
 * Who looks at the classes of arguments, and at the modes of the thread:
 *
 *   operators             call.c, after their arguments are parsed; an object of such a class fits any argument
 *   + [] len() and such   the slots of the type, in python/tensor
 *   other methods in C    python/overridable/methods.c
 *   functions in Python   python/overridable/functions.c
 *
 * What is asked when somebody answers is in shmtensor/overrides.py, but for operators, whose callers are many.
 */
#ifndef SHMT_PYTHON_CALL_OVERRIDES_H
#define SHMT_PYTHON_CALL_OVERRIDES_H

#include "python/call/call.h"
#include "python/call/parse.h"
#include "python/values/override_classes.h"

/* Call the __torch_function__ of the arguments in turn. sig: the signature that fits them. NULL without an exception:
 * no argument has one. */
SHMT_COLD PyObject* shmt__py_call_torch_function(const shmt__py_function* f, const shmt__py_prepared_signature* sig,
                                                 const shmt__py_call_args* call);

/* The arguments of a vectorcall as a tuple, self first unless it is NULL, and a dict. -1 with an exception. */
int shmt__py_pack_arguments(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, PyObject** tuple,
                            PyObject** dict);


/* Do modes or the classes of the operands answer for an operator? */
SHMT_COLD bool shmt__py_operands_answer(PyObject* x, PyObject* y);

/* The answer for x op y, or for op x when y is NULL; NotImplemented when there is none. forward names the method of
 * Tensor that is handed over, reflected the one for (y, x), which it is when x is no tensor. */
SHMT_COLD PyObject* shmt__py_answer_operator(const char* forward, const char* reflected, PyObject* x, PyObject* y);

/* The answer for a call of a method, or of __get__ and the like of a property. Takes args over, which may be NULL with
 * an exception; kwargs may be NULL. */
SHMT_COLD PyObject* shmt__py_answer_method(PyObject* function, PyObject* args, PyObject* kwargs);

/* The same for a function of shmtensor._C that makes a tensor of other objects: modes answer for it. */
SHMT_COLD PyObject* shmt__py_answer_factory(const char* name, PyObject* args, PyObject* kwargs);

/* Does an index, or something in it, answer? */
SHMT_COLD bool shmt__py_key_answers(PyObject* key);

/* The answer for self[key], or for self[key] = value when value is not NULL. */
SHMT_COLD PyObject* shmt__py_answer_subscript(PyObject* self, PyObject* key, PyObject* value);

extern PyMethodDef shmt__py_override_functions[];

#endif
