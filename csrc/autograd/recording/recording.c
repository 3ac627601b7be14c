/* autograd/recording/recording.c -- saved lists and shapes, and nodes of operators without derivatives. */
#include "autograd/recording/recording.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/overflow.h"
#include "iter/copy/copy.h"
#include "ops/scalar_expression.h"

static shmt_status duplicate(const void* data, int64_t n, size_t item, void** out) {
  int64_t nbytes;
  *out = NULL;
  if (n <= 0) return SHMT_OK;
  SHMT_REQUIRE(shmt__mul_i64(n, (int64_t)item, &nbytes), SHMT_E_NOMEM, "a list of %" PRId64 " values", n);
  *out = malloc((size_t)nbytes);
  SHMT_REQUIRE(*out, SHMT_E_NOMEM, "%" PRId64 " bytes for values that backward needs", nbytes);
  memcpy(*out, data, (size_t)nbytes);
  return SHMT_OK;
}

shmt_status shmt__saved_shape_init(shmt__saved_shape* s, const shmt_tensor* t) {
  *s = (shmt__saved_shape){.dtype = SHMT_DTYPE_NONE, .device = SHMT_DEVICE_NONE};
  s->sizes = s->dims;
  if (!t) return SHMT_OK;
  if (t->n_dims > SHMT_INLINE_DIMS) {
    s->sizes = calloc(2 * (size_t)t->n_dims, sizeof *s->sizes);
    SHMT_REQUIRE(s->sizes, SHMT_E_NOMEM, "a copy of %d sizes", t->n_dims);
  }
  for (int i = 0; i < t->n_dims; i++) {
    s->sizes[i] = t->sizes[i];
    s->sizes[t->n_dims + i] = t->strides[i];
  }
  s->n_dims = t->n_dims;
  s->numel = t->numel;
  s->dtype = t->dtype;
  s->device = t->device;
  return SHMT_OK;
}

void shmt__saved_shape_fini(shmt__saved_shape* s) {
  if (s->sizes != s->dims) free(s->sizes);
  s->sizes = s->dims;
  s->n_dims = 0;
}

shmt_status shmt__saved_ints_init(shmt__saved_ints* s, shmt_ints value) {
  void* copy = NULL;
  SHMT_TRY(duplicate(value.data, value.len, sizeof *value.data, &copy));
  s->value = (shmt_ints){copy, value.len};
  return SHMT_OK;
}

void shmt__saved_ints_fini(shmt__saved_ints* s) {
  free((void*)s->value.data);
  s->value = SHMT_INTS_NONE;
}

shmt_status shmt__saved_floats_init(shmt__saved_floats* s, shmt_floats value) {
  void* copy = NULL;
  SHMT_TRY(duplicate(value.data, value.len, sizeof *value.data, &copy));
  s->value = (shmt_floats){copy, value.len};
  return SHMT_OK;
}

void shmt__saved_floats_fini(shmt__saved_floats* s) {
  free((void*)s->value.data);
  s->value = (shmt_floats){NULL, -1};
}

shmt_status shmt__saved_text_init(char** s, const char* text) {
  void* copy = NULL;
  if (text) SHMT_TRY(duplicate(text, (int64_t)strlen(text) + 1, 1, &copy));
  *s = copy;
  return SHMT_OK;
}

void shmt__saved_text_fini(char** s) {
  free(*s);
  *s = NULL;
}

shmt_status shmt__saved_list_init(shmt__saved_list* s, shmt_tensors list) {
  *s = (shmt__saved_list){NULL, 0};
  if (list.len == 0) return SHMT_OK;
  s->items = calloc((size_t)list.len, sizeof *s->items);
  SHMT_REQUIRE(s->items, SHMT_E_NOMEM, "%" PRId64 " saved tensors", list.len);
  s->len = list.len;
  for (int64_t i = 0; i < list.len; i++) SHMT_TRY(shmt__saved_init(&s->items[i], list.data[i], false));
  return SHMT_OK;
}

shmt_status shmt__saved_list_unpack(const shmt__saved_list* s, shmt_node* owner, shmt_tensor_vec* out) {
  SHMT_AUTO_LIST list = {0, 0};
  if (s->len == 0) {
    *out = list;
    return SHMT_OK;
  }
  SHMT_TRY(shmt__tensor_vec_alloc(s->len, &list));
  for (int64_t i = 0; i < s->len; i++) SHMT_TRY(shmt__saved_unpack(&s->items[i], owner, &list.data[i]));
  *out = list;
  list = (shmt_tensor_vec){0, 0};
  return SHMT_OK;
}

