/* ops/random/fill.c -- words of the generator, through a loop, into a tensor. */
#include "generated/loops.h"
#include "iter/iter.h"
#include "ops/random/generator.h"
#include "ops/random/random.h"

void shmt__fill_run(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__word_fill* fill = ctx;
  uint32_t words[SHMT_WORDS_AT_ONCE];
  char* at = data[0];

  while (n > 0) {
    const int64_t count = n < SHMT_WORDS_AT_ONCE / fill->words_each ? n : SHMT_WORDS_AT_ONCE / fill->words_each;
    char* both[2] = {at, (char*)words};
    const int64_t steps[2] = {strides[0], 4};
    shmt__generator_words(fill->generator, words, count * fill->words_each);
    fill->loop(both, steps, count, fill->shape);
    at += count * strides[0];
    n -= count;
  }
}

shmt_status shmt__random_walk(const char* name, shmt_tensor* t, shmt__loop loop, const void* ctx,
                              shmt_generator** locked, shmt_generator* generator) {
  shmt_iter it;
  shmt_status status;

  if (shmt__tensor_is_meta(t) || t->numel == 0) return SHMT_OK;
  shmt__iter_init(&it, name);
  it.resize_outputs = false;
  shmt__iter_output(&it, &t, t->dtype);
  SHMT_TRY(shmt__iter_build(&it));
  *locked = shmt__generator_lock(generator);
  status = shmt__iter_run_serial(&it, loop, ctx);
  shmt__generator_unlock(*locked);
  return shmt__iter_finish(&it, status);
}

shmt_status shmt__fill_words(const char* name, shmt_tensor* t, int row, const void* shape, int words_each,
                              shmt_generator* generator) {
  shmt__word_fill fill = {.loop = shmt__loops[row][t->dtype], .shape = shape, .words_each = words_each};

  return shmt__random_walk(name, t, shmt__fill_run, &fill, &fill.generator, generator);
}
