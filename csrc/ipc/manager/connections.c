/* ipc/manager/connections.c -- the manager's table of connections. */
#include "ipc/manager/connections.h"

#include "os/clock.h"
#include "os/closer.h"
#include "os/events.h"

void shmt__manager_close_connection(shmt__manager* m, uint32_t i) {
  shmt__connection* c = &m->connections[i];
  if (c->client != 0 && m->clients[c->client].connection == (int32_t)i)
    m->clients[c->client].connection = -1;
  shmt__os_events_remove(m->epoll, c->fd);
  shmt__closers_close(c->fd); /* with what lies unread in it */
  c->fd = -1;
  c->client = 0;
}

/* A free entry for a connection of the process, or SHMT_MANAGER_CONNECTIONS when there is none. */
static uint32_t find_free_entry(const shmt__manager* m, int32_t pid) {
  uint32_t entry = SHMT_MANAGER_CONNECTIONS, n_unidentified = 0;
  for (uint32_t i = SHMT_MANAGER_CONNECTIONS; i-- > 0;) {
    const shmt__connection* c = &m->connections[i];
    if (c->fd < 0) entry = i;
    n_unidentified += c->fd >= 0 && c->client == 0 && c->pid == pid;
  }
  return n_unidentified < SHMT_MANAGER_UNIDENTIFIED ? entry : SHMT_MANAGER_CONNECTIONS;
}

uint32_t shmt__manager_enter_connection(shmt__manager* m, int fd, const shmt__peer* peer) {
  uint32_t i = find_free_entry(m, peer->pid);
  if (i == SHMT_MANAGER_CONNECTIONS) {
    shmt__closers_close(fd);
    return i;
  }
  shmt__connection* c = &m->connections[i];
  c->fd = fd;
  c->client = 0;
  c->pid = peer->pid;
  c->uid = peer->uid;
  c->tag++;
  c->since_ms = shmt__os_now_ms();
  if (shmt__os_events_add(m->epoll, fd, shmt__event_key(SHMT_EVENT_CONNECTION, c->tag, i))) return i;
  shmt__manager_close_connection(m, i);
  return SHMT_MANAGER_CONNECTIONS;
}
