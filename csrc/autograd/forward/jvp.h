/* autograd/forward/jvp.h -- how the tangents of an operator's results follow from those of its arguments.
 *
 * The generator makes one record per entry of the specification that has derivatives; its forms share it.
 */
#ifndef SHMT_AUTOGRAD_FORWARD_JVP_H
#define SHMT_AUTOGRAD_FORWARD_JVP_H

#include "dispatch/operator.h"
#include "tensor/tensor.h"

typedef enum shmt__jvp_kind {
  SHMT_JVP_MISSING, /* refused */
  SHMT_JVP_LINEAR,  /* linear in its differentiable arguments together: the operator of the tangents */
  SHMT_JVP_EACH,    /* linear in each of them: one term per argument, which stands in its argument's place */
  SHMT_JVP_EXPRESSION, /* the function below */
  SHMT_JVP_ZERO,
  SHMT_JVP_TWO_VJPS, /* the derivative of the gradient in its cotangent; see two_vjps.c */
} shmt__jvp_kind;

typedef struct shmt__jvp {
  shmt_operator* functional; /* the form that does not write; NULL: there is none */
  /* out: one new reference or NULL per result. results are those of the functional form. Tangents stand where their
   * arguments do; without a tag, or NULL in a list, where there is none. */
  shmt_status (*expression)(const shmt_value* args, const shmt_value* results, const shmt_value* tangents,
                            shmt_tensor** out);
  uint32_t arguments; /* bit i: argument i has a derivative */
  uint32_t results;   /* bit i: result i has a tangent */
  shmt__jvp_kind kind;
  bool uses_results; /* the expression reads them */
} shmt__jvp;

/* One operator call with dual tensors. All is borrowed. */
typedef struct shmt__jvp_call {
  const shmt_operator* op; /* the functional form */
  const shmt__jvp* jvp;
  const shmt_value* args; /* without tangents at this level */
  const shmt_value* results;
  const shmt_value* tangents;
} shmt__jvp_call;

/* out[i], empty before, becomes the tangent of result i: a tensor, a list of them, or nothing. It is the caller's to
 * release, also after an error. Errors: those of the operators. */
shmt_status shmt__jvp_compute(const shmt__jvp_call* c, shmt_value* out);

/* out[i] becomes the tangent of argument i, with zeros where it has none, for each argument that has a derivative. New
 * values, also after an error. Errors: SHMT_E_NOMEM. */
shmt_status shmt__jvp_fill_tangents(const shmt_operator* op, const shmt__jvp* jvp, const shmt_value* args,
                                    const shmt_value* tangents, shmt_value* out);

/* --- for generated formulas ------------------------------------------------------------------- */

/* *sum += term, consuming term (NULL: nothing to add). */
shmt_status shmt__jvp_add(shmt_tensor** sum, shmt_tensor** term);
/* tangent as a cotangent of an element-wise operator: expanded to the shape of result, in its dtype, conjugated when
 * complex. New reference. */
shmt_status shmt__jvp_as_cotangent(shmt_tensor* tangent, shmt_tensor* result, shmt_tensor** out);
/* *term becomes its conjugate when it is complex. */
shmt_status shmt__jvp_conj(shmt_tensor** term);

#endif
