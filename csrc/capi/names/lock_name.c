/* capi/names/lock_name.c -- the name behind a handle of a lock or a barrier. */
#include "capi/names/lock_name.h"

#include "ipc/service/service_internal.h"

#include <string.h>

shmtensor_status shmt__lock_name_init(const char* function, shmt_service* v, const char* name, uint32_t kind,
                                      uint32_t n, uint32_t most, shmt__lock_name* out) {
  const bool is_barrier = kind == SHMT_NAMED_LOCK_BARRIER;
  SHMT_NEED_THAT(n <= most && (n > 0 || !is_barrier), "%s(): %s must be %d to %u, got %u", function,
                 is_barrier ? "parties" : "n", is_barrier ? 1 : 0, most, n);
  out->kind = kind;
  out->n = n;
  memcpy(out->name, name, strlen(name) + 1);
  out->service = shmt__service_retain(v);
  shmt__mutex_init(&out->mutex, SHMT_MUTEX_PUBLIC_OBJECTS);
  shmt__opened_lock opened;
  const shmt_status status = shmt__lock_name_refresh(out, &opened);
  if (status == SHMT_OK) return SHMTENSOR_OK;
  shmt__lock_name_fini(out);
  return shmt__public_status(status);
}

void shmt__lock_name_fini(shmt__lock_name* l) {
  shmt_service_free(l->service);
  shmt__mutex_destroy(&l->mutex);
}

shmt_status shmt__lock_name_refresh(shmt__lock_name* l, shmt__opened_lock* out) {
  shmt__mutex_lock(&l->mutex);
  *out = l->opened;
  shmt__mutex_unlock(&l->mutex);
  SHMT_TRY(shmt__named_lock_refresh(l->service, l->name, l->kind, l->n, out));
  shmt__mutex_lock(&l->mutex);
  l->opened = *out;
  shmt__mutex_unlock(&l->mutex);
  return SHMT_OK;
}
