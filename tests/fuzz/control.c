/* tests/fuzz/control.c -- a member that writes over the tables of its session, and what becomes of
 * the others.
 *
 *   control --rounds N | --seconds N [--seed N] [--scribbles N]
 *
 * Each batch runs in a child process of its own, so that a crash or a hang is seen and its seed
 * said. It has a real manager, on a thread, and a client that allocates, sends, opens, publishes,
 * locks and forks through real sockets; between two steps words of the control file, of rings and
 * of descriptions are written over: with zero, one, all ones, what lies beside them, a neighbour's
 * value, anything. Every call may fail; none may crash or stand still. At the end of a batch a
 * successor tries to go on with what is left.
 */
#define _GNU_SOURCE
#include "api/error.h"
#include "api/inspect.h"
#include "api/service.h"
#include "api/shm.h"
#include "ipc/manager/manager.h"
#include "ipc/ring/ring.h"
#include "ipc/service/named_locks.h"
#include "ipc/service/service_internal.h"
#include "ipc/session/session.h"
#include "ipc/handle/export.h"
#include "ipc/handle/import.h"
#include "ipc/handle/share.h"
#include "os/clock.h"
#include "os/memfd.h"
#include "os/socket.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  ROUNDS = 40,    /* of a batch */
  BATCH_S = 30,   /* a batch that takes longer stands still */
  N_STORAGES = 12,
  N_HANDLES = 8,
  N_NAMES = 3,
  ARENA = 64 << 20,
  FILE_LIMIT = 80 << 20, /* makes the tables small, so that a batch begins quickly */
};

static uint64_t seed_state;

static uint64_t random_bits(void) {
  seed_state ^= seed_state << 13;
  seed_state ^= seed_state >> 7;
  seed_state ^= seed_state << 17;
  return seed_state * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}
static uint64_t below(uint64_t n) { return random_bits() % n; }

static void check(bool good, const char* what) {
  if (good) return;
  (void)fprintf(stderr, "control: %s: %s\n", what, shmt_error_message());
  _exit(3);
}

/* In memory that all batches share: how many calls were made, and how many did what they should. A
 * fuzzer whose client gets nothing done would find nothing. */
typedef struct tally {
  atomic_uint_least64_t n_calls, n_good;
} tally;
static tally* calls;

static bool counted(bool good) {
  atomic_fetch_add(&calls->n_calls, 1);
  if (good) atomic_fetch_add(&calls->n_good, 1);
  return good;
}
static bool ok(shmt_status status) { return counted(status == SHMT_OK); }

/* --- the manager --- */

static shmt__manager manager;
static atomic_bool is_ending;
static char address[64];

static unsigned n_turns; /* from one look of the manager's to the next: so long members see the damage */

static void* run_manager(void* arg) {
  (void)arg;
  for (unsigned i = 0; !atomic_load(&is_ending); i++) {
    if (i % n_turns == 0) manager.swept_ms = 0; /* its look is due */
    (void)shmt__manager_run_once(&manager, 1);
    manager.is_over = false;
  }
  return NULL;
}

static void start_manager(uint64_t session, pthread_t* out) {
  const shmt__arena_manager_options options = {
      .session = session, .arena_bytes = ARENA, .flags = SHMT_SESSION_SERVICE};
  (void)snprintf(address, sizeof address, "shmtensor-%u-%016llx", (unsigned)getuid(),
                 (unsigned long long)session);
  check(shmt__arena_manager_create(&options, &manager.arena_manager) == SHMT_OK &&
            shmt__manager_init(&manager, session, shmt__os_listen(address)) == SHMT_OK,
        "no manager");
  manager.stays = true;
  check(pthread_create(out, NULL, run_manager, NULL) == 0, "no thread");
}

/* --- the client --- */

static shmt_service* service;
static shmt__session* session;
static shmt__ring* rings[2];
static shmt_storage* storages[N_STORAGES];
static shmt__handle handles[N_HANDLES];
static volatile unsigned char sink;

static void touch(const shmt_storage* s) {
  const volatile unsigned char* data = s->data;
  if (s->nbytes == 0) return;
  sink = data[0];
  sink = data[s->nbytes - 1];
}

static void make_storage(void) {
  static const uint64_t sizes[] = {1, 100, 5000, 70000, 300000, 1 << 20, 3 << 20};
  shmt_storage** s = &storages[below(N_STORAGES)];
  bool is_file = below(6) == 0;
  if (*s != NULL) shmt_storage_release(*s);
  *s = NULL;
  if (!ok(shmt__storage_create_shared(sizes[below(7)] + below(50), is_file, s))) return;
  memset((*s)->data, 7, (*s)->nbytes);
}

