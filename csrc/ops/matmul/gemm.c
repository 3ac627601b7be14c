/* ops/matmul/gemm.c -- matrix products: chooses the kernel, and splits the work over the threads. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/threads.h"
#include "kernels/loop_args.h"
#include "kernels/matmul/gemm_small.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/blas_library.h"
#include "ops/matmul/gemm_half.h"
#include "ops/matmul/gemm_panels.h"
#include "ops/matmul/gemm_amx.h"
#include "ops/dtype_names.h"

#include <limits.h>
#include <math.h>

/* Multiplications that are worth a thread: of some products of a batch, of a slice of one product. */
enum { GRAIN_OPS = 1 << 20, MIN_SLICE_OPS = 1 << 19 };
/* The time of a multiplication on AMX tiles, in multiplications of float32. */
#define AMX_COST 0.125

typedef union gemm_scalar {
  float f;
  double d;
  float c[2];
  double z[2];
  uint64_t i;
} gemm_scalar;

/* One product with all decisions taken; all slices of it share this. */
typedef struct product {
  shmt_dtype dtype;
  bool on_library;
  bool has_panels;  /* gemm_panels takes the dtype and c */
  bool is_half;     /* gemm_half takes the dtype and c */
  bool is_widening; /* bfloat16 factors, and c has float32 */
  double cost;      /* of a multiplication, in multiplications of float32 */
  bool swapped;    /* c^T = b^T a^T is computed, for a column-major c: a and b changed places */
  shmt__matrix a, b, c;
  gemm_scalar alpha, beta;
  double alpha_d, beta_d;
  bool beta_is_zero;
  bool split_columns;
  int64_t item, c_item;
  int64_t a_step, b_step, c_step; /* of a batch */
} product;

bool shmt__gemm_has(shmt_dtype dtype) { return shmt__loops[SHMT_LOOP_gemm][dtype] != NULL; }

/* The leading dimension, and whether the library must transpose what it reads as row-major; false: not readable. */
static bool blas_layout(shmt__matrix a, int64_t* ld, int* trans) {
  if ((a.column_stride == 1 || a.columns <= 1) && (a.row_stride >= (a.columns > 1 ? a.columns : 1) || a.rows <= 1)) {
    *trans = SHMT_BLAS_NO_TRANS;
    *ld = a.rows <= 1 && a.row_stride < a.columns ? a.columns : a.row_stride;
  } else if ((a.row_stride == 1 || a.rows <= 1) &&
             (a.column_stride >= (a.rows > 1 ? a.rows : 1) || a.columns <= 1)) {
    *trans = SHMT_BLAS_TRANS;
    *ld = a.columns <= 1 && a.column_stride < a.rows ? a.rows : a.column_stride;
  } else {
    return false;
  }
  if (*ld < 1) *ld = 1;
  return true;
}

bool shmt__matrix_is_blas(shmt__matrix a) {
  int64_t ld;
  int trans;

  return blas_layout(a, &ld, &trans);
}

static bool library_has(shmt_dtype dtype) {
  return (dtype == SHMT_FLOAT32 || dtype == SHMT_FLOAT64 || dtype == SHMT_COMPLEX64 || dtype == SHMT_COMPLEX128) &&
         shmt__blas()->loaded;
}

static void make_scalar(shmt_dtype dtype, shmt_scalar s, gemm_scalar* out) {
  char* data[1] = {(char*)out};
  double z[2];
  shmt__gemm_scalar number;

  shmt__scalar_to_complex(s, z);
  number = (shmt__gemm_scalar){z[0], z[1], shmt__scalar_to_int64(s)};
  shmt__loops[SHMT_LOOP_gemm_scalar][dtype](data, NULL, 1, &number);
}

static void run_loop(const product* p, shmt__matrix a, shmt__matrix b, shmt__matrix c) {
  const shmt__gemm_args shape = {
      .n = c.columns,
      .k = a.columns,
      .a_row = a.row_stride,
      .a_column = a.column_stride,
      .b_row = b.row_stride,
      .b_column = b.column_stride,
      .c_row = c.row_stride,
      .c_column = c.column_stride,
      .alpha = &p->alpha,
      .beta = &p->beta,
      .beta_is_zero = p->beta_is_zero,
  };
  char* data[3] = {c.data, a.data, b.data};

  shmt__loops[SHMT_LOOP_gemm][p->dtype](data, NULL, c.rows, &shape);
}

