/* base/promote.h -- which dtype the result of mixed operands has.
 *
 * Note [Promotion categories]
 * Operands fall into three categories: tensors with dimensions, zero-dim tensors, and Python numbers
 * ("wrapped"). A weaker category decides only when its kind (bool < integral < floating < complex) is
 * higher than that of every stronger one: float32 tensor * 2.0 stays float32, int64 tensor * 2.0 becomes
 * the default dtype, float32 tensor * 0-d float64 tensor stays float32.
 */
#ifndef SHMT_BASE_PROMOTE_H
#define SHMT_BASE_PROMOTE_H

#include "base/error.h"
#include "base/scalar.h"
#include "base/types.h"

/* The smallest dtype both can be cast to; SHMT_DTYPE_NONE where torch has none (uint16/32/64 with another integer). */
shmt_dtype shmt__promote_types_unchecked(shmt_dtype a, shmt_dtype b);
/* Errors: SHMT_E_RUNTIME "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote A and
 * B". */
shmt_status shmt__promote_types(shmt_dtype a, shmt_dtype b, shmt_dtype* out);
/* Does torch allow this cast? Not from complex to real, from floating to integral, or from a number to bool. */
bool shmt__can_cast(shmt_dtype from, shmt_dtype to);

/* The running result type of a list of operands; start from SHMT_RESULT_TYPE_INIT. */
typedef struct shmt__result_type {
  shmt_dtype dim, zero_dim, wrapped; /* SHMT_DTYPE_NONE: none of that category yet */
} shmt__result_type;
#define SHMT_RESULT_TYPE_INIT ((shmt__result_type){SHMT_DTYPE_NONE, SHMT_DTYPE_NONE, SHMT_DTYPE_NONE})

/* Add a tensor of dtype. wrapped: it stands for a Python number (floats count as the default dtype).
 * Errors: SHMT_E_RUNTIME as shmt__promote_types. */
shmt_status shmt__result_type_add(shmt__result_type* r, shmt_dtype dtype, bool zero_dim, bool wrapped);
static inline shmt_status shmt__result_type_add_scalar(shmt__result_type* r, shmt_scalar s) {
  return shmt__result_type_add(r, shmt__scalar_dtype(s), true, true);
}
/* Errors: SHMT_E_RUNTIME as shmt__promote_types. SHMT_DTYPE_NONE for an empty list. */
shmt_status shmt__result_type_get(const shmt__result_type* r, shmt_dtype* out);

#endif
