/* ipc/session/join.c -- joins a session, rejoins it after its manager was killed, and sends requests to the manager. */
#include "ipc/session/join.h"

#include "ipc/session/launch.h"
#include "ipc/session/request.h"
#include "os/clock.h"
#include "os/failpoint.h"
#include "os/lock.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "os/users.h"
#include "shm/block.h"
#include "shm/client.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
  ANSWER_MS = 30000, /* how long to wait for a stopped manager */
  JOIN_MS = 10000,
};

/* Has this process joined before? Then it has the maps, whatever became of its descriptors. */
static bool is_member(const shmt__session* s) { return s->map.control != NULL; }

/* Nobody listens: start a manager. When another process starts one first that is fine, the caller connects again. */
static shmt_status start_manager(const shmt__session* s, bool may_create) {
  const shmt__session* member = is_member(s) ? s : NULL;
  const shmt__launch how = {
      .listener = -1, .limit_bytes = shmt__sessions_limit_bytes(), .may_create = may_create};
  SHMT_REQUIRE(s->key.owner == shmt__os_uid(), SHMT_E_MANAGER,
               "no manager serves session %016" PRIx64 "%s%s, and only its user %" PRIu32
               " can start one",
               s->id, s->key.path[0] != '\0' ? " at " : "", s->key.path, s->key.owner);
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
                        .incarnation = s->incarnation};
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

/* Map what the manager sent. Consumes the descriptors. The control file is mapped through a description of its own: a
 * map, which children inherit, would keep the lock of the other one. Note [Told by the manager] in session.h. */
static shmt_status open_files(shmt__session* s, const shmt__packet* reply, int control_fd, int arena_fd, int map_fd) {
  void* base = NULL;
  shmt__map map = {0};
  bool reading = s->key.is_reader;
  shmt_status status = shmt__map_open_of(map_fd, s->key.owner, &map);
  shmt__os_close(map_fd);
  if (status == SHMT_OK) status = shmt__map_believe(&map, s->id, reply->incarnation, (uint32_t)reply->flags);
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
  s->control = shmt__descriptor_own(control_fd);
  s->lock_pin = shmt__os_pin_locks(shmt__descriptor_number(&s->control));
  s->arena_file = shmt__descriptor_own(arena_fd);
  s->held_blocks = held_blocks;
  shmt__arena_init(&s->arena, &s->map, (shmt__slab_source){grant_slab, give_back_slab, s});
  s->arena.file = &s->arena_file;
  s->arena.base = s->base;
  s->arena.client = s->client;
  return SHMT_OK;
}

/* Put a descriptor of the arena in the place of ours, if that is gone. Consumes fd. */
static void keep_arena(shmt__session* s, int fd) {
  if (shmt__descriptor_number(&s->arena_file) < 0 && shmt__arena_matches(&s->map, fd))
    shmt__descriptor_replace(&s->arena_file, shmt__descriptor_own(fd));
  else
    shmt__os_close(fd);
}

/* Put a descriptor that has the lock of our number in the place of ours. Consumes fd. */
static void keep_control(shmt__session* s, int fd) {
  shmt__os_unpin_locks(s->lock_pin);
  shmt__descriptor_replace(&s->control, shmt__descriptor_own(fd));
  s->lock_pin = shmt__os_pin_locks(shmt__descriptor_number(&s->control));
}

/* What this process has in named locks under its old number becomes the new one's: Note [Named locks] in shm/names.h.
 * The old number is still locked, so it is nobody else's, and the manager does not empty its slots. Whoever takes a
 * slot in this process has the sessions' lock, as we have. */
static void keep_slots(shmt__session* s, uint32_t old) {
  const uint32_t end = s->key.is_service ? shmt__map_named_locks_end(&s->map) : 0; /* others have no pages there */
  for (uint32_t i = 0; i < end; i++) {
    for (unsigned j = 0; j < SHMT_NAMED_LOCK_SLOTS; j++) {
      uint64_t mine = old;
      /* seq_cst: the manager that finds the old number free sees the new one here. */
      if (atomic_load_explicit(&s->map.named_locks[i].slots[j], memory_order_relaxed) == old)
        (void)atomic_compare_exchange_strong_explicit(&s->map.named_locks[i].slots[j], &mine, s->client,
                                                      memory_order_seq_cst, memory_order_relaxed);
    }
  }
}

/* If the block was freed meanwhile, its generation becomes 0, which fits no handle. */
static void hold_again(shmt__held_block* h, void* arg) {
  shmt__session* s = arg;
  if (!shmt__block_hold(&s->map, h->block, s->client, h->generation)) {
    h->generation = 0;
    s->has_lost_blocks = true;
  }
  h->owned_in = 0;
}

void shmt__session_hold_again(shmt__session* s, int new_control_fd) {
  s->leases.has_page = false;
  shmt__session_each_held_block(s, hold_again, s);
  /* Only now: until here the leases of our token, or the lock of our old descriptor, may have kept our blocks. */
  if (s->token != 0) {
    shmt__leases_end_channel(&s->map, shmt__channel(SHMT_CHANNEL_LOCK, s->token), s->client);
    shmt__token_release(shmt__descriptor_number(&s->control), s->token);
    s->token = 0;
  }
  if (new_control_fd >= 0) keep_control(s, new_control_fd);
}

