/* tensor/tensor.h -- the tensor: shape, strides and offset over a storage.
 *
 * A tensor is reference counted inside one process and may be used from any
 * thread; its metadata changes only through the functions below (resize, set_data),
 * which callers must not race. The data lives in the storage, which may be shared
 * between tensors and between processes.
 *
 * Note [Views and versions]
 * `base` is the root tensor whose version counter this tensor uses; NULL: it uses its own. The flag SHMT_TENSOR_VIEW
 * says that autograd regards the tensor as a view (`_base`). A detached tensor has a base for its version, but not the
 * flag. The base of a view of a view is the root, so that chains have one step. There is one exception: the base of a
 * view of a detached tensor is the detached tensor, whose own base has the version. No chain is longer than that.
 *
 * Note [Autograd bit]
 * `keys` has SHMT_KEYBIT_Autograd exactly when the tensor itself requires grad, so that calls on plain tensors never
 * reach an Autograd kernel. For a view the base counts too (an in-place write may have given it a history), so read the
 * keys with shmt__tensor_keys(). The bit of ForwardAD is set while the tensor has a tangent, and is read in the same
 * way.
 *
 * Note [Wrappers]
 * A tensor whose Python class answers operators (__torch_dispatch__) has the bit of PythonBelowAutograd. It belongs to
 * the Python object: aliases do not have it. A wrapper has no memory besides: its backend is NoMemory, and its storage
 * has no bytes. Its aliases, which no class knows, are refused by operators. See ADR 0083.
 */
#ifndef SHMT_TENSOR_TENSOR_H
#define SHMT_TENSOR_TENSOR_H

#include "api/keys.h" /* generated: shmt_keyset, SHMT_KEY_*, SHMT_KEYBIT_* */
#include "base/error.h"
#include "base/overflow.h"
#include "base/refs.h"
#include "base/types.h"
#include "generated/dtype_tables.h"
#include "storage/storage.h"

#include <stdatomic.h>

enum { SHMT_INLINE_DIMS = 5 };

/* Flag bits of a tensor. */
enum {
  SHMT_TENSOR_CONTIGUOUS = 1 << 0,       /* cached: row-major, no gaps */
  SHMT_TENSOR_CHANNELS_LAST = 1 << 1,    /* cached: 4-d, NHWC in memory */
  SHMT_TENSOR_CHANNELS_LAST_3D = 1 << 2, /* cached: 5-d, NDHWC in memory */
  SHMT_TENSOR_DENSE = 1 << 3,            /* cached: non-overlapping and dense in some order */
  SHMT_TENSOR_VIEW = 1 << 4,             /* a view to autograd, see Note [Views and versions] */
  SHMT_TENSOR_WRAPPED_NUMBER = 1 << 5,   /* 0-d made from a Python number: weakest in promotion */
  SHMT_TENSOR_INFERENCE = 1 << 6,        /* made in inference mode: no version, no views tracked */
  SHMT_TENSOR_CONJ = 1 << 7,             /* the conjugate of what lies in memory; complex only */
  SHMT_TENSOR_NEG = 1 << 8,              /* the negative of what lies in memory; floating or complex */
  SHMT_TENSOR_CONJ_NEG = SHMT_TENSOR_CONJ |
      SHMT_TENSOR_NEG, /* see Note [Conj and neg views] in ops/pointwise/conj_neg_views.h */
  /* How autograd made a view, where that forbids recording in-place changes of it. */
  SHMT_TENSOR_VIEW_NO_GRAD = 1 << 9,
  SHMT_TENSOR_VIEW_INFERENCE = 1 << 10,
  SHMT_TENSOR_VIEW_MULTI = 1 << 11,      /* one of several results of one operator */
  SHMT_TENSOR_VIEW_CUSTOM = 1 << 12,     /* returned by a Python Function */
  SHMT_TENSOR_VIEW_NO_TANGENT = 1 << 13, /* does not follow the tangent of its base, see autograd/forward/tangents.h */
};

typedef struct shmt_sparse shmt_sparse;               /* tensor/sparse.h */
typedef struct shmt_autograd_meta shmt_autograd_meta; /* autograd/meta.h; freed through a hook */

