/* capi/format/messages.c -- values as the messages of rings: entry points, and the storages of messages. */
#include "capi/format/messages.h"

#include "capi/format/plain_reader.h"
#include "capi/format/plain_writer.h"
#include "ipc/handle/share.h"
#include "ipc/service/service.h"

#include <stdlib.h>
#include <string.h>

/* --- packing --- */

void shmt__packed_value_fini(shmt__packed_value* p) {
  for (uint32_t i = 0; i < p->message.n_storages; i++) shmt__storage_release(p->storages[i]);
  free(p->storages);
  free(p->records);
  free(p->plain);
}

/* The data is too long for the ring: put it into a block of its own. */
static shmt_status spill(shmt__plain_writer* w, const shmt__ring* r, shmt__packed_value* out) {
  const size_t nbytes = w->records.n + w->plain.n;
  SHMT_AUTO(shmt_storage) s = NULL;
  SHMT_TRY(shmt__storage_create_in(r->session, nbytes, &s));
  memcpy(s->data, w->records.at, w->records.n);
  memcpy((char*)s->data + w->records.n, w->plain.at, w->plain.n);
  SHMT_TRY(shmt__plain_writer_add_storage(w, &s));
  out->message.flags = SHMT_RING_SPILLED;
  return SHMT_OK;
}

shmtensor_status shmt__value_pack(const shmtensor_value* v, const shmt__ring* r, shmt__packed_value* out) {
  __attribute__((cleanup(shmt__plain_writer_fini))) shmt__plain_writer w;
  *out = (shmt__packed_value){.message = {.flags = 0}};
  SHMT_PUBLIC_TRY(shmt__plain_writer_init(&w, r->session));
  SHMT_PUBLIC_TRY(shmt__plain_write(&w, v));
  if (w.records.n + w.plain.n > r->inline_bytes) SHMT_PUBLIC_TRY(spill(&w, r, out));
  out->storages = SHMT_TAKE(w.storages);
  out->records = SHMT_TAKE(w.records.at);
  out->plain = SHMT_TAKE(w.plain.at);
  out->message.storages = out->storages;
  out->message.n_storages = w.n_storages;
  w.n_storages = 0;
  if (out->message.flags & SHMT_RING_SPILLED) return SHMTENSOR_OK;
  out->message.parts[0] = out->records;
  out->message.part_bytes[0] = (uint32_t)w.records.n;
  out->message.parts[1] = out->plain;
  out->message.part_bytes[1] = (uint32_t)w.plain.n;
  return SHMTENSOR_OK;
}

/* --- unpacking --- */

static shmt_status show_in_mode(shmt__received_message* m, uint32_t n, int mode) {
  for (uint32_t i = 0; mode != SHMTENSOR_READ_WRITE && i < n; i++) {
    shmt_storage* seen = NULL;
    SHMT_TRY(shmt__storage_in_mode(m->storages[i], mode, &seen));
    shmt__storage_release(m->storages[i]);
    m->storages[i] = seen;
  }
  return SHMT_OK;
}

shmtensor_status shmt__value_unpack(shmt__received_message* m, int mode, shmtensor_value** out) {
  const bool is_spilled = (m->flags & SHMT_RING_SPILLED) != 0 && m->n_storages > 0;
  const uint32_t n = m->n_storages - is_spilled;
  SHMT_PUBLIC_TRY(show_in_mode(m, n, mode));
  if (!is_spilled) return shmt__plain_read(m->storages, n, m->data, m->nbytes, out);
  /* Others could change the bytes while they are read. */
  const shmt_storage* s = m->storages[n];
  char* copy = malloc(s->nbytes > 0 ? s->nbytes : 1);
  if (copy == NULL) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "a message of %zu bytes", (size_t)s->nbytes);
  if (s->nbytes > 0) memcpy(copy, s->data, s->nbytes);
  const shmtensor_status status = shmt__plain_read(m->storages, n, copy, s->nbytes, out);
  free(copy);
  return status;
}
