/* capi/names/wait_any.c -- waiting for any of several handles and descriptors.
 *
 * The calling thread sleeps on the handles when there are no descriptors and the kernel takes so many words at once.
 * Else threads watch the handles during the call and raise one descriptor, and the caller polls that with the others:
 * Note [Waiting for any] in ipc/ring/wait_any.h. Threads also watch several handles while the program has a signal
 * handler with SA_RESTART: after its signal the kernel would begin a wait for several words anew, and this call is to
 * end with it. That is looked at before each slice of a wait.
 */
#include "ipc/ring/wait_any.h"

#include "capi/names/clients.h"
#include "os/futex.h"
#include "os/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  SLICE_MS = 250,       /* how long poll goes on without a look whether a handle was closed */
  MOST_ITEMS = 1 << 20,
  MOST_ITEM_BYTES = 4096,
};

typedef struct any_wait {
  const char* function;
  char* items; /* the caller's */
  size_t n, item_bytes;
  shmt__handle_use* uses; /* of the items with handles, in their order; owned */
  shmt__wait_item* rings; /* one for each of them */
  uint32_t n_rings;
  shmt__os_polled* polled; /* of the others, in their order, and the watch's; owned */
  size_t n_polled;
  shmt__ring_watch* watch; /* owned */
} any_wait;

static shmtensor_wait_item* item_at(const any_wait* w, size_t i) {
  return (shmtensor_wait_item*)(void*)(w->items + i * w->item_bytes);
}

static void end_wait(any_wait* w) {
  shmt__ring_watch_close(w->watch);
  for (uint32_t i = 0; i < w->n_rings; i++) shmt__handle_end(&w->uses[i]);
  free(w->uses);
  free(w->rings);
  free(w->polled);
}

/* --- what is waited for --- */

static shmtensor_status check_size(const any_wait* w, size_t i) {
  const size_t own = sizeof(shmtensor_wait_item), size = item_at(w, i)->size;
  SHMT_NEED_THAT(size == w->item_bytes && size >= own && size <= MOST_ITEM_BYTES &&
                     size % _Alignof(shmtensor_wait_item) == 0,
                 "%s(): items[%zu].size is %zu, expected sizeof (shmtensor_wait_item) (%zu)", w->function, i, size,
                 own);
  for (size_t at = own; at < size; at++)
    SHMT_NEED_THAT(((const char*)item_at(w, i))[at] == 0,
                   "%s(): byte %zu of items[%zu] is set, which this version of the library does not know", w->function,
                   at, i);
  return SHMTENSOR_OK;
}

static shmt__wait_item waited_for(shmt__handle_kind kind, void* object) {
  if (kind == SHMT_HANDLE_EVENT)
    return (shmt__wait_item){.ring = object, .is_event = true, .since = shmt__event_mark_now(object)};
  if (kind == SHMT_HANDLE_CALL) return shmt__call_object_wait_item(object);
  return (shmt__wait_item){.ring = shmt__object_ring(object)};
}

static bool can_be_waited_for(shmt__handle_kind kind) {
  return kind == SHMT_HANDLE_QUEUE || kind == SHMT_HANDLE_SUBSCRIPTION || kind == SHMT_HANDLE_EVENT ||
         kind == SHMT_HANDLE_SERVER || kind == SHMT_HANDLE_CALL;
}

static shmtensor_status add_handle(any_wait* w, size_t i) {
  char argument[64];
  const void* handle = item_at(w, i)->handle;
  shmt__handle_kind kind = shmt__handle_kind_of(handle);
  (void)snprintf(argument, sizeof argument, "items[%zu].handle", i);
  if (kind != 0 && !can_be_waited_for(kind))
    return shmt__public_fail(SHMTENSOR_E_VALUE, "%s(): %s is not a queue, a subscription, an event, a server or a call",
                             w->function, argument);
  if (kind == 0) kind = SHMT_HANDLE_QUEUE; /* it is closed, or none: the text says so */
  shmt__handle_use* use = &w->uses[w->n_rings];
  *use = shmt__handle_begin(kind, handle, w->function, argument);
  if (use->object == NULL) return use->status;
  w->rings[w->n_rings++] = waited_for(kind, use->object);
  return SHMTENSOR_OK;
}

static shmtensor_status fail_descriptor(const any_wait* w, int fd) {
  return shmt__public_fail(SHMTENSOR_E_VALUE, "%s(): descriptor %d is not open", w->function, fd);
}

static shmtensor_status read_items(any_wait* w) {
  w->uses = calloc(w->n + 1, sizeof *w->uses);
  w->rings = calloc(w->n + 1, sizeof *w->rings);
  w->polled = calloc(w->n + 1, sizeof *w->polled);
  if (w->uses == NULL || w->rings == NULL || w->polled == NULL)
    return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory for %zu items", w->function, w->n);
  for (size_t i = 0; i < w->n; i++) {
    SHMT_PASS(check_size(w, i));
    const shmtensor_wait_item* item = item_at(w, i);
    if (item->handle != NULL) {
      SHMT_PASS(add_handle(w, i));
      continue;
    }
    if (item->fd < 0) return fail_descriptor(w, item->fd);
    w->polled[w->n_polled++] = (shmt__os_polled){.fd = item->fd};
  }
  return SHMTENSOR_OK;
}

/* --- looking and waiting --- */

