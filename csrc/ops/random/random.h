/* ops/random/random.h -- what several random operators share. */
#ifndef SHMT_OPS_RANDOM_RANDOM_H
#define SHMT_OPS_RANDOM_RANDOM_H

#include "iter/iter.h"
#include "ops/random/generator.h"
#include "tensor/tensor.h"

/* --- fills (fill.c) --------------------------------------------------------------------- */

enum { SHMT_WORDS_AT_ONCE = SHMT_MT_WORDS }; /* words that one call of the generator draws */

/* One fill: words from `generator` go through `loop` with `shape`. */
typedef struct shmt__word_fill {
  shmt_generator* generator; /* locked */
  shmt__loop loop;
  const void* shape;
  int words_each; /* words of an element */
} shmt__word_fill;

/* Fills n elements. ctx: a shmt__word_fill. */
void shmt__fill_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx);
/* Fills t, in memory order, by the loop of its dtype in a row of shmt__loops. Errors: those of an iterator. */
shmt_status shmt__fill_words(const char* name, shmt_tensor* t, int row, const void* shape, int words_each,
                             shmt_generator* generator);
/* Walks t in memory order, on this thread, with a loop that draws from *locked: the generator, locked during the walk.
 * Does nothing for a meta or empty tensor. Errors: those of an iterator (t overlaps itself). Borrows all. */
shmt_status shmt__random_walk(const char* name, shmt_tensor* t, shmt__loop loop, const void* ctx,
                              shmt_generator** locked, shmt_generator* generator);
/* Sets every element of t to value with probability p, else to 0 (bernoulli.c). Errors: those of an iterator. */
shmt_status shmt__fill_bernoulli(shmt_tensor* t, double p, double value, shmt_generator* generator);

/* --- tensors and dtypes (random.c) -------------------------------------------------------- */

/* A complex tensor viewed as twice as many real numbers. *out: a new reference. */
shmt_status shmt__real_parts(shmt_tensor* t, shmt_tensor** out);
/* Makes a new tensor, or resizes the preset one. */
shmt_status shmt__make_random(shmt_ints size, shmt_dtype dtype, shmt_dtype default_dtype, shmt_device device,
                              shmt_tensor** out);
/* Bits of the significand of a floating dtype. */
int shmt__significand_bits(shmt_dtype dtype);

#endif
