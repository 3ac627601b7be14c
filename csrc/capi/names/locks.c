/* capi/names/locks.c -- locks of several permits by name. */
#include "capi/names/lock_name.h"
#include "os/futex.h"

#include <stdlib.h>
#include <string.h>

enum { SLICE_MS = 100, TRIES = 3 };

typedef struct permit {
  shmt__opened_lock opened;
  uint32_t slot;
} permit;

typedef struct lock_object {
  shmt__lock_name name;
  permit held[SHMT_NAMED_LOCK_SLOTS]; /* taken by this handle, oldest first; under the name's mutex */
  uint32_t n_held;
} lock_object;

#define USE_LOCK(name, handle) SHMT_USE(lock_object, name, SHMT_HANDLE_LOCK, handle)

static void end_lock(void* object) {
  lock_object* l = object;
  /* Those that were taken before a fork are the parent's, and not released here. */
  while (l->n_held > 0) {
    const permit* p = &l->held[--l->n_held];
    (void)shmt__named_lock_release(l->name.service, &p->opened, p->slot);
  }
  shmt__lock_name_fini(&l->name);
  free(l);
}

shmtensor_status shmtensor_lock_open(shmtensor_service* service, const char* name, uint32_t n, shmtensor_lock** out) {
  void* handle = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_NEED(out);
  lock_object* l = calloc(1, sizeof *l);
  if (l == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  const shmtensor_status status = shmt__lock_name_init(__func__, v, name, SHMT_NAMED_LOCK_SEMAPHORE, n,
                                                       SHMT_NAMED_LOCK_SLOTS, &l->name);
  if (status != SHMTENSOR_OK) {
    free(l);
    return status;
  }
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_LOCK, l, end_lock, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_lock_close(shmtensor_lock* lock) { return SHMT_CLOSE(SHMT_HANDLE_LOCK, lock); }

/* Note a permit. There is room: a lock has no more of them, but for those of before a fork. */
static void note(lock_object* l, permit p) {
  shmt__mutex_lock(&l->name.mutex);
  if (l->n_held == SHMT_NAMED_LOCK_SLOTS) {
    memmove(l->held, l->held + 1, (SHMT_NAMED_LOCK_SLOTS - 1) * sizeof l->held[0]);
    l->n_held--;
  }
  l->held[l->n_held++] = p;
  shmt__mutex_unlock(&l->name.mutex);
}

shmtensor_status shmtensor_lock_acquire(shmtensor_lock* lock, double timeout) {
  uint64_t deadline_ns = 0;
  int n_stale = 0;
  USE_LOCK(l, lock);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  const uint32_t n_signals = shmt__os_n_interrupted();
  for (;;) {
    permit p;
    shmt_status status = shmt__lock_name_refresh(&l->name, &p.opened);
    const int slice = shmt__slice_ms(deadline_ns, SLICE_MS);
    if (status == SHMT_OK) status = shmt__named_lock_acquire(l->name.service, &p.opened, slice, &p.slot);
    if (status == SHMT_OK) {
      note(l, p);
      return SHMTENSOR_OK;
    }
    if (status == SHMT_E_RUNTIME && n_stale++ < TRIES) continue; /* rejoined meanwhile */
    if (status != SHMT_E_TIMEOUT) return shmt__public_status(status);
    n_stale = 0;
    if (slice == 0)
      return shmt__public_fail(SHMTENSOR_E_TIMEOUT, "%s(): no permit of '%s' was free in time", __func__, l->name.name);
    if (shmt__os_n_interrupted() != n_signals)
      return shmt__public_fail(SHMTENSOR_E_INTERRUPTED, "%s(): a signal came", __func__);
    if (shmt__handle_is_closed(&l_use))
      return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): lock was closed meanwhile", __func__);
  }
}

shmtensor_status shmtensor_lock_release(shmtensor_lock* lock) {
  USE_LOCK(l, lock);
  permit p = {.slot = 0};
  shmt__mutex_lock(&l->name.mutex);
  const bool has_one = l->n_held > 0;
  if (has_one) p = l->held[--l->n_held];
  shmt__mutex_unlock(&l->name.mutex);
  if (!has_one)
    return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): no permit of '%s' was taken by this handle", __func__,
                             l->name.name);
  if (shmt__named_lock_release(l->name.service, &p.opened, p.slot) == SHMT_OK) return SHMTENSOR_OK;
  return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the permit of '%s' is not this process's", __func__, l->name.name);
}
