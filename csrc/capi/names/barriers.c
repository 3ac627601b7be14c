/* capi/names/barriers.c -- barriers by name. */
#include "capi/names/lock_name.h"
#include "os/futex.h"

#include <stdlib.h>

enum { SLICE_MS = 100, LEAVING_MS = 1, TRIES = 3 };

#define USE_BARRIER(name, handle) SHMT_USE(shmt__lock_name, name, SHMT_HANDLE_BARRIER, handle)

static void end_barrier(void* object) {
  shmt__lock_name_fini(object);
  free(object);
}

shmtensor_status shmtensor_barrier_open(shmtensor_service* service, const char* name, uint32_t parties,
                                        shmtensor_barrier** out) {
  void* handle = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_NEED(out);
  shmt__lock_name* b = calloc(1, sizeof *b);
  if (b == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  const shmtensor_status status =
      shmt__lock_name_init(__func__, v, name, SHMT_NAMED_LOCK_BARRIER, parties, SHMT_BARRIER_SLOTS, b);
  if (status != SHMTENSOR_OK) {
    free(b);
    return status;
  }
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_BARRIER, b, end_barrier, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_barrier_close(shmtensor_barrier* barrier) {
  return SHMT_CLOSE(SHMT_HANDLE_BARRIER, barrier);
}

/* --- waiting --- */

typedef struct arrival {
  shmt__opened_lock opened;
  uint32_t slot, phase;
  bool is_last;
} arrival;

/* Why a wait is not to go on: a signal, or the handle is closed. */
static shmtensor_status check_wanted(const char* function, const shmt__handle_use* use, uint32_t n_signals) {
  if (shmt__os_n_interrupted() != n_signals)
    return shmt__public_fail(SHMTENSOR_E_INTERRUPTED, "%s(): a signal came", function);
  if (shmt__handle_is_closed(use))
    return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): barrier was closed meanwhile", function);
  return SHMTENSOR_OK;
}

static shmtensor_status fail_late(const char* function, shmt__lock_name* b, const shmt__opened_lock* opened) {
  uint32_t n_missing = b->n;
  (void)shmt__named_lock_value(b->service, opened, &n_missing);
  return shmt__public_fail(SHMTENSOR_E_TIMEOUT, "%s(): %u of %u parties of '%s' came in time", function,
                           b->n - n_missing, b->n, b->name);
}

/* Arrive. Parties of the last phase may still be leaving: then wait a little. */
static shmtensor_status arrive(const char* function, const shmt__handle_use* use, uint64_t deadline_ns,
                               uint32_t n_signals, arrival* out) {
  shmt__lock_name* b = use->object;
  int n_stale = 0;
  for (;;) {
    shmt_status status = shmt__lock_name_refresh(b, &out->opened);
    if (status == SHMT_OK)
      status = shmt__barrier_arrive(b->service, &out->opened, &out->slot, &out->phase, &out->is_last);
    if (status == SHMT_OK) return SHMTENSOR_OK;
    if (status == SHMT_E_RUNTIME && n_stale++ < TRIES) continue; /* rejoined meanwhile */
    if (status != SHMT_E_TIMEOUT) return shmt__public_status(status);
    n_stale = 0;
    const int slice = shmt__slice_ms(deadline_ns, LEAVING_MS);
    if (slice == 0) return fail_late(function, b, &out->opened);
    (void)shmt__public_pause(deadline_ns, slice);
    SHMT_PASS(check_wanted(function, use, n_signals));
  }
}

/* Wait for the end of the phase. */
static shmtensor_status wait_for_others(const char* function, const shmt__handle_use* use, uint64_t deadline_ns,
                                        uint32_t n_signals, const arrival* a) {
  shmt__lock_name* b = use->object;
  for (;;) {
    const int slice = shmt__slice_ms(deadline_ns, SLICE_MS);
    const shmt_status status = shmt__barrier_wait(b->service, &a->opened, a->slot, a->phase, slice);
    if (status == SHMT_OK) return SHMTENSOR_OK;
    if (status != SHMT_E_TIMEOUT) return shmt__public_status(status);
    if (slice == 0) return fail_late(function, b, &a->opened);
    SHMT_PASS(check_wanted(function, use, n_signals));
  }
}

shmtensor_status shmtensor_barrier_wait(shmtensor_barrier* barrier, double timeout, int* out_is_last) {
  uint64_t deadline_ns = 0;
  arrival a = {.is_last = false};
  USE_BARRIER(b, barrier);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  const uint32_t n_signals = shmt__os_n_interrupted();
  SHMT_PASS(arrive(__func__, &b_use, deadline_ns, n_signals, &a));
  if (!a.is_last) {
    const shmtensor_status status = wait_for_others(__func__, &b_use, deadline_ns, n_signals, &a);
    /* If the others came just now, this arrival has counted, whatever ended the wait. */
    if (status != SHMTENSOR_OK && shmt__barrier_withdraw(b->service, &a.opened, a.slot, a.phase)) return status;
  }
  if (out_is_last != NULL) *out_is_last = a.is_last;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_barrier_n_waiting(shmtensor_barrier* barrier, uint32_t* out) {
  shmt__opened_lock opened;
  uint32_t n_missing = 0;
  USE_BARRIER(b, barrier);
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt__lock_name_refresh(b, &opened));
  SHMT_PUBLIC_TRY(shmt__named_lock_value(b->service, &opened, &n_missing));
  *out = b->n - n_missing;
  return SHMTENSOR_OK;
}
