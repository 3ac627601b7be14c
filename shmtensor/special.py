"""Special functions under the names of torch.special; also Bessel, Airy and Hermite families."""

from __future__ import annotations

from shmtensor import _C

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

airy_ai = _C._nn.special_airy_ai
bessel_j0 = _C._nn.special_bessel_j0
bessel_j1 = _C._nn.special_bessel_j1
bessel_y0 = _C._nn.special_bessel_y0
bessel_y1 = _C._nn.special_bessel_y1
chebyshev_polynomial_t = _C._nn.special_chebyshev_polynomial_t
chebyshev_polynomial_u = _C._nn.special_chebyshev_polynomial_u
chebyshev_polynomial_v = _C._nn.special_chebyshev_polynomial_v
chebyshev_polynomial_w = _C._nn.special_chebyshev_polynomial_w
digamma = _C._nn.special_digamma
entr = _C._nn.special_entr
erf = _C._nn.special_erf
erfc = _C._nn.special_erfc
erfcx = _C._nn.special_erfcx
erfinv = _C._nn.special_erfinv
exp2 = _C._nn.special_exp2
expit = _C._nn.special_expit
expm1 = _C._nn.special_expm1
gammainc = _C._nn.special_gammainc
gammaincc = _C._nn.special_gammaincc
gammaln = _C._nn.special_gammaln
hermite_polynomial_h = _C._nn.special_hermite_polynomial_h
hermite_polynomial_he = _C._nn.special_hermite_polynomial_he
i0 = _C._nn.special_i0
i0e = _C._nn.special_i0e
i1 = _C._nn.special_i1
i1e = _C._nn.special_i1e
laguerre_polynomial_l = _C._nn.special_laguerre_polynomial_l
legendre_polynomial_p = _C._nn.special_legendre_polynomial_p
log1p = _C._nn.special_log1p
log_ndtr = _C._nn.special_log_ndtr
log_softmax = _C._nn.special_log_softmax
logit = _C._nn.special_logit
logsumexp = _C._nn.special_logsumexp
modified_bessel_i0 = _C._nn.special_modified_bessel_i0
modified_bessel_i1 = _C._nn.special_modified_bessel_i1
modified_bessel_k0 = _C._nn.special_modified_bessel_k0
modified_bessel_k1 = _C._nn.special_modified_bessel_k1
multigammaln = _C._nn.special_multigammaln
ndtr = _C._nn.special_ndtr
ndtri = _C._nn.special_ndtri
polygamma = _C._nn.special_polygamma
psi = _C._nn.special_psi
round = _C._nn.special_round
scaled_modified_bessel_k0 = _C._nn.special_scaled_modified_bessel_k0
scaled_modified_bessel_k1 = _C._nn.special_scaled_modified_bessel_k1
shifted_chebyshev_polynomial_t = _C._nn.special_shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u = _C._nn.special_shifted_chebyshev_polynomial_u
shifted_chebyshev_polynomial_v = _C._nn.special_shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w = _C._nn.special_shifted_chebyshev_polynomial_w
sinc = _C._nn.special_sinc
softmax = _C._nn.special_softmax
spherical_bessel_j0 = _C._nn.special_spherical_bessel_j0
xlog1py = _C._nn.special_xlog1py
xlogy = _C._nn.special_xlogy
zeta = _C._nn.special_zeta
