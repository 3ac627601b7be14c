/* ops/attention/attention.c -- flash attention: scaled dot product attention in blocks, forward and backward.
 *
 * Inputs are (batch, heads, length, width). Only one block of scores exists at a time, so memory grows with the inputs
 * and not with the product of their lengths. The backward pass recomputes the blocks from the logsumexp of each query.
 * 16-bit floats are widened a block at a time; their gradients are summed in float32, one head at a time.
 */
#include "base/overflow.h"
#include "base/scalar.h"
#include "base/sizes.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "iter/threads.h"
#include "kernels/loop_args.h"
#include "ops/matmul/gemm.h"
#include "ops/check.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
  QUERIES_AT_ONCE = 64,
  MANY_QUERIES_AT_ONCE = 128, /* forward, where such blocks are enough for all threads */
  KEYS_AT_ONCE = 256,
  NARROW_KEYS_AT_ONCE = 128, /* 16-bit floats, which are widened */
  FEW_KEYS = 16,             /* with so few, and FEW_PRODUCTS for a block of queries, no matrix product pays */
  FEW_PRODUCTS = 1 << 14,
  GRAIN_PRODUCTS = 65536,
};

typedef struct attention_job {
  shmt_tensor *query, *key, *value, *mask; /* mask: expanded to all scores, or NULL */
  shmt_tensor *out, *lse, *grad;           /* rows are dense; lse is contiguous, in the working dtype */
  shmt_tensor *grad_query, *grad_key, *grad_value; /* rows are dense */
  shmt_dtype work;
  int64_t heads, n_batch_heads, queries, keys, width, values;
  int64_t block; /* queries at a time */
  bool causal;
  double scale;
  atomic_bool failed; /* out of memory */
} attention_job;

/* Scratch memory of a task: parts of one allocation. */
typedef struct scratch {
  char *scores, *grads, *largest, *sums, *out, *query, *key, *value, *mask, *grad;
  char *for_query, *for_key, *for_value; /* gradients of a head */
  void* base;
  uint64_t nbytes;
} scratch;

static int64_t item_of(const attention_job* j) { return shmt__dtype_size[j->work]; }

static bool is_narrow(const attention_job* j) { return j->query->dtype != j->work; }

/* Keys of a block: fewer when they have to be widened. */
static int64_t block_keys(const attention_job* j) { return is_narrow(j) ? NARROW_KEYS_AT_ONCE : KEYS_AT_ONCE; }

static bool make_scratch(attention_job* j, bool backward, scratch* s) {
  const bool narrow = is_narrow(j), casts_mask = j->mask && j->mask->dtype != SHMT_BOOL && narrow,
             both = narrow && backward;
  const int64_t queries = shmt__min_i64(j->block, j->queries), keys = shmt__min_i64(block_keys(j), j->keys);
  const int64_t wider = j->width > j->values ? j->width : j->values;
  const int64_t counts[] = {queries * keys,
                            backward ? queries * keys : 0,
                            queries,
                            queries,
                            queries * j->values,
                            narrow ? queries * j->width : 0,
                            narrow ? keys * wider : 0,
                            both ? keys * j->values : 0,
                            casts_mask ? queries * keys : 0,
                            both ? queries * j->values : 0,
                            both ? j->queries * j->width : 0,
                            both ? j->keys * j->width : 0,
                            both ? j->keys * j->values : 0};
  char** const parts[] = {&s->scores, &s->grads, &s->largest, &s->sums,      &s->out,     &s->query,    &s->key,
                          &s->value,  &s->mask,  &s->grad,    &s->for_query, &s->for_key, &s->for_value};
  const int n = (int)(sizeof counts / sizeof *counts);

  s->nbytes = 0;
  for (int i = 0; i < n; i++) s->nbytes += (uint64_t)(counts[i] * item_of(j) + 63) / 64 * 64;
  if (shmt__alloc(s->nbytes, &s->base) != SHMT_OK) {
    atomic_store_explicit(&j->failed, true, memory_order_relaxed); /* read after all tasks have ended */
    return false;
  }
  char* at = s->base;
  for (int i = 0; i < n; i++) {
    *parts[i] = at;
    at += (counts[i] * item_of(j) + 63) / 64 * 64;
  }
  return true;
}