void shmt__saved_list_release(shmt__saved_list* s) {
  for (int64_t i = 0; i < s->len; i++) shmt__saved_fini(&s->items[i]);
}

void shmt__saved_list_fini(shmt__saved_list* s) {
  shmt__saved_list_release(s);
  free(s->items);
  *s = (shmt__saved_list){NULL, 0};
}

shmt_status shmt__materialize_grads(shmt_node* node, shmt_tensor* const* grads, uint32_t n, shmt_tensor_vec* out) {
  SHMT_AUTO_LIST list = {0, 0};
  SHMT_TRY(shmt__tensor_vec_alloc(n, &list));
  for (uint32_t i = 0; i < n; i++) SHMT_TRY(shmt__materialize_grad(node, i, grads[i], &list.data[i]));
  *out = list;
  list = (shmt_tensor_vec){0, 0};
  return SHMT_OK;
}

shmt_status shmt__return_list(const char* name, shmt_tensors list, shmt_tensor** out, int64_t n) {
  SHMT_REQUIRE(list.len == n, SHMT_E_RUNTIME, "%s: the derivative gave %" PRId64 " gradients for %" PRId64 " tensors",
               name, list.len, n);
  for (int64_t i = 0; i < n; i++) out[i] = list.data[i] ? shmt__tensor_ref(list.data[i]) : NULL;
  return SHMT_OK;
}

bool shmt__list_wants_grad(shmt_tensors list) {
  for (int64_t i = 0; i < list.len; i++)
    if (shmt__wants_grad(list.data[i])) return true;
  return false;
}

typedef struct not_implemented_node {
  shmt_node base;
  const char* op; /* static text of the schema */
} not_implemented_node;

static shmt_status not_implemented_apply(shmt_node* base, shmt_tensor* const* grads, shmt_tensor** out) {
  (void)grads;
  (void)out;
  SHMT_FAIL(SHMT_E_RUNTIME, "derivative for %s is not implemented", ((not_implemented_node*)base)->op);
}

static void not_implemented_release(shmt_node* base) { (void)base; }

static const shmt__node_class not_implemented_class = {
  .name = "NotImplemented",
  .size = sizeof(not_implemented_node),
  .apply = not_implemented_apply,
  .release_saved = not_implemented_release,
};

shmt_status shmt__not_implemented_alone(const char* op, uint32_t n_edges, uint32_t n_outputs, shmt_node** out) {
  *out = shmt__node_create(&not_implemented_class, n_edges, n_outputs);
  if (!*out) return SHMT_E_NOMEM; /* recorded */
  ((not_implemented_node*)*out)->op = op;
  return SHMT_OK;
}

shmt_status shmt__not_implemented_create(const char* op, shmt_tensors inputs, uint32_t n_outputs, shmt_node** out) {
  SHMT_AUTO(shmt_node) node = NULL;
  SHMT_TRY(shmt__not_implemented_alone(op, (uint32_t)inputs.len, n_outputs, &node));
  for (int64_t i = 0; i < inputs.len; i++) SHMT_TRY(shmt__node_connect(node, (uint32_t)i, inputs.data[i]));
  *out = SHMT_TAKE(node);
  return SHMT_OK;
}

shmt_status shmt__zeros_apply(shmt_node* node, shmt_tensor* const* grads, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) zeros = NULL;
  out[0] = NULL;
  if (!grads[0] || !shmt__node_needs(node, 0)) return SHMT_OK;
  SHMT_TRY(shmt__tensor_empty_like(grads[0], grads[0]->dtype, &zeros));
  SHMT_TRY(shmt__tensor_fill(zeros, shmt__scalar_int(0)));
  out[0] = SHMT_TAKE(zeros);
  return SHMT_OK;
}

void shmt__zeros_release(shmt_node* node) { (void)node; }

shmt_status shmt__fail_constant(const char* op, const char* argument) {
  return shmt__fail(SHMT_E_RUNTIME,
                    "The function '%s' is not differentiable with respect to argument '%s'. This input cannot have "
                    "requires_grad True.",
                    op, argument);
}

shmt_status shmt__fail_out_requires_grad(const char* op) {
  return shmt__fail(SHMT_E_RUNTIME,
                    "%s(): functions with out=... arguments don't support automatic differentiation, but one of the "
                    "arguments requires grad.",
                    op);
}
