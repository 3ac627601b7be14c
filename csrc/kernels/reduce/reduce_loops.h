/* kernels/reduce/reduce_loops.h -- what templates of reduction loops share; fold.tmpl.h makes nearly all of them. */
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

#endif
