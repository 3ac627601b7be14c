/* ops/sorting/isin.c -- isin searches each element among the sorted test elements. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"

static shmt_status check_isin(shmt_dtype dtype) {
  SHMT_REQUIRE(!shmt__is_complex(dtype) && dtype != SHMT_BOOL, SHMT_E_RUNTIME,
               "Unsupported input type encountered for isin(): %s", shmt__dtype_title(dtype));
  return SHMT_OK;
}

static shmt_status find_in_sorted(shmt_tensor* elements, shmt_tensor* sorted, bool invert, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) positions = NULL;
  SHMT_AUTO(shmt_tensor) inside = NULL;
  SHMT_AUTO(shmt_tensor) nearest = NULL;

  SHMT_TRY(shmt_op_searchsorted_Tensor(sorted, elements, false, false, NULL, NULL, &positions));
  SHMT_TRY(shmt_op_clamp_max(positions, shmt__scalar_int(sorted->numel - 1), &inside));
  SHMT_TRY(shmt_op_take(sorted, inside, &nearest));
  return invert ? shmt_op_ne_Tensor(nearest, elements, out) : shmt_op_eq_Tensor(nearest, elements, out);
}

/* Searches blocks of about `block` elements: parts of their longest dim. */
static shmt_status find_by_blocks(shmt_tensor* elements, shmt_tensor* sorted, bool invert, int64_t block,
                                  shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) all = NULL;
  int dim = 0;

  for (int d = 1; d < elements->n_dims; d++)
    if (elements->sizes[d] > elements->sizes[dim]) dim = d;
  const int64_t size = elements->sizes[dim], each = elements->numel / size, fit = block > each ? block / each : 1;
  SHMT_TRY(shmt_op_new_empty(elements, shmt__tensor_sizes(elements), SHMT_BOOL, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE,
                             (shmt_opt_bool){0}, &all));
  for (int64_t at = 0; at < size; at += fit) {
    SHMT_AUTO(shmt_tensor) part = NULL;
    SHMT_AUTO(shmt_tensor) found = NULL;
    SHMT_AUTO(shmt_tensor) to = NULL;
    const int64_t n = size - at < fit ? size - at : fit;
    SHMT_TRY(shmt_op_narrow(elements, dim, at, n, &part));
    SHMT_TRY(find_in_sorted(part, sorted, invert, &found));
    SHMT_TRY(shmt_op_narrow(all, dim, at, n, &to));
    SHMT_TRY(shmt_op_copy_(to, found, false));
  }
  *out = SHMT_TAKE(all);
  return SHMT_OK;
}

shmt_status shmt__isin(shmt_tensor* elements, shmt_tensor* test_elements, bool assume_unique, bool invert,
                       shmt_tensor** out) {
  enum { MIN_ELEMENTS_AT_ONCE = 1 << 13 };
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) sorted = NULL;
  SHMT_AUTO(shmt_tensor) order = NULL;

  (void)assume_unique;
  SHMT_TRY(check_isin(elements->dtype));
  SHMT_TRY(check_isin(test_elements->dtype));
  if (test_elements->numel == 0)
    return shmt_op_full_like(elements, shmt__scalar_bool(invert), SHMT_BOOL, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE,
                             (shmt_opt_bool){0}, SHMT_MEMORY_FORMAT_NONE, out);
  SHMT_TRY(shmt_op_reshape(test_elements, SHMT_INTS(-1), &flat));
  SHMT_TRY(shmt_op_sort(flat, 0, false, &sorted, &order));
  /* The sorted elements may be converted with every block. */
  const int64_t block = sorted->numel > MIN_ELEMENTS_AT_ONCE ? sorted->numel : MIN_ELEMENTS_AT_ONCE;
  if (elements->numel <= block || shmt__tensor_is_meta(elements)) return find_in_sorted(elements, sorted, invert, out);
  return find_by_blocks(elements, sorted, invert, block, out);
}

/* A number as a tensor of its default dtype, or of float64 when that does not hold it. */
static shmt_status as_tensor(shmt_scalar s, shmt_tensor** out) {
  const shmt_dtype dtype = shmt__scalar_dtype(s);
  const bool is_beyond = s.tag == SHMT_SCALAR_FLOAT && !shmt__scalar_fits(s, dtype);

  return shmt__tensor_from_scalar(s, is_beyond ? SHMT_FLOAT64 : dtype, true, out);
}

shmt_status shmt__isin_scalar(shmt_tensor* elements, shmt_scalar test_element, bool assume_unique, bool invert,
                              shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) value = NULL;

  SHMT_TRY(as_tensor(test_element, &value));
  return shmt__isin(elements, value, assume_unique, invert, out);
}

shmt_status shmt__isin_of_scalar(shmt_scalar element, shmt_tensor* test_elements, bool assume_unique, bool invert,
                                 shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) value = NULL;

  SHMT_TRY(as_tensor(element, &value));
  return shmt__isin(value, test_elements, assume_unique, invert, out);
}
