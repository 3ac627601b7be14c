/* ops/sparse/arithmetic.c -- sums, products and quotients with a sparse tensor.
 *
 * Sums of two sparse tensors merge their entries as torch does: both are read in order, entries that stand at the same
 * place at the same time become one. Of coalesced tensors the sum is coalesced; of others it may have several entries
 * for a place. Where values are not contiguous, as those of an expanded gradient, the entries of both follow each other
 * instead, and are coalesced only when they are more than the tensor has elements.
 */
#include "base/dtype.h"
#include "base/promote.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "kernels/sparse/sparse.h"
#include "ops/check.h"
#include "ops/sparse/sparse.h"

#include <inttypes.h>
#include <string.h>

/* --- sparse + sparse ------------------------------------------------------------------------------ */

/* Adds alpha times row k of values, of n, to the row of sums that row_positions[k] names. */
static void add_rows(shmt_tensor* sums, const shmt_tensor* values, int64_t* row_positions, int64_t n, int64_t width,
                     shmt_scalar alpha) {
  if (n == 0 || width == 0) return;
  for (int64_t k = 0; k < n; k++) row_positions[k] *= width;
  const shmt__sparse_args args = {.alpha = alpha, .rows = row_positions, .width = width, .step2 = width};
  shmt__loops[SHMT_LOOP_sparse_add_rows][sums->dtype](
      (char* const[]){shmt__tensor_data(sums), shmt__tensor_data(values)}, NULL, n, &args);
}

static shmt_status check_alike(const shmt_tensor* a, const shmt_tensor* b) {
  SHMT_REQUIRE(shmt__same_sizes(a, b), SHMT_E_RUNTIME,
               "add: expected sizes of 'self' and 'other' to match, but %s != %s", SHMT_SHAPE_TEXT(a),
               SHMT_SHAPE_TEXT(b));
  SHMT_REQUIRE(
      a->sparse->sparse_dim == b->sparse->sparse_dim, SHMT_E_RUNTIME,
      "add: expected 'self' and 'other' to have same density, but 'self' has %d sparse dimensions while 'other' has %d "
      "sparse dimensions",
      (int)a->sparse->sparse_dim, (int)b->sparse->sparse_dim);
  return SHMT_OK;
}

/* The entries of a, then those of alpha * b. */
static shmt_status join_entries(shmt_tensor* a, shmt_tensor* b, shmt_tensor* a_values, shmt_tensor* b_values,
                                shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_AUTO(shmt_tensor) joined = NULL;
  const uint64_t cpu = SHMT_KEYBIT_CPU;

  SHMT_TRY(shmt_op_mul_Scalar_below(cpu, b_values, alpha, &scaled));
  SHMT_TRY(shmt_op_cat_below(cpu, (shmt_tensors){(shmt_tensor*[]){a_values, scaled}, 2}, 0, &values));
  SHMT_TRY(shmt_op_cat_below(cpu, (shmt_tensors){(shmt_tensor*[]){a->sparse->indices, b->sparse->indices}, 2}, 1,
                             &indices));
  SHMT_TRY(shmt__make_coo(shmt__tensor_sizes(a), a->sparse->sparse_dim, indices, values, false, &joined));
  if (shmt__sparse_nnz(joined->sparse) > a->numel) return shmt__sparse_coalesce(joined, out);
  *out = SHMT_TAKE(joined);
  return SHMT_OK;
}

