/* ops/attention/composite.c -- scaled_dot_product_attention: chooses the algorithm; attention with all scores at once;
 * double backward. */
#include "base/scalar.h"
#include "api/keys.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LAST (-1)

static shmt_status multiply_heads(shmt_tensor* a, shmt_tensor* b, bool transpose_a, bool transpose_b,
                                  shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) y = NULL;

  if (transpose_a) SHMT_TRY(shmt_op_transpose_int(a, -2, -1, &x));
  if (transpose_b) SHMT_TRY(shmt_op_transpose_int(b, -2, -1, &y));
  return shmt_op_matmul(x ? x : a, y ? y : b, out);
}

static shmt_status to_dtype(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  return shmt_op_to_dtype(t, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
}

/* Applies a mask: sets scores to minus infinity where a bool mask is false; adds another mask. */
static shmt_status apply_mask(shmt_tensor** scores, shmt_tensor* mask) {
  SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(*scores);
  SHMT_AUTO(shmt_tensor) hidden = NULL;

  if (mask->dtype != SHMT_BOOL) return shmt_op_add_Tensor(before, mask, shmt__scalar_int(1), scores);
  SHMT_TRY(shmt_op_logical_not(mask, &hidden));
  return shmt_op_masked_fill_Scalar(before, hidden, shmt__scalar_float(-INFINITY), scores);
}

/* Scales query and key by the square root of the scale each, which keeps products of 16-bit floats in range. */
shmt_status shmt__attention_weights(shmt_tensor* query, shmt_tensor* key, bool is_causal, shmt_tensor* attn_mask,
                                    double scale, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) q = NULL;
  SHMT_AUTO(shmt_tensor) k = NULL;
  SHMT_AUTO(shmt_tensor) scores = NULL;
  const double half = sqrt(fabs(scale));

  SHMT_TRY(shmt_op_mul_Scalar(query, shmt__scalar_float(copysign(half, scale)), &q));
  SHMT_TRY(shmt_op_mul_Scalar(key, shmt__scalar_float(half), &k));
  SHMT_TRY(multiply_heads(q, k, false, true, &scores));
  if (is_causal) {
    SHMT_AUTO(shmt_tensor) ones = NULL;
    SHMT_AUTO(shmt_tensor) seen = NULL;
    const int64_t* last = scores->sizes + scores->n_dims - 2;
    SHMT_TRY(shmt_op_ones(SHMT_INTS(last[0], last[1]), SHMT_BOOL, SHMT_LAYOUT_NONE, scores->device, (shmt_opt_bool){0},
                          &ones));
    SHMT_TRY(shmt_op_tril(ones, 0, &seen));
    SHMT_TRY(apply_mask(&scores, seen));
  }
  if (attn_mask) SHMT_TRY(apply_mask(&scores, attn_mask));
  return shmt_op__safe_softmax(scores, LAST, SHMT_DTYPE_NONE, out);
}

/* Attention that computes all scores at once. 16-bit floats are computed in float32. */
static shmt_status all_scores(shmt_tensor* query, shmt_tensor* key, shmt_tensor* value, shmt_tensor* mask,
                              double dropout_p, bool is_causal, double scale, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) q = NULL;
  SHMT_AUTO(shmt_tensor) k = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) m = NULL;
  SHMT_AUTO(shmt_tensor) weights = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  const shmt_dtype dtype = query->dtype, work = shmt__is_half(dtype) ? SHMT_FLOAT32 : dtype;

  SHMT_TRY(to_dtype(query, work, &q));
  SHMT_TRY(to_dtype(key, work, &k));
  SHMT_TRY(to_dtype(value, work, &v));
  if (mask) SHMT_TRY(to_dtype(mask, mask->dtype == SHMT_BOOL ? SHMT_BOOL : work, &m));
  SHMT_TRY(shmt_op__attention_weights(q, k, is_causal, m, scale, &weights));
  if (dropout_p > 0) {
    SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(weights);
    SHMT_TRY(shmt_op_dropout(before, dropout_p, true, &weights));
  }
  SHMT_TRY(shmt_op_matmul(weights, v, &result));
  return to_dtype(result, dtype, out);
}

/* Do all three have the shape (batch, heads, ., .) already? */
static bool have_four_dims(const shmt_tensor* query, const shmt_tensor* key, const shmt_tensor* value) {
  return query->n_dims == 4 && key->n_dims == 4 && value->n_dims == 4 &&
         memcmp(query->sizes, key->sizes, 2 * sizeof *key->sizes) == 0 &&
         memcmp(query->sizes, value->sizes, 2 * sizeof *key->sizes) == 0;
}

/* Broadcasts t to the batch dims and (rows, columns), as (batch, heads, rows, columns). When there are not exactly two
 * batch dims, they are merged to one and heads is 1. */
