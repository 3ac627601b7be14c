/* ops/shape/table_gather.c -- gathers the last dims by tables of indices, one table for each dim; and the gradient.
 *
 * Rows, along the last of these dims, are read in place. Where channels come last (NHWC) an element of a row is a
 * pixel.
 */
#include "ops/shape/table_gather.h"

#include "generated/loops.h"
#include "iter/iter.h"
#include "iter/copy/move.h"
#include "iter/copy/pack.h"
#include "kernels/loop_args.h"
#include "ops/check.h"
#include "ops/indexing/index_iterator.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
  GRAIN_ELEMENTS = 16384,
  SHORT_ROW = 32, /* with rows of fewer elements a walk over rows does not pay */
  TABLE = 1024,   /* elements of a plane for which one table of all offsets is made */
};

shmt_status shmt__index_table_init(shmt__index_table* p, int64_t in, int64_t out) {
  p->in = in;
  p->out = out;
  p->at = calloc((size_t)out + 1, 2 * sizeof *p->at);
  p->starts = calloc((size_t)in + 2, sizeof *p->starts);
  p->list = p->at ? p->at + out + 1 : NULL;
  SHMT_REQUIRE(p->at && p->starts, SHMT_E_NOMEM, "the places of %" PRId64 " elements of %" PRId64, out, in);
  return SHMT_OK;
}

void shmt__index_table_fini(shmt__index_table* p) {
  free(p->at);
  free(p->starts);
}

/* Lists, for each source element, the elements that are gathered from it. */
static void invert_table(shmt__index_table* p) {
  for (int64_t i = 0; i < p->out; i++) p->starts[p->at[i] + 2]++;
  for (int64_t k = 2; k < p->in + 2; k++) p->starts[k] += p->starts[k - 1];
  for (int64_t i = 0; i < p->out; i++) p->list[p->starts[p->at[i] + 1]++] = i;
}

/* Makes rows of `to`, which is dense, from those of `from`. The dims are outer ones, the gathered ones, and inner
 * elements. */
typedef struct gather_job {
  shmt__part from;
  char* to;
  const shmt__index_table* tables;
  int n, n_outer;
  bool is_backward;        /* `to` has the sizes before the gather */
  int64_t rows, inner; /* of `to`; numbers of an element of a row */
  int64_t row_bytes;   /* of `to` */
  shmt_dtype dtype;
  const int64_t* table; /* for short rows: the source offsets of all elements of a plane of `to` */
  int64_t plane[2];     /* elements of a plane of `to`, and of `from` */
  atomic_bool failed;   /* out of memory */
} gather_job;

/* Elements of `to` along gathered dim d. */
static int64_t length_of(const gather_job* j, int d) { return j->is_backward ? j->tables[d].in : j->tables[d].out; }

static int64_t step_of(const gather_job* j, int d) { return j->from.strides[j->n_outer + d]; }

/* Finds row r: its position along the gathered dims but the last, and the data of its outer dims. */
static char* find_row(const gather_job* j, int64_t r, int64_t position[SHMT_TABLE_GATHER_DIMS]) {
  for (int d = j->n - 2; d >= 0; d--) {
    position[d] = r % length_of(j, d);
    r /= length_of(j, d);
  }
  return j->from.data + shmt__part_offset(&j->from, j->n_outer, r);
}

/* --- forward ------------------------------------------------------------------------------------ */

static void gather_row(const gather_job* j, char* to, char* from) {
  const shmt__index_table* p = &j->tables[j->n - 1];
  const int64_t item = j->from.item, step = step_of(j, j->n - 1);

  if (j->inner == 1 && step == item) {
    shmt__move_loop_of_size(SHMT_LOOP_gather_checked, item)((char*[]){to, from, (char*)p->at}, NULL, p->out,
                                                            (int64_t[]){p->in, 1});
    return;
  }
  if (j->inner == 1) {
    shmt__bad_index bad = {0};
    const shmt__index_args shape = {.stride = step, .size = p->in, .bad = &bad};
    shmt__move_loop_of_size(SHMT_LOOP_gather, item)((char*[]){to, from, (char*)p->at}, (int64_t[]){item, 0, 8}, p->out,
                                                    &shape);
    return;
  }
  const int64_t inner_step = j->from.strides[j->from.n_dims - 1];
  if (inner_step == item && step == j->inner * item) {
    for (int64_t i = 0, n; i < p->out; i += n, to += n * step) { /* copy neighbours together */
      for (n = 1; i + n < p->out && p->at[i + n] == p->at[i] + n;) n++;
      memcpy(to, from + p->at[i] * step, (size_t)(n * step));
    }
    return;
  }
  for (int64_t i = 0; i < p->out; i++, to += j->inner * item)
    shmt__move_elements(to, item, from + p->at[i] * step, inner_step, j->inner, item);
}

