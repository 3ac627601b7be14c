/* ops/optim/fused_own.c -- the steps that torch makes of several operators: NAdam, RAdam, Adamax, Adadelta, RMSprop,
 * Rprop, ASGD. */
#include "base/dtype.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "ops/optim/step.h"

#include <math.h>
#include <string.h>

/* As bits of shmt__step.written: the parameter and all lists of state of a loop of n lists. */
#define ALL_BUT_GRADIENT(n) ((1u << (n)) - 1u - 2u)

/* What a step of an optimizer is made of, whatever its options. */
typedef struct optimizer {
  const char* name; /* for messages */
  int row;          /* SHMT_LOOP_... */
  shmt__step_coefficients_of coefficients;
} optimizer;

/* The step of an optimizer on n lists, of which all but the gradients are written. */
static shmt__step step_of(const optimizer* o, const void* options, const shmt_tensors* lists, int n,
                          shmt_tensors counters) {
  shmt__step s = {.name = o->name,
                  .row = o->row,
                  .n_lists = n,
                  .written = ALL_BUT_GRADIENT(n),
                  .rounded = true,
                  .unscale = 1,
                  .counters = counters,
                  .coefficients = o->coefficients,
                  .options = options};

  memcpy(s.lists, lists, (size_t)n * sizeof *lists);
  return s;
}

/* --- NAdam ----------------------------------------------------------------------------------- */

typedef struct nadam_options {
  double lr, beta1, beta2, weight_decay, momentum_decay, eps;
  bool decoupled;
  shmt_tensors products;
} nadam_options;

static double momentum_at(const nadam_options* o, double count) {
  return o->beta1 * (1.0 - 0.5 * pow(0.96, count * o->momentum_decay));
}

static void nadam_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const nadam_options* const o = s->options;
  const double now = momentum_at(o, count), ahead = momentum_at(o, count + 1);
  const double product = shmt__element_of(o->products.data[i]); /* this step's momentum is in it */

  coefficients->keep = o->decoupled ? 1 - o->lr * o->weight_decay : 1;
  coefficients->take = 1 - o->beta1;
  coefficients->decay2 = o->beta2;
  coefficients->take2 = 1 - o->beta2;
  coefficients->correction = 1 - pow(o->beta2, count);
  coefficients->eps = o->eps;
  coefficients->size = -o->lr * (1.0 - now) / (1.0 - product);
  coefficients->second_size = -o->lr * ahead / (1.0 - product * ahead);
}

static const optimizer nadam = {"nadam", SHMT_LOOP_nadam_step, nadam_coefficients};

shmt_status shmt__nadam_step(shmt_tensors self, shmt_tensors grads, shmt_tensors exp_avgs, shmt_tensors exp_avg_sqs,
                             shmt_tensors mu_products, shmt_tensors state_steps, double lr, double beta1, double beta2,
                             double weight_decay, double momentum_decay, double eps, bool decoupled, bool maximize,
                             bool* done) {
  const nadam_options options = {lr, beta1, beta2, weight_decay, momentum_decay, eps, decoupled, mu_products};
  shmt__step s = step_of(&nadam, &options, (shmt_tensors[]){self, grads, exp_avgs, exp_avg_sqs}, 4, state_steps);
  s.weight_decay = decoupled ? 0 : weight_decay;
  s.maximize = maximize;

  *done = shmt__step_suits(&s) && mu_products.len == self.len && shmt__have_one_element(mu_products);
  if (!*done) return SHMT_OK;
  for (int64_t i = 0; i < self.len; i++) {
    shmt_tensor* const product = mu_products.data[i];
    const double momentum = momentum_at(&options, shmt__element_of(state_steps.data[i]) + 1);
    /* As a product of a tensor is rounded: in its dtype. */
    const bool is_float = product->dtype == SHMT_FLOAT32;
    shmt__set_element(product, shmt__element_of(product) * (is_float ? (double)(float)momentum : momentum));
  }
  return shmt__step_counted(&s, done);
}

/* --- RAdam ----------------------------------------------------------------------------------- */

typedef struct radam_options {
  double lr, beta1, beta2, weight_decay, eps;
  bool decoupled;
} radam_options;

