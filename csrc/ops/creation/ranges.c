/* ops/creation/ranges.c -- arange, range, linspace, logspace, eye. */
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "iter/copy/streaming_stores.h"
#include "iter/threads.h"
#include "ops/check.h"
#include "ops/dtype_names.h"
#include "ops/outputs.h"

#include <complex.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { VALUES_AT_ONCE = 128, GRAIN_ELEMENTS = 1 << 16 };

/* The values of a range. */
typedef struct range {
  bool integral;
  int64_t i_start, i_step;
  double start, step;
  double end;     /* linspace calculates its second half backwards from here */
  int64_t steps;  /* of linspace; 0 for arange */
  bool is_fused;  /* linspace of float64 and integers: the product is not rounded */
  shmt__cast_loop_fn narrow, widen; /* linspace of other floats: to the dtype and back; NULL: it is not rounded to */
  int64_t narrow_item;
  bool is_powers; /* logspace: powers of base */
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
  shmt__cast_loop_fn cast; /* NULL: no cast is needed */
  char* data;
  int64_t item;
  bool streamed;
} filling;

/* n elements of an integer range from `first` on. Adds one step at a time, which wraps behind the last. */
static void fill_integers(const range* r, int64_t first, int64_t n, int64_t* to) {
  const uint64_t step = (uint64_t)r->i_step;
  uint64_t value = (uint64_t)r->i_start + (uint64_t)first * step;

  for (int64_t k = 0; k < n; k++, value += step) to[k] = (int64_t)value;
}

/* start + step * i for n integers i from `first` on, which doubles hold exactly. */
static void fill_steps(double start, double step, int64_t first, int64_t n, double* to) {
  const double from = (double)first;

  for (int32_t k = 0; k < (int32_t)n; k++) to[k] = start + step * (from + k);
}

/* Rounds n doubles to the dtype of a range, at most VALUES_AT_ONCE. */
static void round_all(const range* r, int64_t n, double* values) {
  char rounded[VALUES_AT_ONCE * sizeof(double)];

  r->narrow(rounded, r->narrow_item, (const char*)values, sizeof *values, n);
  r->widen((char*)values, sizeof *values, rounded, r->narrow_item, n);
}

/* As fill_steps, but the product is not rounded: fma(), which is slow where the processor has no such instruction.
 * Products of few bits are exact, so the rest that rounding takes from the whole product can be added to that of
 * the sum. */
static void fill_fused_steps(double start, double step, int64_t first, int64_t n, double* to) {
  const double from = (double)first, size = fabs(step);
  const bool is_small = first > -(1 << 26) && first + n <= 1 << 26; /* integers of 26 bits */
  uint64_t bits;
  double high, low;

  if (!is_small || !(size > 1e-250 && size < 1e250 && fabs(start) < 1e250)) { /* rests could be lost, or be NaN */
    for (int32_t k = 0; k < (int32_t)n; k++) to[k] = fma(step, from + k, start);
    return;
  }
  memcpy(&bits, &step, sizeof bits);
  bits &= ~(uint64_t)0x7ffffff; /* leaves 26 bits, and 27 or fewer to `low` */
  memcpy(&high, &bits, sizeof high);
  low = step - high;
  for (int32_t k = 0; k < (int32_t)n; k++) {
    const double i = from + k, product = step * i, product_rest = high * i - product + low * i;
    const double sum = start + product, part = sum - start, sum_rest = start - (sum - part) + (product - part);

    to[k] = sum + (sum_rest + product_rest);
  }
}

/* As fill_steps, in the arithmetic of the dtype: float64 rounds once, float32 too, since a double holds the product of
 * two; narrower dtypes round the product as well. */
static void fill_rounded_steps(const range* r, double start, int64_t first, int64_t n, double* to) {
  const double step = r->step, from = (double)first;

  if (r->is_fused) {
    fill_fused_steps(start, step, first, n, to);
  } else if (r->narrow && r->narrow_item == sizeof(float)) {
    for (int32_t k = 0; k < (int32_t)n; k++) to[k] = start + step * (double)(float)(from + k);
  } else if (r->narrow) {
    for (int32_t k = 0; k < (int32_t)n; k++) to[k] = from + k;
    round_all(r, n, to);
    for (int32_t k = 0; k < (int32_t)n; k++) to[k] *= step;
    round_all(r, n, to);
    for (int32_t k = 0; k < (int32_t)n; k++) to[k] += start;
  } else {
    fill_steps(start, step, first, n, to);
  }
}

/* n elements from `first` on, at most VALUES_AT_ONCE. */
static void fill_doubles(const range* r, int64_t first, int64_t n, double* to) {
  const int64_t left = r->steps / 2 - first, ahead = r->steps == 0 || left > n ? n : left < 0 ? 0 : left;

  fill_rounded_steps(r, r->start, first, ahead, to);
  fill_rounded_steps(r, r->end, first + ahead - (r->steps - 1), n - ahead, to + ahead);
  if (!r->is_powers) return;
  for (int64_t k = 0; k < n; k++) to[k] = pow(r->base, to[k]);
}

