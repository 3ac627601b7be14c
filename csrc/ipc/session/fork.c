/* ipc/session/fork.c -- the fork handlers, which make the child a member of the parent's sessions.
 *
 * Note [Fork]
 * Before the fork the parent gets a client number and a connection for the child from the manager, over its own
 * connection, and sets that number's hold on every block that it holds itself. This needs nothing but that connection:
 * it works after setuid() and in another network namespace. After the fork both have the child's connection, and the
 * parent closes its copy at once.
 * So at no instant does the child use a block without a hold. When either of them is killed, or the fork fails, the
 * kernel closes the connection and the manager frees what the child's number had. A process that has joined no session
 * pays nothing.
 *
 * Note [Without a number]
 * When all numbers are taken, or the parent cannot open one more descriptor (EMFILE; after setuid() the control file
 * belongs to another user), leases keep what the child inherits (SHMT_CHANNEL_LOCK). They live as long as a byte, the
 * token, is locked: by a description of the child's own, or else by the parent's, which the child inherits; then they
 * end with the last of the two processes. A child that has the parent's description tries at once to get
 * one of its own. Its own children share what it has. Such a process joins when it first shares or receives something.
 * When not even a lease can be had, the blocks stay for good (plain leases). So whatever fails, a child never sees
 * another tensor's bytes.
 */
#include "api/error.h"
#include "ipc/session/join.h"
#include "ipc/session/request.h"
#include "ipc/session/session.h"
#include "os/clock.h"
#include "os/failpoint.h"
#include "os/lock.h"
#include "os/memfd.h"
#include "os/mutex.h"
#include "os/process.h"
#include "shm/block.h"
#include "shm/client.h"

enum { FORK_MS = 2000 };

/* Send the request for the child's number on our own connection. */
static bool send_request(shmt__session* s, uint64_t deadline_ms) {
  const shmt__packet request = {.magic = SHMT_WIRE_MAGIC,
                                .version = SHMT_WIRE_VERSION,
                                .type = SHMT_MESSAGE_FORK,
                                .serial = s->child_serial = ++s->serial,
                                .client = s->client,
                                .session = s->id,
                                .incarnation = s->incarnation};
  return shmt__descriptor_number(&s->socket) >= 0 && shmt__request_send(s, &request, deadline_ms) == SHMT_OK;
}

/* Request a number and a connection for the child. */
static void request_child(shmt__session* s, uint64_t deadline_ms) {
  if (s->client == 0 || s->is_lost || shmt__request_is_waiting()) return;
  s->child_is_requested = send_request(s, deadline_ms);
  if (s->child_is_requested || shmt__os_now_ms() >= deadline_ms) return;
  /* The manager was killed: any request brings up another. */
  const shmt__packet status = {.magic = SHMT_WIRE_MAGIC,
                               .version = SHMT_WIRE_VERSION,
                               .type = SHMT_MESSAGE_STATUS,
                               .client = s->client,
                               .session = s->id,
                               .incarnation = s->incarnation};
  shmt__packet reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  if (shmt__session_call(s, &status, NULL, 0, &reply, fds, &n_fds) == SHMT_OK)
    s->child_is_requested = send_request(s, deadline_ms);
}

/* Receive the child's number. False: the manager is stopped, or there is no number, or no descriptor. */
static bool get_for_child(shmt__session* s, uint64_t deadline_ms) {
  shmt__packet reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  if (!s->child_is_requested ||
      shmt__request_receive(s, s->child_serial, &reply, fds, &n_fds, deadline_ms) != SHMT_OK)
    return false;
  const bool is_good = n_fds > 0 && shmt__client_is_number(reply.client);
  for (int i = is_good ? 2 : 0; i < n_fds; i++) shmt__os_close(fds[i]);
  if (!is_good) return false;
  SHMT_FAILPOINT(fork_reserved);
  s->child_control = shmt__descriptor_own(fds[0]);
  /* When there was no descriptor left for the connection, the child connects when it needs the manager. */
  if (n_fds > 1) s->child_socket = shmt__descriptor_own(fds[1]);
  s->child_client = reply.client;
  return true;
}

static void keep_for_child(shmt__held_block* h, void* arg) {
  shmt__session* s = arg;
  shmt__lease_ticket ticket;
  if (h->generation == 0) return;
  const uint64_t channel = shmt__channel(SHMT_CHANNEL_LOCK, s->child_token);
  if (s->child_token != 0 && shmt__lease_take(&s->map, &s->control, &s->leases, s->client, h->block, h->generation,
                                              channel, &ticket) == SHMT_OK)
    return;
  /* In doubt the block stays for good: better than another tensor's bytes. */
  shmt_error_clear();
  shmt__block_add_plain_lease(&s->map.blocks[h->block], h->generation);
}

/* There is no number for the child, or no descriptor: Note [Without a number]. */
static void keep_without_number(shmt__session* s) {
  if (s->client == 0) {
    /* What keeps our blocks keeps the child's, too, as long as either of us lives. */
    s->token = 0;
    shmt__descriptor_close(&s->child_control);
    return;
  }
  int fd = shmt__descriptor_number(&s->child_control);
  if (fd < 0) fd = shmt__descriptor_number(&s->control);
  if (!shmt__token_claim(fd, &s->child_token)) s->child_token = 0;
  shmt__session_each_held_block(s, keep_for_child, s);
}

