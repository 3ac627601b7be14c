/* shm/arena.c -- the allocator of shared memory: a client's side of the arena. */
#include "shm/arena.h"

#include "base/debug.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
  MIN_BLOCK = 64,
  MAX_CLASSED = 1 << 20,
  DEFERRED_LOOKS = 8, /* deferred blocks that one allocation looks at: 10 cache misses at most */
  MOST_GRANTS = 4, /* that one allocation asks for */
};

/* --- size classes --- */

/* 64 128 192 256, then in quarters of a doubling: 320 384 448 512 640 ...; index 0 is 64. */
static unsigned class_of(uint64_t nbytes, uint64_t* out_bytes) {
  if (nbytes <= 256) {
    unsigned i = nbytes == 0 ? 0 : (unsigned)((nbytes - 1) / MIN_BLOCK);
    *out_bytes = (uint64_t)(i + 1) * MIN_BLOCK;
    return i;
  }
  unsigned top = 63u - (unsigned)__builtin_clzll(nbytes - 1); /* 2^top < nbytes <= 2^(top+1) */
  uint64_t step = (uint64_t)1 << (top - 2);
  uint64_t quarter = (nbytes - 1 - ((uint64_t)1 << top)) / step; /* 0..3 */
  *out_bytes = ((uint64_t)1 << top) + (quarter + 1) * step;
  return 4 + (top - 8) * 4 + (unsigned)quarter;
}

uint64_t shmt__arena_block_bytes(uint64_t nbytes, uint32_t* out_n_blocks) {
  uint64_t bytes = 0;
  if (nbytes > MAX_CLASSED) {
    uint64_t step = ((uint64_t)1 << (63 - __builtin_clzll(nbytes))) / 8;
    if (step < SHMT_SLAB_ALIGN) step = SHMT_SLAB_ALIGN;
    *out_n_blocks = 1;
    if (nbytes > UINT64_MAX - step) return UINT64_MAX;
    return (nbytes + step - 1) / step * step;
  }
  (void)class_of(nbytes, &bytes);
  uint64_t slab = bytes <= 1024        ? SHMT_SLAB_ALIGN
                  : bytes <= 16 << 10  ? 512 << 10
                  : bytes <= 128 << 10 ? 2 << 20
                                       : 8 << 20;
  *out_n_blocks = (uint32_t)(slab / bytes);
  return bytes;
}

/* --- our own slabs --- */

static const shmt__own_slab* own_slab(const shmt__arena* a, uint32_t block) {
  return a->own_of == NULL || a->own_of[block] == 0 ? NULL : &a->own[a->own_of[block] - 1];
}

static bool reserve_own(shmt__arena* a) {
  if (a->own_of == NULL) a->own_of = calloc(a->map->fixed.n_blocks, sizeof *a->own_of);
  if (a->own_of == NULL || a->n_unused_own > 0 || a->n_own < a->own_capacity) return a->own_of != NULL;
  uint32_t capacity = a->own_capacity ? 2 * a->own_capacity : 8;
  shmt__own_slab* own = realloc(a->own, sizeof *own * capacity);
  if (own == NULL) return false;
  a->own = own;
  a->own_capacity = capacity;
  return true;
}

/* There is room, see reserve_own. */
static void enter_own(shmt__arena* a, const shmt__own_slab* slab) {
  uint32_t i = a->n_own;
  if (a->n_unused_own > 0) {
    for (i = a->unused_own; a->own[i].n_blocks != 0; i++) {
    }
    a->unused_own = i + 1;
    a->n_unused_own--;
  } else {
    a->n_own++;
  }
  a->own[i] = *slab;
  for (uint32_t j = 0; j < slab->n_blocks; j++) a->own_of[slab->first_block + j] = i + 1;
}

static void forget_own(shmt__arena* a, uint32_t block) {
  const uint32_t i = a->own_of[block] - 1;
  shmt__own_slab* slab = &a->own[i];
  for (uint32_t j = 0; j < slab->n_blocks; j++) a->own_of[slab->first_block + j] = 0;
  slab->n_blocks = 0;
  if (a->n_unused_own++ == 0 || i < a->unused_own) a->unused_own = i;
}

