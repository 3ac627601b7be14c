"""Reductions, products, factorizations and transforms: the shapes that fit each other."""

from __future__ import annotations

from ops.spec.arguments import (
    DTYPE,
    Case,
    case,
    distinct,
    fixed,
    herm,
    inv,
    lower,
    ordered,
    pos,
    spd,
    t,
    unit,
    upper,
)

import shmtensor as st

_x = t(3, 4)
_cube = t(2, 3, 4)
_over = [case(_x), case(_cube, [0, 2]), case(_x, 1, True)]
_by_dim = [case(_x, 0), case(_cube, -1, True)]

REDUCE: dict[str, list[Case]] = {
    "_unreduce": [case(t(), 0, 2)],
    "_reduced_expand": [case(t(3), [3, 4], [1], False)],
    "all": [case(_x)],
    "all.dim": _by_dim,
    "all.dims": [case(_x), case(_cube, [0, 2])],
    "any": [case(_x)],
    "any.dim": _by_dim,
    "any.dims": [case(_x), case(_cube, [0, 2], True)],
    "allclose": [case(_x, _x)],
    "equal": [case(_x, _x)],
    "_local_scalar_dense": [case(t()), case(t(1, 1))],
    "amax": [case(distinct(3, 4)), case(distinct(2, 3, 4), [0, 2]), case(distinct(3, 4), 1, True)],
    "amin": [case(distinct(3, 4)), case(distinct(2, 3, 4), [0, 2]), case(distinct(3, 4), 1, True)],
    "aminmax": [case(distinct(3, 4)), case(distinct(3, 4), dim=0, keepdim=True)],
    "argmax": [case(distinct(3, 4)), case(distinct(3, 4), 0, True)],
    "argmin": [case(distinct(3, 4)), case(distinct(3, 4), 1)],
    "count_nonzero": [case(_x), case(_x, 0)],
    "count_nonzero.dim_IntList": [case(_cube, [0, 2])],
    "cummax": [case(distinct(3, 4), 0)],
    "cummin": [case(distinct(3, 4), 1)],
    "cumprod": [case(_x, 0), case(t(2, 3), -1)],
    "cumsum": [case(_x, 0), case(_x, -1)],
    "linalg_vector_norm": [case(_x)]
    + [case(_x, p, 1, True) for p in (0, 1, 2, 3, float("inf"), -float("inf"))],
    "logcumsumexp": [case(_x, 0), case(_x, 1)],
    "logsumexp": [case(_x, 0), case(_cube, [0, 2], True)],
    "max": [case(distinct(3, 4))],
    "min": [case(distinct(3, 4))],
    "max.dim": [case(distinct(3, 4), 0), case(distinct(3, 4), 1, True)],
    "min.dim": [case(distinct(3, 4), 0), case(distinct(3, 4), 1, True)],
    "mean.dim": _by_dim + [case(_cube, [0, 2])],
    "nanmean": _over,
    "nansum": _over,
    "norm.ScalarOpt_dim": [case(_x, 2, 0), case(_x, None, [0, 1], True)],
    "norm.ScalarOpt_dim_dtype": [case(_x, 2, 0, False, dtype=DTYPE)],
    "norm.ScalarOpt_dtype": [case(_x, 2, dtype=DTYPE)],
    "norm.Scalar": [case(_x), case(_x, 1)],
    "prod.dim_int": _by_dim,
    "std": [case(_x), case(_x, False)],
    "var": [case(_x), case(_x, False)],
    "std.correction": [case(_x, 0, correction=0), case(_x, [0, 1], keepdim=True)],
    "var.correction": [case(_x, 0, correction=0), case(_x, [0, 1], keepdim=True)],
    "std.dim": [case(_x, 0)],
    "var.dim": [case(_x, 0, False, True)],
    "std_mean": [case(_x)],
    "var_mean": [case(_x)],
    "std_mean.correction": [case(_x, 0, correction=0)],
    "var_mean.correction": [case(_x, 0, correction=0)],
    "std_mean.dim": [case(_x, 0)],
    "var_mean.dim": [case(_x, 1, False, True)],
    "sum.dim_IntList": _by_dim + [case(_cube, [0, 2]), case(_x, None)],
    "frobenius_norm.dim": [case(_x, 1), case(_x, [0, 1], True)],
    "log_softmax.int": [case(_x, 0), case(_x, -1)],
    "softmax.int": [case(_x, 0), case(_x, -1)],
    "special_log_softmax": [case(_x, 1)],
    "special_softmax": [case(_x, 1)],
    "special_logsumexp": [case(_x, 1)],
    "_log_softmax": [case(_x, 1, False)],
    "_softmax": [case(_x, 0, False)],
}

