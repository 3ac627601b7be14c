/* ipc/session/session.c -- the sessions of this process: joining, rejoining, starting a manager. */
#include "ipc/session/session.h"

#include "api/error.h"
#include "api/shm.h"
#include "ipc/session/request.h"
#include "ipc/session/fork.h"
#include "ipc/handle/saved_descriptors.h"
#include "ipc/handle/file_cache.h"
#include "ipc/session/launch.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "shm/block.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_SESSIONS = 64,
  ANSWER_MS = 30000, /* a stopped manager is waited for so long */
  JOIN_MS = 10000,
  PATH_BYTES = 4096,
};

static struct {
  pthread_mutex_t lock;
  shmt__session* at[MAX_SESSIONS];
  unsigned len;
  uint64_t default_id, limit_bytes;
  uint64_t own_id; /* made here, 0: none */
  char manager_path[PATH_BYTES];
  char label[SHMT_LABEL_BYTES]; /* of this process */
} sessions = {.lock = PTHREAD_MUTEX_INITIALIZER};

void shmt__sessions_lock(void) { (void)pthread_mutex_lock(&sessions.lock); }
void shmt__sessions_unlock(void) { (void)pthread_mutex_unlock(&sessions.lock); }
bool shmt__sessions_try_lock(void) { return pthread_mutex_trylock(&sessions.lock) == 0; }
shmt__session* shmt__session_at(unsigned i) { return sessions.at[i]; }
unsigned shmt__sessions_count(void) { return sessions.len; }
bool shmt__session_was_named_here(uint64_t id) {
  return id == sessions.own_id && id >> 42 == (uint64_t)(uint32_t)shmt__os_pid();
}
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

/* The pid, ten bits of the namespace in which it means something, and random ones. */
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

/* Readers may see half of one: it is for people. */
static void write_label(const shmt__session* s) {
  if (s->client != 0) memcpy(s->map.clients[s->client].label, sessions.label, SHMT_LABEL_BYTES);
}

void shmt_sharing_set_label(const char* label) {
  size_t n = strlen(label);
  if (n >= SHMT_LABEL_BYTES) {
    n = SHMT_LABEL_BYTES - 1;
    while (n > 0 && ((unsigned char)label[n] & 0xc0) == 0x80) n--; /* whole characters of UTF-8 */
  }
  shmt__sessions_lock();
  memset(sessions.label, 0, sizeof sessions.label);
  memcpy(sessions.label, label, n);
  for (unsigned i = 0; i < sessions.len; i++) write_label(sessions.at[i]);
  shmt__sessions_unlock();
}

void shmt__sessions_forget_label(void) { memset(sessions.label, 0, sizeof sessions.label); }

/* --- talking --- */

int shmt__session_connect(const shmt__session_key* key) {
  char address[SHMT_SOCKET_PATH_BYTES];
  shmt__peer peer;
  shmt__session_write_address(key, address, sizeof address);
  int fd = shmt__os_connect(address);
  if (fd < 0) return fd;
  /* The name is anybody's to take: another user's program behind it is not our manager. Root made
   * the socket that it hands to a service. */
  if (!shmt__os_peer(fd, &peer) || (peer.uid != key->owner && peer.uid != 0)) {
    shmt__os_close(fd);
    return -SHMT_OS_DENIED;
  }
  return fd;
}

static void drop_socket(shmt__session* s) {
  shmt__os_close(s->socket);
  s->socket = -1;
}

/* --- joining --- */

/* Nobody listens: start a manager. Not being the one who does is fine, the caller connects again.
 */
static shmt_status start_manager(const shmt__session* s, bool may_create) {
  const shmt__session* member = s->control_fd >= 0 ? s : NULL;
  const shmt__launch how = {
      .listener = -1, .limit_bytes = sessions.limit_bytes, .may_create = may_create};
  SHMT_REQUIRE(s->key.owner == shmt__os_uid(), SHMT_E_MANAGER,
               "no manager serves session %016" PRIx64 ", and only its user %" PRIu32
               " can start one",
               s->id, s->key.owner);
  shmt_status status = shmt__manager_launch(&s->key, member, &how);
  return status == SHMT_E_BUFFER ? SHMT_OK : status;
}

