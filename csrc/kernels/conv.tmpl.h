/* kernels/conv.tmpl.h -- images laid out as columns for convolution by matrix product, and back. One dtype.
 *
 * data: col, image; n: how many rows of col; ctx: shmt__conv_shape. Row (channel, kd, kh, kw) of col holds, for every
 * output position, the image element under that filter element; 0 outside the image. Rows are ctx->col_row elements
 * apart.
 */
#include "kernels/shapes.h"

#include <string.h>

/* The outputs [begin, end) along one dim whose image element for this filter element lies inside. */
static inline void SHMT_LOOP(inside)(int64_t offset, int64_t stride, int64_t in, int64_t out, int64_t* begin,
                                     int64_t* end) {
  *begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  *end = in > offset ? (in - 1 - offset) / stride + 1 : 0;
  if (*begin > out) *begin = out;
  if (*end > out) *end = out;
  if (*end < *begin) *end = *begin;
}

/* Set up row r: which channel and filter element, and where its outputs begin and end. */
#define ROW_SETUP(r)                                                                                             \
  const int64_t kw = (r) % s->kernel[2], kh = (r) / s->kernel[2] % s->kernel[1];                                 \
  const int64_t kd = (r) / (s->kernel[2] * s->kernel[1]) % s->kernel[0];                                         \
  const int64_t channel = (r) / (s->kernel[2] * s->kernel[1] * s->kernel[0]);                                    \
  const int64_t od = kd * s->dilation[0] - s->padding[0], oh = kh * s->dilation[1] - s->padding[1];              \
  const int64_t ow = kw * s->dilation[2] - s->padding[2];                                                        \
  int64_t d0, d1, h0, h1, w0, w1;                                                                                \
  SHMT_LOOP(inside)(od, s->stride[0], s->in[0], s->out[0], &d0, &d1);                                            \
  SHMT_LOOP(inside)(oh, s->stride[1], s->in[1], s->out[1], &h0, &h1);                                            \
  SHMT_LOOP(inside)(ow, s->stride[2], s->in[2], s->out[2], &w0, &w1);                                            \
  T* const image = (T*)(void*)data[1] + channel * s->step[0]

void SHMT_LOOP(im2col)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_shape* s = ctx;
  const T zero = SHMT_STORE((C)0);

  (void)strides;
  for (int64_t r = 0; r < n; r++) {
    ROW_SETUP(r);
    T* col = (T*)(void*)data[0] + r * s->col_row;
    for (int64_t d = 0; d < s->out[0]; d++) {
      for (int64_t h = 0; h < s->out[1]; h++, col += s->out[2]) {
        if (d < d0 || d >= d1 || h < h0 || h >= h1) {
          for (int64_t w = 0; w < s->out[2]; w++) col[w] = zero;
          continue;
        }
        const T* line = image + (d * s->stride[0] + od) * s->step[1] + (h * s->stride[1] + oh) * s->step[2] + ow;
        for (int64_t w = 0; w < w0; w++) col[w] = zero;
        if (s->stride[2] == 1) {
          if (w1 > w0) memcpy(col + w0, line + w0, (size_t)(w1 - w0) * sizeof(T));
        } else {
          for (int64_t w = w0; w < w1; w++) col[w] = line[w * s->stride[2]];
        }
        for (int64_t w = w1; w < s->out[2]; w++) col[w] = zero;
      }
    }
  }
}

/* Integers wrap. */
#if SHMT_IS_INTEGRAL
#define ADD(a, b) ((C)((uint64_t)(a) + (uint64_t)(b)))
#else
#define ADD(a, b) ((C)((a) + (b)))
#endif

/* image += col. Rows of different channels touch different planes. */
void SHMT_LOOP(col2im)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_shape* s = ctx;

  (void)strides;
  for (int64_t r = 0; r < n; r++) {
    ROW_SETUP(r);
    const T* col = (const T*)(const void*)data[0] + r * s->col_row;
    for (int64_t d = d0; d < d1; d++) {
      for (int64_t h = h0; h < h1; h++) {
        const T* from = col + (d * s->out[1] + h) * s->out[2];
        T* line = image + (d * s->stride[0] + od) * s->step[1] + (h * s->stride[1] + oh) * s->step[2] + ow;
        if (s->stride[2] == 1) {
          for (int64_t w = w0; w < w1; w++) line[w] = SHMT_STORE(ADD(SHMT_LOAD(line[w]), SHMT_LOAD(from[w])));
        } else {
          for (int64_t w = w0; w < w1; w++) {
            T* at = &line[w * s->stride[2]];
            *at = SHMT_STORE(ADD(SHMT_LOAD(*at), SHMT_LOAD(from[w])));
          }
        }
      }
    }
  }
}

#undef ADD
#undef ROW_SETUP

/* Weights for the way back: data: (n, filters, kernel) with the kernel's elements in reverse, some channels of weight
 * (filters, channels, kernel); n: those channels; ctx: shmt__flip_shape. */
void SHMT_LOOP(conv_flip)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__flip_shape* s = ctx;
  T* to = (T*)(void*)data[0];
  const T* from = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t f = 0; f < s->filters; f++, to += s->size, from += s->filter_step)
    for (int64_t i = 0; i < n; i++)
      for (int64_t p = 0; p < s->size; p++)
        to[i * s->filters * s->size + p] = from[i * s->channel_step + (s->size - 1 - p) * s->place_step];
}