/* a + alpha * b, both in coordinate format. */
static shmt_status add_coo(shmt_tensor* a, shmt_tensor* b, shmt_scalar alpha, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  SHMT_AUTO(shmt_tensor) found = NULL;
  SHMT_AUTO(shmt_tensor) a_cast = NULL;
  SHMT_AUTO(shmt_tensor) b_cast = NULL;
  SHMT_AUTO(shmt_tensor) a_values = NULL;
  SHMT_AUTO(shmt_tensor) b_values = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_TRY(check_alike(a, b));
  SHMT_REFUSE_DTYPE(dtype == SHMT_BOOL, dtype, "cadd_sparse");
  SHMT_REQUIRE_LOOP(SHMT_LOOP_sparse_add_rows, dtype, "cadd_sparse");
  SHMT_TRY(shmt__sparse_check_memory(a->sparse));
  SHMT_TRY(shmt__sparse_check_memory(b->sparse));
  SHMT_TRY(shmt__tensor_cast(a->sparse->values, dtype, &a_cast));
  SHMT_TRY(shmt__tensor_cast(b->sparse->values, dtype, &b_cast));
  if (!shmt__tensor_is_contiguous(a_cast) || !shmt__tensor_is_contiguous(b_cast))
    return join_entries(a, b, a_cast, b_cast, alpha, out);
  SHMT_TRY(shmt__coo_positions(a, &first));
  SHMT_TRY(shmt__coo_positions(b, &second));
  const int64_t n_a = first->numel, n_b = second->numel;
  int64_t *at_a = shmt__int64s(first), *at_b = shmt__int64s(second), i = 0, j = 0, n = 0;
  SHMT_TRY(shmt__new_int64s(n_a + n_b, &found));
  int64_t* position = shmt__int64s(found);
  /* The positions are replaced by the entries of the sum that they go to. */
  for (; i < n_a || j < n_b; n++) {
    const bool takes_a = i < n_a && (j == n_b || at_a[i] <= at_b[j]);
    const bool takes_b = j < n_b && (i == n_a || at_b[j] <= at_a[i]);
    position[n] = takes_a ? at_a[i] : at_b[j];
    if (takes_a) at_a[i++] = n;
    if (takes_b) at_b[j++] = n;
  }
  SHMT_TRY(shmt__tensor_contiguous(a_cast, SHMT_CONTIGUOUS_FORMAT, &a_values));
  SHMT_TRY(shmt__tensor_contiguous(b_cast, SHMT_CONTIGUOUS_FORMAT, &b_values));
  sizes[0] = n;
  for (int d = 1; d < a_values->n_dims; d++) sizes[d] = a_values->sizes[d];
  SHMT_TRY(shmt__tensor_zeros((shmt_ints){sizes, a_values->n_dims}, dtype, SHMT_CPU, &sums));
  const int64_t width = shmt__tensor_extent(a_values, 1, a_values->n_dims);
  add_rows(sums, a_values, at_a, n_a, width, shmt__scalar_int(1));
  add_rows(sums, b_values, at_b, n_b, width, alpha);
  SHMT_TRY(shmt__unflatten_positions(position, n, (shmt_ints){a->sizes, a->sparse->sparse_dim}, &indices));
  return shmt__make_coo(shmt__tensor_sizes(a), a->sparse->sparse_dim, indices, sums,
                        a->sparse->is_coalesced && b->sparse->is_coalesced, out);
}

/* --- add and sub ----------------------------------------------------------------------------------- */

static shmt_status check_alpha(shmt_scalar alpha, shmt_dtype dtype) {
  const int kind = shmt__dtype_kind[dtype];
  SHMT_REQUIRE(kind >= SHMT_KIND_FLOATING || (alpha.tag != SHMT_SCALAR_FLOAT && alpha.tag != SHMT_SCALAR_COMPLEX),
               SHMT_E_RUNTIME, "For integral input tensors, argument alpha must not be a floating point number.");
  SHMT_REQUIRE(kind == SHMT_KIND_COMPLEX || alpha.tag != SHMT_SCALAR_COMPLEX, SHMT_E_RUNTIME,
               "For non-complex input tensors, argument alpha must not be a complex number.");
  return SHMT_OK;
}

