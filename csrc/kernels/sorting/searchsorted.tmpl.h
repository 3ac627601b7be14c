/* kernels/sorting/searchsorted.tmpl.h -- binary search in sorted slices, and where runs of equal elements begin. One
 * dtype. */
#include "kernels/template.h"
#include "kernels/loop_args.h"

/* Flags the elements that differ from the one before them. data: flags (bool), x, sorted or not, dense. */
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

/* Does boundary b come before the position of v? */
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

/* Which half goes on is calculated, not a branch that is mispredicted every other time. So searches of several values
 * overlap. */
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

/* Counts the boundaries below each value (not above it, when right). A NaN comes after everything. data: out (int64),
 * values, boundaries (dense, sorted), sorter (int64) or NULL. ctx: shmt__search_args. */
void SHMT_LOOP(search)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__search_args* s = ctx;
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
