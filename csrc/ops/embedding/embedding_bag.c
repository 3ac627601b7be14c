/* ops/embedding/embedding_bag.c -- sums, dot products and maxima of rows, for embedding_bag and its gradients.
 *
 * Two lists of row indices make pairs: pair i takes row from[i] of one matrix to row to[i] of another. No tensor of the
 * rows taken is made. The threads divide the columns, or the pairs where each has a result of its own. Sums are added
 * in the order of the pairs.
 */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/operator_loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/check.h"
#include "ops/indexing/index_iterator.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <string.h>

enum {
  COLUMNS = 256, /* at a time, where flags or sums in float32 are needed */
  GRAIN_PRODUCTS = 1 << 15,
};

/* A matrix as bytes: steps between rows and between columns. */
typedef struct matrix {
  char* data;
  int64_t rows, columns, row_step, step;
} matrix;

typedef struct pairs_job {
  matrix in, out;
  const volatile int64_t *from, *to; /* another process may change them: each is read once, and checked */
  int64_t pairs;
  const char* factors; /* NULL: none */
  int64_t factor_step;
  shmt_dtype dtype;
  char* results;      /* of dot products */
  int64_t* winners;   /* of maxima: row indices, with the strides of out */
  shmt__bad_index bad;
} pairs_job;

static matrix matrix_of(const shmt_tensor* t) {
  const int64_t item = shmt__tensor_item_bytes(t);

  return (matrix){shmt__tensor_data(t), t->sizes[0], t->sizes[1], shmt__wrap_mul_i64(t->strides[0], item),
                  shmt__wrap_mul_i64(t->strides[1], item)};
}

static char* at(const matrix* m, int64_t row, int64_t column) { return m->data + row * m->row_step + column * m->step; }

/* Finds the rows of pair i. Returns false, and reports, when there is no such row. */
static bool find_pair(pairs_job* j, int64_t i, int64_t* from, int64_t* to) {
  *from = j->from[i];
  *to = j->to[i];
  const bool fits = (uint64_t)*from < (uint64_t)j->in.rows && (uint64_t)*to < (uint64_t)j->out.rows;
  if (!fits) {
    __atomic_store_n(&j->bad.value, (uint64_t)*from < (uint64_t)j->in.rows ? *to : *from, __ATOMIC_RELAXED);
    __atomic_store_n(&j->bad.found, true, __ATOMIC_RELAXED);
  }
  return fits;
}

/* A list of row indices: dense, int64. New reference. */
static shmt_status row_indices(shmt_tensor* list, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) own_wide = NULL;
  shmt_tensor* wide = NULL;

  SHMT_TRY(shmt__index_as_int64(list, &own_wide, &wide));
  return shmt__tensor_contiguous(wide, SHMT_CONTIGUOUS_FORMAT, out);
}

/* self: a matrix; from, to: lists of the same length. The lists for the job are new references. */
static shmt_status prepare_embedding_bag(const char* name, const shmt_tensor* self, shmt_tensor* from, shmt_tensor* to,
                                         shmt_tensor** first, shmt_tensor** second) {
  SHMT_REQUIRE(self->n_dims == 2 && from->n_dims == 1 && shmt__same_sizes(from, to), SHMT_E_RUNTIME,
               "%s: rows of shape %s taken from %s to %s", name, SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(from),
               SHMT_SHAPE_TEXT(to));
  SHMT_REFUSE_DTYPE(shmt__is_complex(self->dtype), self->dtype, "embedding_bag");
  SHMT_TRY(row_indices(from, first));
  return row_indices(to, second);
}

static shmt_status check_pairs(const char* name, const pairs_job* j) {
  SHMT_REQUIRE(!j->bad.found, SHMT_E_INDEX, "%s: row %" PRId64 " is out of range", name, j->bad.value);
  return SHMT_OK;
}

/* Columns that are worth a thread. */
static int64_t grain(const pairs_job* j) { return GRAIN_PRODUCTS / (j->pairs + 1) + 16; }

/* --- sums --------------------------------------------------------------------------------------- */

static void add_columns(void* ctx, int64_t begin, int64_t end) {
  pairs_job* j = ctx;
  const shmt__loop add = shmt__loops[SHMT_LOOP_add][j->dtype];
  const int64_t strides[3] = {j->out.step, j->out.step, j->in.step};
  int64_t from, to;

  for (int64_t i = 0; i < j->pairs; i++) {
    if (!find_pair(j, i, &from, &to)) continue;
    const shmt_scalar alpha =
        j->factors ? shmt__scalar_load(j->factors + i * j->factor_step, j->dtype) : shmt__scalar_int(1);
    char* const sum = at(&j->out, to, begin);
    add((char* const[]){sum, sum, at(&j->in, from, begin)}, strides, end - begin, &alpha);
  }
}

