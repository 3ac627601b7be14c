/* python/values/descriptor.c -- _Descriptor, the Python object of a descriptor that is kept.
 *
 * The interpreter lock is kept while its identity is checked: a thread that released it would often have to wait for
 * it again, which takes many times as long as fstat(). */
#include "python/values/descriptor.h"

#include <errno.h>
#include <unistd.h>

PyTypeObject* shmt__py_descriptor_type; /* owned */

static PyObject* descriptor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* const keywords[] = {"number", "high", NULL};
  int number = -1, high = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i|p:_Descriptor", (char**)(uintptr_t)keywords, &number, &high))
    return NULL;
  shmt__py_descriptor* o = (shmt__py_descriptor*)type->tp_alloc(type, 0);
  if (o == NULL) {
    (void)close(number);
    return NULL;
  }
  o->kept = high ? shmt__descriptor_own(number) : shmt__descriptor_of(number);
  if (shmt__descriptor_is_kept(&o->kept)) return (PyObject*)o;
  Py_DECREF(o);
  errno = EBADF;
  return PyErr_SetFromErrno(PyExc_OSError);
}

static void descriptor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  shmt__descriptor_close(&((shmt__py_descriptor*)self)->kept);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* descriptor_fileno(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromLong(shmt__descriptor_number(&((shmt__py_descriptor*)self)->kept));
}

static PyObject* descriptor_close(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt__descriptor_close(&((shmt__py_descriptor*)self)->kept);
  Py_RETURN_NONE;
}

static PyMethodDef descriptor_methods[] = {
    {"fileno", descriptor_fileno, METH_NOARGS,
     "fileno($self)\n--\n\nThe number, to be used at once; -1: it was closed, or leads elsewhere by now."},
    {"close", descriptor_close, METH_NOARGS, "close($self)\n--\n\nClose it if it is still ours, and forget it."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot descriptor_slots[] = {
    {Py_tp_new, (void*)descriptor_new},
    {Py_tp_dealloc, (void*)descriptor_dealloc},
    {Py_tp_methods, descriptor_methods},
    {Py_tp_doc, (void*)"_Descriptor(number, high=True)\n--\n\n"
                       "A descriptor that is used and closed only while its number is still ours.\n\n"
                       "Args:\n    number: A close-on-exec descriptor, which belongs to this object from now on.\n"
                       "    high: Move it to a high number, if there is one. select.select needs a low one.\n\n"
                       "Raises:\n    OSError: It is no descriptor."},
    {0, NULL},
};
static PyType_Spec descriptor_spec = {.name = "shmtensor._C._Descriptor",
                                      .basicsize = sizeof(shmt__py_descriptor),
                                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                      .slots = descriptor_slots};

int shmt__py_descriptor_init(PyObject* module) {
  shmt__py_descriptor_type = (PyTypeObject*)PyType_FromSpec(&descriptor_spec);
  if (shmt__py_descriptor_type == NULL) return -1;
  return PyModule_AddObjectRef(module, "_Descriptor", (PyObject*)shmt__py_descriptor_type);
}
