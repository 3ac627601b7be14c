/* ops/optim/fused_torch.c -- SGD, Adam, AdamW and Adagrad: the steps that torch has fused operators for.
 *
 * Each comes twice. The operator of torch's name calculates float16 and bfloat16 in float and may undo a gradient
 * scaler; the other rounds them as operators called one by one do, counts the steps, and says whether the tensors suit.
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "ops/optim/step.h"

#include <math.h>

/* --- what all of them share -------------------------------------------------------------- */

/* The one number in a tensor. */
static shmt_status number_in(shmt_tensor* t, double* number) {
  shmt_scalar value;

  SHMT_TRY(shmt__tensor_item(t, &value));
  *number = shmt__scalar_to_double(value);
  return SHMT_OK;
}

/* A step of one of torch's operators, unless the scaler found that gradients overflowed. */
static shmt_status run_scaled(shmt__step* s, shmt_tensor* grad_scale, shmt_tensor* found_inf) {
  double overflowed = 0;

  SHMT_TRY(shmt__step_check(s));
  if (found_inf) SHMT_TRY(number_in(found_inf, &overflowed));
  if (overflowed == 1) return SHMT_OK;
  if (grad_scale) SHMT_TRY(number_in(grad_scale, &s->unscale));
  return shmt__step_run(s);
}

/* --- SGD --------------------------------------------------------------------------------- */

typedef struct sgd_options {
  double momentum, lr, dampening;
  bool nesterov, is_first_step;
} sgd_options;

static void sgd_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const sgd_options* const o = s->options;

  (void)i, (void)count;
  coefficients->size = -o->lr;
  coefficients->decay = o->momentum;
  coefficients->take = 1 - o->dampening;
  coefficients->nesterov = o->nesterov;
  coefficients->is_first = o->is_first_step;
}

static shmt__step sgd(const char* name, shmt_tensors params, shmt_tensors grads, shmt_tensors buffers,
                      double weight_decay, bool maximize, const sgd_options* options) {
  const bool has_momentum = options->momentum != 0;

  return (shmt__step){.name = name,
                      .row = has_momentum ? SHMT_LOOP_sgd_momentum_step : SHMT_LOOP_sgd_step,
                      .n_lists = has_momentum ? 3 : 2,
                      .written = has_momentum ? 5 : 1,
                      .weight_decay = weight_decay,
                      .maximize = maximize,
                      .unscale = 1,
                      .lists = {params, grads, buffers},
                      .coefficients = sgd_coefficients,
                      .options = options};
}

shmt_status shmt__fused_sgd(shmt_tensors self, shmt_tensors grads, shmt_tensors momentum_buffer_list,
                            double weight_decay, double momentum, double lr, double dampening, bool nesterov,
                            bool maximize, bool is_first_step, shmt_tensor* grad_scale, shmt_tensor* found_inf) {
  const sgd_options options = {momentum, lr, dampening, nesterov, is_first_step};
  shmt__step s = sgd("_fused_sgd_", self, grads, momentum_buffer_list, weight_decay, maximize, &options);

  return run_scaled(&s, grad_scale, found_inf);
}

shmt_status shmt__fused_sgd_tensor_lr(shmt_tensors self, shmt_tensors grads, shmt_tensors momentum_buffer_list,
                                      double weight_decay, double momentum, shmt_tensor* lr, double dampening,
                                      bool nesterov, bool maximize, bool is_first_step, shmt_tensor* grad_scale,
                                      shmt_tensor* found_inf) {
  double number;

  SHMT_TRY(number_in(lr, &number));
  return shmt__fused_sgd(self, grads, momentum_buffer_list, weight_decay, momentum, number, dampening, nesterov,
                         maximize, is_first_step, grad_scale, found_inf);
}

