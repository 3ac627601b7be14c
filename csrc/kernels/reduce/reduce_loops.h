/* kernels/reduce/reduce_loops.h -- the macro FOLD, which defines a reduction loop.
 *
 * FOLD(NAME, LANE, FIRST, MAP, COMBINE, STATE, BEGIN, JOIN, MERGE, RESULT, FINISH) defines SHMT_LOOP(NAME), a loop of
 * iter/reduce.h. A block of elements is folded into many parallel lanes of type LANE, so that the compiler vectorises
 * and rounding errors grow only with the logarithm of the length. The result of a block is joined to the state, whose
 * type is wider.
 *
 *   LANE      type of a lane                      FIRST     its neutral value
 *   MAP       element x (type C) to LANE          COMBINE   two lanes a, b to one
 *   STATE     type of the state                   BEGIN     its first value
 *   JOIN      state s and lane a, to a state      MERGE     states s and t to one
 *   RESULT    stored type                         FINISH    state s to RESULT; may use `run`
 */
#ifndef SHMT_KERNELS_REDUCE_REDUCE_LOOPS_H
#define SHMT_KERNELS_REDUCE_REDUCE_LOOPS_H

#include "iter/reduce.h"
#include "kernels/loops.h"

enum {
  FOLD_LANES = 32,  /* lanes of a row */
  FOLD_FEW = 8,     /* lanes of a short row */
  FOLD_LONG = 2048, /* elements of a long row */
  FOLD_MOST = 128,  /* the most lanes of a block */
  FOLD_WIDTH = 256, /* columns that several short rows are joined to */
  FOLD_ROWS = 64,   /* elements that one lane takes before it joins the state */
};

/* Lanes of a block: as many as fit into registers beside the elements that are folded in, and no fewer than for a
 * row. */
#define FOLD_BYTES          (SHMT_ISA_LEVEL ? 256 : 128)
#define FOLD_WITHIN(n)      ((n) < FOLD_LANES ? FOLD_LANES : (n) > FOLD_MOST ? FOLD_MOST : (n))
#define FOLD_LANES_OF(LANE) FOLD_WITHIN(FOLD_BYTES / (int)sizeof(LANE))

/* For functions that are called from several places: one copy keeps the code small. */
#define SHMT_OUTLINE static __attribute__((noinline))
/* Inlined, so that the number of lanes is a constant and they stay in registers. */
#define SHMT_INLINE static inline __attribute__((always_inline))

#define SHMT_X(p) SHMT_LOAD(*(const T*)(const void*)(p))

/* Reductions of half-precision types run the loop of their compute type over widened blocks: kernels/half_loops.tmpl.h.
 * RESULT is the stored type; int64_t where an index may come with a value. */
int64_t shmt__widened_reduction(shmt_dtype half, shmt__reduce_loop full, shmt__stored stored, shmt__reduce_phase phase,
                                const shmt__reduce_run* run);
#define SHMT_WIDENED_REDUCTION(NAME, RESULT)                                                             \
  int64_t SHMT_FULL_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run);                   \
  int64_t SHMT_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run) {                       \
    return shmt__widened_reduction(SHMT_DT, SHMT_FULL_LOOP(NAME), SHMT_STORED(RESULT), phase, run);      \
  }

