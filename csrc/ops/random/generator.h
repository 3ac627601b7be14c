/* ops/random/generator.h -- MT19937, the random number generator behind all random operators.
 *
 * Streams are torch's, word for word: the same seed gives the same numbers. Operators that draw take the lock once for
 * all their numbers, so two threads never interleave inside one tensor.
 *
 * Note [Fork]
 * A child starts in the parent's state, as torch's does. A fork takes the locks of all generators (Note [Mutexes across
 * fork] in os/mutex.h), so that no copy is torn.
 */
#ifndef SHMT_OPS_RANDOM_GENERATOR_H
#define SHMT_OPS_RANDOM_GENERATOR_H

#include "api/random.h"
#include "base/error.h"
#include "base/types.h"

enum { SHMT_MT_WORDS = 624 };

/* Locks g, or the default generator when g is NULL, until unlock, and returns it. */
shmt_generator* shmt__generator_lock(shmt_generator* g);
void shmt__generator_unlock(shmt_generator* g);

/* The functions below need the lock. */
uint32_t shmt__generator_word(shmt_generator* g);
/* Two words; the first one is the high half. */
uint64_t shmt__generator_word64(shmt_generator* g);
void shmt__generator_words(shmt_generator* g, uint32_t* out, int64_t n);
/* A number in [0, 1) from 53 random bits. */
double shmt__generator_uniform(shmt_generator* g);
/* A standard normal number. Every second call returns the number that the call before kept. */
double shmt__generator_normal(shmt_generator* g);

static inline void shmt__auto_shmt_generator(shmt_generator** p) { shmt_generator_release(*p); }

#endif
