/* tests/fuzz/fuzz_manager.c -- a manager that is told anything by several connections at once.
 *
 * The input is a list of acts: connect, send a packet (genuine, with fields changed, or raw bytes,
 * with any descriptors), use the memory, hang up, have the manager sweep it. The manager and its arena manager are
 * the real ones, on real sockets. After each input a successor must be able to take the files over
 * and find the same memory granted, and no descriptor may be left.
 */
#define _GNU_SOURCE
#include "ipc/manager/manager.h"
#include "os/memfd.h"
#include "os/process.h"
#include "os/socket.h"
#include "shm/block.h"
#include "shm/lease.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_PEERS = 5, N_FILES = 4, ARENA = 64 << 20 };
static const uint64_t session = UINT64_C(0x123456789abcdef);

typedef struct input {
  const uint8_t* at;
  size_t left;
} input;

/* What a peer was told last: the values of its next genuine request. */
typedef struct peer {
  int fd; /* -1: not connected */
  shmt__packet known;
  shmt__lease_cursor leases;
  shmt__lease_ticket ticket;
} peer;

static char address[64];
static int files[N_FILES]; /* what peers send as descriptors */

int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

static void check(bool good, const char* what) {
  if (good) return;
  (void)fprintf(stderr, "fuzz_manager: %s\n", what);
  abort();
}

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  (void)argc;
  (void)argv;
  (void)snprintf(address, sizeof address, "shmtensor-fuzz-%d", (int)getpid());
  check(shmt__os_memfd_create("small", 4096, &files[0]) == SHMT_OK &&
            shmt__os_memfd_create("large", 1 << 20, &files[1]) == SHMT_OK,
        "no memory files");
  files[2] = memfd_create("unsealed", MFD_CLOEXEC);
  files[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
  return 0;
}

static uint8_t take(input* in) {
  if (in->left == 0) return 0;
  in->left--;
  return *in->at++;
}

static uint64_t take_number(input* in) {
  uint64_t bits = 0;
  for (unsigned n = take(in) % 9; n > 0; n--) bits = bits << 8 | take(in);
  return bits;
}

/* A field of a request: as it was told, nothing, anything, or nearly right. */
static uint64_t vary(input* in, unsigned how, uint64_t genuine) {
  if (how == 0) return genuine;
  if (how == 1) return 0;
  return how == 2 ? take_number(in) : genuine + 1;
}

static void send_packet(input* in, const peer* p) {
  shmt__packet packet = p->known;
  unsigned type = take(in), how = take(in) | (unsigned)take(in) << 8, n_fds = take(in) % 6;
  int fds[5];
  packet.magic = SHMT_WIRE_MAGIC;
  packet.version = SHMT_WIRE_VERSION;
  packet.type = (uint16_t)(type % 24);
  packet.session = vary(in, how & 3, session);
  packet.client = (uint32_t)vary(in, how >> 2 & 3, p->known.client);
  packet.incarnation = vary(in, how >> 6 & 3, p->known.incarnation);
  packet.block = (uint32_t)vary(in, how >> 8 & 3, p->known.block);
  packet.generation = vary(in, how >> 10 & 3, p->known.generation);
  packet.nbytes = vary(in, how >> 12 & 3, 4096);
  packet.count = vary(in, how >> 14 & 3, 8);
  for (unsigned i = 0; i < 5; i++) fds[i] = files[(type / 24 + i) % N_FILES];
  (void)shmt__os_send(p->fd, &packet, sizeof packet, fds, (int)(n_fds > 4 ? 4 : n_fds));
}

static void send_raw(input* in, const peer* p) {
  uint8_t bytes[512];
  size_t n = take(in) * 2u;
  for (size_t i = 0; i < n; i++) bytes[i] = take(in);
  (void)shmt__os_send(p->fd, bytes, n, files, take(in) % 2);
}

static void read_replies(peer* p) {
  shmt__packet reply;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  while (shmt__os_receive(p->fd, &reply, sizeof reply, fds, &n_fds, NULL) == (int)sizeof reply) {
    for (int i = 0; i < n_fds; i++) shmt__os_close(fds[i]);
    check(reply.magic == SHMT_WIRE_MAGIC && (reply.type & SHMT_MESSAGE_REPLY) != 0 &&
              reply.text[SHMT_WIRE_TEXT - 1] == '\0',
          "a reply is none");
    if (reply.status != SHMT_OK) continue;
    uint64_t incarnation = reply.incarnation != 0 ? reply.incarnation : p->known.incarnation;
    p->known = reply;
    p->known.incarnation = incarnation;
  }
}

