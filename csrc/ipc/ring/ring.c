/* ipc/ring/ring.c -- creates, opens and closes rings. Messages are put and taken in ipc/ring/put_get.c. */
#include "ipc/ring/ring.h"

#include "ipc/handle/export.h"
#include "ipc/handle/import.h"
#include "ipc/handle/share.h"
#include "ipc/ring/wait.h"
#include "ipc/session/session.h"
#include "os/failpoint.h"
#include "os/users.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Consumes the storage, also on failure. */
static shmt_status make_ring(shmt_storage* storage, shmt__ring** out) {
  shmt__ring* r = calloc(1, sizeof *r);
  if (r == NULL) {
    shmt__storage_release(storage);
    SHMT_FAIL(SHMT_E_NOMEM, "queue: tried to allocate %zu bytes", sizeof *r);
  }
  const shmt__held_block* h = storage->ctx;
  r->storage = storage;
  r->session = h->session;
  r->header = storage->data;
  r->block = &h->session->map.blocks[h->block];
  r->capacity = SHMT_RING_CAPACITY;
  r->max_messages = *(volatile uint32_t*)&r->header->max_messages; /* read once: others can overwrite it */
  shmt__mutex_init(&r->watch_lock, SHMT_MUTEX_RING_WATCH);
  *out = r;
  return SHMT_OK;
}

shmt_status shmt__ring_create(uint32_t max_messages, shmt__ring** out) {
  shmt_storage* s = NULL;
  SHMT_TRY(shmt__storage_create_shared(SHMT_RING_BYTES, SHMT_SHARING_FILE_SYSTEM, &s));
  return shmt__ring_create_in(s, max_messages, out);
}

shmt_status shmt__ring_create_in(shmt_storage* s, uint32_t max_messages, shmt__ring** out) {
  shmt__ring_header* header = s->data;
  memset(header, 0, SHMT_RING_DATA);
  header->magic = SHMT_RING_MAGIC;
  header->version = SHMT_RING_VERSION;
  header->capacity = SHMT_RING_CAPACITY;
  header->max_messages = max_messages;
  SHMT_TRY(make_ring(s, out));
  SHMT_FAILPOINT(ring_made);
  /* release: from here on the manager takes the block for a ring, and finds one. */
  atomic_store_explicit(&(*out)->block->nbytes, SHMT_RING_BYTES | SHMT_BLOCK_IS_RING,
                        memory_order_release);
  SHMT_FAILPOINT(ring_marked);
  /* An audit that is under way did not count this ring. seq_cst: it sees the flag if it sees a lease of a message. */
  atomic_store_explicit(&(*out)->session->map.control->rings_stale, 1, memory_order_seq_cst);
  return SHMT_OK;
}

bool shmt__ring_takes_pickles(const shmt__ring* r) {
  const shmt__session* s = r->session;
  return !s->key.is_service ||
         ((s->map.fixed.flags & SHMT_SESSION_GROUP) == 0 && s->key.owner == shmt__os_uid());
}

shmt_status shmt__ring_open(const shmt__handle* h, shmt__ring** out) {
  shmt_storage* s = NULL;
  SHMT_TRY(shmt__storage_import(h, NULL, &s));
  return shmt__ring_over(s, out);
}

shmt_status shmt__ring_over(shmt_storage* s, shmt__ring** out) {
  const shmt__ring_header* header = s->data;
  bool good = s->nbytes == SHMT_RING_BYTES && s->ctx != NULL &&
              !(s->flags & SHMT_STORAGE_READ_ONLY) && header->magic == SHMT_RING_MAGIC &&
              header->version == SHMT_RING_VERSION &&
              header->capacity == SHMT_RING_CAPACITY;
  if (!good) {
    const uint64_t nbytes = s->nbytes;
    shmt__storage_release(s);
    SHMT_FAIL(SHMT_E_HANDLE, "a storage of %" PRIu64 " bytes is not a queue", nbytes);
  }
  return make_ring(s, out);
}

shmt_status shmt__ring_export(shmt__ring* r, shmt__handle* out) {
  return shmt__storage_export(r->storage, true, out, NULL);
}

void shmt__ring_close(shmt__ring* r) {
  if (r == NULL) return;
  shmt__ring_readiness_close(r);
  shmt__storage_release(r->storage);
  shmt__mutex_destroy(&r->watch_lock);
  free(r);
}

void shmt__ring_end(shmt__ring* r, unsigned ends) {
  unsigned client = shmt__ring_client(r);
  if (client == 0) return;
  atomic_fetch_or_explicit(&r->header->ends[client], (unsigned char)ends, memory_order_seq_cst);
  if (ends & SHMT_RING_NO_PUT) shmt__ring_event_signal(&r->header->data_event, true);
  if (ends & SHMT_RING_NO_GET) shmt__ring_event_signal(&r->header->room_event, true);
}