static shmt_status in_four_dims(shmt_tensor* t, shmt_ints batch, int64_t rows, int64_t columns, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  int64_t sizes[SHMT_MAX_DIMS], four[4] = {1, 1, rows, columns};

  for (int64_t d = 0; d < batch.len; d++) {
    sizes[d] = batch.data[d];
    four[d == 1 && batch.len == 2] *= batch.data[d];
  }
  sizes[batch.len] = rows;
  sizes[batch.len + 1] = columns;
  SHMT_TRY(shmt_op_expand(t, (shmt_ints){sizes, batch.len + 2}, false, &wide));
  return shmt_op_reshape(wide, (shmt_ints){four, 4}, out);
}

/* Flash attention (attention.c) of inputs with any batch dims. */
static shmt_status flash(shmt_tensor* query, shmt_tensor* key, shmt_tensor* value, shmt_tensor* mask,
                             bool is_causal, double scale, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) q = NULL;
  SHMT_AUTO(shmt_tensor) k = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) m = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) lse = NULL;
  int64_t batch[SHMT_MAX_DIMS], both[SHMT_MAX_DIMS], n_batch = 0;
  const shmt_tensor* const inputs[4] = {query, key, value, mask};

  if (!mask && have_four_dims(query, key, value))
    return shmt_op__scaled_dot_product_flash_attention_for_cpu(query, key, value, 0, is_causal, NULL,
                                                               (shmt_opt_float){scale, true}, out, &lse);
  for (int i = 0; i < 4; i++) {
    const shmt_ints last = inputs[i] ? (shmt_ints){inputs[i]->sizes, inputs[i]->n_dims - 2} : SHMT_INTS_EMPTY;
    if (last.len <= 0) continue;
    SHMT_TRY(shmt__broadcast_sizes((shmt_ints){batch, n_batch}, last, both, &n_batch));
    memcpy(batch, both, (size_t)n_batch * sizeof *batch);
  }
  const shmt_ints outer = {batch, n_batch};
  const int64_t queries = query->sizes[query->n_dims - 2], keys = key->sizes[key->n_dims - 2];
  const int64_t width = value->sizes[value->n_dims - 1];
  SHMT_TRY(in_four_dims(query, outer, queries, query->sizes[query->n_dims - 1], &q));
  if (n_batch != 2) { /* the result has the query's layout, and is contiguous where there are no heads */
    SHMT_AUTO(shmt_tensor) before = SHMT_TAKE(q);
    SHMT_TRY(shmt_op_contiguous(before, SHMT_CONTIGUOUS_FORMAT, &q));
  }
  SHMT_TRY(in_four_dims(key, outer, keys, key->sizes[key->n_dims - 1], &k));
  SHMT_TRY(in_four_dims(value, outer, value->sizes[value->n_dims - 2], width, &v));
  if (mask) SHMT_TRY(in_four_dims(mask, outer, queries, keys, &m));
  SHMT_TRY(shmt_op__scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, is_causal, m,
                                                               (shmt_opt_float){scale, true}, &result, &lse));
  batch[n_batch] = queries;
  batch[n_batch + 1] = width;
  return shmt_op_reshape(result, (shmt_ints){batch, n_batch + 2}, out);
}

static shmt_status check_dot_product(const shmt_tensor* query, const shmt_tensor* key, const shmt_tensor* value,
                                     const shmt_tensor* mask, bool is_causal) {
  SHMT_REQUIRE(query->dtype == key->dtype && query->dtype == value->dtype, SHMT_E_RUNTIME,
               "Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: %s and "
               "value.dtype: %s instead.", shmt__dtype_ctype(query->dtype), shmt__dtype_ctype(key->dtype),
               shmt__dtype_ctype(value->dtype));
  SHMT_REQUIRE(query->n_dims >= 2 && key->n_dims >= 2 && value->n_dims >= 2, SHMT_E_RUNTIME,
               "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: %d, key.dim: %d "
               "and value.dim: %d instead.", query->n_dims, key->n_dims, value->n_dims);
  if (!mask) return SHMT_OK;
  SHMT_REQUIRE(!is_causal, SHMT_E_RUNTIME,
               "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  SHMT_REQUIRE(mask->dtype == SHMT_BOOL || shmt__dtype_kind[mask->dtype] == SHMT_KIND_FLOATING, SHMT_E_RUNTIME,
               "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: %s and  "
               "query.dtype: %s instead.", shmt__dtype_ctype(mask->dtype), shmt__dtype_ctype(query->dtype));
  return SHMT_OK;
}

