/* ops/fft/single_line.c -- a line as a matrix, its blocks over threads; convolution with a chirp. */
#include "ops/fft/single_line.h"

#include "generated/dtype_tables.h"
#include "generated/loops.h"
#include "iter/iter.h"
#include "storage/allocator.h"

#include <string.h>

/* Elements that are worth a thread. Bytes of a line that has a place of its own between its columns and its rows. Bytes
 * that are taken from the stack: threads with lines of a microsecond would wait for each other in the allocator. */
enum { GRAIN_POINTS = 1 << 15, SHORT_BYTES = 128 << 10, ROOM_BYTES = 64 << 10 };

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
  _Alignas(64) char room[ROOM_BYTES];
  void* scratch = room;

  if (h->scratch_bytes > ROOM_BYTES && shmt__alloc(h->scratch_bytes, &scratch) != SHMT_OK) {
    /* relaxed: read after the pool has joined. */
    atomic_store_explicit(&h->failed, true, memory_order_relaxed);
    return;
  }
  char* data[3] = {h->to, h->from, scratch};
  line.begin = begin;
  h->loop(data, NULL, end - begin, &line);
  if (scratch != room) shmt__dealloc(scratch, h->scratch_bytes);
}

static shmt_status run_half(half* h, int64_t n, int64_t lanes, int64_t length) {
  shmt__parallel_for((n + lanes - 1) / lanes, GRAIN_POINTS / (lanes * length) + 1, run_blocks, h);
  SHMT_REQUIRE(!atomic_load_explicit(&h->failed, memory_order_relaxed), SHMT_E_NOMEM, "scratch of a Fourier transform");
  return SHMT_OK;
}

/* Bytes of scratch for columns or rows: two arrays of them, and what radices without code of their own need. */
static uint64_t scratch_bytes(const shmt__fft_steps* s) {
  int64_t largest = 0;

  for (int i = 0; i < s->n_steps; i++)
    if (s->step[i].radix > 9 && s->step[i].radix != 16 && s->step[i].radix > largest) largest = s->step[i].radix;
  return (uint64_t)((2 * s->length + largest) * shmt__fft_element_bytes());
}

/* The columns are left in `between`. */
static shmt_status run_halves(const shmt__fft_line* line, shmt_dtype dtype, const void* from, void* between, void* to) {
  const shmt__fft_steps *columns = &line->split->columns, *rows = &line->split->rows;
  const int64_t lanes = shmt__fft_lanes(dtype);
  half h = {.line = *line,
            .loop = shmt__loops[SHMT_LOOP_fft_columns][dtype],
            .to = between,
            .from = (void*)(uintptr_t)from,
            .scratch_bytes = scratch_bytes(columns)};

  SHMT_TRY(run_half(&h, rows->length, lanes, columns->length));
  h.loop = shmt__loops[SHMT_LOOP_fft_rows][dtype];
  h.to = to;
  h.from = between;
  h.scratch_bytes = scratch_bytes(rows);
  return run_half(&h, columns->length, lanes, rows->length);
}

/* Does a line have a place of its own between the halves? */
static bool is_short(const shmt__fft_split* split, shmt_dtype dtype) {
  return shmt__fft_split_length(split) * shmt__dtype_size[dtype] <= SHORT_BYTES;
}

/* A line as a matrix; `to` may be `from`, and is then not what lies between the halves. */
static shmt_status run_split(shmt__fft_line* line, shmt_dtype dtype, const void* from, void* to) {
  const int64_t n1 = line->split->columns.length, n2 = line->split->rows.length, lanes = shmt__fft_lanes(dtype);
  _Alignas(64) char room[ROOM_BYTES];
  void* between = room;

  if (from != to && !is_short(line->split, dtype)) {
    line->block = 2 * lanes;
    line->row = 2 * n1;
    return run_halves(line, dtype, from, to, to);
  }
  const uint64_t nbytes = (uint64_t)((n1 + lanes - 1) / lanes * n2 * shmt__fft_element_bytes());
  line->block = 2 * lanes * n2;
  line->row = 2 * lanes;
  if (nbytes > ROOM_BYTES) SHMT_TRY(shmt__alloc(nbytes, &between));
  const shmt_status status = run_halves(line, dtype, from, between, to);
  if (between != room) shmt__dealloc(between, nbytes);
  return status;
}

shmt_status shmt__fft_split_run(const shmt__fft_split* split, shmt_dtype dtype, const void* from, void* to, bool swap_in,
                                bool swap_out, double scale) {
  shmt__fft_line line = {.split = split, .swap_in = swap_in, .swap_out = swap_out, .scale = scale};
  return run_split(&line, dtype, from, to);
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

void shmt__fft_short_run(const shmt__fft_plan* plan, char* const* data, const int64_t* strides, int64_t n,
                         bool is_forward, double scale) {
  shmt__fft_short lines = plan->small;

  lines.is_forward = is_forward;
  lines.scale = scale;
  shmt__loops[SHMT_LOOP_fft_short][plan->key.dtype](data, strides, n, &lines);
}

shmt_status shmt__fft_line_run(const shmt__fft_plan* plan, const void* from, void* to, bool is_forward, double scale) {
  if (plan->way == SHMT_FFT_SHORTLY) {
    shmt__fft_short_run(plan, (char*[]){to, (char*)(uintptr_t)from}, (int64_t[]){0, 0}, 1, is_forward, scale);
    return SHMT_OK;
  }
  if (plan->way == SHMT_FFT_BY_CHIRP) return run_chirp(plan, from, to, is_forward, scale);
  return shmt__fft_split_run(&plan->split, plan->key.dtype, from, to, !is_forward, !is_forward, scale);
}

shmt_status shmt__fft_line_to_even(const shmt__fft_plan* plan, const void* from, void* to, double scale) {
  const shmt_dtype dtype = plan->key.dtype;
  const shmt__fft_pass pass = {.factor = plan->halves};
  shmt__fft_line line = {.split = &plan->split, .swap_out = true, .scale = scale, .halves = plan->halves};

  if (plan->way == SHMT_FFT_BY_LINE && !is_short(&plan->split, dtype)) return run_split(&line, dtype, from, to);
  shmt__loops[SHMT_LOOP_fft_to_even][dtype]((char*[]){to, (char*)(uintptr_t)from}, NULL, plan->key.length, &pass);
  return shmt__fft_line_run(plan, to, to, false, scale);
}
