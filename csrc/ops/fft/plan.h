/* ops/fft/plan.h -- which algorithm transforms signals of one length, and the tables for it.
 *
 * Note [Plans of Fourier transforms]
 * There are four algorithms.
 *   IN_LANES      A length whose prime factors are small is done in steps of Stockham's algorithm, on several signals
 * at once, one in each lane of a vector. FOUR_STEP     One signal of such a length is a matrix, whose columns and rows
 * are transformed in lanes. IN_REGISTERS  A signal whose length is a short power of two is such a matrix too, and stays
 * in registers. BLUESTEIN     A signal of any other length is convolved with a chirp, by FOUR_STEP transforms of a
 * longer length. shmt__fft_plan_create chooses the algorithm and the factors that take least time by a table of costs
 * (clocks per vector of lanes).
 *
 * A plan is immutable once made, and counted. A process keeps the last 48 plans, of at most 32 MB. The lock of that
 * cache is held across a fork, so that the child finds the list whole.
 */
#ifndef SHMT_OPS_FFT_PLAN_H
#define SHMT_OPS_FFT_PLAN_H

#include "ops/fft/four_step.h"

#include <stdatomic.h>

typedef struct shmt__fft_key {
  int64_t length;         /* of the complex transform */
  shmt_dtype dtype;       /* complex */
  int signals;            /* how many are transformed at once; at most SHMT_FFT_LANES */
  bool has_real_twiddles; /* for real signals of twice the length */
  bool is_interleaved;    /* signals in lanes are SHMT_FFT_INTERLEAVED */
  bool is_strided;        /* the signals are columns, not dense, on one side or both */
} shmt__fft_key;

typedef enum shmt__fft_algorithm {
  SHMT_FFT_IN_LANES,
  SHMT_FFT_FOUR_STEP,
  SHMT_FFT_BLUESTEIN,
  SHMT_FFT_IN_REGISTERS,
} shmt__fft_algorithm;

typedef struct shmt__fft_plan {
  atomic_int_least32_t refs;
  shmt__fft_key key;
  shmt__fft_algorithm algorithm;
  shmt__fft_steps steps;         /* IN_LANES */
  shmt__fft_four_step four_step; /* FOUR_STEP; BLUESTEIN: of the longer length */
  shmt__fft_short small;         /* IN_REGISTERS: all but direction and scale */
  const void* chirp;             /* (length): exp(-pi i k^2 / length) */
  const void* spectrum;          /* (longer length): of the conjugate chirp */
  const void* real_twiddles;     /* (length / 2 + 1): exp(-pi i k / length) */
  void* memory;                  /* of all tables */
  uint64_t nbytes;
} shmt__fft_plan;

/* Makes a plan. Errors: SHMT_E_NOMEM, SHMT_E_RUNTIME (a length beyond 2^56). New reference. */
shmt_status shmt__fft_plan_create(shmt__fft_key key, shmt__fft_plan** out);
/* Finds the plan in the cache, or makes it and keeps it there. Errors: the same. New reference. */
shmt_status shmt__fft_plan_find(shmt__fft_key key, shmt__fft_plan** out);
/* NULL is fine. */
void shmt__fft_plan_release(shmt__fft_plan* plan);
static inline void shmt__auto_shmt__fft_plan(shmt__fft_plan** p) { shmt__fft_plan_release(*p); }

#endif