static void send_handle(void) {
  shmt_storage* s = storages[below(N_STORAGES)];
  if (s != NULL) (void)ok(shmt__storage_export(s, true, &handles[below(N_HANDLES)], NULL));
}

static void open_handle(void) {
  shmt_storage* s = NULL;
  if (!ok(shmt__storage_import(&handles[below(N_HANDLES)], NULL, &s))) return;
  touch(s);
  shmt_storage** place = &storages[below(N_STORAGES)];
  if (*place != NULL) shmt_storage_release(*place);
  *place = s;
}

static void put_message(void) {
  shmt_storage* sent[4];
  char text[600] = {0};
  shmt__ring* ring = rings[below(2)];
  shmt__outgoing_message p = {.storages = sent, .parts = {text, text}};
  for (unsigned i = 0; i < 4; i++) {
    shmt_storage* s = storages[below(N_STORAGES)];
    if (s != NULL) sent[p.n_storages++] = s;
  }
  p.part_bytes[0] = (uint32_t)below(sizeof text);
  p.part_bytes[1] = (uint32_t)below(sizeof text);
  if (ring == NULL) return;
  if (below(3) == 0) {
    uint32_t n = 0;
    (void)shmt__ring_put_many(ring, &p, 1, &n);
    return;
  }
  (void)counted(shmt__ring_put(ring, &p, below(3) == 0 ? SHMT_RING_KEEP : 0,
                               shmt__os_now_ns() + below(2) * 3000000) != SHMT_RING_FAILED);
}

static void get_message(void) {
  shmt__received_message d[3];
  uint32_t n = 0;
  shmt__ring* ring = rings[below(2)];
  if (ring == NULL) return;
  (void)counted(shmt__ring_get(ring, d, 3, &n, below(2) == 0 ? 0 : shmt__os_now_ns() + 2000000) !=
                SHMT_RING_FAILED);
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t j = 0; j < d[i].n_storages; j++) touch(d[i].storages[j]);
    shmt__received_message_fini(&d[i]);
  }
  (void)shmt__ring_size(ring);
  (void)shmt__ring_task_done(ring);
  (void)shmt__ring_join(ring, 0);
  if (below(4) == 0) shmt__ring_forget_pending(ring, 1);
}

static const char* name_of(uint64_t i) {
  static const char* const names[N_NAMES] = {"alpha", "beta", "gamma"};
  return names[i % N_NAMES];
}

static void publish(void) {
  shmt_storage* sent[2] = {NULL, NULL};
  uint64_t version = 0;
  unsigned n = (unsigned)below(3);
  for (unsigned i = 0; i < n; i++) {
    if (shmt_service_new_storage(service, 1 + below(9000), &sent[i]) != SHMT_OK) n = i;
  }
  (void)ok(shmt_service_publish(service, name_of(below(9)), sent, n, "text", 4, below(2) == 0,
                                &version));
  for (unsigned i = 0; i < n; i++) shmt_storage_release(sent[i]);
  if (below(5) == 0) (void)shmt_service_unpublish(service, name_of(below(9)));
}

static void attach(void) {
  shmt_snapshot* snapshot = NULL;
  shmt_service_entry entry;
  shmt_service_counters counters;
  char name[SHMT_NAME_BYTES];
  uint32_t next = 0;
  if (ok(shmt_snapshot_open(service, name_of(below(9)), (int)below(3), &snapshot))) {
    uint64_t n_text = 0;
    const char* text = shmt_snapshot_text(snapshot, &n_text);
    if (n_text > 0) sink = (unsigned char)text[n_text - 1];
    for (uint64_t i = 0; i < shmt_snapshot_n_storages(snapshot); i++) {
      shmt_storage* s = shmt_snapshot_storage(snapshot, i);
      touch(s);
      shmt_storage_release(s);
    }
    shmt_snapshot_free(snapshot);
  }
  (void)shmt_service_find(service, name_of(below(9)), &entry);
  (void)shmt_service_entry_at(service, (uint32_t)below(40), &entry, name, &next);
  (void)shmt_service_wait(service, name_of(below(9)), 1, 1);
  (void)shmt_service_status(service, &counters);
}

