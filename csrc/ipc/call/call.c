/* ipc/call/call.c -- calls with an answer. See the Note in ipc/call/call_layout.h. */
#include "ipc/call/call.h"

#include "api/error.h"
#include "ipc/handle/share.h"
#include "ipc/ring/wait.h"
#include "ipc/session/session.h"
#include "os/clock.h"
#include "os/failpoint.h"
#include "shm/block.h"
#include "shm/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_STORAGES = 32 };

/* --- the client --- */

/* Bytes of messages of a line for so many replies, and for one of any kind. */
static uint32_t line_capacity(uint32_t n_calls) {
  enum { FEW_BLOCKS = 8 };
  const uint64_t each = shmt__ring_message_bytes(FEW_BLOCKS, SHMT_CALL_INLINE);
  return (uint32_t)(shmt__ring_message_bytes(SHMT_RING_MAX_BLOCKS, SHMT_CALL_INLINE) + n_calls * each);
}

shmt_status shmt__call_make_line(const shmt__ring* server, uint32_t n_calls, shmt__ring** out) {
  SHMT_ASSERT(n_calls > 0 && n_calls <= SHMT_CALL_WORDS);
  SHMT_TRY(shmt__ring_create_in(server->session, SHMT_RING_LINE_DATA, line_capacity(n_calls), 0, out));
  (*out)->inline_bytes = SHMT_CALL_INLINE;
  return SHMT_OK;
}

/* Is the number before another of the same word? Of two calls so far apart that numbers came round between them, one
 * has ended. */
static bool is_before(uint32_t serial, uint32_t other) {
  return (serial - other) % SHMT_CALL_SERIALS > SHMT_CALL_SERIALS / 2;
}

