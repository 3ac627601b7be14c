/* shm/manager/adopt.c -- a new manager continues with the files of a session whose manager was killed.
 *
 * It reads the control file once, into its private tables (Note [Private tables] in shm/manager/arena_manager.h). The
 * tables must make sense as a whole. When slabs overlap, or a block is in use and no slab has it, a member wrote where
 * it should not. Continuing could then give away memory that others use, so the session is ended.
 */
#include "os/memfd.h"
#include "shm/block.h"
#include "shm/client.h"
#include "shm/manager/arena_manager.h"
#include "shm/manager/posix_names.h"

#include <inttypes.h>
#include <stdlib.h>

static shmt__block_state state_of(const shmt__arena_manager* k, uint32_t block) {
  return shmt__head_state(
      atomic_load_explicit(&k->map.blocks[block].head, memory_order_acquire));
}

static bool is_in_use(const shmt__arena_manager* k, uint32_t block) {
  shmt__block_state state = state_of(k, block);
  return state == SHMT_BLOCK_USED || state == SHMT_BLOCK_RECLAIM;
}

/* Was the manager killed while it retired the slab? Then its pages are gone. */
static bool is_retired(const shmt__arena_manager* k, const shmt__slab_view* s) {
  for (uint32_t i = 0; i < s->n_blocks; i++)
    if (is_in_use(k, s->first_block + i)) return false;
  return state_of(k, s->first_block) == SHMT_BLOCK_NONE;
}

/* Take off the marks that the killed manager has left. */
static void settle_blocks(shmt__arena_manager* k, const shmt__slab_view* s) {
  for (uint32_t j = 0; j < s->n_blocks; j++) {
    uint32_t block = s->first_block + j;
    shmt__block* b = &k->map.blocks[block];
    shmt__block_unmark(b, SHMT_MANAGER_MARKER);
    if (state_of(k, block) == SHMT_BLOCK_TRIM) shmt__block_fail_trim(b);
    shmt__arena_manager_repair_block(k, s, block);
  }
}

static shmt_status adopt_slab(shmt__arena_manager* k, uint32_t slab) {
  shmt__slab_view s;
  bool fits = shmt__slab_read(&k->map, slab, &s);
  const shmt__slab* found = &k->map.slabs[slab];
  if (!fits && atomic_load_explicit(&found->state, memory_order_relaxed) == SHMT_SLAB_NONE) return SHMT_OK;
  SHMT_REQUIRE(fits, SHMT_E_MANAGER, "control file: slab %" PRIu32 " has %" PRIu32 " blocks from %" PRIu32
               " on, of %" PRIu32, slab, found->n_blocks, found->first_block, k->map.fixed.n_blocks);
  SHMT_REQUIRE(s.state != SHMT_SLAB_PROGRAM_FILE || !shmt__arena_manager_has_group(k), SHMT_E_MANAGER,
               "control file: slab %" PRIu32 " is a mapped file, and the session is open to a group", slab);
  if (is_retired(k, &s)) {
    atomic_store_explicit(&k->map.slabs[slab].state, SHMT_SLAB_NONE, memory_order_release);
    return SHMT_OK;
  }
  SHMT_REQUIRE(shmt__arena_manager_reserve_slab(k, slab), SHMT_E_NOMEM,
               "the manager has no memory for its lists");
  bool is_apart = shmt__ranges_take_at(&k->blocks, s.first_block, s.n_blocks) &&
                  (s.state != SHMT_SLAB_ARENA || shmt__ranges_take_at(&k->arena, s.offset, s.nbytes));
  SHMT_REQUIRE(is_apart, SHMT_E_MANAGER, "control file: slab %" PRIu32 " overlaps another", slab);
  if (s.has_posix_name) SHMT_TRY(shmt__arena_manager_adopt_posix_name(k, slab, &s));
  shmt__arena_manager_enter_slab(k, slab, &s);
  settle_blocks(k, &s);
  return SHMT_OK;
}

/* Call f for each record from `begin` to `end` of the table at `at`. The records are read from the file: reading an
 * unused page through the map would allocate it. */