/* Row `first` of head h of a (batch, heads, length, width) tensor. */
static char* row_of(const attention_job* j, const shmt_tensor* t, int64_t h, int64_t first) {
  return (char*)shmt__tensor_data(t) + (h / j->heads * t->strides[0] + h % j->heads * t->strides[1] +
                                        first * t->strides[2]) * shmt__tensor_item_bytes(t);
}

/* Rows [first, first + n) of head h in the working dtype: the tensor's memory, or a widened copy in buffer. */
static shmt__matrix head_rows(const attention_job* j, shmt_tensor* t, int64_t h, int64_t first, int64_t n,
                              char* buffer) {
  const int64_t item = shmt__tensor_item_bytes(t), width = t->sizes[3];
  char* data = row_of(j, t, h, first);

  if (t->dtype == j->work) return (shmt__matrix){data, n, width, t->strides[2], t->strides[3]};
  for (int64_t i = 0; i < n; i++)
    shmt__cast_loop(j->work, t->dtype)(buffer + i * width * item_of(j), item_of(j), data + i * t->strides[2] * item,
                                       shmt__wrap_mul_i64(t->strides[3], item), width);
  return (shmt__matrix){buffer, n, width, width, 1};
}

static shmt__matrix dense(char* data, int64_t rows, int64_t columns) {
  return (shmt__matrix){data, rows, columns, columns, 1};
}

static void multiply_rows(const attention_job* j, shmt__matrix a, shmt__matrix b, bool add, shmt__matrix c) {
  shmt__gemm(j->work, shmt__scalar_int(1), a, b, shmt__scalar_int(add), c);
}

/* Computes the scaled and masked scores of a block of queries and keys. *s becomes the arguments of their loops. */
static void make_scores(const attention_job* j, scratch* room, int64_t h, int64_t q0, shmt__matrix q, int64_t k0,
                        shmt__matrix k, shmt__attention_args* s) {
  char* data[2] = {room->scores, NULL};

  *s = (shmt__attention_args){.width = k.rows, .values = j->values, .visible = q0 + 1 - k0, .causal = j->causal,
                               .scale = j->scale};
  multiply_rows(j, q, shmt__matrix_transposed(k), false, dense(room->scores, q.rows, k.rows));
  if (j->mask) {
    const shmt_tensor* m = j->mask;
    const int64_t item = shmt__tensor_item_bytes(m);
    data[1] = (char*)shmt__tensor_data(j->mask) + (h / j->heads * m->strides[0] + h % j->heads * m->strides[1] +
                                                   q0 * m->strides[2] + k0 * m->strides[3]) * item;
    s->mask_is_bool = m->dtype == SHMT_BOOL;
    s->mask_row = shmt__wrap_mul_i64(m->strides[2], item);
    s->mask_column = shmt__wrap_mul_i64(m->strides[3], item);
    if (!s->mask_is_bool && m->dtype != j->work) {
      for (int64_t i = 0; i < q.rows; i++)
        shmt__cast_loop(j->work, m->dtype)(room->mask + i * k.rows * item_of(j), item_of(j), data[1] + i * s->mask_row,
                                           s->mask_column, k.rows);
      data[1] = room->mask;
      s->mask_row = k.rows * item_of(j);
      s->mask_column = item_of(j);
    }
  }
  shmt__loops[SHMT_LOOP_attention_scores][j->work](data, NULL, q.rows, s);
}

/* The number of keys that a block of queries attends to. */
static int64_t last_key(const attention_job* j, int64_t q0, int64_t n) {
  return j->causal && q0 + n < j->keys ? q0 + n : j->keys;
}

static void fill_number(const attention_job* j, char* data, int64_t n, double value) {
  for (int64_t i = 0; i < n; i++) shmt__scalar_store_unsafe(shmt__scalar_float(value), j->work, data + i * item_of(j));
}

