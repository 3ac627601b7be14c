/* ops/linalg/matrix_exp.c -- the exponential of matrices, by scaling and squaring.
 *
 * Note [Matrix exponential]
 * A matrix is halved until an approximant is good, and the approximant is squared as often. Squaring doubles the error
 * each time, so single precision is calculated in double, and 16-bit floats in single. There the Taylor polynomial of
 * degree 18, which takes five products and no division, is exact beyond single precision up to a norm of 2.6. (Bader,
 * Blanes, Casas, "Computing the matrix exponential with an optimized Taylor polynomial approximation", 2019.) Double
 * precision takes the [13/13] Pade approximant, exact up to 5.37. (Higham, "The scaling and squaring method for the
 * matrix exponential revisited", 2005.)
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/linalg/lapack.h"

#include <math.h>

/* How many elements of a batch are calculated together. The powers of a whole batch would be many times the result. */
enum { ELEMENTS_AT_ONCE = 1 << 15 };

/* How often each matrix is halved before the approximant, as a float tensor (..., 1, 1), and the least and the most of
 * these counts. */
static shmt_status halvings(shmt_tensor* a, double reach, shmt_tensor** out, int* least,
                            int* most) {
  SHMT_AUTO(shmt_tensor) size = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  SHMT_AUTO(shmt_tensor) norm = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;

  SHMT_TRY(shmt_op_abs(a, &size));
  SHMT_TRY(shmt_op_sum_dim_IntList(size, SHMT_INTS(-2), true, SHMT_DTYPE_NONE, &sums));
  SHMT_TRY(shmt_op_amax(sums, SHMT_INTS(-1), true, &norm));
  SHMT_TRY(shmt__tensor_contiguous(norm, SHMT_CONTIGUOUS_FORMAT, &dense));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(dense), dense->dtype, dense->device, SHMT_CONTIGUOUS_FORMAT, out));
  *least = *most = 0;
  if (shmt__tensor_is_meta(a)) return SHMT_OK;
  for (int64_t i = 0; i < dense->numel; i++) {
    const int64_t at = i * shmt__tensor_item_bytes(dense);
    const double x =
        shmt__scalar_to_double(shmt__scalar_load((const char*)shmt__tensor_data(dense) + at, dense->dtype));
    int n = x > reach && x - x == 0 ? (int)ceil(log2(x / reach)) : 0;
    shmt__scalar_store_unsafe(shmt__scalar_float(n), (*out)->dtype, (char*)shmt__tensor_data(*out) + at);
    if (i == 0 || n < *least) *least = n;
    if (n > *most) *most = n;
  }
  return SHMT_OK;
}

/* out = unit * I + the sum of factor[k] * power[k]. begin: out may overwrite power[0]. */
static shmt_status polynomial(shmt_tensor* const* power, const double* factor, int n, double unit, bool begin,
                              shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_AUTO(shmt_tensor) diagonal = NULL;

  if (begin) {
    sum = shmt__tensor_ref(power[0]);
    SHMT_TRY(shmt_op_mul__Scalar(sum, shmt__scalar_float(factor[0])));
  } else {
    SHMT_TRY(shmt_op_mul_Scalar(power[0], shmt__scalar_float(factor[0]), &sum));
  }
  for (int k = 1; k < n; k++) SHMT_TRY(shmt_op_add__Tensor(sum, power[k], shmt__scalar_float(factor[k])));
  if (unit != 0) {
    SHMT_TRY(shmt_op_diagonal(sum, 0, -2, -1, &diagonal));
    SHMT_TRY(shmt_op_add__Scalar(diagonal, shmt__scalar_float(unit), shmt__scalar_int(1)));
  }
  *out = SHMT_TAKE(sum);
  return SHMT_OK;
}

static shmt_status even_powers(shmt_tensor* a, shmt_tensor** a2, shmt_tensor** a4, shmt_tensor** a6) {
  SHMT_TRY(shmt_op_matmul(a, a, a2));
  SHMT_TRY(shmt_op_matmul(*a2, *a2, a4));
  return shmt_op_matmul(*a4, *a2, a6);
}

