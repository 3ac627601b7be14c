/* ops/ranges.c -- tensors of regular values: arange, linspace, logspace, eye, triangles. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "iter/copy.h"
#include "iter/iter.h"
#include "iter/stage.h"
#include "iter/threads.h"
#include "ops/check.h"
#include "ops/outputs.h"

#include <complex.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 128, GRAIN = 1 << 16 };

/* How long, and from where to where in which steps. */
typedef struct range {
  bool integral;
  int64_t i_start, i_step;
  double start, step;
  double end;     /* linspace counts its second half back from here */
  int64_t steps;  /* of linspace; 0 for arange */
  bool is_powers; /* logspace: of base */
  double base;
  bool is_complex;
  double imaginary_start, imaginary_step, imaginary_end;
} range;

static double spaced_value(const range* r, double start, double step, double end, int64_t i) {
  return i < r->steps / 2 ? start + step * (double)i : end - step * (double)(r->steps - i - 1);
}

static double _Complex complex_value(const range* r, int64_t i) {
  const double _Complex v = CMPLX(spaced_value(r, r->start, r->step, r->end, i),
                                  spaced_value(r, r->imaginary_start, r->imaginary_step, r->imaginary_end, i));
  return r->is_powers ? cpow(r->base, v) : v;
}

typedef struct filling {
  const range* r;
  shmt__cast_loop_fn cast; /* NULL: none is needed */
  char* data;
  int64_t item;
  bool streamed;
} filling;

/* n elements of an integral range from `first` on; one step at a time, which wraps behind the last. */
static void fill_integers(const range* r, int64_t first, int64_t n, int64_t* to) {
  const uint64_t step = (uint64_t)r->i_step;
  uint64_t value = (uint64_t)r->i_start + (uint64_t)first * step;

  for (int64_t k = 0; k < n; k++, value += step) to[k] = (int64_t)value;
}

/* start + step * i for n numbers i from `first` on, which doubles hold exactly. */
static void fill_steps(double start, double step, int64_t first, int64_t n, double* to) {
  const double from = (double)first;

  for (int32_t k = 0; k < (int32_t)n; k++) to[k] = start + step * (from + k);
}

/* n elements from `first` on, at most BLOCK. */
static void fill_doubles(const range* r, int64_t first, int64_t n, double* to) {
  const int64_t left = r->steps / 2 - first, ahead = r->steps == 0 || left > n ? n : left < 0 ? 0 : left;

  fill_steps(r->start, r->step, first, ahead, to);
  fill_steps(r->end, r->step, first + ahead - (r->steps - 1), n - ahead, to + ahead);
  if (!r->is_powers) return;
  for (int64_t k = 0; k < n; k++) to[k] = pow(r->base, to[k]);
}

/* Blocks of doubles, complex doubles or int64s, converted by the cast loops, so that every dtype is served. */
static void fill_piece(void* ctx, int64_t begin, int64_t end) {
  const filling* f = ctx;
  const range* r = f->r;
  union {
    double d[BLOCK];
    double _Complex z[BLOCK];
    int64_t i[BLOCK];
  } block;
  _Alignas(16) char made[BLOCK * 16]; /* as its dtype */

  if (r->integral && !f->cast && !f->streamed) {
    fill_integers(r, begin, end - begin, (int64_t*)(void*)f->data + begin);
    return;
  }
  for (int64_t n; begin < end; begin += n) {
    n = end - begin < BLOCK ? end - begin : BLOCK;
    char* const to = f->data + begin * f->item;
    if (r->integral)
      fill_integers(r, begin, n, block.i);
    else if (r->is_complex)
      for (int64_t k = 0; k < n; k++) block.z[k] = complex_value(r, begin + k);
    else
      fill_doubles(r, begin, n, block.d);
    if (f->cast) f->cast(f->streamed ? made : to, f->item, (const char*)&block, r->is_complex ? 16 : 8, n);
    if (f->streamed) shmt__move_streamed(to, f->cast ? made : (const char*)&block, n * f->item);
  }
  if (f->streamed) shmt__move_streamed_end();
}

