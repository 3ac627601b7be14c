/* ipc/inspect.c -- inspects a session from outside, as api/inspect.h declares.
 *
 * Note [Looking again]
 * Who opens a session by what its members have may come when they have not everything yet: the arena is made after the
 * control file, and a manager that is just starting answers later. So while an inspector has no arena, each call that
 * needs one looks again: it asks the manager, which costs microseconds where nobody listens, and then looks at what
 * processes of the user have open. A look that took long is not repeated soon.
 *
 * The tables of an inspector stay those of the incarnation that it was opened with. A manager that has another one is
 * not its session's any more, and each request says which is meant.
 */
#include "api/inspect.h"

#include "api/error.h"
#include "ipc/service/description.h"
#include "ipc/ring/message_layout.h"
#include "ipc/service/service.h"
#include "ipc/session/request.h"
#include "ipc/topic/topic_layout.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/memfd.h"
#include "os/pages.h"
#include "os/process.h"
#include "os/socket.h"
#include "os/users.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  ADDRESS_BYTES = SHMT_SOCKET_PATH_BYTES,
  INSPECT_MS = 5000,
  RETRY_MS = 200,       /* how long to wait for a manager while looking again */
  RETRY_EVERY_MS = 250, /* at most so often */
  RETRY_SHARE = 20,     /* and for no larger part of the time than one in so many */
};

struct shmt_inspector {
  char address[ADDRESS_BYTES]; /* of the manager's socket: a path, or an abstract one */
  uint64_t session;
  uint32_t owner; /* the user whose session it is */
  shmt__map map; /* read-only */
  shmt__descriptor control, arena; /* the arena may be none: Note [Looking again] */
  uint64_t next_retry_ns;
};

/* --- connecting --- */

/* Send one request on a connection of its own, so that the manager keeps nothing for us. */
static shmt_status request_at(const char* address, uint32_t owner, shmt__packet p, int timeout_ms, shmt__packet* reply,
                              int* fds, int* n_fds) {
  bool lost = false;
  p.magic = SHMT_WIRE_MAGIC;
  p.version = SHMT_WIRE_VERSION;
  p.serial = 1;
  int fd = shmt__session_connect_to(address, owner);
  if (shmt__os_is_out_of_descriptors(-fd)) return shmt__fail_errno(-fd, "cannot connect to @%s", address);
  SHMT_REQUIRE(fd != -SHMT_OS_DENIED, SHMT_E_MANAGER, "@%s is not open to this user, or not of user %" PRIu32, address,
               owner);
  SHMT_REQUIRE(fd >= 0, SHMT_E_MANAGER, "no manager listens on @%s (error %d)", address, -fd);
  shmt__descriptor socket = shmt__descriptor_own(fd);
  shmt_status status = shmt__request(NULL, &socket, &p, NULL, 0, reply, fds, n_fds, timeout_ms, &lost);
  shmt__descriptor_close(&socket);
  if (lost && owner != shmt__os_uid())
    status = shmt__fail(SHMT_E_MANAGER, "the manager on @%s does not admit user %" PRIu32, address, shmt__os_uid());
  return status;
}

/* The same of the session's manager, which sends no descriptors. */
static shmt_status request_manager(const shmt_inspector* o, shmt__message type, uint64_t count, shmt__packet* reply) {
  const shmt__packet p = {
      .type = (uint16_t)type, .session = o->session, .incarnation = o->map.fixed.incarnation, .count = count};
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  SHMT_TRY(request_at(o->address, o->owner, p, INSPECT_MS, reply, fds, &n_fds));
  for (int i = 0; i < n_fds; i++) shmt__os_close(fds[i]);
  return SHMT_OK;
}

/* --- opening --- */

/* Consumes the descriptors. arena_fd may be -1. reply: the manager's answer; NULL: nobody answers, and the files say
 * what they are. */