static shmt__packet make_packet(shmt__session* s, shmt__message type) {
  return (shmt__packet){.magic = SHMT_WIRE_MAGIC,
                        .version = SHMT_WIRE_VERSION,
                        .type = (uint16_t)type,
                        .serial = ++s->serial,
                        .client = s->client,
                        .session = s->id,
                        .world = s->world};
}

static shmt_status grant_slab(void* arg, uint64_t block_bytes, uint32_t n_blocks,
                              shmt__granted* out) {
  shmt__session* s = arg;
  shmt__packet p = make_packet(s, SHMT_MESSAGE_GRANT_SLAB), reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  p.nbytes = block_bytes;
  p.count = n_blocks;
  SHMT_TRY(shmt__session_call(s, &p, NULL, 0, &reply, fds, &n_fds));
  const shmt__fixed* fixed = &s->map.fixed;
  SHMT_REQUIRE(reply.block < fixed->n_slabs && reply.count < fixed->n_blocks &&
                   n_blocks <= fixed->n_blocks - reply.count && reply.nbytes < fixed->arena_bytes &&
                   block_bytes <= (fixed->arena_bytes - reply.nbytes) / n_blocks,
               SHMT_E_MANAGER, "the manager granted slab %u of %u, which lies outside the arena",
               reply.block, fixed->n_slabs);
  *out = (shmt__granted){reply.block, (uint32_t)reply.count, reply.nbytes};
  return SHMT_OK;
}

static bool give_back_slab(void* arg, uint32_t slab) {
  shmt__session* s = arg;
  shmt__packet p = make_packet(s, SHMT_MESSAGE_RETURN_SLAB);
  p.block = slab;
  return shmt__session_send(s, &p, NULL, 0);
}

/* Map what the manager sent. Consumes the descriptors. The control file is mapped through a description
 * of its own: a map, which children inherit, would keep the lock of the other one. */
static shmt_status open_files(shmt__session* s, int control_fd, int arena_fd, int map_fd) {
  void* base = NULL;
  shmt__map map = {0};
  bool reading = s->key.is_reader;
  shmt_status status = shmt__map_open_of(map_fd, s->key.owner, &map);
  shmt__os_close(map_fd);
  if (status == SHMT_OK && !shmt__arena_matches(&map, arena_fd))
    status = shmt__fail(SHMT_E_MANAGER,
                        "the manager sent an arena that does not belong to its control file");
  if (status == SHMT_OK)
    status = reading ? shmt__os_map_read_only(arena_fd, map.fixed.arena_bytes, &base)
                     : shmt__os_map_shared(arena_fd, map.fixed.arena_bytes, &base);
  uint64_t n_chunks =
      status == SHMT_OK ? (map.fixed.n_blocks + SHMT_HELD_BLOCK_CHUNK - 1) / SHMT_HELD_BLOCK_CHUNK : 0;
  shmt__held_block*** held_blocks = status == SHMT_OK ? calloc(n_chunks, sizeof *held_blocks) : NULL;
  if (status == SHMT_OK && held_blocks == NULL) {
    shmt__os_unmap(base, map.fixed.arena_bytes);
    status = shmt__fail(SHMT_E_NOMEM, "table of held blocks: tried to allocate %" PRIu64 " bytes",
                        n_chunks * sizeof *held_blocks);
  }
  if (status != SHMT_OK) {
    shmt__map_close(&map);
    shmt__os_close(control_fd);
    shmt__os_close(arena_fd);
    return status;
  }
  s->map = map;
  s->base = reading ? NULL : base;
  s->reading_base = reading ? base : NULL;
  s->control_fd = control_fd;
  s->arena_fd = arena_fd;
  s->held_blocks = held_blocks;
  shmt__arena_init(&s->arena, &s->map, (shmt__slab_source){grant_slab, give_back_slab, s});
  s->arena.fd = arena_fd;
  s->arena.base = s->base;
  s->arena.client = s->client;
  return SHMT_OK;
}

/* Our holds under a new client id. A block that went meanwhile is gone: generation 0 fits no
 * handle. */
static void hold_again(shmt__held_block* h, void* arg) {
  shmt__session* s = arg;
  if (!shmt__block_hold(&s->map, h->block, s->client, h->generation)) h->generation = 0;
  h->is_owned = false;
}

