/* os/mutex.h -- the mutexes of this process, all of which a fork takes along.
 *
 * Note [Mutexes across fork]
 * A child of fork() has one thread. A mutex that another thread of its parent held would stay locked in it for ever,
 * and what the mutex guards would be half changed. So before a fork the thread that forks takes every mutex of the
 * process, in the order of shmt__mutex_rank, and afterwards releases them in the parent and in the child. Both go on
 * with whole data. Three rules follow, which debug builds check at every call:
 *   1. A thread that holds a mutex takes only mutexes of later ranks, and one of each rank at most.
 *   2. A thread that holds a mutex never waits for the interpreter lock. So it runs no Python code, not by the release
 *      of an object either: the thread that forks has the interpreter lock while it waits for the mutex.
 *   3. Mutexes in objects are made and destroyed by threads that hold none: their lists stay as they are during a fork.
 *
 * A fork waits for whoever holds a mutex, so for the end of an operator at most. `make lint` finds mutexes and fork
 * handlers of other kinds.
 */
#ifndef SHMT_OS_MUTEX_H
#define SHMT_OS_MUTEX_H

#include "base/error.h"

#include <pthread.h>

/* All kinds of mutexes, outermost first. */
typedef enum shmt__mutex_rank {
  SHMT_MUTEX_AUTOCAST,      /* registers kernels once */
  SHMT_MUTEX_VMAP,          /* registers kernels once */
  SHMT_MUTEX_BLAS,          /* loads the library once; a fork does not wait for ever for it */
  SHMT_MUTEX_GENERATOR,     /* one for each random generator, while an operator draws its numbers */
  SHMT_MUTEX_RETAINED_GRAD, /* which nodes store gradients of tensors that are no leaves */
  SHMT_MUTEX_GRAD,          /* .grad and lazily made histories, of groups of tensors */
  SHMT_MUTEX_TANGENT,       /* the tangents of all tensors */
  SHMT_MUTEX_HOOKS,         /* all lists of hooks */
  SHMT_MUTEX_REGISTRY,      /* the operators and their kernels */
  SHMT_MUTEX_PUBLIC_OBJECTS, /* one for each client and lock of a program in C */
  SHMT_MUTEX_RING_WATCH,    /* one for each queue: its watcher is started once */
  SHMT_MUTEX_WATCHERS,      /* the threads that watch queues, and what is added to them */
  SHMT_MUTEX_RING_READY,    /* one for each watched queue: its descriptors */
  SHMT_MUTEX_MOVE,          /* the bytes of groups of storages, while they move to shared memory */
  SHMT_MUTEX_SESSIONS,      /* the sessions, their held blocks and arenas */
  SHMT_MUTEX_GROUPS,        /* the list of this process's groups of ranks */
  SHMT_MUTEX_FFT_PLANS,     /* the cache of plans */
  SHMT_MUTEX_WEAK_STORAGES, /* all weak references to storages */
  SHMT_MUTEX_PUBLIC_HANDLES, /* the table of handles of programs in C */
  SHMT_MUTEX_SMALL_BLOCKS,  /* the central lists of the allocator */
  SHMT_MUTEX_LARGE_BLOCKS,  /* the cache of large blocks */
  SHMT_MUTEX_POOL,          /* the thread pool's state */
  SHMT_MUTEX_PROFILE,       /* the list of buffers of a profile */
  SHMT_MUTEX_CLOSERS,       /* the descriptors that wait to be closed */
  SHMT_N_MUTEX_RANKS
} shmt__mutex_rank;

/* A thread that finds it locked spins for a moment before it sleeps. */
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#define SHMT_PTHREAD_MUTEX PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#else
#define SHMT_PTHREAD_MUTEX PTHREAD_MUTEX_INITIALIZER
#endif

typedef struct shmt__mutex {
  pthread_mutex_t mutex;
  shmt__mutex_rank rank;
  bool is_forking;                     /* the thread that forks has it */
  struct shmt__mutex *next, *previous; /* of this rank */
} shmt__mutex;

/* Declare an unlocked mutex of a rank, for the life of the process; it needs no shmt__mutex_init(). */
#define SHMT_STATIC_MUTEX(name, its_rank)                                      \
  static shmt__mutex name = {.mutex = SHMT_PTHREAD_MUTEX, .rank = (its_rank)}; \
  __attribute__((constructor)) static void name##_declare(void) { shmt__mutex_declare(&name); }

/* Put a mutex that has a value on the list of its rank; for the macro above. */
void shmt__mutex_declare(shmt__mutex* m);
/* Make an unlocked mutex. The calling thread holds none. */
void shmt__mutex_init(shmt__mutex* m, shmt__mutex_rank rank);
/* Undo init. Nobody has the mutex, and the calling thread holds none. */
void shmt__mutex_destroy(shmt__mutex* m);

/* What else is done at a fork, in the rank's place: `before` when its mutexes are taken and those of later ranks are
 * not yet; in_parent and in_child when those are released and the rank's are still held. One set for a rank; each
 * function may be NULL. None may fail. */
typedef struct shmt__fork_hooks {
  void (*before)(void), (*in_parent)(void), (*in_child)(void);
} shmt__fork_hooks;
void shmt__mutex_add_fork_hooks(shmt__mutex_rank rank, shmt__fork_hooks hooks);

#define SHMT_FORK_HOOKS(rank, ...)                                     \
  __attribute__((constructor)) static void add_fork_hooks_(void) {     \
    shmt__mutex_add_fork_hooks(rank, (shmt__fork_hooks){__VA_ARGS__}); \
  }

#if SHMT_DEBUG >= 1
/* Bits by rank. */
extern _Thread_local uint32_t shmt__tls_held_ranks;
_Static_assert(SHMT_N_MUTEX_RANKS <= 32, "a bit for each rank");
static inline bool shmt__mutex_is_held(void) { return shmt__tls_held_ranks != 0; }
static inline void shmt__mutex_note_locked(const shmt__mutex* m) {
  SHMT_ASSERT(shmt__tls_held_ranks >> m->rank == 0);
  shmt__tls_held_ranks |= UINT32_C(1) << m->rank;
}
static inline void shmt__mutex_note_unlocked(const shmt__mutex* m) {
  SHMT_ASSERT(shmt__tls_held_ranks >> m->rank & 1);
  shmt__tls_held_ranks &= ~(UINT32_C(1) << m->rank);
}
#else
static inline bool shmt__mutex_is_held(void) { return false; }
static inline void shmt__mutex_note_locked(const shmt__mutex* m) { (void)m; }
static inline void shmt__mutex_note_unlocked(const shmt__mutex* m) { (void)m; }
#endif

static inline void shmt__mutex_lock(shmt__mutex* m) {
  shmt__mutex_note_locked(m); /* first: what would hang is reported */
  (void)pthread_mutex_lock(&m->mutex);
}
static inline void shmt__mutex_unlock(shmt__mutex* m) {
  (void)pthread_mutex_unlock(&m->mutex);
  shmt__mutex_note_unlocked(m);
}
/* False: another thread has it. */
static inline bool shmt__mutex_try_lock(shmt__mutex* m) {
  if (pthread_mutex_trylock(&m->mutex) != 0) return false;
  shmt__mutex_note_locked(m);
  return true;
}

#endif
