/* tensor/create.c -- making and destroying tensors; the fast path of every result. */
#include "tensor/tensor.h"

#include "base/overflow.h"
#include "base/scalar.h"
#include "storage/allocator.h"
#include "storage/blocks.h"
#include "tensor/sparse.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(shmt_tensor) <= 192, "a tensor header is one small block");
enum { HEADER_CLASS = 2 };

_Thread_local bool shmt__tls_inference_mode __attribute__((tls_model("initial-exec")));

static void free_no_meta(shmt_autograd_meta* meta) { (void)meta; }
void (*shmt__autograd_meta_free)(shmt_autograd_meta*) = free_no_meta;

/* --- headers --------------------------------------------------------------------- */

static inline uint64_t dims_bytes(int64_t n_dims) { return (uint64_t)n_dims * 2 * sizeof(int64_t); }

/* A header with room for n_dims; sizes, strides, numel, offset and storage are the caller's to fill. */
static inline shmt_status take_header(int64_t n_dims, shmt_dtype dtype, shmt_device device, shmt_tensor** out) {
  shmt_tensor* t = shmt__small_pop(HEADER_CLASS);
  SHMT_REQUIRE(t != NULL, SHMT_E_NOMEM, "tensor header: tried to allocate %zu bytes", sizeof *t);
  if (SHMT_LIKELY(n_dims <= SHMT_INLINE_DIMS)) {
    t->sizes = t->dims;
    t->strides = t->dims + n_dims;
  } else {
    void* dims = NULL;
    shmt_status status =
        n_dims <= SHMT_MAX_DIMS
            ? shmt__alloc(dims_bytes(n_dims), &dims)
            : shmt__fail(SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS, n_dims);
    if (status != SHMT_OK) {
      shmt__small_push(t, HEADER_CLASS);
      return status;
    }
    t->sizes = dims;
    t->strides = t->sizes + n_dims;
  }
  atomic_init(&t->refs, 1);
  atomic_init(&t->version, 0);
  t->flags = shmt__tls_inference_mode ? SHMT_TENSOR_INFERENCE : 0;
  t->dtype = (int16_t)dtype;
  t->device = (int8_t)device;
  t->n_dims = (uint8_t)n_dims;
  t->keys = SHMT_KEYBIT_ADInplaceOrView | (device == SHMT_META ? SHMT_KEYBIT_Meta : SHMT_KEYBIT_CPU);
  t->storage = NULL;
  t->base = NULL;
  t->autograd = NULL;
  t->sparse = NULL;
  t->py_object = NULL;
  *out = t;
  return SHMT_OK;
}

static void drop_header(shmt_tensor* t) {
  if (SHMT_UNLIKELY(t->n_dims > SHMT_INLINE_DIMS)) shmt__dealloc(t->sizes, dims_bytes(t->n_dims));
  shmt__small_push(t, HEADER_CLASS);
}

static bool has_no_wrapper(shmt_tensor* t) {
  (void)t;
  return false;
}
bool (*shmt__tensor_back_to_wrapper)(shmt_tensor*) = has_no_wrapper;

void shmt__sparse_free(shmt_sparse* p) {
  if (!p) return;
  shmt__tensor_release(p->compressed);
  shmt__tensor_release(p->indices);
  shmt__tensor_release(p->values);
  shmt__dealloc(p, sizeof *p);
}

void shmt__tensor_destroy(shmt_tensor* t) {
  if (SHMT_UNLIKELY(t->py_object != NULL) && shmt__tensor_back_to_wrapper(t)) return;
  if (SHMT_UNLIKELY(t->autograd != NULL)) shmt__autograd_meta_free(SHMT_TAKE(t->autograd));
  if (SHMT_UNLIKELY(t->base != NULL)) shmt__tensor_release(SHMT_TAKE(t->base));
  if (SHMT_UNLIKELY(t->sparse != NULL)) shmt__sparse_free(SHMT_TAKE(t->sparse));
  shmt__storage_release(t->storage);
  drop_header(t);
}

/* --- geometry of new tensors ------------------------------------------------------- */

static SHMT_COLD shmt_status fail_negative(shmt_ints sizes) {
  int64_t d = 0;
  while (sizes.data[d] >= 0) d++;
  SHMT_FAIL(SHMT_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s", sizes.data[d],
            shmt__ints_text(sizes, (char[256]){0}, 256));
}

