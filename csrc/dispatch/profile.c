/* dispatch/profile.c -- buffers of a profile, one a thread. */
#include "dispatch/profile.h"

#include "dispatch/trace.h"
#include "os/futex.h"
#include "os/mutex.h"
#include "os/process.h"
#include "storage/allocator.h"
#include "tensor/tensor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  CHUNK_WORDS = 8192,
  RECORD_WORDS = sizeof(shmt__profile_record) / 8,
  MAX_PAYLOAD = 1024, /* words; arguments beyond are left out */
  MAX_LIST = 64,      /* tensors of a list, numbers of a list */
};
static const int64_t max_bytes = (int64_t)2 << 30; /* of all chunks together */

typedef struct chunk {
  _Atomic(struct chunk*) next;
  atomic_uint_least32_t used; /* words; written by the thread, read by who looks */
  uint64_t words[CHUNK_WORDS];
} chunk;

typedef struct buffer {
  struct buffer* next; /* under the lock */
  atomic_int_least32_t refs; /* the list's and the thread's */
  int64_t thread;
  uint64_t profile; /* number of the profile it belongs to */
  chunk* first;
  chunk* last;    /* the thread's */
  uint32_t depth; /* begins without their end */
  uint32_t kept;  /* how many of them were recorded: the outer ones */
  bool full;
} buffer;

SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_PROFILE)
static buffer* buffers;        /* under the lock */
static _Atomic uint64_t profile; /* number of the last profile */
static _Atomic bool running;
static _Atomic unsigned asked;
static _Atomic int64_t bytes, lost, in_use;
static pthread_key_t key;
static _Thread_local buffer* own __attribute__((tls_model("initial-exec")));

uint64_t (*shmt__profile_sequence)(void);
char* (*shmt__profile_stack)(void);

/* --- buffers ------------------------------------------------------------------------------ */

static void free_records(const chunk* c) {
  const uint32_t used = atomic_load_explicit(&c->used, memory_order_acquire);
  for (uint32_t at = 0; at < used;) {
    const shmt__profile_record* r = (const shmt__profile_record*)&c->words[at];
    if (r->kind == SHMT_PROFILE_RANGE) free((void*)(uintptr_t)r->name);
    free(r->stack);
    at += RECORD_WORDS + r->n_words;
  }
}

static void buffer_release(buffer* b) {
  /* acq_rel: all records were written before the last reference went. */
  if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
  for (chunk* c = b->first; c;) {
    chunk* next = atomic_load_explicit(&c->next, memory_order_relaxed);
    free_records(c);
    free(c);
    atomic_fetch_sub_explicit(&bytes, (int64_t)sizeof *c, memory_order_relaxed);
    c = next;
  }
  free(b);
}

static void thread_ends(void* b) {
  own = NULL;
  buffer_release(b);
}

/* The child has the memory of the parent's profile, but none of the threads that wrote it. */
static void in_child(void) {
  if (!shmt__profile_runs() && !buffers) return;
  atomic_store_explicit(&running, false, memory_order_relaxed);
  shmt__trace_profile(false);
  buffers = NULL; /* left, as one of them may be half changed */
  own = NULL;
  (void)pthread_setspecific(key, NULL);
}

__attribute__((constructor)) static void install(void) {
  (void)pthread_key_create(&key, thread_ends);
}
SHMT_FORK_HOOKS(SHMT_MUTEX_PROFILE, .in_child = in_child)

static chunk* chunk_create(bool needed) {
  const int64_t before = atomic_fetch_add_explicit(&bytes, (int64_t)sizeof(chunk), memory_order_relaxed);
  chunk* c = before < max_bytes || needed ? malloc(sizeof *c) : NULL;
  if (!c) {
    atomic_fetch_sub_explicit(&bytes, (int64_t)sizeof(chunk), memory_order_relaxed);
    return NULL;
  }
  atomic_init(&c->next, NULL);
  atomic_init(&c->used, 0);
  return c;
}

