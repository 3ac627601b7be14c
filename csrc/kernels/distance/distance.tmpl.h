/* kernels/distance/distance.tmpl.h -- distances of rows to many other rows, and their gradients. One dtype.
 *
 * The other rows are transposed, so that a vector holds neighbouring rows and no sum goes across a vector. Each run of
 * coordinates is summed by itself, so that long rows lose no more digits than short ones.
 */
#include "kernels/distance/distance.h"
#include "kernels/template.h"
#include "kernels/loop_args.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC optimize("fp-contract=fast")
#define INLINE static inline __attribute__((always_inline))

/* Rows at a time: their sums and one vector of others stay in registers. */
enum {
  FN(lanes) = SHMT_VECTOR_BYTES / sizeof(T),
  FN(run) = 256,
  FN(block) = 4 * FN(lanes),
  FN(rows) = SHMT_ISA_LEVEL == 2 ? 4 : 2,
  FN(gradient_vectors) = FN(rows),
  FN(factor_rows) = 4,
  FN(factors) = 1024
};
typedef T FN(vector) __attribute__((vector_size(SHMT_VECTOR_BYTES)));
typedef __typeof__(_Generic((T)0, float: (int32_t)0, default: (int64_t)0)) FN(mask_vector)
    __attribute__((vector_size(SHMT_VECTOR_BYTES)));

/* a where the mask holds, else b. */
INLINE FN(vector) FN(select)(FN(mask_vector) mask, FN(vector) a, FN(vector) b) {
  return (FN(vector))((mask & (FN(mask_vector))a) | (~mask & (FN(mask_vector))b));
}

/* Vectors one by one: an array that is copied as a whole does not stay in registers. */
INLINE void FN(load)(FN(vector) * to, const T* from, const int n_vectors) {
#pragma GCC unroll 4
  for (int v = 0; v < n_vectors; v++) memcpy(to + v, from + v * FN(lanes), sizeof *to);
}

INLINE void FN(store)(T* to, const FN(vector) * from, const int n_vectors) {
#pragma GCC unroll 4
  for (int v = 0; v < n_vectors; v++) {
    const FN(vector) one = from[v];
    memcpy(to + v * FN(lanes), &one, sizeof one);
  }
}

/* Adds one more coordinate; d is the difference. */
INLINE FN(vector) FN(add_coordinate)(FN(vector) sum, FN(vector) d, const int norm) {
  const FN(vector) zero = {0}, size = FN(select)(d < zero, -d, d);

  if (norm == 0) return sum + FN(select)(d == d, FN(select)(d != zero, zero + 1, zero), d); /* NaN stays */
  if (norm == 1) return sum + size;
  if (norm == 2) return sum + d * d;
  /* The largest; NaN stays. */
  return FN(select)((size > sum) | (size != size), size, sum);
}

/* The distances of some rows to some vectors of others, one block for each row. */
INLINE void FN(distances)(const shmt__distance_args* s, const T* x, const T* others, T (*out)[FN(block)],
                          const int norm, const int n_rows, const int n_vectors) {
  FN(vector) total[FN(rows)][4] = {{{0}}};

  for (int64_t begin = 0; begin < s->length; begin += FN(run)) {
    const int64_t end = begin + FN(run) < s->length ? begin + FN(run) : s->length;
    FN(vector) sum[FN(rows)][4] = {{{0}}};
    for (int64_t m = begin; m < end; m++) {
      FN(vector) y[4];
      FN(load)(y, others + m * s->pitch, n_vectors);
#pragma GCC unroll 4
      for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
          sum[i][v] = FN(add_coordinate)(sum[i][v], x[i * s->length + m] - y[v], norm);
    }
#pragma GCC unroll 4
    for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 4
      for (int v = 0; v < n_vectors; v++)
        total[i][v] = norm > 2 ? FN(add_coordinate)(total[i][v], sum[i][v], norm) : total[i][v] + sum[i][v];
  }
#pragma GCC unroll 4
  for (int i = 0; i < n_rows; i++) {
    FN(store)(out[i], total[i], n_vectors);
    if (norm == 2)
      for (int j = 0; j < n_vectors * FN(lanes); j++)
        out[i][j] = (T)_Generic((T)0, float: __builtin_sqrtf, default: __builtin_sqrt)(out[i][j]);
  }
}

/* Rows of out are out_row bytes apart. */
INLINE void FN(distances_of_rows)(const shmt__distance_args* s, const T* x, const T* others, char* out, int64_t out_row,
                                  const int norm, const int n_rows) {
  for (int64_t j = 0, n; j < s->others; j += n) {
    T block[FN(rows)][FN(block)];
    const int64_t left = s->others - j;
    n = left < FN(block) ? left < FN(lanes) ? left : FN(lanes) : FN(block);
    if (n == FN(block))
      FN(distances)(s, x, others + j, block, norm, n_rows, 4);
    else
      FN(distances)(s, x, others + j, block, norm, n_rows, 1);
    for (int i = 0; i < n_rows; i++)
      memcpy(out + i * out_row + j * (int64_t)sizeof(T), block[i], (size_t)n * sizeof(T));
  }
}

