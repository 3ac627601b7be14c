/* tests/capi/names.c -- queues, topics, calls, events, locks, barriers and published values, between handles of a program. */
#include "check_public.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double LONG = 60; /* against hangs */

static DLDataType uint8(void) { return shmtensor_dtype(kDLUInt, 8); }

static void run_thread(void* (*f)(void*), void* arg, pthread_t* out) { CHECK_EQ(pthread_create(out, NULL, f, arg), 0); }

static void sleep_ms(int ms) {
  const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
  (void)nanosleep(&t, NULL);
}

/* --- handles --- */

TEST(handles_that_are_closed_or_of_another_kind_are_refused) {
  shmtensor_service* service = own_service();
  shmtensor_queue* queue = NULL;
  uint32_t n = 0;
  CHECK_FAILS(shmtensor_queue_open(NULL, "q", NULL, &queue), SHMTENSOR_E_VALUE, "service is NULL");
  CHECK_FAILS(shmtensor_queue_open(service, NULL, NULL, &queue), SHMTENSOR_E_VALUE, "name is NULL");
  CHECK_FAILS(shmtensor_queue_open(service, "q", NULL, NULL), SHMTENSOR_E_VALUE, "out is NULL");
  CHECK_FAILS(shmtensor_queue_open(service, "", NULL, &queue), SHMTENSOR_E_VALUE, "1 to 127 bytes");
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &queue));
  CHECK_FAILS(shmtensor_queue_length((shmtensor_queue*)service, &n), SHMTENSOR_E_VALUE, "queue is a service");
  CHECK_FAILS(shmtensor_queue_length((shmtensor_queue*)&n, &n), SHMTENSOR_E_VALUE, "not a handle");
  CHECK_FAILS(shmtensor_queue_length((shmtensor_queue*)(uintptr_t)0x7777777777777778, &n), SHMTENSOR_E_VALUE,
              "not a handle");
  CHECK_OK(shmtensor_service_close(service));
  CHECK_FAILS(shmtensor_service_close(service), SHMTENSOR_E_CLOSED, "service is closed");
  CHECK_OK(shmtensor_queue_length(queue, &n)); /* it keeps what it needs */
  CHECK_OK(shmtensor_queue_close(queue));
  CHECK_FAILS(shmtensor_queue_length(queue, &n), SHMTENSOR_E_CLOSED, "queue is closed");
  service = own_service(); /* the entry is used again, the old handles stay closed */
  CHECK_FAILS(shmtensor_queue_close(queue), SHMTENSOR_E_CLOSED, "queue is closed");
  CHECK_OK(shmtensor_service_close(service));
}

TEST(names_are_utf8_for_everything_that_has_one) {
  static const char* const bad[] = {"\xff", "a\xc3", "\xed\xa0\x80"}; /* no character, half of one, half of a pair */
  shmtensor_service* service = own_service();
  shmtensor_value* value = integer(1);
  void* out = NULL;
  uint64_t version = 0;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    CHECK_FAILS(shmtensor_queue_open(service, bad[i], NULL, (void*)&out), SHMTENSOR_E_VALUE, "is not UTF-8");
    CHECK_FAILS(shmtensor_topic_open(service, bad[i], NULL, (void*)&out), SHMTENSOR_E_VALUE, "is not UTF-8");
    CHECK_FAILS(shmtensor_client_open(service, bad[i], (void*)&out), SHMTENSOR_E_VALUE, "is not UTF-8");
    CHECK_FAILS(shmtensor_server_open(service, bad[i], NULL, (void*)&out), SHMTENSOR_E_VALUE, "is not UTF-8");
    CHECK_FAILS(shmtensor_event_open(service, bad[i], 0, (void*)&out), SHMTENSOR_E_VALUE, "is not UTF-8");
    CHECK_FAILS(shmtensor_lock_open(service, bad[i], 1, (void*)&out), SHMTENSOR_E_VALUE, "is not UTF-8");
    CHECK_FAILS(shmtensor_barrier_open(service, bad[i], 1, (void*)&out), SHMTENSOR_E_VALUE, "is not UTF-8");
    CHECK_FAILS(shmtensor_publish(service, bad[i], value, NULL, NULL), SHMTENSOR_E_VALUE, "is not UTF-8");
    CHECK_FAILS(shmtensor_version_of(service, bad[i], &version), SHMTENSOR_E_VALUE, "is not UTF-8");
  }
  CHECK_FAILS(shmtensor_lock_open(service, "", 1, (void*)&out), SHMTENSOR_E_VALUE, "name must have 1 to 127 bytes");
  CHECK(out == NULL);
  CHECK_OK(shmtensor_publish(service, "gr\xc3\xbc\xc3\x9f", value, NULL, NULL));
  shmtensor_value_free(value);
  CHECK_OK(shmtensor_service_close(service));
}

TEST(options_may_be_of_an_older_or_a_newer_header) {
  shmtensor_service* service = own_service();
  shmtensor_queue* queue = NULL;
  struct {
    shmtensor_queue_options known;
    uint64_t later;
  } newer = {.known = {.size = sizeof newer}};
  CHECK_OK(shmtensor_queue_open(service, "q", &newer.known, &queue));
  CHECK_OK(shmtensor_queue_close(queue));
  newer.later = 1;
  CHECK_FAILS(shmtensor_queue_open(service, "q", &newer.known, &queue), SHMTENSOR_E_VALUE, "options.size");
  const shmtensor_queue_options none = {.size = 0}, older = {.size = offsetof(shmtensor_queue_options, persist)};
  CHECK_FAILS(shmtensor_queue_open(service, "q", &none, &queue), SHMTENSOR_E_VALUE, "options.size is 0");
  CHECK_OK(shmtensor_queue_open(service, "q", &older, &queue));
  CHECK_OK(shmtensor_queue_close(queue));
}

TEST(service_that_does_not_run_is_not_found) {
  const shmtensor_service_options options = {.size = sizeof options, .name = "no-such-service-of-tests"};
  const shmtensor_service_options both = {.size = sizeof both, .socket = "/nowhere", .start = 1};
  shmtensor_service* service = NULL;
  CHECK_FAILS(shmtensor_service_open(&options, &service), SHMTENSOR_E_MANAGER, "no-such-service-of-tests");
  CHECK_FAILS(shmtensor_service_open(&both, &service), SHMTENSOR_E_VALUE, "leave out socket");
  CHECK_FAILS(shmtensor_service_open(&options, NULL), SHMTENSOR_E_VALUE, "out is NULL");
}

/* --- queues --- */

TEST(queue_gives_what_was_put) {
  shmtensor_service* service = own_service();
  const shmtensor_queue_options one = {.size = sizeof one, .max_messages = 1};
  const shmtensor_queue_options two = {.size = sizeof two, .max_messages = 2};
  shmtensor_queue *queue = NULL, *same = NULL;
  shmtensor_value *value = integer(41), *out = NULL;
  int fd = -1;
  CHECK_OK(shmtensor_queue_open(service, "q", &one, &queue));
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &same));
  CHECK_FAILS(shmtensor_queue_open(service, "q", &two, &same), SHMTENSOR_E_VALUE, "takes 1 messages, not 2");
  CHECK_FAILS(shmtensor_queue_get(same, 0, &out), SHMTENSOR_E_EMPTY, "no message");
  CHECK_OK(shmtensor_queue_put(queue, value, LONG));
  CHECK_FAILS(shmtensor_queue_put(queue, value, 0.01), SHMTENSOR_E_FULL, "no room");
  CHECK_OK(shmtensor_queue_fileno(same, &fd));
  CHECK(fd >= 0);
  CHECK_OK(shmtensor_queue_get(same, LONG, &out));
  CHECK_EQ(taken_integer(out), 41);
  CHECK_OK(shmtensor_queue_task_done(same));
  CHECK_FAILS(shmtensor_queue_task_done(same), SHMTENSOR_E_STATE, "more messages");
  CHECK_FAILS(shmtensor_queue_get(same, 0.0 / 0.0, &out), SHMTENSOR_E_VALUE, "nan");
  CHECK_FAILS(shmtensor_queue_put(queue, NULL, 0), SHMTENSOR_E_VALUE, "value is NULL");
  CHECK_FAILS(shmtensor_queue_get(queue, 0, NULL), SHMTENSOR_E_VALUE, "out is NULL");
  shmtensor_value_free(value);
}

