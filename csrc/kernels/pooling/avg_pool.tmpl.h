/* kernels/pooling/avg_pool.tmpl.h -- average pooling and adaptive average pooling. One dtype.
 *
 * n dense planes, one after the other; ctx: shmt__pool_args (kernels/pooling/pool.h).
 */
#include "kernels/pooling/avg_pool_divisors.tmpl.h"

/* Outputs first .. last of a row; at: od and oh of the row, and d0, d1, h0, h1 of its windows. */
static void SHMT_LOOP(avg_pool_row)(const shmt__pool_args* s, const T* image, const int64_t* at, int64_t first,
                                    int64_t last, T* out) {
  TOTAL sum[SHMT_POOL_BLOCK];
  const int64_t n = last - first;
  int64_t k0, k1;

  shmt__pool_taps(s, first, last, &k0, &k1);
  for (int64_t w = 0; w < n; w++) sum[w] = 0;
  for (int64_t d = at[2]; d < at[3]; d++)
    for (int64_t h = at[4]; h < at[5]; h++)
      for (int64_t k = k0; k < k1; k++) {
        const int64_t offset = k - s->padding[2];
        const T* row = image + (d * s->in[1] + h) * s->in[2] + offset + first * s->stride[2];
        int64_t begin, end;
        shmt__pool_outputs_inside(s, offset, first, last, &begin, &end);
        begin -= first;
        end -= first;
        SHMT_POOL_EACH_IN_ROW(sum[w] += (TOTAL)SHMT_LOAD(row[w * step]);)
      }
  /* Windows that begin and end inside the image all have the same divisor. */
  const int64_t rows = (at[3] - at[2]) * (at[5] - at[4]);
  int64_t whole_begin, whole_end, unused;
  shmt__pool_outputs_inside(s, -s->padding[2], first, last, &whole_begin, &unused);
  shmt__pool_outputs_inside(s, s->kernel[2] - 1 - s->padding[2], first, last, &unused, &whole_end);
  if (at[3] <= at[2] || at[5] <= at[4] || whole_end < whole_begin) whole_end = whole_begin = last;
  const int64_t divisor = SHMT_LOOP(pool_divisor)(s, at[0], at[1], whole_begin, rows * s->kernel[2]);
  for (int64_t w = whole_begin; w < whole_end; w++)
    out[w - first] = SHMT_STORE((C)SHMT_LOOP(pool_divide)(sum[w - first], divisor));
  for (int64_t w = first; w < last; w++) {
    if (w == whole_begin && whole_end > w) w = whole_end;
    if (w >= last) break;
    int64_t w0, w1;
    shmt__pool_window(s, 2, w, &w0, &w1);
    const int64_t inside = w1 > w0 ? rows * (w1 - w0) : 0;
    const bool is_empty = at[3] <= at[2] || at[5] <= at[4] || w1 <= w0;
    const int64_t own_divisor = SHMT_LOOP(pool_divisor)(s, at[0], at[1], w, inside);
    out[w - first] = SHMT_STORE((C)(is_empty ? 0 : SHMT_LOOP(pool_divide)(sum[w - first], own_divisor)));
  }
}

/* The same for planes with short rows of outputs: a window is found once, for one output of all planes. */
static void SHMT_LOOP(avg_pool_planes)(const shmt__pool_args* s, const T* image, int64_t n, T* out) {
  const int64_t in_plane = SHMT_POOL_PLANE(s->in), out_plane = SHMT_POOL_PLANE(s->out);

  SHMT_POOL_EACH_OUTPUT {
    SHMT_POOL_WINDOW(shmt__pool_window);
    const bool is_empty = d1 <= d0 || h1 <= h0 || w1 <= w0;
    const int64_t inside = is_empty ? 0 : (d1 - d0) * (h1 - h0) * (w1 - w0);
    const int64_t divisor = SHMT_LOOP(pool_divisor)(s, od, oh, ow, inside);
    const T* corner = image;
    T* to = out++;
    for (int64_t p = 0; p < n; p++, corner += in_plane, to += out_plane) {
      TOTAL sum = 0;
      for (int64_t d = d0; d < d1; d++)
        for (int64_t h = h0; h < h1; h++) {
          const T* row = corner + (d * s->in[1] + h) * s->in[2];
          for (int64_t w = w0; w < w1; w++) sum += (TOTAL)SHMT_LOAD(row[w]);
        }
      *to = SHMT_STORE((C)(is_empty ? 0 : SHMT_LOOP(pool_divide)(sum, divisor)));
    }
  }
}

/* Elements of planes that stay in the first-level cache. */
enum { FN(near) = 16384 / sizeof(T) };

