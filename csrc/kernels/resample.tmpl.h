/* kernels/resample.tmpl.h -- resizing along one dim by weighted sums of neighbours. One dtype.
 *
 * n slabs, dense, one after the other: out has `out` lines of `inner` elements, in has `in`. ctx:
 * shmt__resample_shape: output line p is made of input lines first[p], first[p] + 1, ... (less the origin)
 */
#include "kernels/loops.h"
#include "kernels/shapes.h"

#include <string.h>

#if SHMT_IS_INTEGRAL
/* data: out, in. Fixed-point weights, as in torch and Pillow: sums are exact and rounded once, half up. */
void SHMT_LOOP(resample)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__resample_shape* s = ctx;
  const int32_t half = (int32_t)1 << s->precision >> 1;
  T* out = (T*)(void*)data[0];
  const T* in = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t slab = 0; slab < n; slab++, in += s->in * s->inner)
    for (int64_t p = 0; p < s->out; p++, out += s->inner) {
      const int16_t* weights = s->fixed + p * s->taps;
      for (int64_t j = 0; j < s->inner; j++) {
        const T* lines = in + (s->first[p] - s->origin) * s->inner + j;
        int32_t sum = half;
        for (int64_t k = 0; k < s->count[p]; k++) sum += weights[k] * (int32_t)lines[k * s->inner];
        sum >>= s->precision;
        out[j] = (T)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
      }
    }
}
#else
/* data: out, in. */
void SHMT_LOOP(resample)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__resample_shape* s = ctx;
  T* out = (T*)(void*)data[0];
  const T* in = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t slab = 0; slab < n; slab++, in += s->in * s->inner)
    for (int64_t p = 0; p < s->out; p++, out += s->inner) {
      const double* weights = s->weights + p * s->taps;
      const T* lines = in + (s->first[p] - s->origin) * s->inner;
      if (s->inner == 1) {
        ACC sum = 0;
        if (s->count[p] == 2) { /* most often: without the start of a loop */
          *out = (T)((ACC)weights[0] * (ACC)lines[0] + (ACC)weights[1] * (ACC)lines[1]);
          continue;
        }
        for (int64_t k = 0; k < s->count[p]; k++) sum += (ACC)weights[k] * (ACC)lines[k];
        *out = (T)sum;
        continue;
      }
      if (s->count[p] == 0) memset(out, 0, (size_t)s->inner * sizeof *out);
      for (int64_t k = 0; k < s->count[p]; k++, lines += s->inner) {
        const T w = (T)weights[k];
        if (k == 0) {
          SHMT_IVDEP for (int64_t j = 0; j < s->inner; j++) out[j] = w * lines[j];
        } else {
          SHMT_IVDEP for (int64_t j = 0; j < s->inner; j++) out[j] += w * lines[j];
        }
      }
    }
}
#endif
