/* ipc/service/open_or_make.c -- queues, topics, events and servers by name: whoever comes first makes them. */
#include "ipc/service/open_or_make.h"

#include "api/error.h"
#include "ipc/ring/event.h"
#include "ipc/ring/unacknowledged.h"
#include "ipc/service/service_internal.h"
#include "shm/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
  ATTEMPTS = 100, /* a name that comes and goes as often between two looks is an error */
  MOST_STORAGES = 2,
};

/* The storages that a name stands for; new references. */
typedef struct storages {
  shmt_storage* at[MOST_STORAGES];
  uint32_t n; /* 0: nobody has the name at the moment */
} storages;

static void storages_fini(storages* s) {
  for (uint32_t i = 0; i < s->n; i++) shmt__storage_release(s->at[i]);
  s->n = 0;
}

/* Makes new storages. What the maker says of them (`said`) stands in them from the beginning: as soon as the name is
 * there, another program may find it and subscribe, before the maker has gone on. */
typedef shmt_status make_function(shmt_service* v, const void* said, storages* out);

static void auto_snapshot(shmt_snapshot** place) { shmt_snapshot_clear(place); }

static shmt_status find(shmt_service* v, const char* name, shmt__name_kind kind, uint32_t n_wanted, storages* out,
                        bool* out_persists) {
  __attribute__((cleanup(auto_snapshot))) shmt_snapshot* snapshot = NULL;
  shmt_service_entry now;
  out->n = 0;
  shmt_status status = shmt_snapshot_open(v, name, SHMT_ATTACH_WRITING, &snapshot);
  if (status == SHMT_E_KEY) return SHMT_OK;
  if (status != SHMT_OK) return status;
  const shmt_service_entry* entry = shmt_snapshot_entry(snapshot);
  SHMT_REQUIRE(entry->kind == (uint32_t)kind, SHMT_E_VALUE, "'%s' is %s, not %s", name,
               shmt__name_kind_title((shmt__name_kind)entry->kind), shmt__name_kind_title(kind));
  /* From here on we hold it: if the name is still there, it stays. */
  status = shmt_service_find(v, name, &now);
  if (status == SHMT_E_KEY || (status == SHMT_OK && now.version != entry->version)) return SHMT_OK;
  if (status != SHMT_OK) return status;
  SHMT_REQUIRE(shmt_snapshot_n_storages(snapshot) >= n_wanted, SHMT_E_HANDLE, "'%s' is %s without storage", name,
               shmt__name_kind_title(kind));
  *out_persists = entry->persists;
  for (; out->n < n_wanted; out->n++) out->at[out->n] = shmt_snapshot_storage(snapshot, out->n);
  return SHMT_OK;
}

static shmt_status check_name(const char* name) {
  const size_t n = strlen(name);
  SHMT_REQUIRE(n > 0 && n < SHMT_NAME_BYTES, SHMT_E_VALUE, "a name must have 1 to %d bytes, got %zu",
               SHMT_NAME_BYTES - 1, n);
  return SHMT_OK;
}

/* The storages of what has the name, made if need be. On success the caller owns n_wanted references. */
static shmt_status open_or_make(shmt_service* v, const char* name, shmt__name_kind kind, uint32_t n_wanted,
                                bool persists, make_function* make, const void* said, storages* out) {
  const uint32_t how = (uint32_t)kind << SHMT_NAME_KIND_SHIFT | SHMT_PUBLISH_IF_NONE |
                       (persists ? (uint32_t)SHMT_PUBLISH_PERSISTS : 0);
  SHMT_TRY(check_name(name));
  SHMT_TRY(shmt_service_join(v, 1));
  /* What was made is held until it is found under its name: nobody else may hold it. */
  __attribute__((cleanup(storages_fini))) storages made = {.n = 0};
  for (int i = 0; i < ATTEMPTS; i++) {
    uint64_t version = 0;
    bool does_persist = false;
    SHMT_TRY(find(v, name, kind, n_wanted, out, &does_persist));
    if (out->n > 0 && (does_persist || !persists)) return SHMT_OK;
    storages_fini(&made);
    made = *out; /* it is to persist from now on; the manager leaves the storages that it has */
    out->n = 0;
    if (made.n == 0) SHMT_TRY(make(v, said, &made));
    SHMT_TRY(shmt_service_publish(v, name, made.at, made.n, "", 0, how, &version));
  }
  SHMT_FAIL(SHMT_E_HANDLE, "the name '%s' comes and goes all the time", name);
}

