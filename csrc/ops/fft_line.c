/* ops/fft_line.c -- a line as a matrix, its blocks over threads; convolution with a chirp. */
#include "ops/fft_line.h"

#include "generated/dtype_tables.h"
#include "generated/loops.h"
#include "iter/iter.h"
#include "storage/allocator.h"

#include <string.h>

/* Elements that are worth a thread. */
enum { GRAIN_POINTS = 1 << 15 };

typedef struct half {
  shmt__fft_line line;
  shmt__loop loop;
  void* to;
  void* from;
  uint64_t scratch_bytes;
  atomic_bool failed;
} half;

static void run_blocks(void* ctx, int64_t begin, int64_t end) {
  half* h = ctx;
  shmt__fft_line line = h->line;
  void* scratch = NULL;

  if (shmt__alloc(h->scratch_bytes, &scratch) != SHMT_OK) {
    /* relaxed: read after the pool has joined. */
    atomic_store_explicit(&h->failed, true, memory_order_relaxed);
    return;
  }
  char* data[3] = {h->to, h->from, scratch};
  line.begin = begin;
  h->loop(data, NULL, end - begin, &line);
  shmt__dealloc(scratch, h->scratch_bytes);
}

static shmt_status run_half(half* h, int64_t n, int64_t lanes, int64_t length) {
  shmt__parallel_for((n + lanes - 1) / lanes, GRAIN_POINTS / (lanes * length) + 1, run_blocks, h);
  SHMT_REQUIRE(!atomic_load_explicit(&h->failed, memory_order_relaxed), SHMT_E_NOMEM, "scratch of a Fourier transform");
  return SHMT_OK;
}

shmt_status shmt__fft_split_run(const shmt__fft_split* split, shmt_dtype dtype, const void* from, void* to, bool swap_in,
                                bool swap_out, double scale) {
  const int64_t n1 = split->columns.length, n2 = split->rows.length, lanes = shmt__fft_lanes(dtype);
  const uint64_t item = (uint64_t)shmt__fft_element_bytes();
  const uint64_t nbytes = (uint64_t)((n1 + lanes - 1) / lanes * n2) * item;
  void* between = NULL;

  SHMT_TRY(shmt__alloc(nbytes, &between));
  half h = {.line = {.split = split, .swap_in = swap_in, .swap_out = swap_out, .scale = scale},
            .loop = shmt__loops[SHMT_LOOP_fft_columns][dtype],
            .to = between,
            .from = (void*)(uintptr_t)from,
            .scratch_bytes = (uint64_t)(3 * n1) * item};
  shmt_status status = run_half(&h, n2, lanes, n1);
  if (status == SHMT_OK) {
    h.loop = shmt__loops[SHMT_LOOP_fft_rows][dtype];
    h.to = to;
    h.from = between;
    h.scratch_bytes = (uint64_t)(2 * n2) * item;
    status = run_half(&h, n1, lanes, n2);
  }
  shmt__dealloc(between, nbytes);
  return status;
}

/* A convolution with the chirp: the transform multiplied by the chirp's, and back. */
static shmt_status convolve(const shmt__fft_plan* plan, char* work) {
  const int64_t m = shmt__fft_split_length(&plan->split);
  const shmt__fft_pass by_spectrum = {.factor = plan->spectrum, .scale = 1};
  char* data[2] = {work, work};

  SHMT_TRY(shmt__fft_split_run(&plan->split, plan->key.dtype, work, work, false, false, 1));
  shmt__loops[SHMT_LOOP_fft_multiply][plan->key.dtype](data, NULL, m, &by_spectrum);
  return shmt__fft_split_run(&plan->split, plan->key.dtype, work, work, true, true, 1 / (double)m);
}

static shmt_status run_chirp(const shmt__fft_plan* plan, const void* from, void* to, bool is_forward, double scale) {
  const int64_t n = plan->key.length, m = shmt__fft_split_length(&plan->split), item = shmt__dtype_size[plan->key.dtype];
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

shmt_status shmt__fft_line_run(const shmt__fft_plan* plan, const void* from, void* to, bool is_forward, double scale) {
  if (plan->way == SHMT_FFT_BY_CHIRP) return run_chirp(plan, from, to, is_forward, scale);
  return shmt__fft_split_run(&plan->split, plan->key.dtype, from, to, !is_forward, !is_forward, scale);
}