/* dense + alpha * sparse, of the dense one's layout. */
static shmt_status add_to_dense(shmt_tensor* dense, shmt_tensor* t, shmt_scalar alpha, shmt_dtype dtype,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_REQUIRE(shmt__same_sizes(dense, t), SHMT_E_RUNTIME,
               "add: expected 'self' and 'other' to have same size, but self has size %s while other has size %s (FYI: "
               "dense-sparse addition does not currently support broadcasting)",
               SHMT_SHAPE_TEXT(dense), SHMT_SHAPE_TEXT(t));
  SHMT_REQUIRE(!shmt__tensor_is_meta(dense), SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  if (*out == dense && dense->dtype == dtype && shmt__tensor_is_contiguous(dense))
    return shmt__add_entries(dense, t, alpha); /* in place */
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(dense), dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &sum));
  SHMT_TRY(shmt__tensor_copy(sum, dense));
  SHMT_TRY(shmt__add_entries(sum, t, alpha));
  if (*out && !(*out)->sparse) {
    SHMT_REQUIRE(shmt__can_cast(dtype, (*out)->dtype), SHMT_E_RUNTIME,
                 "Can't convert result type %s to output %s in add operation", shmt__dtype_title(dtype),
                 shmt__dtype_title((*out)->dtype));
    SHMT_TRY(shmt__tensor_resize(*out, shmt__tensor_sizes(sum), SHMT_MEMORY_FORMAT_NONE));
    return shmt__tensor_copy(*out, sum);
  }
  return shmt__sparse_finish("add", sum, out);
}

static shmt_status add_compressed(shmt_tensor* a, shmt_tensor* b, shmt_scalar alpha, shmt_dtype dtype,
                                  shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  SHMT_TRY(shmt__as_coalesced(a, &first));
  SHMT_TRY(shmt__as_coalesced(b, &second));
  SHMT_TRY(add_coo(first, second, alpha, dtype, &sum));
  return shmt__to_layout_now(sum, a->sparse->layout, 2, out);
}

shmt_status shmt__sparse_add(shmt_tensor* self, shmt_tensor* other, shmt_scalar alpha, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;
  shmt_dtype dtype;
  SHMT_TRY(shmt__promote_types(self->dtype, other->dtype, &dtype));
  SHMT_TRY(check_alpha(alpha, dtype));
  if (!self->sparse && other->sparse) return add_to_dense(self, other, alpha, dtype, out);
  if (self->sparse && other->sparse) {
    if (shmt__is_coo(self) && shmt__is_coo(other))
      SHMT_TRY(add_coo(self, other, alpha, dtype, &sum));
    else
      SHMT_TRY(add_compressed(self, other, alpha, dtype, &sum));
    return shmt__sparse_finish("add", sum, out);
  }
  SHMT_REQUIRE(self->sparse || other->sparse, SHMT_E_RUNTIME,
               "add: the tensor to write to is sparse, but the sum is not");
  SHMT_REQUIRE(shmt__is_compressed(self) && other->n_dims > 0, SHMT_E_RUNTIME,
               "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  if (shmt__scalar_to_double(alpha) == 1) return add_to_dense(other, self, alpha, dtype, out);
  SHMT_AUTO(shmt_tensor) scaled = NULL;
  SHMT_TRY(shmt_op_mul_Scalar(other, alpha, &scaled));
  return add_to_dense(scaled, self, shmt__scalar_int(1), dtype, out);
}

shmt_status shmt__sparse_sub(shmt_tensor* self, shmt_tensor* other, shmt_scalar alpha, shmt_tensor** out) {
  switch (alpha.tag) {
    case SHMT_SCALAR_FLOAT:
      alpha.v.d = -alpha.v.d;
      break;
    case SHMT_SCALAR_COMPLEX:
      alpha.v.z[0] = -alpha.v.z[0];
      alpha.v.z[1] = -alpha.v.z[1];
      break;
    default:
      alpha = shmt__scalar_int((int64_t)(0 - (uint64_t)shmt__scalar_to_int64(alpha)));
  }
  return shmt__sparse_add(self, other, alpha, out);
}

/* --- by numbers -------------------------------------------------------------------------------------- */

shmt_status shmt__sparse_neg(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "neg: the tensor to write to is sparse, but the result is not");
  SHMT_TRY(shmt__sparse_check_memory(self->sparse));
  SHMT_TRY(shmt_op_neg_below(SHMT_KEYBIT_CPU, self->sparse->values, &values));
  SHMT_TRY(shmt__sparse_with_new_values(self, values, &result));
  return shmt__sparse_finish("neg", result, out);
}

shmt_status shmt__sparse_conj_complex(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "conj_physical: the tensor to write to is sparse, but the result is not");
  SHMT_TRY(shmt__sparse_check_memory(self->sparse));
  SHMT_TRY(shmt_op__conj_complex_below(SHMT_KEYBIT_CPU, self->sparse->values, &values));
  SHMT_TRY(shmt__sparse_with_new_values(self, values, &result));
  return shmt__sparse_finish("conj_physical", result, out);
}

