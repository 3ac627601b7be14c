/* python/values/generator.c -- the Generator type: random states, seeds and streams. */
#include "api/random.h"
#include "python/call/convert.h"
#include "python/values/tensor_object.h"
#include "python/values/types.h"

PyTypeObject* shmt__py_generator_type;

typedef struct generator_object {
  PyObject_HEAD shmt_generator* g; /* owned */
} generator_object;

static shmt_generator* of(PyObject* self) { return ((generator_object*)self)->g; }

/* Consumes g. */
static PyObject* wrap_generator(PyTypeObject* type, shmt_generator* g) {
  generator_object* o = (generator_object*)type->tp_alloc(type, 0);
  if (o == NULL) {
    shmt_generator_release(g);
    return NULL;
  }
  o->g = g;
  return (PyObject*)o;
}

PyObject* shmt__py_from_generator(shmt_generator* g) {
  static PyObject* default_object;
  if (g == shmt_generator_default()) {
    if (default_object == NULL) {
      shmt_generator_retain(g);
      if ((default_object = wrap_generator(shmt__py_generator_type, g)) == NULL) return NULL;
    }
    return Py_NewRef(default_object);
  }
  shmt_generator_retain(g);
  return wrap_generator(shmt__py_generator_type, g);
}

shmt_generator* shmt__py_as_generator(PyObject* o) {
  return PyObject_TypeCheck(o, shmt__py_generator_type) ? of(o) : NULL;
}

static PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"device", NULL};
  PyObject* device_object = NULL;
  shmt_device device = SHMT_CPU;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", (char**)names, &device_object))
    return NULL;
  if (device_object != NULL && device_object != Py_None) {
    int r = shmt__py_as_device(device_object, &device);
    if (r == 0)
      PyErr_Format(PyExc_TypeError, "Generator(): argument 'device' must be torch.device, not %s",
                   Py_TYPE(device_object)->tp_name);
    if (r != 1) return NULL;
    if (device != SHMT_CPU) {
      PyErr_SetString(PyExc_RuntimeError,
                      "Generator(): random numbers are made on the cpu device only");
      return NULL;
    }
  }
  shmt_generator* g;
  shmt_status s = shmt_generator_create(&g);
  return s == SHMT_OK ? wrap_generator(type, g) : shmt__py_raise(s);
}

static void generator_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  shmt_generator_release(of(self));
  type->tp_free(self);
  Py_DECREF(type);
}

/* Whether o is an integer of Python or NumPy: no bool, and no tensor. */
static bool is_integer(PyObject* o) {
  return PyIndex_Check(o) && !PyBool_Check(o) && !shmt__py_is_tensor(o);
}

/* Reads a seed; negative ones wrap, as torch's do. False: an error is set. */
static bool as_seed(PyObject* seed, uint64_t* out) {
  PyObject* i = PyNumber_Index(seed);
  if (i == NULL) return false;
  int overflow;
  uint64_t value = (uint64_t)PyLong_AsLongLongAndOverflow(i, &overflow);
  if (overflow > 0) {
    overflow = 0;
    value = PyLong_AsUnsignedLongLong(i);
    if (value == (uint64_t)-1 && PyErr_Occurred()) {
      PyErr_Clear();
      overflow = 1;
    }
  }
  Py_DECREF(i);
  *out = value;
  if (overflow != 0) shmt__py_raise_int_overflow();
  return overflow == 0;
}

static PyObject* manual_seed(PyObject* self, PyObject* seed) {
  uint64_t value;
  if (!is_integer(seed)) {
    PyErr_Format(PyExc_RuntimeError, "manual_seed expected a long, but got %s", Py_TYPE(seed)->tp_name);
    return NULL;
  }
  if (!as_seed(seed, &value)) return NULL;
  shmt_generator_manual_seed(of(self), value);
  return Py_NewRef(self);
}

/* Streams of other devices have offsets, and states that graphs capture. */
static PyObject* get_offset(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  PyErr_SetString(PyExc_RuntimeError, "CPU Generator does not use offset");
  return NULL;
}

static PyObject* set_offset(PyObject* self, PyObject* offset) {
  if (is_integer(offset)) return get_offset(self, NULL);
  PyErr_Format(PyExc_RuntimeError, "manual_offset expected a long, but got %s", Py_TYPE(offset)->tp_name);
  return NULL;
}

static PyObject* graphsafe_get_state(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  PyErr_SetString(PyExc_NotImplementedError, "graphsafe_get_state is not supported in this Generator");
  return NULL;
}

static PyObject* graphsafe_set_state(PyObject* self, PyObject* state) {
  (void)self;
  if (shmt__py_as_generator(state) == NULL)
    PyErr_Format(PyExc_TypeError, "expected a Generator, but got %s", Py_TYPE(state)->tp_name);
  else
    PyErr_SetString(PyExc_NotImplementedError, "graphsafe_set_state is not supported in this Generator");
  return NULL;
}

static PyObject* seed(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(shmt_generator_seed(of(self)));
}

static PyObject* initial_seed(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(shmt_generator_initial_seed(of(self)));
}

