/* ops/random/generator.c -- MT19937: seeds, words, normal pairs, and torch's layout of a saved state. */
#include "ops/random/generator.h"

#include "generated/loops.h"
#include "os/mutex.h"
#include "storage/allocator.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

struct shmt_generator {
  atomic_int_least32_t refs;
  shmt__mutex lock;
  uint64_t seed;
  int32_t left;  /* words before the next twist, plus one */
  uint32_t next; /* the next word to hand out */
  bool has_normal;
  double normal; /* the second number of a pair */
  uint32_t state[SHMT_MT_WORDS];
};

/* The seed that torch uses when nobody sets one. */
static const uint64_t default_seed = 67280421310721u;

static shmt_generator the_default = {.refs = 1};

static void seed_unlocked(shmt_generator* g, uint64_t seed) {
  g->seed = seed;
  g->state[0] = (uint32_t)seed;
  for (uint32_t i = 1; i < SHMT_MT_WORDS; i++)
    g->state[i] = 1812433253u * (g->state[i - 1] ^ (g->state[i - 1] >> 30)) + i;
  g->left = 1;
  g->next = 0;
  g->has_normal = false;
}

__attribute__((constructor)) static void init_default(void) {
  seed_unlocked(&the_default, default_seed);
  shmt__mutex_init(&the_default.lock, SHMT_MUTEX_GENERATOR);
}

shmt_generator* shmt_generator_default(void) { return &the_default; }

shmt_status shmt_generator_create(shmt_generator** out) {
  void* memory;

  SHMT_TRY(shmt__alloc(sizeof **out, &memory));
  shmt_generator* g = memory;
  memset(g, 0, sizeof *g);
  atomic_init(&g->refs, 1);
  shmt__mutex_init(&g->lock, SHMT_MUTEX_GENERATOR);
  seed_unlocked(g, default_seed);
  *out = g;
  return SHMT_OK;
}

void shmt_generator_retain(shmt_generator* g) { atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed); }

void shmt_generator_release(shmt_generator* g) {
  /* acq_rel: every earlier draw happens before the free. */
  if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1 || g == &the_default) return;
  shmt__mutex_destroy(&g->lock);
  shmt__dealloc(g, sizeof *g);
}

shmt_generator* shmt__generator_lock(shmt_generator* g) {
  if (!g) g = shmt_generator_default();
  shmt__mutex_lock(&g->lock);
  return g;
}

void shmt__generator_unlock(shmt_generator* g) { shmt__mutex_unlock(&g->lock); }

/* --- words --------------------------------------------------------------------------- */

static void twist(shmt_generator* g) {
  char* data[1] = {(char*)g->state};

  shmt__loops[SHMT_LOOP_mt_twist][SHMT_UINT32](data, NULL, SHMT_MT_WORDS, NULL);
  g->left = SHMT_MT_WORDS;
  g->next = 0;
}

