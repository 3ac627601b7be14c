/* tests/c/shm.c -- the tables of a session: size classes, client numbers, holds, leases, the allocator.
 *
 * The files are real, and there is no manager process: this program calls what a manager would call.
 */
#include "check.h"
#include "session.h"

#include "shm/arena.h"

static shmt__block_state state_of(uint32_t block) {
  return shmt__head_state(atomic_load(&manager.map.blocks[block].head));
}

/* --- size classes --- */

static uint64_t block_bytes(uint64_t nbytes) {
  uint32_t n_blocks = 0;
  uint64_t bytes = shmt__arena_block_bytes(nbytes, &n_blocks);
  CHECK(n_blocks >= 1);
  return bytes;
}

TEST(a_block_has_room_and_wastes_at_most_a_fifth) {
  CHECK_EQ(block_bytes(0), 64);
  for (uint64_t nbytes = 257; nbytes <= 2 * MiB; nbytes += nbytes < 5000 ? 1 : 61) {
    uint64_t bytes = block_bytes(nbytes);
    CHECK(bytes >= nbytes);
    CHECK(bytes - nbytes < bytes / 5 + 1 || bytes - nbytes < SHMT_SLAB_ALIGN);
    CHECK_EQ(bytes % 64, 0);
    CHECK_EQ(block_bytes(bytes), bytes);
  }
}

TEST(small_blocks_have_as_many_classes_as_the_arena_has_lists) {
  uint64_t last = 0;
  int n_classes = 0;
  for (uint64_t nbytes = 1; nbytes <= MiB; nbytes++) {
    uint64_t bytes = block_bytes(nbytes);
    CHECK(bytes >= last);
    n_classes += bytes != last;
    last = bytes;
  }
  CHECK_EQ(n_classes, SHMT_ARENA_CLASSES);
  CHECK_EQ(last, MiB);
}

TEST(slabs_of_small_blocks_are_full_and_large_blocks_have_slabs_of_their_own) {
  for (uint64_t nbytes = 1; nbytes <= 16 * MiB; nbytes += nbytes / 50 + 1) {
    uint32_t n_blocks = 0;
    uint64_t bytes = shmt__arena_block_bytes(nbytes, &n_blocks);
    if (nbytes > MiB) {
      CHECK_EQ(n_blocks, 1);
      CHECK_EQ(bytes % SHMT_SLAB_ALIGN, 0);
      CHECK(bytes - nbytes <= nbytes / 8 || bytes - nbytes < SHMT_SLAB_ALIGN);
    } else {
      CHECK(n_blocks * bytes <= 8 * MiB);
      CHECK(n_blocks >= 8);
    }
  }
}

TEST(sizes_that_no_block_can_have_do_not_wrap_around) {
  CHECK(block_bytes(UINT64_C(1) << 63) >= UINT64_C(1) << 63);
  CHECK(block_bytes(UINT64_MAX) == UINT64_MAX);
  CHECK(block_bytes(UINT64_MAX - 1) == UINT64_MAX);
}

/* --- the layout --- */

TEST(each_size_of_a_control_file_has_one_layout) {
  for (uint32_t n = SHMT_FEWEST_BLOCKS; n <= SHMT_MOST_BLOCKS; n *= 2) {
    const shmt__layout l = shmt__layout_of(shmt__slabs_for(n), n);
    const uint64_t parts[] = {0,        l.clients, l.slabs, l.blocks,    l.names, l.named_locks,
                              l.leases, l.sites,   l.posix_names, l.far_holds, l.end};
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++) CHECK(parts[i] > parts[i - 1]);
    CHECK_EQ(l.leases % 4096, 0);
    CHECK_EQ(shmt__blocks_of_size(l.end), n);
    CHECK_EQ(shmt__blocks_of_size(l.end + 4096), 0);
    CHECK_EQ(shmt__blocks_of_size(l.end - 4096), 0);
  }
  CHECK_EQ(shmt__blocks_of_size(0), 0);
}

