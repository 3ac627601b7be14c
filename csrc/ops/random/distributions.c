/* ops/random/distributions.c -- exponential_, cauchy_, log_normal_, geometric_. */
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/random/random.h"

#include <math.h>

enum { SAMPLES_AT_ONCE = 512 };

/* Draws one number from the generator. */
typedef double (*sample_fn)(shmt_generator* g, double a, double b);

static double sample_exponential(shmt_generator* g, double lambda, double unused) {
  (void)unused;
  return -log1p(-shmt__generator_uniform(g)) / lambda;
}
static double sample_cauchy(shmt_generator* g, double median, double sigma) {
  return median + sigma * tan(M_PI * (shmt__generator_uniform(g) - 0.5));
}
static double sample_log_normal(shmt_generator* g, double mean, double std) {
  return exp(shmt__generator_normal(g) * std + mean);
}
static double sample_geometric(shmt_generator* g, double p, double unused) {
  (void)unused;
  return ceil(log(shmt__generator_uniform(g)) / log1p(-p));
}

typedef struct samples {
  shmt_generator* generator; /* locked */
  sample_fn sample;
  double a, b;
  shmt__cast_loop_fn cast; /* from double */
} samples;

static void sample_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const samples* s = ctx;
  double block[SAMPLES_AT_ONCE];

  for (int64_t begin = 0; begin < n; begin += SAMPLES_AT_ONCE) {
    const int64_t count = n - begin < SAMPLES_AT_ONCE ? n - begin : SAMPLES_AT_ONCE;
    for (int64_t i = 0; i < count; i++) block[i] = s->sample(s->generator, s->a, s->b);
    s->cast(data[0] + begin * strides[0], strides[0], (const char*)block, sizeof *block, count);
  }
}

/* Fills t with samples, in memory order as other fills do. */
static shmt_status fill_samples(const char* name, shmt_tensor* t, sample_fn sample, double a, double b,
                                shmt_generator* generator) {
  samples s = {NULL, sample, a, b, shmt__cast_loop(t->dtype, SHMT_FLOAT64)};

  return shmt__random_walk(name, t, sample_run, &s, &s.generator, generator);
}

static shmt_status check_floating(const char* what, const shmt_tensor* t) {
  SHMT_REFUSE_DTYPE(!shmt__is_floating(t->dtype), t->dtype, what);
  return SHMT_OK;
}

shmt_status shmt__exponential_(shmt_tensor* self, double lambd, shmt_generator* generator) {
  SHMT_REQUIRE(lambd > 0, SHMT_E_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", lambd);
  if (self->numel == 0) return SHMT_OK;
  SHMT_REQUIRE(shmt__is_floating(self->dtype), SHMT_E_RUNTIME,
               "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
               "you specified %s", shmt__dtype_title(self->dtype));
  return fill_samples("exponential_", self, sample_exponential, lambd, 0, generator);
}

shmt_status shmt__cauchy_(shmt_tensor* self, double median, double sigma, shmt_generator* generator) {
  SHMT_REQUIRE(sigma > 0, SHMT_E_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
  SHMT_REQUIRE(shmt__is_floating(self->dtype), SHMT_E_RUNTIME,
               "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
               "specified %s", shmt__dtype_ctype(self->dtype));
  return fill_samples("cauchy_", self, sample_cauchy, median, sigma, generator);
}

shmt_status shmt__log_normal_(shmt_tensor* self, double mean, double std, shmt_generator* generator) {
  SHMT_REQUIRE(std > 0, SHMT_E_RUNTIME, "log_normal_ expects std > 0.0, but found std=%g", std);
  if (self->numel == 0) return SHMT_OK;
  SHMT_TRY(check_floating("log_normal_cpu", self));
  return fill_samples("log_normal_", self, sample_log_normal, mean, std, generator);
}

shmt_status shmt__geometric_(shmt_tensor* self, double p, shmt_generator* generator) {
  SHMT_REQUIRE(p > 0 && p < 1, SHMT_E_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", p);
  if (self->numel == 0) return SHMT_OK;
  SHMT_REFUSE_DTYPE(self->dtype == SHMT_BOOL || shmt__is_complex(self->dtype) ||
                        shmt__is_barebones_unsigned(self->dtype), self->dtype, "geometric_cpu");
  return fill_samples("geometric_", self, sample_geometric, p, 0, generator);
}
