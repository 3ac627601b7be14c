/* kernels/special/sample_grad.tmpl.h -- derivatives of gamma and Dirichlet draws, one dtype; calculated in double. */
#include "kernels/loops.h"
#include "kernels/simd/polynomial.h"
#include "kernels/simd/vmath.h"
#include "kernels/special/sample_grad.h"

/* All nodes at once: vectors. */
static double FN(gamma_integral)(double x, double slope, double offset, double end, double side) {
  double parts[SHMT_NODES], sum = 0;

  for (int i = 0; i < SHMT_NODES; i++) {
    const double w = end * shmt__nodes[i], v = side * w;
    /* exp(v) - 1 - v: digits would cancel near 0 */
    const double near = v * v * POLY(v, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                     1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800);
    const double far = shmt__exp(v) - 1.0 - v, gap = shmt__vmath_clamp(v, -0.3, 0.3) == v ? near : far;
    parts[i] = shmt__weights[i] * (offset + w) * shmt__exp(-slope * w - x * gap);
  }
  for (int i = 0; i < SHMT_NODES; i++) sum += parts[i];
  return end * sum;
}

BINARY(standard_gamma_grad, (C)shmt__gamma_sample_grad(a, b, FN(gamma_integral)))
TERNARY(dirichlet_grad, (C)shmt__beta_sample_grad(a, b, (double)c - (double)b))
