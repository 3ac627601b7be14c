/* tests/c/capi.c -- what C reads of messages and of published values may be any bytes: the result is a value or an
 * error. The interface itself is tested in tests/capi. */
#include "check.h"

#include "capi/format/json_text.h"
#include "capi/format/plain_reader.h"
#include "capi/format/plain_writer.h"

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
