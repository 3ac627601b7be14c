/* ipc/ring/readiness.c -- descriptors for select() and asyncio that show whether a ring has messages, or room for one.
 *
 * Each is made when the program first wants it. A thread watches the ring (Note [Watchers]) and updates the descriptors
 * when other processes put and get. This process's own puts and gets update them at once, so that a get that empties
 * the ring leaves none readable. The thread may still check a ring that was closed a moment ago, so what it needs is in
 * a shmt__ring_readiness with a reference of its own.
 */
#include "ipc/session/session.h"
#include "ipc/ring/unacknowledged.h"
#include "ipc/ring/wait.h"
#include "ipc/ring/watchers.h"
#include "os/descriptor.h"
#include "os/flag.h"

#include <stdlib.h>

struct shmt__ring_readiness {
  shmt__watched watched; /* first */
  shmt__mutex lock;     /* guards the rest */
  shmt__ring ring;      /* the fields that counting needs */
  struct shmt__ring_flag {
    shmt__descriptor file; /* none: nobody wants it, or the ring is closed */
    bool is_up;
  } data, room;
  bool is_stopped;
};

static void show(struct shmt__ring_flag* f, bool up) {
  int fd = up == f->is_up ? -1 : shmt__descriptor_number(&f->file);
  if (fd < 0) return;
  f->is_up = up;
  if (up)
    shmt__os_flag_raise(fd);
  else
    shmt__os_flag_lower(fd);
}

/* Bring both up to date. The caller has the lock. */
static void update_locked(struct shmt__ring_readiness* w) {
  uint32_t max = shmt__ring_max_messages(&w->ring);
  unsigned n_kept = atomic_load_explicit(&w->ring.n_kept, memory_order_relaxed);
  show(&w->data, shmt__ring_n_messages(&w->ring) + n_kept > 0);
  show(&w->room, max == 0 || shmt__ring_size(&w->ring) < max);
}

/* Bring the descriptors up to date. False: the ring is closed. */
static bool update(struct shmt__ring_readiness* w) {
  shmt__mutex_lock(&w->lock);
  bool goes_on = !w->is_stopped;
  if (goes_on) update_locked(w);
  shmt__mutex_unlock(&w->lock);
  return goes_on;
}

static bool check(shmt__watched* e) {
  struct shmt__ring_readiness* w = (struct shmt__ring_readiness*)e;
  if (shmt__ring_has_stale(&w->ring)) shmt__ring_recover(&w->ring);
  shmt__ring_recover_now_and_then(&w->ring);
  return update(w);
}

/* Nobody uses w any more. */
static void discard(struct shmt__ring_readiness* w) {
  shmt__descriptor_close(&w->data.file);
  shmt__descriptor_close(&w->room.file);
  shmt__ring_close(w->ring.unacked);
  shmt__storage_release(w->ring.storage);
  shmt__mutex_destroy(&w->lock);
  free(w);
}

static void end(shmt__watched* e) { discard((struct shmt__ring_readiness*)e); }

/* Are the descriptors and the thread those of the process that this one was forked from? acquire, as for `watch`: who
 * sees one that this process has made sees its count of forks, and who sees that count sees the parent's no more. */
static bool is_of_parent(const shmt__ring* r) {
  return r->watch != NULL && atomic_load_explicit(&r->watch_fork, memory_order_acquire) != shmt__fork_count();
}

/* After fork() the thread and the event descriptors are the parent's: forget them. Several threads of this process may
 * be the first to use the ring; one of them takes it out. */
static void leave_to_parent(shmt__ring* r) {
  struct shmt__ring_readiness* w = NULL;
  if (SHMT_LIKELY(!is_of_parent(r))) return;
  shmt__mutex_lock(&r->watch_lock);
  if (is_of_parent(r)) {
    w = r->watch;
    r->watch = NULL;
  }
  shmt__mutex_unlock(&r->watch_lock);
  if (w != NULL) discard(w);
}