static void call_library(const product* p, int ta, int tb, shmt__matrix a, int64_t lda, shmt__matrix b, int64_t ldb,
                         shmt__matrix c) {
  const shmt__blas_table* t = shmt__blas();
  const int m = (int)c.rows, n = (int)c.columns, k = (int)a.columns;
  const int ldc = (int)(c.row_stride < 1 ? (n > 0 ? n : 1) : c.row_stride < n ? n : c.row_stride);

  if (p->dtype == SHMT_FLOAT32)
    t->sgemm(SHMT_BLAS_ROW_MAJOR, ta, tb, m, n, k, p->alpha.f, a.data, (int)lda, b.data, (int)ldb, p->beta.f, c.data,
             ldc);
  else if (p->dtype == SHMT_FLOAT64)
    t->dgemm(SHMT_BLAS_ROW_MAJOR, ta, tb, m, n, k, p->alpha.d, a.data, (int)lda, b.data, (int)ldb, p->beta.d, c.data,
             ldc);
  else
    (p->dtype == SHMT_COMPLEX64 ? t->cgemm : t->zgemm)(SHMT_BLAS_ROW_MAJOR, ta, tb, m, n, k, &p->alpha, a.data,
                                                       (int)lda, b.data, (int)ldb, &p->beta, c.data, ldc);
}

static shmt__matrix matrix_rows(shmt__matrix a, int64_t begin, int64_t end, int64_t item) {
  a.data += begin * a.row_stride * item;
  a.rows = end - begin;
  return a;
}

static shmt__matrix columns_of(shmt__matrix a, int64_t begin, int64_t end, int64_t item) {
  a.data += begin * a.column_stride * item;
  a.columns = end - begin;
  return a;
}

/* Note [Few rows]
 * The library packs a transposed second factor, which does not pay where c has few rows. Only small products it
 * multiplies without packing, on processors with AVX-512. So c is made in pieces of columns that the library takes for
 * small products. Returns their columns. */
static int64_t columns_at_once(const product* p, int tb, shmt__matrix c, int64_t k) {
  enum { FEW_BYTES = 64, ELEMENTS = 1024, OPS = 1000 * 1000, STEP = 16 };
  const int64_t by_elements = ELEMENTS / c.rows, by_ops = OPS / c.rows / k;
  const int64_t n = (by_elements < by_ops ? by_elements : by_ops) / STEP * STEP;

  if (shmt__cpu_level != SHMT_CPU_V4 || tb != SHMT_BLAS_TRANS || !p->has_panels || c.rows * p->item >= FEW_BYTES ||
      n == 0)
    return c.columns;
  return n;
}

/* The same where c is small but k is long: the length of the pieces of k that make small products. */
static int64_t terms_at_once(const product* p, int ta, int tb, shmt__matrix c, int64_t k) {
  enum { FEW_ROWS = 32, ELEMENTS = 1024, OPS = 1000 * 1000, LEAST = 256, STEP = 16 };
  const int64_t elements = c.rows * c.columns;

  if (shmt__cpu_level != SHMT_CPU_V4 || !p->has_panels || c.rows > FEW_ROWS || elements > OPS / LEAST ||
      k <= OPS / elements || (tb == SHMT_BLAS_TRANS && (ta == SHMT_BLAS_TRANS || elements > ELEMENTS)))
    return k;
  return OPS / elements / STEP * STEP;
}