static void radam_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const radam_options* const o = s->options;
  const double power = pow(o->beta2, count), limit = 2 / (1 - o->beta2) - 1;
  const double length = limit - 2 * count * power / (1 - power);

  (void)i;
  coefficients->keep = o->decoupled ? 1 - o->lr * o->weight_decay : 1;
  coefficients->take = 1 - o->beta1;
  coefficients->decay2 = o->beta2;
  coefficients->take2 = 1 - o->beta2;
  coefficients->correction = 1 - pow(o->beta1, count);
  coefficients->size = o->lr;
  coefficients->eps = o->eps;
  coefficients->use_root = length > 5.0;
  coefficients->scale = sqrt(1 - power);
  coefficients->high = sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
}

static const optimizer radam = {"radam", SHMT_LOOP_radam_step, radam_coefficients};

shmt_status shmt__radam_step(shmt_tensors self, shmt_tensors grads, shmt_tensors exp_avgs, shmt_tensors exp_avg_sqs,
                             shmt_tensors state_steps, double lr, double beta1, double beta2, double weight_decay,
                             double eps, bool decoupled, bool maximize, bool* done) {
  const radam_options options = {lr, beta1, beta2, weight_decay, eps, decoupled};
  shmt__step s = step_of(&radam, &options, (shmt_tensors[]){self, grads, exp_avgs, exp_avg_sqs}, 4, state_steps);
  s.weight_decay = decoupled ? 0 : weight_decay;
  s.maximize = maximize;

  return shmt__step_counted(&s, done);
}

/* --- Adamax ---------------------------------------------------------------------------------- */

typedef struct adamax_options {
  double lr, beta1, beta2, eps;
} adamax_options;

static void adamax_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const adamax_options* const o = s->options;

  (void)i;
  coefficients->take = 1 - o->beta1;
  coefficients->decay2 = o->beta2;
  coefficients->size = -o->lr / (1 - pow(o->beta1, count));
  coefficients->eps = o->eps;
}

static const optimizer adamax = {"adamax", SHMT_LOOP_adamax_step, adamax_coefficients};

shmt_status shmt__adamax_step(shmt_tensors self, shmt_tensors grads, shmt_tensors exp_avgs, shmt_tensors exp_infs,
                              shmt_tensors state_steps, double lr, double beta1, double beta2, double weight_decay,
                              double eps, bool maximize, bool* done) {
  const adamax_options options = {lr, beta1, beta2, eps};
  shmt__step s = step_of(&adamax, &options, (shmt_tensors[]){self, grads, exp_avgs, exp_infs}, 4, state_steps);
  s.weight_decay = weight_decay;
  s.maximize = maximize;

  return shmt__step_counted(&s, done);
}

/* --- Adadelta -------------------------------------------------------------------------------- */

typedef struct adadelta_options {
  double lr, rho, eps;
} adadelta_options;

static void adadelta_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const adadelta_options* const o = s->options;

  (void)i, (void)count;
  coefficients->decay = o->rho;
  coefficients->take = 1 - o->rho;
  coefficients->size = -o->lr;
  coefficients->eps = o->eps;
}

static const optimizer adadelta = {"adadelta", SHMT_LOOP_adadelta_step, adadelta_coefficients};

shmt_status shmt__adadelta_step(shmt_tensors self, shmt_tensors grads, shmt_tensors square_avgs,
                                shmt_tensors acc_deltas, shmt_tensors state_steps, double lr, double rho, double eps,
                                double weight_decay, bool maximize, bool* done) {
  const adadelta_options options = {lr, rho, eps};
  shmt__step s = step_of(&adadelta, &options, (shmt_tensors[]){self, grads, square_avgs, acc_deltas}, 4, state_steps);
  s.weight_decay = weight_decay;
  s.maximize = maximize;

  return shmt__step_counted(&s, done);
}

/* --- RMSprop --------------------------------------------------------------------------------- */

typedef struct rmsprop_options {
  double lr, alpha, eps, momentum;
} rmsprop_options;

static void rmsprop_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const rmsprop_options* const o = s->options;

  (void)i, (void)count;
  coefficients->decay = o->alpha;
  coefficients->take = 1 - o->alpha;
  coefficients->decay2 = o->momentum;
  coefficients->size = -o->lr;
  coefficients->eps = o->eps;
}

static const optimizer rmsprop = {"rmsprop", SHMT_LOOP_rmsprop_step, rmsprop_coefficients};

