/* tests/capi/peer.c -- a program in C that talks to one in Python: test_with_python.py says what it is to do.
 *
 * `peer SERVICE VERB NAME`: it prints what it gets, a line for each value, and "ready" before it waits. */
#include "shmtensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double LONG = 60;

static void check(shmtensor_status status, const char* what) {
  if (status == SHMTENSOR_OK) return;
  (void)printf("%s: %s\n", shmtensor_status_name(status), shmtensor_message());
  (void)fprintf(stderr, "%s: %s: %s\n", what, shmtensor_status_name(status), shmtensor_message());
  exit(1);
}
#define CHECK(call) check(call, #call)

static void say(const char* text) {
  (void)puts(text);
  (void)fflush(stdout);
}

/* --- printing --- */

static double sum_of(const DLTensor* t, int dim, int64_t at) {
  double sum = 0;
  if (dim < t->ndim) {
    for (int64_t i = 0; i < t->shape[dim]; i++) sum += sum_of(t, dim + 1, at + i * t->strides[dim]);
    return sum;
  }
  const char* element = (const char*)t->data + t->byte_offset + at * (t->dtype.bits / 8);
  if (t->dtype.code == kDLFloat && t->dtype.bits == 32) return *(const float*)element;
  if (t->dtype.code == kDLFloat && t->dtype.bits == 64) return *(const double*)element;
  if (t->dtype.code == kDLInt && t->dtype.bits == 64) return (double)*(const int64_t*)element;
  return t->dtype.bits == 8 ? *(const unsigned char*)element : 0;
}

static void print_tensor(const shmtensor_value* v) {
  DLManagedTensorVersioned* m = NULL;
  CHECK(shmtensor_value_get_tensor(v, &m));
  (void)printf("tensor(%d/%d", m->dl_tensor.dtype.code, m->dl_tensor.dtype.bits);
  for (int i = 0; i < m->dl_tensor.ndim; i++) (void)printf("%c%" PRId64, i == 0 ? ' ' : 'x', m->dl_tensor.shape[i]);
  (void)printf(" sum %g)", sum_of(&m->dl_tensor, 0, 0));
  m->deleter(m);
}

static void print_value(const shmtensor_value* v);

static void print_items(const shmtensor_value* v, int kind) {
  const shmtensor_value *key = NULL, *item = NULL;
  size_t n = 0;
  CHECK(shmtensor_value_length(v, &n));
  (void)putchar(kind == SHMTENSOR_DICT ? '{' : kind == SHMTENSOR_LIST ? '[' : '(');
  for (size_t i = 0; i < n; i++) {
    if (i > 0) (void)printf(", ");
    if (kind == SHMTENSOR_DICT) {
      CHECK(shmtensor_value_entry(v, i, &key, &item));
      print_value(key);
      (void)printf(": ");
    } else {
      CHECK(shmtensor_value_item(v, i, &item));
    }
    print_value(item);
  }
  (void)putchar(kind == SHMTENSOR_DICT ? '}' : kind == SHMTENSOR_LIST ? ']' : ')');
}

static void print_value(const shmtensor_value* v) {
  int kind = -1, flag = 0;
  int64_t integer = 0;
  double real = 0;
  const char* text = NULL;
  const void* data = NULL;
  size_t n = 0;
  CHECK(shmtensor_value_kind(v, &kind));
  switch (kind) {
    case SHMTENSOR_NONE: (void)printf("None"); break;
    case SHMTENSOR_BOOL:
      CHECK(shmtensor_value_get_bool(v, &flag));
      (void)printf("%s", flag ? "True" : "False");
      break;
    case SHMTENSOR_INT:
      CHECK(shmtensor_value_get_int(v, &integer));
      (void)printf("%" PRId64, integer);
      break;
    case SHMTENSOR_FLOAT:
      CHECK(shmtensor_value_get_float(v, &real));
      (void)printf("%g", real);
      break;
    case SHMTENSOR_TEXT:
      CHECK(shmtensor_value_get_text(v, &text, &n));
      (void)printf("'%s'", text);
      break;
    case SHMTENSOR_BYTES:
      CHECK(shmtensor_value_get_bytes(v, &data, &n));
      (void)printf("b%zu", n);
      break;
    case SHMTENSOR_TENSOR: print_tensor(v); break;
    default: print_items(v, kind);
  }
}

static void show(shmtensor_value* v) {
  print_value(v);
  say("");
  shmtensor_value_free(v);
}

/* --- what is sent --- */

static shmtensor_value* integer(int64_t n) {
  shmtensor_value* v = NULL;
  CHECK(shmtensor_int(n, &v));
  return v;
}

