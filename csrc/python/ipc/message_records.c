/* python/ipc/message_records.c -- the bytes of a message and the records of its tensors: writing and reading them. */
#include "python/ipc/message_records.h"

#include "ipc/handle/share.h"
#include "ipc/message/message_format.h"
#include "ipc/ring/message_layout.h"
#include "ipc/session/session.h"

#include <inttypes.h>
#include <string.h>

_Thread_local shmt__py_message_writer* shmt__py_tls_writer __attribute__((tls_model("initial-exec")));
static _Thread_local const shmt__py_message_reader* tls_reader __attribute__((tls_model("initial-exec")));

/* --- writing ---------------------------------------------------------------------------- */

/* Not inlined: where the compiler knows that nbytes is a multiple of 8, it copies 16 bytes by a string instruction. */
__attribute__((noinline)) bool shmt__py_bytes_append(shmt__py_bytes* b, const void* data, size_t nbytes) {
  if (nbytes > b->cap - b->len) {
    size_t cap = b->cap ? b->cap * 2 : 256;
    while (cap < b->len + nbytes) cap *= 2;
    char* at = PyMem_Realloc(b->at, cap);
    if (at == NULL) {
      PyErr_NoMemory();
      return false;
    }
    b->at = at;
    b->cap = cap;
  }
  memcpy(b->at + b->len, data, nbytes);
  b->len += nbytes;
  return true;
}

bool shmt__py_writer_add_storage(shmt__py_message_writer* w, shmt_storage** s) {
  if (w->n_storages == w->storages_cap) {
    uint32_t cap = w->storages_cap ? w->storages_cap * 2 : 4;
    shmt_storage** grown = PyMem_Realloc(w->storages, sizeof *grown * cap);
    if (grown == NULL) {
      PyErr_NoMemory();
      return false;
    }
    w->storages = grown;
    w->storages_cap = cap;
  }
  w->storages[w->n_storages++] = *s;
  *s = NULL;
  return true;
}

bool shmt__py_writer_init(shmt__py_message_writer* w, struct shmt__session* session) {
  shmt__message_head head = {0};
  *w = (shmt__py_message_writer){.session = session, .most_storages = UINT32_MAX};
  return shmt__py_bytes_append(&w->records, &head, sizeof head);
}

void shmt__py_writer_fini(shmt__py_message_writer* w) {
  for (uint32_t i = 0; i < w->n_storages; i++) shmt__storage_release(w->storages[i]);
  PyMem_Free(w->storages);
  PyMem_Free(w->records.at);
  PyMem_Free(w->pickle.at);
}

void shmt__py_writer_finish(shmt__py_message_writer* w, bool is_quick) {
  shmt__message_head head = {(uint32_t)(w->records.len - sizeof head), is_quick};
  memcpy(w->records.at, &head, sizeof head);
}

/* Can the message take the storage, now that it is shared? */
static bool takes_storage(const shmt__py_message_writer* w, const shmt_storage* s) {
  if (w->n_storages + 1 >= w->most_storages) return false; /* one is reserved for the data */
  if (s->nbytes == 0) return true;
  if (s->allocator != &shmt__allocator_managed || shmt__storage_has(s, SHMT_STORAGE_READ_ONLY)) return false;
  const shmt__held_block* h = s->ctx;
  return (w->session == NULL || h->session == w->session) && h->generation != 0;
}

int64_t shmt__py_writer_add_record(shmt__py_message_writer* w, const shmt_tensor* t, shmt_storage** s) {
  if (!takes_storage(w, *s)) return -1;
  shmt__message_record r = {.storage = w->n_storages, .dtype = SHMT_RECORD_IS_STORAGE};
  int64_t place = (int64_t)(w->records.len - sizeof(shmt__message_head));
  bool good;
  if (t != NULL) {
    size_t dims = sizeof(int64_t) * t->n_dims;
    r.dtype = (uint8_t)t->dtype;
    r.n_dims = t->n_dims;
    r.bits = (uint16_t)(t->flags & SHMT_TENSOR_CONJ_NEG);
    r.offset = t->offset;
    good = shmt__py_bytes_append(&w->records, &r, sizeof r) &&
           shmt__py_bytes_append(&w->records, t->sizes, dims) &&
           shmt__py_bytes_append(&w->records, t->strides, dims);
  } else {
    good = shmt__py_bytes_append(&w->records, &r, sizeof r);
  }
  return good && shmt__py_writer_add_storage(w, s) ? place : -2;
}

void shmt__py_writer_go_back(shmt__py_message_writer* w, shmt__py_writer_mark mark) {
  while (w->n_storages > mark.n_storages) shmt__storage_release(w->storages[--w->n_storages]);
  w->records.len = mark.n_records;
  w->pickle.len = mark.n_pickle;
}