struct shmt_tensor {
  atomic_int_least32_t refs;
  atomic_uint_least32_t version; /* of the root; see base */
  uint32_t flags;
  int16_t dtype;
  int8_t device;
  uint8_t n_dims;
  shmt_keyset keys; /* a backend, ADInplaceOrView, Conjugate, Negative, Autograd, ForwardAD, PythonBelowAutograd */
  int64_t numel;
  int64_t offset;            /* elements from the start of the storage */
  int64_t* sizes;            /* n_dims sizes then n_dims strides (elements); = dims when small */
  int64_t* strides;
  shmt_storage* storage;     /* never NULL; Meta tensors have one without data */
  shmt_tensor* base;         /* owned; see Note [Views and versions] */
  shmt_autograd_meta* autograd; /* owned; NULL until something needs it */
  shmt_sparse* sparse;       /* owned; indices and values of a sparse tensor, whose storage is empty; NULL: strided */
  void* py_object;           /* its Python wrapper, or NULL; borrowed, unless the tensor keeps it */
  int64_t dims[2 * SHMT_INLINE_DIMS];
};

/* --- life ------------------------------------------------------------------- */

static inline void shmt_tensor_retain(shmt_tensor* t) {
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
}
void shmt__tensor_destroy(shmt_tensor* t); /* nobody holds a reference any more */
/* NULL is fine. */
static inline void shmt__tensor_release(shmt_tensor* t) {
  /* See Note [The last holder]. */
  if (t && (shmt__is_last_reference(&t->refs) || shmt__drop_reference(&t->refs))) shmt__tensor_destroy(t);
}
static inline void shmt__auto_shmt_tensor(shmt_tensor** p) { shmt__tensor_release(*p); }
static inline shmt_tensor* shmt__tensor_ref(shmt_tensor* t) { shmt_tensor_retain(t); return t; }

/* New tensor over fresh, uninitialised memory. format: contiguous or channels-last.
 * Errors: SHMT_E_RUNTIME (negative size, "numel overflows"), SHMT_E_NOMEM. New reference. */
shmt_status shmt__tensor_empty(shmt_ints sizes, shmt_dtype dtype, shmt_device device,
                               shmt_memory_format format, shmt_tensor** out);
/* The same with given strides (elements, >= 0). */
shmt_status shmt__tensor_empty_strided(shmt_ints sizes, shmt_ints strides, shmt_dtype dtype,
                                       shmt_device device, shmt_tensor** out);
/* Same sizes, dtype and device as `like`, strides as preserve_format says. */
shmt_status shmt__tensor_empty_like(shmt_tensor* like, shmt_dtype dtype, shmt_tensor** out);
/* As shmt__tensor_empty, contiguous, every byte zero (large ones are untouched pages). */
shmt_status shmt__tensor_zeros(shmt_ints sizes, shmt_dtype dtype, shmt_device device, shmt_tensor** out);
/* 0-d tensor holding value in dtype. wrapped: mark it a Python number. */
shmt_status shmt__tensor_from_scalar(shmt_scalar value, shmt_dtype dtype, bool wrapped, shmt_tensor** out);
/* A tensor without memory that says it is on that device; see Note [Wrappers].
 * Errors: SHMT_E_RUNTIME for a geometry that cannot be. New reference. */
shmt_status shmt__tensor_without_memory(shmt_ints sizes, shmt_ints strides, int64_t offset, shmt_dtype dtype,
                                        shmt_device device, shmt_tensor** out);
/* Tensor over an existing storage (retained); bounds are checked against its size. */
shmt_status shmt__tensor_from_storage(shmt_storage* s, shmt_ints sizes, shmt_ints strides, int64_t offset,
                                      shmt_dtype dtype, shmt_tensor** out);
/* A tensor with other sizes and strides over the storage of src. It is not a view to autograd yet: the
 * ADInplaceOrView kernel makes it one. Sizes, strides and offset must be right; full assertions check them. */
shmt_status shmt__tensor_alias(shmt_tensor* src, shmt_ints sizes, shmt_ints strides, int64_t offset,
                               shmt_tensor** out);
/* The same with the memory read as another dtype; strides and offset count in elements of that dtype. */
shmt_status shmt__tensor_alias_as(shmt_tensor* src, shmt_dtype dtype, shmt_ints sizes, shmt_ints strides,
                                  int64_t offset, shmt_tensor** out);
/* Make `view` share base's version, and be a view to autograd when `differentiable`. */
void shmt__tensor_set_base(shmt_tensor* view, shmt_tensor* base, bool differentiable);

/* --- reading ---------------------------------------------------------------- */

