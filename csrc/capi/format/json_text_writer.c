/* capi/format/json_text_writer.c -- writes the text that describes a published value. */
#include "capi/format/json_text.h"

#include "generated/dtype_tables.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shmt__json_writer_fini(shmt__json_writer* w) {
  for (uint32_t i = 0; i < w->n_storages; i++) shmt__storage_release(w->storages[i]);
  free(w->storages);
  free(w->text.at);
  shmt__storage_copies_fini(&w->copies);
}

static shmt_status put(shmt__json_writer* w, const char* text) {
  SHMT_REQUIRE(w->text.n < SHMT_JSON_MOST_BYTES, SHMT_E_VALUE,
               "publish(): the description has more than %d bytes", SHMT_JSON_MOST_BYTES);
  return shmt__byte_array_append(&w->text, text, strlen(text));
}

/* --- texts, bytes, numbers --- */

/* The character at `at`, which is UTF-8 as it is known. Returns its bytes. */
static size_t decode(const unsigned char* at, uint32_t* out) {
  const size_t n = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
  *out = n == 1 ? at[0] : at[0] & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) *out = *out << 6 | (at[i] & 0x3fu);
  return n;
}

static shmt_status put_text(shmt__json_writer* w, const char* text, size_t n) {
  SHMT_TRY(put(w, "\""));
  for (size_t i = 0; i < n;) {
    uint32_t c = 0;
    char escaped[16];
    i += decode((const unsigned char*)text + i, &c);
    if (c == '"' || c == '\\')
      (void)snprintf(escaped, sizeof escaped, "\\%c", (char)c);
    else if (c >= 0x20 && c < 0x7f)
      (void)snprintf(escaped, sizeof escaped, "%c", (char)c);
    else if (c < 0x10000)
      (void)snprintf(escaped, sizeof escaped, "\\u%04" PRIx32, c);
    else
      (void)snprintf(escaped, sizeof escaped, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (c >> 10),
                     0xdc00 + (c & 0x3ff));
    SHMT_TRY(put(w, escaped));
  }
  return put(w, "\"");
}

static shmt_status put_bytes(shmt__json_writer* w, const char* data, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  SHMT_TRY(put(w, "[\"b\",\""));
  for (size_t i = 0; i < n; i += 3) {
    const unsigned char* at = (const unsigned char*)data + i;
    const size_t left = n - i;
    const uint32_t bits = (uint32_t)at[0] << 16 | (left > 1 ? (uint32_t)at[1] << 8 : 0) | (left > 2 ? at[2] : 0);
    const char four[] = {digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=',
                         left > 2 ? digits[bits & 63] : '=', '\0'};
    SHMT_TRY(put(w, four));
  }
  return put(w, "\"]");
}

static shmt_status put_integer(shmt__json_writer* w, int64_t value) {
  char text[32];
  (void)snprintf(text, sizeof text, "%" PRId64, value);
  return put(w, text);
}

static shmt_status put_float(shmt__json_writer* w, double value) {
  char text[40];
  if (isnan(value)) return put(w, "[\"f\",\"nan\"]");
  if (isinf(value)) return put(w, value > 0 ? "[\"f\",\"inf\"]" : "[\"f\",\"-inf\"]");
  (void)snprintf(text, sizeof text, "%.17g", value);
  if (strpbrk(text, ".e") == NULL) strcat(text, ".0");
  return put(w, text);
}

/* --- tensors --- */

/* The number of the storage that stands for s. */
static shmt_status place(shmt__json_writer* w, shmt_storage* s, uint32_t* out) {
  SHMT_AUTO(shmt_storage) sent = NULL;
  SHMT_TRY(shmt__storage_to_send(s, w->session, &w->copies, &sent));
  for (uint32_t i = 0; i < w->n_storages; i++)
    if (w->storages[i] == sent) {
      *out = i;
      return SHMT_OK;
    }
  if (w->n_storages == w->storages_cap) {
    const uint32_t cap = w->storages_cap * 2 + 8;
    shmt_storage** grown = realloc(w->storages, cap * sizeof(shmt_storage*));
    SHMT_REQUIRE(grown != NULL, SHMT_E_NOMEM, "publish(): %" PRIu32 " storages", cap);
    w->storages = grown;
    w->storages_cap = cap;
  }
  *out = w->n_storages;
  w->storages[w->n_storages++] = SHMT_TAKE(sent);
  return SHMT_OK;
}