struct shmt__session* shmt__py_writer_session(void) {
  return shmt__py_tls_writer == NULL ? NULL : shmt__py_tls_writer->session;
}

int64_t shmt__py_writer_offer(const shmt_tensor* t, shmt_storage** s) {
  shmt__py_message_writer* w = shmt__py_tls_writer;
  return w != NULL && w->is_reducing ? shmt__py_writer_add_record(w, t, s) : -1;
}

bool shmt__py_writer_suspend(void) {
  shmt__py_message_writer* w = shmt__py_tls_writer;
  bool was = w != NULL && w->is_reducing;
  if (was) w->is_reducing = false;
  return was;
}

void shmt__py_writer_resume(bool state) {
  if (shmt__py_tls_writer != NULL) shmt__py_tls_writer->is_reducing = state;
}

/* --- reading ---------------------------------------------------------------------------- */

shmt_status shmt__py_reader_begin(shmt__py_message_reader* r, shmt_storage* const* storages, uint32_t n_storages,
                                  const char* data, uint64_t nbytes) {
  shmt__message_head head = {0};
  if (nbytes >= sizeof head) memcpy(&head, data, sizeof head);
  SHMT_REQUIRE(nbytes >= sizeof head && head.n_records <= nbytes - sizeof head, SHMT_E_HANDLE,
               "a damaged message of %" PRIu64 " bytes", nbytes);
  const uint64_t at = sizeof head + head.n_records;
  *r = (shmt__py_message_reader){
      .storages = storages,
      .records = data + sizeof head,
      .pickle = data + at,
      .n_pickle = nbytes - at,
      .n_storages = n_storages,
      .n_records = head.n_records,
      .is_quick = head.is_plain != 0,
      .outer = tls_reader,
  };
  tls_reader = r;
  return SHMT_OK;
}

void shmt__py_reader_end(const shmt__py_message_reader* r) { tls_reader = r->outer; }

/* The record of this index, checked against the bounds of the message. */
static shmt_status find_record(int64_t place, shmt__message_record* out, int64_t* dims) {
  const shmt__py_message_reader* in = tls_reader;
  SHMT_REQUIRE(in != NULL, SHMT_E_HANDLE,
               "record %" PRId64 " of a message outside of the message", place);
  SHMT_REQUIRE(place >= 0 && (uint64_t)place + sizeof *out <= in->n_records, SHMT_E_HANDLE,
               "a message with %" PRIu32 " bytes of records names place %" PRId64, in->n_records,
               place);
  memcpy(out, in->records + place, sizeof *out);
  size_t n = 2 * sizeof(int64_t) * out->n_dims;
  SHMT_REQUIRE(out->storage < in->n_storages && out->n_dims <= SHMT_MAX_DIMS &&
                   (uint64_t)place + sizeof *out + n <= in->n_records,
               SHMT_E_HANDLE,
               "a damaged record of a message: storage %" PRIu32 " of %" PRIu32 ", %u dimensions",
               out->storage, in->n_storages, out->n_dims);
  if (dims != NULL) memcpy(dims, in->records + place + sizeof *out, n);
  return SHMT_OK;
}

shmt_status shmt__py_received_tensor(int64_t place, shmt_tensor** out) {
  int64_t dims[2 * SHMT_MAX_DIMS];
  shmt__message_record r;
  SHMT_TRY(find_record(place, &r, dims));
  SHMT_REQUIRE(r.dtype < SHMT_N_DTYPES && shmt__conj_neg_bits_fit(r.dtype, r.bits), SHMT_E_HANDLE,
               "place %" PRId64 " of a message is not a tensor: dtype %u, bits %#x", place, r.dtype,
               (unsigned)r.bits);
  int64_t n = r.n_dims;
  for (int64_t i = 0; i < 2 * n; i++)
    SHMT_REQUIRE(dims[i] >= 0, SHMT_E_HANDLE, "a tensor of a message with %s %" PRId64,
                 i < n ? "a size of" : "a stride of", dims[i]);
  SHMT_TRY(shmt__tensor_from_storage(tls_reader->storages[r.storage], (shmt_ints){dims, n},
                                     (shmt_ints){dims + n, n}, r.offset, r.dtype, out));
  shmt__tensor_set_conj_neg(*out, r.bits);
  return SHMT_OK;
}

shmt_status shmt__py_received_storage(int64_t place, shmt_storage** out) {
  shmt__message_record r;
  SHMT_TRY(find_record(place, &r, NULL));
  *out = tls_reader->storages[r.storage];
  shmt__storage_retain(*out);
  return SHMT_OK;
}
