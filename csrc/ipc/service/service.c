/* ipc/service/service.c -- a process's side of a service: joining, publishing, attaching. */
#include "ipc/service/service.h"

#include "ipc/handle/import.h"
#include "ipc/handle/program_files.h"
#include "ipc/handle/share.h"
#include "ipc/service/service_internal.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/memfd.h"
#include "os/users.h"
#include "shm/block.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- joining --- */

int shmt_service_create(const char* name, const char* path, uint32_t owner, int may_start,
                        shmt_service** out) {
  SHMT_REQUIRE(name[0] != '\0', SHMT_E_VALUE, "a service needs a name");
  SHMT_REQUIRE(path == NULL || (path[0] == '/' && strlen(path) < SHMT_SOCKET_PATH_BYTES),
               SHMT_E_VALUE,
               "the socket \"%.200s\" of a service needs an absolute path of at most %d bytes, "
               "this has %zu",
               path, SHMT_SOCKET_PATH_BYTES - 1, path == NULL ? 0 : strlen(path));
  shmt_service* v = calloc(1, sizeof *v);
  SHMT_REQUIRE(v != NULL, SHMT_E_NOMEM, "service: tried to allocate %zu bytes", sizeof *v);
  v->key.id = shmt__service_number(path != NULL ? path : name);
  v->key.owner = owner == SHMT_OWN_SERVICE ? shmt__os_uid() : owner;
  v->key.is_service = true;
  if (path != NULL) memcpy(v->key.path, path, strlen(path) + 1);
  v->may_start = may_start != 0;
  v->is_own = owner == SHMT_OWN_SERVICE;
  atomic_init(&v->n_refs, 1);
  strncpy(v->key.name, name, sizeof v->key.name - 1);
  *out = v;
  return SHMT_OK;
}

/* The numbers of services differ from those of sessions, which begin with a pid that is not 0. */
uint64_t shmt__service_number(const char* name) {
  return (shmt__name_hash(name) & ((UINT64_C(1) << 42) - 1)) | 1;
}

void shmt_service_free(shmt_service* v) {
  /* acq_rel: all uses come before the end. */
  if (v != NULL && atomic_fetch_sub_explicit(&v->n_refs, 1, memory_order_acq_rel) == 1) free(v);
}

void shmt_service_clear(shmt_service** place) {
  shmt_service* v = *place;
  *place = NULL;
  shmt_service_free(v);
}

static shmt_status fail_absent(shmt_service* v) {
  bool has_path = v->key.path[0] != '\0';
  v->incarnation = 0;
  SHMT_FAIL(SHMT_E_MANAGER,
            "no service %s\"%s\" runs (start it: shmtensor serve %s %s), and no process that this one can see has "
            "its memory",
            has_path ? "at " : "", shmt__service_label(v), has_path ? "--socket" : "--name", shmt__service_label(v));
}

/* Look whether the manager still runs, and rejoin or start the next one. A reader can do without. Errors:
 * SHMT_E_PYTHON. */
static shmt_status check_manager(shmt__session* s) {
  uint64_t now = shmt__os_now_ms();
  if (SHMT_LIKELY(now - s->checked_ms < SHMT_CHECK_MS)) return SHMT_OK;
  s->checked_ms = now;
  shmt_status status = shmt__session_reconnect(s);
  return status == SHMT_E_PYTHON ? status : SHMT_OK;
}

/* The owner of one's own service is the user of this moment. */
static void set_owner(shmt_service* v) {
  uint32_t uid = v->is_own ? shmt__os_uid() : v->key.owner;
  if (uid == v->key.owner) return;
  v->key.owner = uid;
  v->incarnation = 0;
}

static shmt_status open_current(shmt_service* v, bool writing, shmt__session** out) {
  shmt__session_key key = v->key;
  shmt__session* s = NULL;
  key.is_reader = !writing;
  SHMT_TRY(shmt__session_open_service(&key, v->may_start, &s));
  shmt__service_watch(s);
  SHMT_TRY(check_manager(s));
  if (SHMT_UNLIKELY(shmt__map_has_ended(&s->map) || s->is_lost)) {
    s->is_lost = true; /* there may be a new service of this name by now */
    SHMT_TRY(shmt__session_open_service(&key, v->may_start, &s));
  }
  *out = s;
  return SHMT_OK;
}