static void fill_range(shmt_tensor* t, const range* r) {
  const shmt_dtype from = r->integral ? SHMT_INT64 : r->is_complex ? SHMT_COMPLEX128 : SHMT_FLOAT64;
  filling f = {r, from == SHMT_INT64 && t->dtype == from ? NULL : shmt__cast_loop(t->dtype, from), NULL, shmt__tensor_item_bytes(t), false};

  if (shmt__tensor_is_meta(t)) return;
  f.data = shmt__tensor_data(t);
  f.streamed = t->numel * f.item >= SHMT_STREAM_BYTES;
  shmt__parallel_for(t->numel, GRAIN, fill_piece, &f);
}

/* Where the result goes: dtype and device of a preset output count when none is asked for. */
static shmt_status make_range(const char* name, int64_t n, shmt_dtype dtype, shmt_device device, const range* r,
                              shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;

  if (*out) {
    dtype = (*out)->dtype;
    device = (*out)->device;
  }
  SHMT_TRY(shmt__output_begin(name, out, SHMT_INTS(n), dtype, device == SHMT_DEVICE_NONE ? SHMT_CPU : device, &work));
  fill_range(work, r);
  return shmt__output_end(name, &work, out);
}

/* Bounds and steps of arange and range are real. */
static shmt_status check_real(shmt_scalar start, shmt_scalar end, shmt_scalar step) {
  SHMT_TRY(shmt__scalar_check(start, SHMT_FLOAT64));
  SHMT_TRY(shmt__scalar_check(end, SHMT_FLOAT64));
  return shmt__scalar_check(step, SHMT_FLOAT64);
}

static bool is_whole(shmt_scalar s) { return shmt__scalar_is_integral(s, true); }

static shmt_status check_range_dtype(const char* what, shmt_dtype dtype, bool complex_too) {
  SHMT_REQUIRE(dtype != SHMT_BOOL && (complex_too || !shmt__is_complex(dtype)), SHMT_E_NOT_IMPLEMENTED,
               "\"%s\" not implemented for '%s'", what, shmt__dtype_title(dtype));
  return SHMT_OK;
}

shmt_status shmt__arange_start_step(shmt_scalar start, shmt_scalar end, shmt_scalar step, shmt_dtype dtype,
                                    shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory,
                                    shmt_tensor** out) {
  range r = {0};
  double count;
  const double first = shmt__scalar_to_double(start), last = shmt__scalar_to_double(end);

  (void)layout;
  (void)pin_memory;
  SHMT_TRY(check_real(start, end, step));
  if (*out) dtype = (*out)->dtype;
  if (dtype == SHMT_DTYPE_NONE)
    dtype = is_whole(start) && is_whole(end) && is_whole(step) ? SHMT_INT64 : shmt__default_dtype();
  SHMT_TRY(check_range_dtype("arange_cpu", dtype, false));
  r.integral = shmt__is_integral(dtype);
  r.start = first;
  r.step = shmt__scalar_to_double(step);
  if (r.integral) {
    /* Bounds and step count as numbers of the integral type. */
    r.i_start = shmt__scalar_to_int64(start);
    r.i_step = shmt__scalar_to_int64(step);
    SHMT_REQUIRE(r.i_step != 0 || r.step == 0, SHMT_E_VALUE, "step must be nonzero");
    r.step = (double)r.i_step;
  }
  SHMT_REQUIRE(r.step > 0 || r.step < 0, SHMT_E_RUNTIME, "step must be nonzero");
  SHMT_REQUIRE(isfinite(first) && isfinite(last), SHMT_E_RUNTIME, "unsupported range: %g -> %g", first, last);
  SHMT_REQUIRE((r.step > 0 && last >= first) || (r.step < 0 && last <= first), SHMT_E_RUNTIME,
               "upper bound and lower bound inconsistent with step sign");
  if (dtype == SHMT_INT64) {
    const __int128 span = (__int128)shmt__scalar_to_int64(end) - r.i_start;
    count = (double)((span + r.i_step - (r.i_step > 0 ? 1 : -1)) / r.i_step);
  } else {
    count = ceil((last - first) / shmt__scalar_to_double(step));
  }
  SHMT_REQUIRE(count >= 0 && count <= (double)INT64_MAX, SHMT_E_RUNTIME, "invalid size, possible overflow?");
  return make_range("arange", (int64_t)count, dtype, device, &r, out);
}

shmt_status shmt__arange_start(shmt_scalar start, shmt_scalar end, shmt_dtype dtype, shmt_layout layout,
                               shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  return shmt__arange_start_step(start, end, shmt__scalar_int(1), dtype, layout, device, pin_memory, out);
}

