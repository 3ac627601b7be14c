/* iter/cursor.h -- stepping through some dims of a source and a target at once, for operators that work on a row at a
 * time.
 *
 *   shmt__cursor c;
 *   shmt__cursor_init(&c, &nest, begin);
 *   for (int64_t i = begin; i < end; i++, shmt__cursor_next(&c, &nest)) use(c.from, c.to);
 */
#ifndef SHMT_ITER_CURSOR_H
#define SHMT_ITER_CURSOR_H

#include "base/types.h"

/* Nested loops over some dims, the innermost first. */
typedef struct shmt__loop_nest {
  int n_dims;
  int64_t sizes[SHMT_MAX_DIMS];
  int64_t from[SHMT_MAX_DIMS], to[SHMT_MAX_DIMS]; /* steps */
} shmt__loop_nest;

typedef struct shmt__cursor {
  int64_t from, to; /* sums of steps */
  int64_t at[SHMT_MAX_DIMS];
} shmt__cursor;

static inline void shmt__cursor_init(shmt__cursor* c, const shmt__loop_nest* w, int64_t position) {
  c->from = 0;
  c->to = 0;
  for (int d = 0; d < w->n_dims; d++, position /= w->sizes[d - 1]) {
    c->at[d] = position % w->sizes[d];
    c->from += c->at[d] * w->from[d];
    c->to += c->at[d] * w->to[d];
  }
}

/* After the last position comes the first. */
static inline void shmt__cursor_next(shmt__cursor* c, const shmt__loop_nest* w) {
  for (int d = 0; d < w->n_dims; d++) {
    c->from += w->from[d];
    c->to += w->to[d];
    if (++c->at[d] < w->sizes[d]) return;
    c->from -= w->sizes[d] * w->from[d];
    c->to -= w->sizes[d] * w->to[d];
    c->at[d] = 0;
  }
}

#endif
