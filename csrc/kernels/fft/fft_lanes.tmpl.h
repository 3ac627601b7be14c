/* kernels/fft/fft_lanes.tmpl.h -- the transform of signals that are in lanes already. See Note [Lanes] in
 * kernels/fft/fft.h. */
#include "kernels/fft/fft_vector.tmpl.h"

#define NUMBER   FN(pair)
#define OF(name) FN(name)
#include "kernels/fft/fft_butterflies.tmpl.h"
#include "kernels/fft/fft_stockham.tmpl.h"
#undef NUMBER
#undef OF

void* SHMT_LOOP(fft_lanes)(const shmt__fft_steps* steps, const void* from, int64_t apart, void* x, void* y,
                           void* work) {
  return FN(transform)(steps, from, apart, x, y, work);
}

#include "kernels/fft/fft_vector_end.tmpl.h"
