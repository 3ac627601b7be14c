/* autograd/forward/follow.h -- the kernel of the key ForwardAD. */
#ifndef SHMT_AUTOGRAD_FORWARD_FOLLOW_H
#define SHMT_AUTOGRAD_FORWARD_FOLLOW_H

#include "dispatch/operator.h"

/* For operators that have no kernel of their own there: it gives results their tangents. */
extern const shmt__kernel shmt__forward_fallback;

#endif