static shmt_status read_records(shmt__arena_manager* k, const void* at, uint32_t begin, uint32_t end,
                                size_t record_bytes,
                                shmt_status (*f)(shmt__arena_manager* k, uint32_t i, const void* record)) {
  enum { RECORDS_AT_ONCE = 1024 };
  uint64_t from = (uint64_t)((const char*)at - (char*)k->map.control);
  shmt_status status = SHMT_OK;
  char* records = malloc(record_bytes * RECORDS_AT_ONCE);
  SHMT_REQUIRE(records != NULL, SHMT_E_NOMEM, "the manager has no memory for its lists");
  for (uint32_t i = begin; i < end && status == SHMT_OK; i += RECORDS_AT_ONCE) {
    uint32_t n = end - i < RECORDS_AT_ONCE ? end - i : RECORDS_AT_ONCE;
    if (!shmt__os_read_at(k->control_fd, records, record_bytes * n, from + record_bytes * i)) n = 0;
    for (uint32_t j = 0; j < n && status == SHMT_OK; j++)
      status = f(k, i + j, records + record_bytes * j);
  }
  free(records);
  return status;
}

/* Behind the end there can be only noise, and the one slab that was being made. */
static shmt_status check_behind(shmt__arena_manager* k, uint32_t slab, const void* record) {
  const shmt__slab* s = record;
  shmt__slab_view view;
  if (atomic_load_explicit(&s->state, memory_order_relaxed) == SHMT_SLAB_NONE) return SHMT_OK;
  SHMT_REQUIRE(!shmt__slab_read(&k->map, slab, &view), SHMT_E_MANAGER,
               "control file: slab %" PRIu32 " lies behind the last", slab);
  return SHMT_OK;
}

/* A block without a slab must not be in use. If it is, a member has overwritten the state of its slab. */
static shmt_status check_block(shmt__arena_manager* k, uint32_t block, const void* record) {
  const shmt__block* b = record;
  shmt__block_state state =
      shmt__head_state(atomic_load_explicit(&b->head, memory_order_relaxed));
  if (state == SHMT_BLOCK_NONE || k->slab_of[block] != 0) return SHMT_OK;
  /* A retired slab has no blocks, and one that was being made has none yet. */
  bool is_lost = b->slab < k->slabs_end && k->map.slabs[b->slab].n_blocks != 0 &&
                 shmt__arena_manager_slab_at(k, b->slab) == NULL;
  SHMT_REQUIRE(!is_lost && state != SHMT_BLOCK_USED && state != SHMT_BLOCK_RECLAIM, SHMT_E_MANAGER,
               "control file: block %" PRIu32 " is in use and of no slab", block);
  return SHMT_OK;
}

/* Adopt all slabs. The free ranges are what no slab covers. */
static shmt_status adopt_slabs(shmt__arena_manager* k) {
  uint32_t end = atomic_load_explicit(&k->map.control->slabs_end, memory_order_acquire);
  uint32_t blocks_end = atomic_load_explicit(&k->map.control->blocks_end, memory_order_acquire);
  SHMT_REQUIRE(end <= k->map.fixed.n_slabs && blocks_end <= k->map.fixed.n_blocks, SHMT_E_MANAGER,
               "control file: %" PRIu32 " slabs of %" PRIu32 ", %" PRIu32 " blocks of %" PRIu32, end,
               k->map.fixed.n_slabs, blocks_end, k->map.fixed.n_blocks);
  for (uint32_t i = 0; i < end; i++) SHMT_TRY(adopt_slab(k, i));
  if (end > k->slabs_end) {
    SHMT_REQUIRE(shmt__arena_manager_reserve_slab(k, end - 1), SHMT_E_NOMEM,
                 "the manager has no memory for its lists");
    k->slabs_end = end;
  }
  /* There may have been slabs behind those that are left: records that were used once have pages. */
  if (blocks_end > k->blocks_end) k->blocks_end = blocks_end;
  SHMT_TRY(read_records(k, k->map.slabs, end + 1, k->map.fixed.n_slabs, sizeof(shmt__slab),
                        check_behind));
  return read_records(k, k->map.blocks, 0, k->blocks_end, sizeof(shmt__block), check_block);
}