TEST(a_file_that_is_no_control_file_is_refused) {
  shmt__map map;
  (void)begin_session(0);
  CHECK_FAILS(shmt__map_open(manager.arena_fd, &map), SHMT_E_MANAGER, "layout version");
  manager.map.control->version = 99;
  CHECK_FAILS(shmt__map_open(manager.control_fd, &map), SHMT_E_MANAGER, "layout version 99");
  manager.map.control->version = SHMT_LAYOUT_VERSION;
  manager.map.control->fixed.n_blocks /= 2;
  CHECK_EQ(shmt__map_open(manager.control_fd, &map), SHMT_E_MANAGER);
}

TEST(damaged_slabs_are_not_read) {
  const shmt__map* m = begin_session(0);
  shmt__slab_view view;
  join_as(1);
  const uint32_t block = grant_slab(1, 64, 16);
  shmt__slab* s = &m->slabs[m->blocks[block].slab];
  const shmt__slab good = *s;
  CHECK(shmt__slab_of_block(m, block, &view));
  CHECK_EQ(view.n_blocks, 16);
  CHECK(!shmt__slab_read(m, m->fixed.n_slabs, &view));
#define DAMAGE(field, value) \
  s->field = (value);        \
  CHECK(!shmt__slab_of_block(m, block, &view)); \
  s->field = good.field
  DAMAGE(offset, UINT64_MAX - 10);
  DAMAGE(offset, (uint64_t)ARENA_BYTES * 2);
  DAMAGE(nbytes, UINT64_MAX);
  DAMAGE(block_bytes, UINT64_C(1) << 60);
  DAMAGE(n_blocks, UINT32_MAX);
  DAMAGE(first_block, m->fixed.n_blocks);
#undef DAMAGE
  atomic_store(&s->state, 77);
  CHECK(!shmt__slab_of_block(m, block, &view));
  atomic_store(&s->state, SHMT_SLAB_ARENA);
  CHECK(shmt__slab_of_block(m, block, &view));
}

/* --- client numbers --- */

TEST(numbers_are_taken_from_one_on_and_given_back_by_closing) {
  const shmt__map* m = begin_session(0);
  int fds[3];
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t id = 0;
    fds[i] = open_control();
    CHECK(shmt__client_claim(m, fds[i], getpid(), &id));
    CHECK_EQ(id, i + 1);
    CHECK_EQ(atomic_load(&m->clients[id].state), SHMT_CLIENT_RESERVED);
  }
  CHECK_EQ(shmt__map_clients_end(m), 4);
  CHECK(shmt__client_is_locked(manager.control_fd, 2));
  CHECK(!shmt__client_is_locked(fds[1], 2)); /* by another description than its own */
  CHECK(shmt__client_owns_number(fds[1], 2));
  CHECK(!shmt__client_owns_number(fds[2], 2));
  CHECK_EQ(shmt__client_claim_one(m, open_control(), 2, getpid()), SHMT_CLAIM_TAKEN);
  (void)close(fds[1]);
  CHECK(!shmt__client_is_locked(manager.control_fd, 2));
  /* Nobody else gets it before the manager has cleared what its owner held. */
  CHECK_EQ(shmt__client_claim_one(m, open_control(), 2, getpid()), SHMT_CLAIM_TAKEN);
  shmt__arena_manager_client_died(&manager, 2);
  CHECK_EQ(shmt__client_claim_one(m, open_control(), 2, getpid()), SHMT_CLAIM_MADE);
}

TEST(a_session_has_numbers_up_to_its_last) {
  const shmt__map* m = begin_session(0);
  const int fd = open_control();
  uint32_t id = 0;
  CHECK_EQ(shmt__client_claim_one(m, fd, SHMT_MAX_CLIENTS - 1, getpid()), SHMT_CLAIM_MADE);
  CHECK_EQ(shmt__map_clients_end(m), SHMT_MAX_CLIENTS);
  for (uint32_t i = 1; i < SHMT_MAX_CLIENTS - 1; i++) {
    CHECK(shmt__client_claim(m, fd, getpid(), &id));
    CHECK_EQ(id, i);
  }
  CHECK(!shmt__client_claim(m, fd, getpid(), &id));
  CHECK_FAILS(shmt__arena_manager_reserve_client(&manager, fd, getpid(), &id), SHMT_E_RUNTIME, "4607 places");
  atomic_store(&m->control->clients_end, UINT32_MAX);
  CHECK_EQ(shmt__map_clients_end(m), SHMT_MAX_CLIENTS); /* any member can write there */
}