shmt_status shmt__service_locked(shmt_service* v, bool writing, shmt__session** out) {
  shmt__session* s = NULL;
  if (writing || v->incarnation == 0) set_owner(v);
  shmt_status status = open_current(v, writing, &s);
  if (status == SHMT_E_HANDLE) return fail_absent(v);
  if (status != SHMT_OK) return status;
  uint64_t before = v->incarnation;
  v->incarnation = s->incarnation;
  SHMT_REQUIRE(before == 0 || before == v->incarnation, SHMT_E_MANAGER,
               "service \"%s\" was begun anew by another manager: its names and versions are new ones",
               shmt__service_label(v));
  SHMT_REQUIRE((s->map.fixed.flags & SHMT_SESSION_SERVICE) != 0, SHMT_E_MANAGER,
               "session %016" PRIx64 " is not a service", v->key.id);
  if (writing) SHMT_TRY(shmt__session_map_arena(s, true));
  *out = s;
  return SHMT_OK;
}

int shmt_service_join(shmt_service* v, int writing) {
  shmt__session* s = NULL;
  shmt__sessions_lock();
  shmt_status status = shmt__service_locked(v, writing != 0, &s);
  shmt__sessions_unlock();
  return status;
}

shmt_status shmt__service_pinned(shmt_service* v, bool writing, shmt__pinned_session** out) {
  shmt__session* s = NULL;
  shmt__sessions_lock();
  shmt_status status = shmt__service_locked(v, writing, &s);
  if (status == SHMT_OK) shmt__session_pin(s);
  shmt__sessions_unlock();
  *out = status == SHMT_OK ? s : NULL;
  return status;
}

shmt_status shmt__service_request(shmt_service* v, shmt__packet* p, const char* name,
                              shmt__packet* reply) {
  shmt__session* s = NULL;
  int fds[SHMT_SOCKET_MAX_FDS], n_fds = 0;
  SHMT_REQUIRE(name == NULL || strlen(name) < SHMT_NAME_BYTES, SHMT_E_VALUE,
               "a name must have 1 to %d bytes, got %zu", SHMT_NAME_BYTES - 1, strlen(name));
  p->magic = SHMT_WIRE_MAGIC;
  p->version = SHMT_WIRE_VERSION;
  if (name != NULL) memcpy(p->text, name, strlen(name) + 1);
  shmt__sessions_lock();
  set_owner(v);
  shmt_status status = shmt__service_locked(v, false, &s);
  if (status == SHMT_OK) {
    p->client = s->client;
    p->session = s->id;
    p->incarnation = s->incarnation;
    status = shmt__session_call(s, p, NULL, 0, reply, fds, &n_fds);
  }
  shmt__sessions_unlock();
  for (int i = 0; i < n_fds; i++) shmt__os_close(fds[i]);
  return status;
}

int shmt_service_status(shmt_service* v, shmt_service_counters* out) {
  shmt__packet p = {.type = SHMT_MESSAGE_STATUS}, reply;
  SHMT_AUTO(shmt__pinned_session) s = NULL;
  SHMT_TRY(shmt__service_pinned(v, false, &s));
  SHMT_TRY(shmt__service_request(v, &p, NULL, &reply));
  const shmt__map* map = &s->map;
  *out = (shmt_service_counters){.manager_pid = reply.block,
                                 .n_clients = reply.client,
                                 .granted_bytes = reply.generation,
                                 .resident_bytes = reply.nbytes,
                                 .limit_bytes = map->fixed.limit_bytes,
                                 .client_limit_bytes = map->fixed.client_limit_bytes,
                                 .is_group = (reply.flags & SHMT_SESSION_GROUP) != 0,
                                 .owner = v->key.owner};
  for (uint32_t i = 0; i < shmt__map_names_end(map); i++) {
    shmt__version version;
    char name[SHMT_NAME_BYTES];
    out->n_names += shmt__names_read_at(map, i, &version, name);
  }
  return SHMT_OK;
}

/* --- publishing --- */

