/* shm/lease.c -- taking and ending leases. See shm/lease.h. */
#include "shm/lease.h"

#include "os/clock.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"

static shmt__lease* record_at(const shmt__map* m, uint32_t slot) {
  uint32_t page = slot / SHMT_LEASES_OF_PAGE;
  if (page >= shmt__map_lease_pages_end(m)) return NULL;
  return &m->lease_pages[page].at[slot % SHMT_LEASES_OF_PAGE];
}

uint32_t shmt__lease_slot(const shmt__map* m, const shmt__lease* l) {
  uint64_t at = (uint64_t)((const char*)l - (const char*)m->lease_pages);
  uint64_t in_page = at % sizeof(shmt__lease_page) - offsetof(shmt__lease_page, at);
  return (uint32_t)(at / sizeof(shmt__lease_page) * SHMT_LEASES_OF_PAGE + in_page / sizeof *l);
}

/* --- pages --- */

static bool populate_page(const shmt__map* m, const shmt__descriptor* control, uint32_t page) {
  uint64_t at = (uint64_t)((char*)&m->lease_pages[page] - (char*)m->control);
  return shmt__os_populate(shmt__descriptor_number(control), m->control, at, sizeof(shmt__lease_page)) == SHMT_OK;
}

/* Get a page that nobody owns, or else one that was never used. */
static bool claim_page(const shmt__map* m, const shmt__descriptor* control, uint32_t client, uint32_t* out_page) {
  uint32_t end = shmt__map_lease_pages_end(m);
  for (uint32_t page = 0; page < end; page++) {
    uint32_t nobody = 0;
    /* acquire: what the last owner did there is seen. */
    if (atomic_load_explicit(&m->lease_pages[page].owner, memory_order_relaxed) == 0 &&
        atomic_compare_exchange_strong_explicit(&m->lease_pages[page].owner, &nobody, client,
                                                memory_order_acquire, memory_order_relaxed)) {
      *out_page = page;
      return true;
    }
  }
  while (end < m->n_lease_pages) {
    /* Populate it first: as soon as it counts as used, others look at it. */
    if (!populate_page(m, control, end)) return false;
    if (atomic_compare_exchange_strong_explicit(&m->control->lease_pages_end, &end, end + 1,
                                                memory_order_seq_cst, memory_order_seq_cst)) {
      uint32_t nobody = 0;
      if (atomic_compare_exchange_strong_explicit(&m->lease_pages[end].owner, &nobody, client,
                                                  memory_order_acquire, memory_order_relaxed)) {
        *out_page = end;
        return true;
      }
      end++; /* another client claimed it first */
    }
  }
  return false;
}

static bool owns(const shmt__map* m, uint32_t page, uint32_t client) {
  return atomic_load_explicit(&m->lease_pages[page].owner, memory_order_relaxed) == client;
}

/* A free record of the cursor's page, from the cursor on. */
static shmt__lease* find_in_page(const shmt__map* m, shmt__lease_cursor* c) {
  for (uint32_t i = 0; i < SHMT_LEASES_OF_PAGE; i++) {
    uint32_t index = (c->index + i) % SHMT_LEASES_OF_PAGE;
    shmt__lease* l = &m->lease_pages[c->page].at[index];
    /* acquire: whoever ended the lease is done with the record. */
    if (atomic_load_explicit(&l->id, memory_order_acquire) != 0) continue;
    c->index = index;
    return l;
  }
  return NULL;
}

/* The page is full: search our other pages, or else get another page. */
static shmt__lease* find_elsewhere(const shmt__map* m, const shmt__descriptor* control, shmt__lease_cursor* c,
                                   uint32_t client) {
  uint32_t end = shmt__map_lease_pages_end(m);
  for (uint32_t page = 0; page < end; page++) {
    if (!owns(m, page, client)) continue;
    c->page = page;
    shmt__lease* l = find_in_page(m, c);
    if (l != NULL) return l;
  }
  while (claim_page(m, control, client, &c->page)) {
    shmt__lease* l = find_in_page(m, c);
    if (l != NULL) return l; /* the page of a dead client may be full of its leases */
  }
  return NULL;
}

/* --- taking --- */

shmt_status shmt__lease_take(const shmt__map* m, const shmt__descriptor* control, shmt__lease_cursor* cursor,
                             uint32_t client, uint32_t block, uint64_t generation,
                             uint64_t channel, shmt__lease_ticket* out) {
  shmt__client_entry* entry = &m->clients[client];
  shmt__lease* l = cursor->has_page && owns(m, cursor->page, client) ? find_in_page(m, cursor) : NULL;
  if (SHMT_UNLIKELY(l == NULL)) l = find_elsewhere(m, control, cursor, client);
  SHMT_REQUIRE(l != NULL, SHMT_E_NOMEM,
               "no room for one more tensor in an unopened message: all %u of the session are in "
               "use, or memory is",
               m->n_lease_pages * SHMT_LEASES_OF_PAGE);
  cursor->has_page = true;
  if (cursor->last_id == 0) cursor->last_id = shmt__os_random();
  cursor->last_id += 2;
  out->id = cursor->last_id | 1; /* never 0 */
  out->slot = cursor->page * SHMT_LEASES_OF_PAGE + cursor->index;
  atomic_store_explicit(&l->generation, generation, memory_order_relaxed);
  atomic_store_explicit(&l->block, block, memory_order_relaxed);
  const uint32_t now_ms = (uint32_t)shmt__os_wall_ms();
  atomic_store_explicit(&l->stamp_ms, now_ms, memory_order_relaxed);
  atomic_store_explicit(&l->channel, channel, memory_order_relaxed);
  /* seq_cst: the manager's audit sees `touching` before it sees the count. */
  atomic_store_explicit(&entry->touching, block + 1, memory_order_seq_cst);
  shmt__block_add_lease(&m->blocks[block], generation, now_ms);
  /* seq_cst: whoever sees `touching` gone sees the record. */
  atomic_store_explicit(&l->id, out->id, memory_order_seq_cst);
  atomic_store_explicit(&entry->touching, 0, memory_order_release);
  cursor->index = (cursor->index + 1) % SHMT_LEASES_OF_PAGE;
  return SHMT_OK;
}

