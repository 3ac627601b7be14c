/* ipc/manager/messages.c -- what the manager does for each message of a client. */
#include "ipc/manager/connections.h"

#include "api/error.h"
#include "base/utf8.h"
#include "os/closer.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "os/users.h"
#include "shm/client.h"

#include <inttypes.h>
#include <string.h>

typedef struct request {
  shmt__manager* m;
  uint32_t connection;
  uint32_t client; /* of the connection; 0: none yet */
  const shmt__packet* p;
  int* fds; /* a function that keeps a descriptor puts -1 in its place */
  int n_fds;
  int32_t pid;     /* of the sender, from the kernel */
  int send_fds[SHMT_SOCKET_MAX_FDS];
  int n_send;
  int n_own; /* the first so many of send_fds are closed after sending; the others are borrowed */
} request;

static void attach(shmt__manager* m, uint32_t connection, uint32_t client) {
  int32_t old = m->clients[client].connection;
  if (old >= 0 && (uint32_t)old != connection)
    m->connections[old].client = 0; /* it is closed later, like one that never said hello */
  m->clients[client].connection = (int32_t)connection;
  m->connections[connection].client = client;
}

/* The sender has this number now, and may have left those that it had before. */
static void set_process(request* r, uint32_t client) {
  shmt__manager* m = r->m;
  shmt__arena_manager_mark_client_alive(&m->arena_manager, client, r->pid);
  const shmt__arena_manager_client *all = m->arena_manager.clients, *c = &all[client];
  uint32_t end = shmt__arena_manager_clients_end(&m->arena_manager);
  for (uint32_t id = 1; id < end && c->pid > 0; id++)
    if (all[id].pid == c->pid && all[id].start == c->start && all[id].pid_namespace == c->pid_namespace)
      m->clients[id].has_moved = true;
  m->clients[client].pid = r->pid;
  m->clients[client].is_reserved = false;
  m->clients[client].has_moved = false;
}

/* Is the sender this client? It proves that by the descriptor that has the lock of its number, if it has that still.
 * SHMT_E_KEY: no. It then joins as another client; so where the kernel does not tell, the answer is SHMT_E_OS. */
static shmt_status check_client(request* r, uint32_t client) {
  uint64_t identity[2] = {0, 0};
  shmt__arena_manager* k = &r->m->arena_manager;
  bool is_known = r->p->incarnation == k->map.fixed.incarnation && client != 0 && client < SHMT_MAX_CLIENTS;
  bool has_shown = is_known && r->n_fds == 1;
  SHMT_REQUIRE(r->n_fds != SHMT_SOCKET_FDS_LOST, SHMT_E_OS,
               "the manager has no room for the descriptor of client %u", client);
  SHMT_REQUIRE(!has_shown || shmt__os_file_identity(r->fds[0], identity), SHMT_E_OS,
               "the manager cannot look at the descriptor of client %u", client);
  /* A child whose number its parent claimed may come before our next tick. */
  SHMT_REQUIRE(has_shown && identity[0] == r->m->control_identity[0] && identity[1] == r->m->control_identity[1] &&
                   (k->clients[client].state != SHMT_CLIENT_NONE || shmt__arena_manager_adopt_client(k, client)) &&
                   shmt__client_owns_number(r->fds[0], client),
               SHMT_E_KEY, "the manager does not know client %u of this incarnation", client);
  /* It has the client's lock. It is our own file, so nobody keeps us from closing it at once. */
  shmt__os_close(r->fds[0]);
  r->fds[0] = -1;
  return SHMT_OK;
}

static shmt_status check_session(const request* r) {
  SHMT_REQUIRE(r->p->session == r->m->session, SHMT_E_MANAGER,
               "this is the manager of another session");
  return SHMT_OK;
}

/* The same for who means the memory that it has seen, and not that of a session that was begun anew under its name. */
static shmt_status check_incarnation(const request* r) {
  const uint64_t ours = r->m->arena_manager.map.fixed.incarnation;
  SHMT_TRY(check_session(r));
  SHMT_REQUIRE(r->p->incarnation == 0 || r->p->incarnation == ours, SHMT_E_MANAGER,
               "session %016" PRIx64 " was begun anew: it is incarnation %016" PRIx64 " now, no longer %016" PRIx64,
               r->m->session, ours, r->p->incarnation);
  return SHMT_OK;
}

/* How many client numbers the sender's process has. A process that we cannot see is not counted. */
static int n_clients_of_process(const request* r, bool reserved) {
  int n = 0;
  for (uint32_t id = 1; id < SHMT_MAX_CLIENTS && r->pid > 0; id++) {
    const shmt__manager_client* c = &r->m->clients[id];
    n += c->pid == r->pid && c->is_reserved == reserved;
  }
  return n;
}