_Static_assert((int)SHMT_PUBLISH_PERSISTS == (int)SHMT_NAME_PERSISTS &&
                   (int)SHMT_PUBLISH_QUEUE == (int)SHMT_NAME_QUEUE << SHMT_NAME_KIND_SHIFT &&
                   (int)SHMT_PUBLISH_TOPIC == (int)SHMT_NAME_TOPIC << SHMT_NAME_KIND_SHIFT &&
                   (int)SHMT_PUBLISH_SERVER == (int)SHMT_NAME_SERVER << SHMT_NAME_KIND_SHIFT &&
                   (int)SHMT_PUBLISH_EVENT == (int)SHMT_NAME_EVENT << SHMT_NAME_KIND_SHIFT &&
                   (int)SHMT_PUBLISH_IF_NONE == (int)SHMT_NAME_IF_NONE,
               "the bits of a request");

int shmt_service_owns(shmt_service* v, const shmt_storage* s) {
  if (s->allocator != &shmt__allocator_managed || shmt__storage_has(s, SHMT_STORAGE_READ_ONLY)) return 0;
  if (s->ctx == NULL) return 1; /* a storage without bytes belongs to every service */
  shmt__sessions_lock();
  const shmt__held_block* h = s->ctx;
  bool owns =
      h->session->id == v->key.id && !h->session->is_lost && h->generation != 0 && h->map == NULL;
  shmt__sessions_unlock();
  return owns;
}

int shmt_service_new_storage(shmt_service* v, uint64_t nbytes, shmt_storage** out) {
  SHMT_AUTO(shmt__pinned_session) s = NULL;
  SHMT_TRY(shmt__service_pinned(v, true, &s));
  return shmt__storage_create_in(s, nbytes, out);
}

int shmt_service_own_posix_name(shmt_service* v, shmt_storage* s, int fd, const char* name, int is_new) {
  SHMT_AUTO(shmt__pinned_session) session = NULL;
  SHMT_TRY(shmt__service_pinned(v, true, &session));
  return shmt__storage_own_posix_name(s, session, fd, name, is_new != 0);
}

/* Describe the storages in a block of the service. */
static shmt_status describe(shmt_service* v, shmt_storage* const* storages, uint64_t n,
                            const char* text, uint64_t n_text, shmt_storage** out) {
  uint64_t list_bytes = n * sizeof(shmt__described_storage);
  SHMT_REQUIRE(n <= SHMT_MAX_STORAGES, SHMT_E_VALUE,
               "publish(): %" PRIu64 " storages, at most %d are possible", n, SHMT_MAX_STORAGES);
  for (uint64_t i = 0; i < n; i++)
    SHMT_REQUIRE(shmt_service_owns(v, storages[i]), SHMT_E_HANDLE,
                 "publish(): storage %" PRIu64 " of %" PRIu64 " bytes is not in the service", i,
                 storages[i]->nbytes);
  SHMT_TRY(shmt_service_new_storage(v, sizeof(shmt__description) + list_bytes + n_text, out));
  shmt__description* head = (*out)->data;
  shmt__described_storage* list = (shmt__described_storage*)(head + 1);
  *head = (shmt__description){.magic = SHMT_DESCRIPTION_MAGIC, .n_storages = n, .n_text = n_text};
  for (uint64_t i = 0; i < n; i++) {
    const shmt__held_block* h = storages[i]->ctx;
    list[i] =
        (shmt__described_storage){.generation = h == NULL ? 0 : h->generation,
                                  .nbytes = storages[i]->nbytes,
                                  .block = h == NULL ? (uint32_t)SHMT_HANDLE_NO_BLOCK : h->block};
  }
  memcpy((char*)list + list_bytes, text, n_text);
  return SHMT_OK;
}

int shmt_service_publish(shmt_service* v, const char* name, shmt_storage* const* storages,
                         uint64_t n_storages, const char* text, uint64_t n_text, uint32_t how,
                         uint64_t* out_version) {
  SHMT_AUTO(shmt_storage) description = NULL;
  shmt__packet p = {.type = SHMT_MESSAGE_PUBLISH}, reply;
  SHMT_TRY(describe(v, storages, n_storages, text, n_text, &description));
  const shmt__held_block* h = description->ctx;
  p.block = h->block;
  p.generation = h->generation;
  p.count = how;
  SHMT_TRY(shmt__service_request(v, &p, name, &reply));
  *out_version = reply.count;
  return SHMT_OK;
}

int shmt_service_unpublish(shmt_service* v, const char* name) {
  shmt__packet p = {.type = SHMT_MESSAGE_UNPUBLISH}, reply;
  return shmt__service_request(v, &p, name, &reply);
}

/* --- reading names --- */

