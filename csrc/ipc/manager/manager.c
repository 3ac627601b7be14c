/* ipc/manager/manager.c -- the manager's loop: connections, messages, and the sweep at each tick. */
#include "ipc/manager/manager.h"

#include "ipc/manager/connections.h"
#include "ipc/manager/dead_clients.h"
#include "ipc/manager/ring_audit.h"
#include "ipc/session/other_version.h"
#include "os/clock.h"
#include "os/closer.h"
#include "os/daemon.h"
#include "os/descriptor.h"
#include "os/events.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "os/users.h"
#include "shm/lease.h"

#include <stdio.h>
#include <string.h>

enum {
  RESERVED_FDS = SHMT_MANAGER_CONNECTIONS + SHMT_MAX_CLIENTS + 16,
  BREATH_MS = 2, /* after an error that would come again at once */
};

static uint32_t state_of(const shmt__manager* m, uint32_t client) {
  return m->arena_manager.clients[client].state;
}

/* No descriptor is left for a connection. Without this it would stay in the queue and wake us forever. After the breath
 * it is closed, and accept_connections takes the spare descriptor back; or the whole machine has none, and it stays. */
static void refuse_connection(shmt__manager* m) {
  shmt__os_close(m->spare);
  m->spare = -1;
  shmt__closers_close(shmt__os_accept(m->listener));
  shmt__os_sleep_ms(BREATH_MS);
}

/* Admit this user, and the members of the group that a service was opened to. */
static bool admits(const shmt__manager* m, int fd, const shmt__peer* peer) {
  const shmt__fixed* c = &m->arena_manager.map.fixed;
  if (peer->uid == shmt__os_uid()) return true;
  return (c->flags & SHMT_SESSION_GROUP) != 0 && shmt__os_peer_in_group(fd, c->gid);
}

static void accept_connections(shmt__manager* m) {
  if (m->spare < 0) m->spare = shmt__os_dup(m->listener);
  for (int n = 0; n < 64; n++) {
    shmt__peer peer = {0, UINT32_MAX};
    int fd = shmt__os_accept(m->listener);
    if (shmt__os_is_out_of_descriptors(-fd)) refuse_connection(m);
    else if (fd < 0 && fd != -SHMT_OS_AGAIN && fd != -SHMT_OS_ABORTED) shmt__os_sleep_ms(BREATH_MS);
    if (fd < 0) return;
    bool known = shmt__os_peer(fd, &peer) && admits(m, fd, &peer);
    if (known) (void)shmt__manager_enter_connection(m, fd, &peer);
    else shmt__closers_close(fd);
  }
}

/* A program of another version asks: tell it so. See Note [Two versions] in ipc/session/other_version.h. */
static void refuse_version(const shmt__manager* m, uint32_t i, const shmt__packet* p) {
  shmt__packet reply = {.magic = SHMT_WIRE_MAGIC,
                        .version = SHMT_WIRE_VERSION,
                        .type = (uint16_t)(p->type | SHMT_MESSAGE_REPLY),
                        .serial = p->serial,
                        .status = SHMT_E_MANAGER};
  (void)snprintf(reply.text, sizeof reply.text,
                 "this manager speaks version %d of the protocol, the program version %d: use one version of shmtensor",
                 SHMT_WIRE_VERSION, p->version);
  (void)shmt__os_send(m->connections[i].fd, &reply, sizeof reply, NULL, 0);
}

/* Who may talk to us was decided when the connection was made. The user of a packet is not looked at: a member may have
 * become another user since (setuid), and of a process with two user ids the kernel tells one at the connection (the
 * effective) and the other with each packet (the real). A packet without credentials comes over a connection that was
 * made before a supervisor's socket asked for them; its sender connects again. */
static void read_connection(shmt__manager* m, uint32_t i) {
  for (int n = 0; n < SHMT_MANAGER_BUDGET && m->connections[i].fd >= 0 && !m->is_over; n++) {
    shmt__packet p;
    shmt__peer peer;
    int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
    int got = shmt__os_receive(m->connections[i].fd, &p, sizeof p, fds, &n_fds, &peer);
    if (got == -SHMT_OS_AGAIN) return;
    bool good = got == (int)sizeof p && p.magic == SHMT_WIRE_MAGIC &&
                p.version == SHMT_WIRE_VERSION && peer.uid != UINT32_MAX;
    if (shmt__packet_is_of_other_version(&p, got)) refuse_version(m, i, &p);
    if (good) {
      good = shmt__manager_handle_message(m, i, &p, fds, n_fds, peer.pid);
    } else {
      for (int j = 0; j < n_fds; j++) shmt__closers_close(fds[j]);
    }
    if (!good) {
      shmt__manager_connection_lost(m, i);
      return;
    }
  }
}

static void handle_event(shmt__manager* m, uint64_t key) {
  unsigned kind = (unsigned)(key >> 60);
  uint32_t tag = (uint32_t)(key >> 32) & 0xfffffffu, i = (uint32_t)key;
  if (kind == SHMT_EVENT_LISTENER) accept_connections(m);
  if (kind == SHMT_EVENT_CONNECTION && m->connections[i].fd >= 0 &&
      (m->connections[i].tag & 0xfffffffu) == tag)
    read_connection(m, i);
  if (kind == SHMT_EVENT_CLIENT && m->clients[i].pidfd >= 0 && (m->clients[i].tag & 0xfffffffu) == tag)
    shmt__manager_process_ended(m, i);
}