static void send_file(shmt__session* s, uint32_t block, uint64_t generation, int fd) {
  shmt__packet p = make_packet(s, SHMT_MESSAGE_RESTORE_FILE);
  p.block = block;
  p.generation = generation;
  (void)shmt__os_send(s->socket, &p, sizeof p, &fd, 1);
}

/* HELLO on a fresh connection. *lost: try again. */
static shmt_status say_hello(shmt__session* s, int socket, bool* lost) {
  shmt__packet p = make_packet(s, SHMT_MESSAGE_HELLO), reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  int new_control_fd = -1;
  bool was_member = s->control_fd >= 0;
  p.count = s->key.is_reader;
  shmt_status status = shmt__request(s, socket, &p, &s->control_fd, p.client != 0 ? 1 : 0, &reply, fds,
                                 &n_fds, ANSWER_MS, lost);
  if (status == SHMT_E_KEY && p.client != 0) {
    /* A manager that does not know us: join anew, and see whose world it rules. */
    p = make_packet(s, SHMT_MESSAGE_HELLO);
    p.client = 0;
    status = shmt__request(s, socket, &p, NULL, 0, &reply, fds, &n_fds, ANSWER_MS, lost);
  }
  if (status != SHMT_OK) return status;
  if (n_fds != 3 && !was_member) *lost = true;
  if (!was_member && n_fds == 3) {
    s->client = reply.client;
    status = open_files(s, fds[0], fds[1], fds[2]);
  } else if (was_member && reply.world == s->world && p.client == 0 && n_fds == 3) {
    new_control_fd = fds[0];
    shmt__os_close(fds[1]);
    shmt__os_close(fds[2]);
  } else {
    for (int i = 0; i < n_fds; i++) shmt__os_close(fds[i]);
    if (was_member && reply.world != s->world) {
      s->is_lost = true;
      SHMT_FAIL(SHMT_E_MANAGER,
                "session %016" PRIx64
                " was begun anew by another manager; tensors shared before can no "
                "longer be sent",
                s->id);
    }
  }
  if (status != SHMT_OK || *lost) return status;
  SHMT_FAILPOINT(joined);
  /* Also when it is the number we had: our holds went with it. */
  bool is_new_id = p.client == 0;
  s->socket = socket;
  s->client = s->arena.client = reply.client;
  s->world = reply.world;
  write_label(s);
  if (was_member && is_new_id) {
    shmt__arena_reset(&s->arena);
    s->leases.has_page = false;
    shmt__session_each_held_block(s, hold_again, s);
  }
  if (new_control_fd >= 0) {
    /* Only now: what kept the holdings until here may be a lock of the old one. */
    shmt__os_close(s->control_fd);
    s->control_fd = new_control_fd;
  }
  /* A new manager gets the descriptors that only its predecessor and we had. */
  if (was_member) shmt__saved_descriptors_each(s, send_file);
  return SHMT_OK;
}

/* A service that ended in order is not to be revived by those who still have its memory. */
static shmt_status check_not_ended(shmt__session* s) {
  if (s->control_fd < 0 || atomic_load_explicit(&s->map.control->ended, memory_order_acquire) == 0)
    return SHMT_OK;
  s->is_lost = true;
  SHMT_FAIL(SHMT_E_MANAGER, "service %016" PRIx64 " has ended; its tensors stay usable here",
            s->id);
}

static shmt_status join(shmt__session* s, bool may_create) {
  uint64_t deadline = shmt__os_now_ms() + JOIN_MS;
  int err = 0;
  do {
    int socket = shmt__session_connect(&s->key);
    err = socket;
    if (socket >= 0) {
      bool lost = false;
      shmt_status status = say_hello(s, socket, &lost);
      if (status == SHMT_OK && !lost) return SHMT_OK;
      shmt__os_close(socket);
      if (!lost) return status;
      SHMT_REQUIRE(s->key.owner == shmt__os_uid(), SHMT_E_MANAGER,
                   "user %" PRIu32 " lets user %" PRIu32 " not join session %016" PRIx64,
                   s->key.owner, shmt__os_uid(), s->id);
      err = -SHMT_OS_REFUSED; /* it was just ending */
    } else if (err == -SHMT_OS_REFUSED) {
      SHMT_TRY(check_not_ended(s));
      SHMT_TRY(start_manager(s, may_create));
      continue;
    } else if (err != -SHMT_OS_AGAIN) {
      break;
    }
    shmt__os_sleep_ms(2);
  } while (shmt__os_now_ms() < deadline);
  SHMT_FAIL(SHMT_E_MANAGER, "cannot reach the manager of session %016" PRIx64 ": error %d", s->id,
            -err);
}

