/* ops/fft/four_step.c -- the four-step Fourier transform of one signal: the columns, then the rows of a matrix. */
#include "ops/fft/four_step.h"

#include "generated/dtype_tables.h"
#include "generated/loops.h"
#include "iter/iter.h"
#include "storage/allocator.h"

#include <stdatomic.h>

enum {
  GRAIN_POINTS = 1 << 15,  /* elements that are worth a thread */
  SHORT_BYTES = 128 << 10, /* a signal up to this size has a buffer of its own between columns and rows */
  STACK_BYTES = 64 << 10,  /* scratch up to this size is on the stack: threads with signals of a microsecond would wait
                            * for each other in the allocator */
};

int64_t shmt__fft_element_bytes(void) { return 2 * (16 << shmt__cpu_level); }

int64_t shmt__fft_lanes(shmt_dtype dtype) { return shmt__fft_element_bytes() / shmt__dtype_size[dtype]; }

/* One of the two passes: over the columns, or over the rows. */
typedef struct pass_job {
  shmt__fft_four_step_args args;
  shmt__loop loop;
  void* to;
  void* from;
  uint64_t scratch_bytes;
  atomic_bool failed;
} pass_job;

static void run_four_step_blocks(void* ctx, int64_t begin, int64_t end) {
  pass_job* job = ctx;
  shmt__fft_four_step_args args = job->args;
  _Alignas(64) char stack[STACK_BYTES];
  void* scratch = stack;

  if (job->scratch_bytes > STACK_BYTES && shmt__alloc(job->scratch_bytes, &scratch) != SHMT_OK) {
    /* relaxed: read after the pool has joined. */
    atomic_store_explicit(&job->failed, true, memory_order_relaxed);
    return;
  }
  char* data[3] = {job->to, job->from, scratch};
  args.begin = begin;
  job->loop(data, NULL, end - begin, &args);
  if (scratch != stack) shmt__dealloc(scratch, job->scratch_bytes);
}

static shmt_status run_pass(pass_job* job, int64_t n, int64_t lanes, int64_t length) {
  shmt__parallel_for((n + lanes - 1) / lanes, GRAIN_POINTS / (lanes * length) + 1, run_four_step_blocks, job);
  SHMT_REQUIRE(!atomic_load_explicit(&job->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "scratch of a Fourier transform");
  return SHMT_OK;
}

/* Bytes of scratch to transform a block of columns or rows: two arrays, and what radices without code of their own
 * need. */
static uint64_t scratch_bytes(const shmt__fft_steps* s) {
  int64_t largest = 0;

  for (int i = 0; i < s->n_steps; i++)
    if (s->step[i].radix > 9 && s->step[i].radix != 16 && s->step[i].radix > largest) largest = s->step[i].radix;
  return (uint64_t)((2 * s->length + largest) * shmt__fft_element_bytes());
}

/* Transform the columns of `from` into `between`, then the rows of that into `to`. */
static shmt_status run_columns_and_rows(const shmt__fft_four_step_args* args, shmt_dtype dtype, const void* from,
                                        void* between, void* to) {
  const shmt__fft_steps *columns = &args->four_step->columns, *rows = &args->four_step->rows;
  const int64_t lanes = shmt__fft_lanes(dtype);
  pass_job job = {.args = *args,
                  .loop = shmt__loops[SHMT_LOOP_fft_columns][dtype],
                  .to = between,
                  .from = (void*)(uintptr_t)from,
                  .scratch_bytes = scratch_bytes(columns)};

  SHMT_TRY(run_pass(&job, rows->length, lanes, columns->length));
  job.loop = shmt__loops[SHMT_LOOP_fft_rows][dtype];
  job.to = to;
  job.from = between;
  job.scratch_bytes = scratch_bytes(rows);
  return run_pass(&job, columns->length, lanes, rows->length);
}

bool shmt__fft_four_step_has_buffer(const shmt__fft_four_step* four_step, shmt_dtype dtype) {
  return shmt__fft_four_step_length(four_step) * shmt__dtype_size[dtype] <= SHORT_BYTES;
}

/* Transform one signal. `to` may be `from`; then the columns' results go to a buffer between them. */
static shmt_status run_four_step(shmt__fft_four_step_args* args, shmt_dtype dtype, const void* from, void* to) {
  const int64_t n1 = args->four_step->columns.length, n2 = args->four_step->rows.length;
  const int64_t lanes = shmt__fft_lanes(dtype);
  _Alignas(64) char stack[STACK_BYTES];
  void* between = stack;

  if (from != to && !shmt__fft_four_step_has_buffer(args->four_step, dtype)) {
    args->block = 2 * lanes;
    args->row = 2 * n1;
    return run_columns_and_rows(args, dtype, from, to, to);
  }
  const uint64_t nbytes = (uint64_t)((n1 + lanes - 1) / lanes * n2 * shmt__fft_element_bytes());
  args->block = 2 * lanes * n2;
  args->row = 2 * lanes;
  if (nbytes > STACK_BYTES) SHMT_TRY(shmt__alloc(nbytes, &between));
  const shmt_status status = run_columns_and_rows(args, dtype, from, between, to);
  if (between != stack) shmt__dealloc(between, nbytes);
  return status;
}

shmt_status shmt__fft_four_step_run(const shmt__fft_four_step* four_step, shmt_dtype dtype, const void* from, void* to,
                                    bool swap_in, bool swap_out, double scale) {
  shmt__fft_four_step_args args = {.four_step = four_step, .swap_in = swap_in, .swap_out = swap_out, .scale = scale};
  return run_four_step(&args, dtype, from, to);
}

shmt_status shmt__fft_four_step_c2r_even(const shmt__fft_four_step* four_step, shmt_dtype dtype,
                                         const void* real_twiddles, const void* from, void* to, double scale) {
  shmt__fft_four_step_args args = {
      .four_step = four_step, .swap_out = true, .scale = scale, .real_twiddles = real_twiddles};
  return run_four_step(&args, dtype, from, to);
}
