/* kernels/norm.tmpl.h -- moments of dense runs, and elements shifted and scaled by them. One dtype.
 *
 * Sums run in 64 lanes over blocks of 1024 elements, whose sums are added up in double: so many lanes that no
 * addition waits for the one before; short runs take fewer. A sum's data[0] is a double that it is added to; the ctx of all is
 * shmt__norm_shape.
 */
#include "kernels/lanes.tmpl.h"
#include "kernels/shapes.h"

enum { FN(norm_lanes) = 64, FN(norm_few) = 16, FN(norm_block) = 1024, FN(norm_short) = 256 };

static inline double FN(sum_lanes)(const C* lanes) {
  double four[4] = {0};

  for (int k = 0; k < FN(norm_few); k++) four[k % 4] += (double)lanes[k];
  return (four[0] + four[1]) + (four[2] + four[3]);
}

/* Of short runs. */
ROW_SUM(sum_plain, (void)0, 0)
ROW_SUM(sum_centred_square, (v -= shift, v *= v), 0)
ROW_SUM(sum_centred_product, (v -= shift, v *= w), 0)

/* Elements from i on, each to a lane of its own. */
#define ADD_LANES(COUNT, EXPR)                                                                         \
  for (int64_t k = 0; k < (COUNT); k++) {                                                              \
    const C v = SHMT_LOAD(x[i + k]), w = SHMT_LOAD(g[i + k]);                                          \
    (void)v;                                                                                           \
    (void)w;                                                                                           \
    lanes[k] += (EXPR);                                                                                \
  }
#define RUN_SUM(NAME, SHORT, EXPR)                                                                            \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {        \
    const shmt__norm_shape* s = ctx;                                                                   \
    const T* x = (const T*)(const void*)data[1];                                                       \
    const T* g = data[2] ? (const T*)(const void*)data[2] : x;                                         \
    const C mean = (C)s->mean;                                                                         \
    double total = 0;                                                                                  \
    (void)strides;                                                                                     \
    if (n <= FN(norm_short)) {                                                                         \
      *(double*)(void*)data[0] += (double)FN(SHORT)(x, g, NULL, mean, n);                              \
      return;                                                                                          \
    }                                                                                                  \
    for (int64_t begin = 0; begin < n; begin += FN(norm_block)) {                                      \
      const int64_t end = begin + FN(norm_block) < n ? begin + FN(norm_block) : n;                     \
      C lanes[FN(norm_lanes)] = {0};                                                                   \
      int64_t i = begin;                                                                               \
      for (; i + FN(norm_lanes) <= end; i += FN(norm_lanes)) ADD_LANES(FN(norm_lanes), EXPR);          \
      for (; i + FN(norm_few) <= end; i += FN(norm_few)) ADD_LANES(FN(norm_few), EXPR);                \
      ADD_LANES(end - i, EXPR);                                                                        \
      for (int k = 0; k < FN(norm_few); k++) lanes[k] += lanes[k + 16] + (lanes[k + 32] + lanes[k + 48]); \
      total += FN(sum_lanes)(lanes);                                                                   \
    }                                                                                                  \
    *(double*)(void*)data[0] += total;                                                                 \
  }
RUN_SUM(run_sum, sum_plain, v)
RUN_SUM(run_square, sum_centred_square, (v - mean) * (v - mean))
RUN_SUM(run_product, sum_centred_product, (v - mean) * w)
#undef RUN_SUM
#undef ADD_LANES

/* data: out, x. out = x * scale + shift. */
void SHMT_LOOP(run_affine)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__norm_shape* s = ctx;
  const C scale = (C)s->scale, shift = (C)s->shift;
  T* out = (T*)(void*)data[0];
  const T* x = (const T*)(const void*)data[1];

  (void)strides;
  SHMT_IVDEP for (int64_t i = 0; i < n; i++) out[i] = SHMT_STORE((C)(SHMT_LOAD(x[i]) * scale + shift));
}

