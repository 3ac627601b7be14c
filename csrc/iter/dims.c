/* iter/dims.c -- the shape and the memory order of an iterator's dims.
 *
 * The order of the dims decides the order of the loops and the memory format of new outputs. As in torch, an insertion
 * sort orders the dims by the operands' strides; the first operand whose strides differ decides.
 */
#include "iter/dims.h"

#include "base/overflow.h"

#include <string.h>

/* --- shapes ----------------------------------------------------------------------- */

static shmt_status count_elements(shmt_iter* it, const shmt__iter_dims* dims) {
  it->numel = 1;
  for (int d = 0; d < dims->n_dims; d++) {
    char text[256];
    SHMT_REQUIRE(shmt__mul_i64(it->numel, dims->sizes[d], &it->numel), SHMT_E_RUNTIME,
                 "%s(): numel: integer multiplication overflow for shape %s", it->name,
                 shmt__ints_text((shmt_ints){dims->sizes, dims->n_dims}, text, sizeof text));
  }
  return SHMT_OK;
}

static shmt_status broadcast(shmt__iter_dims* dims, const shmt_tensor* t) {
  int64_t merged[SHMT_MAX_DIMS], n;

  SHMT_TRY(shmt__broadcast_sizes((shmt_ints){dims->sizes, dims->n_dims}, shmt__tensor_sizes(t), merged, &n));
  dims->n_dims = (int)n;
  memcpy(dims->sizes, merged, (size_t)n * sizeof *merged);
  return SHMT_OK;
}

static shmt_status check_output_shapes(shmt_iter* it, const shmt__iter_dims* dims) {
  for (int k = 0; k < it->n_outputs; k++) {
    shmt__operand* op = &it->operands[k];
    if (!op->tensor) continue;
    for (int i = it->n_outputs; i < it->n_operands; i++)
      op->read |= it->operands[i].tensor == op->tensor;
    if (shmt__iter_has_shape(dims, op->tensor)) continue;
    if (op->read || !it->resize_outputs) {
      char want[256];
      SHMT_FAIL(SHMT_E_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                SHMT_SHAPE_TEXT(op->tensor),
                shmt__ints_text((shmt_ints){dims->sizes, dims->n_dims}, want, sizeof want));
    }
  }
  return SHMT_OK;
}

shmt_status shmt__iter_find_shape(shmt_iter* it, shmt__iter_dims* dims) {
  const bool outputs_follow = it->resize_outputs && it->n_operands > it->n_outputs;
  const shmt_tensor* first = NULL;
  bool is_even = true;

  dims->n_dims = 0;
  dims->is_even = false;
  for (int k = outputs_follow ? it->n_outputs : 0; k < it->n_operands; k++) {
    const shmt_tensor* t = it->operands[k].tensor;
    if (!t) continue;
    if (!first) {
      first = t;
      dims->n_dims = t->n_dims;
      for (int d = 0; d < t->n_dims; d++) dims->sizes[d] = t->sizes[d];
    } else if (!shmt__iter_has_shape(dims, t)) {
      is_even = false;
      SHMT_TRY(broadcast(dims, t));
    }
  }
  SHMT_REQUIRE(first, SHMT_E_RUNTIME, "%s(): expected at least one tensor", it->name);
  for (int k = 0; k < it->n_outputs && is_even; k++)
    is_even = !it->operands[k].tensor || shmt__iter_has_shape(dims, it->operands[k].tensor);
  dims->is_even = is_even;
  it->numel = first->numel;
  if (!is_even) SHMT_TRY(count_elements(it, dims));
  return check_output_shapes(it, dims);
}

/* --- overlaps --------------------------------------------------------------------- */

