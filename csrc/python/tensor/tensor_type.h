/* python/tensor/tensor_type.h -- _TensorBase, the CPython type of tensors.
 *
 * python/values/tensor_object.h has the object itself; the files of this folder fill the type's slots and tables.
 */
#ifndef SHMT_PYTHON_TENSOR_TENSOR_TYPE_H
#define SHMT_PYTHON_TENSOR_TENSOR_TYPE_H

#include "python/values/tensor_object.h"

/* Make the type; 0 or -1. */
int shmt__py_tensor_type_init(PyObject* module);
/* "torch.FloatTensor": the old-style type name, for messages and type(). */
const char* shmt__py_legacy_type_name(const shmt_tensor* t, char* buf, size_t cap);

/* Add tables to the finished type; entries that exist already stay. NULL: none. 0 or -1. */
int shmt__py_add_tensor_methods(PyMethodDef* methods, PyGetSetDef* getset);
int shmt__py_add_operator_methods(PyMethodDef* methods); /* methods that go through shmt__py_call() */
/* How the collector sees the hooks of a tensor that only its wrapper holds; python/autograd/tensor_hooks.c installs
 * both. */
typedef struct shmt__py_hooks_gc {
  int (*visit)(shmt_tensor* t, visitproc visit, void* arg);
  void (*clear)(shmt_tensor* t);
} shmt__py_hooks_gc;
extern shmt__py_hooks_gc shmt__py_tensor_hooks_gc;
/* Slots and tables from the other files of this folder. */
extern PyMethodDef shmt__py_plain_methods[]; /* methods.c */
extern PyMethodDef shmt__py_to_methods[];    /* to.c */
extern PyMethodDef shmt__py_subclass_methods[]; /* subclasses.c */
extern PyGetSetDef shmt__py_plain_getset[];  /* getset.c */
PyObject* shmt__py_subscript(PyObject* self, PyObject* key);
int shmt__py_assign_subscript(PyObject* self, PyObject* key, PyObject* value);
Py_ssize_t shmt__py_length(PyObject* self);
PyObject* shmt__py_iter(PyObject* self);
int shmt__py_contains(PyObject* self, PyObject* value);
PyObject* shmt__py_richcompare(PyObject* a, PyObject* b, int op);
extern PyType_Slot shmt__py_number_slots[]; /* number.c; ends with {0, NULL} */
PyObject* shmt__py_legacy_new(PyTypeObject* type, PyObject* args,
                              PyObject* kwargs);                    /* construct_legacy.c */
int shmt__py_getbuffer(PyObject* self, Py_buffer* view, int flags); /* numpy.c */
void shmt__py_releasebuffer(PyObject* self, Py_buffer* view);

#endif
