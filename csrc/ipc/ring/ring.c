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

enum {
  FIRST_BYTES = SHMT_RING_LEAST_CAPACITY, /* of messages, which have pages from the start */
  PAGES_AHEAD = 16 << 10, /* bytes that get pages together with those that need some */
};

static void describe(shmt_storage* storage, shmt__ring_area area, uint32_t data_begin, shmt__ring* out) {
  const shmt__held_block* h = storage->ctx;
  shmt__ring_header* header = storage->data;
  *out = (shmt__ring){.storage = storage,
                      .session = h->session,
                      .header = header,
                      .block = &h->session->map.blocks[h->block],
                      .area = area,
                      .is_bare = data_begin != SHMT_RING_DATA,
                      .is_line = data_begin == SHMT_RING_LINE_DATA,
                      .inline_bytes = SHMT_RING_INLINE};
}

/* Consumes the storage, also on failure. */
static shmt_status make_ring(shmt_storage* storage, const shmt__ring* view, shmt__ring** out) {
  shmt__ring* r = calloc(1, sizeof *r);
  if (r == NULL) {
    shmt__storage_release(storage);
    SHMT_FAIL(SHMT_E_NOMEM, "queue: tried to allocate %zu bytes", sizeof *r);
  }
  memcpy(r, view, sizeof *r);
  shmt__mutex_init(&r->watch_lock, SHMT_MUTEX_RING_WATCH);
  *out = r;
  return SHMT_OK;
}

shmt_status shmt__ring_create(uint32_t max_messages, shmt__ring** out) {
  shmt_storage* s = NULL;
  SHMT_TRY(shmt__storage_create_sparse(SHMT_RING_DATA + SHMT_RING_CAPACITY, SHMT_RING_DATA + FIRST_BYTES, &s));
  return shmt__ring_create_over(s, max_messages, SHMT_RING_DATA, out);
}

shmt_status shmt__ring_create_in(shmt__session* session, uint32_t data_begin, uint32_t capacity, uint32_t max_messages,
                                 shmt__ring** out) {
  shmt_storage* s = NULL;
  const uint64_t nbytes = (uint64_t)data_begin + capacity;
  SHMT_TRY(shmt__storage_create_sparse_in(session, nbytes, data_begin + FIRST_BYTES, &s));
  return shmt__ring_create_over(s, max_messages, data_begin, out);
}

shmt_status shmt__ring_create_over(shmt_storage* s, uint32_t max_messages, uint32_t data_begin, shmt__ring** out) {
  shmt__ring_header* header = s->data;
  shmt__ring view;
  const shmt__ring_area area = shmt__ring_area_of(header, data_begin, s->nbytes);
  SHMT_ASSERT(area.capacity != 0);
  memset(header, 0, data_begin);
  header->magic = SHMT_RING_MAGIC;
  header->version = SHMT_RING_VERSION;
  header->capacity = area.capacity;
  atomic_store_explicit(&header->max_messages, max_messages, memory_order_relaxed);
  header->data_begin = data_begin;
  describe(s, area, data_begin, &view);
  SHMT_TRY(make_ring(s, &view, out));
  SHMT_FAILPOINT(ring_made);
  /* release: from here on the manager takes the block for a ring, and finds one. */
  atomic_store_explicit(&(*out)->block->nbytes, s->nbytes | SHMT_BLOCK_IS_RING, memory_order_release);
  SHMT_FAILPOINT(ring_marked);
  /* An audit that is under way did not count this ring. seq_cst: it sees the number if it sees a lease of a message. */
  atomic_fetch_add_explicit(&(*out)->session->map.control->rings_made, 1, memory_order_seq_cst);
  return SHMT_OK;
}

shmt_status shmt__ring_extend(shmt__ring* r, uint32_t end) {
  const shmt__held_block* h = r->storage->ctx;
  const uint32_t begin = (uint32_t)(r->area.at - (const char*)r->header), capacity = r->area.capacity;
  const uint32_t ahead = capacity - end < PAGES_AHEAD ? capacity - end : (uint32_t)PAGES_AHEAD;
  uint64_t n_paged = 0;
  SHMT_TRY(shmt__arena_extend(&r->session->arena, h->block, h->offset, (uint64_t)begin + end, ahead, &n_paged));
  n_paged -= n_paged < begin ? n_paged : begin;
  r->n_paged = n_paged < capacity ? (uint32_t)n_paged : capacity;
  return SHMT_OK;
}

bool shmt__ring_takes_pickles(const shmt__ring* r) {
  const shmt__session* s = r->session;
  return !s->key.is_service ||
         ((s->map.fixed.flags & SHMT_SESSION_GROUP) == 0 && s->key.owner == shmt__os_uid());
}

uint32_t shmt__ring_most_storages(const shmt__ring* r) {
  return r->is_bare || r->session->key.is_service ? SHMT_RING_MAX_BLOCKS : SHMT_RING_MOST_LISTED;
}

shmt_status shmt__ring_open(const shmt__handle* h, shmt__ring** out) {
  shmt_storage* s = NULL;
  SHMT_TRY(shmt__storage_import(h, NULL, &s));
  return shmt__ring_over(s, out);
}

shmt_status shmt__ring_view(shmt_storage* s, shmt__ring* out) {
  const shmt__ring_header* header = s->data;
  bool is_good = s->nbytes >= SHMT_RING_BARE_DATA && s->ctx != NULL && !shmt__storage_has(s, SHMT_STORAGE_READ_ONLY);
  const uint32_t data_begin = is_good ? *(const volatile uint32_t*)&header->data_begin : 0;
  const shmt__ring_area area = shmt__ring_area_of(header, data_begin, s->nbytes);
  is_good = is_good && area.capacity != 0 && header->magic == SHMT_RING_MAGIC &&
            header->version == SHMT_RING_VERSION && header->capacity == area.capacity;
  SHMT_REQUIRE(is_good, SHMT_E_HANDLE, "a storage of %" PRIu64 " bytes is not a queue", s->nbytes);
  describe(s, area, data_begin, out);
  return SHMT_OK;
}

shmt_status shmt__ring_over(shmt_storage* s, shmt__ring** out) {
  shmt__ring view;
  shmt_status status = shmt__ring_view(s, &view);
  if (status == SHMT_OK) return make_ring(s, &view, out);
  shmt__storage_release(s);
  return status;
}

shmt_status shmt__ring_export(shmt__ring* r, shmt__handle* out) {
  return shmt__storage_export(r->storage, true, out, NULL);
}

void shmt__ring_close(shmt__ring* r) {
  if (r == NULL) return;
  shmt__ring_readiness_close(r);
  shmt__ring_close(r->unacked);
  shmt__storage_release(r->storage);
  shmt__mutex_destroy(&r->watch_lock);
  free(r);
}

void shmt__ring_end(shmt__ring* r, unsigned ends) {
  unsigned client = shmt__ring_client(r);
  if (r->is_bare) shmt__ring_event_signal(&r->header->data_event, true); /* other threads may wait here */
  if (client == 0 || r->is_bare) return;
  atomic_fetch_or_explicit(&r->header->ends[client], (unsigned char)ends, memory_order_seq_cst);
  if (ends & SHMT_RING_NO_PUT) shmt__ring_event_signal(&r->header->data_event, true);
  if (ends & SHMT_RING_NO_GET) shmt__ring_event_signal(&r->header->room_event, true);
}
