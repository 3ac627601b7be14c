/* kernels/linalg/householder.tmpl.h -- QR factors of small real matrices, one dtype.
 *
 * A Householder reflector is I - tau v v', as LAPACK's: v is zero above its own row and one there. A matrix is copied
 * to a workspace, where columns are whole vectors with zeros at their ends, so that no loop has a shorter last step.
 */
#include "kernels/template.h"
#include "kernels/linalg/householder.h"

#include <string.h>

/* Products are added unrounded where the processor can. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#define INLINE       static inline __attribute__((always_inline))

enum { FN(lanes) = SHMT_VECTOR_BYTES / sizeof(T) };
typedef T FN(vector) __attribute__((vector_size(SHMT_VECTOR_BYTES)));

/* A copy of the matrix, and the vector of a reflector. */
typedef struct FN(workspace) {
  _Alignas(64) T at[SHMT_HOUSEHOLDER_ELEMENTS];
  _Alignas(64) T v[SHMT_HOUSEHOLDER_ELEMENTS];
  int64_t rows, columns; /* rows: rounded up */
} FN(workspace);

/* Where loops over a vector that is zero above row j begin. */
INLINE int64_t FN(first_row)(int64_t j) { return j / SHMT_HOUSEHOLDER_LANES * SHMT_HOUSEHOLDER_LANES; }

static void FN(load_matrix)(FN(workspace) * r, const T* a, int64_t rows, const shmt__householder_args* s) {
  r->rows = FN(first_row)(rows + SHMT_HOUSEHOLDER_LANES - 1);
  r->columns = s->columns;
  for (int64_t j = 0; j < s->columns; j++) {
    T* const column = r->at + j * r->rows;
    memcpy(column, a + j * s->pitch, (size_t)rows * sizeof *column);
    memset(column + rows, 0, (size_t)(r->rows - rows) * sizeof *column);
  }
}

/* v = what stands below row j of that column, and `one` in row j. */
INLINE void FN(read_v)(FN(workspace) * r, int64_t j, T one) {
  const int64_t begin = FN(first_row)(j);

  memcpy(r->v + begin, r->at + j * r->rows + begin, (size_t)(r->rows - begin) * sizeof *r->v);
  memset(r->v + begin, 0, (size_t)(j - begin) * sizeof *r->v);
  r->v[j] = one;
}

INLINE FN(vector) FN(load_vector)(const T* x) {
  FN(vector) v;
  memcpy(&v, x, sizeof v);
  return v;
}

/* Applies the reflector tau v v' to the columns from j + 1 on. v is zero above row j. */
static void FN(apply_reflector)(FN(workspace) * r, int64_t j, T tau) {
  const int64_t begin = FN(first_row)(j);

  if (tau == 0) return;
  for (int64_t k = j + 1; k < r->columns; k++) {
    T *const c = r->at + k * r->rows, lanes[FN(lanes)];
    FN(vector) sum = {0};
    for (int64_t i = begin; i < r->rows; i += FN(lanes)) sum += FN(load_vector)(r->v + i) * FN(load_vector)(c + i);
    memcpy(lanes, &sum, sizeof sum);
    for (int n = FN(lanes) / 2; n > 0; n /= 2)
      for (int i = 0; i < n; i++) lanes[i] += lanes[i + n];
    const T w = tau * lanes[0];
    for (int64_t i = begin; i < r->rows; i += FN(lanes)) {
      const FN(vector) less = FN(load_vector)(c + i) - w * FN(load_vector)(r->v + i);
      memcpy(c + i, &less, sizeof less);
    }
  }
}

/* The sum of the squares of v, scaled. */
INLINE double FN(scaled_square_sum)(const FN(workspace) * r, int64_t begin, double scale) {
  double sum[SHMT_HOUSEHOLDER_LANES] = {0};

  for (int64_t i = begin; i < r->rows; i += SHMT_HOUSEHOLDER_LANES)
    for (int64_t k = 0; k < SHMT_HOUSEHOLDER_LANES; k++) {
      const double x = (double)r->v[i + k] * scale;
      sum[k] += x * x;
    }
  for (int n = SHMT_HOUSEHOLDER_LANES / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) sum[i] += sum[i + n];
  return sum[0];
}

