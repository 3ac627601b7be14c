/* ops/fft/one_signal.c -- Fourier transforms of one dense signal, by the algorithm of its plan. */
#include "ops/fft/one_signal.h"

#include "generated/dtype_tables.h"
#include "generated/loops.h"
#include "storage/allocator.h"

#include <string.h>

/* Convolve `work` with the chirp: transform it, multiply it by the chirp's spectrum, and transform it back. */
static shmt_status convolve(const shmt__fft_plan* plan, char* work) {
  const int64_t m = shmt__fft_four_step_length(&plan->four_step);
  const shmt__fft_pass by_spectrum = {.factor = plan->spectrum, .scale = 1};
  char* data[2] = {work, work};

  SHMT_TRY(shmt__fft_four_step_run(&plan->four_step, plan->key.dtype, work, work, false, false, 1));
  shmt__loops[SHMT_LOOP_fft_multiply][plan->key.dtype](data, NULL, m, &by_spectrum);
  return shmt__fft_four_step_run(&plan->four_step, plan->key.dtype, work, work, true, true, 1 / (double)m);
}

static shmt_status run_bluestein(const shmt__fft_plan* plan, const void* from, void* to, bool is_forward,
                                 double scale) {
  const int64_t n = plan->key.length, m = shmt__fft_four_step_length(&plan->four_step);
  const int64_t item = shmt__dtype_size[plan->key.dtype];
  const shmt__loop multiply = shmt__loops[SHMT_LOOP_fft_multiply][plan->key.dtype];
  const shmt__fft_pass in = {.factor = plan->chirp, .scale = 1, .swap_in = !is_forward};
  const shmt__fft_pass out = {.factor = plan->chirp, .scale = scale, .swap_out = !is_forward};
  void* work = NULL;

  SHMT_TRY(shmt__alloc((uint64_t)(m * item), &work));
  multiply((char*[]){work, (char*)(uintptr_t)from}, NULL, n, &in);
  memset((char*)work + n * item, 0, (size_t)((m - n) * item));
  const shmt_status status = convolve(plan, work);
  if (status == SHMT_OK) multiply((char*[]){to, work}, NULL, n, &out);
  shmt__dealloc(work, (uint64_t)(m * item));
  return status;
}

void shmt__fft_short_run(const shmt__fft_plan* plan, char* const* data, const int64_t* strides, int64_t n,
                         bool is_forward, double scale) {
  shmt__fft_short args = plan->small;

  args.is_forward = is_forward;
  args.scale = scale;
  shmt__loops[SHMT_LOOP_fft_short][plan->key.dtype](data, strides, n, &args);
}

shmt_status shmt__fft_one_signal_run(const shmt__fft_plan* plan, const void* from, void* to, bool is_forward,
                                     double scale) {
  if (plan->algorithm == SHMT_FFT_IN_REGISTERS) {
    shmt__fft_short_run(plan, (char*[]){to, (char*)(uintptr_t)from}, (int64_t[]){0, 0}, 1, is_forward, scale);
    return SHMT_OK;
  }
  if (plan->algorithm == SHMT_FFT_BLUESTEIN) return run_bluestein(plan, from, to, is_forward, scale);
  return shmt__fft_four_step_run(&plan->four_step, plan->key.dtype, from, to, !is_forward, !is_forward, scale);
}

shmt_status shmt__fft_one_signal_c2r_even(const shmt__fft_plan* plan, const void* from, void* to, double scale) {
  const shmt_dtype dtype = plan->key.dtype;
  const shmt__fft_pass pass = {.factor = plan->real_twiddles};

  if (plan->algorithm == SHMT_FFT_FOUR_STEP && !shmt__fft_four_step_has_buffer(&plan->four_step, dtype))
    return shmt__fft_four_step_c2r_even(&plan->four_step, dtype, plan->real_twiddles, from, to, scale);
  shmt__loops[SHMT_LOOP_fft_c2r_even][dtype]((char*[]){to, (char*)(uintptr_t)from}, NULL, plan->key.length, &pass);
  return shmt__fft_one_signal_run(plan, to, to, false, scale);
}
