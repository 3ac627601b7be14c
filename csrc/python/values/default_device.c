/* python/values/default_device.c -- set_default_device() and `with device:`. */
#include "python/values/default_device.h"

#include "python/values/types.h"

typedef struct entered {
  struct entered* below;
  shmt_device device;
} entered;

_Thread_local shmt_device shmt__tls_default_device = SHMT_DEVICE_NONE;
static _Thread_local shmt_device lowest = SHMT_DEVICE_NONE; /* what set_default_device() has set */
static _Thread_local entered* innermost;

static void update_default_device(void) { shmt__tls_default_device = innermost ? innermost->device : lowest; }

int shmt__py_enter_device(shmt_device device) {
  entered* e = PyMem_Malloc(sizeof *e);
  if (e == NULL) {
    (void)PyErr_NoMemory();
    return -1;
  }
  *e = (entered){innermost, device};
  innermost = e;
  update_default_device();
  return 0;
}

void shmt__py_leave_device(void) {
  entered* e = innermost;
  if (e == NULL) return;
  innermost = e->below;
  PyMem_Free(e);
  update_default_device();
}

static PyObject* set_default_device(PyObject* module, PyObject* o) {
  shmt_device device = SHMT_DEVICE_NONE;
  (void)module;
  int r = o == Py_None ? 1 : shmt__py_as_device(o, &device);
  if (r == 0)
    PyErr_Format(PyExc_TypeError, "set_default_device(): argument 'device' must be torch.device, not %s",
                 Py_TYPE(o)->tp_name);
  if (r != 1) return NULL;
  lowest = device;
  update_default_device();
  Py_RETURN_NONE;
}

static PyObject* get_default_device(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  const shmt_device device = shmt__tls_default_device;
  return shmt__py_from_device(device == SHMT_DEVICE_NONE ? SHMT_CPU : device);
}

PyMethodDef shmt__py_default_device_functions[] = {
    {"set_default_device", set_default_device, METH_O,
     "set_default_device(device)\n--\n\nMake new tensors of this thread there when their call names no device; "
     "None: on the CPU again."},
    {"get_default_device", get_default_device, METH_NOARGS,
     "get_default_device()\n--\n\nWhere new tensors of this thread are made when their call names no device."},
    {NULL, NULL, 0, NULL},
};