/* This thread's buffer of the running profile, made at its first record; NULL without memory. */
static buffer* buffer_of_thread(void) {
  const uint64_t now = atomic_load_explicit(&profile, memory_order_acquire);
  if (SHMT_LIKELY(own && own->profile == now)) return own;
  buffer* b = calloc(1, sizeof *b);
  if (!b || !(b->first = b->last = chunk_create(false))) {
    free(b);
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    return NULL;
  }
  atomic_init(&b->refs, 2);
  b->profile = now;
  b->thread = shmt__os_thread_id();
  buffer_release(own);
  own = b;
  (void)pthread_setspecific(key, b);
  shmt__mutex_lock(&lock);
  b->next = buffers;
  buffers = b;
  shmt__mutex_unlock(&lock);
  return b;
}

/* Room for a record; published by commit. needed: an END, whose begin is there already. */
static shmt__profile_record* append(buffer* b, uint32_t n_words, bool needed) {
  chunk* c = b->last;
  uint32_t used = atomic_load_explicit(&c->used, memory_order_relaxed);
  if (SHMT_UNLIKELY(used + RECORD_WORDS + n_words > CHUNK_WORDS)) {
    chunk* next = chunk_create(needed);
    if (!next) return NULL;
    /* release: who reads the pointer sees an empty chunk. */
    atomic_store_explicit(&c->next, next, memory_order_release);
    b->last = c = next;
    used = 0;
  }
  shmt__profile_record* r = (shmt__profile_record*)&c->words[used];
  *r = (shmt__profile_record){.n_words = n_words, .t_ns = (int64_t)shmt__os_now_ns()};
  return r;
}

static void commit(buffer* b, const shmt__profile_record* r) {
  chunk* c = b->last;
  const uint32_t used = atomic_load_explicit(&c->used, memory_order_relaxed);
  /* release: the record is whole before it counts. */
  atomic_store_explicit(&c->used, used + RECORD_WORDS + r->n_words, memory_order_release);
}

/* --- payloads ------------------------------------------------------------------------------- */

typedef struct payload {
  uint64_t* words; /* NULL: only count */
  uint32_t n;
} payload;

static void put_word(payload* p, uint64_t word) {
  if (p->words && p->n < MAX_PAYLOAD) p->words[p->n] = word;
  p->n++;
}

static void put_tensor(payload* p, const shmt_tensor* t) {
  if (!t) {
    put_word(p, SHMT_PROFILE_NONE);
    return;
  }
  put_word(p, SHMT_PROFILE_TENSOR | (uint64_t)t->dtype << 16 | (uint64_t)t->n_dims << 8);
  for (int i = 0; i < t->n_dims; i++) put_word(p, (uint64_t)shmt__tensor_sizes(t).data[i]);
  for (int i = 0; i < t->n_dims; i++) put_word(p, (uint64_t)shmt__tensor_strides(t).data[i]);
}

static void put_float(payload* p, double d) {
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  put_word(p, SHMT_PROFILE_FLOAT);
  put_word(p, bits);
}

static void put_int(payload* p, shmt__profile_tag tag, int64_t i) {
  put_word(p, tag);
  put_word(p, (uint64_t)i);
}

static void put_scalar(payload* p, shmt_scalar s) {
  if (s.tag == SHMT_SCALAR_INT)
    put_int(p, SHMT_PROFILE_INT, s.v.i);
  else if (s.tag == SHMT_SCALAR_FLOAT)
    put_float(p, s.v.d);
  else if (s.tag == SHMT_SCALAR_BOOL)
    put_int(p, SHMT_PROFILE_BOOL, s.v.b);
  else
    put_word(p, s.tag == SHMT_SCALAR_NONE ? SHMT_PROFILE_NONE : SHMT_PROFILE_OTHER);
}

