/* tests/c/ipc.c -- what travels between processes: handles, and messages in rings.
 *
 * The program is the only member of a session of its own. The environment's TEST_MANAGER names the manager program.
 */
#include "check.h"

#include "api/shm.h"
#include "ipc/handle/export.h"
#include "ipc/handle/import.h"
#include "ipc/handle/release.h"
#include "ipc/handle/share.h"
#include "ipc/ring/message_layout.h"
#include "ipc/ring/ring.h"
#include "ipc/session/session.h"
#include "os/process.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void begin_session(void) {
  const char* manager = getenv("TEST_MANAGER");
  CHECK(manager != NULL);
  CHECK(shmt_sharing_configure(manager, 0, 0) != 0);
}

static shmt_storage* make_storage(uint64_t nbytes, int fill) {
  shmt_storage* s = NULL;
  CHECK_OK(shmt__storage_create_shared(nbytes, SHMT_SHARING_FILE_SYSTEM, &s));
  if (nbytes > 0) memset(s->data, fill, nbytes);
  return s;
}

static uint64_t n_leases(void) {
  shmt_sharing_status_info status;
  CHECK_OK(shmt_sharing_status(&status));
  return status.n_leases;
}

/* --- handles --- */

TEST(each_bit_of_a_handle_and_the_secret_count_in_its_checksum) {
  const shmt__handle h = {.magic = SHMT_HANDLE_MAGIC, .session = 1, .incarnation = 2, .generation = 3, .nbytes = 4};
  const uint32_t check = shmt__handle_check_of(99, &h);
  CHECK(shmt__handle_check_of(98, &h) != check);
  for (size_t bit = 8 * offsetof(shmt__handle, session); bit < 8 * sizeof h; bit++) {
    unsigned char bytes[sizeof h];
    shmt__handle damaged;
    memcpy(bytes, &h, sizeof h);
    bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    memcpy(&damaged, bytes, sizeof damaged);
    CHECK(shmt__handle_check_of(99, &damaged) != check);
  }
}

TEST(each_bit_of_bytes_beside_a_handle_counts) {
  const size_t sizes[] = {0, 1, 7, 8, 9, 127, 128, 129, 160, 161};
  unsigned char bytes[161];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 37);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const uint32_t check = shmt__handle_checksum(5, bytes, sizes[i]);
    for (size_t bit = 0; bit < 8 * sizes[i]; bit++) {
      bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
      CHECK(shmt__handle_checksum(5, bytes, sizes[i]) != check);
      bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    if (i > 0) CHECK(shmt__handle_checksum(5, bytes, sizes[i] - 1) != check);
  }
}

TEST(a_handle_leads_back_to_its_storage_and_ends_its_lease) {
  shmt__handle h;
  shmt_storage* back = NULL;
  begin_session();
  for (uint64_t nbytes = 1; nbytes < 5000000; nbytes *= 7) {
    shmt_storage* s = make_storage(nbytes, 7);
    CHECK_OK(shmt__storage_export(s, true, &h, NULL));
    CHECK_EQ(n_leases(), 1);
    CHECK_OK(shmt__storage_import(&h, NULL, &back));
    CHECK(back == s);
    CHECK_EQ(n_leases(), 0);
    shmt_storage_release(back);
    shmt_storage_release(s);
  }
}

TEST(a_lease_keeps_the_bytes_when_the_sender_lets_go) {
  shmt__handle h;
  shmt_storage *s, *back = NULL;
  begin_session();
  s = make_storage(300000, 7);
  CHECK_OK(shmt__storage_export(s, true, &h, NULL));
  shmt_storage_release(s);
  s = make_storage(300000, 9); /* it would take a free block */
  CHECK_OK(shmt__storage_import(&h, NULL, &back));
  CHECK_EQ(back->nbytes, 300000);
  CHECK_EQ(((char*)back->data)[299999], 7);
  shmt_storage_release(back);
  shmt_storage_release(s);
}

TEST(a_storage_without_bytes_has_a_handle) {
  shmt__handle h;
  shmt_storage *s, *back = NULL;
  begin_session();
  s = make_storage(0, 0);
  CHECK_OK(shmt__storage_export(s, true, &h, NULL));
  CHECK_EQ(h.block, (uint32_t)SHMT_HANDLE_NO_BLOCK);
  CHECK_OK(shmt__storage_import(&h, NULL, &back));
  CHECK_EQ(back->nbytes, 0);
  shmt_storage_release(back);
  shmt_storage_release(s);
}