static void fill_entry(const shmt__version* version, shmt_service_entry* out) {
  uint64_t now = shmt__os_wall_ms();
  *out =
      (shmt_service_entry){.version = version->version,
                           .nbytes = version->nbytes,
                           .age_ms = now > version->published_ms ? now - version->published_ms : 0,
                           .uid = version->uid,
                           .pid = version->pid,
                           .persists = (version->flags & SHMT_NAME_PERSISTS) != 0,
                           .kind = shmt__name_kind_of(version->flags)};
}

static shmt_status fail_unknown(const shmt_service* v, const char* name) {
  SHMT_FAIL(SHMT_E_KEY, "nothing is published as \"%s\" in service \"%s\"", name, shmt__service_label(v));
}

int shmt_service_find(shmt_service* v, const char* name, shmt_service_entry* out) {
  SHMT_AUTO(shmt__pinned_session) s = NULL;
  atomic_uint_least32_t* word;
  shmt__version version;
  uint32_t sequence;
  SHMT_TRY(shmt__service_pinned(v, false, &s));
  if (!shmt__names_read(&s->map, name, &version, &word, &sequence)) return fail_unknown(v, name);
  fill_entry(&version, out);
  return SHMT_OK;
}

int shmt_service_entry_at(shmt_service* v, uint32_t at, shmt_service_entry* out, char* name,
                         uint32_t* out_next) {
  SHMT_AUTO(shmt__pinned_session) s = NULL;
  shmt__version version;
  SHMT_TRY(shmt__service_pinned(v, false, &s));
  const shmt__map* map = &s->map;
  name[0] = '\0';
  *out_next = at + 1 < shmt__map_names_end(map) ? at + 1 : 0;
  if (shmt__names_read_at(map, at, &version, name))
    fill_entry(&version, out);
  else
    name[0] = '\0';
  return SHMT_OK;
}

int shmt_service_wait(shmt_service* v, const char* name, uint64_t version, int timeout_ms) {
  SHMT_AUTO(shmt__pinned_session) s = NULL;
  atomic_uint_least32_t* word;
  shmt__version now;
  uint32_t sequence;
  SHMT_TRY(shmt__service_pinned(v, false, &s));
  const shmt__map* map = &s->map;
  for (int waited = 0; waited < 2; waited++) {
    if (shmt__names_read(map, name, &now, &word, &sequence) && now.version > version) return SHMT_OK;
    SHMT_REQUIRE(!shmt__map_has_ended(map), SHMT_E_MANAGER, "service \"%s\" has ended", shmt__service_label(v));
    if (waited == 0) (void)shmt__os_futex_wait(word, sequence, shmt__deadline_of(timeout_ms));
  }
  return SHMT_E_TIMEOUT; /* without a record: the caller continues, or says what it waited for */
}

/* --- attaching --- */

struct shmt_snapshot {
  shmt_service_entry entry;
  shmt_storage* description; /* owned */
  uint64_t n_storages, n_text;
  const char* text;
  shmt_storage** storages; /* owned, each of them too */
};

void shmt_snapshot_free(shmt_snapshot* s) {
  if (s == NULL) return;
  for (uint64_t i = 0; s->storages != NULL && i < s->n_storages; i++)
    shmt__storage_release(s->storages[i]);
  shmt__storage_release(s->description);
  free(s->storages);
  free(s);
}

void shmt_snapshot_clear(shmt_snapshot** place) {
  shmt_snapshot* s = *place;
  *place = NULL;
  shmt_snapshot_free(s);
}

static void shmt__auto_shmt_snapshot(shmt_snapshot** p) { shmt_snapshot_free(*p); }

/* Hold a block of the service as a storage. Errors: SHMT_E_HANDLE (it is gone). */
static shmt_status open_block(const shmt__session* s, uint32_t block, uint64_t generation,
                              uint64_t nbytes, shmt_storage** out) {
  shmt__handle h = {.magic = SHMT_HANDLE_MAGIC,
                    .session = s->id,
                    .incarnation = s->incarnation,
                    .generation = generation,
                    .nbytes = nbytes,
                    .block = block};
  h.check = shmt__handle_checksum(nbytes == 0 ? 0 : s->map.fixed.secret, &h.session,
                                  sizeof h - offsetof(shmt__handle, session));
  return shmt__storage_import(&h, NULL, out);
}

