/* python/values/overloaded.h -- the arguments of a call whose classes answer it, and asking them in turn.
 *
 * For __torch_function__ these are arguments of the program's call, for __torch_dispatch__ those of an operator.
 */
#ifndef SHMT_PYTHON_VALUES_OVERLOADED_H
#define SHMT_PYTHON_VALUES_OVERLOADED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { SHMT_PY_FEW_OVERLOADED = 16 };

typedef struct shmt__py_overloaded {
  PyObject* few[SHMT_PY_FEW_OVERLOADED];
  PyObject** objects; /* owned, since a handler may empty the list that an argument is; one of each class, subclasses
                       * before their bases. `few`, or of the heap */
  int n, capacity;
} shmt__py_overloaded;

static inline void shmt__py_overloaded_init(shmt__py_overloaded* a) {
  a->objects = a->few;
  a->n = 0;
  a->capacity = SHMT_PY_FEW_OVERLOADED;
}
void shmt__py_overloaded_fini(shmt__py_overloaded* a);
/* Add o, unless one of its class is there. -1 with MemoryError. */
int shmt__py_overloaded_add(shmt__py_overloaded* a, PyObject* o);
/* Their classes, as a tuple. */
PyObject* shmt__py_overloaded_types(const shmt__py_overloaded* a);
/* The first answer of their methods called protocol; NotImplemented when nobody has one. kwargs may be NULL. */
PyObject* shmt__py_overloaded_call(const shmt__py_overloaded* a, PyObject* protocol, PyObject* function, PyObject* args,
                                   PyObject* kwargs);
/* Raise the TypeError that says so. name: of the function, "torch.add"; mode: one that was asked too, or NULL. */
PyObject* shmt__py_overloaded_refuse(const shmt__py_overloaded* a, PyObject* protocol, PyObject* name, PyObject* mode);

#endif
