/* ops/shape/cat_stack.c -- concatenation: cat, stack, hstack, vstack, dstack, column_stack. */
#include "base/overflow.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "iter/copy/move.h"
#include "iter/copy/streaming_stores.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "ops/outputs.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <string.h>

enum {
  GRAIN_BYTES = 1 << 17,   /* with less, another thread does not pay */
  STREAM_ROW_BYTES = 1024, /* with less, streaming past the caches does not pay */
  MIN_CAT_BYTES = 128,     /* a tensor's bytes in a row of the result; with less, each tensor is copied by itself */
  SHORT_ROW_BYTES = 512,   /* of the result: several such rows are made together */
  BLOCK_BYTES = 4096,      /* of such rows: they stay in the first-level cache */
};

/* torch lets a vector without elements be concatenated with anything. */
static bool is_skipped(const shmt_tensor* t) { return t->n_dims == 1 && t->sizes[0] == 0; }

static shmt_status common_dtype(shmt_tensors tensors, shmt_dtype* out) {
  shmt__result_type type = SHMT_RESULT_TYPE_INIT;
  bool mixed = false;

  *out = tensors.data[0]->dtype;
  for (int64_t i = 1; i < tensors.len; i++) mixed |= tensors.data[i]->dtype != *out;
  if (!mixed) return SHMT_OK;
  for (int64_t i = 0; i < tensors.len; i++) {
    const shmt_tensor* t = tensors.data[i];
    SHMT_TRY(shmt__result_type_add(&type, t->dtype, t->n_dims == 0, (t->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0));
  }
  return shmt__result_type_get(&type, out);
}

/* Copies rows of nbytes. Rows are some bytes apart on either side. */
typedef struct row_copy {
  char* to;
  const char* from;
  int64_t to_step, nbytes;
  bool streamed;
} row_copy;

static void spread_rows(char* to, int64_t to_step, const char* from, int64_t nbytes, int64_t n) {
  if (nbytes <= 16 && (nbytes & (nbytes - 1)) == 0)
    shmt__move_elements(to, to_step, from, nbytes, n, nbytes);
  else
    for (int64_t r = 0; r < n; r++) memcpy(to + r * to_step, from + r * nbytes, (size_t)nbytes);
}

static void copy_rows(void* ctx, int64_t begin, int64_t end) {
  const row_copy* c = ctx;
  char* to = c->to + begin * c->to_step;
  const char* from = c->from + begin * c->nbytes;

  if (!c->streamed) {
    spread_rows(to, c->to_step, from, c->nbytes, end - begin);
    return;
  }
  for (int64_t r = begin; r < end; r++, to += c->to_step, from += c->nbytes) shmt__move_streamed(to, from, c->nbytes);
  shmt__move_streamed_end();
}

/* Concatenates dense tensors by writing the result from one end to the other. */
typedef struct cat_job {
  char* to;
  shmt_tensors tensors;
  const int64_t* lengths; /* along dim; NULL: all are 1 */
  int64_t inner, to_step; /* bytes */
  bool streamed;
} cat_job;

/* Bytes of tensor i in each row of the result. */
static int64_t nbytes_of(const cat_job* c, int64_t i) { return c->lengths ? c->lengths[i] * c->inner : c->inner; }

static void cat_rows(void* ctx, int64_t begin, int64_t end) {
  const cat_job* c = ctx;
  char* to = c->to + begin * c->to_step;

  for (int64_t r = begin; r < end; r++) {
    for (int64_t i = 0; i < c->tensors.len; i++) {
      const int64_t nbytes = nbytes_of(c, i);
      if (nbytes <= 0) continue;
      const char* from = (const char*)shmt__tensor_data(c->tensors.data[i]) + r * nbytes;
      if (c->streamed)
        shmt__move_streamed(to, from, nbytes);
      else
        memcpy(to, from, (size_t)nbytes);
      to += nbytes;
    }
  }
  if (c->streamed) shmt__move_streamed_end();
}

/* Makes n rows from row r on, tensor by tensor. */
static void cat_block(const cat_job* c, char* to, int64_t r, int64_t n) {
  const char* from[2];
  const int64_t nbytes = nbytes_of(c, 0);

  if (c->tensors.len == 2 && nbytes == nbytes_of(c, 1) && (nbytes == 1 || nbytes == 2 || nbytes == 4 || nbytes == 8)) {
    for (int i = 0; i < 2; i++) from[i] = (const char*)shmt__tensor_data(c->tensors.data[i]) + r * nbytes;
    shmt__interleave(to, from[0], from[1], n, nbytes);
    return;
  }
  for (int64_t i = 0; i < c->tensors.len; i++) {
    const int64_t length = nbytes_of(c, i);
    if (length <= 0) continue;
    spread_rows(to, c->to_step, (const char*)shmt__tensor_data(c->tensors.data[i]) + r * length, length, n);
    to += length;
  }
}

/* Makes short rows, a block of them at a time. */
static void cat_short_rows(void* ctx, int64_t begin, int64_t end) {
  const cat_job* c = ctx;
  _Alignas(SHMT_STAGE_LINE) char block[BLOCK_BYTES];
  char* to = c->to + begin * c->to_step;
  shmt__stage s;

  shmt__stage_init(&s);
  for (int64_t r = begin, n; r < end; r += n, to += n * c->to_step) {
    char* const at = c->streamed ? block : to;
    n = BLOCK_BYTES / c->to_step < end - r ? BLOCK_BYTES / c->to_step : end - r;
    cat_block(c, at, r, n);
    if (c->streamed) shmt__stage_copy(&s, to, block, n * c->to_step);
  }
  shmt__stage_end(&s);
}

/* Concatenates along dim, row by row. Returns false where that is not possible or does not pay. */
static bool cat_dense(shmt_tensors tensors, int64_t dim, const int64_t* lengths, shmt_tensor* out) {
  cat_job c = {shmt__tensor_data(out), tensors, lengths, shmt__tensor_item_bytes(out), 0, false};

  if (out->numel == 0) return false;
  const int64_t rows = shmt__tensor_extent(out, 0, dim);
  c.inner *= shmt__tensor_extent(out, dim + 1, out->n_dims);
  c.to_step = out->sizes[dim] * c.inner;
  const bool is_short = c.to_step <= SHORT_ROW_BYTES;
  if (rows <= 1 || (!is_short && c.to_step < tensors.len * MIN_CAT_BYTES) || !shmt__tensor_is_contiguous(out))
    return false;
  for (int64_t i = 0; i < tensors.len; i++)
    if (nbytes_of(&c, i) > 0 &&
        (tensors.data[i]->dtype != out->dtype || !shmt__tensor_is_contiguous(tensors.data[i])))
      return false;
  c.streamed = rows * c.to_step >= SHMT_STREAM_BYTES && (is_short || c.to_step >= tensors.len * STREAM_ROW_BYTES);
  shmt__parallel_for(rows, GRAIN_BYTES / c.to_step + 1, is_short ? cat_short_rows : cat_rows, &c);
  return true;
}

/* Copies t to its slice of `out` along dim. Rows that are dense on both sides are plain memory moves. */
static shmt_status copy_slice(shmt_tensor* out, int64_t dim, int64_t start, shmt_tensor* t) {
  SHMT_AUTO(shmt_tensor) slice = NULL;
  const int64_t item = shmt__tensor_item_bytes(out);

  if (t->numel == 0) return SHMT_OK;
  if (t->dtype == out->dtype && shmt__tensor_is_contiguous(t) && shmt__tensor_is_contiguous(out)) {
    const int64_t inner = item * shmt__tensor_extent(out, dim + 1, out->n_dims);
    const int64_t rows = shmt__tensor_extent(out, 0, dim);
    const int64_t nbytes = t->sizes[dim] * inner;
    row_copy c = {(char*)shmt__tensor_data(out) + start * inner, shmt__tensor_data(t), out->sizes[dim] * inner, nbytes,
                  out->numel * item >= SHMT_STREAM_BYTES && nbytes >= STREAM_ROW_BYTES};
    if (rows == 1)
      shmt__copy_bytes(c.to, c.from, nbytes, c.streamed);
    else
      shmt__parallel_for(rows, GRAIN_BYTES / nbytes + 1, copy_rows, &c);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_alias(out, shmt__tensor_sizes(t), shmt__tensor_strides(out),
                              out->offset + start * out->strides[dim], &slice));
  return shmt__tensor_copy(slice, t);
}

static shmt_status check_apart(shmt_tensors tensors, const shmt_tensor* out) {
  for (int64_t i = 0; i < tensors.len; i++) SHMT_TRY(shmt__check_no_overlap(out, tensors.data[i]));
  return SHMT_OK;
}

shmt_status shmt__cat_sized(shmt_tensors tensors, int64_t dim, shmt_ints lengths, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;
  const shmt_tensor* first = NULL;
  shmt_memory_format format = SHMT_MEMORY_FORMAT_NONE;
  shmt_device device = SHMT_CPU;
  shmt_dtype dtype;
  int64_t sizes[SHMT_MAX_DIMS], total = 0;

  SHMT_REQUIRE(tensors.len > 0, SHMT_E_RUNTIME, "torch.cat(): expected a non-empty list of Tensors");
  SHMT_REQUIRE(lengths.len == tensors.len, SHMT_E_RUNTIME, "cat(): %" PRId64 " lengths for %" PRId64 " tensors",
               lengths.len, tensors.len);
  SHMT_TRY(common_dtype(tensors, &dtype));
  for (int64_t i = 0; i < tensors.len; i++) {
    shmt_tensor* t = tensors.data[i];
    SHMT_REQUIRE(lengths.data[i] < 0 || (dim >= 0 && dim < t->n_dims && lengths.data[i] == t->sizes[dim]),
                 SHMT_E_RUNTIME, "cat(): tensor %" PRId64 " of size %s has no length %" PRId64 " at dimension %" PRId64,
                 i, SHMT_SHAPE_TEXT(t), lengths.data[i], dim);
    if (shmt__tensor_is_meta(t)) device = SHMT_META;
    if (lengths.data[i] < 0) {
      format = SHMT_CONTIGUOUS_FORMAT; /* the format of an empty vector */
      continue;
    }
    if (!first) first = t;
    const shmt_memory_format own = shmt__tensor_suggest_format(t);
    format = format == SHMT_MEMORY_FORMAT_NONE || format == own ? own : SHMT_CONTIGUOUS_FORMAT;
    SHMT_REQUIRE(t->n_dims == first->n_dims, SHMT_E_RUNTIME,
                 "Tensors must have same number of dimensions: got %d and %d", first->n_dims, t->n_dims);
    for (int d = 0; d < t->n_dims; d++)
      SHMT_REQUIRE(d == dim || t->sizes[d] == first->sizes[d], SHMT_E_RUNTIME,
                   "Sizes of tensors must match except in dimension %" PRId64 ". Expected size %" PRId64
                   " but got size %" PRId64 " for tensor number %" PRId64 " in the list.",
                   dim, first->sizes[d], t->sizes[d], i);
    SHMT_REQUIRE(shmt__add_i64(total, t->sizes[dim], &total), SHMT_E_RUNTIME, "cat(): sizes overflow");
  }
  SHMT_REQUIRE(!*out || shmt__can_cast(dtype, (*out)->dtype), SHMT_E_TYPE,
               "torch.cat(): input types can't be cast to the desired output type %s",
               shmt__dtype_title(*out ? (*out)->dtype : dtype));
  if (!first) {
    /* All tensors are empty vectors. */
    return shmt__prepare_out("cat", out, SHMT_INTS(0), dtype, device);
  }
  memcpy(sizes, first->sizes, (size_t)first->n_dims * sizeof *sizes);
  sizes[dim] = total;
  if (*out) {
    SHMT_TRY(check_apart(tensors, *out));
    SHMT_TRY(shmt__prepare_out("cat", out, (shmt_ints){sizes, first->n_dims}, dtype, device));
    SHMT_TRY(check_apart(tensors, *out)); /* after a resize out may overlap them */
  } else {
    SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, first->n_dims}, dtype, device, format, &made));
  }
  shmt_tensor* to = *out ? *out : made;
  if (!shmt__tensor_is_meta(to) && !cat_dense(tensors, dim, lengths.data, to)) {
    int64_t start = 0;
    for (int64_t i = 0; i < tensors.len; i++) {
      if (lengths.data[i] < 0) continue;
      SHMT_TRY(copy_slice(to, dim, start, tensors.data[i]));
      start += lengths.data[i];
    }
  }
  if (!*out) *out = SHMT_TAKE(made);
  return SHMT_OK;
}

