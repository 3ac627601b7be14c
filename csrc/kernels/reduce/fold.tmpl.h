/* kernels/reduce/fold.tmpl.h -- defines one reduction loop, SHMT_LOOP(FOLD_NAME), a loop of iter/reduce.h.
 *
 * It is included once for each loop, and undefines what its includer defines. A block of elements is folded into many
 * parallel lanes, so that the compiler vectorises and rounding errors grow only with the logarithm of the length. The
 * result of a block is joined to the state, whose type is wider.
 *
 *                 what it is                                          default: a sum
 *   FOLD_NAME     name of the loop                                    none
 *   FOLD_MAP      element x (type C) to a lane; may use `ctx`         x
 *   FOLD_LANE     type of a lane                                      C
 *   FOLD_FIRST    first value of lanes and states, which is neutral   0
 *   FOLD_COMBINE  two lanes a, b to one                               a + b
 *   FOLD_FOUR     a lane a and four values w, x, y, z to one lane     combines them one by one
 *   FOLD_STATE    type of the state                                   double
 *   FOLD_JOIN     state s and lane a, to a state                      s + a
 *   FOLD_MERGE    states s and t to one                               s + t
 *   FOLD_RESULT   stored type                                         T
 *   FOLD_FINISH   state s to FOLD_RESULT; may use `run`               SHMT_STORE((C)s)
 */
#include "kernels/reduce/reduce_loops.h"

#ifndef FOLD_MAP
#define FOLD_MAP x
#endif
#ifndef FOLD_LANE
#define FOLD_LANE C
#endif
#ifndef FOLD_FIRST
#define FOLD_FIRST 0
#endif
#ifndef FOLD_COMBINE
#define FOLD_COMBINE a + b
#endif
#ifndef FOLD_FOUR
#define FOLD_FOUR FOLD_FN(both)(FOLD_FN(both)(FOLD_FN(both)(FOLD_FN(both)(a, w), x), y), z)
#endif
#ifndef FOLD_STATE
#define FOLD_STATE double
#endif
#ifndef FOLD_JOIN
#define FOLD_JOIN s + a
#endif
#ifndef FOLD_MERGE
#define FOLD_MERGE s + t
#endif
#ifndef FOLD_RESULT
#define FOLD_RESULT T
#endif
#ifndef FOLD_FINISH
#define FOLD_FINISH SHMT_STORE((C)s)
#endif

#if SHMT_IS_HALF
SHMT_WIDENED_REDUCTION(FOLD_NAME, FOLD_RESULT)
#else
/* FOLD_FN(rows) is FN(sum_rows) for FOLD_NAME sum. */
#define FOLD_PASTED(name, part)   FN(name##_##part)
#define FOLD_EXPANDED(name, part) FOLD_PASTED(name, part)
#define FOLD_FN(part)             FOLD_EXPANDED(FOLD_NAME, part)
#define FOLD_CALL(macro, name)    macro(name)
#define FOLD_LOOP                 FOLD_CALL(SHMT_LOOP, FOLD_NAME)

