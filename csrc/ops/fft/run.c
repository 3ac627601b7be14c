/* ops/fft/run.c -- runs the transforms of many signals: in blocks of lanes or one by one, over threads. */
#include "ops/fft/run.h"

#include "generated/dtype_tables.h"
#include "generated/loops.h"
#include "iter/cursor.h"
#include "iter/iter.h"
#include "ops/fft/one_signal.h"
#include "storage/allocator.h"

/* GRAIN_POINTS: elements that are worth a thread. NEAR_BYTES: a block's scratch up to this size stays in the
 * first-level cache. FAR_BYTES: columns that span more than this touch too many pages. ROOM_BYTES: scratch up to this
 * size is on the stack; from the allocator a thread would get memory that is in another thread's cache. */
enum { GRAIN_POINTS = 1 << 12, NEAR_BYTES = 32 << 10, FAR_BYTES = 1 << 20, ROOM_BYTES = 128 << 10 };

typedef struct signals_job {
  const shmt__fft_request* r;
  const shmt__fft_plan* plan;
  shmt__loop_nest dims; /* the dims over which signals are counted */
  int64_t n_signals, part_bytes, lanes;
  int64_t in, out; /* parts from the tensors' beginnings to the first signal */
} signals_job;

/* What is divided between threads: pieces of so many signals of one job each, or of so many of each of two jobs. */
typedef struct workload {
  signals_job jobs[2];
  int64_t signals[2];
  atomic_int failed; /* the first error's status */
} workload;

/* How many pieces of some elements are worth a thread. */
static int64_t grain(int64_t elements) { return elements < GRAIN_POINTS ? GRAIN_POINTS / elements : 1; }

static int64_t magnitude(int64_t n) { return n < 0 ? -n : n; }

/* Describes the dims over which signals are counted: dims of size 1 are dropped, the rest is sorted by the strides of
 * the input, and neighbours that can be one dim are merged. */
static void walk_init(const shmt__fft_request* r, shmt__loop_nest* w) {
  int n = 0;

  for (int d = 0; d < r->n_dims; d++) {
    int at = n;
    if (r->sizes[d] == 1) continue;
    for (; at > 0 && magnitude(r->in.strides[d]) <= magnitude(w->from[at - 1]); at--) {
    }
    for (int i = n++; i > at; i--) w->sizes[i] = w->sizes[i - 1], w->from[i] = w->from[i - 1], w->to[i] = w->to[i - 1];
    w->sizes[at] = r->sizes[d];
    w->from[at] = r->in.strides[d];
    w->to[at] = r->out.strides[d];
  }
  w->n_dims = 0;
  for (int d = 0; d < n; d++) {
    const int last = w->n_dims - 1;
    if (last >= 0 && w->from[d] == w->from[last] * w->sizes[last] && w->to[d] == w->to[last] * w->sizes[last]) {
      w->sizes[last] *= w->sizes[d];
    } else {
      w->sizes[w->n_dims] = w->sizes[d];
      w->from[w->n_dims] = w->from[d];
      w->to[w->n_dims++] = w->to[d];
    }
  }
}

/* Where the signal at the cursor begins. */
static char* signal_in(const signals_job* j, const shmt__cursor* c) {
  return (char*)j->r->in.data + (j->in + c->from) * j->part_bytes;
}
static char* signal_out(const signals_job* j, const shmt__cursor* c) {
  return (char*)j->r->out.data + (j->out + c->to) * j->part_bytes;
}

/* --- blocks of signals -------------------------------------------------------------------------- */

/* Addresses of the signals of a block in one tensor. apart: bytes between neighbours, or 0 when the distance varies. */
typedef struct addresses {
  char* at[SHMT_FFT_LANES];
  int64_t apart;
} addresses;