/* Write that a call is on its way. False: the word is a later call's, so this one has been given up. */
static bool claim_word(atomic_uint_least64_t* word, uint32_t serial) {
  uint64_t now = atomic_load_explicit(word, memory_order_relaxed);
  do {
    const shmt__call_state state = shmt__call_state_of(now);
    const bool is_free = state == SHMT_CALL_NONE || state == SHMT_CALL_GIVEN_UP;
    if (!is_free && is_before(serial, shmt__call_serial(now))) return false;
    /* relaxed: the message is published after it. */
  } while (!atomic_compare_exchange_weak_explicit(word, &now, shmt__call_word(serial, 0, SHMT_CALL_QUEUED),
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

/* The request was not put. */
static void clear_word(atomic_uint_least64_t* word, uint32_t serial) {
  uint64_t now = shmt__call_word(serial, 0, SHMT_CALL_QUEUED);
  (void)atomic_compare_exchange_strong_explicit(word, &now, 0, memory_order_relaxed, memory_order_relaxed);
}

shmt__ring_result shmt__call_begin(shmt__ring* server, shmt__ring* line, uint32_t serial,
                                   const shmt__outgoing_message* request, uint64_t deadline_ns) {
  shmt_storage *few[FEW_STORAGES], **storages = few;
  const uint32_t n = request->n_storages + 1;
  if (n > SHMT_RING_MAX_BLOCKS) {
    (void)shmt__fail(SHMT_E_VALUE, "a request with %" PRIu32 " tensors, at most %d are possible", n,
                     SHMT_RING_MAX_BLOCKS - 2);
    return SHMT_RING_FAILED;
  }
  if (n > FEW_STORAGES && (storages = malloc(sizeof(shmt_storage*) * n)) == NULL) {
    (void)shmt__fail(SHMT_E_NOMEM, "call: tried to allocate %zu bytes", sizeof(shmt_storage*) * n);
    return SHMT_RING_FAILED;
  }
  if (n > 1) memcpy(storages, request->storages, sizeof(shmt_storage*) * (n - 1));
  storages[n - 1] = line->storage;
  shmt__outgoing_message m = *request;
  m.storages = storages;
  m.n_storages = n;
  m.flags |= SHMT_RING_CALL | shmt__call_flags(serial);
  atomic_uint_least64_t* word = shmt__call_word_at(line->header, serial);
  const uint32_t me = shmt__client_member(&line->session->map, shmt__ring_client(line));
  atomic_store_explicit(&line->header->caller, me, memory_order_relaxed);
  shmt__ring_result result = SHMT_RING_FULL;
  if (claim_word(word, serial)) {
    result = shmt__ring_put(server, &m, 0, deadline_ns);
    if (result != SHMT_RING_DONE) clear_word(word, serial);
  }
  if (storages != few) free(storages);
  return result;
}

/* Does a process still hold the line? Another one that got its number may hold the line too, and does not count. */
static bool has_line(const shmt__ring* line, uint32_t member) {
  const shmt__map* map = &line->session->map;
  return shmt__member_has_number(map, member) &&
         shmt__block_is_held_by(map, (uint32_t)(line->block - map->blocks), shmt__member_id(member));
}

bool shmt__call_is_lost(shmt__ring* line, uint32_t serial) {
  const uint64_t word = atomic_load_explicit(shmt__call_word_at(line->header, serial), memory_order_acquire);
  const uint32_t taker = shmt__call_taker(word);
  const shmt__call_state state = shmt__call_state_of(word);
  if (shmt__call_serial(word) != serial || (state != SHMT_CALL_TAKEN && state != SHMT_CALL_GIVEN_UP)) return false;
  if (state == SHMT_CALL_TAKEN && has_line(line, taker)) return false;
  /* What the taker has put, it put before it let go. */
  atomic_thread_fence(memory_order_acquire);
  return shmt__ring_n_messages(line) == 0;
}

/* Take a reply that is there. */
static shmt__ring_result take_reply(shmt__ring* line, shmt__received_message* out) {
  uint32_t n = 0;
  return shmt__ring_get(line, out, 1, &n, 0);
}

shmt__ring_result shmt__call_wait(shmt__ring* line, uint32_t serial, uint64_t deadline_ns,
                                  shmt__received_message* out) {
  uint64_t begun_ns = 0;
  for (;;) {
    shmt__ring_result result = take_reply(line, out);
    if (result != SHMT_RING_EMPTY) return result;
    if (serial != 0 && shmt__call_is_lost(line, serial)) return SHMT_RING_ALONE;
    if (deadline_ns == 0) return SHMT_RING_EMPTY;
    if (shmt__ring_spin(line) && (result = take_reply(line, out)) != SHMT_RING_EMPTY) return result;
    const uint32_t armed = shmt__ring_event_arm(&line->header->data_event);
    if ((result = take_reply(line, out)) != SHMT_RING_EMPTY) return result;
    /* The manager signals the event when it has seen a process die, and so does who gives the call up. */
    if (serial != 0 && shmt__call_is_lost(line, serial)) return SHMT_RING_ALONE;
    shmt__os_wait w = shmt__os_futex_wait(&line->header->data_event, armed, shmt__ring_slice(deadline_ns));
    result = shmt__ring_woken(line, w, &begun_ns, deadline_ns);
    if (result == SHMT_RING_INTERRUPTED) return result;
    if (result == SHMT_RING_EMPTY) deadline_ns = 0; /* one more look */
  }
}

void shmt__call_give_up(shmt__ring* line, uint32_t serial) {
  atomic_uint_least64_t* word = shmt__call_word_at(line->header, serial);
  uint64_t now = atomic_load_explicit(word, memory_order_relaxed);
  while (shmt__call_serial(now) == serial && shmt__call_state_of(now) != SHMT_CALL_NONE) {
    const uint64_t next = shmt__call_word(serial, shmt__call_taker(now), SHMT_CALL_GIVEN_UP);
    if (atomic_compare_exchange_weak_explicit(word, &now, next, memory_order_seq_cst, memory_order_relaxed)) return;
  }
}

/* --- the server --- */

/* Look at the line that is the last storage of a request. False: that is no line. */
static bool view_line(shmt_storage* s, shmt__ring* out) {
  if (shmt__ring_view(s, out) != SHMT_OK || !out->is_line) {
    shmt_error_clear();
    return false;
  }
  out->inline_bytes = SHMT_CALL_INLINE;
  return true;
}

/* Does the process that made the call still have the line? */
static bool caller_lives(const shmt__ring* line) {
  return has_line(line, atomic_load_explicit(&line->header->caller, memory_order_relaxed));
}

/* Mark a request as ours before it leaves the ring. False: nobody waits for it, or it is none. */
static bool mark_taken(shmt__ring* r, const shmt__received_message* m) {
  shmt__ring line;
  if (!(m->flags & SHMT_RING_CALL) || m->n_storages == 0) return false;
  if (!view_line(m->storages[m->n_storages - 1], &line) || !caller_lives(&line)) return false;
  const uint32_t serial = shmt__call_serial_of(m->flags);
  const uint32_t me = shmt__client_member(&r->session->map, shmt__ring_client(r));
  uint64_t queued = shmt__call_word(serial, 0, SHMT_CALL_QUEUED);
  const bool is_ours = atomic_compare_exchange_strong_explicit(
      shmt__call_word_at(line.header, serial), &queued, shmt__call_word(serial, me, SHMT_CALL_TAKEN),
      memory_order_seq_cst, memory_order_relaxed);
  SHMT_FAILPOINT(call_marked_taken);
  return is_ours;
}

void shmt__call_serve(shmt__ring* r) { r->mark_taken = mark_taken; }

bool shmt__call_open(shmt__received_message* request, shmt__call* out) {
  if (!(request->flags & SHMT_RING_CALL) || request->n_storages == 0) return false;
  shmt_storage* s = request->storages[request->n_storages - 1];
  if (!view_line(s, &out->line)) return false;
  request->n_storages--; /* the reference is the call's */
  out->storage = s;
  out->serial = shmt__call_serial_of(request->flags);
  return true;
}

bool shmt__call_is_wanted(shmt__call* c) {
  const uint64_t word = atomic_load_explicit(shmt__call_word_at(c->line.header, c->serial), memory_order_seq_cst);
  return shmt__call_serial(word) == c->serial && shmt__call_state_of(word) == SHMT_CALL_TAKEN &&
         caller_lives(&c->line);
}

/* Put within a moment, whatever signals come. */
static shmt__ring_result put_patiently(shmt__ring* line, const shmt__outgoing_message* m) {
  enum { PATIENCE_MS = 100 };
  const uint64_t deadline_ns = shmt__os_now_ns() + PATIENCE_MS * UINT64_C(1000000);
  shmt__ring_result result;
  do {
    result = shmt__ring_put(line, m, 0, deadline_ns);
  } while (result == SHMT_RING_INTERRUPTED && shmt__os_now_ns() < deadline_ns);
  return result;
}

shmt__ring_result shmt__call_reply(shmt__call* c, const shmt__outgoing_message* reply, uint32_t flags,
                                   bool is_patient) {
  if (!shmt__call_is_wanted(c)) return SHMT_RING_ALONE;
  shmt__outgoing_message m = *reply;
  m.flags |= flags | shmt__call_flags(c->serial);
  const shmt__ring_result result = is_patient ? put_patiently(&c->line, &m) : shmt__ring_put(&c->line, &m, 0, 0);
  SHMT_FAILPOINT(call_replied);
  const bool is_late = result == SHMT_RING_BUSY || result == SHMT_RING_INTERRUPTED || result == SHMT_RING_FULL;
  return is_late ? SHMT_RING_NO_ROOM : result;
}

void shmt__call_close(shmt__call* c) {
  if (c->storage == NULL) return;
  /* This process may hold the line for another request: say of this one that nobody has it. In a forked child it is the
   * parent's, and stays. */
  const shmt__map* map = &c->line.session->map;
  const uint32_t client = atomic_load_explicit(&c->line.session->client, memory_order_relaxed);
  uint64_t ours = shmt__call_word(c->serial, shmt__client_member(map, client), SHMT_CALL_TAKEN);
  /* release: whoever sees it sees the reply. */
  (void)atomic_compare_exchange_strong_explicit(shmt__call_word_at(c->line.header, c->serial), &ours,
                                                shmt__call_word(c->serial, 0, SHMT_CALL_TAKEN), memory_order_release,
                                                memory_order_relaxed);
  shmt__storage_release(c->storage);
  c->storage = NULL;
}
