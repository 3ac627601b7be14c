/* capi/format/plain_reader.c -- reads values in the plain format of ipc/message/message_format.h.
 *
 * Whatever the bytes are, the result is a value or an error, after time and memory in proportion to their number. */
#include "capi/format/plain_reader.h"

#include "ipc/message/message_format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  const char *at, *end; /* of what follows the records */
  const char* records;
  uint32_t n_records, n_storages;
  shmt_storage* const* storages;
  shmtensor_value** known; /* owned references: the numbered objects so far */
  uint32_t n_known, known_cap;
} reader;

static shmt_status fail_damaged(const reader* r) {
  SHMT_FAIL(SHMT_E_HANDLE, "a damaged message: %td bytes before its end", r->end - r->at);
}

static bool take(reader* r, void* out, size_t n) {
  if ((size_t)(r->end - r->at) < n) return false;
  memcpy(out, r->at, n);
  r->at += n;
  return true;
}

/* From now on v is also known by the next number. */
static shmt_status remember(reader* r, shmtensor_value* v) {
  if (r->n_known == r->known_cap) {
    const uint32_t cap = r->known_cap ? r->known_cap * 2 : 16;
    shmtensor_value** grown = realloc(r->known, cap * sizeof(shmtensor_value*));
    SHMT_REQUIRE(grown != NULL, SHMT_E_NOMEM, "a message of %" PRIu32 " objects", cap);
    r->known = grown;
    r->known_cap = cap;
  }
  v->refs++;
  r->known[r->n_known++] = v;
  return SHMT_OK;
}

/* --- tensors --- */

static shmt_status read_record(const reader* r, uint32_t place, shmt__message_record* out, shmt__geometry* g) {
  SHMT_REQUIRE((uint64_t)place + sizeof *out <= r->n_records, SHMT_E_HANDLE,
               "a message with %" PRIu32 " bytes of records names place %" PRIu32, r->n_records, place);
  memcpy(out, r->records + place, sizeof *out);
  const size_t n = 2 * sizeof(int64_t) * out->n_dims;
  SHMT_REQUIRE(out->storage < r->n_storages && out->n_dims <= SHMT_MAX_DIMS &&
                   (uint64_t)place + sizeof *out + n <= r->n_records,
               SHMT_E_HANDLE, "a damaged record of a message: storage %" PRIu32 " of %" PRIu32 ", %u dimensions",
               out->storage, r->n_storages, out->n_dims);
  *g = (shmt__geometry){.dtype = out->dtype, .n_dims = out->n_dims, .offset = out->offset};
  memcpy(g->dims, r->records + place + sizeof *out, n);
  return SHMT_OK;
}

static shmt_status read_tensor(reader* r, uint32_t place, shmtensor_value** out) {
  shmt__message_record record;
  shmt__geometry g;
  SHMT_TRY(read_record(r, place, &record, &g));
  SHMT_REQUIRE(record.dtype < SHMT_N_DTYPES, SHMT_E_HANDLE, "place %" PRIu32 " of a message is not a tensor: dtype %u",
               place, record.dtype);
  SHMT_REQUIRE(record.bits == 0, SHMT_E_TYPE,
               "a message with a conjugated or negated view; the sender may resolve it by clone()");
  SHMT_TRY(shmt__geometry_check(&g, r->storages[record.storage], "a message"));
  SHMT_AUTO(shmtensor_value) v = NULL;
  SHMT_TRY(shmt__value_of_tensor(r->storages[record.storage], &g, &v));
  SHMT_TRY(remember(r, v));
  *out = SHMT_TAKE(v);
  return SHMT_OK;
}

/* --- items --- */

static shmt_status read_value(reader* r, int depth, shmtensor_value** out);

static shmt_status read_key(reader* r, int depth, shmtensor_value** out) {
  SHMT_AUTO(shmtensor_value) key = NULL;
  SHMT_TRY(read_value(r, depth, &key));
  SHMT_REQUIRE(shmt__value_is_key(key), SHMT_E_TYPE, "a dict with %s as a key; C takes None, bools, integers and texts",
               shmt__value_title(key->kind));
  *out = SHMT_TAKE(key);
  return SHMT_OK;
}

static shmt_status read_items(reader* r, shmtensor_value* v, uint32_t n, int depth) {
  for (uint32_t i = 0; i < n; i++) {
    shmtensor_value *key = NULL, *item = NULL;
    if (v->kind == SHMTENSOR_DICT) {
      SHMT_TRY(read_key(r, depth + 1, &key));
      SHMT_TRY(shmt__value_add(v, key));
    }
    SHMT_TRY(read_value(r, depth + 1, &item));
    SHMT_TRY(shmt__value_add(v, item));
  }
  return SHMT_OK;
}

static shmt_status read_container(reader* r, int kind, uint32_t n, int depth, shmtensor_value** out) {
  SHMT_AUTO(shmtensor_value) v = NULL;
  SHMT_TRY(shmt__value_new(kind, &v));
  if (kind != SHMTENSOR_TUPLE) SHMT_TRY(remember(r, v));
  v->is_open = true;
  SHMT_TRY(read_items(r, v, n, depth));
  v->is_open = false;
  *out = SHMT_TAKE(v);
  return SHMT_OK;
}

