/* ipc/session/held_blocks.c -- the blocks that this process holds, by number. */
#include "ipc/session/session.h"

#include "api/error.h"
#include "base/debug.h"
#include "ipc/handle/kept_files.h"
#include "ipc/handle/spare_files.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

shmt__holding* shmt__session_holding(const shmt__session* s, uint32_t block) {
  shmt__holding** chunk = s->holdings[block / SHMT_HOLDING_CHUNK];
  return chunk == NULL ? NULL : chunk[block % SHMT_HOLDING_CHUNK];
}

shmt_status shmt__session_add_holding(shmt__session* s, uint32_t block, uint64_t generation,
                                      shmt__holding** out) {
  shmt__holding*** chunk = &s->holdings[block / SHMT_HOLDING_CHUNK];
  if (*chunk == NULL) {
    *chunk = calloc(SHMT_HOLDING_CHUNK, sizeof **chunk);
    SHMT_REQUIRE(*chunk != NULL, SHMT_E_NOMEM, "table of held blocks: tried to allocate %zu bytes",
                 SHMT_HOLDING_CHUNK * sizeof **chunk);
  }
  shmt__holding* old = (*chunk)[block % SHMT_HOLDING_CHUNK];
  SHMT_REQUIRE(old == NULL || old->generation == 0, SHMT_E_MANAGER,
               "the session is damaged: block %" PRIu32 " is in use here, and was free all the same",
               block);
  shmt__holding* h = calloc(1, sizeof *h);
  SHMT_REQUIRE(h != NULL, SHMT_E_NOMEM, "held block: tried to allocate %zu bytes", sizeof *h);
  h->session = s;
  h->block = block;
  h->generation = generation;
  (*chunk)[block % SHMT_HOLDING_CHUNK] = h;
  if (old == NULL) s->n_holdings++;
  else shmt__session_pin(s); /* for the one of a block that went with our number: it counts no more */
  *out = h;
  return SHMT_OK;
}

static shmt__holding** place_of(const shmt__holding* h) {
  return &h->session->holdings[h->block / SHMT_HOLDING_CHUNK][h->block % SHMT_HOLDING_CHUNK];
}

shmt_status shmt__session_supersede_holding(shmt__holding* h, shmt__holding** out) {
  shmt__holding* next = malloc(sizeof *next);
  SHMT_REQUIRE(next != NULL, SHMT_E_NOMEM, "held block: tried to allocate %zu bytes", sizeof *next);
  *next = *h;
  next->storage = NULL;
  h->map = NULL; /* no longer its to unmap */
  *place_of(h) = next;
  shmt__session_pin(h->session); /* for h, which counts no more */
  *out = next;
  return SHMT_OK;
}

shmt_status shmt__holding_check(const shmt__holding* h, const char* what) {
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

/* A finalizer cannot raise, so this is said aloud. */
void shmt__holding_report_release(const shmt__holding* h) {
  if (shmt__holding_check(h, "release") == SHMT_OK) return;
  (void)fprintf(stderr, "shmtensor: released twice: %s\n", shmt_error_message());
  shmt_error_clear();
}

void shmt__session_drop_holding(shmt__holding* h) {
  shmt__session* s = h->session;
  if (*place_of(h) == h) {
    *place_of(h) = NULL;
    s->n_holdings--;
    bool is_spare = h->map != NULL && shmt__spare_file_add(h);
    if (h->map != NULL && !is_spare) shmt__os_unmap(h->map, h->map_bytes);
    if (s->client != 0 && h->generation != 0) {
      if (SHMT_UNLIKELY(shmt__debug)) shmt__holding_report_release(h);
      if (h->is_owned && h->map == NULL) {
        shmt__arena_free(&s->arena, h->block);
      } else {
        if (SHMT_UNLIKELY(shmt__debug) && h->map == NULL && s->base != NULL)
          shmt__arena_poison(&s->map, s->base, h->block, s->client);
        shmt__block_unhold(&s->map, h->block, s->client);
        shmt__map_note_activity(&s->map);
      }
    }
    if (h->map != NULL) shmt__kept_files_look(s);
  } else {
    shmt__session_unpin(s);
  }
  free(h);
}

void shmt__session_each_holding(shmt__session* s, void (*f)(shmt__holding* h, void* arg),
                                void* arg) {
  uint32_t left = s->n_holdings;
  if (s->holdings == NULL) return;
  uint32_t n_chunks = (s->map.fixed.n_blocks + SHMT_HOLDING_CHUNK - 1) / SHMT_HOLDING_CHUNK;
  for (uint32_t i = 0; i < n_chunks && left > 0; i++) {
    if (s->holdings[i] == NULL) continue;
    for (uint32_t j = 0; j < SHMT_HOLDING_CHUNK; j++) {
      if (s->holdings[i][j] == NULL) continue;
      f(s->holdings[i][j], arg);
      left--;
    }
  }
}