TEST(tensor_of_the_service_is_the_same_memory_for_the_taker) {
  shmtensor_service* service = own_service();
  shmtensor_queue* queue = NULL;
  DLManagedTensorVersioned *sent = NULL, *kept = NULL, *got = NULL;
  shmtensor_value *value = NULL, *out = NULL;
  const int64_t shape[] = {4, 5};
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &queue));
  CHECK_FAILS(shmtensor_empty(service, uint8(), -1, shape, &sent), SHMTENSOR_E_VALUE, "ndim");
  CHECK_FAILS(shmtensor_empty(service, uint8(), 2, NULL, &sent), SHMTENSOR_E_VALUE, "shape");
  CHECK_FAILS(shmtensor_empty(service, shmtensor_dtype(kDLFloat, 8), 2, shape, &sent), SHMTENSOR_E_TYPE, "dtype");
  CHECK_OK(shmtensor_empty(service, uint8(), 2, shape, &sent));
  CHECK_OK(shmtensor_tensor(sent, &value));
  CHECK_OK(shmtensor_value_get_tensor(value, &kept));
  CHECK_OK(shmtensor_queue_put(queue, value, LONG));
  CHECK_OK(shmtensor_queue_get(queue, LONG, &out));
  CHECK_OK(shmtensor_value_get_tensor(out, &got));
  memset(kept->dl_tensor.data, 9, 20);
  CHECK_EQ(((unsigned char*)got->dl_tensor.data)[19], 9);
  CHECK_EQ(got->dl_tensor.shape[1], 5);
  shmtensor_value_free(out);
  shmtensor_value_free(value);
  kept->deleter(kept);
  got->deleter(got);
}

TEST(long_and_deep_messages) {
  shmtensor_service* service = own_service();
  shmtensor_queue* queue = NULL;
  shmtensor_value *value = NULL, *out = NULL;
  const size_t n = 1 << 20;
  const void* data = NULL;
  size_t n_out = 0;
  char* large = calloc(n, 1);
  CHECK(large != NULL);
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &queue));
  large[n - 1] = 7;
  CHECK_OK(shmtensor_bytes(large, n, &value));
  CHECK_OK(shmtensor_queue_put(queue, value, LONG));
  CHECK_OK(shmtensor_queue_get(queue, LONG, &out));
  CHECK_OK(shmtensor_value_get_bytes(out, &data, &n_out));
  CHECK(n_out == n && ((const char*)data)[n - 1] == 7);
  shmtensor_value_free(out);
  shmtensor_value_free(value);
  CHECK_OK(shmtensor_list(&value));
  for (int depth = 1; depth <= 13; depth++) {
    CHECK_EQ(shmtensor_queue_put(queue, value, LONG), depth <= 12 ? SHMTENSOR_OK : SHMTENSOR_E_VALUE);
    shmtensor_value* outer = NULL;
    CHECK_OK(shmtensor_list(&outer));
    CHECK_OK(shmtensor_value_append(outer, value));
    value = outer;
  }
  for (int i = 0; i < 12; i++) {
    CHECK_OK(shmtensor_queue_get(queue, LONG, &out));
    shmtensor_value_free(out);
  }
  shmtensor_value_free(value);
  free(large);
}

TEST(delivery_goes_back_unless_it_is_acknowledged) {
  shmtensor_service* service = own_service();
  const shmtensor_queue_options options = {.size = sizeof options, .max_deliveries = 3};
  shmtensor_queue* queue = NULL;
  shmtensor_delivery* delivery = NULL;
  shmtensor_value *value = integer(5), *out = NULL;
  uint32_t count = 0, n = 9;
  CHECK_OK(shmtensor_queue_open(service, "q", &options, &queue));
  CHECK_OK(shmtensor_queue_put(queue, value, LONG));
  CHECK_OK(shmtensor_queue_get_delivery(queue, LONG, &out, &delivery, &count));
  CHECK_EQ(count, 1);
  shmtensor_value_free(out);
  CHECK_OK(shmtensor_delivery_release(delivery));
  CHECK_FAILS(shmtensor_delivery_acknowledge(delivery), SHMTENSOR_E_CLOSED, "delivery is closed");
  CHECK_OK(shmtensor_queue_get_delivery(queue, LONG, &out, &delivery, &count));
  CHECK_EQ(count, 2);
  CHECK_EQ(taken_integer(out), 5);
  CHECK_OK(shmtensor_delivery_acknowledge(delivery));
  CHECK_FAILS(shmtensor_delivery_acknowledge(delivery), SHMTENSOR_E_CLOSED, "delivery is closed");
  CHECK_FAILS(shmtensor_delivery_release(NULL), SHMTENSOR_E_VALUE, "delivery is NULL");
  CHECK_OK(shmtensor_queue_length(queue, &n));
  CHECK_EQ(n, 0);
  shmtensor_value_free(value);
}

static void* get_for_ever(void* queue) {
  shmtensor_value* out = NULL;
  return (void*)(intptr_t)shmtensor_queue_get(queue, -1, &out);
}

TEST(closing_ends_the_waits_of_other_threads) {
  shmtensor_service* service = own_service();
  shmtensor_queue* queue = NULL;
  pthread_t thread;
  void* status = NULL;
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &queue));
  run_thread(get_for_ever, queue, &thread);
  sleep_ms(50);
  CHECK_OK(shmtensor_queue_close(queue));
  CHECK_EQ(pthread_join(thread, &status), 0);
  CHECK_EQ((intptr_t)status, SHMTENSOR_E_CLOSED);
}

static void on_signal(int number) { (void)number; }

TEST(signal_ends_a_wait) {
  shmtensor_service* service = own_service();
  shmtensor_queue* queue = NULL;
  pthread_t thread;
  void* status = NULL;
  const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &queue));
  run_thread(get_for_ever, queue, &thread);
  sleep_ms(400); /* it sleeps by then, in its second slice */
  CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
  CHECK_EQ(pthread_join(thread, &status), 0);
  CHECK_EQ((intptr_t)status, SHMTENSOR_E_INTERRUPTED);
}

/* --- topics --- */

TEST(every_subscriber_gets_every_message) {
  shmtensor_service* service = own_service();
  const shmtensor_topic_options options = {.size = sizeof options, .depth = 2, .history = 1};
  const shmtensor_topic_options other = {.size = sizeof other, .depth = 3};
  shmtensor_topic* topic = NULL;
  shmtensor_subscription *a = NULL, *b = NULL;
  shmtensor_value *value = NULL, *out = NULL;
  uint64_t lost = 9;
  int fd = -1;
  CHECK_OK(shmtensor_topic_open(service, "t", &options, &topic));
  CHECK_FAILS(shmtensor_topic_open(service, "t", &other, &topic), SHMTENSOR_E_VALUE, "depth=2, not 3");
  CHECK_FAILS(shmtensor_topic_latest(topic, SHMTENSOR_READ_ONLY, &out), SHMTENSOR_E_EMPTY, "no message");
  CHECK_OK(shmtensor_topic_subscribe(topic, NULL, &a));
  for (int i = 1; i <= 3; i++) {
    value = integer(i);
    CHECK_OK(shmtensor_topic_publish(topic, value, LONG));
    shmtensor_value_free(value);
  }
  CHECK_OK(shmtensor_topic_subscribe(topic, NULL, &b));
  CHECK_OK(shmtensor_subscription_get(a, LONG, &out));
  CHECK_EQ(taken_integer(out), 2);
  CHECK_OK(shmtensor_subscription_lost(a, &lost));
  CHECK_EQ(lost, 1);
  CHECK_OK(shmtensor_subscription_get(b, LONG, &out));
  CHECK_EQ(taken_integer(out), 3);
  CHECK_OK(shmtensor_subscription_fileno(b, &fd));
  CHECK_OK(shmtensor_subscription_latest(a, LONG, &out));
  CHECK_EQ(taken_integer(out), 3);
  CHECK_OK(shmtensor_topic_latest(topic, SHMTENSOR_READ_ONLY, &out));
  CHECK_EQ(taken_integer(out), 3);
  CHECK_FAILS(shmtensor_topic_latest(topic, 3, &out), SHMTENSOR_E_VALUE, "mode");
  CHECK_FAILS(shmtensor_subscription_get(a, 0, &out), SHMTENSOR_E_EMPTY, "no message");
  CHECK_OK(shmtensor_topic_close(topic));
  CHECK_OK(shmtensor_subscription_close(a));
  CHECK_FAILS(shmtensor_subscription_get(a, 0, &out), SHMTENSOR_E_CLOSED, "subscription is closed");
  CHECK_OK(shmtensor_subscription_close(b));
}