static shmt_status open_files(const char* address, uint32_t owner, const shmt__packet* reply, int control_fd,
                              int arena_fd, shmt_inspector** out) {
  uint64_t arena_bytes = 0;
  shmt_inspector* o = calloc(1, sizeof *o);
  shmt_status status =
      o != NULL ? shmt__map_open_read_only(control_fd, owner, &o->map)
                : shmt__fail(SHMT_E_NOMEM, "inspector: tried to allocate %zu bytes", sizeof *o);
  /* Another kind of file could make a reader wait. */
  if (status == SHMT_OK && arena_fd >= 0 && !shmt__os_memfd_check_of(arena_fd, owner, &arena_bytes))
    status = shmt__fail(SHMT_E_MANAGER, "the manager on @%s sent an arena that is no memory file of user %" PRIu32,
                        address, owner);
  if (status == SHMT_OK && reply != NULL)
    status = shmt__map_believe(&o->map, reply->session, reply->incarnation, (uint32_t)reply->flags);
  if (status != SHMT_OK) {
    shmt__os_close(control_fd);
    shmt__os_close(arena_fd);
    if (o != NULL) shmt__map_close(&o->map);
    free(o);
    return status;
  }
  (void)snprintf(o->address, sizeof o->address, "%s", address);
  o->session = o->map.fixed.session;
  o->owner = owner;
  o->control = shmt__descriptor_own(control_fd);
  o->arena = shmt__descriptor_own(arena_fd);
  *out = o;
  return SHMT_OK;
}

int shmt_inspector_open(const char* address, uint32_t owner, shmt_inspector** out) {
  shmt__packet reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  SHMT_TRY(shmt__os_check_own_user());
  SHMT_REQUIRE(strlen(address) < ADDRESS_BYTES, SHMT_E_MANAGER,
               "no manager has an address of %zu bytes", strlen(address));
  SHMT_TRY(request_at(address, owner, (shmt__packet){.type = SHMT_MESSAGE_INSPECT}, INSPECT_MS, &reply, fds, &n_fds));
  if (n_fds == 2) return open_files(address, owner, &reply, fds[0], fds[1], out);
  for (int i = 0; i < n_fds; i++) shmt__os_close(fds[i]);
  SHMT_FAIL(SHMT_E_MANAGER, "the manager on @%s sent %d descriptors, expected 2", address, n_fds);
}

typedef struct wanted {
  uint64_t session;
  int fd;
} wanted;

static bool visit_control(int fd, void* arg) {
  wanted* w = arg;
  shmt__map map = {0};
  bool found = shmt__map_open_read_only(fd, shmt__os_uid(), &map) == SHMT_OK && map.fixed.session == w->session;
  shmt__map_close(&map);
  if (found) w->fd = shmt__os_reopen_read_only(fd);
  shmt__os_close(fd);
  return w->fd < 0;
}

/* The name of the session's service, or the path of its socket; empty: it has none. Any member can write there: a name
 * that belongs to another session is ignored. */
static void read_service_name(const shmt_inspector* o, char out[SHMT_NAME_BYTES]) {
  memcpy(out, o->map.control->name, SHMT_NAME_BYTES - 1);
  out[SHMT_NAME_BYTES - 1] = '\0';
  if (shmt__service_number(out) != o->session) out[0] = '\0';
}

/* The manager of a service at a path listens there. */
static void listen_at_path(shmt_inspector* o) {
  char name[SHMT_NAME_BYTES];
  read_service_name(o, name);
  const size_t n = strlen(name);
  if (name[0] == '/' && n < sizeof o->address) memcpy(o->address, name, n + 1);
}

int shmt_inspector_open_members(uint64_t session, shmt_inspector** out) {
  char name[64], address[64];
  wanted w = {session, -1};
  (void)snprintf(name, sizeof name, "shmtensor-control-%016" PRIx64, session);
  int err = shmt__os_find_memfd(name, 0, visit_control, &w);
  if (err != 0) return shmt__fail_errno(-err, "cannot search for the files of session %016" PRIx64, session);
  SHMT_REQUIRE(w.fd >= 0, SHMT_E_MANAGER,
               "session %016" PRIx64 ": no process of this user has its files open", session);
  shmt__session_address(session, address, sizeof address);
  SHMT_TRY(open_files(address, shmt__os_uid(), NULL, w.fd, -1, out));
  listen_at_path(*out);
  return SHMT_OK;
}

void shmt_inspector_clear(shmt_inspector** place) {
  shmt_inspector* o = *place;
  *place = NULL;
  if (o == NULL) return;
  shmt__map_close(&o->map);
  shmt__descriptor_close(&o->control);
  shmt__descriptor_close(&o->arena);
  free(o);
}

