/* ipc/manager/channel_watch.c -- ends the leases of messages whose pipe or socket has no reader any more. See
 * ipc/manager/channel_watch.h. */
#include "ipc/manager/channel_watch.h"

#include "os/channel.h"
#include "os/clock.h"
#include "os/process.h"
#include "shm/client.h"
#include "shm/lease.h"

#include <stdlib.h>
#include <string.h>

/* --- the table --- */

/* The channel's entry, or the unused entry where it belongs; NULL when there is no table. */
static shmt__watched_channel* entry_of(const shmt__channel_watch* w, uint64_t channel) {
  if (w->capacity == 0) return NULL;
  uint32_t i = (uint32_t)((channel * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (w->capacity - 1);
  while (w->at[i].channel != 0 && w->at[i].channel != channel) i = (i + 1) & (w->capacity - 1);
  return &w->at[i];
}

/* Make a table of this capacity with the channels that are still used. When memory is out, the old table stays. */
static void rebuild(shmt__channel_watch* w, uint32_t capacity) {
  shmt__channel_watch fresh = *w;
  fresh.at = calloc(capacity, sizeof *fresh.at);
  fresh.capacity = capacity;
  fresh.n = 0;
  if (fresh.at == NULL) return;
  for (uint32_t i = 0; i < w->capacity; i++) {
    if (w->at[i].channel == 0 || !w->at[i].is_used) continue;
    *entry_of(&fresh, w->at[i].channel) = w->at[i];
    fresh.n++;
  }
  free(w->at);
  *w = fresh;
}

static void note_use(shmt__channel_watch* w, uint64_t channel, bool is_unsent) {
  shmt__watched_channel* c = entry_of(w, channel);
  if (c == NULL || c->channel == 0) {
    if (2 * (w->n + 1) > w->capacity) {
      for (uint32_t i = 0; i < w->capacity; i++) w->at[i].is_used = true;
      rebuild(w, w->capacity == 0 ? 64 : 2 * w->capacity);
    }
    if (2 * (w->n + 1) > w->capacity) return; /* out of memory: the next sweep tries again */
    c = entry_of(w, channel);
    *c = (shmt__watched_channel){.channel = channel};
    w->n++;
  }
  c->is_used = true;
  c->has_unsent = c->has_unsent || is_unsent;
}

static void drop_unused(shmt__channel_watch* w) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->capacity; i++) n += w->at[i].channel != 0 && w->at[i].is_used;
  if (n == w->n) return;
  uint32_t capacity = w->capacity;
  while (capacity > 64 && 8 * n < capacity) capacity /= 2;
  rebuild(w, capacity);
}

/* --- one sweep --- */

typedef struct sweep {
  shmt__channel_watch* watch;
  const shmt__arena_manager* arena_manager;
  uint64_t now_ms;
} sweep;

static bool is_pipe(const shmt__watched_channel* c) {
  return shmt__channel_kind_of(c->channel) == SHMT_CHANNEL_PIPE;
}

/* Enter the channels of leases that are not young. Ends no lease. */
static bool enter(const shmt__lease* l, void* arg) {
  sweep* k = arg;
  uint64_t channel = atomic_load_explicit(&l->channel, memory_order_acquire);
  uint64_t age_ms = shmt__arena_manager_lease_age(k->arena_manager, l, k->now_ms);
  shmt__channel_kind kind = shmt__channel_kind_of(channel);
  bool is_unsent = (channel & SHMT_CHANNEL_UNSENT) != 0;
  if ((kind == SHMT_CHANNEL_PIPE || kind == SHMT_CHANNEL_SOCKET) && (is_unsent || age_ms >= SHMT_CHANNEL_YOUNG_MS))
    note_use(k->watch, channel & ~SHMT_CHANNEL_FLAGS, is_unsent);
  return false;
}

/* Does the channel have a reader, as far as that can be told without a search? */
static shmt__os_seen check_channel(const sweep* k, shmt__watched_channel* c) {
  uint64_t number = shmt__channel_number(c->channel);
  if (is_pipe(c))
    return c->pid == 0 ? SHMT_SEEN_UNKNOWN : shmt__os_pipe_has_readers(c->pid, c->fd, number, &c->is_empty);
  bool is_visible = k->watch->net_namespace == k->arena_manager->map.fixed.net_namespace;
  return is_visible ? shmt__os_unix_socket(number, NULL, &c->is_empty) : SHMT_SEEN_UNKNOWN;
}

/* The search has found an end of a pipe. If we look for this pipe, check it through that end. */
static void try_pipe_end(int32_t pid, int fd, uint64_t inode, void* arg) {
  sweep* k = arg;
  shmt__watched_channel* c = entry_of(k->watch, shmt__channel(SHMT_CHANNEL_PIPE, inode));
  if (c == NULL || c->channel == 0 || c->pid != 0) return;
  c->seen = shmt__os_pipe_has_readers(pid, fd, inode, &c->is_empty);
  if (c->seen == SHMT_SEEN_UNKNOWN) return;
  c->pid = pid;
  c->fd = fd;
}

/* Search for ends of the pipes of which none is known. A pipe without any end has no readers, unless there may be ends
 * that we are not shown. */