/* --- rings --- */

/* What is said of a ring; 0 says nothing. */
typedef struct bounds {
  uint32_t max_messages, max_deliveries;
} bounds;

/* The storage of a ring, which is not used as one yet. */
static shmt_status make_ring(shmt_service* v, const void* said, storages* out) {
  SHMT_AUTO(shmt__pinned_session) session = NULL;
  const bounds* b = said;
  shmt__ring* ring = NULL;
  SHMT_TRY(shmt__service_pinned(v, true, &session));
  SHMT_TRY(shmt__ring_create_in(session, SHMT_RING_DATA, SHMT_RING_CAPACITY, b->max_messages, &ring));
  atomic_store_explicit(&ring->header->max_deliveries, b->max_deliveries, memory_order_relaxed);
  shmt__storage_retain(ring->storage);
  *out = (storages){.at = {ring->storage}, .n = 1};
  shmt__ring_close(ring);
  return SHMT_OK;
}

/* May a bound of a ring be `wanted`? 0 says nothing. */
static bool fits(atomic_uint_least32_t* bound, uint32_t wanted, uint32_t* out_has) {
  *out_has = atomic_load_explicit(bound, memory_order_relaxed);
  return wanted == 0 || *out_has == 0 || *out_has == wanted;
}
/* Say it; the first one settles it. */
static bool say(atomic_uint_least32_t* bound, uint32_t wanted, uint32_t* out_has) {
  *out_has = 0;
  return wanted == 0 ||
         atomic_compare_exchange_strong_explicit(bound, out_has, wanted, memory_order_relaxed, memory_order_relaxed) ||
         *out_has == wanted;
}

static shmt_status say_bounds(const char* name, const char* kind, shmt__ring* r, uint32_t max_messages,
                              uint32_t max_deliveries) {
  uint32_t deliveries = 0, has = 0;
  /* Who contradicts in one of them says neither. */
  bool is_good = fits(&r->header->max_deliveries, max_deliveries, &deliveries);
  SHMT_REQUIRE(!is_good || say(&r->header->max_messages, max_messages, &has), SHMT_E_VALUE,
               "the %s '%s' takes %" PRIu32 " messages, not %" PRIu32, kind, name, has, max_messages);
  is_good = is_good && say(&r->header->max_deliveries, max_deliveries, &deliveries);
  SHMT_REQUIRE(is_good, SHMT_E_VALUE, "the %s '%s' delivers a message %" PRIu32 " times, not %" PRIu32, kind, name,
               deliveries, max_deliveries);
  /* There may be no room any more, where there was some. */
  if (max_messages > 0) shmt__ring_event_signal(&r->header->watch_event, true);
  return SHMT_OK;
}

static shmt_status open_ring(shmt_service* v, const char* name, shmt__name_kind kind, uint32_t max_messages,
                             uint32_t max_deliveries, bool persists, shmt__ring** out) {
  const bounds said = {max_messages, max_deliveries};
  storages s = {.n = 0};
  shmt__ring* ring = NULL;
  SHMT_TRY(open_or_make(v, name, kind, 1, persists, make_ring, &said, &s));
  SHMT_TRY(shmt__ring_over(s.at[0], &ring));
  const shmt_status status =
      say_bounds(name, kind == SHMT_NAME_QUEUE ? "queue" : "server", ring, max_messages, max_deliveries);
  if (status != SHMT_OK) {
    shmt__ring_close(ring);
    return status;
  }
  *out = ring;
  return SHMT_OK;
}

shmt_status shmt__named_queue_open(shmt_service* v, const char* name, uint32_t max_messages, uint32_t max_deliveries,
                                   bool persists, shmt__ring** out) {
  SHMT_REQUIRE(max_messages <= INT32_MAX && max_deliveries <= SHMT_RING_MOST_DELIVERIES, SHMT_E_VALUE,
               "a queue of %" PRIu32 " messages and %" PRIu32 " deliveries; at most %d and %d are possible",
               max_messages, max_deliveries, INT32_MAX, SHMT_RING_MOST_DELIVERIES);
  SHMT_TRY(open_ring(v, name, SHMT_NAME_QUEUE, max_messages, max_deliveries, persists, out));
  shmt__ring_recover(*out);
  return SHMT_OK;
}

shmt_status shmt__named_server_open(shmt_service* v, const char* name, uint32_t max_messages, bool persists,
                                    shmt__ring** out) {
  SHMT_REQUIRE(max_messages <= INT32_MAX, SHMT_E_VALUE, "a server of %" PRIu32 " requests; at most %d are possible",
               max_messages, INT32_MAX);
  return open_ring(v, name, SHMT_NAME_SERVER, max_messages, 0, persists, out);
}