static void use_named_locks(void) {
  uint32_t kind = below(2) == 0 ? SHMT_NAMED_LOCK_SEMAPHORE : SHMT_NAMED_LOCK_BARRIER, slot = 0;
  uint32_t phase = 0, value = 0;
  shmt__opened_lock lock;
  bool last = false;
  if (!ok(shmt__named_lock_open(service, kind == SHMT_NAMED_LOCK_BARRIER ? "barrier" : "lock", kind,
                                kind == SHMT_NAMED_LOCK_BARRIER ? 3 : 2, &lock)))
    return;
  (void)shmt__named_lock_value(service, &lock, &value);
  if (kind == SHMT_NAMED_LOCK_SEMAPHORE) {
    if (shmt__named_lock_acquire(service, &lock, 1, &slot) == SHMT_OK && below(3) != 0)
      (void)shmt__named_lock_release(service, &lock, slot);
  } else if (shmt__barrier_arrive(service, &lock, &slot, &phase, &last) == SHMT_OK) {
    if (shmt__barrier_wait(service, &lock, slot, phase, 1) != SHMT_OK)
      (void)shmt__barrier_withdraw(service, &lock, slot, phase);
  }
}

static void inspect_session(void) {
  enum { MOST = 64 };
  static shmt_client_view clients[MOST];
  static shmt_block_view blocks[MOST];
  shmt_inspector* o = NULL;
  shmt_session_view view;
  shmt_name_view name;
  shmt_queue_view queue;
  shmt_topic_view topic;
  uint32_t n = 0, next = 0, named[8];
  if (!ok(shmt_inspector_open(address, (uint32_t)getuid(), &o))) return;
  (void)shmt_inspector_count(o, &view, clients, MOST, &n);
  n = shmt_inspector_blocks(o, 0, blocks, MOST, &next);
  for (uint32_t i = 0; i < n; i++) (void)shmt_inspector_queue(o, blocks[i].block, &queue);
  if (shmt_inspector_name(o, name_of(below(9)), &name))
    (void)shmt_inspector_name_blocks(o, &name, named, 8);
  for (uint32_t i = 0; i < n; i++) (void)shmt_inspector_topic(o, blocks[i].block, &topic);
  if (below(4) == 0) {
    uint64_t bytes = 0;
    (void)shmt_inspector_trim(o, &bytes);
    (void)shmt_inspector_gc(o, below(2) == 0 ? 0 : 1000, &bytes);
  }
  shmt_inspector_clear(&o);
}

static void use_descriptors(void) {
  shmt_storage *s = storages[below(N_STORAGES)], *other = NULL;
  int fd = -1;
  if (s == NULL || shmt_storage_export_fd(s, &fd) != SHMT_OK) return;
  if (shmt_storage_import_fd(fd, s->nbytes, &other) == SHMT_OK) {
    touch(other);
    shmt_storage_release(other);
  }
  (void)close(fd);
}

static void step(void);
static void fork_child(void) {
  (void)fflush(NULL);
  pid_t pid = fork();
  int how = 0;
  if (pid < 0) return;
  if (pid == 0) {
    (void)alarm(BATCH_S);
    for (unsigned i = 0; i < N_STORAGES; i++)
      if (storages[i] != NULL) touch(storages[i]);
    for (int i = 0; i < 4; i++) step();
    _exit(0);
  }
  (void)waitpid(pid, &how, 0);
  if (how == 0) return;
  (void)fprintf(stderr, "control: a forked child ended with wait status %d\n", how);
  _exit(WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM ? 5 : 4);
}

static void step(void) {
  static void (*const steps[])(void) = {
      make_storage, make_storage, send_handle, send_handle, open_handle,     open_handle, put_message,
      put_message,  get_message,  publish,     attach,      use_named_locks,       inspect_session,     use_descriptors,
  };
  steps[below(sizeof steps / sizeof steps[0])]();
  shmt_error_clear();
}

static void start_client(void) {
  shmt_storage* s = NULL;
  check(shmt__ring_create(0, &rings[0]) == SHMT_OK && shmt__ring_create(3, &rings[1]) == SHMT_OK,
        "no rings");
  check(shmt_service_join(service, 1) == SHMT_OK, "no service");
  shmt__sessions_lock();
  check(shmt__session_open_default(&session) == SHMT_OK, "no session");
  shmt__sessions_unlock();
  for (int i = 0; i < 30; i++) make_storage();
  for (int i = 0; i < N_HANDLES; i++) send_handle();
  for (int i = 0; i < 8; i++) put_message();
  for (int i = 0; i < 3; i++) publish();
  for (int i = 0; i < 4; i++) use_named_locks();
  check(shmt__storage_create_shared(64, 0, &s) == SHMT_OK, "no storage");
}

