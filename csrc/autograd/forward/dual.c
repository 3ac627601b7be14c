/* autograd/forward/dual.c -- making dual tensors and taking them apart. */
#include "autograd/forward/dual.h"

#include "autograd/vmap/dispatch.h"
#include "generated/ops.h"

/* Tangents are set and seen only here. */
static bool is_on(void) { return shmt__forward_enabled() && !shmt__tls_inference_mode; }

static shmt_status has_tangent(shmt_tensor* t, shmt__forward_number level, bool* has) {
  SHMT_AUTO(shmt_tensor) tangent = NULL;
  SHMT_TRY(shmt__tangent_of(t, level, &tangent));
  *has = tangent != NULL;
  return SHMT_OK;
}

/* t as a tensor of the innermost vmap, see Note [Levels of forward mode]. */
static shmt_status lift(shmt_tensor* t, shmt_tensor** out) {
  const int level = shmt__level_of_vmap();
  const shmt__batched* b = shmt__batched_of(t);
  if (level > 0 && !(b && b->level == level)) return shmt__vmap_wrap(t, SHMT_NOT_BATCHED, level, out);
  *out = shmt__tensor_ref(t);
  return SHMT_OK;
}

/* A recorded view with the tangents of outer levels. */
static shmt_status view_without_tangent(shmt_tensor* t, shmt__forward_number level, shmt_tensor** out) {
  SHMT_HIDE_LEVEL(level);
  SHMT_TRY(shmt_op_alias(t, out));
  (*out)->flags |= SHMT_TENSOR_VIEW_NO_TANGENT;
  return SHMT_OK;
}

shmt_status shmt__make_dual(shmt_tensor* primal, shmt_tensor* tangent, shmt__forward_number level, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) lifted = NULL;
  SHMT_AUTO(shmt_tensor) dual = NULL;
  bool has;
  SHMT_REQUIRE(
      shmt__forward_level_is_live(level), SHMT_E_RUNTIME,
      "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.");
  SHMT_TRY(has_tangent(primal, level, &has));
  SHMT_REQUIRE(!has, SHMT_E_RUNTIME,
               "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level %d is not "
               "supported.",
               0);
  SHMT_TRY(has_tangent(tangent, level, &has));
  SHMT_REQUIRE(!has, SHMT_E_RUNTIME,
               "Setting a forward grad that itself has a forward gradient at the same level%d is not supported.",
               0);
  SHMT_TRY(lift(primal, &lifted));
  SHMT_TRY(view_without_tangent(lifted, level, &dual));
  if (is_on()) {
    SHMT_HIDE_LEVEL(level);
    SHMT_TRY(shmt__tangent_set(dual, level, tangent));
  }
  *out = SHMT_TAKE(dual);
  return SHMT_OK;
}

shmt_status shmt__unpack_dual(shmt_tensor* dual, shmt__forward_number level, shmt_tensor** primal,
                              shmt_tensor** tangent) {
  SHMT_AUTO(shmt_tensor) t = NULL;
  SHMT_AUTO(shmt_tensor) view = NULL;
  if (is_on()) {
    SHMT_HIDE_LEVEL(level);
    SHMT_TRY(shmt__tangent_of(dual, level, &t));
  }
  SHMT_TRY(view_without_tangent(dual, level, &view));
  *primal = SHMT_TAKE(view);
  *tangent = SHMT_TAKE(t);
  return SHMT_OK;
}
