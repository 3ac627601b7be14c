/* ops/optim/step.c -- lists of tensors walked together. */
#include "ops/optim/step.h"

#include "base/scalar.h"
#include "generated/loops.h"
#include "ipc/session/session.h"
#include "iter/threads.h"

#include <math.h>

enum {
  GRAIN_ELEMENTS = 8192, /* elements below which another thread does not pay: each has a root and a quotient */
  COST = 4,              /* of an element, where that of a sum is 1 */
  STRETCH = 2048,        /* elements that are walked forwards, where tensors are walked backwards */
  LINE = 64,             /* elements whose size is that of whole cache lines */
};

/* --- what suits ------------------------------------------------------------------------ */

static bool is_alike(const shmt_tensor* param, const shmt_tensor* other) {
  return other != NULL && other->dtype == param->dtype && other->device == param->device &&
         shmt__same_sizes(other, param) && !shmt__tensor_is_conj_neg(other);
}

static bool tensor_suits(const shmt__step* s, int64_t i) {
  const shmt_tensor* const param = s->lists[0].data[i];

  if (param == NULL || shmt__dtype_kind[param->dtype] != SHMT_KIND_FLOATING || param->device != SHMT_CPU) return false;
  for (int k = 0; k < s->n_lists; k++)
    if (!is_alike(param, s->lists[k].data[i])) return false;
  return true;
}

bool shmt__have_one_element(shmt_tensors list) {
  for (int64_t i = 0; i < list.len; i++)
    if (list.data[i] == NULL || list.data[i]->numel != 1 || list.data[i]->device != SHMT_CPU) return false;
  return true;
}

double shmt__element_of(const shmt_tensor* t) {
  return shmt__scalar_to_double(shmt__scalar_load(shmt__tensor_data(t), t->dtype));
}

void shmt__set_element(const shmt_tensor* t, double number) {
  shmt__scalar_store_unsafe(shmt__scalar_float(number), t->dtype, shmt__tensor_data(t));
}

bool shmt__step_suits(const shmt__step* s) {
  for (int k = 1; k < s->n_lists; k++)
    if (s->lists[k].len != s->lists[0].len) return false;
  if (s->counters.len != 0 && s->counters.len != s->lists[0].len) return false;
  for (int64_t i = 0; i < s->lists[0].len; i++)
    if (!tensor_suits(s, i)) return false;
  return shmt__have_one_element(s->counters);
}

shmt_status shmt__step_check(const shmt__step* s) {
  for (int k = 1; k < s->n_lists; k++)
    SHMT_REQUIRE(s->lists[k].len == s->lists[0].len, SHMT_E_RUNTIME,
                 "%s(): tensor lists must have the same number of tensors, got %lld and %lld", s->name,
                 (long long)s->lists[0].len, (long long)s->lists[k].len);
  SHMT_REQUIRE(s->counters.len == 0 || s->counters.len == s->lists[0].len, SHMT_E_RUNTIME,
               "%s(): tensor lists must have the same number of tensors, got %lld and %lld", s->name,
               (long long)s->lists[0].len, (long long)s->counters.len);
  for (int64_t i = 0; i < s->lists[0].len; i++)
    SHMT_REQUIRE(tensor_suits(s, i), SHMT_E_RUNTIME,
                 "%s(): params, grads and state at index %lld must have the same floating point dtype, size and device",
                 s->name, (long long)i);
  SHMT_REQUIRE(shmt__have_one_element(s->counters), SHMT_E_RUNTIME, "%s(): state_steps must be tensors of one element",
               s->name);
  return SHMT_OK;
}

/* --- one tensor -------------------------------------------------------------------------- */

/* Do all parts of tensor i lie in the same order, without gaps? */
static bool is_flat(const shmt__step* s, int64_t i) {
  const shmt_tensor* const param = s->lists[0].data[i];

  if (!(param->flags & SHMT_TENSOR_DENSE)) return false;
  for (int k = 1; k < s->n_lists; k++)
    if (!shmt__same_strides(s->lists[k].data[i], param)) return false;
  return true;
}

static void coefficients_of(const shmt__step* s, int64_t i, shmt__step_coefficients* coefficients) {
  const double count = s->counters.len > 0 ? shmt__element_of(s->counters.data[i]) : 0;

  *coefficients = (shmt__step_coefficients){.weight_decay = s->weight_decay,
                                  .has_weight_decay = s->weight_decay != 0,
                                  .maximize = s->maximize,
                                  .keep = 1};
  s->coefficients(s, i, count, coefficients);
}

/* How stretches of dtype are brought together. */
static shmt__loop gather(const shmt__step* s, shmt_dtype dtype, const shmt__step_coefficients* coefficients, int first,
                         shmt__step_gathered* how) {
  const bool is_half = shmt__dtype_size[dtype] == 2, widen = is_half && !s->rounded;

  *how = (shmt__step_gathered){.loop = shmt__loops[s->row][widen ? SHMT_FLOAT32 : dtype],
                               .coefficients = coefficients,
                               .n_lists = s->n_lists,
                               .written = s->written,
                               .first = first,
                               .unscale = s->unscale};
  return shmt__loops[widen ? SHMT_LOOP_step_widened : SHMT_LOOP_step_gathered][dtype];
}

