/* ops/loss/ctc.c -- connectionist temporal classification: the loss of sequences without alignment.
 *
 * A target of length n becomes 2 n + 1 states: blanks with the labels between them. alpha[t][s] is the logarithm of
 * the probability of all paths over times 0 to t that end in state s, beta[t][s] of those over times t to the end
 * that begin there. Everything is calculated in float64, in logarithms.
 *
 * Source: Graves et al., "Connectionist temporal classification", 2006.
 */
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "ops/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct batch {
  const double* log_probs; /* (times, n, classes) */
  const int64_t* targets;
  double* alpha; /* (n, times, states) */
  int64_t times, n, classes, states, blank;
  const int64_t *input_lengths, *target_lengths;
  int64_t* offsets; /* (n): the index in targets where the labels of a sequence begin */
  double* losses;   /* (n) */
  double* grad;     /* backward: as log_probs */
  const double* grad_losses;
  bool zero_infinity, failed;
} batch;

static double add_logs(double a, double b) {
  const double high = a > b ? a : b;

  return high == -INFINITY ? high : high + log1p(exp((a > b ? b : a) - high));
}

static double log_prob(const batch* b, int64_t t, int64_t i, int64_t label) {
  return b->log_probs[(t * b->n + i) * b->classes + label];
}

static int64_t label_of(const batch* b, int64_t i, int64_t state) {
  return state % 2 ? b->targets[b->offsets[i] + state / 2] : b->blank;
}

/* May a path skip from state s - 2 to s? Not to a blank, nor past the blank between equal labels. */
static bool may_skip(const batch* b, int64_t i, int64_t s) {
  return s % 2 == 1 && s > 1 && label_of(b, i, s) != label_of(b, i, s - 2);
}

static void find_alpha(const batch* b, int64_t i) {
  const int64_t length = b->input_lengths[i], states = 2 * b->target_lengths[i] + 1;
  double* alpha = b->alpha + i * b->times * b->states;

  for (int64_t k = 0; k < b->times * b->states; k++) alpha[k] = -INFINITY;
  if (length == 0) {
    b->losses[i] = states == 1 ? 0 : INFINITY;
    return;
  }
  alpha[0] = log_prob(b, 0, i, b->blank);
  if (states > 1) alpha[1] = log_prob(b, 0, i, label_of(b, i, 1));
  for (int64_t t = 1; t < length; t++) {
    const double* before = alpha + (t - 1) * b->states;
    double* now = alpha + t * b->states;
    for (int64_t s = 0; s < states; s++) {
      double sum = before[s];
      if (s > 0) sum = add_logs(sum, before[s - 1]);
      if (may_skip(b, i, s)) sum = add_logs(sum, before[s - 2]);
      now[s] = sum + log_prob(b, t, i, label_of(b, i, s));
    }
  }
  const double* last = alpha + (length - 1) * b->states;
  b->losses[i] = -(states > 1 ? add_logs(last[states - 1], last[states - 2]) : last[0]);
}

static void run_forward(void* ctx, int64_t begin, int64_t end) {
  const batch* b = ctx;

  for (int64_t i = begin; i < end; i++) {
    find_alpha(b, i);
    if (b->zero_infinity && b->losses[i] == INFINITY) b->losses[i] = 0;
  }
}

/* beta of time t into `now`, from that of time t + 1 in `after` (NULL at the end). */
static void step_back(const batch* b, int64_t i, int64_t t, int64_t states, const double* after, double* now) {
  for (int64_t s = states - 1; s >= 0; s--) {
    double sum;
    if (!after) {
      sum = s >= states - 2 ? 0 : -INFINITY;
    } else {
      sum = after[s];
      if (s + 1 < states) sum = add_logs(sum, after[s + 1]);
      if (s + 2 < states && may_skip(b, i, s + 2)) sum = add_logs(sum, after[s + 2]);
    }
    now[s] = sum + log_prob(b, t, i, label_of(b, i, s));
  }
}