/* Checks the tensors and finds their lengths along dim: -1 for a skipped one. */
static shmt_status cat_lengths(shmt_tensors tensors, int64_t* dim, int64_t* lengths) {
  const shmt_tensor* first = NULL;

  for (int64_t i = 0; i < tensors.len; i++) {
    const shmt_tensor* t = tensors.data[i];
    SHMT_REQUIRE(t->n_dims > 0, SHMT_E_RUNTIME,
                 "zero-dimensional tensor (at position %" PRId64 ") cannot be concatenated", i);
    if (!first && !is_skipped(t)) first = t;
  }
  /* With nothing but 1-d empty tensors any dim will do, as in torch. */
  if (first)
    SHMT_TRY(shmt__wrap_dim(*dim, first->n_dims, dim));
  else
    *dim = 0;
  for (int64_t i = 0; i < tensors.len; i++) {
    const shmt_tensor* t = tensors.data[i];
    if (is_skipped(t)) {
      lengths[i] = first && first->n_dims == 1 ? 0 : -1;
      continue;
    }
    SHMT_REQUIRE(t->n_dims == first->n_dims, SHMT_E_RUNTIME,
                 "Tensors must have same number of dimensions: got %d and %d", first->n_dims, t->n_dims);
    lengths[i] = t->sizes[*dim];
  }
  return SHMT_OK;
}