/* data: out, image. Up to SHMT_POOL_BLOCK outputs of a row are summed together. */
void SHMT_LOOP(avg_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_args* s = ctx;
  T* out = (T*)(void*)data[0];
  const T* image = (const T*)(const void*)data[1];
  shmt__pool_args row;

  (void)strides;
  if (shmt__pool_merge_rows(s, n, &row)) {
    s = &row;
    n = 1;
  }
  if (s->out[2] < 4) {
    const int64_t in_plane = SHMT_POOL_PLANE(s->in), most = in_plane < FN(near) ? FN(near) / (in_plane + 1) : 1;
    for (int64_t p = 0, many; p < n; p += many) {
      many = n - p < most ? n - p : most;
      SHMT_LOOP(avg_pool_planes)(s, image + p * in_plane, many, out + p * SHMT_POOL_PLANE(s->out));
    }
    return;
  }
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in))
    for (int64_t od = 0; od < s->out[0]; od++)
      for (int64_t oh = 0; oh < s->out[1]; oh++, out += s->out[2]) {
        int64_t d0, d1, h0, h1;
        shmt__pool_window(s, 0, od, &d0, &d1);
        shmt__pool_window(s, 1, oh, &h0, &h1);
        for (int64_t first = 0; first < s->out[2]; first += SHMT_POOL_BLOCK) {
          const int64_t last = first + SHMT_POOL_BLOCK < s->out[2] ? first + SHMT_POOL_BLOCK : s->out[2];
          SHMT_LOOP(avg_pool_row)(s, image, (const int64_t[]){od, oh, d0, d1, h0, h1}, first, last, out + first);
        }
      }
}

#if SHMT_IS_FLOATING
/* data: out, image. */
void SHMT_LOOP(adaptive_avg_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_args* s = ctx;
  T* out = (T*)(void*)data[0];
  const T* image = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in)) {
    SHMT_POOL_EACH_OUTPUT {
      SHMT_POOL_WINDOW(shmt__adaptive_pool_window);
      TOTAL sum = 0;
      for (int64_t d = d0; d < d1; d++)
        for (int64_t h = h0; h < h1; h++) {
          const T* row = image + (d * s->in[1] + h) * s->in[2];
          for (int64_t w = w0; w < w1; w++) sum += (TOTAL)SHMT_LOAD(row[w]);
        }
      const int64_t inside = (d1 - d0) * (h1 - h0) * (w1 - w0);
      *out++ = SHMT_STORE((C)(inside <= 0 ? 0 : SHMT_LOOP(pool_divide)(sum, inside)));
    }
  }
}
#endif

#if SHMT_IS_FLOATING && !SHMT_IS_HALF
enum { FN(lanes) = 32 / sizeof(T) };
typedef T FN(some) __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));

/* The average of so many vectors of channels over one window: sums stay in registers. */
static inline __attribute__((always_inline)) void FN(average_channels)(const shmt__pool_row_args* r, const T* image,
                                                                       const int64_t* at, T divisor, int many, T* to) {
  const int64_t* in = r->shape->in;
  FN(some) sum[4] = {{0}};

  for (int64_t d = at[0]; d < at[1]; d++)
    for (int64_t h = at[2]; h < at[3]; h++)
      for (int64_t w = at[4]; w < at[5]; w++) {
        const T* row = image + ((d * in[1] + h) * in[2] + w) * r->channels;
#pragma GCC unroll 4
        for (int k = 0; k < many; k++) sum[k] += *(const FN(some)*)(const void*)(row + k * FN(lanes));
      }
#pragma GCC unroll 4
  for (int k = 0; k < many; k++) *(FN(some)*)(void*)(to + k * FN(lanes)) = sum[k] / divisor;
}

/* data: a row of outputs; the image; both NHWC. */
void SHMT_LOOP(avg_pool_channels_last)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_row_args* r = ctx;
  const shmt__pool_args* s = r->shape;
  T* to = (T*)(void*)data[0];
  const T* image = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t ow = 0; ow < n; ow++, to += r->channels) {
    int64_t at[6], divisor, c = 0;
    if (!SHMT_LOOP(pool_row_divisor)(r, ow, at, &divisor)) {
      for (; c < r->channels; c++) to[c] = 0;
      continue;
    }
    for (; c + 4 * FN(lanes) <= r->channels; c += 4 * FN(lanes))
      FN(average_channels)(r, image + c, at, (T)divisor, 4, to + c);
    for (; c + FN(lanes) <= r->channels; c += FN(lanes)) FN(average_channels)(r, image + c, at, (T)divisor, 1, to + c);
    for (; c < r->channels; c++) {
      TOTAL sum = 0;
      for (int64_t d = at[0]; d < at[1]; d++)
        for (int64_t h = at[2]; h < at[3]; h++)
          for (int64_t w = at[4]; w < at[5]; w++)
            sum += (TOTAL)image[((d * s->in[1] + h) * s->in[2] + w) * r->channels + c];
      to[c] = (T)SHMT_LOOP(pool_divide)(sum, divisor);
    }
  }
}
#endif
#undef TOTAL
#undef ADD
