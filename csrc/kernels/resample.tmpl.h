/* kernels/resample.tmpl.h -- resizing along one dim by weighted sums of neighbours, and back. One dtype.
 *
 * n slabs, dense, one after the other: out has `out` lines of `inner` elements, in has `in`. ctx:
 * shmt__resample_shape: output line p is made of input lines first[p], first[p] + 1, ...
 */
#include "kernels/loops.h"
#include "kernels/shapes.h"

/* data: out, in. */
void SHMT_LOOP(resample)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__resample_shape* s = ctx;
  T* out = (T*)(void*)data[0];
  const T* in = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t slab = 0; slab < n; slab++, in += s->in * s->inner)
    for (int64_t p = 0; p < s->out; p++, out += s->inner) {
      const double* weights = s->weights + p * s->taps;
      const T* lines = in + s->first[p] * s->inner;
      if (s->inner == 1) {
        ACC sum = 0;
        for (int64_t k = 0; k < s->count[p]; k++) sum += (ACC)weights[k] * (ACC)lines[k];
        *out = (T)sum;
        continue;
      }
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

/* data: gradient of in (zeros so far), gradient of out. */
void SHMT_LOOP(resample_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__resample_shape* s = ctx;
  T* in = (T*)(void*)data[0];
  const T* out = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t slab = 0; slab < n; slab++, in += s->in * s->inner)
    for (int64_t p = 0; p < s->out; p++, out += s->inner) {
      const double* weights = s->weights + p * s->taps;
      T* lines = in + s->first[p] * s->inner;
      for (int64_t k = 0; k < s->count[p]; k++, lines += s->inner) {
        const T w = (T)weights[k];
        SHMT_IVDEP for (int64_t j = 0; j < s->inner; j++) lines[j] += w * out[j];
      }
    }
}