static SHMT_COLD shmt_status fail_overflow(shmt_ints sizes) {
  SHMT_FAIL(SHMT_E_RUNTIME, "Storage size calculation overflowed with sizes=%s",
            shmt__ints_text(sizes, (char[256]){0}, 256));
}

/* The product of sizes or strides overflows: that is allowed only where a size of 0 follows. */
static SHMT_COLD shmt_status check_products(shmt_ints sizes, int64_t item_bytes) {
  int64_t numel = 1, stride = 1;
  bool overflow = false, stride_overflow = false;

  for (int64_t d = 0; d < sizes.len; d++) overflow |= __builtin_mul_overflow(numel, sizes.data[d], &numel);
  if (overflow || __builtin_mul_overflow(numel, item_bytes, &numel)) return fail_overflow(sizes);
  for (int64_t d = sizes.len - 1; d > 0; d--)
    stride_overflow |= __builtin_mul_overflow(stride, sizes.data[d] > 1 ? sizes.data[d] : 1, &stride);
  SHMT_REQUIRE(!stride_overflow, SHMT_E_RUNTIME, "Stride calculation overflowed");
  return SHMT_OK;
}

/* Fill sizes and row-major strides of t; *nbytes is what they need. */
static inline shmt_status fill_contiguous(shmt_tensor* t, shmt_ints sizes, int64_t item_bytes, uint64_t* nbytes) {
  int64_t expected = 1, numel = 1, all = 0;
  bool overflow = false;
  for (int64_t d = sizes.len - 1; d >= 0; d--) {
    int64_t size = sizes.data[d];
    all |= size;
    t->sizes[d] = size;
    t->strides[d] = expected;
    overflow |= __builtin_mul_overflow(expected, size > 1 ? size : 1, &expected);
    numel = (int64_t)((uint64_t)numel * (uint64_t)size); /* |numel| <= |expected|, checked below */
  }
  if (SHMT_UNLIKELY(all < 0)) return fail_negative(sizes);
  int64_t bytes;
  if (SHMT_UNLIKELY(overflow || __builtin_mul_overflow(expected, item_bytes, &bytes)))
    SHMT_TRY(check_products(sizes, item_bytes));
  t->numel = numel;
  t->offset = 0;
  *nbytes = (uint64_t)numel * (uint64_t)item_bytes;
  return SHMT_OK;
}

static shmt_status attach_storage(shmt_tensor* t, shmt_device device, uint64_t nbytes, bool zeroed) {
  if (SHMT_UNLIKELY(device == SHMT_META)) return shmt__storage_create_meta(nbytes, &t->storage);
  return zeroed ? shmt__storage_create_zeroed(nbytes, &t->storage) : shmt__storage_create(nbytes, &t->storage);
}

static inline shmt_status create_contiguous(shmt_ints sizes, shmt_dtype dtype, shmt_device device, bool zeroed,
                                            shmt_tensor** out) {
  shmt_tensor* t = NULL;
  uint64_t nbytes = 0;
  SHMT_TRY(take_header(sizes.len, dtype, device, &t));
  shmt_status status = fill_contiguous(t, sizes, shmt__dtype_size[dtype], &nbytes);
  if (SHMT_LIKELY(status == SHMT_OK)) status = attach_storage(t, device, nbytes, zeroed);
  if (SHMT_UNLIKELY(status != SHMT_OK)) {
    drop_header(t);
    return status;
  }
  if (SHMT_LIKELY(t->n_dims < 4))
    t->flags |= SHMT_TENSOR_CONTIGUOUS | SHMT_TENSOR_DENSE;
  else
    t->flags |= shmt__geometry_flags(t->sizes, t->strides, t->n_dims, t->numel);
  *out = t;
  return SHMT_OK;
}

