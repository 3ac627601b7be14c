/* ipc/session/request.c -- sends a request to a manager and waits for the reply. See Note [Waiting for a manager]. */
#include "ipc/session/request.h"
#include "ipc/session/other_version.h"

#include "os/clock.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"

#include <pthread.h>

enum { QUICK_MS = 50, SLICE_MS = 20, OTHERS_MS = 30000 };

static shmt__wait_hooks hooks; /* set once, before there are threads */

/* Under the sessions' lock. */
static struct {
  pthread_t who;
  unsigned depth;  /* 0: there is no requester */
  bool is_outside; /* it waits without the lock */
} requester;

static _Thread_local unsigned n_keeping;
static _Thread_local uint64_t limit_ms = UINT64_MAX;

void shmt__request_set_hooks(shmt__wait_hooks h) { hooks = h; }
bool shmt__request_is_waiting(void) { return requester.depth > 0 && requester.is_outside; }
void shmt__request_keep_lock(bool keep) { n_keeping += keep ? 1u : -1u; }
void shmt__request_set_limit(uint64_t deadline_ms) { limit_ms = deadline_ms; }

uint64_t shmt__request_deadline(uint32_t most_ms) {
  const uint64_t deadline_ms = shmt__os_now_ms() + most_ms;
  return deadline_ms < limit_ms ? deadline_ms : limit_ms;
}

void shmt__request_reset(void) {
  requester.depth = 0;
  requester.is_outside = false;
}

/* Wait without the lock until fd can be read, or for one slice; fd -1: for a moment. Returns 1: it can be read, 0: not
 * yet, -1: give up, -2: this is a child that was forked meanwhile. */
static int wait_outside(int fd) {
  uint32_t n_forks = shmt__fork_count();
  bool hooked = hooks.begin != NULL && n_keeping == 0;
  shmt__sessions_unlock();
  void* begun = hooked ? hooks.begin() : NULL;
  int ready = fd < 0 ? 0 : shmt__os_wait_readable_once(fd, SLICE_MS);
  if (fd < 0) shmt__os_sleep_ms(1);
  bool go_on = !hooked || hooks.end(begun);
  shmt__sessions_lock();
  if (n_forks != shmt__fork_count()) return -2;
  if (!go_on) return -1;
  return ready > 0;
}

shmt_status shmt__request_begin(void) {
  const uint64_t deadline_ms = shmt__request_deadline(OTHERS_MS);
  while (requester.depth > 0 && !pthread_equal(requester.who, pthread_self())) {
    SHMT_REQUIRE(shmt__os_now_ms() < deadline_ms, SHMT_E_MANAGER,
                 "another thread waits for a manager that does not answer (is it stopped?)");
    if (wait_outside(-1) == -1) return SHMT_E_PYTHON;
  }
  SHMT_REQUIRE(requester.depth == 0 || !requester.is_outside, SHMT_E_MANAGER,
               "a signal handler needs a manager that this thread waits for (is it stopped?)");
  requester.who = pthread_self();
  requester.depth++;
  return SHMT_OK;
}

void shmt__request_end(void) {
  if (requester.depth > 0) requester.depth--; /* 0: a signal handler forked, and this is the child */
}

shmt_status shmt__request_pause(void) {
  if (n_keeping > 0) {
    shmt__os_sleep_ms(1);
    return SHMT_OK;
  }
  requester.is_outside = true;
  const int result = wait_outside(-1);
  requester.is_outside = false;
  SHMT_REQUIRE(result != -2, SHMT_E_MANAGER, "this process was forked while its parent waited for a manager");
  return result == -1 ? SHMT_E_PYTHON : SHMT_OK;
}

typedef struct wait {
  shmt__session* session; /* NULL: keep the lock */
  const shmt__descriptor* socket; /* the program may close it while we wait */
  uint64_t begun_ms, deadline_ms;
} wait;

/* Wait until the socket can be read, or for a moment when fd is -1. Returns 1: ready, 0: timed out, -1: give up,
 * -2: forked, -3: the socket is gone. */
static int wait_for(wait* w, int fd) {
  for (;;) {
    uint64_t now = shmt__os_now_ms();
    bool patient = w->session != NULL && n_keeping == 0;
    if (!patient || now < w->begun_ms + QUICK_MS) {
      uint64_t end = patient ? w->begun_ms + QUICK_MS : w->deadline_ms;
      if (fd < 0) {
        shmt__os_sleep_ms(1);
        return now < w->deadline_ms;
      }
      int ready = shmt__os_wait_readable(fd, now < end ? (int)(end - now) : 0);
      if (ready != 0) return ready < 0 ? -3 : 1;
    } else {
      requester.is_outside = true;
      shmt__session_pin(w->session);
      int ready = wait_outside(fd);
      shmt__session_unpin(w->session);
      requester.is_outside = false;
      if (ready != 0) return ready;
      if (fd < 0) return shmt__os_now_ms() < w->deadline_ms;
    }
    if (shmt__os_now_ms() >= w->deadline_ms) return 0;
  }
}

/* A late reply to a request that was given up: return what the manager gave us. */
static void decline(shmt__session* s, const shmt__packet* reply) {
  if (s == NULL || s->map.control == NULL || reply->magic != SHMT_WIRE_MAGIC || reply->status != SHMT_OK) return;
  if (reply->type == (SHMT_MESSAGE_GRANT_SLAB | SHMT_MESSAGE_REPLY)) {
    const shmt__packet p = {.magic = SHMT_WIRE_MAGIC,
                            .version = SHMT_WIRE_VERSION,
                            .type = SHMT_MESSAGE_RETURN_SLAB,
                            .client = s->client,
                            .session = s->id,
                            .incarnation = s->incarnation,
                            .block = reply->block};
    (void)shmt__session_send(s, &p, NULL, 0);
  }
  if (reply->type == (SHMT_MESSAGE_ADD_FILE | SHMT_MESSAGE_REPLY) &&
      reply->block < s->map.fixed.n_blocks && shmt__session_held_block(s, reply->block) == NULL) {
    shmt__block_unhold(&s->map, reply->block, s->client);
    shmt__map_note_activity(&s->map);
  }
}