/* --- looking again --- */

static bool visit_arena(int fd, void* arg) {
  shmt_inspector* o = arg;
  if (shmt__arena_matches(&o->map, fd)) o->arena = shmt__descriptor_of(shmt__os_reopen_read_only(fd));
  shmt__os_close(fd);
  return shmt__descriptor_number(&o->arena) < 0;
}

static void request_arena(shmt_inspector* o) {
  shmt__packet reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  const shmt__packet p = {.type = SHMT_MESSAGE_INSPECT};
  if (request_at(o->address, o->owner, p, RETRY_MS, &reply, fds, &n_fds) != SHMT_OK) return;
  const bool is_ours = n_fds == 2 && shmt__arena_matches(&o->map, fds[1]);
  if (is_ours) o->arena = shmt__descriptor_own(fds[1]);
  for (int i = 0; i < (is_ours ? 1 : n_fds); i++) shmt__os_close(fds[i]);
}

/* Is there an arena, perhaps by now? Note [Looking again] */
static bool has_arena(shmt_inspector* o) {
  char name[64];
  if (shmt__descriptor_number(&o->arena) >= 0) return true;
  const uint64_t begun_ns = shmt__os_now_ns();
  if (begun_ns < o->next_retry_ns) return false;
  request_arena(o);
  (void)snprintf(name, sizeof name, "shmtensor-arena-%016" PRIx64, o->session);
  if (shmt__descriptor_number(&o->arena) < 0 && o->owner == shmt__os_uid())
    (void)shmt__os_find_memfd(name, 0, visit_arena, o);
  shmt_error_clear();
  const uint64_t now_ns = shmt__os_now_ns(), pause_ns = (now_ns - begun_ns) * RETRY_SHARE;
  const uint64_t least_ns = RETRY_EVERY_MS * UINT64_C(1000000);
  o->next_retry_ns = now_ns + (pause_ns > least_ns ? pause_ns : least_ns);
  return shmt__descriptor_number(&o->arena) >= 0;
}

/* --- requests to the manager --- */

int shmt_inspector_manager(shmt_inspector* o, shmt_manager_view* out) {
  shmt__packet reply;
  SHMT_TRY(request_manager(o, SHMT_MESSAGE_STATUS, 0, &reply));
  SHMT_REQUIRE(reply.incarnation == o->map.fixed.incarnation, SHMT_E_MANAGER,
               "session %016" PRIx64 " was begun anew, with another manager", o->session);
  *out = (shmt_manager_view){.pid = reply.block,
                             .n_clients = reply.client,
                             .n_leases = reply.leases,
                             .granted_bytes = reply.generation,
                             .resident_bytes = reply.nbytes};
  return SHMT_OK;
}

int shmt_inspector_trim(shmt_inspector* o, uint64_t* out_resident_bytes) {
  shmt__packet reply;
  SHMT_TRY(request_manager(o, SHMT_MESSAGE_SWEEP, 0, &reply));
  *out_resident_bytes = reply.nbytes;
  return SHMT_OK;
}

int shmt_inspector_gc(shmt_inspector* o, uint32_t age_ms, uint64_t* out_n) {
  shmt__packet reply;
  SHMT_TRY(request_manager(o, SHMT_MESSAGE_DROP_LEASES, age_ms, &reply));
  *out_n = reply.count;
  return SHMT_OK;
}

/* --- reading the tables --- */

/* What is read here may not fit together: every index is checked against its bound. */

typedef struct seen {
  shmt__block_state state;
  uint64_t generation, nbytes;
  uint32_t n_leases, n_queued;
  uint32_t n_holders, only_holder; /* only_holder: the only holder, 0 when there is none or several */
  uint64_t holds[SHMT_HOLD_WORDS];
} seen;

