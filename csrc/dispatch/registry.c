/* dispatch/registry.c -- operators by name, and their tables of kernels, computed from registrations. */
#include "dispatch/registry.h"

#include "generated/key_names.h"
#include "os/mutex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_LIMIT = 64 + SHMT_N_ALIAS_KEYS };

typedef enum registration_kind {
  REGISTRATION_DEFINE,
  REGISTRATION_IMPL,
  REGISTRATION_FALLBACK
} registration_kind;

struct shmt__registration {
  struct shmt__registration*
      next;          /* older one of the same operator, or of the same key's fallbacks */
  shmt_operator* op; /* NULL for fallbacks */
  shmt__kernel*
      kernel; /* kept after the drop, see Note [Table updates]; NULL: a fallthrough or a define */
  void (*free_ctx)(void*);
  char* where;
  int key;
  registration_kind kind;
};

/* Everything below is under `lock`; operators' tables are read without it. */
SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_REGISTRY)
static bool has_generated_operators;
static bool out_of_memory; /* while taking in the generated operators */

static shmt_operator** all; /* in order of definition; NULL: taken back */
static size_t n_all, cap_all;
static uint32_t* slots; /* open addressing over `all`: index + 1, 0 empty */
static size_t n_slots;  /* a power of two */

static shmt__registration* fallbacks[SHMT_N_KEYS]; /* newest first */
typedef struct known_fallback {
  struct known_fallback* next;
  const shmt__kernel* kernel;
} known_fallback;
static known_fallback* ever_fallback[SHMT_N_KEYS]; /* also dropped ones: a kernel that is in this list is no kernel of
                                                      an operator itself */

/* --- names ------------------------------------------------------------------------ */

const char* shmt__operator_name(const shmt_operator* op, char* buf, size_t cap) {
  const shmt_schema* s = op->schema;
  snprintf(buf, cap, *s->overload ? "%s.%s" : "%s", s->name, s->overload);
  return buf;
}

static const char* plain_name(const char* name) {
  if (strncmp(name, "aten::", 6) == 0) return name + 6;
  if (strncmp(name, "shmtensor::", 11) == 0) return name + 11;
  return name;
}

static uint64_t hash_part(uint64_t h, const char* s, size_t n) {
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
  return h;
}

/* Split "name.overload"; a namespace before "::" may have dots, which do not count. */
static void split_name(const char* full, size_t* name_len, const char** overload) {
  const char* after = strstr(full, "::");
  const char* dot = strchr(after ? after : full, '.');
  *name_len = dot ? (size_t)(dot - full) : strlen(full);
  *overload = dot ? dot + 1 : "";
}

static uint64_t hash_name(const char* name, size_t name_len, const char* overload) {
  uint64_t h = hash_part(0xcbf29ce484222325u, name, name_len);
  h = hash_part(h, "\n", 1);
  return hash_part(h, overload, strlen(overload));
}

static bool same_name(const shmt_operator* op, const char* name, size_t name_len,
                      const char* overload) {
  return strncmp(op->schema->name, name, name_len) == 0 && op->schema->name[name_len] == 0 &&
         strcmp(op->schema->overload, overload) == 0;
}

static void slot_insert(uint32_t index) {
  const shmt_schema* s = all[index]->schema;
  size_t i = hash_name(s->name, strlen(s->name), s->overload) & (n_slots - 1);
  while (slots[i] != 0) i = (i + 1) & (n_slots - 1);
  slots[i] = index + 1;
}

static bool grow_locked(size_t n) {
  if (n > cap_all) {
    size_t cap = cap_all ? 2 * cap_all : 256;
    while (cap < n) cap *= 2;
    shmt_operator** p = realloc(all, cap * sizeof *p);
    if (!p) return false;
    all = p;
    cap_all = cap;
  }
  if (2 * n > n_slots) {
    size_t want = n_slots ? 2 * n_slots : 1024;
    while (want < 2 * n) want *= 2;
    uint32_t* p = calloc(want, sizeof *p);
    if (!p) return false;
    free(slots);
    slots = p;
    n_slots = want;
    for (size_t i = 0; i < n_all; i++)
      if (all[i]) slot_insert((uint32_t)i);
  }
  return true;
}

static shmt_operator* find_locked(const char* name, size_t name_len, const char* overload) {
  if (!n_slots) return NULL;
  size_t i = hash_name(name, name_len, overload) & (n_slots - 1);
  for (; slots[i] != 0; i = (i + 1) & (n_slots - 1)) {
    shmt_operator* op = all[slots[i] - 1];
    if (op && same_name(op, name, name_len, overload)) return op;
  }
  return NULL;
}

