/* ops/sparse/parts.c -- reading the parts of sparse tensors: indices, values, nnz, numbers of dims. */
#include "dispatch/registry.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/sparse/sparse.h"

#include <inttypes.h>

static shmt_status alias(shmt_tensor* part, shmt_tensor** out) {
  return shmt__tensor_alias(part, shmt__tensor_sizes(part), shmt__tensor_strides(part), part->offset, out);
}

/* For what torch's dense backend has no kernel. */
static shmt_status require_sparse(const char* name, const shmt_tensor* t, bool needs_coo) {
  const bool fits = needs_coo ? shmt__is_coo(t) : t->sparse != NULL;
  SHMT_REQUIRE(fits, SHMT_E_NOT_IMPLEMENTED,
               "Could not run 'aten::%s' with arguments from the '%s' backend. The operator has no kernel for it.",
               name, shmt__dispatch_key_name(shmt__highest_key(shmt__tensor_backend(t))));
  return SHMT_OK;
}

shmt_status shmt__sparse_nnz_of(shmt_tensor* self, int64_t* out) {
  SHMT_TRY(require_sparse("_nnz", self, false));
  *out = shmt__sparse_nnz(self->sparse);
  return SHMT_OK;
}

shmt_status shmt__sparse_dim(shmt_tensor* self, int64_t* out) {
  *out = self->sparse ? self->sparse->sparse_dim : 0;
  return SHMT_OK;
}

shmt_status shmt__dense_dim(shmt_tensor* self, int64_t* out) {
  *out = self->sparse ? self->sparse->dense_dim : self->n_dims;
  return SHMT_OK;
}

shmt_status shmt__is_coalesced(shmt_tensor* self, bool* out) {
  SHMT_TRY(shmt__require_coo("is_coalesced", self));
  *out = self->sparse->is_coalesced;
  return SHMT_OK;
}

shmt_status shmt__set_coalesced(shmt_tensor* self, bool coalesced) {
  SHMT_TRY(require_sparse("_coalesced_", self, true));
  self->sparse->is_coalesced = coalesced;
  return SHMT_OK;
}

shmt_status shmt__raw_indices(shmt_tensor* self, shmt_tensor** out) {
  SHMT_TRY(require_sparse("_indices", self, true));
  return alias(self->sparse->indices, out);
}

shmt_status shmt__raw_values(shmt_tensor* self, shmt_tensor** out) {
  SHMT_TRY(require_sparse("_values", self, true));
  return alias(self->sparse->values, out);
}

static shmt_status require_coalesced(const char* name, const shmt_tensor* t) {
  SHMT_REQUIRE(t->sparse->is_coalesced, SHMT_E_RUNTIME,
               "Cannot get %s on an uncoalesced tensor, please call .coalesce() first", name);
  return SHMT_OK;
}

shmt_status shmt__coo_indices(shmt_tensor* self, shmt_tensor** out) {
  SHMT_TRY(shmt__require_coo("indices", self));
  SHMT_TRY(require_coalesced("indices", self));
  return alias(self->sparse->indices, out);
}

shmt_status shmt__sparse_values(shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "values expected sparse tensor layout but got Strided");
  if (shmt__is_coo(self)) SHMT_TRY(require_coalesced("values", self));
  return alias(self->sparse->values, out);
}

static shmt_status compressed_part(const char* name, const shmt_tensor* t, shmt_layout layout, bool plain,
                                   shmt_tensor** out) {
  SHMT_REQUIRE(
      t->sparse && t->sparse->layout == layout, SHMT_E_RUNTIME, "%s expected sparse %s tensor layout but got %s", name,
      layout == SHMT_SPARSE_CSR ? "row compressed" : "column compressed", shmt__layout_name(shmt__tensor_layout(t)));
  return alias(plain ? t->sparse->indices : t->sparse->compressed, out);
}

shmt_status shmt__crow_indices(shmt_tensor* self, shmt_tensor** out) {
  return compressed_part("crow_indices", self, SHMT_SPARSE_CSR, false, out);
}
shmt_status shmt__col_indices(shmt_tensor* self, shmt_tensor** out) {
  return compressed_part("col_indices", self, SHMT_SPARSE_CSR, true, out);
}
shmt_status shmt__ccol_indices(shmt_tensor* self, shmt_tensor** out) {
  return compressed_part("ccol_indices", self, SHMT_SPARSE_CSC, false, out);
}
shmt_status shmt__row_indices(shmt_tensor* self, shmt_tensor** out) {
  return compressed_part("row_indices", self, SHMT_SPARSE_CSC, true, out);
}

/* The gradient of values: entries at the same places. */
shmt_status shmt__sparse_values_backward(shmt_tensor* grad, shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) indices = NULL;
  const shmt_sparse* p = self->sparse;
  SHMT_REQUIRE(p, SHMT_E_RUNTIME, "values expected sparse tensor layout but got Strided");
  if (p->layout != SHMT_SPARSE_COO)
    return shmt_op__sparse_compressed_tensor_unsafe(p->compressed, p->indices, grad, shmt__tensor_sizes(self),
                                                    p->layout, out);
  SHMT_TRY(alias(p->indices, &indices));
  return shmt_op__sparse_coo_tensor_with_dims_and_tensors(p->sparse_dim, p->dense_dim, shmt__tensor_sizes(self),
                                                          indices, grad, (shmt_opt_bool){p->is_coalesced, true}, out);
}