/* Fills a piece. Makes blocks of doubles, complex doubles or int64s, and converts them with the cast loops: so every
 * dtype works. */
static void fill_piece(void* ctx, int64_t begin, int64_t end) {
  const filling* f = ctx;
  const range* r = f->r;
  union {
    double d[VALUES_AT_ONCE];
    double _Complex z[VALUES_AT_ONCE];
    int64_t i[VALUES_AT_ONCE];
  } block;
  _Alignas(16) char made[VALUES_AT_ONCE * 16]; /* in the range's own dtype */

  if (r->integral && !f->cast && !f->streamed) {
    fill_integers(r, begin, end - begin, (int64_t*)(void*)f->data + begin);
    return;
  }
  for (int64_t n; begin < end; begin += n) {
    n = end - begin < VALUES_AT_ONCE ? end - begin : VALUES_AT_ONCE;
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
  filling f = {r, from == SHMT_INT64 && t->dtype == from ? NULL : shmt__cast_loop(t->dtype, from), NULL,
               shmt__tensor_item_bytes(t), false};

  if (shmt__tensor_is_meta(t)) return;
  f.data = shmt__tensor_data(t);
  f.streamed = t->numel * f.item >= SHMT_STREAM_BYTES;
  shmt__parallel_for(t->numel, GRAIN_ELEMENTS, fill_piece, &f);
}

/* Makes the result. A preset output's dtype and device are used when none is asked for. On the CPU a preset output of n
 * elements keeps its shape; with is_kept on Meta too. */
static shmt_status make_range(const char* name, bool is_kept, int64_t n, shmt_dtype dtype, shmt_device device,
                              const range* r, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;
  int64_t kept[SHMT_MAX_DIMS];
  shmt_ints sizes = SHMT_INTS(n);

  if (*out) {
    dtype = (*out)->dtype;
    device = (*out)->device;
    if ((*out)->numel == n && (is_kept || !shmt__tensor_is_meta(*out))) {
      sizes = (shmt_ints){kept, (*out)->n_dims};
      memcpy(kept, (*out)->sizes, (size_t)sizes.len * sizeof *kept);
    }
    SHMT_TRY(shmt__prepare_factory_out(*out, sizes));
  }
  SHMT_TRY(shmt__output_begin(name, out, sizes, dtype, device == SHMT_DEVICE_NONE ? SHMT_CPU : device, &work));
  fill_range(work, r);
  return shmt__output_end(name, &work, out);
}

/* Warns when a preset output has another number of elements: that number comes from rounded quotients. */
static shmt_status warn_of_count(const shmt_tensor* out, int64_t count) {
  if (out->numel == 0 || out->numel == count) return SHMT_OK;
  return shmt__warn("The number of elements in the out tensor of shape %s is %" PRId64
                    " which does not match the computed "
                    "number of elements %" PRId64
                    ". Note that this may occur as a result of rounding error. The out tensor "
                    "will be resized to a tensor of shape (%" PRId64 ",).",
                    SHMT_SHAPE_TEXT(out), out->numel, count, count);
}

/* The dtype in which a range of dtype is calculated. */
static shmt_dtype counted_in(shmt_dtype dtype) {
  return shmt__is_integral(dtype) ? SHMT_INT64 : shmt__is_half(dtype) ? SHMT_FLOAT32 : SHMT_FLOAT64;
}

/* Checks that bounds and step of arange and range are real, and in the range of the dtype calculated in. */
static shmt_status check_real(shmt_scalar start, shmt_scalar step, shmt_dtype counted, shmt_scalar end,
                              shmt_dtype end_dtype) {
  SHMT_TRY(shmt__scalar_check(start, counted));
  SHMT_TRY(shmt__scalar_check(end, end_dtype));
  return shmt__scalar_check(step, counted);
}

static bool is_whole(shmt_scalar s) { return shmt__scalar_is_integral(s, true); }

static shmt_status check_range_dtype(const char* what, shmt_dtype dtype, bool complex_too) {
  SHMT_REFUSE_DTYPE(dtype == SHMT_BOOL || (!complex_too && shmt__is_complex(dtype)), dtype, what);
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
  if (*out) dtype = (*out)->dtype;
  if (dtype == SHMT_DTYPE_NONE)
    dtype = is_whole(start) && is_whole(end) && is_whole(step) ? SHMT_INT64 : shmt__default_dtype();
  SHMT_TRY(check_range_dtype("arange_cpu", dtype, false));
  /* Only in int64 is the end used otherwise than in the quotient that gives the size. */
  SHMT_TRY(check_real(start, step, counted_in(dtype), end, dtype == SHMT_INT64 ? dtype : SHMT_FLOAT64));
  r.integral = shmt__is_integral(dtype);
  r.start = first;
  r.step = shmt__scalar_to_double(step);
  if (r.integral) {
    /* Bounds and step are first converted to the integer dtype. */
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
  if (*out && !shmt__tensor_is_meta(*out)) SHMT_TRY(warn_of_count(*out, (int64_t)count));
  return make_range("arange", false, (int64_t)count, dtype, device, &r, out);
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
  if (*out) dtype = (*out)->dtype;
  if (dtype == SHMT_DTYPE_NONE) dtype = shmt__default_dtype();
  SHMT_TRY(check_range_dtype("range_cpu", dtype, false));
  SHMT_TRY(check_real(start, step, counted_in(dtype), end, counted_in(dtype)));
  SHMT_REQUIRE(r.step > 0 || r.step < 0, SHMT_E_RUNTIME, "step must be nonzero");
  SHMT_REQUIRE(isfinite(r.start) && isfinite(last), SHMT_E_RUNTIME, "unsupported range: %g -> %g", r.start, last);
  SHMT_REQUIRE((r.step > 0 && last >= r.start) || (r.step < 0 && last <= r.start), SHMT_E_RUNTIME,
               "upper bound and lower bound inconsistent with step sign");
  return make_range("range", true, (int64_t)((last - r.start) / r.step + 1), dtype, device, &r, out);
}

/* The dtype of values between start and end: a complex bound needs a complex one. */
static shmt_status spaced_dtype(const char* name, shmt_scalar start, shmt_scalar end, shmt_dtype* dtype) {
  shmt_dtype inferred = shmt__default_dtype();

  if (start.tag == SHMT_SCALAR_COMPLEX || end.tag == SHMT_SCALAR_COMPLEX) {
    inferred = shmt__scalar_dtype(shmt__scalar_complex(0, 0));
    SHMT_REQUIRE(*dtype == SHMT_DTYPE_NONE || shmt__is_complex(*dtype), SHMT_E_RUNTIME,
                 "torch.%s(): inferred dtype %s can't be safely cast to passed dtype %s", name,
                 shmt__dtype_ctype(inferred), shmt__dtype_title(*dtype));
  }
  if (*dtype == SHMT_DTYPE_NONE) *dtype = inferred;
  return SHMT_OK;
}

/* Rounds bounds and step to the dtype as the values will be. Powers are those of exact exponents, and so many steps
 * that the dtype cannot count them are exact too (in torch they are NaN). */
static void round_to_dtype(range* r, shmt_dtype dtype) {
  double parts[3] = {r->start, r->end, (double)(r->steps - 1)};

  if (r->is_powers || shmt__is_complex(dtype)) return;
  r->is_fused = dtype == SHMT_FLOAT64 || shmt__is_integral(dtype);
  if (r->is_fused || r->steps < 2) return;
  r->narrow = shmt__cast_loop(dtype, SHMT_FLOAT64);
  r->widen = shmt__cast_loop(SHMT_FLOAT64, dtype);
  r->narrow_item = shmt__dtype_size[dtype];
  round_all(r, 3, parts);
  if (!isfinite(parts[2])) r->narrow = NULL;
  if (!r->narrow) return;
  r->start = parts[0];
  r->end = parts[1];
  r->step = r->end - r->start;
  round_all(r, 1, &r->step);
  r->step /= parts[2];
  round_all(r, 1, &r->step);
}

/* The values, or the powers of base with them when base is not NULL. */
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
  round_to_dtype(&r, dtype);
  return make_range(name, false, steps, dtype, device, &r, out);
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

/* Reads bounds that are given as 0-d tensors. */
static shmt_status bound_of(const char* name, shmt_tensor* start, shmt_tensor* end, shmt_scalar* first,
                            shmt_scalar* last) {
  const bool zero_dim = (!start || start->n_dims == 0) && (!end || end->n_dims == 0);

  if (start && end)
    SHMT_REQUIRE(zero_dim, SHMT_E_RUNTIME,
                 "%s only supports 0-dimensional start and end tensors, but got start with %d "
                 "dimension(s) and end with %d dimension(s).",
                 name, start->n_dims, end->n_dims);
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
  if (*out) SHMT_TRY(shmt__prepare_factory_out(*out, SHMT_INTS(n, m)));
  SHMT_TRY(shmt__output_begin("eye", out, SHMT_INTS(n, m), dtype, device == SHMT_DEVICE_NONE ? SHMT_CPU : device,
                              &work));
  if (!shmt__tensor_is_meta(work)) {
    SHMT_TRY(shmt__tensor_fill(work, shmt__scalar_int(0)));
    SHMT_TRY(shmt__tensor_alias(work, SHMT_INTS(n < m ? n : m), SHMT_INTS(m < INT64_MAX ? m + 1 : m), work->offset,
                                &diagonal));
    SHMT_TRY(shmt__tensor_fill(diagonal, shmt__scalar_int(1)));
  }
  return shmt__output_end("eye", &work, out);
}

shmt_status shmt__eye(int64_t n, shmt_dtype dtype, shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory,
                      shmt_tensor** out) {
  return shmt__eye_m(n, n, dtype, layout, device, pin_memory, out);
}