TEST(a_session_has_one_manager) {
  (void)begin_session(0);
  const int first = shmt__management_claim(manager.control_fd, 0);
  CHECK(first >= 0);
  CHECK_EQ(shmt__management_claim(manager.control_fd, 0), -1);
  (void)close(first);
  CHECK(shmt__management_claim(manager.control_fd, 0) >= 0);
}

TEST(tokens_are_locked_until_they_are_released) {
  (void)begin_session(0);
  const int fd = open_control();
  uint64_t token = 0;
  CHECK(shmt__token_claim(fd, &token));
  CHECK(token != 0);
  CHECK(shmt__token_is_locked(manager.control_fd, token));
  shmt__token_release(fd, token);
  CHECK(!shmt__token_is_locked(manager.control_fd, token));
  CHECK(shmt__token_is_locked(manager.control_fd, UINT64_MAX)); /* no token: in doubt it is locked */
}

/* --- holds --- */

static const uint32_t edges[] = {1, 63, 64, 511, 512, 1023, SHMT_MAX_CLIENTS - 1};
enum { N_EDGES = sizeof edges / sizeof *edges };

TEST(each_client_has_a_bit_of_its_own) {
  const shmt__map* m = begin_session(0);
  for (int i = 0; i < N_EDGES; i++) join_as(edges[i]);
  const uint32_t block = grant_slab(1, 64, 8);
  CHECK_OK(shmt__client_populate_holds(m, manager.control_fd));
  const uint64_t generation = take_block(block, 1);
  for (int i = 1; i < N_EDGES; i++) {
    CHECK(!shmt__block_is_held_by(m, block, edges[i]));
    CHECK(shmt__block_hold(m, block, edges[i], generation));
    CHECK(shmt__block_is_held_by(m, block, edges[i]));
    CHECK(!shmt__block_is_held_by(m, block + 1, edges[i]));
    CHECK(!shmt__block_is_last_held_by(m, block, edges[i]));
  }
  uint64_t n_bits = 0;
  for (unsigned word = 0; word < SHMT_HOLD_WORDS; word++)
    n_bits += (unsigned)__builtin_popcountll(shmt__block_holds(m, block, word));
  CHECK_EQ(n_bits, N_EDGES);
  for (int i = 0; i < N_EDGES; i++) {
    CHECK(!shmt__block_reclaim(m, block, 1));
    CHECK_EQ(shmt__block_is_last_held_by(m, block, edges[i]), i == N_EDGES - 1);
    shmt__block_unhold(m, block, edges[i]);
  }
  CHECK(shmt__block_reclaim(m, block, 1));
  CHECK_EQ(state_of(block), SHMT_BLOCK_FREE);
}

TEST(a_stale_handle_gets_no_hold_and_leaves_no_bit) {
  const shmt__map* m = begin_session(0);
  join_as(1);
  join_as(2);
  const uint32_t block = grant_slab(1, 64, 8);
  const uint64_t generation = take_block(block, 1);
  CHECK(!shmt__block_hold(m, block, 2, generation + 1));
  CHECK(!shmt__block_hold(m, block, 2, generation - 1));
  shmt__block_unhold(m, block, 1);
  CHECK(shmt__block_reclaim(m, block, 1));
  CHECK(!shmt__block_hold(m, block, 2, generation));
  CHECK(!shmt__block_is_held_by(m, block, 2));
  CHECK_EQ(take_block(block, 1), generation + 1);
  CHECK(!shmt__block_hold(m, block, 2, generation));
  CHECK(!shmt__block_is_held_by(m, block, 2));
}

