/* iter/build.c -- shapes, dtypes, overlaps and memory order of an iterator's operands.
 *
 * The order of the dims decides the walk and the memory format of new outputs. As in torch it is
 * found by an insertion sort of the dims over the operands' strides, the earliest operand that can
 * tell deciding. */
#include "iter/build.h"

#include "base/overflow.h"
#include "base/promote.h"
#include "base/scalar.h"
#include "base/warn.h"
#include "iter/copy/copy.h"

#include <string.h>

typedef struct build_state {
  shmt_iter* it;
  int n_dims;
  bool is_even;                 /* all tensors given have these sizes */
  int64_t sizes[SHMT_MAX_DIMS]; /* row-major order of the user's dims */
  int perm[SHMT_MAX_DIMS];      /* perm[0]: the dim that runs fastest */
  shmt_tensor* resized[SHMT_ITER_MAX_OPERANDS]; /* given outputs that are to lie as new ones do */
} build_state;

/* --- shapes ----------------------------------------------------------------------- */

static inline bool has_shape(const build_state* b, const shmt_tensor* t) {
  return b->is_even || shmt__same_ints(shmt__tensor_sizes(t), (shmt_ints){b->sizes, b->n_dims});
}

static shmt_status count_elements(build_state* b) {
  shmt_iter* it = b->it;

  it->numel = 1;
  for (int d = 0; d < b->n_dims; d++) {
    char text[256];
    SHMT_REQUIRE(shmt__mul_i64(it->numel, b->sizes[d], &it->numel), SHMT_E_RUNTIME,
                 "%s(): numel: integer multiplication overflow for shape %s", it->name,
                 shmt__ints_text((shmt_ints){b->sizes, b->n_dims}, text, sizeof text));
  }
  return SHMT_OK;
}

static shmt_status broadcast(build_state* b, const shmt_tensor* t) {
  int64_t merged[SHMT_MAX_DIMS], n;

  SHMT_TRY(shmt__broadcast_sizes((shmt_ints){b->sizes, b->n_dims}, shmt__tensor_sizes(t), merged, &n));
  b->n_dims = (int)n;
  memcpy(b->sizes, merged, (size_t)n * sizeof *merged);
  return SHMT_OK;
}

static shmt_status find_shape(build_state* b) {
  shmt_iter* it = b->it;
  const bool outputs_follow = it->resize_outputs && it->n_operands > it->n_outputs;
  const shmt_tensor* first = NULL;
  bool is_even = true;

  for (int k = outputs_follow ? it->n_outputs : 0; k < it->n_operands; k++) {
    const shmt_tensor* t = it->operands[k].tensor;
    if (!t) continue;
    if (!first) {
      first = t;
      b->n_dims = t->n_dims;
      for (int d = 0; d < t->n_dims; d++) b->sizes[d] = t->sizes[d];
    } else if (!has_shape(b, t)) {
      is_even = false;
      SHMT_TRY(broadcast(b, t));
    }
  }
  SHMT_REQUIRE(first, SHMT_E_RUNTIME, "%s(): expected at least one tensor", it->name);
  for (int k = 0; k < it->n_outputs && is_even; k++)
    is_even = !it->operands[k].tensor || has_shape(b, it->operands[k].tensor);
  b->is_even = is_even;
  it->numel = first->numel;
  return is_even ? SHMT_OK : count_elements(b);
}

static shmt_status check_output_shapes(build_state* b) {
  shmt_iter* it = b->it;

  for (int k = 0; k < it->n_outputs; k++) {
    shmt__operand* op = &it->operands[k];
    if (!op->tensor) continue;
    for (int i = it->n_outputs; i < it->n_operands; i++)
      op->read |= it->operands[i].tensor == op->tensor;
    if (has_shape(b, op->tensor)) continue;
    if (op->read || !it->resize_outputs) {
      char want[256];
      SHMT_FAIL(SHMT_E_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                SHMT_SHAPE_TEXT(op->tensor),
                shmt__ints_text((shmt_ints){b->sizes, b->n_dims}, want, sizeof want));
    }
  }
  return SHMT_OK;
}

/* --- overlaps ------------------------------------------------------------------------ */

