/* ipc/handle/release.c -- gives up blocks that this process no longer uses, and the files behind them. */
#include "ipc/handle/release.h"

#include "api/error.h"
#include "base/debug.h"
#include "ipc/handle/file_cache.h"
#include "ipc/handle/saved_descriptors.h"
#include "ipc/session/exported_descriptor.h"
#include "os/futex.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  FIRST_PAUSE_MS = 10,
  LONGEST_PAUSE_MS = 500, /* of the thread, between two passes */
};

static bool has_thread; /* under the sessions' lock */

/* --- what the session does with the files (struct shmt__session_files) --- */

static void in_child(shmt__session* s) {
  has_thread = false; /* the thread is the parent's */
  shmt__saved_descriptors_in_child(s);
  shmt__file_cache_clear(s);
}

static void close_all(shmt__session* s) {
  shmt__saved_descriptors_fini(s);
  shmt__file_cache_clear(s);
}

static const shmt__session_files session_files = {
    .each_descriptor = shmt__saved_descriptors_each, .in_child = in_child, .close = close_all};

/* --- files --- */

/* Returns whether there will be something to close later. */
static bool close_unused(shmt__session* s) {
  bool is_waiting = shmt__saved_descriptors_close_unneeded(s);
  return (s->n_cached_files > 0 && shmt__file_cache_expire(s)) || is_waiting;
}

static void* close_unused_later(void* unused) {
  shmt__os_thread_name("shmtensor-close");
  unsigned pause_ms = FIRST_PAUSE_MS;
  bool goes_on = true;
  while (goes_on) {
    shmt__os_sleep_ms(pause_ms);
    if (pause_ms < LONGEST_PAUSE_MS) pause_ms *= 2;
    shmt__sessions_lock();
    goes_on = false;
    for (unsigned i = 0; i < shmt__sessions_count(); i++)
      goes_on = close_unused(shmt__session_at(i)) || goes_on;
    if (!goes_on) has_thread = false;
    shmt__sessions_unlock();
  }
  return unused;
}

void shmt__unused_files_close(shmt__session* s) {
  s->files = &session_files;
  if (!close_unused(s) || has_thread) return;
  has_thread = shmt__os_thread_start(close_unused_later, NULL) == 0;
}

/* --- blocks --- */

/* A finalizer cannot raise an exception, so the error goes to standard error. */
static void report_release(const shmt__held_block* h) {
  if (shmt__held_block_check(h, "release") == SHMT_OK) return;
  (void)fprintf(stderr, "shmtensor: released twice: %s\n", shmt_error_message());
  shmt_error_clear();
}

/* Stop holding the block. A free block of ours goes back to our lists. */
static void give_up(const shmt__held_block* h) {
  shmt__session* s = h->session;
  if (SHMT_UNLIKELY(shmt__debug)) report_release(h);
  if (shmt__held_block_is_owned(h) && h->map == NULL) {
    shmt__arena_free(&s->arena, h->block);
    return;
  }
  if (SHMT_UNLIKELY(shmt__debug) && h->map == NULL && s->base != NULL)
    shmt__arena_poison(&s->map, s->base, h->block, s->client);
  shmt__block_unhold(&s->map, h->block, s->client);
  shmt__map_note_activity(&s->map);
}

void shmt__session_drop_held_block(shmt__held_block* h) {
  shmt__session* s = h->session;
  if (shmt__session_forget_held_block(h)) {
    bool is_cached = h->map != NULL && shmt__file_cache_add(h);
    if (h->map != NULL && !is_cached) shmt__os_unmap(h->map, h->map_bytes);
    if (s->client != 0 && h->generation != 0) give_up(h);
    if (h->map != NULL) shmt__unused_files_close(s);
  } else {
    s->n_old_records--;
  }
  if (SHMT_UNLIKELY(h->exported != NULL)) shmt__exported_descriptor_close(h);
  if (SHMT_UNLIKELY(h->origin != NULL)) free(h->origin);
  free(h);
}
