/* ops/reduce/reduce.c -- reductions by one loop: sum, mean, prod, amax, argmax, any, all, count_nonzero, ... */
#include "ops/reduce/reduce.h"

#include "base/dtype.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/outputs.h"

static inline bool is_whole(shmt_dtype dtype) { return shmt__dtype_category(dtype) < 2; }

int64_t shmt__reduced_sizes(const shmt_tensor* self, uint64_t mask, bool keepdim, int64_t* sizes) {
  int64_t n = 0;

  for (int d = 0; d < self->n_dims; d++) {
    if (!(mask >> d & 1))
      sizes[n++] = self->sizes[d];
    else if (keepdim)
      sizes[n++] = 1;
  }
  return n;
}

/* With fewer elements, the test for reductions over dims of size 1 costs as much as it saves. */
enum { MIN_SINGLES = 64 };

/* Is every result made of one element? */
static bool are_singles(const shmt_tensor* self, uint64_t mask) {
  for (int d = 0; d < self->n_dims; d++)
    if ((mask >> d & 1) && self->sizes[d] != 1) return false;
  return self->numel >= MIN_SINGLES && !shmt__tensor_is_meta(self);
}

/* A view of self without the dims of mask, whose sizes are 1; with keepdim they stay. */
static shmt_status without_dims(shmt_tensor* self, uint64_t mask, bool keepdim, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS], n = 0;

  for (int d = 0; d < self->n_dims; d++) {
    if (!keepdim && (mask >> d & 1)) continue;
    sizes[n] = self->sizes[d];
    strides[n++] = self->strides[d];
  }
  return shmt__tensor_alias(self, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, self->offset, out);
}

/* When every result has one element, copies the elements. *done is false when this reduction does not allow that. */
static shmt_status take_singles(const shmt__reduction* r, shmt_tensor* self, shmt_tensor* const* targets, int n_outs,
                                bool* done) {
  SHMT_AUTO(shmt_tensor) single = NULL;
  const bool is_norm = r->row == SHMT_LOOP_norm_1 || r->row == SHMT_LOOP_norm_2 || r->row == SHMT_LOOP_norm_inf ||
                       r->row == SHMT_LOOP_norm_neg_inf;
  const bool has_index = r->row == SHMT_LOOP_argmax || r->row == SHMT_LOOP_argmin;
  const bool is_sum = r->row == SHMT_LOOP_sum, is_real = shmt__dtype_category(self->dtype) < 3;

  *done = has_index || is_sum || is_norm || r->row == SHMT_LOOP_any || r->row == SHMT_LOOP_all ||
          (is_real && (r->row == SHMT_LOOP_prod || r->row == SHMT_LOOP_amax || r->row == SHMT_LOOP_amin));
  if (!*done) return SHMT_OK;
  if (has_index) SHMT_TRY(shmt__tensor_fill(targets[n_outs - 1], shmt__scalar_int(0)));
  if (has_index && n_outs == 1) return SHMT_OK;
  SHMT_TRY(without_dims(self, r->mask, r->keepdim, &single));
  if (is_norm) return shmt_op_abs_out(single, targets[0]);
  SHMT_TRY(shmt__tensor_copy(targets[0], single));
  /* A sum begins with 0: that of -0.0 is 0.0. */
  if (!is_sum || is_whole(targets[0]->dtype)) return SHMT_OK;
  return shmt_op_add__Scalar(targets[0], shmt__scalar_int(0), shmt__scalar_int(1));
}

