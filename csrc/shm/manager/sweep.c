/* shm/manager/sweep.c -- the manager's sweep over all blocks: it frees blocks that nobody holds, returns the pages of
 * idle ones, and retires empty slabs. */
#include "os/failpoint.h"
#include "os/clock.h"
#include "os/memfd.h"
#include "shm/block.h"
#include "shm/manager/arena_manager.h"
#include "shm/lease.h"

typedef struct sweep {
  shmt__arena_manager* k;
  uint64_t now_ms;
  bool all;
  uint32_t n_idle_files; /* seen in this sweep */
  uint64_t idle_file_bytes;
} sweep;

typedef struct slab_counts {
  uint32_t used, free, cold;
  uint64_t youngest_ms; /* age of the block that became free last */
} slab_counts;

static uint64_t age_of(const sweep* l, uint32_t block) {
  return shmt__arena_manager_block_age(l->k, block, l->now_ms);
}

/* Free the blocks of a slab that nobody holds, and count its blocks by state. */
static slab_counts reclaim_and_count(sweep* l, const shmt__slab_view* s) {
  slab_counts c = {.youngest_ms = UINT64_MAX};
  for (uint32_t i = 0; i < s->n_blocks; i++) {
    uint32_t block = s->first_block + i;
    const shmt__block* b = &l->k->map.blocks[block];
    shmt__arena_manager_repair_block(l->k, s, block);
    shmt__block_state state =
        shmt__head_state(atomic_load_explicit(&b->head, memory_order_acquire));
    if (state == SHMT_BLOCK_USED && shmt__block_reclaim(&l->k->map, block, SHMT_MANAGER_MARKER))
      state = SHMT_BLOCK_FREE;
    if (state == SHMT_BLOCK_FREE) {
      uint64_t age = age_of(l, block);
      if (age < c.youngest_ms) c.youngest_ms = age;
      c.free++;
    } else if (state == SHMT_BLOCK_COLD) {
      c.cold++;
    } else {
      c.used++;
      (void)age_of(l, block); /* see its last lease, if that is new */
    }
  }
  return c;
}

static bool is_old(const sweep* l, uint64_t age_ms, bool is_orphan) {
  return l->all || is_orphan || age_ms >= SHMT_TRIM_AGE_MS;
}

/* gone: all pages are gone. Else some may be, and the next sweep tries again. */
static void end_trim(sweep* l, shmt__block* b, bool gone) {
  if (gone) {
    shmt__block_end_trim(b, true);
  } else {
    shmt__block_fail_trim(b);
    l->k->must_sweep_again = true;
  }
}

/* Trim blocks that consist of whole pages, one by one. */
static void trim_paged(sweep* l, const shmt__slab_view* s, bool is_orphan) {
  for (uint32_t i = 0; i < s->n_blocks; i++) {
    shmt__block* b = &l->k->map.blocks[s->first_block + i];
    if (shmt__head_state(atomic_load_explicit(&b->head, memory_order_relaxed)) != SHMT_BLOCK_FREE)
      continue;
    if (!is_old(l, age_of(l, s->first_block + i), is_orphan)) {
      l->k->must_sweep_again = true;
      continue;
    }
    if (!shmt__block_begin_trim(b)) continue;
    SHMT_FAILPOINT(trim_begun);
    bool gone = shmt__os_punch(l->k->arena_fd, s->offset + s->block_bytes * i, s->block_bytes);
    SHMT_FAILPOINT(trim_punched);
    end_trim(l, b, gone);
  }
}

/* Small blocks share pages, so all blocks of a slab are trimmed or none. */
static void trim_small(sweep* l, const shmt__slab_view* s) {
  uint32_t n = 0;
  while (n < s->n_blocks && shmt__block_begin_trim(&l->k->map.blocks[s->first_block + n])) n++;
  bool all = n == s->n_blocks;
  SHMT_FAILPOINT(trim_small_begun);
  bool gone = all && shmt__os_punch(l->k->arena_fd, s->offset, s->nbytes);
  for (uint32_t i = 0; i < n; i++) {
    shmt__block* b = &l->k->map.blocks[s->first_block + i];
    if (all)
      end_trim(l, b, gone);
    else
      shmt__block_end_trim(b, false);
  }
}

static void sweep_arena_slab(sweep* l, uint32_t index, const shmt__slab_view* s) {
  bool is_orphan = s->owner == 0;
  slab_counts c = reclaim_and_count(l, s);
  if (c.free > 0 && shmt__is_paged(s->block_bytes)) {
    trim_paged(l, s, is_orphan);
  } else if (c.free > 0 && c.used == 0) {
    if (is_old(l, c.youngest_ms, is_orphan))
      trim_small(l, s);
    else
      l->k->must_sweep_again = true;
  }
  if (is_orphan && c.used == 0 && reclaim_and_count(l, s).cold == s->n_blocks)
    shmt__arena_manager_retire(l->k, index);
}

/* May the owner of a free file still make another storage in it? See ipc/handle/file_cache.h. */
static bool may_be_reused(sweep* l, const shmt__slab_view* s) {
  enum { MOST_FILES = 64 };
  const uint64_t most_bytes = UINT64_C(512) << 20;
  if (s->state != SHMT_SLAB_FILE || is_old(l, age_of(l, s->first_block), s->owner == 0) ||
      l->n_idle_files == MOST_FILES || s->nbytes > most_bytes - l->idle_file_bytes)
    return false;
  l->n_idle_files++;
  l->idle_file_bytes += s->nbytes;
  return true;
}

