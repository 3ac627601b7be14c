/* shm/manager/arena_manager.c -- creates a session's files, registers clients, and grants slabs and files. */
#include "shm/manager/arena_manager.h"

#include "base/overflow.h"
#include "os/closer.h"
#include "os/failpoint.h"
#include "os/files.h"
#include "os/memfd.h"
#include "os/posix_names.h"
#include "os/process.h"
#include "shm/block.h"
#include "shm/client.h"
#include "shm/lease.h"
#include "shm/manager/posix_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t min_arena = 1 << 20;

/* --- files --- */

static void init_empty(shmt__arena_manager* k) { *k = (shmt__arena_manager){.control_fd = -1, .arena_fd = -1}; }

/* Halve the arena until this process's limits allow it. */
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

static shmt_status create_files(shmt__arena_manager* k, const shmt__arena_manager_options* o) {
  char name[64];
  uint64_t arena_bytes = o->arena_bytes;
  uint32_t n_blocks = SHMT_MOST_BLOCKS;
  uint64_t limit = shmt__os_file_limit(), addresses = shmt__os_address_limit() / 8;
  if (addresses < limit) limit = addresses; /* every member maps the file */
  while (n_blocks > SHMT_FEWEST_BLOCKS &&
         shmt__layout_of(shmt__slabs_for(n_blocks), n_blocks).end > limit)
    n_blocks /= 2;
  uint32_t n_slabs = shmt__slabs_for(n_blocks);
  shmt__layout l = shmt__layout_of(n_slabs, n_blocks);
  (void)snprintf(name, sizeof name, "shmtensor-arena-%016" PRIx64, o->session);
  SHMT_TRY(create_arena(name, arena_bytes, &k->arena_fd, &arena_bytes));
  (void)snprintf(name, sizeof name, "shmtensor-control-%016" PRIx64, o->session);
  SHMT_TRY(shmt__os_memfd_create(name, l.end, &k->control_fd));
  int err = o->flags & SHMT_SESSION_GROUP ? shmt__os_file_mark_group(k->control_fd, o->gid) : 0;
  SHMT_REQUIRE(err == 0, SHMT_E_OS, "cannot open the session to group %" PRIu32 ": error %d", o->gid, -err);
  /* Other parts get pages as they are used: Note [Pages of the control file]. */
  SHMT_TRY(shmt__os_populate(k->control_fd, NULL, 0, l.clients));
  if (o->flags & SHMT_SESSION_SERVICE)
    SHMT_TRY(shmt__os_populate(k->control_fd, NULL, l.names_head, sizeof(shmt__names_head)));

  void* base = NULL;
  SHMT_TRY(shmt__os_map_shared(k->control_fd, l.end, &base));
  shmt__control* c = base;
  c->magic = SHMT_CONTROL_MAGIC;
  c->version = SHMT_LAYOUT_VERSION;
  c->n_clients = SHMT_MAX_CLIENTS;
  c->fixed = (shmt__fixed){.session = o->session,
                           .incarnation = shmt__os_random(),
                           .secret = shmt__os_random(),
                           .arena_bytes = arena_bytes,
                           .limit_bytes = o->limit_bytes,
                           .client_limit_bytes = o->client_limit_bytes,
                           .net_namespace = shmt__os_net_namespace(),
                           .n_slabs = n_slabs,
                           .n_blocks = n_blocks,
                           .flags = o->flags,
                           .gid = o->gid};
  if (o->name != NULL) (void)snprintf(c->name, sizeof c->name, "%s", o->name);
  (void)shmt__os_file_identity(k->arena_fd, c->fixed.arena_identity);
  atomic_init(&c->clients_end, 1);
  shmt__os_unmap(base, l.end);
  return SHMT_OK;
}

shmt_status shmt__arena_manager_create(const shmt__arena_manager_options* options, shmt__arena_manager* out) {
  init_empty(out);
  shmt_status status = create_files(out, options);
  if (status == SHMT_OK) status = shmt__map_open(out->control_fd, &out->map);
  if (status == SHMT_OK) status = shmt__arena_manager_init_tables(out);
  if (status != SHMT_OK) shmt__arena_manager_fini(out);
  return status;
}

/* --- clients --- */

