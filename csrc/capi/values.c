/* capi/values.c -- the trees of values: building, reading, freeing. */
#include "capi/values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAGIC UINT32_C(0x53484d56)

const char* shmt__value_title(int kind) {
  static const char* const titles[] = {"None",   "a bool", "an integer", "a float", "a text",
                                       "bytes", "a list", "a tuple",    "a dict",  "a tensor"};
  return kind >= 0 && (size_t)kind < sizeof titles / sizeof titles[0] ? titles[kind] : "something unknown";
}

shmtensor_status shmt__value_check(const char* function, const char* argument, const shmtensor_value* v) {
  SHMT_NEED_THAT(v != NULL, "%s(): %s is NULL", function, argument);
  SHMT_NEED_THAT(v->magic == VALUE_MAGIC, "%s(): %s is not a value, or was freed", function, argument);
  return SHMTENSOR_OK;
}

#define CHECK(value) SHMT_PASS(shmt__value_check(__func__, #value, value))
#define CHECK_WHOLE(value)                                                                                         \
  do {                                                                                                             \
    CHECK(value);                                                                                                  \
    SHMT_NEED_THAT(!(value)->is_part, "%s(): %s is a part of another value, which consumed it", __func__, #value); \
  } while (0)
#define CHECK_KIND(value, condition, expected)                                                                   \
  do {                                                                                                           \
    CHECK(value);                                                                                                \
    SHMT_NEED_THAT(condition, "%s(): %s is %s, expected %s", __func__, #value, shmt__value_title((value)->kind), \
                   expected);                                                                                    \
  } while (0)

/* --- nodes --- */

shmt_status shmt__value_new(int kind, shmtensor_value** out) {
  shmtensor_value* v = calloc(1, sizeof *v);
  SHMT_REQUIRE(v != NULL, SHMT_E_NOMEM, "a value: tried to allocate %zu bytes", sizeof *v);
  v->magic = VALUE_MAGIC;
  v->refs = 1;
  v->kind = kind;
  *out = v;
  return SHMT_OK;
}

shmt_status shmt__value_of_bytes(int kind, const char* data, size_t n, shmtensor_value** out) {
  SHMT_AUTO(shmtensor_value) v = NULL;
  SHMT_TRY(shmt__value_new(kind, &v));
  v->u.bytes.at = n < SIZE_MAX ? malloc(n + 1) : NULL;
  SHMT_REQUIRE(v->u.bytes.at != NULL, SHMT_E_NOMEM, "a value: tried to allocate %zu bytes", n);
  if (n > 0) memcpy(v->u.bytes.at, data, n);
  v->u.bytes.at[n] = '\0';
  v->u.bytes.n = n;
  *out = SHMT_TAKE(v);
  return SHMT_OK;
}

shmt_status shmt__value_of_tensor(shmt_storage* s, const shmt__geometry* g, shmtensor_value** out) {
  SHMT_AUTO(shmtensor_value) v = NULL;
  const size_t n = offsetof(shmt__geometry, dims) + 2 * (size_t)g->n_dims * sizeof g->dims[0];
  SHMT_TRY(shmt__value_new(SHMTENSOR_TENSOR, &v));
  /* Only as long as it has dimensions. */
  v->u.tensor.geometry = malloc(n);
  SHMT_REQUIRE(v->u.tensor.geometry != NULL, SHMT_E_NOMEM, "a value: tried to allocate %zu bytes", n);
  memcpy(v->u.tensor.geometry, g, n);
  v->u.tensor.storage = s;
  shmt__storage_retain(s);
  *out = SHMT_TAKE(v);
  return SHMT_OK;
}

void shmt__value_release(shmtensor_value* v) {
  if (v == NULL || --v->refs > 0) return;
  if (shmt__value_is_container(v)) {
    for (size_t i = 0; i < v->u.items.n; i++) shmt__value_release(v->u.items.at[i]);
    free(v->u.items.at);
  } else if (v->kind == SHMTENSOR_TEXT || v->kind == SHMTENSOR_BYTES) {
    free(v->u.bytes.at);
  } else if (v->kind == SHMTENSOR_TENSOR) {
    shmt__storage_release(v->u.tensor.storage);
    free(v->u.tensor.geometry);
  }
  v->magic = 0;
  free(v);
}

void shmtensor_value_free(shmtensor_value* v) {
  if (v != NULL && v->magic == VALUE_MAGIC && !v->is_part) shmt__value_release(v);
}

static shmt_status reserve(shmtensor_value* container, size_t n_more) {
  if (container->u.items.cap - container->u.items.n >= n_more) return SHMT_OK;
  const size_t cap = container->u.items.cap * 2 + 8;
  shmtensor_value** grown = realloc(container->u.items.at, cap * sizeof(shmtensor_value*));
  SHMT_REQUIRE(grown != NULL, SHMT_E_NOMEM, "a value: tried to allocate %zu bytes", cap * sizeof(shmtensor_value*));
  container->u.items.at = grown;
  container->u.items.cap = cap;
  return SHMT_OK;
}

static shmt_status check_height(const shmtensor_value* container, const shmtensor_value* item) {
  SHMT_REQUIRE(item != container && item->height < SHMT_VALUE_MOST_HEIGHT, SHMT_E_VALUE,
               "values are nested at most %d deep", SHMT_VALUE_MOST_HEIGHT);
  return SHMT_OK;
}

static void add(shmtensor_value* container, shmtensor_value* item) {
  if (shmt__value_is_container(item) && container->height < item->height + 1) container->height = item->height + 1;
  item->is_part = true;
  container->u.items.at[container->u.items.n++] = item;
}

shmt_status shmt__value_add(shmtensor_value* container, shmtensor_value* item) {
  shmt_status status = check_height(container, item);
  if (status == SHMT_OK) status = reserve(container, 1);
  if (status == SHMT_OK)
    add(container, item);
  else
    shmt__value_release(item);
  return status;
}

/* --- keys --- */

static int compare_keys(const void* a, const void* b) {
  const shmtensor_value *x = *(shmtensor_value* const*)a, *y = *(shmtensor_value* const*)b;
  const int kx = x->kind == SHMTENSOR_BOOL ? SHMTENSOR_INT : x->kind;
  const int ky = y->kind == SHMTENSOR_BOOL ? SHMTENSOR_INT : y->kind;
  if (kx != ky) return kx < ky ? -1 : 1;
  if (kx == SHMTENSOR_INT) return (x->u.integer > y->u.integer) - (x->u.integer < y->u.integer);
  if (kx == SHMTENSOR_NONE) return 0;
  const size_t n = x->u.bytes.n < y->u.bytes.n ? x->u.bytes.n : y->u.bytes.n;
  const int order = memcmp(x->u.bytes.at, y->u.bytes.at, n);
  return order != 0 ? order : (x->u.bytes.n > y->u.bytes.n) - (x->u.bytes.n < y->u.bytes.n);
}

shmt_status shmt__value_has_duplicates(const shmtensor_value* dict, bool* out) {
  const size_t n = dict->u.items.n / 2;
  shmtensor_value** keys = malloc((n + 1) * sizeof(shmtensor_value*));
  SHMT_REQUIRE(keys != NULL, SHMT_E_NOMEM, "a dict of %zu keys", n);
  for (size_t i = 0; i < n; i++) keys[i] = dict->u.items.at[2 * i];
  qsort(keys, n, sizeof(shmtensor_value*), compare_keys);
  *out = false;
  for (size_t i = 0; i + 1 < n && !*out; i++) *out = compare_keys(&keys[i], &keys[i + 1]) == 0;
  free(keys);
  return SHMT_OK;
}

/* The place of the item of an equal key, or NULL. Of two equal keys of a message the last one counts, as in Python. */
static shmtensor_value** find_item(const shmtensor_value* dict, const shmtensor_value* key) {
  for (size_t i = dict->u.items.n; i >= 2; i -= 2)
    if (compare_keys(&dict->u.items.at[i - 2], &key) == 0) return &dict->u.items.at[i - 1];
  return NULL;
}

/* --- building --- */

shmtensor_status shmtensor_none(shmtensor_value** out) {
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt__value_new(SHMTENSOR_NONE, out));
  return SHMTENSOR_OK;
}

