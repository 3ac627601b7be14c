/* shm/keeper.c -- making and adopting a session's files, its clients, and granting slabs. */
#include "shm/keeper.h"

#include "base/overflow.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"
#include "shm/client.h"
#include "shm/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_SLABS = 1 << 16,
  MAX_BLOCKS = 1 << 21,
  MIN_BLOCKS = 1 << 12,
};

static const uint64_t min_arena = 1 << 20;

/* --- life --- */

static void init_empty(shmt__keeper* k) { *k = (shmt__keeper){.control_fd = -1, .arena_fd = -1}; }

void shmt__keeper_fini(shmt__keeper* k) {
  shmt__map_close(&k->map);
  shmt__os_close(k->control_fd);
  shmt__os_close(k->arena_fd);
  shmt__ranges_fini(&k->arena);
  shmt__ranges_fini(&k->blocks);
  for (uint32_t i = 0; i < k->n_files; i++) shmt__os_close(k->files[i]);
  free(k->files);
  init_empty(k);
}

static shmt_status init_private(shmt__keeper* k) {
  const shmt__fixed* c = &k->map.fixed;
  SHMT_REQUIRE(
      shmt__ranges_init(&k->arena, c->arena_bytes) && shmt__ranges_init(&k->blocks, c->n_blocks),
      SHMT_E_NOMEM, "the manager has no memory for its lists");
  return SHMT_OK;
}

/* Halve the arena until the limits of this process allow it. */
static shmt_status create_arena(const char* name, uint64_t nbytes, int* out_fd,
                                uint64_t* out_nbytes) {
  uint64_t limit = shmt__os_file_limit();
  while (nbytes > limit) nbytes /= 2;
  for (;;) {
    nbytes &= ~(uint64_t)(SHMT_SLAB_ALIGN - 1);
    if (nbytes < min_arena) nbytes = min_arena;
    shmt_status status = shmt__os_memfd_create(name, nbytes, out_fd);
    if (status == SHMT_OK) *out_nbytes = nbytes;
    if (status == SHMT_OK || nbytes <= min_arena) return status;
    nbytes /= 2;
  }
}

static shmt_status create_files(shmt__keeper* k, const shmt__keeper_options* o) {
  char name[64];
  uint64_t arena_bytes = o->arena_bytes;
  uint32_t n_slabs = MAX_SLABS, n_blocks = MAX_BLOCKS;
  uint64_t limit = shmt__os_file_limit(), addresses = shmt__os_address_limit() / 8;
  if (addresses < limit) limit = addresses; /* every member maps the file */
  while (n_blocks > MIN_BLOCKS && shmt__layout_of(n_slabs, n_blocks).end > limit) {
    n_blocks /= 2;
    if (n_slabs > n_blocks) n_slabs /= 2;
  }
  shmt__layout l = shmt__layout_of(n_slabs, n_blocks);
  (void)snprintf(name, sizeof name, "shmtensor-arena-%016" PRIx64, o->session);
  SHMT_TRY(create_arena(name, arena_bytes, &k->arena_fd, &arena_bytes));
  (void)snprintf(name, sizeof name, "shmtensor-control-%016" PRIx64, o->session);
  SHMT_TRY(shmt__os_memfd_create(name, l.end, &k->control_fd));
  /* The header and the clients get pages now; slabs and blocks as they are handed out. */
  SHMT_TRY(shmt__os_populate(k->control_fd, NULL, 0, l.slabs));
  if (o->flags & SHMT_SESSION_SERVICE)
    SHMT_TRY(shmt__os_populate(k->control_fd, NULL, l.names, l.sites - l.names));

  void* base = NULL;
  SHMT_TRY(shmt__os_map_shared(k->control_fd, l.end, &base));
  shmt__control* c = base;
  c->magic = SHMT_CONTROL_MAGIC;
  c->version = SHMT_LAYOUT_VERSION;
  c->n_clients = SHMT_MAX_CLIENTS;
  c->fixed = (shmt__fixed){.session = o->session,
                           .world = shmt__os_random(),
                           .secret = shmt__os_random(),
                           .arena_bytes = arena_bytes,
                           .limit_bytes = o->limit_bytes,
                           .client_limit_bytes = o->client_limit_bytes,
                           .net_namespace = shmt__os_net_namespace(),
                           .n_slabs = n_slabs,
                           .n_blocks = n_blocks,
                           .flags = o->flags,
                           .gid = o->gid};
  (void)shmt__os_file_identity(k->arena_fd, c->fixed.arena_identity);
  atomic_init(&c->clients_end, 1);
  shmt__os_unmap(base, l.end);
  return SHMT_OK;
}

