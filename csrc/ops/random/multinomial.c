/* ops/random/multinomial.c -- multinomial. */
#include "base/overflow.h"
#include "generated/impls.h"
#include "generated/operator_loops.h"
#include "iter/blocks.h"
#include "ops/check.h"
#include "ops/outputs.h"
#include "ops/random/generator.h"
#include "storage/allocator.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
  WEIGHTS_OF_BLOCK = 128, /* weights that are summed together */
  FEW_SAMPLES = 16,       /* with fewer samples than 1 / FEW_SAMPLES of the weights only blocks are summed beforehand */
};

/* Draws k of n with replacement: indices into the cumulative sum, which overwrites the weights. */
static void draw_with(double* running, int64_t n, int64_t* out, int64_t k, shmt_generator* g) {
  double* const p = running; /* the weights; each is read before the sum up to it is written */
  double sum = 0;
  int64_t i = 0;

  for (; i + 4 <= n; i += 4) { /* only one addition of four waits for the sum before */
    const double two = p[i] + p[i + 1], three = two + p[i + 2], four = two + (p[i + 2] + p[i + 3]);
    running[i] = sum + p[i];
    running[i + 1] = sum + two;
    running[i + 2] = sum + three;
    running[i + 3] = sum += four;
  }
  for (; i < n; i++) running[i] = sum += p[i];
  for (int64_t s = 0; s < k; s++) {
    const double u = shmt__generator_uniform(g);
    int64_t low = 0, high = n;
    while (high - low > 0) {
      const int64_t middle = low + (high - low) / 2;
      if (middle < n - 1 && running[middle] / sum < u)
        low = middle + 1;
      else
        high = middle;
    }
    /* Never returns an element of weight 0, where the cumulative sum does not grow. */
    while (low > 0 && running[low] == running[low - 1]) low--;
    out[s] = low;
  }
}

