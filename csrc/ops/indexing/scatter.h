/* ops/indexing/scatter.h -- scatter by the loops of a row. */
#ifndef SHMT_OPS_INDEXING_SCATTER_H
#define SHMT_OPS_INDEXING_SCATTER_H

#include "tensor/tensor.h"

/* Scatters src with the loops SHMT_LOOP_scatter_<...> of a row. Errors: those of scatter. */
shmt_status shmt__scatter_by(const char* name, shmt_tensor* self, int64_t dim, shmt_tensor* index, shmt_tensor* src,
                             int row, shmt_tensor** out);

#endif
