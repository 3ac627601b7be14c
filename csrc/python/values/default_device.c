/* python/values/default_device.c -- set_default_device() and `with device:`. */
#include "python/values/default_device.h"

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

void shmt__py_set_default_device(shmt_device device) {
  lowest = device;
  update_default_device();
}
