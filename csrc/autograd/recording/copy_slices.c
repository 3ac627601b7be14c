/* autograd/recording/copy_slices.c -- the history of a base whose view was changed in place. */
#include "autograd/recording/copy_slices.h"

#include "autograd/engine/needed_nodes.h"
#include "autograd/meta.h"
#include "autograd/recording/connect.h"
#include "autograd/recording/history.h"
#include "autograd/recording/replay_views.h"
#include "base/scalar.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "tensor/batched.h"

#include <stdlib.h>
#include <string.h>

typedef struct geometry {
  int64_t* sizes; /* n_dims sizes, then n_dims strides; malloc'ed */
  int n_dims;
} geometry;

typedef struct copy_slices {
  shmt_node node;
  shmt_node* fn; /* owned; NULL once its saved tensors were freed */
  geometry base;
  shmt__view_recipe view;
} copy_slices;

static shmt_ints sizes_of(const geometry* g) { return (shmt_ints){g->sizes, g->n_dims}; }
static shmt_ints strides_of(const geometry* g) {
  return (shmt_ints){g->sizes + g->n_dims, g->n_dims};
}

static shmt_status geometry_init(geometry* g, const shmt_tensor* t) {
  const size_t part = (size_t)t->n_dims * sizeof(int64_t);
  g->sizes = malloc(2 * part + 1);
  SHMT_REQUIRE(g->sizes, SHMT_E_NOMEM, "CopySlices: out of memory for a geometry");
  memcpy(g->sizes, t->sizes, part);
  memcpy(g->sizes + t->n_dims, t->strides, part);
  g->n_dims = t->n_dims;
  return SHMT_OK;
}

/* A tensor with the layout of the base; under vmap with room for the examples of `like`, whose class may answer. */
static shmt_status empty_base(const copy_slices* n, shmt_tensor* like, shmt_dtype dtype, shmt_tensor** out) {
  if (SHMT_UNLIKELY(shmt__batched_of(like) != NULL || shmt__tensor_is_answered(like)))
    return shmt_op_new_empty_strided(like, sizes_of(&n->base), strides_of(&n->base), dtype, SHMT_LAYOUT_NONE,
                                     SHMT_DEVICE_NONE, (shmt_opt_bool){0}, out);
  return shmt__tensor_empty_strided(sizes_of(&n->base), strides_of(&n->base), dtype, like->device, out);
}

/* Under vmap the gradient of the view may differ from example to example where that of the base did not: then *result
 * gets room for it, and *slice is made again. */
static shmt_status make_room(const copy_slices* n, shmt_tensor* of_view, shmt_tensor** result, shmt_tensor** slice) {
  const shmt__batched *have = shmt__batched_of(*result), *need = shmt__batched_of(of_view);
  if (SHMT_LIKELY(!need) || need->dim == SHMT_NOT_BATCHED || (have && have->dim != SHMT_NOT_BATCHED)) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) roomy = NULL;
  SHMT_TRY(empty_base(n, of_view, (*result)->dtype, &roomy));
  SHMT_TRY(shmt_op_copy_(roomy, *result, false));
  shmt__tensor_release(*result);
  *result = SHMT_TAKE(roomy);
  shmt__tensor_release(SHMT_TAKE(*slice));
  return shmt__view_replay(&n->view, *result, slice);
}

/* A copy of the gradient of the base, in the layout of the base, that no other holder can see. */
static shmt_status copy_of_gradient(const copy_slices* n, shmt_tensor* grad, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_TRY(empty_base(n, grad, grad->dtype, &result));
  SHMT_TRY(shmt_op_copy_(result, grad, false));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

static shmt_status copy_slices_apply(shmt_node* node, shmt_tensor* const* grads,
                                     shmt_tensor** out) {
  copy_slices* n = (copy_slices*)node;
  if (!grads[0]) return SHMT_OK;
  SHMT_REQUIRE(n->fn, SHMT_E_RUNTIME,
               "Trying to backward through the graph a second time (or directly access saved "
               "tensors after they have "
               "already been freed). Saved intermediate values of the graph are freed when you "
               "call .backward() or "
               "autograd.grad(). Specify retain_graph=True if you need to backward through the "
               "graph a second time or "
               "if you need to access saved tensors after calling backward.");
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) slice = NULL;
  SHMT_AUTO(shmt_tensor) inner = NULL;
  SHMT_TRY(copy_of_gradient(n, grads[0], &result));
  SHMT_TRY(shmt__view_replay(&n->view, result, &slice));
  SHMT_TRY(shmt_op_clone(slice, SHMT_CONTIGUOUS_FORMAT, &inner));
  SHMT_TRY(n->fn->klass->apply(n->fn, &inner, out));
  if (!shmt__node_needs(node, 0)) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) of_view = SHMT_TAKE(out[0]);
  if (of_view) SHMT_TRY(make_room(n, of_view, &result, &slice));
  if (of_view)
    SHMT_TRY(shmt_op_copy_(slice, of_view, false));
  else
    SHMT_TRY(shmt_op_zero_(slice));
  out[0] = SHMT_TAKE(result);
  return SHMT_OK;
}

