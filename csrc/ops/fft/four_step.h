/* ops/fft/four_step.h -- the four-step Fourier transform of one dense signal.
 *
 * A signal of n = n1 n2 elements is a matrix of n1 rows and n2 columns. The columns are transformed and multiplied by
 * twiddle factors, then the rows are transformed, over threads. Note [Lanes] in kernels/fft/fft.h says how the matrix
 * lies in memory.
 */
#ifndef SHMT_OPS_FFT_FOUR_STEP_H
#define SHMT_OPS_FFT_FOUR_STEP_H

#include "base/error.h"
#include "base/types.h"
#include "kernels/fft/fft.h"

/* How many lanes there are: numbers in a vector of this machine, of the real type of a complex dtype. */
int64_t shmt__fft_lanes(shmt_dtype dtype);
/* Bytes of an element of scratch: a pair of vectors. */
int64_t shmt__fft_element_bytes(void);
/* The length of the signal that such a matrix holds. */
static inline int64_t shmt__fft_four_step_length(const shmt__fft_four_step* s) {
  return s->columns.length * s->rows.length;
}
/* Is a signal so short that it has a buffer of its own between columns and rows? */
bool shmt__fft_four_step_has_buffer(const shmt__fft_four_step* four_step, shmt_dtype dtype);

/* Transforms one signal forward; `to` may be `from`. swap_in and swap_out exchange real and imaginary parts before and
 * after; with both the transform is backward. Errors: SHMT_E_NOMEM. */
shmt_status shmt__fft_four_step_run(const shmt__fft_four_step* four_step, shmt_dtype dtype, const void* from, void* to,
                                    bool swap_in, bool swap_out, double scale);
/* Transforms the first half of the spectrum of 2 n real numbers, n + 1 elements, back into these numbers. The signal
 * has no buffer of its own, and `to` does not overlap `from`. Errors: SHMT_E_NOMEM. */
shmt_status shmt__fft_four_step_c2r_even(const shmt__fft_four_step* four_step, shmt_dtype dtype,
                                         const void* real_twiddles, const void* from, void* to, double scale);

#endif