uint64_t shmt__arena_offset(const shmt__arena* a, uint32_t block) {
  const shmt__own_slab* s = own_slab(a, block);
  return s == NULL ? 0 : s->offset + s->block_bytes * (block - s->first_block);
}

/* The list of a block, by its slab's block size: the inverse of shmt__arena_block_bytes. */
static unsigned list_of(const shmt__own_slab* s) {
  uint64_t bytes = s->block_bytes;
  return bytes > MAX_CLASSED ? SHMT_ARENA_LARGE : class_of(bytes, &bytes);
}

/* --- placements --- */

_Thread_local unsigned shmt__tls_placement __attribute__((tls_model("initial-exec")));

/* Under the sessions' lock. */
static struct {
  shmt__placement what;
  int huge_errno, numa_errno; /* of the last slab that the kernel refused; 0: none */
} placements[SHMT_ARENA_PLACEMENTS];
static unsigned n_placements = 1; /* placement 0 leaves the choice to the kernel */

shmt_status shmt__placement_open(shmt__placement what, unsigned* out) {
  for (unsigned i = 1; i < n_placements; i++) {
    const shmt__placement* p = &placements[i].what;
    if (p->huge == what.huge && p->numa == what.numa && p->nodes == what.nodes) {
      *out = i;
      return SHMT_OK;
    }
  }
  SHMT_REQUIRE(n_placements < SHMT_ARENA_PLACEMENTS, SHMT_E_RUNTIME,
               "a process may use %d placements of shared memory, all are taken",
               SHMT_ARENA_PLACEMENTS - 1);
  placements[n_placements].what = what;
  *out = n_placements++;
  return SHMT_OK;
}

void shmt__placement_refused(unsigned placement, int* out_huge_errno, int* out_numa_errno) {
  *out_huge_errno = placements[placement].huge_errno;
  *out_numa_errno = placements[placement].numa_errno;
}

/* Use the lists of a placement until the next call. */
static void use_lists(shmt__arena* a, unsigned placement) { a->now = &a->lists[placement]; }

static void apply(shmt__arena* a, const shmt__own_slab* s, unsigned placement) {
  int huge = 0, numa = 0;
  if (placement == 0 && (a->placed == NULL || a->placed[s->slab] == 0)) return;
  shmt__os_place(a->base, s->offset, s->block_bytes * s->n_blocks, &placements[placement].what, &huge, &numa);
  if (huge != 0) placements[placement].huge_errno = huge;
  if (numa != 0) placements[placement].numa_errno = numa;
  a->placed[s->slab] = (uint8_t)placement;
}

/* Allocate the table of the slabs' placements. Programs without placements need none. */
static shmt_status reserve_placed(shmt__arena* a, unsigned placement) {
  if (placement == 0 || a->placed != NULL) return SHMT_OK;
  uint32_t n = a->map->fixed.n_slabs;
  a->placed = calloc(n, 1);
  SHMT_REQUIRE(a->placed != NULL, SHMT_E_NOMEM,
               "placements of slabs: tried to allocate %" PRIu32 " bytes", n);
  return SHMT_OK;
}

/* Return the slab of a block. Its placement is undone first, since the file would keep it for the next owner. */
static bool give_back(shmt__arena* a, uint32_t block) {
  const shmt__own_slab* s = own_slab(a, block);
  if (s == NULL) return true;
  unsigned placement = a->placed != NULL ? a->placed[s->slab] : 0;
  apply(a, s, 0);
  if (a->source.give_back(a->source.arg, s->slab)) {
    forget_own(a, block);
    return true;
  }
  apply(a, s, placement);
  return false;
}

/* --- lists --- */

/* When the list cannot grow, the block is forgotten: it stays ours and unused until this process ends. */
static void push(shmt__block_list* l, uint32_t block) {
  if (l->len == l->cap) {
    uint32_t cap = l->cap ? l->cap * 2 : 64;
    uint32_t* at = realloc(l->at, sizeof *at * cap);
    if (at == NULL) return;
    l->at = at;
    l->cap = cap;
  }
  l->at[l->len++] = block;
}

