/* shm/manager/private_tables.c -- the manager's own tables of slabs and clients. See Note [Private tables] in
 * shm/manager/arena_manager.h. */
#include "os/closer.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/manager/arena_manager.h"
#include "shm/manager/posix_names.h"

#include <stdlib.h>

shmt_status shmt__arena_manager_init_tables(shmt__arena_manager* k) {
  const shmt__fixed* c = &k->map.fixed;
  k->slab_of = calloc(c->n_blocks, sizeof *k->slab_of); /* its pages come with use */
  k->clients_end = 1;
  k->block_stamps = calloc(c->n_blocks, sizeof *k->block_stamps);
  k->leases_seen = calloc((size_t)k->map.n_lease_pages * SHMT_LEASES_OF_PAGE, sizeof *k->leases_seen);
  SHMT_REQUIRE(
      k->slab_of != NULL && k->block_stamps != NULL && k->leases_seen != NULL &&
          shmt__ranges_init(&k->arena, c->arena_bytes) && shmt__ranges_init(&k->blocks, c->n_blocks),
      SHMT_E_NOMEM, "the manager has no memory for its lists");
  return SHMT_OK;
}

void shmt__arena_manager_fini(shmt__arena_manager* k) {
  shmt__map_close(&k->map);
  shmt__os_close(k->control_fd);
  shmt__os_close(k->arena_fd);
  shmt__ranges_fini(&k->arena);
  shmt__ranges_fini(&k->blocks);
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    shmt__os_close(k->slabs[i].file);
    free(k->slabs[i].posix_name);
  }
  free(k->slabs);
  free(k->slab_of);
  free(k->block_stamps);
  free(k->leases_seen);
  *k = (shmt__arena_manager){.control_fd = -1, .arena_fd = -1};
}

/* --- clients --- */

void shmt__arena_manager_enter_client(shmt__arena_manager* k, uint32_t id, shmt__arena_manager_client who) {
  k->clients[id] = who;
  if (id >= k->clients_end) k->clients_end = id + 1;
}

bool shmt__arena_manager_adopt_client(shmt__arena_manager* k, uint32_t id) {
  const shmt__client_entry* e = &k->map.clients[id];
  if (id >= shmt__map_clients_end(&k->map)) return false;
  /* acquire: pid and start come with the state. They are hints; the lock decides. */
  uint32_t state = atomic_load_explicit(&e->state, memory_order_acquire);
  if (state == SHMT_CLIENT_NONE) return false;
  if (state != SHMT_CLIENT_ALIVE) state = SHMT_CLIENT_RESERVED;
  shmt__arena_manager_client who = {state, e->pid, 0, e->pid_namespace};
  /* We read ourselves when the process started: in another time namespace it says another time. */
  if (who.pid_namespace == shmt__os_pid_namespace()) who.start = shmt__os_process_start(who.pid);
  shmt__arena_manager_enter_client(k, id, who);
  return true;
}

uint32_t shmt__arena_manager_clients_end(const shmt__arena_manager* k) {
  uint32_t claimed = shmt__map_clients_end(&k->map);
  return claimed > k->clients_end ? claimed : k->clients_end;
}

/* --- slabs --- */

uint64_t shmt__slab_session_bytes(const shmt__slab_view* s) {
  return s->state == SHMT_SLAB_PROGRAM_FILE ? 0 : s->nbytes;
}

bool shmt__arena_manager_reserve_slab(shmt__arena_manager* k, uint32_t slab) {
  uint32_t room = k->slabs_room ? k->slabs_room : 16;
  if (slab < k->slabs_room) return true;
  while (room <= slab) room *= 2;
  shmt__arena_manager_slab* slabs = realloc(k->slabs, sizeof *slabs * room);
  if (slabs == NULL) return false;
  for (uint32_t i = k->slabs_room; i < room; i++) slabs[i] = (shmt__arena_manager_slab){.file = -1};
  k->slabs = slabs;
  k->slabs_room = room;
  return true;
}

