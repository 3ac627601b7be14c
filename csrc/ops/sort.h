/* ops/sort.h -- sorting for operators that build on it. */
#ifndef SHMT_OPS_SORT_H
#define SHMT_OPS_SORT_H

#include "tensor/tensor.h"

/* A vector sorted ascending and stably, with where its elements were. Two new references, dense. */
shmt_status shmt__sorted_line(shmt_tensor* self, shmt_tensor** values, shmt_tensor** indices);

#endif