static void remove_at(shmt__block_list* l, uint32_t i) { l->at[i] = l->at[--l->len]; }

/* Is the block free by now? Frees it if nobody holds it any more. */
static bool is_free_now(shmt__arena* a, uint32_t block) {
  shmt__block* b = &a->map->blocks[block];
  shmt__block_state state = shmt__head_state(atomic_load_explicit(&b->head, memory_order_acquire));
  if (state == SHMT_BLOCK_FREE || state == SHMT_BLOCK_COLD) return true;
  return state == SHMT_BLOCK_USED && shmt__block_reclaim(a->map, block, a->client);
}

/* Move deferred blocks that are free by now to the free list. Looks at `looks` entries, where the last call stopped,
 * until `enough` of them were free. */
static void collect_free(shmt__arena* a, unsigned list, uint32_t looks, uint32_t enough) {
  shmt__block_list* deferred = &a->now->deferred[list];
  if (looks > deferred->len) looks = deferred->len;
  while (looks-- > 0 && enough > 0) {
    uint32_t i = a->now->deferred_cursor++ % deferred->len;
    uint32_t block = deferred->at[i];
    if (!is_free_now(a, block)) continue;
    remove_at(deferred, i);
    push(&a->now->free[list], block);
    enough--;
    if (deferred->len == 0) return;
  }
}

/* A few attempts found nothing: search the whole deferred list before asking for another slab, since the blocks of
 * unopened messages lie side by side in it. When all of them are in use, a quarter as many new blocks may be added
 * before the next full search. So each new block pays for a few looks only. */
static void collect_all_free(shmt__arena* a, unsigned list, uint32_t n_blocks) {
  shmt__arena_lists* l = a->now;
  if (l->spare[list] >= n_blocks) {
    l->spare[list] -= n_blocks;
    return;
  }
  collect_free(a, list, UINT32_MAX, DEFERRED_LOOKS);
  if (l->free[list].len == 0) l->spare[list] = l->deferred[list].len / 4;
}

/* --- pages --- */

/* Give pages to the first n_paged bytes of a block for nbytes; a small one gets all of them. */
static shmt_status populate(shmt__arena* a, uint32_t block, uint64_t nbytes, uint64_t n_paged) {
  shmt__block* b = &a->map->blocks[block];
  const shmt__own_slab* s = own_slab(a, block);
  uint64_t warm = atomic_load_explicit(&b->warm, memory_order_relaxed);
  if (SHMT_LIKELY(warm >= nbytes)) return SHMT_OK;
  uint64_t at = s->block_bytes * (block - s->first_block); /* in the slab */
  if (shmt__is_paged(s->block_bytes)) {
    uint64_t page = shmt__os_page_bytes();
    uint64_t end = (n_paged + page - 1) & ~(page - 1);
    if (end > s->block_bytes) end = s->block_bytes;
    if (end <= warm) return SHMT_OK;
    SHMT_TRY(shmt__os_populate(shmt__descriptor_number(a->file), a->base, s->offset + at + warm, end - warm));
    atomic_store_explicit(&b->warm, end, memory_order_relaxed);
    return SHMT_OK;
  }
  /* Small blocks share pages: populate those of the neighbours too, 64 KiB with one system call. While this block is
   * USED the manager trims no block of its slab. */
  uint64_t step = SHMT_SLAB_ALIGN;
  uint64_t begin = at & ~(step - 1);
  uint64_t end = (at + s->block_bytes + step - 1) & ~(step - 1);
  uint64_t slab_bytes = (s->block_bytes * s->n_blocks + step - 1) & ~(step - 1);
  if (end > slab_bytes) end = slab_bytes;
  SHMT_TRY(shmt__os_populate(shmt__descriptor_number(a->file), a->base, s->offset + begin, end - begin));
  uint64_t first = (begin + s->block_bytes - 1) / s->block_bytes, stop = end / s->block_bytes;
  for (uint64_t i = first; i < stop && i < s->n_blocks; i++)
    atomic_store_explicit(&a->map->blocks[s->first_block + i].warm, s->block_bytes,
                          memory_order_relaxed);
  return SHMT_OK;
}