shmt_status shmt__arange(shmt_scalar end, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                         shmt_opt_bool pin_memory, shmt_tensor** out) {
  return shmt__arange_start_step(shmt__scalar_int(0), end, shmt__scalar_int(1), dtype, layout, device, pin_memory,
                                 out);
}

shmt_status shmt__range_step(shmt_scalar start, shmt_scalar end, shmt_scalar step, shmt_dtype dtype,
                             shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  range r = {.start = shmt__scalar_to_double(start), .step = shmt__scalar_to_double(step)};
  const double last = shmt__scalar_to_double(end);

  (void)layout;
  (void)pin_memory;
  SHMT_TRY(check_real(start, end, step));
  if (*out) dtype = (*out)->dtype;
  if (dtype == SHMT_DTYPE_NONE) dtype = shmt__default_dtype();
  SHMT_TRY(check_range_dtype("range_cpu", dtype, false));
  SHMT_REQUIRE(r.step > 0 || r.step < 0, SHMT_E_RUNTIME, "step must be nonzero");
  SHMT_REQUIRE(isfinite(r.start) && isfinite(last), SHMT_E_RUNTIME, "unsupported range: %g -> %g", r.start, last);
  SHMT_REQUIRE((r.step > 0 && last >= r.start) || (r.step < 0 && last <= r.start), SHMT_E_RUNTIME,
               "upper bound and lower bound inconsistent with step sign");
  return make_range("range", (int64_t)((last - r.start) / r.step + 1), dtype, device, &r, out);
}

/* The dtype of values between start and end: a complex bound needs a complex one. */
static shmt_status spaced_dtype(const char* name, shmt_scalar start, shmt_scalar end, shmt_dtype* dtype) {
  shmt_dtype inferred = shmt__default_dtype();

  if (start.tag == SHMT_SCALAR_COMPLEX || end.tag == SHMT_SCALAR_COMPLEX) {
    inferred = shmt__scalar_dtype(shmt__scalar_complex(0, 0));
    SHMT_REQUIRE(*dtype == SHMT_DTYPE_NONE || shmt__is_complex(*dtype), SHMT_E_RUNTIME,
                 "%s(): inferred dtype %s can't be safely cast to passed dtype %s", name,
                 shmt__dtype_title(inferred), shmt__dtype_title(*dtype));
  }
  if (*dtype == SHMT_DTYPE_NONE) *dtype = inferred;
  return SHMT_OK;
}

/* The powers of base, or the values themselves where it is NULL. */
static shmt_status spaced(const char* name, shmt_scalar start, shmt_scalar end, int64_t steps, const double* base,
                          shmt_dtype dtype, shmt_device device, shmt_tensor** out) {
  double first[2], last[2];

  SHMT_REQUIRE(steps >= 0, SHMT_E_RUNTIME, "number of steps must be non-negative");
  if (*out)
    dtype = (*out)->dtype;
  else
    SHMT_TRY(spaced_dtype(name, start, end, &dtype));
  shmt__scalar_to_complex(start, first);
  shmt__scalar_to_complex(end, last);
  range r = {.start = first[0], .end = last[0], .steps = steps, .is_powers = base != NULL, .base = base ? *base : 0,
             .is_complex = first[1] != 0 || last[1] != 0, .imaginary_start = first[1], .imaginary_end = last[1]};
  SHMT_TRY(check_range_dtype(base ? "logspace_cpu" : "linspace_cpu", dtype, true));
  SHMT_TRY(shmt__scalar_check(start, dtype));
  SHMT_TRY(shmt__scalar_check(end, dtype));
  if (shmt__is_integral(dtype)) {
    r.start = (double)shmt__scalar_to_int64(start);
    r.end = (double)shmt__scalar_to_int64(end);
  }
  if (steps > 1) {
    r.step = (r.end - r.start) / (double)(steps - 1);
    r.imaginary_step = (r.imaginary_end - r.imaginary_start) / (double)(steps - 1);
  } else {
    r.end = r.start;
    r.imaginary_end = r.imaginary_start;
  }
  return make_range(name, steps, dtype, device, &r, out);
}

