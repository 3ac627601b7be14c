/* ipc/session/held_blocks.c -- the table of the blocks that this process holds. */
#include "ipc/session/session.h"

#include "os/process.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdlib.h>

shmt__held_block* shmt__session_held_block(const shmt__session* s, uint32_t block) {
  shmt__held_block** chunk = s->held_blocks[block / SHMT_HELD_BLOCK_CHUNK];
  return chunk == NULL ? NULL : chunk[block % SHMT_HELD_BLOCK_CHUNK];
}

shmt_status shmt__session_add_held_block(shmt__session* s, uint32_t block, uint64_t generation,
                                      shmt__held_block** out) {
  shmt__held_block*** chunk = &s->held_blocks[block / SHMT_HELD_BLOCK_CHUNK];
  if (*chunk == NULL) {
    *chunk = calloc(SHMT_HELD_BLOCK_CHUNK, sizeof **chunk);
    SHMT_REQUIRE(*chunk != NULL, SHMT_E_NOMEM, "table of held blocks: tried to allocate %zu bytes",
                 SHMT_HELD_BLOCK_CHUNK * sizeof **chunk);
  }
  shmt__held_block* old = (*chunk)[block % SHMT_HELD_BLOCK_CHUNK];
  SHMT_REQUIRE(old == NULL || old->generation == 0, SHMT_E_HANDLE,
               "the session is damaged: block %" PRIu32 " is in use here, and was free all the same",
               block);
  shmt__held_block* h = malloc(sizeof *h);
  SHMT_REQUIRE(h != NULL, SHMT_E_NOMEM, "held block: tried to allocate %zu bytes", sizeof *h);
  *h = (shmt__held_block){.session = s, .block = block, .generation = generation};
  (*chunk)[block % SHMT_HELD_BLOCK_CHUNK] = h;
  if (old == NULL) s->n_held_blocks++;
  else s->n_old_records++; /* the old one's block went with our old number */
  *out = h;
  return SHMT_OK;
}

static shmt__held_block** place_of(const shmt__held_block* h) {
  return &h->session->held_blocks[h->block / SHMT_HELD_BLOCK_CHUNK][h->block % SHMT_HELD_BLOCK_CHUNK];
}

shmt_status shmt__session_supersede_held_block(shmt__held_block* h, shmt__held_block** out) {
  shmt__held_block* next = malloc(sizeof *next);
  SHMT_REQUIRE(next != NULL, SHMT_E_NOMEM, "held block: tried to allocate %zu bytes", sizeof *next);
  *next = *h;
  next->storage = NULL;
  h->map = NULL; /* the new record unmaps it */
  h->origin = NULL;
  h->exported = NULL;
  *place_of(h) = next;
  h->session->n_old_records++;
  *out = next;
  return SHMT_OK;
}

shmt_status shmt__held_block_check(const shmt__held_block* h, const char* what) {
  const shmt__session* s = h->session;
  const shmt__block* b = &s->map.blocks[h->block];
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  bool is_used = shmt__head_state(head) == SHMT_BLOCK_USED || shmt__head_state(head) == SHMT_BLOCK_RECLAIM;
  bool is_held = shmt__block_is_held_by(&s->map, h->block, s->client);
  SHMT_REQUIRE(is_used && is_held && shmt__head_generation(head) == h->generation, SHMT_E_HANDLE,
               "%s: process %d (client %" PRIu32 ") uses block %" PRIu32 " generation %" PRIu64
               ", which %s held by it and has generation %" PRIu64 " and state %d now",
               what, (int)shmt__os_pid(), s->client, h->block, h->generation,
               is_held ? "is" : "is not", shmt__head_generation(head), (int)shmt__head_state(head));
  return SHMT_OK;
}

bool shmt__session_forget_held_block(shmt__held_block* h) {
  if (*place_of(h) != h) return false;
  *place_of(h) = NULL;
  h->session->n_held_blocks--;
  return true;
}

/* The block's head says the generation: as long as we hold the block it is the one of our record. So the records, which
 * lie anywhere, are not read. */
static void hold_for(const shmt__map* m, uint32_t block, uint32_t client) {
  const uint64_t head = atomic_load_explicit(&m->blocks[block].head, memory_order_relaxed);
  (void)shmt__block_hold(m, block, client, shmt__head_generation(head));
}

static void hold_record_for(shmt__held_block* h, void* arg) {
  if (h->generation != 0) hold_for(&h->session->map, h->block, *(const uint32_t*)arg);
}

void shmt__session_hold_for(shmt__session* s, uint32_t client) {
  enum { AHEAD = 8 };
  const uint32_t n_blocks = s->map.fixed.n_blocks;
  uint32_t left = s->n_held_blocks;
  if (SHMT_UNLIKELY(s->has_lost_blocks)) {
    shmt__session_each_held_block(s, hold_record_for, &client);
    return;
  }
  for (uint32_t first = 0; first < n_blocks && left > 0; first += SHMT_HELD_BLOCK_CHUNK) {
    shmt__held_block** chunk = s->held_blocks[first / SHMT_HELD_BLOCK_CHUNK];
    for (uint32_t i = 0; chunk != NULL && i < SHMT_HELD_BLOCK_CHUNK; i++) {
      if (i + AHEAD < SHMT_HELD_BLOCK_CHUNK && chunk[i + AHEAD] != NULL)
        shmt__block_prefetch(&s->map, first + i + AHEAD);
      if (chunk[i] == NULL) continue;
      hold_for(&s->map, first + i, client);
      left--;
    }
  }
}

void shmt__session_each_held_block(shmt__session* s, void (*f)(shmt__held_block* h, void* arg),
                                void* arg) {
  uint32_t left = s->n_held_blocks;
  if (s->held_blocks == NULL) return;
  uint32_t n_chunks = (s->map.fixed.n_blocks + SHMT_HELD_BLOCK_CHUNK - 1) / SHMT_HELD_BLOCK_CHUNK;
  for (uint32_t i = 0; i < n_chunks && left > 0; i++) {
    if (s->held_blocks[i] == NULL) continue;
    for (uint32_t j = 0; j < SHMT_HELD_BLOCK_CHUNK; j++) {
      if (s->held_blocks[i][j] == NULL) continue;
      f(s->held_blocks[i][j], arg);
      left--;
    }
  }
}
