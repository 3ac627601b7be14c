/* shm/manager/park.c -- takes the memory of empty slabs back from clients that may use them again. See Note [Parking]
 * in shm/manager/arena_manager.h. */
#include "shm/block.h"
#include "shm/manager/arena_manager.h"

static bool is_cold(const shmt__block* b) {
  return shmt__head_state(atomic_load_explicit(&b->head, memory_order_relaxed)) == SHMT_BLOCK_COLD;
}

/* Take the slab's blocks out of the owner's reach, all or none. */
static bool take_blocks(const shmt__arena_manager* k, const shmt__slab_view* s) {
  shmt__block* first = &k->map.blocks[s->first_block];
  uint32_t n = 0;
  while (n < s->n_blocks && is_cold(&first[n]) && shmt__block_begin_trim(&first[n])) n++;
  if (n == s->n_blocks) return true;
  while (n-- > 0) shmt__block_end_trim(&first[n], true);
  return false;
}

void shmt__arena_manager_park(shmt__arena_manager* k) {
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* s = shmt__arena_manager_slab_at(k, i);
    if (s == NULL || s->state != SHMT_SLAB_ARENA || s->owner == 0 || k->slabs[i].is_parked || !take_blocks(k, s))
      continue;
    k->slabs[i].is_parked = true;
    k->granted_bytes -= s->nbytes;
  }
}

void shmt__arena_manager_unpark(shmt__arena_manager* k, uint32_t slab) {
  const shmt__slab_view* s = &k->slabs[slab].view;
  if (!k->slabs[slab].is_parked) return;
  k->slabs[slab].is_parked = false;
  k->granted_bytes += s->nbytes;
  for (uint32_t i = 0; i < s->n_blocks; i++) shmt__block_end_trim(&k->map.blocks[s->first_block + i], true);
}

bool shmt__arena_manager_find_parked(const shmt__arena_manager* k, uint32_t client, uint64_t block_bytes,
                                     uint32_t n_blocks, uint32_t* out_slab) {
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* s = shmt__arena_manager_slab_at(k, i);
    if (s == NULL || !k->slabs[i].is_parked || s->owner != client || s->block_bytes != block_bytes ||
        s->n_blocks != n_blocks)
      continue;
    *out_slab = i;
    return true;
  }
  return false;
}