/* c is row-major here. */
static void run_library(const product* p, shmt__matrix a, shmt__matrix b, shmt__matrix c) {
  int64_t lda = 1, ldb = 1;
  int ta = SHMT_BLAS_NO_TRANS, tb = SHMT_BLAS_NO_TRANS;

  (void)blas_layout(a, &lda, &ta);
  (void)blas_layout(b, &ldb, &tb);
  const int64_t some = columns_at_once(p, tb, c, a.columns), terms = terms_at_once(p, ta, tb, c, a.columns);
  if (some == c.columns && terms < a.columns) {
    product rest = *p; /* later pieces are added to the first */
    make_scalar(p->dtype, shmt__scalar_int(1), &rest.beta);
    for (int64_t i = 0; i < a.columns; i += terms) {
      const int64_t end = a.columns - i < terms ? a.columns : i + terms;
      call_library(i ? &rest : p, ta, tb, columns_of(a, i, end, p->item), lda, matrix_rows(b, i, end, p->item), ldb, c);
    }
    return;
  }
  for (int64_t j = 0; j < c.columns; j += some) {
    const int64_t end = c.columns - j < some ? c.columns : j + some;
    call_library(p, ta, tb, a, lda, columns_of(b, j, end, p->item), ldb, columns_of(c, j, end, p->item));
  }
}

/* For a single column of c: the library's matrix-vector product reads a once and packs nothing. */
static bool run_gemv(const product* p, shmt__matrix a, shmt__matrix b, shmt__matrix c) {
  const shmt__blas_table* t = shmt__blas();
  int64_t lda = 1;
  int ta = SHMT_BLAS_NO_TRANS;
  const int64_t incx = a.columns == 1 ? 1 : b.row_stride;
  const int64_t incy = c.rows == 1 ? 1 : c.row_stride;
  int m, n;

  if (p->dtype != SHMT_FLOAT32 && p->dtype != SHMT_FLOAT64) return false;
  if (incx < 1 || incy < 1 || incx > INT_MAX || incy > INT_MAX || !blas_layout(a, &lda, &ta)) return false;
  m = (int)(ta == SHMT_BLAS_NO_TRANS ? a.rows : a.columns);
  n = (int)(ta == SHMT_BLAS_NO_TRANS ? a.columns : a.rows);
  if (p->dtype == SHMT_FLOAT32)
    t->sgemv(SHMT_BLAS_ROW_MAJOR, ta, m, n, p->alpha.f, a.data, (int)lda, b.data, (int)incx, p->beta.f, c.data,
             (int)incy);
  else
    t->dgemv(SHMT_BLAS_ROW_MAJOR, ta, m, n, p->alpha.d, a.data, (int)lda, b.data, (int)incx, p->beta.d, c.data,
             (int)incy);
  return true;
}

static bool runs_by_panels(const product* p, shmt__matrix a, shmt__matrix b, shmt__matrix c) {
  if (!p->has_panels) return false;
  return p->on_library ? shmt__gemm_prefers_panels(a, b, p->item) : c.rows > 1 && c.columns > 1;
}

static void run_one(const product* p, shmt__matrix a, shmt__matrix b, shmt__matrix c) {
  if (p->is_widening) {
    shmt__gemm_amx(p->alpha.f, a, b, p->beta.f, c, true);
    return;
  }
  /* With k == 0 the result is beta * c, and beta == 0 must overwrite a NaN in c: the loop does both. */
  if (a.columns == 0) {
    run_loop(p, a, b, c);
    return;
  }
  if (p->is_half && shmt__gemm_half(p->dtype, p->alpha.f, a, b, p->beta.f, c)) return;
  if (p->on_library && c.columns == 1 && run_gemv(p, a, b, c)) return;
  if (p->on_library && c.rows == 1 &&
      run_gemv(p, shmt__matrix_transposed(b), shmt__matrix_transposed(a), shmt__matrix_transposed(c)))
    return;
  if (runs_by_panels(p, a, b, c))
    shmt__gemm_panels(p->dtype, &p->alpha, a, b, &p->beta, p->beta_is_zero, c);
  else if (p->on_library)
    run_library(p, a, b, c);
  else
    run_loop(p, a, b, c);
}

static void run_slice(void* ctx, int64_t begin, int64_t end) {
  const product* p = ctx;

  if (p->split_columns)
    run_one(p, p->a, columns_of(p->b, begin, end, p->item), columns_of(p->c, begin, end, p->c_item));
  else
    run_one(p, matrix_rows(p->a, begin, end, p->item), p->b, matrix_rows(p->c, begin, end, p->c_item));
}

