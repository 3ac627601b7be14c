/* os/mutex.c -- takes the mutexes of the process across a fork. */
#include "os/mutex.h"

#include <time.h>

enum { BLAS_PATIENCE_S = 2 };

static struct {
  shmt__mutex* mutexes;
  shmt__fork_hooks hooks;
} ranks[SHMT_N_MUTEX_RANKS];

/* Guards the lists. Outermost: see rule 3 of Note [Mutexes across fork]. */
static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;

#if SHMT_DEBUG >= 1
_Thread_local uint32_t shmt__tls_held_ranks;
#endif

void shmt__mutex_declare(shmt__mutex* m) {
  SHMT_ASSERT(!shmt__mutex_is_held());
  (void)pthread_mutex_lock(&lists_lock);
  m->previous = NULL;
  m->next = ranks[m->rank].mutexes;
  if (m->next != NULL) m->next->previous = m;
  ranks[m->rank].mutexes = m;
  (void)pthread_mutex_unlock(&lists_lock);
}

void shmt__mutex_init(shmt__mutex* m, shmt__mutex_rank rank) {
  *m = (shmt__mutex){.mutex = SHMT_PTHREAD_MUTEX, .rank = rank};
  shmt__mutex_declare(m);
}

void shmt__mutex_destroy(shmt__mutex* m) {
  SHMT_ASSERT(!shmt__mutex_is_held());
  (void)pthread_mutex_lock(&lists_lock);
  if (m->previous != NULL)
    m->previous->next = m->next;
  else
    ranks[m->rank].mutexes = m->next;
  if (m->next != NULL) m->next->previous = m->previous;
  (void)pthread_mutex_unlock(&lists_lock);
  (void)pthread_mutex_destroy(&m->mutex);
}

void shmt__mutex_add_fork_hooks(shmt__mutex_rank rank, shmt__fork_hooks hooks) { ranks[rank].hooks = hooks; }

/* Take one mutex before a fork. Libraries register fork handlers while they are loaded. Before version 2.36 the C
 * library makes such a thread wait until the fork is over, while we wait for that thread's mutex: then we go on without
 * it, and the child loads the library again. */
static bool take_mutex(shmt__mutex* m) {
  struct timespec end;

  if (m->rank != SHMT_MUTEX_BLAS) return pthread_mutex_lock(&m->mutex) == 0;
  (void)clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += BLAS_PATIENCE_S;
  return pthread_mutex_timedlock(&m->mutex, &end) == 0;
}

static void before_fork(void) {
  SHMT_ASSERT(!shmt__mutex_is_held());
  (void)pthread_mutex_lock(&lists_lock);
  for (int rank = 0; rank < SHMT_N_MUTEX_RANKS; rank++) {
    for (shmt__mutex* m = ranks[rank].mutexes; m != NULL; m = m->next) m->is_forking = take_mutex(m);
    if (ranks[rank].mutexes != NULL) shmt__mutex_note_locked(ranks[rank].mutexes);
    if (ranks[rank].hooks.before != NULL) ranks[rank].hooks.before();
  }
}

static void after_fork(bool is_child) {
  for (int rank = SHMT_N_MUTEX_RANKS - 1; rank >= 0; rank--) {
    const shmt__fork_hooks* hooks = &ranks[rank].hooks;
    void (*hook)(void) = is_child ? hooks->in_child : hooks->in_parent;
    if (hook != NULL) hook();
    if (ranks[rank].mutexes != NULL) shmt__mutex_note_unlocked(ranks[rank].mutexes);
    for (shmt__mutex* m = ranks[rank].mutexes; m != NULL; m = m->next) {
      if (m->is_forking)
        (void)pthread_mutex_unlock(&m->mutex);
      else if (is_child)
        m->mutex = (pthread_mutex_t)SHMT_PTHREAD_MUTEX; /* its thread does not exist here */
      m->is_forking = false;
    }
  }
  (void)pthread_mutex_unlock(&lists_lock);
}

static void in_parent(void) { after_fork(false); }
static void in_child(void) { after_fork(true); }

__attribute__((constructor)) static void install(void) { (void)pthread_atfork(before_fork, in_parent, in_child); }