shmt_status shmt__linspace(shmt_scalar start, shmt_scalar end, int64_t steps, shmt_dtype dtype, shmt_layout layout,
                           shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return spaced("linspace", start, end, steps, NULL, dtype, device, out);
}

shmt_status shmt__logspace(shmt_scalar start, shmt_scalar end, int64_t steps, double base, shmt_dtype dtype,
                           shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return spaced("logspace", start, end, steps, &base, dtype, device, out);
}

/* Bounds given as 0-d tensors. */
static shmt_status bound_of(const char* name, shmt_tensor* start, shmt_tensor* end, shmt_scalar* first,
                            shmt_scalar* last) {
  const bool zero_dim = (!start || start->n_dims == 0) && (!end || end->n_dims == 0);

  if (start && end)
    SHMT_REQUIRE(zero_dim, SHMT_E_RUNTIME, "%s only supports 0-dimensional start and end tensors, but got start with %d "
                 "dimension(s) and end with %d dimension(s).", name, start->n_dims, end->n_dims);
  SHMT_REQUIRE(zero_dim, SHMT_E_RUNTIME, "%s only supports 0-dimensional start and end tensors, but got %s with %d "
               "dimension(s).", name, start ? "start" : "end", start ? start->n_dims : end->n_dims);
  if (start) SHMT_TRY(shmt__tensor_item(start, first));
  if (end) SHMT_TRY(shmt__tensor_item(end, last));
  return SHMT_OK;
}

#define SPACED(SUFFIX, START, END, START_TENSOR, END_TENSOR, FIRST, LAST)                                          \
  shmt_status shmt__linspace_##SUFFIX(START, END, int64_t steps, shmt_dtype dtype, shmt_layout layout,             \
                                      shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {           \
    shmt_scalar first = FIRST, last = LAST;                                                                        \
    SHMT_TRY(bound_of("linspace", START_TENSOR, END_TENSOR, &first, &last));                                       \
    return shmt__linspace(first, last, steps, dtype, layout, device, pin_memory, out);                             \
  }                                                                                                                \
  shmt_status shmt__logspace_##SUFFIX(START, END, int64_t steps, double base, shmt_dtype dtype,                    \
                                      shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory,            \
                                      shmt_tensor** out) {                                                         \
    shmt_scalar first = FIRST, last = LAST;                                                                        \
    SHMT_TRY(bound_of("logspace", START_TENSOR, END_TENSOR, &first, &last));                                       \
    return shmt__logspace(first, last, steps, base, dtype, layout, device, pin_memory, out);                       \
  }
#define NOTHING shmt__scalar_none()
SPACED(tensor_tensor, shmt_tensor* start, shmt_tensor* end, start, end, NOTHING, NOTHING)
SPACED(tensor_scalar, shmt_tensor* start, shmt_scalar end, start, NULL, NOTHING, end)
SPACED(scalar_tensor, shmt_scalar start, shmt_tensor* end, NULL, end, start, NOTHING)
#undef NOTHING
#undef SPACED

shmt_status shmt__eye_m(int64_t n, int64_t m, shmt_dtype dtype, shmt_layout layout, shmt_device device,
                        shmt_opt_bool pin_memory, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) diagonal = NULL;

  (void)layout;
  (void)pin_memory;
  SHMT_REQUIRE(n >= 0, SHMT_E_RUNTIME, "n must be greater or equal to 0, got %" PRId64, n);
  SHMT_REQUIRE(m >= 0, SHMT_E_RUNTIME, "m must be greater or equal to 0, got %" PRId64, m);
  if (*out) {
    dtype = (*out)->dtype;
    device = (*out)->device;
  }
  if (dtype == SHMT_DTYPE_NONE) dtype = shmt__default_dtype();
  SHMT_TRY(shmt__output_begin("eye", out, SHMT_INTS(n, m), dtype, device == SHMT_DEVICE_NONE ? SHMT_CPU : device,
                              &work));
  if (!shmt__tensor_is_meta(work)) {
    SHMT_TRY(shmt__tensor_fill(work, shmt__scalar_int(0)));
    SHMT_TRY(shmt__tensor_alias(work, SHMT_INTS(n < m ? n : m), SHMT_INTS(m < INT64_MAX ? m + 1 : m), work->offset, &diagonal));
    SHMT_TRY(shmt__tensor_fill(diagonal, shmt__scalar_int(1)));
  }
  return shmt__output_end("eye", &work, out);
}