static void copy_slices_release(shmt_node* node) {
  copy_slices* n = (copy_slices*)node;
  shmt__node_release(SHMT_TAKE(n->fn));
}

static void copy_slices_destroy(shmt_node* node) {
  copy_slices* n = (copy_slices*)node;
  free(n->base.sizes);
  shmt__view_recipe_fini(&n->view);
}

static const shmt__node_class copy_slices_class = {.name = "CopySlices",
                                                   .size = sizeof(copy_slices),
                                                   .apply = copy_slices_apply,
                                                   .release_saved = copy_slices_release,
                                                   .destroy = copy_slices_destroy};

static shmt_status copy_slices_connect(copy_slices* n, shmt_tensor* base, shmt_node* fn) {
  SHMT_TRY(geometry_init(&n->base, base));
  for (uint32_t i = 1; i < fn->n_edges; i++) {
    if (!fn->edges[i].node) continue;
    shmt__node_retain(fn->edges[i].node);
    shmt__node_set_edge(&n->node, i, fn->edges[i]);
  }
  SHMT_TRY(shmt__node_connect(&n->node, 0, base));
  /* fn computes the gradient of the view when the base wants one. */
  shmt_edge first = n->node.edges[0];
  if (first.node) shmt__node_retain(first.node);
  shmt__node_set_edge(fn, 0, first);
  return SHMT_OK;
}

shmt_status shmt__copy_slices_create(shmt_tensor* base, shmt_tensor* view, shmt_node* fn,
                                     shmt_node** out) {
  SHMT_ASSERT(fn->n_edges >= 1);
  copy_slices* n = (copy_slices*)shmt__node_create(&copy_slices_class, fn->n_edges, 1);
  if (!n) return SHMT_E_NOMEM;
  shmt_status status = copy_slices_connect(n, base, fn);
  if (status == SHMT_OK) status = shmt__view_recipe_init(&n->view, base, view);
  shmt__node_retain(fn);
  n->fn = fn;
  if (status != SHMT_OK) {
    shmt__node_release(&n->node);
    return status;
  }
  *out = &n->node;
  return SHMT_OK;
}

bool shmt__copy_slices_runs(const shmt_node* node, const shmt_node* fn) {
  return node && node->klass == &copy_slices_class && ((const copy_slices*)node)->fn == fn;
}

/* The gradient of the region, inside zeros of the shape of the base. */
static shmt_status region_apply(shmt_node* node, shmt_tensor* const* grads, shmt_tensor** out) {
  const copy_slices* n = (const copy_slices*)node->edges[0].node;
  if (!grads[0]) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) whole = NULL;
  SHMT_AUTO(shmt_tensor) region = NULL;
  SHMT_TRY(empty_base(n, grads[0], (shmt_dtype)n->view.base_dtype, &whole));
  if (shmt__batched_of(whole) || shmt__tensor_is_answered(whole))
    SHMT_TRY(shmt_op_zero_(whole));
  else
    SHMT_TRY(shmt__tensor_fill(whole, shmt__scalar_int(0)));
  SHMT_TRY(shmt__view_replay(&n->view, whole, &region));
  SHMT_TRY(shmt_op_copy_(region, grads[0], false));
  out[0] = SHMT_TAKE(whole);
  return SHMT_OK;
}

static const shmt__node_class region_class = {
    .name = "CopySlicesRegion", .size = sizeof(shmt_node), .apply = region_apply};

shmt_status shmt__copy_slices_region(shmt_node* node, shmt_tensor* t) {
  SHMT_AUTO(shmt_node) region = shmt__node_create(&region_class, 1, 1);
  if (!region) return SHMT_E_NOMEM; /* recorded */
  shmt__node_retain(node);
  shmt__node_set_edge(region, 0, (shmt_edge){node, 0});
  return shmt__set_history(t, region, 0);
}