shmt_status shmt__arena_manager_reserve_client(shmt__arena_manager* k, int fd, int32_t pid, uint32_t* out_id) {
  shmt__claim claim = SHMT_CLAIM_TAKEN;
  uint32_t claimed = 0;
  for (uint32_t id = 1; id < SHMT_MAX_CLIENTS && claim == SHMT_CLAIM_TAKEN; id++) {
    if (k->clients[id].state != SHMT_CLIENT_NONE) continue;
    claim = shmt__client_claim_one(&k->map, fd, id, pid);
    claimed = id;
  }
  SHMT_REQUIRE(claim != SHMT_CLAIM_NO_ROOM, SHMT_E_NOMEM,
               "no memory for process number %" PRIu32 " of the session", claimed);
  SHMT_REQUIRE(claim == SHMT_CLAIM_MADE, SHMT_E_RUNTIME,
               "all %d places for processes in this session are taken", SHMT_MAX_CLIENTS - 1);
  shmt__arena_manager_enter_client(
      k, claimed,
      (shmt__arena_manager_client){SHMT_CLIENT_RESERVED, pid, shmt__os_process_start(pid),
                             shmt__os_pid_namespace()});
  SHMT_FAILPOINT(client_reserved);
  *out_id = claimed;
  return SHMT_OK;
}

void shmt__arena_manager_mark_client_alive(shmt__arena_manager* k, uint32_t id, int32_t pid) {
  shmt__arena_manager_enter_client(
      k, id,
      (shmt__arena_manager_client){SHMT_CLIENT_ALIVE, pid, shmt__os_process_start(pid),
                             shmt__os_pid_namespace()});
  shmt__client_mark_alive(&k->map, id, pid);
}

void shmt__arena_manager_client_died(shmt__arena_manager* k, uint32_t id) {
  /* Also in blocks without a slab: it may have been killed when it had set a bit by an old handle. */
  for (uint32_t block = 0; block < k->blocks_end; block++) {
    if (shmt__block_is_held_by(&k->map, block, id)) shmt__block_unhold(&k->map, block, id);
    shmt__block_unmark(&k->map.blocks[block], id);
  }
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* s = shmt__arena_manager_slab_at(k, i);
    if (s != NULL && s->owner == id) shmt__arena_manager_orphan_slab(k, i);
  }
  shmt__leases_client_died(&k->map, id);
  /* seq_cst: the audit that follows sees the client gone. */
  atomic_store_explicit(&k->map.control->leases_stale, 1, memory_order_seq_cst);
  SHMT_FAILPOINT(client_unheld);
  k->clients[id] = (shmt__arena_manager_client){.state = SHMT_CLIENT_NONE};
  /* release: whoever gets the number next sees all its holds gone. */
  atomic_store_explicit(&k->map.clients[id].state, SHMT_CLIENT_NONE, memory_order_release);
  shmt__map_note_activity(&k->map);
}

/* --- slabs --- */

static shmt_status find_slab(shmt__arena_manager* k, uint32_t* out_slab) {
  uint32_t slab = 0;
  while (shmt__arena_manager_slab_at(k, slab) != NULL) slab++;
  SHMT_REQUIRE(slab < k->map.fixed.n_slabs, SHMT_E_NOMEM,
               "unable to allocate shared memory: all %u slabs of the session are in use",
               k->map.fixed.n_slabs);
  SHMT_REQUIRE(shmt__arena_manager_reserve_slab(k, slab), SHMT_E_NOMEM,
               "the manager has no memory for its lists");
  if (slab == k->slabs_end) {
    SHMT_TRY(shmt__map_populate(&k->map, k->control_fd, &k->map.slabs[slab], sizeof(shmt__slab)));
  }
  *out_slab = slab;
  return SHMT_OK;
}