/* The Taylor polynomial of degree 18 in five products. The factors solve the equations of its coefficients. */
static shmt_status taylor_18(shmt_tensor* a, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a2 = NULL;
  SHMT_AUTO(shmt_tensor) a3 = NULL;
  SHMT_AUTO(shmt_tensor) a6 = NULL;
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) a9 = NULL;
  SHMT_AUTO(shmt_tensor) more = NULL;
  SHMT_AUTO(shmt_tensor) inner = NULL;
  SHMT_AUTO(shmt_tensor) low = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  const shmt_scalar one = shmt__scalar_int(1);

  SHMT_TRY(shmt_op_matmul(a, a, &a2));
  SHMT_TRY(shmt_op_matmul(a2, a, &a3));
  SHMT_TRY(shmt_op_matmul(a3, a3, &a6));
  shmt_tensor* const power[] = {a, a2, a3, a6};
  SHMT_TRY(polynomial(power,
                      (const double[]){-0.10036558103014462001, -0.00802924648241156960, -0.00089213849804572995}, 3, 0,
                      false, &left));
  SHMT_TRY(polynomial(power + 1,
                      (const double[]){-0.09233646193671185927, -0.01693649390020817171, -0.00001400867981820361}, 3, 0,
                      false, &right));
  SHMT_TRY(shmt_op_matmul(left, right, &a9));
  shmt__tensor_release(SHMT_TAKE(left));
  shmt__tensor_release(SHMT_TAKE(right));
  SHMT_TRY(polynomial(power, (const double[]){-0.06764045190713819075, 0.06759613017704596460, 0.02955525704293155274,
                                              -0.00001391802575160607},
                      4, -0.09043168323908105619, false, &more));
  SHMT_TRY(shmt_op_add__Tensor(a9, more, one));
  shmt__tensor_release(SHMT_TAKE(more));
  SHMT_TRY(polynomial(power, (const double[]){1.68015813878906197182, 0.05717798464788655127, -0.00698210122488052084,
                                              0.00003349750170860705},
                      4, -10.9676396052962062593, false, &inner));
  SHMT_TRY(shmt_op_add__Tensor(inner, a9, one));
  SHMT_TRY(shmt_op_matmul(inner, a9, &product));
  shmt__tensor_release(SHMT_TAKE(inner));
  shmt__tensor_release(SHMT_TAKE(a9));
  SHMT_TRY(polynomial(power, (const double[]){0.39784974949964507614, 1.36783778460411719922, 0.49828962252538267755,
                                              -0.00063789819459472330},
                      4, 0, false, &low));
  SHMT_TRY(shmt_op_add__Tensor(product, low, one));
  *out = SHMT_TAKE(product);
  return SHMT_OK;
}

/* a6 @ (the sum of high[k] * power[k]) + the sum of low[k] * power[k] + unit * I. */
static shmt_status half_13(shmt_tensor* const* power, const double* high, const double* low, double unit,
                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) inner = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;

  SHMT_TRY(polynomial(power, high, 3, 0, false, &inner));
  SHMT_TRY(shmt_op_matmul(power[0], inner, &product));
  shmt_tensor* const terms[] = {product, power[0], power[1], power[2]};
  return polynomial(terms, (const double[]){1, low[0], low[1], low[2]}, 4, unit, true, out);
}

/* The odd and the even part of the [13/13] approximant. */
static shmt_status parts_13(shmt_tensor* a, shmt_tensor** odd, shmt_tensor** even) {
  static const double b = 64764752532480000.0;
  SHMT_AUTO(shmt_tensor) a2 = NULL;
  SHMT_AUTO(shmt_tensor) a4 = NULL;
  SHMT_AUTO(shmt_tensor) a6 = NULL;
  SHMT_AUTO(shmt_tensor) inner = NULL;

  SHMT_TRY(even_powers(a, &a2, &a4, &a6));
  shmt_tensor* const power[] = {a6, a4, a2};
  SHMT_TRY(half_13(power, (const double[]){1 / b, 16380 / b, 40840800 / b},
                   (const double[]){33522128640.0 / b, 10559470521600.0 / b, 1187353796428800.0 / b}, 0.5, &inner));
  SHMT_TRY(shmt_op_matmul(a, inner, odd));
  return half_13(power, (const double[]){182 / b, 960960 / b, 1323241920 / b},
                 (const double[]){670442572800.0 / b, 129060195264000.0 / b, 7771770303897600.0 / b}, 1, even);
}

/* The approximant of *a, which is released. */
static shmt_status approximant(shmt_tensor** a, bool is_single, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) halved = SHMT_TAKE(*a);
  SHMT_AUTO(shmt_tensor) odd = NULL;
  SHMT_AUTO(shmt_tensor) even = NULL;
  SHMT_AUTO(shmt_tensor) above = NULL;

  if (is_single) return taylor_18(halved, out);
  SHMT_TRY(parts_13(halved, &odd, &even));
  SHMT_TRY(shmt_op_add_Tensor(even, odd, shmt__scalar_int(1), &above));
  SHMT_TRY(shmt_op_sub__Tensor(even, odd, shmt__scalar_int(1)));
  shmt__tensor_release(SHMT_TAKE(halved));
  shmt__tensor_release(SHMT_TAKE(odd));
  return shmt_op_linalg_solve(even, above, true, out);
}

