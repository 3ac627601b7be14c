/* kernels/conv/depthwise.tmpl.h -- depthwise convolution: one plane with one filter, one dtype.
 *
 * data: output, image, filter, scratch of shmt__conv_depthwise_scratch elements; n: 1; ctx: shmt__conv_shape, whose
 * depth is
 * 1. The image is copied into the scratch with its padding, so that no vector of outputs needs a check for the border.
 */
#include "kernels/template.h"
#include "kernels/loop_args.h"

#include <string.h>

/* Two vectors of 32 bytes at a time, or four of float64. */
enum { FN(lanes) = 32 / sizeof(T), FN(block) = SHMT_CONV_DEPTHWISE_LANES, FN(vectors) = FN(block) / FN(lanes) };
typedef T FN(vector) __attribute__((vector_size(FN(lanes) * sizeof(T))));

typedef __typeof__(_Generic((T)0, float: (int32_t)0, default: (int64_t)0)) FN(integers)
    __attribute__((vector_size(FN(lanes) * sizeof(T))));

/* Only inlined functions return vectors. */
#pragma GCC diagnostic ignored "-Wpsabi"
#define INLINE static inline __attribute__((always_inline))

INLINE FN(vector) FN(load)(const T* x, int64_t stride) {
  FN(vector) v;
  if (stride == 1) {
    memcpy(&v, x, sizeof v);
    return v;
  }
  if (stride == 2) {
    /* Every other element of two vectors; the second one begins early, so that nothing behind the last element is
     * read. */
    FN(vector) w;
    FN(integers) lanes;
    for (int k = 0; k < FN(lanes); k++) lanes[k] = k < FN(lanes) / 2 ? 2 * k : 2 * k + 1;
    memcpy(&v, x, sizeof v);
    memcpy(&w, x + FN(lanes) - 1, sizeof w);
    return __builtin_shuffle(v, w, lanes);
  }
  for (int k = 0; k < FN(lanes); k++) v[k] = x[k * stride];
  return v;
}

static void FN(pad)(const shmt__conv_shape* s, const T* image, T* padded) {
  const int64_t row = shmt__conv_depthwise_row(s);
  memset(padded, 0, (size_t)(shmt__conv_depthwise_scratch(s)) * sizeof(T));
  for (int64_t h = 0; h < s->in[1]; h++)
    memcpy(padded + (h + s->padding[1]) * row + s->padding[2], image + h * s->step[2], (size_t)s->in[2] * sizeof(T));
}

/* SHMT_CONV_DEPTHWISE_LANES outputs of a row; line: where the first row of their input begins. */
INLINE void FN(filter_block)(const shmt__conv_shape* s, const T* filter, const T* line, int64_t row, int64_t stride,
                             T* out) {
  const int64_t n_rows = s->kernel[1], n_columns = s->kernel[2], dilation = s->dilation[2];
  FN(vector) sum[FN(vectors)] = {{0}};

  for (int64_t kh = 0; kh < n_rows; kh++, line += s->dilation[1] * row) {
    for (int64_t kw = 0; kw < n_columns; kw++) {
      const T weight = *filter++;
#pragma GCC unroll 4
      for (int v = 0; v < FN(vectors); v++)
        sum[v] += weight * FN(load)(line + kw * dilation + v * FN(lanes) * stride, stride);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < FN(vectors); v++) memcpy(out + v * FN(lanes), &sum[v], sizeof sum[v]);
}

/* stride: along the width; callers pass a constant for the usual ones. */
INLINE void FN(filter)(const shmt__conv_shape* s, const T* filter, const T* padded, int64_t stride, T* out) {
  const int64_t row = shmt__conv_depthwise_row(s), width = s->out[2];

  for (int64_t h = 0; h < s->out[1]; h++, out += width, padded += s->stride[1] * row) {
    int64_t w = 0;
    for (; w + FN(block) <= width; w += FN(block))
      FN(filter_block)(s, filter, padded + w * stride, row, stride, out + w);
    if (w < width) {
      T last[FN(block)];
      FN(filter_block)(s, filter, padded + w * stride, row, stride, last);
      memcpy(out + w, last, (size_t)(width - w) * sizeof(T));
    }
  }
}

void SHMT_LOOP(conv_depthwise)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_shape* s = ctx;
  T* padded = (T*)(void*)data[3];

  (void)strides, (void)n;
  FN(pad)(s, (const T*)(const void*)data[1], padded);
  if (s->stride[2] == 1)
    FN(filter)(s, (const T*)(const void*)data[2], padded, 1, (T*)(void*)data[0]);
  else if (s->stride[2] == 2)
    FN(filter)(s, (const T*)(const void*)data[2], padded, 2, (T*)(void*)data[0]);
  else
    FN(filter)(s, (const T*)(const void*)data[2], padded, s->stride[2], (T*)(void*)data[0]);
}