/* Make the block records of a slab: with pages, without holds, in `state`. Their generations continue. */
static shmt_status make_blocks(shmt__arena_manager* k, const shmt__slab_view* s, uint32_t slab,
                               shmt__block_state state) {
  shmt__block* first = &k->map.blocks[s->first_block];
  SHMT_TRY(shmt__map_populate(&k->map, k->control_fd, first, sizeof(shmt__block) * s->n_blocks));
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
    /* The holds of clients from 512 on may have no pages yet: add_slab clears them. */
    for (unsigned j = 0; j < SHMT_NEAR_WORDS; j++)
      atomic_store_explicit(&b->holds[j], 0, memory_order_relaxed);
    /* release: the owner learns of the slab by a message, others by a handle, and both come after this. */
    atomic_store_explicit(&b->head, shmt__head(generation + 1, 0, state), memory_order_release);
  }
  return SHMT_OK;
}

/* Make a slab as planned; its first block is chosen here. posix_name: with plan.has_posix_name. Consumes the plan's
 * part of the arena, also on failure. */
static shmt_status add_slab(shmt__arena_manager* k, shmt__slab_view plan, const char* posix_name,
                            shmt__block_state block_state, uint32_t* out_slab) {
  uint64_t first = 0;
  uint32_t slab = 0;
  shmt_status status = find_slab(k, &slab);
  if (status == SHMT_OK && !shmt__ranges_take(&k->blocks, plan.n_blocks, &first)) {
    status = shmt__fail(SHMT_E_NOMEM,
                        "unable to allocate shared memory: all %u blocks of the session are in use",
                        k->map.fixed.n_blocks);
  }
  bool has_blocks = status == SHMT_OK;
  plan.first_block = (uint32_t)first;
  if (status == SHMT_OK) status = make_blocks(k, &plan, slab, block_state);
  if (status == SHMT_OK && plan.has_posix_name) status = shmt__arena_manager_write_posix_name(k, slab, posix_name);
  if (status != SHMT_OK) {
    if (has_blocks) shmt__ranges_give(&k->blocks, first, plan.n_blocks);
    if (plan.state == SHMT_SLAB_ARENA) shmt__ranges_give(&k->arena, plan.offset, plan.nbytes);
    return status;
  }
  SHMT_FAILPOINT(slab_blocks_made);
  shmt__arena_manager_enter_slab(k, slab, &plan);
  /* This comes after blocks_end was raised: a client that gets a high number meanwhile reads blocks_end after
   * clients_end, so one of us gives the holds their pages. */
  status = shmt__client_populate_holds(&k->map, k->control_fd);
  if (status != SHMT_OK) {
    shmt__arena_manager_forget_posix_name(k, slab); /* nobody has become its owner */
    shmt__arena_manager_retire(k, slab);
    return status;
  }
  /* A reader with an old handle may have left a hold when it was killed in the middle. */
  for (uint32_t i = 0; i < plan.n_blocks; i++) shmt__block_clear_holds(&k->map, plan.first_block + i);
  *out_slab = slab;
  return SHMT_OK;
}

shmt_status shmt__arena_manager_grant(shmt__arena_manager* k, uint32_t client, uint64_t block_bytes,
                               uint32_t n_blocks, uint32_t* out_slab) {
  uint64_t nbytes = 0;
  SHMT_REQUIRE(block_bytes >= 64 && block_bytes % 64 == 0 && n_blocks >= 1 && n_blocks <= 4096 &&
                   shmt__mul_u64(block_bytes, n_blocks, &nbytes) &&
                   nbytes <= k->map.fixed.arena_bytes,
               SHMT_E_VALUE, "no slab of %u blocks of %" PRIu64 " bytes", n_blocks, block_bytes);
  nbytes = (nbytes + SHMT_SLAB_ALIGN - 1) & ~(uint64_t)(SHMT_SLAB_ALIGN - 1);
  SHMT_TRY(shmt__arena_manager_check_quota(k, client, nbytes));
  if (shmt__arena_manager_find_parked(k, client, block_bytes, n_blocks, out_slab)) {
    shmt__arena_manager_unpark(k, *out_slab);
    return SHMT_OK;
  }
  shmt__slab_view plan = {.state = SHMT_SLAB_ARENA,
                          .owner = client,
                          .n_blocks = n_blocks,
                          .nbytes = nbytes,
                          .block_bytes = block_bytes};
  SHMT_REQUIRE(shmt__ranges_take(&k->arena, nbytes, &plan.offset), SHMT_E_NOMEM,
               "unable to allocate shared memory: tried %" PRIu64 " bytes, %" PRIu64
               " of the arena's %" PRIu64 " are in use",
               nbytes, k->granted_bytes, k->map.fixed.arena_bytes);
  return add_slab(k, plan, NULL, SHMT_BLOCK_COLD, out_slab);
}

