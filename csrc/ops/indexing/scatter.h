/* ops/indexing/scatter.h -- scatter by the loops of a row. */
#ifndef SHMT_OPS_INDEXING_SCATTER_H
#define SHMT_OPS_INDEXING_SCATTER_H

#include "tensor/tensor.h"

/* Scatters src with the loops SHMT_LOOP_scatter_<...> of a row. Errors: those of scatter. */
shmt_status shmt__scatter_by(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* src,
                             int row, shmt_tensor** out);

/* May source be added to self, or combined with it, at the places of dim that index names? name: of the operator. dim
 * is wrapped. */
shmt_status shmt__check_index_source(const char* name, const shmt_tensor* self, int64_t dim, const shmt_tensor* index,
                                     const shmt_tensor* source);

#endif
