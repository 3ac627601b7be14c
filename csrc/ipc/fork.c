/* ipc/fork.c -- the handlers around fork(). */
#include "ipc/fork.h"

#include "ipc/ask.h"
#include "ipc/share.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "shm/block.h"
#include "storage/fork.h"

enum { FORK_MS = 2000 };

static void hold_for_child(shmt__holding* h, void* arg) {
  shmt__session* s = arg;
  (void)shmt__block_hold(&s->map.blocks[h->block], s->child_client, h->generation);
}

/* The request for the child's number, over a connection that becomes the child's; -1 on failure. */
static int connect_child(shmt__session* s, shmt__packet* request) {
  int socket = shmt__session_connect(&s->key);
  if (socket >= 0) return socket;
  /* The manager was killed: any request brings up another. */
  shmt__packet status = *request, reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  status.type = SHMT_MESSAGE_STATUS;
  if (shmt__session_call(s, &status, NULL, 0, &reply, fds, &n_fds) == SHMT_OK)
    socket = shmt__session_connect(&s->key);
  request->client = s->client;
  request->nonce = s->nonce;
  return socket;
}

/* The manager gives the child a number; false: it is stopped, or cannot be had. */
static bool ask_for_child(shmt__session* s) {
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
  if (s->client == 0 || s->is_lost || shmt__ask_is_waiting()) return false;
  int socket = connect_child(s, &request);
  if (socket < 0) return false;
  if (shmt__ask(NULL, socket, &request, NULL, 0, &reply, fds, &n_fds, FORK_MS, &lost) !=
      SHMT_OK) {
    shmt__os_close(socket);
    return false;
  }
  SHMT_FAILPOINT(fork_reserved);
  s->child_socket = socket;
  s->child_client = reply.client;
  s->child_nonce = reply.nonce;
  return true;
}

/* See Note [Claims] in shm/layout.h. When all numbers are taken the child has none, and joins when
 * it first needs to; until then its parent alone holds what it inherits. */
static void claim_for_child(shmt__session* s) {
  s->child_client = 0;
  if (!shmt__client_claim(&s->map, shmt__os_pid(), &s->child_client)) return;
  s->child_nonce = s->map.clients[s->child_client].nonce;
  SHMT_FAILPOINT(fork_claimed);
}

static void before_fork(void) {
  shmt__sharing_lock();
  shmt__sessions_lock();
  shmt__ask_keep_lock(true);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    s->child_socket = -1;
    if (!ask_for_child(s)) claim_for_child(s);
    if (s->child_client == 0) continue;
    shmt__session_each_holding(s, hold_for_child, s);
    SHMT_FAILPOINT(fork_held);
  }
}

static void in_parent(void) {
  SHMT_FAILPOINT(fork_parent);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    shmt__os_close(s->child_socket);
    s->child_socket = -1;
  }
  shmt__ask_keep_lock(false);
  shmt__sessions_unlock();
  shmt__sharing_unlock();
}

/* The slabs are the parent's. */
static void disown(shmt__holding* h, void* arg) {
  (void)arg;
  h->is_owned = false;
}

/* Is the number still the child's? A parent that was stopped for long may have lost it. */
static bool is_reserved(const shmt__session* s) {
  const shmt__client_entry* e = &s->map.clients[s->child_client];
  return s->child_client != 0 && e->nonce == s->child_nonce &&
         atomic_load_explicit(&e->state, memory_order_acquire) != SHMT_CLIENT_NONE;
}

/* Say that the child is there: to the manager, or, when it gave no connection, in its table. */
static void arrive(shmt__session* s) {
  SHMT_FAILPOINT(fork_adopting);
  if (s->socket < 0) {
    shmt__client_settle(&s->map, s->client, shmt__os_pid());
    return;
  }
  shmt__packet adopt = {.magic = SHMT_WIRE_MAGIC,
                        .version = SHMT_WIRE_VERSION,
                        .type = SHMT_MESSAGE_ADOPT,
                        .client = s->client,
                        .session = s->id};
  (void)shmt__session_tell(s, &adopt, NULL, 0);
}

static uint32_t n_forks; /* changed only while the child has one thread */
uint32_t shmt__fork_count(void) { return n_forks; }

static void in_child(void) {
  n_forks++;
  shmt__ask_reset();
  shmt__ask_keep_lock(false);
  SHMT_FAILPOINT(fork_child);
  for (unsigned i = 0; i < shmt__sessions_count(); i++) {
    shmt__session* s = shmt__session_at(i);
    atomic_store_explicit(&s->n_users, 0, memory_order_relaxed); /* threads of the parent */
    /* The parent's connection must end with the parent. */
    shmt__os_close(s->socket);
    if (!is_reserved(s)) {
      shmt__os_close(s->child_socket);
      s->child_socket = -1;
      s->child_client = 0;
    }
    s->socket = s->child_socket;
    s->client = s->arena.client = s->child_client;
    s->nonce = s->child_nonce;
    s->child_socket = -1;
    shmt__arena_reset(&s->arena);
    shmt__session_each_holding(s, disown, NULL);
    shmt__session_close_sent_files(s, true);
    if (s->client != 0) arrive(s);
  }
  shmt__sessions_unlock(); /* the thread that forked holds it, and is the one that goes on here */
  shmt__sharing_unlock();
}

shmt_status shmt__fork_init(void) {
  static bool done; /* under the sessions' lock */
  if (done) return SHMT_OK;
  shmt__storage_blocks_set_up(); /* a storage is made under the sessions' lock, so that comes first */
  SHMT_TRY(shmt__os_at_fork(before_fork, in_parent, in_child));
  done = true;
  return SHMT_OK;
}
