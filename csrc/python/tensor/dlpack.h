/* python/tensor/dlpack.h -- DLPack, the exchange format of array libraries.
 *
 * A capsule called "dltensor" (before version 1) or "dltensor_versioned" carries a managed tensor;
 * who takes it over renames the capsule and calls the deleter when done, on any thread.
 *
 * Source: the DLPack specification, versions 0.8 and 1.0. */
#ifndef SHMT_PYTHON_TENSOR_DLPACK_H
#define SHMT_PYTHON_TENSOR_DLPACK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

enum { SHMT_DL_CPU = 1 };
enum {
  SHMT_DL_INT,
  SHMT_DL_UINT,
  SHMT_DL_FLOAT,
  SHMT_DL_OPAQUE,
  SHMT_DL_BFLOAT,
  SHMT_DL_COMPLEX,
  SHMT_DL_BOOL,
};
enum { SHMT_DL_READ_ONLY = 1 << 0, SHMT_DL_IS_COPIED = 1 << 1 };

typedef struct shmt__dl_tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t n_dims;
  uint8_t code; /* SHMT_DL_INT and on */
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides; /* elements; NULL: row-major */
  uint64_t byte_offset;
} shmt__dl_tensor;

typedef struct shmt__dl_managed {
  shmt__dl_tensor tensor;
  void* context;
  void (*deleter)(struct shmt__dl_managed*);
} shmt__dl_managed;

typedef struct shmt__dl_versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct shmt__dl_versioned*);
  uint64_t flags;
  shmt__dl_tensor tensor;
} shmt__dl_versioned;

_Static_assert(sizeof(shmt__dl_tensor) == 48 && offsetof(shmt__dl_tensor, shape) == 24, "as specified");
_Static_assert(offsetof(shmt__dl_managed, deleter) == 56, "as specified");
_Static_assert(offsetof(shmt__dl_versioned, tensor) == 32, "as specified");

/* A tensor over the memory of a capsule, or of an object with __dlpack__, which is asked for a copy as
 * `copy` (True, False, None) says. New reference, or NULL with an exception. */
PyObject* shmt__py_import_dlpack(PyObject* o, PyObject* copy);

/* 0 when other libraries can be shown the memory of t, or -1 with a BufferError that says why not. */
int shmt__py_check_exportable(const shmt_tensor* t);

/* A view of t, whose arrays belong to t. */
void shmt__dl_describe(const shmt_tensor* t, shmt__dl_tensor* out);

/* The dtype of t, SHMT_DTYPE_NONE if there is none like it. */
shmt_dtype shmt__dl_dtype(const shmt__dl_tensor* t);

/* t for another library: a new structure, which the library ends by its deleter. NULL: no memory. */
shmt__dl_versioned* shmt__dl_export(const shmt_tensor* t);

/* A tensor over m, which it consumes. New reference; or NULL with an exception, and m is still the caller's. */
PyObject* shmt__dl_import(shmt__dl_versioned* m);

/* The functions of this file as a table for C, a capsule for the type's attribute __dlpack_c_exchange_api__. New
 * reference, or NULL with an exception. */
PyObject* shmt__dl_exchange_api(void);

extern PyMethodDef shmt__py_dlpack_methods[];   /* of _TensorBase */
extern PyMethodDef shmt__py_dlpack_functions[]; /* of the module */

#endif