static shmt_status cat(shmt_tensors tensors, int64_t dim, shmt_tensor** out) {
  int64_t inline_lengths[16];
  int64_t* lengths = inline_lengths;
  void* memory = NULL;
  const uint64_t nbytes = (uint64_t)tensors.len * sizeof *lengths;
  shmt_status status;

  SHMT_REQUIRE(tensors.len > 0, SHMT_E_VALUE, "torch.cat(): expected a non-empty list of Tensors");
  if (tensors.len > 16) {
    SHMT_TRY(shmt__alloc(nbytes, &memory));
    lengths = memory;
  }
  status = cat_lengths(tensors, &dim, lengths);
  if (status == SHMT_OK) status = shmt_op__cat_sized(tensors, dim, (shmt_ints){lengths, tensors.len}, out);
  if (memory) shmt__dealloc(memory, nbytes);
  return status;
}

shmt_status shmt__cat(shmt_tensors tensors, int64_t dim, shmt_tensor** out) { return cat(tensors, dim, out); }

/* Checks out before it is written to: it shares no memory with the tensors, and they can be cast to its dtype. */
static shmt_status check_cat_out(shmt_tensors tensors, const shmt_tensor* out) {
  shmt_dtype dtype;

  SHMT_REQUIRE(tensors.len > 0, SHMT_E_VALUE, "torch.cat(): expected a non-empty list of Tensors");
  SHMT_TRY(check_apart(tensors, out));
  SHMT_TRY(common_dtype(tensors, &dtype));
  SHMT_REQUIRE(shmt__can_cast(dtype, out->dtype), SHMT_E_TYPE,
               "torch.cat(): input types can't be cast to the desired output type %s", shmt__dtype_title(out->dtype));
  return SHMT_OK;
}

