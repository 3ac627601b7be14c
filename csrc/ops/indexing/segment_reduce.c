/* ops/indexing/segment_reduce.c -- segment_reduce: reduces runs of neighbours, given by their lengths or their
 * offsets. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "tensor/batched.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A name, scatter_reduce's, and the value of an empty segment. Maxima and minima have two names, as in torch. */
typedef struct reduction {
  const char *name, *scatter;
  double empty;
} reduction;

static const reduction* find_reduction(const char* name) {
  static const reduction known[] = {{"sum", "sum", 0},
                                    {"mean", "sum", 0},
                                    {"max", "amax", -INFINITY},
                                    {"amax", "amax", -INFINITY},
                                    {"min", "amin", INFINITY},
                                    {"amin", "amin", INFINITY},
                                    {"prod", "prod", 1}};
  for (int i = 0; i < (int)(sizeof known / sizeof *known); i++)
    if (strcmp(known[i].name, name) == 0) return &known[i];
  return NULL;
}

/* The segment of each of the `length` elements of a row; n_segments when it is in none. */
static shmt_status number_segments(const int64_t* lengths, int64_t rows, int64_t n_segments,
                                   int64_t length, bool unsafe, int64_t* to) {
  for (int64_t r = 0; r < rows; r++, lengths += n_segments, to += length) {
    int64_t at = 0;
    for (int64_t s = 0; s < n_segments; s++) {
      SHMT_REQUIRE(lengths[s] >= 0, SHMT_E_RUNTIME, "lengths contains negative value!");
      SHMT_REQUIRE(lengths[s] <= length - at, SHMT_E_RUNTIME,
                   "segment_reduce(): Expected all rows of lengths along axis to sum to "
                   "data.size(lengths.dim()-1) when !unsafe.");
      for (int64_t k = 0; k < lengths[s]; k++) to[at++] = s;
    }
    SHMT_REQUIRE(unsafe || at == length, SHMT_E_RUNTIME,
                 "segment_reduce(): Expected all rows of lengths along axis to sum to "
                 "data.size(lengths.dim()-1) when !unsafe.");
    while (at < length) to[at++] = n_segments;
  }
  return SHMT_OK;
}

/* The lengths, calculated from offsets where these are given. Dense int64. */
static shmt_status lengths_of(shmt_tensor* lengths, shmt_tensor* offsets, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) steps = NULL;
  SHMT_AUTO(shmt_tensor) wide = NULL;
  shmt_tensor* given = lengths ? lengths : offsets;

  SHMT_REQUIRE(given != NULL, SHMT_E_RUNTIME,
               "segment_reduce(): Either lengths or offsets must be defined.");
  SHMT_REQUIRE(shmt__is_integral(given->dtype) && given->n_dims > 0, SHMT_E_RUNTIME,
               "segment_reduce(): lengths and offsets are integers of one dimension at least, got "
               "%s of %d",
               shmt__dtype_title(given->dtype), given->n_dims);
  if (lengths)
    steps = shmt__tensor_ref(lengths);
  else
    SHMT_TRY(shmt_op_diff(offsets, 1, -1, NULL, NULL, &steps));
  SHMT_TRY(shmt__tensor_cast(shmt__shared_value(steps), SHMT_INT64, &wide));
  return shmt__tensor_contiguous(wide, SHMT_CONTIGUOUS_FORMAT, out);
}

/* Divides sums by lengths. Empty segments become NaN, unless there is an initial value. */
static shmt_status make_means(shmt_tensor* sums, shmt_tensor* lengths, bool has_initial,
                              shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) shaped = NULL;
  SHMT_AUTO(shmt_tensor) divisors = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) is_empty = NULL;

  SHMT_TRY(shmt_op_reshape(lengths, SHMT_INTS(sums->sizes[0], sums->sizes[1], 1), &shaped));
  SHMT_TRY(shmt_op_clamp(shaped, shmt__scalar_int(1), shmt__scalar_none(), &divisors));
  SHMT_TRY(shmt_op_div_Tensor(sums, divisors, &means));
  if (has_initial) {
    *out = SHMT_TAKE(means);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op_eq_Scalar(shaped, shmt__scalar_int(0), &is_empty));
  return shmt_op_masked_fill_Scalar(means, is_empty, shmt__scalar_float(NAN), out);
}

