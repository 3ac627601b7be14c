/* autograd/retained_grads.h -- .grad of tensors that are no leaves but keep theirs (retain_grad). */
#ifndef SHMT_AUTOGRAD_RETAINED_GRADS_H
#define SHMT_AUTOGRAD_RETAINED_GRADS_H

#include "autograd/meta.h"

/* An output whose tensor keeps its gradient. The tensor owns the node, so its metadata is borrowed,
 * and the entry goes when the tensor does. */
typedef struct shmt__retain {
  struct shmt__retain* next;
  shmt_autograd_meta* meta;
  uint32_t input_nr;
} shmt__retain;

/* The tensor of this metadata, output nr of n, retains its gradient (or no longer does). */
shmt_status shmt__node_retain_output(shmt_node* n, uint32_t nr, shmt_autograd_meta* meta);
void shmt__node_forget_output(shmt_node* n, const shmt_autograd_meta* meta);
shmt_status shmt__node_store_retained(shmt_node* n, shmt_tensor* const* grads);

#endif