shmt_status shmt__cat_out(shmt_tensors tensors, int64_t dim, shmt_tensor* out) {
  SHMT_AUTO(shmt_tensor) joined = NULL;

  SHMT_TRY(check_cat_out(tensors, out));
  SHMT_TRY(cat(tensors, dim, &joined));
  SHMT_REQUIRE(shmt__can_cast(joined->dtype, out->dtype), SHMT_E_TYPE,
               "torch.cat(): input types can't be cast to the desired output type %s", shmt__dtype_title(out->dtype));
  return shmt__write_out("cat", joined, out);
}

shmt_status shmt__cat_backward(shmt_tensor* grad, int64_t dim, shmt_ints lengths, shmt_tensor_vec* out) {
  SHMT_AUTO_LIST list = {0, 0};
  int64_t start = 0;

  SHMT_TRY(shmt__tensor_vec_alloc(lengths.len, &list));
  for (int64_t i = 0; i < lengths.len; i++) {
    if (lengths.data[i] < 0) {
      SHMT_TRY(shmt__tensor_empty(SHMT_INTS(0), grad->dtype, grad->device, SHMT_CONTIGUOUS_FORMAT, &list.data[i]));
      continue;
    }
    SHMT_TRY(shmt_op_narrow(grad, dim, start, lengths.data[i], &list.data[i]));
    start += lengths.data[i];
  }
  *out = list;
  list = (shmt_tensor_vec){0, 0};
  return SHMT_OK;
}

