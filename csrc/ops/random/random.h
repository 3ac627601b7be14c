/* ops/random/random.h -- fills that several random operators share. */
#ifndef SHMT_OPS_RANDOM_RANDOM_H
#define SHMT_OPS_RANDOM_RANDOM_H

#include "iter/iter.h"
#include "ops/random/generator.h"
#include "tensor/tensor.h"

/* Sets every element of t to value with probability p, else to 0. Errors: those of an iterator. */
shmt_status shmt__fill_bernoulli(shmt_tensor* t, double p, double value, shmt_generator* generator);

/* Walks t in memory order, on this thread, with a loop that draws from *locked: the generator, locked during the walk.
 * Does nothing for a meta or empty tensor. Errors: those of an iterator (t overlaps itself). Borrows all. */
shmt_status shmt__random_walk(const char* name, shmt_tensor* t, shmt__loop loop, const void* ctx,
                              shmt_generator** locked, shmt_generator* generator);

#endif
