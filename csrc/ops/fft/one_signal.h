/* ops/fft/one_signal.h -- Fourier transforms of one dense signal at a time, by the algorithm of its plan. */
#ifndef SHMT_OPS_FFT_ONE_SIGNAL_H
#define SHMT_OPS_FFT_ONE_SIGNAL_H

#include "ops/fft/plan.h"

/* Transforms n dense signals by a plan SHMT_FFT_IN_REGISTERS. data: results, signals; strides: bytes from one to the
 * next. A result may be written over its signal. */
void shmt__fft_short_run(const shmt__fft_plan* plan, char* const* data, const int64_t* strides, int64_t n,
                         bool is_forward, double scale);
/* Transforms one signal by a plan of any algorithm but SHMT_FFT_IN_LANES; `to` may be `from`. Errors: SHMT_E_NOMEM. */
shmt_status shmt__fft_one_signal_run(const shmt__fft_plan* plan, const void* from, void* to, bool is_forward,
                                     double scale);
/* Transforms the first half of the spectrum of 2 n real numbers, n + 1 elements, back into these numbers. The plan is
 * for length n and has real_twiddles. `to` does not overlap `from`. Errors: SHMT_E_NOMEM. */
shmt_status shmt__fft_one_signal_c2r_even(const shmt__fft_plan* plan, const void* from, void* to, double scale);

#endif
