/* kernels/pooling/max_pool_backward.tmpl.h -- gradients of max pooling, added at the indices. One dtype.
 *
 * n dense planes, one after the other; ctx: shmt__pool_args (kernels/pooling/pool.h).
 */
#include "kernels/template.h"
#include "kernels/pooling/pool.h"

/* Integers wrap. */
#if SHMT_IS_INTEGRAL
#define SUM(a, b) ((C)((uint64_t)(a) + (uint64_t)(b)))
#else
#define SUM(a, b) ((C)((a) + (b)))
#endif
/* data: grad of the image (zeros so far), grad of out, indices, which the caller has checked; an index that another
 * process has overwritten since counts as 0. */
void SHMT_LOOP(max_pool_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_args* s = ctx;
  const int64_t outs = SHMT_POOL_PLANE(s->out), plane = SHMT_POOL_PLANE(s->in);
  T* image = (T*)(void*)data[0];
  const T* grad = (const T*)(const void*)data[1];
  const int64_t* where = (const int64_t*)(const void*)data[2];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += plane, grad += outs, where += outs)
    for (int64_t i = 0; i < outs; i++) {
      const uint64_t index = (uint64_t)where[i];
      T* at = &image[index < (uint64_t)plane ? index : 0];
      *at = SHMT_STORE(SUM(SHMT_LOAD(*at), SHMT_LOAD(grad[i])));
    }
}

#if SHMT_IS_FLOATING && !SHMT_IS_HALF
/* The same in NHWC, for a row of outputs. */
void SHMT_LOOP(max_pool_backward_channels_last)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_row_args* r = ctx;
  const int64_t channels = r->channels, plane = SHMT_POOL_PLANE(r->shape->in);
  T* image = (T*)(void*)data[0];
  const T* grad = (const T*)(const void*)data[1];
  const int64_t* where = (const int64_t*)(const void*)data[2];

  (void)strides;
  for (int64_t ow = 0; ow < n; ow++, grad += channels, where += channels)
    for (int64_t c = 0; c < channels; c++) {
      const uint64_t index = (uint64_t)where[c];
      image[(index < (uint64_t)plane ? (int64_t)index : 0) * channels + c] += grad[c];
    }
}
#endif
#undef SUM