static PyObject* get_state(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt_tensor* t = NULL;
  int64_t n = shmt_generator_state_size();
  shmt_status s =
      shmt__tensor_empty((shmt_ints){&n, 1}, SHMT_UINT8, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &t);
  if (s != SHMT_OK) return shmt__py_raise(s);
  shmt_generator_get_state(of(self), shmt__tensor_data(t));
  return shmt__py_wrap(t);
}

static PyObject* set_state(PyObject* self, PyObject* state) {
  if (!shmt__py_is_tensor(state)) {
    PyErr_Format(PyExc_TypeError, "expected a torch.ByteTensor, but got %s",
                 Py_TYPE(state)->tp_name);
    return NULL;
  }
  shmt_tensor* t = shmt__py_tensor(state);
  if (t->dtype != SHMT_UINT8 || shmt__tensor_is_meta(t) || !shmt__tensor_is_contiguous(t)) {
    PyErr_SetString(PyExc_TypeError, "RNG state must be a torch.ByteTensor");
    return NULL;
  }
  shmt_status s = shmt__check_has_memory(t);
  if (s == SHMT_OK) s = shmt_generator_set_state(of(self), shmt__tensor_data(t), t->numel);
  return s == SHMT_OK ? Py_NewRef(self) : shmt__py_raise(s);
}

static PyObject* clone_state(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt_generator* g;
  shmt_status s = shmt_generator_clone(of(self), &g);
  return s == SHMT_OK ? wrap_generator(shmt__py_generator_type, g) : shmt__py_raise(s);
}

static PyObject* generator_reduce(PyObject* self, PyObject* unused) {
  PyObject* state = get_state(self, unused);
  PyObject* device = state ? shmt__py_from_device(SHMT_CPU) : NULL;
  if (device == NULL) {
    Py_XDECREF(state);
    return NULL;
  }
  unsigned long long seed = shmt_generator_initial_seed(of(self));
  return Py_BuildValue("O(N)(KON)", (PyObject*)Py_TYPE(self), device, seed, Py_None, state);
}

/* Takes torch's tuple of seed, offset and state; the state alone is what earlier versions pickled. */
static PyObject* generator_setstate(PyObject* self, PyObject* state) {
  PyObject *seed = NULL, *offset;
  uint64_t unused;
  if (PyTuple_Check(state) && !PyArg_ParseTuple(state, "OOO", &seed, &offset, &state)) return NULL;
  if (seed != NULL && !as_seed(seed, &unused)) return NULL;
  PyObject* r = set_state(self, state);
  if (r == NULL) return NULL;
  Py_DECREF(r);
  Py_RETURN_NONE;
}

static PyObject* get_device(PyObject* self, void* c) {
  (void)self, (void)c;
  return shmt__py_from_device(SHMT_CPU);
}

static PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O,
     "manual_seed($self, seed, /)\n--\n\nStart the stream of this seed, an int of at most 64 bits; "
     "returns the generator."},
    {"seed", seed, METH_NOARGS,
     "seed($self)\n--\n\nSeed with a number from the operating system, and return it."},
    {"initial_seed", initial_seed, METH_NOARGS,
     "initial_seed($self)\n--\n\nThe seed that the stream was started with."},
    {"get_state", get_state, METH_NOARGS,
     "get_state($self)\n--\n\nThe state as a tensor of bytes, for set_state."},
    {"set_state", set_state, METH_O,
     "set_state($self, state, /)\n--\n\nContinue from a state that get_state gave.\n\nRaises RuntimeError "
     "if it is not a state, TypeError if it is not a tensor of bytes."},
    {"clone_state", clone_state, METH_NOARGS,
     "clone_state($self)\n--\n\nAnother generator in the same state."},
    {"get_offset", get_offset, METH_NOARGS, "get_offset($self)\n--\n\nRaises RuntimeError: this stream has none."},
    {"set_offset", set_offset, METH_O,
     "set_offset($self, offset, /)\n--\n\nRaises RuntimeError: this stream has none."},
    {"graphsafe_get_state", graphsafe_get_state, METH_NOARGS,
     "graphsafe_get_state($self)\n--\n\nRaises NotImplementedError: no graph captures this stream."},
    {"graphsafe_set_state", graphsafe_set_state, METH_O,
     "graphsafe_set_state($self, state, /)\n--\n\nRaises NotImplementedError: no graph captures this stream."},
    {"__reduce__", generator_reduce, METH_NOARGS, "Pickle by state."},
    {"__setstate__", generator_setstate, METH_O, "Continue from a pickled state."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"device", get_device, NULL, "Where it draws numbers: the CPU.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

int shmt__py_generator_init(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, generator_new},
      {Py_tp_dealloc, generator_dealloc},
      {Py_tp_methods, methods},
      {Py_tp_getset, getset},
      {Py_tp_doc, (void*)"A stream of random numbers."},
      {0, NULL},
  };
  static PyType_Spec spec = {.name = "shmtensor.Generator",
                             .basicsize = sizeof(generator_object),
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                             .slots = slots};
  shmt__py_generator_type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (shmt__py_generator_type == NULL) return -1;
  if (PyModule_AddObjectRef(module, "Generator", (PyObject*)shmt__py_generator_type) < 0) return -1;
  PyObject* d = shmt__py_from_generator(shmt_generator_default());
  int r = d ? PyModule_AddObjectRef(module, "default_generator", d) : -1;
  Py_XDECREF(d);
  return r;
}
