/* python/values/device.c -- the device type, a kind with an optional index, and the default device. Only cpu and meta
 * have tensors. */
#include "python/values/default_device.h"
#include "python/values/types.h"

PyTypeObject* shmt__py_device_type;

/* By kind. The first two are those of shmt_device; the others are known by name only. */
static const char* const device_names[] = {
    "cpu",  "meta", "cuda", "xpu", "mtia", "hpu",  "ipu", "mkldnn", "opengl", "opencl",
    "ideep", "hip",  "ve",   "fpga", "maia", "xla", "lazy", "vulkan", "mps",    "privateuseone"};
enum { MTIA = 4, N_KINDS = sizeof device_names / sizeof *device_names };

static PyObject* device_create(int kind, int index) {
  shmt__py_device_object* d = PyObject_New(shmt__py_device_object, shmt__py_device_type);
  if (d == NULL) return NULL;
  d->kind = kind;
  d->index = index;
  return (PyObject*)d;
}

PyObject* shmt__py_from_device(shmt_device device) {
  static PyObject* cache[2];
  if (device < 0 || device > SHMT_META) Py_RETURN_NONE;
  if (cache[device] == NULL && (cache[device] = device_create(device, -1)) == NULL) return NULL;
  return Py_NewRef(cache[device]);
}

/* "cpu", "cpu:0", "cuda" -> kind and index (-1 when none is named). 0 or -1 with an exception. */
static int parse_device(const char* text, int* kind, int* index) {
  const char* colon = strchr(text, ':');
  size_t len = colon ? (size_t)(colon - text) : strlen(text);
  *index = -1;
  for (*kind = 0; *kind < N_KINDS; ++*kind)
    if (strlen(device_names[*kind]) == len && memcmp(text, device_names[*kind], len) == 0) break;
  if (*kind == N_KINDS) {
    PyErr_Format(PyExc_RuntimeError,
                 "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, "
                 "fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at "
                 "start of device string: %s",
                 text);
    return -1;
  }
  if (colon == NULL) return 0;
  const char* p = colon + 1;
  long value = 0;
  bool ok = *p != 0 && !(p[0] == '0' && p[1] != 0);
  for (; ok && *p; p++) {
    ok = *p >= '0' && *p <= '9' && value < 1000;
    value = value * 10 + (*p - '0');
  }
  if (!ok) {
    PyErr_Format(PyExc_RuntimeError, "Invalid device string: '%s'", text);
    return -1;
  }
  *index = (int)value;
  return 0;
}

/* The device of a kind: 1, or -1 with an exception where there are no tensors. */
static int usable(int kind, shmt_device* out) {
  if (kind <= SHMT_META) {
    *out = (shmt_device)kind;
    return 1;
  }
  char name[16] = "";
  for (size_t i = 0; device_names[kind][i]; i++)
    name[i] = (char)Py_TOUPPER(device_names[kind][i]);
  if (kind <= MTIA)
    PyErr_Format(PyExc_AssertionError, "Torch not compiled with %s enabled", name);
  else
    PyErr_Format(PyExc_NotImplementedError,
                 "Could not run the call with arguments from the '%s' backend: tensors live on cpu "
                 "or meta",
                 name);
  return -1;
}

static int refuse_index(void) {
  PyErr_SetString(PyExc_RuntimeError,
                  "Cannot access accelerator device when none is available.");
  return -1;
}

int shmt__py_as_device(PyObject* o, shmt_device* out) {
  if (Py_TYPE(o) == shmt__py_device_type)
    return usable(((shmt__py_device_object*)o)->kind, out);
  if (PyUnicode_Check(o)) {
    const char* text = PyUnicode_AsUTF8(o);
    int kind, index;
    if (text == NULL || parse_device(text, &kind, &index) < 0) return -1;
    return usable(kind, out);
  }
  return PyLong_Check(o) && !PyBool_Check(o) ? refuse_index() : 0;
}

static PyObject* device_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"type", "index", NULL};
  PyObject *what = NULL, *index_object = NULL;
  (void)type;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", (char**)names, &what, &index_object))
    return NULL;
  int kind, index = -1;
  if (Py_TYPE(what) == shmt__py_device_type && index_object == NULL) return Py_NewRef(what);
  if (PyUnicode_Check(what)) {
    const char* text = PyUnicode_AsUTF8(what);
    if (text == NULL || parse_device(text, &kind, &index) < 0) return NULL;
    if (index_object != NULL && index_object != Py_None) {
      if (index >= 0) {
        PyErr_Format(
            PyExc_RuntimeError,
            "type (string) must not include an index because index was passed explicitly: %s",
            text);
        return NULL;
      }
      long i = PyLong_AsLong(index_object);
      if (i == -1 && PyErr_Occurred()) return NULL;
      if (i < -1 || i > 127) {
        PyErr_Format(PyExc_RuntimeError, "Device index must be between -1 and 127, got %ld", i);
        return NULL;
      }
      index = (int)i;
    }
    return device_create(kind, index);
  }
  if (PyLong_Check(what) && !PyBool_Check(what))
    refuse_index();
  else
    PyErr_Format(PyExc_TypeError, "device(): argument 'type' (position 1) must be str, not %s",
                 Py_TYPE(what)->tp_name);
  return NULL;
}

