/* capi/format/plain_writer.c -- writes values in the plain format of ipc/message/message_format.h. */
#include "capi/format/plain_writer.h"

#include "ipc/message/message_format.h"
#include "ipc/ring/message_layout.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

shmt_status shmt__byte_array_append(shmt__byte_array* b, const void* data, size_t n) {
  if (n > b->cap - b->n) {
    size_t cap = b->cap ? b->cap * 2 : 256;
    while (cap - b->n < n && cap <= SIZE_MAX / 4) cap *= 2;
    char* grown = cap - b->n >= n ? realloc(b->at, cap) : NULL;
    SHMT_REQUIRE(grown != NULL, SHMT_E_NOMEM, "a message: tried to allocate %zu bytes", cap);
    b->at = grown;
    b->cap = cap;
  }
  if (n > 0) memcpy(b->at + b->n, data, n);
  b->n += n;
  return SHMT_OK;
}

shmt_status shmt__plain_writer_init(shmt__plain_writer* w, struct shmt__session* session) {
  static atomic_uint_least64_t last_id; /* relaxed: only distinct */
  const shmt__message_head head = {0};
  *w = (shmt__plain_writer){.session = session};
  w->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  return shmt__byte_array_append(&w->records, &head, sizeof head);
}

void shmt__plain_writer_fini(shmt__plain_writer* w) {
  for (uint32_t i = 0; i < w->n_storages; i++) shmt__storage_release(w->storages[i]);
  shmt__storage_copies_fini(&w->copies);
  free(w->storages);
  free(w->records.at);
  free(w->plain.at);
}

shmt_status shmt__plain_writer_add_storage(shmt__plain_writer* w, shmt_storage** s) {
  if (w->n_storages == w->storages_cap) {
    const uint32_t cap = w->storages_cap ? w->storages_cap * 2 : 4;
    shmt_storage** grown = realloc(w->storages, sizeof(shmt_storage*) * cap);
    SHMT_REQUIRE(grown != NULL, SHMT_E_NOMEM, "a message: tried to allocate %zu bytes", sizeof(shmt_storage*) * cap);
    w->storages = grown;
    w->storages_cap = cap;
  }
  w->storages[w->n_storages++] = *s;
  *s = NULL;
  return SHMT_OK;
}

static shmt_status write_tag(shmt__plain_writer* w, uint8_t tag, const void* data, size_t n) {
  SHMT_TRY(shmt__byte_array_append(&w->plain, &tag, 1));
  return shmt__byte_array_append(&w->plain, data, n);
}

static shmt_status write_count(shmt__plain_writer* w, uint8_t tag, uint32_t n) {
  return write_tag(w, tag, &n, sizeof n);
}

static shmt_status write_run(shmt__plain_writer* w, uint8_t tag, const shmtensor_value* v) {
  SHMT_REQUIRE(v->u.bytes.n <= UINT32_MAX, SHMT_E_VALUE, "a message with %s of %zu bytes", shmt__value_title(v->kind),
               v->u.bytes.n);
  SHMT_TRY(write_count(w, tag, (uint32_t)v->u.bytes.n));
  return shmt__byte_array_append(&w->plain, v->u.bytes.at, v->u.bytes.n);
}

static shmt_status write_integer(shmt__plain_writer* w, int64_t value) {
  const int8_t small = (int8_t)value;
  return small == value ? write_tag(w, SHMT_TAG_BYTE, &small, sizeof small)
                        : write_tag(w, SHMT_TAG_INT, &value, sizeof value);
}

static shmt_status write_tensor(shmt__plain_writer* w, const shmtensor_value* v) {
  const shmt__geometry* g = v->u.tensor.geometry;
  SHMT_AUTO(shmt_storage) s = NULL;
  /* One is reserved for the data of a message that is long, one for the line of a request. */
  SHMT_REQUIRE(w->n_storages + 2 < SHMT_RING_MAX_BLOCKS, SHMT_E_VALUE,
               "a message with more than %d tensors; put them into one, or publish them", SHMT_RING_MAX_BLOCKS - 2);
  SHMT_TRY(shmt__storage_to_send(v->u.tensor.storage, w->session, &w->copies, &s));
  const uint32_t place = (uint32_t)(w->records.n - sizeof(shmt__message_head));
  const shmt__message_record r = {.storage = w->n_storages,
                                  .dtype = (uint8_t)g->dtype,
                                  .n_dims = (uint8_t)g->n_dims,
                                  .offset = g->offset};
  SHMT_TRY(shmt__byte_array_append(&w->records, &r, sizeof r));
  SHMT_TRY(shmt__byte_array_append(&w->records, g->dims, 2 * (size_t)g->n_dims * sizeof g->dims[0]));
  SHMT_TRY(shmt__plain_writer_add_storage(w, &s));
  return write_count(w, SHMT_TAG_TENSOR, place);
}

