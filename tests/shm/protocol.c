/* tests/shm/protocol.c -- threads as clients on one table of blocks; built with ThreadSanitizer.
 *
 * Each thread takes free blocks, fills them, leases them into mailboxes, and opens what others
 * left there; one thread only reclaims, as the manager does. A block's bytes are plain memory, so
 * the sanitizer reports it when a block changes hands without an order, and the fill pattern shows
 * two owners. Exit status 0 when all is well.
 */
#include "shm/block.h"
#include "shm/lease.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_THREADS = 4, N_BLOCKS = 6, N_MAILBOXES = 3, N_WORDS = 8, N_PAGES = 8, N_CLIENTS = 1024 };

typedef struct message {
  uint64_t generation;
  uint32_t block;
  shmt__lease_ticket lease;
  uint64_t value;
} message;

static shmt__control control;
static shmt__client_entry clients[N_CLIENTS];
static shmt__block blocks[N_BLOCKS];
static shmt__far_holds far_holds[SHMT_HOLD_PLANES * N_BLOCKS];
static shmt__lease_page lease_pages[N_PAGES];
static const shmt__map map = {.control = &control,
                              .fixed = {.n_blocks = N_BLOCKS},
                              .clients = clients,
                              .blocks = blocks,
                              .n_lease_pages = N_PAGES,
                              .lease_pages = lease_pages,
                              .far_holds = far_holds};
static _Thread_local shmt__lease_cursor cursor;
static uint64_t words[N_BLOCKS][N_WORDS];
static _Atomic(message*) mailboxes[N_MAILBOXES];
static atomic_int failed, running, n_opened;
static long n_turns;

static void fail(const char* what) {
  (void)fprintf(stderr, "protocol: %s\n", what);
  atomic_store(&failed, 1);
}

static void check(uint32_t block, uint64_t value, const char* what) {
  for (int i = 0; i < N_WORDS; i++)
    if (words[block][i] != value) fail(what);
}

static shmt__lease_ticket lease(unsigned client, uint32_t block, uint64_t generation) {
  static const shmt__descriptor none = SHMT_NO_DESCRIPTOR;
  shmt__lease_ticket t = {0};
  if (shmt__lease_take(&map, &none, &cursor, client, block, generation, 0, &t) != SHMT_OK)
    fail("no room for a lease");
  return t;
}

static void send_block(unsigned client, uint32_t block, uint64_t value) {
  uint64_t generation = 0;
  if (!shmt__block_take(&map, block, client, sizeof words[block], &generation)) {
    (void)shmt__block_reclaim(&map, block, client);
    return;
  }
  for (int i = 0; i < N_WORDS; i++) words[block][i] = value;
  message* m = malloc(sizeof *m);
  *m = (message){generation, block, lease(client, block, generation), value};
  message* old = atomic_exchange(&mailboxes[value % N_MAILBOXES], m);
  check(block, value, "changed under its maker");
  shmt__block_unhold(&map, block, client);
  (void)shmt__block_reclaim(&map, block, client);
  if (old != NULL) { /* nobody read it */
    (void)shmt__lease_end(&map, &old->lease, client);
    free(old);
  }
}

static void open_message(unsigned client, message* m) {
  if (!shmt__block_hold(&map, m->block, client, m->generation)) {
    fail("a leased block was gone");
    return;
  }
  if (!shmt__lease_end(&map, &m->lease, client)) fail("a lease had ended before");
  if (shmt__lease_end(&map, &m->lease, client)) fail("a lease was ended twice");
  check(m->block, m->value, "changed before it was read");
  if (m->value % 3 == 0) { /* pass it on: hold to lease to hold */
    shmt__lease_ticket first = m->lease;
    m->lease = lease(client, m->block, m->generation);
    if (shmt__lease_end(&map, &first, client)) fail("a message ended the lease of another");
    shmt__block_unhold(&map, m->block, client);
    if (!shmt__block_hold(&map, m->block, client, m->generation)) fail("a forwarded block was gone");
    (void)shmt__lease_end(&map, &m->lease, client);
    check(m->block, m->value, "changed while forwarded");
  }
  shmt__block_unhold(&map, m->block, client);
  if (shmt__block_hold(&map, m->block, client, m->generation + 1000)) fail("a stale handle fitted");
  atomic_fetch_add(&n_opened, 1);
}

static void* work(void* arg) {
  unsigned client = *(const unsigned*)arg;
  uint64_t state = client * UINT64_C(0x9E3779B97F4A7C15);
  for (long turn = 0; turn < n_turns && !atomic_load(&failed); turn++) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    send_block(client, (uint32_t)(state >> 33) % N_BLOCKS, (uint64_t)turn * N_THREADS + client);
    message* m = atomic_exchange(&mailboxes[(state >> 20) % N_MAILBOXES], NULL);
    if (m == NULL) continue;
    open_message(client, m);
    free(m);
  }
  atomic_fetch_sub(&running, 1);
  return NULL;
}

static void* reclaim(void* unused) {
  while (atomic_load(&running) > 0)
    for (int i = 0; i < N_BLOCKS; i++) {
      (void)shmt__block_reclaim(&map, (uint32_t)i, SHMT_MANAGER_MARKER);
      if (shmt__block_begin_trim(&blocks[i])) shmt__block_end_trim(&blocks[i], i % 2);
      /* Nobody dies here, so there is nothing to correct, and nothing must be. */
      atomic_store(&control.leases_stale, 1);
      (void)shmt__leases_audit(&map);
    }
  return unused;
}

int main(int argc, char** argv) {
  pthread_t threads[N_THREADS + 1];
  unsigned ids[N_THREADS];
  n_turns = argc > 1 ? atol(argv[1]) : 100000;
  for (int i = 0; i < N_BLOCKS; i++)
    atomic_init(&blocks[i].head, shmt__head(1, 0, SHMT_BLOCK_COLD));
  atomic_store(&running, N_THREADS);
  atomic_store(&control.clients_end, N_CLIENTS);
  atomic_store(&control.lease_pages_end, N_PAGES);
  for (unsigned i = 0; i < N_THREADS; i++) {
    ids[i] = i * 200 + 1; /* in different words of the holds, near and far */
    atomic_store(&clients[ids[i]].state, SHMT_CLIENT_ALIVE);
    (void)pthread_create(&threads[i], NULL, work, &ids[i]);
  }
  (void)pthread_create(&threads[N_THREADS], NULL, reclaim, NULL);
  for (int i = 0; i <= N_THREADS; i++) (void)pthread_join(threads[i], NULL);
  for (int i = 0; i < N_MAILBOXES; i++) free(atomic_exchange(&mailboxes[i], NULL));
  (void)printf("%d\n", atomic_load(&n_opened));
  return atomic_load(&failed);
}
