/* kernels/sorting/row_order.tmpl.h -- sorts rows in lexicographic order, and finds where new rows begin. One dtype. */
#include "kernels/sorting/keys.tmpl.h"

/* Does row x come before row y? */
static inline int FN(compare_rows)(const T* x, const T* y, int64_t width) {
  for (int64_t i = 0; i < width; i++) {
    const KEY a = FN(to_key)(x[i]), b = FN(to_key)(y[i]);
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

#if SHMT_IS_FLOATING
enum { FN(INSERTED) = 16 }; /* up to so many rows, if one holds NaN, are sorted by insertion */

static inline bool FN(has_nan)(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (SHMT_LOAD(x[i]) != SHMT_LOAD(x[i])) return true;
  return false;
}

/* Does row x come before row y by torch's comparison, in which NaN is neither less nor greater than a number? */
static inline bool FN(is_less)(const T* x, const T* y, int64_t width) {
  for (int64_t i = 0; i < width; i++) {
    const C a = SHMT_LOAD(x[i]), b = SHMT_LOAD(y[i]);
    if (a < b || a > b) return a < b;
  }
  return false;
}

/* Inserts rows one by one. That comparison does not order NaN, so the result depends on the algorithm. Each row goes to
 * the front if it comes before the first row. Otherwise it goes behind the last row, from the right, that it does not
 * come before. */
static void FN(insert_rows)(int64_t* order, const T* rows, int64_t n, int64_t width) {
  for (int64_t i = 1; i < n; i++) {
    int64_t at = i;
    if (FN(is_less)(rows + i * width, rows + order[0] * width, width))
      at = 0;
    else
      while (FN(is_less)(rows + i * width, rows + order[at - 1] * width, width)) at--;
    memmove(order + at + 1, order + at, (size_t)(i - at) * sizeof *order);
    order[at] = i;
  }
}
#endif

/* Sorts n rows, comparing from the first element on, by merging runs. data: order (int64), spare (int64), dense rows of
 * n_bounds elements. ctx: shmt__search_args. */
void SHMT_LOOP(order_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t width = ((const shmt__search_args*)ctx)->n_bounds;
  const T* rows = (const T*)(const void*)data[2];
  int64_t *from = (int64_t*)(void*)data[0], *to = (int64_t*)(void*)data[1];

  (void)strides;
  for (int64_t i = 0; i < n; i++) from[i] = i;
#if SHMT_IS_FLOATING
  if (n <= FN(INSERTED) && FN(has_nan)(rows, n * width)) {
    FN(insert_rows)(from, rows, n, width);
    return;
  }
#endif
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      const int64_t middle = begin + run < n ? begin + run : n, end = middle + run < n ? middle + run : n;
      int64_t a = begin, b = middle;
      for (int64_t k = begin; k < end; k++) {
        const bool left = b >= end || (a < middle && FN(compare_rows)(rows + from[a] * width, rows + from[b] * width,
                                                                      width) <= 0);
        to[k] = from[left ? a++ : b++];
      }
    }
    int64_t* swap = from;
    from = to;
    to = swap;
  }
  if (from != (int64_t*)(void*)data[0]) memcpy(to, from, (size_t)n * sizeof *to);
}
#undef KEY
#undef HIGHEST_BIT
#undef SIGN
#undef BY_UNSIGNED

/* Flags the rows that differ from the one before them in the order. data: flags (bool), order (int64), rows. */
void SHMT_LOOP(row_starts)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t width = ((const shmt__search_args*)ctx)->n_bounds;
  const int64_t* order = (const int64_t*)(const void*)data[1];
  const T* rows = (const T*)(const void*)data[2];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    bool differs = i == 0;
    for (int64_t k = 0; !differs && k < width; k++)
      differs = SHMT_LOAD(rows[order[i] * width + k]) != SHMT_LOAD(rows[order[i - 1] * width + k]);
    ((bool*)data[0])[i] = differs;
  }
}
