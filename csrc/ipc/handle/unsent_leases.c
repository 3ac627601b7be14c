/* ipc/handle/unsent_leases.c -- ends the leases of handles that will not be sent. */
#include "ipc/handle/unsent_leases.h"

#include "ipc/session/session.h"

#include <stdlib.h>

void shmt__handle_end_lease_locked(const shmt__handle* h) {
  shmt__session* s = h->lease_id == 0 ? NULL : shmt__session_lookup(h->session, h->world);
  const shmt__lease_ticket ticket = {h->lease_id, h->lease_slot};
  if (s != NULL) (void)shmt__lease_end(&s->map, &ticket, s->client);
}

static void end_lease(const shmt__handle* h) {
  shmt__sessions_lock();
  shmt__handle_end_lease_locked(h);
  shmt__sessions_unlock();
}

static _Thread_local struct {
  shmt__handle* at;
  uint32_t n, capacity;
  uint32_t n_messages; /* being pickled */
} unsent;

uint32_t shmt__unsent_begin(void) {
  unsent.n_messages++;
  return unsent.n;
}

void shmt__unsent_end(uint32_t mark, shmt__unsent_outcome outcome) {
  if (unsent.n_messages == 0) return;
  for (uint32_t i = mark; outcome == SHMT_UNSENT_GIVEN_UP && i < unsent.n; i++) end_lease(&unsent.at[i]);
  bool is_part = outcome == SHMT_UNSENT_COMPLETE && unsent.n_messages > 1;
  if (mark < unsent.n && !is_part) unsent.n = mark;
  if (--unsent.n_messages > 0) return;
  free(unsent.at);
  unsent.at = NULL;
  unsent.n = unsent.capacity = 0;
}

void shmt__unsent_note(const shmt__handle* h) {
  if (unsent.n_messages == 0 || h->lease_id == 0) return;
  if (unsent.n == unsent.capacity) {
    uint32_t capacity = unsent.capacity == 0 ? 8 : 2 * unsent.capacity;
    shmt__handle* at = realloc(unsent.at, capacity * sizeof *at);
    if (at == NULL) return;
    unsent.at = at;
    unsent.capacity = capacity;
  }
  unsent.at[unsent.n++] = *h;
}
