/* iter/threads.c -- a small fork-safe pool of worker threads ("helpers"). */
#include "iter/threads.h"

#include "generated/options.h"
#include "os/cpu.h"
#include "os/futex.h"
#include "os/mutex.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* Waking a thread takes 5 to 50 us, most on virtual machines, and the caller pays a third of that: more than many an
 * operator takes. A loop that calls operators leaves gaps of 1 to 100 us between the large ones. */
enum {
  SPIN_NS = 200 * 1000,     /* how long a helper stays awake after its last job */
  LATE_NS = 50 * 1000,      /* and twice the time of a piece: a helper still at its last piece has lost its processor */
  PREEMPTED_NS = 50 * 1000, /* between two readings of the clock: another thread wants the processor */
  PAUSES = 32,              /* spins from one reading of the clock to the next: about a microsecond */
  WORTH_WAKING_NS = 50 * 1000, /* with less work left, the caller is sooner done alone */
  PIECES_PER_THREAD = 4,       /* so that a late or slow helper costs little */
  ENOUGH_PIECES = 8,           /* so that the first is little of the work */
  OPEN = 1 << 16,              /* of gate; the bits below count the helpers inside */
};

/* One piece in pool.taken. Whoever finds none left counts one too many, once per job. */
static const uint_least64_t FRONT = 1, BACK = (uint_least64_t)1 << 32;

typedef struct pool_job {
  void (*fn)(void* ctx, int64_t begin, int64_t end);
  void* ctx;
  int64_t n;
  int64_t piece;
  int64_t pieces;
  uint64_t float_mode; /* the caller's, so that results do not depend on who takes a piece */
} pool_job;

static struct {
  pthread_cond_t work;  /* a job was published */
  pthread_cond_t left;  /* the last helper left a closed job */
  int started;
  uint64_t alone_ns; /* when the last job ended that woke no helper; the owner's */
  /* Read by threads that wait; on another cache line than what working threads write. */
  _Alignas(64) atomic_bool busy; /* somebody owns the job */
  atomic_int awake;              /* helpers that would see a job without being woken */
  atomic_uint_least32_t epoch;   /* counts jobs */
  _Alignas(64) atomic_uint_least32_t gate; /* OPEN | helpers inside */
  atomic_int helpers_wanted;
  atomic_int owner_cpu; /* when the job began */
  atomic_uint_least64_t taken; /* pieces: the caller's, from the front, and above them the helpers', from the back */
  pool_job job;
} pool = {.work = PTHREAD_COND_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};
/* Guards awake and started, and pairs with both conditions. */
SHMT_STATIC_MUTEX(pool_lock, SHMT_MUTEX_POOL)

static atomic_int n_threads; /* 0: not asked yet */
static _Thread_local bool in_piece __attribute__((tls_model("initial-exec")));

static void in_child(void) {
  pthread_cond_init(&pool.work, NULL);
  pthread_cond_init(&pool.left, NULL);
  pool.started = 0;
  /* relaxed: the child has one thread. */
  atomic_store_explicit(&pool.busy, false, memory_order_relaxed);
  atomic_store_explicit(&pool.awake, 0, memory_order_relaxed);
  atomic_store_explicit(&pool.gate, 0, memory_order_relaxed);
  in_piece = false;
}

SHMT_FORK_HOOKS(SHMT_MUTEX_POOL, .in_child = in_child)

static int default_threads(void) {
  int64_t n = shmt__options_get()->num_threads;

  if (n < 1) n = shmt__os_cpu_count();
  return n < 1 ? 1 : n > SHMT_MAX_THREADS ? SHMT_MAX_THREADS : (int)n;
}