shmt_status shmt__segment_reduce(shmt_tensor* data, const char* reduce, shmt_tensor* lengths,
                                 shmt_tensor* indices, shmt_tensor* offsets, int64_t axis,
                                 bool unsafe, shmt_scalar initial, shmt_tensor** out) {
  const reduction* r = find_reduction(reduce);
  const bool has_initial = initial.tag != SHMT_SCALAR_NONE;
  SHMT_AUTO(shmt_tensor) steps = NULL;
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) place = NULL;
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) start = NULL;
  SHMT_AUTO(shmt_tensor) all = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  int64_t n_rows = 1, inner = 1, sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(r != NULL, SHMT_E_RUNTIME, "reduce argument must be either sum, prod, mean, amax or amin, got %s",
               reduce);
  SHMT_REQUIRE(!indices, SHMT_E_RUNTIME,
               "segment_reduce(): indices based reduction is not supported yet.");
  SHMT_REFUSE_DTYPE(!shmt__is_floating(data->dtype), data->dtype, "_segment_reduce_cpu");
  SHMT_REQUIRE(!shmt__tensor_is_meta(data), SHMT_E_NOT_IMPLEMENTED,
               "segment_reduce(): the segments depend on data, which a meta tensor has not");
  SHMT_TRY(shmt__wrap_dim(axis, data->n_dims, &axis));
  lengths = lengths ? shmt__shared_value(lengths) : NULL;
  offsets = offsets ? shmt__shared_value(offsets) : NULL;
  if (lengths) SHMT_TRY(shmt__check_has_memory(lengths));
  if (offsets) SHMT_TRY(shmt__check_has_memory(offsets));
  SHMT_TRY(lengths_of(lengths, offsets, &steps));
  SHMT_REQUIRE(axis == steps->n_dims - 1 && axis < data->n_dims, SHMT_E_RUNTIME,
               "segment_reduce(): Expected axis to be the last dimension of lengths but got %" PRId64,
               axis);
  for (int64_t d = 0; d < axis; d++) {
    SHMT_REQUIRE(steps->sizes[d] == data->sizes[d], SHMT_E_RUNTIME,
                 "segment_reduce(): lengths %s do not fit data %s", SHMT_SHAPE_TEXT(steps),
                 SHMT_SHAPE_TEXT(data));
    n_rows *= data->sizes[d];
  }
  for (int64_t d = axis + 1; d < data->n_dims; d++) inner *= data->sizes[d];
  const int64_t length = data->sizes[axis], n_segments = steps->sizes[axis];
  memcpy(sizes, data->sizes, (size_t)data->n_dims * sizeof *sizes);
  sizes[axis] = n_segments;

  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n_rows, length, 1), SHMT_INT64, SHMT_CPU,
                              SHMT_CONTIGUOUS_FORMAT, &place));
  SHMT_TRY(number_segments(shmt__tensor_data(steps), n_rows, n_segments, length, unsafe,
                           shmt__tensor_data(place)));
  SHMT_TRY(shmt_op_reshape(data, SHMT_INTS(n_rows, length, inner), &rows));
  SHMT_TRY(shmt_op_expand(place, SHMT_INTS(n_rows, length, inner), false, &spread));
  SHMT_TRY(shmt_op_new_full(rows, SHMT_INTS(n_rows, n_segments + 1, inner),
                            has_initial ? initial : shmt__scalar_float(r->empty), SHMT_DTYPE_NONE,
                            SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, &start));
  SHMT_TRY(shmt_op_scatter_reduce_two(start, 1, spread, rows, r->scatter, true, &all));
  SHMT_TRY(shmt_op_narrow(all, 1, 0, n_segments, &found));
  if (strcmp(reduce, "mean") == 0) {
    SHMT_AUTO(shmt_tensor) sums = SHMT_TAKE(found);
    SHMT_TRY(make_means(sums, steps, has_initial, &found));
  }
  SHMT_TRY(shmt_op_contiguous(found, SHMT_CONTIGUOUS_FORMAT, &dense));
  return shmt_op_reshape(dense, (shmt_ints){sizes, data->n_dims}, out);
}
