/* ops/update.h -- operators that change some places of a copy of self, or of self itself. */
#ifndef SHMT_OPS_UPDATE_H
#define SHMT_OPS_UPDATE_H

#include "iter/iter.h"
#include "tensor/tensor.h"

/* *out becomes a tensor with self's values: self itself in place, the preset output, or a copy (a new reference).
 * Errors: those of shmt__prepare_out. */
shmt_status shmt__begin_update(shmt_tensor* self, shmt_tensor** out);
/* The same; a new copy is contiguous, as results of scatter, index_add and their kin are. */
shmt_status shmt__begin_dense_update(shmt_tensor* self, shmt_tensor** out);
/* Errors: SHMT_E_RUNTIME (torch's text) when a dimension of out, if given, has stride 0: its elements are one. */
shmt_status shmt__check_not_expanded(const shmt_tensor* out);

/* scatter of src by the loops SHMT_LOOP_scatter_<...> of a row, checked as scatter checks. Errors: those. */
shmt_status shmt__scatter_by(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* src, int row,
                             shmt_tensor** out);

#endif