TEST(a_handle_with_one_wrong_bit_is_refused_and_changes_nothing) {
  shmt__handle h;
  shmt_storage *s, *back = NULL;
  begin_session();
  s = make_storage(5000, 7);
  CHECK_OK(shmt__storage_export(s, true, &h, NULL));
  for (size_t bit = 0; bit < 8 * sizeof h; bit++) {
    unsigned char bytes[sizeof h];
    shmt__handle damaged;
    memcpy(bytes, &h, sizeof h);
    bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    memcpy(&damaged, bytes, sizeof damaged);
    CHECK_EQ(shmt__storage_import(&damaged, NULL, &back), SHMT_E_HANDLE);
    CHECK(back == NULL);
  }
  CHECK_EQ(n_leases(), 1);
  CHECK_OK(shmt__storage_import(&h, NULL, &back));
  CHECK(back == s);
  shmt_storage_release(back);
  shmt_storage_release(s);
}

TEST(a_handle_of_a_freed_block_is_refused) {
  shmt__handle h;
  shmt_storage *s, *other, *back = NULL;
  begin_session();
  s = make_storage(5000, 7);
  CHECK_OK(shmt__storage_export(s, false, &h, NULL));
  shmt_storage_release(s);
  other = make_storage(5000, 9);
  CHECK_FAILS(shmt__storage_import(&h, NULL, &back), SHMT_E_HANDLE, "gone");
  shmt_storage_release(other);
}

TEST(handles_are_opened_all_or_none) {
  shmt__handle handles[3];
  shmt_storage *sent[3], *back[3] = {NULL, NULL, NULL};
  uint64_t secret = 0;
  begin_session();
  for (int i = 0; i < 3; i++) sent[i] = make_storage(1000, i);
  CHECK_OK(shmt__storages_export(sent, 3, handles, &secret));
  handles[2].nbytes++;
  CHECK_EQ(shmt__storages_import(handles, 3, NULL, back), SHMT_E_HANDLE);
  handles[2].nbytes--;
  CHECK_OK(shmt__storages_import(handles, 3, NULL, back));
  for (int i = 0; i < 3; i++) {
    CHECK(back[i] == sent[i]);
    shmt_storage_release(back[i]);
    shmt_storage_release(sent[i]);
  }
}

TEST(bytes_beside_a_handle_are_checked_first) {
  shmt__handle h;
  shmt_storage *s, *back = NULL;
  uint64_t secret = 0;
  char text[] = "sizes and strides";
  begin_session();
  s = make_storage(100, 7);
  CHECK_OK(shmt__storage_export(s, true, &h, &secret));
  const shmt__checked_bytes beside = {text, sizeof text, shmt__handle_checksum(secret, text, sizeof text)};
  text[3] = '?';
  CHECK_EQ(shmt__storage_import(&h, &beside, &back), SHMT_E_HANDLE);
  CHECK_EQ(n_leases(), 1);
  text[3] = 'e';
  CHECK_OK(shmt__storage_import(&h, &beside, &back));
  shmt_storage_release(back);
  shmt_storage_release(s);
}

TEST(private_storages_have_no_handle) {
  shmt__handle h;
  shmt_storage* s = NULL;
  begin_session();
  CHECK_OK(shmt__storage_create(100, &s));
  CHECK_EQ(shmt__storage_export(s, true, &h, NULL), SHMT_E_RUNTIME);
  shmt_storage_release(s);
}

/* --- forks --- */

enum { MARK = 12345 }; /* another session may lie where one was freed */

static bool is_in_table(const shmt__session* s) {
  bool found = false;
  shmt__sessions_lock();
  for (unsigned i = 0; i < shmt__sessions_count(); i++)
    found = found || (shmt__session_at(i) == s && s->sought_ms == MARK);
  shmt__sessions_unlock();
  return found;
}

/* The default session is lost, and whoever shares something joins another: those that nothing uses are freed. */
static void lose_and_join(void) {
  shmt__session* s = NULL;
  shmt__sessions_lock();
  CHECK_OK(shmt__session_open_default(&s));
  s->is_lost = true;
  shmt__sessions_unlock();
  shmt_storage_release(make_storage(100, 1));
}