static shmt_status check_output_overlap(const shmt_iter* it, const shmt_tensor* out) {
  if (!(out->flags & SHMT_TENSOR_DENSE))
    for (int d = 0; d < out->n_dims; d++)
      SHMT_REQUIRE(out->strides[d] != 0 || out->sizes[d] <= 1, SHMT_E_RUNTIME,
                   "unsupported operation: more than one element of the written-to tensor refers "
                   "to a single memory "
                   "location. Please clone() the tensor before performing the operation.");
  if (!(out->flags & SHMT_TENSOR_DENSE) || out->numel == 0) return SHMT_OK;
  for (int i = it->n_outputs; i < it->n_operands; i++) {
    const shmt_tensor* t = it->operands[i].tensor;
    if (t == out || t->storage != out->storage || !(t->flags & SHMT_TENSOR_DENSE) || t->numel == 0)
      continue;
    int64_t out_lo = out->offset * shmt__tensor_item_bytes(out),
            lo = t->offset * shmt__tensor_item_bytes(t);
    int64_t out_hi = out_lo + out->numel * shmt__tensor_item_bytes(out),
            hi = lo + t->numel * shmt__tensor_item_bytes(t);
    bool same = out_lo == lo && out_hi == hi && t->n_dims == out->n_dims &&
                (t->n_dims == 0 ||
                 memcmp(t->strides, out->strides, (size_t)t->n_dims * sizeof *t->strides) == 0);
    SHMT_REQUIRE(same || out_hi <= lo || hi <= out_lo, SHMT_E_RUNTIME,
                 "unsupported operation: some elements of the input tensor and the written-to "
                 "tensor refer to a single "
                 "memory location. Please clone() the tensor before performing the operation.");
  }
  return SHMT_OK;
}

/* --- dtypes -------------------------------------------------------------------------- */

