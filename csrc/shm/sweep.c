/* shm/sweep.c -- the manager's look over all blocks: what nobody keeps goes back, what idles gets
 * cold. */
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"
#include "shm/arena_manager.h"
#include "shm/lease.h"

typedef struct look {
  shmt__keeper* k;
  uint32_t now_ms;
  bool all;
  uint32_t n_idle_files; /* seen at this look */
  uint64_t idle_file_bytes;
} look;

typedef struct slab_census {
  uint32_t used, free, cold;
  uint32_t youngest_ms; /* age of the block that became free last */
} slab_census;

static uint32_t age_of(const look* l, const shmt__block* b) {
  /* The clock may wrap; stamp_ms may be newer than the start of this look. */
  int32_t age = (int32_t)(l->now_ms - atomic_load_explicit(&b->stamp_ms, memory_order_relaxed));
  return age > 0 ? (uint32_t)age : 0;
}

static slab_census take_census(look* l, const shmt__slab_view* s) {
  slab_census c = {.youngest_ms = UINT32_MAX};
  for (uint32_t i = 0; i < s->n_blocks; i++) {
    uint32_t block = s->first_block + i;
    const shmt__block* b = &l->k->map.blocks[block];
    shmt__keeper_mend_block(l->k, s, block);
    shmt__block_state state =
        shmt__head_state(atomic_load_explicit(&b->head, memory_order_acquire));
    if (state == SHMT_BLOCK_USED && shmt__block_reclaim(&l->k->map, block, SHMT_MANAGER_MARKER))
      state = SHMT_BLOCK_FREE;
    if (state == SHMT_BLOCK_FREE) {
      uint32_t age = age_of(l, b);
      if (age < c.youngest_ms) c.youngest_ms = age;
      c.free++;
    } else if (state == SHMT_BLOCK_COLD) {
      c.cold++;
    } else {
      c.used++;
    }
  }
  return c;
}

static bool is_old(const look* l, uint32_t age_ms, bool is_orphan) {
  return l->all || is_orphan || age_ms >= SHMT_TRIM_AGE_MS;
}

/* gone: all pages are; else some may be, and the next look tries again. */
static void end_trim(look* l, shmt__block* b, bool gone) {
  if (gone) {
    shmt__block_end_trim(b, true);
  } else {
    shmt__block_fail_trim(b);
    l->k->is_waiting = true;
  }
}

/* Blocks with pages of their own are trimmed one by one. */
static void trim_paged(look* l, const shmt__slab_view* s, bool is_orphan) {
  for (uint32_t i = 0; i < s->n_blocks; i++) {
    shmt__block* b = &l->k->map.blocks[s->first_block + i];
    if (shmt__head_state(atomic_load_explicit(&b->head, memory_order_relaxed)) != SHMT_BLOCK_FREE)
      continue;
    if (!is_old(l, age_of(l, b), is_orphan)) {
      l->k->is_waiting = true;
      continue;
    }
    if (!shmt__block_begin_trim(b)) continue;
    SHMT_FAILPOINT(trim_begun);
    bool gone = shmt__os_punch(l->k->arena_fd, s->offset + s->block_bytes * i, s->block_bytes);
    SHMT_FAILPOINT(trim_punched);
    end_trim(l, b, gone);
  }
}

/* Small blocks share pages: all of a slab or none. */
static void trim_small(look* l, const shmt__slab_view* s) {
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

static void look_at_arena_slab(look* l, uint32_t index, const shmt__slab_view* s) {
  bool is_orphan = s->owner == 0;
  slab_census c = take_census(l, s);
  if (c.free > 0 && shmt__is_paged(s->block_bytes)) {
    trim_paged(l, s, is_orphan);
  } else if (c.free > 0 && c.used == 0) {
    if (is_old(l, c.youngest_ms, is_orphan))
      trim_small(l, s);
    else
      l->k->is_waiting = true;
  }
  if (is_orphan && c.used == 0 && take_census(l, s).cold == s->n_blocks)
    shmt__keeper_retire(l->k, index);
}

/* May the owner of a file that is free make another storage in it? See ipc/handle/spare_files.h. */
static bool is_spare(look* l, const shmt__slab_view* s, const shmt__block* b) {
  enum { MOST_FILES = 64 };
  const uint64_t most_bytes = UINT64_C(512) << 20;
  if (is_old(l, age_of(l, b), s->owner == 0) || l->n_idle_files == MOST_FILES ||
      s->nbytes > most_bytes - l->idle_file_bytes)
    return false;
  l->n_idle_files++;
  l->idle_file_bytes += s->nbytes;
  return true;
}

static void look_at_file_slab(look* l, uint32_t index, const shmt__slab_view* s) {
  shmt__block* b = &l->k->map.blocks[s->first_block];
  if (shmt__head_state(atomic_load_explicit(&b->head, memory_order_acquire)) == SHMT_BLOCK_USED &&
      !shmt__block_reclaim(&l->k->map, s->first_block, SHMT_MANAGER_MARKER))
    return;
  if (is_spare(l, s, b))
    l->k->is_waiting = true;
  else if (shmt__block_begin_trim(b))
    shmt__keeper_retire(l->k, index);
}

void shmt__keeper_look(shmt__keeper* k, bool all) {
  shmt__control* c = k->map.control;
  /* seq_cst: see shmt__map_note_activity. */
  bool changed = atomic_exchange_explicit(&c->activity, 0, memory_order_seq_cst) != 0;
  if (!changed && !k->is_waiting && !all) return;
  k->is_waiting = false;
  look l = {.k = k, .now_ms = (uint32_t)shmt__os_now_ms(), .all = all};
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    if (shmt__keeper_slab_at(k, i) == NULL) continue;
    const shmt__slab_view s = *shmt__keeper_slab_at(k, i); /* which may be retired */
    if (s.state == SHMT_SLAB_ARENA) look_at_arena_slab(&l, i, &s);
    if (s.state == SHMT_SLAB_FILE) look_at_file_slab(&l, i, &s);
  }
  /* The records live in the file; without this every one looked at would count as the manager's
   * memory. */
  shmt__os_map_forget(c, k->map.nbytes);
}