/* Reserve a number for the sender, and put a descriptor that has its lock into the answer. */
static shmt_status reserve(request* r, uint32_t* out_id) {
  int fd = shmt__os_reopen(r->m->arena_manager.control_fd);
  SHMT_REQUIRE(fd >= 0, SHMT_E_OS,
               "the manager cannot reopen its files: too many open files, or /proc is missing");
  r->send_fds[r->n_send++] = fd;
  r->n_own++;
  SHMT_TRY(shmt__arena_manager_reserve_client(&r->m->arena_manager, fd, r->pid, out_id));
  r->m->clients[*out_id].pid = r->pid;
  return SHMT_OK;
}

/* Put a descriptor of the arena into the answer, for writing or for reading only. */
static shmt_status send_arena(request* r, bool writing) {
  shmt__manager* m = r->m;
  if (!writing && m->reading_fd < 0) m->reading_fd = shmt__os_reopen_read_only(m->arena_manager.arena_fd);
  int fd = writing ? m->arena_manager.arena_fd : m->reading_fd;
  SHMT_REQUIRE(fd >= 0, SHMT_E_OS, "the manager cannot open the arena for reading only");
  r->send_fds[r->n_send++] = fd;
  return SHMT_OK;
}

static shmt_status serve_hello(request* r, shmt__packet* reply) {
  shmt__arena_manager* k = &r->m->arena_manager;
  uint32_t id = r->p->client;
  SHMT_TRY(check_session(r));
  SHMT_REQUIRE(r->client == 0, SHMT_E_MANAGER, "HELLO twice on one connection");
  shmt__arena_manager_repair(k); /* a joining process trusts what it reads in the header */
  reply->incarnation = k->map.fixed.incarnation;
  reply->flags = k->map.fixed.flags;
  if (id != 0) SHMT_TRY(check_client(r, id));
  if (id == 0) {
    SHMT_REQUIRE(n_clients_of_process(r, false) < SHMT_MANAGER_CLIENTS_PER_PROCESS, SHMT_E_RUNTIME,
                 "process %d has %d places in the session already", (int)r->pid,
                 (int)SHMT_MANAGER_CLIENTS_PER_PROCESS);
    SHMT_TRY(reserve(r, &id));
    SHMT_TRY(send_arena(r, r->p->count == 0));
    r->send_fds[r->n_send++] = k->control_fd;
  }
  SHMT_FAILPOINT(serve_hello);
  set_process(r, id);
  attach(r->m, r->connection, id);
  reply->client = id;
  return SHMT_OK;
}

/* Make a connection for a child of the sender, and put the child's end into the answer. */
static shmt_status open_connection(request* r, uint32_t* out) {
  const shmt__peer parent = {r->pid, r->m->connections[r->connection].uid};
  int ends[2];
  SHMT_REQUIRE(shmt__os_socket_pair(ends) == 0, SHMT_E_OS, "the manager has no descriptors for a connection");
  r->send_fds[r->n_send++] = ends[1];
  r->n_own++;
  uint32_t connection = shmt__manager_enter_connection(r->m, ends[0], &parent);
  SHMT_REQUIRE(connection < SHMT_MANAGER_CONNECTIONS, SHMT_E_RUNTIME,
               "the manager has %d connections, which is all it may", SHMT_MANAGER_CONNECTIONS);
  *out = connection;
  return SHMT_OK;
}

static shmt_status serve_fork(request* r, shmt__packet* reply) {
  uint32_t id = 0, connection = 0;
  SHMT_REQUIRE(n_clients_of_process(r, true) < SHMT_MANAGER_CHILDREN, SHMT_E_RUNTIME,
               "process %d has places for %d children that never came", (int)r->pid,
               (int)SHMT_MANAGER_CHILDREN);
  /* The number is the parent's until the child has started. */
  SHMT_TRY(reserve(r, &id));
  r->m->clients[id].is_reserved = true;
  SHMT_TRY(open_connection(r, &connection)); /* if it fails, the number is free again at the next tick */
  attach(r->m, connection, id);
  reply->client = id;
  return SHMT_OK;
}

/* The bits of ADD_FILE's count. */
enum { FILE_HAS_NAME = 1, FILE_NAME_GOES = 2, FILE_IS_NAMED_LATER = 4 };

_Static_assert(sizeof(((shmt__packet*)NULL)->text) == SHMT_POSIX_NAME_BYTES, "a message has room for each name");