static void sweep_file_slab(sweep* l, uint32_t index, const shmt__slab_view* s) {
  shmt__block* b = &l->k->map.blocks[s->first_block];
  if (shmt__head_state(atomic_load_explicit(&b->head, memory_order_acquire)) == SHMT_BLOCK_USED &&
      !shmt__block_reclaim(&l->k->map, s->first_block, SHMT_MANAGER_MARKER))
    return;
  if (may_be_reused(l, s))
    l->k->must_sweep_again = true;
  else if (shmt__block_begin_trim(b))
    shmt__arena_manager_retire(l->k, index);
}

void shmt__arena_manager_sweep(shmt__arena_manager* k, bool all) {
  shmt__control* c = k->map.control;
  /* seq_cst: see shmt__map_note_activity. */
  bool changed = atomic_exchange_explicit(&c->activity, 0, memory_order_seq_cst) != 0;
  if (!changed && !k->must_sweep_again && !all) return;
  k->must_sweep_again = false;
  sweep l = {.k = k, .now_ms = shmt__os_now_ms(), .all = all};
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    if (shmt__arena_manager_slab_at(k, i) == NULL || k->slabs[i].is_parked) continue;
    const shmt__slab_view s = *shmt__arena_manager_slab_at(k, i); /* a copy: the slab may be retired below */
    if (s.state == SHMT_SLAB_ARENA) sweep_arena_slab(&l, i, &s);
    if (shmt__slab_state_is_file(s.state)) sweep_file_slab(&l, i, &s);
  }
  /* The records lie in the file. Without this, each record that was read would count as the manager's memory. */
  shmt__os_map_forget(c, k->map.nbytes);
}

void shmt__arena_manager_sweep_files(shmt__arena_manager* k) {
  enum { AT_LEAST = 64 };
  if (k->files_until_sweep > 0) {
    k->files_until_sweep--;
    return;
  }
  sweep l = {.k = k, .now_ms = shmt__os_now_ms()};
  uint32_t n_left = 0;
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    if (k->slabs[i].file < 0) continue;
    const shmt__slab_view s = k->slabs[i].view; /* a copy: the slab may be retired below */
    sweep_file_slab(&l, i, &s);
    n_left += k->slabs[i].file >= 0;
  }
  k->files_until_sweep = n_left > AT_LEAST ? n_left : AT_LEAST;
}

bool shmt__arena_manager_return_slab(shmt__arena_manager* k, uint32_t client, uint32_t slab) {
  if (shmt__arena_manager_slab_at(k, slab) == NULL) return false;
  shmt__slab_view s = *shmt__arena_manager_slab_at(k, slab);
  if (s.state != SHMT_SLAB_ARENA || s.owner != client) return false;
  shmt__arena_manager_orphan_slab(k, slab);
  s.owner = 0;
  sweep l = {.k = k, .now_ms = shmt__os_now_ms(), .all = true};
  sweep_arena_slab(&l, slab, &s); /* it is an orphan now: retired at once, or when its last block is free */
  return true;
}

/* --- leases --- */

typedef struct drop {
  const shmt__arena_manager* k;
  uint64_t now_ms;
  uint32_t age_ms;
} drop;

/* Call f for every block of every slab. */
static uint64_t for_each_block(const shmt__arena_manager* k, uint64_t (*f)(uint32_t block, const drop* d),
                               const drop* d) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* s = shmt__arena_manager_slab_at(k, i);
    for (uint32_t j = 0; s != NULL && j < s->n_blocks; j++) sum += f(s->first_block + j, d);
  }
  shmt__os_map_forget(k->map.control, k->map.nbytes);
  return sum;
}

static uint64_t count_leases(uint32_t block, const drop* d) {
  return shmt__block_n_leases(&d->k->map.blocks[block]);
}

uint64_t shmt__arena_manager_n_leases(const shmt__arena_manager* k) {
  const drop d = {.k = k};
  return for_each_block(k, count_leases, &d);
}

/* Leases without a record have the age of the block's stamp. */
static uint64_t drop_old_plain(uint32_t block, const drop* d) {
  bool is_old = shmt__arena_manager_block_age(d->k, block, d->now_ms) >= d->age_ms;
  return is_old ? shmt__block_end_plain_leases(&d->k->map.blocks[block]) : 0;
}

static bool is_older(const shmt__lease* l, void* arg) {
  const drop* d = arg;
  return shmt__arena_manager_lease_age(d->k, l, d->now_ms) >= d->age_ms;
}

uint64_t shmt__arena_manager_drop_leases(shmt__arena_manager* k, uint32_t age_ms) {
  drop d = {k, shmt__os_now_ms(), age_ms};
  uint64_t n = shmt__leases_end_if(&k->map, is_older, &d);
  n += for_each_block(k, drop_old_plain, &d);
  /* This also ends counts that a killed process has left without a record. */
  atomic_store_explicit(&k->map.control->leases_stale, 1, memory_order_seq_cst);
  (void)shmt__leases_audit(&k->map);
  shmt__map_note_activity(&k->map);
  return n;
}