shmt_status shmt__tensor_empty(shmt_ints sizes, shmt_dtype dtype, shmt_device device, shmt_memory_format format,
                               shmt_tensor** out) {
  if (SHMT_LIKELY(format == SHMT_CONTIGUOUS_FORMAT || format == SHMT_MEMORY_FORMAT_NONE))
    return create_contiguous(sizes, dtype, device, false, out);

  SHMT_REQUIRE(format == SHMT_CHANNELS_LAST || format == SHMT_CHANNELS_LAST_3D, SHMT_E_RUNTIME,
               "unsupported memory format option Preserve");
  bool is_2d = format == SHMT_CHANNELS_LAST;
  SHMT_REQUIRE(sizes.len == (is_2d ? 4 : 5), SHMT_E_RUNTIME,
               "required rank %d tensor to use %s format", is_2d ? 4 : 5, is_2d ? "channels_last" : "channels_last_3d");
  int64_t numel, strides[SHMT_INLINE_DIMS];
  SHMT_TRY(shmt__checked_numel(sizes, &numel));
  shmt__contiguous_strides(sizes, format, strides);
  return shmt__tensor_empty_strided(sizes, (shmt_ints){strides, sizes.len}, dtype, device, out);
}

shmt_status shmt__tensor_zeros(shmt_ints sizes, shmt_dtype dtype, shmt_device device, shmt_tensor** out) {
  return create_contiguous(sizes, dtype, device, true, out);
}

/* Copy checked sizes and strides into t, and set the flags that follow from them. */
static void fill_geometry(shmt_tensor* t, shmt_ints sizes, shmt_ints strides, int64_t offset) {
  int64_t numel = 1;
  for (int64_t d = 0; d < sizes.len; d++) {
    t->sizes[d] = sizes.data[d];
    t->strides[d] = strides.data[d];
    numel *= sizes.data[d];
  }
  t->numel = numel;
  t->offset = offset;
  t->flags |= shmt__geometry_flags(t->sizes, t->strides, t->n_dims, numel);
}

shmt_status shmt__tensor_empty_strided(shmt_ints sizes, shmt_ints strides, shmt_dtype dtype, shmt_device device,
                                       shmt_tensor** out) {
  shmt_tensor* t = NULL;
  uint64_t nbytes;
  SHMT_REQUIRE(sizes.len == strides.len, SHMT_E_RUNTIME,
               "dimensionality of sizes (%" PRId64 ") must match dimensionality of strides (%" PRId64 ")", sizes.len,
               strides.len);
  SHMT_TRY(shmt__storage_bytes_for(sizes, strides, 0, shmt__dtype_size[dtype], &nbytes));
  SHMT_TRY(take_header(sizes.len, dtype, device, &t));
  shmt_status status = attach_storage(t, device, nbytes, false);
  if (SHMT_UNLIKELY(status != SHMT_OK)) {
    drop_header(t);
    return status;
  }
  fill_geometry(t, sizes, strides, 0);
  *out = t;
  return SHMT_OK;
}

shmt_status shmt__tensor_empty_like(shmt_tensor* like, shmt_dtype dtype, shmt_tensor** out) {
  if (dtype == SHMT_DTYPE_NONE) dtype = like->dtype;
  shmt_ints sizes = shmt__tensor_sizes(like);
  if (SHMT_UNLIKELY(!(like->flags & SHMT_TENSOR_DENSE))) {
    int64_t dense[SHMT_MAX_DIMS];
    shmt__dense_strides_like(sizes, shmt__tensor_strides(like), dense);
    return shmt__tensor_empty_strided(sizes, (shmt_ints){dense, sizes.len}, dtype, like->device, out);
  }
  /* A dense tensor needs exactly numel elements. */
  shmt_tensor* t = NULL;
  uint64_t nbytes;
  if (!shmt__mul_u64((uint64_t)like->numel, shmt__dtype_size[dtype], &nbytes)) return fail_overflow(sizes);
  SHMT_TRY(take_header(sizes.len, dtype, like->device, &t));
  shmt_status status = attach_storage(t, like->device, nbytes, false);
  if (SHMT_UNLIKELY(status != SHMT_OK)) {
    drop_header(t);
    return status;
  }
  memcpy(t->sizes, like->sizes, dims_bytes(sizes.len));
  t->numel = like->numel;
  t->offset = 0;
  t->flags |= like->flags & (SHMT_TENSOR_CONTIGUOUS | SHMT_TENSOR_CHANNELS_LAST | SHMT_TENSOR_CHANNELS_LAST_3D |
                             SHMT_TENSOR_DENSE);
  *out = t;
  return SHMT_OK;
}

