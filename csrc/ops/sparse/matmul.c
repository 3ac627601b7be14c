/* ops/sparse/matmul.c -- mm, mv, addmm and matmul with a sparse factor: which product is meant, and its gradients.
 *
 * Calls with a sparse argument come here at the key AutogradSparse, before Autograd records them, and go on as one of
 * the products of products.c, which have derivatives of their own: that of a sparse factor has entries where the factor
 * has.
 */
#include "base/scalar.h"
#include "dispatch/operator.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/sparse/sparse.h"

/* Kernels of the AutogradSparse key. The generated operator tables refer to them. */
shmt_status shmt__mm_sparse(shmt_keyset ks, shmt_tensor* self, shmt_tensor* mat2, shmt_tensor** out);
shmt_status shmt__mv_sparse(shmt_keyset ks, shmt_tensor* self, shmt_tensor* vec, shmt_tensor** out);
shmt_status shmt__addmm_sparse(shmt_keyset ks, shmt_tensor* self, shmt_tensor* mat1, shmt_tensor* mat2,
                               shmt_scalar beta, shmt_scalar alpha, shmt_tensor** out);

static shmt_status adjoint(shmt_tensor* t, shmt_tensor** out) { return shmt_op__adjoint(t, out); }

/* The product of two matrices of which one is sparse. */
static shmt_status multiply_coo(shmt_tensor* self, shmt_tensor* mat2, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  if (self->sparse && mat2->sparse) return shmt_op__sparse_sparse_matmul(self, mat2, out);
  if (self->sparse) return shmt_op__sparse_mm(self, mat2, out);
  SHMT_REQUIRE(mat2->sparse, SHMT_E_RUNTIME, "mm: the tensor to write to is sparse, but the product is not");
  SHMT_REQUIRE(self->n_dims == 2 && mat2->n_dims == 2, SHMT_E_RUNTIME, "addmm: matrices expected, got %dD tensor",
               self->n_dims == 2 ? (int)mat2->n_dims : (int)self->n_dims);
  SHMT_TRY(shmt_op_transpose_int(mat2, 0, 1, &left));
  SHMT_TRY(shmt_op_transpose_int(self, 0, 1, &right));
  SHMT_TRY(shmt_op__sparse_mm(left, right, &product));
  return shmt_op_transpose_int(product, 0, 1, out);
}

shmt_status shmt__mm_sparse(shmt_keyset ks, shmt_tensor* self, shmt_tensor* mat2, shmt_tensor** out) {
  (void)ks;
  return multiply_coo(self, mat2, out);
}

shmt_status shmt__mv_sparse(shmt_keyset ks, shmt_tensor* self, shmt_tensor* vec, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) column = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  (void)ks;
  SHMT_REQUIRE(self->n_dims == 2 && vec->n_dims == 1 && !vec->sparse, SHMT_E_RUNTIME,
               "mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: %d Tensor Dim: %d", (int)self->n_dims,
               (int)vec->n_dims);
  SHMT_REQUIRE(vec->sizes[0] == self->sizes[1], SHMT_E_RUNTIME, "mv: expected self.size(-1) == vec.size(-1)");
  SHMT_TRY(shmt_op_unsqueeze(vec, 1, &column));
  SHMT_TRY(multiply_coo(self, column, &product));
  return shmt_op_squeeze_dim(product, 1, out);
}

static bool is_one(shmt_scalar s) {
  double z[2];
  shmt__scalar_to_complex(s, z);
  return z[0] == 1 && z[1] == 0;
}

static bool is_zero(shmt_scalar s) {
  double z[2];
  shmt__scalar_to_complex(s, z);
  return z[0] == 0 && z[1] == 0;
}

static shmt_status scaled(shmt_tensor* t, shmt_scalar factor, shmt_tensor** out) {
  if (!is_one(factor)) return shmt_op_mul_Scalar(t, factor, out);
  *out = shmt__tensor_ref(t);
  return SHMT_OK;
}

/* beta * self + alpha * product; with beta 0, what self has (NaN, too) does not count. */
static shmt_status add_product(shmt_tensor* self, shmt_tensor* mat1, shmt_tensor* mat2, shmt_scalar beta,
                               shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_AUTO(shmt_tensor) term = NULL;
  SHMT_AUTO(shmt_tensor) own = NULL;
  SHMT_TRY(multiply_coo(mat1, mat2, &product));
  SHMT_TRY(scaled(product, alpha, &term));
  if (is_zero(beta) && !self->sparse && !term->sparse) {
    SHMT_AUTO(shmt_tensor) spread = NULL;
    SHMT_TRY(shmt_op_expand(self, shmt__tensor_sizes(term), false, &spread)); /* it must fit all the same */
    *out = SHMT_TAKE(term);
    return SHMT_OK;
  }
  SHMT_TRY(scaled(self, beta, &own));
  SHMT_TRY(shmt_op_add_Tensor(own, term, shmt__scalar_int(1), out));
  SHMT_REQUIRE(shmt__same_sizes(*out, term), SHMT_E_RUNTIME, "addmm: a tensor of size %s does not expand to %s",
               SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(term));
  return SHMT_OK;
}

