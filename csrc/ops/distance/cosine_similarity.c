/* ops/distance/cosine_similarity.c -- cosine_similarity and normalize.
 *
 * Where autograd does not record, rows are done one by one and no norms are kept.
 */
#include "base/dtype.h"
#include "base/promote.h"
#include "dispatch/operator.h"
#include "dispatch/registry.h"
#include "dispatch/trace.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/threads.h"
#include "ops/normalization/normalization.h"

#include <math.h>
#include <stdatomic.h>

enum { GRAIN = 16384 };

/* Rows of `width` elements, dense. */
typedef struct row_job {
  shmt_tensor *a, *b, *out;
  int64_t width;
  double eps;
  atomic_bool left_range; /* a square is out of the range of floats, or so small that digits are lost */
} row_job;

/* Are the vectors dense rows along the last dim, of a tensor that autograd does not record? Vectors of one element are
 * better done all at once. */
static bool has_plain_rows(const shmt_tensor* t, int64_t dim) {
  return t->n_dims > 0 && (dim == -1 || dim == t->n_dims - 1) && t->numel > 0 && t->sizes[t->n_dims - 1] > 1 &&
         t->flags & SHMT_TENSOR_CONTIGUOUS && shmt__dtype_kind[t->dtype] == SHMT_KIND_FLOATING &&
         shmt__is_unobserved_call(shmt__tensor_own_keys(t));
}

static char* row_of(const row_job* j, shmt_tensor* t, int64_t r) {
  return shmt__norm_data(t) + r * j->width * shmt__tensor_item_bytes(t);
}

/* The sum of the products of x and y, or of x's squares when y is NULL. */
static double sum_of(const row_job* j, char* x, char* y) {
  static const shmt__norm_args plain = {0};
  double sum = 0;
  char* data[3] = {(char*)&sum, x, y};

  shmt__loops[y ? SHMT_LOOP_run_product : SHMT_LOOP_run_square][j->a->dtype](data, NULL, j->width, &plain);
  return sum;
}

/* The norm of a row, at least eps. A row of zeros has the norm 0, not an underflow. */
static double length_of(row_job* j, char* x) {
  enum { LEAST_EXPONENT = -60, MOST_EXPONENT = 100 };
  const double square = sum_of(j, x, NULL);

  if (!(square > ldexp(1, LEAST_EXPONENT) && square < ldexp(1, MOST_EXPONENT)))
    atomic_store_explicit(&j->left_range, true, memory_order_relaxed); /* read after the rows are done */
  const double length = sqrt(square);
  return length > j->eps ? length : j->eps;
}

static void cosine_rows(void* ctx, int64_t begin, int64_t end) {
  row_job* j = ctx;

  for (int64_t r = begin; r < end; r++) {
    char *x = row_of(j, j->a, r), *y = row_of(j, j->b, r);
    shmt__norm_store(j->out, r, sum_of(j, x, y) / (length_of(j, x) * length_of(j, y)));
  }
}

/* Normalises rows of at most SHMT_SHORT_ROW elements. Squares are in double: only factors may leave the range of
 * floats. */
static void short_unit_rows(row_job* j, int64_t begin, int64_t end) {
  const shmt__short_norm_args shape = {.length = j->width, .eps = j->eps, .uncentred = true, .to_length = true};
  const double most = ldexp(1, 100);
  double means[SHMT_SHORT_ROWS_PER_BLOCK], factors[SHMT_SHORT_ROWS_PER_BLOCK];
  bool in_range = true;

  for (int64_t r = begin, n; r < end; r += n) {
    n = end - r < SHMT_SHORT_ROWS_PER_BLOCK ? end - r : SHMT_SHORT_ROWS_PER_BLOCK;
    char* data[6] = {row_of(j, j->out, r), row_of(j, j->a, r), NULL, NULL, (char*)means, (char*)factors};
    shmt__loops[SHMT_LOOP_short_norm][j->a->dtype](data, NULL, n, &shape);
    for (int64_t k = 0; k < n; k++) in_range &= factors[k] > 1 / most && factors[k] < most;
  }
  if (!in_range) atomic_store_explicit(&j->left_range, true, memory_order_relaxed); /* read after the rows are done */
}

static void unit_rows(void* ctx, int64_t begin, int64_t end) {
  row_job* j = ctx;

  if (j->width <= SHMT_SHORT_ROW) {
    short_unit_rows(j, begin, end);
    return;
  }
  for (int64_t r = begin; r < end; r++) {
    char* data[4] = {row_of(j, j->out, r), row_of(j, j->a, r), NULL, NULL};
    const shmt__norm_args shape = {.scale = 1 / length_of(j, data[1])};
    shmt__loops[SHMT_LOOP_row_norm][j->a->dtype](data, NULL, j->width, &shape);
  }
}

