/* ops/lines.c -- indexed walks: restrided operands, bounds, positions of non-zero elements. */
#include "ops/lines.h"

#include "iter/copy.h"

#include <inttypes.h>

shmt__loop shmt__move_loop_of_size(int row, int64_t item) {
  static const shmt_dtype of_size[17] = {
      [1] = SHMT_UINT8, [2] = SHMT_INT16, [4] = SHMT_INT32, [8] = SHMT_INT64, [16] = SHMT_COMPLEX128,
  };
  return shmt__loops[row][of_size[item]];
}

shmt__loop shmt__move_loop(int row, shmt_dtype dtype) { return shmt__move_loop_of_size(row, shmt__dtype_size[dtype]); }

shmt_status shmt__index_as_int64(shmt_tensor* index, shmt_tensor** out) {
  return shmt__tensor_cast(index, SHMT_INT64, out);
}

shmt_status shmt__indexed_walk(const char* name, shmt_tensor* to, shmt_tensor* from, shmt_tensor* index,
                               const shmt__index_shape* shape, shmt__loop loop, bool parallel) {
  shmt_iter it;
  shmt_status status;

  shmt__iter_init(&it, name);
  it.resize_outputs = false;
  it.check_overlap = false;
  it.promote = SHMT_PROMOTE_NONE;
  shmt__iter_output(&it, &to, to->dtype);
  shmt__iter_input(&it, from);
  shmt__iter_input(&it, index);
  SHMT_TRY(shmt__iter_build(&it));
  status = parallel ? shmt__iter_run(&it, loop, shape) : shmt__iter_run_serial(&it, loop, shape);
  return shmt__iter_finish(&it, status);
}

shmt_status shmt__check_bad_index(const shmt__bad_index* bad, shmt_status code, int64_t dim, int64_t size) {
  SHMT_REQUIRE(!bad->found, code, "index %" PRId64 " is out of bounds for dimension %" PRId64 " with size %" PRId64,
               bad->value, dim, size);
  return SHMT_OK;
}

shmt_status shmt__check_not_empty(const shmt_tensor* index, shmt_status code, int64_t dim, int64_t size) {
  if (size > 0) return SHMT_OK;
  const shmt__bad_index first = {*(const int64_t*)shmt__tensor_data(index), true};
  return shmt__check_bad_index(&first, code, dim, size);
}

int64_t shmt__count_set(const uint8_t* mask, int64_t n) {
  int64_t count = 0;

  /* In bytes, as many as one holds: so it vectorises without widening. */
  for (int64_t begin = 0; begin < n; begin += 255) {
    const int64_t width = n - begin < 255 ? n - begin : 255;
    uint8_t part = 0;
    for (int64_t i = 0; i < width; i++) part = (uint8_t)(part + (mask[begin + i] != 0));
    count += part;
  }
  return count;
}

shmt_status shmt__nonzero_positions(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) as_bool = NULL;
  SHMT_AUTO(shmt_tensor) mask = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t at[SHMT_MAX_DIMS] = {0};
  const int n_dims = self->n_dims;

  SHMT_TRY(shmt__tensor_cast(self, SHMT_BOOL, &as_bool));
  SHMT_TRY(shmt__tensor_contiguous(as_bool, SHMT_CONTIGUOUS_FORMAT, &mask));
  const uint8_t* set = shmt__tensor_data(mask);
  const int64_t count = shmt__count_set(set, mask->numel);
  SHMT_TRY(shmt__tensor_empty_strided(SHMT_INTS(count, n_dims), SHMT_INTS(1, count), SHMT_INT64, SHMT_CPU, &result));
  int64_t* to = shmt__tensor_data(result);
  if (count > 0 && n_dims > 0) {
    const int64_t width = self->sizes[n_dims - 1];
    for (int64_t begin = 0; begin < mask->numel; begin += width) {
      for (int64_t c = 0; c < width; c++) {
        if (!set[begin + c]) continue;
        for (int d = 0; d < n_dims - 1; d++) to[d * count] = at[d];
        to[(n_dims - 1) * count] = c;
        to++;
      }
      for (int d = n_dims - 2; d >= 0; d--) {
        if (++at[d] < self->sizes[d]) break;
        at[d] = 0;
      }
    }
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