static inline FOLD_LANE FOLD_FN(lane)(T stored, const void* ctx) {
  const C x = SHMT_LOAD(stored);
  (void)ctx;
  return FOLD_MAP;
}
static inline FOLD_LANE FOLD_FN(both)(FOLD_LANE a, FOLD_LANE b) { return FOLD_COMBINE; }
static inline FOLD_LANE FOLD_FN(four)(FOLD_LANE a, FOLD_LANE w, FOLD_LANE x, FOLD_LANE y, FOLD_LANE z) {
  return FOLD_FOUR;
}
static inline FOLD_STATE FOLD_FN(join)(FOLD_STATE s, FOLD_LANE a) { return FOLD_JOIN; }
/* Folds `rows` rows of elements into acc[0 .. lanes). row, step: bytes from row to row, from lane to lane. */
SHMT_INLINE void FOLD_FN(rows)(FOLD_LANE* acc, const char* in, int64_t row, int64_t rows, int64_t step, int64_t lanes,
                               const void* ctx) {
  for (int64_t r = 0; r < rows; r++, in += row)
    SHMT_IVDEP for (int64_t j = 0; j < lanes; j++)
      acc[j] = FOLD_FN(both)(acc[j], FOLD_FN(lane)(SHMT_AT(const T, in, step, j), ctx));
}
/* The same for contiguous rows: reads four rows for each write of the lanes. */
SHMT_INLINE void FOLD_FN(fours)(FOLD_LANE* acc, const char* in, int64_t row, int64_t rows, int64_t lanes,
                                const void* ctx) {
  for (; rows >= 4; rows -= 4, in += 4 * row) {
    const T *p0 = (const T*)(const void*)in, *p1 = (const T*)(const void*)(in + row),
            *p2 = (const T*)(const void*)(in + 2 * row), *p3 = (const T*)(const void*)(in + 3 * row);
    SHMT_IVDEP for (int64_t j = 0; j < lanes; j++)
      acc[j] = FOLD_FN(four)(acc[j], FOLD_FN(lane)(p0[j], ctx), FOLD_FN(lane)(p1[j], ctx), FOLD_FN(lane)(p2[j], ctx),
                             FOLD_FN(lane)(p3[j], ctx));
  }
  FOLD_FN(rows)(acc, in, row, rows, sizeof(T), lanes, ctx);
}
/* Folds all elements into a single lane. */
SHMT_INLINE FOLD_LANE FOLD_FN(one)(const char* in, int64_t step, int64_t n, const void* ctx) {
  FOLD_LANE a = FOLD_FIRST;
  for (int64_t i = 0; i < n; i++) a = FOLD_FN(both)(a, FOLD_FN(lane)(SHMT_AT(const T, in, step, i), ctx));
  return a;
}
/* Folds acc[j + half] into acc[j], then half as many, and so on down to `least`. */
SHMT_INLINE void FOLD_FN(halve)(FOLD_LANE* acc, int half, const int least) {
  for (; half >= least; half /= 2)
    SHMT_IVDEP for (int j = 0; j < half; j++) acc[j] = FOLD_FN(both)(acc[j], acc[j + half]);
}
SHMT_OUTLINE void FOLD_FN(join_each)(FOLD_STATE* state, const FOLD_LANE* acc, int64_t n) {
  SHMT_IVDEP for (int64_t j = 0; j < n; j++) state[j] = FOLD_FN(join)(state[j], acc[j]);
}
/* Folds `rows` rows into as many lanes as stay in registers from the first row to the last. */
enum { FOLD_FN(most) = FOLD_LANES_OF(FOLD_LANE) };
SHMT_OUTLINE void FOLD_FN(block)(FOLD_LANE* lanes, const char* in, int64_t row, int64_t rows, const void* ctx) {
  FOLD_LANE acc[FOLD_FN(most)];
  for (int j = 0; j < FOLD_FN(most); j++) acc[j] = FOLD_FIRST;
  FOLD_FN(fours)(acc, in, row, rows, FOLD_FN(most), ctx);
  for (int j = 0; j < FOLD_FN(most); j++) lanes[j] = acc[j];
}
/* One result of n contiguous elements. The number of lanes is fixed, so they stay in registers; a short row, or the
 * rest of a long one, uses FOLD_FEW lanes. */
