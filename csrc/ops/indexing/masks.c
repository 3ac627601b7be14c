/* ops/indexing/masks.c -- reads and writes by mask: masked_select, masked_scatter, nonzero. */
#include "ops/indexing/masks.h"

#include "base/dtype.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/indexing/index_iterator.h"
#include "ops/outputs.h"

#include <string.h>

/* Makes a buffer for a block of at most n elements of item bytes and its mask: (elements, item + 1). New reference. */
static shmt_status mask_buffer(int64_t item, int64_t n, shmt_tensor** out) {
  const int64_t most = SHMT_BLOCK_BYTES / (item + 1);

  return shmt__tensor_empty(SHMT_INTS(n < most ? n : most, item + 1), SHMT_UINT8, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT,
                            out);
}

shmt_status shmt__select_masked(shmt_tensor* self, shmt_tensor* mask, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) buffer = NULL;
  const int64_t item = shmt__tensor_item_bytes(self), strides[3] = {item, item, 1};
  const shmt__loop loop = shmt__move_loop(SHMT_LOOP_compress, self->dtype);
  shmt__blocks source, set;

  shmt__blocks_init(&source, self, self->dtype);
  shmt__blocks_init(&set, mask, SHMT_BOOL);
  const int64_t count = shmt__count_set_in(&set, 0, mask->numel);
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(count), self->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &result));
  char* to = shmt__tensor_data(result);
  char* const end = to + count * item;
  if (source.is_dense && set.is_dense) {
    if (count > 0) loop((char*[]){to, source.data, set.data}, strides, mask->numel, &count);
    *out = SHMT_TAKE(result);
    return SHMT_OK;
  }
  SHMT_TRY(mask_buffer(item, mask->numel, &buffer));
  const int64_t most = buffer->sizes[0];
  uint8_t* const bytes = shmt__tensor_data(buffer);
  for (int64_t begin = 0; begin < mask->numel && to < end; begin += most) {
    const int64_t n = mask->numel - begin < most ? mask->numel - begin : most;
    const uint8_t* on = shmt__blocks_read(&set, begin, n, bytes + most * item);
    int64_t found = shmt__count_set(on, n);
    if (found == 0) continue;
    if (found > (end - to) / item) found = (end - to) / item;
    char* const from = (char*)(uintptr_t)shmt__blocks_read(&source, begin, n, bytes);
    loop((char*[]){to, from, (char*)(uintptr_t)on}, strides, n, &found);
    to += found * item;
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* t in the given sizes, with stride 0 where it is broadcast. */
static shmt_status spread_to(shmt_tensor* t, shmt_ints sizes, shmt_tensor** out) {
  int64_t strides[SHMT_MAX_DIMS];

  for (int64_t d = 0; d < sizes.len; d++) {
    const int64_t own = d - (sizes.len - t->n_dims);
    strides[d] = own >= 0 && t->sizes[own] != 1 ? t->strides[own] : 0;
  }
  return shmt__restride(t, sizes, strides, out);
}

shmt_status shmt__masked_select(shmt_tensor* self, shmt_tensor* mask, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) source = NULL;
  SHMT_AUTO(shmt_tensor) set = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS], n_dims;

  SHMT_TRY(shmt__check_no_overlap(*out, self));
  SHMT_TRY(shmt__check_no_overlap(*out, mask));
  SHMT_REQUIRE(mask->dtype == SHMT_BOOL, SHMT_E_RUNTIME, "masked_select: expected BoolTensor for mask");
  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(self), shmt__tensor_sizes(mask), sizes, &n_dims));
  SHMT_TRY(shmt__refuse_meta_count("masked_select", self));
  SHMT_TRY(shmt__refuse_meta_count("masked_select", mask));
  SHMT_TRY(spread_to(self, (shmt_ints){sizes, n_dims}, &source));
  SHMT_TRY(spread_to(mask, (shmt_ints){sizes, n_dims}, &set));
  SHMT_TRY(shmt__select_masked(source, set, &result));
  if (*out) return shmt__write_exact_out("masked_select", result, *out);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* to[mask] = the first elements of source, as many as are set. */
static shmt_status put_masked(shmt_tensor* to, shmt_tensor* mask, shmt_tensor* source) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) buffer = NULL;
  const int64_t item = shmt__tensor_item_bytes(to), strides[3] = {item, item, 1};
  const shmt__loop loop = shmt__move_loop(SHMT_LOOP_decompress, to->dtype);
  shmt__blocks target, set, from;

  shmt__blocks_init(&target, to, to->dtype);
  shmt__blocks_init(&set, mask, SHMT_BOOL);
  shmt__blocks_init(&from, source, to->dtype);
  const int64_t count = shmt__count_set_in(&set, 0, mask->numel);
  SHMT_REQUIRE(count <= source->numel, SHMT_E_RUNTIME, "Number of elements of source < number of ones in mask");
  if (target.is_dense && set.is_dense && from.is_dense) {
    if (count > 0) loop((char*[]){target.data, from.data, set.data}, strides, mask->numel, &count);
    return SHMT_OK;
  }
  SHMT_TRY(mask_buffer(item, mask->numel, &buffer));
  const int64_t most = buffer->sizes[0];
  SHMT_TRY(shmt__tensor_empty_like(buffer, SHMT_UINT8, &values));
  uint8_t* const bytes = shmt__tensor_data(buffer);
  for (int64_t begin = 0, taken = 0; begin < mask->numel && taken < count; begin += most) {
    const int64_t n = mask->numel - begin < most ? mask->numel - begin : most;
    const uint8_t* on = shmt__blocks_read(&set, begin, n, bytes + most * item);
    int64_t found = shmt__count_set(on, n);
    if (found == 0) continue;
    if (found > count - taken) found = count - taken;
    char* const next = (char*)(uintptr_t)shmt__blocks_read(&from, taken, found, shmt__tensor_data(values));
    char* const place = (char*)(uintptr_t)shmt__blocks_read(&target, begin, n, bytes);
    loop((char*[]){place, next, (char*)(uintptr_t)on}, strides, n, &found);
    shmt__blocks_write(&target, begin, n, place);
    taken += found;
  }
  return SHMT_OK;
}