/* Repeats the heads of a key or value to the number of the query's heads (grouped-query attention). */
static shmt_status repeat_heads(const shmt_tensor* query, shmt_tensor* t, shmt_tensor** out) {
  SHMT_REQUIRE(query->n_dims >= 3 && t->n_dims >= 3, SHMT_E_RUNTIME,
               "scaled_dot_product_attention: enable_gqa wants heads, but got shapes %s and %s",
               SHMT_SHAPE_TEXT(query), SHMT_SHAPE_TEXT(t));
  const int64_t wanted = query->sizes[query->n_dims - 3], heads = t->sizes[t->n_dims - 3];
  SHMT_REQUIRE(heads > 0 && wanted % heads == 0, SHMT_E_RUNTIME,
               "Number of heads in key and value must divide the number of heads in query, but got %" PRId64
               " and %" PRId64, heads, wanted);
  if (wanted == heads) {
    *out = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  return shmt_op_repeat_interleave_self_int(t, wanted / heads, (shmt_opt_int){-3, true}, (shmt_opt_int){0}, out);
}

shmt_status shmt__scaled_dot_product_attention(shmt_tensor* query, shmt_tensor* key, shmt_tensor* value,
                                               shmt_tensor* attn_mask, double dropout_p, bool is_causal,
                                               shmt_opt_float scale, bool enable_gqa, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) k = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) mask = NULL;

  SHMT_TRY(check_dot_product(query, key, value, attn_mask, is_causal));
  if (enable_gqa) {
    SHMT_TRY(repeat_heads(query, key, &k));
    SHMT_TRY(repeat_heads(query, value, &v));
  } else {
    k = shmt__tensor_ref(key);
    v = shmt__tensor_ref(value);
  }
  if (attn_mask) SHMT_TRY(to_dtype(attn_mask, attn_mask->dtype == SHMT_BOOL ? SHMT_BOOL : query->dtype, &mask));
  const int64_t width = query->sizes[query->n_dims - 1];
  const double factor = scale.has   ? scale.value
                        : width > 0 ? 1 / sqrt((double)width)
                                    : 1; /* with a width of 0, all scores are 0 */
  const bool mask_wants_grad = mask && (shmt__tensor_keys(mask) & (SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD));
  if (dropout_p == 0 && !mask_wants_grad && shmt__dtype_kind[query->dtype] == SHMT_KIND_FLOATING)
    return flash(query, k, v, mask, is_causal, factor, out);
  return all_scores(query, k, v, mask, dropout_p, is_causal, factor, out);
}

/* --- double backward ---------------------------------------------------------------------------- */

static shmt_status or_zeros(shmt_tensor* t, shmt_tensor* like, shmt_dtype dtype, shmt_tensor** out) {
  if (t) return to_dtype(t, dtype, out);
  return shmt_op_zeros_like(like, dtype, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                            SHMT_MEMORY_FORMAT_NONE, out);
}

/* a minus the row sums of a * weights */
static shmt_status centred(shmt_tensor* a, shmt_tensor* weights, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) product = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;

  SHMT_TRY(shmt_op_mul_Tensor(a, weights, &product));
  SHMT_TRY(shmt_op_sum_dim_IntList(product, SHMT_INTS(LAST), true, SHMT_DTYPE_NONE, &sums));
  return shmt_op_sub_Tensor(a, sums, shmt__scalar_int(1), out);
}

/* a @ b + c @ d, where ta and tc transpose a and c */
static shmt_status two_products(shmt_tensor* a, bool ta, shmt_tensor* b, shmt_tensor* c, bool tc, shmt_tensor* d,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;

  SHMT_TRY(multiply_heads(a, b, ta, false, &first));
  SHMT_TRY(multiply_heads(c, d, tc, false, &second));
  return shmt_op_add_Tensor(first, second, shmt__scalar_int(1), out);
}

/* With weights P, V' = grad V^T and the gradient of query @ key^T S = P (V' - rowsum(P V')) scale, the gradients of
 * query, key and value are S K, S^T Q and P^T grad. a, b, c are the gradients with respect to these. */
