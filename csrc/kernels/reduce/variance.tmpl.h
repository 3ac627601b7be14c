/* kernels/reduce/variance.tmpl.h -- var and std. */
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_HALF
SHMT_WIDENED_REDUCTION(var, T)
#else
/* ctx: shmt__var_args. Computes the mean of a block, then the squares around it: two passes over memory in the cache.
 * Blocks are joined by Chan's formula. Where C overflows, or an element is not finite, the block is computed again in
 * double, one element at a time: squares that overflow even there are infinite, and an infinite or NaN element makes
 * the result NaN, whatever the memory layout. */
#include "kernels/reduce/variance.h"

static void FN(var_join)(shmt__var_state* s, double n, double mean, double squares) {
  const double total = s->n + n, delta = mean - s->mean, square = delta * delta;
  if (n == 0) return;
  if (s->n == 0) {
    *s = (shmt__var_state){n, mean, squares};
    return;
  }
  s->squares += squares + square * s->n * n / total;
  s->mean = square < INFINITY ? s->mean + delta * n / total : s->mean * (s->n / total) + mean * (n / total);
  s->n = total;
}
static void FN(var_each)(shmt__var_state* s, const char* in, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const double x = SHMT_X(in + i * stride);
    FN(var_join)(s, 1, x, x - x);
  }
}
/* Are the squares of n elements so small that they have lost digits as subnormal floats? Then double is needed. */
static inline bool FN(var_is_small)(double squares, double n) {
  return sizeof(C) < sizeof(double) && squares < n * 0x1p-120;
}
static void FN(var_small)(shmt__var_state* s, const char* in, int64_t stride, int64_t n) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) sum += SHMT_X(in + i * stride);
  const double mean = sum / (double)n;
  for (int64_t i = 0; i < n; i++) {
    const double d = SHMT_X(in + i * stride) - mean;
    squares += d * d;
  }
  FN(var_join)(s, (double)n, mean, squares);
}
/* The sum of the squared distances of n contiguous elements from center. */
static inline double FN(var_squares)(const char* in, int64_t n, C center) {
  C acc[64];
  double sum = 0;
  const T* x = (const T*)(const void*)in;
  const int64_t whole = n / 64 * 64;
  if (whole) {
    for (int j = 0; j < 64; j++) acc[j] = 0;
    for (int64_t i = 0; i < whole; i += 64) SHMT_IVDEP for (int64_t j = 0; j < 64; j++) {
        const C d = SHMT_LOAD(x[i + j]) - center;
        acc[j] += d * d;
      }
    for (int j = 0; j < 64; j++) sum += acc[j];
  }
  for (int64_t i = whole; i < n; i++) {
    const C d = SHMT_LOAD(x[i]) - center;
    sum += d * d;
  }
  return sum;
}
#define FOLD_NAME    var_total
#include "kernels/reduce/fold.tmpl.h"