/* Finds `count` signals from c on, in both tensors, and moves c behind them. */
static void next_signals(const signals_job* j, shmt__cursor* c, int64_t count, addresses* in, addresses* out) {
  const int64_t lanes = j->lanes, part = j->part_bytes;
  const shmt__loop_nest* w = &j->dims;

  if (count == lanes && w->n_dims > 0 && c->at[0] + lanes <= w->sizes[0]) {
    in->apart = w->from[0] * part;
    out->apart = w->to[0] * part;
    for (int64_t l = 0; l < lanes; l++) in->at[l] = signal_in(j, c) + l * in->apart;
    for (int64_t l = 0; l < lanes; l++) out->at[l] = signal_out(j, c) + l * out->apart;
    c->at[0] += lanes - 1;
    c->from += (lanes - 1) * w->from[0];
    c->to += (lanes - 1) * w->to[0];
    shmt__cursor_next(c, w);
    return;
  }
  for (int64_t l = 0; l < lanes; l++) {
    in->at[l] = signal_in(j, c);
    out->at[l] = signal_out(j, c);
    if (l + 1 < count) shmt__cursor_next(c, w);
  }
  shmt__cursor_next(c, w);
  /* A single signal is treated like a column. */
  in->apart = lanes > 1 ? in->at[1] - in->at[0] : 2 * part;
  out->apart = lanes > 1 ? out->at[1] - out->at[0] : 2 * part;
  for (int64_t l = 1; l < lanes; l++) {
    if (in->at[l] != in->at[0] + l * in->apart) in->apart = 0;
    if (out->at[l] != out->at[0] + l * out->apart) out->apart = 0;
  }
}

/* Describes signals whose real parts are at re and whose imaginary parts are at im. columns: the distance between
 * neighbours, in bytes, that makes them columns. */
static void place(const signals_job* j, const addresses* re, const addresses* im, int64_t im_offset, int64_t step,
                  int64_t columns, shmt__fft_layout columns_layout, shmt__fft_layout dense_layout, bool is_dense,
                  shmt__fft_place* p) {
  const int64_t lanes = j->lanes;

  p->step = step;
  for (int64_t l = 0; l < lanes; l++) p->re[l] = re->at[l];
  for (int64_t l = 0; l < lanes; l++) p->im[l] = im->at[l] + im_offset;
  p->layout = re->apart == columns && im->apart == columns ? columns_layout
              : is_dense                                   ? dense_layout
                                                           : SHMT_FFT_SCATTERED;
}

/* Describes complex signals. */
static void place_complex(const signals_job* j, const addresses* at, int64_t step, shmt__fft_place* p) {
  place(j, at, at, j->part_bytes, step, 2 * j->part_bytes, SHMT_FFT_COLUMNS, SHMT_FFT_DENSE, step == 2, p);
}

/* Describes real signals of even length: neighbours are the parts of one complex number. */
static void place_even(const signals_job* j, const addresses* at, int64_t step, shmt__fft_place* p) {
  place(j, at, at, step * j->part_bytes, 2 * step, j->part_bytes, SHMT_FFT_COLUMNS_PARTS, SHMT_FFT_DENSE, step == 1, p);
}

/* Describes real signals of odd length: two of them are the parts of one complex signal. */
static void place_pair(const signals_job* j, const addresses* at, int64_t step, shmt__fft_place* p) {
  place(j, &at[0], &at[1], 0, step, j->part_bytes, SHMT_FFT_COLUMNS_PARTS, SHMT_FFT_DENSE_PARTS, step == 1, p);
}

static bool is_paired(const shmt__fft_request* r) { return r->form != SHMT_FFT_C2C && r->length % 2 != 0; }

static bool are_dense(const shmt__fft_request* r) {
  const int64_t in = r->form == SHMT_FFT_C2C || r->form == SHMT_FFT_C2R ? 2 : 1, out = r->form == SHMT_FFT_C2R ? 1 : 2;
  return r->in.step == in && r->out.step == out;
}

static shmt__fft_kind kind_of(const shmt__fft_request* r) {
  const int64_t step = r->in.step > r->out.step ? r->in.step : r->out.step;
  const int64_t span = step > 2 ? step * r->length * (shmt__dtype_size[r->dtype] / 2) : 0;
  /* The parts are interleaved where keeping them apart would leave the first-level cache, although the blocks of fewer
   * signals then begin more often. But long columns touch so many pages that twice as many signals at once are worth
   * more. */
  if (r->form == SHMT_FFT_C2C)
    return 2 * r->length * shmt__fft_element_bytes() > NEAR_BYTES && span <= FAR_BYTES ? SHMT_FFT_INTERLEAVED
                                                                                       : SHMT_FFT_COMPLEX;
  if (r->form == SHMT_FFT_C2R) return is_paired(r) ? SHMT_FFT_C2R_PAIR : SHMT_FFT_C2R_EVEN;
  return is_paired(r) ? SHMT_FFT_R2C_PAIR : SHMT_FFT_R2C_EVEN;
}