shmt_status shmt__tensor_from_scalar(shmt_scalar value, shmt_dtype dtype, bool wrapped, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) t = NULL;
  if (dtype == SHMT_DTYPE_NONE) dtype = shmt__scalar_dtype(value);
  SHMT_TRY(create_contiguous(SHMT_INTS_EMPTY, dtype, SHMT_CPU, false, &t));
  /* A 16-bit number that stands alone may become infinite. */
  const bool is_half = shmt__dtype_kind[dtype] == SHMT_KIND_FLOATING && shmt__dtype_size[dtype] == 2;
  SHMT_TRY(shmt__scalar_check(value, is_half ? SHMT_FLOAT64 : dtype));
  shmt__scalar_store_unsafe(value, dtype, t->storage->data);
  if (wrapped) t->flags |= SHMT_TENSOR_WRAPPED_NUMBER;
  *out = SHMT_TAKE(t);
  return SHMT_OK;
}

shmt_status shmt__tensor_from_storage(shmt_storage* s, shmt_ints sizes, shmt_ints strides, int64_t offset,
                                      shmt_dtype dtype, shmt_tensor** out) {
  shmt_tensor* t = NULL;
  uint64_t nbytes;
  SHMT_REQUIRE(sizes.len == strides.len, SHMT_E_RUNTIME,
               "mismatch in length of strides and shape: %" PRId64 " and %" PRId64, strides.len, sizes.len);
  SHMT_REQUIRE(offset >= 0, SHMT_E_RUNTIME, "Tensor: invalid storage offset %" PRId64, offset);
  SHMT_TRY(shmt__storage_bytes_for(sizes, strides, offset, shmt__dtype_size[dtype], &nbytes));
  SHMT_REQUIRE(nbytes <= s->nbytes, SHMT_E_RUNTIME,
               "setStorage: sizes %s, strides %s, storage offset %" PRId64
               ", and itemsize %d requiring a storage size of %" PRIu64
               " are out of bounds for storage of size %" PRIu64,
               shmt__ints_text(sizes, (char[256]){0}, 256), shmt__ints_text(strides, (char[256]){0}, 256), offset,
               (int)shmt__dtype_size[dtype], nbytes, s->nbytes);
  SHMT_TRY(take_header(sizes.len, dtype, shmt__storage_has(s, SHMT_STORAGE_META) ? SHMT_META : SHMT_CPU, &t));
  shmt__storage_retain(s);
  t->storage = s;
  fill_geometry(t, sizes, strides, offset);
  *out = t;
  return SHMT_OK;
}

shmt_status shmt__tensor_without_memory(shmt_ints sizes, shmt_ints strides, int64_t offset, shmt_dtype dtype,
                                        shmt_device device, shmt_tensor** out) {
  SHMT_AUTO(shmt_storage) nothing = NULL;
  uint64_t nbytes;
  SHMT_REQUIRE(sizes.len == strides.len, SHMT_E_RUNTIME,
               "dimensionality of sizes (%" PRId64 ") must match dimensionality of strides (%" PRId64 ")", sizes.len,
               strides.len);
  SHMT_TRY(shmt__storage_bytes_for(sizes, strides, offset, shmt__dtype_size[dtype], &nbytes));
  SHMT_TRY(shmt__storage_create_meta(nbytes, &nothing));
  SHMT_TRY(shmt__tensor_from_storage(nothing, sizes, strides, offset, dtype, out));
  (*out)->device = (int8_t)device;
  (*out)->keys = ((*out)->keys & ~(shmt_keyset)SHMT_BACKEND_KEYS) | SHMT_KEYBIT_NoMemory;
  return SHMT_OK;
}