#define FOLD(NAME, ...) \
  FOLD_FOUR(NAME, FN(NAME##_both)(FN(NAME##_both)(FN(NAME##_both)(FN(NAME##_both)(a, w), x), y), z), __VA_ARGS__)
/* FOLD_FOUR has one more argument, FOUR: a lane a and four values w, x, y, z to one lane, where folding them one by one
 * is not the fastest. */
#define FOLD_FOUR(...) SHMT_SHAPE(FOLD)(__VA_ARGS__)
#define SHMT_FOLD_1(NAME, FOUR, LANE, FIRST, MAP, COMBINE, STATE, BEGIN, JOIN, MERGE, RESULT, FINISH) \
  SHMT_WIDENED_REDUCTION(NAME, RESULT)
#define SHMT_FOLD_0(NAME, FOUR, LANE, FIRST, MAP, COMBINE, STATE, BEGIN, JOIN, MERGE, RESULT, FINISH)                    \
  static inline LANE FN(NAME##_lane)(T stored, const void* ctx) {                                                        \
    const C x = SHMT_LOAD(stored);                                                                                       \
    (void)ctx;                                                                                                           \
    return MAP;                                                                                                          \
  }                                                                                                                      \
  static inline LANE FN(NAME##_both)(LANE a, LANE b) { return COMBINE; }                                                 \
  static inline LANE FN(NAME##_four)(LANE a, LANE w, LANE x, LANE y, LANE z) { return FOUR; }                            \
  static inline STATE FN(NAME##_join)(STATE s, LANE a) { return JOIN; }                                                  \
  /* Folds `rows` rows of elements into acc[0 .. lanes). row, step: bytes from row to row, from lane to lane. */         \
  SHMT_INLINE void FN(NAME##_rows)(LANE * acc, const char* in, int64_t row, int64_t rows, int64_t step, int64_t lanes,   \
                                   const void* ctx) {                                                                    \
    for (int64_t r = 0; r < rows; r++, in += row)                                                                        \
      SHMT_IVDEP for (int64_t j = 0; j < lanes; j++)                                                                     \
        acc[j] = FN(NAME##_both)(acc[j], FN(NAME##_lane)(SHMT_AT(const T, in, step, j), ctx));                           \
  }                                                                                                                      \
  /* The same for contiguous rows: reads four rows for each write of the lanes. */                                       \
  SHMT_INLINE void FN(NAME##_fours)(LANE * acc, const char* in, int64_t row, int64_t rows, int64_t lanes,                \
                                    const void* ctx) {                                                                   \
    for (; rows >= 4; rows -= 4, in += 4 * row) {                                                                        \
      const T *p0 = (const T*)(const void*)in, *p1 = (const T*)(const void*)(in + row),                                  \
              *p2 = (const T*)(const void*)(in + 2 * row), *p3 = (const T*)(const void*)(in + 3 * row);                  \
      SHMT_IVDEP for (int64_t j = 0; j < lanes; j++)                                                                     \
        acc[j] = FN(NAME##_four)(acc[j], FN(NAME##_lane)(p0[j], ctx), FN(NAME##_lane)(p1[j], ctx),                       \
                                 FN(NAME##_lane)(p2[j], ctx), FN(NAME##_lane)(p3[j], ctx));                              \
    }                                                                                                                    \
    FN(NAME##_rows)(acc, in, row, rows, sizeof(T), lanes, ctx);                                                          \
  }                                                                                                                      \
  /* Folds all elements into a single lane. */                                                                           \
  SHMT_INLINE LANE FN(NAME##_one)(const char* in, int64_t step, int64_t n, const void* ctx) {                            \
    LANE a = FIRST;                                                                                                      \
    for (int64_t i = 0; i < n; i++) a = FN(NAME##_both)(a, FN(NAME##_lane)(SHMT_AT(const T, in, step, i), ctx));         \
    return a;                                                                                                            \
  }                                                                                                                      \
  /* Folds acc[j + half] into acc[j], then half as many, and so on down to `least`. */                                   \
  SHMT_INLINE void FN(NAME##_halve)(LANE * acc, int half, const int least) {                                             \
    for (; half >= least; half /= 2)                                                                                     \
      SHMT_IVDEP for (int j = 0; j < half; j++) acc[j] = FN(NAME##_both)(acc[j], acc[j + half]);                         \
  }                                                                                                                      \
  SHMT_OUTLINE void FN(NAME##_join_each)(STATE * state, const LANE* acc, int64_t n) {                                    \
    SHMT_IVDEP for (int64_t j = 0; j < n; j++) state[j] = FN(NAME##_join)(state[j], acc[j]);                             \
  }                                                                                                                      \
  /* Folds `rows` rows into as many lanes as stay in registers from the first row to the last. */                        \
  enum { FN(NAME##_most) = FOLD_LANES_OF(LANE) };                                                                        \
  SHMT_OUTLINE void FN(NAME##_block)(LANE * lanes, const char* in, int64_t row, int64_t rows, const void* ctx) {         \
    LANE acc[FN(NAME##_most)];                                                                                           \
    for (int j = 0; j < FN(NAME##_most); j++) acc[j] = FIRST;                                                            \
    FN(NAME##_fours)(acc, in, row, rows, FN(NAME##_most), ctx);                                                          \
    for (int j = 0; j < FN(NAME##_most); j++) lanes[j] = acc[j];                                                         \
  }                                                                                                                      \
  /* One result of n contiguous elements. The number of lanes is fixed, so they stay in registers; a short row, or the   \
   * rest of a long one, uses FOLD_FEW lanes. */                                                                         \
  SHMT_OUTLINE STATE FN(NAME##_row)(STATE s, const char* in, int64_t n, const void* ctx) {                               \
    const int64_t size = sizeof(T);                                                                                      \
    if (n < 2 * FOLD_FEW) return FN(NAME##_join)(s, FN(NAME##_one)(in, size, n, ctx));                                   \
    do {                                                                                                                 \
      LANE acc[FOLD_LANES], rest = FIRST; /* the rest is one lane: copies between arrays would stall */                  \
      if (n >= FOLD_LANES) {                                                                                             \
        const int64_t rows = n / FOLD_LANES < FOLD_ROWS ? n / FOLD_LANES : FOLD_ROWS;                                    \
        for (int j = 0; j < FOLD_LANES; j++) acc[j] = FIRST;                                                             \
        FN(NAME##_rows)(acc, in, FOLD_LANES * size, rows, size, FOLD_LANES, ctx);                                        \
        FN(NAME##_halve)(acc, FOLD_LANES / 2, FOLD_FEW);                                                                 \
        n -= rows * FOLD_LANES, in += rows * FOLD_LANES * size;                                                          \
      } else {                                                                                                           \
        /* Only the first round comes here: n is at least 2 * FOLD_FEW. */                                               \
        const T* p = (const T*)(const void*)in;                                                                          \
        SHMT_IVDEP for (int j = 0; j < FOLD_FEW; j++)                                                                    \
          acc[j] = FN(NAME##_both)(FN(NAME##_lane)(p[j], ctx), FN(NAME##_lane)(p[j + FOLD_FEW], ctx));                   \
        n -= 2 * FOLD_FEW, in += 2 * FOLD_FEW * size;                                                                    \
      }                                                                                                                  \
      for (; n < FOLD_LANES && n >= FOLD_FEW; n -= FOLD_FEW, in += FOLD_FEW * size)                                      \
        FN(NAME##_rows)(acc, in, 0, 1, size, FOLD_FEW, ctx);                                                             \
      if (n < FOLD_FEW) {                                                                                                \
        rest = FN(NAME##_one)(in, size, n, ctx);                                                                         \
        n = 0;                                                                                                           \
      }                                                                                                                  \
      FN(NAME##_halve)(acc, FOLD_FEW / 2, 1);                                                                            \
      s = FN(NAME##_join)(s, FN(NAME##_both)(acc[0], rest));                                                             \
    } while (n > 0);                                                                                                     \
    return s;                                                                                                            \
  }                                                                                                                      \
  SHMT_OUTLINE STATE FN(NAME##_long_row)(STATE s, const char* in, int64_t n, const void* ctx) {                          \
    const int64_t width = FN(NAME##_most) * (int64_t)sizeof(T);                                                          \
    for (int64_t rows; n >= FOLD_LONG; n -= rows * FN(NAME##_most), in += rows * width) {                                \
      LANE acc[FN(NAME##_most)];                                                                                         \
      rows = n / FN(NAME##_most) < FOLD_ROWS ? n / FN(NAME##_most) : FOLD_ROWS;                                          \
      FN(NAME##_block)(acc, in, width, rows, ctx);                                                                       \
      FN(NAME##_halve)(acc, FN(NAME##_most) / 2, 1);                                                                     \
      s = FN(NAME##_join)(s, acc[0]);                                                                                    \
    }                                                                                                                    \
    return FN(NAME##_row)(s, in, n, ctx);                                                                                \
  }                                                                                                                      \
  SHMT_OUTLINE STATE FN(NAME##_strided)(STATE s, const char* in, int64_t step, int64_t n, const void* ctx) {             \
    for (int64_t rows; n > 0; n -= rows, in += rows * step) {                                                            \
      rows = n < FOLD_ROWS ? n : FOLD_ROWS;                                                                              \
      s = FN(NAME##_join)(s, FN(NAME##_one)(in, step, rows, ctx));                                                       \
    }                                                                                                                    \
    return s;                                                                                                            \
  }                                                                                                                      \
  SHMT_OUTLINE void FN(NAME##_columns)(LANE * acc, const char* in, int64_t row, int64_t rows, int64_t columns,           \
                                       const void* ctx) {                                                                \
    FN(NAME##_fours)(acc, in, row, rows, columns, ctx);                                                                  \
  }                                                                                                                      \
  /* Results that are neighbours in memory (columns). When rows follow each other without a gap, several rows are folded \
   * as one wider row, so that a few results still fill the lanes. */                                                    \
  SHMT_OUTLINE void FN(NAME##_wide)(const shmt__reduce_run* run, STATE* state) {                                         \
    LANE acc[SHMT_REDUCE_TILE];                                                                                          \
    const int64_t n = run->n_keep;                                                                                       \
    const char* in = run->in;                                                                                            \
    int64_t group = 1;                                                                                                   \
    while (run->reduce_stride == n * (int64_t)sizeof(T) && 2 * group * n <= FOLD_WIDTH) group *= 2;                      \
    for (int64_t rows, left = run->n_reduce; left > 0; left -= rows * group) {                                           \
      while (group > left) group /= 2;                                                                                   \
      rows = left / group < FOLD_ROWS ? left / group : FOLD_ROWS;                                                        \
      for (int64_t j = 0; j < n * group; j++) acc[j] = FIRST;                                                            \
      FN(NAME##_columns)(acc, in, run->reduce_stride * group, rows, n * group, run->ctx);                                \
      int64_t parts = group;                                                                                             \
      for (int64_t taken = 2 * rows; parts > 1 && taken <= FOLD_ROWS; taken *= 2) {                                      \
        const int64_t half = (parts /= 2) * n;                                                                           \
        SHMT_IVDEP for (int64_t j = 0; j < half; j++) acc[j] = FN(NAME##_both)(acc[j], acc[j + half]);                   \
      }                                                                                                                  \
      for (int64_t g = 0; g < parts; g++) FN(NAME##_join_each)(state, acc + g * n, n);                                   \
      in += rows * group * run->reduce_stride;                                                                           \
    }                                                                                                                    \
  }                                                                                                                      \
  /* Many results of a few contiguous elements each: one lane for each result. */                                        \
  SHMT_OUTLINE void FN(NAME##_short)(const shmt__reduce_run* run, STATE* state) {                                        \
    LANE acc[SHMT_REDUCE_TILE];                                                                                          \
    for (int64_t j = 0; j < run->n_keep; j++) acc[j] = FIRST;                                                            \
    FN(NAME##_rows)(acc, run->in, sizeof(T), run->n_reduce, run->keep_stride, run->n_keep, run->ctx);                    \
    FN(NAME##_join_each)(state, acc, run->n_keep);                                                                       \
  }                                                                                                                      \
  static void FN(NAME##_accumulate)(const shmt__reduce_run* run, STATE* state) {                                         \
    const int64_t size = sizeof(T), keep = run->keep_stride, step = run->reduce_stride, n = run->n_reduce;               \
    if (keep == size && step != size) {                                                                                  \
      FN(NAME##_wide)(run, state);                                                                                       \
    } else if (step == size && n < 2 * FOLD_FEW && run->n_keep >= FOLD_FEW) {                                            \
      FN(NAME##_short)(run, state);                                                                                      \
    } else {                                                                                                             \
      const char* in = run->in;                                                                                          \
      for (int64_t j = 0; j < run->n_keep; j++, in += keep)                                                              \
        state[j] = step != size    ? FN(NAME##_strided)(state[j], in, step, n, run->ctx)                                 \
                   : n < FOLD_LONG ? FN(NAME##_row)(state[j], in, n, run->ctx)                                           \
                                   : FN(NAME##_long_row)(state[j], in, n, run->ctx);                                     \
    }                                                                                                                    \
  }                                                                                                                      \
  SHMT_OUTLINE void FN(NAME##_store)(const shmt__reduce_run* given, const STATE* state) {                                \
    const shmt__reduce_run own = *given, *run = &own; /* a copy: stores to out cannot change it */                       \
    (void)run;                                                                                                           \
    if (own.out_stride[0] == (int64_t)sizeof(RESULT)) {                                                                  \
      RESULT* const out = (RESULT*)(void*)own.out[0];                                                                    \
      SHMT_IVDEP for (int64_t j = 0; j < own.n_keep; j++) {                                                              \
        const STATE s = state[j];                                                                                        \
        out[j] = FINISH;                                                                                                 \
      }                                                                                                                  \
      return;                                                                                                            \
    }                                                                                                                    \
    for (int64_t j = 0; j < own.n_keep; j++) {                                                                           \
      const STATE s = state[j];                                                                                          \
      SHMT_AT(RESULT, own.out[0], own.out_stride[0], j) = FINISH;                                                        \
    }                                                                                                                    \
  }                                                                                                                      \
  /* Columns of few rows: goes from the elements to the results without states in memory. The last block overlaps the    \
   * one before. False: not such a case. */                                                                              \
  SHMT_OUTLINE bool FN(NAME##_whole)(const shmt__reduce_run* given) {                                                    \
    const shmt__reduce_run own = *given, *const run = &own; /* a copy: stores to out cannot change it */                 \
    const int64_t size = sizeof(T), last = own.n_keep - FN(NAME##_most);                                                 \
    if (own.keep_stride != size || own.reduce_stride == size || own.out_stride[0] != (int64_t)sizeof(RESULT) ||          \
        own.n_reduce > FOLD_ROWS || last < 0)                                                                            \
      return false;                                                                                                      \
    (void)run;                                                                                                           \
    for (int64_t k = 0, next;; k = next) {                                                                               \
      next = k + FN(NAME##_most) < last ? k + FN(NAME##_most) : last;                                                    \
      LANE acc[FN(NAME##_most)];                                                                                         \
      RESULT* const out = (RESULT*)(void*)own.out[0] + k;                                                                \
      FN(NAME##_block)(acc, own.in + k * size, own.reduce_stride, own.n_reduce, own.ctx);                                \
      SHMT_IVDEP for (int j = 0; j < FN(NAME##_most); j++) {                                                             \
        const STATE s = FN(NAME##_join)(BEGIN, acc[j]);                                                                  \
        out[j] = FINISH;                                                                                                 \
      }                                                                                                                  \
      if (k == last) return true;                                                                                        \
    }                                                                                                                    \
  }                                                                                                                      \
  int64_t SHMT_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run) {                                       \
    if (phase == SHMT_REDUCE_SIZE) return sizeof(STATE);                                                                 \
    if (phase == SHMT_REDUCE_WHOLE) return FN(NAME##_whole)(run);                                                        \
    STATE* state = (STATE*)(void*)run->state;                                                                            \
    switch (phase) {                                                                                                     \
      case SHMT_REDUCE_INIT:                                                                                             \
        for (int64_t j = 0; j < run->n_keep; j++) state[j] = BEGIN;                                                      \
        break;                                                                                                           \
      case SHMT_REDUCE_ACCUMULATE: FN(NAME##_accumulate)(run, state); break;                                             \
      case SHMT_REDUCE_MERGE:                                                                                            \
        for (int64_t j = 0; j < run->n_keep; j++) {                                                                      \
          const STATE s = state[j], t = ((const STATE*)(const void*)run->other)[j];                                      \
          state[j] = MERGE;                                                                                              \
        }                                                                                                                \
        break;                                                                                                           \
      default: FN(NAME##_store)(run, state);                                                                             \
    }                                                                                                                    \
    return 0;                                                                                                            \
  }

#endif
