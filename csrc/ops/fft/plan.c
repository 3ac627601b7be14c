/* ops/fft/plan.c -- makes plans of Fourier transforms: factors, costs, the choice of an algorithm, tables. */
#include "ops/fft/plan.h"

#include "generated/dtype_tables.h"
#include "generated/loops.h"
#include "ops/fft/roots_of_unity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Costs in clocks, for a vector of elements unless said otherwise. */
enum {
  TRANSPOSED = 20, /* load from dense signals and store back, with real and imaginary parts apart */
  MOVED = 16,      /* the same, with the parts interleaved as in memory */
  ONE_BY_ONE = 80, /* load and store number by number */
  IN_COLUMNS = 6,  /* load from columns */
  BETWEEN = 12,    /* between the columns and the rows of a matrix */
  PER_SIGNAL = 300, /* to begin with a signal */
  GATHERED = 6,     /* for one element of a signal that is gathered by itself */
  IMPOSSIBLE = 1 << 30,
};
enum {
  SMALL_BYTES = 128 << 10, /* scratch of a signal's columns and rows that is always allowed */
  NEAR_BYTES = 32 << 10,   /* a block's scratch up to this size stays in the first-level cache */
  FAR_BYTES = 768 << 10,   /* and up to this size in the second-level cache */
};

/* The clocks that a step of radix p takes for one element. */
static double radix_cost(int64_t p) {
  static const double own[17] = {[2] = 5, [3] = 6, [4] = 6, [5] = 8, [7] = 11, [8] = 9, [9] = 12, [16] = 13};
  return p <= 16 && own[p] > 0 ? own[p] : 7 + 1.1 * (double)p;
}

/* Factors n, in the order of the steps. Returns how many factors there are; *cost: the clocks of the steps for one
 * element. Returns 0 when a factor is too large (or n is 1). */
static int factorize(int64_t n, int64_t* factors, double* cost) {
  static const int64_t small[] = {9, 5, 7, 3};
  /* The factors of 2^0, 2^1, ... that are left after the steps of radix 16. */
  static const int64_t twos[][3] = {{1}, {2}, {4}, {8}, {16}, {8, 4}, {8, 8}, {16, 8}};
  int count = 0, power = 0;

  *cost = 0;
  for (; n % 2 == 0; n /= 2) power++;
  for (; power > 7; power -= 4) factors[count++] = 16;
  for (int i = 0; i < 3 && twos[power][i] > 1; i++) factors[count++] = twos[power][i];
  for (size_t i = 0; i < sizeof small / sizeof *small; i++)
    while (n % small[i] == 0 && count < SHMT_FFT_STEPS) factors[count++] = small[i], n /= small[i];
  for (int64_t p = 11; n > 1 && p <= SHMT_FFT_RADIX; p += 2)
    while (n % p == 0 && count < SHMT_FFT_STEPS) factors[count++] = p, n /= p;
  if (n > 1) *cost = IMPOSSIBLE;
  for (int i = 0; i < count; i++) *cost += radix_cost(factors[i]);
  return n == 1 ? count : 0;
}

/* The clocks of all steps for one element of `vectors` vectors. They grow where a block of n elements leaves the
 * cache. */
static double element_cost(int64_t n, double extra, int vectors) {
  int64_t factors[SHMT_FFT_STEPS];
  const double share = vectors / 2.0, bytes = 2.0 * (double)n * share * (double)shmt__fft_element_bytes();
  double cost;

  factorize(n, factors, &cost);
  return share * (cost + extra) * (bytes > FAR_BYTES ? 2.2 : bytes > NEAR_BYTES ? 1.3 : 1);
}

static double ceil_div(int64_t n, int64_t by) { return (double)((n + by - 1) / by); }

/* Bytes of a signal of n elements. */
static int64_t signal_bytes(int64_t n, int64_t lanes) { return n * (shmt__fft_element_bytes() / lanes); }

/* The clocks of a four-step transform with n1 rows and n2 columns. Columns are stored to as many addresses as there are
 * lanes, and rows are read from as many as they have elements: where the signal leaves the cache, short rows are
 * better. */
static double matrix_cost(int64_t n1, int64_t n2, int64_t lanes) {
  const double far = n1 <= n2 && signal_bytes(n1 * n2, lanes) > FAR_BYTES ? 1.05 : 1;
  return PER_SIGNAL + far * (ceil_div(n2, lanes) * (double)n1 * element_cost(n1, IN_COLUMNS + BETWEEN, 2) +
                             ceil_div(n1, lanes) * (double)n2 * element_cost(n2, IN_COLUMNS, 2));
}