static shmt_status check_divisor(const shmt_tensor* self, const shmt_tensor* other) {
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "div: a dense tensor cannot be divided by a sparse one");
  SHMT_REQUIRE(!other->sparse, SHMT_E_RUNTIME, "Sparse division requires a dense divisor, but got one of layout %s",
               shmt__layout_name(shmt__tensor_layout(other)));
  SHMT_REQUIRE(other->n_dims == 0, SHMT_E_RUNTIME,
               "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape %s for divisor)",
               SHMT_SHAPE_TEXT(other));
  return SHMT_OK;
}

shmt_status shmt__sparse_div(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_TRY(check_divisor(self, other));
  SHMT_TRY(shmt__sparse_check_memory(self->sparse));
  SHMT_TRY(shmt_op_div_Tensor_below(SHMT_KEYBIT_CPU, self->sparse->values, other, &values));
  SHMT_TRY(shmt__sparse_with_new_values(self, values, &result));
  return shmt__sparse_finish("div", result, out);
}

/* Rounded quotients do not add up: entries of one place are added first. */
shmt_status shmt__sparse_div_mode(shmt_tensor* self, shmt_tensor* other, const char* rounding_mode, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coalesced = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  if (!rounding_mode) return shmt__sparse_div(self, other, out);
  SHMT_TRY(check_divisor(self, other));
  if (shmt__is_coo(self))
    SHMT_TRY(shmt__as_coalesced(self, &coalesced));
  else
    coalesced = shmt__tensor_ref(self);
  SHMT_TRY(shmt__sparse_check_memory(coalesced->sparse));
  SHMT_TRY(shmt_op_div_Tensor_mode_below(SHMT_KEYBIT_CPU, coalesced->sparse->values, other, rounding_mode, &values));
  SHMT_TRY(shmt__sparse_with_new_values(coalesced, values, &result));
  return shmt__sparse_finish("div", result, out);
}

shmt_status shmt__sparse_floor_divide(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  return shmt__sparse_div_mode(self, other, "floor", out);
}

shmt_status shmt__sparse_pow(shmt_tensor* self, shmt_scalar exponent, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) coalesced = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  double z[2];
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "pow: the tensor to write to is sparse, but the result is not");
  shmt__scalar_to_complex(exponent, z);
  SHMT_REQUIRE(z[0] != 0 || z[1] != 0, SHMT_E_RUNTIME,
               "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense");
  if (shmt__is_coo(self))
    SHMT_TRY(shmt__as_coalesced(self, &coalesced));
  else
    coalesced = shmt__tensor_ref(self);
  SHMT_TRY(shmt__sparse_check_memory(coalesced->sparse));
  SHMT_TRY(shmt_op_pow_Tensor_Scalar_below(SHMT_KEYBIT_CPU, coalesced->sparse->values, exponent, &values));
  SHMT_TRY(shmt__sparse_with_new_values(coalesced, values, &result));
  return shmt__sparse_finish("pow", result, out);
}

/* --- mul ------------------------------------------------------------------------------------------------ */