static shmt_status put_dims(shmt__json_writer* w, const int64_t* dims, int n) {
  SHMT_TRY(put(w, ",["));
  for (int i = 0; i < n; i++) {
    if (i > 0) SHMT_TRY(put(w, ","));
    SHMT_TRY(put_integer(w, dims[i]));
  }
  return put(w, "]");
}

static shmt_status put_tensor(shmt__json_writer* w, const shmtensor_value* v) {
  const shmt__geometry* g = v->u.tensor.geometry;
  uint32_t number = 0;
  SHMT_TRY(place(w, v->u.tensor.storage, &number));
  SHMT_TRY(put(w, "[\"t\","));
  SHMT_TRY(put_integer(w, number));
  SHMT_TRY(put(w, ",\""));
  SHMT_TRY(put(w, shmt__dtype_name[g->dtype]));
  SHMT_TRY(put(w, "\","));
  SHMT_TRY(put_integer(w, g->offset));
  SHMT_TRY(put_dims(w, g->dims, g->n_dims));
  SHMT_TRY(put_dims(w, g->dims + g->n_dims, g->n_dims));
  return put(w, ",false]");
}

/* --- values --- */

static shmt_status put_value(shmt__json_writer* w, const shmtensor_value* v, int depth);

static shmt_status put_items(shmt__json_writer* w, const shmtensor_value* v, int depth) {
  const bool is_dict = v->kind == SHMTENSOR_DICT;
  SHMT_TRY(put(w, is_dict ? "[\"d\"" : v->kind == SHMTENSOR_LIST ? "[\"l\"" : "[\"u\""));
  for (size_t i = 0; i < v->u.items.n; i++) {
    SHMT_TRY(put(w, is_dict && i % 2 == 0 ? ",[" : ","));
    SHMT_TRY(put_value(w, v->u.items.at[i], depth + 1));
    if (is_dict && i % 2 == 1) SHMT_TRY(put(w, "]"));
  }
  return put(w, "]");
}

static shmt_status put_value(shmt__json_writer* w, const shmtensor_value* v, int depth) {
  SHMT_REQUIRE(depth <= SHMT_JSON_MOST_DEPTH, SHMT_E_VALUE, "publish(): the value is nested deeper than %d",
               SHMT_JSON_MOST_DEPTH);
  switch (v->kind) {
    case SHMTENSOR_NONE: return put(w, "null");
    case SHMTENSOR_BOOL: return put(w, v->u.integer ? "true" : "false");
    case SHMTENSOR_INT: return put_integer(w, v->u.integer);
    case SHMTENSOR_FLOAT: return put_float(w, v->u.real);
    case SHMTENSOR_TEXT: return put_text(w, v->u.bytes.at, v->u.bytes.n);
    case SHMTENSOR_BYTES: return put_bytes(w, v->u.bytes.at, v->u.bytes.n);
    case SHMTENSOR_TENSOR: return put_tensor(w, v);
    default: return put_items(w, v, depth);
  }
}

static shmt_status put_document(shmt__json_writer* w, const shmtensor_value* v) {
  SHMT_TRY(put(w, "{\"kind\":\"value\",\"value\":"));
  SHMT_TRY(put_value(w, v, 0));
  return put(w, "}");
}

shmt_status shmt__json_write(shmt__json_writer* w, const shmtensor_value* v) {
  /* A program's locale may write numbers with a comma. */
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  SHMT_REQUIRE(plain != (locale_t)0, SHMT_E_NOMEM, "publish(): no locale");
  locale_t before = uselocale(plain);
  shmt_status status = put_document(w, v);
  (void)uselocale(before);
  freelocale(plain);
  return status;
}
