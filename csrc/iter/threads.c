/* iter/threads.c -- a small fork-safe pool of helper threads. */
#include "iter/threads.h"

#include "generated/options.h"
#include "os/cpu.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum {
  SPINS = 400,           /* pauses before a helper sleeps: some microseconds */
  PIECES_PER_THREAD = 4, /* so that a late or slow helper costs little */
  OPEN = 1 << 16,        /* of gate; the bits below count the helpers inside */
};

typedef struct pool_job {
  void (*fn)(void* ctx, int64_t begin, int64_t end);
  void* ctx;
  int64_t n;
  int64_t piece;
  uint64_t float_mode; /* the caller's, so that results do not depend on who takes a piece */
} pool_job;

static struct {
  pthread_mutex_t lock; /* guards sleeping, started; and pairs with both conditions */
  pthread_cond_t work;  /* a job was published */
  pthread_cond_t left;  /* the last helper left a closed job */
  int sleeping;         /* helpers waiting for work */
  int started;
  atomic_bool busy;            /* somebody owns the job */
  atomic_int awake;            /* helpers that would see a job without being woken */
  atomic_uint_least32_t epoch; /* counts jobs */
  atomic_uint_least32_t gate;  /* OPEN | helpers inside */
  atomic_int helpers_wanted;
  atomic_int_least64_t next; /* first element nobody has taken */
  pool_job job;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .left = PTHREAD_COND_INITIALIZER};

static atomic_int n_threads; /* 0: not asked yet */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static _Thread_local bool in_piece __attribute__((tls_model("initial-exec")));

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("" ::: "memory");
#endif
}

static void after_fork_in_child(void) {
  pthread_mutex_init(&pool.lock, NULL);
  pthread_cond_init(&pool.work, NULL);
  pthread_cond_init(&pool.left, NULL);
  pool.sleeping = 0;
  pool.started = 0;
  /* relaxed: the child has one thread. */
  atomic_store_explicit(&pool.busy, false, memory_order_relaxed);
  atomic_store_explicit(&pool.awake, 0, memory_order_relaxed);
  atomic_store_explicit(&pool.gate, 0, memory_order_relaxed);
  in_piece = false;
}

static void register_fork_handler(void) { (void)pthread_atfork(NULL, NULL, after_fork_in_child); }

static int default_threads(void) {
  int64_t n = shmt__options_get()->num_threads;

  if (n < 1) n = shmt__os_cpu_count();
  return n < 1 ? 1 : n > SHMT_MAX_THREADS ? SHMT_MAX_THREADS : (int)n;
}

int shmt__num_threads(void) {
  /* relaxed: a number on its own; two threads that ask first get the same answer. */
  int n = atomic_load_explicit(&n_threads, memory_order_relaxed);

  if (SHMT_UNLIKELY(n == 0)) {
    n = default_threads();
    atomic_store_explicit(&n_threads, n, memory_order_relaxed);
  }
  return n;
}

void shmt__set_num_threads(int n) {
  n = n < 1 ? 1 : n > SHMT_MAX_THREADS ? SHMT_MAX_THREADS : n;
  atomic_store_explicit(&n_threads, n, memory_order_relaxed);
}

bool shmt__in_parallel(void) { return in_piece; }

/* relaxed: a hint. */
bool shmt__helpers_awake(void) { return atomic_load_explicit(&pool.awake, memory_order_relaxed) > 0; }

static void take_pieces(void) {
  const pool_job job = pool.job;

  in_piece = true;
  if (shmt__os_float_mode() != job.float_mode) shmt__os_set_float_mode(job.float_mode);
  for (;;) {
    /* relaxed: the job itself was published by the gate; pieces touch disjoint elements. */
    int64_t begin = atomic_fetch_add_explicit(&pool.next, job.piece, memory_order_relaxed);
    if (begin >= job.n) break;
    job.fn(job.ctx, begin, job.n - begin < job.piece ? job.n : begin + job.piece);
  }
  in_piece = false;
}

static void help(void) {
  /* acquire: the job was filled before its gate opened. */
  uint_least32_t gate = atomic_load_explicit(&pool.gate, memory_order_acquire);

  do {
    if (!(gate & OPEN) || (int)(gate & (OPEN - 1)) >=
                              atomic_load_explicit(&pool.helpers_wanted, memory_order_relaxed))
      return;
  } while (!atomic_compare_exchange_weak_explicit(&pool.gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_acquire));
  take_pieces();
  /* release: what this helper wrote is seen by the caller, who waits for the count. */
  if (atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_acq_rel) == 1) {
    pthread_mutex_lock(&pool.lock);
    pthread_cond_signal(&pool.left);
    pthread_mutex_unlock(&pool.lock);
  }
}

