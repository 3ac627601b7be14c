/* iter/build.c -- building an iterator in general: dtypes, casts, given outputs and new ones. */
#include "iter/build.h"

#include "base/dtype.h"
#include "base/promote.h"
#include "base/scalar.h"
#include "base/warn.h"
#include "iter/copy/copy.h"
#include "iter/dims.h"
#include "tensor/batched.h"

#include <string.h>

typedef struct build_state {
  shmt_iter* it;
  shmt__iter_dims dims;
  shmt_tensor*
      resized[SHMT_ITER_MAX_OPERANDS]; /* given outputs whose shape is wrong: they get the layout of new ones */
} build_state;

/* --- dtypes -------------------------------------------------------------------------- */

static shmt_status find_common_dtype(shmt_iter* it) {
  const shmt__operand* first = &it->operands[it->n_operands > it->n_outputs ? it->n_outputs : 0];
  shmt__result_type result = SHMT_RESULT_TYPE_INIT;
  bool mixed = false;

  it->common_dtype = first->tensor ? first->tensor->dtype : first->want;
  if (it->promote == SHMT_PROMOTE_NONE) return SHMT_OK;
  for (int k = it->n_outputs; k < it->n_operands; k++)
    mixed |= it->operands[k].tensor->dtype != it->common_dtype;
  SHMT_REQUIRE(!mixed || it->promote != SHMT_PROMOTE_SAME, SHMT_E_RUNTIME,
               "Found dtype %s but expected %s",
               shmt__dtype_title(it->operands[it->n_operands - 1].tensor->dtype),
               shmt__dtype_title(it->common_dtype));
  if (mixed) {
    for (int k = it->n_outputs; k < it->n_operands; k++) {
      const shmt_tensor* t = it->operands[k].tensor;
      SHMT_TRY(shmt__result_type_add(&result, t->dtype, t->n_dims == 0,
                                     (t->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0));
    }
    SHMT_TRY(shmt__result_type_get(&result, &it->common_dtype));
  } else if (it->promote != SHMT_PROMOTE_SAME &&
             it->operands[it->n_outputs].tensor->flags & SHMT_TENSOR_WRAPPED_NUMBER) {
    bool all = true; /* Python numbers only: a float counts as the default dtype */
    for (int k = it->n_outputs; k < it->n_operands; k++)
      all &= (it->operands[k].tensor->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0;
    if (all && it->common_dtype == SHMT_FLOAT64) it->common_dtype = shmt__default_dtype();
    if (all && it->common_dtype == SHMT_COMPLEX128)
      it->common_dtype = shmt__to_complex_dtype(shmt__default_dtype());
  }
  if (it->promote == SHMT_PROMOTE_INT_TO_FLOAT && shmt__dtype_category(it->common_dtype) < 2)
    it->common_dtype = shmt__default_dtype();
  if (it->promote == SHMT_PROMOTE_BOOL_TO_INT && it->common_dtype == SHMT_BOOL)
    it->common_dtype = SHMT_INT64;
  return SHMT_OK;
}

static shmt_dtype output_dtype(const shmt_iter* it, const shmt__operand* op) {
  if (op->want != SHMT_DTYPE_NONE) return op->want;
  return it->promote == SHMT_PROMOTE_COMPARE ? SHMT_BOOL : it->common_dtype;
}

static shmt_status cast_input(shmt_iter* it, int k) {
  shmt__operand* op = &it->operands[k];

  if (op->tensor->dtype == it->common_dtype) return SHMT_OK;
  if (it->is_meta) return SHMT_OK;
  if (op->tensor->n_dims == 0) {
    shmt__scalar_store_unsafe(shmt__scalar_load(shmt__tensor_data(op->tensor), op->tensor->dtype),
                              it->common_dtype, it->scalars[k]);
    op->data = it->scalars[k];
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_cast(op->tensor, it->common_dtype, &op->tensor));
  op->owned = true;
  it->elsewhere++;
  return SHMT_OK;
}

static shmt_status warn_of_resize(const build_state* b, const shmt_tensor* out) {
  char want[256];

  if (out->numel != 0)
    SHMT_TRY(
        shmt__warn("An output with one or more elements was resized since it had shape %s, which "
                   "does not match the "
                   "required output shape %s. This behavior is deprecated, and in a future PyTorch "
                   "release outputs "
                   "will not be resized unless they have zero elements. You can explicitly reuse "
                   "an out tensor t by "
                   "resizing it, inplace, to zero elements with t.resize_(0).",
                   SHMT_SHAPE_TEXT(out),
                   shmt__ints_text((shmt_ints){b->dims.sizes, b->dims.n_dims}, want, sizeof want)));
  return SHMT_OK;
}

/* A given output of the right shape is computed in a temporary when the dtype differs. */
static shmt_status set_temporary(shmt_iter* it, shmt__operand* op) {
  const shmt_dtype dtype = output_dtype(it, op);
  shmt_tensor* work = NULL;

  if (dtype == op->tensor->dtype || it->is_meta) return SHMT_OK;
  /* An in-place comparison of such a tensor reads what it has written; shmt__iter_run converts each element. */
  if (op->read && dtype == SHMT_BOOL && shmt__may_overlap_itself(op->tensor)) return SHMT_OK;
  SHMT_TRY(shmt__tensor_empty_like(op->tensor, dtype, &work));
  op->original = op->tensor;
  op->tensor = work;
  op->owned = true;
  it->elsewhere++;
  return SHMT_OK;
}

/* Check that the result can be cast to a given output. An output of another shape is resized later, when the layout
 * of new outputs is known. */
static shmt_status prepare_given_output(build_state* b, int k) {
  shmt_iter* it = b->it;
  shmt__operand* op = &it->operands[k];
  const shmt_dtype dtype = output_dtype(it, op);

  SHMT_REQUIRE(shmt__can_cast(dtype, op->tensor->dtype), SHMT_E_RUNTIME,
               "result type %s can't be cast to the desired output type %s",
               shmt__dtype_title(dtype), shmt__dtype_title(op->tensor->dtype));
  SHMT_REQUIRE(!it->exact_out || op->read || dtype == op->tensor->dtype, SHMT_E_RUNTIME,
               "Found dtype %s but expected %s", shmt__dtype_title(op->tensor->dtype),
               shmt__dtype_title(dtype));
  SHMT_REQUIRE((op->tensor->device == SHMT_META) == it->is_meta, SHMT_E_RUNTIME,
               "%s(): expected all tensors to be on the same device, but the output is on %s and "
               "the inputs on %s",
               it->name, it->is_meta ? "cpu" : "meta", it->is_meta ? "meta" : "cpu");
  if (shmt__iter_has_shape(&b->dims, op->tensor)) return set_temporary(it, op);
  SHMT_TRY(warn_of_resize(b, op->tensor));
  b->resized[k] = op->tensor;
  op->tensor = NULL;
  return SHMT_OK;
}

/* --- memory order ----------------------------------------------------------------------- */

/* A new output takes the inputs' strides when they all agree; otherwise it is dense, in the order of the loops. */
static shmt_status allocate_output(build_state* b, int k, const shmt_tensor* layout) {
  shmt_iter* it = b->it;
  shmt__operand* op = &it->operands[k];
  const shmt_ints sizes = {b->dims.sizes, b->dims.n_dims};
  const shmt_device device = it->is_meta ? SHMT_META : SHMT_CPU;
  int64_t strides[SHMT_MAX_DIMS], step = 1;
  bool row_major = !layout;

  for (int i = 0; i < b->dims.n_dims && !layout; i++) {
    strides[b->dims.perm[i]] = step;
    if (__builtin_mul_overflow(step, b->dims.sizes[b->dims.perm[i]] > 1 ? b->dims.sizes[b->dims.perm[i]] : 1, &step))
      row_major = true;
    row_major &= b->dims.perm[i] == b->dims.n_dims - 1 - i;
  }
  const shmt_ints steps = layout ? shmt__tensor_strides(layout) : (shmt_ints){strides, b->dims.n_dims};
  if (b->resized[k]) {
    op->tensor = b->resized[k];
    SHMT_TRY(row_major ? shmt__tensor_resize(op->tensor, sizes, SHMT_CONTIGUOUS_FORMAT)
                       : shmt__tensor_set_geometry(op->tensor, sizes, steps, op->tensor->offset));
    SHMT_TRY(set_temporary(it, op));
    shmt__iter_fill_strides(&b->dims, op);
    return SHMT_OK;
  }
  if (row_major)
    SHMT_TRY(shmt__tensor_empty(sizes, output_dtype(it, op), device, SHMT_CONTIGUOUS_FORMAT,
                                &op->tensor));
  else
    SHMT_TRY(shmt__tensor_empty_strided(sizes, steps, output_dtype(it, op), device, &op->tensor));
  op->owned = true;
  it->elsewhere++;
  shmt__iter_fill_strides(&b->dims, op);
  return SHMT_OK;
}

/* All inputs dense with the same sizes and strides (channels-last, transposed): outputs take those
 * strides. */
static const shmt_tensor* find_common_layout(const build_state* b) {
  const shmt_iter* it = b->it;
  const shmt_tensor* first =
      it->n_operands > it->n_outputs ? it->operands[it->n_outputs].tensor : NULL;

  if (!first || b->dims.n_dims == 0 || !(first->flags & SHMT_TENSOR_DENSE) || !shmt__iter_has_shape(&b->dims, first))
    return NULL;
  for (int k = 0; k < it->n_operands; k++) {
    const shmt_tensor* t =
        it->operands[k].original ? it->operands[k].original : it->operands[k].tensor;
    if (t && (!shmt__iter_has_shape(&b->dims, t) ||
              memcmp(t->strides, first->strides, (size_t)b->dims.n_dims * sizeof *t->strides) != 0))
      return NULL;
  }
  return first;
}

static bool are_all_given(const shmt_iter* it) {
  for (int k = 0; k < it->n_outputs; k++)
    if (!it->operands[k].tensor) return false;
  return true;
}

static shmt_status allocate_outputs(build_state* b) {
  shmt_iter* it = b->it;

  if (are_all_given(it)) return SHMT_OK;
  const shmt_tensor* layout = find_common_layout(b);

  for (int k = 0; k < it->n_outputs; k++)
    if (!it->operands[k].tensor) SHMT_TRY(allocate_output(b, k, layout));
  return SHMT_OK;
}

shmt_status shmt__iter_build_general(shmt_iter* it) {
  build_state b; /* its arrays are written before they are read */

  b.it = it;
  for (int k = 0; k < it->n_outputs; k++) b.resized[k] = NULL;
  /* A short cut that gave up may have left the address of a scalar, cast to a dtype that is not the common one. */
  for (int k = 0; k < it->n_operands; k++) it->operands[k].data = NULL;
  for (int k = 0; k < it->n_operands; k++)
    it->is_meta |= it->operands[k].tensor && it->operands[k].tensor->device == SHMT_META;
  for (int k = 0; k < it->n_operands; k++) /* a batched tensor comes here past its batching rule only */
    if (it->operands[k].tensor) SHMT_TRY(shmt__check_has_memory(it->operands[k].tensor));
  if (it->check_overlap)
    for (int k = 0; k < it->n_outputs; k++)
      if (it->operands[k].tensor) SHMT_TRY(shmt__iter_check_overlap(it, it->operands[k].tensor));
  SHMT_TRY(shmt__iter_find_shape(it, &b.dims));
  SHMT_TRY(find_common_dtype(it));
  for (int k = 0; k < it->n_outputs; k++)
    if (it->operands[k].tensor) SHMT_TRY(prepare_given_output(&b, k));
  if (it->promote != SHMT_PROMOTE_NONE && it->promote != SHMT_PROMOTE_SAME)
    for (int k = it->n_outputs; k < it->n_operands; k++) SHMT_TRY(cast_input(it, k));
  for (int k = 0; k < it->n_operands; k++)
    if (it->operands[k].tensor) shmt__iter_fill_strides(&b.dims, &it->operands[k]);
  shmt__iter_order_dims(it, &b.dims);
  SHMT_TRY(allocate_outputs(&b));
  shmt__iter_permute_strides(it, &b.dims);
  for (int k = 0; k < it->n_operands; k++) {
    shmt__operand* op = &it->operands[k];
    if (!op->data) op->data = shmt__tensor_data(op->tensor);
  }
  shmt__iter_coalesce(it);
  return SHMT_OK;
}