static void place_block(const signals_job* j, shmt__fft_block* b, shmt__cursor* c, int64_t count) {
  const int64_t lanes = j->lanes, in_step = j->r->in.step, out_step = j->r->out.step;
  addresses in[2], out[2];

  next_signals(j, c, count < lanes ? count : lanes, &in[0], &out[0]);
  if (is_paired(j->r)) {
    in[1] = in[0];
    out[1] = out[0];
    if (count > lanes) next_signals(j, c, count - lanes, &in[1], &out[1]);
  }
  switch (b->kind) {
    case SHMT_FFT_COMPLEX:
    case SHMT_FFT_INTERLEAVED:
      place_complex(j, &in[0], in_step, &b->in[0]);
      place_complex(j, &out[0], out_step, &b->out[0]);
      break;
    case SHMT_FFT_R2C_EVEN:
      place_even(j, &in[0], in_step, &b->in[0]);
      place_complex(j, &out[0], out_step, &b->out[0]);
      break;
    case SHMT_FFT_C2R_EVEN:
      place_complex(j, &in[0], in_step, &b->in[0]);
      place_even(j, &out[0], out_step, &b->out[0]);
      break;
    case SHMT_FFT_R2C_PAIR:
      place_pair(j, in, in_step, &b->in[0]);
      for (int i = 0; i < 2; i++) place_complex(j, &out[i], out_step, &b->out[i]);
      break;
    case SHMT_FFT_C2R_PAIR:
      for (int i = 0; i < 2; i++) place_complex(j, &in[i], in_step, &b->in[i]);
      place_pair(j, out, out_step, &b->out[0]);
      break;
  }
}

/* How many signals a block has. */
static int64_t block_signals(const signals_job* j) { return j->lanes * (is_paired(j->r) ? 2 : 1); }

/* How many blocks, up to `most`, follow the one at c with all signals at the same distance from those of the block
 * before. */
static int64_t blocks_alike(const signals_job* j, const shmt__cursor* c, int64_t most) {
  const int64_t whole = j->dims.n_dims > 0 ? (j->dims.sizes[0] - c->at[0] - 1) / block_signals(j) - 1 : 0;
  const int64_t count = whole < most ? whole : most;

  return count > 0 ? count : 0;
}

/* Moves the cursor on over n blocks like the one behind it. */
static void skip_blocks(const signals_job* j, shmt__cursor* c, int64_t n) {
  const int64_t signals = n * block_signals(j);

  c->at[0] += signals;
  c->from += signals * j->dims.from[0];
  c->to += signals * j->dims.to[0];
}

static shmt_status run_signal_blocks(const signals_job* j, int64_t begin, int64_t end) {
  const int64_t signals = block_signals(j), n = j->plan->key.length;
  shmt__fft_block b = {.steps = &j->plan->steps,
                       .kind = kind_of(j->r),
                       .is_forward = j->r->is_forward,
                       .is_whole = j->r->form == SHMT_FFT_R2C_WHOLE,
                       .real_twiddles = j->plan->real_twiddles,
                       .scale = j->r->scale,
                       .room = n + 1};
  const int64_t next = j->dims.n_dims > 0 ? signals * j->part_bytes : 0;
  const uint64_t nbytes = (uint64_t)((2 * b.room + n) * j->lanes * 2 * j->part_bytes);
  shmt__cursor c;
  shmt__cursor_init(&c, &j->dims, begin);
  _Alignas(64) char room[ROOM_BYTES];
  void* scratch = room;

  for (int i = 0; i < 2; i++) {
    b.in[i].next = next * j->dims.from[0];
    b.out[i].next = next * j->dims.to[0];
  }
  if (nbytes > ROOM_BYTES) SHMT_TRY(shmt__alloc(nbytes, &scratch));
  for (int64_t at = begin; at < end;) {
    const int64_t more = blocks_alike(j, &c, (end - at) / signals - 1);
    place_block(j, &b, &c, end - at < signals ? end - at : signals);
    if (more > 0) skip_blocks(j, &c, more);
    const int loop = b.kind == SHMT_FFT_INTERLEAVED ? SHMT_LOOP_fft_interleaved : SHMT_LOOP_fft_block;
    shmt__loops[loop][j->r->dtype]((char*[]){scratch}, NULL, more + 1, &b);
    at += (more + 1) * signals;
  }
  if (scratch != room) shmt__dealloc(scratch, nbytes);
  return SHMT_OK;
}

