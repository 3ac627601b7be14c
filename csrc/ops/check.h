/* ops/check.h -- argument checks that several families share. */
#ifndef SHMT_OPS_CHECK_H
#define SHMT_OPS_CHECK_H

#include "ops/names.h"
#include "tensor/tensor.h"

/* Meta when any of the tensors is (NULL entries are skipped), else CPU. */
static inline shmt_device shmt__common_device(const shmt_tensor* a, const shmt_tensor* b, const shmt_tensor* c) {
  return (a && a->device == SHMT_META) || (b && b->device == SHMT_META) || (c && c->device == SHMT_META) ? SHMT_META
                                                                                                       : SHMT_CPU;
}

/* Does t have exactly these sizes? */
static inline bool shmt__sizes_are(const shmt_tensor* t, shmt_ints sizes) {
  bool same = t->n_dims == sizes.len;

  for (int d = 0; same && d < t->n_dims; d++) same = t->sizes[d] == sizes.data[d];
  return same;
}

/* Does the loop row have this dtype? Errors: SHMT_E_NOT_IMPLEMENTED "\"what\" not implemented for 'Bool'". */
#define SHMT_REQUIRE_LOOP(row, dtype, what)                                                             \
  SHMT_REQUIRE(shmt__loops[row][dtype] != NULL, SHMT_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", \
               what, shmt__dtype_title(dtype))

#endif
