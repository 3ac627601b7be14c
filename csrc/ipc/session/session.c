/* ipc/session/session.c -- the table of this process's sessions, and its lock. */
#include "ipc/session/session.h"

#include "api/shm.h"
#include "base/utf8.h"
#include "os/memfd.h"
#include "os/mutex.h"
#include "os/process.h"
#include "os/socket.h"
#include "os/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static struct {
  shmt__session* at[SHMT_MAX_SESSIONS];
  unsigned len;
  uint64_t default_id, limit_bytes;
  uint64_t own_id; /* the name that this process made; 0: none */
  char manager_path[PATH_BYTES];
  char label[SHMT_LABEL_BYTES]; /* of this process */
} sessions; /* under the lock */
SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_SESSIONS)

void shmt__sessions_lock(void) { shmt__mutex_lock(&lock); }
void shmt__sessions_unlock(void) { shmt__mutex_unlock(&lock); }
bool shmt__sessions_try_lock(void) { return shmt__mutex_try_lock(&lock); }
shmt__session* shmt__session_at(unsigned i) { return sessions.at[i]; }
unsigned shmt__sessions_count(void) { return sessions.len; }
uint32_t shmt__sessions_own_number(void) {
  if (!shmt__sessions_try_lock()) return 0;
  const uint32_t number = sessions.len > 0 ? sessions.at[0]->client : 0;
  shmt__sessions_unlock();
  return number;
}
bool shmt__session_was_named_here(uint64_t id) {
  return id == sessions.own_id && id >> 42 == (uint64_t)(uint32_t)shmt__os_pid();
}
uint64_t shmt__sessions_default_id(void) { return sessions.default_id; }
uint64_t shmt__sessions_limit_bytes(void) { return sessions.limit_bytes; }
void shmt__sessions_add(shmt__session* s) { sessions.at[sessions.len++] = s; }
void shmt__sessions_remove_at(unsigned i) { sessions.at[i] = sessions.at[--sessions.len]; }
const char* shmt__sessions_manager_path(void) { return sessions.manager_path; }

void shmt__session_address(uint64_t id, char* out, size_t capacity) {
  (void)snprintf(out, capacity, "shmtensor-%u-%016" PRIx64, shmt__os_uid(), id);
}

void shmt__session_write_address(const shmt__session_key* key, char* out, size_t capacity) {
  if (key->path[0] != '\0')
    (void)snprintf(out, capacity, "%s", key->path);
  else
    (void)snprintf(out, capacity, "shmtensor-%u-%016" PRIx64, key->owner, key->id);
}

/* Make a session name: the pid, ten bits of its pid namespace, and random bits. */
static uint64_t make_id(void) {
  return (uint64_t)(uint32_t)shmt__os_pid() << 42 | (shmt__os_pid_namespace() & 0x3ff) << 32 |
         (uint32_t)shmt__os_random();
}

uint64_t shmt__sessions_configure(const char* manager_path, uint64_t id, uint64_t limit_bytes) {
  shmt__sessions_lock();
  (void)snprintf(sessions.manager_path, sizeof sessions.manager_path, "%s", manager_path);
  if (id == 0)
    sessions.own_id = id = make_id();
  sessions.default_id = id;
  sessions.limit_bytes = limit_bytes;
  shmt__sessions_unlock();
  return id;
}

/* A reader may see half a label; it is only for people. */
void shmt__session_write_label(const shmt__session* s) {
  if (s->client != 0) memcpy(s->map.clients[s->client].label, sessions.label, SHMT_LABEL_BYTES);
}

void shmt_sharing_set_label(const char* label) {
  size_t n = strlen(label);
  if (n >= SHMT_LABEL_BYTES) n = shmt__utf8_whole(label, SHMT_LABEL_BYTES - 1);
  shmt__sessions_lock();
  memset(sessions.label, 0, sizeof sessions.label);
  memcpy(sessions.label, label, n);
  for (unsigned i = 0; i < sessions.len; i++) shmt__session_write_label(sessions.at[i]);
  shmt__sessions_unlock();
}

