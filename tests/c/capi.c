/* tests/c/capi.c -- what C reads of messages and of published values may be any bytes: the result is a value or an
 * error; and a message that was not read is delivered again, or not. The interface itself is tested in tests/capi. */
#include "check.h"

#include "capi/format/json_text.h"
#include "capi/format/plain_reader.h"
#include "capi/format/plain_writer.h"
#include "capi/names/waits.h"
#include "ipc/message/message_format.h"

#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS = 20000, N_STORAGES = 2 };

static uint64_t seed = 88172645463325252u;
static uint32_t random_below(uint32_t n) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (uint32_t)(seed >> 32) % n;
}

static shmtensor_value* taken(shmtensor_status status, shmtensor_value** place) {
  CHECK_EQ(status, SHMTENSOR_OK);
  return *place;
}
#define NEW(call) taken((call), &v)

/* One of each kind. */
static shmtensor_value* example(void) {
  shmtensor_value *v = NULL, *dict = NEW(shmtensor_dict(&v)), *list = NEW(shmtensor_list(&v));
  shmt_storage* s = NULL;
  shmt__geometry g = {.dtype = SHMT_FLOAT32, .n_dims = 2, .dims = {0, 3, 3, 1}};
  CHECK_OK(shmtensor_value_append(list, NEW(shmtensor_int(7, &v))));
  CHECK_OK(shmtensor_value_append(list, NEW(shmtensor_int(-1000, &v))));
  CHECK_OK(shmtensor_value_append(list, NEW(shmtensor_float(2.5, &v))));
  CHECK_OK(shmtensor_value_append(list, NEW(shmtensor_text("t\xc3\xa4xt", SIZE_MAX, &v))));
  CHECK_OK(shmtensor_value_append(list, NEW(shmtensor_bytes("bytes", 5, &v))));
  CHECK_OK(shmtensor_value_append(list, NEW(shmtensor_bool(1, &v))));
  CHECK_OK(shmtensor_value_append(list, NEW(shmtensor_tuple(&v))));
  CHECK_OK(shmt__storage_create(0, &s));
  CHECK_OK(shmt__value_of_tensor(s, &g, &v));
  shmt__storage_release(s);
  CHECK_OK(shmtensor_value_set_text(dict, "tensor", v));
  CHECK_OK(shmtensor_value_set_text(dict, "list", list));
  CHECK_OK(shmtensor_value_set(dict, NEW(shmtensor_int(3, &v)), NEW(shmtensor_none(&v))));
  return dict;
}

/* Change, cut, or repeat a few bytes. Returns the new length. */
static size_t damage(char* data, size_t n, size_t capacity) {
  for (uint32_t i = 1 + random_below(4); i > 0 && n > 0; i--) {
    const uint32_t at = random_below((uint32_t)n);
    switch (random_below(4)) {
      case 0: data[at] = (char)random_below(256); break;
      case 1: data[at] = (char)(data[at] ^ (1 << random_below(8))); break;
      case 2: n = at; break;
      default:
        if (n + 8 <= capacity) {
          memmove(data + at + 8, data + at, n - at);
          n += 8;
        }
    }
  }
  return n;
}

static void make_storages(shmt_storage** out) {
  for (int i = 0; i < N_STORAGES; i++) CHECK_OK(shmt__storage_create(64, &out[i]));
}

static void release_storages(shmt_storage** storages) {
  for (int i = 0; i < N_STORAGES; i++) shmt__storage_release(storages[i]);
}

TEST(damaged_messages_give_a_value_or_an_error) {
  shmt_storage* storages[N_STORAGES];
  shmt__plain_writer w;
  shmtensor_value *value = example(), *out = NULL;
  int n_good = 0;
  make_storages(storages);
  CHECK_OK(shmt__plain_writer_init(&w, NULL));
  CHECK_OK(shmt__plain_write(&w, value));
  const size_t n = w.records.n + w.plain.n, capacity = n + 64;
  for (int i = 0; i < ROUNDS; i++) {
    char* data = malloc(capacity); /* of just this size, for AddressSanitizer */
    memcpy(data, w.records.at, w.records.n);
    memcpy(data + w.records.n, w.plain.at, w.plain.n);
    const size_t damaged = i == 0 ? n : damage(data, n, capacity);
    data = realloc(data, damaged + 1);
    const shmtensor_status status = shmt__plain_read(storages, N_STORAGES, data, damaged, &out);
    CHECK(i > 0 || status == SHMTENSOR_OK);
    if (status == SHMTENSOR_OK) {
      n_good++;
      shmtensor_value_free(out);
    }
    free(data);
  }
  CHECK(n_good > 0 && n_good < ROUNDS);
  shmt__plain_writer_fini(&w);
  shmtensor_value_free(value);
  release_storages(storages);
}