/* Poll the descriptors, with the watch's. */
static shmtensor_status poll_for(any_wait* w, int timeout_ms) {
  const size_t n = w->n_polled + (w->watch != NULL);
  const int result = shmt__os_wait_any_readable(w->polled, n, timeout_ms);
  if (result >= 0) return SHMTENSOR_OK;
  if (result == -EINTR) return shmt__public_fail(SHMTENSOR_E_INTERRUPTED, "%s(): a signal came", w->function);
  if (result == -ENOMEM) return shmt__public_fail(SHMTENSOR_E_NO_MEMORY, "%s(): no memory for a wait", w->function);
  for (size_t i = 0; result == -EBADF && i < n; i++)
    if (w->polled[i].is_ready) return fail_descriptor(w, w->polled[i].fd);
  return shmt__public_status(shmt__fail_errno(-result, "cannot wait for several things"));
}

/* What has come for a call may be a late reply to another one. */
static bool is_handle_ready(const any_wait* w, size_t i) {
  if (w->rings[i].is_lost != NULL) return shmt__call_object_is_done(w->uses[i].object);
  return shmt__wait_item_is_ready(&w->rings[i]);
}

/* Write which items are ready. Descriptors are as the last poll has found them. */
static size_t mark_ready(any_wait* w) {
  size_t n = 0, i_ring = 0, i_polled = 0;
  for (size_t i = 0; i < w->n; i++) {
    shmtensor_wait_item* item = item_at(w, i);
    item->is_ready = item->handle != NULL ? is_handle_ready(w, i_ring++) : w->polled[i_polled++].is_ready;
    n += item->is_ready != 0;
  }
  return n;
}

static shmtensor_status check_open(const any_wait* w) {
  for (uint32_t i = 0; i < w->n_rings; i++)
    if (shmt__handle_is_closed(&w->uses[i]))
      return shmt__public_fail(SHMTENSOR_E_CLOSED, "%s(): a handle was closed meanwhile", w->function);
  return SHMTENSOR_OK;
}

static bool sleeps_here(const any_wait* w) {
  if (w->n_polled > 0 || w->watch != NULL) return false;
  return w->n_rings == 1 || (w->n_rings <= shmt__os_most_futexes() && !shmt__os_restarts_calls());
}

static shmtensor_status begin_watch(any_wait* w) {
  if (w->n_rings == 0 || w->watch != NULL) return SHMTENSOR_OK;
  const uint32_t most = shmt__os_most_futexes();
  SHMT_PUBLIC_TRY(shmt__ring_watch_open(w->rings, w->n_rings, most > 1 ? most - 1 : 1, &w->watch));
  w->polled[w->n_polled].fd = shmt__ring_watch_fileno(w->watch);
  return SHMTENSOR_OK;
}

/* Sleep until something has changed, a slice has ended or the deadline has passed. */
static shmtensor_status sleep_once(any_wait* w, uint64_t deadline_ns) {
  if (w->n_rings > 0 && sleeps_here(w)) {
    const uint32_t n_signals = shmt__os_n_interrupted();
    (void)shmt__ring_wait_any(w->rings, w->n_rings, deadline_ns);
    if (shmt__os_n_interrupted() == n_signals) return SHMTENSOR_OK;
    return shmt__public_fail(SHMTENSOR_E_INTERRUPTED, "%s(): a signal came", w->function);
  }
  SHMT_PASS(begin_watch(w));
  SHMT_PASS(poll_for(w, shmt__slice_ms(deadline_ns, SLICE_MS)));
  if (w->watch != NULL) {
    shmt__ring_watch_lower(w->watch);
    shmt__ring_wait_any_check(w->rings, w->n_rings);
  }
  return SHMTENSOR_OK;
}

static shmtensor_status wait_until_ready(any_wait* w, uint64_t deadline_ns, size_t* out_n) {
  SHMT_PASS(poll_for(w, 0));
  while ((*out_n = mark_ready(w)) == 0) {
    SHMT_PASS(check_open(w));
    if (shmt__slice_ms(deadline_ns, SLICE_MS) == 0)
      return shmt__public_fail(SHMTENSOR_E_TIMEOUT, "%s(): nothing was ready in time", w->function);
    SHMT_PASS(sleep_once(w, deadline_ns));
  }
  return SHMTENSOR_OK;
}

shmtensor_status shmtensor_wait_any(shmtensor_wait_item* items, size_t n, double timeout, size_t* out_n) {
  uint64_t deadline_ns = 0;
  size_t n_ready = 0;
  SHMT_PASS(shmt__deadline_of_timeout(__func__, timeout, &deadline_ns));
  SHMT_NEED_THAT(items != NULL || n == 0, "%s(): items is NULL", __func__);
  SHMT_NEED_THAT(n <= MOST_ITEMS, "%s(): n is %zu, at most %d are possible", __func__, n, MOST_ITEMS);
  SHMT_NEED_THAT(n > 0 || deadline_ns != UINT64_MAX, "%s(): there is nothing to wait for, and no timeout", __func__);
  any_wait w = {.function = __func__, .items = (char*)items, .n = n, .item_bytes = n > 0 ? items[0].size : 0};
  shmtensor_status status = read_items(&w);
  if (status == SHMTENSOR_OK) status = wait_until_ready(&w, deadline_ns, &n_ready);
  end_wait(&w);
  if (status == SHMTENSOR_OK && out_n != NULL) *out_n = n_ready;
  return status;
}