static shmt_status serve_add_file(request* r, shmt__packet* reply) {
  if (r->n_fds <= 0) {
    /* The kernel dropped the descriptor because we have no room for it. Close files that nobody uses any more, so that
     * the client can try again. */
    shmt__arena_manager_sweep(&r->m->arena_manager, false);
    SHMT_FAIL(SHMT_E_OS, "the manager got no descriptor: too many open files");
  }
  SHMT_REQUIRE(r->n_fds == 1, SHMT_E_VALUE, "ADD_FILE with %d descriptors, expected 1", r->n_fds);
  int fd = r->fds[0];
  if (fd >= r->m->files_end) {
    shmt__arena_manager_sweep(&r->m->arena_manager, false);
    SHMT_FAIL(SHMT_E_OS, "the manager keeps %d files, which is all it may", r->m->files_end);
  }
  r->fds[0] = -1;
  char name[sizeof r->p->text];
  memcpy(name, r->p->text, sizeof name);
  name[sizeof name - 1] = '\0';
  const shmt__new_file file = {.nbytes = r->p->nbytes,
                               .has_name = (r->p->count & FILE_HAS_NAME) != 0,
                               .posix_name = r->p->count & FILE_NAME_GOES ? name : NULL,
                               .is_named_later = (r->p->count & FILE_IS_NAMED_LATER) != 0};
  return shmt__arena_manager_add_file(&r->m->arena_manager, r->client, fd, &file, &reply->block, &reply->generation);
}

static shmt_status serve_get_file(request* r, shmt__packet* reply) {
  const char* name = NULL;
  int fd = shmt__arena_manager_file(&r->m->arena_manager, r->p->block, r->p->generation, &reply->nbytes, &name);
  SHMT_REQUIRE(fd >= 0, SHMT_E_HANDLE, "no file behind block %u", r->p->block);
  if (name != NULL) memcpy(reply->text, name, strlen(name) + 1);
  r->send_fds[0] = fd;
  r->n_send = 1;
  return SHMT_OK;
}

static void serve_status(request* r, shmt__packet* reply) {
  shmt__arena_manager* k = &r->m->arena_manager;
  reply->client = shmt__manager_n_clients(r->m);
  reply->block = (uint32_t)shmt__os_pid();
  reply->leases = shmt__arena_manager_n_leases(k);
  reply->nbytes = shmt__os_file_resident(k->arena_fd);
  reply->generation = k->granted_bytes;
  reply->count = k->slabs_end;
  reply->flags = k->map.fixed.flags;
  reply->incarnation = k->map.fixed.incarnation;
}

/* Send read-only descriptors. */
static shmt_status serve_inspect(request* r, shmt__packet* reply) {
  const shmt__arena_manager* k = &r->m->arena_manager;
  const int files[2] = {k->control_fd, k->arena_fd};
  while (r->n_send < 2) {
    int fd = shmt__os_reopen_read_only(files[r->n_send]);
    SHMT_REQUIRE(fd >= 0, SHMT_E_OS,
                 "the manager cannot open its files for reading: too many open files, or /proc is "
                 "missing");
    r->send_fds[r->n_send++] = fd;
    r->n_own++;
  }
  reply->session = r->m->session;
  reply->incarnation = k->map.fixed.incarnation;
  reply->flags = k->map.fixed.flags;
  return SHMT_OK;
}

/* A manager that a supervisor started takes the place of this one, which a client started when the last was killed.
 * Only services have a supervisor. */
static shmt_status serve_take_over(request* r) {
  const shmt__manager* m = r->m;
  const int files[] = {m->listener, m->arena_manager.control_fd, m->arena_manager.arena_fd, m->lock_fd};
  SHMT_TRY(check_session(r));
  SHMT_REQUIRE(!m->stays && shmt__arena_manager_is_service(&m->arena_manager) &&
                   m->connections[r->connection].uid == shmt__os_uid(),
               SHMT_E_MANAGER, "this manager gives its place to nobody");
  while (r->n_send < SHMT_SOCKET_MAX_FDS && files[r->n_send] >= 0) {
    r->send_fds[r->n_send] = files[r->n_send];
    r->n_send++;
  }
  return SHMT_OK;
}

/* Who may send a message, and whether it has a reply; by message type. */
static const struct {
  bool is_known, from_anyone, has_reply;
} messages[] = {
#define ROW(name, from_anyone, has_reply) [SHMT_MESSAGE_##name] = {true, from_anyone, has_reply},
    SHMT_FOR_EACH_MESSAGE(ROW)
#undef ROW
};