/* --- one signal at a time ----------------------------------------------------------------------- */

static void call(shmt__fft_request const* r, int loop, char* const* data, int64_t step, int64_t n, const void* ctx) {
  shmt__loops[loop][r->dtype](data, &step, n, ctx);
}

static shmt_status run_complex(const signals_job* j, char* in, char* out, char* work) {
  const shmt__fft_request* r = j->r;
  const int64_t n = r->length;
  char* const to = r->out.step == 2 ? out : work;

  if (r->in.step != 2)
    call(r, SHMT_LOOP_fft_gather, (char*[]){work, in, in + j->part_bytes}, r->in.step, n, NULL);
  SHMT_TRY(shmt__fft_one_signal_run(j->plan, r->in.step == 2 ? in : work, to, r->is_forward, r->scale));
  if (r->out.step != 2)
    call(r, SHMT_LOOP_fft_scatter, (char*[]){out, out + j->part_bytes, work}, r->out.step, n, NULL);
  return SHMT_OK;
}

static shmt_status run_from_real(const signals_job* j, char* in, char* out, char* work) {
  const shmt__fft_request* r = j->r;
  const bool is_whole = r->form == SHMT_FFT_R2C_WHOLE, is_even = !is_paired(r);
  const int64_t n = r->length, results = is_whole ? n : n / 2 + 1, step = r->in.step;
  const bool direct = r->out.step == 2 && is_even;
  char *const to = direct ? out : work, *from = in;

  if (!is_even || step != 1) {
    from = work;
    if (is_even)
      call(r, SHMT_LOOP_fft_gather, (char*[]){work, in, in + step * j->part_bytes}, 2 * step, n / 2, NULL);
    else
      call(r, SHMT_LOOP_fft_gather, (char*[]){work, in, NULL}, step, n, NULL);
  }
  if (is_even) {
    const shmt__fft_pass pass = {.factor = j->plan->real_twiddles, .is_forward = r->is_forward, .is_whole = is_whole};
    SHMT_TRY(shmt__fft_one_signal_run(j->plan, from, to, true, r->scale));
    call(r, SHMT_LOOP_fft_r2c_even, (char*[]){to}, 0, n / 2, &pass);
  } else {
    SHMT_TRY(shmt__fft_one_signal_run(j->plan, from, to, r->is_forward, r->scale));
  }
  if (!direct)
    call(r, SHMT_LOOP_fft_scatter, (char*[]){out, out + j->part_bytes, work}, r->out.step, results, NULL);
  return SHMT_OK;
}

/* Transforms two real signals as the two parts of one. *done stays false when they hold an infinity or a NaN. Results
 * may be strided. */
static shmt_status run_pair_from_real(const signals_job* j, char* const in[2], char* const out[2], char* work,
                                      bool* done) {
  const shmt__fft_request* r = j->r;
  const shmt__fft_pass pass = {.is_forward = r->is_forward, .is_whole = r->form == SHMT_FFT_R2C_WHOLE};
  char is_infinite = 0;

  call(r, SHMT_LOOP_fft_gather, (char*[]){work, in[0], in[1]}, r->in.step, r->length, NULL);
  SHMT_TRY(shmt__fft_one_signal_run(j->plan, work, work, true, r->scale));
  call(r, SHMT_LOOP_fft_r2c_pair, (char*[]){out[0], out[1], work, &is_infinite}, r->out.step, r->length, &pass);
  *done = is_infinite == 0;
  return SHMT_OK;
}