shmt_status shmt__stack(shmt_tensors tensors, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) joined = NULL;
  shmt_device device = SHMT_CPU;
  shmt_dtype dtype;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];

  SHMT_REQUIRE(tensors.len > 0, SHMT_E_RUNTIME, "stack expects a non-empty TensorList");
  const shmt_tensor* first = tensors.data[0];
  const int n = first->n_dims;
  SHMT_REQUIRE(n < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "stack(): more than %d dimensions", SHMT_MAX_DIMS);
  SHMT_TRY(shmt__wrap_dim(dim, n + 1, &dim));
  bool is_last = !*out && dim < n && shmt__tensor_suggest_format(first) != SHMT_CONTIGUOUS_FORMAT;
  for (int64_t i = 0; i < tensors.len; i++) {
    const shmt_tensor* t = tensors.data[i];
    if (shmt__tensor_is_meta(t)) device = SHMT_META;
    is_last = is_last && shmt__tensor_suggest_format(t) == shmt__tensor_suggest_format(first);
    SHMT_REQUIRE(shmt__same_sizes(t, first), SHMT_E_RUNTIME,
                 "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %" PRId64,
                 SHMT_SHAPE_TEXT(first), SHMT_SHAPE_TEXT(t), i);
  }
  SHMT_TRY(common_dtype(tensors, &dtype));
  if (*out) SHMT_TRY(check_cat_out(tensors, *out));
  for (int d = 0, from = 0; d <= n; d++) sizes[d] = d == dim ? tensors.len : first->sizes[from++];
  if (is_last) { /* as torch: in the memory format of cat along that dim */
    SHMT_TRY(cat(tensors, dim, &joined));
    for (int d = 0, from = 0; d <= n; d++)
      strides[d] = d == dim ? joined->strides[d] * first->sizes[d] : joined->strides[from++];
    return shmt__tensor_alias(joined, (shmt_ints){sizes, n + 1}, (shmt_ints){strides, n + 1}, joined->offset, out);
  }
  SHMT_TRY(shmt__output_begin("stack", out, (shmt_ints){sizes, n + 1}, dtype, device, &work));
  if (!shmt__tensor_is_meta(work) && !cat_dense(tensors, dim, NULL, work)) {
    for (int d = 0, from = 0; d <= n; d++)
      if (d != dim) strides[from++] = work->strides[d];
    for (int64_t i = 0; i < tensors.len; i++) {
      SHMT_AUTO(shmt_tensor) slice = NULL;
      SHMT_TRY(shmt__tensor_alias(work, shmt__tensor_sizes(first), (shmt_ints){strides, n},
                                  work->offset + i * work->strides[dim], &slice));
      SHMT_TRY(shmt__tensor_copy(slice, tensors.data[i]));
    }
  }
  return shmt__output_end("stack", &work, out);
}