static shmt_status square(shmt_tensor* counts, int i, bool all, shmt_tensor** power) {
  SHMT_AUTO(shmt_tensor) old = SHMT_TAKE(*power);
  SHMT_AUTO(shmt_tensor) squared = NULL;
  SHMT_AUTO(shmt_tensor) wanted = NULL;

  if (all) return shmt_op_matmul(old, old, power);
  SHMT_TRY(shmt_op_matmul(old, old, &squared));
  SHMT_TRY(shmt_op_gt_Scalar(counts, shmt__scalar_int(i), &wanted));
  return shmt_op_where_self(wanted, squared, old, power);
}

/* The exponential of *a, which is in double precision and released. */
static shmt_status exponential(shmt_tensor** a, bool is_single, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = SHMT_TAKE(*a);
  SHMT_AUTO(shmt_tensor) counts = NULL;
  SHMT_AUTO(shmt_tensor) factor = NULL;
  SHMT_AUTO(shmt_tensor) small = NULL;
  SHMT_AUTO(shmt_tensor) power = NULL;
  int least, most;

  SHMT_TRY(halvings(wide, is_single ? 2.6 : 5.37, &counts, &least, &most));
  if (most == 0) {
    small = SHMT_TAKE(wide);
  } else {
    SHMT_TRY(shmt_op_pow_Scalar(shmt__scalar_float(0.5), counts, &factor));
    SHMT_TRY(shmt_op_mul_Tensor(wide, factor, &small));
    shmt__tensor_release(SHMT_TAKE(wide));
  }
  SHMT_TRY(approximant(&small, is_single, &power));
  for (int i = 0; i < most; i++) SHMT_TRY(square(counts, i, i < least, &power));
  *out = SHMT_TAKE(power);
  return SHMT_OK;
}

/* The exponential of all matrices at once: a new, dense tensor. */
static shmt_status exponential_of(shmt_tensor* self, shmt_dtype work, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) narrow = NULL;

  SHMT_TRY(shmt_op_to_dtype(self, work, false, false, SHMT_MEMORY_FORMAT_NONE, &wide));
  SHMT_TRY(exponential(&wide, self->dtype != work, &result));
  SHMT_TRY(shmt_op_to_dtype(result, self->dtype, false, false, SHMT_MEMORY_FORMAT_NONE, &narrow));
  return shmt_op_contiguous(narrow, SHMT_CONTIGUOUS_FORMAT, out);
}

shmt_status shmt__matrix_exp(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) matrices = NULL;
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  const shmt_dtype work = shmt__is_complex(self->dtype) ? SHMT_COMPLEX128
                          : shmt__is_half(self->dtype)  ? SHMT_FLOAT32
                                                        : SHMT_FLOAT64;

  SHMT_TRY(shmt__check_float_dtype("linalg.matrix_exp", self));
  SHMT_TRY(shmt__check_square("linalg.matrix_exp", "A", self));
  if (self->numel == 0) return shmt_op_clone(self, SHMT_CONTIGUOUS_FORMAT, out);
  const int64_t n = self->sizes[self->n_dims - 1], count = self->numel / (n * n);
  const int64_t some = n * n < ELEMENTS_AT_ONCE ? ELEMENTS_AT_ONCE / (n * n) : 1;
  if (count <= some || shmt__tensor_is_meta(self)) return exponential_of(self, work, out);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(count, n, n), &matrices));
  SHMT_TRY(shmt_op_reshape(result, SHMT_INTS(count, n, n), &positions));
  for (int64_t i = 0; i < count; i += some) {
    SHMT_AUTO(shmt_tensor) given = NULL;
    SHMT_AUTO(shmt_tensor) place = NULL;
    SHMT_AUTO(shmt_tensor) found = NULL;
    const int64_t many = count - i < some ? count - i : some;
    SHMT_TRY(shmt_op_narrow(matrices, 0, i, many, &given));
    SHMT_TRY(shmt_op_narrow(positions, 0, i, many, &place));
    SHMT_TRY(exponential_of(given, work, &found));
    SHMT_TRY(shmt__tensor_copy(place, found));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