shmt_status shmt__reduce_into(const shmt__reduction* r, shmt_tensor* self,
                              shmt_tensor** const* outs, int n_outs) {
  const shmt__loop loop = shmt__loops[r->row][self->dtype];
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  shmt_tensor** const work[2] = {&first, &second};
  shmt_tensor* targets[2] = {NULL, NULL};
  int64_t sizes[SHMT_MAX_DIMS];
  const shmt_ints shape = {sizes, shmt__reduced_sizes(self, r->mask, r->keepdim, sizes)};

  SHMT_REFUSE_DTYPE(!loop, self->dtype, r->name);
  for (int k = 0; k < n_outs; k++) {
    const shmt_dtype result = k == 0 && r->result != SHMT_DTYPE_NONE ? r->result : r->stored[k];
    if (*outs[k]) SHMT_TRY(shmt__prepare_out(r->name, outs[k], shape, result, self->device));
    if (*outs[k] && (*outs[k])->dtype == r->stored[k] && (*outs[k])->storage != self->storage)
      *work[k] = shmt__tensor_ref(*outs[k]);
    else
      SHMT_TRY(
          shmt__tensor_empty(shape, r->stored[k], self->device, SHMT_CONTIGUOUS_FORMAT, work[k]));
    targets[k] = *work[k];
  }
  bool done = false;
  if (are_singles(self, r->mask)) SHMT_TRY(take_singles(r, self, targets, n_outs, &done));
  if (!done)
    SHMT_TRY(shmt__reduce(self, r->mask, targets, n_outs, r->ordered, (shmt__reduce_loop)(void (*)(void))loop, r->ctx));
  for (int k = 0; k < n_outs; k++) {
    const shmt_dtype result = k == 0 && r->result != SHMT_DTYPE_NONE ? r->result : r->stored[k];
    if (*outs[k] == targets[k]) continue;
    if (*outs[k])
      SHMT_TRY(shmt__tensor_copy(*outs[k], targets[k]));
    else if (result != r->stored[k])
      SHMT_TRY(shmt__tensor_cast(targets[k], result, outs[k]));
    else
      *outs[k] = SHMT_TAKE(*work[k]);
  }
  return SHMT_OK;
}

/* --- sums and products -------------------------------------------------------------------- */

/* A sum over no elements needs no loop, so it works for dtypes without one. */
static shmt_status empty_sum(shmt_tensor* self, uint64_t mask, bool keepdim, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];
  const shmt_ints shape = {sizes, shmt__reduced_sizes(self, mask, keepdim, sizes)};

  if (!*out) return shmt__tensor_zeros(shape, self->dtype, self->device, out);
  SHMT_TRY(shmt__prepare_out("sum", out, shape, self->dtype, self->device));
  return shmt__tensor_fill(*out, shmt__scalar_int(0));
}

/* Runs a sum or product. Casts to dtype first when one is given. Integers and bool accumulate in int64. */
static shmt_status accumulate(const char* name, int row, shmt_tensor* self, uint64_t mask,
                              bool keepdim, shmt_dtype dtype, const void* ctx, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) input = NULL;

  if (dtype == SHMT_DTYPE_NONE)
    dtype = *out ? (*out)->dtype : is_whole(self->dtype) ? SHMT_INT64 : self->dtype;
  /* From integers to an integer dtype no cast is needed first: sums wrap the same way. */
  if (is_whole(dtype) && is_whole(self->dtype) && dtype != SHMT_BOOL)
    input = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt__tensor_cast(self, dtype, &input));
  if (row == SHMT_LOOP_sum && input->numel == 0 && shmt__loops[row][input->dtype] == NULL)
    return empty_sum(input, mask, keepdim, out);
  const shmt__reduction r = {.name = name,
                             .row = row,
                             .mask = mask,
                             .keepdim = keepdim,
                             .stored = {is_whole(input->dtype) ? SHMT_INT64 : input->dtype},
                             .result = dtype,
                             .ctx = ctx};
  return shmt__reduce_into(&r, input, (shmt_tensor * * const[]){out}, 1);
}

/* When a dtype is given, out= must have it. */
static shmt_status check_asked_dtype(const shmt_tensor* out, shmt_dtype dtype) {
  return dtype == SHMT_DTYPE_NONE ? SHMT_OK : shmt__check_out_dtype(out, dtype);
}

shmt_status shmt__sum_all(shmt_tensor* self, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_TRY(check_asked_dtype(*out, dtype));
  return accumulate("sum", SHMT_LOOP_sum, self, shmt__all_dims_mask(self->n_dims), false, dtype,
                    NULL, out);
}

shmt_status shmt__sum_dims(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_dtype dtype,
                           shmt_tensor** out) {
  uint64_t mask;

  SHMT_TRY(check_asked_dtype(*out, dtype));
  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  return accumulate("sum", SHMT_LOOP_sum, self, mask, keepdim, dtype, NULL, out);
}