shmt_status shmt__eye(int64_t n, shmt_dtype dtype, shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory,
                      shmt_tensor** out) {
  return shmt__eye_m(n, n, dtype, layout, device, pin_memory, out);
}

/* --- triangles ------------------------------------------------------------------- */

/* Is out self, or a view of the same elements? */
static bool is_itself(const shmt_tensor* out, const shmt_tensor* self) {
  return out->storage == self->storage && out->dtype == self->dtype && out->offset == self->offset &&
         shmt__sizes_are(out, shmt__tensor_sizes(self)) &&
         memcmp(out->strides, self->strides, (size_t)self->n_dims * sizeof *self->strides) == 0;
}

/* A view with the last two dims swapped. */
static shmt_status swapped(shmt_tensor* t, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  const int n = t->n_dims;

  for (int d = 0; d < n; d++) {
    const int from = d < n - 2 ? d : 2 * n - 3 - d;
    sizes[d] = t->sizes[from];
    strides[d] = t->strides[from];
  }
  return shmt__tensor_alias(t, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, t->offset, out);
}

typedef struct triangles {
  char* to;
  const char* from;     /* the same in place */
  int64_t rows;         /* of a matrix */
  int64_t width, item;  /* bytes of a row, of an element */
  int64_t edge;         /* elements of the first row that lie left of the cut */
  bool upper, streamed; /* keep what is right of it */
} triangles;

/* n bytes are zero, or stay. */
static void keep(const triangles* t, shmt__stage* s, int64_t at, int64_t n, bool is_zero) {
  if (t->streamed)
    shmt__stage_copy(s, t->to + at, is_zero ? NULL : t->from + at, n);
  else if (is_zero)
    memset(t->to + at, 0, (size_t)n);
  else if (t->to != t->from)
    memcpy(t->to + at, t->from + at, (size_t)n);
}

static void keep_rows(void* ctx, int64_t begin, int64_t end) {
  const triangles* t = ctx;
  const int64_t columns = t->width / t->item;
  shmt__stage s;

  shmt__stage_init(&s);
  for (int64_t r = begin, alike; r < end; r += alike) {
    const int64_t row = r % t->rows;
    int64_t edge = row + t->edge;
    /* The rows below the diagonal are all alike: as one long row. */
    alike = edge < columns ? 1 : t->rows - row < end - r ? t->rows - row : end - r;
    edge = edge < 0 ? 0 : edge > columns ? columns : edge;
    const int64_t before = alike * edge * t->item;
    keep(t, &s, r * t->width, before, t->upper);
    keep(t, &s, r * t->width + before, alike * t->width - before, !t->upper);
  }
  if (t->streamed) shmt__stage_end(&s);
}

static shmt_status triangle(const char* name, shmt_tensor* self, int64_t diagonal, bool upper, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  SHMT_AUTO(shmt_tensor) transposed = NULL;
  const int n = self->n_dims;

  SHMT_REQUIRE(n >= 2, SHMT_E_RUNTIME, "%s: input tensor must have at least 2 dimensions", name);
  const bool in_place = *out && is_itself(*out, self);
  if (in_place && !shmt__tensor_is_contiguous(self)) {
    SHMT_TRY(swapped(self, &transposed));
    if (shmt__tensor_is_contiguous(transposed))
      return triangle(name, transposed, diagonal > -INT64_MAX ? -diagonal : INT64_MAX, !upper, &transposed);
  }
  SHMT_TRY(shmt__output_begin_apart(name, out, shmt__tensor_sizes(self), self->dtype, self->device,
                                    in_place ? NULL : self, NULL, &work));
  if (shmt__tensor_is_meta(work) || work->numel == 0) return shmt__output_end(name, &work, out);
  const bool is_there = shmt__tensor_is_contiguous(self);
  if (!is_there) SHMT_TRY(shmt__tensor_copy(work, self));
  const int64_t rows = self->sizes[n - 2], columns = self->sizes[n - 1], item = shmt__tensor_item_bytes(self);
  char* to = shmt__tensor_data(work);
  const char* from = is_there ? shmt__tensor_data(self) : to;
  if (diagonal > columns) diagonal = columns;
  if (diagonal < -rows) diagonal = -rows;
  const triangles t = {to, from, rows, columns * item, item, diagonal + (upper ? 0 : 1), upper,
                       to != from && self->numel * item >= SHMT_STREAM_BYTES};
  shmt__parallel_for(self->numel / columns, GRAIN / columns + 1, keep_rows, (void*)(uintptr_t)&t);
  return shmt__output_end(name, &work, out);
}