static shmt_status make_readiness(const shmt__ring* r, struct shmt__ring_readiness** out) {
  struct shmt__ring_readiness* w = calloc(1, sizeof *w);
  SHMT_REQUIRE(w != NULL, SHMT_E_NOMEM, "queue: tried to allocate %zu bytes", sizeof *w);
  w->watched = (shmt__watched){.event = &r->header->watch_event, .check = check, .end = end};
  w->data.file = w->room.file = SHMT_NO_DESCRIPTOR;
  w->ring.header = r->header;
  w->ring.session = r->session;
  w->ring.storage = r->storage;
  w->ring.block = r->block;
  w->ring.area = r->area;
  w->ring.is_bare = r->is_bare;
  w->ring.n_kept = r->n_kept;
  shmt__mutex_init(&w->lock, SHMT_MUTEX_RING_READY);
  shmt__storage_retain(r->storage);
  *out = w;
  return SHMT_OK;
}

static shmt_status start_locked(shmt__ring* r, struct shmt__ring_readiness* w) {
  (void)update(w);
  int err = -shmt__watch_begin(&w->watched);
  if (err != 0) return shmt__fail_errno(err, "cannot watch a queue");
  atomic_store_explicit(&r->watch_fork, shmt__fork_count(), memory_order_release); /* first: see is_of_parent */
  r->watch = w;
  return SHMT_OK;
}

/* The number of one descriptor. It is made when the program first wants it, and when the program has closed it. */
static shmt_status number_of(struct shmt__ring_readiness* w, bool data, int* out_fd) {
  struct shmt__ring_flag* f = data ? &w->data : &w->room;
  shmt__mutex_lock(&w->lock);
  int fd = shmt__descriptor_number(&f->file);
  if (fd < 0) {
    fd = shmt__os_flag_open();
    *f = (struct shmt__ring_flag){.file = shmt__descriptor_of(fd)};
    update_locked(w);
  }
  shmt__mutex_unlock(&w->lock);
  if (fd < 0) return shmt__fail_errno(-fd, "cannot watch a queue");
  *out_fd = fd;
  return SHMT_OK;
}

shmt_status shmt__ring_fileno(shmt__ring* r, bool data, int* out_fd) {
  struct shmt__ring_readiness* fresh = NULL;
  leave_to_parent(r);
  if (r->watch == NULL) SHMT_TRY(make_readiness(r, &fresh));
  shmt__mutex_lock(&r->watch_lock);
  shmt_status status = SHMT_OK;
  if (r->watch == NULL) {
    status = start_locked(r, fresh);
    if (status == SHMT_OK) fresh = NULL;
  }
  if (status == SHMT_OK) status = number_of(r->watch, data, out_fd);
  shmt__mutex_unlock(&r->watch_lock);
  if (fresh != NULL) discard(fresh);
  return status;
}

void shmt__ring_readiness_keep(shmt__ring* r, unsigned n_kept) {
  atomic_store_explicit(&r->n_kept, n_kept, memory_order_relaxed);
  leave_to_parent(r);
  if (r->watch == NULL) return;
  atomic_store_explicit(&r->watch->ring.n_kept, n_kept, memory_order_relaxed);
  (void)update(r->watch);
}

void shmt__ring_readiness_update(shmt__ring* r) {
  leave_to_parent(r);
  if (r->watch != NULL) (void)update(r->watch);
}

void shmt__ring_readiness_close(shmt__ring* r) {
  leave_to_parent(r);
  struct shmt__ring_readiness* w = r->watch;
  if (w == NULL) return;
  shmt__mutex_lock(&w->lock);
  w->is_stopped = true;
  shmt__descriptor_close(&w->data.file);
  shmt__descriptor_close(&w->room.file);
  shmt__mutex_unlock(&w->lock);
  /* w is the thread's from here on. */
  shmt__ring_event_signal(&r->header->watch_event, true);
  r->watch = NULL;
}