shmt_status shmt__keeper_create(const shmt__keeper_options* options, shmt__keeper* out) {
  init_empty(out);
  shmt_status status = create_files(out, options);
  if (status == SHMT_OK) status = shmt__map_open(out->control_fd, &out->map);
  if (status == SHMT_OK) status = init_private(out);
  if (status != SHMT_OK) shmt__keeper_fini(out);
  return status;
}

static bool is_inside(const shmt__keeper* k, const shmt__slab* s) {
  const shmt__fixed* c = &k->map.fixed;
  return s->n_blocks > 0 && s->first_block < c->n_blocks &&
         s->n_blocks <= c->n_blocks - s->first_block;
}

/* Was the manager killed while it retired the slab? Its pages are gone by then. */
static bool is_retired(const shmt__keeper* k, const shmt__slab* s) {
  uint64_t head = atomic_load_explicit(&k->map.blocks[s->first_block].head, memory_order_acquire);
  return shmt__head_state(head) == SHMT_BLOCK_NONE;
}

/* The free ranges are what no slab covers. Marks that the killed manager left come off. */
static shmt_status rebuild(shmt__keeper* k) {
  uint32_t end = shmt__map_slabs_end(&k->map);
  SHMT_REQUIRE(end <= k->map.fixed.n_slabs, SHMT_E_MANAGER, "control file: %u slabs of %u", end,
               k->map.fixed.n_slabs);
  for (uint32_t i = 0; i < end; i++) {
    shmt__slab* s = &k->map.slabs[i];
    uint32_t state = atomic_load_explicit(&s->state, memory_order_acquire);
    if (state == SHMT_SLAB_NONE) continue;
    SHMT_REQUIRE(is_inside(k, s), SHMT_E_MANAGER, "control file: slab %u has blocks %u to %u of %u",
                 i, s->first_block, s->first_block + s->n_blocks, k->map.fixed.n_blocks);
    if (is_retired(k, s)) {
      atomic_store_explicit(&s->state, SHMT_SLAB_NONE, memory_order_release);
      continue;
    }
    bool fits = shmt__ranges_take_at(&k->blocks, s->first_block, s->n_blocks);
    if (state == SHMT_SLAB_ARENA)
      fits = fits && shmt__ranges_take_at(&k->arena, s->offset, s->nbytes);
    SHMT_REQUIRE(fits, SHMT_E_MANAGER, "control file: slab %u overlaps another", i);
    k->granted_bytes += s->nbytes;
    for (uint32_t j = 0; j < s->n_blocks; j++) {
      shmt__block* b = &k->map.blocks[s->first_block + j];
      shmt__block_unmark(b, SHMT_MANAGER_MARKER);
      if (shmt__head_state(atomic_load_explicit(&b->head, memory_order_acquire)) == SHMT_BLOCK_TRIM)
        shmt__block_fail_trim(b);
    }
  }
  return SHMT_OK;
}

shmt_status shmt__keeper_adopt(uint64_t session, int control_fd, int arena_fd, shmt__keeper* out) {
  init_empty(out);
  /* Opened anew: the one that came may have the lock of the client that sent it. */
  out->control_fd = shmt__os_reopen(control_fd);
  out->arena_fd = arena_fd;
  shmt__os_close(control_fd);
  shmt_status status = shmt__map_open(out->control_fd, &out->map);
  if (status == SHMT_OK &&
      (out->map.fixed.session != session || !shmt__arena_matches(&out->map, arena_fd)))
    status = shmt__fail(SHMT_E_MANAGER, "the files to adopt are not those of session %016" PRIx64,
                        session);
  if (status == SHMT_OK) status = init_private(out);
  if (status == SHMT_OK) status = rebuild(out);
  if (status != SHMT_OK) shmt__keeper_fini(out);
  return status;
}

/* --- clients --- */

