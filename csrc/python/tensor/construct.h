/* python/tensor/construct.h -- tensors from Python data: nested sequences, numbers, arrays, buffers. */
#ifndef SHMT_PYTHON_TENSOR_CONSTRUCT_H
#define SHMT_PYTHON_TENSOR_CONSTRUCT_H

#include "python/tensor/tensor_type.h"

/* All return 0 and a new reference in *out, or -1 with an exception. */

/* Copy data (numbers, nested sequences, arrays, buffers, a tensor) into a new tensor on the CPU.
 * dtype: SHMT_DTYPE_NONE infers it as torch does. */
int shmt__py_tensor_from_data(PyObject* data, shmt_dtype dtype, shmt_tensor** out);
/* The same into shared memory, when `shared`. */
int shmt__py_tensor_from_data_in(PyObject* data, shmt_dtype dtype, bool shared, shmt_tensor** out);
/* A copy of t in dtype (SHMT_DTYPE_NONE: its own), without history; in shared memory when `shared`. */
int shmt__py_copy_of(shmt_tensor* t, shmt_dtype dtype, bool shared, shmt_tensor** out);
/* A sequence used as an index: bool when all elements are, else integers. */
int shmt__py_index_sequence(PyObject* sequence, shmt_tensor** out);

/* numpy.c: a tensor that shares the memory of a NumPy array, read-only as the array is. only_read: the
 * program does not get it, so it needs no warning of that. */
int shmt__py_from_numpy(PyObject* array, bool only_read, shmt_tensor** out);
/* numpy.c: can anybody see the storage's memory but the tensors over this storage? For storages over memory of somebody
 * else (from_numpy, frombuffer, DLPack, parts of storages); false for any other. In doubt true. */
bool shmt__py_is_seen_elsewhere(const shmt_storage* s);
/* numpy.c: an array that NumPy made of what an object says (__array_interface__): do its elements lie inside the buffer
 * that it takes them from? NumPy does not look. 0, or -1 with a ValueError. See Note [What producers say]. */
int shmt__py_check_inside_base(PyObject* array);
/* numpy.c: a tensor over the memory of an array that goes into a message. NULL without an exception: it is not of the
 * simple kind, which is an array of no subclass, of a dtype of ours, that has its memory and can be written, or that
 * shows a shared tensor of its dtype. may_be_view: another array may have the memory. New reference. */
PyObject* shmt__py_tensor_of_simple_array(PyObject* array, bool may_be_view);
/* Is o a NumPy array? */
bool shmt__py_is_numpy_array(PyObject* o);
/* The dtype of a NumPy scalar; SHMT_DTYPE_NONE when o is none (or of a kind without dtype here). */
shmt_dtype shmt__py_numpy_scalar_dtype(PyObject* o);

/* An array, or anything that NumPy can look at without copying. New reference, or NULL (maybe with
 * an exception). */
PyObject* shmt__py_as_numpy_array(PyObject* data);
/* What another library shows through DLPack, as a tensor over its memory. New reference, or NULL
 * (maybe with an exception). */
PyObject* shmt__py_as_dlpack_tensor(PyObject* data);
/* 1: *out is a new tensor over all whole elements of the storage o, of the default dtype when dtype is NONE; 0: o is no
 * storage; -1 with an exception: it is closed, or of another dtype. */
int shmt__py_over_storage(PyObject* o, shmt_dtype dtype, shmt_tensor** out);
extern PyMethodDef shmt__py_construct_functions[];        /* constructors.c: tensor, as_tensor, from_numpy */
extern PyMethodDef shmt__py_construct_legacy_functions[]; /* _legacy_new */
extern PyMethodDef shmt__py_numpy_functions[];            /* frombuffer */
extern PyMethodDef shmt__py_buffer_functions[];           /* _pinned_view, _simple_array */
extern PyMethodDef shmt__py_foreach_functions[];          /* foreach.c: _foreach_rows, _foreach_flat */

#endif
