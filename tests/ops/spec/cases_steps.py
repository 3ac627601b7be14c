"""Arguments of the operators that no other test calls by name: for their dtypes only.

What they calculate is in the tests of the operators whose derivatives they are part of, in
``tests/optim`` and in ``tests/sparse``.
"""

from __future__ import annotations

from dataclasses import replace

from ops.spec.arguments import (
    DTYPE,
    Case,
    T,
    case,
    coo,
    csc,
    csr,
    fixed,
    idx,
    lower,
    mask,
    t,
    upper,
)

import shmtensor as st

_line, _x, _square, _volume = t(3), t(3, 4), t(3, 3), t(2, 4, 6)
_number, _channels, _groups = t(), t(4), t(2, 2)
_heads = t(1, 2, 3, 4)

_conv = ([1], [0], [1], False, [0], 1)
_conv_input, _conv_weight, _conv_output = _volume, t(3, 4, 3), t(2, 3, 4)

ATTENTION: dict[str, list[Case]] = {
    "_attention_double_backward": [case(*[_heads] * 7, False, None, None)],
    "_attention_weights": [case(_heads, _heads, False, None, 0.5)],
}

CONV: dict[str, list[Case]] = {
    "_convolution_backward_grad_output": [
        case(_conv_input, _conv_weight, None, _conv_output, _conv_input, _conv_weight, *_conv)
    ],
    "_convolution_backward_input": [case(_conv_weight, _conv_output, _conv_input, *_conv)],
    "_convolution_backward_weight": [case(_conv_input, _conv_output, _conv_weight, *_conv)],
}

DISTANCE: dict[str, list[Case]] = {
    "_cdist_backward": [case(_x, t(3, 2), t(4, 2), 2.0, _x)],
    "_difference_norm_backward": [case(_line, _x, 2.0, _line)],
    "_pdist_backward": [case(t(6), t(4, 2), 2.0, t(6))],
    "_pdist_backward_all_pairs": [case(t(6), t(4, 2), 2.0, t(6))],
}

FFT: dict[str, list[Case]] = {
    "_fft_c2r_backward": [case(t(3, 8), [1], 0, 5)],
    "_fft_r2c_backward": [case(t(3, 5), [1], 0, True, 8)],
}

_into = (_x, _x, 0, idx(3, 2, 4), t(2, 4))

INDEXING: dict[str, list[Case]] = {
    "_gather_backward": [case(t(5, 3), [5, 3], 0, idx(5, 5, 3))],
    "_index_select_backward": [case(t(6, 2), [4, 2], 0, idx(4, 6))],
    "_index_tensor_backward": [case(t(2, 4), [3, 4], [idx(3, 2)])],
    "_masked_select_backward": [
        case(t(7), [3, 4], fixed([[1] * 4, [1] * 3 + [0], [0] * 4], "bool"))
    ],
    "_scatter_amax_amin_backward": [case(*_into, _x)],
    "_scatter_counts": [case(*_into[1:], True)],
    "_scatter_prod_backward_self": [case(*_into, True)],
    "_scatter_prod_backward_src": [case(*_into, True, _x)],
    "_scatter_prod_backward_src_by_zeros": [case(*_into, True, _x, mask(2, 4))],
    "_scatter_reduce_backward_self": [case(*_into, "prod", True, _x)],
    "_scatter_reduce_backward_src": [case(*_into, "prod", True, _x)],
    "_take_backward": [case(t(2), [3, 4], idx(12, 2))],
    "_value_selecting_backward": [case(t(4, 3), [4, 3], -1, idx(3, 4, 3))],
}

