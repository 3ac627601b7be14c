/* ops/random/distributions.c -- exponential_, cauchy_, log_normal_, geometric_, normal with tensors, multinomial,
 * dropout. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/blocks.h"
#include "ops/check.h"
#include "ops/random/generator.h"
#include "ops/outputs.h"
#include "ops/random/random.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  BLOCK = 512,
  SPAN = 128,       /* weights that are summed together */
  FEW_SAMPLES = 16, /* with fewer samples than 1 / FEW_SAMPLES of the weights only blocks are summed beforehand */
};

/* Draws one number from the generator. */
typedef double (*sample_fn)(shmt_generator* g, double a, double b);

static double sample_exponential(shmt_generator* g, double lambda, double unused) {
  (void)unused;
  return -log1p(-shmt__generator_uniform(g)) / lambda;
}
static double sample_cauchy(shmt_generator* g, double median, double sigma) {
  return median + sigma * tan(M_PI * (shmt__generator_uniform(g) - 0.5));
}
static double sample_log_normal(shmt_generator* g, double mean, double std) {
  return exp(shmt__generator_normal(g) * std + mean);
}
static double sample_geometric(shmt_generator* g, double p, double unused) {
  (void)unused;
  return ceil(log(shmt__generator_uniform(g)) / log1p(-p));
}

typedef struct samples {
  shmt_generator* generator; /* locked */
  sample_fn sample;
  double a, b;
  shmt__cast_loop_fn cast; /* from double */
} samples;

static void sample_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const samples* s = ctx;
  double block[BLOCK];

  for (int64_t begin = 0; begin < n; begin += BLOCK) {
    const int64_t count = n - begin < BLOCK ? n - begin : BLOCK;
    for (int64_t i = 0; i < count; i++) block[i] = s->sample(s->generator, s->a, s->b);
    s->cast(data[0] + begin * strides[0], strides[0], (const char*)block, sizeof *block, count);
  }
}

/* Fills t with samples, in memory order as other fills do. */
static shmt_status fill_samples(const char* name, shmt_tensor* t, sample_fn sample, double a, double b,
                                shmt_generator* generator) {
  samples s = {NULL, sample, a, b, shmt__cast_loop(t->dtype, SHMT_FLOAT64)};

  return shmt__random_walk(name, t, sample_run, &s, &s.generator, generator);
}

static shmt_status check_floating(const char* what, const shmt_tensor* t) {
  SHMT_REFUSE_DTYPE(!shmt__is_floating(t->dtype), t->dtype, what);
  return SHMT_OK;
}

