/* kernels/fold.h -- the common shape of reductions: fold every element into lanes, lanes into a
 * state.
 *
 * FOLD(NAME, LANE, FIRST, MAP, COMBINE, STATE, JOIN, STORE...) defines SHMT_LOOP(NAME). Short
 * stretches are folded in LANE, many side by side, so that the compiler vectorises and rounding
 * errors grow with the logarithm of the length; a stretch's result is joined to the state, which is
 * wider.
 *
 *   LANE      type of the vectorised part         FIRST     its neutral value
 *   MAP       element x (type C) to LANE          COMBINE   two lanes a, b to one
 *   STATE     type of the state                   BEGIN     its first value
 *   JOIN      state s and lane a, to a state      MERGE     states s and t to one
 *   RESULT    stored type                         FINISH    state s to RESULT; run is in reach
 */
#ifndef SHMT_KERNELS_FOLD_H
#define SHMT_KERNELS_FOLD_H

#include "iter/reduce.h"
#include "kernels/loops.h"

enum {
  FOLD_LANES = 32,  /* side by side along one result */
  FOLD_FEW = 8,     /* of a short one */
  FOLD_WIDTH = 128, /* columns that several short rows are folded into */
  FOLD_ROWS = 64,   /* elements that one lane takes before it joins the state */
};

/* Rows from which lanes in registers pay: at once, unless a conversion of every lane follows. */
#define FOLD_LOW(LANE, STATE) (sizeof(STATE) == sizeof(LANE) ? 1 : 8)

/* Called from several places: one copy keeps the code small. */
#define SHMT_OUTLINE static __attribute__((noinline))

#define SHMT_X(p) SHMT_LOAD(*(const T*)(const void*)(p))

/* Reductions of halves are those of the type that is calculated in, a block at a time: kernels/widen.tmpl.h. RESULT: the
 * type that is stored; int64_t where the place of an element may come with the element. */
int64_t shmt__widened_reduction(shmt_dtype half, shmt__reduce_loop full, shmt__stored stored, shmt__reduce_phase phase,
                                const shmt__reduce_run* run);
#define SHMT_WIDENED_REDUCTION(NAME, RESULT)                                                             \
  int64_t SHMT_FULL_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run);                   \
  int64_t SHMT_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run) {                       \
    return shmt__widened_reduction(SHMT_DT, SHMT_FULL_LOOP(NAME), SHMT_STORED(RESULT), phase, run);      \
  }

#define FOLD(...) SHMT_SHAPE(FOLD)(__VA_ARGS__)
#define SHMT_FOLD_1(NAME, LANE, FIRST, MAP, COMBINE, STATE, BEGIN, JOIN, MERGE, RESULT, FINISH) \
  SHMT_WIDENED_REDUCTION(NAME, RESULT)