static seen read_block(const shmt__map* m, uint32_t block) {
  const shmt__block* b = &m->blocks[block];
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  seen s = {.state = shmt__head_state(head), .generation = shmt__head_generation(head)};
  if (s.state == SHMT_BLOCK_RECLAIM) s.state = SHMT_BLOCK_USED;
  if (s.state != SHMT_BLOCK_USED) return s;
  s.nbytes = atomic_load_explicit(&b->nbytes, memory_order_relaxed) & ~SHMT_BLOCK_IS_RING;
  uint32_t all = shmt__block_n_leases(b);
  s.n_queued = atomic_load_explicit(&b->n_ring_leases, memory_order_relaxed);
  s.n_leases = all > s.n_queued ? all - s.n_queued : 0;
  for (unsigned i = 0; i * 64 < shmt__map_clients_end(m); i++) {
    s.holds[i] = shmt__block_holds(m, block, i);
    if (s.holds[i] == 0) continue;
    s.n_holders += (uint32_t)__builtin_popcountll(s.holds[i]);
    s.only_holder = i * 64 + (uint32_t)__builtin_ctzll(s.holds[i]);
  }
  if (s.n_holders != 1) s.only_holder = 0;
  return s;
}

typedef struct counts {
  shmt_session_view* session;
  shmt_client_view* by_client; /* SHMT_MAX_CLIENTS of them */
} counts;

static void count_used(counts* c, const seen* s, uint32_t owner) {
  shmt_session_view* v = c->session;
  v->n_used++;
  v->used_bytes += s->nbytes;
  v->n_leases += s->n_leases;
  if (s->n_leases > 0 && s->n_holders == 0 && s->n_queued == 0) {
    v->n_stranded++;
    v->stranded_bytes += s->nbytes;
  }
  if (s->n_queued > 0) {
    v->n_queued++;
    v->queued_bytes += s->nbytes;
  }
  c->by_client[owner].n_made++;
  c->by_client[owner].made_bytes += s->nbytes;
  if (s->only_holder != 0) {
    c->by_client[s->only_holder].n_alone++;
    c->by_client[s->only_holder].alone_bytes += s->nbytes;
  }
  for (uint32_t i = 0; i < SHMT_HOLD_WORDS; i++) {
    for (uint64_t bits = s->holds[i]; bits != 0; bits &= bits - 1) {
      shmt_client_view* holder = &c->by_client[i * 64 + (uint32_t)__builtin_ctzll(bits)];
      holder->n_held++;
      holder->held_bytes += s->nbytes;
    }
  }
}

static uint32_t bounded(uint32_t value, uint32_t limit) { return value < limit ? value : limit; }

static uint32_t owner_of(const shmt__slab* s) {
  uint32_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
  return owner < SHMT_MAX_CLIENTS ? owner : 0;
}

static void count_slab(const shmt_inspector* o, counts* c, const shmt__slab* slab) {
  shmt_session_view* v = c->session;
  uint32_t owner = owner_of(slab), n_blocks = o->map.fixed.n_blocks;
  uint32_t begin = bounded(*(const volatile uint32_t*)&slab->first_block, n_blocks);
  uint32_t end = begin + bounded(*(const volatile uint32_t*)&slab->n_blocks, n_blocks - begin);
  v->n_slabs++;
  v->granted_bytes += slab->nbytes;
  v->n_orphan_slabs += owner == 0;
  c->by_client[owner].n_slabs++;
  c->by_client[owner].slab_bytes += slab->nbytes;
  for (uint32_t i = begin; i < end; i++) {
    const shmt__block* b = &o->map.blocks[i];
    seen s = read_block(&o->map, i);
    v->n_reclaimed += s.generation;
    if (s.state == SHMT_BLOCK_USED) count_used(c, &s, owner);
    if (s.state == SHMT_BLOCK_FREE) {
      v->n_free++;
      v->free_bytes += atomic_load_explicit(&b->warm, memory_order_relaxed);
    }
    if (s.state == SHMT_BLOCK_COLD) v->n_cold++;
  }
}