static void search(sweep* k) {
  shmt__channel_watch* w = k->watch;
  bool all_users = (k->arena_manager->map.fixed.flags & SHMT_SESSION_GROUP) != 0;
  uint64_t begin_ms = shmt__os_thread_cpu_ms();
  bool all = shmt__os_visit_pipe_ends(all_users, try_pipe_end, k) && !shmt__os_descriptors_in_flight();
  uint64_t rest_ms = (shmt__os_thread_cpu_ms() - begin_ms) * SHMT_CHANNEL_REST;
  /* What cannot be told now can hardly be told soon: search less and less often. */
  w->backoff_ms = all ? 0 : w->backoff_ms == 0 ? 500 : 2 * w->backoff_ms;
  if (w->backoff_ms > SHMT_CHANNEL_MAX_BACKOFF_MS) w->backoff_ms = SHMT_CHANNEL_MAX_BACKOFF_MS;
  w->next_search_ms = k->now_ms + (rest_ms > w->backoff_ms ? rest_ms : w->backoff_ms);
  for (uint32_t i = 0; all && i < w->capacity; i++)
    if (w->at[i].channel != 0 && is_pipe(&w->at[i]) && w->at[i].pid == 0)
      w->at[i].seen = SHMT_SEEN_NO;
}

/* Check the channels, a bounded number in one sweep. Returns whether the ends of some pipe must be searched for. */
static bool check_all_channels(sweep* k) {
  shmt__channel_watch* w = k->watch;
  const uint32_t begin = w->cursor;
  uint32_t n = 0;
  bool is_lost = false;
  for (uint32_t i = 0; i < w->capacity; i++) {
    shmt__watched_channel* c = &w->at[(begin + i) & (w->capacity - 1)];
    c->seen = SHMT_SEEN_UNKNOWN;
    c->is_empty = false;
    if (c->channel == 0 || n == SHMT_CHANNEL_BUDGET) continue;
    c->seen = check_channel(k, c);
    if (is_pipe(c) && c->seen == SHMT_SEEN_UNKNOWN) {
      c->pid = 0;
      is_lost = true;
    }
    if (++n == SHMT_CHANNEL_BUDGET) w->cursor = begin + i + 1; /* the next sweep begins there */
  }
  return is_lost;
}

/* What was unsent when the channel was seen empty, and a grace time ago, is over: Note [Unsent messages]. */
static void decide_unsent(const sweep* k, shmt__watched_channel* c) {
  if (c->empty_ms != 0 && k->now_ms - c->empty_ms >= SHMT_CHANNEL_UNSENT_MS) {
    c->drained_ms = c->empty_ms;
    c->empty_ms = 0;
  }
  if (c->channel != 0 && c->has_unsent && c->is_empty && c->empty_ms == 0) c->empty_ms = k->now_ms;
}

static bool is_drained(const sweep* k, const shmt__watched_channel* c, const shmt__lease* l) {
  if (c->drained_ms == 0) return false;
  uint64_t age_ms = shmt__arena_manager_lease_age(k->arena_manager, l, k->now_ms);
  return age_ms + 1 >= k->now_ms - c->drained_ms; /* ages are odd numbers of milliseconds apart */
}

static void decide(sweep* k) {
  for (uint32_t i = 0; i < k->watch->capacity; i++) {
    shmt__watched_channel* c = &k->watch->at[i];
    c->is_over = false; /* each sweep decides anew: inodes of pipes are reused */
    decide_unsent(k, c);
    if (c->channel == 0 || c->seen == SHMT_SEEN_UNKNOWN) continue;
    if (c->seen == SHMT_SEEN_YES) c->missed_ms = 0;
    else if (c->missed_ms == 0) c->missed_ms = k->now_ms;
    else c->is_over = k->now_ms - c->missed_ms >= SHMT_CHANNEL_GRACE_MS;
  }
}

/* --- ending --- */

/* Is the lease's channel over? Young leases end, too. */
static bool is_abandoned(const shmt__lease* l, void* arg) {
  const sweep* k = arg;
  uint64_t channel = atomic_load_explicit(&l->channel, memory_order_acquire);
  if (shmt__channel_kind_of(channel) == SHMT_CHANNEL_LOCK)
    return !shmt__token_is_locked(k->arena_manager->control_fd, shmt__channel_number(channel)) &&
           /* A process ties its leases to another lock before it gives the first one up. */
           atomic_load_explicit(&l->channel, memory_order_seq_cst) == channel;
  const shmt__watched_channel* c = channel == 0 ? NULL : entry_of(k->watch, channel & ~SHMT_CHANNEL_FLAGS);
  if (c == NULL || c->channel == 0) return false;
  return c->is_over || ((channel & SHMT_CHANNEL_UNSENT) != 0 && is_drained(k, c, l));
}

void shmt__channels_sweep(shmt__channel_watch* w, const shmt__arena_manager* k, uint64_t now_ms) {
  sweep l = {w, k, now_ms};
  if (w->net_namespace == 0) w->net_namespace = shmt__os_net_namespace();
  for (uint32_t i = 0; i < w->capacity; i++) w->at[i].is_used = w->at[i].has_unsent = false;
  (void)shmt__leases_end_if(&k->map, enter, &l);
  drop_unused(w);
  if (check_all_channels(&l) && now_ms >= w->next_search_ms) search(&l);
  decide(&l);
  (void)shmt__leases_end_if(&k->map, is_abandoned, &l);
}