SHMT_OUTLINE FOLD_STATE FOLD_FN(row)(FOLD_STATE s, const char* in, int64_t n, const void* ctx) {
  const int64_t size = sizeof(T);
  if (n < 2 * FOLD_FEW) return FOLD_FN(join)(s, FOLD_FN(one)(in, size, n, ctx));
  do {
    FOLD_LANE acc[FOLD_LANES], rest = FOLD_FIRST; /* the rest is one lane: copies between arrays would stall */
    if (n >= FOLD_LANES) {
      const int64_t rows = n / FOLD_LANES < FOLD_ROWS ? n / FOLD_LANES : FOLD_ROWS;
      for (int j = 0; j < FOLD_LANES; j++) acc[j] = FOLD_FIRST;
      FOLD_FN(rows)(acc, in, FOLD_LANES * size, rows, size, FOLD_LANES, ctx);
      FOLD_FN(halve)(acc, FOLD_LANES / 2, FOLD_FEW);
      n -= rows * FOLD_LANES, in += rows * FOLD_LANES * size;
    } else {
      /* Only the first round comes here: n is at least 2 * FOLD_FEW. */
      const T* p = (const T*)(const void*)in;
      SHMT_IVDEP for (int j = 0; j < FOLD_FEW; j++)
        acc[j] = FOLD_FN(both)(FOLD_FN(lane)(p[j], ctx), FOLD_FN(lane)(p[j + FOLD_FEW], ctx));
      n -= 2 * FOLD_FEW, in += 2 * FOLD_FEW * size;
    }
    for (; n < FOLD_LANES && n >= FOLD_FEW; n -= FOLD_FEW, in += FOLD_FEW * size)
      FOLD_FN(rows)(acc, in, 0, 1, size, FOLD_FEW, ctx);
    if (n < FOLD_FEW) {
      rest = FOLD_FN(one)(in, size, n, ctx);
      n = 0;
    }
    FOLD_FN(halve)(acc, FOLD_FEW / 2, 1);
    s = FOLD_FN(join)(s, FOLD_FN(both)(acc[0], rest));
  } while (n > 0);
  return s;
}
SHMT_OUTLINE FOLD_STATE FOLD_FN(long_row)(FOLD_STATE s, const char* in, int64_t n, const void* ctx) {
  const int64_t width = FOLD_FN(most) * (int64_t)sizeof(T);
  for (int64_t rows; n >= FOLD_LONG; n -= rows * FOLD_FN(most), in += rows * width) {
    FOLD_LANE acc[FOLD_FN(most)];
    rows = n / FOLD_FN(most) < FOLD_ROWS ? n / FOLD_FN(most) : FOLD_ROWS;
    FOLD_FN(block)(acc, in, width, rows, ctx);
    FOLD_FN(halve)(acc, FOLD_FN(most) / 2, 1);
    s = FOLD_FN(join)(s, acc[0]);
  }
  return FOLD_FN(row)(s, in, n, ctx);
}
SHMT_OUTLINE FOLD_STATE FOLD_FN(strided)(FOLD_STATE s, const char* in, int64_t step, int64_t n, const void* ctx) {
  for (int64_t rows; n > 0; n -= rows, in += rows * step) {
    rows = n < FOLD_ROWS ? n : FOLD_ROWS;
    s = FOLD_FN(join)(s, FOLD_FN(one)(in, step, rows, ctx));
  }
  return s;
}
SHMT_OUTLINE void FOLD_FN(columns)(FOLD_LANE* acc, const char* in, int64_t row, int64_t rows, int64_t columns,
                                   const void* ctx) {
  FOLD_FN(fours)(acc, in, row, rows, columns, ctx);
}
/* Results that are neighbours in memory (columns). When rows follow each other without a gap, several rows are folded
 * as one wider row, so that a few results still fill the lanes. */
SHMT_OUTLINE void FOLD_FN(wide)(const shmt__reduce_run* run, FOLD_STATE* state) {
  FOLD_LANE acc[SHMT_REDUCE_TILE];
  const int64_t n = run->n_keep;
  const char* in = run->in;
  int64_t group = 1;
  while (run->reduce_stride == n * (int64_t)sizeof(T) && 2 * group * n <= FOLD_WIDTH) group *= 2;
  for (int64_t rows, left = run->n_reduce; left > 0; left -= rows * group) {
    while (group > left) group /= 2;
    rows = left / group < FOLD_ROWS ? left / group : FOLD_ROWS;
    for (int64_t j = 0; j < n * group; j++) acc[j] = FOLD_FIRST;
    FOLD_FN(columns)(acc, in, run->reduce_stride * group, rows, n * group, run->ctx);
    int64_t parts = group;
    for (int64_t taken = 2 * rows; parts > 1 && taken <= FOLD_ROWS; taken *= 2) {
      const int64_t half = (parts /= 2) * n;
      SHMT_IVDEP for (int64_t j = 0; j < half; j++) acc[j] = FOLD_FN(both)(acc[j], acc[j + half]);
    }
    for (int64_t g = 0; g < parts; g++) FOLD_FN(join_each)(state, acc + g * n, n);
    in += rows * group * run->reduce_stride;
  }
}
/* Many results of a few contiguous elements each: one lane for each result. */
SHMT_OUTLINE void FOLD_FN(short)(const shmt__reduce_run* run, FOLD_STATE* state) {
  FOLD_LANE acc[SHMT_REDUCE_TILE];
  for (int64_t j = 0; j < run->n_keep; j++) acc[j] = FOLD_FIRST;
  FOLD_FN(rows)(acc, run->in, sizeof(T), run->n_reduce, run->keep_stride, run->n_keep, run->ctx);
  FOLD_FN(join_each)(state, acc, run->n_keep);
}
static void FOLD_FN(accumulate)(const shmt__reduce_run* run, FOLD_STATE* state) {
  const int64_t size = sizeof(T), keep = run->keep_stride, step = run->reduce_stride, n = run->n_reduce;
  if (keep == size && step != size) {
    FOLD_FN(wide)(run, state);
  } else if (step == size && n < 2 * FOLD_FEW && run->n_keep >= FOLD_FEW) {
    FOLD_FN(short)(run, state);
  } else {
    const char* in = run->in;
    for (int64_t j = 0; j < run->n_keep; j++, in += keep)
      state[j] = step != size    ? FOLD_FN(strided)(state[j], in, step, n, run->ctx)
                 : n < FOLD_LONG ? FOLD_FN(row)(state[j], in, n, run->ctx)
                                 : FOLD_FN(long_row)(state[j], in, n, run->ctx);
  }
}
SHMT_OUTLINE void FOLD_FN(store)(const shmt__reduce_run* given, const FOLD_STATE* state) {
  const shmt__reduce_run own = *given, *run = &own; /* a copy: stores to out cannot change it */
  (void)run;
  if (own.out_stride[0] == (int64_t)sizeof(FOLD_RESULT)) {
    FOLD_RESULT* const out = (FOLD_RESULT*)(void*)own.out[0];
    SHMT_IVDEP for (int64_t j = 0; j < own.n_keep; j++) {
      const FOLD_STATE s = state[j];
      out[j] = FOLD_FINISH;
    }
    return;
  }
  for (int64_t j = 0; j < own.n_keep; j++) {
    const FOLD_STATE s = state[j];
    SHMT_AT(FOLD_RESULT, own.out[0], own.out_stride[0], j) = FOLD_FINISH;
  }
}
/* Columns of few rows: goes from the elements to the results without states in memory. The last block overlaps the
 * one before. False: not such a case. */
