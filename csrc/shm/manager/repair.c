/* shm/manager/repair.c -- rewrites the copy of the manager's tables that members read, where a member has overwritten
 * it. See Note [Private tables] in shm/manager/arena_manager.h. */
#include "shm/manager/arena_manager.h"
#include "shm/manager/posix_names.h"

#include <string.h>

static void repair_word(atomic_uint_least32_t* word, uint32_t right) {
  if (atomic_load_explicit(word, memory_order_relaxed) != right)
    atomic_store_explicit(word, right, memory_order_seq_cst);
}

static void repair_header(shmt__arena_manager* k) {
  shmt__control* c = k->map.control;
  c->magic = SHMT_CONTROL_MAGIC;
  c->version = SHMT_LAYOUT_VERSION;
  c->n_clients = SHMT_MAX_CLIENTS;
  if (memcmp(&c->fixed, &k->map.fixed, sizeof c->fixed) != 0) c->fixed = k->map.fixed;
  repair_word(&c->slabs_end, k->slabs_end);
  repair_word(&c->blocks_end, k->blocks_end);
  repair_word(&c->ended, 0);
  /* It only grows: a process that claims a number raises it. */
  if (shmt__map_clients_end(&k->map) < k->clients_end) repair_word(&c->clients_end, k->clients_end);
}

static void repair_client(shmt__arena_manager* k, uint32_t id) {
  const shmt__arena_manager_client* c = &k->clients[id];
  shmt__client_entry* e = &k->map.clients[id];
  uint32_t state = atomic_load_explicit(&e->state, memory_order_acquire);
  /* A child whose number its parent claimed: it has started. */
  if (c->state == SHMT_CLIENT_RESERVED && state == SHMT_CLIENT_ALIVE) {
    (void)shmt__arena_manager_adopt_client(k, id);
    return;
  }
  if (e->pid != c->pid) e->pid = c->pid;
  if (e->start != c->start) e->start = c->start;
  if (e->pid_namespace != c->pid_namespace) e->pid_namespace = c->pid_namespace;
  if (state != c->state) atomic_store_explicit(&e->state, c->state, memory_order_release);
}

static void repair_slab(shmt__arena_manager* k, uint32_t slab) {
  const shmt__slab_view* right = shmt__arena_manager_slab_at(k, slab);
  shmt__slab* s = &k->map.slabs[slab];
  if (right == NULL) {
    repair_word(&s->state, SHMT_SLAB_NONE);
    if (s->n_blocks != 0) s->n_blocks = 0;
    return;
  }
  if (s->first_block != right->first_block) s->first_block = right->first_block;
  if (s->n_blocks != right->n_blocks) s->n_blocks = right->n_blocks;
  if (s->offset != right->offset) s->offset = right->offset;
  if (s->nbytes != right->nbytes) s->nbytes = right->nbytes;
  if (s->block_bytes != right->block_bytes) s->block_bytes = right->block_bytes;
  for (int i = 0; i < 2; i++)
    if (s->file_identity[i] != right->file_identity[i]) s->file_identity[i] = right->file_identity[i];
  if (s->has_posix_name != right->has_posix_name) s->has_posix_name = right->has_posix_name;
  if (right->has_posix_name) shmt__arena_manager_repair_posix_name(k, slab);
  repair_word(&s->owner, right->owner);
  repair_word(&s->state, right->state);
}

void shmt__arena_manager_repair_block(const shmt__arena_manager* k, const shmt__slab_view* s, uint32_t block) {
  shmt__block* b = &k->map.blocks[block];
  uint64_t offset = shmt__slab_offset_of(s, block);
  uint32_t slab = k->slab_of[block] - 1;
  if (b->slab != slab) b->slab = slab;
  if (b->offset != offset) b->offset = offset;
  if (b->capacity != s->block_bytes) b->capacity = s->block_bytes;
}

void shmt__arena_manager_repair(shmt__arena_manager* k) {
  repair_header(k);
  for (uint32_t id = 1; id < k->clients_end; id++) {
    if (k->clients[id].state != SHMT_CLIENT_NONE) repair_client(k, id);
  }
  for (uint32_t i = 0; i < k->slabs_end; i++) repair_slab(k, i);
}