/* A client at work in the memory it was granted, or thinks it was. */
static void use_memory(input* in, shmt__manager* m, peer* p) {
  const shmt__map* map = &m->arena_manager.map;
  uint32_t end = shmt__map_blocks_end(map);
  uint8_t how = take(in);
  uint64_t generation = 0;
  if (end == 0 || p->known.client == 0 || p->known.client >= SHMT_MAX_CLIENTS) return;
  uint32_t block = (p->known.block + how / 8) % end;
  const shmt__block* b = &map->blocks[block];
  generation = shmt__head_generation(atomic_load(&b->head));
  if (how % 8 == 0) (void)shmt__block_take(map, block, p->known.client, b->capacity, &generation);
  if (how % 8 == 1) shmt__block_unhold(map, block, p->known.client);
  if (how % 8 == 2) (void)shmt__block_reclaim(map, block, p->known.client);
  if (how % 8 == 3) {
    shmt__descriptor control = shmt__descriptor_own(shmt__os_dup(m->arena_manager.control_fd));
    (void)shmt__lease_take(map, &control, &p->leases, p->known.client, block, generation, 0,
                           &p->ticket);
    shmt__descriptor_close(&control);
  }
  if (how % 8 == 4) (void)shmt__lease_end(map, &p->ticket, p->known.client);
  if (how % 8 == 5) (void)shmt__block_hold(map, block, p->known.client, generation);
  shmt__map_note_activity(&m->arena_manager.map);
}

static void act(input* in, shmt__manager* m, peer* peers) {
  uint8_t what = take(in);
  peer* p = &peers[what / 8 % N_PEERS];
  if (p->fd < 0) {
    p->fd = shmt__os_connect(address);
    p->known = (shmt__packet){0};
    (void)shmt__manager_run_once(m, 0);
    if (p->fd < 0) return;
  }
  switch (what % 8) {
    case 0:
      shmt__os_close(p->fd);
      p->fd = -1;
      break;
    case 1:
      send_raw(in, p);
      break;
    case 2:
      shmt__arena_manager_sweep(&m->arena_manager, true);
      break;
    case 3:
      use_memory(in, m, p);
      break;
    default:
      send_packet(in, p);
  }
  (void)shmt__manager_run_once(m, 0);
  m->is_over = false; /* who took over does not go on */
  if (p->fd >= 0) read_replies(p);
}

/* As after a kill: what lies in the control file must make sense to the next one. */
static void check_successor(const shmt__arena_manager* k) {
  shmt__arena_manager next;
  int control = shmt__os_dup(k->control_fd), arena = shmt__os_dup(k->arena_fd);
  check(shmt__arena_manager_adopt(session, control, arena, &next) == SHMT_OK, "a successor refuses");
  check(next.granted_bytes == k->granted_bytes, "a successor finds other memory granted");
  shmt__arena_manager_fini(&next);
}

static void end_manager(shmt__manager* m) {
  for (uint32_t i = 0; i < SHMT_MANAGER_CONNECTIONS; i++) shmt__os_close(m->connections[i].fd);
  for (uint32_t i = 0; i < SHMT_MAX_CLIENTS; i++) shmt__os_close(m->clients[i].pidfd);
  shmt__os_close(m->epoll);
  shmt__os_close(m->spare);
  shmt__os_close(m->leader);
  shmt__os_close(m->listener);
  shmt__os_close(m->reading_fd);
  shmt__names_fini(&m->names);
  shmt__arena_manager_fini(&m->arena_manager);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static shmt__manager m;
  input in = {data, size};
  peer peers[N_PEERS];
  int first_free = shmt__os_dup(files[0]);
  shmt__os_close(first_free);
  m = (shmt__manager){0};
  for (int i = 0; i < N_PEERS; i++) peers[i] = (peer){.fd = -1};
  const shmt__arena_manager_options options = {
      .session = session, .arena_bytes = ARENA, .flags = SHMT_SESSION_SERVICE};
  check(shmt__arena_manager_create(&options, &m.arena_manager) == SHMT_OK &&
            shmt__manager_init(&m, session, shmt__os_listen(address)) == SHMT_OK,
        "no manager");
  while (in.left > 0) act(&in, &m, peers);
  for (int i = 0; i < N_PEERS; i++) shmt__os_close(peers[i].fd);
  (void)shmt__manager_run_once(&m, 0);
  check_successor(&m.arena_manager);
  end_manager(&m);
  int now_free = shmt__os_dup(files[0]);
  shmt__os_close(now_free);
  check(now_free == first_free, "a descriptor is left open");
  return 0;
}