static void add_generated_operators_locked(void) {
  has_generated_operators = true;
  if (!grow_locked(shmt__n_generated_operators)) {
    out_of_memory = true;
    return;
  }
  for (size_t i = 0; i < shmt__n_generated_operators; i++) {
    all[i] = shmt__generated_operators[i];
    all[i]->id = (uint32_t)i;
    n_all = i + 1;
    slot_insert((uint32_t)i);
  }
}

static void enter(void) {
  shmt__mutex_lock(&lock);
  if (SHMT_UNLIKELY(!has_generated_operators)) add_generated_operators_locked();
}
static void leave(void) { shmt__mutex_unlock(&lock); }

shmt_operator* shmt__operator_lookup(const char* name) {
  size_t len;
  const char* overload;
  name = plain_name(name);
  split_name(name, &len, &overload);
  enter();
  shmt_operator* op = find_locked(name, len, overload);
  leave();
  return op;
}

shmt_operator* shmt__operator_overload(const char* name, size_t i) {
  shmt_operator* found = NULL;
  name = plain_name(name);
  enter();
  for (size_t k = 0; k < n_all && !found; k++)
    if (all[k] && strcmp(all[k]->schema->name, name) == 0 && i-- == 0) found = all[k];
  leave();
  return found;
}

shmt_operator* shmt__operator_at(size_t i) {
  shmt_operator* found = NULL;
  enter();
  for (size_t k = 0; k < n_all && !found; k++)
    if (all[k] && i-- == 0) found = all[k];
  leave();
  return found;
}

bool shmt__operator_alive(const shmt_operator* op) {
  enter();
  bool alive = op->id < n_all && all[op->id] == op;
  leave();
  return alive;
}

/* --- tables ----------------------------------------------------------------------- */

static bool was_fallback(int key, const shmt__kernel* k) {
  for (const known_fallback* f = ever_fallback[key]; f; f = f->next)
    if (f->kernel == k) return true;
  return false;
}

/* A kernel that an operator has when it has none of its own. */
static bool is_stand_in(int key, const shmt__kernel* k) { return k == shmt__generated_fallbacks[key]; }

/* May the key's generated fallback stand in for a kernel of op? */
static bool takes_stand_in(const shmt_operator* op, int key) {
  if (key == SHMT_KEY_Conjugate || key == SHMT_KEY_Negative) return !op->passes_conj_neg;
  return key != SHMT_KEY_ForwardAD || op->follows_tangents;
}

static const shmt__kernel* current_kernel(const shmt_operator* op, int key) {
  return atomic_load_explicit(&op->table[key], memory_order_relaxed);
}

static const shmt__kernel* newest(const shmt_operator* op, int key) {
  for (const shmt__registration* r = op->registrations; r; r = r->next)
    if (r->kind == REGISTRATION_IMPL && r->key == key) return r->kernel;
  return NULL;
}

static bool is_sparse_key(int key) { return key == SHMT_KEY_SparseCPU || key == SHMT_KEY_SparseCsrCPU; }

static bool is_backend(int key) {
  return key == SHMT_KEY_CPU || key == SHMT_KEY_Meta || key == SHMT_KEY_NoMemory || is_sparse_key(key);
}

/* Does some result share memory with an argument that is not written to? */
static bool returns_view(const shmt_schema* s) {
  for (int i = 0; i < s->n_returns; i++)
    if (s->returns[i].alias != 0 && !(s->returns[i].flags & SHMT_ARG_WRITE)) return true;
  return false;
}

/* See Note [Which kernel a key has]. */
static const shmt__kernel* computed_kernel(const shmt_operator* op, int key) {
  const shmt__kernel* k;
  if (!op->registrations) {
    k = current_kernel(op, key);
    if (k && (is_stand_in(key, k) || was_fallback(key, k))) k = NULL;
  } else {
    k = newest(op, key);
    if (!k && is_backend(key)) k = newest(op, SHMT_ALIAS_CompositeExplicitAutograd);
    if (!k && is_backend(key)) k = newest(op, SHMT_ALIAS_CompositeImplicitAutograd);
    if (!k && (is_backend(key) || key == SHMT_KEY_BackendSelect))
      k = newest(op, SHMT_ALIAS_CatchAll);
  }
  if (!k && fallbacks[key]) k = fallbacks[key]->kernel;
  if (!k && takes_stand_in(op, key)) k = shmt__generated_fallbacks[key];
  return k;
}

