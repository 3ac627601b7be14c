/* base/sizes.h -- small arithmetic on counts and sizes that are not negative. */
#ifndef SHMT_BASE_SIZES_H
#define SHMT_BASE_SIZES_H

#include <stdint.h>

static inline int64_t shmt__min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t shmt__max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
/* a / b, rounded up; b > 0. */
static inline int64_t shmt__ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* The lowest multiple of `to` that is not below n. */
static inline int64_t shmt__round_up(int64_t n, int64_t to) { return shmt__ceil_div(n, to) * to; }

#endif
