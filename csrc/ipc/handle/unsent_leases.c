/* ipc/handle/unsent_leases.c -- ends the leases of handles that will not be sent. */
#include "ipc/handle/unsent_leases.h"

#include "ipc/session/session.h"

#include <stdlib.h>

void shmt__handle_end_lease_locked(const shmt__handle* h) {
  shmt__session* s = h->lease_id == 0 ? NULL : shmt__session_lookup(h->session, h->incarnation);
  const shmt__lease_ticket ticket = {h->lease_id, h->lease_slot};
  /* Nobody may hold the block any more. Who opens a message holds its block, and so needs no such note. */
  if (s != NULL && shmt__lease_end(&s->map, &ticket, s->client)) shmt__map_note_activity(&s->map);
}

static void end_lease(const shmt__handle* h) {
  shmt__sessions_lock();
  shmt__handle_end_lease_locked(h);
  shmt__sessions_unlock();
}

static _Thread_local struct {
  shmt__handle* at;
  uint32_t n, capacity;
  uint32_t n_messages;    /* being pickled or sent, within each other */
  uint32_t sending_level; /* of the innermost that is being sent; 0: none */
} unsent;

shmt__unsent_mark shmt__unsent_begin(bool sends) {
  shmt__unsent_mark mark = {unsent.n, unsent.sending_level};
  unsent.n_messages++;
  if (sends) unsent.sending_level = unsent.n_messages;
  return mark;
}

void shmt__unsent_end(shmt__unsent_mark mark, shmt__unsent_outcome outcome) {
  if (unsent.n_messages == 0) return;
  bool is_sent_next =
      outcome == SHMT_UNSENT_COMPLETE && unsent.n_messages == mark.sending_level + 1 && mark.sending_level > 0;
  for (uint32_t i = mark.n; outcome == SHMT_UNSENT_GIVEN_UP && i < unsent.n; i++) end_lease(&unsent.at[i]);
  if (mark.n < unsent.n && !is_sent_next) unsent.n = mark.n;
  unsent.sending_level = mark.sending_level;
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