/* The elements of dense, broadcast to t's size, at the places of t's entries: (nnz, dense dims). */
static shmt_status broadcast_at(shmt_tensor* t, shmt_tensor* dense, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  shmt_tensor* index[SHMT_MAX_DIMS] = {0};
  shmt_status status = SHMT_OK;
  const int n = t->sparse->sparse_dim;
  int64_t sizes[SHMT_MAX_DIMS], n_dims;
  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(dense), shmt__tensor_sizes(t), sizes, &n_dims));
  SHMT_REQUIRE(shmt__same_ints((shmt_ints){sizes, n_dims}, shmt__tensor_sizes(t)), SHMT_E_RUNTIME,
               "mul: a sparse tensor of size %s is not broadcast to the size of a dense one, %s", SHMT_SHAPE_TEXT(t),
               SHMT_SHAPE_TEXT(dense));
  SHMT_TRY(shmt_op_expand_below(SHMT_KEYBIT_CPU, dense, shmt__tensor_sizes(t), false, &spread));
  if (n == 0) return shmt_op_unsqueeze_below(SHMT_KEYBIT_CPU, spread, 0, out);
  if (shmt__is_coo(t)) {
    SHMT_TRY(shmt__coo_positions(t, &first));
    SHMT_TRY(shmt__unflatten_positions(shmt__int64s(first), first->numel, (shmt_ints){t->sizes, n}, &second));
    for (int d = 0; d < n && status == SHMT_OK; d++)
      status = shmt__tensor_alias(second, SHMT_INTS(first->numel), SHMT_INTS(1), d * first->numel, &index[d]);
  } else {
    SHMT_TRY(shmt__matrix_entries(t, &first, &second));
    index[0] = shmt__tensor_ref(first);
    index[1] = shmt__tensor_ref(second);
  }
  if (status == SHMT_OK)
    status = shmt_op_index_Tensor_below(SHMT_KEYBIT_CPU, spread, (shmt_tensors){index, n}, out);
  for (int d = 0; d < n; d++) shmt__tensor_release(index[d]);
  return status;
}

/* Of each entry of a, the place of b's entry at the same position, -1 where there is none. b is coalesced. */
static void find_partners(const shmt_tensor* a_positions, const shmt_tensor* b_positions, int64_t* to) {
  const int64_t *want = shmt__int64s(a_positions), *have = shmt__int64s(b_positions), n = b_positions->numel;
  for (int64_t k = 0; k < a_positions->numel; k++) {
    int64_t low = 0, high = n;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (have[middle] < want[k])
        low = middle + 1;
      else
        high = middle;
    }
    to[k] = low < n && have[low] == want[k] ? low : -1;
  }
}

static shmt_status check_factors(const shmt_tensor* a, const shmt_tensor* b) {
  SHMT_REQUIRE(shmt__same_sizes(a, b), SHMT_E_RUNTIME,
               "mul: expected sizes of 'self' and 'other' to match, but %s != %s", SHMT_SHAPE_TEXT(a),
               SHMT_SHAPE_TEXT(b));
  SHMT_REQUIRE(a->sparse->sparse_dim == b->sparse->sparse_dim, SHMT_E_RUNTIME,
               "mul: expected 'self' and 'other' to have same density, but they have %d and %d sparse dimensions",
               (int)a->sparse->sparse_dim, (int)b->sparse->sparse_dim);
  return SHMT_OK;
}

/* a is not coalesced: each of its entries stays, times that of b at its place, or times 0. */
static shmt_status mul_uncoalesced(shmt_tensor* a, shmt_tensor* b, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) factors = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_TRY(shmt__sparse_values_at(b, a, &factors));
  SHMT_TRY(shmt_op_mul_Tensor_below(SHMT_KEYBIT_CPU, a->sparse->values, factors, &values));
  return shmt__sparse_with_new_values(a, values, out);
}

/* Of two coordinate tensors. Where both are coalesced, the result has the entries that both have. */
static shmt_status mul_coo(shmt_tensor* a, shmt_tensor* b, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  SHMT_AUTO(shmt_tensor) partners = NULL;
  SHMT_AUTO(shmt_tensor) from_a = NULL;
  SHMT_AUTO(shmt_tensor) from_b = NULL;
  SHMT_AUTO(shmt_tensor) left = NULL;
  SHMT_AUTO(shmt_tensor) right = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) indices = NULL;
  SHMT_TRY(check_factors(a, b));
  if (!a->sparse->is_coalesced) return mul_uncoalesced(a, b, out);
  if (!b->sparse->is_coalesced) return mul_uncoalesced(b, a, out);
  SHMT_TRY(shmt__coo_positions(a, &first));
  SHMT_TRY(shmt__coo_positions(b, &second));
  SHMT_TRY(shmt__new_int64s(first->numel, &partners));
  find_partners(first, second, shmt__int64s(partners));
  int64_t n = 0, at = 0, *partner = shmt__int64s(partners), *position = shmt__int64s(first);
  for (int64_t k = 0; k < first->numel; k++) n += partner[k] >= 0;
  SHMT_TRY(shmt__new_int64s(n, &from_a));
  SHMT_TRY(shmt__new_int64s(n, &from_b));
  for (int64_t k = 0; k < first->numel; k++) {
    if (partner[k] < 0) continue;
    shmt__int64s(from_a)[at] = k;
    shmt__int64s(from_b)[at] = partner[k];
    position[at++] = position[k]; /* at <= k */
  }
  SHMT_TRY(shmt__sparse_check_memory(a->sparse));
  SHMT_TRY(shmt__sparse_check_memory(b->sparse));
  SHMT_TRY(shmt_op_index_select_below(SHMT_KEYBIT_CPU, a->sparse->values, 0, from_a, &left));
  SHMT_TRY(shmt_op_index_select_below(SHMT_KEYBIT_CPU, b->sparse->values, 0, from_b, &right));
  SHMT_TRY(shmt_op_mul_Tensor_below(SHMT_KEYBIT_CPU, left, right, &values));
  SHMT_TRY(shmt__unflatten_positions(position, n, (shmt_ints){a->sizes, a->sparse->sparse_dim}, &indices));
  return shmt__make_coo(shmt__tensor_sizes(a), a->sparse->sparse_dim, indices, values, true, out);
}

