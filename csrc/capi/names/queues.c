/* capi/names/queues.c -- queues by name, and messages that are acknowledged. */
#include "api/error.h"
#include "capi/services.h"
#include "capi/names/waits.h"
#include "ipc/ring/unacknowledged.h"
#include "ipc/service/open_or_make.h"
#include "ipc/session/session.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct queue_object {
  shmt__ring* ring; /* owned */
  int mode;
  atomic_uint n_refs; /* its handle and its deliveries */
} queue_object;
SHMT_BEGINS_WITH_RING(queue_object);

#define USE_QUEUE(name, handle) SHMT_USE(queue_object, name, SHMT_HANDLE_QUEUE, handle)

static void release_queue(void* object) {
  queue_object* q = object;
  /* acq_rel: all uses come before the end. */
  if (atomic_fetch_sub_explicit(&q->n_refs, 1, memory_order_acq_rel) != 1) return;
  shmt__ring_close(q->ring);
  free(q);
}

shmtensor_status shmtensor_queue_open(shmtensor_service* service, const char* name,
                                      const shmtensor_queue_options* options, shmtensor_queue** out) {
  SHMT_OPTIONS(shmtensor_queue_options, how, options);
  void* handle = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_NEED(out);
  SHMT_PASS(shmt__check_mode(__func__, how.mode));
  queue_object* q = calloc(1, sizeof *q);
  if (q == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  const shmt_status status =
      shmt__named_queue_open(v, name, how.max_messages, how.max_deliveries, how.persist != 0, &q->ring);
  if (status != SHMT_OK) {
    free(q);
    return shmt__public_status(status);
  }
  q->mode = how.mode;
  atomic_init(&q->n_refs, 1);
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_QUEUE, q, release_queue, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_queue_close(shmtensor_queue* queue) { return SHMT_CLOSE(SHMT_HANDLE_QUEUE, queue); }

shmtensor_status shmtensor_queue_put(shmtensor_queue* queue, const shmtensor_value* value, double timeout) {
  shmt__packed_value p;
  uint64_t deadline_ns = 0;
  USE_QUEUE(q, queue);
  SHMT_PASS(shmt__value_check(__func__, "value", value));
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  SHMT_PASS(shmt__value_pack(value, q->ring, &p));
  const shmtensor_status status = shmt__wait_put(__func__, &q_use, q->ring, &p.message, deadline_ns);
  shmt__packed_value_fini(&p);
  return status;
}

shmtensor_status shmtensor_queue_get(shmtensor_queue* queue, double timeout, shmtensor_value** out) {
  uint64_t deadline_ns = 0;
  USE_QUEUE(q, queue);
  SHMT_NEED(out);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  return shmt__wait_get_value(__func__, &q_use, q->ring, q->mode, deadline_ns, out);
}

shmtensor_status shmtensor_queue_task_done(shmtensor_queue* queue) {
  USE_QUEUE(q, queue);
  if (shmt__ring_task_done(q->ring)) return SHMTENSOR_OK;
  return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): more messages were finished than put", __func__);
}

shmtensor_status shmtensor_queue_length(shmtensor_queue* queue, uint32_t* out) {
  USE_QUEUE(q, queue);
  SHMT_NEED(out);
  *out = shmt__ring_n_messages(q->ring);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_queue_fileno(shmtensor_queue* queue, int* out) {
  USE_QUEUE(q, queue);
  SHMT_NEED(out);
  return shmt__ring_public_fileno(q->ring, out);
}

/* --- deliveries --- */

typedef struct delivery_object {
  queue_object* queue;  /* a reference */
  uint64_t id;
  uint32_t fork; /* shmt__fork_count() of the process that has the message */
  bool counts;   /* a program has got it: if it goes back, it was delivered in vain */
  atomic_bool is_settled;
} delivery_object;

enum { QUIET_MS = 200 };

/* Let go of a message, without a word: if its queue's locks cannot be had soon, it goes back when this process ends. */
static void let_go_quietly(queue_object* q, uint64_t id, bool counts) {
  const uint64_t deadline_ns = shmt__os_now_ns() + QUIET_MS * UINT64_C(1000000);
  while (shmt__ring_let_go(q->ring, id, counts, deadline_ns) == SHMT_RING_INTERRUPTED) {
  }
}

static void acknowledge_quietly(queue_object* q, uint64_t id) {
  const uint64_t deadline_ns = shmt__os_now_ns() + QUIET_MS * UINT64_C(1000000);
  while (shmt__ring_acknowledge(q->ring, id, deadline_ns) == SHMT_RING_INTERRUPTED) {
  }
}

/* A message that cannot be read. What Python may read goes back. What nobody can read would come for ever: it is
 * dropped, unless the queue counts deliveries. A lack of memory, or of a manager, is not the message's fault. */
static void refuse(queue_object* q, uint64_t id, shmtensor_status why) {
  const bool counts = why == SHMTENSOR_E_TYPE || why == SHMTENSOR_E_VALUE || why == SHMTENSOR_E_HANDLE;
  const atomic_uint_least32_t* max_deliveries = &q->ring->header->max_deliveries;
  if (why == SHMTENSOR_E_HANDLE && atomic_load_explicit(max_deliveries, memory_order_relaxed) == 0)
    acknowledge_quietly(q, id);
  else
    let_go_quietly(q, id, counts);
}

static void end_delivery(void* object) {
  delivery_object* d = object;
  if (!atomic_load(&d->is_settled) && d->fork == shmt__fork_count()) let_go_quietly(d->queue, d->id, d->counts);
  release_queue(d->queue);
  free(d);
}

typedef struct delivery_wait {
  shmt__public_wait base;
  shmt__ring* ring;
  shmt__received_message* received;
  shmt__delivery* delivery;
  uint64_t id;
  bool acknowledges;
} delivery_wait;

static shmt__ring_result call_deliver(shmt__public_wait* w, uint64_t deadline_ns) {
  const delivery_wait* c = (delivery_wait*)w;
  uint32_t n = 0;
  return shmt__ring_deliver(c->ring, c->received, c->delivery, 1, &n, deadline_ns);
}

static shmt__ring_result call_settle(shmt__public_wait* w, uint64_t deadline_ns) {
  const delivery_wait* c = (delivery_wait*)w;
  return c->acknowledges ? shmt__ring_acknowledge(c->ring, c->id, deadline_ns)
                         : shmt__ring_let_go(c->ring, c->id, true, deadline_ns);
}

/* The handle of a message that was delivered; it goes back when this fails. */
static shmtensor_status new_delivery(queue_object* q, uint64_t id, shmtensor_delivery** out) {
  void* handle = NULL;
  delivery_object* d = calloc(1, sizeof *d);
  if (d == NULL) {
    let_go_quietly(q, id, false);
    return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "a delivery: no memory");
  }
  *d = (delivery_object){.queue = q, .id = id, .fork = shmt__fork_count()};
  (void)atomic_fetch_add_explicit(&q->n_refs, 1, memory_order_relaxed);
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_DELIVERY, d, end_delivery, &handle));
  d->counts = true;
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_queue_get_delivery(shmtensor_queue* queue, double timeout, shmtensor_value** out,
                                              shmtensor_delivery** out_delivery, uint32_t* out_count) {
  uint64_t deadline_ns = 0;
  bool is_closed = false;
  shmt__received_message m;
  shmt__delivery d;
  SHMT_AUTO(shmtensor_value) value = NULL;
  USE_QUEUE(q, queue);
  SHMT_NEED(out);
  SHMT_NEED(out_delivery);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  delivery_wait w = {.base.call = call_deliver, .ring = q->ring, .received = &m, .delivery = &d};
  const shmt__ring_result result = shmt__public_wait_run(&w.base, &q_use, deadline_ns, &is_closed);
  if (result == SHMT_RING_NO_ROOM)
    return shmt__public_fail(SHMTENSOR_E_FULL, "%s(): %s", __func__, shmt_error_message());
  SHMT_PASS(shmt__public_result(__func__, result, is_closed, SHMTENSOR_E_EMPTY));
  shmtensor_status status = shmt__value_unpack(&m, q->mode, &value);
  shmt__received_message_fini(&m);
  if (status != SHMTENSOR_OK) {
    char text[SHMT_PUBLIC_TEXT_BYTES];
    (void)snprintf(text, sizeof text, "%s", shmt_error_message());
    refuse(q, d.id, status);
    return shmt__public_fail(status, "%s", text);
  }
  SHMT_PASS(new_delivery(q, d.id, out_delivery));
  *out = SHMT_TAKE(value);
  if (out_count != NULL) *out_count = d.deliveries;
  return SHMTENSOR_OK;
}