/* --- hstack, vstack, dstack, column_stack -------------------------------------------- */

typedef shmt_status (*atleast_fn)(shmt_tensor* t, shmt_tensor** out);

static shmt_status at_least_1d(shmt_tensor* t, shmt_tensor** out) { return shmt_op_atleast_1d(t, out); }
static shmt_status at_least_2d(shmt_tensor* t, shmt_tensor** out) { return shmt_op_atleast_2d(t, out); }
static shmt_status at_least_3d(shmt_tensor* t, shmt_tensor** out) { return shmt_op_atleast_3d(t, out); }
static shmt_status as_column(shmt_tensor* t, shmt_tensor** out) {
  if (t->n_dims > 1) {
    *out = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  return shmt_op_reshape(t, SHMT_INTS(t->numel, 1), out);
}

/* dim -1: the first dim of 1-d tensors, else the second. */
static shmt_status atleast_and_cat(const char* name, shmt_tensors tensors, atleast_fn at_least, int64_t dim,
                                   shmt_tensor** out) {
  SHMT_AUTO_LIST list = {0, 0};

  SHMT_REQUIRE(tensors.len > 0, SHMT_E_RUNTIME, "%s expects a non-empty TensorList", name);
  SHMT_TRY(shmt__tensor_vec_alloc(tensors.len, &list));
  for (int64_t i = 0; i < tensors.len; i++) SHMT_TRY(at_least(tensors.data[i], &list.data[i]));
  if (dim < 0) dim = list.data[0]->n_dims == 1 ? 0 : 1;
  return cat((shmt_tensors){list.data, list.len}, dim, out);
}

shmt_status shmt__hstack(shmt_tensors tensors, shmt_tensor** out) {
  return atleast_and_cat("hstack", tensors, at_least_1d, -1, out);
}

shmt_status shmt__vstack(shmt_tensors tensors, shmt_tensor** out) {
  return atleast_and_cat("vstack", tensors, at_least_2d, 0, out);
}

shmt_status shmt__dstack(shmt_tensors tensors, shmt_tensor** out) {
  return atleast_and_cat("dstack", tensors, at_least_3d, 2, out);
}

shmt_status shmt__column_stack(shmt_tensors tensors, shmt_tensor** out) {
  return atleast_and_cat("column_stack", tensors, as_column, 1, out);
}

typedef shmt_status (*cat_fn)(shmt_tensors tensors, shmt_tensor** out);

static shmt_status cat_into(const char* name, cat_fn cat_function, shmt_tensors tensors, shmt_tensor* out) {
  SHMT_AUTO(shmt_tensor) joined = NULL;

  SHMT_TRY(check_cat_out(tensors, out));
  SHMT_TRY(cat_function(tensors, &joined));
  return shmt__write_out(name, joined, out);
}

shmt_status shmt__hstack_out(shmt_tensors tensors, shmt_tensor* out) {
  return cat_into("hstack", shmt__hstack, tensors, out);
}

shmt_status shmt__vstack_out(shmt_tensors tensors, shmt_tensor* out) {
  return cat_into("vstack", shmt__vstack, tensors, out);
}

shmt_status shmt__dstack_out(shmt_tensors tensors, shmt_tensor* out) {
  return cat_into("dstack", shmt__dstack, tensors, out);
}

shmt_status shmt__column_stack_out(shmt_tensors tensors, shmt_tensor* out) {
  return cat_into("column_stack", shmt__column_stack, tensors, out);
}
