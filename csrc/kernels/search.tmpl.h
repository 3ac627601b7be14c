/* kernels/search.tmpl.h -- what sorted lines and rows tell, and the order of rows. One dtype. */
#include "kernels/keys.tmpl.h"
#include "kernels/loops.h"

/* Does row x come before row y? */
static inline int FN(compare_rows)(const T* x, const T* y, int64_t width) {
  for (int64_t i = 0; i < width; i++) {
    const KEY a = FN(to_key)(x[i]), b = FN(to_key)(y[i]);
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

/* data: order (int64), spare (int64), rows of n_bounds elements, dense. The order of the n rows, compared from the
 * first element on: runs are merged until one is left. ctx: shmt__search_shape. */
void SHMT_LOOP(order_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t width = ((const shmt__search_shape*)ctx)->n_bounds;
  const T* rows = (const T*)(const void*)data[2];
  int64_t *from = (int64_t*)(void*)data[0], *to = (int64_t*)(void*)data[1];

  (void)strides;
  for (int64_t i = 0; i < n; i++) from[i] = i;
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

/* data: flags (bool), order (int64), rows. A flag says that the row differs from the one before it in the order. */
void SHMT_LOOP(row_starts)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t width = ((const shmt__search_shape*)ctx)->n_bounds;
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

/* data: flags (bool), x sorted or not, dense. A flag says that the element differs from the one before. */
void SHMT_LOOP(run_starts)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  bool* flags = (bool*)data[0];
  const T* x = (const T*)(const void*)data[1];

  (void)strides;
  (void)ctx;
  if (n > 0) flags[0] = true;
  for (int64_t i = 1; i < n; i++) flags[i] = SHMT_LOAD(x[i]) != SHMT_LOAD(x[i - 1]);
}

#if SHMT_IS_FLOATING
#define IS_NAN(x) ((x) != (x))
#else
#define IS_NAN(x) false
#endif

/* Does boundary b come before the place of v? */
static inline bool FN(is_before)(C b, C v, bool right) {
  if (IS_NAN(v)) return right || !IS_NAN(b);
  return right ? b <= v : b < v;
}

static int64_t FN(search_sorted)(const T* bounds, const int64_t* sorter, int64_t high, C v, bool right) {
  int64_t low = 0;

  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (FN(is_before)(SHMT_LOAD(bounds[sorter ? sorter[middle] : middle]), v, right))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Which half is a number, not a branch that is mispredicted every other time: searches of several values overlap. */
#define FIND(LESS)                                                               \
  for (int64_t i = 0; i < n; i++) {                                              \
    const C v = SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i));             \
    const T* at = bounds;                                                        \
    if (SHMT_UNLIKELY(IS_NAN(v))) {                                                 \
      SHMT_AT(int64_t, data[0], strides[0], i) = FN(search_sorted)(bounds, NULL, s->n_bounds, v, s->right); \
      continue;                                                                  \
    }                                                                            \
    for (int64_t half, count = s->n_bounds; count > 1; count -= half) {          \
      half = count / 2;                                                          \
      at += half & -(int64_t)(SHMT_LOAD(at[half - 1]) LESS v);                   \
    }                                                                            \
    SHMT_AT(int64_t, data[0], strides[0], i) = at - bounds + (SHMT_LOAD(*at) LESS v); \
  }

/* data: out (int64), values, boundaries (dense, sorted), sorter (int64) or NULL; ctx: shmt__search_shape. How many
 * boundaries are below the value (or not above it, when right). A NaN comes after everything. */
void SHMT_LOOP(search)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__search_shape* s = ctx;
  const T* bounds = (const T*)(const void*)data[2];
  const int64_t* sorter = (const int64_t*)(const void*)data[3];

  if (sorter || s->n_bounds == 0) {
    for (int64_t i = 0; i < n; i++) {
      const C v = SHMT_LOAD(SHMT_AT(const T, data[1], strides[1], i));
      SHMT_AT(int64_t, data[0], strides[0], i) = FN(search_sorted)(bounds, sorter, s->n_bounds, v, s->right);
    }
    return;
  }
  if (s->right) {
    FIND(<=)
  } else {
    FIND(<)
  }
}
#undef FIND
#undef IS_NAN
