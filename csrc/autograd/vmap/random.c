/* autograd/vmap/random.c -- random operators under vmap: an error, the same numbers for all examples, or others for
 * each. */
#include "autograd/vmap/random.h"

#include "autograd/vmap/loop.h"
#include "autograd/vmap/parts.h"
#include "autograd/vmap/rules.h"
#include "generated/ops.h"

#include <string.h>

static bool writes(const shmt_operator* op) {
  return op->schema->n_args > 0 && (op->schema->args[0].flags & SHMT_ARG_WRITE);
}

static bool any_batched(const shmt__batch_call* c) {
  for (int i = 0; i < c->op->schema->n_args; i++)
    if (shmt__batch_has(c, i)) return true;
  return false;
}

/* Do the numbers depend on nothing of the first argument but its shape? */
static bool depends_on_shape(const shmt_operator* op) {
  static const char* const names[] = {"rand_like", "randn_like", "randint_like", "_dropout_noise", "_rrelu_noise",
                                      "bernoulli.p", "empty_like"};
  char name[128];
  shmt__operator_name(op, name, sizeof name);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const size_t n = strlen(names[i]);
    if (strcmp(name, names[i]) == 0) return true;
    if (strncmp(name, names[i], n) == 0 && name[n] == '.') return true;
  }
  return false;
}

static SHMT_COLD shmt_status fail_same(void) {
  SHMT_FAIL(SHMT_E_RUNTIME,
            "Vmap does not currently support same randomness with a batched tensor input");
}

/* Draw for one example, and let all have its numbers. */
static shmt_status draw_once(shmt__batch_call* c) {
  shmt_tensor* one = NULL;
  SHMT_TRY(shmt_op_select_int(shmt__batch_tensor(c, 0), c->dims[0], 0, &one));
  shmt__batch_set(c, 0, one, SHMT_NOT_BATCHED);
  c->result_dim = SHMT_NOT_BATCHED;
  return shmt__batch_call_self(c);
}

static shmt_status fill_same(shmt__batch_call* c) {
  SHMT_AUTO(shmt_tensor) target = shmt__tensor_ref(shmt__batch_tensor(c, 0));
  SHMT_AUTO(shmt_tensor) one = NULL;
  shmt_tensor* fresh = NULL;
  for (int i = 1; i < c->op->schema->n_args; i++)
    if (shmt__batch_has(c, i)) return fail_same();
  SHMT_TRY(shmt__move_dim(&target, c->dims[0], 0));
  SHMT_TRY(shmt_op_select_int(target, 0, 0, &one));
  SHMT_TRY(shmt__tensor_empty_like(one, one->dtype, &fresh));
  shmt__batch_set(c, 0, fresh, SHMT_NOT_BATCHED);
  SHMT_TRY(shmt__batch_call_self(c));
  return shmt_op_copy_(target, fresh, false);
}

/* One mask of zeros and scaled ones for all examples. */
static shmt_status dropout_same(shmt__batch_call* c) {
  SHMT_AUTO(shmt_tensor) input = shmt__tensor_ref(shmt__batch_tensor(c, 0));
  SHMT_AUTO(shmt_tensor) one = NULL;
  shmt_tensor *ones = NULL, *output = NULL;
  SHMT_TRY(shmt__move_dim(&input, c->dims[0], 0));
  SHMT_TRY(shmt_op_select_int(input, 0, 0, &one));
  SHMT_TRY(shmt_op_ones_like(one, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                             SHMT_MEMORY_FORMAT_NONE, &ones));
  shmt__batch_set(c, 0, ones, SHMT_NOT_BATCHED);
  SHMT_TRY(shmt__batch_call_self(c));
  SHMT_TRY(shmt_op_mul_Tensor(input, *shmt__batch_result(c, 0), &output));
  shmt__batch_give(c, 0, output);
  shmt_tensor** mask = shmt__batch_result(c, 1);
  int64_t sizes[SHMT_MAX_DIMS];
  shmt_tensor* expanded = NULL;
  if (!mask) return SHMT_OK;
  memcpy(sizes, input->sizes, input->n_dims * sizeof *sizes);
  SHMT_TRY(shmt_op_expand(*mask, (shmt_ints){sizes, input->n_dims}, false, &expanded));
  shmt__batch_give(c, 1, expanded);
  return SHMT_OK;
}

static shmt_status draw_same(shmt__batch_call* c) {
  if (!any_batched(c)) {
    c->result_dim = SHMT_NOT_BATCHED;
    return shmt__batch_call_self(c);
  }
  if (writes(c->op)) return fill_same(c);
  if (strcmp(c->op->schema->name, "native_dropout") == 0) return dropout_same(c);
  return depends_on_shape(c->op) ? draw_once(c) : fail_same();
}

/* Factories: the batch becomes the first size. */
static shmt_status draw_sizes(shmt__batch_call* c, int size) {
  int64_t sizes[SHMT_MAX_DIMS + 1] = {c->batch_size};
  shmt_value before = c->values[size];
  const shmt_ints list = before.v.ints;
  SHMT_REQUIRE(list.len < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "vmap: tensor has too many (>%d) dims", SHMT_MAX_DIMS);
  shmt__copy_ints(sizes + 1, list);
  c->values[size].v.ints = (shmt_ints){sizes, list.len + 1};
  shmt_status status = shmt__batch_call_self(c);
  c->values[size] = before;
  return status;
}

static shmt_status draw_different(shmt__batch_call* c) {
  const shmt_schema* s = c->op->schema;
  const int size = shmt__batch_argument(c, "size");
  if (writes(c->op)) {
    SHMT_REQUIRE(shmt__batch_has(c, 0), SHMT_E_RUNTIME,
                 "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                 "randomness.");
    return s->args[1].type == SHMT_TYPE_TENSOR ? shmt__batch_pointwise(c) : shmt__batch_front(c);
  }
  if (size >= 0 && c->values[size].tag == SHMT_VALUE_INTS) return draw_sizes(c, size);
  int n_tensors = 0;
  for (int i = 0; i < s->n_args; i++) {
    if (!shmt__batch_tensor(c, i)) continue;
    n_tensors++;
    SHMT_TRY(shmt__batch_to_front_expanded(c, i));
  }
  const bool takes_rows = strcmp(s->name, "multinomial") == 0 && shmt__batch_rank(c, 0) > 1;
  return n_tensors == 0 || takes_rows ? shmt__batch_each(c) : shmt__batch_pointwise(c);
}

shmt_status shmt__batch_random(shmt__batch_call* c) {
  SHMT_REQUIRE(c->randomness != SHMT_RANDOM_ERROR, SHMT_E_RUNTIME,
               "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
               "'different' randomness flags on vmap or perform the randomness operation out of vmap");
  return c->randomness == SHMT_RANDOM_SAME ? draw_same(c) : draw_different(c);
}
