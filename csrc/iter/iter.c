/* iter/iter.c -- building and finishing an iterator; the short cuts for common shapes. */
#include "iter/iter.h"

#include "base/dtype.h"
#include "base/scalar.h"
#include "iter/build.h"
#include "iter/copy/copy.h"

#include <string.h>

/* --- short cuts --------------------------------------------------------------- */

/* Is the common dtype that of `lead`, so that inputs of its dtype need no cast? */
static inline bool dtype_is_settled(const shmt_iter* it, const shmt_tensor* lead) {
  switch (it->promote) {
    case SHMT_PROMOTE_INT_TO_FLOAT:
      return shmt__dtype_category(lead->dtype) >= 2;
    case SHMT_PROMOTE_BOOL_TO_INT:
      return lead->dtype != SHMT_BOOL;
    default:
      return true;
  }
}

/* A 0-d input beside tensors with dimensions: read with stride 0, cast into it->scalars when its
 * dtype is another. */
static inline bool take_scalar(shmt_iter* it, int k, const shmt_tensor* lead) {
  shmt__operand* op = &it->operands[k];
  const shmt_tensor* t = op->tensor;
  const void* p = shmt__tensor_data(t);

  op->strides[0] = 0;
  if (t->dtype == lead->dtype || it->promote == SHMT_PROMOTE_NONE) {
    op->data = (char*)p;
    return true;
  }
  if (it->promote == SHMT_PROMOTE_SAME) return false;
  if (shmt__dtype_category(t->dtype) > shmt__dtype_category(lead->dtype)) return false;
  /* Two 0-d tensors promote like any two tensors; only a Python number yields to one. */
  if (lead->n_dims == 0 && !(t->flags & SHMT_TENSOR_WRAPPED_NUMBER)) return false;
  shmt__scalar_store_unsafe(shmt__scalar_load(p, t->dtype), lead->dtype, it->scalars[k]);
  op->data = it->scalars[k];
  return true;
}

static inline shmt_dtype result_dtype(const shmt_iter* it, shmt_dtype common) {
  if (it->operands[0].want != SHMT_DTYPE_NONE) return it->operands[0].want;
  return it->promote == SHMT_PROMOTE_COMPARE ? SHMT_BOOL : common;
}

/* One output, and inputs that are contiguous, of one shape and of one dtype (any dtypes without promotion), or 0-d:
 * one loop over memory. False: another case, in which nothing but the operands' data pointers was changed. */
static bool build_contiguous(shmt_iter* it, shmt_status* status) {
  const int n = it->n_operands;
  shmt__operand* const ops = it->operands;
  shmt_tensor* lead = ops[1].tensor;
  shmt_tensor* out = ops[0].tensor;
  const bool any_dtype = it->promote == SHMT_PROMOTE_NONE;
  shmt_dtype common, dtype;

  for (int k = 2; k < n && lead->n_dims == 0; k++) lead = ops[k].tensor;
  if (lead->device != SHMT_CPU || (lead->flags & SHMT_TENSOR_WRAPPED_NUMBER) ||
      !dtype_is_settled(it, lead))
    return false;
  for (int k = 1; k < n; k++) {
    shmt_tensor* t = ops[k].tensor;
    if (t->device != SHMT_CPU) return false;
    if ((any_dtype || t->dtype == lead->dtype) && shmt__tensor_is_contiguous(t) &&
        (t == lead || shmt__same_sizes(t, lead))) {
      ops[k].data = shmt__tensor_data(t);
      ops[k].strides[0] = shmt__tensor_item_bytes(t);
    } else if (t->n_dims != 0 || t->dtype == SHMT_DTYPE_NONE || !take_scalar(it, k, lead)) {
      return false;
    }
  }
  common = any_dtype ? ops[1].tensor->dtype : lead->dtype;
  dtype = result_dtype(it, common);
  if (!out) {
    *status =
        shmt__tensor_empty(shmt__tensor_sizes(lead), dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &out);
    if (*status != SHMT_OK) return true;
    ops[0].tensor = out;
    ops[0].owned = true;
    it->elsewhere = 1;
  } else {
    if (out->dtype != dtype || out->device != SHMT_CPU || !shmt__tensor_is_contiguous(out) ||
        !shmt__same_sizes(out, lead))
      return false;
    for (int k = 1; k < n; k++) {
      const shmt_tensor* t = ops[k].tensor;
      if (t->storage == out->storage &&
          (ops[k].data != (char*)shmt__tensor_data(out) || t->n_dims == 0 ||
           shmt__tensor_item_bytes(t) != shmt__tensor_item_bytes(out)))
        return false;
    }
  }
  ops[0].data = shmt__tensor_data(out);
  ops[0].strides[0] = shmt__tensor_item_bytes(out);
  it->common_dtype = common;
  it->n_dims = 1;
  it->numel = lead->numel;
  it->sizes[0] = lead->numel;
  *status = SHMT_OK;
  return true;
}

