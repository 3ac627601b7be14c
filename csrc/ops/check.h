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

/* Refuses dtypes that our loops could handle but torch does not.
 * Errors: SHMT_E_NOT_IMPLEMENTED "\"what\" not implemented for 'Bool'". */
#define SHMT_REFUSE_DTYPE(condition, dtype, what)                                             \
  SHMT_REQUIRE(!(condition), SHMT_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", what, \
               shmt__dtype_title(dtype))

/* Checks that the loop table's row has a loop for dtype.
 * Errors: SHMT_E_NOT_IMPLEMENTED "\"what\" not implemented for 'Bool'". */
#define SHMT_REQUIRE_LOOP(row, dtype, what) SHMT_REFUSE_DTYPE(shmt__loops[row][dtype] == NULL, dtype, what)

#endif
