/* ops/fft/single_line.h -- one dense line of complex numbers transformed by itself. */
#ifndef SHMT_OPS_FFT_SINGLE_LINE_H
#define SHMT_OPS_FFT_SINGLE_LINE_H

#include "ops/fft/plan.h"

/* Transform a line as a matrix; `to` may be `from`. swap_in, swap_out: real and imaginary parts exchanged before and
 * after, both for a backward transform. Errors: SHMT_E_NOMEM. */
shmt_status shmt__fft_split_run(const shmt__fft_split* split, shmt_dtype dtype, const void* from, void* to, bool swap_in,
                                bool swap_out, double scale);
/* Transform n dense lines by a plan SHORTLY. data: results, lines; strides: bytes from line to line; a result may be its
 * line. */
void shmt__fft_short_run(const shmt__fft_plan* plan, char* const* data, const int64_t* strides, int64_t n,
                         bool is_forward, double scale);
/* Transform a line by a plan of another way than BY_LANES; `to` may be `from`. Errors: SHMT_E_NOMEM. */
shmt_status shmt__fft_line_run(const shmt__fft_plan* plan, const void* from, void* to, bool is_forward, double scale);
/* The first half of the spectrum of 2 n real numbers, n + 1 elements, to these numbers, backwards; the plan is for n and
 * has halves. `to` must not overlap `from`. Errors: SHMT_E_NOMEM. */
shmt_status shmt__fft_line_to_even(const shmt__fft_plan* plan, const void* from, void* to, double scale);

#endif