/* The last step of build_broadcast. sizes: of the new output; n_dims: of the loops. */
static bool take_new_output(shmt_iter* it, shmt_ints sizes, int n_dims, shmt_status* status) {
  shmt__operand* const ops = it->operands;
  int64_t numel = 1, step;

  it->common_dtype = ops[1].tensor->dtype;
  *status = shmt__tensor_empty(sizes, result_dtype(it, it->common_dtype), SHMT_CPU, SHMT_CONTIGUOUS_FORMAT,
                               &ops[0].tensor);
  if (*status != SHMT_OK) return true;
  ops[0].owned = true;
  it->elsewhere = 1;
  step = shmt__tensor_item_bytes(ops[0].tensor);
  for (int d = 0; d < n_dims; d++) {
    ops[0].strides[d] = step * numel;
    numel *= it->sizes[d];
  }
  for (int k = 0; k < it->n_operands; k++) ops[k].data = shmt__tensor_data(ops[k].tensor);
  it->n_dims = n_dims;
  it->numel = numel;
  return true;
}

static bool may_broadcast(const shmt_iter* it) {
  const shmt__operand* const ops = it->operands;
  const shmt_tensor* lead = ops[1].tensor;

  if (ops[0].tensor || !dtype_is_settled(it, lead)) return false;
  for (int k = 1; k < it->n_operands; k++) {
    const shmt_tensor* t = ops[k].tensor;
    if (t->device != SHMT_CPU || t->numel == 0 || !shmt__tensor_is_contiguous(t) ||
        (t->flags & SHMT_TENSOR_WRAPPED_NUMBER) || (it->promote != SHMT_PROMOTE_NONE && t->dtype != lead->dtype))
      return false;
  }
  return true;
}

/* One new output, and contiguous inputs of one dtype (any dtypes without promotion) that broadcast: the order of the
 * dims is known, and they are merged on the way. False: another case, in which nothing but the operands' strides was
 * changed. */
static __attribute__((noinline)) bool build_broadcast(shmt_iter* it, shmt_status* status) {
  const int n = it->n_operands;
  shmt__operand* const ops = it->operands;
  int64_t sizes[SHMT_MAX_DIMS], steps[SHMT_ITER_MAX_OPERANDS]; /* byte strides of the next dim */
  int n_dims = 0, last = -1;

  if (!may_broadcast(it)) return false;
  for (int k = 1; k < n; k++) {
    steps[k] = shmt__tensor_item_bytes(ops[k].tensor);
    n_dims = n_dims > ops[k].tensor->n_dims ? n_dims : ops[k].tensor->n_dims;
  }
  for (int d = 1; d <= n_dims; d++) { /* from the end */
    int64_t size = 1;
    bool fits = last >= 0;
    for (int k = 1; k < n; k++) {
      const shmt_tensor* t = ops[k].tensor;
      const int64_t own = d <= t->n_dims ? t->sizes[t->n_dims - d] : 1;
      if (own != 1 && size != 1 && own != size) return false;
      if (own != 1) size = own;
    }
    sizes[n_dims - d] = size;
    if (size == 1) return false; /* its strides may matter for the result's */
    for (int k = 1; k < n; k++) {
      const shmt_tensor* t = ops[k].tensor;
      const bool moves = d <= t->n_dims && t->sizes[t->n_dims - d] != 1;
      const int64_t stride = moves ? steps[k] : 0;
      fits = fits && it->sizes[last] * ops[k].strides[last] == stride;
      ops[k].strides[last + 1] = stride;
      if (moves) steps[k] *= size;
    }
    if (fits) {
      it->sizes[last] *= size;
    } else {
      it->sizes[++last] = size;
    }
  }
  return take_new_output(it, (shmt_ints){sizes, n_dims}, last + 1, status);
}

shmt_status shmt__iter_build(shmt_iter* it) {
  shmt_status status;

  if (it->n_outputs == 1 && it->n_operands >= 2 && (build_contiguous(it, &status) || build_broadcast(it, &status)))
    return status;
  status = shmt__iter_build_general(it);
  return SHMT_LIKELY(status == SHMT_OK) ? SHMT_OK : shmt__iter_finish(it, status);
}

/* --- finishing ------------------------------------------------------------------ */

shmt_status shmt__iter_finish_all(shmt_iter* it, shmt_status status) {
  for (int k = 0; k < it->n_operands; k++) {
    shmt__operand* op = &it->operands[k];
    if (!op->owned) continue;
    op->owned = false;
    if (k < it->n_outputs && status == SHMT_OK) {
      if (!op->original) {
        *op->slot = SHMT_TAKE(op->tensor);
        continue;
      }
      if (!it->is_meta) status = shmt__tensor_copy(op->original, op->tensor);
    }
    shmt__tensor_release(op->tensor);
    op->tensor = op->original;
  }
  it->elsewhere = 0;
  return status;
}
