/* tests/c/manager.c -- when the manager ends the leases of messages that nobody can read, by a clock of the test's. */
#include "check.h"
#include "session.h"

#include "ipc/manager/channel_watch.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static shmt__channel_watch watch;
static int reader, writer;

static uint64_t make_pipe(void) {
  int ends[2];
  struct stat about;
  CHECK_EQ(pipe(ends), 0);
  reader = ends[0];
  writer = ends[1];
  CHECK_EQ(fstat(reader, &about), 0);
  return shmt__channel(SHMT_CHANNEL_PIPE, about.st_ino);
}

/* Sweep at this time, and return how many leases the sender's block has then. */
static unsigned leases_after(const sender* s, uint64_t now_ms) {
  shmt__channels_sweep(&watch, &manager, now_ms);
  return shmt__block_n_leases(&manager.map.blocks[s->block]);
}

enum { BEGIN = 1000000, YOUNG = SHMT_CHANNEL_YOUNG_MS, GRACE = SHMT_CHANNEL_GRACE_MS, UNSENT = SHMT_CHANNEL_UNSENT_MS };

TEST(a_message_in_a_pipe_with_a_reader_stays) {
  (void)begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t;
  CHECK_OK(take_lease(&s, make_pipe(), &t));
  for (int i = 0; i < 10; i++) CHECK_EQ(leases_after(&s, BEGIN + (uint64_t)i * 60000), 1);
}

TEST(without_a_reader_it_ends_after_two_looks_and_the_grace_time) {
  (void)begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t;
  CHECK_OK(take_lease(&s, make_pipe(), &t));
  CHECK_EQ(leases_after(&s, BEGIN), 1); /* from now on it gets older */
  (void)close(reader);
  CHECK_EQ(leases_after(&s, BEGIN + YOUNG - 1), 1);
  const uint64_t missed = BEGIN + YOUNG; /* the first look at the pipe */
  CHECK_EQ(leases_after(&s, missed), 1);
  CHECK_EQ(leases_after(&s, missed + GRACE - 1), 1);
  CHECK_EQ(leases_after(&s, missed + GRACE), 0);
}

TEST(one_look_long_after_ends_nothing) {
  (void)begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t;
  CHECK_OK(take_lease(&s, make_pipe(), &t));
  CHECK_EQ(leases_after(&s, BEGIN), 1);
  (void)close(reader);
  CHECK_EQ(leases_after(&s, BEGIN + 3600000), 1); /* a receiver may just have read it */
}

/* A message that its sender was writing when it died. */
static void begin_unsent(sender* s) {
  shmt__lease_ticket t;
  CHECK_OK(take_lease(s, make_pipe() | SHMT_CHANNEL_SENDING, &t));
  shmt__leases_client_died(&manager.map, s->client);
}

TEST(an_unsent_message_ends_when_its_pipe_was_empty_for_long) {
  (void)begin_session(0);
  sender s = begin_sender(1);
  begin_unsent(&s);
  CHECK_EQ(leases_after(&s, BEGIN), 1);
  CHECK_EQ(leases_after(&s, BEGIN + UNSENT - 1), 1);
  CHECK_EQ(leases_after(&s, BEGIN + UNSENT), 0);
}

TEST(an_unsent_message_stays_while_something_waits_to_be_read) {
  char byte;
  (void)begin_session(0);
  sender s = begin_sender(1);
  begin_unsent(&s);
  CHECK_EQ(write(writer, "x", 1), 1);
  for (int i = 0; i < 5; i++) CHECK_EQ(leases_after(&s, BEGIN + (uint64_t)i * UNSENT), 1);
  CHECK_EQ(read(reader, &byte, 1), 1);
  const uint64_t empty = BEGIN + 10 * UNSENT;
  CHECK_EQ(leases_after(&s, empty), 1);
  CHECK_EQ(leases_after(&s, empty + UNSENT - 1), 1); /* whoever read it may open it until then */
  CHECK_EQ(leases_after(&s, empty + UNSENT), 0);
}

TEST(a_lease_tied_to_a_lock_ends_with_it) {
  (void)begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t;
  uint64_t token = 0;
  const int fd = open_control();
  CHECK(shmt__token_claim(fd, &token));
  CHECK_OK(take_lease(&s, shmt__channel(SHMT_CHANNEL_LOCK, token), &t));
  CHECK_EQ(leases_after(&s, BEGIN), 1);
  (void)close(fd);
  CHECK_EQ(leases_after(&s, BEGIN + 1), 0);
}

TEST(a_message_through_an_unknown_channel_stays) {
  (void)begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t;
  CHECK_OK(take_lease(&s, 0, &t));
  for (int i = 0; i < 5; i++) CHECK_EQ(leases_after(&s, BEGIN + (uint64_t)i * 60000), 1);
}

/* One sweep checks a bounded number of channels, the next goes on with the others. */
TEST(messages_in_more_pipes_than_one_sweep_checks_end_with_their_readers) {
  enum { N = 2 * SHMT_CHANNEL_BUDGET + 52, SWEEPS = 40 };
  static int readers[N];
  struct rlimit files;
  unsigned left = N;
  uint64_t now_ms = BEGIN;
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < 2 * N + 100) return; /* this system has too few descriptors */
  (void)begin_session(0);
  sender s = begin_sender(1);
  for (int i = 0; i < N; i++) {
    shmt__lease_ticket t;
    CHECK_OK(take_lease(&s, make_pipe(), &t));
    readers[i] = dup(reader); /* the writing end has the lower number: it is found first, and remembered */
    (void)close(reader);
  }
  for (int i = 0; i < SWEEPS; i++) CHECK_EQ(leases_after(&s, now_ms += 500), N);
  for (int i = 0; i < N; i++) (void)close(readers[i]);
  for (int i = 0; i < SWEEPS && left > 0; i++) left = leases_after(&s, now_ms += 500);
  CHECK_EQ(left, 0);
}

TEST(what_was_seen_long_ago_is_old) {
  const uint64_t day_ms = UINT64_C(24) * 3600 * 1000;
  const uint64_t days[] = {1, 24, 25, 49, 50, 51, 100, 1000};
  (void)begin_session(0);
  sender s = begin_sender(1);
  CHECK_EQ(shmt__arena_manager_block_age(&manager, s.block, BEGIN), 0);
  for (size_t i = 0; i < sizeof days / sizeof *days; i++)
    CHECK_EQ(shmt__arena_manager_block_age(&manager, s.block, BEGIN + days[i] * day_ms), days[i] * day_ms);
  CHECK_EQ(shmt__arena_manager_block_age(&manager, s.block, BEGIN - 1000), 0); /* another sweep had begun later */
}

TEST(a_message_that_waited_for_weeks_ends_when_its_reader_does) {
  const uint64_t later = BEGIN + (UINT64_C(1) << 31) + (UINT64_C(1) << 30); /* 37 days */
  (void)begin_session(0);
  sender s = begin_sender(1);
  shmt__lease_ticket t;
  CHECK_OK(take_lease(&s, make_pipe(), &t));
  CHECK_EQ(leases_after(&s, BEGIN), 1);
  (void)close(reader);
  CHECK_EQ(leases_after(&s, later), 1);
  CHECK_EQ(leases_after(&s, later + GRACE), 0);
}