_y = t(3, 5)
_dx = ordered(5)
_norm = t(4, 2)

STATISTICS: dict[str, list[Case]] = {
    "cumulative_trapezoid.dx": [case(_y), case(_y, dx=2, dim=0)],
    "cumulative_trapezoid.x": [case(_y, _dx)],
    "trapezoid.dx": [case(_y), case(_y, dx=2, dim=0)],
    "trapezoid.x": [case(_y, _dx)],
    "trapz.dx": [case(_y, dx=2.0)],
    "trapz.x": [case(_y, _dx)],
    "_cumulative_trapezoid_even": [case(_y, 2, 0)],
    "_trapezoid_even": [case(_y, 2, 0)],
    "_cumulative_trapezoid_sum": [case(_y, t(4), 1)],
    "_trapezoid_sum": [case(_y, t(4), 1)],
    "diff": [case(_x), case(_x, 2, 0), case(_x, 1, 1, t(3, 1), t(3, 2))],
    "_histogramdd_bin_edges": [case(_norm, [2, 3])],
    "_histogramdd_from_bin_tensors": [
        case(_norm, [fixed([-3, 0, 3]), fixed([-3, -1, 3])]),
        case(_norm, [fixed([-3, 0, 3]), fixed([-3, 3])], weight=pos(4), density=True),
    ],
    "_renorm_scale": [case(pos(3, 1), 2)],
    "corrcoef": [case(_x)],
    "cov": [
        case(_x),
        case(_x, correction=0),
        case(_x, fweights=fixed([1, 2, 1, 3], "int64"), aweights=pos(4)),
    ],
    "dist": [case(_x, _x), case(_x, _x, 1)],
    "histogram.bin_ct": [case(_x, 4), case(_x, 4, range=[-2.0, 2.0], weight=pos(3, 4))],
    "histogram.bins_tensor": [case(_x, fixed([-3, -1, 0, 3]), density=True)],
    "nanquantile": [case(_x, unit(2), 0)],
    "nanquantile.scalar": [case(_x, 0.3)],
    "quantile": [case(_x, unit(2), 0), case(_x, unit(2), 1, True, interpolation="lower")],
    "quantile.scalar": [case(_x, 0.3), case(_x, 0.5, 1, interpolation="nearest")],
    "renorm": [case(_x, 2, 0, 1.5)],
    "renorm_": [case(_x, 2, 0, 1.5)],
    "segment_reduce": [
        case(t(5, 2), r, lengths=fixed([2, 1, 2], "int64"))
        for r in ("sum", "mean", "max", "min", "prod")
    ],
    "sum_to_size": [case(_cube, [3, 1])],
    "trace": [case(_x)],
}

_a, _b, _v = t(3, 4), t(4, 5), t(4)
_batch_a, _batch_b = t(2, 3, 4), t(2, 4, 5)