TEST(damaged_descriptions_give_a_value_or_an_error) {
  shmt_storage* storages[N_STORAGES];
  shmt__json_writer w = {.session = NULL};
  shmtensor_value *value = example(), *out = NULL;
  int n_good = 0;
  make_storages(storages);
  CHECK_OK(shmt__json_write(&w, value));
  const size_t n = w.text.n, capacity = n + 64;
  for (int i = 0; i < ROUNDS; i++) {
    char* text = malloc(capacity);
    memcpy(text, w.text.at, n);
    const size_t damaged = i == 0 ? n : damage(text, n, capacity);
    text = realloc(text, damaged + 1);
    const shmt_status status = shmt__json_read(text, damaged, storages, N_STORAGES, &out);
    CHECK(i > 0 || status == SHMT_OK);
    if (status == SHMT_OK) {
      n_good++;
      shmtensor_value_free(out);
    }
    free(text);
  }
  CHECK(n_good > 0 && n_good < ROUNDS);
  shmt__json_writer_fini(&w);
  shmtensor_value_free(value);
  release_storages(storages);
}

TEST(lists_that_contain_themselves_are_refused) {
  /* head, then LIST of one, which is AGAIN number 0 */
  const char data[] = {0, 0, 0, 0, 1, 0, 0, 0, 10, 1, 0, 0, 0, 13, 0, 0, 0, 0};
  shmtensor_value* out = NULL;
  CHECK_FAILS(shmt__plain_read(NULL, 0, data, sizeof data, &out), SHMTENSOR_E_TYPE, "contains itself");
}

TEST(shared_tuples_are_numbered_when_they_end) {
  /* TUPLE of LIST of SHARED_TUPLE of 7, then number 1, which is the tuple, then number 0, the list */
  const char data[] = {0, 0, 0, 0, 1, 0, 0, 0, 9, 3, 0, 0, 0, 10, 1,  0, 0, 0, 14,
                       1, 0, 0, 0, 4, 7, 13, 1, 0, 0, 0, 13, 0, 0, 0, 0};
  const shmtensor_value *list = NULL, *tuple = NULL, *again = NULL;
  shmtensor_value* out = NULL;
  CHECK_OK(shmt__plain_read(NULL, 0, data, sizeof data, &out));
  CHECK_OK(shmtensor_value_item(out, 0, &list));
  CHECK_OK(shmtensor_value_item(list, 0, &tuple));
  CHECK_OK(shmtensor_value_item(out, 1, &again));
  CHECK(again == tuple && tuple->kind == SHMTENSOR_TUPLE);
  CHECK_OK(shmtensor_value_item(out, 2, &again));
  CHECK(again == list);

  shmt__plain_writer w;
  CHECK_OK(shmt__plain_writer_init(&w, NULL));
  CHECK_OK(shmt__plain_write(&w, out));
  CHECK(w.plain.n == sizeof data - sizeof(shmt__message_head));
  CHECK(memcmp(w.plain.at, data + sizeof(shmt__message_head), w.plain.n) == 0);
  shmt__plain_writer_fini(&w);
  shmtensor_value_free(out);
}

TEST(tuples_do_not_contain_themselves) {
  const char data[] = {0, 0, 0, 0, 1, 0, 0, 0, 14, 1, 0, 0, 0, 13, 0, 0, 0, 0};
  shmtensor_value* out = NULL;
  CHECK_FAILS(shmt__plain_read(NULL, 0, data, sizeof data, &out), SHMTENSOR_E_HANDLE, "a damaged message");
}