void shmt__arena_manager_enter_slab(shmt__arena_manager* k, uint32_t slab, const shmt__slab_view* view) {
  shmt__control* c = k->map.control;
  shmt__slab* s = &k->map.slabs[slab];
  k->slabs[slab].view = *view;
  for (uint32_t i = 0; i < view->n_blocks; i++) k->slab_of[view->first_block + i] = slab + 1;
  s->first_block = view->first_block;
  s->n_blocks = view->n_blocks;
  s->offset = view->offset;
  s->nbytes = view->nbytes;
  s->block_bytes = view->block_bytes;
  s->file_identity[0] = view->file_identity[0];
  s->file_identity[1] = view->file_identity[1];
  s->has_posix_name = view->has_posix_name;
  atomic_store_explicit(&s->owner, view->owner, memory_order_relaxed);
  /* release: a manager that takes over trusts the fields of a slab that has a state. */
  atomic_store_explicit(&s->state, view->state, memory_order_release);
  SHMT_FAILPOINT(slab_stated);
  if (slab >= k->slabs_end) k->slabs_end = slab + 1;
  if (view->first_block + view->n_blocks > k->blocks_end)
    k->blocks_end = view->first_block + view->n_blocks;
  /* Never lower it: a manager that adopts a session comes here before its table is complete. */
  if (shmt__map_slabs_end(&k->map) < k->slabs_end)
    atomic_store_explicit(&c->slabs_end, k->slabs_end, memory_order_release);
  if (shmt__map_blocks_end(&k->map) < k->blocks_end)
    atomic_store_explicit(&c->blocks_end, k->blocks_end, memory_order_seq_cst);
  k->granted_bytes += shmt__slab_session_bytes(view);
}

void shmt__arena_manager_orphan_slab(shmt__arena_manager* k, uint32_t slab) {
  shmt__arena_manager_unpark(k, slab); /* so that a sweep finds it empty */
  k->slabs[slab].view.owner = 0;
  atomic_store_explicit(&k->map.slabs[slab].owner, 0, memory_order_relaxed);
}

void shmt__arena_manager_retire(shmt__arena_manager* k, uint32_t slab) {
  const shmt__slab_view s = k->slabs[slab].view;
  shmt__arena_manager_unlink_posix_name(k, slab); /* first: a successor does it again while there is a slab */
  for (uint32_t i = 0; i < s.n_blocks; i++) {
    shmt__block* b = &k->map.blocks[s.first_block + i];
    uint64_t generation =
        shmt__head_generation(atomic_load_explicit(&b->head, memory_order_relaxed));
    /* The generation continues, so that no old handle ever fits a later use of the record. */
    atomic_store_explicit(&b->head, shmt__head(generation + 1, 0, SHMT_BLOCK_NONE),
                          memory_order_release);
    k->slab_of[s.first_block + i] = 0;
  }
  SHMT_FAILPOINT(retire_blocks_gone);
  /* release: a manager that takes over sees the whole slab, or none. */
  atomic_store_explicit(&k->map.slabs[slab].state, SHMT_SLAB_NONE, memory_order_release);
  k->map.slabs[slab].n_blocks = 0; /* tells it from a slab whose state a member has overwritten */
  SHMT_FAILPOINT(retired);
  shmt__ranges_give(&k->blocks, s.first_block, s.n_blocks);
  if (s.state == SHMT_SLAB_ARENA) shmt__ranges_give(&k->arena, s.offset, s.nbytes);
  /* The memory of a memory file is there for the next at once. */
  if (s.state == SHMT_SLAB_PROGRAM_FILE) shmt__closers_close(k->slabs[slab].file);
  else shmt__os_close(k->slabs[slab].file);
  free(k->slabs[slab].posix_name);
  k->slabs[slab] = (shmt__arena_manager_slab){.file = -1};
  k->granted_bytes -= shmt__slab_session_bytes(&s);
}