static inline shmt_ints shmt__tensor_sizes(const shmt_tensor* t) { return (shmt_ints){t->sizes, t->n_dims}; }
static inline shmt_ints shmt__tensor_strides(const shmt_tensor* t) { return (shmt_ints){t->strides, t->n_dims}; }
static inline int64_t shmt__tensor_item_bytes(const shmt_tensor* t) { return shmt__dtype_size[t->dtype]; }
/* A loop compares such short lists faster than memcmp. */
static inline bool shmt__same_ints(shmt_ints a, shmt_ints b) {
  if (a.len != b.len) return false;
  for (int64_t i = 0; i < a.len; i++)
    if (a.data[i] != b.data[i]) return false;
  return true;
}
/* memcpy may not be given the NULL of an empty list. */
static inline void shmt__copy_ints(int64_t* to, shmt_ints from) {
  for (int64_t i = 0; i < from.len; i++) to[i] = from.data[i];
}
static inline bool shmt__same_sizes(const shmt_tensor* a, const shmt_tensor* b) {
  return shmt__same_ints(shmt__tensor_sizes(a), shmt__tensor_sizes(b));
}
static inline bool shmt__same_strides(const shmt_tensor* a, const shmt_tensor* b) {
  return shmt__same_ints(shmt__tensor_strides(a), shmt__tensor_strides(b));
}
/* The product of the sizes of dims begin to end - 1. It wraps where the tensor has no elements and the sizes are huge;
 * a size of 0 among them gives 0. */
static inline int64_t shmt__tensor_extent(const shmt_tensor* t, int64_t begin, int64_t end) {
  int64_t n = 1;
  for (int64_t d = begin; d < end; d++) n = shmt__wrap_mul_i64(n, t->sizes[d]);
  return n;
}
/* First element; NULL for Meta tensors and empty storages. */
static inline void* shmt__tensor_data(const shmt_tensor* t) {
  char* p = (char*)t->storage->data;
  return p ? p + t->offset * shmt__dtype_size[t->dtype] : (void*)0;
}
static inline bool shmt__tensor_is_sparse(const shmt_tensor* t) { return t->sparse != (void*)0; }
/* The bits of keys that say where the elements are. */
enum {
  SHMT_BACKEND_KEYS = SHMT_KEYBIT_CPU | SHMT_KEYBIT_Meta | SHMT_KEYBIT_SparseCPU | SHMT_KEYBIT_SparseCsrCPU |
      SHMT_KEYBIT_NoMemory,
};
/* The keys of t itself. relaxed, as they are written: a thread that uses a view may see late that its base has joined
 * the graph. */
static inline shmt_keyset shmt__tensor_own_keys(const shmt_tensor* t) {
  return __atomic_load_n(&t->keys, __ATOMIC_RELAXED);
}
static inline void shmt__tensor_set_own_keys(shmt_tensor* t, shmt_keyset keys) {
  __atomic_store_n(&t->keys, keys, __ATOMIC_RELAXED);
}
static inline shmt_keyset shmt__tensor_backend(const shmt_tensor* t) {
  return shmt__tensor_own_keys(t) & SHMT_BACKEND_KEYS;
}
static inline bool shmt__tensor_is_meta(const shmt_tensor* t) { return t->device == SHMT_META; }
static inline bool shmt__tensor_is_contiguous(const shmt_tensor* t) { return (t->flags & SHMT_TENSOR_CONTIGUOUS) != 0; }
bool shmt__tensor_is_contiguous_in(const shmt_tensor* t, shmt_memory_format format);
/* contiguous or channels-last(-3d), the one preserve_format would pick. */
shmt_memory_format shmt__tensor_suggest_format(const shmt_tensor* t);
static inline shmt_keyset shmt__tensor_keys(const shmt_tensor* t) {
  shmt_keyset k = shmt__tensor_own_keys(t);
  if (SHMT_UNLIKELY(t->flags & SHMT_TENSOR_VIEW))
    k |= shmt__tensor_own_keys(t->base) & (SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD);
  return k;
}
/* Are the elements in memory? Not those of a wrapper (see Note [Wrappers]), nor of a tensor that stands for an example
 * of a batch. */
