/* tensor/batched.h -- a tensor that stands for one example of a batch: what a function sees under vmap.
 *
 * Its sizes, strides and offset are those of one example, its conj and neg bits those of the value. It has no data of
 * its own: its storage keeps the tensor of all examples.
 *
 *   batched tensor, sizes [3, 4]          storage                      value, sizes [3, B, 4]
 *   keys: FuncTorchBatched, ...  ------>  ctx: shmt__batched  ------>  an ordinary tensor, or a batched one
 *                                         {value, level, dim = 1}      of a lower level
 *
 * So whatever copies a tensor's storage and geometry copies what it stands for. A dim of SHMT_NOT_BATCHED marks a
 * tensor that belongs to a level and is the same for all examples; Note [Levels] in autograd/vmap/levels.h says what it
 * is for.
 */
#ifndef SHMT_TENSOR_BATCHED_H
#define SHMT_TENSOR_BATCHED_H

#include "tensor/tensor.h"

enum { SHMT_NOT_BATCHED = -1 };
enum {
  SHMT_BATCHED_KEYS = SHMT_KEYBIT_FuncTorchBatched | SHMT_KEYBIT_FuncTorchDynamicLayerFrontMode,
};

typedef struct shmt__batched {
  shmt_tensor* value; /* owned */
  uint64_t level_id;  /* of the level; no two levels of a process have the same */
  int level;          /* its place in the stack, from 1 */
  int dim;            /* of value, or SHMT_NOT_BATCHED */
} shmt__batched;

/* What t stands for; NULL when it is an ordinary tensor. Borrowed. */
static inline const shmt__batched* shmt__batched_of(const shmt_tensor* t) {
  if (SHMT_LIKELY(!(shmt__tensor_own_keys(t) & SHMT_KEYBIT_FuncTorchBatched))) return NULL;
  return t->storage->ctx;
}

/* The ordinary tensor of all examples that t stands for at the end: to check or decide something for all of them.
 * Borrowed. */
static inline shmt_tensor* shmt__all_examples(shmt_tensor* t) {
  for (const shmt__batched* b = shmt__batched_of(t); b != NULL; b = shmt__batched_of(t)) t = b->value;
  return t;
}

/* What t stands for as long as all examples share it: an ordinary tensor, whose memory may be read, unless the examples
 * differ. Borrowed. */
static inline shmt_tensor* shmt__shared_value(shmt_tensor* t) {
  for (const shmt__batched* b = shmt__batched_of(t); b && b->dim == SHMT_NOT_BATCHED; b = shmt__batched_of(t))
    t = b->value;
  return t;
}

/* A batched tensor. Errors: SHMT_E_NOMEM. Ownership: retains value; new reference. */
shmt_status shmt__batched_create(shmt_tensor* value, int dim, int level, uint64_t level_id, shmt_tensor** out);
/* Let t stand for another value, at the same level; its geometry becomes that of an example of it. */
shmt_status shmt__batched_replace(shmt_tensor* t, shmt_tensor* value, int dim);

#endif