/* Stores the rows at `from`, contiguous and in the working dtype, to rows [first, first + n) of head h of t. */
static void store_rows(const attention_job* j, shmt_tensor* t, int64_t h, int64_t first, int64_t n, const char* from) {
  const int64_t item = shmt__tensor_item_bytes(t), width = t->sizes[3];
  const int64_t row = shmt__wrap_mul_i64(t->strides[2], item); /* of a single row it may be anything */
  const int64_t at_once = t->strides[2] == width ? n : 1; /* rows without gaps are stored at once */
  const shmt__cast_loop_fn store = shmt__cast_loop(t->dtype, j->work);
  char* data = row_of(j, t, h, first);

  for (int64_t i = 0; i < n; i += at_once)
    store(data + i * row, item, from + i * width * item_of(j), item_of(j), at_once * width);
}

static void forward_block(const attention_job* j, scratch* room, int64_t h, int64_t q0) {
  const int64_t n = shmt__min_i64(j->block, j->queries - q0), item = item_of(j);
  const shmt__matrix q = head_rows(j, j->query, h, q0, n, room->query);
  shmt__attention_args s = {.values = j->values};
  char* lse = (char*)shmt__tensor_data(j->lse) + (h * j->queries + q0) * item;

  fill_number(j, room->largest, n, -INFINITY);
  memset(room->sums, 0, (size_t)(n * item));
  memset(room->out, 0, (size_t)(n * j->values * item));
  for (int64_t k0 = 0; k0 < last_key(j, q0, n); k0 += block_keys(j)) {
    const int64_t keys = shmt__min_i64(block_keys(j), j->keys - k0);
    make_scores(j, room, h, q0, q, k0, head_rows(j, j->key, h, k0, keys, room->key), &s);
    char* data[4] = {room->scores, room->largest, room->sums, room->out};
    shmt__loops[SHMT_LOOP_attention_forward][j->work](data, NULL, n, &s);
    /* The keys are no longer needed, so their buffer takes the values. */
    multiply_rows(j, dense(room->scores, n, keys), head_rows(j, j->value, h, k0, keys, room->key), true,
                  dense(room->out, n, j->values));
  }
  char* data[4] = {room->out, room->largest, room->sums, lse};
  shmt__loops[SHMT_LOOP_attention_finish][j->work](data, NULL, n, &s);
  store_rows(j, j->out, h, q0, n, room->out);
}

/* Are there so few keys that matrix products would cost more to start than to run? */
static bool has_few_keys(const attention_job* j) {
  return j->keys <= FEW_KEYS && !j->mask && j->query->dtype == j->work &&
         shmt__min_i64(QUERIES_AT_ONCE, j->queries) * j->keys * j->width <= FEW_PRODUCTS;
}

/* Bytes from row to row; 0 for a single row, whose stride may be anything. */
static int64_t row_step(shmt__matrix m, int64_t item) { return m.rows == 1 ? 0 : m.row_stride * item; }

static void forward_few_keys(const attention_job* j, int64_t h, int64_t q0) {
  const int64_t n = shmt__min_i64(j->block, j->queries - q0), item = item_of(j);
  const shmt__matrix q = head_rows(j, j->query, h, q0, n, NULL), k = head_rows(j, j->key, h, 0, j->keys, NULL);
  const shmt__matrix v = head_rows(j, j->value, h, 0, j->keys, NULL);
  const shmt__attention_args s = {.width = j->keys, .values = j->values, .visible = q0 + 1, .depth = j->width,
                                   .scale = j->scale, .causal = j->causal};
  const int64_t strides[4] = {row_step(q, item), row_step(k, item), row_step(v, item),
                              shmt__wrap_mul_i64(j->out->strides[2], item)};
  char* const data[5] = {q.data, k.data, v.data, row_of(j, j->out, h, q0),
                         (char*)shmt__tensor_data(j->lse) + (h * j->queries + q0) * item};

  shmt__loops[SHMT_LOOP_attention_few_keys][j->work](data, strides, n, &s);
}

static void forward_blocks(void* ctx, int64_t begin, int64_t end) {
  attention_job* j = ctx;
  const int64_t blocks = (j->queries + j->block - 1) / j->block;
  scratch room;

  if (has_few_keys(j)) {
    for (int64_t i = begin; i < end; i++) forward_few_keys(j, i / blocks, i % blocks * j->block);
    return;
  }
  if (!make_scratch(j, false, &room)) return;
  for (int64_t i = begin; i < end; i++) forward_block(j, &room, i / blocks, i % blocks * j->block);
  shmt__dealloc(room.base, room.nbytes);
}