static shmt_status open_description(const shmt__session* s, const shmt__version* version,
                                    shmt_snapshot* out) {
  uint32_t end = shmt__map_blocks_end(&s->map);
  SHMT_REQUIRE(version->block < end, SHMT_E_HANDLE,
               "block %" PRIu32 " of a name is none of %" PRIu32, version->block, end);
  uint64_t nbytes =
      atomic_load_explicit(&s->map.blocks[version->block].nbytes, memory_order_relaxed);
  SHMT_TRY(open_block(s, version->block, version->generation, nbytes, &out->description));
  const shmt__description* head = out->description->data;
  nbytes = out->description->nbytes;
  /* Copies: members of a group can write there. */
  shmt__description d = {0};
  if (nbytes >= sizeof d) memcpy(&d, head, sizeof d);
  uint64_t list_bytes = d.n_storages * sizeof(shmt__described_storage);
  SHMT_REQUIRE(d.magic == SHMT_DESCRIPTION_MAGIC && d.n_storages <= SHMT_MAX_STORAGES &&
                   nbytes - sizeof d >= list_bytes && nbytes - sizeof d - list_bytes >= d.n_text,
               SHMT_E_RUNTIME,
               "the description of %" PRIu64 " bytes of a published value is damaged", nbytes);
  out->storages = calloc(d.n_storages + 1, sizeof(shmt_storage*));
  SHMT_REQUIRE(out->storages != NULL, SHMT_E_NOMEM, "attach(): %" PRIu64 " storages", d.n_storages);
  out->n_storages = d.n_storages;
  out->n_text = d.n_text;
  out->text = (const char*)(head + 1) + list_bytes;
  return SHMT_OK;
}

static shmt_status open_version(const shmt__session* s, const shmt__version* version, int mode,
                                shmt_snapshot** out) {
  SHMT_AUTO(shmt_snapshot) made = calloc(1, sizeof *made);
  SHMT_REQUIRE(made != NULL, SHMT_E_NOMEM, "attach(): tried to allocate %zu bytes", sizeof *made);
  fill_entry(version, &made->entry);
  SHMT_TRY(open_description(s, version, made));
  const shmt__description* head = made->description->data;
  for (uint64_t i = 0; i < made->n_storages; i++) {
    SHMT_AUTO(shmt_storage) original = NULL;
    shmt__described_storage d;
    memcpy(&d, (const shmt__described_storage*)(head + 1) + i, sizeof d);
    SHMT_TRY(open_block(s, d.block, d.generation, d.nbytes, &original));
    SHMT_TRY(shmt__storage_in_mode(original, mode, &made->storages[i]));
  }
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}

int shmt_snapshot_open(shmt_service* v, const char* name, int mode, shmt_snapshot** out) {
  SHMT_AUTO(shmt__pinned_session) s = NULL;
  shmt_status status = shmt__service_pinned(v, mode == SHMT_ATTACH_WRITING, &s);
  enum { TRIES = 1000 }; /* a member that changes the entry all the time must not keep us */
  uint64_t last = 0;
  for (int i = 0; status == SHMT_OK && i < TRIES; i++) {
    atomic_uint_least32_t* word;
    shmt__version version;
    uint32_t sequence;
    if (!shmt__names_read(&s->map, name, &version, &word, &sequence)) return fail_unknown(v, name);
    status = open_version(s, &version, mode, out);
    if (status != SHMT_E_HANDLE || version.version == last) break;
    /* A newer version was published before we held all of this one. Each attempt sees a newer version. */
    last = version.version;
    if (i + 1 < TRIES) status = SHMT_OK;
  }
  return status;
}

const shmt_service_entry* shmt_snapshot_entry(const shmt_snapshot* s) { return &s->entry; }

const char* shmt_snapshot_text(const shmt_snapshot* s, uint64_t* out_n) {
  *out_n = s->n_text;
  return s->text;
}

uint64_t shmt_snapshot_n_storages(const shmt_snapshot* s) { return s->n_storages; }

void shmt_snapshot_get(const shmt_snapshot* s, uint64_t i, shmt_storage** out) {
  *out = shmt_snapshot_storage(s, i);
}

shmt_storage* shmt_snapshot_storage(const shmt_snapshot* s, uint64_t i) {
  shmt__storage_retain(s->storages[i]);
  return s->storages[i];
}