TEST(lists_that_occur_twice_are_one) {
  const char data[] = {0, 0, 0, 0, 1, 0, 0, 0, 9, 2, 0, 0, 0, 10, 0, 0, 0, 0, 13, 0, 0, 0, 0};
  const shmtensor_value *a = NULL, *b = NULL;
  shmtensor_value* out = NULL;
  CHECK_OK(shmt__plain_read(NULL, 0, data, sizeof data, &out));
  CHECK_OK(shmtensor_value_item(out, 0, &a));
  CHECK_OK(shmtensor_value_item(out, 1, &b));
  CHECK(a == b);
  shmtensor_value_free(out);
}

/* A list with so many numbers taken, and at its end, twice, one tuple with an empty list. */
static shmtensor_value* with_a_late_tuple(uint32_t n_numbers) {
  shmtensor_value *v = NULL, *list = NEW(shmtensor_list(&v)), *tuple = NEW(shmtensor_tuple(&v));
  for (uint32_t i = 1; i < n_numbers; i++) CHECK_OK(shmtensor_value_append(list, NEW(shmtensor_list(&v))));
  CHECK_OK(shmtensor_value_append(tuple, NEW(shmtensor_list(&v))));
  tuple->refs++; /* as one that was received */
  CHECK_OK(shmt__value_add(list, tuple));
  CHECK_OK(shmt__value_add(list, tuple));
  return list;
}

TEST(tuples_whose_items_take_the_last_number_are_refused) {
  for (uint32_t n_left = 0; n_left <= 2; n_left++) {
    shmtensor_value* value = with_a_late_tuple(SHMT_MESSAGE_MOST_OBJECTS - n_left);
    shmt__plain_writer w;
    CHECK_OK(shmt__plain_writer_init(&w, NULL));
    if (n_left == 2)
      CHECK_OK(shmt__plain_write(&w, value));
    else
      CHECK_FAILS(shmt__plain_write(&w, value), SHMT_E_VALUE, "more than 65536 lists");
    CHECK_EQ(w.n_objects, SHMT_MESSAGE_MOST_OBJECTS);
    shmt__plain_writer_fini(&w);
    shmtensor_value_free(value);
  }
}

/* --- deliveries of messages that are not read --- */

static shmtensor_service* service; /* this program's own, which ends with it */

static shmtensor_queue* open_queue(const char* name, const shmtensor_queue_options* how) {
  shmtensor_queue* queue = NULL;
  char own[64];
  (void)snprintf(own, sizeof own, "test-c-%d", (int)getpid());
  const shmtensor_service_options options = {
      .size = sizeof options, .name = own, .manager = getenv("TEST_MANAGER"), .start = 1};
  if (service == NULL) CHECK_OK(shmtensor_service_open(&options, &service));
  CHECK_OK(shmtensor_queue_open(service, name, how, &queue));
  return queue;
}

static void put_bytes(shmtensor_queue* queue, const char* data, uint32_t n) {
  const shmt__outgoing_message m = {.parts = {data, NULL}, .part_bytes = {n, 0}};
  shmt__handle_use use = shmt__handle_begin(SHMT_HANDLE_QUEUE, queue, __func__, "queue");
  CHECK(use.object != NULL);
  CHECK_EQ(shmt__ring_put(shmt__object_ring(use.object), &m, 0, UINT64_MAX), SHMT_RING_DONE);
  shmt__handle_end(&use);
}

static void put_integer(shmtensor_queue* queue, int64_t number) {
  shmtensor_value *v = NULL, *value = NEW(shmtensor_int(number, &v));
  CHECK_OK(shmtensor_queue_put(queue, value, -1));
  shmtensor_value_free(value);
}

/* Take the next message; returns its number, and how often it was delivered. */
static int64_t take_integer(shmtensor_queue* queue, uint32_t* out_count) {
  shmtensor_value* value = NULL;
  shmtensor_delivery* delivery = NULL;
  int64_t number = 0;
  CHECK_OK(shmtensor_queue_get_delivery(queue, 0, &value, &delivery, out_count));
  CHECK_OK(shmtensor_value_get_int(value, &number));
  CHECK_OK(shmtensor_delivery_acknowledge(delivery));
  shmtensor_value_free(value);
  return number;
}

static shmtensor_status take_in_vain(shmtensor_queue* queue) {
  shmtensor_value* value = NULL;
  shmtensor_delivery* delivery = NULL;
  const shmtensor_status status = shmtensor_queue_get_delivery(queue, 0, &value, &delivery, NULL);
  CHECK(value == NULL && delivery == NULL);
  return status;
}