shmt_status shmt__iter_check_overlap(const shmt_iter* it, const shmt_tensor* out) {
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

/* It may not overlap itself when the stride of each dim is larger than all that the dims with smaller strides span. */
bool shmt__may_overlap_itself(const shmt_tensor* t) {
  if (t->flags & SHMT_TENSOR_DENSE || t->numel == 0) return false;
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

/* --- memory order ----------------------------------------------------------------- */

void shmt__iter_fill_strides(const shmt__iter_dims* dims, shmt__operand* op) {
  const shmt_tensor* t = op->tensor;
  const int64_t item = shmt__tensor_item_bytes(t);
  const int missing = dims->n_dims - t->n_dims;

  if (dims->is_even) {
    for (int d = 0; d < dims->n_dims; d++) op->strides[d] = (int64_t)((uint64_t)t->strides[d] * (uint64_t)item);
    return;
  }
  for (int d = 0; d < dims->n_dims; d++) {
    bool own = d >= missing && (t->sizes[d - missing] != 1 || dims->sizes[d] == 1);
    /* Unsigned, since a dim of one element may have any stride; nothing steps by it. */
    op->strides[d] = own ? (int64_t)((uint64_t)t->strides[d - missing] * (uint64_t)item) : 0;
  }
}

/* Positive: dim `slow` should be the inner one; negative: the order is right; 0: no operand decides. */
static int compare_dims(const shmt_iter* it, const shmt__iter_dims* dims, int fast, int slow) {
  for (int k = 0; k < it->n_operands; k++) {
    const shmt__operand* op = &it->operands[k];
    if (!op->tensor) continue;
    int64_t s0 = op->strides[fast], s1 = op->strides[slow];
    if (s0 == 0 || s1 == 0) continue;
    if (s0 != s1) return s0 < s1 ? -1 : 1;
    if (dims->sizes[fast] > dims->sizes[slow]) return 1;
  }
  return 0;
}

void shmt__iter_order_dims(const shmt_iter* it, shmt__iter_dims* dims) {
  for (int i = 0; i < dims->n_dims; i++) dims->perm[i] = dims->n_dims - 1 - i;
  for (int i = 1; i < dims->n_dims; i++) {
    int at = i;
    for (int j = i - 1; j >= 0; j--) {
      int c = compare_dims(it, dims, dims->perm[j], dims->perm[at]);
      if (c > 0) {
        int swap = dims->perm[j];
        dims->perm[j] = dims->perm[at];
        dims->perm[at] = swap;
        at = j;
      } else if (c < 0) {
        break;
      }
    }
  }
}

static void reverse(int64_t* values, int n) {
  for (int i = 0, j = n - 1; i < j; i++, j--) {
    const int64_t last = values[j];
    values[j] = values[i];
    values[i] = last;
  }
}

void shmt__iter_permute_strides(shmt_iter* it, const shmt__iter_dims* dims) {
  bool row_major = true;

  it->n_dims = dims->n_dims;
  for (int d = 0; d < dims->n_dims; d++) {
    it->sizes[d] = dims->sizes[dims->perm[d]];
    row_major &= dims->perm[d] == dims->n_dims - 1 - d;
  }
  for (int k = 0; k < it->n_operands; k++) {
    int64_t* const strides = it->operands[k].strides;
    int64_t logical[SHMT_MAX_DIMS];
    if (row_major) {
      reverse(strides, dims->n_dims);
      continue;
    }
    memcpy(logical, strides, (size_t)dims->n_dims * sizeof *logical);
    for (int d = 0; d < dims->n_dims; d++) strides[d] = logical[dims->perm[d]];
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

/* --- operands that are all given ---------------------------------------------------- */

/* Contiguous operands of one shape, or 0-d inputs, of which none shares the output's storage: one loop over memory. */
static bool build_contiguous(shmt_iter* it) {
  const shmt_tensor* out = it->operands[0].tensor;

  for (int k = 0; k < it->n_operands; k++) {
    shmt__operand* op = &it->operands[k];
    const shmt_tensor* t = op->tensor;
    const bool is_scalar = k > 0 && t->n_dims == 0;
    if (k > 0 && t->storage == out->storage) return false;
    if (!is_scalar && !(shmt__tensor_is_contiguous(t) && shmt__same_sizes(t, out))) return false;
    op->data = shmt__tensor_data(t);
    op->strides[0] = is_scalar ? 0 : shmt__tensor_item_bytes(t);
  }
  it->n_dims = 1;
  it->numel = out->numel;
  it->sizes[0] = out->numel;
  return true;
}

shmt_status shmt__iter_build_given(shmt_iter* it) {
  shmt__iter_dims dims; /* its arrays are written before they are read */

  SHMT_ASSERT(it->n_outputs == 1 && it->promote == SHMT_PROMOTE_NONE && !it->resize_outputs);
  it->common_dtype = it->operands[it->n_operands - 1].tensor->dtype;
  if (build_contiguous(it)) return SHMT_OK;
  if (it->check_overlap) SHMT_TRY(shmt__iter_check_overlap(it, it->operands[0].tensor));
  SHMT_TRY(shmt__iter_find_shape(it, &dims));
  for (int k = 0; k < it->n_operands; k++) {
    shmt__iter_fill_strides(&dims, &it->operands[k]);
    it->operands[k].data = shmt__tensor_data(it->operands[k].tensor);
  }
  shmt__iter_order_dims(it, &dims);
  shmt__iter_permute_strides(it, &dims);
  shmt__iter_coalesce(it);
  return SHMT_OK;
}