/* Is the scratch of a matrix at most a byte an element? It grows with the length of columns and rows. */
static bool is_compact(int64_t n1, int64_t n2) {
  const int64_t bytes = 2 * (n1 > n2 ? n1 : n2) * shmt__fft_element_bytes();
  return bytes <= SMALL_BYTES || bytes <= n1 * n2;
}

/* Finds the best matrix of n elements. Returns the length of its columns; *cost: the clocks for a signal. */
static int64_t find_matrix(int64_t n, int64_t lanes, double* cost) {
  int64_t best = 1;

  *cost = is_compact(1, n) ? matrix_cost(1, n, lanes) : INFINITY;
  for (int64_t a = 2; a <= n / a; a++) {
    /* Where no matrix is compact, the first one is taken. */
    if (n % a != 0 || (!is_compact(a, n / a) && *cost < INFINITY)) continue;
    const double wide = matrix_cost(a, n / a, lanes), high = matrix_cost(n / a, a, lanes);
    if (wide < *cost) best = a, *cost = wide;
    if (high < *cost) best = n / a, *cost = high;
  }
  return best;
}

/* Can a signal of n elements stay in registers? Then *s gets its matrix. */
static bool find_short(int64_t n, int64_t lanes, shmt__fft_short* s) {
  if (n < 16 || n > SHMT_FFT_SHORT_LENGTH || (n & (n - 1)) != 0) return false;
  s->rows = n < 64 ? 4 : n < 256 ? 8 : 16;
  s->columns = n / s->rows;
  s->run = s->rows < lanes / 2 ? s->rows : lanes / 2;
  return true;
}

static bool is_smooth(int64_t n) {
  for (int64_t p = 2; p <= 7; p++)
    while (n % p == 0) n /= p;
  return n == 1;
}

/* Finds the best matrix, n1 by n2, for a convolution that needs at least n elements. Returns its clocks. */
static double find_convolution(int64_t n, int64_t lanes, int64_t* n1, int64_t* n2) {
  double best = INFINITY;

  for (int64_t a = 1; a == 1 || a * a * lanes * lanes <= 4 * n; a++) {
    int64_t b = (n + a * lanes * lanes - 1) / (a * lanes * lanes);
    if (!is_smooth(a)) continue;
    while (!is_smooth(b)) b++;
    const double cost = matrix_cost(a * lanes, b * lanes, lanes);
    if (cost < best) best = cost, *n1 = a * lanes, *n2 = b * lanes;
  }
  /* Two transforms and three products. */
  return 2 * best + 3 * (double)(*n1 * *n2) / (double)lanes * 8;
}

/* --- tables ------------------------------------------------------------------------------------- */

static void steps_init(shmt__fft_steps* s, int64_t n) {
  int64_t factors[SHMT_FFT_STEPS], done = 1;
  double cost;

  s->length = n;
  s->n_steps = factorize(n, factors, &cost);
  for (int i = 0; i < s->n_steps; i++) {
    done *= factors[i];
    s->step[i] = (shmt__fft_step){.radix = factors[i], .m = n / done, .s = done / factors[i]};
  }
}

static int64_t steps_elements(const shmt__fft_steps* s) {
  int64_t n = 0;

  for (int i = 0; i < s->n_steps; i++) n += s->step[i].m * (s->step[i].radix - 1) + s->step[i].radix;
  return n;
}

/* Fills the tables of the steps, which begin at *at; *at moves on behind them. */
static shmt_status steps_fill(shmt__fft_steps* s, shmt_dtype dtype, char** at) {
  SHMT_AUTO(shmt__fft_roots) roots = NULL;
  const int64_t item = shmt__dtype_size[dtype];

  SHMT_TRY(shmt__fft_roots_create(s->length, &roots));
  for (int i = 0; i < s->n_steps; i++) {
    shmt__fft_step* step = &s->step[i];
    step->twiddles = *at;
    for (int64_t j = 0; j < step->m; j++)
      for (int64_t t = 1; t < step->radix; t++, *at += item) shmt__fft_root_put(roots, j * t * step->s, dtype, *at);
    step->roots = *at;
    for (int64_t k = 0; k < step->radix; k++, *at += item)
      shmt__fft_root_put(roots, k * (s->length / step->radix), dtype, *at);
  }
  return SHMT_OK;
}

/* How many elements (of all lanes) the table of twiddle factors between columns and rows has. */
static int64_t four_step_elements(const shmt__fft_four_step* s, int64_t lanes) {
  return s->columns.length * ((s->rows.length + lanes - 1) / lanes);
}