TEST(loan_is_published_once_without_a_copy) {
  shmtensor_service* service = own_service();
  shmtensor_topic* topic = NULL;
  shmtensor_subscription* subscription = NULL;
  shmtensor_loan* loan = NULL;
  shmtensor_value* out = NULL;
  DLManagedTensorVersioned* got = NULL;
  void* data = NULL;
  size_t nbytes = 0;
  const int64_t shape[] = {480, 640, 3};
  CHECK_OK(shmtensor_topic_open(service, "t", NULL, &topic));
  CHECK_OK(shmtensor_topic_subscribe(topic, NULL, &subscription));
  CHECK_OK(shmtensor_topic_loan(topic, uint8(), 3, shape, &loan));
  CHECK_OK(shmtensor_loan_data(loan, &data, &nbytes));
  CHECK_EQ(nbytes, 480 * 640 * 3);
  memset(data, 5, nbytes);
  CHECK_OK(shmtensor_loan_publish(loan, LONG));
  CHECK_FAILS(shmtensor_loan_publish(loan, LONG), SHMTENSOR_E_STATE, "published before");
  CHECK_OK(shmtensor_subscription_get(subscription, LONG, &out));
  CHECK_OK(shmtensor_value_get_tensor(out, &got));
  CHECK((got->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
  ((unsigned char*)data)[1] = 6; /* the same memory */
  CHECK_EQ(((unsigned char*)got->dl_tensor.data)[1], 6);
  CHECK_EQ(got->dl_tensor.ndim, 3);
  CHECK_OK(shmtensor_loan_close(loan));
  CHECK_FAILS(shmtensor_loan_data(loan, &data, &nbytes), SHMTENSOR_E_CLOSED, "loan is closed");
  CHECK_FAILS(shmtensor_topic_loan(topic, uint8(), 65, shape, &loan), SHMTENSOR_E_VALUE, "ndim");
  CHECK_EQ(((unsigned char*)got->dl_tensor.data)[0], 5);
  got->deleter(got);
  shmtensor_value_free(out);
}

static void* close_loan_soon(void* loan) {
  sleep_ms(50);
  CHECK_OK(shmtensor_loan_close(loan));
  return NULL;
}

TEST(loans_and_tensors_wait_for_room) {
  CHECK_EQ(setenv("SHMTENSOR_MAX_SHARED_BYTES", "67108864", 1), 0);
  shmtensor_service* service = own_service();
  shmtensor_topic* topic = NULL;
  shmtensor_loan *first = NULL, *second = NULL;
  DLManagedTensorVersioned* tensor = NULL;
  pthread_t thread;
  const int64_t shape[] = {40 << 20};
  CHECK_OK(shmtensor_topic_open(service, "t", NULL, &topic));
  CHECK_OK(shmtensor_topic_loan(topic, uint8(), 1, shape, &first));
  CHECK_EQ(shmtensor_topic_loan(topic, uint8(), 1, shape, &second), SHMTENSOR_E_NO_MEMORY);
  CHECK_EQ(shmtensor_topic_loan_within(topic, uint8(), 1, shape, 0.02, &second), SHMTENSOR_E_NO_MEMORY);
  CHECK_EQ(shmtensor_empty_within(service, uint8(), 1, shape, 0.02, &tensor), SHMTENSOR_E_NO_MEMORY);
  CHECK_FAILS(shmtensor_topic_loan_within(topic, uint8(), 1, shape, 0.0 / 0.0, &second), SHMTENSOR_E_VALUE, "nan");
  run_thread(close_loan_soon, first, &thread);
  CHECK_OK(shmtensor_topic_loan_within(topic, uint8(), 1, shape, LONG, &second));
  CHECK_EQ(pthread_join(thread, NULL), 0);
  run_thread(close_loan_soon, second, &thread);
  CHECK_OK(shmtensor_empty_within(service, uint8(), 1, shape, -1, &tensor));
  CHECK_EQ(pthread_join(thread, NULL), 0);
  tensor->deleter(tensor);
}

/* --- calls --- */

static void* serve_three(void* handle) {
  shmtensor_server* server = handle;
  for (int i = 0; i < 3; i++) {
    shmtensor_value *value = NULL, *reply = NULL;
    shmtensor_request* request = NULL;
    int wanted = -1;
    CHECK_OK(shmtensor_server_take(server, LONG, &value, &request));
    CHECK_OK(shmtensor_request_is_wanted(request, &wanted));
    CHECK_EQ(wanted, 1);
    reply = integer(2 * integer_of(value));
    if (i == 0) CHECK_OK(shmtensor_request_reply(request, reply, &wanted));
    if (i == 1) CHECK_OK(shmtensor_request_fail(request, "not this one", &wanted));
    if (i < 2) CHECK_FAILS(shmtensor_request_reply(request, reply, NULL), SHMTENSOR_E_STATE, "answered before");
    CHECK_OK(shmtensor_request_close(request)); /* the third one has no answer */
    CHECK_FAILS(shmtensor_request_reply(request, reply, NULL), SHMTENSOR_E_CLOSED, "request is closed");
    shmtensor_value_free(reply);
    shmtensor_value_free(value);
  }
  return NULL;
}

TEST(calls_are_answered_fail_or_are_lost) {
  shmtensor_service* service = own_service();
  shmtensor_server* server = NULL;
  shmtensor_client* client = NULL;
  shmtensor_request* request = NULL;
  shmtensor_value *value = integer(21), *out = NULL;
  pthread_t thread;
  int fd = -1;
  CHECK_OK(shmtensor_client_open(service, "s", &client));
  CHECK_FAILS(shmtensor_client_call(client, value, 0.01, &out), SHMTENSOR_E_TIMEOUT, "time");
  CHECK_OK(shmtensor_server_open(service, "s", NULL, &server));
  CHECK_OK(shmtensor_server_fileno(server, &fd));
  CHECK_FAILS(shmtensor_server_take(server, 0, &out, &request), SHMTENSOR_E_EMPTY, "no message"); /* it was given up */
  run_thread(serve_three, server, &thread);
  CHECK_OK(shmtensor_client_call(client, value, LONG, &out));
  CHECK_EQ(taken_integer(out), 42);
  CHECK_FAILS(shmtensor_client_call(client, value, LONG, &out), SHMTENSOR_E_REMOTE, "not this one");
  CHECK_FAILS(shmtensor_client_call(client, value, LONG, &out), SHMTENSOR_E_LOST, "let go");
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_FAILS(shmtensor_client_call(client, NULL, LONG, &out), SHMTENSOR_E_VALUE, "request is NULL");
  CHECK_OK(shmtensor_client_close(client));
  CHECK_OK(shmtensor_server_close(server));
  CHECK_FAILS(shmtensor_client_call(client, value, LONG, &out), SHMTENSOR_E_CLOSED, "client is closed");
  shmtensor_value_free(value);
}

/* Answer so many requests with twice their value, the last one first. */
static void answer_backwards(shmtensor_server* server, int n) {
  enum { MOST = 100 };
  shmtensor_request* requests[MOST];
  shmtensor_value* values[MOST];
  for (int i = 0; i < n; i++) CHECK_OK(shmtensor_server_take(server, LONG, &values[i], &requests[i]));
  for (int i = n; i-- > 0;) {
    shmtensor_value* reply = integer(2 * integer_of(values[i]));
    CHECK_OK(shmtensor_request_reply(requests[i], reply, NULL));
    CHECK_OK(shmtensor_request_close(requests[i]));
    shmtensor_value_free(reply);
    shmtensor_value_free(values[i]);
  }
}

TEST(calls_that_are_submitted_are_answered_in_any_order) {
  enum { MANY = 100 };
  shmtensor_service* service = own_service();
  shmtensor_server* server = NULL;
  shmtensor_client* client = NULL;
  shmtensor_call* calls[MANY];
  shmtensor_value* out = NULL;
  int done = 9;
  CHECK_OK(shmtensor_server_open(service, "s", NULL, &server));
  CHECK_OK(shmtensor_client_open(service, "s", &client));
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < MANY; i++) {
      shmtensor_value* value = integer(i);
      CHECK_OK(shmtensor_client_submit(client, value, LONG, &calls[i]));
      shmtensor_value_free(value);
    }
    CHECK_OK(shmtensor_call_is_done(calls[0], &done));
    CHECK_EQ(done, 0);
    CHECK_FAILS(shmtensor_call_wait(calls[0], 0, &out), SHMTENSOR_E_TIMEOUT, "time");
    CHECK_FAILS(shmtensor_call_wait(calls[0], 0.01, &out), SHMTENSOR_E_TIMEOUT, "time");
    answer_backwards(server, MANY);
    for (int i = 0; i < MANY; i++) {
      CHECK_OK(shmtensor_call_is_done(calls[i], &done));
      CHECK_EQ(done, 1);
      CHECK_OK(shmtensor_call_wait(calls[i], LONG, &out));
      CHECK_EQ(taken_integer(out), 2 * i);
      CHECK_FAILS(shmtensor_call_wait(calls[i], LONG, &out), SHMTENSOR_E_STATE, "its reply taken");
      CHECK_FAILS(shmtensor_call_cancel(calls[i]), SHMTENSOR_E_STATE, "its reply taken");
      CHECK_OK(shmtensor_call_is_done(calls[i], &done));
      CHECK_EQ(done, 1);
      CHECK_OK(shmtensor_call_close(calls[i]));
    }
  }
  CHECK_FAILS(shmtensor_call_wait(calls[0], 0, &out), SHMTENSOR_E_CLOSED, "call is closed");
  CHECK_OK(shmtensor_client_close(client));
}

