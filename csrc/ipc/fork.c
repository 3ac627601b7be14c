/* ipc/fork.c -- the handlers around fork(). */
#include "ipc/fork.h"

#include "ipc/session.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "shm/block.h"

enum { FORK_MS = 2000 };

static void hold_for_child(shmt__holding* h, void* arg) {
  shmt__session* s = arg;
  (void)shmt__block_hold(&s->map.blocks[h->block], s->child_client, h->generation);
}

/* A place for the child. Without one (the manager is stopped, or cannot be had) the child joins
 * anew when it first needs to. */
static void reserve_child(shmt__session* s) {
  shmt__packet request = {.magic = SHMT_WIRE_MAGIC,
                          .version = SHMT_WIRE_VERSION,
                          .type = SHMT_MESSAGE_FORK,
                          .serial = ++s->serial,
                          .client = s->client,
                          .session = s->id,
                          .nonce = s->nonce,
                          .world = s->world};
  shmt__packet reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  bool lost = false;
  s->child_socket = -1;
  if (s->client == 0 || s->is_lost) return;
  int socket = shmt__session_connect(s->id);
  if (socket < 0) {
    /* The manager was killed: any request brings up another. */
    shmt__packet status = request;
    status.type = SHMT_MESSAGE_STATUS;
    if (shmt__session_call(s, &status, NULL, 0, &reply, fds, &n_fds) == SHMT_OK)
      socket = shmt__session_connect(s->id);
    request.client = s->client;
    request.nonce = s->nonce;
  }
  if (socket < 0) return;
  if (shmt__session_exchange(socket, &request, NULL, 0, &reply, fds, &n_fds, FORK_MS, &lost) !=
      SHMT_OK) {
    shmt__os_close(socket);
    return;
  }
  SHMT_FAILPOINT(fork_reserved);
  s->child_socket = socket;
  s->child_client = reply.client;
  s->child_nonce = reply.nonce;
  shmt__session_each_holding(s, hold_for_child, s);
  SHMT_FAILPOINT(fork_held);
}

static void before_fork(void) {
  shmt__sessions_lock();
  for (unsigned i = 0; i < shmt__sessions_count(); i++) reserve_child(shmt__session_at(i));
}

static void in_parent(void) {
  SHMT_FAILPOINT(fork_parent);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    shmt__os_close(s->child_socket);
    s->child_socket = -1;
  }
  shmt__sessions_unlock();
}

/* The slabs are the parent's. */
static void disown(shmt__holding* h, void* arg) {
  (void)arg;
  h->is_owned = false;
  shmt__os_close(h->fd);
  h->fd = -1;
}

static void in_child(void) {
  SHMT_FAILPOINT(fork_child);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    /* The parent's connection must end with the parent. */
    shmt__os_close(s->socket);
    s->socket = s->child_socket;
    s->client = s->arena.client = s->child_socket >= 0 ? s->child_client : 0;
    s->nonce = s->child_nonce;
    s->child_socket = -1;
    shmt__arena_reset(&s->arena);
    shmt__session_each_holding(s, disown, NULL);
    shmt__session_close_sent_files(s, true);
    if (s->socket < 0) continue;
    shmt__packet adopt = {.magic = SHMT_WIRE_MAGIC,
                          .version = SHMT_WIRE_VERSION,
                          .type = SHMT_MESSAGE_ADOPT,
                          .client = s->client,
                          .session = s->id};
    SHMT_FAILPOINT(fork_adopting);
    (void)shmt__session_tell(s, &adopt, NULL, 0);
  }
  shmt__sessions_unlock(); /* the thread that forked holds it, and is the one that goes on here */
}

shmt_status shmt__fork_init(void) {
  static bool done; /* under the sessions' lock */
  if (done) return SHMT_OK;
  SHMT_TRY(shmt__os_at_fork(before_fork, in_parent, in_child));
  done = true;
  return SHMT_OK;
}
