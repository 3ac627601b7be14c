/* iter/copy/copy.c -- copies, casts and fills over any strides. */
#include "iter/copy/copy.h"

#include "base/scalar.h"
#include "iter/dims.h"
#include "iter/iter.h"
#include "iter/copy/move.h"
#include "iter/copy/streaming_stores.h"
#include "iter/copy/permute.h"
#include "tensor/batched.h"

#include <string.h>

enum {
  GRAIN_BYTES = 1 << 17, /* fewer bytes are not worth another thread */
};

/* --- loops ------------------------------------------------------------------- */

static void cast_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  shmt__cast_loop_fn cast = *(const shmt__cast_loop_fn*)ctx;

  cast(data[0], strides[0], data[1], strides[1], n);
}

typedef struct filling {
  _Alignas(16) char element[16];
  int64_t item;
  bool streamed;
} filling;

static void fill_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const filling* f = ctx;

  shmt__move_fill(data[0], strides[0], f->element, n, f->item, f->streamed);
}

typedef struct byte_copy {
  char* dst;
  const char* src;
  bool streamed;
} byte_copy;

static void copy_bytes(void* arg, int64_t begin, int64_t end) {
  const byte_copy* c = arg;

  if (!c->streamed) {
    memmove(c->dst + begin, c->src + begin, (size_t)(end - begin));
    return;
  }
  shmt__move_streamed(c->dst + begin, c->src + begin, end - begin);
  shmt__move_streamed_end();
}

void shmt__copy_bytes(char* dst, const char* src, int64_t nbytes, bool streamed) {
  byte_copy c = {dst, src, streamed};

  if (nbytes <= GRAIN_BYTES)
    copy_bytes(&c, 0, nbytes);
  else
    shmt__parallel_for(nbytes, GRAIN_BYTES, copy_bytes, &c);
}

/* --- copy ------------------------------------------------------------------------ */

static bool same_layout(const shmt_tensor* a, const shmt_tensor* b) {
  if (!shmt__same_sizes(a, b)) return false;
  if (a->flags & b->flags & SHMT_TENSOR_CONTIGUOUS) return true;
  return (a->flags & SHMT_TENSOR_DENSE) && shmt__same_strides(a, b);
}

/* Shapes only. */
static shmt_status check_meta_copy(shmt_tensor* dst, shmt_tensor* src) {
  int64_t sizes[SHMT_MAX_DIMS], n_dims;
  char text[256];

  SHMT_REQUIRE(dst->device == SHMT_META, SHMT_E_NOT_IMPLEMENTED,
               "Cannot copy out of meta tensor; no data!");
  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(dst), shmt__tensor_sizes(src), sizes, &n_dims));
  SHMT_REQUIRE(shmt__same_ints((shmt_ints){sizes, n_dims}, shmt__tensor_sizes(dst)), SHMT_E_RUNTIME,
               "output with shape %s doesn't match the broadcast shape %s", SHMT_SHAPE_TEXT(dst),
               shmt__ints_text((shmt_ints){sizes, n_dims}, text, sizeof text));
  return SHMT_OK;
}

shmt_status shmt__tensor_copy(shmt_tensor* dst, shmt_tensor* src) {
  const int64_t item = shmt__tensor_item_bytes(dst);
  shmt_iter it;

  if (dst == src) return SHMT_OK;
  SHMT_TRY(shmt__check_has_memory(dst));
  SHMT_TRY(shmt__check_has_memory(src));
  if (dst->device == SHMT_META || src->device == SHMT_META) return check_meta_copy(dst, src);
  if (dst->dtype == src->dtype && dst->storage != src->storage && same_layout(dst, src)) {
    const int64_t nbytes = dst->numel * item;
    if (nbytes) shmt__copy_bytes(shmt__tensor_data(dst), shmt__tensor_data(src), nbytes, nbytes >= SHMT_STREAM_BYTES);
    return SHMT_OK;
  }
  shmt__iter_init(&it, "copy_");
  it.resize_outputs = false;
  shmt__iter_output(&it, &dst, dst->dtype);
  shmt__iter_input(&it, src);
  SHMT_TRY(shmt__iter_build_given(&it));
  if (dst->dtype == src->dtype) {
    shmt__permute(&it, item);
    return SHMT_OK;
  }
  shmt__cast_loop_fn cast = shmt__cast_loop(dst->dtype, src->dtype);
  return shmt__iter_run(&it, cast_run, &cast);
}

shmt_status shmt__tensor_contiguous(shmt_tensor* t, shmt_memory_format format, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;

  SHMT_REQUIRE(format != SHMT_PRESERVE_FORMAT, SHMT_E_RUNTIME,
               "preserve memory format is unsupported by the contiguous operator");
  if (format == SHMT_MEMORY_FORMAT_NONE) format = SHMT_CONTIGUOUS_FORMAT;
  if (shmt__tensor_is_contiguous_in(t, format)) {
    *out = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(t), t->dtype, t->device, format, &copy));
  if (t->device != SHMT_META) SHMT_TRY(shmt__tensor_copy(copy, t));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}

shmt_status shmt__tensor_cast(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;

  if (t->dtype == dtype) {
    *out = shmt__tensor_ref(t);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_empty_like(t, dtype, &copy));
  if (t->device != SHMT_META) SHMT_TRY(shmt__tensor_copy(copy, t));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}

shmt_status shmt__tensor_fill(shmt_tensor* t, shmt_scalar value) {
  const int64_t item = shmt__tensor_item_bytes(t);
  filling f = {{0}, item, t->numel * item >= SHMT_STREAM_BYTES};
  shmt_iter it;

  /* A 1-element tensor of a 16-bit float may become infinite; otherwise the number must fit. */
  const bool is_half = shmt__dtype_kind[t->dtype] == SHMT_KIND_FLOATING && item == 2;
  SHMT_TRY(shmt__scalar_check(value, is_half && t->numel == 1 ? SHMT_FLOAT64 : t->dtype));
  shmt__scalar_store_unsafe(value, t->dtype, f.element);
  if (t->device == SHMT_META) return SHMT_OK;
  SHMT_TRY(shmt__check_has_memory(t));
  if (shmt__tensor_is_contiguous(t) && t->numel * item <= GRAIN_BYTES) {
    if (t->numel) shmt__move_fill(shmt__tensor_data(t), item, f.element, t->numel, item, false);
    return SHMT_OK;
  }
  shmt__iter_init(&it, "fill_");
  it.resize_outputs = false;
  it.check_overlap = false; /* writing one value twice is fine, as into an expanded tensor */
  shmt__iter_output(&it, &t, t->dtype);
  SHMT_TRY(shmt__iter_build_given(&it));
  return shmt__iter_run(&it, fill_run, &f);
}
