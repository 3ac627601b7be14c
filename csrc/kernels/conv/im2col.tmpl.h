/* kernels/conv/im2col.tmpl.h -- im2col and col2im: images as column matrices for convolution, and back. One dtype.
 *
 * data: col, image; n: how many rows of col; ctx: shmt__conv_shape. Row (channel, kd, kh, kw) of col holds, for every
 * output position, the image element under that filter element; 0 outside the image. Rows are ctx->col_row elements
 * apart.
 */
#include "kernels/loop_args.h"

#include <string.h>

/* The outputs [begin, end) along one dim whose image element for this filter element lies inside. */
static inline void SHMT_LOOP(inside)(int64_t offset, int64_t stride, int64_t in, int64_t out, int64_t* begin,
                                     int64_t* end) {
  /* Divisions would take longer than a short row. */
  const bool is_dense = stride == 1;
  *begin = offset >= 0 ? 0 : is_dense ? -offset : (-offset + stride - 1) / stride;
  *end = in <= offset ? 0 : is_dense ? in - offset : (in - 1 - offset) / stride + 1;
  if (*begin > out) *begin = out;
  if (*end > out) *end = out;
  if (*end < *begin) *end = *begin;
}

/* Set up row r: its channel and filter element, and where its outputs begin and end. */
#define ROW_SETUP(r)                                                                                                \
  const int64_t line_at = (r) / s->kernel[2], plane_at = line_at / s->kernel[1], channel = plane_at / s->kernel[0]; \
  const int64_t kw = (r) - line_at * s->kernel[2], kh = line_at - plane_at * s->kernel[1];                          \
  const int64_t kd = plane_at - channel * s->kernel[0];                                                             \
  const int64_t od = kd * s->dilation[0] - s->padding[0], oh = kh * s->dilation[1] - s->padding[1];                 \
  const int64_t ow = kw * s->dilation[2] - s->padding[2];                                                           \
  int64_t d0, d1, h0, h1, w0, w1;                                                                                   \
  SHMT_LOOP(inside)(od, s->stride[0], s->in[0], s->out[0], &d0, &d1);                                               \
  SHMT_LOOP(inside)(oh, s->stride[1], s->in[1], s->out[1], &h0, &h1);                                               \
  SHMT_LOOP(inside)(ow, s->stride[2], s->in[2], s->out[2], &w0, &w1);                                               \
  T* const image = (T*)(void*)data[1] + channel * s->step[0]

/* Copy a row. Most rows are short: a call of memcpy would take longer than the copy. */
static inline void SHMT_LOOP(put_row)(T* to, const T* from, int64_t n) {
  enum { LONG_ROW = 256, CHUNK = 32, PART = 8 };
  const int64_t nbytes = n * (int64_t)sizeof(T);
  char* const last = (char*)to + nbytes;
  const char* const end = (const char*)from + nbytes;

  if (nbytes > LONG_ROW) {
    memcpy(to, from, (size_t)nbytes);
  } else if (nbytes >= CHUNK) {
    for (int64_t i = 0; i + CHUNK <= nbytes; i += CHUNK) memcpy((char*)to + i, (const char*)from + i, CHUNK);
    memcpy(last - CHUNK, end - CHUNK, CHUNK);
  } else if (nbytes >= PART) {
    for (int64_t i = 0; i + PART <= nbytes; i += PART) memcpy((char*)to + i, (const char*)from + i, PART);
    memcpy(last - PART, end - PART, PART);
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
  }
}

/* Padding is mostly one or two elements. */
static inline void SHMT_LOOP(put_zeros)(T* to, int64_t n) {
  const T zero = SHMT_STORE((C)0);

  if (n > 0) to[0] = zero;
  if (n > 1) to[1] = zero;
  if (n <= 2) return;
  for (int64_t i = 2; i < n; i++) to[i] = zero;
}

void SHMT_LOOP(im2col)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_shape* s = ctx;

  (void)strides;
  for (int64_t r = 0; r < n; r++) {
    ROW_SETUP(r);
    T* col = (T*)(void*)data[0] + r * s->col_row;
    for (int64_t d = 0; d < s->out[0]; d++) {
      for (int64_t h = 0; h < s->out[1]; h++, col += s->out[2]) {
        if (d < d0 || d >= d1 || h < h0 || h >= h1 || w0 == w1) {
          SHMT_LOOP(put_zeros)(col, s->out[2]);
          continue;
        }
        const int64_t line = (d * s->stride[0] + od) * s->step[1] + (h * s->stride[1] + oh) * s->step[2];
        const T* first = image + (line + ow + w0 * s->stride[2]); /* padding may be beyond all memory */
        SHMT_LOOP(put_zeros)(col, w0);
        if (s->stride[2] == 1)
          SHMT_LOOP(put_row)(col + w0, first, w1 - w0);
        else
          for (int64_t w = w0; w < w1; w++) col[w] = first[(w - w0) * s->stride[2]];
        SHMT_LOOP(put_zeros)(col + w1, s->out[2] - w1);
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

/* The flipped weight of an input gradient. data: (n, filters, kernel) with the kernel's elements in reverse; some
 * channels of a weight (filters, channels, kernel). n: those channels; ctx: shmt__conv_flip_args. */
void SHMT_LOOP(conv_flip)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_flip_args* s = ctx;
  T* to = (T*)(void*)data[0];
  const T* from = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t f = 0; f < s->filters; f++, to += s->size, from += s->filter_step)
    for (int64_t i = 0; i < n; i++)
      for (int64_t p = 0; p < s->size; p++)
        to[i * s->filters * s->size + p] = from[i * s->channel_step + (s->size - 1 - p) * s->position_step];
}
