/* ops/random/bernoulli.c -- bernoulli_, bernoulli. */
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "iter/blocks.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/outputs.h"
#include "ops/random/random.h"

#include <math.h>

/* Sets elements to value with probability p, else to 0. */
shmt_status shmt__fill_bernoulli(shmt_tensor* t, double p, double value, shmt_generator* generator) {
  const shmt__bernoulli_args shape = {(uint64_t)ceil(ldexp(p, 53)), value};

  if (t->numel == 0) return SHMT_OK;
  SHMT_REFUSE_DTYPE(shmt__is_complex(t->dtype), t->dtype, "bernoulli_scalar_cpu_");
  return shmt__fill_words("bernoulli_", t, SHMT_LOOP_bernoulli, &shape, 2, generator);
}

shmt_status shmt__bernoulli_float(shmt_tensor* self, double p, shmt_generator* generator) {
  SHMT_REQUIRE(p >= 0 && p <= 1, SHMT_E_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
  return shmt__fill_bernoulli(self, p, 1, generator);
}

/* Draws a number for every element of p, which is floating, into out of the same shape, in row-major order. Returns
 * false when a probability is not in [0, 1]. */
static bool draw_each(shmt_tensor* p, shmt_tensor* out, shmt_generator* generator) {
  const shmt__loop loop = shmt__loops[SHMT_LOOP_bernoulli_each][p->dtype];
  const int64_t words_each = p->dtype == SHMT_FLOAT64 ? 2 : 1;
  uint32_t words[SHMT_WORDS_AT_ONCE];
  double given[SHMT_WORDS_AT_ONCE], made[SHMT_WORDS_AT_ONCE]; /* room for any dtype */
  shmt__blocks from, to;
  bool good = true;

  shmt__blocks_init(&from, p, p->dtype);
  shmt__blocks_init(&to, out, p->dtype);
  generator = shmt__generator_lock(generator);
  for (int64_t i = 0, count; i < p->numel && good; i += count) {
    count = p->numel - i < SHMT_WORDS_AT_ONCE / words_each ? p->numel - i : SHMT_WORDS_AT_ONCE / words_each;
    char* const place = shmt__blocks_target(&to, i, made);
    shmt__generator_words(generator, words, count * words_each);
    loop((char*[]){place, (char*)words, (char*)(uintptr_t)shmt__blocks_read(&from, i, count, given)}, NULL, count,
         &good);
    shmt__blocks_write(&to, i, count, place);
  }
  shmt__generator_unlock(generator);
  return good;
}

/* The dimensions of t from the one that moves farthest in memory to the one that moves least, after those of size 1. */
static void dims_in_memory(const shmt_tensor* t, int64_t* order) {
  int64_t first = 0, n;

  for (int64_t d = 0; d < t->n_dims; d++)
    if (t->sizes[d] == 1) order[first++] = d;
  n = first;
  for (int64_t d = 0; d < t->n_dims; d++) {
    int64_t at = n;
    if (t->sizes[d] == 1) continue;
    for (; at > first && t->strides[order[at - 1]] < t->strides[d]; at--) order[at] = order[at - 1];
    order[at] = d;
    n++;
  }
}

shmt_status shmt__bernoulli_tensor(shmt_tensor* self, shmt_tensor* p, shmt_generator* generator) {
  SHMT_AUTO(shmt_tensor) spread = NULL;
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) from = NULL;
  SHMT_AUTO(shmt_tensor) to = NULL;
  int64_t order[SHMT_MAX_DIMS];

  if (self->numel == 0) return SHMT_OK;
  SHMT_REFUSE_DTYPE(shmt__is_complex(self->dtype), self->dtype, "bernoulli_tensor_cpu_self_");
  SHMT_REFUSE_DTYPE(!shmt__is_floating(p->dtype), p->dtype, "bernoulli_tensor_cpu_p_");
  if (shmt__tensor_is_meta(self)) return SHMT_OK;
  SHMT_TRY(shmt__check_has_data(p, self));
  SHMT_TRY(shmt_op_expand(p, shmt__tensor_sizes(self), false, &spread));
  /* Writes directly unless that would overwrite probabilities still to be read. Elements of out that overlap take one
   * copy. */
  if (self->storage != p->storage && !shmt__may_overlap_itself(self))
    work = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), p->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &work));
  dims_in_memory(self, order); /* as other fills draw */
  SHMT_TRY(shmt_op_permute(spread, (shmt_ints){order, self->n_dims}, &from));
  SHMT_TRY(shmt_op_permute(work, (shmt_ints){order, self->n_dims}, &to));
  SHMT_REQUIRE(draw_each(from, to, generator), SHMT_E_RUNTIME,
               "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
  return work == self ? SHMT_OK : shmt__tensor_copy(self, work);
}

shmt_status shmt__bernoulli(shmt_tensor* self, shmt_generator* generator, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  if (*out) { /* of any dtype that holds 0 and 1 */
    SHMT_TRY(shmt__prepare_out("bernoulli", out, shmt__tensor_sizes(self), (*out)->dtype, self->device));
    return shmt__bernoulli_tensor(*out, self, generator);
  }
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(shmt__bernoulli_tensor(result, self, generator));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__bernoulli_p(shmt_tensor* self, double p, shmt_generator* generator, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(shmt__bernoulli_float(result, p, generator));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
