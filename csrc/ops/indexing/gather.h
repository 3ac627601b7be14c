/* ops/indexing/gather.h -- what gather and index_select check of their index. */
#ifndef SHMT_OPS_INDEXING_GATHER_H
#define SHMT_OPS_INDEXING_GATHER_H

#include "tensor/tensor.h"

/* A 0-d tensor as a vector of one element in *out, owned by *made; other tensors are borrowed. Errors: SHMT_E_NOMEM. */
shmt_status shmt__at_least_1d(shmt_tensor* t, shmt_tensor** made, shmt_tensor** out);
/* Checks for int32 or int64. Errors: SHMT_E_RUNTIME "name(): wording". */
shmt_status shmt__check_index_dtype(const char* name, const shmt_tensor* index, const char* wording);

#endif