shmt_status shmt__keeper_reserve_client(shmt__keeper* k, int fd, int32_t pid, uint32_t* out_id) {
  SHMT_REQUIRE(shmt__client_claim(&k->map, fd, pid, out_id), SHMT_E_RUNTIME,
               "all %d places for processes in this session are taken", SHMT_MAX_CLIENTS - 1);
  SHMT_FAILPOINT(client_reserved);
  return SHMT_OK;
}

void shmt__keeper_erase_client(shmt__keeper* k, uint32_t id) {
  uint32_t end = shmt__map_slabs_end(&k->map);
  for (uint32_t i = 0; i < end; i++) {
    shmt__slab_view s;
    if (!shmt__slab_read(&k->map, i, &s)) continue;
    for (uint32_t j = 0; j < s.n_blocks; j++) {
      uint32_t block = s.first_block + j;
      if (shmt__block_is_held_by(&k->map, block, id)) shmt__block_unhold(&k->map, block, id);
      shmt__block_unmark(&k->map.blocks[block], id);
    }
    if (s.owner == id)
      atomic_store_explicit(&k->map.slabs[i].owner, 0, memory_order_relaxed);
  }
  shmt__leases_forget_client(&k->map, id);
  /* seq_cst: the audit that follows finds the client gone. */
  atomic_store_explicit(&k->map.control->leases_stale, 1, memory_order_seq_cst);
  SHMT_FAILPOINT(client_unheld);
  /* release: the id is given out again only when all its holds are gone. */
  atomic_store_explicit(&k->map.clients[id].state, SHMT_CLIENT_NONE, memory_order_release);
  shmt__map_note_activity(&k->map);
}

/* --- slabs --- */

static shmt_status find_slab(shmt__keeper* k, uint32_t* out_slab) {
  shmt__control* c = k->map.control;
  uint32_t end = shmt__map_slabs_end(&k->map);
  for (uint32_t i = 0; i < end; i++) {
    if (atomic_load_explicit(&k->map.slabs[i].state, memory_order_relaxed) == SHMT_SLAB_NONE) {
      *out_slab = i;
      return SHMT_OK;
    }
  }
  SHMT_REQUIRE(end < k->map.fixed.n_slabs, SHMT_E_NOMEM,
               "unable to allocate shared memory: all %u slabs of the session are in use",
               k->map.fixed.n_slabs);
  uint64_t at = (uint64_t)((char*)&k->map.slabs[end] - (char*)c);
  SHMT_TRY(shmt__os_populate(k->control_fd, NULL, at, sizeof(shmt__slab)));
  *out_slab = end;
  return SHMT_OK;
}

/* Records for a slab: populated, without holds, in `state` with their generation going on. */
static shmt_status make_blocks(shmt__keeper* k, const shmt__slab* s, uint32_t slab,
                               shmt__block_state state) {
  shmt__block* first = &k->map.blocks[s->first_block];
  SHMT_TRY(shmt__os_populate(k->control_fd, NULL, (uint64_t)((char*)first - (char*)k->map.control),
                             sizeof(shmt__block) * s->n_blocks));
  for (uint32_t i = 0; i < s->n_blocks; i++) {
    shmt__block* b = &first[i];
    uint64_t generation =
        shmt__head_generation(atomic_load_explicit(&b->head, memory_order_relaxed));
    b->slab = slab;
    b->offset = s->offset + s->block_bytes * i;
    b->capacity = s->block_bytes;
    atomic_store_explicit(&b->nbytes, 0, memory_order_relaxed);
    atomic_store_explicit(&b->warm, 0, memory_order_relaxed);
    shmt__block_clear_leases(b);
    atomic_store_explicit(&b->n_ring_leases, 0, memory_order_relaxed);
    /* What a reader with a stale handle left when it was killed in the middle. */
    for (unsigned j = 0; j < SHMT_NEAR_WORDS; j++)
      atomic_store_explicit(&b->holds[j], 0, memory_order_relaxed);
    /* release: the owner learns of the slab by a message, others by a handle, after this. */
    atomic_store_explicit(&b->head, shmt__head(generation + 1, 0, state), memory_order_release);
  }
  return SHMT_OK;
}