static shmt_status write_value(shmt__plain_writer* w, const shmtensor_value* v, int depth);

static shmt_status write_items(shmt__plain_writer* w, const shmtensor_value* v, uint8_t tag, int depth) {
  const bool is_dict = v->kind == SHMTENSOR_DICT;
  const size_t n = is_dict ? v->u.items.n / 2 : v->u.items.n;
  SHMT_REQUIRE(depth < SHMT_MESSAGE_MOST_DEPTH && n <= UINT32_MAX, SHMT_E_VALUE,
               "the values of a message are nested at most %d deep", SHMT_MESSAGE_MOST_DEPTH);
  SHMT_TRY(write_count(w, tag, (uint32_t)n));
  for (size_t i = 0; i < v->u.items.n; i++) SHMT_TRY(write_value(w, v->u.items.at[i], depth + 1));
  return SHMT_OK;
}

/* Errors: SHMT_E_VALUE: there is no number left. */
static shmt_status number(shmt__plain_writer* w, const shmtensor_value* v) {
  shmtensor_value* node = (shmtensor_value*)(uintptr_t)v; /* the note is ours, the value is not changed */
  SHMT_REQUIRE(w->n_objects < SHMT_MESSAGE_MOST_OBJECTS, SHMT_E_VALUE,
               "a message with more than %d lists, dicts, tensors and tuples that are at several places",
               SHMT_MESSAGE_MOST_OBJECTS);
  node->written_by = w->id;
  node->number = w->n_objects++;
  return SHMT_OK;
}

/* What is numbered: the receiver has one object where we have one node. */
static shmt_status write_object(shmt__plain_writer* w, const shmtensor_value* v, int depth) {
  if (v->written_by == w->id) return write_count(w, SHMT_TAG_AGAIN, v->number);
  SHMT_TRY(number(w, v));
  if (v->kind == SHMTENSOR_TENSOR) return write_tensor(w, v);
  return write_items(w, v, v->kind == SHMTENSOR_LIST ? SHMT_TAG_LIST : SHMT_TAG_DICT, depth);
}

/* Numbered when it ends: the items come first, and may take the last number. */
static shmt_status write_tuple(shmt__plain_writer* w, const shmtensor_value* v, int depth) {
  if (v->written_by == w->id) return write_count(w, SHMT_TAG_AGAIN, v->number);
  if (v->refs == 1) return write_items(w, v, SHMT_TAG_TUPLE, depth);
  SHMT_TRY(write_items(w, v, SHMT_TAG_SHARED_TUPLE, depth));
  return number(w, v);
}

static shmt_status write_value(shmt__plain_writer* w, const shmtensor_value* v, int depth) {
  switch (v->kind) {
    case SHMTENSOR_NONE: return write_tag(w, SHMT_TAG_NONE, "", 0);
    case SHMTENSOR_BOOL: return write_tag(w, v->u.integer ? SHMT_TAG_TRUE : SHMT_TAG_FALSE, "", 0);
    case SHMTENSOR_INT: return write_integer(w, v->u.integer);
    case SHMTENSOR_FLOAT: return write_tag(w, SHMT_TAG_FLOAT, &v->u.real, sizeof v->u.real);
    case SHMTENSOR_TEXT: return write_run(w, SHMT_TAG_TEXT, v);
    case SHMTENSOR_BYTES: return write_run(w, SHMT_TAG_BYTES, v);
    case SHMTENSOR_TUPLE: return write_tuple(w, v, depth);
    default: return write_object(w, v, depth);
  }
}

shmt_status shmt__plain_write(shmt__plain_writer* w, const shmtensor_value* v) {
  SHMT_TRY(write_value(w, v, 0));
  const shmt__message_head head = {(uint32_t)(w->records.n - sizeof head), 1};
  memcpy(w->records.at, &head, sizeof head);
  return SHMT_OK;
}
