/* shm/lease_audit.c -- corrects the counts of leases that dead clients have left wrong.
 *
 * Note [Counting leases]
 * A block's count must be the number of records that name it. A process that takes or ends a lease changes both, one
 * after the other. Meanwhile its client entry says which block it is touching. The audit reads the counts, then the
 * client entries, then the records, and then the client entries again. It corrects only the counts of blocks that no
 * live client was touching, by a compare-and-swap that fails when the count has changed in any way since (its upper
 * half counts changes). This is correct because:
 *  - A process that has counted a lease but not published it is seen touching the block, the first time.
 *  - A process that has taken an id away is touching the block until it has counted down. So either the audit sees it
 * the second time, or the compare-and-swap fails.
 *  - Dead clients touch nothing, so what they left half done is corrected.
 */
#include "shm/block.h"
#include "shm/lease.h"

#include <stdlib.h>
#include <string.h>

enum { TOUCHED = UINT32_MAX };

typedef struct audit {
  const shmt__map* map;
  uint32_t n;      /* blocks */
  uint64_t* words; /* `leases` of each block, at the beginning */
  uint32_t* counts;
} audit;

static void mark_touched(audit* a) {
  uint32_t end = shmt__map_clients_end(a->map);
  for (uint32_t id = 1; id < end; id++) {
    const shmt__client_entry* e = &a->map->clients[id];
    if (atomic_load_explicit(&e->state, memory_order_acquire) == SHMT_CLIENT_NONE) continue;
    uint32_t touching = atomic_load_explicit(&e->touching, memory_order_seq_cst);
    if (touching > 0 && touching <= a->n) a->counts[touching - 1] = TOUCHED;
  }
}

static void count_records(audit* a) {
  uint32_t end = shmt__map_lease_pages_end(a->map);
  for (uint32_t page = 0; page < end; page++) {
    for (uint32_t i = 0; i < SHMT_LEASES_OF_PAGE; i++) {
      const shmt__lease* l = &a->map->lease_pages[page].at[i];
      if (atomic_load_explicit(&l->id, memory_order_seq_cst) == 0) continue;
      uint32_t block = atomic_load_explicit(&l->block, memory_order_relaxed);
      if (block >= a->n || a->counts[block] == TOUCHED) continue;
      uint64_t head = atomic_load_explicit(&a->map->blocks[block].head, memory_order_relaxed);
      if (shmt__head_generation(head) ==
          atomic_load_explicit(&l->generation, memory_order_relaxed)) a->counts[block]++;
    }
  }
}

/* False: some counts could not be corrected, as clients were touching the blocks. */
static bool correct(audit* a) {
  bool done = true;
  for (uint32_t i = 0; i < a->n; i++) {
    uint64_t word = a->words[i];
    if (a->counts[i] == TOUCHED) done = false;
    if (a->counts[i] == TOUCHED || a->counts[i] == (uint32_t)word) continue;
    uint64_t right = ((word >> 32) + 1) << 32 | a->counts[i];
    done = atomic_compare_exchange_strong_explicit(&a->map->blocks[i].leases, &word, right,
                                                   memory_order_seq_cst, memory_order_relaxed) &&
           done;
  }
  return done;
}

bool shmt__leases_audit(const shmt__map* m) {
  /* seq_cst: whatever made the counts wrong happened before the flag was set, so it is seen below. */
  if (atomic_exchange_explicit(&m->control->leases_stale, 0, memory_order_seq_cst) == 0) return true;
  audit a = {.map = m, .n = shmt__map_blocks_end(m)};
  a.words = malloc(sizeof *a.words * (a.n + 1));
  a.counts = calloc(a.n + 1, sizeof *a.counts);
  bool done = a.words != NULL && a.counts != NULL;
  if (done) {
    for (uint32_t i = 0; i < a.n; i++)
      a.words[i] = atomic_load_explicit(&m->blocks[i].leases, memory_order_seq_cst);
    mark_touched(&a);
    count_records(&a);
    mark_touched(&a);
    done = correct(&a);
    shmt__map_note_activity(m);
  }
  if (!done) atomic_store_explicit(&m->control->leases_stale, 1, memory_order_relaxed);
  free(a.words);
  free(a.counts);
  return done;
}
