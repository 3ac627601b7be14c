/* ipc/ring/wait_any.c -- waiting for any of several rings and events. See Note [Waiting for any] in
 * ipc/ring/wait_any.h. */
#include "ipc/ring/wait_any.h"

#include "api/error.h"
#include "ipc/ring/unacknowledged.h"
#include "ipc/ring/wait.h"
#include "ipc/session/session.h"
#include "os/descriptor.h"
#include "os/flag.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

bool shmt__wait_item_is_ready(const shmt__wait_item* item) {
  if (item->is_event) return shmt__event_has_come(item->ring, item->since);
  if (item->is_lost != NULL && item->is_lost(item->ring, item->serial)) return true;
  if (shmt__ring_n_messages(item->ring) > 0) return true;
  if (item->ring->is_bare) return false;
  /* What a dead taker has not acknowledged comes back when somebody looks for it. */
  if (SHMT_UNLIKELY(shmt__ring_has_stale(item->ring))) shmt__ring_recover(item->ring);
  shmt__ring_recover_now_and_then(item->ring);
  return shmt__ring_n_messages(item->ring) > 0;
}

static bool is_any_ready(const shmt__wait_item* items, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (shmt__wait_item_is_ready(&items[i])) return true;
  }
  return false;
}

static void arm(const shmt__wait_item* items, uint32_t n, atomic_uint_least32_t** words, uint32_t* armed) {
  for (uint32_t i = 0; i < n; i++) {
    words[i] = &items[i].ring->header->watch_event;
    armed[i] = shmt__ring_event_arm(words[i]);
  }
}

void shmt__ring_wait_any_check(const shmt__wait_item* items, uint32_t n) {
  const struct shmt__session* last = NULL;
  for (uint32_t i = 0; i < n; i++) {
    if (items[i].ring->session != last) shmt__ring_check_manager(items[i].ring);
    last = items[i].ring->session;
  }
}

/* --- in the calling thread --- */

shmt__ring_result shmt__ring_wait_any(const shmt__wait_item* items, uint32_t n, uint64_t deadline_ns) {
  atomic_uint_least32_t* words[SHMT_OS_MOST_FUTEXES];
  uint32_t armed[SHMT_OS_MOST_FUTEXES];
  uint64_t begun_ns = 0;
  SHMT_ASSERT(n > 0 && n <= shmt__os_most_futexes());
  for (;;) {
    if (is_any_ready(items, n)) return SHMT_RING_DONE;
    if (deadline_ns == 0) return SHMT_RING_EMPTY;
    arm(items, n, words, armed);
    if (is_any_ready(items, n)) return SHMT_RING_DONE;
    shmt__os_wait w = shmt__os_futex_wait_any(words, armed, n, shmt__ring_slice(deadline_ns));
    if (w == SHMT_OS_WAIT_INTERRUPTED) return SHMT_RING_INTERRUPTED;
    const shmt__ring_result result = shmt__ring_round(&begun_ns, deadline_ns);
    if (result == SHMT_RING_DONE && w == SHMT_OS_WAIT_WOKEN) continue;
    shmt__ring_wait_any_check(items, n);
    if (result != SHMT_RING_EMPTY) return SHMT_RING_INTERRUPTED;
    deadline_ns = 0; /* a last look */
  }
}

/* --- in threads --- */

/* What one thread watches. */
typedef struct part {
  shmt__ring_watch* watch;
  const shmt__wait_item* items;
  uint32_t n;
} part;

/* The threads outlive the call for a moment, so what they need is here: the rings' headers, and a reference to each
 * storage. Whoever is the last frees it. */
struct shmt__ring_watch {
  shmt__descriptor flag;
  uint32_t n, n_parts, fork;  /* fork: shmt__fork_count() of the process that has the threads */
  atomic_uint refs;           /* the caller, and threads that run */
  atomic_uint_least32_t ends; /* 1: the threads are to end; they sleep on it as well */
  shmt__wait_item* items;     /* owned */
  shmt__ring* rings;          /* owned: what looking at them needs, and what it opens */
  part parts[];
};

static void discard(shmt__ring_watch* w) {
  shmt__descriptor_close(&w->flag);
  for (uint32_t i = 0; w->rings != NULL && i < w->n; i++) {
    shmt__ring_close(w->rings[i].unacked);
    shmt__storage_release(w->rings[i].storage);
  }
  free(w->rings);
  free(w->items);
  free(w);
}

static void release(shmt__ring_watch* w) {
  /* acq_rel: all that the others did is done before it is freed. */
  if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) == 1) discard(w);
}

static bool has_to_end(const shmt__ring_watch* w) {
  return atomic_load_explicit(&w->ends, memory_order_seq_cst) != 0;
}