/* data: out, x, grad. out = (grad * weight + shift + (x - mean) * slope) * scale: what cancels does so before it is scaled. */
void SHMT_LOOP(run_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__norm_shape* s = ctx;
  const C scale = (C)s->scale, shift = (C)s->shift, slope = (C)s->slope, mean = (C)s->mean;
  const C weight = (C)s->weight;
  T* out = (T*)(void*)data[0];
  const T* x = (const T*)(const void*)data[1];
  const T* g = (const T*)(const void*)data[2];

  (void)strides;
  SHMT_IVDEP for (int64_t i = 0; i < n; i++)
    out[i] = SHMT_STORE((C)((SHMT_LOAD(g[i]) * weight + shift + (SHMT_LOAD(x[i]) - mean) * slope) * scale));
}

/* data: out, x, weight or NULL, bias or NULL. out = (x - mean) * scale * weight + bias, element by element. */
void SHMT_LOOP(row_norm)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__norm_shape* s = ctx;
  const C scale = (C)s->scale, mean = (C)s->mean;
  T* out = (T*)(void*)data[0];
  const T* x = (const T*)(const void*)data[1];
  const T* w = (const T*)(const void*)data[2];
  const T* b = (const T*)(const void*)data[3];

  (void)strides;
  if (w && b) {
    SHMT_IVDEP for (int64_t i = 0; i < n; i++)
      out[i] = SHMT_STORE((C)((SHMT_LOAD(x[i]) - mean) * scale * SHMT_LOAD(w[i]) + SHMT_LOAD(b[i])));
  } else if (w) {
    SHMT_IVDEP for (int64_t i = 0; i < n; i++)
      out[i] = SHMT_STORE((C)((SHMT_LOAD(x[i]) - mean) * scale * SHMT_LOAD(w[i])));
  } else {
    SHMT_IVDEP for (int64_t i = 0; i < n; i++)
      out[i] = SHMT_STORE((C)((SHMT_LOAD(x[i]) - mean) * scale + (b ? SHMT_LOAD(b[i]) : (C)0)));
  }
}

/* data: out, x, grad, weight or NULL, grad of weight (double) or NULL, grad of bias (double) or NULL. */
void SHMT_LOOP(row_norm_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__norm_shape* s = ctx;
  const C scale = (C)s->scale, mean = (C)s->mean;
  T* out = (T*)(void*)data[0];
  const T* x = (const T*)(const void*)data[1];
  const T* g = (const T*)(const void*)data[2];
  const T* w = (const T*)(const void*)data[3];
  double* to_weight = (double*)(void*)data[4];
  double* to_bias = (double*)(void*)data[5];

  (void)strides;
  if (to_weight)
    for (int64_t i = 0; i < n; i++) to_weight[i] += (double)(SHMT_LOAD(g[i]) * (SHMT_LOAD(x[i]) - mean) * scale);
  if (to_bias)
    for (int64_t i = 0; i < n; i++) to_bias[i] += (double)SHMT_LOAD(g[i]);
  if (!out) return;
  double sum = 0, product = 0;
  for (int64_t begin = 0; begin < n; begin += FN(norm_block)) {
    const int64_t end = begin + FN(norm_block) < n ? begin + FN(norm_block) : n;
    C sums[FN(norm_few)] = {0}, products[FN(norm_few)] = {0};
    for (int64_t i = begin; i < end; i += FN(norm_few)) {
      const int64_t width = end - i < FN(norm_few) ? end - i : FN(norm_few);
      for (int64_t k = 0; k < width; k++) {
        const C v = SHMT_LOAD(g[i + k]) * (w ? SHMT_LOAD(w[i + k]) : (C)1);
        sums[k] += v;
        products[k] += v * (SHMT_LOAD(x[i + k]) - mean) * scale;
      }
    }
    sum += FN(sum_lanes)(sums);
    product += FN(sum_lanes)(products);
  }
  const C mean_grad = (C)(s->uncentred ? 0 : sum / (double)n), mean_product = (C)(product / (double)n);
  for (int64_t i = 0; i < n; i++) {
    const C v = SHMT_LOAD(g[i]) * (w ? SHMT_LOAD(w[i]) : (C)1);
    const C unit = (SHMT_LOAD(x[i]) - mean) * scale;
    out[i] = SHMT_STORE((C)(scale * (v - mean_grad - unit * mean_product)));
  }
}
