/* ops/attention/composite.c -- scaled_dot_product_attention: chooses the algorithm; attention with all scores. */
#include "base/scalar.h"
#include "api/keys.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static shmt_status to_dtype(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  return shmt_op_to_dtype(t, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out);
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
                                     const shmt_tensor* mask) {
  SHMT_REQUIRE(query->dtype == key->dtype && query->dtype == value->dtype, SHMT_E_RUNTIME,
               "Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: %s and "
               "value.dtype: %s instead.", shmt__dtype_ctype(query->dtype), shmt__dtype_ctype(key->dtype),
               shmt__dtype_ctype(value->dtype));
  SHMT_REQUIRE(query->n_dims >= 2 && key->n_dims >= 2 && value->n_dims >= 2, SHMT_E_RUNTIME,
               "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: %d, key.dim: %d "
               "and value.dim: %d instead.", query->n_dims, key->n_dims, value->n_dims);
  if (!mask) return SHMT_OK;
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

  SHMT_TRY(check_dot_product(query, key, value, attn_mask));
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
  const bool is_flash = dropout_p == 0 && !mask_wants_grad && shmt__dtype_kind[query->dtype] == SHMT_KIND_FLOATING;
  /* Only where torch takes its flash kernel, a mask and is_causal both hold; elsewhere it refuses the pair. */
  SHMT_REQUIRE(!mask || !is_causal || (is_flash && query->n_dims == 4 && !shmt__tensor_is_meta(query)), SHMT_E_RUNTIME,
               "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  if (is_flash)
    return flash(query, k, v, mask, is_causal, factor, out);
  return all_scores(query, k, v, mask, dropout_p, is_causal, factor, out);
}

/* --- double backward ---------------------------------------------------------------------------- */