INLINE void FN(distances_in_norm)(const shmt__distance_args* s, const T* x, const T* others, char* out, int64_t out_row,
                                  int64_t n, const int norm) {
  int64_t i = 0;

  for (; i + FN(rows) <= n; i += FN(rows))
    FN(distances_of_rows)(s, x + i * s->length, others, out + i * out_row, out_row, norm, FN(rows));
  for (; i < n; i++) FN(distances_of_rows)(s, x + i * s->length, others, out + i * out_row, out_row, norm, 1);
}

/* data: out (n, others), whose rows are strides[0] bytes apart, rows (n, length), others (length, pitch), anything
 * beyond the last; ctx: shmt__distance_args. */
void SHMT_LOOP(distance)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__distance_args* s = ctx;
  const T *x = (const T*)(const void*)data[1], *others = (const T*)(const void*)data[2];

  if (s->norm == 0) FN(distances_in_norm)(s, x, others, data[0], strides[0], n, 0);
  if (s->norm == 1) FN(distances_in_norm)(s, x, others, data[0], strides[0], n, 1);
  if (s->norm == 2) FN(distances_in_norm)(s, x, others, data[0], strides[0], n, 2);
  if (s->norm == 3) FN(distances_in_norm)(s, x, others, data[0], strides[0], n, 3);
}

/* --- gradients ---------------------------------------------------------------------------------- */

/* The derivative of a distance of norm 1, 2 or 3 with respect to the difference d. Where the distance is 0 there is
 * none. When several differences are the largest, each gets the whole derivative, as in torch. */
INLINE T FN(derivative)(T d, T distance, const int norm) {
  const T sign = (T)((d > 0) - (d < 0));

  if (norm == 1) return d != d ? d : sign;
  if (norm == 2) return distance == 0 ? 0 : d / distance;
  return (d < 0 ? -d : d) == distance ? sign : 0;
}

/* The offset of element j when neighbours are step apart, each time shrink fewer. */
INLINE int64_t FN(element_offset)(int64_t j, int64_t step, int64_t shrink) {
  return j * step - j * (j - 1) / 2 * shrink;
}

/* Adds one row's gradient from some others, for any distances. */
static void FN(row_gradient)(const shmt__distance_backward_args* s, T* to, const T* x, const T* others, const T* grads,
                             const T* distances, int64_t first, int64_t count, const int norm) {
  enum { COLUMNS = 64 };

  for (int64_t begin = 0; begin < s->length; begin += COLUMNS) {
    const int64_t n = s->length - begin < COLUMNS ? s->length - begin : COLUMNS;
    double sum[COLUMNS] = {0};
    for (int64_t from = first; from < first + count; from += FN(run)) {
      const int64_t stop = from + FN(run) < first + count ? from + FN(run) : first + count;
      T part[COLUMNS] = {0};
      for (int64_t j = from; j < stop; j++) {
        const T distance = distances[FN(element_offset)(j, s->distance_step, s->distance_shrink)];
        const T* y = others + j * s->length;
        const T grad = grads[FN(element_offset)(j, s->grad_step, s->grad_shrink)];
        for (int64_t m = 0; m < n; m++) part[m] += grad * FN(derivative)(x[begin + m] - y[begin + m], distance, norm);
      }
      for (int64_t m = 0; m < n; m++) sum[m] += (double)part[m];
    }
    for (int64_t m = 0; m < n; m++) to[begin + m] += (T)sum[m];
  }
}

INLINE void FN(gather)(T* to, const char* from, int64_t step, int64_t shrink, int64_t first, int64_t count) {
  const T* at = (const T*)(const void*)from + FN(element_offset)(first, step, shrink);

  step -= first * shrink;
  for (int64_t j = 0; j < count; j++, at += step, step -= shrink) to[j] = *at;
}

/* Combines gradients and distances of one row to `count` others, from `first` on, into one factor of the difference.
 * Returns whether all are finite. */
static bool FN(find_factors)(const shmt__distance_backward_args* s, const char* grads, const char* distances,
                             int64_t first, int64_t count, T* factors) {
  const FN(vector) zero = {0};
  FN(vector) lost = {0}; /* NaN where one is not finite */
  T to[FN(factors) + FN(lanes)];

  FN(gather)(factors, grads, s->grad_step, s->grad_shrink, first, count);
  FN(gather)(to, distances, s->distance_step, s->distance_shrink, first, count);
  memset(to + count, 0, sizeof(FN(vector)));
  for (int64_t j = 0; j < count; j += FN(lanes)) {
    FN(vector) grad, distance;
    FN(load)(&grad, factors + j, 1);
    FN(load)(&distance, to + j, 1);
    const FN(mask_vector) is_apart = distance != zero;
    const FN(vector) share = FN(select)(is_apart, grad / FN(select)(is_apart, distance, zero + 1), zero);
    lost += share - share;
    FN(store)(factors + j, &share, 1);
  }
  for (int i = 0; i < FN(lanes); i++)
    if (lost[i] != 0) return false;
  return true;
}

