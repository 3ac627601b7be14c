/* tests/c/expressions.c -- what expressions of the operator spec do with ints and lists. */
#include "check.h"

#include "ops/list_expression.h"
#include "ops/scalar_expression.h"

#define LIST(...) ((shmt_ints){(const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})

static void check_part(int64_t begin, int64_t end, int64_t first, int64_t len) {
  const shmt_ints part = shmt__ints_part(LIST(10, 11, 12, 13), begin, end);
  CHECK_EQ(part.len, len);
  if (len > 0) CHECK_EQ(part.data[0], first);
}

TEST(a_part_of_a_list_has_the_bounds_of_python) {
  check_part(0, INT64_MAX, 10, 4);
  check_part(1, 3, 11, 2);
  check_part(-3, -1, 11, 2);
  check_part(-9, 2, 10, 2); /* before the beginning */
  check_part(2, 9, 12, 2);  /* behind the end */
  check_part(3, 1, 0, 0);
  check_part(9, 12, 0, 0);
  check_part(INT64_MIN, INT64_MAX, 10, 4);
}

TEST(an_index_outside_of_a_list_is_refused) {
  const shmt_tensors tensors = {(shmt_tensor* const[]){NULL, NULL}, 2};
  shmt_tensor* tensor = NULL;
  int64_t value = 7;

  CHECK_OK(shmt__ints_at(LIST(4, 5), -2, &value));
  CHECK_EQ(value, 4);
  CHECK_FAILS(shmt__ints_at(LIST(4, 5), 2, &value), SHMT_E_INDEX, "index 2 is out of range for a list of 2");
  CHECK_FAILS(shmt__ints_at(LIST(4, 5), INT64_MIN, &value), SHMT_E_INDEX, "out of range");
  CHECK_EQ(value, 4);
  CHECK_OK(shmt__tensors_at(tensors, -2, &tensor));
  CHECK_FAILS(shmt__tensors_at(tensors, 2, &tensor), SHMT_E_INDEX, "index 2 is out of range for a list of 2");
  CHECK_FAILS(shmt__tensors_at(tensors, -3, &tensor), SHMT_E_INDEX, "out of range");
}

TEST(numbers_that_do_not_fit_in_64_bits_are_refused) {
  int64_t value = 0;

  CHECK_OK(shmt__int_add(INT64_MAX, -1, &value));
  CHECK_EQ(value, INT64_MAX - 1);
  CHECK_FAILS(shmt__int_add(INT64_MAX, 1, &value), SHMT_E_RUNTIME, "9223372036854775807 + 1 does not fit in 64 bits");
  CHECK_FAILS(shmt__int_sub(0, INT64_MIN, &value), SHMT_E_RUNTIME, "does not fit in 64 bits");
  CHECK_FAILS(shmt__int_mul(INT64_MAX, 2, &value), SHMT_E_RUNTIME, "does not fit in 64 bits");
  CHECK_OK(shmt__ints_product(LIST(2, 3, -4), &value));
  CHECK_EQ(value, -24);
  CHECK_OK(shmt__ints_product((shmt_ints){NULL, 0}, &value));
  CHECK_EQ(value, 1);
  CHECK_OK(shmt__ints_product(LIST(INT64_MAX, INT64_MAX, 0), &value));
  CHECK_EQ(value, 0);
  CHECK_FAILS(shmt__ints_product(LIST(INT64_MAX, 3), &value), SHMT_E_RUNTIME, "the product of");
}

TEST(division_rounds_down_and_has_a_value_for_every_divisor) {
  CHECK_EQ(shmt__floor_div_i64(-7, 2), -4);
  CHECK_EQ(shmt__floor_mod_i64(-7, 2), 1);
  CHECK_EQ(shmt__floor_mod_i64(7, -2), -1);
  CHECK_EQ(shmt__floor_div_i64(7, 0), 0);
  CHECK_EQ(shmt__floor_mod_i64(7, 0), 7);
  CHECK_EQ(shmt__floor_mod_i64(INT64_MIN, -1), 0);
}

TEST(a_list_has_room_for_two_numbers_for_each_dim) {
  const int64_t room = 2 * SHMT_MAX_DIMS;
  shmt__shape shape, joined;

  CHECK_OK(shmt__shape_repeat(&shape, 5, room));
  CHECK_EQ(shmt__shape_ints(&shape).len, room);
  CHECK_FAILS(shmt__shape_append(&shape, 5), SHMT_E_RUNTIME, "too many");
  CHECK_EQ(shape.len, room);
  CHECK_FAILS(shmt__shape_join(&joined, (const shmt_ints[]){shmt__shape_ints(&shape), LIST(1)}, 2), SHMT_E_RUNTIME,
              "too many");
  CHECK_FAILS(shmt__shape_repeat(&shape, 5, INT64_MAX), SHMT_E_RUNTIME, "too many");
  CHECK_FAILS(shmt__shape_range(&shape, INT64_MIN, INT64_MAX), SHMT_E_RUNTIME, "too many");
  CHECK_OK(shmt__shape_range(&shape, INT64_MAX, INT64_MIN));
  CHECK_EQ(shape.len, 0);
  CHECK_OK(shmt__shape_repeat(&shape, 5, INT64_MIN));
  CHECK_EQ(shape.len, 0);
  CHECK_OK(shmt__shape_range(&shape, -1, 2));
  CHECK_EQ(shape.len, 3);
  CHECK_EQ(shape.data[0], -1);
  const shmt_ints lists[] = {LIST(8, 9), {NULL, 0}, shmt__shape_ints(&shape)};
  CHECK_OK(shmt__shape_join(&joined, lists, 3));
  CHECK_EQ(joined.len, 5);
  CHECK_EQ(joined.data[4], 1);
}