int shmt_inspector_count(shmt_inspector* o, shmt_session_view* session, shmt_client_view* clients,
                          uint32_t capacity, uint32_t* out_n) {
  const shmt__fixed* fixed = &o->map.fixed;
  (void)has_arena(o);
  counts c = {.session = session, .by_client = calloc(SHMT_MAX_CLIENTS, sizeof *c.by_client)};
  uint32_t n = 0;
  *out_n = 0;
  SHMT_REQUIRE(c.by_client != NULL, SHMT_E_NOMEM, "counting blocks: tried to allocate %zu bytes",
               SHMT_MAX_CLIENTS * sizeof *c.by_client);
  *session = (shmt_session_view){.session = o->session,
                                 .incarnation = fixed->incarnation,
                                 .arena_bytes = fixed->arena_bytes,
                                 .limit_bytes = fixed->limit_bytes};
  read_service_name(o, session->service);
  session->resident_bytes = shmt__os_file_resident(shmt__descriptor_number(&o->control)) +
                            shmt__os_file_resident(shmt__descriptor_number(&o->arena));
  uint32_t n_slabs = shmt__map_slabs_end(&o->map);
  for (uint32_t i = 0; i < n_slabs; i++) {
    const shmt__slab* slab = &o->map.slabs[i];
    if (atomic_load_explicit(&slab->state, memory_order_acquire) != SHMT_SLAB_NONE)
      count_slab(o, &c, slab);
  }
  uint32_t clients_end = shmt__map_clients_end(&o->map);
  uint64_t pid_namespace = shmt__os_pid_namespace();
  for (uint32_t id = 1; id < clients_end; id++) {
    const shmt__client_entry* e = &o->map.clients[id];
    uint32_t state = atomic_load_explicit(&e->state, memory_order_acquire);
    if (state == SHMT_CLIENT_NONE) continue;
    if (n < capacity) {
      shmt_client_view* v = &clients[n];
      *v = c.by_client[id];
      v->client = id;
      /* The number of a process of another namespace is that of a stranger here. */
      v->pid = e->pid_namespace == pid_namespace ? e->pid : 0;
      v->start = e->start;
      v->is_forking = state == SHMT_CLIENT_RESERVED;
      memcpy(v->label, e->label, SHMT_LABEL_BYTES - 1);
    }
    n++;
  }
  *out_n = n < capacity ? n : capacity;
  free(c.by_client);
  return SHMT_OK;
}

/* Read from the file: reading an unused page through the map would allocate it. */
static void read_site(shmt_inspector* o, uint32_t block, uint64_t generation, char out[56]) {
  shmt__site site;
  uint64_t at = (uint64_t)((char*)&o->map.sites[block] - (char*)o->map.control);
  out[0] = '\0';
  if (!shmt__os_read_at(shmt__descriptor_number(&o->control), &site, sizeof site, at)) return;
  if (site.generation != generation) return;
  memcpy(out, site.text, sizeof site.text);
  out[sizeof site.text - 1] = '\0';
}

uint32_t shmt_inspector_blocks(shmt_inspector* o, uint32_t first, shmt_block_view* out,
                              uint32_t capacity, uint32_t* next) {
  const shmt__control* control = o->map.control;
  uint32_t now_ms = (uint32_t)shmt__os_wall_ms(), n = 0, i = first;
  bool has_sites = atomic_load_explicit(&control->has_sites, memory_order_acquire) != 0;
  uint32_t end = shmt__map_blocks_end(&o->map);
  for (; i < end && n < capacity; i++) {
    const shmt__block* b = &o->map.blocks[i];
    seen s = read_block(&o->map, i);
    uint32_t index = *(const volatile uint32_t*)&b->slab; /* once: Note [Private tables] */
    if (s.state != SHMT_BLOCK_USED || index >= o->map.fixed.n_slabs) continue;
    const shmt__slab* slab = &o->map.slabs[index];
    shmt_block_view* v = &out[n++];
    *v = (shmt_block_view){.block = i,
                           .slab = index,
                           .owner = owner_of(slab),
                           .generation = s.generation,
                           .nbytes = s.nbytes,
                           .capacity_bytes = b->capacity,
                           .n_leases = s.n_leases,
                           .n_holders = s.n_holders,
                           .n_queued = s.n_queued};
    v->is_queue = (atomic_load_explicit(&b->nbytes, memory_order_relaxed) & SHMT_BLOCK_IS_RING) != 0;
    v->is_file = shmt__slab_state_is_file(atomic_load_explicit(&slab->state, memory_order_relaxed));
    memcpy(v->holds, s.holds, sizeof v->holds);
    if (has_sites) read_site(o, i, s.generation, v->site);
    int32_t age = (int32_t)(now_ms - atomic_load_explicit(&b->stamp_ms, memory_order_relaxed));
    if (s.n_leases > 0 && age > 0) v->sent_ms = (uint64_t)age;
  }
  *next = i < end ? i : 0;
  return n;
}

/* --- queues and topics --- */