/* --- FILE slabs --- */

/* Plan the slab of a memory file. Errors: SHMT_E_VALUE. */
static shmt_status plan_memory_file(int fd, uint64_t nbytes, shmt__slab_view* plan) {
  uint64_t size = 0;
  SHMT_REQUIRE(shmt__os_memfd_check(fd, &size) && nbytes > 0 && nbytes <= size &&
                   shmt__os_file_identity(fd, plan->file_identity),
               SHMT_E_VALUE, "descriptor %d is no sealed memory file of at least %" PRIu64 " bytes", fd, nbytes);
  plan->state = SHMT_SLAB_FILE;
  plan->nbytes = plan->block_bytes = size;
  return SHMT_OK;
}

/* The same for a file with a name. A process of another user could name a file here that it may not write itself, and
 * its receivers may. Errors: SHMT_E_VALUE. */
static shmt_status plan_program_file(const shmt__arena_manager* k, int fd, uint64_t nbytes, shmt__slab_view* plan) {
  SHMT_REQUIRE(!shmt__arena_manager_has_group(k), SHMT_E_VALUE,
               "a session that is open to a group takes no storages that are mapped files");
  SHMT_REQUIRE(shmt__os_file_is_found(fd, plan->file_identity) && nbytes > 0 && nbytes <= INT64_MAX, SHMT_E_VALUE,
               "descriptor %d is no regular file that was opened to be found, or has no %" PRIu64 " bytes", fd,
               nbytes);
  plan->state = SHMT_SLAB_PROGRAM_FILE;
  plan->nbytes = plan->block_bytes = nbytes;
  return SHMT_OK;
}

/* Is this a name that may go with the slab of the file? Errors: SHMT_E_VALUE (no such name, or the file lies in another
 * /dev/shm than ours), SHMT_E_KEY (it is the name of another file, or of none). */
static shmt_status check_posix_name(const uint64_t identity[2], const shmt__new_file* file) {
  SHMT_TRY(shmt__os_posix_name_check(file->posix_name));
  SHMT_REQUIRE(strlen(file->posix_name) < SHMT_POSIX_NAME_BYTES, SHMT_E_VALUE,
               "a name that goes with its last owner has at most %d bytes, got %zu", SHMT_POSIX_NAME_BYTES - 1,
               strlen(file->posix_name));
  SHMT_REQUIRE(shmt__os_posix_names_have(identity), SHMT_E_VALUE,
               "the manager sees another /dev/shm than the owner of %s, so it cannot remove that name",
               file->posix_name);
  SHMT_REQUIRE(file->is_named_later || shmt__os_posix_name_is(file->posix_name, identity), SHMT_E_KEY,
               "%s was removed or replaced while it was opened", file->posix_name);
  return SHMT_OK;
}

static shmt_status add_file(shmt__arena_manager* k, uint32_t client, int fd, const shmt__new_file* file,
                            uint32_t* out_slab) {
  shmt__slab_view plan = {.owner = client, .n_blocks = 1};
  shmt__arena_manager_sweep_files(k);
  SHMT_TRY(file->has_name ? plan_program_file(k, fd, file->nbytes, &plan) : plan_memory_file(fd, file->nbytes, &plan));
  if (file->has_name && file->posix_name != NULL) {
    SHMT_TRY(check_posix_name(plan.file_identity, file));
    plan.has_posix_name = true;
  }
  /* The program's own files are no memory of the session. */
  if (!file->has_name) SHMT_TRY(shmt__arena_manager_check_quota(k, client, plan.nbytes));
  return add_slab(k, plan, file->posix_name, SHMT_BLOCK_TRIM, out_slab);
}