/* t divided by its norm along dim, which is at least eps. The bound does not contribute to the gradient. */
static shmt_status with_unit_length(shmt_tensor* t, int64_t dim, double eps, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) length = NULL;
  SHMT_AUTO(shmt_tensor) divisor = NULL;

  SHMT_TRY(shmt_op_linalg_vector_norm(t, shmt__scalar_int(2), SHMT_INTS(dim), true, SHMT_DTYPE_NONE, &length));
  if (shmt__tensor_own_keys(length) & (SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD)) {
    SHMT_TRY(shmt_op_clone(length, SHMT_MEMORY_FORMAT_NONE, &divisor));
    SHMT_KEYS_GUARD(keys);
    shmt__tls_keys.excluded |= SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD;
    SHMT_TRY(shmt_op_clamp_min_(divisor, shmt__scalar_float(eps)));
  } else {
    SHMT_TRY(shmt_op_clamp_min(length, shmt__scalar_float(eps), &divisor));
  }
  return shmt_op_div_Tensor(t, divisor, out);
}

static shmt_status cast_and_expand(shmt_tensor* t, shmt_dtype dtype, shmt_ints sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  if (t->dtype != dtype) SHMT_TRY(shmt_op_to_dtype(t, dtype, false, false, SHMT_MEMORY_FORMAT_NONE, &cast));
  return shmt_op_expand(cast ? cast : t, sizes, false, out);
}

/* The cosine of each pair of rows. *done stays false where a square leaves the range of floats. */
static shmt_status cosines(shmt_tensor* a, shmt_tensor* b, double eps, shmt_tensor** out, bool* done) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  const int64_t width = a->sizes[a->n_dims - 1];

  SHMT_TRY(
      shmt__tensor_empty((shmt_ints){a->sizes, a->n_dims - 1}, a->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &result));
  row_job j = {.a = a, .b = b, .out = result, .width = width, .eps = eps};
  shmt__parallel_for(result->numel, GRAIN / (width + 1) + 1, cosine_rows, &j);
  *done = !atomic_load_explicit(&j.left_range, memory_order_relaxed);
  if (*done) *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__cosine_similarity(shmt_tensor* x1, shmt_tensor* x2, int64_t dim, double eps, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) unit_a = NULL;
  SHMT_AUTO(shmt_tensor) unit_b = NULL;
  SHMT_AUTO(shmt_tensor) product = NULL;
  shmt_dtype dtype;
  int64_t sizes[SHMT_MAX_DIMS], n;

  SHMT_TRY(shmt__promote_types(x1->dtype, x2->dtype, &dtype));
  SHMT_REQUIRE(shmt__dtype_kind[dtype] == SHMT_KIND_FLOATING, SHMT_E_RUNTIME,
               "expected common dtype to be floating point, yet common dtype is %s", shmt__dtype_title(dtype));
  SHMT_REQUIRE(eps >= 0, SHMT_E_RUNTIME, "eps must be non-negative, got: %g", eps);
  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(x1), shmt__tensor_sizes(x2), sizes, &n));
  SHMT_TRY(cast_and_expand(x1, dtype, (shmt_ints){sizes, n}, &a));
  SHMT_TRY(cast_and_expand(x2, dtype, (shmt_ints){sizes, n}, &b));
  if (has_plain_rows(a, dim) && has_plain_rows(b, dim)) {
    bool done;
    SHMT_TRY(cosines(a, b, eps, out, &done));
    if (done) return SHMT_OK;
  }
  SHMT_TRY(with_unit_length(a, dim, eps, &unit_a));
  SHMT_TRY(with_unit_length(b, dim, eps, &unit_b));
  SHMT_TRY(shmt_op_mul_Tensor(unit_a, unit_b, &product));
  return shmt_op_sum_dim_IntList(product, SHMT_INTS(dim), false, SHMT_DTYPE_NONE, out);
}

shmt_status shmt__normalize(shmt_tensor* self, shmt_scalar p, int64_t dim, double eps, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) length = NULL;
  SHMT_AUTO(shmt_tensor) divisor = NULL;

  if (has_plain_rows(self, dim) && shmt__scalar_to_double(p) == 2) {
    SHMT_AUTO(shmt_tensor) result = NULL;
    SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &result));
    const int64_t width = self->sizes[self->n_dims - 1];
    row_job j = {.a = self, .out = result, .width = width, .eps = eps};
    shmt__parallel_for(self->numel / width, GRAIN / (width + 1) + 1, unit_rows, &j);
    if (!atomic_load_explicit(&j.left_range, memory_order_relaxed)) {
      *out = SHMT_TAKE(result);
      return SHMT_OK;
    }
  }
  SHMT_TRY(shmt_op_linalg_vector_norm(self, p, SHMT_INTS(dim), true, SHMT_DTYPE_NONE, &length));
  SHMT_TRY(shmt_op_clamp_min(length, shmt__scalar_float(eps), &divisor));
  return shmt_op_div_Tensor(self, divisor, out);
}