/* Copy the first bytes of a block in use. They come from the file: for pages that were returned meanwhile that gives
 * zeros. The block's size goes to *nbytes, with SHMT_BLOCK_IS_RING. */
static bool read_block_bytes(const shmt_inspector* o, uint32_t block, void* out, uint64_t n, uint64_t* nbytes) {
  const shmt__fixed* fixed = &o->map.fixed;
  if (block >= fixed->n_blocks || read_block(&o->map, block).state != SHMT_BLOCK_USED) return false;
  const shmt__block* b = &o->map.blocks[block];
  const uint64_t at = *(const volatile uint64_t*)&b->offset;
  *nbytes = atomic_load_explicit(&b->nbytes, memory_order_acquire);
  return n <= (*nbytes & ~SHMT_BLOCK_IS_RING) && n <= fixed->arena_bytes && at <= fixed->arena_bytes - n &&
         shmt__os_read_at(shmt__descriptor_number(&o->arena), out, n, at);
}

/* Copy a ring's header; that of a bare ring ends before `ends`, and zeros follow. */
static bool read_ring(const shmt_inspector* o, uint32_t block, shmt__ring_header* r) {
  uint64_t nbytes = 0;
  memset(r, 0, sizeof *r);
  if (!read_block_bytes(o, block, r, SHMT_RING_BARE_DATA, &nbytes) || (nbytes & SHMT_BLOCK_IS_RING) == 0 ||
      r->magic != SHMT_RING_MAGIC)
    return false;
  return r->data_begin != SHMT_RING_DATA ||
         (read_block_bytes(o, block, r, sizeof *r, &nbytes) && r->magic == SHMT_RING_MAGIC);
}

static uint32_t ring_n_messages(const shmt__ring_header* r) {
  const uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
  return shmt__ring_count(atomic_load_explicit(&r->tail, memory_order_relaxed)) - shmt__ring_count(head);
}

int shmt_inspector_queue(shmt_inspector* o, uint32_t block, shmt_queue_view* out) {
  shmt__ring_header r;
  if (!has_arena(o) || !read_ring(o, block, &r)) return 0;
  /* The unacknowledged messages of a queue, which says how many there are. */
  if (atomic_load_explicit(&r.last_id, memory_order_relaxed) != 0) return 0;
  const uint32_t slab = *(const volatile uint32_t*)&o->map.blocks[block].slab;
  if (slab >= o->map.fixed.n_slabs) return 0;
  uint64_t head = atomic_load_explicit(&r.head, memory_order_relaxed);
  uint64_t tail = atomic_load_explicit(&r.tail, memory_order_relaxed);
  *out = (shmt_queue_view){.block = block,
                           .owner = owner_of(&o->map.slabs[slab]),
                           .n_messages = ring_n_messages(&r),
                           .max_messages = atomic_load_explicit(&r.max_messages, memory_order_relaxed),
                           .n_put = shmt__ring_count(tail),
                           .n_unacknowledged = atomic_load_explicit(&r.n_unacked, memory_order_relaxed),
                           .n_dead_letters = atomic_load_explicit(&r.n_dead_letters, memory_order_relaxed),
                           .used_bytes = shmt__ring_used(head, tail, r.capacity),
                           .capacity_bytes = r.capacity,
                           .is_bare = r.data_begin != SHMT_RING_DATA};
  for (uint32_t i = 0; r.data_begin == SHMT_RING_DATA && i < SHMT_MAX_CLIENTS; i++)
    out->n_pending += atomic_load_explicit(&r.pending[i], memory_order_relaxed);
  return 1;
}

/* How many messages wait in a subscriber's ring. False: the subscriber is gone. */
static bool read_lag(const shmt_inspector* o, const shmt__topic_slot* slot, uint32_t* out) {
  const uint64_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
  const uint32_t block = atomic_load_explicit(&slot->block, memory_order_relaxed);
  shmt__ring_header r;
  if (generation == 0 || block >= o->map.fixed.n_blocks || !read_ring(o, block, &r)) return false;
  /* If the block still has its generation, what was read belonged to the subscriber. */
  const seen s = read_block(&o->map, block);
  *out = ring_n_messages(&r);
  return s.state == SHMT_BLOCK_USED && s.generation == generation && s.n_holders > 0;
}

