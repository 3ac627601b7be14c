/* iter/dims.h -- the steps by which an iterator gets its dims: broadcast, order by memory, merge.
 *
 * shmt__iter_build (iter/iter.h) takes these steps and casts and allocates operands between them. Copies and fills have
 * all their operands, of the dtypes they are to have, and take the short way, shmt__iter_build_given.
 */
#ifndef SHMT_ITER_DIMS_H
#define SHMT_ITER_DIMS_H

#include "iter/iter.h"

/* The broadcast shape, and the order in which its dims are looped over. */
typedef struct shmt__iter_dims {
  int n_dims;
  bool is_even;                 /* all given tensors have these sizes */
  int64_t sizes[SHMT_MAX_DIMS]; /* in the order of the user's dims */
  int perm[SHMT_MAX_DIMS];      /* perm[0]: the innermost dim */
} shmt__iter_dims;

/* Does t have the broadcast shape? */
static inline bool shmt__iter_has_shape(const shmt__iter_dims* dims, const shmt_tensor* t) {
  return dims->is_even || shmt__same_ints(shmt__tensor_sizes(t), (shmt_ints){dims->sizes, dims->n_dims});
}
/* Broadcast the operands, count the elements, and check the shapes of given outputs. Sets `read` of outputs that are
 * also inputs. Errors: SHMT_E_RUNTIME with torch's text. */
shmt_status shmt__iter_find_shape(shmt_iter* it, shmt__iter_dims* dims);
/* May `out` be written while the inputs are read? Errors: SHMT_E_RUNTIME when it overlaps itself or part of an
 * input. */
shmt_status shmt__iter_check_overlap(const shmt_iter* it, const shmt_tensor* out);
/* Byte strides of an operand over the dims, in the user's order; 0 where it is broadcast. */
void shmt__iter_fill_strides(const shmt__iter_dims* dims, shmt__operand* op);
/* Find `perm` from the operands' strides. */
void shmt__iter_order_dims(const shmt_iter* it, shmt__iter_dims* dims);
/* Give the iterator its sizes, and all operands their strides, in the order of `perm`. */
void shmt__iter_permute_strides(shmt_iter* it, const shmt__iter_dims* dims);
/* Merge dims that every operand steps through without a gap. */
void shmt__iter_coalesce(shmt_iter* it);

/* Build an iterator with one output, where every operand is given, has data and keeps its dtype, and the output has the
 * broadcast shape: copies and fills. There is nothing to finish. Errors: SHMT_E_RUNTIME with torch's text. */
shmt_status shmt__iter_build_given(shmt_iter* it);

#endif
