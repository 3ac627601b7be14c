/* python/call/sharing.c -- moving storages to shared memory from Python. */
#include "python/call/sharing.h"

#include "ipc/handle/share.h"
#include "python/gil.h"
#include "python/values/tensor_object.h"
#include "tensor/sparse.h"

enum { COPY_BYTES = 1 << 16 }; /* from here on the copy is made without the interpreter lock */

int shmt__py_prepare_sharing(void) {
  static bool done; /* under the interpreter lock */
  if (SHMT_LIKELY(done)) return 0;
  /* Names the session and the manager's program. */
  PyObject* module = PyImport_ImportModule("shmtensor._boundary.sharing");
  if (module == NULL) return -1;
  Py_DECREF(module);
  done = true;
  return 0;
}

shmt_status shmt__py_share_storage(shmt_storage* s) {
  shmt_status status;
  if (shmt__storage_is_shared(s)) return SHMT_OK;
  if (s->nbytes < COPY_BYTES) return shmt__storage_share(s);
  PyThreadState* saved = PyEval_SaveThread();
  status = shmt__storage_share(s);
  shmt__py_gil_restore(saved);
  return status;
}

PyObject* shmt__py_share_memory(PyObject* self, PyObject* unused) {
  (void)unused;
  if (shmt__py_prepare_sharing() < 0) return NULL;
  shmt_tensor* t = shmt__py_tensor(self);
  shmt_status status = SHMT_OK;
  if (t->sparse != NULL) {
    shmt_tensor* const parts[] = {t->sparse->compressed, t->sparse->indices, t->sparse->values};
    for (int i = 0; i < 3 && status == SHMT_OK; i++)
      if (parts[i] != NULL) status = shmt__py_share_storage(parts[i]->storage);
  } else {
    status = shmt__py_share_storage(t->storage);
  }
  return status == SHMT_OK ? Py_NewRef(self) : shmt__py_raise(status);
}
