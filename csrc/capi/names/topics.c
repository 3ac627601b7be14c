/* capi/names/topics.c -- topics by name, loans, and subscriptions. */
#include "api/error.h"
#include "capi/services.h"
#include "capi/names/waits.h"
#include "ipc/handle/share.h"
#include "ipc/service/open_or_make.h"
#include "ipc/session/session.h"

#include <stdlib.h>

typedef struct topic_object {
  shmt__topic* topic; /* owned */
  atomic_uint n_refs; /* its handle, its loans and subscriptions */
} topic_object;

#define USE_TOPIC(name, handle) SHMT_USE(topic_object, name, SHMT_HANDLE_TOPIC, handle)

static void release_topic(void* object) {
  topic_object* t = object;
  /* acq_rel: all uses come before the end. */
  if (atomic_fetch_sub_explicit(&t->n_refs, 1, memory_order_acq_rel) != 1) return;
  shmt__topic_close(t->topic);
  free(t);
}

static topic_object* retain_topic(topic_object* t) {
  (void)atomic_fetch_add_explicit(&t->n_refs, 1, memory_order_relaxed);
  return t;
}

static shmt__topic_wish wish_of(const shmtensor_topic_options* how) {
  return (shmt__topic_wish){
      .depth = how->depth == 0 ? -1 : (int64_t)how->depth,
      .history = how->history == 0 ? -1 : how->history == SHMTENSOR_NO_HISTORY ? 0 : (int64_t)how->history,
      .overflow = how->overflow - 1,
  };
}

