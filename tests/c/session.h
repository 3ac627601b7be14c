/* tests/c/session.h -- the files of a session without processes: a test does what its clients and its manager do. */
#ifndef SHMT_TESTS_SESSION_H
#define SHMT_TESTS_SESSION_H

#include "check.h"

#include "os/memfd.h"
#include "shm/block.h"
#include "shm/client.h"
#include "shm/lease.h"
#include "shm/manager/arena_manager.h"

#include <sys/resource.h>
#include <unistd.h>

enum {
  MiB = 1 << 20,
  ARENA_BYTES = 64 * MiB,
  FILE_LIMIT = 80 * MiB, /* makes the tables small */
};

static shmt__arena_manager manager;

static inline const shmt__map* begin_session(uint64_t limit_bytes) {
  const shmt__arena_manager_options options = {
      .session = 1, .arena_bytes = ARENA_BYTES, .limit_bytes = limit_bytes};
  const struct rlimit limit = {FILE_LIMIT, FILE_LIMIT};
  CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  CHECK_OK(shmt__arena_manager_create(&options, &manager));
  return &manager.map;
}

/* A process's own description of the control file, which its locks belong to. */
static inline int open_control(void) {
  int fd = shmt__os_reopen(manager.control_fd);
  CHECK(fd >= 0);
  return fd;
}

/* Take this client number, and keep it until the program ends. */
static inline void join_as(uint32_t id) {
  CHECK_EQ(shmt__client_claim_one(&manager.map, open_control(), id, getpid()), SHMT_CLAIM_MADE);
  shmt__arena_manager_mark_client_alive(&manager, id, getpid());
}

/* The first block of a slab with blocks of this size, which the client has been granted. */
static inline uint32_t grant_slab(uint32_t client, uint64_t block_bytes, uint32_t n_blocks) {
  uint32_t slab = 0;
  shmt__slab_view view;
  CHECK_OK(shmt__arena_manager_grant(&manager, client, block_bytes, n_blocks, &slab));
  CHECK(shmt__slab_read(&manager.map, slab, &view));
  return view.first_block;
}

static inline uint64_t take_block(uint32_t block, uint32_t client) {
  uint64_t generation = 0;
  CHECK(shmt__block_take(&manager.map, block, client, 1, &generation));
  return generation;
}

/* A client with a block of its own, which messages refer to. */
typedef struct sender {
  shmt__descriptor control;
  shmt__lease_cursor cursor;
  uint32_t client, block;
  uint64_t generation;
} sender;

static inline sender begin_sender(uint32_t client) {
  sender s = {.control = shmt__descriptor_own(open_control()), .client = client};
  join_as(client);
  s.block = grant_slab(client, 64, 8);
  s.generation = take_block(s.block, client);
  return s;
}

static inline shmt_status take_lease(sender* s, uint64_t channel, shmt__lease_ticket* out) {
  return shmt__lease_take(&manager.map, &s->control, &s->cursor, s->client, s->block, s->generation, channel, out);
}

#endif