/* The gradient of one sequence. room: scratch memory, 2 * states for beta and `classes` for sums. */
static void find_grad(const batch* b, int64_t i, double* room) {
  const int64_t length = b->input_lengths[i], states = 2 * b->target_lengths[i] + 1;
  double *now = room, *after = room + b->states, *sums = room + 2 * b->states;
  const double factor = b->grad_losses[i];

  if (length == 0) return;
  /* The stored loss may have been set to 0 (zero_infinity), so it is computed again. */
  const double* last = b->alpha + (i * b->times + length - 1) * b->states;
  const double loss = -(states > 1 ? add_logs(last[states - 1], last[states - 2]) : last[0]);

  if (loss == INFINITY && b->losses[i] == 0) return;
  for (int64_t t = length - 1; t >= 0; t--) {
    const double* alpha = b->alpha + (i * b->times + t) * b->states;
    double* grad = b->grad + (t * b->n + i) * b->classes;
    step_back(b, i, t, states, t == length - 1 ? NULL : after, now);
    for (int64_t c = 0; c < b->classes; c++) sums[c] = -INFINITY;
    for (int64_t s = 0; s < states; s++) {
      double* sum = &sums[label_of(b, i, s)];
      *sum = add_logs(*sum, alpha[s] + now[s]);
    }
    for (int64_t c = 0; c < b->classes; c++) {
      const double p = log_prob(b, t, i, c);
      grad[c] = (exp(p) - exp(sums[c] + loss - p)) * factor;
    }
    double* const swap = now;
    now = after;
    after = swap;
  }
}

static void run_backward(void* ctx, int64_t begin, int64_t end) {
  batch* b = ctx;
  double* room = malloc((size_t)(2 * b->states + b->classes) * sizeof *room);

  if (!room) {
    __atomic_store_n(&b->failed, true, __ATOMIC_RELAXED);
    return;
  }
  for (int64_t i = begin; i < end; i++) find_grad(b, i, room);
  free(room);
}

static void batch_fini(batch* b) {
  free(b->offsets);
}

/* Checks the lengths, and finds the index where the labels of every sequence begin. */
static shmt_status find_offsets(const shmt_tensor* targets, batch* b) {
  int64_t longest = 0, total = 0;

  b->offsets = calloc((size_t)b->n + 1, sizeof *b->offsets);
  SHMT_REQUIRE(b->offsets, SHMT_E_NOMEM, "ctc_loss(): %" PRId64 " sequences", b->n);
  for (int64_t i = 0; i < b->n; i++) {
    SHMT_REQUIRE(b->input_lengths[i] >= 0 && b->input_lengths[i] <= b->times, SHMT_E_RUNTIME,
                 "Expected input_lengths to have value at most %" PRId64 ", but got value %" PRId64, b->times,
                 b->input_lengths[i]);
    SHMT_REQUIRE(b->target_lengths[i] >= 0 && b->target_lengths[i] <= targets->numel, SHMT_E_RUNTIME,
                 "Expected target_lengths to have values from 0 to %" PRId64 ", but got value %" PRId64,
                 targets->numel, b->target_lengths[i]);
    b->offsets[i] = targets->n_dims == 1 ? total : i * targets->sizes[1];
    total += b->target_lengths[i];
    if (b->target_lengths[i] > longest) longest = b->target_lengths[i];
  }
  b->states = 2 * longest + 1;
  if (targets->n_dims == 1) {
    SHMT_REQUIRE(total == targets->numel, SHMT_E_RUNTIME,
                 "Expected tensor to have size %" PRId64 " at dimension 0, but got size %" PRId64
                 " for argument #2 'targets' (while checking arguments for ctc_loss)", total, targets->numel);
    return SHMT_OK;
  }
  SHMT_REQUIRE(targets->n_dims == 2 && targets->sizes[0] == b->n && targets->sizes[1] >= longest, SHMT_E_RUNTIME,
               "Expected tensor to have size at least %" PRId64 " at dimension 1 and %" PRId64
               " at dimension 0, but got targets of size %s (while checking arguments for ctc_loss)", longest, b->n,
               SHMT_SHAPE_TEXT(targets));
  return SHMT_OK;
}