static void use_lost_session(shmt__session* session, shmt_storage* s) {
  lose_and_join();
  CHECK(is_in_table(session)); /* this thread has pinned it */
  shmt__session_unpin(session);
  lose_and_join();
  CHECK(is_in_table(session)); /* the storage's record uses it, although it is in no table */
  CHECK(*(volatile char*)s->data == 7 || *(volatile char*)s->data == 0); /* mapped */
  shmt_storage_release(s);
  lose_and_join();
  CHECK(!is_in_table(session));
}

TEST(a_child_keeps_a_lost_session_for_old_records_and_the_thread_that_forked) {
  int status = 0;
  begin_session();
  shmt_storage* s = make_storage(5000, 7);
  shmt__held_block *old = s->ctx, *next = NULL;
  shmt__session* session = old->session;
  shmt__sessions_lock();
  CHECK_OK(shmt__session_supersede_held_block(old, &next));
  shmt__session_drop_held_block(next);
  shmt__session_pin(session);
  session->sought_ms = MARK;
  shmt__sessions_unlock();
  const pid_t pid = fork();
  if (pid == 0) {
    use_lost_session(session, s);
    _exit(0);
  }
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  CHECK_EQ(status, 0);
  use_lost_session(session, s);
}

static atomic_int n_ready;

static void* update_with_others(void* ring) {
  atomic_fetch_add(&n_ready, 1);
  while (atomic_load(&n_ready) < 2) {
  }
  shmt__ring_readiness_update(ring);
  return NULL;
}

/* What the parent had for its descriptors has a reference to the storage: given up once, it leaves the ring's own. */
static void update_in_two_threads(shmt__ring* ring) {
  pthread_t threads[2];
  int fd = -1;
  for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&threads[i], NULL, update_with_others, ring), 0);
  for (int i = 0; i < 2; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  CHECK_EQ(atomic_load(&ring->storage->refs), 1);
  CHECK_OK(shmt__ring_fileno(ring, true, &fd));
  CHECK_EQ(atomic_load(&ring->storage->refs), 2);
}

