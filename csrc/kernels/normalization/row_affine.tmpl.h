/* kernels/normalization/row_affine.tmpl.h -- normalises contiguous runs of elements with given moments. One dtype.
 *
 * Forward and backward. The ctx of all loops is shmt__norm_args; row_moments.tmpl.h computes the moments.
 */
#include "kernels/simd/half_runs.h"
#include "kernels/template.h"
#include "kernels/loop_args.h"

enum { FN(norm_few) = 16, FN(norm_block) = 1024 };

static inline double FN(sum_lanes)(const C* lanes) {
  double four[4] = {0};

  for (int k = 0; k < FN(norm_few); k++) four[k % 4] += (double)lanes[k];
  return (four[0] + four[1]) + (four[2] + four[3]);
}

#if !SHMT_IS_FLOAT16_LOOP
/* data: out, x. out = x * scale + shift. */
void SHMT_LOOP(run_affine)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__norm_args* s = ctx;
  const C scale = (C)s->scale, shift = (C)s->shift;
  T* out = (T*)(void*)data[0];
  const T* x = (const T*)(const void*)data[1];

  (void)strides;
  SHMT_IVDEP for (int64_t i = 0; i < n; i++) out[i] = SHMT_STORE((C)(SHMT_LOAD(x[i]) * scale + shift));
}

/* data: out, x, grad. out = (grad * weight + shift + (x - mean) * slope) * scale. Terms that cancel do so before
 * scaling. */
void SHMT_LOOP(run_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__norm_args* s = ctx;
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
  const shmt__norm_args* s = ctx;
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
#else
/* Runs the float32 loop over blocks that the processor's instructions convert. Inputs may be NULL. */
static void FN(norm_by_blocks)(shmt__loop full, int n_inputs, char* const* data, int64_t n, const void* ctx) {
  enum { WIDTH = 512 };
  C in[3][WIDTH], out[WIDTH];
  char* at[4] = {(char*)out};

  for (int64_t i = 0, width; i < n; i += width) {
    width = n - i < WIDTH ? n - i : WIDTH;
    for (int k = 0; k < n_inputs; k++)
      if (data[k + 1]) {
        at[k + 1] = (char*)in[k];
        SHMT_WIDEN_RUN(in[k], (const T*)(const void*)data[k + 1] + i, width);
      }
    full(at, NULL, width, ctx);
    SHMT_NARROW_RUN((T*)(void*)data[0] + i, out, width);
  }
}
#define BY_BLOCKS(NAME, N_INPUTS)                                                                         \
  void SHMT_FULL_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx);       \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {           \
    (void)strides;                                                                                        \
    FN(norm_by_blocks)(SHMT_FULL_LOOP(NAME), N_INPUTS, data, n, ctx);                                     \
  }
BY_BLOCKS(run_affine, 1)
BY_BLOCKS(run_backward, 2)
BY_BLOCKS(row_norm, 3)
#undef BY_BLOCKS
#endif

/* data: out, x, grad, weight or NULL, grad of weight (double) or NULL, grad of bias (double) or NULL. */
void SHMT_LOOP(row_norm_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__norm_args* s = ctx;
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
