/* ops/indexing/index_iterator.h -- iteration by index, which gather, scatter, index and others share.
 *
 * Note [Indexed walks]
 * gather, scatter, index and their kin are one walk of the iterator over (output, other, index). The operand that is
 * addressed by index has stride 0 along the indexed dims, and the loop adds index * stride itself. So broadcasting, the
 * order of dims, runs and threads are the iterator's.
 */
#ifndef SHMT_OPS_INDEXING_INDEX_ITERATOR_H
#define SHMT_OPS_INDEXING_INDEX_ITERATOR_H

#include "generated/loops.h"
#include "iter/blocks.h"
#include "iter/iter.h"
#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* The loop of a row of kernels/indexing/gather.tmpl.h, for elements of item bytes (1, 2, 4, 8 or 16) or of dtype's
 * size. */
shmt__loop shmt__move_loop_of_size(int row, int64_t item);
shmt__loop shmt__move_loop(int row, shmt_dtype dtype);

/* An alias of t with other sizes and strides, which autograd does not see as a view. New reference. */
static inline shmt_status shmt__restride(shmt_tensor* t, shmt_ints sizes, const int64_t* strides, shmt_tensor** out) {
  return shmt__tensor_alias(t, sizes, (shmt_ints){strides, sizes.len}, t->offset, out);
}

/* index as int64 in *out. A cast copy is owned by *made; an int64 index is borrowed. Errors: SHMT_E_NOMEM. */
shmt_status shmt__index_as_int64(shmt_tensor* index, shmt_tensor** made, shmt_tensor** out);

/* Moves elements by `loop`: to[..., index, ...] <- from, or for a gather to <- from[..., index, ...]. All three have
 * the same sizes. `to` is written without a resize and without a check for overlap. all: the tensor that `to` aliases,
 * when several elements may write to one, so that they do so one after the other; NULL when none do. Errors:
 * SHMT_E_NOMEM. */
shmt_status shmt__indexed_walk(const char* name, shmt_tensor* to, shmt_tensor* from, shmt_tensor* index,
                               const shmt__index_args* shape, shmt__loop loop, const shmt_tensor* all);

/* Errors: SHMT_E_INDEX "index 5 is out of bounds for dimension 0 with size 3" when a loop has reported bad. */
shmt_status shmt__check_bad_index(const shmt__bad_index* bad, shmt_status code, int64_t dim, int64_t size);

/* Errors: the same, naming the first of index (int64, not empty), when size is 0. No index fits then, and there is no
 * memory to walk over. */
shmt_status shmt__check_not_empty(const shmt_tensor* index, shmt_status code, int64_t dim, int64_t size);

/* Counts the bytes of a mask, of n, that are not 0. */
int64_t shmt__count_set(const uint8_t* mask, int64_t n);
/* Counts the set elements among n of a mask from `begin` on, read as bool. */
int64_t shmt__count_set_in(const shmt__blocks* mask, int64_t begin, int64_t n);

/* to[i] = the byte offset of element index[i] of the flattened tensor; `flat` (stride 1) checks it. An index that is
 * out of range, reported in flat.bad, becomes -1, which loops with shmt__offset_args skip. `to` may be index itself. */
enum { SHMT_FLAT_BLOCK = 2048 /* offsets that fit on a stack */ };
void shmt__flat_offsets(const shmt__blocks* of, const int64_t* index, int64_t n, const shmt__index_args* flat,
                        int64_t* to);
/* Arguments for such offsets. `unused` gets reports of those that were reported before. */
static inline shmt__index_args shmt__offset_args(shmt__bad_index* unused) {
  return (shmt__index_args){1, INT64_MAX, false, unused};
}

/* The positions of the nonzero elements: (count, n_dims), int64, each column dense. New reference. Errors:
 * SHMT_E_NOMEM. */
shmt_status shmt__nonzero_positions(shmt_tensor* self, shmt_tensor** out);

#endif
