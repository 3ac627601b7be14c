/* ops/foreach.h -- one elementwise loop for all tensors of a list.
 *
 * Functions on lists (spec/foreach.yaml) call their operator for each tensor. Where all tensors are dense, of one
 * floating dtype, on the CPU and not recorded, the operator's loop does them all instead: threads share the elements of
 * all tensors together, and nothing is dispatched.
 */
#ifndef SHMT_OPS_FOREACH_H
#define SHMT_OPS_FOREACH_H

#include "base/error.h"
#include "base/types.h"

/* Do loop for each element of the tensors.
 *
 * loop      SHMT_LOOP_..., of one or two inputs
 * lists     n_lists lists of inputs
 * in_place  the first inputs are the outputs; else new ones
 * out       new references, one per tensor; empty in place
 * *done     false: the lists do not suit, and nothing was done
 * Errors:   SHMT_E_NOMEM, SHMT_E_RUNTIME (an output may not be written). */
shmt_status shmt__foreach_flat(int loop, const shmt_tensors* lists, int n_lists, bool in_place, shmt_tensor_vec* out,
                               bool* done);

#endif