static void run_split(product* p) {
  const int64_t m = p->c.rows, n = p->c.columns, k = p->a.columns;
  const int64_t longer = m >= n ? m : n;
  const double ops_each = p->cost * (double)(m >= n ? n : m) * (double)(k > 0 ? k : 1);
  int64_t grain = (int64_t)ceil((double)MIN_SLICE_OPS / (ops_each > 1 ? ops_each : 1));
  const int threads = shmt__num_threads();
  /* Every slice packs the other matrix again, so there are no more slices than threads. */
  const int64_t even = (longer + threads - 1) / threads;

  p->split_columns = n > m;
  if (grain < even) grain = even;
  /* Kernels work on tiles of 16 or 32 rows or columns. */
  grain = (grain + 31) / 32 * 32;
  if (threads == 1 || grain >= longer)
    run_slice(p, 0, longer);
  else
    shmt__parallel_for(longer, grain, run_slice, p);
}

static bool fits_int(shmt__matrix a) {
  return a.rows <= INT_MAX && a.columns <= INT_MAX && a.row_stride <= INT_MAX && a.column_stride <= INT_MAX;
}

/* Strides of dims of size 1 may have any value: set them to 1. */
static shmt__matrix with_unit_strides(shmt__matrix a) {
  if (a.rows == 1) a.row_stride = 1;
  if (a.columns == 1) a.column_stride = 1;
  return a;
}

static void prepare_product(product* p, shmt_dtype dtype, shmt_scalar alpha, shmt__matrix a, shmt__matrix b,
                            shmt_scalar beta, shmt__matrix c) {
  double z[2];

  a = with_unit_strides(a);
  b = with_unit_strides(b);
  c = with_unit_strides(c);
  SHMT_ASSERT(a.columns == b.rows && a.rows == c.rows && b.columns == c.columns);
  *p = (product){.dtype = dtype, .a = a, .b = b, .c = c, .item = shmt__dtype_size[dtype]};
  p->c_item = p->item;
  make_scalar(dtype, alpha, &p->alpha);
  make_scalar(dtype, beta, &p->beta);
  shmt__scalar_to_complex(beta, z);
  p->beta_is_zero = z[0] == 0 && z[1] == 0;
  if (c.column_stride != 1 && c.columns > 1 && c.row_stride == 1) {
    p->a = shmt__matrix_transposed(b);
    p->b = shmt__matrix_transposed(a);
    p->c = shmt__matrix_transposed(c);
    p->swapped = true;
  }
  p->on_library = library_has(dtype) && shmt__matrix_is_blas(p->a) && shmt__matrix_is_blas(p->b) &&
                  p->c.column_stride == 1 && fits_int(a) && fits_int(b) && fits_int(c);
  p->has_panels = shmt__loops[SHMT_LOOP_gemm_panels][dtype] != NULL && p->c.column_stride == 1;
  p->is_half = shmt__is_half(dtype) && p->c.column_stride == 1;
  p->cost = shmt__is_complex(dtype) ? 4 : dtype == SHMT_BFLOAT16 && shmt__gemm_has_amx() ? AMX_COST : 1;
}

void shmt__gemm(shmt_dtype dtype, shmt_scalar alpha, shmt__matrix a, shmt__matrix b, shmt_scalar beta, shmt__matrix c) {
  product p;

  if (c.rows == 0 || c.columns == 0) return;
  prepare_product(&p, dtype, alpha, a, b, beta, c);
  run_split(&p);
}

void shmt__gemm_bfloat16_float32(shmt__matrix a, shmt__matrix b, bool adds, shmt__matrix c) {
  product p = {.dtype = SHMT_BFLOAT16, .is_widening = true, .cost = AMX_COST, .a = a, .b = b, .c = c};

  p.item = shmt__dtype_size[SHMT_BFLOAT16];
  p.c_item = shmt__dtype_size[SHMT_FLOAT32];
  p.alpha.f = 1;
  p.beta.f = adds;
  run_split(&p);
}

/* Products [begin, end) of a batch, one in each lane of a vector, where the matrices are small and there are several.
 * False: not done. */
