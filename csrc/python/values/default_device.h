/* python/values/default_device.h -- the device of new tensors whose call names none.
 *
 * Each thread has a stack of devices entered by `with device:`, above the one that set_default_device() has set. Only
 * calls from Python use it; operators that make tensors for themselves do not. */
#ifndef SHMT_PYTHON_VALUES_DEFAULT_DEVICE_H
#define SHMT_PYTHON_VALUES_DEFAULT_DEVICE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/types.h"

/* SHMT_DEVICE_NONE while this thread has no default device. */
extern _Thread_local shmt_device shmt__tls_default_device;

/* `with device:`. enter returns -1 with MemoryError; leave does nothing when no device was entered. */
int shmt__py_enter_device(shmt_device device);
void shmt__py_leave_device(void);

/* set_default_device(); SHMT_DEVICE_NONE: no default any more. */
void shmt__py_set_default_device(shmt_device device);

#endif