static void send_file(shmt__session* s, uint32_t block, uint64_t generation, int fd) {
  shmt__packet p = make_packet(s, SHMT_MESSAGE_RESTORE_FILE);
  p.block = block;
  p.generation = generation;
  (void)shmt__session_send(s, &p, &fd, 1);
}

/* Is the client number of a reply to HELLO one that this process can have? It becomes an index. had: the number that
 * the process showed, which it keeps; 0: none. */
static bool is_number_for(const shmt__packet* reply, uint32_t had) {
  return had != 0 ? reply->client == had : shmt__client_is_number(reply->client);
}

/* Send HELLO on a new connection, which becomes the session's. *lost: try again. Who has no descriptor with the lock of
 * its number, or is not known to the manager, gets another number, with new descriptors. */
static shmt_status say_hello(shmt__session* s, const shmt__descriptor* socket, bool* lost) {
  shmt__packet p = make_packet(s, SHMT_MESSAGE_HELLO), reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  int new_control_fd = -1, control = shmt__descriptor_number(&s->control);
  bool was_member = is_member(s);
  p.count = s->key.is_reader;
  if (control < 0) p.client = 0;
  shmt_status status = shmt__request(s, socket, &p, &control, p.client != 0 ? 1 : 0, &reply, fds, &n_fds,
                                 ANSWER_MS, lost);
  if (status == SHMT_E_KEY && p.client != 0) {
    /* The manager does not know us: join as a new client, and see whether it has our incarnation. */
    p.serial = ++s->serial;
    p.client = 0;
    status = shmt__request(s, socket, &p, NULL, 0, &reply, fds, &n_fds, ANSWER_MS, lost);
  }
  if (status != SHMT_OK) return status;
  bool is_new_id = p.client == 0;
  if (!is_number_for(&reply, p.client)) {
    for (int i = 0; i < n_fds; i++) shmt__os_close(fds[i]);
    SHMT_FAIL(SHMT_E_MANAGER, "the manager says that this process is client %" PRIu32 " of %d, and it is %" PRIu32,
              reply.client, SHMT_MAX_CLIENTS, p.client);
  }
  if (is_new_id && n_fds != 3) *lost = true;
  if (is_new_id && n_fds == 3 && !was_member) {
    s->client = reply.client;
    status = open_files(s, &reply, fds[0], fds[1], fds[2]);
  } else if (is_new_id && n_fds == 3 && reply.incarnation == s->incarnation) {
    new_control_fd = fds[0];
    keep_arena(s, fds[1]);
    shmt__os_close(fds[2]);
  } else {
    for (int i = 0; i < n_fds; i++) shmt__os_close(fds[i]);
    if (was_member && reply.incarnation != s->incarnation) {
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
  const uint32_t old = s->client;
  s->client = s->arena.client = reply.client;
  s->incarnation = reply.incarnation;
  shmt__session_write_label(s);
  /* Also when it is the number that we had before: our holds were cleared with it. */
  if (was_member && is_new_id) {
    /* The program closed our descriptor, and our map keeps its lock. Else the manager did not know us, or finds at any
     * moment that nobody has the old number. */
    if (old != 0 && control < 0 && s->lock_pin != NULL)
      keep_slots(s, old);
    else
      atomic_fetch_add_explicit(&s->membership, 1, memory_order_relaxed);
    shmt__arena_reset(&s->arena);
    shmt__session_hold_again(s, new_control_fd);
  }
  /* Only now: until here the old connection may have kept our blocks. */
  shmt__descriptor_replace(&s->socket, *socket);
  /* A new manager gets the files that only its predecessor and we had. */
  if (was_member && s->files != NULL) s->files->each_descriptor(s, send_file);
  return SHMT_OK;
}

/* A service that ended in order must not be continued by those who still have its memory. */
static shmt_status check_not_ended(shmt__session* s) {
  if (!is_member(s) || atomic_load_explicit(&s->map.control->ended, memory_order_acquire) == 0)
    return SHMT_OK;
  s->is_lost = true;
  SHMT_FAIL(SHMT_E_MANAGER, "service %016" PRIx64 " has ended; its tensors stay usable here",
            s->id);
}

static shmt_status fail_refused(const shmt__session* s) {
  SHMT_FAIL(SHMT_E_MANAGER,
            "user %" PRIu32 " may not join user %" PRIu32 "'s session %016" PRIx64 "%s%s%s; serve it with --group",
            shmt__os_uid(), s->key.owner, s->id, s->key.path[0] != '\0' ? " (" : "", s->key.path,
            s->key.path[0] != '\0' ? ")" : "");
}

shmt_status shmt__session_join(shmt__session* s, bool may_create) {
  const uint64_t deadline_ms = shmt__request_deadline(JOIN_MS);
  int err = 0;
  SHMT_TRY(shmt__os_check_own_user());
  do {
    err = shmt__session_connect(&s->key);
    if (err >= 0) {
      bool lost = false;
      shmt__descriptor socket = shmt__descriptor_own(err);
      shmt_status status = say_hello(s, &socket, &lost);
      if (status == SHMT_OK && !lost) return SHMT_OK;
      shmt__descriptor_close(&socket);
      if (!lost) return status;
      if (s->key.owner != shmt__os_uid()) return fail_refused(s);
      err = -SHMT_OS_REFUSED; /* it was just ending */
    } else if (err == -SHMT_OS_REFUSED) {
      SHMT_TRY(check_not_ended(s));
      SHMT_TRY(start_manager(s, may_create));
      continue;
    } else if (err != -SHMT_OS_AGAIN) {
      break;
    }
    shmt__os_sleep_ms(2);
  } while (shmt__os_now_ms() < deadline_ms);
  if (err == -SHMT_OS_DENIED && s->key.owner != shmt__os_uid()) return fail_refused(s);
  if (shmt__os_is_out_of_descriptors(-err))
    return shmt__fail_errno(-err, "cannot join session %016" PRIx64, s->id);
  char address[SHMT_SOCKET_PATH_BYTES];
  shmt__session_write_address(&s->key, address, sizeof address);
  SHMT_FAIL(SHMT_E_MANAGER, "cannot reach the manager of session %016" PRIx64 " at %s%s: error %d", s->id,
            s->key.path[0] == '\0' ? "@" : "", address, -err);
}

/* Is the descriptor with the lock of our number gone, or the connection? A connection that the program closed a moment
 * ago is found by whoever uses it. */
static bool is_cut_off(const shmt__session* s) {
  return !shmt__descriptor_is_kept(&s->socket) || shmt__descriptor_number(&s->control) < 0;
}

/* The body of shmt__session_call: this thread is the requester. Managers may be killed one after the other, so what
 * bounds the attempts is time; a pause between them leaves the next manager a chance. */
static shmt_status call(shmt__session* s, const shmt__packet* request, const int* fds, int n_fds,
                        shmt__packet* reply, int* out_fds, int* n_out_fds) {
  enum { MOST_PAUSE_MS = 64 };
  const uint64_t deadline_ms = shmt__request_deadline(JOIN_MS);
  shmt__packet p = *request;
  for (unsigned pause_ms = 1;; pause_ms = pause_ms < MOST_PAUSE_MS ? 2 * pause_ms : MOST_PAUSE_MS) {
    bool lost = false;
    SHMT_REQUIRE(!s->is_lost, SHMT_E_MANAGER,
                 "session %016" PRIx64 " was begun anew by another manager", s->id);
    if (is_cut_off(s)) SHMT_TRY(shmt__session_join(s, true));
    p.serial = ++s->serial;
    p.client = s->client; /* it may have changed since the caller wrote it */
    const shmt_status status =
        shmt__request(s, &s->socket, &p, fds, n_fds, reply, out_fds, n_out_fds, ANSWER_MS, &lost);
    if (!lost) return status;
    shmt__descriptor_close(&s->socket);
    if (shmt__os_now_ms() >= deadline_ms) return status;
    if (pause_ms > 1) shmt__os_sleep_ms(pause_ms);
  }
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

shmt_status shmt__session_reconnect(shmt__session* s) {
  shmt__packet request = make_packet(s, SHMT_MESSAGE_STATUS), reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  /* No request is open, so if the socket can be read the connection has ended. */
  if (s->is_lost || shmt__request_is_waiting()) return SHMT_OK;
  int fd = shmt__descriptor_number(&s->socket);
  if (fd >= 0 && !is_cut_off(s) && shmt__os_wait_readable(fd, 0) == 0) return SHMT_OK;
  return shmt__session_call(s, &request, NULL, 0, &reply, fds, &n_fds);
}

shmt_status shmt__session_get_arena(shmt__session* s, bool writing, int* out_fd) {
  shmt__packet p = make_packet(s, SHMT_MESSAGE_GET_ARENA), reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  p.count = writing;
  SHMT_TRY(shmt__session_call(s, &p, NULL, 0, &reply, fds, &n_fds));
  bool good = n_fds == 1 && shmt__arena_matches(&s->map, fds[0]);
  for (int i = good ? 1 : 0; i < n_fds; i++) shmt__os_close(fds[i]);
  SHMT_REQUIRE(good, SHMT_E_MANAGER,
               "the manager sent an arena that does not belong to its control file");
  *out_fd = fds[0];
  return SHMT_OK;
}

shmt_status shmt__session_arena_number(shmt__session* s, int* out_fd) {
  int fd = shmt__descriptor_number(&s->arena_file);
  if (fd < 0) {
    SHMT_TRY(shmt__session_get_arena(s, s->base != NULL, &fd));
    keep_arena(s, fd);
    fd = shmt__descriptor_number(&s->arena_file);
  }
  SHMT_REQUIRE(fd >= 0, SHMT_E_OS, "the program closes the descriptors of session %016" PRIx64, s->id);
  *out_fd = fd;
  return SHMT_OK;
}