int shmt_inspector_topic(shmt_inspector* o, uint32_t block, shmt_topic_view* out) {
  shmt__topic_table t;
  uint64_t nbytes = 0;
  if (!has_arena(o) || !read_block_bytes(o, block, &t, sizeof t, &nbytes) || nbytes != sizeof t ||
      t.magic != SHMT_TOPIC_MAGIC || t.version != SHMT_TOPIC_VERSION)
    return 0;
  const uint64_t said = atomic_load_explicit(&t.said, memory_order_relaxed);
  const shmt__topic_wish wish = shmt__topic_wish_of(said);
  if (!shmt__topic_wish_is_valid(&wish)) return 0;
  const shmt__topic_kind kind = shmt__topic_kind_of(said);
  *out = (shmt_topic_view){.depth = kind.depth,
                           .history = kind.history,
                           .overflow = (uint32_t)kind.overflow,
                           .n_published = atomic_load_explicit(&t.n_published, memory_order_relaxed),
                           .n_lost = atomic_load_explicit(&t.n_lost, memory_order_relaxed)};
  const uint32_t end = bounded(atomic_load_explicit(&t.slots_end, memory_order_relaxed), SHMT_TOPIC_SLOTS);
  for (uint32_t i = 0; i < end; i++) {
    uint32_t lag = 0;
    if (!read_lag(o, &t.slots[i], &lag)) continue;
    out->n_subscribers++;
    lag = bounded(lag, SHMT_TOPIC_MOST_DEPTH);
    if (lag > out->lag) out->lag = lag;
  }
  return 1;
}

/* --- names --- */

static shmt_name_view view_of(const shmt__version* v) {
  return (shmt_name_view){.version = v->version,
                          .nbytes = v->nbytes,
                          .generation = v->generation,
                          .block = v->block,
                          .publisher = v->publisher,
                          .pid = v->pid,
                          .persists = (v->flags & SHMT_NAME_PERSISTS) != 0,
                          .kind = shmt__name_kind_of(v->flags),
                          .published_ms = v->published_ms};
}

int shmt_inspector_name(shmt_inspector* o, const char* name, shmt_name_view* out) {
  atomic_uint_least32_t* word = NULL;
  uint32_t sequence = 0;
  shmt__version v;
  if ((o->map.fixed.flags & SHMT_SESSION_SERVICE) == 0 || strlen(name) >= SHMT_NAME_BYTES ||
      !shmt__names_read(&o->map, name, &v, &word, &sequence))
    return 0;
  *out = view_of(&v);
  return 1;
}

uint32_t shmt_inspector_next_name(shmt_inspector* o, uint32_t first, shmt_name_view* out, char* name) {
  shmt__version v;
  if ((o->map.fixed.flags & SHMT_SESSION_SERVICE) == 0) return 0;
  for (uint32_t i = first; i < shmt__map_names_end(&o->map); i++)
    if (shmt__names_read_at(&o->map, i, &v, name)) {
      *out = view_of(&v);
      return i + 1;
    }
  return 0;
}

/* Does the block still have this generation? */
static bool is_current(const shmt_inspector* o, uint32_t block, uint64_t generation) {
  if (block >= o->map.fixed.n_blocks) return false;
  seen s = read_block(&o->map, block);
  return s.state == SHMT_BLOCK_USED && s.generation == generation;
}

uint32_t shmt_inspector_name_blocks(shmt_inspector* o, const shmt_name_view* name, uint32_t* out,
                                   uint32_t capacity) {
  shmt__description d;
  shmt__described_storage entry;
  if (!has_arena(o) || !is_current(o, name->block, name->generation)) return 0;
  uint64_t at = o->map.blocks[name->block].offset;
  int fd = shmt__descriptor_number(&o->arena);
  if (!shmt__os_read_at(fd, &d, sizeof d, at) || d.magic != SHMT_DESCRIPTION_MAGIC || d.n_storages > SHMT_MAX_STORAGES)
    return 0;
  for (uint64_t i = 0; i < d.n_storages && i < capacity; i++) {
    if (!shmt__os_read_at(fd, &entry, sizeof entry, at + sizeof d + i * sizeof entry)) return 0;
    out[i] = entry.block;
  }
  /* If the block is still current, what was read belonged to it. */
  return is_current(o, name->block, name->generation) ? (uint32_t)d.n_storages : 0;
}