bool shmt__arena_has_pages(const shmt__arena* a, uint32_t block, uint64_t nbytes) {
  return atomic_load_explicit(&a->map->blocks[block].warm, memory_order_relaxed) >= nbytes;
}

shmt_status shmt__arena_fill(const shmt__arena* a, uint32_t block, uint64_t offset,
                             const void* bytes, uint64_t nbytes) {
  shmt__block* b = &a->map->blocks[block];
  uint64_t warm = atomic_load_explicit(&b->warm, memory_order_relaxed);
  uint64_t n_there = warm < nbytes ? warm & ~(shmt__os_page_bytes() - 1) : nbytes;
  memcpy(a->base + offset, bytes, n_there);
  if (n_there == nbytes) return SHMT_OK;
  const char* rest = (const char*)bytes + n_there;
  int fd = shmt__descriptor_number(a->file);
  if (fd >= 0) {
    SHMT_TRY(shmt__os_write_pages(fd, offset + n_there, rest, nbytes - n_there));
  } else {
    SHMT_TRY(shmt__os_populate(fd, a->base, offset + n_there, nbytes - n_there));
    memcpy(a->base + offset + n_there, rest, nbytes - n_there);
  }
  /* Blocks without pages for some of their bytes are multiples of a page. */
  uint64_t end = (nbytes + shmt__os_page_bytes() - 1) & ~(shmt__os_page_bytes() - 1);
  atomic_store_explicit(&b->warm, end, memory_order_relaxed);
  return SHMT_OK;
}

shmt_status shmt__arena_extend(const shmt__arena* a, uint32_t block, uint64_t offset, uint64_t nbytes, uint64_t ahead,
                               uint64_t* out_n_paged) {
  shmt__block* b = &a->map->blocks[block];
  const uint64_t page = shmt__os_page_bytes();
  const uint64_t warm = *out_n_paged = atomic_load_explicit(&b->warm, memory_order_relaxed);
  if (warm >= nbytes) return SHMT_OK;
  /* Blocks without pages for some of their bytes are multiples of a page. */
  const uint64_t begin = warm & ~(page - 1), end = (nbytes + ahead + page - 1) & ~(page - 1);
  SHMT_TRY(shmt__os_populate(shmt__descriptor_number(a->file), a->base, offset + begin, end - begin));
  atomic_store_explicit(&b->warm, end, memory_order_relaxed);
  *out_n_paged = end;
  return SHMT_OK;
}

/* --- allocating --- */

static bool take_classed(shmt__arena* a, unsigned list, uint64_t nbytes, uint32_t* out_block,
                         uint64_t* out_generation) {
  shmt__block_list* l = &a->now->free[list];
  while (l->len > 0) {
    uint32_t block = l->at[--l->len];
    if (SHMT_LIKELY(shmt__block_take(a->map, block, a->client, nbytes, out_generation))) {
      *out_block = block;
      return true;
    }
    push(&a->now->deferred[list], block); /* the manager is trimming it at this moment, or has parked its slab */
  }
  return false;
}

static bool take_large(shmt__arena* a, uint64_t nbytes, uint64_t block_bytes, uint32_t* out_block,
                       uint64_t* out_generation) {
  shmt__block_list* l = &a->now->free[SHMT_ARENA_LARGE];
  uint64_t most = block_bytes + block_bytes / 4;
  for (uint32_t i = l->len; i-- > 0;) {
    shmt__block* b = &a->map->blocks[l->at[i]];
    const shmt__own_slab* s = own_slab(a, l->at[i]);
    bool fits = s != NULL && s->block_bytes >= nbytes && s->block_bytes <= most;
    if (fits && shmt__block_take(a->map, l->at[i], a->client, nbytes, out_generation)) {
      *out_block = l->at[i];
      remove_at(l, i);
      return true;
    }
    /* A block without pages is only a range of addresses: return it to the manager. */
    if (shmt__head_state(atomic_load_explicit(&b->head, memory_order_relaxed)) == SHMT_BLOCK_COLD &&
        give_back(a, l->at[i]))
      remove_at(l, i);
  }
  return false;
}