shmt_status shmt__exponential_(shmt_tensor* self, double lambd, shmt_generator* generator) {
  SHMT_REQUIRE(!shmt__is_integral(self->dtype) && self->dtype != SHMT_BOOL, SHMT_E_RUNTIME,
               "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
               "you specified %s", shmt__dtype_ctype(self->dtype));
  SHMT_REQUIRE(lambd > 0, SHMT_E_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", lambd);
  SHMT_TRY(check_floating("exponential", self));
  return fill_samples("exponential_", self, sample_exponential, lambd, 0, generator);
}

shmt_status shmt__cauchy_(shmt_tensor* self, double median, double sigma, shmt_generator* generator) {
  SHMT_REQUIRE(sigma > 0, SHMT_E_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
  SHMT_REQUIRE(shmt__is_floating(self->dtype), SHMT_E_RUNTIME,
               "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
               "specified %s", shmt__dtype_ctype(self->dtype));
  return fill_samples("cauchy_", self, sample_cauchy, median, sigma, generator);
}

shmt_status shmt__log_normal_(shmt_tensor* self, double mean, double std, shmt_generator* generator) {
  SHMT_REQUIRE(std > 0, SHMT_E_RUNTIME, "log_normal_ expects std > 0.0, but found std=%g", std);
  SHMT_TRY(check_floating("log_normal_cpu", self));
  return fill_samples("log_normal_", self, sample_log_normal, mean, std, generator);
}

shmt_status shmt__geometric_(shmt_tensor* self, double p, shmt_generator* generator) {
  SHMT_REQUIRE(p > 0 && p < 1, SHMT_E_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", p);
  SHMT_REFUSE_DTYPE(self->dtype == SHMT_BOOL || shmt__is_complex(self->dtype) ||
                        shmt__is_barebones_unsigned(self->dtype), self->dtype, "geometric_cpu");
  return fill_samples("geometric_", self, sample_geometric, p, 0, generator);
}

/* --- normal with tensors ------------------------------------------------------------------- */

/* result = standard normal * std + mean, with the sizes and dtype of like; a preset *out is like. */
static shmt_status normal_around(shmt_ints sizes, shmt_tensor* like, shmt_tensor* mean, double mean_value,
                                 shmt_tensor* std, double std_value, shmt_generator* generator, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  if (*out) {
    like = *out;
    SHMT_REFUSE_DTYPE(shmt__dtype_category(like->dtype) < 2, like->dtype, "normal_kernel_cpu");
  }
  SHMT_REQUIRE(std || std_value >= 0, SHMT_E_RUNTIME, "normal expects std >= 0.0, but found std %g", std_value);
  SHMT_REQUIRE(!std || !shmt__is_complex(std->dtype), SHMT_E_RUNTIME,
               "normal expects standard deviation to be non-complex");
  if (std && !shmt__tensor_is_meta(std) && std->numel > 0) {
    SHMT_AUTO(shmt_tensor) low = NULL;
    shmt_scalar least;
    SHMT_TRY(shmt_op_amin(std, SHMT_INTS_EMPTY, false, &low));
    SHMT_TRY(shmt__tensor_item(low, &least));
    SHMT_REQUIRE(shmt__scalar_to_double(least) >= 0, SHMT_E_RUNTIME, "normal expects all elements of std >= 0.0");
  }
  SHMT_TRY(shmt__tensor_empty(sizes, like->dtype, like->device, SHMT_CONTIGUOUS_FORMAT, &noise));
  SHMT_TRY(shmt__normal_(noise, 0, std ? 1 : std_value, generator));
  if (std && std->dtype == noise->dtype) {
    SHMT_TRY(shmt_op_mul__Tensor(noise, std));
  } else if (std) {
    SHMT_AUTO(shmt_tensor) plain = SHMT_TAKE(noise);
    SHMT_TRY(shmt_op_mul_Tensor(plain, std, &noise));
  }
  if (!mean || mean->dtype == noise->dtype) {
    if (mean)
      SHMT_TRY(shmt_op_add__Tensor(noise, mean, shmt__scalar_int(1)));
    else
      SHMT_TRY(shmt_op_add__Scalar(noise, shmt__scalar_float(mean_value), shmt__scalar_int(1)));
    result = SHMT_TAKE(noise);
  } else {
    SHMT_TRY(shmt_op_add_Tensor(noise, mean, shmt__scalar_int(1), &result));
  }
  if (result->dtype != like->dtype) {
    SHMT_AUTO(shmt_tensor) wide = SHMT_TAKE(result);
    SHMT_TRY(shmt__tensor_cast(wide, like->dtype, &result));
  }
  if (*out) return shmt__write_out("normal", result, *out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__normal_tensor_float(shmt_tensor* mean, double std, shmt_generator* generator, shmt_tensor** out) {
  return normal_around(shmt__tensor_sizes(mean), mean, mean, 0, NULL, std, generator, out);
}

shmt_status shmt__normal_float_tensor(double mean, shmt_tensor* std, shmt_generator* generator, shmt_tensor** out) {
  return normal_around(shmt__tensor_sizes(std), std, NULL, mean, std, 1, generator, out);
}

shmt_status shmt__normal_tensor_tensor(shmt_tensor* mean, shmt_tensor* std, shmt_generator* generator,
                                       shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], n_dims;

  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(mean), shmt__tensor_sizes(std), sizes, &n_dims));
  return normal_around((shmt_ints){sizes, n_dims}, mean, mean, 0, std, 1, generator, out);
}

/* --- multinomial ----------------------------------------------------------------------------- */

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

static shmt_status check_each(const double* p, int64_t n) {
  int good = 1;

  for (int64_t i = 0; i < n; i++) good &= (p[i] >= 0) & (p[i] <= DBL_MAX);
  SHMT_REQUIRE(good, SHMT_E_RUNTIME, "probability tensor contains either `inf`, `nan` or element < 0");
  return SHMT_OK;
}

static shmt_status check_weights(const double* p, int64_t n) {
  double most = 0;

  SHMT_TRY(check_each(p, n));
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
  const int64_t begin = block * SPAN, n = w->n - begin < SPAN ? w->n - begin : SPAN;

  w->cast((char*)p, sizeof *p, w->data + begin * w->stride, w->stride, n);
  return n;
}

/* The cumulative sum at the end of every block. Errors: negative, infinite or NaN weights. */
static shmt_status sum_blocks(const weights* w, double* running) {
  double p[SPAN], total = 0;

  for (int64_t b = 0; b * SPAN < w->n; b++) {
    const int64_t n = load_block(w, b, p);
    double sum[8] = {0};
    uint64_t signs = 0;
    for (int64_t i = n; i < SPAN; i++) p[i] = 0;
    for (int64_t i = 0; i < SPAN; i += 8)
      for (int k = 0; k < 8; k++) sum[k] += p[i + k];
    for (int64_t i = 0; i < SPAN; i++) {
      uint64_t bits;
      memcpy(&bits, &p[i], sizeof bits);
      signs |= bits;
    }
    const double all = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
    /* An infinity or a NaN shows in the sum, a negative weight in the signs. */
    if (!(all <= DBL_MAX) || signs >> 63) SHMT_TRY(check_each(p, n));
    running[b] = total += all;
  }
  SHMT_REQUIRE(total > 0, SHMT_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
  return SHMT_OK;
}

/* The index in a block at which the cumulative sum, from `sum` on, reaches target. Otherwise the last element that has
 * weight, or -1 when none has. */
static int64_t find_in_block(const weights* w, int64_t block, double sum, double target) {
  double p[SPAN];
  const int64_t n = load_block(w, block, p);
  int64_t found = -1;

  for (int64_t i = 0; i < n; i++) {
    if (p[i] == 0) continue;
    found = block * SPAN + i;
    sum += p[i];
    if (sum >= target) break;
  }
  return found;
}

/* Draws few of many with replacement: only the blocks are summed beforehand. */
static void draw_sparsely(const weights* w, const double* running, int64_t* out, int64_t k, shmt_generator* g) {
  const int64_t n_blocks = (w->n + SPAN - 1) / SPAN;

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
  const int64_t n_blocks = (w.n + SPAN - 1) / SPAN;
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
  double waits[SPAN]; /* negative */

  for (int64_t i = 0; i < n; i++) {
    const int64_t at = i % SPAN;
    if (at == 0) {
      const int64_t width = n - i < SPAN ? n - i : SPAN;
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
    status = check_weights(shmt__blocks_read(&all, r * n, n, memory), n);
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
  SHMT_REQUIRE(num_samples > 0, SHMT_E_RUNTIME, "cannot sample n_sample <= 0 samples");
  const int64_t n = self->sizes[self->n_dims - 1], rows = self->n_dims == 2 ? self->sizes[0] : 1;
  SHMT_REQUIRE(replacement || num_samples <= n, SHMT_E_RUNTIME,
               "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  SHMT_REQUIRE(n > 0 || rows == 0, SHMT_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
  const shmt_ints sizes = self->n_dims == 2 ? SHMT_INTS(rows, num_samples) : SHMT_INTS(num_samples);
  SHMT_TRY(shmt__tensor_empty(sizes, SHMT_INT64, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  if (shmt__tensor_is_meta(self) || rows == 0) {
    *out = SHMT_TAKE(result);
    return SHMT_OK;
  }
  int64_t* const to = shmt__tensor_data(result);
  if (replacement && num_samples > 1 && num_samples < n / FEW_SAMPLES)
    SHMT_TRY(draw_rows_sparsely(self, rows, num_samples, generator, to));
  else
    SHMT_TRY(draw_rows(self, rows, num_samples, replacement && num_samples > 1, generator, to));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- dropout ---------------------------------------------------------------------------------- */

/* The factor of elements that are kept, calculated in the precision that the dtype is calculated in. */
static double scale_for(shmt_dtype dtype, double keep) {
  return dtype == SHMT_FLOAT64 ? 1 / keep : (double)(1 / (float)keep);
}

shmt_status shmt__dropout_noise(shmt_tensor* self, double p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;
  const double keep = 1 - p;

  SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &noise));
  if (keep > 0)
    SHMT_TRY(shmt__fill_bernoulli(noise, keep, scale_for(self->dtype, keep), NULL));
  else if (!shmt__tensor_is_meta(noise)) /* nothing is drawn */
    SHMT_TRY(shmt__tensor_fill(noise, shmt__scalar_int(0)));
  *out = SHMT_TAKE(noise);
  return SHMT_OK;
}

static shmt_status check_probability(double p) {
  SHMT_REQUIRE(p >= 0 && p <= 1, SHMT_E_RUNTIME, "dropout probability has to be between 0 and 1, but got %g", p);
  return SHMT_OK;
}

/* Checks that the dtype is floating point: elements that are kept are scaled. */
static shmt_status check_dropout(const shmt_tensor* input, double p, bool train) {
  SHMT_TRY(check_probability(p));
  SHMT_REQUIRE(!train || p == 0 || p == 1 || input->numel == 0 || shmt__is_floating(input->dtype) ||
                   shmt__is_complex(input->dtype),
               SHMT_E_RUNTIME, "result type Float can't be cast to the desired output type %s",
               shmt__dtype_title(input->dtype));
  return SHMT_OK;
}

shmt_status shmt__dropout(shmt_tensor* input, double p, bool train, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;

  SHMT_TRY(check_dropout(input, p, train));
  if (p == 0 || !train || input->numel == 0) {
    *out = shmt__tensor_ref(input);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op__dropout_noise(input, p, &noise));
  return shmt_op_mul_Tensor(input, noise, out);
}

static bool drops(shmt_opt_bool train) { return !train.has || train.value; }

static double scale_of(double p) { return p < 1 ? 1 / (1 - p) : 0; }

shmt_status shmt__native_dropout(shmt_tensor* input, double p, shmt_opt_bool train, shmt_tensor** out,
                                 shmt_tensor** mask) {
  SHMT_AUTO(shmt_tensor) kept = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;

  SHMT_TRY(check_probability(p));
  SHMT_TRY(shmt__tensor_empty_like(input, SHMT_BOOL, &kept));
  if (!drops(train)) {
    SHMT_TRY(shmt_op_clone(input, SHMT_MEMORY_FORMAT_NONE, out));
    if (!shmt__tensor_is_meta(kept)) SHMT_TRY(shmt__tensor_fill(kept, shmt__scalar_int(1)));
  } else {
    SHMT_TRY(shmt__fill_bernoulli(kept, 1 - p, 1, NULL));
    SHMT_TRY(shmt_op_mul_Tensor(input, kept, &product));
    SHMT_TRY(shmt_op_mul__Scalar(product, shmt__scalar_float(scale_of(p))));
    *out = SHMT_TAKE(product);
  }
  *mask = SHMT_TAKE(kept);
  return SHMT_OK;
}

shmt_status shmt__native_dropout_backward(shmt_tensor* grad, shmt_tensor* mask, double p, shmt_opt_bool train,
                                          shmt_tensor** out) {
  return shmt_op_native_dropout_backward(grad, mask, drops(train) ? scale_of(p) : 1, out);
}

shmt_status shmt__dropout_(shmt_tensor* self, double p, bool train) {
  SHMT_AUTO(shmt_tensor) noise = NULL;

  SHMT_TRY(check_dropout(self, p, train));
  if (p == 0 || !train || self->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt_op__dropout_noise(self, p, &noise));
  return shmt_op_mul__Tensor(self, noise);
}

/* Noise that drops whole channels: one number for each (sample, channel). */
static shmt_status feature_noise(shmt_tensor* input, double p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) like = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(input->n_dims >= 2, SHMT_E_RUNTIME,
               "Feature dropout requires at least 2 dimensions in the input");
  for (int d = 0; d < input->n_dims; d++) sizes[d] = d < 2 ? input->sizes[d] : 1;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, input->n_dims}, input->dtype, input->device, SHMT_CONTIGUOUS_FORMAT,
                              &like));
  return shmt_op__dropout_noise(like, p, out);
}

shmt_status shmt__feature_dropout(shmt_tensor* input, double p, bool train, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;

  SHMT_TRY(check_dropout(input, p, train));
  if (p == 0 || !train || input->numel == 0) {
    *out = shmt__tensor_ref(input);
    return SHMT_OK;
  }
  SHMT_TRY(feature_noise(input, p, &noise));
  return shmt_op_mul_Tensor(input, noise, out);
}

shmt_status shmt__feature_dropout_(shmt_tensor* self, double p, bool train) {
  SHMT_AUTO(shmt_tensor) noise = NULL;

  SHMT_TRY(check_dropout(self, p, train));
  if (p == 0 || !train || self->numel == 0) return SHMT_OK;
  SHMT_TRY(feature_noise(self, p, &noise));
  return shmt_op_mul__Tensor(self, noise);
}