TEST(what_a_dead_client_held_is_free) {
  const shmt__map* m = begin_session(0);
  for (int i = 0; i < N_EDGES; i++) join_as(edges[i]);
  const uint32_t block = grant_slab(1, 64, 8);
  CHECK_OK(shmt__client_populate_holds(m, manager.control_fd));
  const uint64_t generation = take_block(block, 1);
  for (int i = 1; i < N_EDGES; i++) CHECK(shmt__block_hold(m, block, edges[i], generation));
  for (int i = 0; i < N_EDGES; i++) {
    CHECK(shmt__block_is_kept(m, block));
    shmt__arena_manager_client_died(&manager, edges[i]);
  }
  CHECK(!shmt__block_is_kept(m, block));
}

TEST(a_reclaimer_that_died_is_undone_by_the_next_hold) {
  const shmt__map* m = begin_session(0);
  join_as(1);
  join_as(2);
  const uint32_t block = grant_slab(1, 64, 8);
  const uint64_t generation = take_block(block, 1);
  atomic_store(&m->blocks[block].head, shmt__head(generation, 2, SHMT_BLOCK_RECLAIM));
  shmt__block_unmark(&m->blocks[block], 1); /* another's mark stays */
  CHECK_EQ(state_of(block), SHMT_BLOCK_RECLAIM);
  CHECK(shmt__block_hold(m, block, 2, generation));
  CHECK_EQ(state_of(block), SHMT_BLOCK_USED);
  atomic_store(&m->blocks[block].head, shmt__head(generation, 2, SHMT_BLOCK_RECLAIM));
  shmt__block_unmark(&m->blocks[block], 2);
  CHECK_EQ(state_of(block), SHMT_BLOCK_USED);
}

TEST(a_block_in_trim_cannot_be_taken) {
  const shmt__map* m = begin_session(0);
  uint64_t generation = 0;
  join_as(1);
  const uint32_t block = grant_slab(1, 64, 8);
  const uint64_t first = take_block(block, 1);
  CHECK(!shmt__block_begin_trim(&m->blocks[block])); /* it is used */
  shmt__block_unhold(m, block, 1);
  CHECK(shmt__block_reclaim(m, block, 1));
  CHECK(shmt__block_begin_trim(&m->blocks[block]));
  CHECK(!shmt__block_take(m, block, 1, 1, &generation));
  CHECK(!shmt__block_is_held_by(m, block, 1));
  CHECK(!shmt__block_begin_trim(&m->blocks[block]));
  shmt__block_end_trim(&m->blocks[block], true);
  CHECK_EQ(state_of(block), SHMT_BLOCK_COLD);
  CHECK(!shmt__block_reuse(m, block, 1, 1, first + 1)); /* only a FREE block of this generation */
  CHECK_EQ(take_block(block, 1), first + 1);
}

TEST(heads_keep_their_fields_apart) {
  const uint64_t generation = (UINT64_C(1) << 44) - 1;
  const uint64_t head = shmt__head(generation, SHMT_MANAGER_MARKER, SHMT_BLOCK_TRIM);
  CHECK(shmt__head_generation(head) == generation);
  CHECK_EQ(shmt__head_marker(head), SHMT_MANAGER_MARKER);
  CHECK_EQ(shmt__head_state(head), SHMT_BLOCK_TRIM);
}

/* --- leases --- */

static unsigned n_leases(const sender* s) { return shmt__block_n_leases(&manager.map.blocks[s->block]); }

TEST(a_lease_keeps_its_block_and_ends_once) {
  const shmt__map* m = begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t;
  CHECK_OK(take_lease(&s, 0, &t));
  CHECK(t.id != 0);
  shmt__block_unhold(m, s.block, 1);
  CHECK(!shmt__block_reclaim(m, s.block, 1));
  CHECK(shmt__block_hold(m, s.block, 1, s.generation));
  CHECK(shmt__lease_end(m, &t, 1));
  CHECK(!shmt__lease_end(m, &t, 1));
  CHECK_EQ(n_leases(&s), 0);
}