static shmt_status run_to_real(const signals_job* j, char* in, char* out, char* work) {
  const shmt__fft_request* r = j->r;
  const int64_t n = r->length, step = r->out.step;
  char* const imaginary = in + j->part_bytes;

  if (is_paired(r)) {
    call(r, SHMT_LOOP_fft_mirror, (char*[]){work, in, imaginary}, r->in.step, n, NULL);
    SHMT_TRY(shmt__fft_one_signal_run(j->plan, work, work, false, r->scale));
    call(r, SHMT_LOOP_fft_scatter, (char*[]){out, NULL, work}, step, n, NULL);
    return SHMT_OK;
  }
  char* const to = step == 1 ? out : work;
  char* from = in;
  if (r->in.step != 2) {
    from = work + n * j->part_bytes;
    call(r, SHMT_LOOP_fft_gather, (char*[]){from, in, imaginary}, r->in.step, n / 2 + 1, NULL);
  }
  SHMT_TRY(shmt__fft_one_signal_c2r_even(j->plan, from, to, r->scale));
  if (step != 1)
    call(r, SHMT_LOOP_fft_scatter, (char*[]){out, out + step * j->part_bytes, work}, 2 * step, n / 2, NULL);
  return SHMT_OK;
}

/* Can signals be transformed without scratch for a copy? */
static bool are_in_place(const shmt__fft_request* r) { return !is_paired(r) && are_dense(r); }

/* How many signals are transformed together where they are not in lanes. */
static int64_t signals_at_once(const shmt__fft_request* r) { return is_paired(r) && r->form != SHMT_FFT_C2R ? 2 : 1; }

/* Transforms the next one or two signals. */
static shmt_status run_next(const signals_job* j, shmt__cursor* c, int64_t count, char* work) {
  const shmt__fft_request* r = j->r;
  char *in[2], *out[2];
  bool done = false;

  for (int64_t i = 0; i < count; i++, shmt__cursor_next(c, &j->dims)) {
    in[i] = signal_in(j, c);
    out[i] = signal_out(j, c);
  }
  if (count == 2) SHMT_TRY(run_pair_from_real(j, in, out, work, &done));
  for (int64_t i = 0; i < count && !done; i++)
    SHMT_TRY((r->form == SHMT_FFT_C2C   ? run_complex
              : r->form == SHMT_FFT_C2R ? run_to_real
                                        : run_from_real)(j, in[i], out[i], work));
  return SHMT_OK;
}

/* Transforms signals one by one (or two by two). */
static shmt_status run_one_by_one(const signals_job* j, int64_t begin, int64_t end) {
  const uint64_t nbytes = are_in_place(j->r) ? 0 : (uint64_t)(2 * (j->r->length + 2) * j->part_bytes);
  const int64_t at_once = signals_at_once(j->r);
  shmt__cursor c;
  shmt__cursor_init(&c, &j->dims, begin);
  shmt_status status = SHMT_OK;
  void* work = NULL;

  SHMT_TRY(shmt__alloc(nbytes, &work));
  for (; begin < end && status == SHMT_OK; begin += at_once)
    status = run_next(j, &c, end - begin < at_once ? end - begin : at_once, work);
  shmt__dealloc(work, nbytes);
  return status;
}

/* Transforms short dense signals: those along the innermost dim with one call. */
static void run_short(const signals_job* j, int64_t begin, int64_t end) {
  const shmt__loop_nest* w = &j->dims;
  const int64_t part = j->part_bytes;
  const int64_t strides[2] = {w->n_dims > 0 ? w->to[0] * part : 0, w->n_dims > 0 ? w->from[0] * part : 0};
  shmt__cursor c;
  shmt__cursor_init(&c, w, begin);

  while (begin < end) {
    const int64_t left = w->n_dims > 0 ? w->sizes[0] - c.at[0] : 1, count = end - begin < left ? end - begin : left;
    char* data[2] = {signal_out(j, &c), signal_in(j, &c)};
    shmt__fft_short_run(j->plan, data, strides, count, j->r->is_forward, j->r->scale);
    begin += count;
    if (begin == end) return;
    c.at[0] += count - 1;
    c.from += (count - 1) * w->from[0];
    c.to += (count - 1) * w->to[0];
    shmt__cursor_next(&c, w);
  }
}

/* --- all signals -------------------------------------------------------------------------------- */

/* Divides columns into two jobs: the whole blocks of each row, and the columns left over in all rows. A block that went
 * on in the next row would load its numbers one by one. */
