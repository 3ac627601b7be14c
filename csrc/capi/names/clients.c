/* capi/names/clients.c -- clients by name, and their calls.
 *
 * Each call has a line of its own while it is under way, so that it can be waited for by itself. A client keeps the
 * lines of calls that have ended for the next ones.
 */
#include "capi/names/clients.h"

#include "api/error.h"
#include "capi/services.h"
#include "ipc/service/open_or_make.h"
#include "ipc/session/session.h"
#include "os/futex.h"
#include "os/mutex.h"

#include <stdlib.h>

enum { MOST_IDLE = 64 };

/* A line that no call uses. */
typedef struct idle_line {
  shmt__ring* line; /* owned */
  uint32_t serial;  /* of its last call */
  struct idle_line* next;
} idle_line;

typedef struct client_object {
  shmt__ring* ring; /* owned */
  idle_line* idle;  /* under the lock */
  uint32_t n_idle;
  uint32_t fork; /* shmt__fork_count() of the process that the lines are of */
  shmt__mutex lock;
  atomic_uint n_refs; /* its handle and the calls under way */
} client_object;

static void free_idle(idle_line* line) {
  while (line != NULL) {
    idle_line* next = line->next;
    shmt__ring_close(line->line);
    free(line);
    line = next;
  }
}

static void release_client(void* object) {
  client_object* c = object;
  /* acq_rel: all uses come before the end. */
  if (atomic_fetch_sub_explicit(&c->n_refs, 1, memory_order_acq_rel) != 1) return;
  free_idle(c->idle);
  shmt__ring_close(c->ring);
  shmt__mutex_destroy(&c->lock);
  free(c);
}

static client_object* retain_client(client_object* c) {
  (void)atomic_fetch_add_explicit(&c->n_refs, 1, memory_order_relaxed);
  return c;
}