static shmt_status read_shared_tuple(reader* r, uint32_t n, int depth, shmtensor_value** out) {
  SHMT_AUTO(shmtensor_value) v = NULL;
  SHMT_TRY(read_container(r, SHMTENSOR_TUPLE, n, depth, &v));
  SHMT_TRY(remember(r, v));
  *out = SHMT_TAKE(v);
  return SHMT_OK;
}

static shmt_status read_again(const reader* r, uint32_t number, shmtensor_value** out) {
  if (number >= r->n_known) return fail_damaged(r);
  shmtensor_value* v = r->known[number];
  SHMT_REQUIRE(!v->is_open, SHMT_E_TYPE, "a message with %s that contains itself", shmt__value_title(v->kind));
  v->refs++;
  *out = v;
  return SHMT_OK;
}

static shmt_status read_run(reader* r, int kind, uint32_t n, shmtensor_value** out) {
  const char* data = r->at;
  r->at += n;
  SHMT_REQUIRE(kind == SHMTENSOR_BYTES || shmt__is_utf8(data, n), SHMT_E_HANDLE,
               "a message with a text of %" PRIu32 " bytes that is not UTF-8", n);
  return shmt__value_of_bytes(kind, data, n, out);
}

static shmt_status read_number(reader* r, uint8_t tag, shmtensor_value** out) {
  int8_t small = 0;
  int64_t value = 0;
  double real = 0;
  const bool good = tag == SHMT_TAG_BYTE    ? take(r, &small, sizeof small)
                    : tag == SHMT_TAG_INT   ? take(r, &value, sizeof value)
                    : tag == SHMT_TAG_FLOAT ? take(r, &real, sizeof real)
                                            : false;
  if (!good) return fail_damaged(r);
  SHMT_TRY(shmt__value_new(tag == SHMT_TAG_FLOAT ? SHMTENSOR_FLOAT : SHMTENSOR_INT, out));
  if (tag == SHMT_TAG_FLOAT)
    (*out)->u.real = real;
  else
    (*out)->u.integer = tag == SHMT_TAG_BYTE ? small : value;
  return SHMT_OK;
}

static shmt_status read_constant(uint8_t tag, shmtensor_value** out) {
  SHMT_TRY(shmt__value_new(tag == SHMT_TAG_NONE ? SHMTENSOR_NONE : SHMTENSOR_BOOL, out));
  (*out)->u.integer = tag == SHMT_TAG_TRUE;
  return SHMT_OK;
}

static shmt_status read_value(reader* r, int depth, shmtensor_value** out) {
  uint8_t tag = 0;
  uint32_t n = 0;
  if (depth > SHMT_MESSAGE_MOST_DEPTH || !take(r, &tag, 1) || tag < SHMT_TAG_NONE) return fail_damaged(r);
  if (tag <= SHMT_TAG_FALSE) return read_constant(tag, out);
  if (tag < SHMT_TAG_TEXT) return read_number(r, tag, out);
  if (!take(r, &n, sizeof n)) return fail_damaged(r);
  if (tag == SHMT_TAG_TENSOR) return read_tensor(r, n, out);
  if (tag == SHMT_TAG_AGAIN) return read_again(r, n, out);
  /* A byte at least for each item: a false count makes nothing large. */
  if (n > (size_t)(r->end - r->at)) return fail_damaged(r);
  switch (tag) {
    case SHMT_TAG_TUPLE: return read_container(r, SHMTENSOR_TUPLE, n, depth, out);
    case SHMT_TAG_LIST: return read_container(r, SHMTENSOR_LIST, n, depth, out);
    case SHMT_TAG_DICT: return read_container(r, SHMTENSOR_DICT, n, depth, out);
    case SHMT_TAG_SHARED_TUPLE: return read_shared_tuple(r, n, depth, out);
    case SHMT_TAG_TEXT: return read_run(r, SHMTENSOR_TEXT, n, out);
    case SHMT_TAG_BYTES: return read_run(r, SHMTENSOR_BYTES, n, out);
    default: return fail_damaged(r);
  }
}

static shmt_status read_message(reader* r, shmtensor_value** out) {
  SHMT_AUTO(shmtensor_value) v = NULL;
  shmt_status status = read_value(r, 0, &v);
  for (uint32_t i = 0; i < r->n_known; i++) shmt__value_release(r->known[i]);
  free(r->known);
  if (status != SHMT_OK) return status;
  if (r->at != r->end) return fail_damaged(r);
  *out = SHMT_TAKE(v);
  return SHMT_OK;
}

shmtensor_status shmt__plain_read(shmt_storage* const* storages, uint32_t n_storages, const char* data, uint64_t nbytes,
                                  shmtensor_value** out) {
  shmt__message_head head = {0};
  if (nbytes >= sizeof head) memcpy(&head, data, sizeof head);
  if (nbytes < sizeof head || head.n_records > nbytes - sizeof head)
    return shmt__public_fail(SHMTENSOR_E_HANDLE, "a damaged message of %" PRIu64 " bytes", nbytes);
  if (head.is_plain == 0)
    return shmt__public_fail(SHMTENSOR_E_TYPE,
                             "a pickle of Python, which C does not read; send tensors, numbers, text, bytes, None, and "
                             "lists, tuples and dicts of them");
  reader r = {.at = data + sizeof head + head.n_records,
              .end = data + nbytes,
              .records = data + sizeof head,
              .n_records = head.n_records,
              .n_storages = n_storages,
              .storages = storages};
  SHMT_PUBLIC_TRY(read_message(&r, out));
  return SHMTENSOR_OK;
}