/* Elements from row to row in the memory where the gradients of a head are summed. */
static int64_t sum_step(const attention_job* j, const shmt_tensor* result) {
  return is_narrow(j) ? result->sizes[3] : result->strides[2];
}

/* Sets the sums of head h's gradients to 0. They are in the results, or in scratch memory when those are 16-bit
 * floats. */
static void begin_head(const attention_job* j, scratch* room, int64_t h) {
  shmt_tensor* const results[] = {j->grad_query, j->grad_key, j->grad_value};
  char** const parts[] = {&room->for_query, &room->for_key, &room->for_value};

  for (int i = 0; i < 3; i++) {
    const int64_t n = results[i]->sizes[2], width = results[i]->sizes[3], step = sum_step(j, results[i]);
    const int64_t at_once = step == width ? n : 1;
    if (results[i]->numel == 0) continue;
    if (!is_narrow(j)) *parts[i] = row_of(j, results[i], h, 0);
    for (int64_t r = 0; r < n; r += at_once)
      memset(*parts[i] + r * step * item_of(j), 0, (size_t)(at_once * width * item_of(j)));
  }
}

static void end_head(const attention_job* j, const scratch* room, int64_t h) {
  shmt_tensor* const results[] = {j->grad_query, j->grad_key, j->grad_value};
  const char* const parts[] = {room->for_query, room->for_key, room->for_value};

  for (int i = 0; i < 3 && is_narrow(j); i++) store_rows(j, results[i], h, 0, results[i]->sizes[2], parts[i]);
}

/* Rows [first, first + n) of the sums at data. */
static shmt__matrix sum_rows(const attention_job* j, char* data, const shmt_tensor* result, int64_t first, int64_t n) {
  const int64_t step = sum_step(j, result);

  return (shmt__matrix){data + first * step * item_of(j), n, result->sizes[3], step, 1};
}

/* Stores the dot product of output and gradient of each query to room->sums. */
static void output_dots(const attention_job* j, scratch* room, shmt__matrix grad, int64_t h, int64_t q0) {
  const shmt__matrix out = head_rows(j, j->out, h, q0, grad.rows, room->out);

  for (int64_t i = 0; i < grad.rows; i++)
    shmt__dot(j->work, false, j->values, out.data + i * out.row_stride * item_of(j), out.column_stride,
              grad.data + i * grad.row_stride * item_of(j), grad.column_stride, room->sums + i * item_of(j));
}

static void backward_block(const attention_job* j, scratch* room, int64_t h, int64_t q0) {
  const int64_t n = shmt__min_i64(QUERIES_AT_ONCE, j->queries - q0);
  const shmt__matrix q = head_rows(j, j->query, h, q0, n, room->query);
  const shmt__matrix grad = head_rows(j, j->grad, h, q0, n, room->grad);
  char* lse = (char*)shmt__tensor_data(j->lse) + (h * j->queries + q0) * item_of(j);

  output_dots(j, room, grad, h, q0);
  for (int64_t k0 = 0; k0 < last_key(j, q0, n); k0 += block_keys(j)) {
    const int64_t keys = shmt__min_i64(block_keys(j), j->keys - k0);
    const shmt__matrix k = head_rows(j, j->key, h, k0, keys, room->key);
    const shmt__matrix v = head_rows(j, j->value, h, k0, keys, room->value);
    const shmt__matrix weights = dense(room->scores, n, keys), grad_scores = dense(room->grads, n, keys);
    shmt__attention_args s;
    make_scores(j, room, h, q0, q, k0, k, &s);
    multiply_rows(j, grad, shmt__matrix_transposed(v), false, grad_scores);
    char* data[4] = {room->scores, room->grads, lse, room->sums};
    shmt__loops[SHMT_LOOP_attention_backward][j->work](data, NULL, n, &s);
    multiply_rows(j, shmt__matrix_transposed(weights), grad, true,
                  sum_rows(j, room->for_value, j->grad_value, k0, keys));
    multiply_rows(j, grad_scores, k, true, sum_rows(j, room->for_query, j->grad_query, q0, n));
    multiply_rows(j, shmt__matrix_transposed(grad_scores), q, true, sum_rows(j, room->for_key, j->grad_key, k0, keys));
  }
}

