/* ops/fft/plan_cache.c -- the cache of plans that were used last. See Note [Plans of Fourier transforms] in
 * ops/fft/plan.h. */
#include "ops/fft/plan.h"

#include "os/mutex.h"

enum { PLANS = 48, MAX_BYTES = 32 << 20 };

static struct {
  shmt__fft_plan* plans[PLANS]; /* the last used one first; NULL behind the last */
  uint64_t nbytes;
} cache; /* under the lock */
SHMT_STATIC_MUTEX(lock, SHMT_MUTEX_FFT_PLANS)

static bool same_key(const shmt__fft_key* a, const shmt__fft_key* b) {
  return a->length == b->length && a->dtype == b->dtype && a->signals == b->signals &&
         a->has_real_twiddles == b->has_real_twiddles && a->is_strided == b->is_strided &&
         a->is_interleaved == b->is_interleaved;
}

/* Moves a plan to the front, before the first `at` plans. */
static void move_to_front_locked(shmt__fft_plan* plan, int at) {
  for (; at > 0; at--) cache.plans[at] = cache.plans[at - 1];
  cache.plans[0] = plan;
}

/* Returns a new reference to the cached plan, or NULL. */
static shmt__fft_plan* find_cached(const shmt__fft_key* key) {
  shmt__fft_plan* found = NULL;

  shmt__mutex_lock(&lock);
  for (int i = 0; i < PLANS && cache.plans[i] && !found; i++)
    if (same_key(&cache.plans[i]->key, key)) {
      found = cache.plans[i];
      /* relaxed: the list holds a reference, and the lock has published the plan. */
      atomic_fetch_add_explicit(&found->refs, 1, memory_order_relaxed);
      move_to_front_locked(found, i);
    }
  shmt__mutex_unlock(&lock);
  return found;
}

/* Adds a plan to the cache and drops those used longest ago. Two threads may have made the same plan: both are right,
 * and the one that is not found again grows old. */
static void add_to_cache(shmt__fft_plan* plan) {
  shmt__fft_plan* gone[PLANS];
  int n = 0, n_gone = 0;

  if (plan->nbytes > MAX_BYTES) return;
  atomic_fetch_add_explicit(&plan->refs, 1, memory_order_relaxed);
  shmt__mutex_lock(&lock);
  while (n < PLANS && cache.plans[n]) n++;
  while (n == PLANS || (n > 0 && cache.nbytes + plan->nbytes > MAX_BYTES)) {
    gone[n_gone] = cache.plans[--n];
    cache.plans[n] = NULL;
    cache.nbytes -= gone[n_gone++]->nbytes;
  }
  move_to_front_locked(plan, n);
  cache.nbytes += plan->nbytes;
  shmt__mutex_unlock(&lock);
  while (n_gone > 0) shmt__fft_plan_release(gone[--n_gone]);
}

shmt_status shmt__fft_plan_find(shmt__fft_key key, shmt__fft_plan** out) {
  const int64_t lanes = shmt__fft_lanes(key.dtype) / (key.is_interleaved ? 2 : 1);

  if (key.signals > lanes) key.signals = (int)lanes;
  shmt__fft_plan* plan = find_cached(&key);
  if (plan == NULL) {
    SHMT_TRY(shmt__fft_plan_create(key, &plan));
    add_to_cache(plan);
  }
  *out = plan;
  return SHMT_OK;
}