static void refresh_locked(shmt_operator* op) {
  const shmt__kernel* rows[SHMT_N_KEYS];
  shmt_keyset mask = 0;
  bool dead = op->id >= n_all || all[op->id] != op;
  for (int key = 0; key < SHMT_N_KEYS; key++) {
    rows[key] = dead ? NULL : computed_kernel(op, key);
    if (rows[key]) mask |= (shmt_keyset)1 << key;
  }
  /* A bit is cleared from the mask before its entry becomes NULL, and set after its entry is filled. A call in between
   * finds NULL and calls shmt__operator_missing, which waits for the lock. */
  shmt_keyset old = atomic_load_explicit(&op->mask, memory_order_relaxed);
  atomic_store_explicit(&op->mask, old & mask, memory_order_relaxed);
  for (int key = 0; key < SHMT_N_KEYS; key++)
    /* release: readers of the pointer see the kernel record filled. */
    if (rows[key] != current_kernel(op, key))
      atomic_store_explicit(&op->table[key], rows[key], memory_order_release);
  /* release: a call that sees the bit sees the entry. */
  atomic_store_explicit(&op->mask, mask, memory_order_release);
}

/* The kernels of an operator that never had a registration become registrations, so that they are found again when
 * later ones are dropped. */
static bool adopt_kernels_locked(shmt_operator* op) {
  if (op->registrations) return true;
  shmt__registration* list = NULL;
  for (int key = 0; key < SHMT_N_KEYS; key++) {
    const shmt__kernel* k = current_kernel(op, key);
    if (!k || is_stand_in(key, k) || was_fallback(key, k)) continue;
    shmt__registration* r = calloc(1, sizeof *r);
    if (!r) {
      while (list) {
        shmt__registration* next = list->next;
        free(list);
        list = next;
      }
      return false;
    }
    *r = (shmt__registration){
        .next = list, .op = op, .kernel = (shmt__kernel*)k, .key = key, .kind = REGISTRATION_IMPL};
    list = r;
  }
  op->registrations = list;
  return true;
}

/* --- registering ------------------------------------------------------------------ */

static void registration_free(shmt__registration* r) {
  if (!r) return;
  free(r->where);
  free(r);
}

static shmt__registration* registration_create(registration_kind kind, int key,
                                               const shmt__kernel* kernel, const char* where) {
  shmt__registration* r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->kind = kind;
  r->key = key;
  r->where = strdup(where && *where ? where : "unknown place");
  if (kernel && (kernel->boxed || kernel->unboxed)) {
    r->kernel = malloc(sizeof *r->kernel);
    if (r->kernel) {
      *r->kernel = *kernel;
      r->kernel->where =
          strdup(r->where ? r->where : ""); /* outlives the registration, as the kernel does */
    }
  }
  if (!r->where || (kernel && kernel->boxed && !r->kernel)) {
    free(r->kernel);
    registration_free(r);
    return NULL;
  }
  return r;
}

static shmt_status no_memory(const char* what) {
  return shmt__fail(SHMT_E_NOMEM, "%s: out of memory for a registration", what);
}

static const char* defined_where(const shmt_operator* op) {
  for (const shmt__registration* r = op->registrations; r; r = r->next)
    if (r->kind == REGISTRATION_DEFINE) return r->where;
  return "the built-in operators";
}

shmt_status shmt__operator_define(const char* text, const char* where, shmt__registration** out) {
  shmt_schema* schema = NULL;
  SHMT_TRY(shmt__schema_parse(text, &schema));
  /* "aten::" and "shmtensor::" mean no namespace. The schema owns the text, so the pointer may move
   * on. */
  schema->name = plain_name(schema->name);
  shmt_operator* op = calloc(1, sizeof *op);
  shmt__registration* r = registration_create(REGISTRATION_DEFINE, -1, NULL, where);
  if (!op || !r) {
    shmt__schema_free(schema);
    free(op);
    registration_free(r);
    return no_memory("define()");
  }
  op->schema = schema;
  op->passes_conj_neg = returns_view(schema);
  op->follows_tangents = true;
  r->op = op;
  op->registrations = r;
  shmt_status status = SHMT_OK;
  enter();
  shmt_operator* old = find_locked(schema->name, strlen(schema->name), schema->overload);
  if (old) {
    char name[256];
    status = shmt__fail(SHMT_E_RUNTIME,
                        "define(): operator '%s' is already defined; first at %s, again at %s",
                        shmt__operator_name(old, name, sizeof name), defined_where(old), r->where);
  } else if (out_of_memory || n_all >= UINT32_MAX - 1 || !grow_locked(n_all + 1)) {
    status = no_memory("define()");
  } else {
    op->id = (uint32_t)n_all;
    all[n_all++] = op;
    slot_insert(op->id);
    refresh_locked(op); /* fallbacks */
  }
  leave();
  if (status != SHMT_OK) {
    shmt__schema_free(schema);
    free(op);
    registration_free(r);
    return status;
  }
  *out = r;
  return SHMT_OK;
}