static bool run_small(const product* p, int64_t begin, int64_t end) {
  enum { LEAST = 8, MANY_OPS = 400 /* from so many on, the library is as fast where b is not transposed */ };
  const shmt__gemm_small_args shape = {.rows = p->c.rows, .columns = p->c.columns, .terms = p->a.columns,
                                       .a_row = p->a.row_stride, .a_column = p->a.column_stride,
                                       .b_row = p->b.row_stride, .b_column = p->b.column_stride,
                                       .c_row = p->c.row_stride, .c_column = p->c.column_stride,
                                       .alpha = &p->alpha, .beta = &p->beta, .beta_is_zero = p->beta_is_zero};
  const shmt__loop loop = shmt__loops[SHMT_LOOP_gemm_small][p->dtype];
  const int64_t strides[3] = {p->c_step * p->item, p->a_step * p->item, p->b_step * p->item};
  char* data[3] = {p->c.data + begin * strides[0], p->a.data + begin * strides[1], p->b.data + begin * strides[2]};

  if (!loop || end - begin < LEAST || shape.rows > SHMT_GEMM_SMALL_SIDE || shape.columns > SHMT_GEMM_SMALL_SIDE ||
      shape.terms > SHMT_GEMM_SMALL_SIDE || shape.terms == 0 ||
      (shape.b_column == 1 && shape.rows * shape.columns * shape.terms > MANY_OPS))
    return false;
  loop(data, strides, end - begin, &shape);
  return true;
}

static void run_batch_piece(void* ctx, int64_t begin, int64_t end) {
  const product* p = ctx;

  if (run_small(p, begin, end)) return;
  for (int64_t i = begin; i < end; i++) {
    shmt__matrix a = p->a, b = p->b, c = p->c;
    a.data += i * p->a_step * p->item;
    b.data += i * p->b_step * p->item;
    c.data += i * p->c_step * p->item;
    run_one(p, a, b, c);
  }
}

void shmt__gemm_batch(shmt_dtype dtype, int64_t n, shmt_scalar alpha, shmt__matrix a, int64_t a_step, shmt__matrix b,
                      int64_t b_step, shmt_scalar beta, shmt__matrix c, int64_t c_step) {
  product p;
  double ops;

  if (n == 0 || c.rows == 0 || c.columns == 0) return;
  prepare_product(&p, dtype, alpha, a, b, beta, c);
  p.a_step = p.swapped ? b_step : a_step;
  p.b_step = p.swapped ? a_step : b_step;
  p.c_step = c_step;
  ops = p.cost * (double)c.rows * (double)c.columns * (double)(a.columns > 0 ? a.columns : 1);
  if (n < shmt__num_threads() && ops >= 4.0 * GRAIN_OPS) {
    for (int64_t i = 0; i < n; i++) {
      product one = p;
      one.a.data += i * p.a_step * p.item;
      one.b.data += i * p.b_step * p.item;
      one.c.data += i * p.c_step * p.item;
      run_split(&one);
    }
    return;
  }
  shmt__parallel_for(n, (int64_t)((double)GRAIN_OPS / ops) + 1, run_batch_piece, &p);
}

void shmt__dot(shmt_dtype dtype, bool conjugate, int64_t n, const char* x, int64_t x_stride, const char* y,
               int64_t y_stride, char* out) {
  const int64_t item = shmt__dtype_size[dtype];
  char* data[3] = {out, (char*)(uintptr_t)x, (char*)(uintptr_t)y};
  const int64_t strides[3] = {0, x_stride * item, y_stride * item};

  if (library_has(dtype) && n <= INT_MAX && x_stride >= 0 && x_stride <= INT_MAX && y_stride >= 0 &&
      y_stride <= INT_MAX) {
    const shmt__blas_table* t = shmt__blas();
    const int xs = (int)x_stride, ys = (int)y_stride, count = (int)n;
    if (dtype == SHMT_FLOAT32) {
      *(float*)(void*)out = t->sdot(count, x, xs, y, ys);
    } else if (dtype == SHMT_FLOAT64) {
      *(double*)(void*)out = t->ddot(count, x, xs, y, ys);
    } else if (dtype == SHMT_COMPLEX64) {
      (conjugate ? t->cdotc : t->cdotu)(count, x, xs, y, ys, out);
    } else {
      (conjugate ? t->zdotc : t->zdotu)(count, x, xs, y, ys, out);
    }
    return;
  }
  shmt__loops[SHMT_LOOP_dot][dtype](data, strides, n, conjugate ? out : NULL);
}
