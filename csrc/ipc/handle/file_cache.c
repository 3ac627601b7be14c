/* ipc/handle/file_cache.c -- a cache of memory files that this process has mapped and does not use at the moment. */
#include "ipc/handle/file_cache.h"

#include "base/debug.h"
#include "ipc/handle/saved_descriptors.h"
#include "os/clock.h"
#include "os/memfd.h"
#include "shm/block.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_CACHED_FILES = 32,
  MAX_AGE_MS = 1000,
};
static const uint64_t max_cached_bytes = UINT64_C(256) << 20;

typedef struct shmt__cached_file {
  void* map;
  uint64_t map_bytes;
  uint64_t identity[2];
  uint64_t generation; /* of the block, while we held it */
  uint64_t since_ms;
  uint32_t block;
  shmt__descriptor file; /* for a next manager, or none */
  bool is_owned, is_entered;
} cached_file;

static void remove_at(shmt__session* s, uint32_t i) {
  s->cached_file_bytes -= s->file_cache[i].map_bytes;
  /* In order: the oldest come first. */
  memmove(&s->file_cache[i], &s->file_cache[i + 1],
          sizeof *s->file_cache * (s->n_cached_files - i - 1));
  s->n_cached_files--;
}

static void unmap_at(shmt__session* s, uint32_t i) {
  shmt__descriptor_close(&s->file_cache[i].file);
  shmt__os_unmap(s->file_cache[i].map, s->file_cache[i].map_bytes);
  remove_at(s, i);
}

/* Read the block's slab. False: it is no FILE slab of this block any more, or processes that are no members may have
 * its file. */
static bool read_slab(const shmt__session* s, uint32_t block, shmt__slab_view* out) {
  return shmt__slab_of_block(&s->map, block, out) && out->state == SHMT_SLAB_FILE &&
         out->first_block == block && !shmt__slab_is_exported(&s->map, block);
}

bool shmt__file_cache_add(const shmt__held_block* h) {
  shmt__session* s = h->session;
  shmt__slab_view slab;
  if (shmt__debug || h->map_bytes > max_cached_bytes / 2 || s->client == 0 || s->is_lost ||
      h->generation == 0 || !read_slab(s, h->block, &slab))
    return false;
  if (s->file_cache == NULL) s->file_cache = malloc(sizeof *s->file_cache * MAX_CACHED_FILES);
  if (s->file_cache == NULL) return false;
  uint32_t most = (uint32_t)shmt__os_recent_descriptor_limit() / 16; /* each may have a descriptor */
  if (most > MAX_CACHED_FILES) most = MAX_CACHED_FILES;
  if (most == 0) return false;
  while (s->n_cached_files >= most ||
         (s->n_cached_files > 0 && s->cached_file_bytes > max_cached_bytes - h->map_bytes))
    unmap_at(s, 0);
  s->file_cache[s->n_cached_files++] =
      (cached_file){.map = h->map,
                   .map_bytes = h->map_bytes,
                   .identity = {slab.file_identity[0], slab.file_identity[1]},
                   .generation = h->generation,
                   .since_ms = shmt__os_now_ms(),
                   .block = h->block,
                   .file = shmt__held_block_is_owned(h) ? shmt__saved_descriptor_take(h) : SHMT_NO_DESCRIPTOR,
                   .is_owned = shmt__held_block_is_owned(h),
                   .is_entered = h->is_entered};
  s->cached_file_bytes += h->map_bytes;
  return true;
}

/* If nobody else uses our file any more, hold its block again. */
static bool take_again(shmt__session* s, const cached_file* f, uint64_t nbytes) {
  shmt__block* b = &s->map.blocks[f->block];
  shmt__slab_view slab;
  if (!read_slab(s, f->block, &slab) || slab.owner != s->client ||
      memcmp(slab.file_identity, f->identity, sizeof f->identity) != 0)
    return false;
  uint64_t head = atomic_load_explicit(&b->head, memory_order_acquire);
  if (shmt__head_state(head) == SHMT_BLOCK_USED && shmt__head_generation(head) == f->generation)
    (void)shmt__block_reclaim(&s->map, f->block, s->client);
  if (!shmt__block_reuse(&s->map, f->block, s->client, nbytes, f->generation + 1)) return false;
  if (!shmt__slab_is_exported(&s->map, f->block)) return true;
  /* Its last user has given the descriptor away a moment ago. */
  shmt__block_unhold(&s->map, f->block, s->client);
  shmt__map_note_activity(&s->map);
  return false;
}

bool shmt__file_cache_reuse(shmt__session* s, uint64_t nbytes, shmt__held_block** out) {
  for (uint32_t i = s->n_cached_files; i-- > 0;) {
    const cached_file f = s->file_cache[i];
    if (!f.is_owned || f.map_bytes < nbytes || f.map_bytes > nbytes + nbytes / 4 + 65536) continue;
    if (!take_again(s, &f, nbytes)) continue;
    shmt__held_block* h = NULL;
    if (shmt__session_add_held_block(s, f.block, f.generation + 1, &h) != SHMT_OK) {
      shmt__block_unhold(&s->map, f.block, s->client);
      shmt__map_note_activity(&s->map);
      return false;
    }
    h->map = f.map;
    h->map_bytes = f.map_bytes;
    h->nbytes = nbytes;
    h->has_pages = true;
    h->is_entered = f.is_entered;
    remove_at(s, i);
    shmt__saved_descriptor_add(h, f.file);
    *out = h;
    return true;
  }
  return false;
}

bool shmt__file_cache_map(shmt__held_block* h, uint64_t nbytes) {
  shmt__session* s = h->session;
  shmt__slab_view slab;
  if (s->n_cached_files == 0 || !read_slab(s, h->block, &slab)) return false;
  for (uint32_t i = s->n_cached_files; i-- > 0;) {
    cached_file* f = &s->file_cache[i];
    if (memcmp(slab.file_identity, f->identity, sizeof f->identity) != 0) continue;
    if (f->block != h->block || f->map_bytes < nbytes) return false;
    h->map = f->map;
    h->map_bytes = f->map_bytes;
    shmt__descriptor_close(&f->file);
    remove_at(s, i);
    return true;
  }
  return false;
}

bool shmt__file_cache_expire(shmt__session* s) {
  uint64_t now_ms = shmt__os_now_ms();
  while (s->n_cached_files > 0 && now_ms - s->file_cache[0].since_ms >= MAX_AGE_MS) unmap_at(s, 0);
  return s->n_cached_files > 0;
}

void shmt__file_cache_clear(shmt__session* s) {
  while (s->n_cached_files > 0) unmap_at(s, s->n_cached_files - 1);
  free(s->file_cache);
  s->file_cache = NULL;
}
