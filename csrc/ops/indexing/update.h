/* ops/indexing/update.h -- for operators that write some elements of a copy of self, or of self itself. */
#ifndef SHMT_OPS_INDEXING_UPDATE_H
#define SHMT_OPS_INDEXING_UPDATE_H

#include "iter/iter.h"
#include "tensor/tensor.h"

/* *out becomes a tensor with self's values: self itself in place, the preset output, or a copy (a new reference).
 * Errors: those of shmt__prepare_out. */
shmt_status shmt__begin_update(shmt_tensor* self, shmt_tensor** out);
/* The same; a new copy is contiguous, as results of scatter, index_add and their kin are. */
shmt_status shmt__begin_dense_update(shmt_tensor* self, shmt_tensor** out);
/* The expanded dims of t (stride 0, size above 1), as bits: all elements along them are one. */
uint64_t shmt__expanded_dims(const shmt_tensor* t);
/* *out = the first element along each of these dims, in the same memory (a new reference). */
shmt_status shmt__unexpanded(shmt_tensor* t, uint64_t dims, shmt_tensor** out);
/* Warns that the operator of this name writes to an expanded tensor. Errors: those of the warning's hook. */
shmt_status shmt__warn_expanded(const char* name);
/* Errors: SHMT_E_RUNTIME (torch's text) when out, if given, has an expanded dim. */
shmt_status shmt__check_not_expanded(const shmt_tensor* out);

#endif