static uint32_t n_forks; /* changes only while the child has one thread */
uint32_t shmt__fork_count(void) { return n_forks; }

void shmt__sessions_in_child(void) {
  n_forks++;
  memset(sessions.label, 0, sizeof sessions.label);
}

/* --- the connection to the manager --- */

int shmt__session_connect_to(const char* address, uint32_t owner) {
  shmt__peer peer;
  int fd = shmt__os_connect(address);
  if (fd < 0) return fd;
  /* Anybody can take the name: another user's program behind it is not our manager. The socket of a service may have
   * been made by root. */
  if (!shmt__os_peer(fd, &peer) || (peer.uid != owner && peer.uid != 0)) {
    shmt__os_close(fd);
    return -SHMT_OS_DENIED;
  }
  return fd;
}

int shmt__session_connect(const shmt__session_key* key) {
  char address[SHMT_SOCKET_PATH_BYTES];
  shmt__session_write_address(key, address, sizeof address);
  return shmt__session_connect_to(address, key->owner);
}

bool shmt__session_send(shmt__session* s, const shmt__packet* message, const int* fds, int n_fds) {
  int fd = shmt__descriptor_number(&s->socket);
  return fd >= 0 && shmt__os_send(fd, message, sizeof *message, fds, n_fds) == 0;
}

/* --- finding --- */

shmt__session* shmt__session_lookup(uint64_t id, uint64_t incarnation) {
  for (unsigned i = 0; i < sessions.len; i++) {
    shmt__session* s = sessions.at[i];
    if (s->id == id && s->incarnation == incarnation) return s;
  }
  return NULL;
}

enum { MOST_PINNED = 8 };

/* What this thread has pinned: one session, seldom two, as a signal handler within a request may use another. */
static _Thread_local struct {
  const shmt__session* at[MOST_PINNED]; /* NULL: free */
  uint32_t n[MOST_PINNED];
  uint32_t n_others; /* pins of sessions that had no place here */
} pinned;

/* The place of s, or a free one for NULL; MOST_PINNED: there is none. */
static unsigned place_of(const shmt__session* s) {
  unsigned i = 0;
  while (i < MOST_PINNED && pinned.at[i] != s) i++;
  return i;
}

void shmt__session_pin(shmt__session* s) {
  unsigned i = place_of(s);
  if (i == MOST_PINNED) i = place_of(NULL);
  if (i == MOST_PINNED) {
    pinned.n_others++;
  } else {
    pinned.at[i] = s;
    pinned.n[i]++;
  }
  (void)atomic_fetch_add_explicit(&s->n_users, 1, memory_order_relaxed);
}

void shmt__session_unpin(shmt__session* s) {
  const unsigned i = place_of(s);
  if (i == MOST_PINNED)
    pinned.n_others--;
  else if (--pinned.n[i] == 0)
    pinned.at[i] = NULL;
  /* release: our accesses to the maps come before they are unmapped. */
  (void)atomic_fetch_sub_explicit(&s->n_users, 1, memory_order_release);
}

void shmt__session_pins_in_child(shmt__session* s) {
  const unsigned i = place_of(s);
  if (pinned.n_others > 0) return; /* they may be of this one: it stays, at worst, for as long as the child runs */
  atomic_store_explicit(&s->n_users, i == MOST_PINNED ? 0 : pinned.n[i], memory_order_relaxed);
}

shmt__session* shmt__session_current(uint64_t id) {
  for (unsigned i = 0; i < sessions.len; i++) {
    if (sessions.at[i]->id == id && !sessions.at[i]->is_lost) return sessions.at[i];
  }
  return NULL;
}

shmt__session* shmt__session_current_of(uint64_t id, uint32_t owner) {
  for (unsigned i = 0; i < sessions.len; i++) {
    shmt__session* s = sessions.at[i];
    if (s->id == id && s->key.owner == owner && !s->is_lost) return s;
  }
  return NULL;
}