/* --- events --- */

static shmt_status make_event(shmt_service* v, const void* said, storages* out) {
  (void)said;
  shmt_storage* s = NULL;
  shmt__ring* ring = NULL;
  SHMT_TRY(shmt_service_new_storage(v, SHMT_EVENT_BYTES, &s));
  shmt__storage_retain(s);
  shmt_status status = shmt__event_create_in(s, &ring);
  if (status != SHMT_OK) {
    shmt__storage_release(s);
    return status;
  }
  shmt__ring_close(ring);
  *out = (storages){.at = {s}, .n = 1};
  return SHMT_OK;
}

shmt_status shmt__named_event_open(shmt_service* v, const char* name, bool persists, shmt__ring** out) {
  storages s = {.n = 0};
  SHMT_TRY(open_or_make(v, name, SHMT_NAME_EVENT, 1, persists, make_event, NULL, &s));
  return shmt__event_over(s.at[0], out);
}

/* --- topics --- */

static shmt_status make_topic(shmt_service* v, const void* said, storages* out) {
  SHMT_AUTO(shmt__pinned_session) session = NULL;
  SHMT_TRY(shmt__service_pinned(v, true, &session));
  SHMT_TRY(shmt__topic_make_storages(session, said, &out->at[0], &out->at[1]));
  out->n = 2;
  return SHMT_OK;
}

static shmt_status check_wish(const shmt__topic_wish* w) {
  SHMT_REQUIRE(w->depth < 0 || (w->depth >= 1 && w->depth <= SHMT_TOPIC_MOST_DEPTH), SHMT_E_VALUE,
               "depth must be a number from 1 to %d, got %" PRId64, SHMT_TOPIC_MOST_DEPTH, w->depth);
  SHMT_REQUIRE(w->history <= SHMT_TOPIC_MOST_DEPTH, SHMT_E_VALUE,
               "history must be a number from 0 to %d, got %" PRId64, SHMT_TOPIC_MOST_DEPTH, w->history);
  SHMT_REQUIRE(w->overflow < SHMT_N_OVERFLOWS, SHMT_E_VALUE, "overflow must be below %d, got %" PRId64,
               SHMT_N_OVERFLOWS, w->overflow);
  return SHMT_OK;
}

/* Say what the topic is to be. Errors: SHMT_E_VALUE (somebody has said otherwise). */
static shmt_status say_wish(const char* name, shmt__topic* t, const shmt__topic_wish* w) {
  shmt__topic_wish said;
  if (shmt__topic_say(t, w, &said)) return SHMT_OK;
  const struct {
    const char* what;
    int64_t has, wanted;
  } facts[] = {{"depth", said.depth, w->depth}, {"history", said.history, w->history}};
  for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
    SHMT_REQUIRE(facts[i].wanted < 0 || facts[i].has < 0 || facts[i].wanted == facts[i].has, SHMT_E_VALUE,
                 "the topic '%s' has %s=%" PRId64 ", not %" PRId64, name, facts[i].what, facts[i].has, facts[i].wanted);
  SHMT_FAIL(SHMT_E_VALUE, "the topic '%s' has overflow='%s', not '%s'", name,
            shmt__overflow_name((uint32_t)said.overflow), shmt__overflow_name((uint32_t)w->overflow));
}

shmt_status shmt__named_topic_open(shmt_service* v, const char* name, const shmt__topic_wish* wish, bool persists,
                                   shmt__topic** out) {
  storages s = {.n = 0};
  shmt__topic* topic = NULL;
  SHMT_TRY(check_wish(wish));
  const shmt__topic_wish said = {.depth = wish->depth < 0 ? SHMT_TOPIC_UNSAID : wish->depth,
                                 .history = wish->history < 0 ? SHMT_TOPIC_UNSAID : wish->history,
                                 .overflow = wish->overflow < 0 ? SHMT_TOPIC_UNSAID : wish->overflow};
  SHMT_TRY(open_or_make(v, name, SHMT_NAME_TOPIC, 2, persists, make_topic, &said, &s));
  SHMT_TRY(shmt__topic_over(s.at[0], s.at[1], &topic));
  shmt_status status = say_wish(name, topic, &said);
  if (status != SHMT_OK) {
    shmt__topic_close(topic);
    return status;
  }
  *out = topic;
  return SHMT_OK;
}