static inline bool shmt__tensor_has_memory(const shmt_tensor* t) {
  return !(shmt__tensor_own_keys(t) & (SHMT_KEYBIT_NoMemory | SHMT_KEYBIT_FuncTorchBatched));
}
/* Refuse to hand out the memory of a tensor that has none. Errors: SHMT_E_RUNTIME. */
SHMT_COLD shmt_status shmt__fail_no_memory(void);
static inline shmt_status shmt__check_has_memory(const shmt_tensor* t) {
  return SHMT_LIKELY(shmt__tensor_has_memory(t)) ? SHMT_OK : shmt__fail_no_memory();
}
/* Does the class of t's Python object answer operators? See Note [Wrappers]. */
static inline bool shmt__tensor_is_answered(const shmt_tensor* t) {
  return (shmt__tensor_own_keys(t) & SHMT_KEYBIT_PythonBelowAutograd) != 0;
}
static inline bool shmt__tensor_is_conj_neg(const shmt_tensor* t) { return (t->flags & SHMT_TENSOR_CONJ_NEG) != 0; }
/* Set exactly these conj and neg bits, and the keys that go with them. */
static inline void shmt__tensor_set_conj_neg(shmt_tensor* t, uint32_t bits) {
  t->flags = (t->flags & ~(uint32_t)SHMT_TENSOR_CONJ_NEG) | bits;
  shmt_keyset k = shmt__tensor_own_keys(t) & ~(shmt_keyset)(SHMT_KEYBIT_Conjugate | SHMT_KEYBIT_Negative);
  if (bits & SHMT_TENSOR_CONJ) k |= SHMT_KEYBIT_Conjugate;
  if (bits & SHMT_TENSOR_NEG) k |= SHMT_KEYBIT_Negative;
  shmt__tensor_set_own_keys(t, k);
}
/* May a tensor of this dtype have these conj and neg bits? */
static inline bool shmt__conj_neg_bits_fit(shmt_dtype dtype, uint32_t bits) {
  return (bits & ~(uint32_t)SHMT_TENSOR_CONJ_NEG) == 0 &&
         (!(bits & SHMT_TENSOR_CONJ) || shmt__dtype_kind[dtype] == SHMT_KIND_COMPLEX) &&
         (!(bits & SHMT_TENSOR_NEG) || shmt__dtype_kind[dtype] == SHMT_KIND_COMPLEX ||
          shmt__dtype_kind[dtype] == SHMT_KIND_FLOATING);
}
/* May the elements be written? Operators check before they write: a store to memory that is mapped read-only would be
 * a fault. t may be NULL. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__fail_read_only(const char* name, const shmt_tensor* t);
static inline shmt_status shmt__check_writable(const char* name, const shmt_tensor* t) {
  if (SHMT_LIKELY(t == NULL || !shmt__storage_has(t->storage, SHMT_STORAGE_READ_ONLY))) return SHMT_OK;
  return shmt__fail_read_only(name, t);
}
static inline shmt_status shmt__check_all_writable(const char* name, shmt_tensors list) {
  for (int64_t i = 0; i < list.len; i++) SHMT_TRY(shmt__check_writable(name, list.data[i]));
  return SHMT_OK;
}

/* The tensor whose version counter t uses; see Note [Views and versions]. */
static inline const shmt_tensor* shmt__tensor_version_root(const shmt_tensor* t) {
  if (t->base == (void*)0) return t;
  return SHMT_UNLIKELY(t->base->base != (void*)0) ? t->base->base : t->base;
}
static inline uint32_t shmt__tensor_version(const shmt_tensor* t) {
  return atomic_load_explicit(&shmt__tensor_version_root(t)->version, memory_order_relaxed);
}
static inline void shmt__tensor_bump_version(shmt_tensor* t) {
  /* relaxed: the counter orders no other memory; as in torch, racing writers are the user's concern. */
  atomic_fetch_add_explicit(&((shmt_tensor*)shmt__tensor_version_root(t))->version, 1, memory_order_relaxed);
}
/* The one element of a 1-element tensor as a scalar; a class that answers operators is asked for it.
 * Errors: SHMT_E_RUNTIME for any other numel, Meta, without memory. */
shmt_status shmt__tensor_item(shmt_tensor* t, shmt_scalar* out);
/* The same from memory, in any case. */
shmt_status shmt__tensor_item_in_memory(shmt_tensor* t, shmt_scalar* out);
/* "[2, 3]" into buf (always terminated); returns buf. For messages. */
const char* shmt__ints_text(shmt_ints v, char* buf, size_t cap);
#define SHMT_SHAPE_TEXT(t) shmt__ints_text(shmt__tensor_sizes(t), (char[256]){0}, 256)

/* --- dims ------------------------------------------------------------------- */

/* Wrap a negative dim; a 0-d tensor counts as 1-d. Errors: SHMT_E_INDEX with torch's text
 * "Dimension out of range (expected to be in range of [-2, 1], but got 5)". */