/* Does the process that named the session run? It may yet start others, which open the session's messages. */
static bool leader_lives(const shmt__manager* m, uint64_t now_ms) {
  if (!m->is_leader_known) return now_ms - m->idle_since_ms < SHMT_MANAGER_ORPHAN_MS;
  return m->leader >= 0 && shmt__os_wait_readable(m->leader, 0) == 0;
}

/* Does anybody still need the session? */
static bool keep_going(shmt__manager* m, uint64_t now_ms) {
  if (m->stays) return !shmt__os_is_asked_to_end();
  if (shmt__manager_n_clients(m) > 0) {
    m->idle_since_ms = 0;
    return true;
  }
  if (m->idle_since_ms == 0) m->idle_since_ms = now_ms;
  if (now_ms - m->idle_since_ms < SHMT_MANAGER_LINGER_MS) return true;
  if (shmt__names_persist(&m->names)) return true;
  /* A message may be meant for a process that has not joined yet. When the leader has ended there can be none. */
  return leader_lives(m, now_ms) && shmt__arena_manager_n_leases(&m->arena_manager) > 0;
}

/* Close connections that never said hello. */
static void close_silent(shmt__manager* m, uint64_t now_ms) {
  for (uint32_t i = 0; i < SHMT_MANAGER_CONNECTIONS; i++) {
    shmt__connection* c = &m->connections[i];
    if (c->fd >= 0 && c->client == 0 && now_ms - c->since_ms > SHMT_MANAGER_HELLO_MS)
      shmt__manager_close_connection(m, i);
  }
}

shmt_status shmt__manager_init(shmt__manager* m, uint64_t session, int listener) {
  m->session = session;
  m->listener = listener;
  m->reading_fd = m->lock_fd = -1;
  m->epoll = shmt__os_events_create();
  m->idle_since_ms = 0;
  m->swept_ms = shmt__os_now_ms();
  m->pid_namespace = shmt__os_pid_namespace();
  m->spare = shmt__os_dup(listener);
  m->files_end = shmt__os_descriptor_limit();
  /* Files get at least half of the descriptors, and all that connections and processes cannot need. */
  m->files_end -= m->files_end / 2 < RESERVED_FDS ? m->files_end / 2 : RESERVED_FDS;
  for (uint32_t i = 0; i < SHMT_MANAGER_CONNECTIONS; i++)
    m->connections[i] = (shmt__connection){.fd = -1};
  for (uint32_t i = 0; i < SHMT_MAX_CLIENTS; i++)
    m->clients[i] = (shmt__manager_client){.pidfd = -1, .connection = -1};
  SHMT_REQUIRE(m->epoll >= 0 && shmt__os_file_identity(m->arena_manager.control_fd, m->control_identity) &&
                   shmt__os_pass_credentials(listener) &&
                   shmt__os_events_add(m->epoll, listener, shmt__event_key(SHMT_EVENT_LISTENER, 0, 0)),
               SHMT_E_MANAGER, "the manager cannot watch its socket");
  /* A predecessor may have been killed in the middle of an audit. */
  shmt__rings_client_died(&m->arena_manager, SHMT_MANAGER_MARKER);
  m->is_leader_known = !shmt__arena_manager_is_service(&m->arena_manager) &&
                       ((session >> 32) & 0x3ff) == (m->pid_namespace & 0x3ff);
  m->leader = m->is_leader_known ? shmt__os_pidfd((int32_t)(session >> 42)) : -1;
  SHMT_TRY(shmt__names_adopt(&m->names, &m->arena_manager));
  for (uint32_t id = 1; id < SHMT_MAX_CLIENTS; id++) {
    if (state_of(m, id) != SHMT_CLIENT_NONE) shmt__manager_watch_client(m, id);
  }
  return SHMT_OK;
}

bool shmt__manager_run_once(shmt__manager* m, int timeout_ms) {
  uint64_t keys[64];
  int n = shmt__os_events_wait(m->epoll, keys, 64, timeout_ms);
  for (int i = 0; i < n && !m->is_over; i++) handle_event(m, keys[i]);
  if (m->is_over) return false;
  uint64_t now_ms = shmt__os_now_ms();
  if (now_ms - m->swept_ms >= SHMT_MANAGER_TICK_MS) {
    shmt__arena_manager_repair(&m->arena_manager);
    shmt__names_repair(&m->names, &m->arena_manager);
    (void)shmt__rings_audit(&m->arena_manager); /* when a lock is taken it tries again at the next tick */
    shmt__channels_sweep(&m->channels, &m->arena_manager, now_ms);
    (void)shmt__leases_audit(&m->arena_manager.map);
    shmt__arena_manager_sweep(&m->arena_manager, false);
    close_silent(m, now_ms);
    shmt__manager_check_unwatched(m);
    shmt__closers_check();
    m->swept_ms = now_ms;
  } else if (now_ms < m->recheck_until_ms) {
    shmt__manager_check_unwatched(m);
  }
  if (keep_going(m, now_ms)) return true;
  if (m->stays) return false;
  accept_connections(m);
  bool any = false;
  for (uint32_t i = 0; i < SHMT_MANAGER_CONNECTIONS; i++) any = any || m->connections[i].fd >= 0;
  return any;
}

void shmt__manager_run(shmt__manager* m) {
  int timeout_ms = SHMT_MANAGER_TICK_MS / 2;
  while (shmt__manager_run_once(m, timeout_ms)) {
    bool soon = shmt__os_now_ms() < m->recheck_until_ms;
    timeout_ms = soon ? SHMT_MANAGER_RECHECK_MS : SHMT_MANAGER_TICK_MS / 2;
  }
}