shmt_status shmt__tril(shmt_tensor* self, int64_t diagonal, shmt_tensor** out) {
  return triangle("tril", self, diagonal, false, out);
}

shmt_status shmt__triu(shmt_tensor* self, int64_t diagonal, shmt_tensor** out) {
  return triangle("triu", self, diagonal, true, out);
}

/* Of row r, the lower triangle has the columns below this one. */
static int64_t triangle_edge(int64_t r, int64_t offset, int64_t column) {
  const __int128 edge = (__int128)r + offset + 1;
  return edge < 0 ? 0 : edge > column ? column : (int64_t)edge;
}

/* Elements of the lower triangle of a matrix: rows that rise by one, then full rows. */
static __int128 count_lower(int64_t row, int64_t column, int64_t offset) {
  const __int128 a = (__int128)offset + 1;
  __int128 begin = -a, full = (__int128)column - a;
  begin = begin < 0 ? 0 : begin > row ? row : begin;
  full = full < begin ? begin : full > row ? row : full;
  return (full - begin) * (begin + full - 1 + 2 * a) / 2 + ((__int128)row - full) * column;
}

static shmt_status triangle_indices(int64_t row, int64_t column, int64_t offset, bool upper, shmt_dtype dtype,
                                    shmt_device device, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) both = NULL;

  SHMT_REQUIRE(row >= 0, SHMT_E_RUNTIME, "row must be non-negative, got%" PRId64, row);
  SHMT_REQUIRE(column >= 0, SHMT_E_RUNTIME, "col must be non-negative, got%" PRId64, column);
  if (dtype == SHMT_DTYPE_NONE) dtype = SHMT_INT64;
  SHMT_REQUIRE(dtype == SHMT_INT32 || dtype == SHMT_INT64, SHMT_E_NOT_IMPLEMENTED,
               "\"%s_indices\" not implemented for '%s'", upper ? "triu" : "tril", shmt__dtype_title(dtype));
  if (device == SHMT_DEVICE_NONE) device = SHMT_CPU;
  /* The upper triangle is what the lower one below it leaves. */
  const int64_t below = upper && offset > INT64_MIN ? offset - 1 : offset;
  const __int128 lower = count_lower(row, column, below);
  const __int128 all = upper ? (__int128)row * column - lower : lower;
  SHMT_REQUIRE(all <= INT64_MAX, SHMT_E_RUNTIME,
               "%s_indices(): Storage size calculation overflowed: the triangle of %" PRId64 " rows and %" PRId64
               " columns has more than %" PRId64 " elements", upper ? "triu" : "tril", row, column, INT64_MAX);
  const int64_t count = (int64_t)all;
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(2, count), SHMT_INT64, device, SHMT_CONTIGUOUS_FORMAT, &both));
  if (!shmt__tensor_is_meta(both) && count > 0) {
    int64_t* rows = shmt__tensor_data(both);
    int64_t* columns = rows + count;
    /* Leading rows of a lower triangle may be empty, and trailing ones of an upper. */
    int64_t k = 0, r = upper || below >= 0 ? 0 : below < -INT64_MAX ? INT64_MAX : -below - 1;
    for (; k < count; r++) {
      const int64_t edge = triangle_edge(r, below, column);
      for (int64_t c = upper ? edge : 0; c < (upper ? column : edge); c++, k++) {
        rows[k] = r;
        columns[k] = c;
      }
    }
  }
  if (dtype == SHMT_INT64) {
    *out = SHMT_TAKE(both);
    return SHMT_OK;
  }
  return shmt__tensor_cast(both, dtype, out);
}

shmt_status shmt__tril_indices(int64_t row, int64_t col, int64_t offset, shmt_dtype dtype, shmt_layout layout,
                               shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return triangle_indices(row, col, offset, false, dtype, device, out);
}

shmt_status shmt__triu_indices(int64_t row, int64_t col, int64_t offset, shmt_dtype dtype, shmt_layout layout,
                               shmt_device device, shmt_opt_bool pin_memory, shmt_tensor** out) {
  (void)layout;
  (void)pin_memory;
  return triangle_indices(row, col, offset, true, dtype, device, out);
}

