/* ops/random.h -- fills that several random operators share. */
#ifndef SHMT_OPS_RANDOM_H
#define SHMT_OPS_RANDOM_H

#include "ops/generator.h"
#include "tensor/tensor.h"

/* value with probability p, else 0, for every element of t. */
shmt_status shmt__fill_bernoulli(shmt_tensor* t, double p, double value, shmt_generator* generator);

#endif
