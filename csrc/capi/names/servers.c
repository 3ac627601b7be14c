/* capi/names/servers.c -- servers by name, and the requests that they take. */
#include "ipc/call/call.h"

#include "api/error.h"
#include "capi/names/waits.h"
#include "capi/services.h"
#include "ipc/ring/wait.h"
#include "ipc/service/open_or_make.h"
#include "ipc/session/session.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct server_object {
  shmt__ring* ring; /* owned */
  int mode;
} server_object;
SHMT_BEGINS_WITH_RING(server_object);

static void end_server(void* object) {
  server_object* s = object;
  shmt__ring_close(s->ring);
  free(s);
}

shmtensor_status shmtensor_server_open(shmtensor_service* service, const char* name,
                                       const shmtensor_server_options* options, shmtensor_server** out) {
  SHMT_OPTIONS(shmtensor_server_options, how, options);
  void* handle = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_NEED(out);
  SHMT_PASS(shmt__check_mode(__func__, how.mode));
  server_object* s = calloc(1, sizeof *s);
  if (s == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  const shmt_status status = shmt__named_server_open(v, name, how.max_requests, how.persist != 0, &s->ring);
  if (status != SHMT_OK) {
    free(s);
    return shmt__public_status(status);
  }
  s->mode = how.mode;
  shmt__call_serve(s->ring);
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_SERVER, s, end_server, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_server_close(shmtensor_server* server) { return SHMT_CLOSE(SHMT_HANDLE_SERVER, server); }

shmtensor_status shmtensor_server_fileno(shmtensor_server* server, int* out) {
  SHMT_USE(server_object, s, SHMT_HANDLE_SERVER, server);
  SHMT_NEED(out);
  return shmt__ring_public_fileno(s->ring, out);
}

typedef struct request_object {
  shmt__call call;
  uint32_t fork; /* shmt__fork_count() of the process that took it */
  atomic_bool is_answered;
} request_object;

/* is_patient: wait a moment for a client that does not read its replies. */
static shmtensor_status answer(const char* function, request_object* r, const shmtensor_value* value, uint32_t flags,
                               bool is_patient, int* out_wanted) {
  shmt__packed_value p;
  SHMT_PASS(shmt__value_pack(value, &r->call.line, &p));
  const shmt__ring_result result = shmt__call_reply(&r->call, &p.message, flags, is_patient);
  shmt__packed_value_fini(&p);
  if (result != SHMT_RING_DONE && result != SHMT_RING_ALONE)
    return shmt__public_result(function, result, false, SHMTENSOR_E_FULL);
  if (out_wanted != NULL) *out_wanted = result == SHMT_RING_DONE;
  return SHMTENSOR_OK;
}

/* Answer with a text, or with None, which means that the server let go. */
static shmtensor_status answer_error(const char* function, request_object* r, const char* text, bool is_patient,
                                     int* out_wanted) {
  SHMT_AUTO(shmtensor_value) v = NULL;
  SHMT_PASS(text != NULL ? shmtensor_text(text, SIZE_MAX, &v) : shmtensor_none(&v));
  return answer(function, r, v, SHMT_RING_ERROR, is_patient, out_wanted);
}

static void end_request(void* object) {
  request_object* r = object;
  const bool is_ours = r->fork == shmt__fork_count();
  if (is_ours && !atomic_load(&r->is_answered)) (void)answer_error(__func__, r, NULL, false, NULL);
  shmt__call_close(&r->call);
  free(r);
}

/* The request of a received message, which is consumed. *out is NULL: nobody asked, or what was asked cannot be read;
 * then the client knows. */
static shmtensor_status open_request(server_object* s, shmt__received_message* m, shmtensor_value** out_value,
                                     request_object** out) {
  SHMT_AUTO(shmtensor_value) value = NULL;
  request_object* r = calloc(1, sizeof *r);
  *out = NULL;
  if (r == NULL || !shmt__call_open(m, &r->call)) {
    shmt__received_message_fini(m);
    free(r);
    return r != NULL ? SHMTENSOR_OK : shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "a request: no memory");
  }
  r->fork = shmt__fork_count();
  const shmtensor_status status = shmt__value_unpack(m, s->mode, &value);
  shmt__received_message_fini(m);
  if (status != SHMTENSOR_OK) {
    (void)shmt__fail(SHMT_E_VALUE, "the request cannot be read: %s", shmt_error_message());
    atomic_store(&r->is_answered, answer_error(__func__, r, shmt_error_message(), false, NULL) == SHMTENSOR_OK);
    end_request(r);
    return SHMTENSOR_OK;
  }
  *out_value = SHMT_TAKE(value);
  *out = r;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_server_take(shmtensor_server* server, double timeout, shmtensor_value** out,
                                       shmtensor_request** out_request) {
  shmt__received_message m;
  request_object* r = NULL;
  SHMT_AUTO(shmtensor_value) value = NULL;
  void* handle = NULL;
  uint64_t deadline_ns = 0, begun_ns = 0;
  SHMT_USE(server_object, s, SHMT_HANDLE_SERVER, server);
  SHMT_NEED(out);
  SHMT_NEED(out_request);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  while (r == NULL) {
    SHMT_PASS(shmt__wait_get(__func__, &s_use, s->ring, deadline_ns, &m));
    SHMT_PASS(open_request(s, &m, &value, &r));
    if (r != NULL) break;
    /* Clients may send without end what cannot be read. */
    if (shmt__ring_round(&begun_ns, deadline_ns) == SHMT_RING_EMPTY)
      return shmt__public_fail(SHMTENSOR_E_EMPTY, "%s(): no request that can be read came in time", __func__);
    if (shmt__handle_is_closed(&s_use))
      return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): server was closed meanwhile", __func__);
  }
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_REQUEST, r, end_request, &handle));
  *out = SHMT_TAKE(value);
  *out_request = handle;
  return SHMTENSOR_OK;
}

static shmtensor_status check_open(const char* function, request_object* r) {
  if (r->fork != shmt__fork_count())
    return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the request was taken by the process that this one was forked "
                             "from", function);
  if (atomic_exchange(&r->is_answered, true))
    return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the request was answered before", function);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_request_reply(shmtensor_request* request, const shmtensor_value* value, int* out_wanted) {
  SHMT_USE(request_object, r, SHMT_HANDLE_REQUEST, request);
  SHMT_PASS(shmt__value_check(__func__, "value", value));
  SHMT_PASS(check_open(__func__, r));
  const shmtensor_status status = answer(__func__, r, value, 0, true, out_wanted);
  if (status != SHMTENSOR_OK) atomic_store(&r->is_answered, false);
  return status;
}

shmtensor_status shmtensor_request_fail(shmtensor_request* request, const char* text, int* out_wanted) {
  SHMT_USE(request_object, r, SHMT_HANDLE_REQUEST, request);
  SHMT_NEED(text);
  SHMT_PASS(check_open(__func__, r));
  const shmtensor_status status = answer_error(__func__, r, text, true, out_wanted);
  if (status != SHMTENSOR_OK) atomic_store(&r->is_answered, false);
  return status;
}

shmtensor_status shmtensor_request_is_wanted(shmtensor_request* request, int* out) {
  SHMT_USE(request_object, r, SHMT_HANDLE_REQUEST, request);
  SHMT_NEED(out);
  *out = !atomic_load(&r->is_answered) && shmt__call_is_wanted(&r->call);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_request_close(shmtensor_request* request) {
  return SHMT_CLOSE(SHMT_HANDLE_REQUEST, request);
}
