/* ops/reduce/hash.c -- hash_tensor: the xor of all elements' bits. */
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/outputs.h"
#include "ops/reduce/reduce.h"

#include <inttypes.h>

/* A contiguous tensor with the dims of mask moved to the end. New reference. */
static shmt_status rows_to_hash(shmt_tensor* bits, uint64_t mask, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) permuted = NULL;
  int64_t order[SHMT_MAX_DIMS];
  int n = 0;

  for (int pass = 0; pass < 2; pass++)
    for (int d = 0; d < bits->n_dims; d++)
      if ((int)(mask >> d & 1) == pass) order[n++] = d;
  SHMT_TRY(shmt_op_permute(bits, (shmt_ints){order, n}, &permuted));
  return shmt__tensor_contiguous(permuted, SHMT_CONTIGUOUS_FORMAT, out);
}

shmt_status shmt__hash_tensor(shmt_tensor* self, shmt_ints dim, bool keepdim, int64_t mode, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) bits = NULL;
  SHMT_AUTO(shmt_tensor) rows = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  uint64_t mask;
  const int kind = shmt__dtype_kind[self->dtype];

  SHMT_REQUIRE(mode == 0, SHMT_E_RUNTIME, "hash_tensor: Unknown hash_tensor mode %" PRId64, mode);
  SHMT_REFUSE_DTYPE(kind == SHMT_KIND_COMPLEX, self->dtype, "xor_sum_cpu");
  if (*out) SHMT_TRY(shmt__check_out_dtype(*out, SHMT_UINT64));
  SHMT_TRY(shmt__dims_mask(dim, self->n_dims, &mask));
  SHMT_REQUIRE(self->numel > 0 || dim.len > 0, SHMT_E_RUNTIME,
               "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
               "with the 'dim' argument.");
  for (int d = 0; d < self->n_dims; d++)
    SHMT_REQUIRE(!(mask >> d & 1) || self->sizes[d] > 0, SHMT_E_INDEX,
                 "hash_tensor: Expected reduction dim %d to have non-zero size.", d);
  const int64_t n_dims = shmt__reduced_sizes(self, mask, keepdim, sizes);
  SHMT_TRY(shmt__output_begin("hash_tensor", out, (shmt_ints){sizes, n_dims}, SHMT_UINT64, self->device, &work));
  if (!shmt__tensor_is_meta(work) && work->numel > 0) {
    const bool is_float = kind == SHMT_KIND_FLOATING;
    SHMT_TRY(shmt__tensor_cast(self, is_float ? SHMT_FLOAT64 : SHMT_INT64, &wide));
    SHMT_TRY(rows_to_hash(wide, mask, &rows));
    const int64_t n = rows->numel / work->numel;
    const uint64_t* from = shmt__tensor_data(rows);
    uint64_t* to = shmt__tensor_data(work);
    for (int64_t i = 0; i < work->numel; i++) {
      uint64_t hash = 0;
      for (int64_t k = 0; k < n; k++) hash ^= *from++;
      to[i] = hash;
    }
  }
  return shmt__output_end("hash_tensor", &work, out);
}