static shmt_status add_slab(shmt__keeper* k, shmt__slab plan, shmt__slab_state kind,
                            uint32_t client, shmt__block_state block_state, uint32_t* out_slab) {
  uint64_t first = 0;
  uint32_t slab = 0;
  SHMT_TRY(find_slab(k, &slab));
  SHMT_REQUIRE(shmt__ranges_take(&k->blocks, plan.n_blocks, &first), SHMT_E_NOMEM,
               "unable to allocate shared memory: all %u blocks of the session are in use",
               k->map.fixed.n_blocks);
  plan.first_block = (uint32_t)first;
  shmt_status status = make_blocks(k, &plan, slab, block_state);
  if (status != SHMT_OK) {
    shmt__ranges_give(&k->blocks, first, plan.n_blocks);
    return status;
  }
  SHMT_FAILPOINT(slab_blocks_made);
  shmt__slab* s = &k->map.slabs[slab];
  s->first_block = plan.first_block;
  s->n_blocks = plan.n_blocks;
  s->offset = plan.offset;
  s->nbytes = plan.nbytes;
  s->block_bytes = plan.block_bytes;
  s->file_identity[0] = plan.file_identity[0];
  s->file_identity[1] = plan.file_identity[1];
  atomic_store_explicit(&s->owner, client, memory_order_relaxed);
  /* release: a manager that takes over believes the fields of a slab that has a state. */
  atomic_store_explicit(&s->state, kind, memory_order_release);
  SHMT_FAILPOINT(slab_stated);
  shmt__control* c = k->map.control;
  if (slab >= atomic_load_explicit(&c->slabs_end, memory_order_relaxed))
    atomic_store_explicit(&c->slabs_end, slab + 1, memory_order_release);
  uint32_t blocks_end = plan.first_block + plan.n_blocks;
  if (blocks_end > atomic_load_explicit(&c->blocks_end, memory_order_relaxed))
    atomic_store_explicit(&c->blocks_end, blocks_end, memory_order_seq_cst);
  k->granted_bytes += plan.nbytes;
  /* After blocks_end, which a client that gets a far number meanwhile looks at after clients_end. */
  status = shmt__client_reach(&k->map, k->control_fd);
  if (status != SHMT_OK) {
    shmt__keeper_retire(k, slab);
    return status;
  }
  *out_slab = slab;
  return SHMT_OK;
}

shmt_status shmt__keeper_grant(shmt__keeper* k, uint32_t client, uint64_t block_bytes,
                               uint32_t n_blocks, uint32_t* out_slab) {
  uint64_t nbytes = 0;
  SHMT_REQUIRE(block_bytes >= 64 && block_bytes % 64 == 0 && n_blocks >= 1 && n_blocks <= 4096 &&
                   shmt__mul_u64(block_bytes, n_blocks, &nbytes) &&
                   nbytes <= k->map.fixed.arena_bytes,
               SHMT_E_VALUE, "no slab of %u blocks of %" PRIu64 " bytes", n_blocks, block_bytes);
  nbytes = (nbytes + SHMT_SLAB_ALIGN - 1) & ~(uint64_t)(SHMT_SLAB_ALIGN - 1);
  SHMT_TRY(shmt__keeper_check_quota(k, client, nbytes));
  shmt__slab plan = {.n_blocks = n_blocks, .nbytes = nbytes, .block_bytes = block_bytes};
  SHMT_REQUIRE(shmt__ranges_take(&k->arena, nbytes, &plan.offset), SHMT_E_NOMEM,
               "unable to allocate shared memory: tried %" PRIu64 " bytes, %" PRIu64
               " of the arena's %" PRIu64 " are in use",
               nbytes, k->granted_bytes, k->map.fixed.arena_bytes);
  shmt_status status = add_slab(k, plan, SHMT_SLAB_ARENA, client, SHMT_BLOCK_COLD, out_slab);
  if (status != SHMT_OK) shmt__ranges_give(&k->arena, plan.offset, nbytes);
  return status;
}

/* --- FILE slabs --- */

static bool reserve_files(shmt__keeper* k, uint32_t slab) {
  if (slab < k->n_files) return true;
  uint32_t n = k->n_files ? k->n_files : 16;
  while (n <= slab) n *= 2;
  int* files = realloc(k->files, sizeof *files * n);
  if (files == NULL) return false;
  for (uint32_t i = k->n_files; i < n; i++) files[i] = -1;
  k->files = files;
  k->n_files = n;
  return true;
}