int shmt__num_threads(void) {
  /* relaxed: a value by itself; two threads that ask first get the same answer. */
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
bool shmt__workers_awake(void) { return atomic_load_explicit(&pool.awake, memory_order_relaxed) > 0; }

/* Take one piece; false when none was left. Helpers take theirs from the back, so that the next operator on the same
 * memory finds most of it in the caches of the same cores. */
static bool take_piece(const pool_job* job, uint_least64_t end) {
  /* relaxed: the job itself was published by the gate; pieces touch disjoint elements. */
  const uint_least64_t taken = atomic_fetch_add_explicit(&pool.taken, end, memory_order_relaxed);
  const int64_t front = (int64_t)(taken & (BACK - 1)), back = (int64_t)(taken / BACK);

  if (front + back >= job->pieces) return false;
  const int64_t begin = (end == FRONT ? front : job->pieces - 1 - back) * job->piece;
  in_piece = true;
  job->fn(job->ctx, begin, job->n - begin < job->piece ? job->n : begin + job->piece);
  in_piece = false;
  return true;
}

/* Take all pieces that are left. Returns how long others may take to finish theirs. */
static uint64_t take_pieces(const pool_job* job, uint_least64_t end) {
  const uint64_t begin = shmt__os_now_ns();
  uint64_t n = 0;

  while (take_piece(job, end)) n++;
  return n == 0 ? SPIN_NS : LATE_NS + 2 * (shmt__os_now_ns() - begin) / n;
}

/* Move away from the owner's processor, where this helper would keep it from working: a woken thread is often put
 * there while all processors are busy. This comes before the gate, so that nobody waits for the move. relaxed:
 * hints. */
static void leave_owner_alone(void) {
  if (!(atomic_load_explicit(&pool.gate, memory_order_relaxed) & OPEN)) return;
  const int cpu = atomic_load_explicit(&pool.owner_cpu, memory_order_relaxed);
  if (shmt__os_current_cpu() == cpu) shmt__os_leave_cpu(cpu);
}

/* *late_ns: how long others may take to finish their pieces; not set when this helper came too late. */
static void help(uint64_t* late_ns) {
  /* acquire: the job was filled before its gate opened. */
  uint_least32_t gate = atomic_load_explicit(&pool.gate, memory_order_acquire);

  do {
    if (!(gate & OPEN) || (int)(gate & (OPEN - 1)) >=
                              atomic_load_explicit(&pool.helpers_wanted, memory_order_relaxed))
      return;
  } while (!atomic_compare_exchange_weak_explicit(&pool.gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_acquire));
  const pool_job job = pool.job;
  if (shmt__os_float_mode() != job.float_mode) shmt__os_set_float_mode(job.float_mode);
  *late_ns = take_pieces(&job, BACK);
  /* release: what this helper wrote is seen by the caller, who waits for the count. */
  if (atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_acq_rel) == 1) {
    shmt__mutex_lock(&pool_lock);
    pthread_cond_signal(&pool.left);
    shmt__mutex_unlock(&pool_lock);
  }
}

/* Spin until *word is no longer `value`, or until it is better to sleep: after so many nanoseconds, the first `late_ns`
 * of which do not count while somebody owns a job. */
static void spin_while(atomic_uint_least32_t* word, uint_least32_t value, uint64_t limit_ns, uint64_t late_ns) {
  uint64_t now = shmt__os_now_ns(), before = now, since = now;
  const uint64_t begin = now;

  while (now - since < limit_ns && now - before < PREEMPTED_NS) {
    for (int i = 0; i < PAUSES; i++) {
      if (atomic_load_explicit(word, memory_order_acquire) != value) return;
      shmt__os_pause();
    }
    before = now;
    now = shmt__os_now_ns();
    /* relaxed: a hint. */
    if (now - begin < late_ns && atomic_load_explicit(&pool.busy, memory_order_relaxed)) since = now;
  }
}

static void* helper_main(void* arg) {
  shmt__os_thread_name("shmtensor-loops");
  uint_least32_t seen = (uint_least32_t)(uintptr_t)arg;
  uint64_t late_ns = SPIN_NS;

  for (;;) {
    spin_while(&pool.epoch, seen, SPIN_NS, late_ns);
    if (atomic_load_explicit(&pool.epoch, memory_order_acquire) == seen) {
      shmt__mutex_lock(&pool_lock);
      atomic_fetch_sub_explicit(&pool.awake, 1, memory_order_relaxed); /* relaxed: under the lock, or a hint */
      while (atomic_load_explicit(&pool.epoch, memory_order_acquire) == seen)
        pthread_cond_wait(&pool.work, &pool_lock.mutex);
      atomic_fetch_add_explicit(&pool.awake, 1, memory_order_relaxed);
      shmt__mutex_unlock(&pool_lock);
    }
    seen = atomic_load_explicit(&pool.epoch, memory_order_acquire);
    leave_owner_alone();
    help(&late_ns);
  }
  return NULL;
}