/* 16-bit floats: as long as consecutive pairs add to the same row, its sums are kept in float32. */
static void add_wide_columns(void* ctx, int64_t begin, int64_t end) {
  pairs_job* j = ctx;
  const shmt__loop add = shmt__loops[SHMT_LOOP_add][SHMT_FLOAT32];
  const shmt__cast_loop_fn load = shmt__cast_loop(SHMT_FLOAT32, j->dtype);
  const shmt__cast_loop_fn store = shmt__cast_loop(j->dtype, SHMT_FLOAT32);
  static const int64_t STRIDES[3] = {sizeof(float), sizeof(float), sizeof(float)};
  float sum[COLUMNS], row[COLUMNS];
  int64_t from, to;

  for (int64_t column = begin, n; column < end; column += n) {
    int64_t last = -1;
    n = end - column < COLUMNS ? end - column : COLUMNS;
    for (int64_t i = 0; i < j->pairs; i++) {
      if (!find_pair(j, i, &from, &to)) continue;
      const shmt_scalar alpha =
          j->factors ? shmt__scalar_load(j->factors + i * j->factor_step, j->dtype) : shmt__scalar_int(1);
      if (to != last) {
        if (last >= 0) store(at(&j->out, last, column), j->out.step, (const char*)sum, sizeof *sum, n);
        load((char*)sum, sizeof *sum, at(&j->out, to, column), j->out.step, n);
        last = to;
      }
      load((char*)row, sizeof *row, at(&j->in, from, column), j->in.step, n);
      add((char* const[]){(char*)sum, (char*)sum, (char*)row}, STRIDES, n, &alpha);
    }
    if (last >= 0) store(at(&j->out, last, column), j->out.step, (const char*)sum, sizeof *sum, n);
  }
}

