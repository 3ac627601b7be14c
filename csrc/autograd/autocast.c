/* autograd/autocast.c -- casts of arguments to the dtype that an operator is to compute in. */
#include "autograd/autocast.h"

#include "autograd/meta.h"
#include "dispatch/registry.h"
#include "generated/ops.h"
#include "os/mutex.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

typedef enum policy { LOWER_PRECISION, FLOAT32, PROMOTE, PAD } policy;

static const char* const lower_precision_operators[] = {
    "addbmm", "addmm", "baddbmm", "bmm", "conv1d", "conv1d.padding", "conv2d",
    "conv2d.padding", "conv3d", "conv3d.padding", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "linalg_vecdot", "linear", "matmul",
    "mm", "prelu", "scaled_dot_product_attention",
};
static const char* const float32_operators[] = {
    "adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cdist", "cholesky", "cholesky_inverse",
    "cholesky_solve", "cross_entropy_loss", "fft_fft", "fft_fft2", "fft_fftn", "fft_hfft",
    "fft_ifft", "fft_ifft2", "fft_ifftn", "fft_ihfft", "fft_irfft", "fft_irfft2",
    "fft_irfftn", "fft_rfft", "fft_rfft2", "fft_rfftn", "fractional_max_pool2d",
    "fractional_max_pool3d", "geqrf", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
    "huber_loss", "inverse", "kl_div", "l1_loss", "linalg_cholesky", "linalg_cholesky_ex",
    "linalg_cond", "linalg_cond.p_str", "linalg_eig", "linalg_eigh", "linalg_eigvals",
    "linalg_eigvalsh", "linalg_householder_product", "linalg_inv", "linalg_inv_ex",
    "linalg_lstsq", "linalg_matrix_rank", "linalg_matrix_rank.atol_rtol_float",
    "linalg_matrix_rank.atol_rtol_tensor", "linalg_matrix_rank.tol_tensor", "linalg_qr",
    "linalg_solve", "linalg_svd", "linalg_svdvals", "linalg_tensorinv", "linalg_tensorsolve",
    "lu_solve", "max_pool3d", "max_unpool2d", "max_unpool3d", "mse_loss", "nanquantile",
    "nanquantile.scalar", "nll_loss", "nll_loss2d", "orgqr", "ormqr", "pinverse", "polar",
    "prod", "prod.dim_int", "qr", "quantile", "quantile.scalar", "reflection_pad1d",
    "reflection_pad2d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    "smooth_l1_loss", "soft_margin_loss", "svd", "trace", "triangular_solve",
    "view_as_complex",
};
static const char* const promoting_operators[] = {"cat", "index_copy", "stack"};

/* --- casts of weights ----------------------------------------------------------------------- */

typedef struct cached_cast {
  shmt_tensor* weight; /* owned, so that its address stays its own; NULL: the slot is free */
  shmt_tensor* cast;   /* owned */
  bool recorded;       /* made while operations were recorded */
} cached_cast;

static _Thread_local struct {
  cached_cast* slots; /* a hash table by address, open addressing */
  size_t capacity;    /* a power of two, 0 before the first cast */
  size_t n;
  shmt_dtype lower;
  bool caches;
} state;

/* The slot of a weight, or the free one where it would go. */
static cached_cast* find_slot(const shmt_tensor* weight) {
  size_t at = ((uintptr_t)weight >> 4) * 0x9E3779B97F4A7C15u;
  for (at &= state.capacity - 1;; at = (at + 1) & (state.capacity - 1))
    if (!state.slots[at].weight || state.slots[at].weight == weight) return &state.slots[at];
}

static bool try_grow(void) {
  size_t before = state.capacity;
  cached_cast* old = state.slots;
  cached_cast* slots = calloc(before ? 2 * before : FIRST_CAPACITY, sizeof *slots);
  if (slots == NULL) return false;
  state.slots = slots;
  state.capacity = before ? 2 * before : FIRST_CAPACITY;
  for (size_t i = 0; i < before; i++)
    if (old[i].weight) *find_slot(old[i].weight) = old[i];
  free(old);
  return true;
}

/* Keep a cast; without memory it is made again next time. */
static void keep_cast(shmt_tensor* weight, shmt_tensor* cast) {
  if (2 * (state.n + 1) > state.capacity && !try_grow()) return;
  cached_cast* slot = find_slot(weight);
  if (slot->weight == NULL) {
    slot->weight = shmt__tensor_ref(weight);
    state.n++;
  }
  shmt__tensor_release(slot->cast);
  slot->cast = shmt__tensor_ref(cast);
  slot->recorded = shmt__grad_enabled();
}