static void put_value(payload* p, const shmt_value* v) {
  int64_t n;
  switch (v->tag) {
    case SHMT_VALUE_TENSOR:
      put_tensor(p, v->v.tensor);
      break;
    case SHMT_VALUE_TENSORS:
      n = v->v.tensors.len < MAX_LIST ? v->v.tensors.len : MAX_LIST;
      put_word(p, SHMT_PROFILE_LIST | (uint64_t)n << 8);
      for (int64_t i = 0; i < n; i++) put_tensor(p, v->v.tensors.data[i]);
      break;
    case SHMT_VALUE_SCALAR:
      put_scalar(p, v->v.scalar);
      break;
    case SHMT_VALUE_INT:
      put_int(p, SHMT_PROFILE_INT, v->v.i);
      break;
    case SHMT_VALUE_FLOAT:
      put_float(p, v->v.d);
      break;
    case SHMT_VALUE_BOOL:
      put_int(p, SHMT_PROFILE_BOOL, v->v.b);
      break;
    case SHMT_VALUE_INTS:
      n = v->v.ints.len < MAX_LIST ? v->v.ints.len : MAX_LIST;
      put_word(p, SHMT_PROFILE_INTS | (uint64_t)(n < 0 ? 0 : n) << 8);
      for (int64_t i = 0; i < n; i++) put_word(p, (uint64_t)v->v.ints.data[i]);
      break;
    case SHMT_VALUE_NONE:
      put_word(p, SHMT_PROFILE_NONE);
      break;
    default:
      put_word(p, SHMT_PROFILE_OTHER);
  }
}

static uint32_t put_all(uint64_t* words, const shmt_operator* op, const shmt_value* args) {
  payload p = {words, 0};
  for (int i = 0; i < op->schema->n_args; i++) put_value(&p, &args[i]);
  return p.n;
}

/* --- memory ------------------------------------------------------------------------------------ */

static shmt_status create_observed(void* arg, uint64_t nbytes, bool zeroed, shmt_storage** out);
static const shmt__storage_source observing = {create_observed, NULL};

static void record_delta(int64_t delta) {
  const int64_t now = atomic_fetch_add_explicit(&in_use, delta, memory_order_relaxed) + delta;
  if (!shmt__profile_runs() || !(atomic_load_explicit(&asked, memory_order_relaxed) & SHMT_PROFILE_MEMORY)) return;
  buffer* b = buffer_of_thread();
  shmt__profile_record* r = b && !b->full ? append(b, 0, false) : NULL;
  if (!r) return;
  r->kind = SHMT_PROFILE_DELTA;
  r->delta = delta;
  r->number = (uint64_t)now;
  commit(b, r);
}

static void observed_ends(const shmt_storage* s) { record_delta(-(int64_t)s->nbytes); }

static shmt_status create_observed(void* arg, uint64_t nbytes, bool zeroed, shmt_storage** out) {
  (void)arg;
  shmt__tls_storage_source = NULL;
  shmt_status status = zeroed ? shmt__storage_create_zeroed(nbytes, out) : shmt__storage_create(nbytes, out);
  shmt__tls_storage_source = &observing;
  if (status != SHMT_OK) return status;
  (*out)->flags |= SHMT_STORAGE_OBSERVED;
  record_delta((int64_t)nbytes);
  return SHMT_OK;
}

/* --- recording ----------------------------------------------------------------------------- */

static shmt__profile_record* begin(shmt__profile_kind kind, uint32_t n_words, buffer** out) {
  buffer* b = *out = buffer_of_thread();
  if (!b) return NULL;
  const unsigned flags = atomic_load_explicit(&asked, memory_order_relaxed);
  const bool begins = b->depth++ == 0;
  if (begins && (flags & SHMT_PROFILE_MEMORY) && !shmt__tls_storage_source) shmt__tls_storage_source = &observing;
  char* stack = NULL;
  if (SHMT_UNLIKELY(flags & SHMT_PROFILE_STACK) && !b->full && kind != SHMT_PROFILE_NODE && shmt__profile_stack)
    stack = shmt__profile_stack();
  shmt__profile_record* r = b->full ? NULL : append(b, n_words, false);
  if (!r) {
    free(stack);
    b->full = true;
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    return NULL;
  }
  b->kept = b->depth;
  r->kind = (uint8_t)kind;
  r->stack = stack;
  return r;
}