PRODUCTS: dict[str, list[Case]] = {
    "_adjoint": [case(_x)],
    "_mm_mat1_backward": [case(t(3, 5), _b, [3, 4], [4, 1], 2)],
    "_mm_mat2_backward": [case(t(3, 5), _a, [4, 5], [5, 1], 2)],
    "addbmm": [case(t(3, 5), _batch_a, _batch_b), case(t(5), _batch_a, _batch_b, beta=2, alpha=3)],
    "addmm": [
        case(t(3, 5), _a, _b),
        case(t(5), _a, _b, beta=2, alpha=3),
        case(t(3, 5), _a, _b, beta=0),
    ],
    "addmv": [case(t(3), _a, _v), case(t(), _a, _v, beta=2, alpha=3)],
    "addr": [case(t(3, 4), t(3), _v), case(t(4), t(3), _v, beta=2, alpha=3)],
    "baddbmm": [
        case(t(2, 3, 5), _batch_a, _batch_b),
        case(t(5), _batch_a, _batch_b, beta=2, alpha=3),
    ],
    "bmm": [case(_batch_a, _batch_b)],
    "chain_matmul": [case([_a, _b, t(5, 2)])],
    "dot": [case(_v, _v)],
    "vdot": [case(_v, _v)],
    "ger": [case(t(3), _v)],
    "outer": [case(t(3), _v)],
    "inner": [case(_x, t(2, 4)), case(_v, _v)],
    "linear": [
        case(_x, t(5, 4)),
        case(_x, t(5, 4), t(5)),
        case(_v, t(5, 4)),
        case(_cube, t(5, 4), t(5)),
    ],
    "matmul": [
        case(_a, _b),
        case(_v, _b),
        case(_a, _v),
        case(_v, _v),
        case(_batch_a, _b),
        case(t(2, 1, 3, 4), _batch_b),
    ],
    "linalg_matmul": [case(_a, _b)],
    "mm": [case(_a, _b)],
    "mv": [case(_a, _v)],
    "_cdist_forward": [case(t(3, 2), t(4, 2), 2.0), case(t(2, 3, 2), t(4, 2), 3.0)],
    "_normalize": [case(_x, p, d, 1e-3) for p, d in ((2.0, -1), (2.0, 0), (3.0, 1))],
    "_cdist_of_rows": [case(t(3, 2), t(4, 2), 2.0), case(t(2, 3, 2), t(4, 2), 3.0)],
    "_pdist": [case(t(4, 2), 2.0), case(t(3, 2), 1.0)],
    "_pdist_forward": [case(t(4, 2), 2.0), case(t(3, 2), 1.0)],
    "_pdist_of_rows": [case(t(4, 2), 2.0), case(t(4, 2), 3.0)],
    "_cdist": [case(t(3, 2), t(4, 2), 2.0), case(t(3, 2), t(4, 2), 1.0)],
    "cdist": [case(t(3, 2), t(4, 2), p) for p in (2.0, 1.0, 0.5, float("inf"))],
    "einsum": [
        case("ij,jk->ik", [_a, _b]),
        case("ii", [t(3, 3)]),
        case("bij,bjk", [_batch_a, _batch_b]),
    ],
    "kron": [case(t(2, 2), t(3, 2))],
    "pdist": [case(t(4, 2)), case(t(4, 2), 1.0)],
    "tensordot": [case(_cube, t(4, 3, 5), [1, 2], [1, 0])],
    "cross": [case(t(4, 3), t(4, 3)), case(t(3, 4), t(3, 4), 0)],
    "linalg_cross": [case(t(4, 3), t(4, 3)), case(t(3, 4), t(3, 4), dim=0)],
    "linalg_vecdot": [case(_x, _x), case(_x, _x, dim=0)],
    "linalg_multi_dot": [case([_a, _b, t(5, 2)]), case([_v, _b])],
}

_square, _tall, _wide = inv(3, 3), t(4, 3), t(3, 4)
_batched = inv(2, 3, 3)
_right = t(3, 2)
_pivots = fixed([1, 2, 3], "int32")
_upper = inv(3, 3)
_plain = [case(_square), case(_batched)]
_positive = [case(spd(3, 3)), case(spd(2, 3, 3))]
_hermitian = [case(herm(3, 3)), case(herm(3, 3), "U")]
_least = [case(_tall, t(4, 2))]