/* Acknowledge a message, or let go of it, and close the handle, unless a signal came. */
static shmtensor_status settle(const char* function, shmtensor_delivery* handle, bool acknowledges) {
  bool is_closed = false;
  shmt__handle_use use = shmt__handle_begin(SHMT_HANDLE_DELIVERY, handle, function, "delivery");
  if (use.object == NULL) return use.status;
  delivery_object* d = use.object;
  shmtensor_status status = SHMTENSOR_OK;
  if (d->fork != shmt__fork_count()) {
    status = shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the message was delivered to the process that this one was "
                               "forked from", function);
  } else {
    delivery_wait w = {.base.call = call_settle, .ring = d->queue->ring, .id = d->id, .acknowledges = acknowledges};
    const shmt__ring_result result = shmt__public_wait_run(&w.base, &use, UINT64_MAX, &is_closed);
    status = result == SHMT_RING_EMPTY
                 ? shmt__public_fail(SHMTENSOR_E_STATE,
                                     "%s(): the message went back to its queue; another process may have it", function)
                 : shmt__public_result(function, result, is_closed, SHMTENSOR_E_TIMEOUT);
    if (result == SHMT_RING_EMPTY || result == SHMT_RING_DONE) atomic_store(&d->is_settled, true);
  }
  if (status != SHMTENSOR_E_INTERRUPTED) {
    const shmtensor_status closed = shmt__handle_close(SHMT_HANDLE_DELIVERY, handle, function, "delivery");
    if (status == SHMTENSOR_OK) status = closed;
  }
  shmt__handle_end(&use);
  return status;
}

shmtensor_status shmtensor_delivery_acknowledge(shmtensor_delivery* delivery) {
  return settle(__func__, delivery, true);
}

shmtensor_status shmtensor_delivery_release(shmtensor_delivery* delivery) { return settle(__func__, delivery, false); }