/* --- the hostile member --- */

typedef struct region {
  char* at;
  size_t record, n; /* bytes of a record, records that are in use or nearly */
} region;

/* Where a ring's bytes, or a description's, lie. */
static region bytes_of(const shmt_storage* s, size_t n) {
  return (region){s->data, n, 1};
}

static region choose_region(void) {
  const shmt__map* m = &manager.arena_manager.map; /* where the parts are never changes */
  uint64_t kind = below(20);
  switch (kind) {
    case 0:
    case 1:
    case 2:
      return (region){(char*)m->control, sizeof(shmt__control), 1};
    case 3:
      return (region){(char*)m->clients, sizeof(shmt__client_entry), 8};
    case 4:
      return (region){(char*)m->clients, sizeof(shmt__client_entry), SHMT_MAX_CLIENTS};
    case 5:
    case 6:
    case 7:
      return (region){(char*)m->slabs, sizeof(shmt__slab), 24};
    case 8:
    case 9:
    case 10:
    case 11:
      return (region){(char*)m->blocks, sizeof(shmt__block), below(2) == 0 ? 64 : 3000};
    case 12:
      if (below(4) == 0) return (region){(char*)m->posix_names, sizeof(shmt__posix_name), 24};
      return (region){(char*)m->far_holds, sizeof(shmt__far_holds), 3000};
    case 13:
      return (region){(char*)m->lease_pages, sizeof(shmt__lease_page), 2};
    case 14:
      return (region){(char*)m->lease_pages, sizeof(shmt__lease), 60};
    case 15:
      return (region){(char*)m->names, sizeof(shmt__name), 1 + shmt__map_names_end(m) / 2};
    case 16:
      if (below(3) == 0) return (region){(char*)m->name_buckets, sizeof(uint64_t), 2048}; /* two at once */
      return below(3) == 0 ? (region){(char*)m->names_head, sizeof(shmt__names_head), 1}
                           : (region){(char*)m->named_locks, sizeof(shmt__named_lock), 1 + shmt__map_named_locks_end(m) / 2};
    case 17:
      return bytes_of(rings[below(2)]->storage, 320);
    case 18:
      return bytes_of(rings[below(2)]->storage, SHMT_RING_DATA + 4096);
    default: {
      shmt__version v;
      char name[SHMT_NAME_BYTES];
      uint32_t end = shmt__map_blocks_end(m), at = (uint32_t)below(shmt__map_names_end(m) + 1);
      uint64_t offset;
      if (session->base == NULL || !shmt__names_read_at(m, at, &v, name) || v.block >= end)
        return (region){(char*)m->sites, sizeof(shmt__site), 16};
      offset = m->blocks[v.block].offset;
      if (offset > ARENA / 2) return (region){(char*)m->names, sizeof(shmt__name), 1 + shmt__map_names_end(m) / 2};
      return (region){session->base + offset, 96, 1};
    }
  }
}

static uint64_t choose_value(const region* r, const char* at, size_t width) {
  uint64_t now = 0, bits = random_bits();
  memcpy(&now, at, width);
  switch (below(14)) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return UINT64_MAX;
    case 3:
      return now + 1;
    case 4:
      return now - 1;
    case 5:
      return now ^ UINT64_C(1) << below(width * 8);
    case 6:
      return now + below(200);
    case 7:
      return UINT64_C(1) << below(64);
    case 8:
      return below(4096);
    case 9:
      return (SHMT_RING_DATA + SHMT_RING_CAPACITY) | SHMT_BLOCK_IS_RING;
    case 10:
      return below(1 << 20) << 6;
    case 11:
    case 12: /* a neighbour's */
      memcpy(&now, r->at + below(r->n * r->record / width) * width, width);
      return now;
    default:
      return bits << below(40) ^ bits >> below(40);
  }
}

static void scribble(void) {
  region r = choose_region();
  size_t width = below(2) == 0 ? 4 : 8;
  char* at = r.at + below(r.n) * r.record + below(r.record / width) * width;
  uint64_t value = choose_value(&r, at, width);
  if (below(40) == 0) { /* a whole record of noise */
    char* record = r.at + below(r.n) * r.record;
    for (size_t i = 0; i + 4 <= r.record; i += 4) {
      uint32_t noise = (uint32_t)random_bits();
      memcpy(record + i, &noise, 4);
    }
  } else if (below(8) == 0) { /* to and fro, under the eyes of who reads it */
    uint64_t was = 0;
    memcpy(&was, at, width);
    for (int i = 0; i < 300; i++) {
      memcpy(at, i % 2 == 0 ? &value : &was, width);
      __asm__ volatile("" ::: "memory");
      for (int j = 0; j < 40; j++) shmt__os_pause();
    }
  } else {
    memcpy(at, &value, width);
  }
}