static void FN(var_wide)(const shmt__reduce_run* run, shmt__var_state* state) {
  C sum[SHMT_REDUCE_TILE], squares[SHMT_REDUCE_TILE];
  const int64_t n = run->n_keep;
  for (int64_t r0 = 0; r0 < run->n_reduce; r0 += FOLD_ROWS) {
    const char* in = run->in + r0 * run->reduce_stride;
    const int64_t rows = run->n_reduce - r0 < FOLD_ROWS ? run->n_reduce - r0 : FOLD_ROWS;
    for (int64_t j = 0; j < n; j++) sum[j] = squares[j] = 0;
    FN(var_total_columns)(sum, in, run->reduce_stride, rows, n, NULL);
    for (int64_t j = 0; j < n; j++) sum[j] /= (C)rows;
    for (int64_t r = 0; r < rows; r++) {
      const T* x = (const T*)(const void*)(in + r * run->reduce_stride);
      SHMT_IVDEP for (int64_t j = 0; j < n; j++) {
        const C d = SHMT_LOAD(x[j]) - sum[j];
        squares[j] += d * d;
      }
    }
    for (int64_t j = 0; j < n; j++) {
      const char* column = in + j * (int64_t)sizeof(T);
      if (FN(var_is_small)(squares[j], (double)rows))
        FN(var_small)(&state[j], column, run->reduce_stride, rows);
      else if (squares[j] < (C)INFINITY)
        FN(var_join)(&state[j], (double)rows, sum[j], squares[j]);
      else
        FN(var_each)(&state[j], column, run->reduce_stride, rows);
    }
  }
}
/* Joins n contiguous elements to the state. */
static void FN(var_block)(shmt__var_state* s, const char* at, int64_t n) {
  const double mean = FN(var_total_row)(0, at, n, NULL) / (double)n, miss = mean - (double)(C)mean;
  /* The mean is rounded, so the squares of equal elements may come out below 0. */
  const double squares = FN(var_squares)(at, n, (C)mean) - (double)n * miss * miss;

  if (FN(var_is_small)(squares, (double)n))
    FN(var_small)(s, at, sizeof(T), n);
  else if (squares < INFINITY)
    FN(var_join)(s, (double)n, mean, squares < 0 ? 0 : squares);
  else
    FN(var_each)(s, at, sizeof(T), n);
}
static void FN(var_accumulate)(const shmt__reduce_run* run, shmt__var_state* state) {
  enum { GATHERED = 4096 / sizeof(T) };
  T gathered[GATHERED];

  if (run->keep_stride == (int64_t)sizeof(T) && run->reduce_stride != (int64_t)sizeof(T)) {
    FN(var_wide)(run, state);
    return;
  }
  for (int64_t j = 0; j < run->n_keep; j++) {
    const char* in = run->in + j * run->keep_stride;
    if (run->reduce_stride == (int64_t)sizeof(T)) {
      for (int64_t i = 0; i < run->n_reduce; i += 4096)
        FN(var_block)(&state[j], in + i * (int64_t)sizeof(T), run->n_reduce - i < 4096 ? run->n_reduce - i : 4096);
      continue;
    }
    for (int64_t i = 0; i < run->n_reduce; i += GATHERED) {
      const int64_t n = run->n_reduce - i < GATHERED ? run->n_reduce - i : GATHERED;
      for (int64_t k = 0; k < n; k++) gathered[k] = SHMT_AT(const T, in, run->reduce_stride, i + k);
      FN(var_block)(&state[j], (const char*)gathered, n);
    }
  }
}
int64_t SHMT_LOOP(var)(shmt__reduce_phase phase, const shmt__reduce_run* run) {
  if (phase == SHMT_REDUCE_SIZE) return sizeof(shmt__var_state);
  if (phase == SHMT_REDUCE_WHOLE) return 0;
  shmt__var_state* state = (shmt__var_state*)(void*)run->state;
  if (phase == SHMT_REDUCE_ACCUMULATE) {
    FN(var_accumulate)(run, state);
    return 0;
  }
  for (int64_t j = 0; j < run->n_keep; j++) {
    if (phase == SHMT_REDUCE_INIT) {
      state[j] = (shmt__var_state){0, 0, 0};
    } else if (phase == SHMT_REDUCE_MERGE) {
      const shmt__var_state t = ((const shmt__var_state*)(const void*)run->other)[j];
      FN(var_join)(&state[j], t.n, t.mean, t.squares);
    } else {
      const shmt__var_args* o = run->ctx;
      const double divisor = (double)run->count - o->correction;
      const double var = state[j].squares / (divisor > 0 ? divisor : 0);
      SHMT_AT(T, run->out[0], run->out_stride[0], j) = SHMT_STORE((C)(o->root ? sqrt(var) : var));
      if (run->out[1])
        SHMT_AT(T, run->out[1], run->out_stride[1], j) =
            SHMT_STORE((C)(run->count ? state[j].mean : NAN));
    }
  }
  return 0;
}
#endif