TEST(damaged_message_is_delivered_once_or_as_often_as_the_queue_counts) {
  const char damaged[] = {0, 0, 0, 0, 1, 0, 0, 0, 99}, pickle[] = {0, 0, 0, 0, 0, 0, 0, 0, 1};
  const shmtensor_queue_options two = {.size = sizeof two, .max_deliveries = 2};
  shmtensor_queue *queue = open_queue("q", NULL), *counting = open_queue("counting", &two);
  uint32_t n = 0;
  put_bytes(queue, damaged, sizeof damaged);
  put_integer(queue, 7);
  CHECK_FAILS(take_in_vain(queue), SHMTENSOR_E_HANDLE, "a damaged message");
  CHECK_EQ(take_integer(queue, &n), 7);
  put_bytes(counting, damaged, sizeof damaged);
  put_bytes(counting, pickle, sizeof pickle);
  put_integer(counting, 8);
  for (int i = 0; i < 2; i++) CHECK_FAILS(take_in_vain(counting), SHMTENSOR_E_HANDLE, "a damaged message");
  for (int i = 0; i < 2; i++) CHECK_FAILS(take_in_vain(counting), SHMTENSOR_E_TYPE, "a pickle of Python");
  CHECK_EQ(take_integer(counting, &n), 8);
  put_bytes(queue, pickle, sizeof pickle); /* Python may read it: it stays */
  for (int i = 0; i < 3; i++) CHECK_FAILS(take_in_vain(queue), SHMTENSOR_E_TYPE, "a pickle of Python");
  CHECK_OK(shmtensor_queue_length(queue, &n));
  CHECK_EQ(n, 1);
}

/* Only so much more memory than this process has now. Returns the limit before. */
static struct rlimit limit_memory(uint64_t more) {
  unsigned long long n_pages = 0;
  struct rlimit before;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%llu", &n_pages) == 1);
  (void)fclose(file);
  CHECK_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const struct rlimit limit = {n_pages * (uint64_t)sysconf(_SC_PAGESIZE) + more, before.rlim_max};
  CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  return before;
}

TEST(delivery_that_found_no_memory_was_not_in_vain) {
  enum { LARGE = 64 << 20, LITTLE = 16 << 20 };
  const shmtensor_queue_options once = {.size = sizeof once, .max_deliveries = 1, .mode = SHMTENSOR_COPY_ON_WRITE};
  shmtensor_queue* queue = open_queue("q", &once);
  const int64_t shape[] = {LARGE};
  shmtensor_value *value = NULL, *out = NULL;
  shmtensor_delivery* delivery = NULL;
  DLManagedTensorVersioned* tensor = NULL;
  uint32_t count = 0;
  put_integer(queue, 1);
  CHECK_EQ(take_integer(queue, &count), 1); /* what the queue needs is there */
  CHECK_OK(shmtensor_empty(service, shmtensor_dtype(kDLUInt, 8), 1, shape, &tensor));
  CHECK_OK(shmtensor_tensor(tensor, &value));
  CHECK_OK(shmtensor_queue_put(queue, value, -1));
  const struct rlimit before = limit_memory(LITTLE);
  CHECK_FAILS(take_in_vain(queue), SHMTENSOR_E_NO_MEMORY, "privately");
  CHECK_EQ(setrlimit(RLIMIT_AS, &before), 0);
  CHECK_OK(shmtensor_queue_get_delivery(queue, 0, &out, &delivery, &count));
  CHECK_EQ(count, 1);
}

static void keep(void* object) { (void)object; }

TEST(delivery_that_found_no_handle_was_not_in_vain) {
  const shmtensor_queue_options once = {.size = sizeof once, .max_deliveries = 1};
  shmtensor_queue* queue = open_queue("q", &once);
  void* handle = NULL;
  uint32_t count = 0;
  put_integer(queue, 9);
  while (shmt__handle_open(SHMT_HANDLE_EVENT, &count, keep, &handle) == SHMTENSOR_OK) {
  }
  CHECK_FAILS(take_in_vain(queue), SHMTENSOR_E_NO_MEMORY, "too many handles");
  CHECK_OK(shmt__handle_close(SHMT_HANDLE_EVENT, handle, __func__, "event"));
  CHECK_EQ(take_integer(queue, &count), 9);
  CHECK_EQ(count, 1);
}
