/* python/overridable/methods.c -- methods and properties of tensors that let classes and modes answer.
 *
 * What is written by hand does not go through shmt__py_call(), which asks for operators. It is put into the type behind
 * a function that looks at the class of self: a comparison for a plain tensor. The function of a property finds what it
 * stands for in its closure. That of a method is told nothing, so there is one function for each method.
 */
#include "python/overridable/methods.h"

#include "python/call/overrides.h"
#include "python/values/tensor_object.h"

/* --- properties --------------------------------------------------------------------------- */

typedef struct overridable_property {
  const PyGetSetDef* plain;
  PyGetSetDef def;  /* of the descriptor, which refers to it */
  PyObject* descriptor;
} overridable_property;

static inline bool is_plain(PyObject* self) {
  return SHMT_LIKELY(shmt__py_is_plain(self) && shmt__py_n_function_modes == 0) ||
         !shmt__py_operands_answer(self, self);
}

static SHMT_COLD PyObject* answer_access(const overridable_property* p, const char* access, PyObject* self,
                                         PyObject* value) {
  PyObject* function = PyObject_GetAttrString(p->descriptor, access);
  if (function == NULL) return NULL;
  PyObject* r = shmt__py_answer_method(function, value ? PyTuple_Pack(2, self, value) : PyTuple_Pack(1, self), NULL);
  Py_DECREF(function);
  return r;
}

static PyObject* overridable_get(PyObject* self, void* closure) {
  const overridable_property* p = closure;
  return is_plain(self) ? p->plain->get(self, p->plain->closure) : answer_access(p, "__get__", self, NULL);
}

static int overridable_set(PyObject* self, PyObject* value, void* closure) {
  const overridable_property* p = closure;
  if (is_plain(self)) return p->plain->set(self, value, p->plain->closure);
  PyObject* r = answer_access(p, value ? "__set__" : "__delete__", self, value);
  Py_XDECREF(r);
  return r ? 0 : -1;
}

PyObject* shmt__py_overridable_property(PyTypeObject* type, PyGetSetDef* def) {
  overridable_property* p = PyMem_Calloc(1, sizeof *p); /* for the life of the process */
  if (p == NULL) return PyErr_NoMemory();
  p->plain = def;
  p->def = (PyGetSetDef){def->name, overridable_get, def->set ? overridable_set : NULL, def->doc, p};
  p->descriptor = PyDescr_NewGetSet(type, &p->def);
  if (p->descriptor == NULL) {
    PyMem_Free(p);
    return NULL;
  }
  return Py_NewRef(p->descriptor);
}

/* --- methods ------------------------------------------------------------------------------ */

typedef struct overridable_method {
  const PyMethodDef* plain;
  PyMethodDef def;
} overridable_method;

/* As many as there are functions below, of each kind. */
enum { MOST_SIMPLE = 64, MOST_FAST = 64, MOST_VARIADIC = 64 };
static overridable_method simple[MOST_SIMPLE], fast[MOST_FAST], variadic[MOST_VARIADIC];
static int n_simple, n_fast, n_variadic;

static SHMT_COLD PyObject* answer_method(const PyMethodDef* def, PyObject* args, PyObject* kwargs) {
  PyObject* function = PyObject_GetAttrString((PyObject*)shmt__py_tensor_type, def->ml_name);
  PyObject* r = NULL;
  if (function) r = shmt__py_answer_method(function, args, kwargs);
  else Py_XDECREF(args);
  Py_XDECREF(function);
  return r;
}

/* METH_NOARGS, METH_O */
static inline PyObject* call_simple(const overridable_method* m, PyObject* self, PyObject* arg) {
  if (is_plain(self) && (arg == NULL || shmt__py_is_plain(arg) || !shmt__py_operands_answer(arg, arg)))
    return m->plain->ml_meth(self, arg);
  return answer_method(m->plain, arg ? PyTuple_Pack(2, self, arg) : PyTuple_Pack(1, self), NULL);
}