/* The 2-norm of v, which is zero above `begin`. The squares of its elements may over- or underflow. */
static double FN(norm_of_v)(const FN(workspace) * r, int64_t begin) {
  const double square = FN(scaled_square_sum)(r, begin, 1);
  double most = 0;

  if ((square > 1e-280 && square < 1e280) || isnan(square)) return sqrt(square);
  for (int64_t i = begin; i < r->rows; i++) /* no NaN here; gcc 12 cannot compile fmax on aarch64 */
    most = fabs((double)r->v[i]) > most ? fabs((double)r->v[i]) : most;
  if (most == 0 || isinf(most)) return most;
  const int power = ilogb(most) < -1000 ? -1000 : ilogb(most);
  return ldexp(sqrt(FN(scaled_square_sum)(r, begin, ldexp(1, -power))), power);
}

/* Finds the reflector that zeroes column j below row j. Stores v there. Returns tau. */
static T FN(make_reflector)(FN(workspace) * r, int64_t j) {
  T* const column = r->at + j * r->rows;
  const double first = (double)column[j];
  const int64_t begin = FN(first_row)(j);

  FN(read_v)(r, j, 0);
  const double below = FN(norm_of_v)(r, begin);
  if (below == 0) return 0;
  const double square = first * first + below * below;
  const double whole = square > 1e-280 && square < 1e280 ? sqrt(square) : hypot(first, below);
  const double left = signbit(first) ? whole : -whole;
  for (int64_t i = begin; i < r->rows; i++) r->v[i] = (T)((double)r->v[i] / (first - left));
  memcpy(column + j + 1, r->v + j + 1, (size_t)(r->rows - j - 1) * sizeof *column);
  column[j] = (T)left;
  r->v[j] = 1;
  return (T)((left - first) / left);
}

/* data: column-major elements, tau; n: rows; ctx: shmt__householder_args, which shmt__householder_fits. The elements
 * become R, with the vectors of the reflectors below, as LAPACK's geqrf leaves them. */
void SHMT_LOOP(householder_geqrf)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__householder_args* s = ctx;
  T *a = (T*)(void*)data[0], *tau = (T*)(void*)data[1];
  FN(workspace) r;

  (void)strides;
  FN(load_matrix)(&r, a, n, s);
  for (int64_t j = 0; j < s->count; j++) {
    tau[j] = FN(make_reflector)(&r, j);
    memcpy(a + j * s->pitch + j, r.at + j * r.rows + j, (size_t)(n - j) * sizeof *a);
    FN(apply_reflector)(&r, j, tau[j]);
    /* Row j is finished: an infinity that spreads to the rows above does not reach it. */
    for (int64_t k = j + 1; k < s->columns; k++) a[k * s->pitch + j] = r.at[k * r.rows + j];
  }
}

/* The same operands. The elements become those of the product of the reflectors, as LAPACK's orgqr makes them. */
void SHMT_LOOP(householder_orgqr)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__householder_args* s = ctx;
  T* a = (T*)(void*)data[0];
  const T* tau = (const T*)(const void*)data[1];
  FN(workspace) r;

  (void)strides;
  FN(load_matrix)(&r, a, n, s);
  for (int64_t k = 0; k < s->columns; k++) {
    memset(r.at + k * r.rows, 0, (size_t)(k < s->count ? k : r.rows) * sizeof *a);
    if (k >= s->count) r.at[k * r.rows + k] = 1;
  }
  for (int64_t j = s->count - 1; j >= 0; j--) {
    T* const column = r.at + j * r.rows;
    FN(read_v)(&r, j, 1);
    FN(apply_reflector)(&r, j, tau[j]);
    for (int64_t i = j; i < r.rows; i++) column[i] = -tau[j] * r.v[i];
    column[j] += 1;
  }
  for (int64_t k = 0; k < s->columns; k++) memcpy(a + k * s->pitch, r.at + k * r.rows, (size_t)n * sizeof *a);
}
#undef INLINE
#pragma GCC pop_options