/* On the Meta device there are only shapes; lengths and labels cannot be read. */
static bool is_meta(const shmt_tensor* log_probs, const shmt_tensor* targets) {
  return shmt__tensor_is_meta(log_probs) || shmt__tensor_is_meta(targets);
}

/* Checks the arguments, and makes contiguous copies in the compute dtypes. For Meta tensors only the shapes are
 * checked. */
static shmt_status prepare_ctc(shmt_tensor* log_probs, shmt_tensor* targets, shmt_ints input_lengths,
                               shmt_ints target_lengths, int64_t blank, shmt_tensor** wide, shmt_tensor** labels,
                               batch* b) {
  SHMT_AUTO(shmt_tensor) whole = NULL;

  SHMT_REQUIRE(log_probs->n_dims == 3 && log_probs->numel > 0, SHMT_E_RUNTIME,
               "log_probs tensor must not be empty and has three dimensions, got %s", SHMT_SHAPE_TEXT(log_probs));
  SHMT_REFUSE_DTYPE(log_probs->dtype != SHMT_FLOAT32 && log_probs->dtype != SHMT_FLOAT64, log_probs->dtype,
                    "ctc_loss_cpu");
  SHMT_REQUIRE(targets->dtype == SHMT_INT64 || targets->dtype == SHMT_INT32, SHMT_E_RUNTIME,
               "ctc_loss(): targets must be int32 or int64, got '%s'", shmt__dtype_title(targets->dtype));
  b->times = log_probs->sizes[0];
  b->n = log_probs->sizes[1];
  b->classes = log_probs->sizes[2];
  b->blank = blank;
  b->input_lengths = input_lengths.data;
  b->target_lengths = target_lengths.data;
  SHMT_REQUIRE(blank >= 0 && blank < b->classes, SHMT_E_RUNTIME, "blank must be in label range");
  SHMT_REQUIRE(input_lengths.len == b->n, SHMT_E_RUNTIME, "input_lengths must be of size batch_size");
  SHMT_REQUIRE(target_lengths.len == b->n, SHMT_E_RUNTIME, "target_lengths must be of size batch_size");
  SHMT_TRY(find_offsets(targets, b));
  if (is_meta(log_probs, targets)) return SHMT_OK;
  SHMT_TRY(shmt__tensor_cast(log_probs, SHMT_FLOAT64, &whole));
  SHMT_TRY(shmt__tensor_contiguous(whole, SHMT_CONTIGUOUS_FORMAT, wide));
  /* A copy, so that another process cannot change the labels between this check and their use. */
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(targets), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, labels));
  SHMT_TRY(shmt__tensor_copy(*labels, targets));
  b->log_probs = shmt__tensor_data(*wide);
  b->targets = shmt__tensor_data(*labels);
  for (int64_t i = 0; i < b->n; i++)
    for (int64_t k = 0; k < b->target_lengths[i]; k++) {
      const int64_t label = b->targets[b->offsets[i] + k];
      SHMT_REQUIRE(label >= 0 && label < b->classes, SHMT_E_RUNTIME,
                   "ctc_loss(): target %" PRId64 " is not one of %" PRId64 " classes", label, b->classes);
    }
  return SHMT_OK;
}

static shmt_status forward(shmt_tensor* log_probs, shmt_tensor* targets, shmt_ints input_lengths,
                           shmt_ints target_lengths, int64_t blank, batch* b, shmt_tensor** losses,
                           shmt_tensor** log_alpha) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) labels = NULL;
  SHMT_AUTO(shmt_tensor) sums = NULL;
  SHMT_AUTO(shmt_tensor) alpha = NULL;

  SHMT_TRY(prepare_ctc(log_probs, targets, input_lengths, target_lengths, blank, &wide, &labels, b));
  if (is_meta(log_probs, targets)) {
    SHMT_TRY(shmt__tensor_empty(SHMT_INTS(b->n), log_probs->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, losses));
    return shmt__tensor_empty(SHMT_INTS(b->n, b->times, b->states), SHMT_FLOAT64, SHMT_META, SHMT_CONTIGUOUS_FORMAT,
                              log_alpha);
  }
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(b->n), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &sums));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(b->n, b->times, b->states), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT,
                              &alpha));
  b->losses = shmt__tensor_data(sums);
  b->alpha = shmt__tensor_data(alpha);
  shmt__parallel_for(b->n, 1, run_forward, b);
  SHMT_TRY(shmt__tensor_cast(sums, log_probs->dtype, losses));
  *log_alpha = SHMT_TAKE(alpha);
  return SHMT_OK;
}