static shmt_status four_step_fill(shmt__fft_four_step* s, shmt_dtype dtype, char** at) {
  SHMT_AUTO(shmt__fft_roots) roots = NULL;
  const int64_t lanes = shmt__fft_lanes(dtype), n1 = s->columns.length, n2 = s->rows.length;
  const int64_t part = shmt__dtype_size[dtype] / 2, blocks = (n2 + lanes - 1) / lanes;

  s->twiddles = *at;
  SHMT_TRY(shmt__fft_roots_create(n1 * n2, &roots));
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t row = 0; row < n1; row++, *at += 2 * lanes * part)
      for (int64_t l = 0; l < lanes; l++) {
        /* Nobody reads the lanes behind the last column. */
        const int64_t column = b * lanes + l < n2 ? b * lanes + l : n2 - 1;
        shmt__fft_root_put_parts(roots, row * column, dtype, *at + l * part, *at + (lanes + l) * part);
      }
  SHMT_TRY(steps_fill(&s->columns, dtype, at));
  return steps_fill(&s->rows, dtype, at);
}

static shmt_status short_fill(shmt__fft_short* s, shmt_dtype dtype, char** to) {
  SHMT_AUTO(shmt__fft_roots) roots = NULL;
  const int64_t part = shmt__dtype_size[dtype] / 2, run = 2 * s->run * part, n = s->rows * s->columns;
  char* at = *to;

  s->twiddles = at;
  SHMT_TRY(shmt__fft_roots_create(n, &roots));
  for (int64_t column = 0; column < s->columns; column += s->run)
    for (int64_t row = 1; row < s->rows; row++, at += 2 * run)
      for (int64_t i = 0; i < s->run; i++) {
        char *re = at + 2 * i * part, *im = re + run;
        shmt__fft_root_put_parts(roots, row * (column + i), dtype, re, im + part);
        memcpy(re + part, re, (size_t)part);
        /* The imaginary part of the conjugate root: the negated one. */
        shmt__fft_root_put_parts(roots, (n - row * (column + i)) % n, dtype, re, im);
      }
  *to = at;
  return SHMT_OK;
}

static shmt_status chirp_fill(shmt__fft_plan* plan, char* at) {
  SHMT_AUTO(shmt__fft_roots) roots = NULL;
  const int64_t n = plan->key.length, m = shmt__fft_four_step_length(&plan->four_step);
  const int64_t item = shmt__dtype_size[plan->key.dtype];
  char *chirp = at, *spectrum = at + n * item;

  plan->chirp = chirp;
  plan->spectrum = spectrum;
  memset(spectrum, 0, (size_t)(m * item));
  SHMT_TRY(shmt__fft_roots_create(2 * n, &roots));
  /* square: k^2 modulo 2n */
  for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
    shmt__fft_root_put(roots, square, plan->key.dtype, chirp + k * item);
    shmt__fft_root_put(roots, 2 * n - square, plan->key.dtype, spectrum + k * item);
    if (k > 0) memcpy(spectrum + (m - k) * item, spectrum + k * item, (size_t)item);
  }
  return shmt__fft_four_step_run(&plan->four_step, plan->key.dtype, spectrum, spectrum, false, false, 1);
}

static shmt_status real_twiddles_fill(shmt__fft_plan* plan, char* at) {
  SHMT_AUTO(shmt__fft_roots) roots = NULL;

  plan->real_twiddles = at;
  SHMT_TRY(shmt__fft_roots_create(2 * plan->key.length, &roots));
  for (int64_t k = 0; k <= plan->key.length / 2; k++, at += shmt__dtype_size[plan->key.dtype])
    shmt__fft_root_put(roots, k, plan->key.dtype, at);
  return SHMT_OK;
}