TEST(calls_are_refused_failed_lost_or_cancelled) {
  shmtensor_service* service = own_service();
  const shmtensor_server_options one = {.size = sizeof one, .max_requests = 1};
  shmtensor_server* server = NULL;
  shmtensor_client* client = NULL;
  shmtensor_call *call = NULL, *other = NULL;
  shmtensor_request* request = NULL;
  shmtensor_value *value = integer(1), *out = NULL;
  int wanted = 9, done = 9;
  CHECK_OK(shmtensor_client_open(service, "s", &client));
  CHECK_OK(shmtensor_server_open(service, "s", &one, &server));
  CHECK_FAILS(shmtensor_client_submit(client, NULL, LONG, &call), SHMTENSOR_E_VALUE, "request is NULL");
  CHECK_FAILS(shmtensor_client_submit(client, value, LONG, NULL), SHMTENSOR_E_VALUE, "out is NULL");
  CHECK_FAILS(shmtensor_client_submit(client, value, 0.0 / 0.0, &call), SHMTENSOR_E_VALUE, "nan");
  CHECK_FAILS(shmtensor_call_wait(NULL, 0, &out), SHMTENSOR_E_VALUE, "call is NULL");
  CHECK_EQ(call == NULL, 1);
  CHECK_OK(shmtensor_client_submit(client, value, LONG, &call));
  CHECK_FAILS(shmtensor_client_submit(client, value, 0.01, &other), SHMTENSOR_E_FULL, "no room");
  CHECK_EQ(other == NULL, 1);
  CHECK_FAILS(shmtensor_call_wait(call, 0, NULL), SHMTENSOR_E_VALUE, "out is NULL");
  /* Cancelled before it is taken, and after. */
  CHECK_OK(shmtensor_call_cancel(call));
  CHECK_OK(shmtensor_call_cancel(call));
  CHECK_FAILS(shmtensor_call_wait(call, LONG, &out), SHMTENSOR_E_STATE, "was cancelled");
  CHECK_FAILS(shmtensor_server_take(server, 0, &out, &request), SHMTENSOR_E_EMPTY, "no message");
  CHECK_OK(shmtensor_call_close(call));
  CHECK_OK(shmtensor_client_submit(client, value, LONG, &call));
  CHECK_OK(shmtensor_server_take(server, LONG, &out, &request));
  shmtensor_value_free(out);
  CHECK_OK(shmtensor_request_is_wanted(request, &wanted));
  CHECK_EQ(wanted, 1);
  CHECK_OK(shmtensor_call_close(call)); /* which cancels it */
  CHECK_OK(shmtensor_request_is_wanted(request, &wanted));
  CHECK_EQ(wanted, 0);
  /* Its line serves the next call, and a late reply is none of its. */
  CHECK_OK(shmtensor_client_submit(client, value, LONG, &call));
  CHECK_OK(shmtensor_request_reply(request, value, &wanted));
  CHECK_EQ(wanted, 0);
  CHECK_OK(shmtensor_request_close(request));
  CHECK_OK(shmtensor_call_is_done(call, &done));
  CHECK_EQ(done, 0);
  CHECK_OK(shmtensor_server_take(server, LONG, &out, &request));
  shmtensor_value_free(out);
  CHECK_OK(shmtensor_request_fail(request, "not this one", NULL));
  CHECK_OK(shmtensor_request_close(request));
  CHECK_FAILS(shmtensor_call_wait(call, LONG, &out), SHMTENSOR_E_REMOTE, "not this one");
  CHECK_OK(shmtensor_call_close(call));
  /* The client may be closed first. */
  CHECK_OK(shmtensor_client_submit(client, value, LONG, &call));
  CHECK_OK(shmtensor_client_close(client));
  CHECK_OK(shmtensor_server_take(server, LONG, &out, &request));
  shmtensor_value_free(out);
  CHECK_OK(shmtensor_request_close(request));
  CHECK_FAILS(shmtensor_call_wait(call, LONG, &out), SHMTENSOR_E_LOST, "let go");
  CHECK_OK(shmtensor_call_close(call));
  shmtensor_value_free(value);
}

/* A server in a child, which takes one request, says so, and stays. */
static pid_t taking_child(int* out_fd) {
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    shmtensor_service* service = own_service();
    shmtensor_server* server = NULL;
    shmtensor_request* request = NULL;
    shmtensor_value* value = NULL;
    CHECK_OK(shmtensor_server_open(service, "s", NULL, &server));
    CHECK_OK(shmtensor_server_take(server, LONG, &value, &request));
    CHECK_EQ(write(ends[1], "x", 1), 1);
    for (;;) pause();
  }
  CHECK_EQ(close(ends[1]), 0);
  *out_fd = ends[0];
  return child;
}

TEST(submitted_call_is_lost_with_its_server) {
  shmtensor_service* service = own_service();
  shmtensor_client* client = NULL;
  shmtensor_call* call = NULL;
  shmtensor_value *value = integer(1), *out = NULL;
  int fd = -1, done = 9;
  char byte = 0;
  const pid_t child = taking_child(&fd);
  CHECK_OK(shmtensor_client_open(service, "s", &client));
  CHECK_OK(shmtensor_client_submit(client, value, LONG, &call));
  CHECK_EQ(read(fd, &byte, 1), 1);
  shmtensor_wait_item items[2] = {{.size = sizeof items[0], .handle = call}, {.size = sizeof items[0], .fd = fd}};
  CHECK_FAILS(shmtensor_wait_any(items, 1, 0.05, NULL), SHMTENSOR_E_TIMEOUT, "nothing was ready");
  CHECK_FAILS(shmtensor_call_wait(call, 0.05, &out), SHMTENSOR_E_TIMEOUT, "time");
  CHECK_EQ(kill(child, SIGKILL), 0);
  CHECK_OK(shmtensor_wait_any(items, 1, LONG, NULL));
  CHECK_EQ(items[0].is_ready, 1);
  CHECK_OK(shmtensor_wait_any(items, 2, LONG, NULL)); /* the pipe is broken, too */
  CHECK_EQ(items[0].is_ready, 1);
  CHECK_OK(shmtensor_call_is_done(call, &done));
  CHECK_EQ(done, 1);
  for (int i = 0; i < 2; i++) CHECK_FAILS(shmtensor_call_wait(call, LONG, &out), SHMTENSOR_E_LOST, "was killed");
  CHECK_OK(shmtensor_call_close(call));
  CHECK_EQ(waitpid(child, NULL, 0), child);
  CHECK_EQ(close(fd), 0);
  shmtensor_value_free(value);
}

typedef struct call_waiter {
  shmtensor_call* call;
  double timeout;
  atomic_int status;
} call_waiter;

static void* wait_for_call(void* arg) {
  call_waiter* w = arg;
  shmtensor_value* out = NULL;
  w->status = shmtensor_call_wait(w->call, w->timeout, &out);
  shmtensor_value_free(out);
  return NULL;
}