static bool take_block(shmt__arena* a, unsigned list, uint64_t nbytes, uint64_t block_bytes, uint32_t* out_block,
                       uint64_t* out_generation) {
  return list == SHMT_ARENA_LARGE ? take_large(a, nbytes, block_bytes, out_block, out_generation)
                                  : take_classed(a, list, nbytes, out_block, out_generation);
}

void shmt__arena_give_back_large(shmt__arena* a) {
  shmt__block_list* l = &a->now->free[SHMT_ARENA_LARGE];
  collect_free(a, SHMT_ARENA_LARGE, UINT32_MAX, UINT32_MAX);
  for (uint32_t i = l->len; i-- > 0;) {
    if (give_back(a, l->at[i])) remove_at(l, i);
  }
}

static void remove_blocks(shmt__block_list* l, uint32_t first, uint32_t n) {
  for (uint32_t i = l->len; i-- > 0;)
    if (l->at[i] - first < n) remove_at(l, i);
}

/* The manager gives us a slab that was ours already, and that it had taken back while it was empty. Take its blocks out
 * of our lists, as if we had returned it. */
static void forget_parked(shmt__arena* a, unsigned list, uint32_t first_block, uint32_t n_blocks) {
  if (own_slab(a, first_block) == NULL) return;
  for (unsigned p = 0; p < SHMT_ARENA_PLACEMENTS; p++) {
    remove_blocks(&a->lists[p].free[list], first_block, n_blocks);
    remove_blocks(&a->lists[p].deferred[list], first_block, n_blocks);
  }
  forget_own(a, first_block);
}

static shmt_status grant(shmt__arena* a, unsigned list, uint64_t block_bytes, uint32_t n_blocks,
                         unsigned placement) {
  shmt__granted granted = {0};
  shmt_status status = a->source.grant(a->source.arg, block_bytes, n_blocks, &granted);
  if (status == SHMT_E_NOMEM) {
    /* Our own free large blocks may use up the space. */
    shmt__arena_give_back_large(a);
    status = a->source.grant(a->source.arg, block_bytes, n_blocks, &granted);
  }
  use_lists(a, placement); /* another thread may have used other lists meanwhile */
  if (status != SHMT_OK) return status;
  SHMT_FAILPOINT(slab_granted);
  if (!reserve_own(a)) {
    (void)a->source.give_back(a->source.arg, granted.slab);
    SHMT_FAIL(SHMT_E_NOMEM, "table of slabs: tried to allocate %zu bytes",
              sizeof *a->own_of * a->map->fixed.n_blocks);
  }
  const shmt__own_slab s = {.slab = granted.slab,
                            .first_block = granted.first_block,
                            .n_blocks = n_blocks,
                            .offset = granted.offset,
                            .block_bytes = block_bytes};
  forget_parked(a, list, s.first_block, n_blocks);
  enter_own(a, &s);
  apply(a, &s, placement);
  for (uint32_t i = n_blocks; i-- > 0;) push(&a->now->free[list], s.first_block + i);
  return SHMT_OK;
}

static void poison_new(shmt__arena* a, uint32_t block, uint64_t nbytes) {
  memset(a->base + shmt__arena_offset(a, block), SHMT_DEBUG_POISON, nbytes);
}