/* Chooses the algorithm and its lengths. */
static void choose_algorithm(shmt__fft_plan* plan) {
  const int64_t n = plan->key.length, lanes = shmt__fft_lanes(plan->key.dtype);
  int64_t n1 = 1, n2 = 1;
  double four_step_cost;

  const int64_t at_once = plan->key.is_interleaved ? lanes / 2 : lanes;
  const bool is_full = plan->key.signals >= at_once;
  const int extra = plan->key.is_strided && !is_full ? ONE_BY_ONE : plan->key.is_interleaved ? MOVED : TRANSPOSED;
  const double in_lanes = (double)n * element_cost(n, extra, plan->key.is_interleaved ? 1 : 2) /
                          (double)(is_full ? at_once : plan->key.signals);
  const int64_t columns = find_matrix(n, lanes, &four_step_cost);
  /* A single one of many columns takes a cache line for each of its elements. */
  if (plan->key.is_strided) four_step_cost += (double)n * GATHERED * (is_full ? 4 : 1);
  const double bluestein_cost = n > 64 ? find_convolution(2 * n - 1, lanes, &n1, &n2) : INFINITY;
  /* The real twiddles take a pass of their own, which is fast where the signal is many vectors long. */
  const bool is_plain = (n >= 16 * lanes || !plan->key.has_real_twiddles) && !plan->key.is_strided;
  if ((is_plain || four_step_cost < in_lanes) && find_short(n, lanes, &plan->small)) {
    plan->algorithm = SHMT_FFT_IN_REGISTERS;
  } else if (bluestein_cost < in_lanes && bluestein_cost < four_step_cost) {
    plan->algorithm = SHMT_FFT_BLUESTEIN;
    steps_init(&plan->four_step.columns, n1);
    steps_init(&plan->four_step.rows, n2);
  } else if (four_step_cost < in_lanes) {
    plan->algorithm = SHMT_FFT_FOUR_STEP;
    steps_init(&plan->four_step.columns, columns);
    steps_init(&plan->four_step.rows, n / columns);
  } else {
    plan->algorithm = SHMT_FFT_IN_LANES;
    steps_init(&plan->steps, n);
  }
}

static shmt_status fill_plan(shmt__fft_plan* plan) {
  const uint64_t item = (uint64_t)shmt__dtype_size[plan->key.dtype];
  const int64_t n = plan->key.length, real_twiddles = plan->key.has_real_twiddles ? n / 2 + 1 : 0;
  const bool in_lanes = plan->algorithm == SHMT_FFT_IN_LANES, bluestein_cost = plan->algorithm == SHMT_FFT_BLUESTEIN;
  const bool by_matrix = bluestein_cost || plan->algorithm == SHMT_FFT_FOUR_STEP;
  int64_t elements = real_twiddles;

  if (plan->algorithm == SHMT_FFT_IN_REGISTERS) elements += 2 * (plan->small.rows - 1) * plan->small.columns;
  if (in_lanes) elements += steps_elements(&plan->steps);
  if (bluestein_cost) elements += n + shmt__fft_four_step_length(&plan->four_step);
  if (by_matrix) elements += steps_elements(&plan->four_step.columns) + steps_elements(&plan->four_step.rows);
  const int64_t twiddles = by_matrix ? four_step_elements(&plan->four_step, shmt__fft_lanes(plan->key.dtype)) : 0;
  const uint64_t between = (uint64_t)(twiddles * shmt__fft_element_bytes());
  plan->nbytes = (between + (uint64_t)elements * item + 63) / 64 * 64;
  plan->memory = aligned_alloc(64, plan->nbytes);
  SHMT_REQUIRE(plan->memory != NULL, SHMT_E_NOMEM, "tables of a Fourier transform of %lld elements", (long long)n);
  char* at = plan->memory;
  if (in_lanes)
    SHMT_TRY(steps_fill(&plan->steps, plan->key.dtype, &at));
  else if (by_matrix)
    SHMT_TRY(four_step_fill(&plan->four_step, plan->key.dtype, &at));
  else
    SHMT_TRY(short_fill(&plan->small, plan->key.dtype, &at));
  if (bluestein_cost) {
    SHMT_TRY(chirp_fill(plan, at));
    at += (uint64_t)(n + shmt__fft_four_step_length(&plan->four_step)) * item;
  }
  return real_twiddles > 0 ? real_twiddles_fill(plan, at) : SHMT_OK;
}

shmt_status shmt__fft_plan_create(shmt__fft_key key, shmt__fft_plan** out) {
  SHMT_REQUIRE(key.length < (int64_t)1 << 56, SHMT_E_RUNTIME, "fft: a signal of %lld elements is too long",
               (long long)key.length);
  SHMT_AUTO(shmt__fft_plan) plan = calloc(1, sizeof *plan);
  SHMT_REQUIRE(plan != NULL, SHMT_E_NOMEM, "plan of a Fourier transform");
  atomic_init(&plan->refs, 1);
  plan->key = key;
  choose_algorithm(plan);
  SHMT_TRY(fill_plan(plan));
  *out = SHMT_TAKE(plan);
  return SHMT_OK;
}

void shmt__fft_plan_release(shmt__fft_plan* plan) {
  /* acq_rel: every earlier use of the tables happens before the free. */
  if (plan == NULL || atomic_fetch_sub_explicit(&plan->refs, 1, memory_order_acq_rel) != 1) return;
  free(plan->memory);
  free(plan);
}