TEST(cancelling_or_closing_ends_the_waits_of_other_threads) {
  enum { WAITERS = 3 };
  shmtensor_service* service = own_service();
  shmtensor_client* client = NULL;
  shmtensor_server* server = NULL;
  shmtensor_value* value = integer(1);
  CHECK_OK(shmtensor_server_open(service, "s", NULL, &server));
  CHECK_OK(shmtensor_client_open(service, "s", &client));
  for (int how = 0; how < 3; how++) {
    call_waiter waiters[WAITERS];
    pthread_t threads[WAITERS];
    shmtensor_call* call = NULL;
    int n_ok = 0;
    CHECK_OK(shmtensor_client_submit(client, value, LONG, &call));
    for (int i = 0; i < WAITERS; i++) {
      waiters[i] = (call_waiter){.call = call, .timeout = -1, .status = -1};
      run_thread(wait_for_call, &waiters[i], &threads[i]);
    }
    sleep_ms(50);
    if (how == 0) CHECK_OK(shmtensor_call_cancel(call));
    if (how == 1) CHECK_OK(shmtensor_call_close(call));
    if (how == 2) answer_backwards(server, 1); /* one of them gets it */
    for (int i = 0; i < WAITERS; i++) {
      CHECK_EQ(pthread_join(threads[i], NULL), 0);
      n_ok += waiters[i].status == SHMTENSOR_OK;
      if (waiters[i].status == SHMTENSOR_OK) continue;
      CHECK_EQ(waiters[i].status, how == 1 ? SHMTENSOR_E_CLOSED : SHMTENSOR_E_STATE);
    }
    CHECK_EQ(n_ok, how == 2);
    if (how != 1) CHECK_OK(shmtensor_call_close(call));
  }
  shmtensor_value_free(value);
}

static double now_s(void) {
  struct timespec t;
  CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &t), 0);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void* wait_for_any_call(void* arg) {
  call_waiter* w = arg;
  shmtensor_wait_item item = {.size = sizeof item, .handle = w->call};
  w->status = shmtensor_wait_any(&item, 1, w->timeout, NULL);
  return NULL;
}

/* Who sleeps looks four times a second by itself: the quickest of several shows that it was woken. */
TEST(cancelling_wakes_who_waits_at_once) {
  enum { TRIES = 10 };
  shmtensor_service* service = own_service();
  shmtensor_client* client = NULL;
  shmtensor_value* value = integer(1);
  CHECK_OK(shmtensor_client_open(service, "s", &client));
  for (int any = 0; any < 2; any++) {
    double least_s = LONG;
    for (int i = 0; i < TRIES; i++) {
      call_waiter waiter = {.timeout = -1, .status = -1};
      pthread_t thread;
      CHECK_OK(shmtensor_client_submit(client, value, LONG, &waiter.call));
      run_thread(any ? wait_for_any_call : wait_for_call, &waiter, &thread);
      sleep_ms(20);
      const double begun_s = now_s();
      CHECK_OK(shmtensor_call_cancel(waiter.call));
      CHECK_EQ(pthread_join(thread, NULL), 0);
      const double took_s = now_s() - begun_s;
      if (took_s < least_s) least_s = took_s;
      CHECK_EQ(waiter.status, any ? SHMTENSOR_OK : SHMTENSOR_E_STATE);
      CHECK_OK(shmtensor_call_close(waiter.call));
    }
    CHECK(least_s < 0.1);
  }
  shmtensor_value_free(value);
}

/* The text of a server's error, as its client gets it. */
static const char* told(shmtensor_service* service, const char* text) {
  shmtensor_client* client = NULL;
  shmtensor_server* server = NULL;
  shmtensor_request* request = NULL;
  shmtensor_call* call = NULL;
  shmtensor_value *value = integer(1), *out = NULL;
  CHECK_OK(shmtensor_server_open(service, "s", NULL, &server));
  CHECK_OK(shmtensor_client_open(service, "s", &client));
  CHECK_OK(shmtensor_client_submit(client, value, LONG, &call));
  CHECK_OK(shmtensor_server_take(server, LONG, &out, &request));
  CHECK_OK(shmtensor_request_fail(request, text, NULL));
  shmtensor_value_free(out);
  shmtensor_value_free(value);
  CHECK_OK(shmtensor_request_close(request));
  CHECK_OK(shmtensor_server_close(server));
  CHECK_FAILS(shmtensor_call_wait(call, LONG, &out), SHMTENSOR_E_REMOTE, "");
  CHECK_OK(shmtensor_client_close(client));
  return shmtensor_message();
}

TEST(text_of_a_servers_error_is_whole_or_ends_with_a_whole_character) {
  shmtensor_service* service = own_service();
  char text[6001];
  memset(text, 'x', sizeof text);
  text[4095] = '\0';
  CHECK(strcmp(told(service, text), text) == 0);
  for (size_t i = 0; i < 6000; i += 3) memcpy(text + i, "\xe2\x82\xac", 3);
  text[6000] = '\0';
  const char* cut = told(service, text);
  CHECK_EQ(strlen(cut) % 3, 0);
  CHECK(strlen(cut) > 4000 && strncmp(cut, text, strlen(cut)) == 0);
}

