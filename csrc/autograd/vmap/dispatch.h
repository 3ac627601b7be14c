/* autograd/vmap/dispatch.h -- from an operator call with batched tensors to its batching rule.
 *
 * A call reaches the key FuncTorchDynamicLayerFrontMode first, since it lies above Autograd. Its kernel finds the level
 * of the call and lets it be recorded only when tensors of that level require grad (Note [Levels] in levels.h). Then,
 * below Autograd and ADInplaceOrView, the key FuncTorchBatched calls the operator's rule. Both keys have one boxed
 * fallback for all operators, which is registered when the first level is entered: nobody else pays for it.
 *
 * Note [Batching rules]
 * The specification names a rule for an operator with `batch:`; rules.h has them. Operators with a `kernel` have the
 * rule pointwise without saying so, composites are made of other operators, and an operator without a rule is called
 * once for each example. A rule gets the arguments with each batched tensor replaced by its value. It stores results
 * whose first dimension is the batch, or says otherwise in `result_dim`.
 */
#ifndef SHMT_AUTOGRAD_VMAP_DISPATCH_H
#define SHMT_AUTOGRAD_VMAP_DISPATCH_H

#include "autograd/vmap/levels.h"
#include "dispatch/registry.h"

/* A call on its way through a rule. */
typedef struct shmt__batch_call {
  const shmt_operator* op;
  const shmt_value* args;                  /* as they were given */
  shmt_value* results;                     /* of the operator's schema */
  shmt_value values[SHMT_SCHEMA_MAX_ARGS];  /* batched tensors replaced by what they stand for; tensors are owned, and
                                              so are the arrays of lists */
  int dims[SHMT_SCHEMA_MAX_ARGS];           /* of an argument that is a tensor: its batch dimension, SHMT_NOT_BATCHED */
  int* list_dims[SHMT_SCHEMA_MAX_ARGS];     /* of an argument that is a list of tensors: one for each; owned */
  int64_t batch_size;
  shmt__randomness randomness;
  int level;
  int result_dim; /* where rules leave the batch in results: 0 at first; SHMT_NOT_BATCHED: all examples share them */
} shmt__batch_call;

/* Register the fallbacks, once. Errors: SHMT_E_NOMEM. */
shmt_status shmt__vmap_install(void);

/* The highest vmap level among the arguments, 0 when there is none. */
int shmt__vmap_level_of(const shmt_operator* op, const shmt_value* args);
/* Wrap a value as a tensor of a level. New reference. */
shmt_status shmt__vmap_wrap(shmt_tensor* value, int dim, int level, shmt_tensor** out);

#endif