static uint32_t temper(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

uint32_t shmt__generator_word(shmt_generator* g) {
  if (--g->left == 0) twist(g);
  return temper(g->state[g->next++]);
}

uint64_t shmt__generator_word64(shmt_generator* g) {
  const uint64_t high = shmt__generator_word(g);

  return high << 32 | shmt__generator_word(g);
}

void shmt__generator_words(shmt_generator* g, uint32_t* out, int64_t n) {
  while (n > 0) {
    if (g->left == 1) {
      twist(g);
      /* As after shmt__generator_word() twisted: `left` counts the word about to be taken. */
      g->left++;
    }
    const int64_t have = g->left - 1, count = n < have ? n : have;
    char* data[2] = {(char*)out, (char*)(g->state + g->next)};
    shmt__loops[SHMT_LOOP_mt_temper][SHMT_UINT32](data, NULL, count, NULL);
    g->left -= (int32_t)count;
    g->next += (uint32_t)count;
    out += count;
    n -= count;
  }
}

double shmt__generator_uniform(shmt_generator* g) {
  return (double)(shmt__generator_word64(g) & ((1ull << 53) - 1)) * 0x1p-53;
}

double shmt__generator_normal(shmt_generator* g) {
  if (g->has_normal) {
    g->has_normal = false;
    return g->normal;
  }
  const double u1 = shmt__generator_uniform(g), u2 = shmt__generator_uniform(g);
  const double radius = sqrt(-2 * log1p(-u2)), theta = 2 * M_PI * u1;
  g->normal = radius * sin(theta);
  g->has_normal = true;
  return radius * cos(theta);
}

/* --- seeds and states ------------------------------------------------------------------- */

void shmt_generator_manual_seed(shmt_generator* g, uint64_t seed) {
  g = shmt__generator_lock(g);
  seed_unlocked(g, seed);
  shmt__generator_unlock(g);
}

uint64_t shmt_generator_initial_seed(shmt_generator* g) {
  g = shmt__generator_lock(g);
  const uint64_t seed = g->seed;
  shmt__generator_unlock(g);
  return seed;
}

uint64_t shmt_generator_seed(shmt_generator* g) {
  uint64_t seed = 0;

  if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = (uint64_t)(uintptr_t)&seed * 0x9e3779b97f4a7c15u;
  shmt_generator_manual_seed(g, seed);
  return seed;
}

/* torch's layout: a seed, counters, words as 64-bit numbers, and the normal number that was kept. */
typedef struct saved_state {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t state[SHMT_MT_WORDS];
  double normal_x, normal_y, normal_rho;
  int32_t normal_is_valid;
  int32_t padding;
  float float_normal;
  bool float_normal_is_valid;
  char padding2[3];
} saved_state;
_Static_assert(sizeof(saved_state) == 5056, "the layout of a saved generator state is torch's");

int64_t shmt_generator_state_size(void) { return sizeof(saved_state); }

void shmt_generator_get_state(shmt_generator* g, uint8_t* out) {
  saved_state s;

  memset(&s, 0, sizeof s);
  g = shmt__generator_lock(g);
  s.seed = g->seed;
  s.left = g->left;
  s.seeded = 1;
  s.next = g->next;
  for (int i = 0; i < SHMT_MT_WORDS; i++) s.state[i] = g->state[i];
  if (g->has_normal) {
    s.normal_y = g->normal;
    s.normal_is_valid = 1;
  }
  shmt__generator_unlock(g);
  memcpy(out, &s, sizeof s);
}

shmt_status shmt_generator_set_state(shmt_generator* g, const uint8_t* state, int64_t nbytes) {
  saved_state s;

  SHMT_REQUIRE(nbytes == (int64_t)sizeof s, SHMT_E_RUNTIME,
               "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be %lld",
               (long long)nbytes);
  memcpy(&s, state, sizeof s);
  SHMT_REQUIRE(s.left >= 1 && s.left <= SHMT_MT_WORDS && s.next <= SHMT_MT_WORDS &&
                   (s.left == 1 || s.next + (uint64_t)s.left - 1 <= SHMT_MT_WORDS),
               SHMT_E_RUNTIME, "Invalid mt19937 state: left is %d, next is %llu", s.left, (unsigned long long)s.next);
  g = shmt__generator_lock(g);
  g->seed = s.seed;
  g->left = s.left;
  g->next = (uint32_t)s.next;
  for (int i = 0; i < SHMT_MT_WORDS; i++) g->state[i] = (uint32_t)s.state[i];
  g->has_normal = s.normal_is_valid != 0;
  g->normal = s.normal_y;
  shmt__generator_unlock(g);
  return SHMT_OK;
}

shmt_status shmt_generator_clone(shmt_generator* g, shmt_generator** out) {
  saved_state s;

  SHMT_TRY(shmt_generator_create(out));
  shmt_generator_get_state(g, (uint8_t*)&s);
  return shmt_generator_set_state(*out, (const uint8_t*)&s, sizeof s);
}
