/* ipc/session/fork.c -- the fork handlers, which make the child a member of the parent's sessions. */
#include "ipc/session/fork.h"

#include "api/error.h"
#include "ipc/session/move_locks.h"
#include "ipc/session/request.h"
#include "ipc/session/session.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "shm/block.h"
#include "shm/client.h"
#include "storage/fork.h"

enum { FORK_MS = 2000 };

static void hold_for_child(shmt__held_block* h, void* arg) {
  shmt__session* s = arg;
  (void)shmt__block_hold(&s->map, h->block, s->child_client, h->generation);
}

/* Open the connection that becomes the child's; negative on failure. `request` is the one that will be sent over it. */
static int connect_child(shmt__session* s, shmt__packet* request) {
  int socket = shmt__session_connect(&s->key);
  if (socket >= 0 || socket == -SHMT_OS_AGAIN) return socket;
  /* The manager was killed: any request brings up another. */
  shmt__packet status = *request, reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  status.type = SHMT_MESSAGE_STATUS;
  if (shmt__session_call(s, &status, NULL, 0, &reply, fds, &n_fds) == SHMT_OK)
    socket = shmt__session_connect(&s->key);
  request->client = s->client;
  return socket;
}

/* Request a number for the child. The manager will answer on child_socket. */
static void request_child(shmt__session* s, uint64_t deadline_ms) {
  shmt__packet request = {.magic = SHMT_WIRE_MAGIC,
                          .version = SHMT_WIRE_VERSION,
                          .type = SHMT_MESSAGE_FORK,
                          .client = s->client,
                          .session = s->id,
                          .world = s->world};
  if (s->client == 0 || s->is_lost || shmt__request_is_waiting()) return;
  int socket = connect_child(s, &request);
  if (socket < 0) return;
  request.serial = s->child_serial = ++s->serial;
  if (shmt__request_send(socket, &request, &s->control_fd, 1, deadline_ms) == SHMT_OK)
    s->child_socket = socket;
  else
    shmt__os_close(socket);
}

/* Receive the child's number. False: the manager is stopped, or there is none. */
static bool get_for_child(shmt__session* s, uint64_t deadline_ms) {
  shmt__packet reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  if (s->child_socket < 0) return false;
  shmt_status status = shmt__request_receive(s->child_socket, s->child_serial, &reply, fds, &n_fds,
                                         deadline_ms);
  if (status != SHMT_OK || n_fds != 1) {
    for (int i = 0; status == SHMT_OK && i < n_fds; i++) shmt__os_close(fds[i]);
    shmt__os_close(s->child_socket);
    s->child_socket = -1;
    return false;
  }
  SHMT_FAILPOINT(fork_reserved);
  s->child_control_fd = fds[0];
  s->child_client = reply.client;
  return true;
}

typedef struct keeping {
  shmt__session* session;
  uint64_t channel;
} keeping;

static void keep_for_child(shmt__held_block* h, void* arg) {
  const keeping* k = arg;
  shmt__session* s = k->session;
  shmt__lease_ticket ticket;
  if (h->generation == 0) return;
  if (shmt__lease_take(&s->map, s->control_fd, &s->leases, s->client, h->block, h->generation,
                       k->channel, &ticket) != SHMT_OK)
    shmt_error_clear();
}

/* All numbers are taken. Leases keep what the child inherits; they live as long as a lock of the child's own. The child
 * joins when it first shares something. */
static void keep_without_number(shmt__session* s) {
  uint64_t token = 0;
  if (s->client == 0 || !shmt__token_claim(s->child_control_fd, &token)) return;
  keeping k = {s, shmt__channel(SHMT_CHANNEL_LOCK, token)};
  shmt__session_each_held_block(s, keep_for_child, &k);
}

/* Take a number without the manager: Note [Claims] in shm/control_file.h. When there is no descriptor for it, the child
 * keeps its parent's, so that the parent's number and its holds stay until both have ended. */
static void claim_for_child(shmt__session* s) {
  s->child_client = 0;
  s->child_control_fd = shmt__os_reopen(s->control_fd);
  if (s->child_control_fd < 0) return;
  if (!shmt__client_claim(&s->map, s->child_control_fd, shmt__os_pid(), &s->child_client)) {
    keep_without_number(s);
    return;
  }
  SHMT_FAILPOINT(fork_claimed);
}

/* Send the requests to all managers before waiting for the first reply, so that several stopped managers hold us up no
 * longer than one. */
static void before_fork(void) {
  shmt__move_lock_all();
  shmt__sessions_lock();
  shmt__request_keep_lock(true);
  uint64_t deadline_ms = shmt__os_now_ms() + FORK_MS;
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    s->child_socket = s->child_control_fd = -1;
    request_child(s, deadline_ms);
  }
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    if (!get_for_child(s, deadline_ms)) claim_for_child(s);
    if (s->child_client == 0) continue;
    shmt__session_each_held_block(s, hold_for_child, s);
    SHMT_FAILPOINT(fork_held);
  }
}

static void in_parent(void) {
  SHMT_FAILPOINT(fork_parent);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    shmt__os_close(s->child_socket);
    shmt__os_close(s->child_control_fd);
    s->child_socket = s->child_control_fd = -1;
  }
  shmt__request_keep_lock(false);
  shmt__sessions_unlock();
  shmt__move_unlock_all();
}

/* The slabs belong to the parent. */
static void disown(shmt__held_block* h, void* arg) {
  (void)arg;
  h->is_owned = false;
}

/* Report that the child has started: to the manager, or in the table of clients when there is no connection. */
static void arrive(shmt__session* s) {
  SHMT_FAILPOINT(fork_adopting);
  if (s->socket < 0) {
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

static void in_child(void) {
  shmt__sessions_in_child();
  shmt__request_reset();
  shmt__request_keep_lock(false);
  SHMT_FAILPOINT(fork_child);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    atomic_store_explicit(&s->n_users, 0, memory_order_relaxed); /* they were threads of the parent */
    /* The parent's connection must end with the parent. */
    shmt__os_close(s->socket);
    s->socket = s->child_socket;
    s->client = s->arena.client = s->child_client;
    if (s->child_control_fd >= 0) {
      /* So must its number: Note [Client locks]. */
      shmt__os_close(s->control_fd);
      s->control_fd = s->child_control_fd;
    }
    s->child_socket = s->child_control_fd = -1;
    s->leases = (shmt__lease_cursor){0};
    shmt__arena_reset(&s->arena);
    shmt__session_each_held_block(s, disown, NULL);
    if (s->files != NULL) s->files->in_child(s);
    if (s->client != 0) arrive(s);
  }
  shmt__sessions_unlock(); /* the thread that forked holds it, and is the one that goes on here */
  shmt__move_unlock_all();
}

shmt_status shmt__fork_init(void) {
  static bool done; /* under the sessions' lock */
  if (done) return SHMT_OK;
  shmt__storage_blocks_set_up(); /* first, since storages are made under the sessions' lock */
  SHMT_TRY(shmt__os_at_fork(before_fork, in_parent, in_child));
  done = true;
  return SHMT_OK;
}