static shmt_status key_check(const char* what, int key, bool alias) {
  bool ok = (key >= 0 && key < SHMT_N_KEYS) || (alias && key >= 64 && key < KEY_LIMIT);
  SHMT_REQUIRE(ok, SHMT_E_VALUE, "%s: %d is no %sdispatch key", what, key,
               alias ? "" : "run-time ");
  return SHMT_OK;
}

shmt_status shmt__operator_impl(const char* name, int key, const shmt__kernel* kernel,
                                void (*free_ctx)(void*), shmt__registration** out) {
  SHMT_TRY(key_check("impl()", key, true));
  SHMT_REQUIRE(kernel->boxed || kernel->unboxed, SHMT_E_VALUE, "impl(): '%s' was given no function",
               name);
  shmt__registration* r = registration_create(REGISTRATION_IMPL, key, kernel, kernel->where);
  if (!r) return no_memory("impl()");
  r->free_ctx = free_ctx;
  size_t len;
  const char* overload;
  const char* plain = plain_name(name);
  split_name(plain, &len, &overload);
  shmt_status status = SHMT_OK;
  enter();
  shmt_operator* op = find_locked(plain, len, overload);
  if (!op) {
    const shmt_operator* near = NULL;
    for (size_t i = 0; i < n_all && !near; i++)
      if (all[i] && strncmp(all[i]->schema->name, plain, len) == 0 &&
          all[i]->schema->name[len] == 0)
        near = all[i];
    char other[256];
    if (near)
      status =
          shmt__fail(SHMT_E_RUNTIME,
                     "impl(): no operator '%s' is defined, for which %s gives a kernel for %s; "
                     "there is '%s', defined at %s",
                     plain, r->where, shmt__dispatch_key_name(key),
                     shmt__operator_name(near, other, sizeof other), defined_where(near));
    else
      status =
          shmt__fail(SHMT_E_RUNTIME,
                     "impl(): no operator '%s' is defined, for which %s gives a kernel for %s; "
                     "define its schema first",
                     plain, r->where, shmt__dispatch_key_name(key));
  } else if (kernel->unboxed && !op->call_unboxed) {
    status = shmt__fail(SHMT_E_RUNTIME,
                        "impl(): '%s' was defined at run time and takes boxed kernels only", plain);
  } else if (!adopt_kernels_locked(op)) {
    status = no_memory("impl()");
  } else {
    r->op = op;
    r->next = op->registrations;
    op->registrations = r;
    refresh_locked(op);
  }
  leave();
  if (status != SHMT_OK) {
    if (r->kernel) free((char*)r->kernel->where);
    free(r->kernel);
    registration_free(r);
    return status;
  }
  *out = r;
  return SHMT_OK;
}

shmt_status shmt__key_fallback(int key, const shmt__kernel* kernel, void (*free_ctx)(void*),
                               shmt__registration** out) {
  SHMT_TRY(key_check("fallback()", key, false));
  SHMT_REQUIRE(!kernel->unboxed, SHMT_E_VALUE, "fallback(): a fallback for %s must be boxed",
               shmt__dispatch_key_name(key));
  shmt__registration* r = registration_create(REGISTRATION_FALLBACK, key, kernel, kernel->where);
  known_fallback* known = malloc(sizeof *known);
  if (!r || !known) {
    registration_free(r);
    free(known);
    return no_memory("fallback()");
  }
  r->free_ctx = free_ctx;
  enter();
  known->kernel = r->kernel;
  known->next = ever_fallback[key];
  ever_fallback[key] = known;
  r->next = fallbacks[key];
  fallbacks[key] = r;
  for (size_t i = 0; i < n_all; i++)
    if (all[i]) refresh_locked(all[i]);
  leave();
  *out = r;
  return SHMT_OK;
}

static void unlink_from(shmt__registration** list, const shmt__registration* r) {
  for (; *list; list = &(*list)->next) {
    if (*list != r) continue;
    *list = r->next;
    return;
  }
}