/* {"n": 3, "t": a float32 tensor of 2 x 3 with 0 to 5, "l": [None, (True, 2.5)], 7: "ä"} */
static shmtensor_value* example(shmtensor_service* service) {
  shmtensor_value *dict = NULL, *list = NULL, *tuple = NULL, *v = NULL;
  DLManagedTensorVersioned* m = NULL;
  const int64_t shape[] = {2, 3};
  CHECK(shmtensor_dict(&dict));
  CHECK(shmtensor_value_set_text(dict, "n", integer(3)));
  CHECK(shmtensor_empty(service, shmtensor_dtype(kDLFloat, 32), 2, shape, &m));
  for (int i = 0; i < 6; i++) ((float*)m->dl_tensor.data)[i] = (float)i;
  CHECK(shmtensor_tensor(m, &v));
  CHECK(shmtensor_value_set_text(dict, "t", v));
  CHECK(shmtensor_list(&list));
  CHECK(shmtensor_none(&v));
  CHECK(shmtensor_value_append(list, v));
  CHECK(shmtensor_tuple(&tuple));
  CHECK(shmtensor_bool(1, &v));
  CHECK(shmtensor_value_append(tuple, v));
  CHECK(shmtensor_float(2.5, &v));
  CHECK(shmtensor_value_append(tuple, v));
  CHECK(shmtensor_value_append(list, tuple));
  CHECK(shmtensor_value_set_text(dict, "l", list));
  CHECK(shmtensor_text("\xc3\xa4", SIZE_MAX, &v));
  CHECK(shmtensor_value_set(dict, integer(7), v));
  return dict;
}

/* --- verbs --- */

static void do_put(shmtensor_service* service, const char* name) {
  shmtensor_queue* queue = NULL;
  shmtensor_value* v = example(service);
  CHECK(shmtensor_queue_open(service, name, NULL, &queue));
  CHECK(shmtensor_queue_put(queue, v, LONG));
  shmtensor_value_free(v);
  say("ready");
  (void)getchar(); /* until Python has it: a queue lives as long as anybody has it open */
}

static void do_get(shmtensor_service* service, const char* name) {
  shmtensor_queue* queue = NULL;
  shmtensor_value* v = NULL;
  CHECK(shmtensor_queue_open(service, name, NULL, &queue));
  say("ready");
  for (;;) {
    const shmtensor_status status = shmtensor_queue_get(queue, LONG, &v);
    if (status == SHMTENSOR_E_TYPE || status == SHMTENSOR_E_HANDLE) {
      (void)printf("%s: %s\n", shmtensor_status_name(status), shmtensor_message());
      continue;
    }
    CHECK(status);
    int kind = -1;
    CHECK(shmtensor_value_kind(v, &kind));
    show(v);
    if (kind == SHMTENSOR_NONE) return;
  }
}

static void do_publish(shmtensor_service* service, const char* name) {
  shmtensor_value* v = example(service);
  CHECK(shmtensor_publish(service, name, v, NULL, NULL));
  shmtensor_value_free(v);
  say("ready");
  (void)getchar();
}

static void do_attach(shmtensor_service* service, const char* name) {
  shmtensor_value* v = NULL;
  CHECK(shmtensor_attach(service, name, SHMTENSOR_READ_ONLY, &v, NULL));
  show(v);
}

static void do_loan(shmtensor_service* service, const char* name) {
  shmtensor_topic* topic = NULL;
  const int64_t shape[] = {4, 5};
  CHECK(shmtensor_topic_open(service, name, NULL, &topic));
  say("ready");
  (void)getchar();
  for (int i = 0; i < 3; i++) {
    shmtensor_loan* loan = NULL;
    void* data = NULL;
    size_t nbytes = 0;
    CHECK(shmtensor_topic_loan(topic, shmtensor_dtype(kDLUInt, 8), 2, shape, &loan));
    CHECK(shmtensor_loan_data(loan, &data, &nbytes));
    memset(data, i + 1, nbytes);
    CHECK(shmtensor_loan_publish(loan, LONG));
    CHECK(shmtensor_loan_close(loan));
  }
}

static void do_subscribe(shmtensor_service* service, const char* name) {
  shmtensor_topic* topic = NULL;
  shmtensor_subscription* subscription = NULL;
  shmtensor_value* v = NULL;
  CHECK(shmtensor_topic_open(service, name, NULL, &topic));
  CHECK(shmtensor_topic_subscribe(topic, NULL, &subscription));
  say("ready");
  for (int i = 0; i < 3; i++) {
    CHECK(shmtensor_subscription_get(subscription, LONG, &v));
    show(v);
  }
}

