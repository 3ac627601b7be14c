/* kernels/image/resample.tmpl.h -- resizing along one dim by weighted sums of neighbouring slices. One dtype.
 *
 * n dense slabs, one after the other: out has `out` slices of `inner` elements, in has `in`. ctx: shmt__resample_args:
 * output slice p is the weighted sum of input slices first[p], first[p] + 1, ... (minus the origin).
 */
#include "kernels/template.h"
#include "kernels/loop_args.h"

#include <string.h>

#if SHMT_IS_INTEGRAL
/* data: out, in. Fixed-point weights, as in torch and Pillow: sums are exact and rounded once, half up. */
void SHMT_LOOP(resample)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__resample_args* s = ctx;
  const int32_t half = (int32_t)1 << s->precision >> 1;
  T* out = (T*)(void*)data[0];
  const T* in = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t slab = 0; slab < n; slab++, in += s->in * s->inner)
    for (int64_t p = 0; p < s->out; p++, out += s->inner) {
      const int16_t* weights = s->fixed + p * s->taps;
      for (int64_t j = 0; j < s->inner; j++) {
        const T* from = in + (s->first[p] - s->origin) * s->inner + j;
        int32_t sum = half;
        for (int64_t k = 0; k < s->count[p]; k++) sum += weights[k] * (int32_t)from[k * s->inner];
        sum >>= s->precision;
        out[j] = (T)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
      }
    }
}
#else
/* Slices of one element with two neighbours, four at a time; the two neighbours are one load. Returns how many were
 * made. */
static int64_t FN(resample_pairs)(const shmt__resample_args* s, const T* in, T* out) {
  typedef T some __attribute__((vector_size(4 * sizeof(T))));
  typedef __typeof__(_Generic((T)0, float: (int32_t)0, default: (int64_t)0)) lane;
  typedef lane order __attribute__((vector_size(4 * sizeof(lane))));
  const int64_t *first = s->first, *count = s->count;
  const ACC* weights = s->weights;
  int64_t p = 0;

  if (sizeof(T) != sizeof(float) || s->taps != 2) return 0;
  for (; p + 4 <= s->out && (count[p] & count[p + 1] & count[p + 2] & count[p + 3]) == 2; p += 4) {
    some x[2], w[2];
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
      typedef int64_t two __attribute__((vector_size(2 * sizeof(int64_t))));
      int64_t pairs[2];
      memcpy(&pairs[0], in + first[p + 2 * k], sizeof *pairs);
      memcpy(&pairs[1], in + first[p + 2 * k + 1], sizeof *pairs);
      const two both = {pairs[0], pairs[1]};
      memcpy(&x[k], &both, sizeof both);
      memcpy(&w[k], weights + 2 * p + 4 * k, sizeof w[k]);
      x[k] *= w[k];
    }
    const some sum =
        __builtin_shuffle(x[0], x[1], (order){0, 2, 4, 6}) + __builtin_shuffle(x[0], x[1], (order){1, 3, 5, 7});
    memcpy(out + p, &sum, sizeof sum);
  }
  return p;
}

/* Slices of one element. */
static void FN(resample_scalars)(const shmt__resample_args* s, const T* in, T* out) {
  const int64_t *first = s->first, *count = s->count, n = s->out, taps = s->taps;
  const ACC* weights = (const ACC*)s->weights;

  in -= s->origin;
  int64_t p = FN(resample_pairs)(s, in, out);
  for (weights += p * taps; p < n; p++, weights += taps) {
    const T* from = in + first[p];
    if (count[p] == 2) { /* the usual case, without a loop */
      out[p] = (T)(weights[0] * (ACC)from[0] + weights[1] * (ACC)from[1]);
      continue;
    }
    ACC sum = 0;
    for (int64_t k = 0; k < count[p]; k++) sum += weights[k] * (ACC)from[k];
    out[p] = (T)sum;
  }
}

/* Slices of several elements. */
static void FN(resample_slices)(const shmt__resample_args* s, const T* in, T* out) {
  const int64_t inner = s->inner;

  for (int64_t p = 0; p < s->out; p++, out += inner) {
    const ACC* weights = (const ACC*)s->weights + p * s->taps;
    const T* from = in + (s->first[p] - s->origin) * inner;
    if (s->count[p] == 0) memset(out, 0, (size_t)inner * sizeof *out);
    if (s->count[p] == 2) { /* the usual case: the slice is written once */
      const T v = (T)weights[0], w = (T)weights[1];
      SHMT_IVDEP for (int64_t j = 0; j < inner; j++) out[j] = v * from[j] + w * from[inner + j];
      continue;
    }
    for (int64_t k = 0; k < s->count[p]; k++, from += inner) {
      const T w = (T)weights[k];
      if (k == 0) {
        SHMT_IVDEP for (int64_t j = 0; j < inner; j++) out[j] = w * from[j];
      } else {
        SHMT_IVDEP for (int64_t j = 0; j < inner; j++) out[j] += w * from[j];
      }
    }
  }
}

/* data: out, in. */
void SHMT_LOOP(resample)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__resample_args* s = ctx;
  T* out = (T*)(void*)data[0];
  const T* in = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t slab = 0; slab < n; slab++, in += s->in * s->inner, out += s->out * s->inner)
    (s->inner == 1 ? FN(resample_scalars) : FN(resample_slices))(s, in, out);
}
#endif