static shmtensor_status new_integer(int kind, int64_t value, shmtensor_value** out) {
  SHMT_PUBLIC_TRY(shmt__value_new(kind, out));
  (*out)->u.integer = value;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_bool(int value, shmtensor_value** out) {
  SHMT_NEED(out);
  return new_integer(SHMTENSOR_BOOL, value != 0, out);
}

shmtensor_status shmtensor_int(int64_t value, shmtensor_value** out) {
  SHMT_NEED(out);
  return new_integer(SHMTENSOR_INT, value, out);
}

shmtensor_status shmtensor_float(double value, shmtensor_value** out) {
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt__value_new(SHMTENSOR_FLOAT, out));
  (*out)->u.real = value;
  return SHMTENSOR_OK;
}

/* How many bytes from `at` on are one character; 0: they are none. */
static size_t utf8_character(const unsigned char* at, size_t n) {
  static const struct {
    unsigned char low, high; /* of the first byte */
    size_t n;
    unsigned char second_low, second_high;
  } rows[] = {
      {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
      {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
      {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (at[0] < rows[i].low || at[0] > rows[i].high) continue;
    if (rows[i].n > n) return 0;
    if (rows[i].n > 1 && (at[1] < rows[i].second_low || at[1] > rows[i].second_high)) return 0;
    for (size_t j = 2; j < rows[i].n; j++)
      if ((at[j] & 0xc0) != 0x80) return 0;
    return rows[i].n;
  }
  return 0;
}

bool shmt__is_utf8(const char* text, size_t n) {
  const unsigned char* at = (const unsigned char*)text;
  for (size_t i = 0; i < n;) {
    const size_t step = utf8_character(at + i, n - i);
    if (step == 0) return false;
    i += step;
  }
  return true;
}

static shmtensor_status new_text(const char* function, const char* text, size_t n, shmtensor_value** out) {
  if (n == SIZE_MAX) n = strlen(text);
  SHMT_NEED_THAT(shmt__is_utf8(text, n), "%s(): a text of %zu bytes is not UTF-8", function, n);
  SHMT_PUBLIC_TRY(shmt__value_of_bytes(SHMTENSOR_TEXT, text, n, out));
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_text(const char* text, size_t n, shmtensor_value** out) {
  SHMT_NEED_THAT(text != NULL || n == 0, "%s(): text is NULL", __func__);
  SHMT_NEED(out);
  return new_text(__func__, text, n, out);
}

shmtensor_status shmtensor_bytes(const void* data, size_t n, shmtensor_value** out) {
  SHMT_NEED(out);
  SHMT_NEED_THAT(data != NULL || n == 0, "%s(): data is NULL", __func__);
  SHMT_PUBLIC_TRY(shmt__value_of_bytes(SHMTENSOR_BYTES, data, n, out));
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_list(shmtensor_value** out) {
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt__value_new(SHMTENSOR_LIST, out));
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_tuple(shmtensor_value** out) {
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt__value_new(SHMTENSOR_TUPLE, out));
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_dict(shmtensor_value** out) {
  SHMT_NEED(out);
  SHMT_PUBLIC_TRY(shmt__value_new(SHMTENSOR_DICT, out));
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_tensor(DLManagedTensorVersioned* tensor, shmtensor_value** out) {
  shmt__geometry g;
  SHMT_AUTO(shmt_storage) s = NULL;
  SHMT_AUTO(shmtensor_value) v = NULL;
  SHMT_NEED(tensor);
  SHMT_NEED(out);
  /* The node first: once the tensor is taken over, nothing fails. */
  SHMT_PUBLIC_TRY(shmt__value_new(SHMTENSOR_TENSOR, &v));
  v->u.tensor.geometry = malloc(sizeof g);
  if (v->u.tensor.geometry == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory", __func__);
  SHMT_PASS(shmt__tensor_import(__func__, tensor, &s, &g));
  *v->u.tensor.geometry = g;
  v->u.tensor.storage = SHMT_TAKE(s);
  *out = SHMT_TAKE(v);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_append(shmtensor_value* sequence, shmtensor_value* item) {
  CHECK_KIND(sequence, sequence->kind == SHMTENSOR_LIST || sequence->kind == SHMTENSOR_TUPLE, "a list or a tuple");
  CHECK_WHOLE(sequence);
  CHECK_WHOLE(item);
  SHMT_PUBLIC_TRY(check_height(sequence, item));
  SHMT_PUBLIC_TRY(reserve(sequence, 1));
  add(sequence, item);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_set(shmtensor_value* dict, shmtensor_value* key, shmtensor_value* item) {
  CHECK_KIND(dict, dict->kind == SHMTENSOR_DICT, "a dict");
  CHECK_KIND(key, shmt__value_is_key(key), "None, a bool, an integer or a text");
  CHECK_WHOLE(dict);
  CHECK_WHOLE(key);
  CHECK_WHOLE(item);
  SHMT_NEED_THAT(item != key, "%s(): key and item are one value", __func__);
  SHMT_PUBLIC_TRY(check_height(dict, item));
  shmtensor_value** place = find_item(dict, key);
  if (place != NULL) {
    shmt__value_release(*place);
    shmt__value_release(key);
    if (shmt__value_is_container(item) && dict->height < item->height + 1) dict->height = item->height + 1;
    item->is_part = true;
    *place = item;
    return SHMTENSOR_OK;
  }
  SHMT_PUBLIC_TRY(reserve(dict, 2));
  add(dict, key);
  add(dict, item);
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_set_text(shmtensor_value* dict, const char* key, shmtensor_value* item) {
  SHMT_AUTO(shmtensor_value) made = NULL;
  CHECK_KIND(dict, dict->kind == SHMTENSOR_DICT, "a dict");
  SHMT_NEED(key);
  CHECK(item);
  SHMT_PASS(new_text(__func__, key, SIZE_MAX, &made));
  SHMT_PASS(shmtensor_value_set(dict, made, item));
  made = NULL;
  return SHMTENSOR_OK;
}

/* --- reading --- */

shmtensor_status shmtensor_value_kind(const shmtensor_value* value, int* out) {
  CHECK(value);
  SHMT_NEED(out);
  *out = value->kind;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_get_bool(const shmtensor_value* value, int* out) {
  CHECK_KIND(value, value->kind == SHMTENSOR_BOOL, "a bool");
  SHMT_NEED(out);
  *out = value->u.integer != 0;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_get_int(const shmtensor_value* value, int64_t* out) {
  CHECK_KIND(value, value->kind == SHMTENSOR_INT, "an integer");
  SHMT_NEED(out);
  *out = value->u.integer;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_get_float(const shmtensor_value* value, double* out) {
  CHECK_KIND(value, value->kind == SHMTENSOR_FLOAT || value->kind == SHMTENSOR_INT, "a float or an integer");
  SHMT_NEED(out);
  *out = value->kind == SHMTENSOR_FLOAT ? value->u.real : (double)value->u.integer;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_get_text(const shmtensor_value* value, const char** out, size_t* out_n) {
  CHECK_KIND(value, value->kind == SHMTENSOR_TEXT, "a text");
  SHMT_NEED(out);
  *out = value->u.bytes.at;
  if (out_n != NULL) *out_n = value->u.bytes.n;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_get_bytes(const shmtensor_value* value, const void** out, size_t* out_n) {
  CHECK_KIND(value, value->kind == SHMTENSOR_BYTES, "bytes");
  SHMT_NEED(out);
  SHMT_NEED(out_n);
  *out = value->u.bytes.at;
  *out_n = value->u.bytes.n;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_length(const shmtensor_value* value, size_t* out) {
  CHECK_KIND(value, shmt__value_is_container(value), "a list, a tuple or a dict");
  SHMT_NEED(out);
  *out = value->kind == SHMTENSOR_DICT ? value->u.items.n / 2 : value->u.items.n;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_item(const shmtensor_value* value, size_t i, const shmtensor_value** out) {
  CHECK_KIND(value, value->kind == SHMTENSOR_LIST || value->kind == SHMTENSOR_TUPLE, "a list or a tuple");
  SHMT_NEED(out);
  SHMT_NEED_THAT(i < value->u.items.n, "%s(): i is %zu, of %zu items", __func__, i, value->u.items.n);
  *out = value->u.items.at[i];
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_entry(const shmtensor_value* dict, size_t i, const shmtensor_value** out_key,
                                       const shmtensor_value** out_item) {
  CHECK_KIND(dict, dict->kind == SHMTENSOR_DICT, "a dict");
  SHMT_NEED(out_key);
  SHMT_NEED(out_item);
  SHMT_NEED_THAT(i < dict->u.items.n / 2, "%s(): i is %zu, of %zu entries", __func__, i, dict->u.items.n / 2);
  *out_key = dict->u.items.at[2 * i];
  *out_item = dict->u.items.at[2 * i + 1];
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_find(const shmtensor_value* dict, const char* key, const shmtensor_value** out) {
  CHECK_KIND(dict, dict->kind == SHMTENSOR_DICT, "a dict");
  SHMT_NEED(key);
  SHMT_NEED(out);
  const shmtensor_value wanted = {.kind = SHMTENSOR_TEXT, .u.bytes = {(char*)(uintptr_t)key, strlen(key)}};
  shmtensor_value** place = find_item(dict, &wanted);
  if (place == NULL) return shmt__public_fail(SHMTENSOR_E_KEY, "%s(): there is no key \"%.200s\"", __func__, key);
  *out = *place;
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_value_get_tensor(const shmtensor_value* value, DLManagedTensorVersioned** out) {
  CHECK_KIND(value, value->kind == SHMTENSOR_TENSOR, "a tensor");
  SHMT_NEED(out);
  return shmt__tensor_export(value->u.tensor.storage, value->u.tensor.geometry, out);
}