shmt_status shmt__attention_double_backward(shmt_tensor* ggrad_query, shmt_tensor* ggrad_key, shmt_tensor* ggrad_value,
                                   shmt_tensor* grad_out, shmt_tensor* query, shmt_tensor* key, shmt_tensor* value,
                                   bool is_causal, shmt_tensor* attn_mask, shmt_opt_float scale, shmt_tensor** for_grad,
                                   shmt_tensor** for_query, shmt_tensor** for_key, shmt_tensor** for_value) {
  enum { A, B, C, G, Q, K, V, M, N_WIDE };
  shmt_tensor* given[N_WIDE] = {ggrad_query, ggrad_key, ggrad_value, grad_out, query, key, value, attn_mask};
  shmt_tensor* like[N_WIDE] = {query, key, value, grad_out, query, key, value, NULL};
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) c = NULL;
  SHMT_AUTO(shmt_tensor) g = NULL;
  SHMT_AUTO(shmt_tensor) q = NULL;
  SHMT_AUTO(shmt_tensor) k = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) m = NULL;
  shmt_tensor** const wide[N_WIDE] = {&a, &b, &c, &g, &q, &k, &v, &m};
  SHMT_AUTO(shmt_tensor) weights = NULL;
  SHMT_AUTO(shmt_tensor) grad_scores = NULL; /* S without the factor P */
  SHMT_AUTO(shmt_tensor) by_value = NULL;    /* grad V^T */
  SHMT_AUTO(shmt_tensor) of_scores_grad = NULL; /* gradient of S */
  SHMT_AUTO(shmt_tensor) of_by_value = NULL; /* gradient of V' */
  SHMT_AUTO(shmt_tensor) of_scores = NULL;
  SHMT_AUTO(shmt_tensor) weighted = NULL; /* S */
  SHMT_AUTO(shmt_tensor) t0 = NULL;
  SHMT_AUTO(shmt_tensor) t1 = NULL;
  SHMT_AUTO(shmt_tensor) t2 = NULL;
  SHMT_AUTO(shmt_tensor) t3 = NULL;
  SHMT_AUTO(shmt_tensor) t4 = NULL;
  SHMT_AUTO(shmt_tensor) t5 = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  const shmt_dtype dtype = query->dtype, work = shmt__is_half(dtype) ? SHMT_FLOAT32 : dtype;
  const double factor = scale.has ? scale.value : 1 / sqrt((double)query->sizes[3]);
  const shmt_scalar times = shmt__scalar_float(factor), one = shmt__scalar_int(1);

  for (int i = 0; i < M; i++) SHMT_TRY(or_zeros(given[i], like[i], work, wide[i]));
  if (attn_mask) SHMT_TRY(to_dtype(attn_mask, attn_mask->dtype == SHMT_BOOL ? SHMT_BOOL : work, &m));
  SHMT_TRY(shmt_op__attention_weights(q, k, is_causal, m, factor, &weights));
  SHMT_TRY(multiply_heads(g, v, false, true, &by_value));
  SHMT_TRY(centred(by_value, weights, &t0));
  SHMT_TRY(shmt_op_mul_Scalar(t0, times, &grad_scores));
  SHMT_TRY(shmt_op_mul_Tensor(weights, grad_scores, &weighted));
  /* a K^T + Q b^T, scaled */
  SHMT_TRY(multiply_heads(a, k, false, true, &t1));
  SHMT_TRY(multiply_heads(q, b, false, true, &t2));
  SHMT_TRY(shmt_op_add_Tensor(t1, t2, one, &t3));
  SHMT_TRY(shmt_op_mul_Scalar(t3, times, &of_scores_grad));
  SHMT_TRY(centred(of_scores_grad, weights, &t4));
  SHMT_TRY(shmt_op_mul_Tensor(weights, t4, &of_by_value));
  /* The gradient of P, E (V' - rowsum(P V')) - V' rowsum(E P) + grad c^T, and from it that of the scores. E: that of
   * S. */
  {
    SHMT_AUTO(shmt_tensor) product = NULL;
    SHMT_AUTO(shmt_tensor) first = NULL;
    SHMT_AUTO(shmt_tensor) second = NULL;
    SHMT_AUTO(shmt_tensor) third = NULL;
    SHMT_AUTO(shmt_tensor) difference = NULL;
    SHMT_AUTO(shmt_tensor) total = NULL;
    SHMT_TRY(shmt_op_mul_Tensor(of_scores_grad, weights, &product));
    SHMT_TRY(shmt_op_sum_dim_IntList(product, SHMT_INTS(LAST), true, SHMT_DTYPE_NONE, &sums));
    SHMT_TRY(shmt_op_mul_Tensor(of_scores_grad, t0, &first));
    SHMT_TRY(shmt_op_mul_Tensor(by_value, sums, &second));
    SHMT_TRY(shmt_op_sub_Tensor(first, second, one, &difference));
    SHMT_TRY(multiply_heads(g, c, false, true, &third));
    SHMT_TRY(shmt_op_add_Tensor(difference, third, one, &total));
    SHMT_TRY(centred(total, weights, &t5));
    SHMT_AUTO(shmt_tensor) unscaled = NULL;
    SHMT_TRY(shmt_op_mul_Tensor(weights, t5, &unscaled));
    SHMT_TRY(shmt_op_mul_Scalar(unscaled, times, &of_scores));
  }
  SHMT_TRY(two_products(of_by_value, false, v, weights, false, c, for_grad));
  SHMT_TRY(two_products(weighted, false, b, of_scores, false, k, for_query));
  SHMT_TRY(two_products(weighted, true, a, of_scores, true, q, for_key));
  return multiply_heads(of_by_value, g, true, false, for_value);
}
