/* ops/fft/run.h -- Fourier transforms of many signals, whatever their strides. */
#ifndef SHMT_OPS_FFT_RUN_H
#define SHMT_OPS_FFT_RUN_H

#include "ops/fft/plan.h"

/* The signals of a tensor. Strides are in real numbers. */
typedef struct shmt__fft_signals {
  void* data;
  int64_t step;           /* from one element of a signal to the next */
  const int64_t* strides; /* between signals, one for each dim of the request */
} shmt__fft_signals;

typedef enum shmt__fft_form {
  SHMT_FFT_C2C,
  SHMT_FFT_R2C,       /* the first half of the spectrum */
  SHMT_FFT_R2C_WHOLE,
  SHMT_FFT_C2R,       /* the inverse transform of the first half */
} shmt__fft_form;

typedef struct shmt__fft_request {
  shmt__fft_form form;
  shmt_dtype dtype; /* the complex dtype */
  bool is_forward;
  double scale;
  int64_t length;   /* of a signal: complex numbers, or real ones where one side is real */
  int n_dims;       /* dims over which signals are counted */
  const int64_t* sizes;
  shmt__fft_signals in, out; /* may be the same when both are complex */
} shmt__fft_request;

/* Transforms all signals; sizes may hold zeros. Errors: SHMT_E_NOMEM, SHMT_E_RUNTIME (a signal is too long). */
shmt_status shmt__fft_run(const shmt__fft_request* r);

#endif