static void gather_rows(void* ctx, int64_t begin, int64_t end) {
  const gather_job* j = ctx;
  const char* before = NULL;

  for (int64_t r = begin; r < end; r++) {
    int64_t position[SHMT_TABLE_GATHER_DIMS];
    char *from = find_row(j, r, position), *to = j->to + r * j->row_bytes;
    for (int d = 0; d < j->n - 1; d++) from += j->tables[d].at[position[d]] * step_of(j, d);
    if (from == before)
      memcpy(to, to - j->row_bytes, (size_t)j->row_bytes);
    else
      gather_row(j, to, from);
    before = from;
  }
}

/* Fills `table`, with room for TABLE, where rows are short and planes are dense. Returns whether it did. */
static bool make_table(gather_job* j, int64_t* table) {
  const shmt__index_table* last = &j->tables[j->n - 1];

  if (j->inner != 1 || last->out >= SHORT_ROW || !shmt__part_is_dense(&j->from)) return false;
  j->plane[0] = j->plane[1] = 1;
  for (int d = 0; d < j->n; d++) {
    j->plane[0] *= j->tables[d].out;
    j->plane[1] *= j->tables[d].in;
  }
  if (j->plane[0] > TABLE) return false;
  for (int64_t i = 0; i < j->plane[0]; i++) {
    int64_t rest = i, step = 1;
    table[i] = 0;
    for (int d = j->n - 1; d >= 0; d--) {
      table[i] += j->tables[d].at[rest % j->tables[d].out] * step;
      step *= j->tables[d].in;
      rest /= j->tables[d].out;
    }
  }
  j->table = table;
  return true;
}

static void gather_planes(void* ctx, int64_t begin, int64_t end) {
  const gather_job* j = ctx;
  const int64_t item = j->from.item;

  shmt__move_loop_of_size(SHMT_LOOP_gather_checked, item)(
      (char*[]){j->to + begin * j->plane[0] * item, j->from.data + begin * j->plane[1] * item,
                (char*)(uintptr_t)j->table},
      NULL, j->plane[0], (int64_t[]){j->plane[1], end - begin});
}

/* --- backward ----------------------------------------------------------------------------------- */

