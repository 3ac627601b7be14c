/* kernels/reduce/argmin_argmax.tmpl.h -- argmax and argmin, and max and min with indices.
 *
 * The index is that of the first of equal elements; the first NaN wins over everything. With two outputs, out[0] gets
 * the value and out[1] the index; with one, out[0] gets the index.
 */
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_HALF
#define ARG_REDUCTION(NAME, FOLDED, BETTER) SHMT_WIDENED_REDUCTION(NAME, int64_t)
#else
#if SHMT_IS_FLOATING
#define IS_NAN(x) ((x) != (x))
#else
#define IS_NAN(x) 0
#endif
/* The index of the first of n contiguous elements that equals `best`, which is one of them. */
static int64_t FN(find)(const T* x, int64_t n, C best) {
  for (int64_t i0 = 0; i0 < n; i0 += 64) {
    const int64_t width = n - i0 < 64 ? n - i0 : 64;
    int hit = 0;
    for (int64_t i = 0; i < width; i++) {
      const C v = SHMT_LOAD(x[i0 + i]);
      hit |= (v == best) | (IS_NAN(v) & IS_NAN(best));
    }
    for (int64_t i = 0; hit && i < width; i++) {
      const C v = SHMT_LOAD(x[i0 + i]);
      if (v == best || (IS_NAN(v) && IS_NAN(best))) return i0 + i;
    }
  }
  return 0;
}
/* FOLDED: the loop of amax or amin, which finds only the value; its state is a C. */
#define ARG_REDUCTION(NAME, FOLDED, BETTER)                                                                             \
  typedef struct FN(NAME##_state) {                                                                                     \
    C value;                                                                                                            \
    int64_t index; /* -1: no element so far */                                                                          \
  } FN(NAME##_state);                                                                                                   \
  int64_t SHMT_LOOP(FOLDED)(shmt__reduce_phase phase, const shmt__reduce_run* run);                                     \
  static inline bool FN(NAME##_beats)(C a, C b) {                                                                       \
    return IS_NAN(a) ? !IS_NAN(b) : (!IS_NAN(b) && a BETTER b);                                                         \
  }                                                                                                                     \
  static void FN(NAME##_update)(FN(NAME##_state) * s, C value, int64_t index) {                                         \
    if (s->index < 0 || FN(NAME##_beats)(value, s->value)) *s = (FN(NAME##_state)){value, index};                       \
  }                                                                                                                     \
  /* For elements that come out of order: keeps the first index of equal elements. */                                   \
  static void FN(NAME##_update_unordered)(FN(NAME##_state) * s, C value, int64_t index) {                               \
    if (s->index > index && !FN(NAME##_beats)(s->value, value))                                                         \
      *s = (FN(NAME##_state)){value, index};                                                                            \
    else                                                                                                                \
      FN(NAME##_update)(s, value, index);                                                                               \
  }                                                                                                                     \
  /* Results that are columns: their elements are keep_stride bytes apart. `group` adjacent rows count as one wide      \
   * row. */                                                                                                            \
  static inline __attribute__((always_inline)) void FN(NAME##_tile)(                                                    \
      const shmt__reduce_run* run, FN(NAME##_state) * state, int64_t keep_stride, int64_t group) {                      \
    C best[SHMT_REDUCE_TILE];                                                                                           \
    int32_t at[SHMT_REDUCE_TILE];                                                                                       \
    const int64_t columns = run->n_keep * group, step = run->reduce_stride * group, n = run->n_reduce / group;          \
    for (int64_t r0 = 0; r0 < n; r0 += 1 << 20) {                                                                       \
      const char* in = run->in + r0 * step;                                                                             \
      const int32_t rows = (int32_t)(n - r0 < 1 << 20 ? n - r0 : 1 << 20);                                              \
      for (int64_t j = 0; j < columns; j++) {                                                                           \
        best[j] = SHMT_X(in + j * keep_stride);                                                                         \
        at[j] = 0;                                                                                                      \
      }                                                                                                                 \
      for (int32_t r = 1; r < rows; r++) {                                                                              \
        const char* x = in + r * step;                                                                                  \
        for (int64_t j = 0; j < columns; j++) {                                                                         \
          const C v = SHMT_X(x + j * keep_stride), b = best[j];                                                         \
          const bool wins = ((v BETTER b) | IS_NAN(v)) & !IS_NAN(b);                                                    \
          best[j] = wins ? v : b;                                                                                       \
          at[j] = wins ? r : at[j];                                                                                     \
        }                                                                                                               \
      }                                                                                                                 \
      for (int64_t k = 0; group == 1 && k < columns; k++)                                                               \
        FN(NAME##_update)(&state[k], best[k], run->index + (r0 + at[k]) * run->index_stride);                           \
      for (int64_t g = 0, j = 0; group > 1 && g < group; g++)                                                           \
        for (int64_t k = 0; k < run->n_keep; k++, j++)                                                                  \
          FN(NAME##_update_unordered)(&state[k], best[j], run->index + ((r0 + at[j]) * group + g) * run->index_stride); \
    }                                                                                                                   \
  }                                                                                                                     \
  static void FN(NAME##_columns)(const shmt__reduce_run* run, FN(NAME##_state) * state) {                               \
    shmt__reduce_run rest = *run;                                                                                       \
    const int64_t size = sizeof(T), most = FOLD_WIDTH / run->n_keep, worth = run->n_reduce / FOLD_ROWS;                 \
    const int64_t group = run->reduce_stride != run->n_keep * size ? 1 : most < worth ? most : worth;                   \
    if (group > 1) {                                                                                                    \
      FN(NAME##_tile)(run, state, size, group);                                                                         \
      rest.n_reduce %= group;                                                                                           \
      rest.in += (run->n_reduce - rest.n_reduce) * rest.reduce_stride;                                                  \
      rest.index += (run->n_reduce - rest.n_reduce) * rest.index_stride;                                                \
    }                                                                                                                   \
    FN(NAME##_tile)(&rest, state, size, 1);                                                                             \
  }                                                                                                                     \
  /* Results that are contiguous rows: finds the best value of a block of a row, then its index there. The best values  \
   * of several short rows are found at once. */                                                                        \
  static void FN(NAME##_rows)(const shmt__reduce_run* run, FN(NAME##_state) * state) {                                  \
    const int64_t block = FOLD_LANES * FOLD_ROWS, at_once = run->n_reduce < block ? block / run->n_reduce : 1;          \
    C best[SHMT_REDUCE_TILE];                                                                                           \
    shmt__reduce_run part = {.state = (char*)best, .keep_stride = run->keep_stride, .reduce_stride = sizeof(T)};        \
    for (int64_t j = 0; j < run->n_keep; j += at_once)                                                                  \
      for (int64_t i = 0; i < run->n_reduce; i += block) {                                                              \
        part.in = run->in + j * run->keep_stride + i * (int64_t)sizeof(T);                                              \
        part.n_keep = run->n_keep - j < at_once ? run->n_keep - j : at_once;                                            \
        part.n_reduce = run->n_reduce - i < block ? run->n_reduce - i : block;                                          \
        for (int64_t k = 0; k < part.n_keep; k++) best[k] = SHMT_X(part.in + k * part.keep_stride);                     \
        SHMT_LOOP(FOLDED)(SHMT_REDUCE_ACCUMULATE, &part);                                                               \
        for (int64_t k = 0; k < part.n_keep; k++) {                                                                     \
          FN(NAME##_state)* const s = &state[j + k];                                                                    \
          if (s->index >= 0 && !FN(NAME##_beats)(best[k], s->value)) continue;                                          \
          const T* x = (const T*)(const void*)(part.in + k * part.keep_stride);                                         \
          *s = (FN(NAME##_state)){best[k], run->index + (i + FN(find)(x, part.n_reduce, best[k])) * run->index_stride}; \
        }                                                                                                               \
      }                                                                                                                 \
  }                                                                                                                     \
  int64_t SHMT_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run) {                                      \
    if (phase == SHMT_REDUCE_SIZE) return sizeof(FN(NAME##_state));                                                     \
    if (phase == SHMT_REDUCE_WHOLE) return 0;                                                                           \
    FN(NAME##_state)* state = (FN(NAME##_state)*)(void*)run->state;                                                     \
    if (phase == SHMT_REDUCE_ACCUMULATE) {                                                                              \
      if (run->keep_stride == (int64_t)sizeof(T) && run->reduce_stride != (int64_t)sizeof(T)) {                         \
        FN(NAME##_columns)(run, state);                                                                                 \
        return 0;                                                                                                       \
      }                                                                                                                 \
      if (run->n_reduce < 2 * FOLD_FEW) {                                                                               \
        FN(NAME##_tile)(run, state, run->keep_stride, 1);                                                               \
        return 0;                                                                                                       \
      }                                                                                                                 \
      if (run->reduce_stride == (int64_t)sizeof(T)) {                                                                   \
        FN(NAME##_rows)(run, state);                                                                                    \
        return 0;                                                                                                       \
      }                                                                                                                 \
    }                                                                                                                   \
    for (int64_t j = 0; j < run->n_keep; j++) {                                                                         \
      if (phase == SHMT_REDUCE_INIT) {                                                                                  \
        state[j] = (FN(NAME##_state)){0, -1};                                                                           \
      } else if (phase == SHMT_REDUCE_ACCUMULATE) {                                                                     \
        for (int64_t i = 0; i < run->n_reduce; i++)                                                                     \
          FN(NAME##_update)(&state[j], SHMT_X(run->in + j * run->keep_stride + i * run->reduce_stride),                 \
                           run->index + i * run->index_stride);                                                         \
      } else if (phase == SHMT_REDUCE_MERGE) {                                                                          \
        const FN(NAME##_state) t = ((const FN(NAME##_state)*)(const void*)run->other)[j];                               \
        if (t.index >= 0) FN(NAME##_update)(&state[j], t.value, t.index);                                               \
      } else if (run->out[1]) {                                                                                         \
        SHMT_AT(T, run->out[0], run->out_stride[0], j) = SHMT_STORE(state[j].value);                                    \
        SHMT_AT(int64_t, run->out[1], run->out_stride[1], j) = state[j].index;                                          \
      } else {                                                                                                          \
        SHMT_AT(int64_t, run->out[0], run->out_stride[0], j) = state[j].index;                                          \
      }                                                                                                                 \
    }                                                                                                                   \
    return 0;                                                                                                           \
  }
#endif
ARG_REDUCTION(argmax, amax, >)
ARG_REDUCTION(argmin, amin, <)
#undef ARG_REDUCTION
#undef IS_NAN