static void backward_heads(void* ctx, int64_t begin, int64_t end) {
  attention_job* j = ctx;
  scratch room;

  if (!make_scratch(j, true, &room)) return;
  for (int64_t h = begin; h < end; h++) {
    begin_head(j, &room, h);
    for (int64_t q0 = 0; q0 < j->queries; q0 += QUERIES_AT_ONCE) backward_block(j, &room, h, q0);
    end_head(j, &room, h);
  }
  shmt__dealloc(room.base, room.nbytes);
}

/* --- the operators -------------------------------------------------------------------------- */

/* A tensor whose last dim has stride 1, as matrix products need. New reference. */
static shmt_status with_dense_rows(shmt_tensor* t, shmt_tensor** out) {
  if (t->sizes[3] > 1 && t->strides[3] != 1) return shmt__tensor_contiguous(t, SHMT_CONTIGUOUS_FORMAT, out);
  *out = shmt__tensor_ref(t);
  return SHMT_OK;
}

/* Would torch use its flash attention, too? Its other algorithm returns contiguous tensors. */
static bool has_dense_rows(const shmt_tensor* query, const shmt_tensor* key, const shmt_tensor* value) {
  return query->strides[3] == 1 && key->strides[3] == 1 && value->strides[3] == 1 &&
         value->sizes[3] == query->sizes[3] && query->numel > 0 && key->numel > 0;
}

static shmt_status check_attention(const char* name, shmt_tensor* query, shmt_tensor* key, shmt_tensor* value,
                                   double dropout_p, shmt_tensor* mask, shmt_opt_float scale, bool causal,
                                   attention_job* j) {
  SHMT_REQUIRE(query->n_dims == 4 && key->n_dims == 4 && value->n_dims == 4, SHMT_E_RUNTIME,
               "%s: Accept only 4 dims inputs shape of {B, H, T, K}, but got %s, %s and %s", name,
               SHMT_SHAPE_TEXT(query), SHMT_SHAPE_TEXT(key), SHMT_SHAPE_TEXT(value));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_softmax_rows, query->dtype, name);
  SHMT_REQUIRE(query->dtype == key->dtype && query->dtype == value->dtype, SHMT_E_RUNTIME,
               "%s: Q/K/V should have the same data type, but got %s, %s and %s", name,
               shmt__dtype_title(query->dtype), shmt__dtype_title(key->dtype), shmt__dtype_title(value->dtype));
  SHMT_REQUIRE(dropout_p == 0, SHMT_E_RUNTIME, "%s: Currently do not support dropout > 0, got %g", name, dropout_p);
  for (int d = 0; d < 2; d++)
    SHMT_REQUIRE(query->sizes[d] == key->sizes[d] && query->sizes[d] == value->sizes[d], SHMT_E_RUNTIME,
                 "%s: expected Q/K/V of the same batch and heads, but got %s, %s and %s", name, SHMT_SHAPE_TEXT(query),
                 SHMT_SHAPE_TEXT(key), SHMT_SHAPE_TEXT(value));
  SHMT_REQUIRE(query->sizes[3] == key->sizes[3] && key->sizes[2] == value->sizes[2], SHMT_E_RUNTIME,
               "%s: Q/K/V should fit together, but have shapes %s, %s and %s", name, SHMT_SHAPE_TEXT(query),
               SHMT_SHAPE_TEXT(key), SHMT_SHAPE_TEXT(value));
  const shmt_dtype work = shmt__is_half(query->dtype) ? SHMT_FLOAT32 : query->dtype;
  if (mask)
    SHMT_REQUIRE((mask->dtype == SHMT_BOOL || mask->dtype == query->dtype || mask->dtype == work) &&
                     mask->n_dims == 4 && mask->sizes[0] == query->sizes[0] && mask->sizes[1] == query->sizes[1] &&
                     mask->sizes[2] == query->sizes[2] && mask->sizes[3] == key->sizes[2],
                 SHMT_E_RUNTIME, "%s: attn_mask of shape %s and dtype %s does not fit queries %s and keys %s", name,
                 SHMT_SHAPE_TEXT(mask), shmt__dtype_title(mask->dtype), SHMT_SHAPE_TEXT(query), SHMT_SHAPE_TEXT(key));
  j->work = work;
  j->heads = query->sizes[1];
  j->n_batch_heads = query->sizes[0] * query->sizes[1];
  j->queries = query->sizes[2];
  j->block = QUERIES_AT_ONCE;
  j->keys = key->sizes[2];
  j->width = query->sizes[3];
  j->values = value->sizes[3];
  j->causal = causal;
  j->scale = scale.has ? scale.value : j->width > 0 ? 1 / sqrt((double)j->width) : 1;
  j->mask = mask;
  return SHMT_OK;
}