shmt_status shmt__ctc_loss(shmt_tensor* log_probs, shmt_tensor* targets, shmt_ints input_lengths,
                           shmt_ints target_lengths, int64_t blank, bool zero_infinity,
                           shmt_tensor** neg_log_likelihood, shmt_tensor** log_alpha) {
  batch b = {.zero_infinity = zero_infinity};

  const shmt_status status =
      forward(log_probs, targets, input_lengths, target_lengths, blank, &b, neg_log_likelihood, log_alpha);
  batch_fini(&b);
  return status;
}

static shmt_status backward(shmt_tensor* grad_output, shmt_tensor* log_probs, shmt_tensor* targets,
                            shmt_ints input_lengths, shmt_ints target_lengths, shmt_tensor* losses,
                            shmt_tensor* log_alpha, int64_t blank, batch* b, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) labels = NULL;
  SHMT_AUTO(shmt_tensor) grads = NULL;
  SHMT_AUTO(shmt_tensor) dense_grads = NULL;
  SHMT_AUTO(shmt_tensor) wide_losses = NULL;
  SHMT_AUTO(shmt_tensor) dense_losses = NULL;
  SHMT_AUTO(shmt_tensor) alpha = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(prepare_ctc(log_probs, targets, input_lengths, target_lengths, blank, &wide, &labels, b));
  SHMT_TRY(shmt__check_scalar_type(log_alpha, SHMT_FLOAT64));
  SHMT_REQUIRE(log_alpha->numel == b->n * b->times * b->states &&
                   losses->numel == b->n && grad_output->numel == b->n,
               SHMT_E_RUNTIME, "ctc_loss_backward(): the forward variables have shape %s", SHMT_SHAPE_TEXT(log_alpha));
  if (is_meta(log_probs, targets))
    return shmt__tensor_empty(shmt__tensor_sizes(log_probs), log_probs->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt__tensor_cast(grad_output, SHMT_FLOAT64, &grads));
  SHMT_TRY(shmt__tensor_contiguous(grads, SHMT_CONTIGUOUS_FORMAT, &dense_grads));
  SHMT_TRY(shmt__tensor_cast(losses, SHMT_FLOAT64, &wide_losses));
  SHMT_TRY(shmt__tensor_contiguous(wide_losses, SHMT_CONTIGUOUS_FORMAT, &dense_losses));
  SHMT_TRY(shmt__tensor_contiguous(log_alpha, SHMT_CONTIGUOUS_FORMAT, &alpha));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(log_probs), SHMT_FLOAT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
  b->alpha = shmt__tensor_data(alpha);
  b->losses = shmt__tensor_data(dense_losses);
  b->grad_losses = shmt__tensor_data(dense_grads);
  b->grad = shmt__tensor_data(result);
  shmt__parallel_for(b->n, 1, run_backward, b);
  SHMT_REQUIRE(!b->failed, SHMT_E_NOMEM, "ctc_loss_backward(): %" PRId64 " states", b->states);
  return shmt__tensor_cast(result, log_probs->dtype, out);
}

shmt_status shmt__ctc_loss_backward(shmt_tensor* grad_output, shmt_tensor* log_probs, shmt_tensor* targets,
                                    shmt_ints input_lengths, shmt_ints target_lengths,
                                    shmt_tensor* neg_log_likelihood, shmt_tensor* log_alpha, int64_t blank,
                                    shmt_tensor** out) {
  batch b = {0};
  const shmt_status status = backward(grad_output, log_probs, targets, input_lengths, target_lengths,
                                      neg_log_likelihood, log_alpha, blank, &b, out);

  batch_fini(&b);
  return status;
}