#define SHMT_FOLD_0(NAME, LANE, FIRST, MAP, COMBINE, STATE, BEGIN, JOIN, MERGE, RESULT, FINISH)    \
  /* acc[j] of `columns` lanes, folded with `rows` rows of elements that lie together. */          \
  SHMT_OUTLINE void FN(NAME##_columns)(LANE * acc, const char* in, int64_t row, int64_t rows,      \
                                       int64_t columns, const void* ctx) {                         \
    (void)ctx;                                                                                     \
    int64_t r = 0;                                                                                 \
    for (; r + 4 <= rows; r += 4, in += 4 * row) {                                                 \
      const T *p0 = (const T*)(const void*)in, *p1 = (const T*)(const void*)(in + row),            \
              *p2 = (const T*)(const void*)(in + 2 * row),                                         \
              *p3 = (const T*)(const void*)(in + 3 * row);                                         \
      SHMT_IVDEP for (int64_t j = 0; j < columns; j++) {                                           \
        LANE a = acc[j], b;                                                                        \
        C x = SHMT_LOAD(p0[j]);                                                                    \
        b = MAP, a = COMBINE;                                                                      \
        x = SHMT_LOAD(p1[j]);                                                                      \
        b = MAP, a = COMBINE;                                                                      \
        x = SHMT_LOAD(p2[j]);                                                                      \
        b = MAP, a = COMBINE;                                                                      \
        x = SHMT_LOAD(p3[j]);                                                                      \
        b = MAP, acc[j] = COMBINE;                                                                 \
      }                                                                                            \
    }                                                                                              \
    for (; r < rows; r++, in += row) {                                                             \
      const T* p0 = (const T*)(const void*)in;                                                     \
      SHMT_IVDEP for (int64_t j = 0; j < columns; j++) {                                           \
        const LANE a = acc[j];                                                                     \
        const C x = SHMT_LOAD(p0[j]);                                                              \
        const LANE b = MAP;                                                                        \
        acc[j] = COMBINE;                                                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  /* n elements of one result that lie together. The lanes' fixed number lets them stay in registers; a short row,  \
   * or the rest of a long one, takes few. */                                                                       \
  SHMT_OUTLINE STATE FN(NAME##_row)(STATE s, const char* in, int64_t n, const void* ctx) {                          \
    const T* p = (const T*)(const void*)in;                                                                         \
    (void)ctx;                                                                                                      \
    if (n < 2 * FOLD_FEW) {                                                                                         \
      LANE a = FIRST;                                                                                               \
      for (int64_t i = 0; i < n; i++) {                                                                             \
        const C x = SHMT_LOAD(p[i]);                                                                                \
        const LANE b = MAP;                                                                                         \
        a = COMBINE;                                                                                                \
      }                                                                                                             \
      s = JOIN;                                                                                                     \
      return s;                                                                                                     \
    }                                                                                                               \
    do {                                                                                                            \
      LANE acc[FOLD_LANES]; /* of the rest only few: copies between arrays would wait for each other */             \
      if (n >= FOLD_LANES) {                                                                                        \
        const int64_t rows = n / FOLD_LANES < FOLD_ROWS ? n / FOLD_LANES : FOLD_ROWS;                               \
        for (int j = 0; j < FOLD_LANES; j++) acc[j] = FIRST;                                                        \
        for (int64_t r = 0; r < rows; r++, p += FOLD_LANES)                                                         \
          SHMT_IVDEP for (int j = 0; j < FOLD_LANES; j++) {                                                         \
            const LANE a = acc[j];                                                                                  \
            const C x = SHMT_LOAD(p[j]);                                                                            \
            const LANE b = MAP;                                                                                     \
            acc[j] = COMBINE;                                                                                       \
          }                                                                                                         \
        n -= rows * FOLD_LANES;                                                                                     \
        for (int half = FOLD_LANES / 2; half >= FOLD_FEW; half /= 2)                                                \
          SHMT_IVDEP for (int j = 0; j < half; j++) {                                                               \
            const LANE a = acc[j], b = acc[j + half];                                                               \
            acc[j] = COMBINE;                                                                                       \
          }                                                                                                         \
      } else {                                                                                                      \
        /* n is at least two rows of them: later rounds begin with long ones. */                                    \
        SHMT_IVDEP for (int j = 0; j < FOLD_FEW; j++) {                                                             \
          C x = SHMT_LOAD(p[j]);                                                                                    \
          const LANE a = MAP;                                                                                       \
          x = SHMT_LOAD(p[j + FOLD_FEW]);                                                                           \
          const LANE b = MAP;                                                                                       \
          acc[j] = COMBINE;                                                                                         \
        }                                                                                                           \
        n -= 2 * FOLD_FEW, p += 2 * FOLD_FEW;                                                                       \
      }                                                                                                             \
      for (; n < FOLD_LANES && n >= FOLD_FEW; n -= FOLD_FEW, p += FOLD_FEW)                                         \
        SHMT_IVDEP for (int j = 0; j < FOLD_FEW; j++) {                                                             \
          const LANE a = acc[j];                                                                                    \
          const C x = SHMT_LOAD(p[j]);                                                                              \
          const LANE b = MAP;                                                                                       \
          acc[j] = COMBINE;                                                                                         \
        }                                                                                                           \
      LANE rest = FIRST;                                                                                            \
      if (n < FOLD_FEW) {                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                           \
          const LANE a = rest;                                                                                      \
          const C x = SHMT_LOAD(p[i]);                                                                              \
          const LANE b = MAP;                                                                                       \
          rest = COMBINE;                                                                                           \
        }                                                                                                           \
        n = 0;                                                                                                      \
      }                                                                                                             \
      for (int half = FOLD_FEW / 2; half > 0; half /= 2)                                                            \
        SHMT_IVDEP for (int j = 0; j < half; j++) {                                                                 \
          const LANE a = acc[j], b = acc[j + half];                                                                 \
          acc[j] = COMBINE;                                                                                         \
        }                                                                                                           \
      LANE a = acc[0];                                                                                              \
      const LANE b = rest;                                                                                          \
      a = COMBINE;                                                                                                  \
      s = JOIN;                                                                                                     \
    } while (n > 0);                                                                                                \
    return s;                                                                                                       \
  }                                                                                                                 \
  /* The same for a few rows: lanes stay in registers from the first row to the last. */             \
  SHMT_OUTLINE void FN(NAME##_low)(const shmt__reduce_run* run, STATE* state) {                    \
    const void* ctx = run->ctx;                                                                    \
    (void)ctx;                                                                                     \
    int64_t k = 0;                                                                                 \
    for (; k + FOLD_LANES <= run->n_keep; k += FOLD_LANES) {                                       \
      LANE acc[FOLD_LANES];                                                                        \
      const char* in = run->in + k * (int64_t)sizeof(T);                                           \
      for (int j = 0; j < FOLD_LANES; j++) acc[j] = FIRST;                                         \
      for (int64_t r = 0; r < run->n_reduce; r++, in += run->reduce_stride) {                      \
        const T* p = (const T*)(const void*)in;                                                    \
        SHMT_IVDEP for (int j = 0; j < FOLD_LANES; j++) {                                          \
          const LANE a = acc[j];                                                                   \
          const C x = SHMT_LOAD(p[j]);                                                             \
          const LANE b = MAP;                                                                      \
          acc[j] = COMBINE;                                                                        \
        }                                                                                          \
      }                                                                                            \
      SHMT_IVDEP for (int j = 0; j < FOLD_LANES; j++) {                                            \
        const STATE s = state[k + j];                                                              \
        const LANE a = acc[j];                                                                     \
        state[k + j] = JOIN;                                                                       \
      }                                                                                            \
    }                                                                                              \
    for (; k < run->n_keep; k++) {                                                                 \
      LANE a = FIRST;                                                                              \
      for (int64_t r = 0; r < run->n_reduce; r++) {                                                \
        const C x = SHMT_X(run->in + k * (int64_t)sizeof(T) + r * run->reduce_stride);             \
        const LANE b = MAP;                                                                        \
        a = COMBINE;                                                                               \
      }                                                                                            \
      const STATE s = state[k];                                                                    \
      state[k] = JOIN;                                                                             \
    }                                                                                              \
  }                                                                                                \
  /* Neighbouring results whose elements lie together. When whole rows follow each other without a \
   * gap, several rows are folded as one wider row: a few results still fill the lanes. */         \
  SHMT_OUTLINE void FN(NAME##_wide)(const shmt__reduce_run* run, STATE* state) {                   \
    LANE acc[SHMT_REDUCE_TILE];                                                                    \
    const void* ctx = run->ctx;                                                                    \
    const int64_t n = run->n_keep;                                                                 \
    int64_t group = run->reduce_stride == n * (int64_t)sizeof(T) ? FOLD_WIDTH / n : 1;             \
    const char* in = run->in;                                                                      \
    for (int64_t left = run->n_reduce; left > 0;) {                                                \
      if (group < 1 || left < group) group = 1;                                                    \
      const int64_t rows = left / group < FOLD_ROWS ? left / group : FOLD_ROWS;                    \
      for (int64_t j = 0; j < n * group; j++) acc[j] = FIRST;                                      \
      FN(NAME##_columns)(acc, in, run->reduce_stride * group, rows, n * group, ctx);               \
      for (int64_t g = 0; g < group; g++)                                                          \
        SHMT_IVDEP for (int64_t j = 0; j < n; j++) {                                                   \
          const STATE s = state[j];                                                                \
          const LANE a = acc[g * n + j];                                                           \
          state[j] = JOIN;                                                                         \
        }                                                                                          \
      in += rows * group * run->reduce_stride;                                                     \
      left -= rows * group;                                                                        \
    }                                                                                              \
  }                                                                                                \
  SHMT_OUTLINE STATE FN(NAME##_strided)(STATE s, const char* in, int64_t step, int64_t n,          \
                                        const void* ctx) {                                         \
    (void)ctx;                                                                                     \
    while (n > 0) {                                                                                \
      const int64_t rows = n < FOLD_ROWS ? n : FOLD_ROWS;                                          \
      LANE a = FIRST;                                                                              \
      for (int64_t i = 0; i < rows; i++, in += step) {                                             \
        const C x = SHMT_X(in);                                                                    \
        const LANE b = MAP;                                                                        \
        a = COMBINE;                                                                               \
      }                                                                                            \
      s = JOIN;                                                                                    \
      n -= rows;                                                                                   \
    }                                                                                              \
    return s;                                                                                      \
  }                                                                                                \
  SHMT_OUTLINE void FN(NAME##_store)(const shmt__reduce_run* given, const STATE* state) {        \
    const shmt__reduce_run own = *given, *run = &own; /* which no store to out changes */        \
    (void)run;                                                                                   \
    if (own.out_stride[0] == (int64_t)sizeof(RESULT)) {                                          \
      RESULT* const out = (RESULT*)(void*)own.out[0];                                            \
      SHMT_IVDEP for (int64_t j = 0; j < own.n_keep; j++) {                                      \
        const STATE s = state[j];                                                                \
        out[j] = FINISH;                                                                         \
      }                                                                                          \
      return;                                                                                    \
    }                                                                                            \
    for (int64_t j = 0; j < own.n_keep; j++) {                                                   \
      const STATE s = state[j];                                                                  \
      SHMT_AT(RESULT, own.out[0], own.out_stride[0], j) = FINISH;                                \
    }                                                                                            \
  }                                                                                              \
  /* Results of a few elements each, that lie together: side by side, not one after the other. */\
  SHMT_OUTLINE void FN(NAME##_short)(const shmt__reduce_run* run, STATE* state) {                \
    LANE acc[SHMT_REDUCE_TILE];                                                                  \
    const void* ctx = run->ctx;                                                                  \
    const int64_t n = run->n_keep, step = run->keep_stride;                                      \
    (void)ctx;                                                                                   \
    for (int64_t j = 0; j < n; j++) acc[j] = FIRST;                                              \
    for (int64_t i = 0; i < run->n_reduce; i++) {                                                \
      const char* in = run->in + i * (int64_t)sizeof(T);                                         \
      SHMT_IVDEP for (int64_t j = 0; j < n; j++) {                                               \
        const LANE a = acc[j];                                                                   \
        const C x = SHMT_X(in + j * step);                                                       \
        const LANE b = MAP;                                                                      \
        acc[j] = COMBINE;                                                                        \
      }                                                                                          \
    }                                                                                            \
    SHMT_IVDEP for (int64_t j = 0; j < n; j++) {                                                 \
      const STATE s = state[j];                                                                  \
      const LANE a = acc[j];                                                                     \
      state[j] = JOIN;                                                                           \
    }                                                                                            \
  }                                                                                              \
  int64_t SHMT_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run) {                 \
    if (phase == SHMT_REDUCE_SIZE) return sizeof(STATE);                                           \
    STATE* state = (STATE*)(void*)run->state;                                                      \
    switch (phase) {                                                                               \
      case SHMT_REDUCE_INIT:                                                                       \
        for (int64_t j = 0; j < run->n_keep; j++) state[j] = BEGIN;                                \
        break;                                                                                     \
      case SHMT_REDUCE_ACCUMULATE:                                                                 \
        if (run->keep_stride == (int64_t)sizeof(T) && run->reduce_stride != (int64_t)sizeof(T)) {  \
          if (run->n_reduce <= FOLD_ROWS && run->n_keep >= FOLD_LANES && run->n_reduce >= FOLD_LOW(LANE, STATE)) \
            FN(NAME##_low)(run, state);                                                            \
          else                                                                                     \
            FN(NAME##_wide)(run, state);                                                           \
          break;                                                                                   \
        }                                                                                          \
        if (run->reduce_stride == (int64_t)sizeof(T) && run->n_reduce < FOLD_FEW && run->n_keep >= FOLD_FEW) {\
          FN(NAME##_short)(run, state);                                                            \
          break;                                                                                   \
        }                                                                                          \
        for (int64_t j = 0; j < run->n_keep; j++) {                                                \
          const char* in = run->in + j * run->keep_stride;                                         \
          state[j] =                                                                               \
              run->reduce_stride == (int64_t)sizeof(T)                                             \
                  ? FN(NAME##_row)(state[j], in, run->n_reduce, run->ctx)                          \
                  : FN(NAME##_strided)(state[j], in, run->reduce_stride, run->n_reduce, run->ctx); \
        }                                                                                          \
        break;                                                                                     \
      case SHMT_REDUCE_MERGE:                                                                      \
        for (int64_t j = 0; j < run->n_keep; j++) {                                                \
          const STATE s = state[j], t = ((const STATE*)(const void*)run->other)[j];                \
          state[j] = MERGE;                                                                        \
        }                                                                                          \
        break;                                                                                     \
      default:                                                                                     \
        FN(NAME##_store)(run, state);                                                              \
    }                                                                                              \
    return 0;                                                                                      \
  }

#endif