_permutation = fixed([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
_factors = (_square, _square, _permutation, lower(3, 3), upper(3, 3))

LINALG: dict[str, list[Case]] = {
    "_pinv_general": [case(t(4, 3), None, None)],
    "_pinv_hermitian": [case(_square, None, None)],
    "_cholesky_backward": [case(_square, lower(3, 3))],
    "_det_backward": [case(_number, fixed(2.0), lower(3, 3))],
    "_eig_backward": [case(_line, _square, _line, lower(3, 3))],
    "_eigh_backward": [case(_line, _square, t(3, dtype="real"), _square, True)],
    "_householder_backward": [case(t(4, 3), t(4, 3), t(4, 3), _line)],
    "_is_nearly_singular": [case(_square, _number)],
    "_linalg_check": [case(fixed([0, 0]), "solve")],
    "_linalg_check_dtype": [case(_square, "solve")],
    "_linalg_check_float": [case(_square, "solve")],
    "_linalg_check_matrix": [case(_x, "solve")],
    "_linalg_check_square": [case(_square, "solve")],
    "_linalg_matrix_norm_dims": [case(_volume, [0, -1], None)],
    "_linalg_spectrum": [case(_volume, 0, 2, None)],
    "_lstsq_backward": [case(t(3, 2), t(0), t(4, 3), t(4, 2), t(3, 2), False)],
    "_lu_backward": [case(*_factors)],
    "_lu_square_backward": [case(*_factors)],
    "_lu_solve_backward": [
        case(t(3, 2), t(3, 2), lower(3, 3), fixed([1, 2, 3], "int32"), True, False)
    ],
    "_matrix_exp_backward": [case(_square, _square)],
    "_ormqr_backward": [case(t(4, 2), t(4, 3), _line, t(4, 2), True, False)],
    "_pinv_backward": [case(_x, _x, t(4, 3))],
    "_qr_backward": [case(t(4, 3), _square, t(4, 3), upper(3, 3))],
    "_qr_wide_backward": [case(_square, _x, _square, upper(3, 4), _x)],
    "_slogdet_backward": [case(_number, _number, _number, lower(3, 3))],
    "_svd_backward": [case(t(4, 3), _line, _square, t(4, 3), t(3, dtype="real"), _square)],
    "_svdvals_backward": [case(t(3, dtype="real"), _square)],
}

LOSS: dict[str, list[Case]] = {
    "_cross_entropy_of_probabilities": [case(_x, _x, None, 1, 0.1)],
    "_ctc_loss_backward": [
        case(
            t(2),
            t(5, 2, 4),
            idx(4, 2, 2, low=1),
            [5, 4],
            [2, 1],
            t(2),
            t(2, 5, 5, dtype="float64"),
            0,
        )
    ],
    "_label_smoothing_loss": [case(_x, idx(4, 3), None, 1, 1, -100)],
    "_multi_margin_backward": [case(_line, _x, idx(4, 3), 1, 1.0, None)],
    "_multi_margin_backward_differentiable": [case(_line, _x, idx(4, 3), 1, 1.0, None)],
    "_multilabel_margin_backward": [case(t(2), t(2, 3), idx(3, 2, 3))],
}

_rows = t(2, 4, 1)

NORMALIZATION: dict[str, list[Case]] = {
    "_batch_norm_double_backward": [
        case(_volume, _channels, _channels, _volume, _volume, *[_channels] * 5, True, 1e-5)
    ],
    "_check_normalized": [case(_volume, [6], t(6))],
    "_full_or_reshape": [case(_volume, [8, 6], 0, _volume)],
    "_fused_rms_norm_backward": [case(_volume, _volume, [6], _rows, t(6), [1, 1])],
    "_group_norm_double_backward": [
        case(_volume, None, None, _volume, _volume, _groups, _groups, None, 2, 4, 6, 2)
    ],
    "_layer_norm_double_backward": [
        case(_volume, t(6), None, _volume, _volume, [6], None, _rows, t(6))
    ],
    "_norm_double_backward": [
        case(
            *(_volume, t(6), t(6), _volume, _volume, _rows, _rows, t(6)),
            *([8, 6], [8, 1], [1, 6], [1], [0], True, True),
        )
    ],
    "_norm_double_backward_input": [
        case(_volume, _volume, _volume, _volume, _rows, t(6), [2], True, True)
    ],
    "_norm_double_backward_output": [
        case(_volume, t(6), t(6), _volume, _rows, t(6), [2], True, True)
    ],
    "_norm_double_backward_weight": [
        case(_volume, _volume, _volume, _rows, [2], [0, 1], True, True)
    ],
    "_norm_part": [case(_volume, _volume, [2], True)],
    "native_group_norm_backward": [
        case(_volume, _volume, _groups, _groups, None, 2, 4, 6, 2, [1, 0, 0])
    ],
}

REDUCE: dict[str, list[Case]] = {
    "_aminmax_backward": [case(_number, _number, _x, _number, _number, None, False)],
    "_interpolate_sorted": [case(_x, fixed([[0.5], [1.0], [2.25]]), "linear")],
    "_quantile": [case(_x, fixed([0.25, 0.5]), 1, False, "linear", False, "quantile")],
    "_quantile_check": [case(_x, fixed([0.25, 0.5]), "linear", "quantile")],
    "_trapezoid_steps": [case(_x, t(4), 1, "trapezoid")],
    "_index_backward": [case(_channels, 0, idx(3, 4), [3, 4], False)],
    "_min_max_backward": [case(_number, _line, _number, [0], False)],
    "_norm_backward": [case(_x, _x, _x, 2.0, None)],
    "_norm_backward_differentiable": [case(_x, _x, _x, 2.0, None)],
    "_scale_grad_by_count": [case(_x, mask(3, 4), [1])],
    "_std_backward": [case(_number, _x, _number, None, 1, False)],
    "_var_backward": [case(_number, _x, None, 1, False)],
    "_vector_norm_backward": [case(_x, t(3, 4, 2), _x, 2.0, [-1], False)],
    "_correlation": [case(_square, _line)],
    "_correlation_complex": [case(_square, t(3, dtype="real"))],
    "_cov_plain": [case(_x, fixed(4), fixed(3))],
    "_cov_products": [case(_x, fixed(3))],
    "_cov_products_weighted": [case(_x, t(4, dtype="real"), fixed(3))],
    "_cov_weighted": [case(_x, t(4, dtype="real"), fixed(4), fixed(3))],
    "_evenly_distribute_backward": [case(_number, _x, _number)],
}

OTHERS: dict[str, list[Case]] = {
    "_as_strided_tangent": [case(_x, [2, 2], [4, 1], 1)],
    "_log_softmax_backward_data": [case(_x, _x, 1, DTYPE)],
    "_softmax_backward_data": [case(_x, _x, 1, DTYPE)],
    "_no_derivative": [case(_line, "geqrf")],
}


def _step(lists: int, counted: bool = True, **numbers: float | bool) -> list[Case]:
    """A step of an optimizer: lists of one parameter, its gradient and its state, and counters."""
    counters = [[fixed(1.0, "float32")]] if counted else []
    return [case(*[[t(3, low=0.1)] for _ in range(lists)], *counters, **numbers)]


def _at_rate(cases: list[Case]) -> list[Case]:
    """The same steps with the learning rate in a tensor."""
    rate = fixed(0.1, "float32")
    return [replace(one, kwargs={**one.kwargs, "lr": rate}) for one in cases]


_decay = {"weight_decay": 0.1, "maximize": False}
_betas = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, **_decay}
_adagrad = _step(3, lr=0.1, lr_decay=0.1, eps=1e-8, **_decay)
_adam = _step(5, amsgrad=True, **_betas)
_sgd = {"momentum": 0.9, "lr": 0.1, "dampening": 0.1, "nesterov": False, "is_first_step": True}

OPTIM: dict[str, list[Case]] = {
    "_adadelta_step_": _step(4, lr=0.1, rho=0.9, eps=1e-8, **_decay),
    "_adagrad_step_": _adagrad,
    "_adam_step_": _step(5, amsgrad=True, decoupled=False, **_betas),
    "_adamax_step_": _step(4, **_betas),
    "_asgd_step_": [
        case(
            *[[t(3)] for _ in range(3)],
            *[[fixed(1.0, "float32")] for _ in range(3)],
            lr=0.1,
            lambd=0.1,
            t0=1e6,
            alpha=0.75,
            **_decay,
        )
    ],
    "_fused_adagrad_": _adagrad,
    "_fused_adagrad_.tensor_lr": _at_rate(_adagrad),
    "_fused_adam_": _adam,
    "_fused_adam_.tensor_lr": _at_rate(_adam),
    "_fused_adamw_": _adam,
    "_fused_adamw_.tensor_lr": _at_rate(_adam),
    "_fused_sgd_": _step(3, False, **_sgd, **_decay),
    "_fused_sgd_.tensor_lr": _at_rate(_step(3, False, **_sgd, **_decay)),
    "_nadam_step_": [
        case(
            *[[t(3, low=0.1)] for _ in range(4)],
            *[[fixed(1.0, "float32")] for _ in range(2)],
            momentum_decay=0.1,
            decoupled=False,
            **_betas,
        )
    ],
    "_radam_step_": _step(4, decoupled=False, **_betas),
    "_rmsprop_step_": _step(5, lr=0.1, alpha=0.9, eps=1e-8, momentum=0.9, centered=True, **_decay),
    "_rprop_step_": _step(
        4, step_size_min=1e-6, step_size_max=50.0, etaminus=0.5, etaplus=1.2, maximize=False
    ),
    "_sgd_step_": _step(3, False, **_sgd, **_decay),
}

_coo, _csr, _csc = coo(3, 4), csr(3, 4), csc(3, 4)


def _of_one(argument: T, *others: object) -> list[Case]:
    return [case(argument, *others)]


SPARSE: dict[str, list[Case]] = {
    "_embedding_bag_sparse_backward": [case(_x, idx(3, 5), idx(3, 5), None, 6)],
    "_sparse_rows": [case(_x, idx(6, 3), 6)],
    "embedding_sparse_backward": [case(_x, idx(6, 3), 6, -1, False)],
    "_sparse_compressed_tensor_unsafe": [
        case(fixed([0, 1, 2, 3], "int64"), idx(4, 3), _line, [3, 4], st.sparse_csr)
    ],
    "_sparse_coo_tensor_checked": [case(idx(3, 2, 3), _line, [3, 4], True)],
    "_sparse_coo_tensor_with_dims_and_tensors": [case(2, 0, [3, 4], idx(3, 2, 3), _line)],
    "_validate_sparse": _of_one(_coo),
    "resize_as_sparse_": [case(_coo, coo(3, 5))],
    "sparse_resize_": _of_one(_coo, [3, 5], 2, 0),
    "sparse_resize_and_clear_": _of_one(_coo, [3, 5], 2, 0),
    "_as_layout_of": [case(_x, _coo)],
    "_coalesce": _of_one(coo(3, 4, coalesced=False)),
    "_sparse_mask_backward": [case(_coo, _coo, _x)],
    "_sparse_values_at": [case(_coo, _coo)],
    "_sparse_values_at_backward": [case(t(12), _coo, _coo)],
    "_to_dense": _of_one(_coo),
    "_to_dense_backward": [case(_x, _coo, True)],
    "_to_layout": [case(_coo, st.strided, 2)],
    "coalesce": _of_one(coo(3, 4, coalesced=False)),
    "sparse_mask": [case(_x, _coo)],
    "to_sparse": _of_one(_x),
    "to_sparse.sparse_dim": _of_one(_x, 1),
    "_coalesced_": _of_one(_coo, True),
    "_indices": _of_one(_coo),
    "_nnz": _of_one(_coo),
    "_sparse_values_backward": [case(t(12), _coo)],
    "_values": _of_one(_coo),
    "ccol_indices": _of_one(_csc),
    "col_indices": _of_one(_csr),
    "crow_indices": _of_one(_csr),
    "dense_dim": _of_one(_coo),
    "indices": _of_one(_coo),
    "is_coalesced": _of_one(_coo),
    "row_indices": _of_one(_csc),
    "sparse_dim": _of_one(_coo),
    "values": _of_one(_coo),
    "_sparse_mm": [case(_csr, t(4, 2))],
    "_sparse_mm_mat1_backward": [case(t(3, 2), _csr, t(4, 2))],
    "_sparse_mm_mat2_backward": [case(t(3, 2), _csr)],
    "_sparse_sampled_mm": [case(t(3, 2), t(4, 2), _csr)],
    "_sparse_sampled_mm_backward": [case(_csr, _csr, t(4, 2), False)],
    "_sparse_sparse_matmul": [case(_csr, csr(4, 2))],
    "_sparse_sparse_mm_backward": [case(csr(3, 2), _csr, csr(4, 2), False)],
    "_sparse_softmax": _of_one(_coo, 1, False),
    "_sparse_sum_dims": _of_one(_coo, [1]),
}

CASES: dict[str, list[Case]] = {
    **ATTENTION,
    **CONV,
    **DISTANCE,
    **FFT,
    **INDEXING,
    **LINALG,
    **LOSS,
    **NORMALIZATION,
    **REDUCE,
    **OTHERS,
    **OPTIM,
    **SPARSE,
}