void shmt__profile_enter(const shmt_operator* op, const shmt_value* args) {
  uint32_t n = 0;
  if (args && (atomic_load_explicit(&asked, memory_order_relaxed) & SHMT_PROFILE_SHAPES)) {
    n = put_all(NULL, op, args);
    if (n > MAX_PAYLOAD) n = 0;
  }
  buffer* b;
  shmt__profile_record* r = begin(SHMT_PROFILE_OPERATOR, n, &b);
  if (!r) return;
  r->op = op;
  r->number = shmt__profile_sequence ? shmt__profile_sequence() : 0;
  if (n) (void)put_all((uint64_t*)(r + 1), op, args);
  commit(b, r);
}

void shmt__profile_enter_node(shmt__profile_kind kind, const char* name, uint64_t sequence_nr) {
  buffer* b;
  shmt__profile_record* r = begin(kind, 0, &b);
  if (!r) return;
  r->name = name;
  r->number = sequence_nr;
  commit(b, r);
}

void shmt__profile_enter_range(const char* name) {
  buffer* b;
  char* copy = strdup(name);
  shmt__profile_record* r = copy ? begin(SHMT_PROFILE_RANGE, 0, &b) : NULL;
  if (!r) {
    free(copy);
    return;
  }
  r->name = copy;
  commit(b, r);
}

void shmt__profile_leave(void) {
  buffer* b = own;
  if (!b || b->depth == 0) return;
  if (b->depth == 1 && shmt__tls_storage_source == &observing) shmt__tls_storage_source = NULL;
  if (b->kept == b->depth) {
    shmt__profile_record* r = append(b, 0, true);
    if (r) { /* its kind, 0, is END */
      r->number = shmt__profile_sequence ? shmt__profile_sequence() : 0;
      commit(b, r);
    }
    b->kept--;
  }
  b->depth--;
}

/* --- profiles --------------------------------------------------------------------------------- */

bool shmt__profile_runs(void) { return atomic_load_explicit(&running, memory_order_relaxed); }

void shmt__profile_clear(void) {
  shmt__mutex_lock(&lock);
  buffer* list = SHMT_TAKE(buffers);
  shmt__mutex_unlock(&lock);
  while (list) {
    buffer* next = list->next;
    buffer_release(list);
    list = next;
  }
}

void shmt__profile_start(unsigned flags) {
  shmt__profile_clear();
  shmt__storage_observed_ends = observed_ends;
  atomic_store_explicit(&lost, 0, memory_order_relaxed);
  atomic_store_explicit(&asked, flags, memory_order_relaxed);
  /* release: a thread that sees the number sees what was asked for. */
  atomic_fetch_add_explicit(&profile, 1, memory_order_release);
  atomic_store_explicit(&running, true, memory_order_relaxed);
  shmt__trace_profile(true);
}

void shmt__profile_stop(void) {
  atomic_store_explicit(&running, false, memory_order_relaxed);
  shmt__trace_profile(false);
}

int64_t shmt__profile_lost(void) { return atomic_load_explicit(&lost, memory_order_relaxed); }

static bool visit_buffer(const buffer* b, shmt__profile_visitor visit, void* ctx) {
  for (const chunk* c = b->first; c; c = atomic_load_explicit(&c->next, memory_order_acquire)) {
    const uint32_t used = atomic_load_explicit(&c->used, memory_order_acquire);
    for (uint32_t at = 0; at < used;) {
      const shmt__profile_record* r = (const shmt__profile_record*)&c->words[at];
      if (!visit(ctx, b->thread, r, &c->words[at + RECORD_WORDS])) return false;
      at += RECORD_WORDS + r->n_words;
    }
  }
  return true;
}

bool shmt__profile_visit(shmt__profile_visitor visit, void* ctx) {
  shmt__mutex_lock(&lock);
  buffer* list = buffers;
  for (buffer* b = list; b; b = b->next) atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  shmt__mutex_unlock(&lock);
  bool whole = true;
  while (list) { /* buffers are only added, in front; a clear meanwhile leaves these to us */
    buffer* next = list->next;
    whole = whole && visit_buffer(list, visit, ctx);
    buffer_release(list);
    list = next;
  }
  return whole;
}