static shmt_status fail_wait(int why, const wait* w) {
  if (why == -1) return SHMT_E_PYTHON;
  SHMT_REQUIRE(why != -2, SHMT_E_MANAGER,
               "this process was forked while its parent waited for a manager");
  const uint64_t waited_ms = w->deadline_ms > w->begun_ms ? w->deadline_ms - w->begun_ms : 0;
  SHMT_FAIL(SHMT_E_MANAGER, "the manager did not answer within %d ms (is it stopped?)", (int)waited_ms);
}

static shmt_status fail_lost(bool* lost) {
  *lost = true;
  SHMT_FAIL(SHMT_E_MANAGER, "the connection to the manager is gone");
}

/* fd: the socket's number, checked just now. */
static shmt_status send_request(wait* w, int fd, const shmt__packet* request, const int* fds, int n_fds, bool* lost) {
  int err;
  while ((err = shmt__os_send(fd, request, sizeof *request, fds, n_fds)) == -SHMT_OS_AGAIN) {
    int ready = wait_for(w, -1);
    if (ready <= 0) return fail_wait(ready, w);
    fd = shmt__descriptor_number(w->socket);
  }
  return err == 0 ? SHMT_OK : fail_lost(lost);
}

static shmt_status fail_version(const shmt__packet* reply, const int* fds, int* n_fds) {
  const int n = *n_fds == SHMT_SOCKET_FDS_LOST ? 0 : *n_fds;
  for (int i = 0; i < n; i++) shmt__os_close(fds[i]);
  *n_fds = 0;
  SHMT_FAIL(SHMT_E_MANAGER,
            "the manager speaks version %d of the protocol, this program version %d: use one version of shmtensor",
            reply->version, SHMT_WIRE_VERSION);
}

/* Why a request failed. A manager of another user may say anything: what is no status, or one that only this process
 * can give itself, is not passed on. */
static shmt_status failure_of(const shmt__packet* reply) {
  const shmt_status status = reply->status;
  return status > SHMT_OK && status < SHMT_N_STATUSES && status != SHMT_E_PYTHON ? status : SHMT_E_MANAGER;
}

/* fd: as above. */
static shmt_status receive_reply(wait* w, int fd, uint32_t serial, shmt__packet* reply, int* out_fds, int* n_out_fds,
                                 bool* lost) {
  for (;; fd = shmt__descriptor_number(w->socket)) {
    int ready = fd < 0 ? -3 : wait_for(w, fd);
    if (ready == -3) return fail_lost(lost);
    if (ready <= 0) return fail_wait(ready, w);
    int n = shmt__os_receive(shmt__descriptor_number(w->socket), reply, sizeof *reply, out_fds, n_out_fds, NULL);
    if (n == -SHMT_OS_AGAIN) continue;
    if (shmt__packet_is_of_other_version(reply, n)) return fail_version(reply, out_fds, n_out_fds);
    if (n <= 0) return fail_lost(lost);
    bool is_whole = n == (int)sizeof *reply && reply->magic == SHMT_WIRE_MAGIC;
    bool is_ours = is_whole && reply->serial == serial;
    bool is_full = *n_out_fds == SHMT_SOCKET_FDS_LOST;
    if (is_full) *n_out_fds = 0;
    if (is_ours && is_full)
      return shmt__fail_errno(SHMT_OS_FULL, "no room for the descriptors that the manager sent");
    if (is_ours && reply->status == SHMT_OK) return SHMT_OK;
    for (int i = 0; i < *n_out_fds; i++) shmt__os_close(out_fds[i]);
    *n_out_fds = 0;
    if (!is_ours) {
      if (is_whole) decline(w->session, reply);
      continue;
    }
    reply->text[sizeof reply->text - 1] = '\0';
    SHMT_FAIL(failure_of(reply), "%s", reply->text);
  }
}

shmt_status shmt__request(shmt__session* s, const shmt__descriptor* socket, const shmt__packet* request,
                      const int* fds, int n_fds, shmt__packet* reply, int* out_fds, int* n_out_fds,
                      uint32_t timeout_ms, bool* lost) {
  wait w = {s, socket, shmt__os_now_ms(), shmt__request_deadline(timeout_ms)};
  *lost = false;
  *n_out_fds = 0;
  const int fd = shmt__descriptor_number(socket);
  SHMT_TRY(send_request(&w, fd, request, fds, n_fds, lost));
  return receive_reply(&w, fd, request->serial, reply, out_fds, n_out_fds, lost);
}

shmt_status shmt__request_send(shmt__session* s, const shmt__packet* request, uint64_t deadline_ms) {
  wait w = {s, &s->socket, shmt__os_now_ms(), deadline_ms};
  bool lost = false;
  return send_request(&w, shmt__descriptor_number(w.socket), request, NULL, 0, &lost);
}

shmt_status shmt__request_receive(shmt__session* s, uint32_t serial, shmt__packet* reply, int* out_fds,
                                  int* n_out_fds, uint64_t deadline_ms) {
  wait w = {s, &s->socket, shmt__os_now_ms(), deadline_ms};
  bool lost = false;
  *n_out_fds = 0;
  return receive_reply(&w, shmt__descriptor_number(w.socket), serial, reply, out_fds, n_out_fds, &lost);
}