/* The body of shmt__session_call: we are the one that asks. */
static shmt_status call(shmt__session* s, const shmt__packet* request, const int* fds, int n_fds,
                        shmt__packet* reply, int* out_fds, int* n_out_fds) {
  shmt_status status = SHMT_E_MANAGER;
  shmt__packet p = *request;
  for (int attempt = 0; attempt < 3; attempt++) {
    bool lost = false;
    SHMT_REQUIRE(!s->is_lost, SHMT_E_MANAGER,
                 "session %016" PRIx64 " was begun anew by another manager", s->id);
    if (s->socket < 0) SHMT_TRY(join(s, true));
    p.serial = ++s->serial;
    p.client = s->client; /* it may have changed since the caller wrote it */
    status = shmt__request(s, s->socket, &p, fds, n_fds, reply, out_fds, n_out_fds, ANSWER_MS, &lost);
    if (!lost) return status;
    drop_socket(s);
  }
  return status;
}

shmt_status shmt__session_call(shmt__session* s, const shmt__packet* request, const int* fds,
                               int n_fds, shmt__packet* reply, int* out_fds, int* n_out_fds) {
  shmt__session_pin(s);
  shmt_status status = shmt__request_begin();
  if (status == SHMT_OK) {
    status = call(s, request, fds, n_fds, reply, out_fds, n_out_fds);
    shmt__request_end();
  }
  shmt__session_unpin(s);
  return status;
}

void shmt__session_reconnect(shmt__session* s) {
  shmt__packet request = make_packet(s, SHMT_MESSAGE_STATUS), reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  /* Nothing is asked, so what can be read is the end of the connection. */
  if (s->is_lost || shmt__request_is_waiting() ||
      (s->socket >= 0 && shmt__os_wait_readable(s->socket, 0) == 0))
    return;
  shmt__request_keep_lock(true); /* nobody would hear of an exception */
  (void)shmt__session_call(s, &request, NULL, 0, &reply, fds, &n_fds);
  shmt__request_keep_lock(false);
}

bool shmt__session_send(shmt__session* s, const shmt__packet* message, const int* fds, int n_fds) {
  return s->socket >= 0 && shmt__os_send(s->socket, message, sizeof *message, fds, n_fds) == 0;
}

/* --- finding --- */

shmt__session* shmt__session_lookup(uint64_t id, uint64_t world) {
  for (unsigned i = 0; i < sessions.len; i++) {
    shmt__session* s = sessions.at[i];
    if (s->id == id && s->world == world) return s;
  }
  return NULL;
}

void shmt__session_pin(shmt__session* s) {
  (void)atomic_fetch_add_explicit(&s->n_users, 1, memory_order_relaxed);
}

void shmt__session_unpin(shmt__session* s) {
  /* release: our looks at the maps are over before they go. */
  (void)atomic_fetch_sub_explicit(&s->n_users, 1, memory_order_release);
}

static void free_session(shmt__session* s) {
  uint64_t arena_bytes = s->map.fixed.arena_bytes;
  uint32_t n_chunks = (s->map.fixed.n_blocks + SHMT_HELD_BLOCK_CHUNK - 1) / SHMT_HELD_BLOCK_CHUNK;
  shmt__saved_descriptors_fini(s);
  shmt__file_cache_clear(s);
  for (uint32_t i = 0; i < n_chunks; i++) free(s->held_blocks[i]);
  shmt__os_unmap(s->base, arena_bytes);
  shmt__os_unmap(s->reading_base, arena_bytes);
  shmt__map_close(&s->map);
  shmt__os_close(s->socket);
  shmt__os_close(s->control_fd);
  shmt__os_close(s->arena_fd);
  free(s->held_blocks);
  shmt__arena_fini(&s->arena);
  free(s);
}

