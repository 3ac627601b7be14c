/* ops/creation/window_functions.c -- window functions of signal processing: hann_window, hamming_window, kaiser_window
 * and more. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "iter/copy/copy.h"
#include "kernels/special/special.h"
#include "ops/check.h"
#include "ops/outputs.h"

#include <inttypes.h>
#include <math.h>

#define PI 3.141592653589793

enum { VALUES_AT_ONCE = 512 };

/* A window is f(x) for x from 0 to 1 over its length; a and b are parameters of f. */
typedef struct window {
  const char* name;
  double (*value)(double x, double a, double b);
  double a, b;
} window;

static double hamming(double x, double alpha, double beta) { return alpha - beta * cos(2 * PI * x); }

static double bartlett(double x, double a, double b) {
  (void)a;
  (void)b;
  return 1 - fabs(2 * x - 1);
}

static double blackman(double x, double a, double b) {
  (void)a;
  (void)b;
  return 0.42 - 0.5 * cos(2 * PI * x) + 0.08 * cos(4 * PI * x);
}

static double kaiser(double x, double beta, double b) {
  const double t = 2 * x - 1;

  (void)b;
  return shmt__bessel_i0(beta * sqrt(fmax(0, 1 - t * t))) / shmt__bessel_i0(beta);
}

static shmt_status fill_window(shmt_tensor* t, const window* w, int64_t intervals) {
  const shmt__cast_loop_fn cast = shmt__cast_loop(t->dtype, SHMT_FLOAT64);
  const int64_t item = shmt__tensor_item_bytes(t);
  char* data = shmt__tensor_data(t);
  double block[VALUES_AT_ONCE];

  for (int64_t begin = 0; begin < t->numel; begin += VALUES_AT_ONCE) {
    const int64_t n = t->numel - begin < VALUES_AT_ONCE ? t->numel - begin : VALUES_AT_ONCE;
    for (int64_t k = 0; k < n; k++)
      block[k] = intervals > 0 ? w->value((double)(begin + k) / (double)intervals, w->a, w->b) : 1;
    cast(data + begin * item, item, (const char*)block, 8, n);
  }
  return SHMT_OK;
}

/* A window of `length` points. A periodic window is a symmetric one, a point longer, without its last point. */
static shmt_status make_window(const window* w, int64_t length, bool periodic, shmt_dtype dtype, shmt_device device,
                               shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) work = NULL;

  if (*out) {
    dtype = (*out)->dtype;
    device = (*out)->device;
  }
  if (dtype == SHMT_DTYPE_NONE) dtype = shmt__default_dtype();
  if (device == SHMT_DEVICE_NONE) device = SHMT_CPU;
  SHMT_REFUSE_DTYPE(shmt__is_complex(dtype), dtype, "arange_cpu");
  SHMT_REQUIRE(shmt__is_floating(dtype), SHMT_E_RUNTIME,
               "%s expects floating point dtypes, got: %s", w->name, shmt__dtype_name[dtype]);
  SHMT_REQUIRE(length >= 0, SHMT_E_RUNTIME,
               "%s requires non-negative window_length, got window_length=%" PRId64, w->name,
               length);
  SHMT_TRY(shmt__output_begin(w->name, out, SHMT_INTS(length), dtype, device, &work));
  if (!shmt__tensor_is_meta(work)) SHMT_TRY(fill_window(work, w, length > 1 && periodic ? length : length - 1));
  return shmt__output_end(w->name, &work, out);
}

#define FACTORY                                                                  \
  shmt_dtype dtype, shmt_layout layout, shmt_device device, shmt_opt_bool pin_memory, \
      shmt_tensor **out
#define UNUSED  \
  (void)layout; \
  (void)pin_memory

/* name_window(length) and name_window.periodic(length, periodic) */
#define WINDOW(NAME, FUNCTION, A, B)                                                                    \
  shmt_status shmt__##NAME##_window_periodic(int64_t window_length, bool periodic, FACTORY) {           \
    static const window w = {#NAME "_window", FUNCTION, A, B};                                          \
    UNUSED;                                                                                             \
    return make_window(&w, window_length, periodic, dtype, device, out);                                \
  }                                                                                                     \
  shmt_status shmt__##NAME##_window(int64_t window_length, FACTORY) {                                   \
    return shmt__##NAME##_window_periodic(window_length, true, dtype, layout, device, pin_memory, out); \
  }
WINDOW(bartlett, bartlett, 0, 0)
WINDOW(blackman, blackman, 0, 0)
WINDOW(hamming, hamming, 0.54, 0.46)
WINDOW(hann, hamming, 0.5, 0.5)
WINDOW(kaiser, kaiser, 12, 0)

shmt_status shmt__hamming_window_alpha(int64_t window_length, bool periodic, double alpha,
                                       FACTORY) {
  const window w = {"hamming_window", hamming, alpha, 0.46};

  UNUSED;
  return make_window(&w, window_length, periodic, dtype, device, out);
}

shmt_status shmt__hamming_window_beta(int64_t window_length, bool periodic, double alpha,
                                      double beta, FACTORY) {
  const window w = {"hamming_window", hamming, alpha, beta};

  UNUSED;
  return make_window(&w, window_length, periodic, dtype, device, out);
}

shmt_status shmt__kaiser_window_beta(int64_t window_length, bool periodic, double beta, FACTORY) {
  const window w = {"kaiser_window", kaiser, beta, 0};

  UNUSED;
  return make_window(&w, window_length, periodic, dtype, device, out);
}