/* Called with pool_lock held. If a thread cannot be started, the pool has one less. */
static void start_helpers_locked(int wanted) {
  sigset_t all, old;
  pthread_attr_t attr;

  if (pool.started >= wanted) return;
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

static void wait_for_helpers(uint64_t late_ns) {
  /* release: nobody enters behind this; acquire: see what those who left have written. */
  uint_least32_t gate =
      atomic_fetch_and_explicit(&pool.gate, ~(uint_least32_t)OPEN, memory_order_acq_rel);

  while ((gate &= OPEN - 1)) {
    spin_while(&pool.gate, gate, late_ns, 0);
    const uint_least32_t now = atomic_load_explicit(&pool.gate, memory_order_acquire);
    if (now == gate) break;
    gate = now;
  }
  if (!gate) return;
  shmt__mutex_lock(&pool_lock);
  while (atomic_load_explicit(&pool.gate, memory_order_acquire) != 0)
    pthread_cond_wait(&pool.left, &pool_lock.mutex);
  shmt__mutex_unlock(&pool_lock);
}

/* Wake the helpers that sleep and start those that are missing. */
static void call_helpers(int wanted) {
  shmt__mutex_lock(&pool_lock);
  start_helpers_locked(wanted);
  /* relaxed: under the lock. */
  const bool any = atomic_load_explicit(&pool.awake, memory_order_relaxed) < pool.started;
  shmt__mutex_unlock(&pool_lock);
  if (any) pthread_cond_broadcast(&pool.work); /* unlocked first: a woken helper needs the lock */
}

/* Publish the job to the helpers that are awake; true when they are enough. */
static bool publish(int wanted) {
  shmt__mutex_lock(&pool_lock);
  atomic_fetch_add_explicit(&pool.epoch, 1, memory_order_release);
  /* relaxed: under the lock. */
  const bool awake = atomic_load_explicit(&pool.awake, memory_order_relaxed) >= wanted;
  shmt__mutex_unlock(&pool_lock);
  return awake;
}

/* When helpers sleep, the caller does a piece first, if that is little of the work, and then knows whether waking
 * them pays. It also wakes them when such a job follows another one soon, so that a loop over small jobs has them
 * awake. */
static void begin_inline(const pool_job* job, int64_t pieces, int wanted) {
  const uint64_t begin = shmt__os_now_ns();
  uint64_t now = begin;

  if (pieces >= ENOUGH_PIECES && begin - pool.alone_ns >= SPIN_NS) {
    (void)take_piece(job, FRONT);
    now = shmt__os_now_ns();
    if ((now - begin) * (uint64_t)(pieces - 1) < WORTH_WAKING_NS) {
      while (take_piece(job, FRONT)) continue;
      pool.alone_ns = shmt__os_now_ns();
      return;
    }
  }
  call_helpers(wanted);
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
  const int64_t piece = (n + pieces - 1) / pieces;
  pieces = (n + piece - 1) / piece;
  const pool_job job = {fn, ctx, n, piece, pieces, shmt__os_float_mode()};
  const int wanted = (int)(pieces < threads ? pieces : threads) - 1;
  pool.job = job;
  atomic_store_explicit(&pool.taken, 0, memory_order_relaxed);
  atomic_store_explicit(&pool.helpers_wanted, wanted, memory_order_relaxed);
  atomic_store_explicit(&pool.owner_cpu, shmt__os_current_cpu(), memory_order_relaxed); /* relaxed: a hint */
  /* release: helpers that see the gate open see the job. */
  atomic_store_explicit(&pool.gate, OPEN, memory_order_release);
  if (!publish(wanted)) begin_inline(&job, pieces, threads - 1);
  wait_for_helpers(take_pieces(&job, FRONT));
  /* release: the next owner may overwrite the job. */
  atomic_store_explicit(&pool.busy, false, memory_order_release);
}