/* --- complex from two reals -------------------------------------------------------- */

/* out as pairs (a, b) of reals; both inputs broadcast. */
static shmt_status from_parts(const char* name, shmt_tensor* first, shmt_tensor* second, shmt_tensor** out,
                              bool polar);

shmt_status shmt__complex(shmt_tensor* real, shmt_tensor* imag, shmt_tensor** out) {
  return from_parts("complex", real, imag, out, false);
}

shmt_status shmt__polar(shmt_tensor* abs, shmt_tensor* angle, shmt_tensor** out) {
  return from_parts("polar", abs, angle, out, true);
}

/* A new result in the memory order that a loop over both would give it. */
static shmt_status allocate_parts(const char* name, shmt_tensor* first, shmt_tensor* second, shmt_dtype dtype,
                                  shmt_tensor** out) {
  shmt_iter it;

  shmt__iter_init(&it, name);
  shmt__iter_output(&it, out, dtype);
  shmt__iter_input(&it, first);
  shmt__iter_input(&it, second);
  SHMT_TRY(shmt__iter_build(&it));
  return shmt__iter_finish(&it, SHMT_OK);
}

static shmt_status from_parts(const char* name, shmt_tensor* first, shmt_tensor* second, shmt_tensor** out,
                              bool polar) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  int64_t n_dims;

  SHMT_REQUIRE(shmt__is_floating(first->dtype) && shmt__is_floating(second->dtype) && first->dtype != SHMT_BFLOAT16,
               SHMT_E_RUNTIME, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
               shmt__dtype_title(first->dtype), shmt__dtype_title(second->dtype));
  SHMT_REQUIRE(first->dtype == second->dtype, SHMT_E_RUNTIME,
               "Expected object of scalar type %s but got scalar type %s for second argument",
               shmt__dtype_title(first->dtype), shmt__dtype_title(second->dtype));
  SHMT_TRY(shmt__broadcast_sizes(shmt__tensor_sizes(first), shmt__tensor_sizes(second), sizes, &n_dims));
  SHMT_REQUIRE(!polar || first->dtype != SHMT_FLOAT16, SHMT_E_NOT_IMPLEMENTED, "\"polar_cpu\" not implemented for 'Half'");
  const shmt_dtype dtype = shmt__to_complex_dtype(first->dtype);
  SHMT_REQUIRE(!*out || (*out)->dtype == dtype, SHMT_E_RUNTIME,
               "Expected object of scalar type %s but got scalar type %s for argument 'out'", shmt__dtype_title(dtype),
               shmt__dtype_title((*out)->dtype));
  if (*out)
    SHMT_TRY(shmt__output_begin(name, out, (shmt_ints){sizes, n_dims}, dtype,
                                shmt__common_device(first, second, NULL), &work));
  else
    SHMT_TRY(allocate_parts(name, first, second, dtype, &work));
  if (!shmt__tensor_is_meta(work) && work->numel > 0) {
    /* The complex result seen as reals: every second element is a real part. */
    const shmt_dtype real = shmt__to_real_dtype(dtype);
    for (int part = 0; part < 2; part++) {
      SHMT_AUTO(shmt_tensor) half = NULL;
      for (int64_t d = 0; d < n_dims; d++) strides[d] = work->strides[d] * 2;
      SHMT_TRY(shmt__tensor_from_storage(work->storage, (shmt_ints){sizes, n_dims}, (shmt_ints){strides, n_dims},
                                         work->offset * 2 + part, real, &half));
      SHMT_TRY(shmt__tensor_copy(half, part ? second : first));
    }
    if (polar) {
      const int64_t n = work->numel;
      if (real == SHMT_FLOAT64) {
        double* z = shmt__tensor_data(work);
        for (int64_t i = 0; i < n; i++, z += 2) {
          const double r = z[0], a = z[1];
          z[0] = r * cos(a);
          z[1] = r * sin(a);
        }
      } else {
        float* z = shmt__tensor_data(work);
        for (int64_t i = 0; i < n; i++, z += 2) {
          const float r = z[0], a = z[1];
          z[0] = r * cosf(a);
          z[1] = r * sinf(a);
        }
      }
    }
  }
  return shmt__output_end(name, &work, out);
}
