/* python/tensor/exchange/dlpack.h -- DLPack, the exchange format of array libraries.
 *
 * A capsule called "dltensor" (before version 1) or "dltensor_versioned" carries a managed tensor;
 * who takes it over renames the capsule and calls the deleter when done, on any thread.
 *
 * Source: the DLPack specification, versions 0.8 and 1.0. */
#ifndef SHMT_PYTHON_TENSOR_DLPACK_H
#define SHMT_PYTHON_TENSOR_DLPACK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "capi/shmtensor_dlpack.h"
#include "tensor/tensor.h"

/* A tensor over the memory of a capsule, or of an object with __dlpack__, which is asked for a copy as
 * `copy` (True, False, None) says. New reference, or NULL with an exception. */
PyObject* shmt__py_import_dlpack(PyObject* o, PyObject* copy);

/* 0 when other libraries can be shown the memory of t, or -1 with a BufferError that says why not. */
int shmt__py_check_exportable(const shmt_tensor* t);

/* A view of t, whose arrays belong to t. */
void shmt__dl_describe(const shmt_tensor* t, DLTensor* out);

/* t for another library: a new structure, which the library ends by its deleter. NULL: no memory. */
DLManagedTensorVersioned* shmt__dl_export(const shmt_tensor* t);

/* A tensor over m, which it consumes. New reference; or NULL with an exception, and m is still the caller's. */
PyObject* shmt__dl_import(DLManagedTensorVersioned* m);

/* The functions of this file as a table for C, a capsule for the type's attribute __dlpack_c_exchange_api__. New
 * reference, or NULL with an exception. */
PyObject* shmt__dl_exchange_api(void);

extern PyMethodDef shmt__py_dlpack_methods[];   /* of _TensorBase */
extern PyMethodDef shmt__py_dlpack_functions[]; /* of the module */

#endif
