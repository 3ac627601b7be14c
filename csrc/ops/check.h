/* ops/check.h -- argument checks that several families share. */
#ifndef SHMT_OPS_CHECK_H
#define SHMT_OPS_CHECK_H

#include "ops/dtype_names.h"
#include "tensor/tensor.h"

/* The Meta device when any of the tensors is on it (NULLs are skipped), else the CPU. */
static inline shmt_device shmt__common_device(const shmt_tensor* a, const shmt_tensor* b, const shmt_tensor* c) {
  return (a && a->device == SHMT_META) || (b && b->device == SHMT_META) || (c && c->device == SHMT_META) ? SHMT_META
                                                                                                       : SHMT_CPU;
}

/* When t has data, checks that `other` has data, too. A 0-d CPU tensor may be mixed with meta tensors, so an operator
 * that reads operands without an iterator must ask. Errors: SHMT_E_RUNTIME. */
static inline shmt_status shmt__check_has_data(const shmt_tensor* other, const shmt_tensor* t) {
  SHMT_REQUIRE(t->device == SHMT_META || other->device != SHMT_META, SHMT_E_RUNTIME,
               "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!");
  return SHMT_OK;
}

/* Does t have exactly these sizes? */
static inline bool shmt__sizes_are(const shmt_tensor* t, shmt_ints sizes) {
  return shmt__same_ints(shmt__tensor_sizes(t), sizes);
}

/* Refuses meta tensors, for operators whose result's size depends on data. */
static inline shmt_status shmt__refuse_meta_count(const char* name, const shmt_tensor* t) {
  SHMT_REQUIRE(!shmt__tensor_is_meta(t), SHMT_E_NOT_IMPLEMENTED,
               "%s(): the size of the result depends on data, which a meta tensor has not", name);
  return SHMT_OK;
}

/* uint16, uint32 and uint64: torch's "barebones unsigned" dtypes, for which it has few operators. */
static inline bool shmt__is_barebones_unsigned(shmt_dtype dtype) {
  return shmt__dtype_kind[dtype] == SHMT_KIND_UNSIGNED && shmt__dtype_size[dtype] > 1;
}

/* The refusal of a dtype that an operator has no kernel for. Nothing else says so: it is one exception with one text.
 * `what` is the name of torch's kernel. Returns SHMT_E_NOT_IMPLEMENTED "\"what\" not implemented for 'Bool'". */
SHMT_COLD shmt_status shmt__no_kernel(const char* what, shmt_dtype dtype);

/* Refuses the dtype under a condition. Errors: those of shmt__no_kernel. */
#define SHMT_REFUSE_DTYPE(condition, dtype, what)                              \
  do {                                                                         \
    if (SHMT_UNLIKELY(condition)) return shmt__no_kernel((what), (dtype));     \
  } while (0)

/* Checks that the loop table's row has a loop for dtype. Errors: those of shmt__no_kernel. */
#define SHMT_REQUIRE_LOOP(row, dtype, what) SHMT_REFUSE_DTYPE(shmt__loops[row][dtype] == NULL, dtype, what)

/* Checks for this dtype. Errors: SHMT_E_RUNTIME, with torch's text. */
shmt_status shmt__check_scalar_type(const shmt_tensor* t, shmt_dtype expected);
/* Checks for a floating point or complex dtype. Errors: SHMT_E_RUNTIME, with torch's text. */
shmt_status shmt__check_float_dtype(const char* name, const shmt_tensor* t);

#endif
