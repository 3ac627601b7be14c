/* kernels/distance.tmpl.h -- distances of rows to many others and their gradients, one dtype.
 *
 * The others lie transposed, so that vectors are neighbouring rows and no sum goes across a vector. What belongs to one
 * run of coordinates is summed by itself: long rows lose no more digits than short ones.
 */
#include "kernels/distance.h"
#include "kernels/loops.h"
#include "kernels/shapes.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi"
#if SHMT_ISA_LEVEL == 2
#define VECTOR_BYTES 64
#else
#define VECTOR_BYTES (SHMT_ISA_LEVEL == 1 ? 32 : 16)
#endif
#define INLINE static inline __attribute__((always_inline))

enum { FN(lanes) = VECTOR_BYTES / sizeof(T), FN(run) = 256 };
typedef T FN(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef __typeof__(_Generic((T)0, float: (int32_t)0, default: (int64_t)0)) FN(places)
    __attribute__((vector_size(VECTOR_BYTES)));

/* a where the mask holds, else b. */
INLINE FN(vector) FN(choose)(FN(places) mask, FN(vector) a, FN(vector) b) {
  return (FN(vector))((mask & (FN(places))a) | (~mask & (FN(places))b));
}

/* One more coordinate: d is the difference. */
INLINE FN(vector) FN(add_coordinate)(FN(vector) sum, FN(vector) d, const int norm) {
  const FN(vector) zero = {0}, size = FN(choose)(d < zero, -d, d);

  if (norm == 0) return sum + FN(choose)(d == d, FN(choose)(d != zero, zero + 1, zero), d); /* NaN stays */
  if (norm == 1) return sum + size;
  if (norm == 2) return sum + d * d;
  /* The largest; NaN stays. */
  return FN(choose)((size > sum) | (size != size), size, sum);
}

INLINE void FN(distances)(const shmt__distance_shape* s, const T* x, const T* others, T* out, const int norm,
                          const int n_vectors) {
  FN(vector) total[4] = {{0}};

  for (int64_t begin = 0; begin < s->length; begin += FN(run)) {
    const int64_t end = begin + FN(run) < s->length ? begin + FN(run) : s->length;
    FN(vector) sum[4] = {{0}};
    for (int64_t m = begin; m < end; m++) {
#pragma GCC unroll 4
      for (int v = 0; v < n_vectors; v++) {
        FN(vector) y;
        memcpy(&y, others + m * s->pitch + v * FN(lanes), sizeof y);
        sum[v] = FN(add_coordinate)(sum[v], x[m] - y, norm);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++)
      total[v] = norm > 2 ? FN(add_coordinate)(total[v], sum[v], norm) : total[v] + sum[v];
  }
#pragma GCC unroll 4
  for (int v = 0; v < n_vectors; v++) {
    const FN(vector) done = total[v];
    memcpy(out + v * FN(lanes), &done, sizeof done);
  }
}

INLINE void FN(distances_of_row)(const shmt__distance_shape* s, const T* x, const T* others, T* out, const int norm) {
  int64_t j = 0;

  for (; j + 4 * FN(lanes) <= s->others; j += 4 * FN(lanes)) FN(distances)(s, x, others + j, out + j, norm, 4);
  for (; j < s->others; j += FN(lanes)) {
    T block[FN(lanes)];
    FN(distances)(s, x, others + j, block, norm, 1);
    memcpy(out + j, block, (size_t)(s->others - j < FN(lanes) ? s->others - j : FN(lanes)) * sizeof(T));
  }
  if (norm != 2) return;
  for (j = 0; j < s->others; j++) out[j] = (T)_Generic((T)0, float: __builtin_sqrtf, default: __builtin_sqrt)(out[j]);
}

/* data: out (n, others), whose rows lie strides[0] bytes apart, rows (n, length), others (length, pitch), anything beyond
 * the last; ctx: shmt__distance_shape. */
void SHMT_LOOP(distance)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__distance_shape* s = ctx;
  const T *x = (const T*)(const void*)data[1], *others = (const T*)(const void*)data[2];

  for (int64_t i = 0; i < n; i++, x += s->length) {
    T* out = (T*)(void*)(data[0] + i * strides[0]);
    if (s->norm == 0) FN(distances_of_row)(s, x, others, out, 0);
    if (s->norm == 1) FN(distances_of_row)(s, x, others, out, 1);
    if (s->norm == 2) FN(distances_of_row)(s, x, others, out, 2);
    if (s->norm == 3) FN(distances_of_row)(s, x, others, out, 3);
  }
}
/* --- gradients ---------------------------------------------------------------------------------- */

enum { FN(slope_run) = 64, FN(slope_vectors) = FN(slope_run) / FN(lanes) };

/* The derivative of a distance of norm 1, 2 or 3 by the difference d. Where it is 0 there is none. */
INLINE T FN(slope)(T d, T distance, const int norm) {
  const T sign = (T)((d > 0) - (d < 0));

  if (norm == 1) return d != d ? d : sign;
  if (norm == 2) return distance == 0 ? 0 : d / distance;
  return (d < 0 ? -d : d) == distance ? sign : 0;
}

/* Of the norm's largest difference those that are as large share the gradient. */
INLINE T FN(shared)(T grad, const T* x, const T* y, int64_t n, T distance) {
  int64_t ties = 0;

  for (int64_t m = 0; m < n; m++) ties += (x[m] - y[m] < 0 ? y[m] - x[m] : x[m] - y[m]) == distance;
  return grad / (T)ties;
}

INLINE void FN(slopes_of_row)(const shmt__distance_slopes* s, T* to, const T* x, const T* others, const T* grads,
                              const T* distances, const int norm) {
  for (int64_t begin = 0; begin < s->length; begin += FN(slope_run)) {
    const int64_t n = s->length - begin < FN(slope_run) ? s->length - begin : FN(slope_run);
    int64_t grad_at = 0, grad_step = s->grad_step, distance_at = 0, distance_step = s->distance_step;
    double sum[FN(slope_run)] = {0};
    for (int64_t first = 0; first < s->others; first += FN(run)) {
      const int64_t stop = first + FN(run) < s->others ? first + FN(run) : s->others;
      T part[FN(slope_run)] = {0};
      FN(vector) sums[FN(slope_vectors)] = {{0}};
      for (int64_t j = first; j < stop; j++) {
        const T distance = distances[distance_at], *y = others + j * s->length;
        const T grad = norm == 3 ? FN(shared)(grads[grad_at], x, y, s->length, distance) : grads[grad_at];
        const T share = norm == 2 && distance != 0 ? grad / distance : 0;
        const T *a = x + begin, *b = y + begin;
        if (norm == 2 && share - share == 0 && n == FN(slope_run)) { /* finite: one division does for all */
#pragma GCC unroll 16
          for (int v = 0; v < FN(slope_vectors); v++) {
            FN(vector) left, right;
            memcpy(&left, a + v * FN(lanes), sizeof left);
            memcpy(&right, b + v * FN(lanes), sizeof right);
            sums[v] += share * (left - right);
          }
        } else if (norm == 2 && share - share == 0) {
          for (int64_t m = 0; m < n; m++) part[m] += share * (a[m] - b[m]);
        } else {
          for (int64_t m = 0; m < n; m++) part[m] += grad * FN(slope)(a[m] - b[m], distance, norm);
        }
        grad_at += grad_step;
        grad_step -= s->grad_shrink;
        distance_at += distance_step;
        distance_step -= s->distance_shrink;
      }
      for (int64_t m = 0; m < n; m++) sum[m] += (double)part[m] + (double)sums[m / FN(lanes)][m % FN(lanes)];
    }
    for (int64_t m = 0; m < n; m++) to[begin + m] += (T)sum[m];
  }
}

/* data: gradient of the row (added to), row, others (others, length), gradients of the distances, distances. n is 1. */
void SHMT_LOOP(distance_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__distance_slopes* s = ctx;
  T* to = (T*)(void*)data[0];
  const T *x = (const T*)(const void*)data[1], *others = (const T*)(const void*)data[2];
  const T *grads = (const T*)(const void*)data[3], *distances = (const T*)(const void*)data[4];

  (void)strides;
  (void)n;
  if (s->norm == 1) FN(slopes_of_row)(s, to, x, others, grads, distances, 1);
  if (s->norm == 2) FN(slopes_of_row)(s, to, x, others, grads, distances, 2);
  if (s->norm == 3) FN(slopes_of_row)(s, to, x, others, grads, distances, 3);
}
#undef INLINE
#undef VECTOR_BYTES