shmt_status shmt__sgd_step(shmt_tensors self, shmt_tensors grads, shmt_tensors momentum_buffer_list,
                           double weight_decay, double momentum, double lr, double dampening, bool nesterov,
                           bool maximize, bool is_first_step, bool* done) {
  const sgd_options options = {momentum, lr, dampening, nesterov, is_first_step};
  shmt__step s = sgd("sgd", self, grads, momentum_buffer_list, weight_decay, maximize, &options);

  s.rounded = true;
  return shmt__step_counted(&s, done);
}

/* --- Adam, AdamW --------------------------------------------------------------------------- */

typedef struct adam_options {
  double lr, beta1, beta2, weight_decay, eps;
  bool decoupled;
} adam_options;

static void adam_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const adam_options* const o = s->options;

  (void)i;
  coefficients->keep = o->decoupled ? 1 - o->lr * o->weight_decay : 1;
  coefficients->take = 1 - o->beta1;
  coefficients->decay2 = o->beta2;
  coefficients->take2 = 1 - o->beta2;
  coefficients->size = -(o->lr / (1 - pow(o->beta1, count)));
  coefficients->correction = sqrt(1 - pow(o->beta2, count));
  coefficients->eps = o->eps;
}

static shmt__step adam(const char* name, const shmt_tensors lists[5], shmt_tensors counters, bool amsgrad,
                       bool maximize, const adam_options* options) {
  shmt__step s = {.name = name,
                  .row = amsgrad ? SHMT_LOOP_amsgrad_step : SHMT_LOOP_adam_step,
                  .n_lists = amsgrad ? 5 : 4,
                  .written = amsgrad ? 29 : 13,
                  .weight_decay = options->decoupled ? 0 : options->weight_decay,
                  .maximize = maximize,
                  .unscale = 1,
                  .counters = counters,
                  .coefficients = adam_coefficients,
                  .options = options};

  for (int k = 0; k < s.n_lists; k++) s.lists[k] = lists[k];
  return s;
}

#define ADAM_LISTS (const shmt_tensors[]){self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs}

shmt_status shmt__fused_adam(shmt_tensors self, shmt_tensors grads, shmt_tensors exp_avgs, shmt_tensors exp_avg_sqs,
                             shmt_tensors max_exp_avg_sqs, shmt_tensors state_steps, double lr, double beta1,
                             double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                             shmt_tensor* grad_scale, shmt_tensor* found_inf) {
  const adam_options options = {lr, beta1, beta2, weight_decay, eps, false};
  shmt__step s = adam("_fused_adam_", ADAM_LISTS, state_steps, amsgrad, maximize, &options);

  return run_scaled(&s, grad_scale, found_inf);
}

