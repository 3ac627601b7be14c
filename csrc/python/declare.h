/* python/declare.h -- what the extension module says about itself to the interpreter. */
#ifndef SHMT_PYTHON_DECLARE_H
#define SHMT_PYTHON_DECLARE_H

#include <Python.h>

/* The module that cffi made, or NULL with an exception set; consumes and returns it. cffi says of each module that
 * it runs without the interpreter lock. The types and functions of this one rely on the lock for their caches and free
 * lists, so a free-threaded interpreter has to switch it on when it loads the module. */
static inline PyObject* shmt__py_declare(PyObject* module) {
#ifdef Py_GIL_DISABLED
  if (module != NULL) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_USED);
#endif
  return module;
}

#endif