void shmt__registration_drop(shmt__registration* r) {
  if (!r) return;
  enter();
  switch (r->kind) {
    case REGISTRATION_DEFINE: /* it stays linked, since it names the place, and the memory of the operator stays */
      all[r->op->id] = NULL;
      refresh_locked(r->op);
      break;
    case REGISTRATION_IMPL:
      unlink_from(&r->op->registrations, r);
      refresh_locked(r->op);
      break;
    case REGISTRATION_FALLBACK:
      unlink_from(&fallbacks[r->key], r);
      for (size_t i = 0; i < n_all; i++)
        if (all[i]) refresh_locked(all[i]);
      break;
  }
  leave();
  if (r->free_ctx && r->kernel) r->free_ctx(r->kernel->ctx);
  if (r->kind != REGISTRATION_DEFINE) registration_free(r);
}

bool shmt__operator_has_kernel(const shmt_operator* op, int key) {
  if (key < 0 || key >= KEY_LIMIT || (key >= SHMT_N_KEYS && key < 64)) return false;
  enter();
  bool has;
  if (op->registrations) {
    has = newest(op, key) != NULL;
  } else {
    const shmt__kernel* k = key < SHMT_N_KEYS ? current_kernel(op, key) : NULL;
    has = k && !is_stand_in(key, k) && !was_fallback(key, k);
  }
  leave();
  return has;
}

/* --- a call that found nothing ----------------------------------------------------- */

static size_t append(char* buf, size_t cap, size_t at, const char* text) {
  int n = at < cap ? snprintf(buf + at, cap - at, "%s", text) : 0;
  return n > 0 ? at + (size_t)n : at;
}

static void keys_text(shmt_keyset ks, char* buf, size_t cap) {
  size_t at = append(buf, cap, 0, "");
  for (int key = SHMT_N_KEYS - 1; key >= 0; key--) {
    if (!(ks >> key & 1)) continue;
    if (at) at = append(buf, cap, at, ", ");
    at = append(buf, cap, at, shmt__dispatch_key_name(key));
  }
  if (!at) (void)append(buf, cap, 0, "none");
}

static shmt_status refuse_sparse(void* ctx, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                                 shmt_value* results) {
  char name[256], there[256];
  (void)ctx, (void)args, (void)results;
  const shmt_keyset sparse = SHMT_KEYBIT_SparseCPU | SHMT_KEYBIT_SparseCsrCPU;
  shmt_keyset own = 0;
  for (int key = 0; key < SHMT_N_KEYS; key++) {
    const shmt__kernel* k = current_kernel(op, key);
    if (k && !is_stand_in(key, k)) own |= (shmt_keyset)1 << key;
  }
  keys_text(own, there, sizeof there);
  (void)shmt__operator_name(op, name, sizeof name);
  SHMT_FAIL(
      SHMT_E_NOT_IMPLEMENTED,
      "Could not run 'aten::%s' with arguments from the '%s' backend. The operator has no kernel for it. 'aten::%s' is "
      "only available for these backends: [%s].",
      name, shmt__dispatch_key_name(shmt__highest_key(ks & sparse)), name, there);
}

const shmt__kernel shmt__no_sparse_kernel = {.boxed = refuse_sparse, .where = "csrc/dispatch/registry.c"};

static shmt_status refuse_no_memory(void* ctx, const shmt_operator* op, shmt_keyset ks, const shmt_value* args,
                                    shmt_value* results) {
  char name[256];
  (void)ctx, (void)ks, (void)args, (void)results;
  SHMT_FAIL(SHMT_E_RUNTIME,
            "aten::%s: Cannot access data pointer of Tensor that doesn't have storage. An argument is a wrapper "
            "without memory, and the __torch_dispatch__ of its class did not answer the call.",
            shmt__operator_name(op, name, sizeof name));
}

const shmt__kernel shmt__no_memory_kernel = {.boxed = refuse_no_memory, .where = "csrc/dispatch/registry.c"};

const shmt__kernel* shmt__operator_missing(const shmt_operator* op, shmt_keyset ks) {
  char name[256], wanted[256], there[256];
  enter();
  /* A registration may just have added the kernel. */
  shmt_keyset mask = atomic_load_explicit(&op->mask, memory_order_relaxed);
  const shmt__kernel* k = (ks & mask) ? current_kernel(op, shmt__highest_key(ks & mask)) : NULL;
  bool alive = op->id < n_all && all[op->id] == op;
  leave();
  if (k) return k;
  keys_text(ks, wanted, sizeof wanted);
  keys_text(mask, there, sizeof there);
  (void)shmt__operator_name(op, name, sizeof name);
  if (!alive)
    (void)shmt__fail(SHMT_E_RUNTIME, "%s: this operator's definition was taken back", name);
  else
    (void)shmt__fail(SHMT_E_NOT_IMPLEMENTED, "%s: no kernel for %s, registered: %s", name, wanted,
                     there);
  return NULL;
}