void shmt__autocast_clear_cache(void) {
  cached_cast* slots = state.slots;
  size_t capacity = state.capacity;
  state.slots = NULL; /* first: a release may run code that casts */
  state.capacity = state.n = 0;
  for (size_t i = 0; i < capacity; i++) {
    shmt__tensor_release(slots[i].weight);
    shmt__tensor_release(slots[i].cast);
  }
  free(slots);
}

/* --- casts ------------------------------------------------------------------------------------ */

static bool is_eligible(const shmt_tensor* t) {
  return t && t->device == SHMT_CPU && shmt__dtype_kind[t->dtype] == SHMT_KIND_FLOATING &&
         t->dtype != SHMT_FLOAT64;
}

/* Is the tensor a weight whose cast is worth keeping? */
static bool is_weight(shmt_tensor* t) {
  return t->dtype == SHMT_FLOAT32 && (shmt__tensor_own_keys(t) & SHMT_KEYBIT_Autograd) &&
         !(t->flags & SHMT_TENSOR_VIEW) && shmt__tensor_is_leaf(t);
}

/* t in dtype when it is eligible, else t itself: a new reference. */
static shmt_status cast(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  if (!is_eligible(t) || t->dtype == dtype) {
    *out = t ? shmt__tensor_ref(t) : NULL;
    return SHMT_OK;
  }
  const bool keeps = state.caches && dtype == state.lower && is_weight(t);
  if (keeps && state.capacity) {
    const cached_cast* slot = find_slot(t);
    if (slot->weight && slot->cast->dtype == dtype && slot->recorded == shmt__grad_enabled()) {
      *out = shmt__tensor_ref(slot->cast);
      return SHMT_OK;
    }
  }
  SHMT_TRY(shmt_op_to_dtype(t, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, out));
  if (keeps) keep_cast(t, *out);
  return SHMT_OK;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* The wider of float32 and the 16-bit dtype among the arguments. */
static shmt_status widest(const shmt_operator* op, const shmt_value* args, shmt_dtype* out) {
  *out = state.lower;
  for (int i = 0; i < op->schema->n_args; i++) {
    const bool is_list = args[i].tag == SHMT_VALUE_TENSORS;
    if (!is_list && args[i].tag != SHMT_VALUE_TENSOR) continue;
    shmt_tensor* const* tensors = is_list ? args[i].v.tensors.data : &args[i].v.tensor;
    for (int64_t k = 0, n = is_list ? args[i].v.tensors.len : 1; k < n; k++) {
      if (!is_eligible(tensors[k])) continue;
      const shmt_dtype dtype = tensors[k]->dtype;
      SHMT_REQUIRE(dtype == SHMT_FLOAT32 || dtype == state.lower, SHMT_E_RUNTIME,
                   "Unexpected floating ScalarType in at::autocast::prioritize: %s, where autocast "
                   "has %s",
                   shmt__dtype_name[dtype], shmt__dtype_name[state.lower]);
      if (dtype == SHMT_FLOAT32) *out = SHMT_FLOAT32;
    }
  }
  return SHMT_OK;
}

/* Padding that repeats elements is in float32 in torch, but for what it composes of copies. */
static bool pads_in_float32(const shmt_value* args) {
  const char* mode = args[2].v.str;
  return strcmp(mode, "replicate") == 0 ||
         (strcmp(mode, "reflect") == 0 && args[1].v.ints.len <= 4);
}

static shmt_status cast_dtype(policy how, const shmt_operator* op, const shmt_value* args,
                                shmt_dtype* out) {
  if (how == PROMOTE) return widest(op, args, out);
  *out = how == LOWER_PRECISION ? state.lower : SHMT_FLOAT32;
  if (how == PAD && !pads_in_float32(args)) *out = args[0].v.tensor->dtype;
  return SHMT_OK;
}

/* Arguments of a call, with casts in the place of tensors. */
typedef struct cast_args {
  shmt_value values[SHMT_SCHEMA_MAX_ARGS]; /* tensors and the arrays of lists are owned */
  int n;
} cast_args;

static void release_args(cast_args* a) {
  for (int i = 0; i < a->n; i++) {
    shmt_value* v = &a->values[i];
    if (v->tag == SHMT_VALUE_TENSOR) shmt__tensor_release(v->v.tensor);
    if (v->tag != SHMT_VALUE_TENSORS) continue;
    for (int64_t k = 0; k < v->v.tensors.len; k++) shmt__tensor_release(v->v.tensors.data[k]);
    free((void*)v->v.tensors.data);
  }
}

static shmt_status cast_list(shmt_tensors list, shmt_dtype dtype, shmt_value* out) {
  shmt_tensor** tensors = calloc((size_t)list.len + 1, sizeof *tensors);
  SHMT_REQUIRE(tensors != NULL, SHMT_E_NOMEM, "autocast: no memory for %lld tensors",
               (long long)list.len);
  out->v.tensors = (shmt_tensors){tensors, list.len};
  out->tag = SHMT_VALUE_TENSORS;
  for (int64_t k = 0; k < list.len; k++) SHMT_TRY(cast(list.data[k], dtype, &tensors[k]));
  return SHMT_OK;
}

static shmt_status cast_all(const shmt_operator* op, const shmt_value* args, shmt_dtype dtype,
                            cast_args* out) {
  for (; out->n < op->schema->n_args; out->n++) {
    const shmt_value* arg = &args[out->n];
    shmt_value* made = &out->values[out->n];
    *made = (shmt_value){.tag = SHMT_VALUE_NONE};
    if (arg->tag == SHMT_VALUE_TENSOR) {
      SHMT_TRY(cast(arg->v.tensor, dtype, &made->v.tensor));
      made->tag = SHMT_VALUE_TENSOR;
    } else if (arg->tag == SHMT_VALUE_TENSORS) {
      shmt_status s = cast_list(arg->v.tensors, dtype, made);
      if (s != SHMT_OK) {
        out->n += made->tag == SHMT_VALUE_TENSORS; /* what the list holds is to be released */
        return s;
      }
    } else {
      *made = *arg;
    }
  }
  return SHMT_OK;
}

static shmt_status call_with_casts(void* ctx, const shmt_operator* op, shmt_keyset ks,
                                   const shmt_value* args, shmt_value* results) {
  (void)ks;
  shmt_dtype dtype;
  SHMT_TRY(cast_dtype(*(const policy*)ctx, op, args, &dtype));
  SHMT_KEYS_GUARD(keys);
  shmt__tls_keys.excluded |= SHMT_KEYBIT_Autocast;
  cast_args casts = {.n = 0};
  shmt_status status = cast_all(op, args, dtype, &casts);
  if (status == SHMT_OK) status = shmt__operator_call(op, false, 0, casts.values, results);
  release_args(&casts);
  return status;
}

/* --- switching -------------------------------------------------------------------------------- */

static shmt_status register_list(const char* const* names, size_t n, const policy* how) {
  shmt__kernel kernel = {
      .boxed = call_with_casts, .ctx = (void*)(uintptr_t)how, .where = "autocast"};
  shmt__registration* r; /* for the life of the process */
  for (size_t i = 0; i < n; i++)
    SHMT_TRY(shmt__operator_impl(names[i], SHMT_KEY_Autocast, &kernel, NULL, &r));
  return SHMT_OK;
}

#define REGISTER(list, how) register_list(list, sizeof list / sizeof *list, &(how))

SHMT_STATIC_MUTEX(register_lock, SHMT_MUTEX_AUTOCAST)

/* Nobody pays for the kernels before somebody wants them. */
static shmt_status register_once(void) {
  static const policy lower = LOWER_PRECISION, float32 = FLOAT32, promote = PROMOTE, pad = PAD;
  static const char* const padding_operators[] = {"pad"};
  static bool done;
  shmt_status status = SHMT_OK;
  shmt__mutex_lock(&register_lock);
  if (!done) {
    status = REGISTER(lower_precision_operators, lower);
    if (status == SHMT_OK) status = REGISTER(float32_operators, float32);
    if (status == SHMT_OK) status = REGISTER(promoting_operators, promote);
    if (status == SHMT_OK) status = REGISTER(padding_operators, pad);
    done = status == SHMT_OK;
  }
  shmt__mutex_unlock(&register_lock);
  return status;
}

shmt_status shmt__autocast_set(bool enabled, shmt_dtype lower, bool caches) {
  if (enabled) SHMT_TRY(register_once());
  state.lower = lower;
  state.caches = caches;
  if (enabled)
    shmt__tls_keys.included |= SHMT_KEYBIT_Autocast;
  else
    shmt__tls_keys.included &= ~(shmt_keyset)SHMT_KEYBIT_Autocast;
  return SHMT_OK;
}
