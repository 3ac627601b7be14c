/* ops/random/randperm.c -- randperm. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/indexing/index_iterator.h"
#include "ops/random/random.h"

#include <inttypes.h>

/* Shuffles n elements of item bytes: each is swapped with itself or one behind it. */
static void shuffle(char* p, int64_t item, int64_t n, shmt_generator* generator) {
  const shmt__loop swap = shmt__move_loop_of_size(SHMT_LOOP_swap, item);
  uint32_t words[SHMT_WORDS_AT_ONCE], steps[SHMT_WORDS_AT_ONCE];

  for (int64_t begin = 0, count; begin < n - 1; begin += count) {
    const int64_t left = n - begin;
    count = left - 1 < SHMT_WORDS_AT_ONCE ? left - 1 : SHMT_WORDS_AT_ONCE;
    shmt__generator_words(generator, words, count);
    if (left <= INT32_MAX) {
      char* data[2] = {(char*)steps, (char*)words};
      shmt__loops[SHMT_LOOP_mt_swap_steps][SHMT_UINT32](data, NULL, count, &left);
      for (int64_t k = 0; k < count; k++) __builtin_prefetch(p + (begin + k + steps[k]) * item, 1);
    } else {
      for (int64_t k = 0; k < count; k++)
        steps[k] = left - k <= UINT32_MAX ? words[k] % (uint32_t)(left - k) : words[k];
    }
    swap((char*[]){p + begin * item, (char*)steps}, NULL, count, NULL);
  }
}

/* t = 0, 1, ...; t is dense. */
static void count_up(shmt_tensor* t) {
  const shmt__cast_loop_fn cast = shmt__cast_loop(t->dtype, SHMT_INT64);
  const int64_t item = shmt__tensor_item_bytes(t);
  int64_t block[SHMT_WORDS_AT_ONCE];

  for (int64_t begin = 0; begin < t->numel; begin += SHMT_WORDS_AT_ONCE) {
    const int64_t n = t->numel - begin < SHMT_WORDS_AT_ONCE ? t->numel - begin : SHMT_WORDS_AT_ONCE;
    for (int64_t i = 0; i < n; i++) block[i] = begin + i;
    cast((char*)shmt__tensor_data(t) + begin * item, item, (const char*)block, sizeof *block, n);
  }
}

/* Checks that the dtype holds all integers below n. */
static shmt_status check_permuted(shmt_dtype dtype, int64_t n) {
  static const char* const most[] = {[SHMT_FLOAT16] = "2049", [SHMT_FLOAT32] = "2^24+1", [SHMT_FLOAT64] = "2^53+1"};

  SHMT_REFUSE_DTYPE(dtype == SHMT_BOOL || shmt__is_complex(dtype), dtype, "randperm");
  if (shmt__is_integral(dtype)) return shmt__scalar_check(shmt__scalar_int(n > 0 ? n - 1 : 0), dtype);
  SHMT_REQUIRE(dtype == SHMT_BFLOAT16 || n <= (INT64_C(1) << shmt__significand_bits(dtype)) + 1, SHMT_E_RUNTIME,
               "n cannot be greater than %s for %s type.", most[dtype], shmt__dtype_title(dtype));
  return SHMT_OK;
}

shmt_status shmt__randperm(int64_t n, shmt_generator* generator, shmt_dtype dtype, shmt_layout layout,
                           shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) order = NULL;
  (void)layout;
  (void)pin_memory;
  SHMT_REQUIRE(n >= 0, SHMT_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": [%" PRId64 "]", n,
               n);
  SHMT_TRY(check_permuted(*out ? (*out)->dtype : dtype == SHMT_DTYPE_NONE ? SHMT_INT64 : dtype, n));
  SHMT_TRY(shmt__make_random(SHMT_INTS(n), dtype, SHMT_INT64, device, out));
  if (shmt__tensor_is_meta(*out) || n == 0) return SHMT_OK;
  SHMT_TRY(shmt__tensor_contiguous(*out, SHMT_CONTIGUOUS_FORMAT, &order));
  count_up(order);
  generator = shmt__generator_lock(generator);
  shuffle(shmt__tensor_data(order), shmt__tensor_item_bytes(order), n, generator);
  shmt__generator_unlock(generator);
  return order == *out ? SHMT_OK : shmt__tensor_copy(*out, order);
}