shmt_status shmt__wrap_dim(int64_t dim, int64_t n_dims, int64_t* out);
/* dims -> bitmask; None or empty means all. Errors: SHMT_E_INDEX; SHMT_E_RUNTIME when one repeats. */
shmt_status shmt__dims_mask(shmt_ints dims, int64_t n_dims, uint64_t* out);
/* Resolve one -1 in sizes for numel elements into out (len values).
 * Errors: SHMT_E_RUNTIME "shape '[..]' is invalid for input of size N". */
shmt_status shmt__infer_sizes(shmt_ints sizes, int64_t numel, int64_t* out);
/* Broadcast two shapes. Errors: SHMT_E_RUNTIME, torch's text. out has room for SHMT_MAX_DIMS. */
shmt_status shmt__broadcast_sizes(shmt_ints a, shmt_ints b, int64_t* out, int64_t* out_n_dims);
/* Strides under which `t` can be viewed as `sizes`; false when it needs a copy. */
bool shmt__view_strides(const shmt_tensor* t, shmt_ints sizes, int64_t* strides_out);
/* The flag bits SHMT_TENSOR_CONTIGUOUS .. SHMT_TENSOR_DENSE of a geometry. */
uint32_t shmt__geometry_flags(const int64_t* sizes, const int64_t* strides, int n_dims, int64_t numel);
/* Dense strides in the memory order of the given ones (ambiguous dims keep their order). */
void shmt__dense_strides_like(shmt_ints sizes, shmt_ints strides, int64_t* strides_out);
/* Product of sizes. Errors: SHMT_E_RUNTIME (negative size, overflow). */
shmt_status shmt__checked_numel(shmt_ints sizes, int64_t* out);
/* Bytes a storage must have for this geometry. Errors: SHMT_E_RUNTIME "Storage size calculation overflowed ...". */
shmt_status shmt__storage_bytes_for(shmt_ints sizes, shmt_ints strides, int64_t offset, int64_t item_bytes,
                                    uint64_t* out);
/* Row-major (or channels-last) strides of sizes. */
void shmt__contiguous_strides(shmt_ints sizes, shmt_memory_format format, int64_t* strides_out);

/* --- changing --------------------------------------------------------------- */

/* Resize in place, growing the storage when needed (torch's resize_). Old elements keep their place.
 * Errors: SHMT_E_RUNTIME "Trying to resize storage that is not resizable", SHMT_E_NOMEM. */
shmt_status shmt__tensor_resize(shmt_tensor* t, shmt_ints sizes, shmt_memory_format format);
/* New geometry over the same storage, grown when needed (squeeze_, t_, set_...). */
shmt_status shmt__tensor_set_geometry(shmt_tensor* t, shmt_ints sizes, shmt_ints strides, int64_t offset);
/* Show another storage with the same geometry. Errors: SHMT_E_RUNTIME when it is too small. Retains s. */
shmt_status shmt__tensor_set_storage(shmt_tensor* t, shmt_storage* s);
/* Take over src's storage, geometry and dtype (set_, .data =); the version stays. */
shmt_status shmt__tensor_set_data(shmt_tensor* t, shmt_tensor* src);
/* Set or clear requires-grad in keys only (autograd owns the meaning). */
static inline void shmt__tensor_set_autograd_bit(shmt_tensor* t, bool on) {
  const shmt_keyset k = shmt__tensor_own_keys(t);
  shmt__tensor_set_own_keys(t, on ? k | SHMT_KEYBIT_Autograd : k & ~SHMT_KEYBIT_Autograd);
}

/* --- hooks upward (installed once by higher layers) --------------------------- */

/* True while this thread is in inference mode (shmtensor.inference_mode sets it): new tensors get
 * SHMT_TENSOR_INFERENCE. */
extern _Thread_local bool shmt__tls_inference_mode __attribute__((tls_model("initial-exec")));

/* The element of a tensor whose class answers operators. */
extern shmt_status (*shmt__answered_item)(shmt_tensor*, shmt_scalar*);
/* autograd/ frees its metadata through this. */
extern void (*shmt__autograd_meta_free)(shmt_autograd_meta*);
/* Called when the last reference of a tensor goes that keeps its Python object (Note [PyObject preservation] in
 * python/values/tensor_object.h). True: the object has taken the last reference, and the tensor lives on. */
extern bool (*shmt__tensor_back_to_wrapper)(shmt_tensor*);

#endif