/* Take a number without the manager: Note [Claims] in shm/control_file.h. */
static void claim_for_child(shmt__session* s) {
  int control = shmt__descriptor_number(&s->control);
  s->child_control = shmt__descriptor_own(control < 0 ? -1 : shmt__os_reopen(control));
  int claimed = shmt__descriptor_number(&s->child_control);
  if (claimed < 0 || !shmt__client_claim(&s->map, claimed, shmt__os_pid(), &s->child_client)) {
    keep_without_number(s);
    return;
  }
  SHMT_FAILPOINT(fork_claimed);
}

/* Send the requests to all managers before waiting for the first reply, so that several stopped managers hold us up no
 * longer than one. */
static void before_fork(void) {
  if (shmt__sessions_count() == 0) return;
  shmt__request_keep_lock(true);
  const uint64_t deadline_ms = shmt__os_now_ms() + FORK_MS;
  shmt__request_set_limit(deadline_ms); /* also for the start of another manager */
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    s->child_socket = s->child_control = SHMT_NO_DESCRIPTOR;
    s->child_is_requested = false;
    s->child_client = 0;
    s->child_token = 0;
    request_child(s, deadline_ms);
  }
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    if (!get_for_child(s, deadline_ms)) claim_for_child(s);
    if (s->child_client == 0) continue;
    shmt__session_hold_for(s, s->child_client);
    SHMT_FAILPOINT(fork_held);
  }
  shmt__request_set_limit(UINT64_MAX);
}

static void in_parent(void) {
  if (shmt__sessions_count() == 0) return;
  SHMT_FAILPOINT(fork_parent);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    shmt__descriptor_close(&s->child_socket);
    shmt__descriptor_close(&s->child_control);
  }
  shmt__request_keep_lock(false);
}

/* Report that the child has started: to the manager, or in the table of clients when there is no connection. */
static void arrive(shmt__session* s) {
  SHMT_FAILPOINT(fork_adopting);
  if (!shmt__descriptor_is_kept(&s->socket)) {
    shmt__client_mark_alive(&s->map, s->client, shmt__os_pid());
    return;
  }
  shmt__packet adopt = {.magic = SHMT_WIRE_MAGIC,
                        .version = SHMT_WIRE_VERSION,
                        .type = SHMT_MESSAGE_CHILD_STARTED,
                        .client = s->client,
                        .session = s->id};
  (void)shmt__session_send(s, &adopt, NULL, 0);
}

/* Our parent had no descriptor for a number of ours, so we keep its descriptor. Now that we have closed others, try
 * again. */
static void claim_own(shmt__session* s) {
  uint32_t id = 0;
  uint64_t token = 0;
  int shared = shmt__descriptor_number(&s->control), fd = shared < 0 ? -1 : shmt__os_reopen(shared);
  if (fd < 0) return;
  if (shmt__client_claim(&s->map, fd, shmt__os_pid(), &id)) {
    s->client = s->arena.client = id;
    shmt__session_hold_again(s, fd);
  } else if (s->token != 0 && shmt__token_claim(fd, &token)) {
    shmt__leases_move(&s->map, shmt__channel(SHMT_CHANNEL_LOCK, s->token), shmt__channel(SHMT_CHANNEL_LOCK, token));
    shmt__token_release(shared, s->token);
    shmt__descriptor_replace(&s->control, shmt__descriptor_own(fd));
    s->token = token;
  } else {
    shmt__os_close(fd);
  }
}

static void in_child(void) {
  shmt__sessions_in_child();
  shmt__request_reset();
  if (shmt__sessions_count() == 0) return;
  shmt__request_keep_lock(false);
  SHMT_FAILPOINT(fork_child);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    shmt__session_pins_in_child(s);
    /* The parent's connection must end with the parent. */
    shmt__descriptor_replace(&s->socket, s->child_socket);
    s->client = s->arena.client = s->child_client;
    atomic_fetch_add_explicit(&s->membership, 1, memory_order_relaxed);
    bool is_shared = !shmt__descriptor_is_kept(&s->child_control);
    /* So must its number: Note [Client locks]. */
    if (!is_shared) shmt__descriptor_replace(&s->control, s->child_control);
    s->lock_pin = NULL; /* the parent's; it is not mapped here */
    s->token = s->child_token;
    s->child_socket = s->child_control = SHMT_NO_DESCRIPTOR;
    s->leases = (shmt__lease_cursor){0};
    shmt__arena_reset(&s->arena); /* the slabs belong to the parent */
    if (s->files != NULL) s->files->in_child(s);
    if (is_shared) claim_own(s);
    if (s->lock_pin == NULL) s->lock_pin = shmt__os_pin_locks(shmt__descriptor_number(&s->control));
    if (s->client != 0) arrive(s);
  }
}

SHMT_FORK_HOOKS(SHMT_MUTEX_SESSIONS, before_fork, in_parent, in_child)