static shmt_status find_common_dtype(shmt_iter* it) {
  const shmt__operand* first = &it->operands[it->n_operands > it->n_outputs ? it->n_outputs : 0];
  shmt__result_type result = SHMT_RESULT_TYPE_INIT;
  bool mixed = false;

  it->common_dtype = first->tensor ? first->tensor->dtype : first->want;
  if (it->promote == SHMT_PROMOTE_NONE) return SHMT_OK;
  for (int k = it->n_outputs; k < it->n_operands; k++)
    mixed |= it->operands[k].tensor->dtype != it->common_dtype;
  SHMT_REQUIRE(!mixed || it->promote != SHMT_PROMOTE_SAME, SHMT_E_RUNTIME,
               "Found dtype %s but expected %s",
               shmt__dtype_title(it->operands[it->n_operands - 1].tensor->dtype),
               shmt__dtype_title(it->common_dtype));
  if (mixed) {
    for (int k = it->n_outputs; k < it->n_operands; k++) {
      const shmt_tensor* t = it->operands[k].tensor;
      SHMT_TRY(shmt__result_type_add(&result, t->dtype, t->n_dims == 0,
                                     (t->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0));
    }
    SHMT_TRY(shmt__result_type_get(&result, &it->common_dtype));
  } else if (it->promote != SHMT_PROMOTE_SAME &&
             it->operands[it->n_outputs].tensor->flags & SHMT_TENSOR_WRAPPED_NUMBER) {
    bool all = true; /* numbers only: a float counts as the default dtype */
    for (int k = it->n_outputs; k < it->n_operands; k++)
      all &= (it->operands[k].tensor->flags & SHMT_TENSOR_WRAPPED_NUMBER) != 0;
    if (all && it->common_dtype == SHMT_FLOAT64) it->common_dtype = shmt__default_dtype();
    if (all && it->common_dtype == SHMT_COMPLEX128)
      it->common_dtype = shmt__to_complex_dtype(shmt__default_dtype());
  }
  if (it->promote == SHMT_PROMOTE_INT_TO_FLOAT && shmt__dtype_category(it->common_dtype) < 2)
    it->common_dtype = shmt__default_dtype();
  if (it->promote == SHMT_PROMOTE_BOOL_TO_INT && it->common_dtype == SHMT_BOOL)
    it->common_dtype = SHMT_INT64;
  return SHMT_OK;
}

static shmt_dtype output_dtype(const shmt_iter* it, const shmt__operand* op) {
  if (op->want != SHMT_DTYPE_NONE) return op->want;
  return it->promote == SHMT_PROMOTE_COMPARE ? SHMT_BOOL : it->common_dtype;
}

static shmt_status cast_input(shmt_iter* it, int k) {
  shmt__operand* op = &it->operands[k];

  if (op->tensor->dtype == it->common_dtype) return SHMT_OK;
  if (it->is_meta) return SHMT_OK;
  if (op->tensor->n_dims == 0) {
    shmt__scalar_store_unsafe(shmt__scalar_load(shmt__tensor_data(op->tensor), op->tensor->dtype),
                              it->common_dtype, it->scalars[k]);
    op->data = it->scalars[k];
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_cast(op->tensor, it->common_dtype, &op->tensor));
  op->owned = true;
  it->elsewhere++;
  return SHMT_OK;
}

static shmt_status warn_of_resize(const build_state* b, const shmt_tensor* out) {
  char want[256];

  if (out->numel != 0)
    SHMT_TRY(
        shmt__warn("An output with one or more elements was resized since it had shape %s, which "
                   "does not match the "
                   "required output shape %s. This behavior is deprecated, and in a future PyTorch "
                   "release outputs "
                   "will not be resized unless they have zero elements. You can explicitly reuse "
                   "an out tensor t by "
                   "resizing it, inplace, to zero elements with t.resize_(0).",
                   SHMT_SHAPE_TEXT(out),
                   shmt__ints_text((shmt_ints){b->sizes, b->n_dims}, want, sizeof want)));
  return SHMT_OK;
}

/* Not when each dim steps over all that the smaller steps reach. */
bool shmt__may_overlap_itself(const shmt_tensor* t) {
  if (t->flags & SHMT_TENSOR_DENSE) return false;
  for (int d = 0; d < t->n_dims; d++) {
    int64_t reach = 0;
    if (t->sizes[d] == 1) continue;
    for (int e = 0; e < t->n_dims; e++) {
      bool inside = t->strides[e] < t->strides[d] || (t->strides[e] == t->strides[d] && e > d);
      if (inside) reach += (t->sizes[e] - 1) * t->strides[e];
    }
    if (t->strides[d] <= reach) return true;
  }
  return false;
}

/* A given output of the right shape is computed in a temporary when the dtype differs. */
static shmt_status set_temporary(shmt_iter* it, shmt__operand* op) {
  const shmt_dtype dtype = output_dtype(it, op);
  shmt_tensor* work = NULL;

  if (dtype == op->tensor->dtype || it->is_meta) return SHMT_OK;
  /* A comparison in place of such a tensor reads what it has written: shmt__iter_run converts. */
  if (op->read && dtype == SHMT_BOOL && shmt__may_overlap_itself(op->tensor)) return SHMT_OK;
  SHMT_TRY(shmt__tensor_empty_like(op->tensor, dtype, &work));
  op->original = op->tensor;
  op->tensor = work;
  op->owned = true;
  it->elsewhere++;
  return SHMT_OK;
}

/* Given outputs: check the cast; those of another shape are laid aside until it is known how new ones lie. */
static shmt_status prepare_given_output(build_state* b, int k) {
  shmt_iter* it = b->it;
  shmt__operand* op = &it->operands[k];
  const shmt_dtype dtype = output_dtype(it, op);

  SHMT_REQUIRE(shmt__can_cast(dtype, op->tensor->dtype), SHMT_E_RUNTIME,
               "result type %s can't be cast to the desired output type %s",
               shmt__dtype_title(dtype), shmt__dtype_title(op->tensor->dtype));
  SHMT_REQUIRE(!it->exact_out || op->read || dtype == op->tensor->dtype, SHMT_E_RUNTIME,
               "Found dtype %s but expected %s", shmt__dtype_title(op->tensor->dtype),
               shmt__dtype_title(dtype));
  SHMT_REQUIRE((op->tensor->device == SHMT_META) == it->is_meta, SHMT_E_RUNTIME,
               "%s(): expected all tensors to be on the same device, but the output is on %s and "
               "the inputs on %s",
               it->name, it->is_meta ? "cpu" : "meta", it->is_meta ? "meta" : "cpu");
  if (has_shape(b, op->tensor)) return set_temporary(it, op);
  SHMT_TRY(warn_of_resize(b, op->tensor));
  b->resized[k] = op->tensor;
  op->tensor = NULL;
  return SHMT_OK;
}

/* --- memory order ----------------------------------------------------------------------- */

/* Byte strides over b's dims, row-major order; 0 where the operand is broadcast. */
static void fill_strides(const build_state* b, shmt__operand* op) {
  const shmt_tensor* t = op->tensor;
  const int64_t item = shmt__tensor_item_bytes(t);
  const int missing = b->n_dims - t->n_dims;

  if (b->is_even) {
    for (int d = 0; d < b->n_dims; d++) op->strides[d] = (int64_t)((uint64_t)t->strides[d] * (uint64_t)item);
    return;
  }
  for (int d = 0; d < b->n_dims; d++) {
    bool own = d >= missing && (t->sizes[d - missing] != 1 || b->sizes[d] == 1);
    /* Unsigned: a dim of one element may have any stride, which nobody steps by. */
    op->strides[d] = own ? (int64_t)((uint64_t)t->strides[d - missing] * (uint64_t)item) : 0;
  }
}

/* Positive: dim `slow` should run inside `fast`; negative: they are right; 0: no operand can tell.
 */
static int compare_dims(const build_state* b, int fast, int slow) {
  const shmt_iter* it = b->it;

  for (int k = 0; k < it->n_operands; k++) {
    const shmt__operand* op = &it->operands[k];
    if (!op->tensor) continue;
    int64_t s0 = op->strides[fast], s1 = op->strides[slow];
    if (s0 == 0 || s1 == 0) continue;
    if (s0 != s1) return s0 < s1 ? -1 : 1;
    if (b->sizes[fast] > b->sizes[slow]) return 1;
  }
  return 0;
}

static void order_dims(build_state* b) {
  for (int i = 0; i < b->n_dims; i++) b->perm[i] = b->n_dims - 1 - i;
  for (int i = 1; i < b->n_dims; i++) {
    int at = i;
    for (int j = i - 1; j >= 0; j--) {
      int c = compare_dims(b, b->perm[j], b->perm[at]);
      if (c > 0) {
        int swap = b->perm[j];
        b->perm[j] = b->perm[at];
        b->perm[at] = swap;
        at = j;
      } else if (c < 0) {
        break;
      }
    }
  }
}

/* Strides of a new output: those of the inputs when they all agree, else dense in the walk's order.
 */
static shmt_status allocate_output(build_state* b, int k, const shmt_tensor* layout) {
  shmt_iter* it = b->it;
  shmt__operand* op = &it->operands[k];
  const shmt_ints sizes = {b->sizes, b->n_dims};
  const shmt_device device = it->is_meta ? SHMT_META : SHMT_CPU;
  int64_t strides[SHMT_MAX_DIMS], step = 1;
  bool row_major = !layout;

  for (int i = 0; i < b->n_dims && !layout; i++) {
    strides[b->perm[i]] = step;
    if (__builtin_mul_overflow(step, b->sizes[b->perm[i]] > 1 ? b->sizes[b->perm[i]] : 1, &step))
      row_major = true;
    row_major &= b->perm[i] == b->n_dims - 1 - i;
  }
  const shmt_ints steps = layout ? shmt__tensor_strides(layout) : (shmt_ints){strides, b->n_dims};
  if (b->resized[k]) {
    op->tensor = b->resized[k];
    SHMT_TRY(row_major ? shmt__tensor_resize(op->tensor, sizes, SHMT_CONTIGUOUS_FORMAT)
                       : shmt__tensor_set_geometry(op->tensor, sizes, steps, op->tensor->offset));
    SHMT_TRY(set_temporary(it, op));
    fill_strides(b, op);
    return SHMT_OK;
  }
  if (row_major)
    SHMT_TRY(shmt__tensor_empty(sizes, output_dtype(it, op), device, SHMT_CONTIGUOUS_FORMAT,
                                &op->tensor));
  else
    SHMT_TRY(shmt__tensor_empty_strided(sizes, steps, output_dtype(it, op), device, &op->tensor));
  op->owned = true;
  it->elsewhere++;
  fill_strides(b, op);
  return SHMT_OK;
}

/* All inputs dense with the same sizes and strides (channels-last, transposed): outputs take those
 * strides. */
static const shmt_tensor* find_common_layout(const build_state* b) {
  const shmt_iter* it = b->it;
  const shmt_tensor* first =
      it->n_operands > it->n_outputs ? it->operands[it->n_outputs].tensor : NULL;

  if (!first || b->n_dims == 0 || !(first->flags & SHMT_TENSOR_DENSE) || !has_shape(b, first))
    return NULL;
  for (int k = 0; k < it->n_operands; k++) {
    const shmt_tensor* t =
        it->operands[k].original ? it->operands[k].original : it->operands[k].tensor;
    if (t && (!has_shape(b, t) ||
              memcmp(t->strides, first->strides, (size_t)b->n_dims * sizeof *t->strides) != 0))
      return NULL;
  }
  return first;
}

static bool are_all_given(const shmt_iter* it) {
  for (int k = 0; k < it->n_outputs; k++)
    if (!it->operands[k].tensor) return false;
  return true;
}

static shmt_status allocate_outputs(build_state* b) {
  shmt_iter* it = b->it;

  if (are_all_given(it)) return SHMT_OK;
  const shmt_tensor* layout = find_common_layout(b);

  for (int k = 0; k < it->n_outputs; k++)
    if (!it->operands[k].tensor) SHMT_TRY(allocate_output(b, k, layout));
  return SHMT_OK;
}

static void reverse(int64_t* values, int n) {
  for (int i = 0, j = n - 1; i < j; i++, j--) {
    const int64_t last = values[j];
    values[j] = values[i];
    values[i] = last;
  }
}

static void permute_strides(const build_state* b) {
  shmt_iter* it = b->it;
  bool row_major = true;

  it->n_dims = b->n_dims;
  for (int d = 0; d < b->n_dims; d++) {
    it->sizes[d] = b->sizes[b->perm[d]];
    row_major &= b->perm[d] == b->n_dims - 1 - d;
  }
  for (int k = 0; k < it->n_operands; k++) {
    int64_t* const strides = it->operands[k].strides;
    int64_t logical[SHMT_MAX_DIMS];
    if (row_major) {
      reverse(strides, b->n_dims);
      continue;
    }
    memcpy(logical, strides, (size_t)b->n_dims * sizeof *logical);
    for (int d = 0; d < b->n_dims; d++) strides[d] = logical[b->perm[d]];
  }
}

void shmt__iter_coalesce(shmt_iter* it) {
  int last = 0;

  if (it->n_dims == 0 || it->numel == 0) {
    it->n_dims = 1;
    it->sizes[0] = it->numel;
    for (int k = 0; k < it->n_operands; k++) it->operands[k].strides[0] = 0;
    return;
  }
  for (int d = 1; d < it->n_dims; d++) {
    bool fits = true;
    if (it->sizes[last] != 1 && it->sizes[d] != 1)
      for (int k = 0; k < it->n_operands && fits; k++) {
        const int64_t* s = it->operands[k].strides;
        fits = it->sizes[last] * s[last] == s[d];
      }
    if (!fits) last++;
    if (!fits || it->sizes[last] == 1)
      for (int k = 0; k < it->n_operands; k++)
        it->operands[k].strides[last] = it->operands[k].strides[d];
    it->sizes[last] = fits ? it->sizes[last] * it->sizes[d] : it->sizes[d];
  }
  it->n_dims = last + 1;
}

shmt_status shmt__iter_build_general(shmt_iter* it) {
  build_state b; /* its arrays are written before they are read */

  b.it = it;
  b.n_dims = 0;
  b.is_even = false;
  for (int k = 0; k < it->n_outputs; k++) b.resized[k] = NULL;
  for (int k = 0; k < it->n_operands; k++)
    it->is_meta |= it->operands[k].tensor && it->operands[k].tensor->device == SHMT_META;
  if (it->check_overlap)
    for (int k = 0; k < it->n_outputs; k++)
      if (it->operands[k].tensor) SHMT_TRY(check_output_overlap(it, it->operands[k].tensor));
  SHMT_TRY(find_shape(&b));
  SHMT_TRY(check_output_shapes(&b));
  SHMT_TRY(find_common_dtype(it));
  for (int k = 0; k < it->n_outputs; k++)
    if (it->operands[k].tensor) SHMT_TRY(prepare_given_output(&b, k));
  if (it->promote != SHMT_PROMOTE_NONE && it->promote != SHMT_PROMOTE_SAME)
    for (int k = it->n_outputs; k < it->n_operands; k++) SHMT_TRY(cast_input(it, k));
  for (int k = 0; k < it->n_operands; k++)
    if (it->operands[k].tensor) fill_strides(&b, &it->operands[k]);
  order_dims(&b);
  SHMT_TRY(allocate_outputs(&b));
  permute_strides(&b);
  for (int k = 0; k < it->n_operands; k++) {
    shmt__operand* op = &it->operands[k];
    if (op->data != it->scalars[k]) op->data = shmt__tensor_data(op->tensor);
  }
  shmt__iter_coalesce(it);
  return SHMT_OK;
}