static shmt_status mul_compressed(shmt_tensor* a, shmt_tensor* b, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_TRY(shmt__as_coalesced(a, &first));
  SHMT_TRY(shmt__as_coalesced(b, &second));
  SHMT_TRY(mul_coo(first, second, &product));
  if (shmt__is_coo(a)) {
    *out = SHMT_TAKE(product);
    return SHMT_OK;
  }
  return shmt__to_layout_now(product, a->sparse->layout, 2, out);
}

/* t times a dense tensor; a number and a tensor without dims multiply the values as they are. */
static shmt_status mul_dense(shmt_tensor* t, shmt_tensor* dense, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) factors = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_REQUIRE(!shmt__tensor_is_meta(dense), SHMT_E_NOT_IMPLEMENTED, "there are no sparse meta tensors");
  SHMT_TRY(shmt__sparse_check_memory(t->sparse));
  if (dense->n_dims == 0)
    factors = shmt__tensor_ref(dense);
  else
    SHMT_TRY(broadcast_at(t, dense, &factors));
  SHMT_TRY(shmt_op_mul_Tensor_below(SHMT_KEYBIT_CPU, t->sparse->values, factors, &values));
  return shmt__sparse_with_new_values(t, values, out);
}

shmt_status shmt__sparse_mul(shmt_tensor* self, shmt_tensor* other, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_REQUIRE(self->sparse || other->sparse, SHMT_E_RUNTIME,
               "mul: the tensor to write to is sparse, but the product is not");
  if (!other->sparse)
    SHMT_TRY(mul_dense(self, other, &product));
  else if (!self->sparse)
    SHMT_TRY(mul_dense(other, self, &product));
  else if (shmt__is_coo(self) && shmt__is_coo(other))
    SHMT_TRY(mul_coo(self, other, &product));
  else
    SHMT_TRY(mul_compressed(self, other, &product));
  if (*out == self && !self->sparse && shmt__is_coo(product)) { /* dense *= sparse: the layout stays */
    SHMT_AUTO(shmt_tensor) dense = NULL;
    SHMT_TRY(shmt__to_layout_now(product, SHMT_STRIDED, 0, &dense));
    return shmt__sparse_finish("mul", dense, out);
  }
  return shmt__sparse_finish("mul", product, out);
}

/* --- the gradient of relu ---------------------------------------------------------------------------------- */

shmt_status shmt__sparse_threshold_backward(shmt_tensor* grad, shmt_tensor* self, shmt_scalar threshold,
                                            shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) at = NULL;
  SHMT_AUTO(shmt_tensor) values = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_REQUIRE(self->sparse, SHMT_E_RUNTIME, "threshold_backward: a sparse gradient of a dense tensor");
  SHMT_TRY(shmt__sparse_values_at(grad, self, &at));
  SHMT_TRY(shmt_op_threshold_backward_below(SHMT_KEYBIT_CPU, at, self->sparse->values, threshold, &values));
  SHMT_TRY(shmt__sparse_with_new_values(self, values, &result));
  return shmt__sparse_finish("threshold_backward", result, out);
}