static PyObject* device_repr(PyObject* self) {
  shmt__py_device_object* d = (shmt__py_device_object*)self;
  if (d->index < 0) return PyUnicode_FromFormat("device(type='%s')", device_names[d->kind]);
  return PyUnicode_FromFormat("device(type='%s', index=%d)", device_names[d->kind], d->index);
}

static PyObject* device_str(PyObject* self) {
  shmt__py_device_object* d = (shmt__py_device_object*)self;
  if (d->index < 0) return PyUnicode_FromString(device_names[d->kind]);
  return PyUnicode_FromFormat("%s:%d", device_names[d->kind], d->index);
}

static PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(a) != shmt__py_device_type || Py_TYPE(b) != shmt__py_device_type ||
      (op != Py_EQ && op != Py_NE))
    Py_RETURN_NOTIMPLEMENTED;
  shmt__py_device_object *x = (void*)a, *y = (void*)b;
  bool equal = x->kind == y->kind && x->index == y->index;
  return PyBool_FromLong(equal == (op == Py_EQ));
}

static Py_hash_t device_hash(PyObject* self) {
  shmt__py_device_object* d = (shmt__py_device_object*)self;
  return (Py_hash_t)(d->kind * 256 + d->index + 1);
}

static PyObject* device_type(PyObject* self, void* c) {
  (void)c;
  return PyUnicode_InternFromString(device_names[((shmt__py_device_object*)self)->kind]);
}

static PyObject* device_index(PyObject* self, void* c) {
  (void)c;
  int i = ((shmt__py_device_object*)self)->index;
  if (i < 0) Py_RETURN_NONE;
  return PyLong_FromLong(i);
}

static PyObject* device_reduce(PyObject* self, PyObject* unused) {
  (void)unused;
  shmt__py_device_object* d = (shmt__py_device_object*)self;
  if (d->index < 0)
    return Py_BuildValue("O(s)", (PyObject*)shmt__py_device_type, device_names[d->kind]);
  return Py_BuildValue("O(si)", (PyObject*)shmt__py_device_type, device_names[d->kind], d->index);
}

static PyObject* device_enter(PyObject* self, PyObject* unused) {
  shmt_device device = SHMT_CPU;
  (void)unused;
  if (shmt__py_as_device(self, &device) < 0 || shmt__py_enter_device(device) < 0) return NULL;
  return Py_NewRef(self);
}

static PyObject* device_exit(PyObject* self, PyObject* args) {
  (void)self, (void)args;
  shmt__py_leave_device();
  Py_RETURN_NONE;
}

static PyObject* set_default_device(PyObject* module, PyObject* o) {
  shmt_device device = SHMT_DEVICE_NONE;
  (void)module;
  int r = o == Py_None ? 1 : shmt__py_as_device(o, &device);
  if (r == 0)
    PyErr_Format(PyExc_TypeError, "set_default_device(): argument 'device' must be torch.device, not %s",
                 Py_TYPE(o)->tp_name);
  if (r != 1) return NULL;
  shmt__py_set_default_device(device);
  Py_RETURN_NONE;
}

static PyObject* get_default_device(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  const shmt_device device = shmt__tls_default_device;
  return shmt__py_from_device(device == SHMT_DEVICE_NONE ? SHMT_CPU : device);
}

static PyGetSetDef device_getset[] = {
    {"type", device_type, NULL, "Its kind: \"cpu\", \"meta\", or that of a device that is not here.", NULL},
    {"index", device_index, NULL, "The index given, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef device_methods[] = {
    {"__enter__", device_enter, METH_NOARGS,
     "Make new tensors here when their call names no device."},
    {"__exit__", device_exit, METH_VARARGS, "Make them where they were made before."},
    {"__reduce__", device_reduce, METH_NOARGS, "Pickle by name."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef shmt__py_device_functions[] = {
    {"set_default_device", set_default_device, METH_O,
     "set_default_device(device, /)\n--\n\nMake new tensors of this thread there when their call names no device; "
     "None: on the CPU again."},
    {"get_default_device", get_default_device, METH_NOARGS,
     "get_default_device()\n--\n\nWhere new tensors of this thread are made when their call names no device."},
    {NULL, NULL, 0, NULL},
};

static const char device_doc[] =
    "device(type, index=None)\n--\n\n"
    "Where a tensor's elements are: 'cpu', or 'meta', where tensors have shapes and no elements. "
    "Other\n"
    "kinds such as 'cuda' have a name, and no tensors. As a context manager, where new tensors are "
    "made\n"
    "when their call names no device.";

int shmt__py_device_init(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, device_new},
      {Py_tp_repr, device_repr},
      {Py_tp_str, device_str},
      {Py_tp_richcompare, device_compare},
      {Py_tp_hash, device_hash},
      {Py_tp_getset, device_getset},
      {Py_tp_methods, device_methods},
      {Py_tp_doc, (void*)device_doc},
      {0, NULL},
  };
  static PyType_Spec spec = {.name = "shmtensor.device",
                             .basicsize = sizeof(shmt__py_device_object),
                             .flags = Py_TPFLAGS_DEFAULT,
                             .slots = slots};
  shmt__py_device_type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (shmt__py_device_type == NULL) return -1;
  return PyModule_AddObjectRef(module, "device", (PyObject*)shmt__py_device_type);
}
