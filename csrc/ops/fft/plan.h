/* ops/fft/plan.h -- how the transform of one length is done, and the tables for it.
 *
 * Note [Plans of Fourier transforms]
 * A length whose prime factors are small is a product of steps; these run on several lines at once, or on one line as
 * a matrix; short powers of two are matrices in registers. Other lengths are convolutions with a chirp (Bluestein), done by transforms of a longer, smooth length. Which
 * of these it is, and with which factors, is what takes least time by a table of costs: clocks per vector of lanes.
 *
 * Plans are immutable once made, counted, and kept: the last 48 of a process, of at most 32 MB. The lock is held across a
 * fork, so that the child finds the list whole.
 */
#ifndef SHMT_OPS_FFT_PLAN_H
#define SHMT_OPS_FFT_PLAN_H

#include "base/error.h"
#include "base/types.h"
#include "kernels/fft/fft.h"

#include <stdatomic.h>

typedef struct shmt__fft_key {
  int64_t length;    /* of the complex transform */
  shmt_dtype dtype;  /* complex */
  int lines;         /* at once; more than there are lanes count as that many */
  bool has_halves;   /* for real lines of twice the length */
  bool is_runs;      /* in lanes, lines are SHMT_FFT_RUNS */
  bool is_strided;   /* the lines are not dense, on one side or both: columns */
} shmt__fft_key;

typedef enum shmt__fft_way { SHMT_FFT_BY_LANES, SHMT_FFT_BY_LINE, SHMT_FFT_BY_CHIRP, SHMT_FFT_SHORTLY } shmt__fft_way;

typedef struct shmt__fft_plan {
  atomic_int_least32_t refs;
  shmt__fft_key key;
  shmt__fft_way way;
  shmt__fft_steps steps;  /* BY_LANES */
  shmt__fft_split split;  /* BY_LINE; BY_CHIRP: of the longer length */
  shmt__fft_short small;  /* SHORTLY: but for direction and scale */
  const void* chirp;      /* (length): exp(-pi i k^2 / length) */
  const void* spectrum;   /* (longer length): of the conjugate chirp */
  const void* halves;     /* (length / 2 + 1): exp(-pi i k / length) */
  void* memory;           /* of all tables */
  uint64_t nbytes;
} shmt__fft_plan;

/* Numbers in a vector of this machine, of the real type of a complex dtype. */
int64_t shmt__fft_lanes(shmt_dtype dtype);
/* Elements of scratch are pairs of vectors. */
int64_t shmt__fft_element_bytes(void);
/* Length of the transform that is done as a matrix. */
static inline int64_t shmt__fft_split_length(const shmt__fft_split* s) { return s->columns.length * s->rows.length; }

/* Make a plan. Errors: SHMT_E_NOMEM, SHMT_E_RUNTIME (a length beyond 2^56). New reference. */
shmt_status shmt__fft_plan_create(shmt__fft_key key, shmt__fft_plan** out);
/* The same, from those that are kept when it is among them. Errors: the same. New reference. */
shmt_status shmt__fft_plan_find(shmt__fft_key key, shmt__fft_plan** out);
/* NULL is fine. */
void shmt__fft_plan_release(shmt__fft_plan* plan);
static inline void shmt__auto_shmt__fft_plan(shmt__fft_plan** p) { shmt__fft_plan_release(*p); }

#endif