SHMT_OUTLINE bool FOLD_FN(whole)(const shmt__reduce_run* given) {
  const shmt__reduce_run own = *given, *const run = &own; /* a copy: stores to out cannot change it */
  const int64_t size = sizeof(T), last = own.n_keep - FOLD_FN(most);
  if (own.keep_stride != size || own.reduce_stride == size || own.out_stride[0] != (int64_t)sizeof(FOLD_RESULT) ||
      own.n_reduce > FOLD_ROWS || last < 0)
    return false;
  (void)run;
  for (int64_t k = 0, next;; k = next) {
    next = k + FOLD_FN(most) < last ? k + FOLD_FN(most) : last;
    FOLD_LANE acc[FOLD_FN(most)];
    FOLD_RESULT* const out = (FOLD_RESULT*)(void*)own.out[0] + k;
    FOLD_FN(block)(acc, own.in + k * size, own.reduce_stride, own.n_reduce, own.ctx);
    SHMT_IVDEP for (int j = 0; j < FOLD_FN(most); j++) {
      const FOLD_STATE s = FOLD_FN(join)(FOLD_FIRST, acc[j]);
      out[j] = FOLD_FINISH;
    }
    if (k == last) return true;
  }
}
int64_t FOLD_LOOP(shmt__reduce_phase phase, const shmt__reduce_run* run) {
  if (phase == SHMT_REDUCE_SIZE) return sizeof(FOLD_STATE);
  if (phase == SHMT_REDUCE_WHOLE) return FOLD_FN(whole)(run);
  FOLD_STATE* state = (FOLD_STATE*)(void*)run->state;
  switch (phase) {
    case SHMT_REDUCE_INIT:
      for (int64_t j = 0; j < run->n_keep; j++) state[j] = FOLD_FIRST;
      break;
    case SHMT_REDUCE_ACCUMULATE:
      FOLD_FN(accumulate)(run, state);
      break;
    case SHMT_REDUCE_MERGE:
      for (int64_t j = 0; j < run->n_keep; j++) {
        const FOLD_STATE s = state[j], t = ((const FOLD_STATE*)(const void*)run->other)[j];
        state[j] = FOLD_MERGE;
      }
      break;
    default:
      FOLD_FN(store)(run, state);
  }
  return 0;
}

#undef FOLD_PASTED
#undef FOLD_EXPANDED
#undef FOLD_FN
#undef FOLD_CALL
#undef FOLD_LOOP
#endif

#undef FOLD_NAME
#undef FOLD_MAP
#undef FOLD_LANE
#undef FOLD_FIRST
#undef FOLD_COMBINE
#undef FOLD_FOUR
#undef FOLD_STATE
#undef FOLD_JOIN
#undef FOLD_MERGE
#undef FOLD_RESULT
#undef FOLD_FINISH