shmt_status shmt__embedding_bag_sum(shmt_tensor* self, shmt_tensor* from, shmt_tensor* to, shmt_tensor* factors,
                                    int64_t n, bool sparse, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  SHMT_AUTO(shmt_tensor) scale = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  (void)sparse; /* says what the gradient is */
  SHMT_TRY(prepare_embedding_bag("_embedding_bag_sum", self, from, to, &first, &second));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_add, self->dtype, "embedding_bag");
  SHMT_REQUIRE(!factors || shmt__same_sizes(factors, from), SHMT_E_RUNTIME,
               "_embedding_bag_sum: factors of shape %s for %s", factors ? SHMT_SHAPE_TEXT(factors) : "",
               SHMT_SHAPE_TEXT(from));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n, self->sizes[1]), self->dtype, shmt__common_device(self, from, to),
                              SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(result)) {
    SHMT_TRY(shmt__tensor_fill(result, shmt__scalar_int(0)));
    if (factors) SHMT_TRY(shmt__tensor_cast(factors, self->dtype, &scale));
    pairs_job j = {.in = matrix_of(self),
                   .out = matrix_of(result),
                   .from = shmt__tensor_data(first),
                   .to = shmt__tensor_data(second),
                   .pairs = first->numel,
                   .factors = scale ? shmt__tensor_data(scale) : NULL,
                   .factor_step = scale ? scale->strides[0] * shmt__tensor_item_bytes(scale) : 0,
                   .dtype = self->dtype};
    shmt__parallel_for(j.out.columns, grain(&j), shmt__is_half(self->dtype) ? add_wide_columns : add_columns, &j);
    SHMT_TRY(check_pairs("_embedding_bag_sum", &j));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- dot products ------------------------------------------------------------------------------- */

static void multiply_pairs(void* ctx, int64_t begin, int64_t end) {
  pairs_job* j = ctx;
  const shmt__loop dot = shmt__loops[SHMT_LOOP_dot][j->dtype];
  const int64_t strides[3] = {0, j->in.step, j->out.step}, item = shmt__dtype_size[j->dtype];
  int64_t from, to;

  for (int64_t i = begin; i < end; i++)
    if (find_pair(j, i, &from, &to))
      dot((char* const[]){j->results + i * item, at(&j->in, from, 0), at(&j->out, to, 0)}, strides, j->in.columns,
          NULL);
}

shmt_status shmt__embedding_bag_dots(shmt_tensor* self, shmt_tensor* from, shmt_tensor* other, shmt_tensor* to,
                                     shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(prepare_embedding_bag("_embedding_bag_dots", self, from, to, &first, &second));
  SHMT_TRY(shmt__check_scalar_type(other, self->dtype));
  SHMT_REQUIRE(other->n_dims == 2 && other->sizes[1] == self->sizes[1], SHMT_E_RUNTIME,
               "_embedding_bag_dots: rows of shapes %s and %s", SHMT_SHAPE_TEXT(self), SHMT_SHAPE_TEXT(other));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_dot, self->dtype, "embedding_bag");
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(from), self->dtype, shmt__common_device(self, other, from),
                              SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(result)) {
    pairs_job j = {.in = matrix_of(self),
                   .out = matrix_of(other),
                   .from = shmt__tensor_data(first),
                   .to = shmt__tensor_data(second),
                   .pairs = first->numel,
                   .results = shmt__tensor_data(result),
                   .dtype = self->dtype};
    shmt__parallel_for(j.pairs, GRAIN_PRODUCTS / (j.in.columns + 1) + 1, multiply_pairs, &j);
    SHMT_TRY(check_pairs("_embedding_bag_dots", &j));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- maxima ------------------------------------------------------------------------------------- */

/* Where row `from` is larger than the largest so far (or the first of its bag), it becomes the largest of row `to`. */
static void take_larger(pairs_job* j, int64_t from, int64_t to, int64_t column, int64_t n, bool is_first) {
  const int64_t item = j->out.step;
  _Alignas(64) bool larger[COLUMNS];
  char *const best = at(&j->out, to, column), *const row = at(&j->in, from, column);
  char* const winner = (char*)(j->winners + to * j->out.columns + column);

  if (is_first)
    memset(larger, 1, (size_t)n);
  else
    shmt__loops[SHMT_LOOP_gt][j->dtype]((char* const[]){(char*)larger, row, best},
                                        (const int64_t[]){1, j->in.step, item}, n, NULL);
  shmt__loops[SHMT_LOOP_where][j->dtype]((char* const[]){best, (char*)larger, row, best},
                                         (const int64_t[]){item, 1, j->in.step, item}, n, NULL);
  shmt__loops[SHMT_LOOP_where][SHMT_INT64]((char* const[]){winner, (char*)larger, (char*)&from, winner},
                                           (const int64_t[]){8, 1, 0, 8}, n, NULL);
}

static void find_maxima(void* ctx, int64_t begin, int64_t end) {
  pairs_job* j = ctx;
  int64_t from, to;

  for (int64_t column = begin; column < end; column += COLUMNS)
    for (int64_t i = 0, last = -1; i < j->pairs; i++)
      if (find_pair(j, i, &from, &to)) {
        take_larger(j, from, to, column, end - column < COLUMNS ? end - column : COLUMNS, to != last);
        last = to;
      }
}

/* The rows of one bag stand together in `to`. */
shmt_status shmt__embedding_bag_max(shmt_tensor* self, shmt_tensor* from, shmt_tensor* to, int64_t n,
                                    shmt_tensor** values, shmt_tensor** rows) {
  SHMT_AUTO(shmt_tensor) first = NULL;
  SHMT_AUTO(shmt_tensor) second = NULL;
  SHMT_AUTO(shmt_tensor) best = NULL;
  SHMT_AUTO(shmt_tensor) winners = NULL;

  SHMT_TRY(prepare_embedding_bag("_embedding_bag_max", self, from, to, &first, &second));
  const shmt_device device = shmt__common_device(self, from, to);
  SHMT_REQUIRE_LOOP(SHMT_LOOP_gt, self->dtype, "embedding_bag");
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n, self->sizes[1]), self->dtype, device, SHMT_CONTIGUOUS_FORMAT, &best));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n, self->sizes[1]), SHMT_INT64, device, SHMT_CONTIGUOUS_FORMAT, &winners));
  if (device != SHMT_META) {
    SHMT_TRY(shmt__tensor_fill(best, shmt__scalar_int(0)));
    SHMT_TRY(shmt__tensor_fill(winners, shmt__scalar_int(-1)));
    pairs_job j = {.in = matrix_of(self),
                   .out = matrix_of(best),
                   .from = shmt__tensor_data(first),
                   .to = shmt__tensor_data(second),
                   .pairs = first->numel,
                   .winners = shmt__tensor_data(winners),
                   .dtype = self->dtype};
    shmt__parallel_for(j.out.columns, grain(&j), find_maxima, &j);
    SHMT_TRY(check_pairs("_embedding_bag_max", &j));
  }
  *values = SHMT_TAKE(best);
  *rows = SHMT_TAKE(winners);
  return SHMT_OK;
}