TEST(calls_of_the_parent_are_not_the_childs) {
  shmtensor_service* service = own_service();
  shmtensor_client* client = NULL;
  shmtensor_server* server = NULL;
  shmtensor_call* call = NULL;
  shmtensor_value *value = integer(4), *out = NULL;
  int status = 0;
  CHECK_OK(shmtensor_server_open(service, "s", NULL, &server));
  CHECK_OK(shmtensor_client_open(service, "s", &client));
  CHECK_OK(shmtensor_client_submit(client, value, LONG, &call));
  const pid_t child = fork();
  if (child == 0) {
    shmtensor_wait_item item = {.size = sizeof item, .handle = call};
    CHECK_FAILS(shmtensor_call_wait(call, LONG, &out), SHMTENSOR_E_STATE, "forked from");
    CHECK_FAILS(shmtensor_call_cancel(call), SHMTENSOR_E_STATE, "forked from");
    CHECK_OK(shmtensor_wait_any(&item, 1, LONG, NULL));
    CHECK_OK(shmtensor_call_close(call));
    _exit(0);
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  answer_backwards(server, 1);
  CHECK_OK(shmtensor_call_wait(call, LONG, &out));
  CHECK_EQ(taken_integer(out), 8);
  shmtensor_value_free(value);
}

/* --- events, locks --- */

static void* pulse_soon(void* event) {
  for (int i = 0; i < 100; i++) {
    sleep_ms(20);
    (void)shmtensor_event_pulse(event, 77);
  }
  return NULL;
}

TEST(event_is_set_cleared_and_pulsed) {
  shmtensor_service* service = own_service();
  shmtensor_event *event = NULL, *same = NULL;
  pthread_t thread;
  int is_set = -1, fd = -1;
  uint64_t id = 0;
  CHECK_OK(shmtensor_event_open(service, "e", 0, &event));
  CHECK_OK(shmtensor_event_open(service, "e", 0, &same));
  CHECK_FAILS(shmtensor_event_wait(event, 0), SHMTENSOR_E_TIMEOUT, "time");
  CHECK_OK(shmtensor_event_set(event));
  CHECK_OK(shmtensor_event_wait(same, LONG));
  CHECK_OK(shmtensor_event_clear(same));
  CHECK_OK(shmtensor_event_is_set(event, &is_set));
  CHECK_EQ(is_set, 0);
  CHECK_OK(shmtensor_event_fileno(event, &fd));
  run_thread(pulse_soon, same, &thread);
  CHECK_OK(shmtensor_event_wait_pulse(event, LONG, &id));
  CHECK_EQ(id, 77);
  CHECK_FAILS(shmtensor_event_wait_pulse(event, LONG, NULL), SHMTENSOR_E_VALUE, "out_id is NULL");
  CHECK_FAILS(shmtensor_queue_open(service, "e", NULL, (shmtensor_queue**)&event), SHMTENSOR_E_VALUE,
              "'e' is an event, not a queue");
  CHECK_OK(shmtensor_event_close(same)); /* while the thread uses it */
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(lock_is_one_at_a_time) {
  shmtensor_service* service = own_service();
  shmtensor_lock *a = NULL, *b = NULL;
  CHECK_OK(shmtensor_lock_open(service, "l", 1, &a));
  CHECK_OK(shmtensor_lock_open(service, "l", 1, &b));
  CHECK_FAILS(shmtensor_lock_open(service, "l", 233, &b), SHMTENSOR_E_VALUE, "n must be 0 to 232, got 233");
  CHECK_EQ(shmtensor_lock_open(service, "l", 2, &b), SHMTENSOR_E_VALUE);
  CHECK_FAILS(shmtensor_lock_release(a), SHMTENSOR_E_STATE, "was taken by this handle");
  CHECK_OK(shmtensor_lock_acquire(a, LONG));
  CHECK_FAILS(shmtensor_lock_acquire(b, 0.01), SHMTENSOR_E_TIMEOUT, "no permit");
  CHECK_OK(shmtensor_lock_release(a));
  CHECK_OK(shmtensor_lock_acquire(b, LONG));
  CHECK_OK(shmtensor_lock_close(b)); /* which releases it */
  CHECK_OK(shmtensor_lock_acquire(a, LONG));
  CHECK_OK(shmtensor_lock_release(a));
  CHECK_OK(shmtensor_lock_close(a));
  CHECK_FAILS(shmtensor_lock_acquire(a, 0), SHMTENSOR_E_CLOSED, "lock is closed");
}

enum { WAITS = -1 }; /* in place of a status */

typedef struct party {
  shmtensor_barrier* barrier;
  double timeout;
  int is_last;
  atomic_int status;
} party;

static void* arrive(void* arg) {
  party* p = arg;
  p->status = shmtensor_barrier_wait(p->barrier, p->timeout, &p->is_last);
  return NULL;
}

/* A signal may come before the thread waits: then it takes another one. */
static void interrupt(pthread_t thread, const atomic_int* status) {
  for (; *status == WAITS; sleep_ms(10)) CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(*status, SHMTENSOR_E_INTERRUPTED);
}

static void wait_for_arrivals(shmtensor_barrier* barrier, uint32_t n) {
  uint32_t n_waiting = 0;
  while (n_waiting != n) {
    sleep_ms(1);
    CHECK_OK(shmtensor_barrier_n_waiting(barrier, &n_waiting));
  }
}

TEST(barrier_lets_all_parties_go_at_once) {
  enum { PARTIES = 3, PHASES = 5 };
  shmtensor_service* service = own_service();
  party parties[PARTIES];
  pthread_t threads[PARTIES];
  for (int i = 0; i < PARTIES; i++) {
    parties[i] = (party){.timeout = LONG};
    CHECK_OK(shmtensor_barrier_open(service, "b", PARTIES, &parties[i].barrier));
  }
  for (int phase = 0; phase < PHASES; phase++) {
    int n_last = 0;
    for (int i = 0; i < PARTIES; i++) {
      run_thread(arrive, &parties[i], &threads[i]);
      if (i < PARTIES - 1) wait_for_arrivals(parties[0].barrier, (uint32_t)i + 1);
    }
    for (int i = 0; i < PARTIES; i++) {
      CHECK_EQ(pthread_join(threads[i], NULL), 0);
      CHECK_EQ(parties[i].status, SHMTENSOR_OK);
      n_last += parties[i].is_last;
    }
    CHECK_EQ(n_last, 1);
  }
}

TEST(late_parties_withdraw) {
  shmtensor_service* service = own_service();
  shmtensor_barrier *barrier = NULL, *other = NULL;
  shmtensor_lock* lock = NULL;
  pthread_t thread;
  uint32_t n = 9;
  CHECK_FAILS(shmtensor_barrier_open(service, "b", 0, &barrier), SHMTENSOR_E_VALUE, "parties must be 1 to 48, got 0");
  CHECK_FAILS(shmtensor_barrier_open(service, "b", 49, &barrier), SHMTENSOR_E_VALUE, "got 49");
  CHECK_FAILS(shmtensor_barrier_open(service, "", 2, &barrier), SHMTENSOR_E_VALUE, "1 to 127 bytes, has 0");
  CHECK_OK(shmtensor_barrier_open(service, "b", 2, &barrier));
  CHECK_EQ(shmtensor_barrier_open(service, "b", 3, &other), SHMTENSOR_E_VALUE);
  CHECK_EQ(shmtensor_lock_open(service, "b", 2, &lock), SHMTENSOR_E_VALUE);
  CHECK_FAILS(shmtensor_barrier_wait(barrier, 0, NULL), SHMTENSOR_E_TIMEOUT, "1 of 2 parties of 'b'");
  CHECK_FAILS(shmtensor_barrier_wait(barrier, 0.02, NULL), SHMTENSOR_E_TIMEOUT, "1 of 2 parties of 'b'");
  CHECK_FAILS(shmtensor_barrier_wait(barrier, 0.0 / 0.0, NULL), SHMTENSOR_E_VALUE, "nan");
  CHECK_OK(shmtensor_barrier_n_waiting(barrier, &n));
  CHECK_EQ(n, 0);
  /* Closing ends the wait of another thread, and its arrival does not count. */
  CHECK_OK(shmtensor_barrier_open(service, "b", 2, &other));
  party closed = {.barrier = other, .timeout = -1};
  run_thread(arrive, &closed, &thread);
  wait_for_arrivals(barrier, 1);
  CHECK_OK(shmtensor_barrier_close(other));
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(closed.status, SHMTENSOR_E_CLOSED);
  wait_for_arrivals(barrier, 0);
  CHECK_OK(shmtensor_barrier_close(barrier));
  CHECK_FAILS(shmtensor_barrier_wait(barrier, 0, NULL), SHMTENSOR_E_CLOSED, "barrier is closed");
}

TEST(signal_withdraws_from_a_barrier) {
  shmtensor_service* service = own_service();
  const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  party p = {.timeout = -1, .status = WAITS};
  pthread_t thread;
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
  CHECK_OK(shmtensor_barrier_open(service, "b", 2, &p.barrier));
  run_thread(arrive, &p, &thread);
  wait_for_arrivals(p.barrier, 1);
  interrupt(thread, &p.status);
  wait_for_arrivals(p.barrier, 0);
}

/* --- several at once --- */

static shmtensor_wait_item item_of(const void* handle, int fd) {
  return (shmtensor_wait_item){.size = sizeof(shmtensor_wait_item), .handle = handle, .fd = fd, .is_ready = -1};
}

typedef struct things {
  shmtensor_queue* queue;
  shmtensor_topic* topic;
  shmtensor_subscription* subscription;
  shmtensor_event* event;
  shmtensor_server* server;
  shmtensor_client* client;
  int pipe[2];
} things;

enum { QUEUE, SUBSCRIPTION, EVENT, SERVER, PIPE, N_ITEMS };

static things open_things(shmtensor_service* service, shmtensor_wait_item items[N_ITEMS]) {
  things t;
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &t.queue));
  CHECK_OK(shmtensor_topic_open(service, "t", NULL, &t.topic));
  CHECK_OK(shmtensor_topic_subscribe(t.topic, NULL, &t.subscription));
  CHECK_OK(shmtensor_event_open(service, "e", 0, &t.event));
  CHECK_OK(shmtensor_server_open(service, "s", NULL, &t.server));
  CHECK_OK(shmtensor_client_open(service, "s", &t.client));
  CHECK_EQ(pipe(t.pipe), 0);
  items[QUEUE] = item_of(t.queue, -1);
  items[SUBSCRIPTION] = item_of(t.subscription, -1);
  items[EVENT] = item_of(t.event, -1);
  items[SERVER] = item_of(t.server, -1);
  items[PIPE] = item_of(NULL, t.pipe[0]);
  return t;
}

static void check_only(const shmtensor_wait_item* items, size_t n, size_t ready) {
  for (size_t i = 0; i < n; i++) CHECK_EQ(items[i].is_ready, i == ready);
}