shmt_status shmt__nansum(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_dtype dtype,
                         shmt_tensor** out) {
  uint64_t mask;

  SHMT_TRY(check_asked_dtype(*out, dtype));
  SHMT_REQUIRE(shmt__dtype_category(self->dtype) < 3, SHMT_E_RUNTIME,
               "nansum on CPU does not support complex inputs");
  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  const bool has_nan = !is_whole(self->dtype) && (dtype == SHMT_DTYPE_NONE || !is_whole(dtype));
  return accumulate("nansum", has_nan ? SHMT_LOOP_nansum : SHMT_LOOP_sum, self, mask, keepdim,
                    dtype, NULL, out);
}

static shmt_status mean(shmt_tensor* self, uint64_t mask, bool keepdim, shmt_dtype dtype,
                        shmt_tensor** out) {
  static const bool is_mean = true;

  SHMT_TRY(check_asked_dtype(*out, dtype));
  SHMT_REQUIRE(dtype == SHMT_DTYPE_NONE || !is_whole(dtype), SHMT_E_RUNTIME,
               "mean(): could not infer output dtype. Optional dtype must be either a floating "
               "point or complex dtype. "
               "Got: %s",
               shmt__dtype_title(dtype));
  SHMT_REQUIRE(dtype != SHMT_DTYPE_NONE || !is_whole(self->dtype), SHMT_E_RUNTIME,
               "mean(): could not infer output dtype. Input dtype must be either a floating point "
               "or complex dtype. "
               "Got: %s",
               shmt__dtype_title(self->dtype));
  return accumulate("mean", SHMT_LOOP_sum, self, mask, keepdim,
                    dtype == SHMT_DTYPE_NONE ? self->dtype : dtype, &is_mean, out);
}

shmt_status shmt__mean_all(shmt_tensor* self, shmt_dtype dtype, shmt_tensor** out) {
  return mean(self, shmt__all_dims_mask(self->n_dims), false, dtype, out);
}

shmt_status shmt__mean_dims(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_dtype dtype,
                            shmt_tensor** out) {
  uint64_t mask;

  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  return mean(self, mask, keepdim, dtype, out);
}

shmt_status shmt__prod_all(shmt_tensor* self, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_TRY(check_asked_dtype(*out, dtype));
  return accumulate("prod", SHMT_LOOP_prod, self, shmt__all_dims_mask(self->n_dims), false, dtype,
                    NULL, out);
}

shmt_status shmt__prod_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_dtype dtype,
                           shmt_tensor** out) {
  uint64_t mask;

  SHMT_TRY(check_asked_dtype(*out, dtype));
  SHMT_TRY(shmt__dims_mask((shmt_ints){&dim, 1}, self->n_dims, &mask));
  return accumulate("prod", SHMT_LOOP_prod, self, mask, keepdim, dtype, NULL, out);
}

/* --- min, max and their indices --------------------------------------------------------------- */

static shmt_status check_extreme(const char* name, const shmt_tensor* self, uint64_t mask,
                                 bool has_dims, shmt_status code) {
  SHMT_REQUIRE(self->numel > 0 || has_dims, code,
               "%s(): Expected reduction dim to be specified for input.numel() == 0.%s", name,
               code == SHMT_E_INDEX ? "" : " Specify the reduction dim with the 'dim' argument.");
  for (int d = 0; d < self->n_dims; d++)
    SHMT_REQUIRE(!(mask >> d & 1) || self->sizes[d] > 0, SHMT_E_INDEX,
                 "%s(): Expected reduction dim %d to have non-zero size.", name, d);
  return SHMT_OK;
}

static shmt_status extreme(const char* name, int row, shmt_tensor* self, uint64_t mask,
                           bool keepdim, shmt_tensor** out) {
  const shmt__reduction r = {.name = name,
                             .row = row,
                             .mask = mask,
                             .keepdim = keepdim,
                             .stored = {self->dtype},
                             .result = SHMT_DTYPE_NONE};
  return shmt__reduce_into(&r, self, (shmt_tensor * * const[]){out}, 1);
}

