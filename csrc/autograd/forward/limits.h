/* autograd/forward/limits.h -- how many arguments and results an operator with derivatives has at most. */
#ifndef SHMT_AUTOGRAD_FORWARD_LIMITS_H
#define SHMT_AUTOGRAD_FORWARD_LIMITS_H

/* The generator checks both (codegen/emit/forward.py). */
enum { SHMT_JVP_MAX_ARGS = 20, SHMT_JVP_MAX_RESULTS = 8 };

#endif