/* The record of a lease of the client's own; NULL: it has ended. Only the client takes leases in its pages, under its
 * caller's lock. So the record stays this message's, or becomes unused. */
static shmt__lease* own_record(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client) {
  shmt__lease* l = record_at(m, t->slot);
  bool is_own = l != NULL && owns(m, t->slot / SHMT_LEASES_OF_PAGE, client) &&
                atomic_load_explicit(&l->id, memory_order_acquire) == t->id;
  return is_own ? l : NULL;
}

bool shmt__lease_bind(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client,
                      uint64_t channel) {
  shmt__lease* l = own_record(m, t, client);
  if (l == NULL) return false;
  uint64_t before = atomic_load_explicit(&l->channel, memory_order_relaxed) & ~SHMT_CHANNEL_FLAGS;
  bool is_first = before == 0 || before == (channel & ~SHMT_CHANNEL_FLAGS);
  /* release: the manager sees what we sent before, too. */
  atomic_store_explicit(&l->channel, is_first ? channel : SHMT_CHANNEL_OPEN, memory_order_release);
  return true;
}

void shmt__lease_confirm(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client) {
  shmt__lease* l = own_record(m, t, client);
  if (l != NULL) atomic_fetch_and_explicit(&l->channel, ~SHMT_CHANNEL_FLAGS, memory_order_relaxed);
}

/* --- ending --- */

static bool end_record(const shmt__map* m, shmt__lease* l, uint64_t id, uint32_t client) {
  uint32_t block = atomic_load_explicit(&l->block, memory_order_relaxed);
  if (block >= m->fixed.n_blocks) return false;
  if (client != 0)
    atomic_store_explicit(&m->clients[client].touching, block + 1, memory_order_seq_cst);
  bool ended = atomic_compare_exchange_strong_explicit(&l->id, &id, 0, memory_order_seq_cst,
                                                       memory_order_relaxed);
  SHMT_FAILPOINT(lease_taken_up);
  if (ended) shmt__block_drop_lease(&m->blocks[block]);
  if (client != 0) atomic_store_explicit(&m->clients[client].touching, 0, memory_order_release);
  return ended;
}

bool shmt__lease_end(const shmt__map* m, const shmt__lease_ticket* t, uint32_t client) {
  shmt__lease* l = record_at(m, t->slot);
  if (l == NULL || t->id == 0) return false;
  /* Check the id first: the record may be another lease's by now. */
  if (atomic_load_explicit(&l->id, memory_order_acquire) != t->id) return false;
  return end_record(m, l, t->id, client);
}

void shmt__leases_move(const shmt__map* m, uint64_t from, uint64_t to) {
  uint32_t end = shmt__map_lease_pages_end(m);
  for (uint32_t slot = 0; slot < end * SHMT_LEASES_OF_PAGE; slot++) {
    shmt__lease* l = record_at(m, slot);
    uint64_t channel = from;
    if (l == NULL || atomic_load_explicit(&l->id, memory_order_acquire) == 0) continue;
    (void)atomic_compare_exchange_strong_explicit(&l->channel, &channel, to, memory_order_seq_cst,
                                                  memory_order_relaxed);
  }
}

void shmt__leases_end_channel(const shmt__map* m, uint64_t channel, uint32_t client) {
  uint32_t end = shmt__map_lease_pages_end(m);
  bool any = false;
  for (uint32_t slot = 0; slot < end * SHMT_LEASES_OF_PAGE; slot++) {
    shmt__lease* l = record_at(m, slot);
    uint64_t id = l == NULL ? 0 : atomic_load_explicit(&l->id, memory_order_acquire);
    if (id != 0 && atomic_load_explicit(&l->channel, memory_order_relaxed) == channel)
      any = end_record(m, l, id, client) || any;
  }
  if (any) shmt__map_note_activity(m);
}

uint64_t shmt__leases_end_if(const shmt__map* m, bool (*ends)(const shmt__lease* l, void* arg),
                             void* arg) {
  uint32_t end = shmt__map_lease_pages_end(m);
  uint64_t n = 0;
  for (uint32_t slot = 0; slot < end * SHMT_LEASES_OF_PAGE; slot++) {
    shmt__lease* l = record_at(m, slot);
    uint64_t id = l == NULL ? 0 : atomic_load_explicit(&l->id, memory_order_acquire);
    if (id != 0 && ends(l, arg)) n += end_record(m, l, id, 0);
  }
  if (n > 0) shmt__map_note_activity(m);
  return n;
}

void shmt__leases_client_died(const shmt__map* m, uint32_t client) {
  uint32_t end = shmt__map_lease_pages_end(m);
  for (uint32_t page = 0; page < end; page++) {
    if (!owns(m, page, client)) continue;
    for (uint32_t i = 0; i < SHMT_LEASES_OF_PAGE; i++) {
      shmt__lease* l = &m->lease_pages[page].at[i];
      if ((atomic_load_explicit(&l->channel, memory_order_relaxed) & SHMT_CHANNEL_SENDING) != 0)
        atomic_fetch_or_explicit(&l->channel, SHMT_CHANNEL_UNSENT, memory_order_relaxed);
    }
    /* release: its records are as it left them. */
    atomic_store_explicit(&m->lease_pages[page].owner, 0, memory_order_release);
  }
}