/* --- a batch --- */

/* As after a kill: the successor goes on, or says that it cannot. */
static void try_successor(uint64_t id) {
  static shmt__manager next;
  int control = shmt__os_reopen(manager.arena_manager.control_fd);
  int arena = shmt__os_dup(manager.arena_manager.arena_fd);
  char other[80];
  (void)snprintf(other, sizeof other, "%s-next", address);
  if (!ok(shmt__arena_manager_adopt(id, control, arena, &next.arena_manager))) return;
  check(shmt__manager_init(&next, id, shmt__os_listen(other)) == SHMT_OK, "no successor");
  next.stays = true;
  for (int i = 0; i < 3; i++) {
    next.swept_ms = 0;
    (void)shmt__manager_run_once(&next, 0);
    shmt__arena_manager_sweep(&next.arena_manager, true);
    scribble();
  }
}

static void run_batch(uint64_t seed, unsigned n_scribbles) {
  pthread_t thread;
  struct rlimit limit = {FILE_LIMIT, FILE_LIMIT};
  (void)alarm(BATCH_S);
  (void)signal(SIGXFSZ, SIG_IGN);
  (void)setrlimit(RLIMIT_FSIZE, &limit);
  seed_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
  for (int i = 0; i < 8; i++) (void)random_bits();
  char name[64];
  (void)snprintf(name, sizeof name, "fuzz-control-%d-%llu", (int)getpid(),
                 (unsigned long long)seed);
  check(shmt_service_create(name, NULL, getuid(), 0, &service) == SHMT_OK, "no service");
  (void)shmt_sharing_configure("/nonexistent/shmtensor-manager", service->key.id, 0);
  n_turns = below(2) == 0 ? 1 : 1 + (unsigned)below(200);
  start_manager(service->key.id, &thread);
  start_client();
  for (int i = 0; i < ROUNDS; i++) {
    for (uint64_t n = 1 + below(n_scribbles); n > 0; n--) scribble();
    for (uint64_t n = 1 + below(4); n > 0; n--) step();
    if (below(20) == 0) fork_child();
  }
  atomic_store(&is_ending, true);
  (void)pthread_join(thread, NULL);
  try_successor(service->key.id);
  _exit(0);
}

static int explain(uint64_t seed, int how) {
  if (how == 0) return 0;
  if (WIFSIGNALED(how))
    (void)printf("seed %llu: ended by signal %d%s\n", (unsigned long long)seed, WTERMSIG(how),
                 WTERMSIG(how) == SIGALRM ? ": it stood still" : "");
  else
    (void)printf("seed %llu: exit status %d\n", (unsigned long long)seed, WEXITSTATUS(how));
  (void)fflush(stdout);
  return 1;
}

int main(int argc, char** argv) {
  uint64_t rounds = UINT64_MAX, seconds = UINT64_MAX, seed = 1, n_scribbles = 3, done = 0;
  int found = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t n = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--rounds") == 0) rounds = n;
    if (strcmp(argv[i], "--seconds") == 0) seconds = n;
    if (strcmp(argv[i], "--seed") == 0) seed = n;
    if (strcmp(argv[i], "--scribbles") == 0) n_scribbles = n;
  }
  uint64_t begun = shmt__os_now_ms();
  calls = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (calls == MAP_FAILED) return 2;
  while (done < rounds && (seconds == UINT64_MAX || shmt__os_now_ms() - begun < seconds * 1000)) {
    int how = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) run_batch(seed, (unsigned)n_scribbles);
    if (pid < 0 || waitpid(pid, &how, 0) != pid) return 2;
    found += explain(seed, how);
    done += ROUNDS;
    seed++;
    if (found >= 20) break;
  }
  (void)printf("%llu rounds in %llu s, %llu of %llu calls succeeded, %d batches failed\n",
               (unsigned long long)done, (unsigned long long)((shmt__os_now_ms() - begun) / 1000),
               (unsigned long long)atomic_load(&calls->n_good),
               (unsigned long long)atomic_load(&calls->n_calls), found);
  return found > 0;
}
