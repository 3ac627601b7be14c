/* autograd/forward/two_vjps.h -- the tangent of any operator that has a vjp, by two vector-Jacobian products. */
#ifndef SHMT_AUTOGRAD_FORWARD_TWO_VJPS_H
#define SHMT_AUTOGRAD_FORWARD_TWO_VJPS_H

#include "autograd/forward/jvp.h"

/* Refuse an operator that has no tangents. Errors: SHMT_E_NOT_IMPLEMENTED. */
SHMT_COLD shmt_status shmt__jvp_refuse(const shmt_operator* op);

/* As shmt__jvp_compute, for any operator with a vjp. */
shmt_status shmt__jvp_by_two_vjps(const shmt__jvp_call* c, shmt_value* out);

#endif