shmtensor_status shmtensor_client_open(shmtensor_service* service, const char* name, shmtensor_client** out) {
  void* handle = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_NEED(out);
  client_object* c = calloc(1, sizeof *c);
  if (c == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  const shmt_status status = shmt__named_server_open(v, name, 0, false, &c->ring);
  if (status != SHMT_OK) {
    free(c);
    return shmt__public_status(status);
  }
  c->fork = shmt__fork_count();
  atomic_init(&c->n_refs, 1);
  shmt__mutex_init(&c->lock, SHMT_MUTEX_PUBLIC_OBJECTS);
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_CLIENT, c, release_client, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_client_close(shmtensor_client* client) { return SHMT_CLOSE(SHMT_HANDLE_CLIENT, client); }

/* --- lines --- */

static shmt_status take_line(client_object* c, idle_line** out) {
  shmt__mutex_lock(&c->lock);
  /* In a forked child the lines are the parent's. */
  const bool is_forked = c->fork != shmt__fork_count();
  idle_line* stale = is_forked ? c->idle : NULL;
  if (is_forked) c->idle = NULL;
  if (is_forked) c->n_idle = 0;
  c->fork = shmt__fork_count();
  idle_line* line = c->idle;
  if (line != NULL) {
    c->idle = line->next;
    c->n_idle--;
  }
  shmt__mutex_unlock(&c->lock);
  free_idle(stale);
  if (line == NULL) {
    line = calloc(1, sizeof *line);
    SHMT_REQUIRE(line != NULL, SHMT_E_NOMEM, "a call: tried to allocate %zu bytes", sizeof *line);
    const shmt_status status = shmt__call_make_line(c->ring, 2, &line->line);
    if (status != SHMT_OK) {
      free(line);
      return status;
    }
  }
  line->serial = line->serial % (SHMT_CALL_SERIALS - 1) + 1;
  *out = line;
  return SHMT_OK;
}

/* The call of a line has ended: nobody wants its reply any more. A line of the parent's is only closed. */
static void give_line(client_object* c, idle_line* line, bool is_ours) {
  shmt__received_message late;
  uint32_t n = 0;
  line->next = NULL;
  if (!is_ours) {
    free_idle(line);
    return;
  }
  shmt__call_give_up(line->line, line->serial);
  /* Not what comes meanwhile: a server may send without end. The next call drops it. */
  for (uint32_t left = shmt__ring_n_messages(line->line); left > 0; left--) {
    if (shmt__ring_get(line->line, &late, 1, &n, 0) != SHMT_RING_DONE) break;
    shmt__received_message_fini(&late);
  }
  shmt__mutex_lock(&c->lock);
  const bool is_kept = c->n_idle < MOST_IDLE;
  if (is_kept) {
    line->next = c->idle;
    c->idle = line;
    c->n_idle++;
  }
  shmt__mutex_unlock(&c->lock);
  if (!is_kept) free_idle(line);
}

/* --- calls --- */

typedef enum call_state { PENDING, ANSWERED, TAKEN, CANCELLED } call_state;

/* What a handle of a call stands for; shmtensor_client_call has one without a handle. */
typedef struct call_object {
  client_object* client; /* a reference */
  idle_line* line;       /* owned */
  uint32_t fork;         /* shmt__fork_count() of the process that called */
  shmt__mutex lock;
  call_state state;             /* under the lock */
  shmt__received_message reply; /* of ANSWERED; owned; under the lock */
} call_object;

static void end_call(void* object) {
  call_object* c = object;
  if (c->state == ANSWERED) shmt__received_message_fini(&c->reply);
  give_line(c->client, c->line, c->fork == shmt__fork_count());
  release_client(c->client);
  shmt__mutex_destroy(&c->lock);
  free(c);
}

static call_state state_of(call_object* c) {
  shmt__mutex_lock(&c->lock);
  const call_state state = c->state;
  shmt__mutex_unlock(&c->lock);
  return state;
}

typedef struct call_wait {
  shmt__public_wait base;
  call_object* call;
  const shmt__outgoing_message* request; /* of call_begin */
} call_wait;

static shmt__ring_result call_begin(shmt__public_wait* w, uint64_t deadline_ns) {
  const call_wait* c = (call_wait*)w;
  const idle_line* line = c->call->line;
  return shmt__call_begin(c->call->client->ring, line->line, line->serial, c->request, deadline_ns);
}

/* Keep what came on the line of a call, if it is its reply. Replies of calls that were given up are dropped. Any thread
 * may find it. */
static void keep_reply(call_object* c, shmt__received_message* m) {
  shmt__mutex_lock(&c->lock);
  const bool is_reply = c->state == PENDING && shmt__call_serial_of(m->flags) == c->line->serial;
  if (is_reply) {
    c->reply = *m;
    c->state = ANSWERED;
  }
  shmt__mutex_unlock(&c->lock);
  if (!is_reply) shmt__received_message_fini(m);
}

/* Wait until the call is under way no more. */
static shmt__ring_result call_reply(shmt__public_wait* w, uint64_t deadline_ns) {
  call_object* c = ((call_wait*)w)->call;
  if (state_of(c) == PENDING) {
    shmt__received_message m;
    const shmt__ring_result result = shmt__call_wait(c->line->line, c->line->serial, deadline_ns, &m);
    if (result == SHMT_RING_DONE) keep_reply(c, &m);
    if (state_of(c) != PENDING) return SHMT_RING_DONE; /* perhaps another thread has found it in this moment */
    if (result != SHMT_RING_DONE) return result;
    /* A server may send without end what nobody has asked for. */
    return shmt__os_now_ns() < deadline_ns ? SHMT_RING_INTERRUPTED : SHMT_RING_EMPTY;
  }
  return SHMT_RING_DONE;
}

/* Send a request. Errors: FULL, CLOSED, INTERRUPTED, NO_MEMORY, those of values. Ownership: *out needs end_call. */
static shmtensor_status begin_call(const char* function, const shmt__handle_use* use, const shmtensor_value* request,
                                   uint64_t deadline_ns, shmtensor_status late, call_object** out) {
  client_object* client = use->object;
  shmt__packed_value p;
  bool is_closed = false;
  call_object* c = calloc(1, sizeof *c);
  if (c == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", function);
  shmtensor_status status = shmt__value_pack(request, client->ring, &p);
  if (status != SHMTENSOR_OK) {
    free(c);
    return status;
  }
  status = shmt__public_status(take_line(client, &c->line));
  if (status == SHMTENSOR_OK) {
    c->client = retain_client(client);
    c->fork = shmt__fork_count();
    shmt__mutex_init(&c->lock, SHMT_MUTEX_PUBLIC_OBJECTS);
    call_wait w = {.base.call = call_begin, .call = c, .request = &p.message};
    const shmt__ring_result result = shmt__public_wait_run(&w.base, use, deadline_ns, &is_closed);
    status = shmt__public_result(function, result, is_closed, late);
    if (status != SHMTENSOR_OK) end_call(c);
  } else {
    free(c);
  }
  shmt__packed_value_fini(&p);
  if (status == SHMTENSOR_OK) *out = c;
  return status;
}

/* What a server answered with in place of a value: a text, or a text and a traceback of Python. */
static shmtensor_status fail_remote(const char* function, shmt__received_message* reply) {
  SHMT_AUTO(shmtensor_value) v = NULL;
  const shmtensor_status status = shmt__value_unpack(reply, SHMTENSOR_READ_ONLY, &v);
  if (status == SHMTENSOR_E_TYPE)
    return shmt__public_fail(SHMTENSOR_E_REMOTE, "%s(): the server answered with an exception of Python", function);
  SHMT_PASS(status);
  const shmtensor_value* text = v->kind == SHMTENSOR_TUPLE && v->u.items.n > 0 ? v->u.items.at[0] : v;
  if (text->kind == SHMTENSOR_TEXT) return shmt__public_fail(SHMTENSOR_E_REMOTE, "%s", text->u.bytes.at);
  return shmt__public_fail(SHMTENSOR_E_LOST, "%s(): a server let go of the request before it answered", function);
}

/* Take the reply of a call out, once. */
static shmtensor_status take_reply(const char* function, call_object* c, shmtensor_value** out) {
  shmt__mutex_lock(&c->lock);
  const call_state state = c->state;
  shmt__received_message reply = c->reply;
  if (state == ANSWERED) c->state = TAKEN;
  shmt__mutex_unlock(&c->lock);
  if (state != ANSWERED)
    return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the call was %s before", function,
                             state == CANCELLED ? "cancelled" : "answered, and its reply taken");
  const shmtensor_status status = reply.flags & SHMT_RING_ERROR
                                      ? fail_remote(function, &reply)
                                      : shmt__value_unpack(&reply, SHMTENSOR_READ_WRITE, out);
  shmt__received_message_fini(&reply);
  return status;
}

/* Wait for the reply of a call. Errors: TIMEOUT, LOST, REMOTE, STATE, CLOSED, INTERRUPTED, those of values. */
static shmtensor_status finish_call(const char* function, const shmt__handle_use* use, call_object* c,
                                    uint64_t deadline_ns, shmtensor_value** out) {
  bool is_closed = false;
  call_wait w = {.base.call = call_reply, .call = c};
  const shmt__ring_result result = shmt__public_wait_run(&w.base, use, deadline_ns, &is_closed);
  if (result == SHMT_RING_ALONE && !is_closed)
    return shmt__public_fail(SHMTENSOR_E_LOST,
                             "%s(): a server was killed, or let go of the request, before it answered", function);
  SHMT_PASS(shmt__public_result(function, result, is_closed, SHMTENSOR_E_TIMEOUT));
  return take_reply(function, c, out);
}

shmtensor_status shmtensor_client_call(shmtensor_client* client, const shmtensor_value* request, double timeout,
                                       shmtensor_value** out) {
  call_object* call = NULL;
  uint64_t deadline_ns = 0;
  SHMT_USE(client_object, c, SHMT_HANDLE_CLIENT, client);
  (void)c;
  SHMT_PASS(shmt__value_check(__func__, "request", request));
  SHMT_NEED(out);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  SHMT_PASS(begin_call(__func__, &c_use, request, deadline_ns, SHMTENSOR_E_TIMEOUT, &call));
  const shmtensor_status status = finish_call(__func__, &c_use, call, deadline_ns, out);
  end_call(call);
  return status;
}

/* --- calls with a handle --- */

shmtensor_status shmtensor_client_submit(shmtensor_client* client, const shmtensor_value* request, double timeout,
                                         shmtensor_call** out) {
  call_object* call = NULL;
  void* handle = NULL;
  uint64_t deadline_ns = 0;
  SHMT_USE(client_object, c, SHMT_HANDLE_CLIENT, client);
  (void)c;
  SHMT_PASS(shmt__value_check(__func__, "request", request));
  SHMT_NEED(out);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  SHMT_PASS(begin_call(__func__, &c_use, request, deadline_ns, SHMTENSOR_E_FULL, &call));
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_CALL, call, end_call, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_call_close(shmtensor_call* call) { return SHMT_CLOSE(SHMT_HANDLE_CALL, call); }

static shmtensor_status check_ours(const char* function, const call_object* c) {
  if (c->fork == shmt__fork_count()) return SHMTENSOR_OK;
  return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the call was made by the process that this one was forked from",
                           function);
}

shmtensor_status shmtensor_call_wait(shmtensor_call* call, double timeout, shmtensor_value** out) {
  uint64_t deadline_ns = 0;
  SHMT_USE(call_object, c, SHMT_HANDLE_CALL, call);
  SHMT_NEED(out);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  SHMT_PASS(check_ours(__func__, c));
  return finish_call(__func__, &c_use, c, deadline_ns, out);
}

bool shmt__call_object_is_done(void* object) {
  call_object* c = object;
  shmt__received_message m;
  uint32_t n = 0;
  if (c->fork != shmt__fork_count()) return true; /* a wait says that it is the parent's */
  for (uint32_t left = shmt__ring_n_messages(c->line->line); left > 0 && state_of(c) == PENDING; left--) {
    if (shmt__ring_get(c->line->line, &m, 1, &n, 0) != SHMT_RING_DONE) break; /* a wait says why */
    keep_reply(c, &m);
  }
  return state_of(c) != PENDING || shmt__ring_n_messages(c->line->line) > 0 ||
         shmt__call_is_lost(c->line->line, c->line->serial);
}

shmt__wait_item shmt__call_object_wait_item(void* object) {
  const call_object* c = object;
  return (shmt__wait_item){.ring = c->line->line, .is_lost = shmt__call_is_lost, .serial = c->line->serial};
}

shmtensor_status shmtensor_call_is_done(shmtensor_call* call, int* out) {
  SHMT_USE(call_object, c, SHMT_HANDLE_CALL, call);
  SHMT_NEED(out);
  SHMT_PASS(check_ours(__func__, c));
  *out = shmt__call_object_is_done(c);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_call_cancel(shmtensor_call* call) {
  SHMT_USE(call_object, c, SHMT_HANDLE_CALL, call);
  SHMT_PASS(check_ours(__func__, c));
  shmt__mutex_lock(&c->lock);
  const call_state before = c->state;
  shmt__received_message reply = c->reply;
  if (before != TAKEN) c->state = CANCELLED;
  shmt__mutex_unlock(&c->lock);
  if (before == TAKEN)
    return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the call was answered, and its reply taken before", __func__);
  if (before == ANSWERED) shmt__received_message_fini(&reply);
  shmt__call_give_up(c->line->line, c->line->serial);
  shmt__ring_event_signal(&c->line->line->header->data_event, true);
  shmt__ring_event_signal(&c->line->line->header->watch_event, true);
  return SHMTENSOR_OK;
}