shmt_status shmt__arena_manager_add_file(shmt__arena_manager* k, uint32_t client, int fd, const shmt__new_file* file,
                                         uint32_t* out_block, uint64_t* out_generation) {
  uint32_t slab = 0;
  shmt_status status = add_file(k, client, fd, file, &slab);
  if (status != SHMT_OK) {
    shmt__closers_close(fd);
    return status;
  }
  uint32_t block = k->slabs[slab].view.first_block;
  shmt__block* b = &k->map.blocks[block];
  k->slabs[slab].file = fd;
  atomic_store_explicit(&k->map.slabs[slab].is_exported, 0, memory_order_relaxed);
  atomic_store_explicit(&b->warm, k->slabs[slab].view.nbytes, memory_order_relaxed);
  shmt__block_end_trim(b, false);
  if (!shmt__block_take(&k->map, block, client, file->nbytes, out_generation)) {
    shmt__arena_manager_forget_posix_name(k, slab);
    shmt__arena_manager_retire(k, slab); /* a member wrote over its state */
    SHMT_FAIL(SHMT_E_MANAGER, "the session is damaged: the new block %" PRIu32 " is not free", block);
  }
  *out_block = block;
  return SHMT_OK;
}

/* The slab of a block of this generation that has a file, or NULL. */
static shmt__arena_manager_slab* find_file(shmt__arena_manager* k, uint32_t block, uint64_t generation) {
  const shmt__slab_view* s = shmt__arena_manager_slab_of(k, block);
  if (s == NULL || !shmt__slab_state_is_file(s->state)) return NULL;
  uint64_t head = atomic_load_explicit(&k->map.blocks[block].head, memory_order_acquire);
  return shmt__head_generation(head) == generation ? &k->slabs[k->slab_of[block] - 1] : NULL;
}

/* Is fd the file behind the slab's block? */
static bool is_file_of(const shmt__slab_view* s, int fd) {
  uint64_t size = 0, identity[2] = {0, 0};
  bool good = s->state == SHMT_SLAB_PROGRAM_FILE
                  ? shmt__os_file_is_found(fd, identity)
                  : shmt__os_memfd_check(fd, &size) && shmt__os_file_identity(fd, identity);
  return good && identity[0] == s->file_identity[0] && identity[1] == s->file_identity[1];
}

void shmt__arena_manager_restore_file(shmt__arena_manager* k, uint32_t block, uint64_t generation, int fd) {
  shmt__arena_manager_slab* s = find_file(k, block, generation);
  if (s != NULL && s->file < 0 && is_file_of(&s->view, fd))
    s->file = fd;
  else
    shmt__closers_close(fd);
}

/* The manager before us was killed, and no member has sent the file yet. A process that holds the block, or made it,
 * may still have the file open. The pid of a child that had just been forked may be unknown.
 * What we look for, and where, we have read in the control file, and any member may have written it. So the file must
 * be one that could have been registered. Where members are of other users, nothing is looked for: a memory file of
 * this user may be that of another session. Who made it sends it when it joins again. */
static int search_file(const shmt__arena_manager* k, const shmt__slab_view* s) {
  const bool only_found = s->state == SHMT_SLAB_PROGRAM_FILE;
  int fd = -1;
  bool is_child_unknown = false;
  if (shmt__arena_manager_has_group(k)) return -1;
  for (uint32_t id = 1; id < k->clients_end && fd < 0; id++) {
    const shmt__arena_manager_client* c = &k->clients[id];
    if (c->state == SHMT_CLIENT_NONE ||
        (id != s->owner && !shmt__block_is_held_by(&k->map, s->first_block, id)))
      continue;
    if (c->state == SHMT_CLIENT_ALIVE)
      fd = shmt__os_open_from_process(c->pid, s->file_identity, only_found);
    else
      is_child_unknown = true;
  }
  if (fd < 0 && is_child_unknown) fd = shmt__os_open_from_any_process(s->file_identity, only_found);
  if (fd < 0 || is_file_of(s, fd)) return fd;
  shmt__closers_close(fd);
  return -1;
}

int shmt__arena_manager_file(shmt__arena_manager* k, uint32_t block, uint64_t generation, uint64_t* out_nbytes,
                             const char** out_posix_name) {
  shmt__arena_manager_slab* s = find_file(k, block, generation);
  if (s == NULL) return -1;
  if (s->file < 0) s->file = search_file(k, &s->view);
  if (s->file >= 0) *out_nbytes = s->view.nbytes;
  if (s->file >= 0) *out_posix_name = s->posix_name;
  return s->file;
}
