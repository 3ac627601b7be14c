/* shm/manager/ages.c -- how old blocks and leases are, by the manager's own clock. See Note [Times of others] in
 * shm/manager/arena_manager.h. */
#include "shm/lease.h"
#include "shm/manager/arena_manager.h"

static uint64_t age_of(shmt__sighting* s, uint32_t what, uint64_t now_ms) {
  const uint64_t now = now_ms | 1; /* never 0 */
  if (s->since_ms == 0 || s->what != what) *s = (shmt__sighting){now, what};
  return now > s->since_ms ? now - s->since_ms : 0; /* another sweep may have begun later */
}

uint64_t shmt__arena_manager_block_age(const shmt__arena_manager* k, uint32_t block, uint64_t now_ms) {
  uint32_t stamp = atomic_load_explicit(&k->map.blocks[block].stamp_ms, memory_order_relaxed);
  return age_of(&k->block_stamps[block], stamp, now_ms);
}

uint64_t shmt__arena_manager_lease_age(const shmt__arena_manager* k, const shmt__lease* l, uint64_t now_ms) {
  uint32_t id = (uint32_t)atomic_load_explicit(&l->id, memory_order_relaxed); /* it is odd */
  bool is_unsent = (atomic_load_explicit(&l->channel, memory_order_relaxed) & SHMT_CHANNEL_UNSENT) != 0;
  return age_of(&k->leases_seen[shmt__lease_slot(&k->map, l)], is_unsent ? id ^ 1 : id, now_ms);
}