static void add_row(const gather_job* j, char* sums, char* from, bool is_first) {
  const shmt__loop loop = shmt__loops[is_first ? SHMT_LOOP_table_gather_set : SHMT_LOOP_table_gather_add][j->dtype];
  const int64_t n = j->tables[j->n - 1].out, step = step_of(j, j->n - 1), item = j->from.item;
  const int64_t wide = shmt__dtype_size[shmt__is_half(j->dtype) ? SHMT_FLOAT32 : j->dtype];
  const int64_t inner_step = j->inner == 1 ? step : j->from.strides[j->from.n_dims - 1];

  if (j->inner == 1 || (inner_step == item && step == j->inner * item)) {
    loop((char*[]){sums, from}, (int64_t[]){wide, inner_step}, n * j->inner, NULL);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    loop((char*[]){sums + i * j->inner * wide, from + i * step}, (int64_t[]){wide, inner_step}, j->inner, NULL);
}

/* Sums a row over all combinations of the other dims' lists, then along the last dim. */
static void sum_row(const gather_job* j, int64_t r, char* sums) {
  const shmt__index_table* last = &j->tables[j->n - 1];
  const shmt__table_gather_args shape = {last->starts, last->list, j->inner};
  int64_t position[SHMT_TABLE_GATHER_DIMS], counts[SHMT_TABLE_GATHER_DIMS], many = 1;
  char* from = find_row(j, r, position);

  for (int d = 0; d < j->n - 1; d++) {
    counts[d] = j->tables[d].starts[position[d] + 1] - j->tables[d].starts[position[d]];
    many *= counts[d];
  }
  if (many == 0) memset(j->to + r * j->row_bytes, 0, (size_t)j->row_bytes);
  for (int64_t k = 0; k < many; k++) {
    int64_t offset = 0, rest = k;
    for (int d = j->n - 2; d >= 0; d--) {
      const shmt__index_table* p = &j->tables[d];
      offset += p->list[p->starts[position[d]] + rest % counts[d]] * step_of(j, d);
      rest /= counts[d];
    }
    add_row(j, sums, from + offset, k == 0);
  }
  if (many > 0)
    shmt__loops[SHMT_LOOP_table_gather_sum][j->dtype]((char*[]){j->to + r * j->row_bytes, sums}, NULL, last->in,
                                                      &shape);
}

static void sum_rows(void* ctx, int64_t begin, int64_t end) {
  gather_job* j = ctx;
  const int64_t wide = shmt__dtype_size[shmt__is_half(j->dtype) ? SHMT_FLOAT32 : j->dtype];
  const uint64_t nbytes = (uint64_t)(j->tables[j->n - 1].out * j->inner * wide);
  void* sums = NULL;

  if (shmt__alloc(nbytes, &sums) != SHMT_OK) {
    atomic_store_explicit(&j->failed, true, memory_order_relaxed); /* read after the pieces are done */
    return;
  }
  for (int64_t r = begin; r < end; r++) sum_row(j, r, sums);
  shmt__dealloc(sums, nbytes);
}

/* --- both --------------------------------------------------------------------------------------- */

static shmt_status run_table_gather(shmt_tensor* from, const shmt__index_table* tables, int n, bool is_backward,
                                    shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t sizes[SHMT_MAX_DIMS], table[TABLE];
  const shmt_memory_format format =
      n == from->n_dims - 2 ? shmt__tensor_suggest_format(from) : SHMT_CONTIGUOUS_FORMAT;
  gather_job j = {.tables = tables,
                  .n = n,
                  .n_outer = from->n_dims - n,
                  .is_backward = is_backward,
                  .inner = 1,
                  .dtype = from->dtype};

  memcpy(sizes, from->sizes, (size_t)from->n_dims * sizeof *sizes);
  for (int d = 0; d < n; d++) sizes[j.n_outer + d] = length_of(&j, d);
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, from->n_dims}, from->dtype, from->device, format, &result));
  if (!shmt__tensor_is_meta(from) && result->numel > 0) {
    shmt__part_init(&j.from, from, format);
    j.to = shmt__tensor_data(result);
    if (format != SHMT_CONTIGUOUS_FORMAT) {
      j.n_outer = 1;
      j.inner = from->sizes[1];
    }
    j.row_bytes = length_of(&j, n - 1) * j.inner * j.from.item;
    j.rows = result->numel * j.from.item / j.row_bytes;
    if (!is_backward && make_table(&j, table)) {
      shmt__parallel_for(result->numel / j.plane[0], GRAIN_ELEMENTS / j.plane[0] + 1, gather_planes, &j);
      *out = SHMT_TAKE(result);
      return SHMT_OK;
    }
    shmt__parallel_for(j.rows, GRAIN_ELEMENTS / (j.row_bytes / j.from.item) + 1, is_backward ? sum_rows : gather_rows,
                       &j);
    SHMT_REQUIRE(!atomic_load_explicit(&j.failed, memory_order_relaxed), SHMT_E_NOMEM, "sums of a row of %" PRId64
                 " elements", j.tables[n - 1].out * j.inner);
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__table_gather(shmt_tensor* self, const shmt__index_table* tables, int n, shmt_tensor** out) {
  return run_table_gather(self, tables, n, false, out);
}

shmt_status shmt__table_gather_backward(const char* name, shmt_tensor* grad, shmt__index_table* tables, int n,
                                        shmt_tensor** out) {
  SHMT_REQUIRE_LOOP(SHMT_LOOP_table_gather_sum, grad->dtype, name);
  for (int d = 0; d < n; d++) invert_table(&tables[d]);
  return run_table_gather(grad, tables, n, true, out);
}