/* Adds some vectors of columns of some rows; the first `known` columns have been done. */
INLINE void FN(column_gradients)(const shmt__distance_backward_args* s, T* to, const T* x, const T* others,
                                 T (*factors)[FN(factors)], int64_t count, int64_t known, const int n_rows,
                                 const int n_vectors) {
  double total[2][FN(block)] = {{0}};
  FN(vector) at[2][4];

#pragma GCC unroll 2
  for (int i = 0; i < n_rows; i++) FN(load)(at[i], x + i * s->length, n_vectors);
  for (int64_t begin = 0; begin < count; begin += FN(run)) {
    const int64_t end = begin + FN(run) < count ? begin + FN(run) : count;
    FN(vector) sum[2][4] = {{{0}}};
    for (int64_t j = begin; j < end; j++) {
      FN(vector) y[4];
      FN(load)(y, others + j * s->length, n_vectors);
#pragma GCC unroll 2
      for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) sum[i][v] += factors[i][j] * (at[i][v] - y[v]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < n_rows; i++) {
      T part[FN(block)];
      FN(store)(part, sum[i], n_vectors);
      for (int m = 0; m < n_vectors * FN(lanes); m++) total[i][m] += (double)part[m];
    }
  }
  for (int i = 0; i < n_rows; i++)
    for (int64_t m = known; m < n_vectors * FN(lanes); m++) to[i * s->length + m] += (T)total[i][m];
}

/* Adds the gradients of some rows. The last vectors begin early enough to be whole: rows are at least as long as
 * one. */
INLINE void FN(row_gradients)(const shmt__distance_backward_args* s, T* to, const T* x, const T* others,
                              T (*factors)[FN(factors)], int64_t count, const int n_rows) {
  for (int64_t m = 0, done = 0; done < s->length; done = m) {
    const int64_t whole = s->length / FN(lanes), left = (s->length - done + FN(lanes) - 1) / FN(lanes);
    const int64_t most = left < whole ? left : whole, n = most < FN(gradient_vectors) ? most : FN(gradient_vectors);
    const int64_t last = s->length - n * FN(lanes), at = done < last ? done : last;
#pragma GCC unroll 4
    for (int v = 1; v <= FN(gradient_vectors); v++)
      if (n == v) FN(column_gradients)(s, to + at, x + at, others + at, factors, count, done - at, n_rows, v);
    m = at + n * FN(lanes);
  }
}

static void FN(gradients_in_norm)(const shmt__distance_backward_args* s, char* const* data, const int64_t* strides,
                                  int64_t n_rows, const int norm) {
  T factors[FN(factor_rows)][FN(factors)];
  T* const to = (T*)(void*)data[0];
  const T *x = (const T*)(const void*)data[1], *others = (const T*)(const void*)data[2];

  for (int64_t first = 0; first < s->others; first += FN(factors)) {
    const int64_t left = s->others - first, count = left < FN(factors) ? left : FN(factors);
    bool are_finite = norm == 2 && s->length >= FN(lanes);
    for (int64_t i = 0; i < n_rows && are_finite; i++)
      are_finite = FN(find_factors)(s, data[3] + i * strides[3], data[4] + i * strides[4], first, count, factors[i]);
    for (int64_t i = 0; i < n_rows; i++) {
      const int64_t at = i * s->length;
      if (!are_finite)
        FN(row_gradient)(s, to + at, x + at, others, (const T*)(const void*)(data[3] + i * strides[3]),
                         (const T*)(const void*)(data[4] + i * strides[4]), first, count, norm);
      else if (i + 1 < n_rows)
        FN(row_gradients)(s, to + at, x + at, others + first * s->length, factors + i++, count, 2);
      else
        FN(row_gradients)(s, to + at, x + at, others + first * s->length, factors + i, count, 1);
    }
  }
}

/* data: gradients of n rows (added to), rows, others (others, length), gradients of the distances, distances. The rows
 * of the last two are as far apart as strides say. */
void SHMT_LOOP(distance_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__distance_backward_args* s = ctx;
  const int64_t row = s->length * (int64_t)sizeof(T);

  for (int64_t i = 0; i < n; i += FN(factor_rows)) {
    const int64_t some = n - i < FN(factor_rows) ? n - i : FN(factor_rows);
    char* at[5] = {data[0] + i * row, data[1] + i * row, data[2], data[3] + i * strides[3], data[4] + i * strides[4]};
    if (s->norm == 1) FN(gradients_in_norm)(s, at, strides, some, 1);
    if (s->norm == 2) FN(gradients_in_norm)(s, at, strides, some, 2);
    if (s->norm == 3) FN(gradients_in_norm)(s, at, strides, some, 3);
  }
}
#undef INLINE