static SHMT_COLD PyObject* answer_fast(const PyMethodDef* def, PyObject* self, PyObject* const* args, Py_ssize_t n,
                                       PyObject* kwnames) {
  PyObject *positional, *kwargs;
  if (shmt__py_pack_arguments(self, args, n, kwnames, &positional, &kwargs) < 0) return NULL;
  PyObject* r = answer_method(def, positional, kwargs);
  Py_DECREF(kwargs);
  return r;
}

typedef PyObject* (*fast_function)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

/* METH_FASTCALL | METH_KEYWORDS */
static inline PyObject* call_fast(const overridable_method* m, PyObject* self, PyObject* const* args, Py_ssize_t n,
                                  PyObject* kwnames) {
  if (SHMT_UNLIKELY(!is_plain(self))) return answer_fast(m->plain, self, args, n, kwnames);
  return ((fast_function)(void (*)(void))m->plain->ml_meth)(self, args, n, kwnames);
}

/* METH_VARARGS | METH_KEYWORDS */
static inline PyObject* call_variadic(const overridable_method* m, PyObject* self, PyObject* args, PyObject* kwargs) {
  if (is_plain(self)) return ((PyCFunctionWithKeywords)(void (*)(void))m->plain->ml_meth)(self, args, kwargs);
  PyObject* first = PyTuple_Pack(1, self);
  PyObject* all = first ? PySequence_Concat(first, args) : NULL;
  Py_XDECREF(first);
  return all ? answer_method(m->plain, all, kwargs) : NULL;
}

/* M(i) for i from 00 to 077, in octal: the functions have their number in their name. */
#define EIGHT(M, i) M(i##0) M(i##1) M(i##2) M(i##3) M(i##4) M(i##5) M(i##6) M(i##7)
#define ALL(M) EIGHT(M, 00) EIGHT(M, 01) EIGHT(M, 02) EIGHT(M, 03) EIGHT(M, 04) EIGHT(M, 05) EIGHT(M, 06) EIGHT(M, 07)

#define SIMPLE(i) \
  static PyObject* simple_##i(PyObject* self, PyObject* arg) { return call_simple(&simple[i], self, arg); }
#define FAST(i)                                                                                                     \
  static PyObject* fast_##i(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {              \
    return call_fast(&fast[i], self, args, n, kwnames);                                                             \
  }
#define VARIADIC(i)                                                                   \
  static PyObject* variadic_##i(PyObject* self, PyObject* args, PyObject* kwargs) {   \
    return call_variadic(&variadic[i], self, args, kwargs);                           \
  }
ALL(SIMPLE)
ALL(FAST)
ALL(VARIADIC)

#define SIMPLE_NAME(i) simple_##i,
#define FAST_NAME(i) (PyCFunction)(void (*)(void))fast_##i,
#define VARIADIC_NAME(i) (PyCFunction)(void (*)(void))variadic_##i,
static const PyCFunction simple_functions[] = {ALL(SIMPLE_NAME)};
static const PyCFunction fast_functions[] = {ALL(FAST_NAME)};
static const PyCFunction variadic_functions[] = {ALL(VARIADIC_NAME)};

/* The next place of a kind of method, or NULL with an exception. */
static overridable_method* place_of(int flags, PyCFunction* function) {
  if (flags & METH_FASTCALL && n_fast < MOST_FAST) {
    *function = fast_functions[n_fast];
    return &fast[n_fast++];
  }
  if (flags & METH_VARARGS && n_variadic < MOST_VARIADIC) {
    *function = variadic_functions[n_variadic];
    return &variadic[n_variadic++];
  }
  if (flags & (METH_NOARGS | METH_O) && n_simple < MOST_SIMPLE) {
    *function = simple_functions[n_simple];
    return &simple[n_simple++];
  }
  PyErr_SetString(PyExc_SystemError, "more methods of tensors than there are functions for");
  return NULL;
}

PyObject* shmt__py_overridable_method(PyTypeObject* type, PyMethodDef* def) {
  PyCFunction function;
  overridable_method* m = place_of(def->ml_flags, &function);
  if (m == NULL) return NULL;
  m->plain = def;
  m->def = (PyMethodDef){def->ml_name, function, def->ml_flags, def->ml_doc};
  return PyDescr_NewMethod(type, &m->def);
}