shmtensor_status shmtensor_topic_open(shmtensor_service* service, const char* name,
                                      const shmtensor_topic_options* options, shmtensor_topic** out) {
  SHMT_OPTIONS(shmtensor_topic_options, how, options);
  _Static_assert((int)SHMTENSOR_DROP_OLDEST == (int)SHMT_OVERFLOW_DROP_OLDEST + 1 &&
                     (int)SHMTENSOR_BLOCK == (int)SHMT_OVERFLOW_BLOCK + 1 &&
                     (int)SHMTENSOR_DROP_NEWEST == (int)SHMT_OVERFLOW_DROP_NEWEST + 1,
                 "the codes of overflows");
  void* handle = NULL;
  SHMT_USE_SERVICE(v, service);
  SHMT_PASS(shmt__check_name(__func__, name));
  SHMT_NEED(out);
  SHMT_NEED_THAT(how.overflow >= 0, "%s(): options.overflow is %d", __func__, how.overflow);
  const shmt__topic_wish wish = wish_of(&how);
  topic_object* t = calloc(1, sizeof *t);
  if (t == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  const shmt_status status = shmt__named_topic_open(v, name, &wish, how.persist != 0, &t->topic);
  if (status != SHMT_OK) {
    free(t);
    return shmt__public_status(status);
  }
  atomic_init(&t->n_refs, 1);
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_TOPIC, t, release_topic, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_topic_close(shmtensor_topic* topic) { return SHMT_CLOSE(SHMT_HANDLE_TOPIC, topic); }

/* --- operations that may wait --- */

typedef struct topic_wait {
  shmt__public_wait base;
  shmt__topic* topic;
  const shmt__outgoing_message* message;
  shmt__received_message* received;
  shmt__ring* ring;
} topic_wait;

static shmt__ring_result call_publish(shmt__public_wait* w, uint64_t deadline_ns) {
  const topic_wait* c = (topic_wait*)w;
  return shmt__topic_publish(c->topic, c->message, deadline_ns);
}
static shmt__ring_result call_subscribe(shmt__public_wait* w, uint64_t deadline_ns) {
  topic_wait* c = (topic_wait*)w;
  return shmt__topic_subscribe(c->topic, false, deadline_ns, &c->ring);
}
static shmt__ring_result call_latest(shmt__public_wait* w, uint64_t deadline_ns) {
  const topic_wait* c = (topic_wait*)w;
  return shmt__topic_latest(c->topic, deadline_ns, c->received);
}

/* --- publishing --- */

static shmtensor_status publish(const char* function, const shmt__handle_use* use, topic_object* t,
                                const shmtensor_value* value, double timeout) {
  shmt__packed_value p;
  uint64_t deadline_ns = 0;
  bool is_closed = false;
  SHMT_PASS(shmt__deadline_of_timeout(function, timeout, &deadline_ns));
  SHMT_PASS(shmt__value_pack(value, t->topic->log, &p));
  topic_wait w = {.base.call = call_publish, .topic = t->topic, .message = &p.message};
  const shmt__ring_result result = shmt__public_wait_run(&w.base, use, deadline_ns, &is_closed);
  shmt__packed_value_fini(&p);
  return shmt__public_result(function, result, is_closed,
                             result == SHMT_RING_BUSY ? SHMTENSOR_E_TIMEOUT : SHMTENSOR_E_FULL);
}

shmtensor_status shmtensor_topic_publish(shmtensor_topic* topic, const shmtensor_value* value, double timeout) {
  USE_TOPIC(t, topic);
  SHMT_PASS(shmt__value_check(__func__, "value", value));
  return publish(__func__, &t_use, t, value, timeout);
}

shmtensor_status shmtensor_topic_latest(shmtensor_topic* topic, int mode, shmtensor_value** out) {
  shmt__received_message m;
  bool is_closed = false;
  USE_TOPIC(t, topic);
  SHMT_PASS(shmt__check_mode(__func__, mode));
  SHMT_NEED(out);
  SHMT_NEED_THAT(shmt__topic_kind_now(t->topic).history > 0,
                 "%s(): the topic keeps no history; open it with history 1", __func__);
  topic_wait w = {.base.call = call_latest, .topic = t->topic, .received = &m};
  const shmt__ring_result result = shmt__public_wait_run(&w.base, &t_use, UINT64_MAX, &is_closed);
  SHMT_PASS(shmt__public_result(__func__, result, is_closed, SHMTENSOR_E_EMPTY));
  const shmtensor_status status = shmt__value_unpack(&m, mode, out);
  shmt__received_message_fini(&m);
  return status;
}

/* --- loans --- */

typedef struct loan_object {
  topic_object* topic;           /* a reference */
  shmtensor_value* value; /* owned */
  atomic_bool is_published;
} loan_object;

static void end_loan(void* object) {
  loan_object* l = object;
  release_topic(l->topic);
  shmtensor_value_free(l->value);
  free(l);
}

static shmtensor_status take_loan(const char* function, const shmt__handle_use* use, DLDataType dtype, int ndim,
                                  const int64_t* shape, double timeout, shmtensor_loan** out) {
  shmt__geometry g;
  uint64_t nbytes = 0, deadline_ns = 0;
  void* handle = NULL;
  bool again = true;
  topic_object* t = use->object;
  SHMT_AUTO(shmt_storage) s = NULL;
  SHMT_AUTO(shmtensor_value) value = NULL;
  SHMT_NEED_THAT(out != NULL, "%s(): out is NULL", function);
  SHMT_PASS(shmt__geometry_of(function, dtype, ndim, shape, &g, &nbytes));
  SHMT_PASS(shmt__deadline_of_timeout(function, timeout, &deadline_ns));
  while (again) {
    const shmt_status status = shmt__storage_create_in(t->topic->log->session, nbytes, &s);
    SHMT_PASS(shmt__public_room(function, use, status, deadline_ns, &again));
  }
  SHMT_PUBLIC_TRY(shmt__value_of_tensor(s, &g, &value));
  loan_object* l = calloc(1, sizeof *l);
  if (l == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", function);
  l->topic = retain_topic(t);
  l->value = SHMT_TAKE(value);
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_LOAN, l, end_loan, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_topic_loan(shmtensor_topic* topic, DLDataType dtype, int ndim, const int64_t* shape,
                                      shmtensor_loan** out) {
  USE_TOPIC(t, topic);
  (void)t;
  return take_loan(__func__, &t_use, dtype, ndim, shape, 0, out);
}

shmtensor_status shmtensor_topic_loan_within(shmtensor_topic* topic, DLDataType dtype, int ndim, const int64_t* shape,
                                             double timeout, shmtensor_loan** out) {
  USE_TOPIC(t, topic);
  (void)t;
  return take_loan(__func__, &t_use, dtype, ndim, shape, timeout, out);
}

shmtensor_status shmtensor_loan_data(shmtensor_loan* loan, void** out, size_t* out_nbytes) {
  SHMT_USE(loan_object, l, SHMT_HANDLE_LOAN, loan);
  SHMT_NEED(out);
  *out = l->value->u.tensor.storage->data;
  if (out_nbytes != NULL) *out_nbytes = (size_t)l->value->u.tensor.storage->nbytes;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_loan_publish(shmtensor_loan* loan, double timeout) {
  SHMT_USE(loan_object, l, SHMT_HANDLE_LOAN, loan);
  if (atomic_exchange(&l->is_published, true))
    return shmt__public_fail(SHMTENSOR_E_STATE, "%s(): the loan was published before; take another one", __func__);
  const shmtensor_status status = publish(__func__, &l_use, l->topic, l->value, timeout);
  if (status != SHMTENSOR_OK) atomic_store(&l->is_published, false);
  return status;
}

shmtensor_status shmtensor_loan_close(shmtensor_loan* loan) { return SHMT_CLOSE(SHMT_HANDLE_LOAN, loan); }

/* --- subscriptions --- */

typedef struct subscription_object {
  shmt__ring* ring;    /* owned */
  topic_object* topic; /* a reference */
  int mode;
} subscription_object;
SHMT_BEGINS_WITH_RING(subscription_object);

#define USE_SUBSCRIPTION(name, handle) SHMT_USE(subscription_object, name, SHMT_HANDLE_SUBSCRIPTION, handle)

static void end_subscription(void* object) {
  subscription_object* s = object;
  shmt__topic_unsubscribe(s->topic->topic, s->ring);
  shmt__ring_close(s->ring);
  release_topic(s->topic);
  free(s);
}

shmtensor_status shmtensor_topic_subscribe(shmtensor_topic* topic, const shmtensor_subscription_options* options,
                                           shmtensor_subscription** out) {
  shmtensor_subscription_options how = {.size = sizeof how, .mode = SHMTENSOR_READ_ONLY};
  bool is_closed = false;
  void* handle = NULL;
  SHMT_PASS(shmt__read_options(__func__, options, &how, sizeof how));
  USE_TOPIC(t, topic);
  SHMT_NEED(out);
  SHMT_PASS(shmt__check_mode(__func__, how.mode));
  subscription_object* s = calloc(1, sizeof *s);
  if (s == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  topic_wait w = {.base.call = call_subscribe, .topic = t->topic};
  const shmt__ring_result result = shmt__public_wait_run(&w.base, &t_use, UINT64_MAX, &is_closed);
  if (result != SHMT_RING_DONE) {
    free(s);
    return shmt__public_result(__func__, result, is_closed, SHMTENSOR_E_TIMEOUT);
  }
  *s = (subscription_object){.topic = retain_topic(t), .ring = w.ring, .mode = how.mode};
  SHMT_PASS(shmt__handle_open(SHMT_HANDLE_SUBSCRIPTION, s, end_subscription, &handle));
  *out = handle;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_subscription_close(shmtensor_subscription* subscription) {
  return SHMT_CLOSE(SHMT_HANDLE_SUBSCRIPTION, subscription);
}

shmtensor_status shmtensor_subscription_get(shmtensor_subscription* subscription, double timeout,
                                            shmtensor_value** out) {
  uint64_t deadline_ns = 0;
  USE_SUBSCRIPTION(s, subscription);
  SHMT_NEED(out);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  return shmt__wait_get_value(__func__, &s_use, s->ring, s->mode, deadline_ns, out);
}

shmtensor_status shmtensor_subscription_latest(shmtensor_subscription* subscription, double timeout,
                                               shmtensor_value** out) {
  uint64_t deadline_ns = 0;
  shmt__received_message newest, next;
  USE_SUBSCRIPTION(s, subscription);
  SHMT_NEED(out);
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  SHMT_PASS(shmt__wait_get(__func__, &s_use, s->ring, deadline_ns, &newest));
  for (uint32_t n = shmt__ring_n_messages(s->ring); n > 0; n--) {
    if (shmt__wait_get(__func__, &s_use, s->ring, 0, &next) != SHMTENSOR_OK) break;
    shmt__received_message_fini(&newest);
    newest = next;
  }
  const shmtensor_status status = shmt__value_unpack(&newest, s->mode, out);
  shmt__received_message_fini(&newest);
  return status;
}

shmtensor_status shmtensor_subscription_lost(shmtensor_subscription* subscription, uint64_t* out) {
  USE_SUBSCRIPTION(s, subscription);
  SHMT_NEED(out);
  *out = atomic_load_explicit(&s->ring->header->n_lost, memory_order_relaxed);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_subscription_fileno(shmtensor_subscription* subscription, int* out) {
  USE_SUBSCRIPTION(s, subscription);
  SHMT_NEED(out);
  return shmt__ring_public_fileno(s->ring, out);
}