TEST(tickets_that_name_no_lease_end_none) {
  const shmt__map* m = begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t, wrong;
  CHECK_OK(take_lease(&s, 0, &t));
  const shmt__lease_ticket wrongs[] = {
      {0, t.slot}, {t.id + 2, t.slot}, {t.id, t.slot + 1}, {t.id, UINT32_MAX}, {UINT64_MAX, 0}};
  for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
    wrong = wrongs[i];
    CHECK(!shmt__lease_end(m, &wrong, 1));
    CHECK(!shmt__lease_bind(m, &wrong, 1, shmt__channel(SHMT_CHANNEL_PIPE, 7)));
  }
  CHECK_EQ(n_leases(&s), 1);
  m->lease_pages[0].at[t.slot].block = m->fixed.n_blocks; /* a member wrote over it */
  CHECK(!shmt__lease_end(m, &t, 1));
}

TEST(leases_fill_page_after_page_until_none_is_left) {
  const shmt__map* m = begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t, first;
  const uint32_t most = m->n_lease_pages * SHMT_LEASES_OF_PAGE;
  CHECK_OK(take_lease(&s, 0, &first));
  for (uint32_t i = 1; i < most; i++) {
    CHECK_OK(take_lease(&s, 0, &t));
    CHECK(t.slot < most);
    CHECK_EQ(shmt__map_lease_pages_end(m), i / SHMT_LEASES_OF_PAGE + 1);
  }
  CHECK_EQ(n_leases(&s), most);
  CHECK_FAILS(take_lease(&s, 0, &t), SHMT_E_NOMEM, "unopened message");
  CHECK(shmt__lease_end(m, &first, 1));
  CHECK_OK(take_lease(&s, 0, &t));
  CHECK_EQ(t.slot, first.slot);
  CHECK(t.id != first.id);
  CHECK(!shmt__lease_end(m, &first, 1)); /* its record is another lease's now */
}

TEST(a_lease_through_two_channels_is_tied_to_none) {
  const shmt__map* m = begin_session(0);
  sender s = begin_sender(1);
  const uint64_t pipe = shmt__channel(SHMT_CHANNEL_PIPE, 7), socket = shmt__channel(SHMT_CHANNEL_SOCKET, 7);
  shmt__lease_ticket one, two;
  join_as(2);
  CHECK_OK(take_lease(&s, 0, &one));
  CHECK_OK(take_lease(&s, pipe, &two));
  CHECK(!shmt__lease_bind(m, &one, 2, pipe)); /* not the client's own */
  CHECK(shmt__lease_bind(m, &one, 1, pipe | SHMT_CHANNEL_SENDING));
  shmt__lease_confirm(m, &one, 1);
  CHECK(shmt__lease_bind(m, &one, 1, pipe));
  CHECK(shmt__lease_bind(m, &one, 1, socket));
  shmt__leases_end_channel(m, pipe, 1);
  CHECK(!shmt__lease_end(m, &two, 1));
  CHECK(shmt__lease_end(m, &one, 1));
}

TEST(leases_move_from_one_channel_to_another) {
  const shmt__map* m = begin_session(0);
  sender s = begin_sender(1);
  const uint64_t old = shmt__channel(SHMT_CHANNEL_LOCK, 3), next = shmt__channel(SHMT_CHANNEL_LOCK, 5);
  shmt__lease_ticket t;
  CHECK_EQ(shmt__channel_number(next), 5);
  CHECK_EQ(shmt__channel_kind_of(next), SHMT_CHANNEL_LOCK);
  CHECK_OK(take_lease(&s, old, &t));
  shmt__leases_move(m, old, next);
  shmt__leases_end_channel(m, old, 1);
  CHECK_EQ(n_leases(&s), 1);
  shmt__leases_end_channel(m, next, 1);
  CHECK_EQ(n_leases(&s), 0);
}