static void* helper_main(void* arg) {
  uint_least32_t seen = (uint_least32_t)(uintptr_t)arg;

  for (;;) {
    int spins = 0;
    while (atomic_load_explicit(&pool.epoch, memory_order_acquire) == seen && spins++ < SPINS)
      pause_cpu();
    if (atomic_load_explicit(&pool.epoch, memory_order_acquire) == seen) {
      pthread_mutex_lock(&pool.lock);
      pool.sleeping++;
      atomic_fetch_sub_explicit(&pool.awake, 1, memory_order_relaxed); /* relaxed: as below, under the lock or a hint */
      while (atomic_load_explicit(&pool.epoch, memory_order_acquire) == seen)
        pthread_cond_wait(&pool.work, &pool.lock);
      pool.sleeping--;
      atomic_fetch_add_explicit(&pool.awake, 1, memory_order_relaxed);
      pthread_mutex_unlock(&pool.lock);
    }
    seen = atomic_load_explicit(&pool.epoch, memory_order_acquire);
    help();
  }
  return NULL;
}

/* Called with pool.lock held. A thread that cannot be started is done without. */
static void start_helpers_locked(int wanted) {
  sigset_t all, old;
  pthread_attr_t attr;

  if (pool.started >= wanted) return;
  pthread_once(&fork_once, register_fork_handler);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, (size_t)1 << 20);
  while (pool.started < wanted) {
    pthread_t thread;
    uint_least32_t seen = atomic_load_explicit(&pool.epoch, memory_order_relaxed);
    if (pthread_create(&thread, &attr, helper_main, (void*)(uintptr_t)seen) != 0) break;
    pool.started++;
    atomic_fetch_add_explicit(&pool.awake, 1, memory_order_relaxed);
  }
  pthread_attr_destroy(&attr);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void wait_for_helpers(void) {
  /* release: nobody enters behind this; acquire: see what those who left have written. */
  uint_least32_t gate =
      atomic_fetch_and_explicit(&pool.gate, ~(uint_least32_t)OPEN, memory_order_acq_rel);
  int spins = 0;

  if (!(gate & (OPEN - 1))) return;
  while (atomic_load_explicit(&pool.gate, memory_order_acquire) != 0 && spins++ < 4 * SPINS)
    pause_cpu();
  if (atomic_load_explicit(&pool.gate, memory_order_acquire) == 0) return;
  pthread_mutex_lock(&pool.lock);
  while (atomic_load_explicit(&pool.gate, memory_order_acquire) != 0)
    pthread_cond_wait(&pool.left, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
}

void shmt__parallel_for(int64_t n, int64_t grain, void (*fn)(void* ctx, int64_t begin, int64_t end),
                        void* ctx) {
  int threads;
  int64_t pieces;
  bool idle = false;

  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (n <= grain || in_piece || (threads = shmt__num_threads()) == 1 ||
      /* acquire: the job of the last owner is over before this one is written. */
      !atomic_compare_exchange_strong_explicit(&pool.busy, &idle, true, memory_order_acquire,
                                               memory_order_relaxed)) {
    fn(ctx, 0, n);
    return;
  }
  pieces = (n + grain - 1) / grain;
  if (pieces > (int64_t)threads * PIECES_PER_THREAD) pieces = (int64_t)threads * PIECES_PER_THREAD;
  pool.job = (pool_job){fn, ctx, n, (n + pieces - 1) / pieces, shmt__os_float_mode()};
  atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
  atomic_store_explicit(&pool.helpers_wanted, (int)(pieces < threads ? pieces : threads) - 1,
                        memory_order_relaxed);
  /* release: helpers that see the gate open see the job. */
  atomic_store_explicit(&pool.gate, OPEN, memory_order_release);
  pthread_mutex_lock(&pool.lock);
  start_helpers_locked(threads - 1);
  atomic_fetch_add_explicit(&pool.epoch, 1, memory_order_release);
  if (pool.sleeping > 0) pthread_cond_broadcast(&pool.work);
  pthread_mutex_unlock(&pool.lock);
  take_pieces();
  wait_for_helpers();
  /* release: the next owner may overwrite the job. */
  atomic_store_explicit(&pool.busy, false, memory_order_release);
}
