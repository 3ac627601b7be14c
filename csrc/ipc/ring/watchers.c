/* ipc/ring/watchers.c -- threads that sleep for what other processes do to rings: Note [Watchers]. */
#include "ipc/ring/watchers.h"

#include "ipc/ring/lock.h"
#include "os/clock.h"
#include "os/mutex.h"

#include <errno.h>
#include <stdlib.h>

/* A thread, and what it watches. */
typedef struct watcher {
  struct watcher* next;
  shmt__watched* added;       /* the thread has not taken them over yet */
  uint32_t n;                 /* how many rings it has, with those added */
  atomic_uint_least32_t bell; /* grows when a ring is added */
  shmt__watched* watched[SHMT_OS_MOST_FUTEXES]; /* the thread's own */
} watcher;

SHMT_STATIC_MUTEX(watchers_lock, SHMT_MUTEX_WATCHERS)
static watcher* watchers; /* guarded, with next, added and n of each, by the lock */

static void forget_all(void) {
  while (watchers != NULL) {
    watcher* w = watchers;
    watchers = w->next;
    free(w);
  }
}
SHMT_FORK_HOOKS(SHMT_MUTEX_WATCHERS, .in_child = forget_all)

/* How many rings a thread takes: its bell is one word more, and not needed when there can be one ring only. */
static uint32_t most_watched(void) {
  const uint32_t most = shmt__os_most_futexes();
  return most > 1 ? most - 1 : 1;
}

/* --- the thread --- */

/* Returns how many rings it watches now. */
static uint32_t take_added(watcher* w, uint32_t n) {
  shmt__mutex_lock(&watchers_lock);
  for (; w->added != NULL; n++) {
    w->watched[n] = w->added;
    w->added = w->added->next;
  }
  shmt__mutex_unlock(&watchers_lock);
  return n;
}

static void end_one(watcher* w, shmt__watched* e) {
  shmt__mutex_lock(&watchers_lock);
  w->n--;
  shmt__mutex_unlock(&watchers_lock);
  e->end(e);
}

/* Check the rings that have changed, or all. Returns how many are left. */
static uint32_t check_changed(watcher* w, uint32_t n, bool all) {
  for (uint32_t i = n; i-- > 0;) {
    shmt__watched* e = w->watched[i];
    const uint32_t now = atomic_load_explicit(e->event, memory_order_relaxed);
    if (!all && e->is_armed && now == e->armed) continue;
    e->armed = shmt__ring_event_arm(e->event); /* before the check: a change in between is not missed */
    e->is_armed = true;
    if (e->check(e)) continue;
    w->watched[i] = w->watched[--n];
    end_one(w, e);
  }
  return n;
}

/* Returns whether the slice has passed without an event. */
static bool sleep_for_events(watcher* w, uint32_t n, uint32_t bell) {
  atomic_uint_least32_t* words[SHMT_OS_MOST_FUTEXES];
  uint32_t armed[SHMT_OS_MOST_FUTEXES], n_words = n;
  for (uint32_t i = 0; i < n; i++) {
    words[i] = w->watched[i]->event;
    armed[i] = w->watched[i]->armed;
  }
  if (n_words < shmt__os_most_futexes()) {
    words[n_words] = &w->bell;
    armed[n_words++] = bell;
  }
  const uint64_t slice_ns = shmt__os_now_ns() + SHMT_RING_SLICE_MS * UINT64_C(1000000);
  return shmt__os_futex_wait_any(words, armed, n_words, slice_ns) == SHMT_OS_WAIT_TIMED_OUT;
}

/* The thread has nothing to watch. False: something was added just now. */
static bool retire(watcher* w) {
  shmt__mutex_lock(&watchers_lock);
  const bool is_idle = w->added == NULL;
  watcher** link = &watchers;
  while (*link != w) link = &(*link)->next;
  if (is_idle) *link = w->next;
  shmt__mutex_unlock(&watchers_lock);
  if (is_idle) free(w);
  return is_idle;
}

static void* watch(void* arg) {
  shmt__os_thread_name("shmtensor-ready");
  watcher* w = arg;
  uint32_t n = 0;
  bool all = false;
  for (;;) {
    const uint32_t bell = atomic_load_explicit(&w->bell, memory_order_acquire); /* before taking over */
    n = check_changed(w, take_added(w, n), all);
    if (n > 0)
      all = sleep_for_events(w, n, bell);
    else if (retire(w))
      return NULL;
  }
}

/* --- adding --- */

/* A thread with room for one ring more, or NULL. The caller has the lock. */
static watcher* with_room(void) {
  watcher* w = watchers;
  while (w != NULL && w->n == most_watched()) w = w->next;
  return w;
}

/* Start a thread that watches e. The caller has the lock. */
static int start(shmt__watched* e) {
  watcher* w = calloc(1, sizeof *w);
  if (w == NULL) return -ENOMEM;
  w->added = e;
  w->n = 1;
  const int result = shmt__os_thread_start(watch, w);
  if (result < 0) {
    free(w);
    return result;
  }
  w->next = watchers;
  watchers = w;
  return 0;
}

int shmt__watch_begin(shmt__watched* e) {
  int result = 0;
  e->next = NULL;
  e->is_armed = false;
  shmt__mutex_lock(&watchers_lock);
  watcher* w = with_room();
  if (w == NULL) {
    result = start(e);
  } else {
    e->next = w->added;
    w->added = e;
    w->n++;
    atomic_fetch_add_explicit(&w->bell, 1, memory_order_release);
    (void)shmt__os_futex_wake(&w->bell, 1);
  }
  shmt__mutex_unlock(&watchers_lock);
  return result;
}