TEST(the_page_of_a_dead_client_goes_to_the_next) {
  const shmt__map* m = begin_session(0);
  sender one = begin_sender(1), two = begin_sender(2);
  const uint64_t pipe = shmt__channel(SHMT_CHANNEL_PIPE, 7);
  shmt__lease_ticket sent, unsent, t;
  CHECK_OK(take_lease(&one, pipe, &sent));
  CHECK_OK(take_lease(&one, pipe | SHMT_CHANNEL_SENDING, &unsent));
  shmt__leases_client_died(m, 1);
  CHECK_EQ(atomic_load(&m->lease_pages[0].owner), 0);
  CHECK((atomic_load(&m->lease_pages[0].at[unsent.slot].channel) & SHMT_CHANNEL_UNSENT) != 0);
  CHECK((atomic_load(&m->lease_pages[0].at[sent.slot].channel) & SHMT_CHANNEL_UNSENT) == 0);
  CHECK_OK(take_lease(&two, 0, &t));
  CHECK_EQ(atomic_load(&m->lease_pages[0].owner), 2);
  CHECK(t.slot != sent.slot && t.slot != unsent.slot);
  CHECK(shmt__lease_end(m, &sent, 2)); /* whoever opens the message ends it */
}

TEST(counts_that_a_killed_client_left_are_corrected) {
  const shmt__map* m = begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t;
  CHECK_OK(take_lease(&s, 0, &t));
  shmt__block_add_lease(&m->blocks[s.block], s.generation, 1); /* killed before it wrote its record */
  atomic_store(&m->clients[1].touching, s.block + 1);
  atomic_store(&m->control->leases_stale, 1);
  CHECK(!shmt__leases_audit(m)); /* it may still live */
  CHECK_EQ(n_leases(&s), 2);
  shmt__arena_manager_client_died(&manager, 1);
  CHECK(shmt__leases_audit(m));
  CHECK_EQ(n_leases(&s), 1);
}

TEST(leases_of_three_kinds_are_counted_together) {
  const shmt__map* m = begin_session(0);
  sender s = begin_sender(1);
  shmt__block* b = &m->blocks[s.block];
  shmt__lease_ticket t;
  CHECK(!shmt__block_end_plain_lease(b));
  shmt__block_end_ring_lease(b); /* there is none: the count stays 0 */
  CHECK_OK(take_lease(&s, 0, &t));
  shmt__block_add_plain_lease(b, s.generation);
  shmt__block_add_plain_lease(b, s.generation);
  shmt__block_add_ring_lease(b, s.generation);
  CHECK_EQ(n_leases(&s), 4);
  CHECK_EQ(shmt__block_end_plain_leases(b), 2);
  CHECK(shmt__lease_end(m, &t, 1));
  CHECK_EQ(n_leases(&s), 1);
  shmt__block_clear_leases(b);
  CHECK_EQ(n_leases(&s), 1); /* those of rings stay */
  shmt__block_end_ring_lease(b);
  CHECK_EQ(n_leases(&s), 0);
}

/* --- the allocator --- */

static unsigned n_granted, n_given_back;

static shmt_status grant(void* arg, uint64_t bytes, uint32_t n_blocks, shmt__granted* out) {
  const shmt__arena* a = arg;
  shmt__slab_view view;
  uint32_t slab = 0;
  SHMT_TRY(shmt__arena_manager_check_quota(&manager, a->client, bytes * n_blocks));
  SHMT_TRY(shmt__arena_manager_grant(&manager, a->client, bytes, n_blocks, &slab));
  CHECK(shmt__slab_read(&manager.map, slab, &view));
  *out = (shmt__granted){.slab = slab, .first_block = view.first_block, .offset = view.offset};
  n_granted++;
  return SHMT_OK;
}

static bool give_back(void* arg, uint32_t slab) {
  (void)arg;
  (void)slab;
  n_given_back++;
  return false; /* not now */
}

static shmt__arena arena;
static shmt__descriptor arena_file;

static void begin_arena(uint64_t limit_bytes) {
  void* base = NULL;
  const shmt__map* m = begin_session(limit_bytes);
  join_as(1);
  CHECK_OK(shmt__os_map_shared(manager.arena_fd, m->fixed.arena_bytes, &base));
  arena_file = shmt__descriptor_of(manager.arena_fd);
  shmt__arena_init(&arena, m, (shmt__slab_source){grant, give_back, &arena});
  arena.client = 1;
  arena.file = &arena_file;
  arena.base = base;
}

