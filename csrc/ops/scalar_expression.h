/* ops/scalar_expression.h -- helpers that expressions of the operator spec compile to, besides operator calls.
 *
 * Derivatives and composite operators compute with Scalar arguments, whose kind (integer, float, complex) is known only
 * at run time. They compare them, and turn them into 0-d tensors where an operator wants a tensor.
 */
#ifndef SHMT_OPS_SCALAR_EXPRESSION_H
#define SHMT_OPS_SCALAR_EXPRESSION_H

#include "base/overflow.h"
#include "base/promote.h" /* shmt__dtype_title */
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "dispatch/value.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <string.h>

/* A list of n NULLs, to be filled with new references. Errors: SHMT_E_NOMEM. */
shmt_status shmt__tensor_vec_alloc(int64_t n, shmt_tensor_vec* out);
/* A list of new references to the tensors of list. Errors: SHMT_E_NOMEM. */
shmt_status shmt__tensor_vec_copy(shmt_tensors list, shmt_tensor_vec* out);
/* A list of tensors that is released at the end of the scope. */
#define SHMT_AUTO_LIST __attribute__((cleanup(shmt__tensor_vec_fini))) shmt_tensor_vec

typedef enum shmt__scalar_op {
  SHMT_SCALAR_OP_ADD,
  SHMT_SCALAR_OP_SUB,
  SHMT_SCALAR_OP_MUL,
  SHMT_SCALAR_OP_DIV, /* true division: never integral */
  SHMT_SCALAR_OP_POW,
} shmt__scalar_op;

/* Computes a op b as Python does, except that integers wrap at 64 bits. Cannot fail. */
shmt_scalar shmt__scalar_calculate(shmt__scalar_op op, shmt_scalar a, shmt_scalar b);
shmt_scalar shmt__scalar_negate(shmt_scalar a);
/* -1, 0 or 1 as a is less than, equal to or greater than b; 2 when they have no order (a NaN, a missing value, complex
 * numbers with equal real and different imaginary parts). Other complex numbers compare by their real parts. */
int shmt__scalar_compare(shmt_scalar a, shmt_scalar b);

/* Python's // for integers; 0 when b is 0. */
static inline int64_t shmt__floor_div_i64(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/* Python's % for integers; a when b is 0. */
static inline int64_t shmt__floor_mod_i64(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)shmt__floor_div_i64(a, b) * (uint64_t)b);
}

/* That a sum, difference or product does not fit in 64 bits. Returns SHMT_E_RUNTIME. */
SHMT_COLD shmt_status shmt__int_overflow(int64_t a, char sign, int64_t b);

/* a + b, a - b and a * b. Errors: those of shmt__int_overflow; *out is then undefined. */
static inline shmt_status shmt__int_add(int64_t a, int64_t b, int64_t* out) {
  return SHMT_UNLIKELY(__builtin_add_overflow(a, b, out)) ? shmt__int_overflow(a, '+', b) : SHMT_OK;
}

static inline shmt_status shmt__int_sub(int64_t a, int64_t b, int64_t* out) {
  return SHMT_UNLIKELY(__builtin_sub_overflow(a, b, out)) ? shmt__int_overflow(a, '-', b) : SHMT_OK;
}

static inline shmt_status shmt__int_mul(int64_t a, int64_t b, int64_t* out) {
  return SHMT_UNLIKELY(__builtin_mul_overflow(a, b, out)) ? shmt__int_overflow(a, '*', b) : SHMT_OK;
}

/* list[i], counted from the end when i is negative. Borrowed. Errors: SHMT_E_INDEX. */
shmt_status shmt__tensors_at(shmt_tensors list, int64_t i, shmt_tensor** out);
/* values[i], counted from the end when i is negative. Errors: SHMT_E_INDEX. */
static inline shmt_status shmt__ints_at(shmt_ints values, int64_t i, int64_t* out) {
  const int64_t at = i < 0 ? i + values.len : i;

  SHMT_REQUIRE(at >= 0 && at < values.len, SHMT_E_INDEX,
               "index %" PRId64 " is out of range for a list of %" PRId64, i, values.len);
  *out = values.data[at];
  return SHMT_OK;
}

/* A wrapped 0-d tensor of value, which has the lowest priority in dtype promotion. New reference. */
static inline shmt_status shmt__wrapped_scalar_tensor(shmt_scalar value, shmt_tensor** out) {
  /* The widest dtype of its kind: a float64 tensor sees the exact value. Promotion treats it as the default dtype. */
  shmt_dtype dtype = value.tag == SHMT_SCALAR_FLOAT     ? SHMT_FLOAT64
                     : value.tag == SHMT_SCALAR_COMPLEX ? SHMT_COMPLEX128
                                                        : shmt__scalar_dtype(value);
  return shmt__tensor_from_scalar(value, dtype, true, out);
}

/* --- memory of temporaries ------------------------------------------------------------------- */

/* May an element-wise operator on t and other (NULL: on t alone) write its result into t? Yes when the caller holds the
 * only reference, nothing is recorded, and the result has t's shape and dtype. */
bool shmt__can_reuse(const shmt_tensor* t, const shmt_tensor* other);
/* The same for an operator on (other, t), in this order: the result must also have t's strides. */
bool shmt__can_reuse_second(const shmt_tensor* t, const shmt_tensor* other);

/* Ends an operator that may have reused *temporary. When the operator made *out, releases *temporary; otherwise the
 * result is in *temporary, which becomes *out. *temporary is NULL afterwards. */
static inline void shmt__finish_reuse(shmt_tensor** temporary, shmt_tensor** out) {
  if (*out)
    shmt__tensor_release(*temporary);
  else
    *out = *temporary;
  *temporary = NULL;
}

/* Are two texts equal? NULL equals only NULL. */
static inline bool shmt__text_is(const char* a, const char* b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

#endif