LINALG: dict[str, list[Case]] = {
    **dict.fromkeys(
        (
            "linalg_det",
            "det",
            "_linalg_det",
            "_linalg_slogdet",
            "linalg_slogdet",
            "slogdet",
            "linalg_inv",
            "inverse",
            "linalg_inv_ex",
            "linalg_lu",
            "linalg_lu_factor",
            "linalg_lu_factor_ex",
            "linalg_matrix_exp",
            "matrix_exp",
            "_det_cofactors",
            "linalg_eig",
            "linalg_eigvals",
            "_linalg_eigvals",
        ),
        _plain,
    ),
    "logdet": [case(spd(3, 3))],
    **dict.fromkeys(("linalg_cholesky", "linalg_cholesky_ex", "cholesky"), _positive),
    **dict.fromkeys(("linalg_eigh", "linalg_eigvalsh", "_linalg_eigh"), _hermitian),
    "linalg_ldl_factor": [case(spd(3, 3))],
    "linalg_ldl_factor_ex": [case(spd(3, 3))],
    "linalg_ldl_solve": [case(spd(3, 3), _pivots, _right)],
    "cholesky_inverse": [case(lower(3, 3)), case(upper(3, 3), True)],
    "cholesky_solve": [case(_right, lower(3, 3)), case(_right, upper(3, 3), True)],
    "geqrf": [case(_tall)],
    "orgqr": [case(_tall, t(3))],
    "linalg_householder_product": [case(_tall, t(3))],
    "linalg_lstsq": _least,
    "linalg_lu_solve": [
        case(_square, _pivots, _right),
        case(_square, _pivots, t(2, 3), left=False, adjoint=True),
    ],
    "lu_solve": [case(_right, _square, _pivots)],
    "lu_unpack": [case(_square, _pivots)],
    "ormqr": [case(_tall, t(3), t(4, 2)), case(_tall, t(3), t(2, 4), False, True)],
    "linalg_solve": [
        case(_square, _right),
        case(_square, t(3)),
        case(_batched, t(2, 3, 2)),
        case(_square, t(2, 3), left=False),
    ],
    "linalg_solve_ex": [case(_square, _right)],
    "linalg_solve_triangular": [
        case(_square, _right, upper=True),
        case(_square, t(2, 3), upper=False, left=False, unitriangular=True),
    ],
    "triangular_solve": [case(_right, _square), case(_right, _square, False, True, True)],
    "linalg_svd": [case(_tall, False), case(_tall), case(_wide, False)],
    "_linalg_svd": [case(_tall, False), case(_wide, False)],
    "svd": [case(_tall), case(_tall, False)],
    "linalg_svdvals": [case(_tall), case(t(2, 3, 4))],
    "linalg_qr": [case(_tall), case(_square), case(_tall, "complete"), case(_wide, "r")],
    "qr": [case(_tall), case(_square, False)],
    "linalg_cond": [case(_square), case(_square, 1), case(_square, -2)],
    "linalg_cond.p_str": [case(_square, "fro"), case(_square, "nuc")],
    "linalg_matrix_norm": [case(_x, p) for p in (1, 2, -1, -2, float("inf"))],
    "linalg_matrix_norm.str_ord": [case(_x), case(_x, "nuc")],
    "linalg_matrix_power": [case(_square, n) for n in (0, 1, 3, -2)],
    "matrix_power": [case(_square, 2)],
    "linalg_matrix_rank": [case(_square, 0.1)],
    "linalg_matrix_rank.tol_tensor": [case(_square, unit())],
    "linalg_matrix_rank.atol_rtol_tensor": [case(_square, atol=unit())],
    "linalg_norm": [case(_x), case(_x, 2, 1), case(_x, 1)],
    "linalg_norm.ord_str": [case(_x, "fro"), case(_x, "nuc")],
    "linalg_pinv": [case(_tall, 1e-4), case(herm(3, 3), 1e-4, True)],
    "linalg_pinv.rcond_tensor": [case(_tall, fixed(1e-4, "real"))],
    "linalg_pinv.atol_rtol_float": [case(_tall)],
    "linalg_pinv.atol_rtol_tensor": [case(_tall)],
    "pinverse": [case(_tall)],
    "linalg_tensorinv": [case(t(2, 3, 6), 2)],
    "linalg_tensorsolve": [case(t(2, 3, 6), t(2, 3))],
    "linalg_vander": [case(t(3)), case(t(3), N=2)],
    "_linalg_vander": [case(t(3), 3)],
    "nuclear_norm": [case(_x)],
    "nuclear_norm.dim": [case(_x, [0, 1])],
    "_amax_or_amin": [
        case(distinct(3, 4), 1, True, False),
        case(distinct(3, 4), 0, False, True),
    ],
    "_inverse_or_infinite": [case(_square)],
    "_linalg_cutoff": [case(_x, t(), unit(), unit())],
    "_number_like": [case(_x, 2.0)],
    "_pivots_to_matrix": [case(_pivots, 3, st.float64)],
    "_zero_reciprocal": [case(_x)],
    "_eps": [case(_x)],
    "_imaginary": [case(_x)],
}

_signal = t(3, 8)
_one_d = [case(_signal), case(_signal, 6, 0, "ortho"), case(_signal, 10, -1, "forward")]
_two_d = [case(_signal), case(_signal, [4, 6], [0, 1], "ortho")]
_n_d = [case(_signal), case(_signal, [6], [1], "forward")]

FFT: dict[str, list[Case]] = {
    "_fft_c2c": [case(_signal, [1], 0, True), case(_signal, [0, 1], 2, False)],
    "_fft_c2r": [case(_signal, [1], 0, 14)],
    "_fft_r2c": [case(_signal, [1], 0, True), case(_signal, [1], 1, False)],
    **{f"fft_{n}": _one_d for n in ("fft", "ifft", "hfft", "ihfft", "irfft", "rfft")},
    **{f"fft_{n}2": _two_d for n in ("fft", "ifft", "hfft", "ihfft", "irfft", "rfft")},
    **{f"fft_{n}n": _n_d for n in ("fft", "ifft", "hfft", "ihfft", "irfft", "rfft")},
    "fft_fftshift": [case(_signal), case(_signal, 1)],
    "fft_ifftshift": [case(_signal), case(_signal, 1)],
}

CASES = {**REDUCE, **STATISTICS, **PRODUCTS, **LINALG, **FFT}