static void* watch(void* arg) {
  shmt__os_thread_name("shmtensor-any");
  const part* p = arg;
  shmt__ring_watch* w = p->watch;
  atomic_uint_least32_t* words[SHMT_OS_MOST_FUTEXES];
  uint32_t armed[SHMT_OS_MOST_FUTEXES];
  uint32_t n_words = p->n;
  if (n_words < shmt__os_most_futexes()) {
    words[n_words] = &w->ends;
    armed[n_words++] = 0;
  }
  while (!has_to_end(w)) {
    arm(p->items, p->n, words, armed);
    if (has_to_end(w)) break; /* after arming: without room for its word, the end signals the rings */
    const int fd = is_any_ready(p->items, p->n) ? shmt__descriptor_number(&w->flag) : -1;
    if (fd >= 0) shmt__os_flag_raise(fd);
    (void)shmt__os_futex_wait_any(words, armed, n_words, shmt__ring_slice(UINT64_MAX));
  }
  release(w);
  return NULL;
}

static shmt_status copy_items(shmt__ring_watch* w, const shmt__wait_item* items) {
  w->items = malloc(w->n * sizeof *w->items);
  w->rings = calloc(w->n, sizeof *w->rings);
  SHMT_REQUIRE(w->items != NULL && w->rings != NULL, SHMT_E_NOMEM, "wait_any(): no memory for %" PRIu32 " queues",
               w->n);
  for (uint32_t i = 0; i < w->n; i++) {
    w->items[i] = items[i];
    w->items[i].ring = &w->rings[i];
    w->rings[i].header = items[i].ring->header;
    w->rings[i].storage = items[i].ring->storage;
    w->rings[i].session = items[i].ring->session;
    w->rings[i].block = items[i].ring->block;
    w->rings[i].area = items[i].ring->area;
    w->rings[i].is_bare = items[i].ring->is_bare;
    shmt__storage_retain(w->rings[i].storage);
  }
  return SHMT_OK;
}

static shmt_status start(shmt__ring_watch* w, uint32_t at_once) {
  const int fd = shmt__os_flag_open();
  if (fd < 0) return shmt__fail_errno(-fd, "cannot wait for several things");
  w->flag = shmt__descriptor_of(fd);
  for (uint32_t i = 0; i < w->n_parts; i++) {
    const uint32_t first = i * at_once, left = w->n - first;
    w->parts[i] = (part){.watch = w, .items = w->items + first, .n = left < at_once ? left : at_once};
    atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    const int err = -shmt__os_thread_start(watch, &w->parts[i]);
    if (err == 0) continue;
    release(w);
    return shmt__fail_errno(err, "cannot wait for several things");
  }
  return SHMT_OK;
}

shmt_status shmt__ring_watch_open(const shmt__wait_item* items, uint32_t n, uint32_t at_once, shmt__ring_watch** out) {
  SHMT_ASSERT(n > 0 && at_once > 0 && at_once <= shmt__os_most_futexes());
  const uint32_t n_parts = (n + at_once - 1) / at_once;
  const size_t nbytes = sizeof(shmt__ring_watch) + n_parts * sizeof(part);
  shmt__ring_watch* w = calloc(1, nbytes);
  SHMT_REQUIRE(w != NULL, SHMT_E_NOMEM, "wait_any(): tried to allocate %zu bytes", nbytes);
  w->flag = SHMT_NO_DESCRIPTOR;
  w->n = n;
  w->n_parts = n_parts;
  w->fork = shmt__fork_count();
  atomic_init(&w->refs, 1);
  shmt_status status = copy_items(w, items);
  if (status == SHMT_OK) status = start(w, at_once);
  if (status == SHMT_OK)
    *out = w;
  else
    shmt__ring_watch_close(w);
  return status;
}

int shmt__ring_watch_fileno(const shmt__ring_watch* w) { return shmt__descriptor_number(&w->flag); }

void shmt__ring_watch_lower(const shmt__ring_watch* w) {
  const int fd = shmt__descriptor_number(&w->flag);
  if (fd >= 0) shmt__os_flag_lower(fd);
}

void shmt__ring_watch_close(shmt__ring_watch* w) {
  if (w == NULL) return;
  if (w->fork != shmt__fork_count()) { /* the threads are the parent's */
    discard(w);
    return;
  }
  atomic_store_explicit(&w->ends, 1, memory_order_seq_cst);
  (void)shmt__os_futex_wake(&w->ends, INT_MAX);
  for (uint32_t i = 0; i < w->n_parts; i++) {
    const part* p = &w->parts[i];
    for (uint32_t j = 0; p->n >= shmt__os_most_futexes() && j < p->n; j++)
      shmt__ring_event_signal(&p->items[j].ring->header->watch_event, true);
  }
  release(w);
}