TEST(threads_of_a_child_may_be_the_first_there_to_use_a_ring_with_descriptors) {
  int fd = -1, status = 0;
  shmt__ring* ring = NULL;
  begin_session();
  CHECK_OK(shmt__ring_create(0, &ring));
  CHECK_OK(shmt__ring_fileno(ring, true, &fd));
  for (int i = 0; i < 300; i++) {
    const pid_t pid = fork();
    if (pid == 0) {
      update_in_two_threads(ring);
      _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
  }
}

/* --- the layout of a ring --- */

enum { CAPACITY = 64 };

TEST(positions_count_messages_and_wrap_round_the_area) {
  uint64_t at = shmt__ring_position(UINT32_MAX, CAPACITY - 16);
  CHECK_EQ(shmt__ring_used(at, at, CAPACITY), 0);
  const uint64_t next = shmt__ring_next(at, 16, CAPACITY);
  CHECK_EQ(shmt__ring_offset(next), 0);
  CHECK_EQ(shmt__ring_count(next), 0); /* the count wraps round, too */
  CHECK_EQ(shmt__ring_used(at, next, CAPACITY), 16);
  at = shmt__ring_next(next, 40, CAPACITY);
  CHECK_EQ(shmt__ring_used(next, at, CAPACITY), 40);
  CHECK_EQ(shmt__ring_offset(shmt__ring_next(at, 32, CAPACITY)), 8);
  /* Full: head and tail are at one place, and only the counts differ. */
  CHECK_EQ(shmt__ring_used(next, shmt__ring_next(next, CAPACITY, CAPACITY), CAPACITY), CAPACITY);
}

TEST(positions_outside_the_area_or_askew_are_none) {
  CHECK(shmt__ring_position_is_valid(shmt__ring_position(7, 0), SHMT_RING_CAPACITY));
  CHECK(shmt__ring_position_is_valid(shmt__ring_position(7, SHMT_RING_CAPACITY - 8), SHMT_RING_CAPACITY));
  CHECK(!shmt__ring_position_is_valid(shmt__ring_position(7, SHMT_RING_CAPACITY), SHMT_RING_CAPACITY));
  CHECK(!shmt__ring_position_is_valid(shmt__ring_position(7, UINT32_MAX - 7), SHMT_RING_CAPACITY));
  CHECK(!shmt__ring_position_is_valid(shmt__ring_position(7, 4), SHMT_RING_CAPACITY));
}

TEST(bytes_are_written_and_read_across_the_end) {
  static char memory[CAPACITY + 1];
  const shmt__ring_area area = {memory, CAPACITY};
  char sent[CAPACITY], received[CAPACITY];
  memory[CAPACITY] = 'x';
  for (uint32_t offset = 0; offset < CAPACITY; offset++) {
    for (uint32_t n = 0; n <= CAPACITY; n++) {
      for (uint32_t i = 0; i < n; i++) sent[i] = (char)(offset + 3 * i + n);
      memset(received, 0, sizeof received);
      CHECK_EQ(shmt__ring_write(area, offset, sent, n) % CAPACITY, (offset + n) % CAPACITY);
      CHECK_EQ(shmt__ring_read(area, offset, received, n) % CAPACITY, (offset + n) % CAPACITY);
      CHECK(memcmp(sent, received, n) == 0);
    }
  }
  CHECK_EQ(memory[CAPACITY], 'x');
}

TEST(message_headers_that_do_not_fit_are_refused) {
  const shmt__ring_message good = {.nbytes = (uint32_t)shmt__ring_message_bytes(2, 5), .n_data = 5, .n_blocks = 2};
  CHECK_EQ(good.nbytes, 72);
  CHECK(shmt__ring_message_is_valid(&good, 72));
  CHECK(!shmt__ring_message_is_valid(&good, 71));
#define DAMAGED(field, value)     \
  do {                            \
    shmt__ring_message m = good;  \
    m.field = (value);            \
    CHECK(!shmt__ring_message_is_valid(&m, UINT32_MAX)); \
  } while (0)
  DAMAGED(nbytes, 64);
  DAMAGED(nbytes, 80);
  DAMAGED(n_data, 9);
  DAMAGED(n_data, UINT32_MAX);
  DAMAGED(n_blocks, 3);
  DAMAGED(n_blocks, UINT32_MAX);
#undef DAMAGED
  const uint64_t most = shmt__ring_message_bytes(SHMT_RING_MAX_BLOCKS + 1, 0);
  const shmt__ring_message many = {.nbytes = (uint32_t)most, .n_blocks = SHMT_RING_MAX_BLOCKS + 1};
  CHECK(!shmt__ring_message_is_valid(&many, UINT32_MAX));
  /* The largest message that may be put has room. */
  CHECK(shmt__ring_message_bytes(SHMT_RING_MAX_BLOCKS, SHMT_RING_INLINE) < SHMT_RING_CAPACITY);
}

/* --- rings --- */

static shmt__ring* make_ring(uint32_t max_messages) {
  shmt__ring* ring = NULL;
  begin_session();
  CHECK_OK(shmt__ring_create(max_messages, &ring));
  return ring;
}

static char text[SHMT_RING_INLINE];

/* What a message of n bytes says: each differs from its neighbours. */
static shmt__outgoing_message message_of(uint32_t n, char first) {
  memset(text, 'm', n);
  if (n > 0) text[0] = text[n - 1] = first;
  return (shmt__outgoing_message){.parts = {text, text + n / 2}, .part_bytes = {n / 2, n - n / 2}};
}

static shmt__ring_result put(shmt__ring* ring, uint32_t n, char first) {
  const shmt__outgoing_message m = message_of(n, first);
  return shmt__ring_put(ring, &m, 0, 0);
}

static void get_and_check(shmt__ring* ring, uint32_t n, char first) {
  shmt__received_message m;
  uint32_t n_got = 0;
  CHECK_EQ(shmt__ring_get(ring, &m, 1, &n_got, 0), SHMT_RING_DONE);
  CHECK_EQ(n_got, 1);
  CHECK_EQ(m.nbytes, n);
  (void)message_of(n, first);
  CHECK(n == 0 || memcmp(m.data, text, n) == 0);
  CHECK_EQ(m.n_storages, 0);
  shmt__received_message_fini(&m);
}

TEST(a_new_ring_is_empty) {
  shmt__ring* ring = make_ring(0);
  shmt__received_message m;
  uint32_t n = 7;
  CHECK_EQ(shmt__ring_n_messages(ring), 0);
  CHECK_EQ(shmt__ring_get(ring, &m, 1, &n, 0), SHMT_RING_EMPTY);
  CHECK_EQ(shmt__ring_poll(ring, 0), SHMT_RING_EMPTY);
  CHECK(!shmt__ring_task_done(ring));
  CHECK_EQ(shmt__ring_join(ring, 0), SHMT_RING_DONE);
  shmt__ring_close(ring);
}

TEST(messages_come_out_in_order_while_the_area_wraps_round) {
  shmt__ring* ring = make_ring(0);
  uint64_t n_bytes = 0;
  uint32_t n_put = 0, n_got = 0;
  while (n_bytes < UINT64_C(5) * SHMT_RING_CAPACITY) {
    const uint32_t n = n_put * 7919 % SHMT_RING_INLINE;
    if (put(ring, n, (char)n_put) == SHMT_RING_DONE) {
      n_bytes += n;
      n_put++;
    } else {
      get_and_check(ring, n_got * 7919 % SHMT_RING_INLINE, (char)n_got);
      n_got++;
    }
    CHECK_EQ(shmt__ring_n_messages(ring), n_put - n_got);
  }
  for (; n_got < n_put; n_got++) get_and_check(ring, n_got * 7919 % SHMT_RING_INLINE, (char)n_got);
  CHECK_EQ(shmt__ring_poll(ring, 0), SHMT_RING_EMPTY);
  shmt__ring_close(ring);
}

TEST(a_full_ring_takes_no_more_until_one_is_taken) {
  enum { BYTES = 1008 };
  shmt__ring* ring = make_ring(0);
  uint32_t n = 0;
  while (put(ring, BYTES, (char)n) == SHMT_RING_DONE) n++;
  CHECK_EQ(n, SHMT_RING_CAPACITY / shmt__ring_message_bytes(0, BYTES));
  CHECK_EQ(put(ring, BYTES, 0), SHMT_RING_NO_ROOM);
  get_and_check(ring, BYTES, 0);
  CHECK_EQ(put(ring, BYTES, (char)n), SHMT_RING_DONE);
  for (uint32_t i = 1; i <= n; i++) get_and_check(ring, BYTES, (char)i);
  shmt__ring_close(ring);
}

TEST(a_ring_that_is_full_to_the_last_byte_is_not_empty) {
  shmt__ring* ring = make_ring(0);
  const uint32_t n = SHMT_RING_CAPACITY / 8; /* of a message with its header */
  for (int i = 0; i < 8; i++)
    CHECK_EQ(put(ring, n - (uint32_t)sizeof(shmt__ring_message), (char)i), SHMT_RING_DONE);
  CHECK_EQ(put(ring, 0, 0), SHMT_RING_NO_ROOM);
  CHECK_EQ(shmt__ring_n_messages(ring), 8);
  for (int i = 0; i < 8; i++) get_and_check(ring, n - (uint32_t)sizeof(shmt__ring_message), (char)i);
  CHECK_EQ(shmt__ring_n_messages(ring), 0);
  shmt__ring_close(ring);
}

TEST(a_bound_counts_messages) {
  shmt__ring* ring = make_ring(2);
  CHECK_EQ(put(ring, 1, 'a'), SHMT_RING_DONE);
  CHECK_EQ(put(ring, 1, 'b'), SHMT_RING_DONE);
  CHECK_EQ(put(ring, 1, 'c'), SHMT_RING_FULL);
  get_and_check(ring, 1, 'a');
  CHECK_EQ(put(ring, 1, 'c'), SHMT_RING_DONE);
  CHECK_EQ(shmt__ring_size(ring), 2);
  shmt__ring_close(ring);
}

TEST(pending_messages_count_and_can_be_forgotten) {
  const shmt__outgoing_message m = message_of(8, 'p');
  shmt__ring* ring = make_ring(3);
  CHECK_EQ(shmt__ring_put(ring, &m, SHMT_RING_KEEP | SHMT_RING_BEHIND, 0), SHMT_RING_NO_ROOM);
  CHECK_EQ(shmt__ring_n_messages(ring), 0);
  CHECK_EQ(shmt__ring_size(ring), 1);
  CHECK_EQ(shmt__ring_put(ring, &m, SHMT_RING_PENDING, 0), SHMT_RING_DONE);
  CHECK_EQ(shmt__ring_size(ring), 1);
  CHECK_EQ(shmt__ring_put(ring, &m, SHMT_RING_KEEP | SHMT_RING_BEHIND, 0), SHMT_RING_NO_ROOM);
  shmt__ring_forget_pending(ring, 1);
  CHECK_EQ(shmt__ring_size(ring), 1);
  shmt__ring_close(ring);
}

TEST(many_messages_are_put_and_taken_at_once) {
  shmt__ring* ring = make_ring(5);
  shmt__outgoing_message sent[7];
  shmt__received_message got[7];
  uint32_t n = 0;
  for (int i = 0; i < 7; i++) sent[i] = (shmt__outgoing_message){.parts = {"abcdefg" + i, NULL}, .part_bytes = {1, 0}};
  CHECK_EQ(shmt__ring_put_many(ring, sent, 7, &n), SHMT_RING_DONE);
  CHECK_EQ(n, 5);
  CHECK_EQ(shmt__ring_get(ring, got, 7, &n, 0), SHMT_RING_DONE);
  CHECK_EQ(n, 5);
  for (int i = 0; i < 5; i++) {
    CHECK_EQ(*(const char*)got[i].data, "abcdefg"[i]);
    shmt__received_message_fini(&got[i]);
  }
  shmt__ring_close(ring);
}

TEST(a_message_keeps_its_storages_until_it_is_taken) {
  shmt__ring* ring = make_ring(0);
  shmt_storage* sent[3];
  shmt__received_message m;
  uint32_t n = 0;
  for (int i = 0; i < 3; i++) sent[i] = make_storage(i == 1 ? 0 : 70000, 5 + i);
  const shmt__outgoing_message out = {.storages = sent, .n_storages = 3};
  CHECK_EQ(shmt__ring_put(ring, &out, 0, 0), SHMT_RING_DONE);
  for (int i = 0; i < 3; i++) shmt_storage_release(sent[i]);
  CHECK_EQ(n_leases(), 2); /* one has no bytes */
  CHECK_EQ(shmt__ring_get(ring, &m, 1, &n, 0), SHMT_RING_DONE);
  CHECK_EQ(m.n_storages, 3);
  for (int i = 0; i < 3; i++) {
    CHECK_EQ(m.storages[i]->nbytes, i == 1 ? 0 : 70000);
    if (i != 1) CHECK_EQ(((char*)m.storages[i]->data)[69999], 5 + i);
  }
  CHECK_EQ(n_leases(), 0);
  shmt__received_message_fini(&m);
  shmt__ring_close(ring);
}

TEST(tasks_are_joined_when_all_are_done) {
  shmt__ring* ring = make_ring(0);
  CHECK_EQ(put(ring, 1, 'a'), SHMT_RING_DONE);
  CHECK_EQ(put(ring, 1, 'b'), SHMT_RING_DONE);
  CHECK_EQ(shmt__ring_join(ring, 0), SHMT_RING_BUSY);
  CHECK(shmt__ring_task_done(ring));
  CHECK(shmt__ring_task_done(ring));
  CHECK(!shmt__ring_task_done(ring));
  CHECK_EQ(shmt__ring_join(ring, 0), SHMT_RING_DONE);
  shmt__ring_close(ring);
}

TEST(a_ring_is_opened_by_its_handle) {
  shmt__ring *ring = make_ring(0), *other = NULL;
  shmt__handle h;
  CHECK_OK(shmt__ring_export(ring, &h));
  CHECK_OK(shmt__ring_open(&h, &other));
  CHECK_EQ(put(ring, 5, 'x'), SHMT_RING_DONE);
  get_and_check(other, 5, 'x');
  h.incarnation++;
  CHECK_EQ(shmt__ring_open(&h, &other), SHMT_E_HANDLE);
  shmt__ring_close(ring);
}

TEST(a_message_whose_header_was_overwritten_is_an_error_and_the_ring_goes_on) {
  shmt__ring* ring = make_ring(0);
  shmt__received_message m;
  uint32_t n = 0;
  CHECK_EQ(put(ring, 5, 'x'), SHMT_RING_DONE);
  memset(ring->area.at, 0xff, sizeof(shmt__ring_message));
  CHECK_EQ(shmt__ring_get(ring, &m, 1, &n, 0), SHMT_RING_FAILED);
  CHECK_EQ(shmt_error_code(), SHMT_E_HANDLE);
  while (shmt__ring_get(ring, &m, 1, &n, 0) == SHMT_RING_DONE) shmt__received_message_fini(&m);
  CHECK_EQ(put(ring, 6, 'y'), SHMT_RING_DONE);
  get_and_check(ring, 6, 'y');
  shmt__ring_close(ring);
}