shmt_status shmt__arena_alloc(shmt__arena* a, uint64_t nbytes, uint64_t n_paged, uint32_t* out_block,
                              uint64_t* out_generation) {
  uint32_t n_blocks = 1;
  unsigned placement = shmt__tls_placement;
  uint64_t block_bytes = shmt__arena_block_bytes(nbytes, &n_blocks), ignored = 0;
  unsigned list = nbytes > MAX_CLASSED ? (unsigned)SHMT_ARENA_LARGE : class_of(nbytes, &ignored);
  SHMT_REQUIRE(block_bytes <= a->map->fixed.arena_bytes, SHMT_E_NOMEM,
               "unable to allocate shared memory: tried %" PRIu64
               " bytes, the session's arena has %" PRIu64,
               nbytes, a->map->fixed.arena_bytes);
  SHMT_TRY(reserve_placed(a, placement));
  use_lists(a, placement);
  if (!take_block(a, list, nbytes, block_bytes, out_block, out_generation)) {
    bool is_large = list == SHMT_ARENA_LARGE;
    collect_free(a, list, is_large ? UINT32_MAX : DEFERRED_LOOKS, UINT32_MAX);
    if (!is_large && a->now->free[list].len == 0) collect_all_free(a, list, n_blocks);
    /* The manager may park the new slab before we take a block of it, when another client asks for room. */
    for (int grants = 0; !take_block(a, list, nbytes, block_bytes, out_block, out_generation); grants++) {
      SHMT_REQUIRE(grants < MOST_GRANTS, SHMT_E_NOMEM,
                   "unable to allocate shared memory: tried %" PRIu64 " bytes, no block of the new slab is free",
                   nbytes);
      SHMT_TRY(grant(a, list, block_bytes, n_blocks, placement));
    }
  }
  SHMT_FAILPOINT(block_taken);
  /* What is filled next is poisoned until then, so it needs pages. */
  if (SHMT_UNLIKELY(shmt__debug) && n_paged == 0) n_paged = nbytes;
  shmt_status status = populate(a, *out_block, nbytes, n_paged);
  SHMT_FAILPOINT(block_populated);
  if (SHMT_UNLIKELY(status != SHMT_OK)) {
    shmt__arena_free(a, *out_block);
    return status;
  }
  /* Its last holder may not have overwritten it. */
  if (SHMT_UNLIKELY(shmt__debug)) poison_new(a, *out_block, n_paged);
  return SHMT_OK;
}

void shmt__arena_poison(const shmt__map* map, char* base, uint32_t block, unsigned client) {
  const shmt__block* b = &map->blocks[block];
  shmt__slab_view s;
  uint64_t nbytes = atomic_load_explicit(&b->nbytes, memory_order_relaxed) & ~SHMT_BLOCK_IS_RING;
  uint64_t warm = atomic_load_explicit(&b->warm, memory_order_relaxed);
  if (!shmt__slab_of_block(map, block, &s) || s.state != SHMT_SLAB_ARENA) return;
  if (nbytes > s.block_bytes || nbytes > warm || !shmt__block_is_last_held_by(map, block, client))
    return;
  memset(base + s.offset + s.block_bytes * (block - s.first_block), SHMT_DEBUG_POISON, nbytes);
}

void shmt__arena_free(shmt__arena* a, uint32_t block) {
  const shmt__own_slab* s = own_slab(a, block);
  if (SHMT_UNLIKELY(shmt__debug)) shmt__arena_poison(a->map, a->base, block, a->client);
  shmt__block_unhold(a->map, block, a->client);
  SHMT_FAILPOINT(block_unheld);
  bool reclaimed = shmt__block_reclaim(a->map, block, a->client);
  if (s != NULL) {
    use_lists(a, a->placed != NULL ? a->placed[s->slab] : 0);
    push(reclaimed ? &a->now->free[list_of(s)] : &a->now->deferred[list_of(s)], block);
  }
  shmt__map_note_activity(a->map);
}

void shmt__arena_init(shmt__arena* a, const shmt__map* map, shmt__slab_source source) {
  *a = (shmt__arena){.map = map, .source = source};
  a->now = &a->lists[0];
}

void shmt__arena_reset(shmt__arena* a) {
  for (unsigned p = 0; p < SHMT_ARENA_PLACEMENTS; p++) {
    for (unsigned i = 0; i <= SHMT_ARENA_LARGE; i++) {
      free(a->lists[p].free[i].at);
      free(a->lists[p].deferred[i].at);
    }
    a->lists[p] = (shmt__arena_lists){0};
  }
  a->now = &a->lists[0];
  if (a->placed != NULL) memset(a->placed, 0, a->map->fixed.n_slabs);
  /* Freed, not overwritten: a forked child shares its pages with the parent until it writes to them. */
  free(a->own_of);
  a->own_of = NULL;
  a->n_own = a->n_unused_own = a->unused_own = 0;
}

void shmt__arena_fini(shmt__arena* a) {
  shmt__arena_reset(a);
  free(a->placed);
  free(a->own);
}