static void do_serve(shmtensor_service* service, const char* name) {
  shmtensor_server* server = NULL;
  CHECK(shmtensor_server_open(service, name, NULL, &server));
  say("ready");
  for (;;) {
    shmtensor_request* request = NULL;
    shmtensor_value* v = NULL;
    int kind = -1;
    CHECK(shmtensor_server_take(server, LONG, &v, &request));
    CHECK(shmtensor_value_kind(v, &kind));
    if (kind == SHMTENSOR_TEXT)
      CHECK(shmtensor_request_fail(request, "no texts, please", NULL));
    else
      CHECK(shmtensor_request_reply(request, v, NULL));
    CHECK(shmtensor_request_close(request));
    shmtensor_value_free(v);
    if (kind == SHMTENSOR_NONE) return;
  }
}

static void do_call(shmtensor_service* service, const char* name) {
  shmtensor_client* client = NULL;
  shmtensor_value *v = example(service), *reply = NULL;
  CHECK(shmtensor_client_open(service, name, &client));
  CHECK(shmtensor_client_call(client, v, LONG, &reply));
  show(reply);
  for (int i = 0; i < 3; i++) {
    const shmtensor_status status = shmtensor_client_call(client, v, LONG, &reply);
    (void)printf("%s: %s\n", shmtensor_status_name(status), shmtensor_message());
  }
  shmtensor_value_free(v);
}

static void do_barrier(shmtensor_service* service, const char* name) {
  shmtensor_barrier* barrier = NULL;
  int is_last = -1;
  CHECK(shmtensor_barrier_open(service, name, 2, &barrier));
  say("ready");
  CHECK(shmtensor_barrier_wait(barrier, LONG, &is_last));
  say(is_last ? "1" : "0");
  CHECK(shmtensor_barrier_wait(barrier, LONG, NULL));
}

static void do_events(shmtensor_service* service, const char* name) {
  shmtensor_event* event = NULL;
  shmtensor_lock* lock = NULL;
  CHECK(shmtensor_event_open(service, name, 0, &event));
  CHECK(shmtensor_lock_open(service, "lock", 1, &lock));
  CHECK(shmtensor_lock_acquire(lock, LONG));
  say("ready");
  CHECK(shmtensor_event_wait(event, LONG)); /* Python sets it */
  CHECK(shmtensor_event_clear(event));
  CHECK(shmtensor_lock_release(lock));
  say("released");
  (void)getchar();
}

/* Has one of each, and is killed. */
static void do_hold(shmtensor_service* service, const char* name) {
  shmtensor_queue* queue = NULL;
  shmtensor_delivery* delivery = NULL;
  shmtensor_topic* topic = NULL;
  shmtensor_subscription* subscription = NULL;
  shmtensor_loan* loan = NULL;
  shmtensor_server* server = NULL;
  shmtensor_request* request = NULL;
  shmtensor_lock* lock = NULL;
  shmtensor_value* v = NULL;
  const int64_t shape[] = {1 << 20};
  CHECK(shmtensor_queue_open(service, name, NULL, &queue));
  CHECK(shmtensor_queue_get_delivery(queue, LONG, &v, &delivery, NULL));
  CHECK(shmtensor_topic_open(service, "topic", NULL, &topic));
  CHECK(shmtensor_topic_subscribe(topic, NULL, &subscription));
  CHECK(shmtensor_topic_loan(topic, shmtensor_dtype(kDLUInt, 8), 1, shape, &loan));
  CHECK(shmtensor_loan_publish(loan, LONG));
  CHECK(shmtensor_lock_open(service, "lock", 1, &lock));
  CHECK(shmtensor_lock_acquire(lock, LONG));
  CHECK(shmtensor_server_open(service, "server", NULL, &server));
  CHECK(shmtensor_server_take(server, LONG, &v, &request));
  say("ready");
  (void)pause();
}

static const struct {
  const char* name;
  void (*run)(shmtensor_service* service, const char* name);
} verbs[] = {{"put", do_put},         {"get", do_get},     {"publish", do_publish}, {"attach", do_attach},
             {"loan", do_loan},       {"serve", do_serve}, {"call", do_call},       {"subscribe", do_subscribe},
             {"events", do_events},   {"hold", do_hold},   {"barrier", do_barrier}};

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const shmtensor_service_options options = {.size = sizeof options, .name = argv[1]};
  shmtensor_service* service = NULL;
  CHECK(shmtensor_service_open(&options, &service));
  for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
    if (strcmp(verbs[i].name, argv[2]) == 0) {
      verbs[i].run(service, argv[3]);
      CHECK(shmtensor_service_close(service));
      return 0;
    }
  return 2;
}