static shmt_status out_of_memory(const attention_job* j) {
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "scaled_dot_product_attention: scratch space for %d queries and %d keys",
               (int)j->block, (int)block_keys(j));
  return SHMT_OK;
}

shmt_status shmt__attention(shmt_tensor* query, shmt_tensor* key, shmt_tensor* value, double dropout_p, bool is_causal,
                            shmt_tensor* attn_mask, shmt_opt_float scale, shmt_tensor** out,
                            shmt_tensor** logsumexp) {
  SHMT_AUTO(shmt_tensor) q = NULL;
  SHMT_AUTO(shmt_tensor) k = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) lse = NULL;
  attention_job j = {0};

  SHMT_TRY(check_attention("scaled_dot_product_attention_flash_attention", query, key, value, dropout_p, attn_mask,
                           scale, is_causal, &j));
  const int64_t *s = query->sizes, last = value->sizes[3];
  if (has_dense_rows(query, key, value)) SHMT_TRY(shmt__tensor_empty_like(query, query->dtype, &result));
  if (result && result->strides[3] != 1) shmt__tensor_release(SHMT_TAKE(result)); /* rows of a query overlap */
  if (!result)
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(s[0], s[1], s[2], last), query->dtype, query->device, SHMT_CONTIGUOUS_FORMAT,
                                &result));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(s[0], s[1], s[2]), j.work, query->device, SHMT_CONTIGUOUS_FORMAT, &lse));
  if (!shmt__tensor_is_meta(query) && lse->numel > 0) {
    SHMT_TRY(with_dense_rows(query, &q));
    SHMT_TRY(with_dense_rows(key, &k));
    SHMT_TRY(with_dense_rows(value, &v));
    j.query = q;
    j.key = k;
    j.value = v;
    j.out = result;
    j.lse = lse;
    /* Every block reads all keys, so blocks are larger when there are still enough for all threads. */
    if (j.n_batch_heads * ((j.queries + MANY_QUERIES_AT_ONCE - 1) / MANY_QUERIES_AT_ONCE) >= shmt__num_threads())
      j.block = MANY_QUERIES_AT_ONCE;
    const int64_t blocks = (j.queries + j.block - 1) / j.block;
    const int64_t work = shmt__min_i64(j.queries, j.block) * j.keys * (j.width + j.values) + 1;
    shmt__parallel_for(j.n_batch_heads * blocks, GRAIN_PRODUCTS / work + 1, forward_blocks, &j);
    SHMT_TRY(out_of_memory(&j));
  }
  *out = SHMT_TAKE(result);
  *logsumexp = SHMT_TAKE(lse);
  return SHMT_OK;
}

/* An empty gradient. As in torch, it has the layout (batch, length, heads, width), the one that layers produce before
 * they transpose, when heads_are_inside. */
static shmt_status make_grad(const shmt_tensor* t, bool heads_are_inside, shmt_tensor** out) {
  const int64_t* n = t->sizes;

  if (!heads_are_inside)
    return shmt__tensor_empty(shmt__tensor_sizes(t), t->dtype, t->device, SHMT_CONTIGUOUS_FORMAT, out);
  return shmt__tensor_empty_strided(shmt__tensor_sizes(t), SHMT_INTS(n[1] * n[2] * n[3], n[3], n[1] * n[3], 1),
                                    t->dtype, t->device, out);
}