shmt_status shmt__addmm_sparse(shmt_keyset ks, shmt_tensor* self, shmt_tensor* mat1, shmt_tensor* mat2,
                               shmt_scalar beta, shmt_scalar alpha, shmt_tensor** out) {
  (void)ks;
  return add_product(self, mat1, mat2, beta, alpha, out);
}

/* --- out= and in-place forms, which are not recorded here ------------------------------------------- */

shmt_status shmt__mm_sparse_out(shmt_tensor* self, shmt_tensor* mat2, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_TRY(multiply_coo(self, mat2, &product));
  if (*out && !(*out)->sparse && !product->sparse)
    SHMT_TRY(shmt__tensor_resize(*out, shmt__tensor_sizes(product), SHMT_MEMORY_FORMAT_NONE));
  return shmt__sparse_finish("mm", product, out);
}

shmt_status shmt__addmm_sparse_out(shmt_tensor* self, shmt_tensor* mat1, shmt_tensor* mat2, shmt_scalar beta,
                                   shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_TRY(add_product(self, mat1, mat2, beta, alpha, &sum));
  if (*out && *out != self && !(*out)->sparse && !sum->sparse)
    SHMT_TRY(shmt__tensor_resize(*out, shmt__tensor_sizes(sum), SHMT_MEMORY_FORMAT_NONE));
  return shmt__sparse_finish("addmm", sum, out);
}

shmt_status shmt__sparse_matmul(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  if (self->n_dims == 2 && other->n_dims == 2) return shmt_op_mm(self, other, out);
  if (self->n_dims == 2 && other->n_dims == 1 && self->sparse) return shmt_op_mv(self, other, out);
  if (self->n_dims == 3 && other->n_dims == 3) return shmt_op_bmm(self, other, out);
  /* A row, or rows that can be folded into a matrix. */
  if (other->n_dims == 2 && (self->n_dims == 1 || (self->n_dims > 2 && !self->sparse)))
    return shmt__matmul(self, other, out);
  SHMT_FAIL(SHMT_E_RUNTIME, "matmul: tensors of %d and %d dimensions with layouts %s and %s cannot be multiplied",
            (int)self->n_dims, (int)other->n_dims, shmt__layout_name(shmt__tensor_layout(self)),
            shmt__layout_name(shmt__tensor_layout(other)));
}

/* --- gradients ----------------------------------------------------------------------------------------- */

/* t, with no two entries in one place. */
static shmt_status pattern_of(shmt_tensor* t, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) plain = NULL;
  SHMT_TRY(shmt_op_detach(t, &plain));
  if (shmt__is_coo(plain)) return shmt_op_coalesce(plain, out);
  *out = SHMT_TAKE(plain);
  return SHMT_OK;
}

shmt_status shmt__sparse_mm_mat1_backward(shmt_tensor* grad, shmt_tensor* mat1, shmt_tensor* mat2, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) pattern = NULL;
  SHMT_AUTO(shmt_tensor) factor = NULL;
  SHMT_TRY(pattern_of(mat1, &pattern));
  SHMT_TRY(shmt_op_conj_physical(mat2, &factor));
  return shmt_op__sparse_sampled_mm(grad, factor, pattern, out);
}

shmt_status shmt__sparse_mm_mat2_backward(shmt_tensor* grad, shmt_tensor* mat1, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) swapped = NULL;
  SHMT_TRY(adjoint(mat1, &swapped));
  return shmt_op__sparse_mm(swapped, grad, out);
}

/* The gradient of either factor of a sampled product: the entries of grad times the other factor. */
shmt_status shmt__sparse_sampled_mm_backward(shmt_tensor* grad, shmt_tensor* mask, shmt_tensor* other, bool of_second,
                                             shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) entries = NULL;
  SHMT_AUTO(shmt_tensor) flipped = NULL;
  SHMT_AUTO(shmt_tensor) factor = NULL;
  if (grad->sparse)
    entries = shmt__tensor_ref(grad);
  else
    SHMT_TRY(shmt_op_sparse_mask(grad, mask, &entries));
  SHMT_TRY(shmt_op_conj_physical(other, &factor));
  if (!of_second) return shmt_op__sparse_mm(entries, factor, out);
  SHMT_TRY(shmt_op_transpose_int(entries, 0, 1, &flipped));
  return shmt_op__sparse_mm(flipped, factor, out);
}

static shmt_status masked_product(shmt_tensor* a, shmt_tensor* b, shmt_tensor* like, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_AUTO(shmt_tensor) pattern = NULL;
  SHMT_TRY(shmt_op_mm(a, b, &product));
  SHMT_TRY(pattern_of(like, &pattern));
  return shmt_op_sparse_mask(product, pattern, out);
}

shmt_status shmt__sparse_sparse_mm_backward(shmt_tensor* grad, shmt_tensor* mat1, shmt_tensor* mat2, bool of_second,
                                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flipped = NULL;
  SHMT_TRY(adjoint(of_second ? mat1 : mat2, &flipped));
  if (of_second) return masked_product(flipped, grad, mat2, out);
  return masked_product(grad, flipped, mat1, out);
}