/* Messages with a reply. */
static shmt_status serve(request* r, shmt__packet* reply) {
  shmt__arena_manager* k = &r->m->arena_manager;
  switch ((shmt__message)r->p->type) {
    case SHMT_MESSAGE_HELLO:
      return serve_hello(r, reply);
    case SHMT_MESSAGE_FORK:
      return serve_fork(r, reply);
    case SHMT_MESSAGE_GRANT_SLAB:
      SHMT_REQUIRE(r->p->count <= UINT32_MAX, SHMT_E_VALUE, "GRANT_SLAB of too many blocks");
      SHMT_TRY(shmt__arena_manager_grant(k, r->client, r->p->nbytes, (uint32_t)r->p->count, &reply->block));
      reply->count = shmt__arena_manager_slab_at(k, reply->block)->first_block;
      reply->nbytes = shmt__arena_manager_slab_at(k, reply->block)->offset;
      return SHMT_OK;
    case SHMT_MESSAGE_ADD_FILE:
      return serve_add_file(r, reply);
    case SHMT_MESSAGE_GET_FILE:
      return serve_get_file(r, reply);
    case SHMT_MESSAGE_SWEEP:
      SHMT_TRY(check_incarnation(r));
      shmt__arena_manager_sweep(k, true);
      reply->nbytes = shmt__os_file_resident(k->arena_fd);
      return SHMT_OK;
    case SHMT_MESSAGE_DROP_LEASES:
      SHMT_TRY(check_incarnation(r));
      reply->count = shmt__arena_manager_drop_leases(
          k, r->p->count > UINT32_MAX ? UINT32_MAX : (uint32_t)r->p->count);
      return SHMT_OK;
    case SHMT_MESSAGE_STATUS:
      serve_status(r, reply);
      return SHMT_OK;
    case SHMT_MESSAGE_INSPECT:
      return serve_inspect(r, reply);
    case SHMT_MESSAGE_GET_ARENA:
      return send_arena(r, r->p->count != 0);
    case SHMT_MESSAGE_TAKE_OVER:
      return serve_take_over(r);
    case SHMT_MESSAGE_PUBLISH:
    case SHMT_MESSAGE_UNPUBLISH:
    case SHMT_MESSAGE_OPEN_LOCK:
      return shmt__manager_handle_name_message(
          r->m, (shmt__requester){r->client, r->m->connections[r->connection].uid, r->pid}, r->p,
          reply);
    case SHMT_MESSAGE_CHILD_STARTED:
    case SHMT_MESSAGE_RETURN_SLAB:
    case SHMT_MESSAGE_RESTORE_FILE:
    case SHMT_MESSAGE_REPLY:
      break;
  }
  SHMT_FAIL(SHMT_E_MANAGER, "message type %u", r->p->type);
}

/* Messages without a reply. */
static void serve_silent(request* r) {
  shmt__arena_manager* k = &r->m->arena_manager;
  switch (r->p->type) {
    case SHMT_MESSAGE_CHILD_STARTED:
      set_process(r, r->client);
      break;
    case SHMT_MESSAGE_RETURN_SLAB:
      (void)shmt__arena_manager_return_slab(k, r->client, r->p->block);
      break;
    case SHMT_MESSAGE_RESTORE_FILE:
      if (r->n_fds == 1) shmt__arena_manager_restore_file(k, r->p->block, r->p->generation, r->fds[0]);
      if (r->n_fds == 1) r->fds[0] = -1;
      break;
    default:
      break;
  }
}

bool shmt__manager_handle_message(shmt__manager* m, uint32_t connection, const shmt__packet* p, int* fds,
                         int n_fds, int32_t pid) {
  request r = {.m = m,
               .connection = connection,
               .client = m->connections[connection].client,
               .p = p,
               .fds = fds,
               .n_fds = n_fds,
               .pid = pid};
  shmt__packet reply = {.magic = SHMT_WIRE_MAGIC,
                        .version = SHMT_WIRE_VERSION,
                        .type = (uint16_t)(p->type | SHMT_MESSAGE_REPLY),
                        .serial = p->serial};
  bool keep = p->type < sizeof messages / sizeof messages[0] && messages[p->type].is_known &&
              (messages[p->type].from_anyone || r.client != 0);

  if (keep && !messages[p->type].has_reply) {
    serve_silent(&r);
  } else if (keep) {
    reply.status = serve(&r, &reply);
    if (reply.status != SHMT_OK) {
      const char* text = shmt_error_message();
      size_t n = strlen(text);
      memcpy(reply.text, text, n < sizeof reply.text ? n : shmt__utf8_whole(text, sizeof reply.text - 1));
    }
    int n_send = reply.status == SHMT_OK ? r.n_send : 0;
    SHMT_FAILPOINT(serve_replying);
    /* The socket is full only when a peer sends requests and reads no replies. */
    keep =
        shmt__os_send(m->connections[connection].fd, &reply, sizeof reply, r.send_fds, n_send) == 0;
    for (int i = 0; i < r.n_own; i++) shmt__os_close(r.send_fds[i]);
    m->is_over = keep && p->type == SHMT_MESSAGE_TAKE_OVER && reply.status == SHMT_OK;
  }
  for (int i = 0; i < n_fds; i++) shmt__closers_close(fds[i]);
  return keep;
}
