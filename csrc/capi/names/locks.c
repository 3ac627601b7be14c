/* capi/names/locks.c -- locks of several permits by name. */
#include "ipc/service/named_locks.h"

#include "capi/services.h"
#include "ipc/service/service_internal.h"
#include "os/mutex.h"
#include "shm/names.h"

#include <stdlib.h>
#include <string.h>

enum { SLICE_MS = 100, TRIES = 3 };

typedef struct permit {
  shmt__opened_lock opened;
  uint32_t slot;
} permit;

typedef struct lock_object {
  shmt_service* service; /* owned */
  shmt__opened_lock opened;
  uint32_t n;
  permit held[SHMT_NAMED_LOCK_SLOTS]; /* taken by this handle, oldest first */
  uint32_t n_held;
  shmt__mutex mutex; /* guards `opened` and the permits */
  char name[SHMT_NAME_BYTES];
} lock_object;

#define USE_LOCK(name, handle) SHMT_USE(lock_object, name, SHMT_HANDLE_LOCK, handle)

static void end_lock(void* object) {
  lock_object* l = object;
  /* Those that were taken before a fork are the parent's, and not released here. */
  while (l->n_held > 0) {
    const permit* p = &l->held[--l->n_held];
    (void)shmt__named_lock_release(l->service, &p->opened, p->slot);
  }
  shmt_service_free(l->service);
  shmt__mutex_destroy(&l->mutex);
  free(l);
}

/* Open it anew where this process is another client by now. */
static shmt_status refresh(lock_object* l, shmt__opened_lock* out) {
  shmt__mutex_lock(&l->mutex);
  *out = l->opened;
  shmt__mutex_unlock(&l->mutex);
  SHMT_TRY(shmt__named_lock_refresh(l->service, l->name, SHMT_NAMED_LOCK_SEMAPHORE, l->n, out));
  shmt__mutex_lock(&l->mutex);
  l->opened = *out;
  shmt__mutex_unlock(&l->mutex);
  return SHMT_OK;
}

shmtensor_status shmtensor_lock_open(shmtensor_service* service, const char* name, uint32_t n, shmtensor_lock** out) {
  void* handle = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_NEED(name);
  SHMT_NEED(out);
  SHMT_NEED_THAT(strlen(name) > 0 && strlen(name) < SHMT_NAME_BYTES, "%s(): name has %zu bytes", __func__,
                 strlen(name));
  SHMT_NEED_THAT(n > 0 && n <= SHMT_NAMED_LOCK_SLOTS, "%s(): n must be 1 to %d, got %u", __func__,
                 SHMT_NAMED_LOCK_SLOTS, n);
  lock_object* l = calloc(1, sizeof *l);
  if (l == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  l->n = n;
  memcpy(l->name, name, strlen(name) + 1);
  l->service = shmt__service_retain(v);
  shmt__mutex_init(&l->mutex, SHMT_MUTEX_PUBLIC_OBJECTS);
  shmt__opened_lock opened;
  const shmt_status status = refresh(l, &opened);
  if (status != SHMT_OK) {
    end_lock(l);
    return shmt__public_status(status);
  }
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_LOCK, l, end_lock, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_lock_close(shmtensor_lock* lock) { return SHMT_CLOSE(SHMT_HANDLE_LOCK, lock); }

/* Note a permit. There is room: a lock has no more of them, but for those of before a fork. */
static void note(lock_object* l, permit p) {
  shmt__mutex_lock(&l->mutex);
  if (l->n_held == SHMT_NAMED_LOCK_SLOTS) {
    memmove(l->held, l->held + 1, (SHMT_NAMED_LOCK_SLOTS - 1) * sizeof l->held[0]);
    l->n_held--;
  }
  l->held[l->n_held++] = p;
  shmt__mutex_unlock(&l->mutex);
}

shmtensor_status shmtensor_lock_acquire(shmtensor_lock* lock, double timeout) {
  uint64_t deadline_ns = 0;
  int n_stale = 0;
  USE_LOCK(l, lock);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  const uint32_t n_signals = shmt__os_n_interrupted();
  for (;;) {
    permit p;
    shmt_status status = refresh(l, &p.opened);
    const int slice = shmt__slice_ms(deadline_ns, SLICE_MS);
    if (status == SHMT_OK) status = shmt__named_lock_acquire(l->service, &p.opened, slice, &p.slot);
    if (status == SHMT_OK) {
      note(l, p);
      return SHMTENSOR_OK;
    }
    if (status == SHMT_E_RUNTIME && n_stale++ < TRIES) continue; /* rejoined meanwhile */
    if (status != SHMT_E_TIMEOUT) return shmt__public_status(status);
    if (slice == 0)
      return shmt__public_fail(SHMTENSOR_E_TIMEOUT, "%s(): no permit of '%s' was free in time", __func__, l->name);
    if (shmt__os_n_interrupted() != n_signals)
      return shmt__public_fail(SHMTENSOR_E_INTERRUPTED, "%s(): a signal came", __func__);
    if (shmt__handle_is_closed(&l_use))
      return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): lock was closed meanwhile", __func__);
  }
}

shmtensor_status shmtensor_lock_release(shmtensor_lock* lock) {
  USE_LOCK(l, lock);
  permit p = {.slot = 0};
  shmt__mutex_lock(&l->mutex);
  const bool has_one = l->n_held > 0;
  if (has_one) p = l->held[--l->n_held];
  shmt__mutex_unlock(&l->mutex);
  if (!has_one)
    return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): no permit of '%s' was taken by this handle", __func__, l->name);
  if (shmt__named_lock_release(l->service, &p.opened, p.slot) == SHMT_OK) return SHMTENSOR_OK;
  return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the permit of '%s' is not this process's", __func__, l->name);
}
