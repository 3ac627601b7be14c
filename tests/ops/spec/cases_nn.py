"""Operators of neural networks and random numbers: shapes, masks and settings that fit."""

from __future__ import annotations

import numpy as np
from ops.spec.arguments import Case, T, case, fixed, idx, pos, t, unit

_x = t(3, 4)
_line, _plane, _space = t(2, 4, 6), t(1, 2, 5, 6), t(1, 2, 3, 4, 5)
_planes = {1: _line, 2: _plane, 3: _space}

CONV: dict[str, list[Case]] = {
    "conv1d": [
        case(t(2, 4, 6), t(3, 4, 3)),
        case(t(2, 4, 6), t(4, 2, 3), t(4), [2], [1], [1], 2),
        case(t(4, 6), t(3, 4, 3)),
    ],
    "conv1d.padding": [case(t(2, 4, 6), t(3, 4, 3), None, 1, p) for p in ("same", "valid")],
    "conv2d": [
        case(_plane, t(3, 2, 2, 3)),
        case(_plane, t(2, 1, 2, 2), t(2), [2, 1], [1, 0], [1, 2], 2),
    ],
    "conv2d.padding": [case(_plane, t(3, 2, 3, 3), None, 1, "same")],
    "conv3d": [case(_space, t(2, 2, 2, 2, 2), t(2))],
    "conv3d.padding": [case(_space, t(2, 2, 1, 3, 3), None, 1, "same")],
    "conv_transpose1d": [
        case(t(2, 4, 5), t(4, 3, 3)),
        case(t(2, 4, 5), t(4, 2, 3), t(4), [2], [1], [1], 2),
    ],
    "conv_transpose2d.input": [case(t(1, 2, 3, 3), t(2, 3, 2, 2), t(3), 2)],
    "conv_transpose3d.input": [case(t(1, 2, 2, 2, 3), t(2, 2, 2, 2, 2))],
    "convolution": [
        case(_plane, t(3, 2, 2, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        case(_plane, t(2, 3, 2, 2), t(3), [2, 2], [1, 1], [1, 1], True, [1, 0], 1),
    ],
    "convolution_backward": [
        case(
            t(1, 3, 4, 4),
            _plane,
            t(3, 2, 2, 3),
            [3],
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
            [1, 1, 1],
        )
    ],
}

_maxima = T((1, 2, 2, 3), 0, 29, "int64")
#: Positions in planes of 4 by 6 and in volumes of 2 by 4 by 6, none of them twice.
_places = fixed([[[[7, 2, 5], [12, 23, 0]], [[1, 9, 3], [20, 14, 11]]]], "int64")
_spots = fixed([[[[[7, 2, 5], [12, 47, 0]]], [[[1, 9, 33], [20, 14, 41]]]]], "int64")
_shifts = fixed([[[0.25, 0.5], [0.75, 0.125]]])
_moves = fixed([[[0.25, 0.5, 0.75], [0.75, 0.125, 0.5]]])

POOL: dict[str, list[Case]] = {
    **{
        f"adaptive_{kind}_pool{n}d": [case(_planes[n], [2] * n), case(_planes[n], [3] * n)]
        for kind in ("avg", "max")
        for n in (1, 2, 3)
    },
    **{
        f"avg_pool{n}d": [
            case(_planes[n], 2),
            case(_planes[n], [2] * n, [1] * n, [1] * n, True, False),
        ]
        for n in (1, 2, 3)
    },
    **{
        f"max_pool{n}d{w}": [
            case(_planes[n], 2),
            case(_planes[n], [2] * n, [1] * n, [1] * n, [1] * n, True),
        ]
        for n in (1, 2, 3)
        for w in ("", "_with_indices")
    },
    "fractional_max_pool2d": [
        case(_plane, [2, 2], [2, 3], _shifts),
        case(_plane, [2, 3], [1, 4], _shifts),
    ],
    "fractional_max_pool3d": [case(_space, [1, 2, 2], [2, 2, 3], _moves)],
    "max_unpool2d": [case(t(1, 2, 2, 3), _places, [4, 6])],
    "max_unpool3d": [case(t(1, 2, 1, 2, 3), _spots, [2, 4, 6], [2, 2, 2], [0, 0, 0])],
    "_adaptive_avg_pool1d_backward": [case(t(2, 4, 3), [2, 4, 6], [24, 6, 1])],
    "_adaptive_avg_pool2d_backward": [case(t(1, 2, 2, 3), [1, 2, 5, 6], [60, 30, 6, 1])],
    "_adaptive_avg_pool3d_backward": [case(t(1, 2, 2, 2, 2), [1, 2, 3, 4, 5], [120, 1, 40, 10, 2])],
    "_adaptive_avg_pool_double_backward": [case(_plane, [1, 2, 2, 3], 2)],
    "_avg_pool1d_backward": [case(t(2, 4, 3), [2, 4, 6], [24, 1, 4], 2, 2, 0, False, True, None)],
    "_avg_pool2d_backward": [
        case(t(1, 2, 2, 3), [1, 2, 5, 6], [60, 1, 12, 2], 2, 2, 0, False, True, None)
    ],
    "_avg_pool3d_backward": [
        case(t(1, 2, 1, 2, 2), [1, 2, 3, 4, 5], [120, 60, 20, 5, 1], 2, 2, 0, False, True, 3)
    ],
    "_max_pool_backward": [case(t(1, 2, 2, 3), [1, 2, 5, 6], _maxima, 2)],
    "_max_pool_double_backward": [case(_plane, _maxima, 2)],
}


NORM: dict[str, list[Case]] = {
    "batch_norm": [
        case(_line, t(4), t(4), t(4), pos(4), False, 0.1, 1e-5, False),
        case(_line, None, None, None, None, True, 0.1, 1e-5, False),
    ],
    "_batch_norm_with_update": [case(_line, t(4), t(4), t(4), pos(4), 0.1, 1e-5)],
    "_group_norm_statistics_backward": [
        case(t(2, 2), t(2, 2), _line, t(2, 2), pos(2, 2), 2, 4, 6, 2)
    ],
    "_native_batch_norm_legit": [case(_line, t(4), t(4), t(4), pos(4), False, 0.1, 1e-5)],
    "_native_batch_norm_legit.no_stats": [case(_line, t(4), None, True, 0.1, 1e-5)],
    "native_batch_norm": [
        case(_line, t(4), t(4), t(4), pos(4), False, 0.1, 1e-5),
        case(_line, t(4), None, None, None, True, 0.1, 1e-5),
    ],
    "native_batch_norm_backward": [
        case(_line, _line, t(4), None, None, t(4), pos(4), True, 1e-5, [1, 1, 1])
    ],
    "instance_norm": [case(_line, t(4), t(4), None, None, True, 0.1, 1e-5, False)],
    "group_norm": [case(_line, 2), case(_line, 2, t(4), t(4))],
    "rms_norm": [case(_line, [6]), case(_line, [4, 6], t(4, 6), 1e-5)],
    "_fused_rms_norm": [case(_line, [6], t(6), 1e-5)],
    "native_group_norm": [case(_line, t(4), t(4), 2, 4, 6, 2, 1e-5)],
    "layer_norm": [case(_line, [6]), case(_line, [4, 6], t(4, 6), t(4, 6))],
    "native_layer_norm": [
        case(_line, [6], t(6), t(6), 1e-5),
        case(_line, [4, 6], None, None, 1e-5),
    ],
    "native_layer_norm_backward": [case(_x, _x, [4], t(3, 1), pos(3, 1), t(4), [1, 1, 1])],
    "_embedding_bag_sum": [
        case(t(5, 3), idx(5, 7), idx(4, 7), None, 4),
        case(t(5, 3), idx(5, 7), idx(4, 7), t(7), 4),
        case(t(5, 3), idx(5, 0), idx(4, 0), None, 2),
    ],
    "_embedding_bag_max": [case(t(5, 3), idx(5, 6), fixed([0, 0, 2, 2, 2, 3], "int64"), 5)],
    "_embedding_bag_mean": [
        case(t(5, 3), idx(5, 6), fixed([0, 0, 2, 2, 2, 3], "int64"), pos(4), 4)
    ],
    "_embedding_bag_dots": [case(t(5, 3), idx(5, 7), t(4, 3), idx(4, 7))],
    "embedding": [case(t(5, 3), idx(5, 2, 3)), case(t(5, 3), idx(5, 4), 1, True)],
    "one_hot": [case(idx(5, 2, 3), 6), case(idx(4, 5), 4)],
    "embedding_dense_backward": [
        case(t(2, 3), idx(5, 2), 5, -1, False),
        case(t(2, 3), idx(5, 2), 5, 1, True),
    ],
}

_classes = idx(4, 3)
_both = [case(_x, _x), case(_x, _x, 0), case(_x, _x, 2)]
_log_probs = T((5, 2, 4), shaped=lambda a: a - _log_sum(a))


def _log_sum(a: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(np.exp(a).sum(-1, keepdims=True), 1e-30))


LOSS: dict[str, list[Case]] = {
    "_ctc_loss": [case(_log_probs, idx(4, 2, 2, low=1), [5, 4], [2, 1])],
    "_loss_grad": [case(t(), _x, 1), case(_x, _x, 0)],
    "_reduce_loss": [case(_x, r) for r in (0, 1, 2)],
    "_mul_optional_weight": [case(_x, None), case(_x, _x)],
    "_multi_margin": [
        case(t(3, 4), _classes, 1, 1.0, None),
        case(t(3, 4), _classes, 2, 0.5, pos(4)),
    ],
    "_multilabel_margin": [case(t(2, 3), idx(3, 2, 3, low=-1))],
    "_nll_backward": [case(t(3), [3, 4], _classes, t(4), 0, -100, t())],
    "binary_cross_entropy": [case(unit(3, 4), unit(3, 4)), case(unit(3, 4), unit(3, 4), pos(4), 0)],
    "binary_cross_entropy_with_logits": [
        case(_x, unit(3, 4)),
        case(_x, unit(3, 4), pos(4), pos(4), 2),
    ],
    "cross_entropy_loss": [
        case(_x, _classes),
        case(_x, _classes, pos(4), 0, 1, 0.1),
        case(_x, unit(3, 4)),
    ],
    "huber_loss": [*_both, case(_x, _x, 1, 0.5)],
    "smooth_l1_loss": [*_both, case(_x, _x, 1, 0.5)],
    "kl_div": [case(_x, unit(3, 4)), case(_x, _x, 0, log_target=True)],
    "l1_loss": _both,
    "mse_loss": _both,
    "soft_margin_loss": _both,
    "nll_loss": [case(_x, _classes), case(_x, _classes, pos(4), 2)],
    "nll_loss_nd": [case(_x, _classes), case(t(2, 4, 3), idx(4, 2, 3))],
    "nll_loss2d": [case(t(2, 4, 3, 2), idx(4, 2, 3, 2))],
    "nll_loss_forward": [case(_x, _classes, None, 1, -100), case(_x, _classes, pos(4), 0, 2)],
    "nll_loss2d_forward": [case(t(2, 4, 3, 2), idx(4, 2, 3, 2), pos(4), 2, -100)],
}

_image = t(1, 2, 4, 5)
_grid = T((1, 3, 2, 2), -0.8, 0.8)

IMAGE: dict[str, list[Case]] = {
    "_resample": [
        case(_image, [1, 2, 4, 7], "linear", False, [0.0], False),
        case(_image, [1, 2, 3, 6], "linear", True, [0.0, 0.0], False),
        case(_image, [1, 2, 4, 3], "cubic", True, [0.0], False),
        case(_image, [1, 2, 4, 3], "linear", False, [0.0], True),
        case(_image, [1, 2, 6, 3], "nearest", False, [0.0, 0.0], False),
        case(_image, [1, 2, 4, 7], "nearest-exact", False, [0.0], False),
    ],
    "_resample_backward": [
        case(t(1, 2, 4, 7), [1, 2, 4, 5], "linear", False, [0.0], False),
        case(t(1, 2, 4, 7), [1, 2, 3, 5], "cubic", False, [0.0, 0.0], False),
        case(t(1, 2, 4, 7), [1, 2, 6, 5], "nearest", False, [0.0, 0.0], False),
    ],
    "col2im": [case(t(1, 8, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1])],
    "im2col": [case(t(1, 2, 3, 4), [2, 2], [1, 1], [0, 0], [1, 1])],
    "grid_sampler": [
        case(_image, _grid, i, p, a) for i, p, a in ((0, 0, False), (1, 1, True), (2, 2, False))
    ],
    "grid_sampler_2d": [case(_image, _grid, 0, 0, False)],
    "grid_sampler_3d": [case(t(1, 2, 3, 3, 3), t(1, 2, 2, 2, 3), 0, 0, False)],
    "grid_sampler_backward": [
        case(t(1, 2, 3, 2), _image, _grid, 0, 0, False, [1, 1]),
        case(t(1, 2, 3, 2), _image, _grid, 2, 1, True, [1, 1]),
    ],
    "_grid_sampler_double_backward": [
        case(_image, _grid, t(1, 2, 3, 2), _image, _grid, 2, 0, False, [1, 1, 1]),
        case(_image, None, t(1, 2, 3, 2), _image, _grid, 0, 0, False, [1, 0, 1]),
    ],
    "_constant_pad_backward": [case(t(3, 6), [1, 1])],
    "_pad_nonconstant": [
        case(_line, [2, 1], "reflect"),
        case(_planes[2], [1, 0, 2, -1], "replicate"),
    ],
    "_pad_nonconstant_backward": [
        case(t(2, 3, 7), [2, 3, 5], [1, 1], "reflect"),
        case(t(1, 2, 6, 7), [1, 2, 4, 5], [1, 1, 0, 2], "circular"),
    ],
    "constant_pad_nd": [case(_x, [1, 2], 2), case(_x, [1, 0, -1, 2])],
    "pad": [
        case(_x, [1, 2]),
        case(_line, [1, 2], "reflect"),
        case(_line, [1, 2], "replicate"),
        case(_line, [1, 2], "circular"),
    ],
    **{
        f"{kind}_pad{n}d": [case(_planes[n], [1] * (2 * n))]
        for kind in ("reflection", "replication")
        for n in (1, 2, 3)
    },
}


_heads = t(1, 2, 3, 4)

ATTENTION: dict[str, list[Case]] = {
    "_scaled_dot_product_flash_attention_for_cpu": [
        case(_heads, _heads, _heads),
        case(_heads, t(1, 2, 5, 4), t(1, 2, 5, 4), 0.0, True),
    ],
    "_scaled_dot_product_flash_attention_for_cpu_backward": [
        case(_heads, _heads, _heads, _heads, _heads, t(1, 2, 3), 0.0, False)
    ],
}

RANDOM: dict[str, list[Case]] = {
    "_dropout_noise": [case(_x, 0.5)],
    "_rrelu_noise": [case(_x, 0.125, 0.25)],
    "_sample_dirichlet": [case(pos(3, 4))],
    "_standard_gamma": [case(pos(3, 4))],
    "bernoulli": [case(unit(3, 4))],
    "bernoulli.p": [case(_x, 0.5)],
    "bernoulli_.Tensor": [case(_x, T((3, 4), 0.1, 0.9, "float32"))],
    "bernoulli_.float": [case(_x, 0.5)],
    "binomial": [case(T((3, 4), 5, 5), unit(3, 4))],
    "dropout": [case(_x, 0.5, True), case(_x, 0.5, False)],
    "dropout_": [case(_x, 0.5, True)],
    "native_dropout": [case(_x, 0.5, True), case(_x, 0.5, None), case(_x, 0.5, False)],
    "native_dropout_backward": [case(_x, idx(2, 3, 4), 2.0)],
    "_native_dropout_backward": [case(_x, idx(2, 3, 4), 0.5, None)],
    "feature_dropout": [case(_line, 0.5, True)],
    "feature_dropout_": [case(_line, 0.5, True)],
    "geometric_": [case(_x, 0.5)],
    "multinomial": [case(pos(3, 4), 2), case(pos(4), 6, True)],
    "normal.Tensor_Tensor": [case(_x, pos(3, 4))],
    "normal.Tensor_float": [case(_x, 2.0)],
    "normal.float_Tensor": [case(1.0, pos(3, 4))],
    "normal.float_float": [case(1.0, 2.0, [3, 4])],
    "poisson": [case(pos(3, 4))],
    "rand": [case([3, 4])],
    "randn": [case([3, 4])],
    "randint": [case(5, [3, 4])],
    "randint.low": [case(2, 5, [3, 4])],
    "randperm": [case(6)],
    "rand_like": [case(_x)],
    "randn_like": [case(_x)],
    "randint_like": [case(_x, 5)],
    "randint_like.low_dtype": [case(_x, 2, 5)],
    "random_.from": [case(_x, 1, 5)],
    "random_.to": [case(_x, 5)],
}

CASES = {**CONV, **POOL, **NORM, **LOSS, **IMAGE, **ATTENTION, **RANDOM}