/* Elements begin to end of the flat tensor i. */
static void step_run_of(const shmt__step* s, int64_t i, int64_t begin, int64_t end) {
  const shmt_dtype dtype = s->lists[0].data[i]->dtype;
  const int64_t item = shmt__dtype_size[dtype];
  int64_t strides[SHMT_STEP_MAX_LISTS];
  char* data[SHMT_STEP_MAX_LISTS];
  shmt__step_coefficients coefficients;

  coefficients_of(s, i, &coefficients);
  for (int k = 0; k < s->n_lists; k++) {
    data[k] = (char*)shmt__tensor_data(s->lists[k].data[i]) + begin * item;
    strides[k] = item;
  }
  if (item == 2 && !s->rounded) {
    shmt__step_gathered how;
    const shmt__loop loop = gather(s, dtype, &coefficients, 0, &how);
    loop(data, strides, end - begin, &how);
    return;
  }
  if (s->unscale != 1) shmt__loops[SHMT_LOOP_step_unscale][dtype](data + 1, strides + 1, end - begin, &s->unscale);
  shmt__loops[s->row][dtype](data, strides, end - begin, &coefficients);
}

/* A tensor that is not flat. The parameter is the output and, since it is read, also the first input. */
static shmt_status step_strided(const shmt__step* s, int64_t i) {
  shmt_tensor* param = s->lists[0].data[i];
  shmt__step_coefficients coefficients;
  shmt__step_gathered how;
  shmt_iter it;

  coefficients_of(s, i, &coefficients);
  shmt__iter_init(&it, s->name);
  it.promote = SHMT_PROMOTE_SAME;
  shmt__iter_output(&it, &param, SHMT_DTYPE_NONE);
  for (int k = 0; k < s->n_lists; k++) shmt__iter_input(&it, s->lists[k].data[i]);
  SHMT_TRY(shmt__iter_build(&it));
  const shmt__loop loop = gather(s, param->dtype, &coefficients, 1, &how);
  return shmt__iter_finish(&it, shmt__iter_run_costly(&it, loop, &how, COST));
}

/* --- all of them ------------------------------------------------------------------------- */

/* How a process walks its part of the elements; see Note [Steps and other processes]. */
typedef struct step_walk {
  const shmt__step* step;
  int64_t n_elements; /* of the flat tensors, counted through */
  double first;       /* the share of a part that comes last, as another process begins with it */
  bool backwards;
} step_walk;

/* The elements of tensor i from `from` to `to`, the last ones first. */
static void step_backwards(const shmt__step* s, int64_t i, int64_t from, int64_t to) {
  while (to > from) {
    const int64_t begin = to - from > STRETCH ? to - STRETCH : from;
    step_run_of(s, i, begin, to);
    to = begin;
  }
}

/* Elements begin to end. */
static void step_range(const step_walk* w, int64_t begin, int64_t end) {
  const shmt__step* const s = w->step;
  const int64_t n_tensors = s->lists[0].len;
  int64_t at = w->backwards ? w->n_elements : 0;

  if (begin == end) return;
  for (int64_t j = 0; j < n_tensors && (w->backwards ? at > begin : at < end); j++) {
    const int64_t i = w->backwards ? n_tensors - 1 - j : j;
    if (!is_flat(s, i)) continue;
    const int64_t n = s->lists[0].data[i]->numel;
    if (w->backwards) at -= n;
    const int64_t from = begin > at ? begin - at : 0, to = end - at < n ? end - at : n;
    if (from < to) (w->backwards ? step_backwards : step_run_of)(s, i, from, to);
    if (!w->backwards) at += n;
  }
}

static void step_piece(void* ctx, int64_t begin, int64_t end) {
  const step_walk* const w = ctx;
  const int64_t middle = begin + (int64_t)((double)(end - begin) * w->first) / LINE * LINE;

  step_range(w, w->backwards ? begin : middle, w->backwards ? middle : end);
  step_range(w, w->backwards ? middle : begin, w->backwards ? end : middle);
}

/* Is a parameter shared, and which way does this process go? */
static step_walk walk_of(const shmt__step* s, int64_t n_elements) {
  const shmt_storage* const storage = s->lists[0].data[0]->storage;
  const bool is_shared = storage != NULL && shmt__storage_has(storage, SHMT_STORAGE_SHARED);
  const uint32_t number = is_shared ? shmt__sessions_own_number() : 0;
  /* Multiples of the golden ratio, without their whole parts, are never close to each other. */
  const double place = (double)(number / 2) * 0.6180339887498949;

  return (step_walk){.step = s, .n_elements = n_elements, .first = place - floor(place), .backwards = number % 2 == 1};
}

shmt_status shmt__step_run(shmt__step* s) {
  int64_t n_elements = 0, n_strided = 0;

  for (int64_t i = 0; i < s->lists[0].len; i++) {
    SHMT_REQUIRE(s->unscale == 1 || !shmt__may_overlap_itself(s->lists[1].data[i]), SHMT_E_RUNTIME,
                 "%s(): the gradient at index %lld has several elements in one place, and cannot be unscaled",
                 s->name, (long long)i);
    if (is_flat(s, i))
      n_elements += s->lists[0].data[i]->numel;
    else
      n_strided++;
  }
  if (n_elements > 0) {
    step_walk walk = walk_of(s, n_elements);
    shmt__parallel_for(n_elements, GRAIN_ELEMENTS, step_piece, &walk);
  }
  for (int64_t i = 0; n_strided > 0 && i < s->lists[0].len; i++)
    if (!is_flat(s, i)) SHMT_TRY(step_strided(s, i));
  return SHMT_OK;
}

shmt_status shmt__step_counted(shmt__step* s, bool* done) {
  *done = shmt__step_suits(s);
  for (int64_t i = 0; *done && i < s->counters.len; i++)
    shmt__set_element(s->counters.data[i], shmt__element_of(s->counters.data[i]) + 1);
  return *done ? shmt__step_run(s) : SHMT_OK;
}
