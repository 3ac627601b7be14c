/* ops/list_expression.c -- lists of ints that expressions of the operator spec make and take apart. */
#include "ops/list_expression.h"

#include "base/overflow.h"
#include "tensor/tensor.h" /* shmt__ints_text */

#include <inttypes.h>

shmt_status shmt__ints_product(shmt_ints values, int64_t* out) {
  int64_t product = 1;
  bool fits = true;

  for (int64_t i = 0; i < values.len; i++) {
    if (values.data[i] == 0) {
      *out = 0;
      return SHMT_OK;
    }
    fits = fits && shmt__mul_i64(product, values.data[i], &product);
  }
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME, "the product of %s does not fit in 64 bits",
               shmt__ints_text(values, (char[256]){0}, 256));
  *out = product;
  return SHMT_OK;
}

/* Is there room for n more values? */
static shmt_status check_room(int64_t len, int64_t n) {
  const int64_t room = 2 * SHMT_MAX_DIMS;
  SHMT_REQUIRE(n <= room - len, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               shmt__add_i64(len, n, &n) ? n : INT64_MAX);
  return SHMT_OK;
}

shmt_status shmt__shape_append(shmt__shape* shape, int64_t value) {
  SHMT_TRY(check_room(shape->len, 1));
  shape->data[shape->len++] = value;
  return SHMT_OK;
}

shmt_status shmt__shape_join(shmt__shape* out, const shmt_ints* lists, int n) {
  out->len = 0;
  for (int i = 0; i < n; i++) {
    SHMT_TRY(check_room(out->len, lists[i].len));
    for (int64_t k = 0; k < lists[i].len; k++) out->data[out->len++] = lists[i].data[k];
  }
  return SHMT_OK;
}

shmt_status shmt__shape_repeat(shmt__shape* out, int64_t value, int64_t n) {
  SHMT_TRY(check_room(0, n));
  out->len = n < 0 ? 0 : n;
  for (int64_t i = 0; i < n; i++) out->data[i] = value;
  return SHMT_OK;
}

shmt_status shmt__shape_range(shmt__shape* out, int64_t begin, int64_t end) {
  int64_t n = 0;

  if (begin < end && __builtin_sub_overflow(end, begin, &n)) n = INT64_MAX;
  SHMT_TRY(check_room(0, n));
  out->len = 0;
  for (int64_t i = begin; i < end; i++) out->data[out->len++] = i;
  return SHMT_OK;
}
