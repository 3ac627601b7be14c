/* ops/indexing/index_iterator.h -- indexed walks that the index operators share.
 *
 * Note [Indexed walks]
 * gather, scatter, index and their kin are one walk of the iterator over (output, other, index), where the operand
 * that is addressed by index has stride 0 along the indexed dims, and the loop adds index * stride itself. So
 * broadcasting, dim order, runs and threads are the iterator's.
 */
#ifndef SHMT_OPS_INDEXING_INDEX_ITERATOR_H
#define SHMT_OPS_INDEXING_INDEX_ITERATOR_H

#include "generated/loops.h"
#include "iter/blocks.h"
#include "iter/iter.h"
#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* The loop of a kernels/indexing/gather.tmpl.h row for elements of item bytes (1, 2, 4, 8 or 16), or of dtype's size. */
shmt__loop shmt__move_loop_of_size(int row, int64_t item);
shmt__loop shmt__move_loop(int row, shmt_dtype dtype);

/* An alias of t with the given geometry; not a view to anyone. New reference. */
static inline shmt_status shmt__restride(shmt_tensor* t, shmt_ints sizes, const int64_t* strides, shmt_tensor** out) {
  return shmt__tensor_alias(t, sizes, (shmt_ints){strides, sizes.len}, t->offset, out);
}

/* index as int64 in *out: other dtypes are cast to what *made owns then; int64 is lent. Errors: SHMT_E_NOMEM. */
shmt_status shmt__index_as_int64(shmt_tensor* index, shmt_tensor** made, shmt_tensor** out);

/* to[..., index, ...] <- from, or the other way round for a gather, by `loop`: all three have the same
 * sizes; `to` is written as it is (no resize, no overlap check). all: of which `to` is an alias, when elements may write
 * to one place: they do one after the other; NULL: none do. Errors: SHMT_E_NOMEM. */
shmt_status shmt__indexed_walk(const char* name, shmt_tensor* to, shmt_tensor* from, shmt_tensor* index,
                               const shmt__index_args* shape, shmt__loop loop, const shmt_tensor* all);

/* SHMT_E_INDEX "index 5 is out of bounds for dimension 0 with size 3" when bad was noted. */
shmt_status shmt__check_bad_index(const shmt__bad_index* bad, shmt_status code, int64_t dim, int64_t size);

/* The same, naming the first of index (int64, not empty), when size is 0: no index fits, and there is no memory to
 * walk over. */
shmt_status shmt__check_not_empty(const shmt_tensor* index, shmt_status code, int64_t dim, int64_t size);

/* A 0-d tensor as a line of one element in *out, which *made owns then; others are lent. Errors: SHMT_E_NOMEM. */
shmt_status shmt__at_least_1d(shmt_tensor* t, shmt_tensor** made, shmt_tensor** out);
/* int32 or int64. Errors: SHMT_E_RUNTIME "name(): wording". */
shmt_status shmt__check_index_dtype(const char* name, const shmt_tensor* index, const char* wording);

/* How many of the n bytes of a mask are not 0. */
int64_t shmt__count_set(const uint8_t* mask, int64_t n);
/* The same of the first n elements of a mask, read as bool. */
int64_t shmt__count_set_in(const shmt__blocks* mask, int64_t begin, int64_t n);

/* to[i] = bytes to place index[i] of a tensor seen as one line, as flat (stride 1) checks it; may be index itself. Of places
 * that are none, which flat.bad tells, -1: loops with shmt__offset_args pass over it. */
enum { SHMT_FLAT_BLOCK = 2048 /* offsets that fit on a stack */ };
void shmt__flat_offsets(const shmt__blocks* of, const int64_t* index, int64_t n, const shmt__index_args* flat,
                        int64_t* to);
/* The shape of such offsets; unused takes note of those already told. */
static inline shmt__index_args shmt__offset_args(shmt__bad_index* unused) {
  return (shmt__index_args){1, INT64_MAX, false, unused};
}

/* The elements of self, one after the other, where mask (bool, of self's sizes) is set; it is read once. New reference.
 * Errors: SHMT_E_NOMEM. */
shmt_status shmt__select_masked(shmt_tensor* self, shmt_tensor* mask, shmt_tensor** out);

/* Positions of the elements that are not zero: (count, n_dims), int64, each column dense. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__nonzero_positions(shmt_tensor* self, shmt_tensor** out);

#endif