shmt_status shmt__rmsprop_step(shmt_tensors self, shmt_tensors grads, shmt_tensors square_avgs, shmt_tensors grad_avgs,
                               shmt_tensors momentum_buffer_list, shmt_tensors state_steps, double lr, double alpha,
                               double eps, double weight_decay, double momentum, bool centered, bool maximize,
                               bool* done) {
  static const int rows[2][2] = {{SHMT_LOOP_rmsprop_step, SHMT_LOOP_rmsprop_momentum_step},
                                 {SHMT_LOOP_rmsprop_centered_step, SHMT_LOOP_rmsprop_centered_momentum_step}};
  const rmsprop_options options = {lr, alpha, eps, momentum};
  const bool has_momentum = momentum > 0;
  shmt__step s = step_of(&rmsprop, &options, (shmt_tensors[]){self, grads, square_avgs}, 3, state_steps);
  s.row = rows[centered][has_momentum];
  s.weight_decay = weight_decay;
  s.maximize = maximize;

  if (centered) s.lists[s.n_lists++] = grad_avgs;
  if (has_momentum) s.lists[s.n_lists++] = momentum_buffer_list;
  s.written = ALL_BUT_GRADIENT(s.n_lists);
  return shmt__step_counted(&s, done);
}

/* --- Rprop ----------------------------------------------------------------------------------- */

typedef struct rprop_options {
  double low, high, shrink, grow;
} rprop_options;

static void rprop_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const rprop_options* const o = s->options;

  (void)i, (void)count;
  coefficients->low = o->low;
  coefficients->high = o->high;
  coefficients->decay = o->shrink;
  coefficients->scale = o->grow;
}

static const optimizer rprop = {"rprop", SHMT_LOOP_rprop_step, rprop_coefficients};

shmt_status shmt__rprop_step(shmt_tensors self, shmt_tensors grads, shmt_tensors prevs, shmt_tensors step_sizes,
                             shmt_tensors state_steps, double step_size_min, double step_size_max, double etaminus,
                             double etaplus, bool maximize, bool* done) {
  const rprop_options options = {step_size_min, step_size_max, etaminus, etaplus};
  shmt__step s = step_of(&rprop, &options, (shmt_tensors[]){self, grads, prevs, step_sizes}, 4, state_steps);
  s.maximize = maximize;

  return shmt__step_counted(&s, done);
}

/* --- ASGD ------------------------------------------------------------------------------------ */

typedef struct asgd_options {
  double lambd;
  shmt_tensors shares, sizes;
} asgd_options;

static void asgd_coefficients(const shmt__step* s, int64_t i, double count, shmt__step_coefficients* coefficients) {
  const asgd_options* const o = s->options;
  const double size = shmt__element_of(o->sizes.data[i]), share = shmt__element_of(o->shares.data[i]);

  (void)count;
  coefficients->keep = 1 - o->lambd * size;
  coefficients->size = -size;
  coefficients->take = share;
  coefficients->replace_average = share == 1;
}

/* A number as a tensor made of it has it, which is what torch puts into the state. */
static double as_tensor_has_it(double x) {
  return shmt__default_dtype() == SHMT_FLOAT64 ? x : (double)(float)x;
}

static const optimizer asgd = {"asgd", SHMT_LOOP_asgd_step, asgd_coefficients};

shmt_status shmt__asgd_step(shmt_tensors self, shmt_tensors grads, shmt_tensors axs, shmt_tensors mus,
                            shmt_tensors etas, shmt_tensors state_steps, double lr, double lambd, double t0,
                            double alpha, double weight_decay, bool maximize, bool* done) {
  const asgd_options options = {lambd, mus, etas};
  shmt__step s = step_of(&asgd, &options, (shmt_tensors[]){self, grads, axs}, 3, state_steps);
  s.weight_decay = weight_decay;
  s.maximize = maximize;

  *done = shmt__step_suits(&s) && mus.len == self.len && etas.len == self.len && shmt__have_one_element(mus) &&
          shmt__have_one_element(etas);
  if (!*done) return SHMT_OK;
  SHMT_TRY(shmt__step_counted(&s, done));
  for (int64_t i = 0; i < self.len; i++) {
    const double count = shmt__element_of(state_steps.data[i]), late = count - t0;
    const double size = lr / pow(1 + lambd * lr * count, alpha);
    shmt__set_element(etas.data[i], as_tensor_has_it(size));
    shmt__set_element(mus.data[i], as_tensor_has_it(1 / (late > 1 ? late : 1)));
  }
  return SHMT_OK;
}
