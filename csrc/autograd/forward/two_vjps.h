/* autograd/forward/two_vjps.h -- the tangent of any operator that has a vjp, by two vector-Jacobian products. */
#ifndef SHMT_AUTOGRAD_FORWARD_TWO_VJPS_H
#define SHMT_AUTOGRAD_FORWARD_TWO_VJPS_H

#include "autograd/forward/jvp.h"

/* As shmt__jvp_compute, for any operator with a vjp. */
shmt_status shmt__jvp_by_two_vjps(const shmt__jvp_call* c, shmt_value* out);

#endif