shmt_status shmt__masked_scatter(shmt_tensor* self, shmt_tensor* mask, shmt_tensor* source, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;
  int64_t sizes[SHMT_MAX_DIMS], n_dims;

  if (*out != self)
    SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(self), shmt__tensor_sizes(mask), sizes, &n_dims));
  SHMT_REQUIRE(self->dtype == source->dtype, SHMT_E_RUNTIME,
               "masked_scatter: expected self and source to have same dtypes but got %s and %s",
               shmt__dtype_title(self->dtype), shmt__dtype_title(source->dtype));
  SHMT_REQUIRE(mask->dtype == SHMT_BOOL, SHMT_E_RUNTIME, "masked_scatter_ only supports boolean masks, but got mask "
               "with dtype %s", shmt__dtype_title(mask->dtype));
  SHMT_TRY(shmt__check_has_data(mask, self));
  SHMT_TRY(shmt__check_has_data(source, self));
  if (*out == self)
    SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(self), shmt__tensor_sizes(mask), sizes, &n_dims));
  const shmt_ints shape = {sizes, n_dims};
  if (*out == self && (n_dims != self->n_dims || memcmp(sizes, self->sizes, (size_t)n_dims * sizeof *sizes) != 0)) {
    char want[256];
    SHMT_FAIL(SHMT_E_RUNTIME, "output with shape %s doesn't match the broadcast shape %s", SHMT_SHAPE_TEXT(self),
              shmt__ints_text(shape, want, sizeof want));
  }
  /* Works in place where all that can fail is checked first and no operand overlaps self. */
  const bool is_alone = *out == self && !shmt__may_overlap_itself(self) && mask->storage != self->storage &&
                        source->storage != self->storage;
  if (is_alone)
    work = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt__tensor_empty(shape, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &work));
  if (!shmt__tensor_is_meta(self)) {
    if (!is_alone) SHMT_TRY(shmt__tensor_copy(work, self));
    SHMT_TRY(spread_to(mask, shape, &spread));
    SHMT_TRY(put_masked(work, spread, source));
  }
  return shmt__output_end("masked_scatter", &work, out);
}

shmt_status shmt__nonzero(shmt_tensor* self, shmt_tensor** out) {
  SHMT_TRY(shmt__refuse_meta_count("nonzero", self));
  return shmt__nonzero_positions(self, out);
}

shmt_status shmt__nonzero_out(shmt_tensor* self, shmt_tensor* out) {
  SHMT_AUTO(shmt_tensor) positions = NULL;

  SHMT_REQUIRE(out->dtype == SHMT_INT64, SHMT_E_RUNTIME,
               "nonzero: Expected out tensor to have scalar type Long but got scalar type %s",
               shmt__dtype_title(out->dtype));
  SHMT_TRY(shmt_op_nonzero(self, &positions));
  return shmt__write_out("nonzero", positions, out);
}

shmt_status shmt__nonzero_static(shmt_tensor* self, int64_t size, int64_t fill_value, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) head = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;

  SHMT_REQUIRE(size >= 0, SHMT_E_RUNTIME, "nonzero_static: 'size' must be an non-negative integer");
  SHMT_TRY(
      shmt__tensor_empty(SHMT_INTS(size, self->n_dims), SHMT_INT64, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(self)) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(fill_value)));
    SHMT_TRY(shmt__nonzero_positions(self, &positions));
    const int64_t n = positions->sizes[0] < size ? positions->sizes[0] : size;
    const shmt_ints part = SHMT_INTS(n, self->n_dims), steps = SHMT_INTS(self->n_dims, 1);
    SHMT_TRY(shmt__tensor_alias(result, part, steps, result->offset, &head));
    SHMT_TRY(shmt__tensor_alias(positions, part, shmt__tensor_strides(positions), positions->offset, &found));
    SHMT_TRY(shmt__tensor_copy(head, found));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__nonzero_numpy(shmt_tensor* self, shmt_tensor_vec* out) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) line = NULL;
  SHMT_AUTO_LIST list = {0, 0};

  SHMT_TRY(shmt__refuse_meta_count("nonzero_numpy", self));
  if (self->n_dims == 0) {
    SHMT_TRY(shmt__tensor_alias(self, SHMT_INTS(1), SHMT_INTS(1), self->offset, &line));
    self = line;
  }
  SHMT_TRY(shmt__nonzero_positions(self, &positions));
  SHMT_TRY(shmt__tensor_vec_alloc(self->n_dims, &list));
  for (int d = 0; d < self->n_dims; d++)
    SHMT_TRY(shmt__tensor_alias(positions, SHMT_INTS(positions->sizes[0]), SHMT_INTS(positions->strides[0]),
                                positions->offset + d * positions->strides[1], &list.data[d]));
  *out = list;
  list = (shmt_tensor_vec){0, 0};
  return SHMT_OK;
}