/* Adopt all clients. The lock of a number decides, whatever the table says. The slabs of numbers that nobody has become
 * orphans. */
static shmt_status adopt_clients(shmt__arena_manager* k) {
  for (uint32_t id = 1; id < SHMT_MAX_CLIENTS; id++) {
    if (shmt__arena_manager_adopt_client(k, id) || !shmt__client_is_locked(k->control_fd, id)) continue;
    SHMT_TRY(shmt__client_enter_locked(&k->map, k->control_fd, id));
    (void)shmt__arena_manager_adopt_client(k, id);
  }
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* s = shmt__arena_manager_slab_at(k, i);
    if (s != NULL && k->clients[s->owner].state == SHMT_CLIENT_NONE) shmt__arena_manager_orphan_slab(k, i);
  }
  return SHMT_OK;
}

/* The manager before us may have been killed after it had reset a flag and before it did what the flag asked for. */
static void begin_all_again(shmt__arena_manager* k) {
  k->must_sweep_again = true;
  atomic_store_explicit(&k->map.control->leases_stale, 1, memory_order_seq_cst);
  atomic_store_explicit(&k->map.control->rings_stale, 1, memory_order_seq_cst);
}

/* Mark the session as ended, so that nobody tries again with these files. */
static void mark_ended(int control_fd) {
  uint64_t nbytes = 0;
  void* base = NULL;
  if (!shmt__os_memfd_check(control_fd, &nbytes) || shmt__blocks_of_size(nbytes) == 0 ||
      shmt__os_map_shared(control_fd, sizeof(shmt__control), &base) != SHMT_OK)
    return;
  /* release: nobody who sees it continues with the session. */
  atomic_store_explicit(&((shmt__control*)base)->ended, 1, memory_order_release);
  shmt__os_unmap(base, sizeof(shmt__control));
}

/* What the session is, as only its owner could have said: Note [Told by the manager] in ipc/session/session.h. The
 * number of a service has no pid (ipc/service/service.h). */
static void read_flags(shmt__arena_manager* k) {
  k->map.fixed.flags = k->map.fixed.session >> 42 == 0 ? SHMT_SESSION_SERVICE : 0;
  if (shmt__os_file_is_of_group(k->control_fd, &k->map.fixed.gid)) k->map.fixed.flags |= SHMT_SESSION_GROUP;
}

static shmt_status adopt_once(uint64_t session, int control_fd, int arena_fd, shmt__arena_manager* out) {
  /* Open it anew: the descriptor that came may have the lock of the client that sent it. */
  *out = (shmt__arena_manager){.control_fd = shmt__os_reopen(control_fd), .arena_fd = shmt__os_dup(arena_fd)};
  shmt_status status = SHMT_OK;
  if (out->control_fd < 0 || out->arena_fd < 0)
    status = shmt__fail(SHMT_E_OS, "the manager cannot reopen its files: too many open files, or /proc is missing");
  if (status == SHMT_OK) status = shmt__map_open(out->control_fd, &out->map);
  if (status == SHMT_OK &&
      (out->map.fixed.session != session || !shmt__arena_matches(&out->map, out->arena_fd)))
    status = shmt__fail(SHMT_E_MANAGER, "the files to adopt are not those of session %016" PRIx64,
                        session);
  if (status == SHMT_OK) read_flags(out);
  if (status == SHMT_OK) status = shmt__arena_manager_init_tables(out);
  if (status == SHMT_OK) status = adopt_slabs(out);
  if (status == SHMT_OK) status = adopt_clients(out);
  if (status == SHMT_OK) begin_all_again(out);
  if (status != SHMT_OK) shmt__arena_manager_fini(out);
  return status;
}

shmt_status shmt__arena_manager_adopt(uint64_t session, int control_fd, int arena_fd, shmt__arena_manager* out) {
  shmt_status status = adopt_once(session, control_fd, arena_fd, out);
  /* To end a session is for good, and a system call that failed once may look like damage. */
  if (status != SHMT_OK) status = adopt_once(session, control_fd, arena_fd, out);
  if (status == SHMT_E_MANAGER) mark_ended(control_fd);
  shmt__os_close(control_fd);
  shmt__os_close(arena_fd);
  return status;
}
