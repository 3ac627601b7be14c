/* capi/names/waits.c -- operations of rings that may wait, for handles. */
#include "capi/names/waits.h"

typedef struct ring_wait {
  shmt__public_wait base;
  shmt__ring* ring;
  const shmt__outgoing_message* message;
  shmt__received_message* received;
} ring_wait;

static shmt__ring_result call_put(shmt__public_wait* w, uint64_t deadline_ns) {
  const ring_wait* c = (ring_wait*)w;
  return shmt__ring_put(c->ring, c->message, 0, deadline_ns);
}

static shmt__ring_result call_get(shmt__public_wait* w, uint64_t deadline_ns) {
  const ring_wait* c = (ring_wait*)w;
  uint32_t n = 0;
  return shmt__ring_get(c->ring, c->received, 1, &n, deadline_ns);
}

shmtensor_status shmt__wait_put(const char* function, const shmt__handle_use* use, shmt__ring* r,
                                const shmt__outgoing_message* m, uint64_t deadline_ns) {
  ring_wait w = {.base.call = call_put, .ring = r, .message = m};
  bool is_closed = false;
  const shmt__ring_result result = shmt__public_wait_run(&w.base, use, deadline_ns, &is_closed);
  return shmt__public_result(function, result, is_closed, SHMTENSOR_E_FULL);
}

shmtensor_status shmt__wait_get(const char* function, const shmt__handle_use* use, shmt__ring* r, uint64_t deadline_ns,
                                shmt__received_message* out) {
  ring_wait w = {.base.call = call_get, .ring = r, .received = out};
  bool is_closed = false;
  const shmt__ring_result result = shmt__public_wait_run(&w.base, use, deadline_ns, &is_closed);
  return shmt__public_result(function, result, is_closed, SHMTENSOR_E_EMPTY);
}

shmtensor_status shmt__wait_get_value(const char* function, const shmt__handle_use* use, shmt__ring* r, int mode,
                                      uint64_t deadline_ns, shmtensor_value** out) {
  shmt__received_message m;
  SHMT_PASS(shmt__wait_get(function, use, r, deadline_ns, &m));
  const shmtensor_status status = shmt__value_unpack(&m, mode, out);
  shmt__received_message_fini(&m);
  return status;
}

shmtensor_status shmt__ring_public_fileno(shmt__ring* r, int* out) {
  SHMT_PUBLIC_TRY(shmt__ring_fileno(r, true, out));
  return SHMTENSOR_OK;
}