static inline shmt_status alias_as(shmt_tensor* src, shmt_dtype dtype, shmt_ints sizes, shmt_ints strides,
                                   int64_t offset, shmt_tensor** out) {
  shmt_tensor* t = NULL;
  SHMT_ASSERT(sizes.len == strides.len && offset >= 0);
  if (SHMT_UNLIKELY(src->sparse != NULL)) return shmt__tensor_sparse_alias(src, dtype, sizes, out);
#if SHMT_DEBUG >= 2
  uint64_t nbytes = UINT64_MAX;
  SHMT_TRY(shmt__storage_bytes_for(sizes, strides, offset, shmt__dtype_size[dtype], &nbytes));
  /* What indices there are is not looked at on Meta, so that something may be taken of nothing. An example of an empty
   * batch is geometry alone: tensor/batched.c gives it another storage at once. */
  SHMT_ASSERT_FULL(nbytes <= src->storage->nbytes || src->device == SHMT_META || src->numel == 0 ||
                   !shmt__tensor_has_memory(src)); /* its storage has no bytes */
#endif
  SHMT_TRY(take_header(sizes.len, dtype, src->device, &t));
  /* A view of an ordinary tensor is ordinary also in inference mode, and the other way round. */
  t->keys = src->keys & ~(shmt_keyset)(SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD | SHMT_KEYBIT_PythonBelowAutograd);
  t->flags = src->flags & (SHMT_TENSOR_INFERENCE | SHMT_TENSOR_CONJ_NEG);
  shmt__storage_retain(src->storage);
  t->storage = src->storage;
  fill_geometry(t, sizes, strides, offset);
  /* There is no element, and the number of bytes could overflow. */
  if (SHMT_UNLIKELY(offset > INT64_MAX / 16) && t->numel == 0) t->offset = 0;
  *out = t;
  return SHMT_OK;
}

shmt_status shmt__tensor_sparse(const shmt_sparse* parts, shmt_ints sizes, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_storage) nothing = NULL;
  shmt_tensor* t = NULL;
  SHMT_TRY(shmt__sparse_check(parts, sizes, dtype));
  SHMT_TRY(shmt__storage_create(0, &nothing));
  SHMT_TRY(take_header(sizes.len, dtype, SHMT_CPU, &t));
  shmt_status status = shmt__sparse_copy(parts, &t->sparse);
  if (status != SHMT_OK) {
    drop_header(t);
    return status;
  }
  for (int64_t d = 0; d < sizes.len; d++) {
    t->sizes[d] = sizes.data[d];
    t->strides[d] = 0;
  }
  t->numel = shmt__sparse_numel(sizes);
  t->offset = 0;
  t->storage = SHMT_TAKE(nothing);
  t->keys = (t->keys & ~(shmt_keyset)SHMT_BACKEND_KEYS) | shmt__sparse_keys(parts->layout);
  *out = t;
  return SHMT_OK;
}

shmt_status shmt__tensor_sparse_alias(shmt_tensor* src, shmt_dtype dtype, shmt_ints sizes, shmt_tensor** out) {
  SHMT_REQUIRE(dtype == src->dtype && shmt__same_ints(sizes, shmt__tensor_sizes(src)), SHMT_E_RUNTIME,
               "a tensor with layout %s has no views", shmt__layout_name(src->sparse->layout));
  SHMT_TRY(shmt__tensor_sparse(src->sparse, sizes, dtype, out));
  (*out)->flags = ((*out)->flags & ~(uint32_t)SHMT_TENSOR_INFERENCE) | (src->flags & SHMT_TENSOR_INFERENCE);
  return SHMT_OK;
}

shmt_status shmt__tensor_alias(shmt_tensor* src, shmt_ints sizes, shmt_ints strides, int64_t offset,
                               shmt_tensor** out) {
  return alias_as(src, src->dtype, sizes, strides, offset, out);
}

shmt_status shmt__tensor_alias_as(shmt_tensor* src, shmt_dtype dtype, shmt_ints sizes, shmt_ints strides,
                                  int64_t offset, shmt_tensor** out) {
  return alias_as(src, dtype, sizes, strides, offset, out);
}

void shmt__tensor_set_base(shmt_tensor* view, shmt_tensor* base, bool differentiable) {
  shmt_tensor* root = base;
  if (differentiable) {
    /* A view's base is the root autograd knows; a detached tensor is a root of its own. */
    if (base->flags & SHMT_TENSOR_VIEW) root = base->base;
    view->flags |= SHMT_TENSOR_VIEW;
  } else {
    root = (shmt_tensor*)shmt__tensor_version_root(base);
    view->flags &= ~(uint32_t)SHMT_TENSOR_VIEW;
  }
  shmt_tensor* old = view->base;
  view->base = shmt__tensor_ref(root);
  shmt__tensor_release(old);
}