static shmt_status extreme_dims(const char* name, int row, shmt_tensor* self, shmt_ints dim,
                                bool keepdim, shmt_tensor** out) {
  uint64_t mask;

  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  SHMT_TRY(check_extreme(name, self, mask, dim.len > 0, SHMT_E_RUNTIME));
  return extreme(name, row, self, mask, keepdim, out);
}

shmt_status shmt__amax(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_tensor** out) {
  return extreme_dims("amax", SHMT_LOOP_amax, self, dim, keepdim, out);
}

shmt_status shmt__amin(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_tensor** out) {
  return extreme_dims("amin", SHMT_LOOP_amin, self, dim, keepdim, out);
}

shmt_status shmt__max_all(shmt_tensor* self, shmt_tensor** out) {
  return extreme_dims("max", SHMT_LOOP_amax, self, SHMT_INTS_NONE, false, out);
}

shmt_status shmt__min_all(shmt_tensor* self, shmt_tensor** out) {
  return extreme_dims("min", SHMT_LOOP_amin, self, SHMT_INTS_NONE, false, out);
}

static shmt_status extreme_with_index(const char* name, int row, shmt_tensor* self, int64_t dim,
                                      bool keepdim, shmt_tensor** values, shmt_tensor** indices) {
  uint64_t mask;

  SHMT_TRY(shmt__dims_mask((shmt_ints){&dim, 1}, self->n_dims, &mask));
  SHMT_TRY(check_extreme(name, self, mask, true, SHMT_E_INDEX));
  SHMT_TRY(shmt__check_out_dtype(*indices, SHMT_INT64));
  const shmt__reduction r = {.name = name,
                             .row = row,
                             .mask = mask,
                             .keepdim = keepdim,
                             .ordered = true,
                             .stored = {self->dtype, SHMT_INT64},
                             .result = SHMT_DTYPE_NONE};
  return shmt__reduce_into(&r, self, (shmt_tensor * * const[]){values, indices}, 2);
}

shmt_status shmt__max_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** values,
                          shmt_tensor** indices) {
  return extreme_with_index("max", SHMT_LOOP_argmax, self, dim, keepdim, values, indices);
}

shmt_status shmt__min_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** values,
                          shmt_tensor** indices) {
  return extreme_with_index("min", SHMT_LOOP_argmin, self, dim, keepdim, values, indices);
}

static shmt_status arg_extreme(const char* name, int row, shmt_tensor* self, shmt_opt_int dim,
                               bool keepdim, shmt_tensor** out) {
  uint64_t mask = shmt__all_dims_mask(self->n_dims);

  SHMT_REQUIRE(self->dtype != SHMT_BOOL, SHMT_E_RUNTIME, "%s(): does not support bool input", name);
  if (dim.has) SHMT_TRY(shmt__dims_mask((shmt_ints){&dim.value, 1}, self->n_dims, &mask));
  SHMT_TRY(check_extreme(name, self, mask, dim.has, SHMT_E_INDEX));
  if (*out) SHMT_TRY(shmt__check_out_dtype(*out, SHMT_INT64));
  const shmt__reduction r = {.name = name,
                             .row = row,
                             .mask = mask,
                             .keepdim = keepdim,
                             .ordered = true,
                             .stored = {SHMT_INT64},
                             .result = SHMT_DTYPE_NONE};
  return shmt__reduce_into(&r, self, (shmt_tensor * * const[]){out}, 1);
}

shmt_status shmt__argmax(shmt_tensor* self, shmt_opt_int dim, bool keepdim, shmt_tensor** out) {
  return arg_extreme("argmax", SHMT_LOOP_argmax, self, dim, keepdim, out);
}

shmt_status shmt__argmin(shmt_tensor* self, shmt_opt_int dim, bool keepdim, shmt_tensor** out) {
  return arg_extreme("argmin", SHMT_LOOP_argmin, self, dim, keepdim, out);
}

