/* kernels/matmul/gemm.tmpl.h -- matrix products and dot products without a BLAS, one dtype.
 *
 * They are used for integers and bool, for layouts that a BLAS cannot read, and for all products where no BLAS was
 * found.
 */
#include "kernels/simd/half_runs.h"
#include "kernels/loop_args.h"

#include <stddef.h>

/* Integers wrap, so they are summed unsigned, in no more bits than the result keeps. */
#if SHMT_IS_BOOL
#define SUM uint64_t
#define FROM_SUM(v) ((v) != 0)
#elif SHMT_IS_INTEGRAL
#define SUM                                                                                        \
  __typeof__(_Generic((T*)0, int64_t*: (uint64_t)0, uint64_t*: (uint64_t)0, int32_t*: (uint32_t)0, \
                      uint32_t*: (uint32_t)0, default: (uint16_t)0))
#define FROM_SUM(v) SHMT_STORE((C)(v))
#define TIMES(x, y) ((SUM)(1u * (SUM)(x) * (SUM)(y))) /* no int, which may not overflow */
#else
#define SUM ACC
#define FROM_SUM(v) SHMT_STORE((C)(v))
#endif
#ifndef TIMES
#define TIMES(x, y) ((SUM)(x) * (SUM)(y))
#endif

enum { SHMT_LOOP(gemm_width) = 128 };

/* sum[j] += x * b[j]. On its own, so that the compiler leaves the order of the loops around it. */
static __attribute__((noinline)) void SHMT_LOOP(gemm_row)(SUM* sum, SUM x, const T* b, int64_t stride, int64_t n) {
  if (stride == 1) {
    for (int64_t j = 0; j < n; j++) sum[j] += TIMES(x, SHMT_LOAD(b[j]));
  } else {
    for (int64_t j = 0; j < n; j++) sum[j] += TIMES(x, SHMT_LOAD(b[j * stride]));
  }
}

/* The dot product of two vectors; steps in elements. It sums in several lanes, so that dense vectors vectorise. */
enum { SHMT_LOOP(gemm_lanes) = 16, SHMT_LOOP(gemm_stretch) = 512 };
static SUM SHMT_LOOP(line_product)(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t n, bool conjugate) {
  SUM lanes[SHMT_LOOP(gemm_lanes)] = {0}, sum = 0;
  int64_t i = 0;

#if SHMT_IS_HALF && !SHMT_IS_COMPLEX
  if (a_step == 1 && b_step == 1)
    for (int64_t width; n - i >= SHMT_LOOP(gemm_lanes); i += width) {
      float x[SHMT_LOOP(gemm_stretch)], y[SHMT_LOOP(gemm_stretch)];
      width = n - i < SHMT_LOOP(gemm_stretch) ? (n - i) & -(int64_t)SHMT_LOOP(gemm_lanes) : SHMT_LOOP(gemm_stretch);
      SHMT_WIDEN_RUN(x, a + i, width);
      SHMT_WIDEN_RUN(y, b + i, width);
      for (int64_t j = 0; j < width; j += SHMT_LOOP(gemm_lanes))
        for (int k = 0; k < SHMT_LOOP(gemm_lanes); k++) lanes[k] += TIMES(x[j + k], y[j + k]);
    }
#endif
  if (a_step == 1 && b_step == 1 && !conjugate)
    for (; i + SHMT_LOOP(gemm_lanes) <= n; i += SHMT_LOOP(gemm_lanes))
      for (int k = 0; k < SHMT_LOOP(gemm_lanes); k++)
        lanes[k] += TIMES(SHMT_LOAD(a[i + k]), SHMT_LOAD(b[i + k]));
  for (int k = 0; k < SHMT_LOOP(gemm_lanes); k++) sum += lanes[k];
  for (; i < n; i++) {
    C x = SHMT_LOAD(a[i * a_step]);
#if SHMT_IS_COMPLEX
    if (conjugate) x = ~x; /* GNU C: the conjugate */
#endif
    sum += TIMES(x, SHMT_LOAD(b[i * b_step]));
  }
  return sum;
}

/* data: c, a, b; n: rows of c to make; ctx: shmt__gemm_args. The inner loop runs along b's row, so that a dense
 * b vectorises; blocks of columns keep the sums in the nearest cache. */
void SHMT_LOOP(gemm)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__gemm_args* s = ctx;
  const SUM alpha = *(const SUM*)s->alpha;
  const SUM beta = *(const SUM*)s->beta;
  SUM sum[SHMT_LOOP(gemm_width)];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    const T* a = (const T*)(const void*)data[1] + i * s->a_row;
    for (int64_t j0 = 0; j0 < s->n; j0 += SHMT_LOOP(gemm_width)) {
      const int64_t width = s->n - j0 < SHMT_LOOP(gemm_width) ? s->n - j0 : SHMT_LOOP(gemm_width);
      T* to = (T*)(void*)data[0] + i * s->c_row + j0 * s->c_column;
      for (int64_t j = 0; j < width; j++) sum[j] = 0;
      if (s->n == 1)
        *sum = SHMT_LOOP(line_product)(a, s->a_column, (const T*)(const void*)data[2], s->b_row, s->k, false);
      for (int64_t p = 0; s->n > 1 && p < s->k; p++)
        SHMT_LOOP(gemm_row)(sum, (SUM)SHMT_LOAD(a[p * s->a_column]),
                            (const T*)(const void*)data[2] + p * s->b_row + j0 * s->b_column, s->b_column, width);
      if (s->beta_is_zero) {
        for (int64_t j = 0; j < width; j++) to[j * s->c_column] = FROM_SUM(TIMES(alpha, sum[j]));
      } else {
        for (int64_t j = 0; j < width; j++) {
          const SUM old = (SUM)SHMT_LOAD(to[j * s->c_column]);
          to[j * s->c_column] = FROM_SUM(TIMES(alpha, sum[j]) + TIMES(beta, old));
        }
      }
    }
  }
}

/* data: out, x, y; strides in bytes; ctx not NULL: conj(x). */
void SHMT_LOOP(dot)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t item = sizeof(T);
  const SUM sum = SHMT_LOOP(line_product)((const T*)(const void*)data[1], strides[1] / item,
                                          (const T*)(const void*)data[2], strides[2] / item, n, ctx != NULL);

  *(T*)(void*)data[0] = FROM_SUM(sum);
}

/* Convert alpha or beta to the type of the sums: data[0] receives it, ctx is a shmt__gemm_scalar. */
void SHMT_LOOP(gemm_scalar)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__gemm_scalar* v = ctx;

  (void)strides;
  (void)n;
#if SHMT_IS_COMPLEX
  SUM z = 0;
  __real__ z = v->re;
  __imag__ z = v->im;
  *(SUM*)(void*)data[0] = z;
#elif SHMT_IS_FLOATING
  *(SUM*)(void*)data[0] = (SUM)v->re;
#else
  *(SUM*)(void*)data[0] = (SUM)v->integer;
#endif
}

#undef SUM
#undef TIMES
#undef FROM_SUM
