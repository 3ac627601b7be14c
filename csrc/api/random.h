/* api/random.h -- random number generators as Python sees them. */
#ifndef SHMT_API_RANDOM_H
#define SHMT_API_RANDOM_H

#include "api/status.h"

#include <stdint.h>

typedef struct shmt_generator shmt_generator;

/* The process's generator, used by operators that are given none. Borrowed; never freed. */
shmt_generator* shmt_generator_default(void);
/* A generator of its own, seeded as the default one is at start. New reference. */
shmt_status shmt_generator_create(shmt_generator** out);
void shmt_generator_retain(shmt_generator* g);
/* NULL is fine. */
void shmt_generator_release(shmt_generator* g);

void shmt_generator_manual_seed(shmt_generator* g, uint64_t seed);
uint64_t shmt_generator_initial_seed(shmt_generator* g);
/* Seed with a number from the kernel, and return it. */
uint64_t shmt_generator_seed(shmt_generator* g);
/* Another generator in the same state. New reference. */
shmt_status shmt_generator_clone(shmt_generator* g, shmt_generator** out);

/* Bytes of a saved state. */
int64_t shmt_generator_state_size(void);
/* Write the state (shmt_generator_state_size() bytes) to out. */
void shmt_generator_get_state(shmt_generator* g, uint8_t* out);
/* Errors: SHMT_E_RUNTIME when nbytes or the contents fit no generator. */
shmt_status shmt_generator_set_state(shmt_generator* g, const uint8_t* state, int64_t nbytes);

#endif