shmt_status shmt__fused_adam_tensor_lr(shmt_tensors self, shmt_tensors grads, shmt_tensors exp_avgs,
                                       shmt_tensors exp_avg_sqs, shmt_tensors max_exp_avg_sqs,
                                       shmt_tensors state_steps, shmt_tensor* lr, double beta1, double beta2,
                                       double weight_decay, double eps, bool amsgrad, bool maximize,
                                       shmt_tensor* grad_scale, shmt_tensor* found_inf) {
  double number;

  SHMT_TRY(number_in(lr, &number));
  return shmt__fused_adam(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, number, beta1, beta2,
                          weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

shmt_status shmt__fused_adamw(shmt_tensors self, shmt_tensors grads, shmt_tensors exp_avgs, shmt_tensors exp_avg_sqs,
                              shmt_tensors max_exp_avg_sqs, shmt_tensors state_steps, double lr, double beta1,
                              double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                              shmt_tensor* grad_scale, shmt_tensor* found_inf) {
  const adam_options options = {lr, beta1, beta2, weight_decay, eps, true};
  shmt__step s = adam("_fused_adamw_", ADAM_LISTS, state_steps, amsgrad, maximize, &options);

  return run_scaled(&s, grad_scale, found_inf);
}

shmt_status shmt__fused_adamw_tensor_lr(shmt_tensors self, shmt_tensors grads, shmt_tensors exp_avgs,
                                        shmt_tensors exp_avg_sqs, shmt_tensors max_exp_avg_sqs,
                                        shmt_tensors state_steps, shmt_tensor* lr, double beta1, double beta2,
                                        double weight_decay, double eps, bool amsgrad, bool maximize,
                                        shmt_tensor* grad_scale, shmt_tensor* found_inf) {
  double number;

  SHMT_TRY(number_in(lr, &number));
  return shmt__fused_adamw(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, number, beta1, beta2,
                           weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

shmt_status shmt__adam_step(shmt_tensors self, shmt_tensors grads, shmt_tensors exp_avgs, shmt_tensors exp_avg_sqs,
                            shmt_tensors max_exp_avg_sqs, shmt_tensors state_steps, double lr, double beta1,
                            double beta2, double weight_decay, double eps, bool amsgrad, bool decoupled,
                            bool maximize, bool* done) {
  const adam_options options = {lr, beta1, beta2, weight_decay, eps, decoupled};
  shmt__step s = adam("adam", ADAM_LISTS, state_steps, amsgrad, maximize, &options);

  s.rounded = true;
  return shmt__step_counted(&s, done);
}

/* --- Adagrad ------------------------------------------------------------------------------- */

typedef struct adagrad_options {
  double lr, lr_decay, eps;
} adagrad_options;

static void adagrad_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const adagrad_options* const o = s->options;

  (void)i;
  coefficients->size = -(o->lr / (1 + (count - 1) * o->lr_decay));
  coefficients->eps = o->eps;
}

static shmt__step adagrad(const char* name, shmt_tensors params, shmt_tensors grads, shmt_tensors sums,
                          shmt_tensors counters, double weight_decay, bool maximize, const adagrad_options* options) {
  return (shmt__step){.name = name,
                      .row = SHMT_LOOP_adagrad_step,
                      .n_lists = 3,
                      .written = 5,
                      .weight_decay = weight_decay,
                      .maximize = maximize,
                      .unscale = 1,
                      .lists = {params, grads, sums},
                      .counters = counters,
                      .coefficients = adagrad_coefficients,
                      .options = options};
}

shmt_status shmt__fused_adagrad(shmt_tensors self, shmt_tensors grads, shmt_tensors state_sums,
                                shmt_tensors state_steps, double lr, double lr_decay, double weight_decay, double eps,
                                bool maximize, shmt_tensor* grad_scale, shmt_tensor* found_inf) {
  const adagrad_options options = {lr, lr_decay, eps};
  shmt__step s = adagrad("_fused_adagrad_", self, grads, state_sums, state_steps, weight_decay, maximize, &options);

  return run_scaled(&s, grad_scale, found_inf);
}

shmt_status shmt__fused_adagrad_tensor_lr(shmt_tensors self, shmt_tensors grads, shmt_tensors state_sums,
                                          shmt_tensors state_steps, shmt_tensor* lr, double lr_decay,
                                          double weight_decay, double eps, bool maximize, shmt_tensor* grad_scale,
                                          shmt_tensor* found_inf) {
  double number;

  SHMT_TRY(number_in(lr, &number));
  return shmt__fused_adagrad(self, grads, state_sums, state_steps, number, lr_decay, weight_decay, eps, maximize,
                             grad_scale, found_inf);
}

shmt_status shmt__adagrad_step(shmt_tensors self, shmt_tensors grads, shmt_tensors state_sums,
                               shmt_tensors state_steps, double lr, double lr_decay, double weight_decay, double eps,
                               bool maximize, bool* done) {
  const adagrad_options options = {lr, lr_decay, eps};
  shmt__step s = adagrad("adagrad", self, grads, state_sums, state_steps, weight_decay, maximize, &options);

  s.rounded = true;
  return shmt__step_counted(&s, done);
}