/* One draw, and draws without replacement, look at all weights at once; the others name the first that is bad. */
static shmt_status check_each(const double* p, int64_t n, bool replacement) {
  int64_t i = 0;

  while (i < n && p[i] >= 0 && p[i] <= DBL_MAX) i++;
  SHMT_REQUIRE(i == n || replacement, SHMT_E_RUNTIME,
               "probability tensor contains either `inf`, `nan` or element < 0");
  SHMT_REQUIRE(i == n || p[i] >= 0, SHMT_E_RUNTIME,
               "invalid multinomial distribution (encountering probability entry < 0)");
  SHMT_REQUIRE(i == n, SHMT_E_RUNTIME,
               "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  return SHMT_OK;
}

static shmt_status check_weights(const double* p, int64_t n, bool replacement) {
  double most = 0;

  SHMT_TRY(check_each(p, n, replacement));
  for (int64_t i = 0; i < n; i++) most = p[i] > most ? p[i] : most;
  SHMT_REQUIRE(most > 0, SHMT_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
  return SHMT_OK;
}

/* Weights of a row, which are read a block at a time. */
typedef struct weights {
  const char* data;
  int64_t stride, n; /* bytes; weights */
  shmt__cast_loop_fn cast;
} weights;

static int64_t load_block(const weights* w, int64_t block, double* p) {
  const int64_t begin = block * WEIGHTS_OF_BLOCK, n = w->n - begin < WEIGHTS_OF_BLOCK ? w->n - begin : WEIGHTS_OF_BLOCK;

  w->cast((char*)p, sizeof *p, w->data + begin * w->stride, w->stride, n);
  return n;
}

/* The cumulative sum at the end of every block. Errors: negative, infinite or NaN weights. */
static shmt_status sum_blocks(const weights* w, double* running) {
  double p[WEIGHTS_OF_BLOCK], total = 0;

  for (int64_t b = 0; b * WEIGHTS_OF_BLOCK < w->n; b++) {
    const int64_t n = load_block(w, b, p);
    double sum[8] = {0};
    uint64_t signs = 0;
    for (int64_t i = n; i < WEIGHTS_OF_BLOCK; i++) p[i] = 0;
    for (int64_t i = 0; i < WEIGHTS_OF_BLOCK; i += 8)
      for (int k = 0; k < 8; k++) sum[k] += p[i + k];
    for (int64_t i = 0; i < WEIGHTS_OF_BLOCK; i++) {
      uint64_t bits;
      memcpy(&bits, &p[i], sizeof bits);
      signs |= bits;
    }
    const double all = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
    /* An infinity or a NaN shows in the sum, a negative weight in the signs. */
    if (!(all <= DBL_MAX) || signs >> 63) SHMT_TRY(check_each(p, n, true));
    running[b] = total += all;
  }
  SHMT_REQUIRE(total > 0, SHMT_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
  return SHMT_OK;
}

/* The index in a block at which the cumulative sum, from `sum` on, reaches target. Otherwise the last element that has
 * weight, or -1 when none has. */
static int64_t find_in_block(const weights* w, int64_t block, double sum, double target) {
  double p[WEIGHTS_OF_BLOCK];
  const int64_t n = load_block(w, block, p);
  int64_t found = -1;

  for (int64_t i = 0; i < n; i++) {
    if (p[i] == 0) continue;
    found = block * WEIGHTS_OF_BLOCK + i;
    sum += p[i];
    if (sum >= target) break;
  }
  return found;
}

/* Draws few of many with replacement: only the blocks are summed beforehand. */
static void draw_sparsely(const weights* w, const double* running, int64_t* out, int64_t k, shmt_generator* g) {
  const int64_t n_blocks = (w->n + WEIGHTS_OF_BLOCK - 1) / WEIGHTS_OF_BLOCK;

  for (int64_t s = 0; s < k; s++) {
    const double target = shmt__generator_uniform(g) * running[n_blocks - 1];
    int64_t low = 0, high = n_blocks - 1;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (running[middle] < target)
        low = middle + 1;
      else
        high = middle;
    }
    int64_t found = find_in_block(w, low, low ? running[low - 1] : 0, target);
    /* Skips blocks without weight, where the cumulative sum does not grow. */
    for (int64_t b = low + 1; found < 0 && b < n_blocks; b++) found = find_in_block(w, b, target, target);
    out[s] = found;
  }
}

static shmt_status draw_rows_sparsely(shmt_tensor* self, int64_t rows, int64_t k, shmt_generator* generator,
                                      int64_t* out) {
  const int64_t item = shmt__tensor_item_bytes(self), last = self->n_dims - 1;
  weights w = {shmt__tensor_data(self), shmt__wrap_mul_i64(self->strides[last], item), self->sizes[last],
               shmt__cast_loop(SHMT_FLOAT64, self->dtype)};
  const int64_t n_blocks = (w.n + WEIGHTS_OF_BLOCK - 1) / WEIGHTS_OF_BLOCK;
  const int64_t row_step = self->n_dims == 2 ? shmt__wrap_mul_i64(self->strides[0], item) : 0;
  const uint64_t nbytes = (uint64_t)(rows * n_blocks) * sizeof(double);
  shmt_status status = SHMT_OK;
  void* memory = NULL;

  SHMT_TRY(shmt__alloc(nbytes, &memory));
  double* running = memory;
  for (int64_t r = 0; status == SHMT_OK && r < rows; r++) {
    status = sum_blocks(&w, running + r * n_blocks);
    w.data += row_step;
  }
  if (status == SHMT_OK) {
    w.data = shmt__tensor_data(self);
    generator = shmt__generator_lock(generator);
    for (int64_t r = 0; r < rows; r++, out += k, w.data += row_step)
      draw_sparsely(&w, running + r * n_blocks, out, k, generator);
    shmt__generator_unlock(generator);
  }
  shmt__dealloc(memory, nbytes);
  return status;
}

typedef struct race {
  double time;
  int64_t index;
} race;

/* Puts r at position `at` of the heap of the k best, or below it. The heap's first element is the last to arrive. */
static void settle(race* best, int64_t k, int64_t at, race r) {
  for (int64_t next; (next = 2 * at + 1) < k; at = next) {
    next += next + 1 < k && best[next + 1].time > best[next].time;
    if (!(best[next].time > r.time)) break;
    best[at] = best[next];
  }
  best[at] = r;
}

/* Draws k of n without replacement: each element waits for an exponential time with rate p, and the first k win. */
static void draw_without(const double* p, int64_t n, race* best, int64_t* out, int64_t k, shmt_generator* g) {
  const int64_t strides[2] = {sizeof(double), sizeof(double)};
  double waits[WEIGHTS_OF_BLOCK]; /* negative */

  for (int64_t i = 0; i < n; i++) {
    const int64_t at = i % WEIGHTS_OF_BLOCK;
    if (at == 0) {
      const int64_t width = n - i < WEIGHTS_OF_BLOCK ? n - i : WEIGHTS_OF_BLOCK;
      for (int64_t j = 0; j < width; j++) waits[j] = -shmt__generator_uniform(g);
      shmt__loops[SHMT_LOOP_log1p][SHMT_FLOAT64]((char*[]){(char*)waits, (char*)waits}, strides, width, NULL);
    }
    const race r = {p[i] > 0 ? -waits[at] / p[i] : INFINITY, i};
    if (i < k)
      best[i] = r;
    else if (r.time < best[0].time)
      settle(best, k, 0, r);
    for (int64_t next = k / 2 - 1; i == k - 1 && next >= 0; next--) settle(best, k, next, best[next]);
  }
  for (int64_t s = k - 1; s > 0; s--) { /* take the last to arrive, and the one that replaces it in the heap */
    out[s] = best[0].index;
    settle(best, s, 0, best[s]);
  }
  out[0] = best[0].index;
}

/* Draws for one row after the other, each converted to double. All rows are checked before the first number is
 * drawn. */
static shmt_status draw_rows(shmt_tensor* self, int64_t rows, int64_t k, bool replacement, shmt_generator* generator,
                             int64_t* out) {
  const int64_t n = self->sizes[self->n_dims - 1];
  const uint64_t weights_bytes = (uint64_t)n * sizeof(double);
  const uint64_t nbytes = weights_bytes + (replacement ? 0 : (uint64_t)k * sizeof(race));
  shmt_status status = SHMT_OK;
  shmt__blocks all;
  void* memory = NULL;

  shmt__blocks_init(&all, self, SHMT_FLOAT64);
  all.is_dense = false; /* not dense: sums overwrite what is read, so it must be a copy */
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  race* const best = (race*)(void*)((char*)memory + weights_bytes);
  for (int64_t r = 0; r < rows && status == SHMT_OK; r++)
    status = check_weights(shmt__blocks_read(&all, r * n, n, memory), n, replacement);
  if (status == SHMT_OK) {
    generator = shmt__generator_lock(generator);
    for (int64_t r = 0; r < rows; r++, out += k) {
      if (rows > 1) (void)shmt__blocks_read(&all, r * n, n, memory);
      if (replacement)
        draw_with(memory, n, out, k, generator);
      else
        draw_without(memory, n, best, out, k, generator);
    }
    shmt__generator_unlock(generator);
  }
  shmt__dealloc(memory, nbytes);
  return status;
}

shmt_status shmt__multinomial(shmt_tensor* self, int64_t num_samples, bool replacement, shmt_generator* generator,
                              shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_REQUIRE(self->n_dims == 1 || self->n_dims == 2, SHMT_E_RUNTIME, "prob_dist must be 1 or 2 dim");
  SHMT_REQUIRE(shmt__is_floating(self->dtype), SHMT_E_RUNTIME,
               "multinomial only supports floating-point dtypes for input, got: %s", shmt__dtype_title(self->dtype));
  SHMT_REQUIRE(!*out || (*out)->dtype == SHMT_INT64, SHMT_E_RUNTIME, "multinomial expects Long tensor out, got: %s",
               shmt__dtype_title((*out)->dtype));
  SHMT_REQUIRE(num_samples > 0, SHMT_E_RUNTIME, "cannot sample n_sample <= 0 samples");
  const int64_t n = self->sizes[self->n_dims - 1], rows = self->n_dims == 2 ? self->sizes[0] : 1;
  SHMT_REQUIRE(replacement || num_samples <= n, SHMT_E_RUNTIME,
               "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  SHMT_REQUIRE(n > 0 || rows == 0, SHMT_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
  const shmt_ints sizes = self->n_dims == 2 ? SHMT_INTS(rows, num_samples) : SHMT_INTS(num_samples);
  SHMT_TRY(shmt__tensor_empty(sizes, SHMT_INT64, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(self) && rows > 0) {
    int64_t* const to = shmt__tensor_data(result);
    if (replacement && num_samples > 1 && num_samples < n / FEW_SAMPLES)
      SHMT_TRY(draw_rows_sparsely(self, rows, num_samples, generator, to));
    else
      SHMT_TRY(draw_rows(self, rows, num_samples, replacement && num_samples > 1, generator, to));
  }
  if (*out) return shmt__write_out("multinomial", result, *out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
