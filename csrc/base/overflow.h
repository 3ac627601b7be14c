/* base/overflow.h -- arithmetic on sizes that come from outside.
 *
 * Each function returns false on overflow and then leaves *out untouched. */
#ifndef SHMT_BASE_OVERFLOW_H
#define SHMT_BASE_OVERFLOW_H

#include <stdbool.h>
#include <stdint.h>

/* a * b, which may wrap: the stride of a dimension with at most one element, which no address uses, say. */
static inline int64_t shmt__wrap_mul_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static inline bool shmt__mul_i64(int64_t a, int64_t b, int64_t* out) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline bool shmt__add_i64(int64_t a, int64_t b, int64_t* out) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline bool shmt__mul_u64(uint64_t a, uint64_t b, uint64_t* out) {
  uint64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline bool shmt__add_u64(uint64_t a, uint64_t b, uint64_t* out) {
  uint64_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

#endif
