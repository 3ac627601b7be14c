/* ops/random/generator.h -- the Mersenne twister behind random operators.
 *
 * Streams are torch's, word for word: the same seed gives the same numbers. Operators that draw take the lock
 * once for all their numbers, so two threads never interleave inside one tensor.
 *
 * Note [Fork]
 * A child starts in the parent's state, as torch's does. The default generator's lock is held across fork(), so
 * the copy is never torn.
 */
#ifndef SHMT_OPS_RANDOM_GENERATOR_H
#define SHMT_OPS_RANDOM_GENERATOR_H

#include "api/random.h"
#include "base/error.h"
#include "base/types.h"

enum { SHMT_MT_WORDS = 624 };

/* g, or the default one when g is NULL, locked until unlock. */
shmt_generator* shmt__generator_lock(shmt_generator* g);
void shmt__generator_unlock(shmt_generator* g);

/* All of these need the lock. */
uint32_t shmt__generator_word(shmt_generator* g);
/* Two words, the first one high. */
uint64_t shmt__generator_word64(shmt_generator* g);
void shmt__generator_words(shmt_generator* g, uint32_t* out, int64_t n);
/* 53 random bits in [0, 1). */
double shmt__generator_uniform(shmt_generator* g);
/* Standard normal; every second call returns what the one before kept. */
double shmt__generator_normal(shmt_generator* g);

static inline void shmt__auto_shmt_generator(shmt_generator** p) { shmt_generator_release(*p); }

#endif
