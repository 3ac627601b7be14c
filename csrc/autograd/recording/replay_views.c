/* autograd/recording/replay_views.c -- making a view again, from another tensor with the layout of its base. */
#include "autograd/recording/replay_views.h"

#include "base/dtype.h"
#include "generated/ops.h"

#include <stdlib.h>
#include <string.h>

static bool shows_parts(const shmt__view_recipe* r) {
  return shmt__is_complex(r->base_dtype) && shmt__to_real_dtype(r->base_dtype) == r->dtype;
}

static bool shows_pairs(const shmt__view_recipe* r) {
  return shmt__is_complex(r->dtype) && shmt__to_real_dtype(r->dtype) == r->base_dtype;
}

shmt_status shmt__view_recipe_init(shmt__view_recipe* r, const shmt_tensor* base, const shmt_tensor* view) {
  const size_t part = (size_t)view->n_dims * sizeof(int64_t);
  *r = (shmt__view_recipe){.offset = view->offset,
                      .base_offset = base->offset,
                      .n_dims = view->n_dims,
                      .dtype = view->dtype,
                      .base_dtype = base->dtype,
                      .bits = (view->flags ^ base->flags) & SHMT_TENSOR_CONJ_NEG};
  const bool other = view->dtype != base->dtype;
  SHMT_REQUIRE(!other || ((shows_parts(r) || shows_pairs(r)) && !(base->flags & SHMT_TENSOR_CONJ)),
               SHMT_E_NOT_IMPLEMENTED,
               "a view that shows a tensor of dtype %s as %s, changed in place, has no derivative",
               shmt__dtype_title(base->dtype), shmt__dtype_title(view->dtype));
  r->sizes = malloc(2 * part + 1);
  SHMT_REQUIRE(r->sizes, SHMT_E_NOMEM, "out of memory for the geometry of a view");
  memcpy(r->sizes, view->sizes, part);
  memcpy(r->sizes + view->n_dims, view->strides, part);
  return SHMT_OK;
}

void shmt__view_recipe_fini(shmt__view_recipe* r) {
  free(r->sizes);
  r->sizes = NULL;
}

/* Pairs of base's elements as complex numbers. */
static shmt_status replay_pairs(const shmt__view_recipe* r, shmt_tensor* base, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) pairs = NULL;
  int64_t sizes[SHMT_MAX_DIMS + 1], strides[SHMT_MAX_DIMS + 1];
  const int n = r->n_dims;
  memcpy(sizes, r->sizes, (size_t)n * sizeof *sizes);
  for (int d = 0; d < n; d++) strides[d] = 2 * r->sizes[n + d];
  sizes[n] = 2;
  strides[n] = 1;
  shmt_opt_int offset = {base->offset + 2 * r->offset - r->base_offset, true};
  SHMT_TRY(shmt_op_as_strided(base, (shmt_ints){sizes, n + 1}, (shmt_ints){strides, n + 1}, offset,
                              &pairs));
  return shmt_op_view_as_complex(pairs, out);
}

static shmt_status replay_geometry(const shmt__view_recipe* r, shmt_tensor* base, shmt_tensor** out) {
  const shmt_ints sizes = {r->sizes, r->n_dims}, strides = {r->sizes + r->n_dims, r->n_dims};
  if (shows_pairs(r)) return replay_pairs(r, base, out);
  shmt_opt_int offset = {base->offset + r->offset - r->base_offset, true};
  if (!shows_parts(r)) return shmt_op_as_strided(base, sizes, strides, offset, out);
  SHMT_AUTO(shmt_tensor) parts = NULL;
  SHMT_TRY(shmt_op_view_as_real(base, &parts));
  offset.value = 2 * base->offset + r->offset - 2 * r->base_offset;
  return shmt_op_as_strided(parts, sizes, strides, offset, out);
}

shmt_status shmt__view_replay(const shmt__view_recipe* r, shmt_tensor* base, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) plain = NULL;
  SHMT_AUTO(shmt_tensor) conjugated = NULL;
  SHMT_TRY(replay_geometry(r, base, &plain));
  if (r->bits & SHMT_TENSOR_CONJ)
    SHMT_TRY(shmt_op__conj(plain, &conjugated));
  else
    conjugated = SHMT_TAKE(plain);
  if (r->bits & SHMT_TENSOR_NEG) return shmt_op__neg_view(conjugated, out);
  *out = SHMT_TAKE(conjugated);
  return SHMT_OK;
}