TEST(wait_any_says_which_are_ready) {
  shmtensor_service* service = own_service();
  shmtensor_wait_item items[N_ITEMS];
  const things t = open_things(service, items);
  shmtensor_value *value = integer(1), *out = NULL;
  shmtensor_request* request = NULL;
  size_t n = 9;
  char byte = 0;
  /* With the descriptor threads watch the handles, without it this one does. */
  for (size_t n_items = N_ITEMS; n_items >= PIPE; n_items--) {
    CHECK_FAILS(shmtensor_wait_any(items, n_items, 0, &n), SHMTENSOR_E_TIMEOUT, "nothing was ready");
    CHECK_FAILS(shmtensor_wait_any(items, n_items, 0.02, &n), SHMTENSOR_E_TIMEOUT, "nothing was ready");
    check_only(items, n_items, N_ITEMS);
    CHECK_OK(shmtensor_queue_put(t.queue, value, LONG));
    CHECK_OK(shmtensor_wait_any(items, n_items, -1, &n));
    CHECK_EQ(n, 1);
    check_only(items, n_items, QUEUE);
    CHECK_OK(shmtensor_topic_publish(t.topic, value, LONG));
    CHECK_OK(shmtensor_wait_any(items, n_items, -1, &n));
    CHECK_EQ(n, 2);
    CHECK_OK(shmtensor_queue_get(t.queue, LONG, &out));
    shmtensor_value_free(out);
    CHECK_OK(shmtensor_wait_any(items, n_items, -1, NULL));
    check_only(items, n_items, SUBSCRIPTION);
    CHECK_OK(shmtensor_subscription_get(t.subscription, LONG, &out));
    shmtensor_value_free(out);
    CHECK_OK(shmtensor_event_set(t.event));
    CHECK_OK(shmtensor_wait_any(items, n_items, -1, &n));
    check_only(items, n_items, EVENT);
    CHECK_OK(shmtensor_event_clear(t.event));
    CHECK_FAILS(shmtensor_client_call(t.client, value, 0.02, &out), SHMTENSOR_E_TIMEOUT, "time");
    CHECK_OK(shmtensor_wait_any(items, n_items, -1, &n));
    check_only(items, n_items, SERVER);
    CHECK_FAILS(shmtensor_server_take(t.server, 0, &out, &request), SHMTENSOR_E_EMPTY, "no message");
  }
  CHECK_EQ(write(t.pipe[1], "x", 1), 1);
  CHECK_OK(shmtensor_wait_any(items, N_ITEMS, -1, &n));
  check_only(items, N_ITEMS, PIPE);
  CHECK_EQ(read(t.pipe[0], &byte, 1), 1);
  CHECK_EQ(close(t.pipe[1]), 0); /* one that is broken is ready */
  CHECK_OK(shmtensor_wait_any(&items[PIPE], 1, -1, &n));
  check_only(&items[PIPE], 1, 0);
  shmtensor_value_free(value);
}

typedef struct any_wait {
  shmtensor_wait_item* items;
  size_t n;
  atomic_int status;
} any_wait;

static void* wait_for_ever(void* arg) {
  any_wait* w = arg;
  w->status = shmtensor_wait_any(w->items, w->n, -1, NULL);
  return NULL;
}

TEST(wait_any_is_woken_by_what_happens_later) {
  shmtensor_service* service = own_service();
  shmtensor_wait_item items[N_ITEMS];
  const things t = open_things(service, items);
  shmtensor_value* value = integer(1);
  pthread_t thread;
  for (size_t n_items = N_ITEMS; n_items >= PIPE; n_items--) {
    any_wait w = {items, n_items, WAITS};
    run_thread(wait_for_ever, &w, &thread);
    for (; w.status == WAITS; sleep_ms(10)) CHECK_OK(shmtensor_event_pulse(t.event, 3)); /* leaves nothing behind */
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(w.status, SHMTENSOR_OK);
    check_only(items, n_items, EVENT);
    run_thread(wait_for_ever, &w, &thread);
    sleep_ms(50);
    CHECK_OK(shmtensor_topic_publish(t.topic, value, LONG));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_only(items, n_items, SUBSCRIPTION);
    shmtensor_value* out = NULL;
    CHECK_OK(shmtensor_subscription_get(t.subscription, LONG, &out));
    shmtensor_value_free(out);
  }
  any_wait w = {items, N_ITEMS, WAITS};
  run_thread(wait_for_ever, &w, &thread);
  sleep_ms(50);
  CHECK_EQ(write(t.pipe[1], "x", 1), 1);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  check_only(items, N_ITEMS, PIPE);
  shmtensor_value_free(value);
}

TEST(wait_any_ends_when_a_handle_is_closed_or_a_signal_comes) {
  shmtensor_service* service = own_service();
  const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
  for (size_t n_items = N_ITEMS; n_items >= PIPE; n_items--) {
    shmtensor_wait_item items[N_ITEMS];
    const things t = open_things(service, items);
    any_wait w = {items, n_items, WAITS};
    pthread_t thread;
    run_thread(wait_for_ever, &w, &thread);
    sleep_ms(300); /* mostly in its second slice */
    interrupt(thread, &w.status);
    run_thread(wait_for_ever, &w, &thread);
    sleep_ms(50);
    CHECK_OK(shmtensor_queue_close(t.queue));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(w.status, SHMTENSOR_E_CLOSED);
    CHECK_FAILS(shmtensor_wait_any(items, n_items, 0, NULL), SHMTENSOR_E_CLOSED, "items[0].handle is closed");
  }
}

/* How many threads this process has. */
static int n_threads(void) {
  int n = 0;
  DIR* tasks = opendir("/proc/self/task");
  CHECK_EQ(tasks != NULL, 1);
  for (const struct dirent* e; (e = readdir(tasks)) != NULL;) n += e->d_name[0] != '.';
  CHECK_EQ(closedir(tasks), 0);
  return n;
}

TEST(wait_any_needs_no_thread_for_handles_alone) {
  shmtensor_service* service = own_service();
  shmtensor_wait_item items[N_ITEMS];
  const things t = open_things(service, items);
  const struct sigaction restarting = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  const struct sigaction interrupting = {.sa_handler = on_signal};
  shmtensor_value *value = integer(1), *out = NULL;
  any_wait w = {items, PIPE, WAITS};
  pthread_t thread;
  for (int i = 0; i < 2; i++) {
    CHECK_EQ(sigaction(SIGUSR1, i == 0 ? &interrupting : &restarting, NULL), 0);
    const int before = n_threads();
    w.status = WAITS;
    run_thread(wait_for_ever, &w, &thread);
    sleep_ms(100);
    CHECK_EQ(n_threads(), before + 1 + i);
    CHECK_OK(shmtensor_queue_put(t.queue, value, LONG));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(w.status, SHMTENSOR_OK);
    CHECK_OK(shmtensor_queue_get(t.queue, LONG, &out));
    shmtensor_value_free(out);
    w.status = WAITS;
    run_thread(wait_for_ever, &w, &thread);
    sleep_ms(300);
    interrupt(thread, &w.status);
  }
  shmtensor_value_free(value);
}

TEST(wait_any_refuses_what_it_cannot_wait_for) {
  shmtensor_service* service = own_service();
  shmtensor_wait_item items[2] = {item_of(service, -1), item_of(NULL, -1)};
  CHECK_FAILS(shmtensor_wait_any(items, 1, 0, NULL), SHMTENSOR_E_VALUE, "items[0].handle is not a queue");
  items[0] = item_of(items, -1);
  CHECK_FAILS(shmtensor_wait_any(items, 1, 0, NULL), SHMTENSOR_E_VALUE, "items[0].handle is not a handle");
  CHECK_FAILS(shmtensor_wait_any(&items[1], 1, 0, NULL), SHMTENSOR_E_VALUE, "descriptor -1 is not open");
  items[0] = item_of(NULL, 1 << 20);
  CHECK_FAILS(shmtensor_wait_any(items, 1, 0, NULL), SHMTENSOR_E_VALUE, "descriptor 1048576 is not open");
  items[0].size = 4;
  CHECK_FAILS(shmtensor_wait_any(items, 1, 0, NULL), SHMTENSOR_E_VALUE, "items[0].size is 4");
  items[0].size = sizeof items[0];
  items[1].size = 8;
  CHECK_FAILS(shmtensor_wait_any(items, 2, 0, NULL), SHMTENSOR_E_VALUE, "items[1].size is 8");
  CHECK_FAILS(shmtensor_wait_any(NULL, 1, 0, NULL), SHMTENSOR_E_VALUE, "items is NULL");
  CHECK_FAILS(shmtensor_wait_any(NULL, 0, -1, NULL), SHMTENSOR_E_VALUE, "nothing to wait for");
  CHECK_FAILS(shmtensor_wait_any(NULL, 0, 1e300, NULL), SHMTENSOR_E_VALUE, "nothing to wait for");
  CHECK_FAILS(shmtensor_wait_any(NULL, 0, 0.01, NULL), SHMTENSOR_E_TIMEOUT, "in time");
  CHECK_FAILS(shmtensor_wait_any(NULL, 0, 0.0 / 0.0, NULL), SHMTENSOR_E_VALUE, "nan");
}

