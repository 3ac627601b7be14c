/* iter/copy/copy.h -- copies and casts between tensors of any strides and dtypes. */
#ifndef SHMT_ITER_COPY_COPY_H
#define SHMT_ITER_COPY_COPY_H

#include "tensor/tensor.h"

/* dst[...] = src[...], broadcasting src, casting as needed. Meta: checks shapes only.
 * Errors: SHMT_E_RUNTIME when src does not broadcast to dst. No version bump. */
shmt_status shmt__tensor_copy(shmt_tensor* dst, shmt_tensor* src);
/* Copy nbytes between disjoint ranges, on several threads when there are many; streamed: with streaming stores. */
void shmt__copy_bytes(char* dst, const char* src, int64_t nbytes, bool streamed);
/* A contiguous (in `format`) tensor equal to t: t itself retained when it already is. New
 * reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__tensor_contiguous(shmt_tensor* t, shmt_memory_format format, shmt_tensor** out);
/* t in dtype: itself retained when it already has it. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__tensor_cast(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out);
/* Every element = value. Errors: SHMT_E_RUNTIME when the dtype cannot hold it. No version bump, no check of
 * read-only. */
shmt_status shmt__tensor_fill(shmt_tensor* t, shmt_scalar value);
/* A loop that converts n elements from one dtype to another, with byte strides; shmt__cast_loop(to, from) returns
 * it. */
typedef void (*shmt__cast_loop_fn)(char* dst, int64_t dst_stride, const char* src,
                                   int64_t src_stride, int64_t n);
shmt__cast_loop_fn shmt__cast_loop(shmt_dtype to, shmt_dtype from);

#endif