shmt_status shmt__attention_backward(shmt_tensor* grad_out, shmt_tensor* query, shmt_tensor* key, shmt_tensor* value,
                                     shmt_tensor* out, shmt_tensor* logsumexp, double dropout_p, bool is_causal,
                                     shmt_tensor* attn_mask, shmt_opt_float scale, shmt_tensor** grad_query,
                                     shmt_tensor** grad_key, shmt_tensor** grad_value) {
  SHMT_AUTO(shmt_tensor) q = NULL;
  SHMT_AUTO(shmt_tensor) k = NULL;
  SHMT_AUTO(shmt_tensor) v = NULL;
  SHMT_AUTO(shmt_tensor) g = NULL;
  SHMT_AUTO(shmt_tensor) o = NULL;
  SHMT_AUTO(shmt_tensor) lse = NULL;
  SHMT_AUTO(shmt_tensor) for_query = NULL;
  SHMT_AUTO(shmt_tensor) for_key = NULL;
  SHMT_AUTO(shmt_tensor) for_value = NULL;
  attention_job j = {0};

  SHMT_TRY(check_attention("scaled_dot_product_attention_flash_attention_backward", query, key, value, dropout_p,
                           attn_mask, scale, is_causal, &j));
  SHMT_TRY(shmt__check_scalar_type(grad_out, query->dtype));
  SHMT_TRY(shmt__check_scalar_type(out, query->dtype));
  SHMT_TRY(shmt__check_scalar_type(logsumexp, j.work));
  SHMT_REQUIRE(grad_out->n_dims == 4 && out->n_dims == 4 && grad_out->numel == out->numel &&
                   out->numel == j.n_batch_heads * j.queries * j.values &&
                   logsumexp->numel == j.n_batch_heads * j.queries,
               SHMT_E_RUNTIME, "scaled_dot_product_attention_flash_attention_backward: expected the forward results, "
               "but got out %s, its gradient %s and logsumexp %s", SHMT_SHAPE_TEXT(out), SHMT_SHAPE_TEXT(grad_out),
               SHMT_SHAPE_TEXT(logsumexp));
  const bool heads_are_inside = has_dense_rows(query, key, value);
  SHMT_TRY(make_grad(query, heads_are_inside, &for_query));
  SHMT_TRY(make_grad(key, heads_are_inside, &for_key));
  SHMT_TRY(make_grad(value, heads_are_inside, &for_value));
  const bool is_empty = j.n_batch_heads == 0 || j.queries == 0 || j.keys == 0;
  if (!shmt__tensor_is_meta(query) && !is_empty) {
    SHMT_TRY(with_dense_rows(query, &q));
    SHMT_TRY(with_dense_rows(key, &k));
    SHMT_TRY(with_dense_rows(value, &v));
    SHMT_TRY(with_dense_rows(grad_out, &g));
    SHMT_TRY(with_dense_rows(out, &o));
    SHMT_TRY(shmt__tensor_contiguous(logsumexp, SHMT_CONTIGUOUS_FORMAT, &lse));
    j.query = q;
    j.key = k;
    j.value = v;
    j.grad = g;
    j.out = o;
    j.lse = lse;
    j.grad_query = for_query;
    j.grad_key = for_key;
    j.grad_value = for_value;
    shmt__parallel_for(j.n_batch_heads, GRAIN_PRODUCTS / (j.queries * j.keys * (j.width + j.values) + 1) + 1,
                       backward_heads, &j);
    SHMT_TRY(out_of_memory(&j));
  }
  if (!shmt__tensor_is_meta(query) && is_empty) {
    SHMT_TRY(shmt__tensor_fill(for_query, shmt__scalar_int(0)));
    SHMT_TRY(shmt__tensor_fill(for_key, shmt__scalar_int(0)));
    SHMT_TRY(shmt__tensor_fill(for_value, shmt__scalar_int(0)));
  }
  *grad_query = SHMT_TAKE(for_query);
  *grad_key = SHMT_TAKE(for_key);
  *grad_value = SHMT_TAKE(for_value);
  return SHMT_OK;
}