TEST(wait_any_takes_more_than_one_thread_can_sleep_on) {
  enum { MANY = 200 };
  shmtensor_service* service = own_service();
  shmtensor_wait_item items[MANY];
  shmtensor_queue* queues[MANY];
  shmtensor_value* value = integer(1);
  pthread_t thread;
  for (int i = 0; i < MANY; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "q%d", i);
    CHECK_OK(shmtensor_queue_open(service, name, NULL, &queues[i]));
    items[i] = item_of(queues[i], -1);
  }
  any_wait w = {items, MANY, WAITS};
  run_thread(wait_for_ever, &w, &thread);
  sleep_ms(50);
  CHECK_OK(shmtensor_queue_put(queues[MANY - 1], value, LONG));
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(w.status, SHMTENSOR_OK);
  check_only(items, MANY, MANY - 1);
  shmtensor_value_free(value);
}

/* --- published values --- */

static shmtensor_value* every_kind(void) {
  shmtensor_value *dict = NULL, *list = NULL, *v = NULL;
  CHECK_OK(shmtensor_dict(&dict));
  CHECK_OK(shmtensor_list(&list));
  CHECK_OK(shmtensor_none(&v));
  CHECK_OK(shmtensor_value_append(list, v));
  CHECK_OK(shmtensor_bool(1, &v));
  CHECK_OK(shmtensor_value_append(list, v));
  CHECK_OK(shmtensor_float(0.1, &v));
  CHECK_OK(shmtensor_value_append(list, v));
  CHECK_OK(shmtensor_float(5.0, &v));
  CHECK_OK(shmtensor_value_append(list, v));
  CHECK_OK(shmtensor_float(1.0 / 0.0, &v));
  CHECK_OK(shmtensor_value_append(list, v));
  CHECK_OK(shmtensor_text("\"\\\n\x7f \xc3\xa4 \xf0\x9f\x98\x80", SIZE_MAX, &v));
  CHECK_OK(shmtensor_value_append(list, v));
  CHECK_OK(shmtensor_bytes("\0\1\2\xff", 4, &v));
  CHECK_OK(shmtensor_value_append(list, v));
  CHECK_OK(shmtensor_value_append(list, integer(INT64_MIN)));
  CHECK_OK(shmtensor_value_set_text(dict, "list", list));
  CHECK_OK(shmtensor_tuple(&v));
  CHECK_OK(shmtensor_value_set(dict, integer(-1), v));
  return dict;
}

static void check_every_kind(const shmtensor_value* dict) {
  const shmtensor_value *list = NULL, *item = NULL;
  const char* text = NULL;
  const void* data = NULL;
  size_t n = 0;
  double real = 0;
  int kind = -1;
  CHECK_OK(shmtensor_value_find(dict, "list", &list));
  CHECK_OK(shmtensor_value_length(list, &n));
  CHECK_EQ(n, 8);
  CHECK_OK(shmtensor_value_item(list, 2, &item));
  CHECK_OK(shmtensor_value_get_float(item, &real));
  CHECK(real == 0.1);
  CHECK_OK(shmtensor_value_item(list, 3, &item));
  CHECK_OK(shmtensor_value_kind(item, &kind));
  CHECK_EQ(kind, SHMTENSOR_FLOAT);
  CHECK_OK(shmtensor_value_item(list, 4, &item));
  CHECK_OK(shmtensor_value_get_float(item, &real));
  CHECK(real == 1.0 / 0.0);
  CHECK_OK(shmtensor_value_item(list, 5, &item));
  CHECK_OK(shmtensor_value_get_text(item, &text, NULL));
  CHECK_EQ(strcmp(text, "\"\\\n\x7f \xc3\xa4 \xf0\x9f\x98\x80"), 0);
  CHECK_OK(shmtensor_value_item(list, 6, &item));
  CHECK_OK(shmtensor_value_get_bytes(item, &data, &n));
  CHECK(n == 4 && memcmp(data, "\0\1\2\xff", 4) == 0);
  CHECK_OK(shmtensor_value_item(list, 7, &item));
  CHECK_EQ(integer_of(item), INT64_MIN);
}

TEST(published_value_is_attached_whole) {
  shmtensor_service* service = own_service();
  shmtensor_value *value = every_kind(), *out = NULL;
  uint64_t version = 0, newer = 0, seen = 0;
  CHECK_FAILS(shmtensor_attach(service, "v", SHMTENSOR_READ_ONLY, &out, NULL), SHMTENSOR_E_KEY, "\"v\"");
  CHECK_OK(shmtensor_publish(service, "v", value, NULL, &version));
  CHECK_OK(shmtensor_attach(service, "v", SHMTENSOR_READ_ONLY, &out, &seen));
  CHECK_EQ(seen, version);
  check_every_kind(out);
  shmtensor_value_free(out);
  CHECK_FAILS(shmtensor_wait_newer(service, "v", version, 0.01, &newer), SHMTENSOR_E_TIMEOUT, "above");
  CHECK_OK(shmtensor_publish(service, "v", value, NULL, NULL));
  CHECK_OK(shmtensor_wait_newer(service, "v", version, LONG, &newer));
  CHECK(newer > version);
  CHECK_OK(shmtensor_version_of(service, "v", &seen));
  CHECK_EQ(seen, newer);
  CHECK_OK(shmtensor_unpublish(service, "v"));
  CHECK_EQ(shmtensor_unpublish(service, "v"), SHMTENSOR_E_KEY);
  CHECK_EQ(shmtensor_version_of(service, "v", &seen), SHMTENSOR_E_KEY);
  CHECK_FAILS(shmtensor_publish(service, "", value, NULL, NULL), SHMTENSOR_E_VALUE, "name");
  CHECK_FAILS(shmtensor_publish(service, "v", NULL, NULL, NULL), SHMTENSOR_E_VALUE, "value is NULL");
  CHECK_FAILS(shmtensor_attach(service, "v", 7, &out, NULL), SHMTENSOR_E_VALUE, "mode");
  shmtensor_value_free(value);
}

TEST(names_are_listed) {
  shmtensor_service* service = own_service();
  shmtensor_queue* queue = NULL;
  shmtensor_value* value = integer(1);
  shmtensor_name name = {.size = sizeof name};
  uint32_t position = 0;
  int n = 0;
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &queue));
  CHECK_OK(shmtensor_publish(service, "v", value, NULL, NULL));
  while (shmtensor_next_name(service, &position, &name) == SHMTENSOR_OK) {
    n++;
    CHECK(strcmp(name.name, name.kind[0] == 'q' ? "q" : "v") == 0);
    CHECK_EQ(name.pid, getpid());
  }
  CHECK_EQ(n, 2);
  name.size = 4;
  position = 0;
  CHECK_FAILS(shmtensor_next_name(service, &position, &name), SHMTENSOR_E_VALUE, "out->size");
  shmtensor_value_free(value);
}

/* --- fork --- */

TEST(child_uses_queues_and_leaves_the_parents_deliveries) {
  shmtensor_service* service = own_service();
  shmtensor_queue* queue = NULL;
  shmtensor_delivery* delivery = NULL;
  shmtensor_value *value = integer(8), *out = NULL;
  int status = -1;
  CHECK_OK(shmtensor_queue_open(service, "q", NULL, &queue));
  CHECK_OK(shmtensor_queue_put(queue, value, LONG));
  CHECK_OK(shmtensor_queue_get_delivery(queue, LONG, &out, &delivery, NULL));
  const pid_t pid = fork();
  if (pid == 0) {
    CHECK_FAILS(shmtensor_delivery_acknowledge(delivery), SHMTENSOR_E_STATE, "forked");
    CHECK_OK(shmtensor_queue_put(queue, value, LONG));
    _exit(0);
  }
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  CHECK_EQ(status, 0);
  CHECK_OK(shmtensor_delivery_acknowledge(delivery));
  shmtensor_value_free(out);
  CHECK_OK(shmtensor_queue_get(queue, LONG, &out));
  CHECK_EQ(taken_integer(out), 8);
  shmtensor_value_free(value);
}
