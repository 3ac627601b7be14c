/* autograd/vmap/loop.h -- an operator without a batching rule: once for each example. */
#ifndef SHMT_AUTOGRAD_VMAP_LOOP_H
#define SHMT_AUTOGRAD_VMAP_LOOP_H

#include "autograd/vmap/dispatch.h"

/* Call the operator once for each example, and stack the results. */
shmt_status shmt__batch_each(shmt__batch_call* c);
/* The same for an operator without a rule: with a warning. */
shmt_status shmt__batch_loop(shmt__batch_call* c);

#endif