static uint32_t allocate(uint64_t nbytes) {
  uint32_t block = 0;
  uint64_t generation = 0;
  CHECK_OK(shmt__arena_alloc(&arena, nbytes, nbytes, &block, &generation));
  CHECK(shmt__block_is_held_by(&manager.map, block, 1));
  CHECK_EQ(shmt__head_generation(atomic_load(&manager.map.blocks[block].head)), generation);
  return block;
}

TEST(blocks_in_use_do_not_overlap) {
  enum { N = 400 };
  uint32_t blocks[N];
  begin_arena(0);
  for (uint32_t i = 0; i < N; i++) {
    const uint64_t nbytes = 1 + i * i % 3000;
    blocks[i] = allocate(nbytes);
    memset(arena.base + shmt__arena_offset(&arena, blocks[i]), (int)i, nbytes);
  }
  for (uint32_t i = 0; i < N; i++) {
    const unsigned char* at = (const unsigned char*)arena.base + shmt__arena_offset(&arena, blocks[i]);
    for (uint64_t j = 0; j < 1 + i * i % 3000; j++) CHECK_EQ(at[j], i % 256);
  }
  shmt__arena_fini(&arena);
}

TEST(a_freed_block_is_the_next_one_of_its_class) {
  for (uint64_t nbytes = 1; nbytes <= 4 * MiB; nbytes *= 4) {
    begin_arena(0);
    const uint32_t block = allocate(nbytes);
    n_granted = 0;
    shmt__arena_free(&arena, block);
    CHECK_EQ(allocate(nbytes), block);
    CHECK_EQ(n_granted, 0);
    shmt__arena_fini(&arena);
    shmt__arena_manager_fini(&manager);
  }
}

TEST(a_block_that_others_hold_waits_until_they_let_go) {
  begin_arena(0);
  join_as(2);
  const uint32_t block = allocate(3 * MiB);
  const uint64_t generation = shmt__head_generation(atomic_load(&manager.map.blocks[block].head));
  CHECK(shmt__block_hold(&manager.map, block, 2, generation));
  shmt__arena_free(&arena, block);
  const uint32_t other = allocate(3 * MiB);
  CHECK(other != block);
  CHECK(shmt__block_is_held_by(&manager.map, block, 2));
  shmt__block_unhold(&manager.map, block, 2);
  CHECK_EQ(allocate(3 * MiB), block);
  shmt__arena_fini(&arena);
}

TEST(what_does_not_fit_is_refused_with_the_bytes) {
  uint32_t block = 0;
  uint64_t generation = 0;
  begin_arena(8 * MiB);
  CHECK_FAILS(shmt__arena_alloc(&arena, (uint64_t)ARENA_BYTES + 1, 1, &block, &generation), SHMT_E_NOMEM,
              "67108865 bytes");
  CHECK_FAILS(shmt__arena_alloc(&arena, UINT64_MAX, 1, &block, &generation), SHMT_E_NOMEM, "unable to allocate");
  (void)allocate(6 * MiB);
  CHECK_EQ(shmt__arena_alloc(&arena, 6 * MiB, 6 * MiB, &block, &generation), SHMT_E_NOMEM);
  (void)allocate(100); /* smaller ones still fit */
  shmt__arena_fini(&arena);
}

TEST(a_process_has_seven_placements) {
  unsigned number = 0, again = 0;
  for (unsigned i = 1; i < SHMT_ARENA_PLACEMENTS; i++) {
    CHECK_OK(shmt__placement_open((shmt__placement){.nodes = i}, &number));
    CHECK_EQ(number, i);
  }
  CHECK_OK(shmt__placement_open((shmt__placement){.nodes = 1}, &again));
  CHECK_EQ(again, 1);
  CHECK_FAILS(shmt__placement_open((shmt__placement){.nodes = 99}, &number), SHMT_E_RUNTIME, "7 placements");
}