/* Sessions that ended, or were begun anew, and of which nothing is in use here any more. */
static void forget_lost(void) {
  for (unsigned i = sessions.len; i-- > 0;) {
    shmt__session* s = sessions.at[i];
    bool is_used = s->n_held_blocks > 0 ||
                   atomic_load_explicit(&s->n_users, memory_order_acquire) > 0;
    if (!s->is_lost || is_used) continue;
    sessions.at[i] = sessions.at[--sessions.len];
    free_session(s);
  }
}

static shmt__session* find_current(uint64_t id) {
  for (unsigned i = 0; i < sessions.len; i++) {
    if (sessions.at[i]->id == id && !sessions.at[i]->is_lost) return sessions.at[i];
  }
  return NULL;
}

/* Join it, unless another thread did while we waited for our turn. */
static shmt_status open_alone(const shmt__session_key* key, bool may_create,
                                shmt__session** out) {
  *out = find_current(key->id);
  if (*out != NULL) return SHMT_OK;
  forget_lost();
  SHMT_REQUIRE(sessions.len < MAX_SESSIONS, SHMT_E_MANAGER,
               "this process is in %d sessions already", MAX_SESSIONS);
  SHMT_TRY(shmt__fork_init());
  shmt__session* s = calloc(1, sizeof *s);
  SHMT_REQUIRE(s != NULL, SHMT_E_NOMEM, "session: tried to allocate %zu bytes", sizeof *s);
  s->key = *key;
  s->id = key->id;
  s->socket = s->control_fd = s->arena_fd = s->child_socket = s->child_control_fd = -1;
  shmt_status status = join(s, may_create);
  if (status != SHMT_OK) {
    free(s);
    return status;
  }
  sessions.at[sessions.len++] = s;
  *out = s;
  return SHMT_OK;
}

static shmt_status open_session(const shmt__session_key* key, bool may_create,
                                shmt__session** out) {
  SHMT_TRY(shmt__request_begin());
  shmt_status status = open_alone(key, may_create, out);
  shmt__request_end();
  return status;
}

static shmt__session_key own_key(uint64_t id) {
  return (shmt__session_key){.id = id, .owner = shmt__os_uid()};
}

/* A child whose parent could not get a number for it has none until now. */
static shmt_status ensure_client(shmt__session* s) {
  if (SHMT_LIKELY(s->client != 0)) return SHMT_OK;
  SHMT_REQUIRE(!s->is_lost, SHMT_E_MANAGER,
               "session %016" PRIx64 " was begun anew by another manager", s->id);
  shmt__session_pin(s);
  shmt_status status = shmt__request_begin();
  if (status == SHMT_OK) {
    if (s->client == 0) status = join(s, true);
    shmt__request_end();
  }
  shmt__session_unpin(s);
  return status;
}

shmt_status shmt__session_open_default(shmt__session** out) {
  SHMT_REQUIRE(sessions.default_id != 0, SHMT_E_MANAGER,
               "sharing is not configured: no manager program is known");
  *out = find_current(sessions.default_id);
  if (SHMT_LIKELY(*out != NULL)) return ensure_client(*out);
  const shmt__session_key key = own_key(sessions.default_id);
  return open_session(&key, true, out);
}

shmt_status shmt__session_open_service(const shmt__session_key* key, bool may_create,
                                  shmt__session** out) {
  *out = find_current(key->id);
  if (SHMT_LIKELY(*out != NULL)) return ensure_client(*out);
  return open_session(key, may_create, out);
}

shmt_status shmt__session_open(uint64_t id, uint64_t world, shmt__session** out) {
  *out = shmt__session_lookup(id, world);
  if (SHMT_LIKELY(*out != NULL)) return ensure_client(*out);
  shmt__session* s = find_current(id);
  const shmt__session_key key = own_key(id);
  if (s == NULL) SHMT_TRY(open_session(&key, false, &s));
  SHMT_REQUIRE(s->world == world, SHMT_E_HANDLE,
               "the handle is of world %016" PRIx64 " of session %016" PRIx64
               ", which is gone; now there is world %016" PRIx64,
               world, id, s->world);
  *out = s;
  return SHMT_OK;
}