shmt_status shmt__aminmax(shmt_tensor* self, shmt_opt_int dim, bool keepdim, shmt_tensor** min,
                          shmt_tensor** max) {
  uint64_t mask = shmt__all_dims_mask(self->n_dims);

  if (dim.has) SHMT_TRY(shmt__dims_mask((shmt_ints){&dim.value, 1}, self->n_dims, &mask));
  SHMT_REQUIRE(self->numel > 0 || dim.has, SHMT_E_RUNTIME,
               "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
               "identity.");
  SHMT_TRY(check_extreme("aminmax", self, mask, dim.has, SHMT_E_RUNTIME));
  SHMT_TRY(shmt__check_out_dtype(*min, self->dtype));
  SHMT_TRY(shmt__check_out_dtype(*max, self->dtype));
  SHMT_TRY(extreme("aminmax", SHMT_LOOP_amin, self, mask, keepdim, min));
  return extreme("aminmax", SHMT_LOOP_amax, self, mask, keepdim, max);
}

/* --- any, all, count_nonzero ------------------------------------------------------------------ */

/* The result is bool, but uint8 for uint8, torch's old mask dtype. */
static shmt_status test(const char* name, int row, shmt_tensor* self, uint64_t mask, bool keepdim,
                        shmt_tensor** out) {
  SHMT_REQUIRE(!*out || (*out)->dtype == SHMT_BOOL || (*out)->dtype == SHMT_UINT8, SHMT_E_RUNTIME,
               "%s only supports bool tensor for result, got: %s", name, shmt__dtype_title((*out)->dtype));
  const shmt__reduction r = {.name = name,
                             .row = row,
                             .mask = mask,
                             .keepdim = keepdim,
                             .stored = {SHMT_BOOL},
                             .result = self->dtype == SHMT_UINT8 ? SHMT_UINT8 : SHMT_BOOL};
  return shmt__reduce_into(&r, self, (shmt_tensor * * const[]){out}, 1);
}

static shmt_status test_dims(const char* name, int row, shmt_tensor* self, shmt_ints dim,
                             bool keepdim, shmt_tensor** out) {
  uint64_t mask = 0;

  /* Unlike elsewhere, an empty list means no dims. */
  if (dim.len != 0) SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  return test(name, row, self, mask, keepdim, out);
}

shmt_status shmt__any_all(shmt_tensor* self, shmt_tensor** out) {
  return test("any", SHMT_LOOP_any, self, shmt__all_dims_mask(self->n_dims), false, out);
}

shmt_status shmt__any_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** out) {
  return test_dims("any", SHMT_LOOP_any, self, (shmt_ints){&dim, 1}, keepdim, out);
}

shmt_status shmt__any_dims(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_tensor** out) {
  return test_dims("any", SHMT_LOOP_any, self, dim, keepdim, out);
}

shmt_status shmt__all_all(shmt_tensor* self, shmt_tensor** out) {
  return test("all", SHMT_LOOP_all, self, shmt__all_dims_mask(self->n_dims), false, out);
}

shmt_status shmt__all_dim(shmt_tensor* self, int64_t dim, bool keepdim, shmt_tensor** out) {
  return test_dims("all", SHMT_LOOP_all, self, (shmt_ints){&dim, 1}, keepdim, out);
}

shmt_status shmt__all_dims(shmt_tensor* self, shmt_ints dim, bool keepdim, shmt_tensor** out) {
  return test_dims("all", SHMT_LOOP_all, self, dim, keepdim, out);
}

shmt_status shmt__count_nonzero_dims(shmt_tensor* self, shmt_ints dim, shmt_tensor** out) {
  uint64_t mask;

  if (*out) SHMT_TRY(shmt__check_out_dtype(*out, SHMT_INT64));
  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  const shmt__reduction r = {.name = "count_nonzero",
                             .row = SHMT_LOOP_count_nonzero,
                             .mask = mask,
                             .stored = {SHMT_INT64},
                             .result = SHMT_DTYPE_NONE};
  return shmt__reduce_into(&r, self, (shmt_tensor * * const[]){out}, 1);
}

shmt_status shmt__count_nonzero(shmt_tensor* self, shmt_opt_int dim, shmt_tensor** out) {
  return shmt__count_nonzero_dims(self, dim.has ? (shmt_ints){&dim.value, 1} : SHMT_INTS_NONE, out);
}
