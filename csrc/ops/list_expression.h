/* ops/list_expression.h -- lists of ints that expressions of the operator spec make and take apart. */
#ifndef SHMT_OPS_LIST_EXPRESSION_H
#define SHMT_OPS_LIST_EXPRESSION_H

#include "base/error.h"
#include "base/types.h"

/* A bound of a part of len values: counted from the end when it is negative, 0 or len when it is outside. */
static inline int64_t shmt__list_bound(int64_t bound, int64_t len) {
  if (bound < 0) bound += len;
  return bound < 0 ? 0 : bound > len ? len : bound;
}

/* values[begin:end] as in Python. It refers to values. */
static inline shmt_ints shmt__ints_part(shmt_ints values, int64_t begin, int64_t end) {
  const int64_t from = shmt__list_bound(begin, values.len), to = shmt__list_bound(end, values.len);
  return (shmt_ints){values.data + from, to > from ? to - from : 0};
}

/* The product; 1 of no values, 0 when one is 0. Errors: SHMT_E_RUNTIME when it does not fit in 64 bits. */
shmt_status shmt__ints_product(shmt_ints values, int64_t* out);

/* A list that an expression makes: sizes, dims, or two numbers for each dim. Undefined until a function below fills it,
 * or len is set to 0. */
typedef struct shmt__shape {
  int64_t len;
  int64_t data[2 * SHMT_MAX_DIMS];
} shmt__shape;

static inline shmt_ints shmt__shape_ints(const shmt__shape* shape) { return (shmt_ints){shape->data, shape->len}; }

/* Adds a value at the end. Errors, here and below: SHMT_E_RUNTIME when there is no room. */
shmt_status shmt__shape_append(shmt__shape* shape, int64_t value);
/* The values of n lists, one after another. */
shmt_status shmt__shape_join(shmt__shape* out, const shmt_ints* lists, int n);
/* The value n times; no values when n is negative. */
shmt_status shmt__shape_repeat(shmt__shape* out, int64_t value, int64_t n);
/* begin, begin + 1, ..., end - 1. */
shmt_status shmt__shape_range(shmt__shape* out, int64_t begin, int64_t end);

#endif