void shmt__keeper_expect_file(shmt__keeper* k) {
  enum { AT_LEAST = 64 };
  if (k->n_files_ahead > 0) {
    k->n_files_ahead--;
    return;
  }
  look l = {.k = k, .now_ms = (uint32_t)shmt__os_now_ms()};
  uint32_t n_left = 0;
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    if (k->slabs[i].file < 0) continue;
    const shmt__slab_view s = k->slabs[i].view; /* which may be retired */
    look_at_file_slab(&l, i, &s);
    n_left += k->slabs[i].file >= 0;
  }
  k->n_files_ahead = n_left > AT_LEAST ? n_left : AT_LEAST;
}

void shmt__keeper_retire(shmt__keeper* k, uint32_t slab) {
  const shmt__slab_view s = k->slabs[slab].view;
  for (uint32_t i = 0; i < s.n_blocks; i++) {
    shmt__block* b = &k->map.blocks[s.first_block + i];
    uint64_t generation =
        shmt__head_generation(atomic_load_explicit(&b->head, memory_order_relaxed));
    /* The generation goes on, so that no old handle ever fits a later use of the record. */
    atomic_store_explicit(&b->head, shmt__head(generation + 1, 0, SHMT_BLOCK_NONE),
                          memory_order_release);
    k->slab_of[s.first_block + i] = 0;
  }
  SHMT_FAILPOINT(retire_blocks_gone);
  /* release: a manager that takes over sees the slab whole or gone. */
  atomic_store_explicit(&k->map.slabs[slab].state, SHMT_SLAB_NONE, memory_order_release);
  k->map.slabs[slab].n_blocks = 0; /* tells it from one that was made to look like none */
  SHMT_FAILPOINT(retired);
  shmt__ranges_give(&k->blocks, s.first_block, s.n_blocks);
  if (s.state == SHMT_SLAB_ARENA) shmt__ranges_give(&k->arena, s.offset, s.nbytes);
  shmt__os_close(k->slabs[slab].file);
  k->slabs[slab] = (shmt__keeper_slab){.file = -1};
  k->granted_bytes -= s.nbytes;
}

bool shmt__keeper_take_back(shmt__keeper* k, uint32_t client, uint32_t slab) {
  if (shmt__keeper_slab_at(k, slab) == NULL) return false;
  shmt__slab_view s = *shmt__keeper_slab_at(k, slab);
  if (s.state != SHMT_SLAB_ARENA || s.owner != client) return false;
  shmt__keeper_orphan_slab(k, slab);
  s.owner = 0;
  look l = {.k = k, .now_ms = (uint32_t)shmt__os_now_ms(), .all = true};
  look_at_arena_slab(&l, slab, &s); /* an orphan now: retired at once, or when its last block is free */
  return true;
}

/* Call f for the record of every block of every slab. */
static uint64_t for_each_block(const shmt__keeper* k, uint64_t (*f)(shmt__block* b, uint32_t arg),
                               uint32_t arg) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* s = shmt__keeper_slab_at(k, i);
    for (uint32_t j = 0; s != NULL && j < s->n_blocks; j++)
      sum += f(&k->map.blocks[s->first_block + j], arg);
  }
  shmt__os_map_forget(k->map.control, k->map.nbytes);
  return sum;
}

static uint64_t count_leases(shmt__block* b, uint32_t unused) {
  (void)unused;
  return shmt__block_n_leases(b);
}

uint64_t shmt__keeper_n_leases(const shmt__keeper* k) { return for_each_block(k, count_leases, 0); }

/* Leases without a record have the block's stamp. */
static uint64_t drop_old_plain(shmt__block* b, uint32_t age_ms) {
  uint32_t age =
      (uint32_t)shmt__os_now_ms() - atomic_load_explicit(&b->stamp_ms, memory_order_relaxed);
  return age < age_ms ? 0 : shmt__block_end_plain_leases(b);
}

static bool is_older(const shmt__lease* l, void* arg) {
  uint32_t age =
      (uint32_t)shmt__os_now_ms() - atomic_load_explicit(&l->stamp_ms, memory_order_relaxed);
  return age >= *(const uint32_t*)arg;
}

uint64_t shmt__keeper_drop_leases(shmt__keeper* k, uint32_t age_ms) {
  uint64_t n = shmt__leases_end_if(&k->map, is_older, &age_ms);
  n += for_each_block(k, drop_old_plain, age_ms);
  /* Counts that somebody who was killed left without a record go with them. */
  atomic_store_explicit(&k->map.control->leases_stale, 1, memory_order_seq_cst);
  (void)shmt__leases_audit(&k->map);
  shmt__map_note_activity(&k->map);
  return n;
}