/* Weight gradient of n neighbouring elements of the filter, summed over the outputs of a plane; line: the first input
 * row. */
INLINE void FN(weight_grad_taps)(const shmt__conv_shape* s, const T* grad, const T* line, int64_t row, int64_t stride,
                                 const int n, T* to) {
  const int64_t width = s->out[2], dilation = s->dilation[2], whole = width / FN(lanes) * FN(lanes);
  FN(vector) sum[4] = {{0}};
  FN(integers) is_inside;

  for (int k = 0; k < FN(lanes); k++) is_inside[k] = whole + k < width ? -1 : 0;
  for (int64_t h = 0; h < s->out[1]; h++, grad += width, line += s->stride[1] * row) {
    for (int64_t w = 0; w < whole; w += FN(lanes)) {
      const FN(vector) g = FN(load)(grad + w, 1);
#pragma GCC unroll 4
      for (int k = 0; k < n; k++) sum[k] += g * FN(load)(line + k * dilation + w * stride, stride);
    }
    if (whole == width) continue;
    T last[FN(lanes)] = {0};
    memcpy(last, grad + whole, (size_t)(width - whole) * sizeof(T));
    const FN(vector) g = FN(load)(last, 1);
#pragma GCC unroll 4
    for (int k = 0; k < n; k++) {
      /* Elements beyond the row may be infinite: mask them. */
      const FN(vector) x = FN(load)(line + k * dilation + whole * stride, stride);
      sum[k] += g * (FN(vector))((FN(integers))x & is_inside);
    }
  }
  for (int k = 0; k < n; k++) {
    T total = 0;
    for (int v = 0; v < FN(lanes); v++) total += sum[k][v];
    to[k] += total;
  }
}

INLINE void FN(weight_grad)(const shmt__conv_shape* s, const T* grad, const T* padded, int64_t stride, T* to) {
  const int64_t row = shmt__conv_depthwise_row(s), n = s->kernel[2];

  for (int64_t kh = 0; kh < s->kernel[1]; kh++, to += n) {
    const T* line = padded + kh * s->dilation[1] * row;
    int64_t k = 0;
    for (; k + 4 <= n; k += 4) FN(weight_grad_taps)(s, grad, line + k * s->dilation[2], row, stride, 4, to + k);
    if (n - k == 3) FN(weight_grad_taps)(s, grad, line + k * s->dilation[2], row, stride, 3, to + k);
    if (n - k == 2) FN(weight_grad_taps)(s, grad, line + k * s->dilation[2], row, stride, 2, to + k);
    if (n - k == 1) FN(weight_grad_taps)(s, grad, line + k * s->dilation[2], row, stride, 1, to + k);
  }
}

/* data: gradient of the filter (added to), image, gradient of the output, scratch; n: 1; ctx: as above. */
void SHMT_LOOP(conv_depthwise_weight_grad)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_shape* s = ctx;
  const T* grad = (const T*)(const void*)data[2];
  T* padded = (T*)(void*)data[3];

  (void)strides, (void)n;
  FN(pad)(s, (const T*)(const void*)data[1], padded);
  if (s->stride[2] == 1)
    FN(weight_grad)(s, grad, padded, 1, (T*)(void*)data[0]);
  else if (s->stride[2] == 2)
    FN(weight_grad)(s, grad, padded, 2, (T*)(void*)data[0]);
  else
    FN(weight_grad)(s, grad, padded, s->stride[2], (T*)(void*)data[0]);
}
#undef INLINE