shmt_status shmt__keeper_add_file(shmt__keeper* k, uint32_t client, int fd, uint64_t nbytes,
                                  uint32_t* out_block, uint64_t* out_generation) {
  uint64_t size = 0;
  uint32_t slab = 0;
  shmt__keeper_expect_file(k);
  bool good =
      shmt__os_memfd_check(fd, &size) && nbytes > 0 && nbytes <= size &&
      reserve_files(k, shmt__map_slabs_end(&k->map));
  shmt__slab plan = {.n_blocks = 1, .nbytes = size, .block_bytes = size};
  good = good && shmt__os_file_identity(fd, plan.file_identity);
  shmt_status status =
      good ? add_slab(k, plan, SHMT_SLAB_FILE, client, SHMT_BLOCK_TRIM, &slab)
           : shmt__fail(SHMT_E_VALUE,
                        "descriptor %d is no sealed memory file of at least %" PRIu64 " bytes", fd,
                        nbytes);
  if (status != SHMT_OK) {
    shmt__os_close(fd);
    return status;
  }
  atomic_store_explicit(&k->map.slabs[slab].is_exported, 0, memory_order_relaxed);
  shmt__block* b = &k->map.blocks[k->map.slabs[slab].first_block];
  k->files[slab] = fd;
  atomic_store_explicit(&b->warm, size, memory_order_relaxed);
  shmt__block_end_trim(b, false);
  bool taken = shmt__block_take(&k->map, k->map.slabs[slab].first_block, client, nbytes, out_generation);
  SHMT_ASSERT(taken);
  (void)taken;
  *out_block = k->map.slabs[slab].first_block;
  return SHMT_OK;
}

/* The FILE slab of a block of this generation; it has a place in `files` then. */
static bool find_file(shmt__keeper* k, uint32_t block, uint64_t generation, uint32_t* out_slab) {
  if (block >= shmt__map_blocks_end(&k->map))
    return false;
  uint32_t slab = k->map.blocks[block].slab;
  if (slab >= k->map.fixed.n_slabs) return false;
  const shmt__slab* s = &k->map.slabs[slab];
  if (atomic_load_explicit(&s->state, memory_order_acquire) != SHMT_SLAB_FILE ||
      s->first_block != block)
    return false;
  uint64_t head = atomic_load_explicit(&k->map.blocks[block].head, memory_order_acquire);
  *out_slab = slab;
  return shmt__head_generation(head) == generation && reserve_files(k, slab);
}

void shmt__keeper_restore_file(shmt__keeper* k, uint32_t block, uint64_t generation, int fd) {
  uint64_t size = 0, identity[2];
  uint32_t slab = 0;
  bool good = find_file(k, block, generation, &slab) && k->files[slab] < 0 &&
              shmt__os_memfd_check(fd, &size) && shmt__os_file_identity(fd, identity) &&
              identity[0] == k->map.slabs[slab].file_identity[0] &&
              identity[1] == k->map.slabs[slab].file_identity[1];
  if (good)
    k->files[slab] = fd;
  else
    shmt__os_close(fd);
}

/* The manager before us was killed, and nobody has sent the file yet: who holds the block, or made
 * it, may have it still. Of a child that had just been forked the process may be unknown. */
static int search_file(const shmt__keeper* k, const shmt__slab* s) {
  uint32_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
  int fd = -1;
  bool is_child_unknown = false;
  for (uint32_t id = 1; id < SHMT_MAX_CLIENTS && fd < 0; id++) {
    const shmt__client_entry* e = &k->map.clients[id];
    uint32_t state = atomic_load_explicit(&e->state, memory_order_relaxed);
    if (state == SHMT_CLIENT_NONE || (id != owner && !shmt__block_is_held_by(&k->map, s->first_block, id))) continue;
    if (state == SHMT_CLIENT_ALIVE)
      fd = shmt__os_open_from_process(e->pid, s->file_identity);
    else
      is_child_unknown = true;
  }
  return fd < 0 && is_child_unknown ? shmt__os_open_from_any_process(s->file_identity) : fd;
}

int shmt__keeper_file(shmt__keeper* k, uint32_t block, uint64_t generation) {
  uint32_t slab = 0;
  if (!find_file(k, block, generation, &slab)) return -1;
  if (k->files[slab] < 0) k->files[slab] = search_file(k, &k->map.slabs[slab]);
  return k->files[slab];
}
