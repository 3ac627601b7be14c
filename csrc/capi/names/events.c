/* capi/names/events.c -- events by name. */
#include "ipc/ring/event.h"

#include "capi/services.h"
#include "capi/names/waits.h"
#include "ipc/service/open_or_make.h"

#define USE_EVENT(name, handle) SHMT_USE(shmt__ring, name, SHMT_HANDLE_EVENT, handle)

static void end_event(void* object) { shmt__ring_close(object); }

shmtensor_status shmtensor_event_open(shmtensor_service* service, const char* name, int persist,
                                      shmtensor_event** out) {
  void* handle = NULL;
  shmt__ring* ring = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt__named_event_open(v, name, persist != 0, &ring));
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_EVENT, ring, end_event, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_event_close(shmtensor_event* event) { return SHMT_CLOSE(SHMT_HANDLE_EVENT, event); }

shmtensor_status shmtensor_event_set(shmtensor_event* event) {
  USE_EVENT(e, event);
  SHMT_PUBLIC_TRY(shmt__event_set(e));
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_event_clear(shmtensor_event* event) {
  USE_EVENT(e, event);
  SHMT_PUBLIC_TRY(shmt__event_clear(e));
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_event_is_set(shmtensor_event* event, int* out) {
  USE_EVENT(e, event);
  SHMT_NEED(out);
  *out = shmt__event_is_set(e);
  return SHMTENSOR_OK;
}

typedef struct event_wait {
  shmt__public_wait base;
  shmt__ring* ring;
  shmt__event_mark since;
  bool only_pulses;
  uint64_t id;
} event_wait;

static shmt__ring_result call_pulse(shmt__public_wait* w, uint64_t deadline_ns) {
  const event_wait* c = (event_wait*)w;
  return shmt__event_pulse(c->ring, c->id, deadline_ns);
}
static shmt__ring_result call_wait(shmt__public_wait* w, uint64_t deadline_ns) {
  const event_wait* c = (event_wait*)w;
  return shmt__event_wait(c->ring, c->since, c->only_pulses, deadline_ns);
}

shmtensor_status shmtensor_event_pulse(shmtensor_event* event, uint64_t id) {
  bool is_closed = false;
  USE_EVENT(e, event);
  event_wait w = {.base.call = call_pulse, .ring = e, .id = id};
  const shmt__ring_result result = shmt__public_wait_run(&w.base, &e_use, UINT64_MAX, &is_closed);
  return shmt__public_result(__func__, result, is_closed, SHMTENSOR_E_TIMEOUT);
}

static shmtensor_status wait_for(const char* function, const shmt__handle_use* use, event_wait* w, double timeout) {
  uint64_t deadline_ns = 0;
  bool is_closed = false;
  SHMT_PASS(shmt__deadline_of_timeout(function, timeout, &deadline_ns));
  w->base.call = call_wait;
  w->since = shmt__event_mark_now(w->ring);
  const shmt__ring_result result = shmt__public_wait_run(&w->base, use, deadline_ns, &is_closed);
  return shmt__public_result(function, result, is_closed, SHMTENSOR_E_TIMEOUT);
}

shmtensor_status shmtensor_event_wait(shmtensor_event* event, double timeout) {
  USE_EVENT(e, event);
  event_wait w = {.ring = e};
  return wait_for(__func__, &e_use, &w, timeout);
}

shmtensor_status shmtensor_event_wait_pulse(shmtensor_event* event, double timeout, uint64_t* out_id) {
  USE_EVENT(e, event);
  SHMT_NEED(out_id);
  event_wait w = {.ring = e, .only_pulses = true};
  SHMT_PASS(wait_for(__func__, &e_use, &w, timeout));
  (void)shmt__event_pulse_since(e, w.since.n_pulses, out_id);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_event_fileno(shmtensor_event* event, int* out) {
  USE_EVENT(e, event);
  SHMT_NEED(out);
  return shmt__ring_public_fileno(e, out);
}
