/* tensor/api.c -- the functions of api/tensor.h. */
#include "api/tensor.h"

#include "tensor/tensor.h"

int shmt_tensor_from_storage(shmt_storage* s, const int64_t* sizes, const int64_t* strides, int64_t n_dims,
                             int64_t storage_offset, int dtype, shmt_tensor** out) {
  int64_t dense[SHMT_MAX_DIMS], numel;
  SHMT_REQUIRE(dtype >= 0 && dtype < SHMT_N_DTYPES, SHMT_E_VALUE, "dtype code %d is none of 0 to %d", dtype,
               SHMT_N_DTYPES - 1);
  SHMT_REQUIRE(n_dims >= 0 && n_dims <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %d",
               SHMT_MAX_DIMS, (int)n_dims);
  shmt_ints sizes_list = {sizes, n_dims};
  if (strides == NULL) {
    SHMT_TRY(shmt__checked_numel(sizes_list, &numel));
    shmt__contiguous_strides(sizes_list, SHMT_CONTIGUOUS_FORMAT, dense);
    strides = dense;
  }
  return shmt__tensor_from_storage(s, sizes_list, (shmt_ints){strides, n_dims}, storage_offset, dtype, out);
}

void shmt_tensor_clear(shmt_tensor** place) {
  shmt_tensor* t = *place;
  *place = NULL;
  if (t != NULL) shmt__tensor_release(t);
}