static void divide_columns(workload* w) {
  signals_job *const whole = &w->jobs[0], *const rest = &w->jobs[1];
  const int64_t columns = whole->dims.n_dims > 1 ? whole->dims.sizes[0] : 0, left = columns % block_signals(whole);
  const int64_t rows = columns ? whole->n_signals / columns : 0;

  if (left == columns || left == 0 || are_dense(whole->r) || rows < 2 * block_signals(whole)) return;
  *rest = *whole;
  whole->dims.sizes[0] = w->signals[0] = columns - left;
  whole->n_signals = rows * w->signals[0];
  rest->dims.sizes[0] = w->signals[1] = left;
  rest->n_signals = rows * left;
  rest->in = w->signals[0] * rest->dims.from[0];
  rest->out = w->signals[0] * rest->dims.to[0];
}

static shmt_status run_job(const signals_job* j, int64_t begin, int64_t end) {
  if (j->plan->algorithm == SHMT_FFT_IN_LANES) return run_signal_blocks(j, begin, end);
  if (j->plan->algorithm != SHMT_FFT_IN_REGISTERS || j->r->form != SHMT_FFT_C2C || !are_in_place(j->r))
    return run_one_by_one(j, begin, end);
  run_short(j, begin, end);
  return SHMT_OK;
}

static void run_pieces(void* ctx, int64_t begin, int64_t end) {
  workload* w = ctx;

  for (int i = 0; i < 2 && w->signals[i]; i++) {
    const signals_job* const j = &w->jobs[i];
    const int64_t signals = w->signals[i], last = end * signals < j->n_signals ? end * signals : j->n_signals;
    const shmt_status status = run_job(j, begin * signals, last);
    /* relaxed: read after the pool has joined. */
    if (status != SHMT_OK) atomic_store_explicit(&w->failed, (int)status, memory_order_relaxed);
  }
}

shmt_status shmt__fft_run(const shmt__fft_request* r) {
  SHMT_AUTO(shmt__fft_plan) plan = NULL;
  const bool is_even = r->form != SHMT_FFT_C2C && r->length % 2 == 0;
  const bool is_interleaved = kind_of(r) == SHMT_FFT_INTERLEAVED;
  workload w;
  signals_job* const j = &w.jobs[0];

  atomic_init(&w.failed, SHMT_OK);
  j->r = r;
  j->n_signals = 1;
  j->part_bytes = shmt__dtype_size[r->dtype] / 2;
  j->lanes = shmt__fft_lanes(r->dtype) / (is_interleaved ? 2 : 1);
  j->in = j->out = 0;
  for (int d = 0; d < r->n_dims; d++) j->n_signals *= r->sizes[d];
  if (j->n_signals == 0) return SHMT_OK;
  /* Two real signals of a pair are one complex signal. */
  const int64_t at_once = is_paired(r) ? (j->n_signals + 1) / 2 : j->n_signals;
  SHMT_TRY(shmt__fft_plan_find((shmt__fft_key){.length = is_even ? r->length / 2 : r->length,
                                               .dtype = r->dtype,
                                               .signals = at_once < SHMT_FFT_LANES ? (int)at_once : SHMT_FFT_LANES,
                                               .has_real_twiddles = is_even,
                                               .is_interleaved = is_interleaved,
                                               .is_strided = r->in.step > 2 || r->out.step > 2},
                               &plan));
  j->plan = plan;
  walk_init(r, &j->dims);
  const bool in_lanes = plan->algorithm == SHMT_FFT_IN_LANES, is_single = !in_lanes && j->n_signals == 1;
  const int64_t n_signals = j->n_signals;
  w.signals[0] = in_lanes ? block_signals(j) : signals_at_once(r);
  w.signals[1] = 0;
  if (in_lanes) divide_columns(&w);
  const int64_t signals = w.signals[0] + w.signals[1];
  if (is_single)
    run_pieces(&w, 0, 1); /* a single signal divides its own parts between threads */
  else
    shmt__parallel_for((n_signals + signals - 1) / signals, grain(signals * r->length), run_pieces, &w);
  /* relaxed: the pool has joined. */
  SHMT_REQUIRE(atomic_load_explicit(&w.failed, memory_order_relaxed) == SHMT_OK, SHMT_E_NOMEM,
               "scratch of a Fourier transform");
  return SHMT_OK;
}
