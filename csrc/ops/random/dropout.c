/* ops/random/dropout.c -- dropout, feature_dropout, native_dropout. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/random/random.h"

/* The factor of elements that are kept, calculated in the precision that the dtype is calculated in. */
static double scale_for(shmt_dtype dtype, double keep) {
  return dtype == SHMT_FLOAT64 ? 1 / keep : (double)(1 / (float)keep);
}

shmt_status shmt__dropout_noise(shmt_tensor* self, double p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;
  const double keep = 1 - p;

  SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &noise));
  if (keep > 0)
    SHMT_TRY(shmt__fill_bernoulli(noise, keep, scale_for(self->dtype, keep), NULL));
  else if (!shmt__tensor_is_meta(noise)) /* nothing is drawn */
    SHMT_TRY(shmt__tensor_fill(noise, shmt__scalar_int(0)));
  *out = SHMT_TAKE(noise);
  return SHMT_OK;
}

static shmt_status check_probability(double p) {
  SHMT_REQUIRE(p >= 0 && p <= 1, SHMT_E_RUNTIME, "dropout probability has to be between 0 and 1, but got %g", p);
  return SHMT_OK;
}

/* Checks that the dtype is floating point: elements that are kept are scaled. */
static shmt_status check_dropout(const shmt_tensor* input, double p, bool train) {
  SHMT_TRY(check_probability(p));
  SHMT_REQUIRE(!train || p == 0 || p == 1 || input->numel == 0 || shmt__is_floating(input->dtype) ||
                   shmt__is_complex(input->dtype),
               SHMT_E_RUNTIME, "result type Float can't be cast to the desired output type %s",
               shmt__dtype_title(input->dtype));
  return SHMT_OK;
}

shmt_status shmt__dropout(shmt_tensor* input, double p, bool train, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;

  SHMT_TRY(check_dropout(input, p, train));
  if (p == 0 || !train || input->numel == 0) {
    *out = shmt__tensor_ref(input);
    return SHMT_OK;
  }
  SHMT_TRY(shmt_op__dropout_noise(input, p, &noise));
  return shmt_op_mul_Tensor(input, noise, out);
}

static bool drops(shmt_opt_bool train) { return !train.has || train.value; }

static double scale_of(double p) { return p < 1 ? 1 / (1 - p) : 0; }

shmt_status shmt__native_dropout(shmt_tensor* input, double p, shmt_opt_bool train, shmt_tensor** out,
                                 shmt_tensor** mask) {
  SHMT_AUTO(shmt_tensor) kept = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;

  SHMT_TRY(check_probability(p));
  SHMT_TRY(shmt__tensor_empty_like(input, SHMT_BOOL, &kept));
  if (!drops(train)) {
    SHMT_TRY(shmt_op_clone(input, SHMT_MEMORY_FORMAT_NONE, out));
    if (!shmt__tensor_is_meta(kept)) SHMT_TRY(shmt__tensor_fill(kept, shmt__scalar_int(1)));
  } else {
    SHMT_TRY(shmt__fill_bernoulli(kept, 1 - p, 1, NULL));
    SHMT_TRY(shmt_op_mul_Tensor(input, kept, &product));
    SHMT_TRY(shmt_op_mul__Scalar(product, shmt__scalar_float(scale_of(p))));
    *out = SHMT_TAKE(product);
  }
  *mask = SHMT_TAKE(kept);
  return SHMT_OK;
}

shmt_status shmt__native_dropout_backward(shmt_tensor* grad, shmt_tensor* mask, double p, shmt_opt_bool train,
                                          shmt_tensor** out) {
  return shmt_op_native_dropout_backward(grad, mask, drops(train) ? scale_of(p) : 1, out);
}

shmt_status shmt__dropout_(shmt_tensor* self, double p, bool train) {
  SHMT_AUTO(shmt_tensor) noise = NULL;

  SHMT_TRY(check_dropout(self, p, train));
  if (p == 0 || !train || self->numel == 0) return SHMT_OK;
  SHMT_TRY(shmt_op__dropout_noise(self, p, &noise));
  return shmt_op_mul__Tensor(self, noise);
}

/* Noise that drops whole channels: one number for each (sample, channel). */
static shmt_status feature_noise(shmt_tensor* input, double p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) like = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(input->n_dims >= 2, SHMT_E_RUNTIME,
               "Feature dropout requires at least 2 dimensions in the input");
  for (int d = 0; d < input->n_dims; d++) sizes[d] = d < 2 ? input->sizes[d] : 1;
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, input->n_dims}, input->dtype, input->device, SHMT_CONTIGUOUS_FORMAT,
                              &like));
  return shmt_op__dropout_noise(like, p, out);
}

shmt_status shmt__feature_dropout(shmt_tensor* input, double p, bool train, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) noise = NULL;

  SHMT_TRY(check_dropout(input, p, train));
  if (p == 0 || !train || input->numel == 0) {
    *out = shmt__tensor_ref(input);
    return SHMT_OK;
  }
  if (p == 1) return shmt__dropout(input, p, train, out); /* of any number of dimensions */
  SHMT_TRY(feature_noise(input, p, &noise));
  return shmt_op_mul_Tensor(input, noise, out);
}

shmt_status shmt__feature_dropout_(shmt_tensor* self, double p, bool train) {
  SHMT_AUTO(shmt_tensor) noise = NULL;

  SHMT_TRY(check_dropout(self, p, train));
  if (p == 0 || !train || self->numel == 0) return SHMT_OK;
  if (p == 1) return shmt__dropout_(self, p, train);
  SHMT_TRY(feature_noise(self, p, &noise));
  return shmt_op_mul__Tensor(self, noise);
}
