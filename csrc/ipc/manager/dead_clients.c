/* ipc/manager/dead_clients.c -- notices that a client is dead, and frees everything it had. See the header. */
#include "ipc/manager/dead_clients.h"

#include "ipc/manager/connections.h"
#include "ipc/manager/ring_audit.h"
#include "os/clock.h"
#include "os/events.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/client.h"

static bool is_same_process(const shmt__arena_manager_client* a, const shmt__arena_manager_client* b) {
  return a->pid > 0 && a->pid == b->pid && a->start == b->start && a->pid_namespace == b->pid_namespace;
}

/* The number under which the client's process has joined since; 0: none. */
static uint32_t number_since(const shmt__manager* m, uint32_t id) {
  const shmt__arena_manager_client* all = m->arena_manager.clients;
  const uint32_t end = m->clients[id].has_moved ? m->arena_manager.clients_end : 0;
  for (uint32_t other = 1; other < end; other++)
    if (all[other].state == SHMT_CLIENT_ALIVE && !m->clients[other].has_moved && is_same_process(&all[other], &all[id]))
      return other;
  return 0;
}

/* Everything that happens when a client dies, or when its process has left this number for another one. Where memory is
 * out, it keeps the number: nothing watches it, so the next tick comes here again. */
static void client_died(shmt__manager* m, uint32_t id) {
  shmt__manager_client* c = &m->clients[id];
  if (c->connection >= 0) shmt__manager_close_connection(m, (uint32_t)c->connection);
  shmt__os_close(c->pidfd);
  c->pidfd = -1;
  c->tag++;
  /* The ring locks come first: nobody may get the number while a lock still names it. */
  if (!shmt__rings_client_died(&m->arena_manager, id)) return;
  const uint32_t since = number_since(m, id);
  if (since != 0) shmt__names_client_moved(&m->names, &m->arena_manager, id, since);
  shmt__names_client_died(&m->names, &m->arena_manager, id);
  c->pid = 0;
  c->is_reserved = c->has_moved = false;
  shmt__arena_manager_client_died(&m->arena_manager, id);
}

/* Is the client alive? See Note [Liveness]. */
static bool lives(const shmt__manager* m, uint32_t id) {
  const shmt__arena_manager_client* c = &m->arena_manager.clients[id];
  if (shmt__client_is_locked(m->arena_manager.control_fd, id)) return true;
  /* While a number is RESERVED, its pid is the parent's. */
  return c->state == SHMT_CLIENT_ALIVE && c->pid > 0 && c->pid_namespace == m->pid_namespace &&
         !m->clients[id].has_moved && shmt__os_process_runs(c->pid, c->start) &&
         shmt__os_process_maps(c->pid, m->control_identity, true);
}

/* Nothing will tell us when this client ends. Check it often for a while, and later at each tick. */
static void recheck_soon(shmt__manager* m) {
  m->recheck_until_ms = shmt__os_now_ms() + SHMT_MANAGER_RECHECK_FOR_MS;
}

static void watch(shmt__manager* m, uint32_t id) {
  const shmt__arena_manager_client* known = &m->arena_manager.clients[id];
  shmt__manager_client* c = &m->clients[id];
  c->tag++;
  /* While a number is RESERVED, its pid is the parent's. */
  if (known->state == SHMT_CLIENT_ALIVE && known->pid_namespace == m->pid_namespace)
    c->pidfd = shmt__os_pidfd(known->pid);
  if (c->pidfd < 0)
    c->pidfd = -1;
  else if (!shmt__os_events_add(m->epoll, c->pidfd, shmt__event_key(SHMT_EVENT_CLIENT, c->tag, id))) {
    shmt__os_close(c->pidfd);
    c->pidfd = -1;
  }
}

void shmt__manager_watch_client(shmt__manager* m, uint32_t id) {
  if (lives(m, id))
    watch(m, id);
  else
    client_died(m, id);
}

void shmt__manager_connection_lost(shmt__manager* m, uint32_t i) {
  uint32_t id = m->connections[i].client;
  shmt__manager_close_connection(m, i);
  if (id == 0 || m->clients[id].connection >= 0) return;
  if (lives(m, id))
    recheck_soon(m);
  else
    client_died(m, id);
}

void shmt__manager_process_ended(shmt__manager* m, uint32_t id) {
  shmt__os_close(m->clients[id].pidfd);
  m->clients[id].pidfd = -1;
  if (lives(m, id))
    recheck_soon(m);
  else
    client_died(m, id);
}

void shmt__manager_check_unwatched(shmt__manager* m) {
  uint32_t end = shmt__arena_manager_clients_end(&m->arena_manager);
  for (uint32_t id = 1; id < end; id++) {
    const shmt__manager_client* c = &m->clients[id];
    if (c->connection >= 0) continue;
    if (c->pidfd >= 0) {
      if (c->has_moved && !lives(m, id)) client_died(m, id);
      continue;
    }
    if (m->arena_manager.clients[id].state == SHMT_CLIENT_NONE &&
        !shmt__arena_manager_adopt_client(&m->arena_manager, id))
      continue;
    shmt__manager_watch_client(m, id);
  }
}
