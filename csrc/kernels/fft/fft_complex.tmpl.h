/* kernels/fft/fft_complex.tmpl.h -- Fourier transforms of complex signals whose parts stay interleaved as in memory.
 * See Note [Short signals] and Note [Lanes] in kernels/fft/fft.h.
 *
 * fft_short: data: results, signals; strides: bytes from one signal to the next; ctx: shmt__fft_short.
 *
 * fft_interleaved: as fft_block of kernels/fft/fft.tmpl.h, for blocks of SHMT_FFT_INTERLEAVED; scratch is in runs.
 */
#include "kernels/fft/fft_vector.tmpl.h"

#define RUN_BYTES SHMT_VECTOR_BYTES
#define OF(name)  FN(name##_of_run)
#include "kernels/fft/fft_short.tmpl.h"
#if LANES == 16
#define RUN_BYTES (SHMT_VECTOR_BYTES / 2)
#define OF(name)  FN(name##_of_half)
#include "kernels/fft/fft_short.tmpl.h"
#endif

void SHMT_LOOP(fft_short)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__fft_short* c = ctx;

#if LANES == 16
  if (c->run < LANES / 2) {
    FN(signals_of_half)(data, strides, n, c);
    return;
  }
#endif
  FN(signals_of_run)(data, strides, n, c);
}

void SHMT_LOOP(fft_interleaved)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  shmt__fft_block b = *(const shmt__fft_block*)ctx;

  (void)strides;
  for (; n > 0; n--, b.in[0].at += b.in[0].next, b.out[0].at += b.out[0].next)
    FN(run_block_of_run)(&b, (FN(run_of_run)*)(void*)data[0]);
}

#include "kernels/fft/fft_vector_end.tmpl.h"
