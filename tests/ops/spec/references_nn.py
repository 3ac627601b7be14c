"""References of activations, normalizations, losses and attention."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ops.spec.references_linalg import near
from ops.spec.references_reduce import log_softmax, softmax
from scipy import special

Reference = Callable[..., Any]
Ints = Sequence[int]


def _sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def _gelu(a: Any, *, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return a / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))
    return a * special.ndtr(a)


def _gelu_slope(a: Any, *, approximate: str = "none") -> Any:
    if approximate == "tanh":
        inner = np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)
        slope = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * a**2)
        return (1 + np.tanh(inner)) / 2 + a / 2 * slope / np.cosh(inner) ** 2
    return special.ndtr(a) + a * np.exp(-a * a / 2) / np.sqrt(2 * np.pi)


def _elu(a: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return scale * np.where(a > 0, a, alpha * np.expm1(a * input_scale))


def _elu_slope(a: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return scale * np.where(a > 0, 1, alpha * input_scale * np.exp(a * input_scale))


def _softplus(a: Any, beta: float = 1, threshold: float = 20) -> Any:
    return np.where(a * beta > threshold, a, np.log1p(np.exp(a * beta)) / beta)


def _mish_slope(a: Any) -> Any:
    t = np.tanh(_softplus(a))
    return t + a * _sigmoid(a) * (1 - t * t)


def _selu(a: Any) -> Any:
    return _elu(a, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def _glu_backward(grad: Any, a: Any, dim: int) -> Any:
    value, gate = np.split(a, 2, dim)
    s = _sigmoid(gate)
    return np.concatenate([grad * s, grad * value * s * (1 - s)], dim)


def _prelu(a: Any, slope: Any) -> Any:
    shape = [1, -1] + [1] * (a.ndim - 2) if a.ndim > 1 else [-1]
    return np.where(a > 0, a, a * slope.reshape(shape))


def _threshold(a: Any, threshold: Any = 0, value: Any = 0) -> Any:
    return np.where(a > threshold, a, value)


def _backward(slope: Reference) -> Reference:
    return lambda grad, a, *args, **kwargs: grad * slope(a, *args, **kwargs)


def _between(low: Any, high: Any) -> Reference:
    return lambda a: (a > low) & (a < high)


def _hardswish_slope(a: Any) -> Any:
    return np.where(a <= -3, 0, np.where(a >= 3, 1, a / 3 + 0.5))


def _softplus_slope(a: Any, beta: float, threshold: float) -> Any:
    return np.where(a * beta > threshold, 1, _sigmoid(a * beta))


ACTIVATIONS: dict[str, Reference] = {
    "celu": lambda a, alpha=1.0: np.where(a > 0, a, alpha * np.expm1(a / alpha)),
    "elu": _elu,
    "elu_backward": _backward(_elu_slope),
    "gelu": _gelu,
    "gelu_backward": _backward(_gelu_slope),
    "hardshrink": lambda a, lambd=0.5: np.where(np.abs(a) > lambd, a, 0),
    "hardshrink_backward": _backward(lambda a, lambd: np.abs(a) > lambd),
    "hardsigmoid": lambda a: np.clip(a + 3, 0, 6) / 6,
    "hardsigmoid_backward": _backward(lambda a: _between(-3, 3)(a) / 6),
    "hardswish": lambda a: a * np.clip(a + 3, 0, 6) / 6,
    "hardswish_backward": _backward(_hardswish_slope),
    "hardtanh": lambda a, low=-1, high=1: np.clip(a, low, high),
    "hardtanh_backward": _backward(lambda a, low, high: _between(low, high)(a)),
    "leaky_relu": lambda a, slope=0.01: np.where(a > 0, a, slope * a),
    "leaky_relu_backward": _backward(lambda a, slope: np.where(a > 0, 1, slope)),
    "log_sigmoid": lambda a: -np.log1p(np.exp(-a)),
    "log_sigmoid_backward": _backward(lambda a: _sigmoid(-a)),
    "mish": lambda a: a * np.tanh(_softplus(a)),
    "mish_backward": _backward(_mish_slope),
    "glu": lambda a, dim=-1: (lambda x, gate: x * _sigmoid(gate))(*np.split(a, 2, dim)),
    "glu_backward": _glu_backward,
    "prelu": _prelu,
    "_prelu_kernel": lambda a, slope: np.where(a > 0, a, slope * a),
    "_prelu_derivative": lambda a, slope: np.where(a > 0, 1, slope),
    "_prelu_slope_backward": lambda grad, a: np.where(a > 0, 0, grad * a),
    "relu": lambda a: np.maximum(a, 0),
    "relu6": lambda a: np.clip(a, 0, 6),
    "selu": _selu,
    "silu": lambda a: a * _sigmoid(a),
    "silu_backward": _backward(lambda a: _sigmoid(a) * (1 + a * (1 - _sigmoid(a)))),
    "softplus": _softplus,
    "softplus_backward": _backward(_softplus_slope),
    "softshrink": lambda a, lambd=0.5: np.sign(a) * np.maximum(np.abs(a) - lambd, 0),
    "threshold": _threshold,
    "threshold_backward": _backward(lambda a, threshold: a > threshold),
}


def _standard(a: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """*a* with mean 0 and variance 1 over *axes*, the mean, and what it was multiplied by."""
    mean = a.mean(axis=axes, keepdims=True)
    rstd = 1 / np.sqrt(a.var(axis=axes, keepdims=True) + eps)
    return (a - mean) * rstd, mean, rstd


def _affine(a: Any, weight: Any, bias: Any) -> Any:
    return a * (1 if weight is None else weight) + (0 if bias is None else bias)


def _channels(a: Any, values: Any) -> Any:
    return None if values is None else values.reshape(-1, *[1] * (a.ndim - 2))


def _native_batch_norm(
    a: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, _: Any, eps: float
) -> Any:
    if training:
        made, mean, rstd = _standard(a, (0, *range(2, a.ndim)), eps)
        saved = (mean.ravel(), rstd.ravel())
    else:
        made = (a - _channels(a, mean)) / np.sqrt(_channels(a, variance) + eps)
        saved = (np.zeros(0), np.zeros(0))
    return _affine(made, _channels(a, weight), _channels(a, bias)), *saved


def _batch_norm(*args: Any) -> Any:
    return _native_batch_norm(*args[:-1])[0]


def _instance_norm(a: Any, weight: Any, bias: Any, *args: Any) -> Any:
    made = _standard(a, tuple(range(2, a.ndim)), args[4])[0]
    return _affine(made, _channels(a, weight), _channels(a, bias))


def _native_group_norm(
    a: Any, weight: Any, bias: Any, n: int, c: int, size: int, groups: int, eps: float
) -> Any:
    made, mean, rstd = _standard(a.reshape(n, groups, -1), (2,), eps)
    made = _affine(made.reshape(a.shape), _channels(a, weight), _channels(a, bias))
    return made, mean[..., 0], rstd[..., 0]


def _group_norm(
    a: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, _: Any = True
) -> Any:
    n, c = a.shape[:2]
    return _native_group_norm(a, weight, bias, n, c, a[0, 0].size, groups, eps)[0]


def _last(a: Any, shape: Ints) -> tuple[int, ...]:
    return tuple(range(a.ndim - len(shape), a.ndim))


def _native_layer_norm(a: Any, shape: Ints, weight: Any, bias: Any, eps: float) -> Any:
    made, mean, rstd = _standard(a, _last(a, shape), eps)
    return _affine(made, weight, bias), mean, rstd


def _layer_norm(
    a: Any, shape: Ints, weight: Any = None, bias: Any = None, eps: float = 1e-5, _: Any = True
) -> Any:
    return _native_layer_norm(a, shape, weight, bias, eps)[0]


def _normalized_backward(g: Any, normal: Any, rstd: Any, axes: tuple[int, ...]) -> Any:
    along = (g * normal).mean(axis=axes, keepdims=True)
    return rstd * (g - g.mean(axis=axes, keepdims=True) - normal * along)


def _layer_norm_backward(
    grad: Any, a: Any, shape: Ints, mean: Any, rstd: Any, weight: Any, mask: Any
) -> Any:
    normal, rows = (a - mean) * rstd, tuple(range(a.ndim - len(shape)))
    made = _normalized_backward(grad * weight, normal, rstd, _last(a, shape))
    return made, (grad * normal).sum(axis=rows), grad.sum(axis=rows)


def _batch_norm_backward(
    grad: Any, a: Any, weight: Any, _: Any, __: Any, mean: Any, rstd: Any, *rest: Any
) -> Any:
    mean, rstd = _channels(a, mean), _channels(a, rstd)
    normal, axes = (a - mean) * rstd, (0, *range(2, a.ndim))
    made = _normalized_backward(grad * _channels(a, weight), normal, rstd, axes)
    return made, (grad * normal).sum(axis=axes), grad.sum(axis=axes)


def _fused_rms_norm(a: Any, shape: Ints, weight: Any, eps: float | None) -> Any:
    eps = np.finfo(a.dtype).eps if eps is None else eps
    squares = (a * a).mean(axis=_last(a, shape), keepdims=True)
    rstd = 1 / np.sqrt(squares + eps)
    return _affine(a * rstd, weight, None), rstd


def _rms_norm(a: Any, shape: Ints, weight: Any = None, eps: float | None = None) -> Any:
    return _fused_rms_norm(a, shape, weight, eps)[0]


def _embedding_backward(grad: Any, indices: Any, n: int, padding: int, by_count: bool) -> Any:
    made = np.zeros((n, grad.shape[-1]), grad.dtype)
    for index, row in zip(indices.ravel(), grad.reshape(-1, grad.shape[-1]), strict=True):
        if index != padding:
            share = 1 / np.sum(indices == index) if by_count else 1
            made[index] += row * made.dtype.type(share)
    return made


def _embedding_bag_sum(a: Any, sources: Any, targets: Any, factors: Any, n: int) -> Any:
    made = np.zeros((n, a.shape[1]), a.dtype)
    np.add.at(made, targets, a[sources] * (1 if factors is None else factors[:, None]))
    return made


def _embedding_bag_max(a: Any, sources: Any, targets: Any, n: int) -> Any:
    values, rows = np.zeros((n, a.shape[1]), a.dtype), np.full((n, a.shape[1]), -1)
    for bag in set(targets.tolist()):
        own = sources[targets == bag]
        rows[bag] = own[a[own].argmax(0)]
        values[bag] = a[own].max(0)
    return values, rows


NORMS: dict[str, Reference] = {
    "_embedding_bag_sum": _embedding_bag_sum,
    "_embedding_bag_max": _embedding_bag_max,
    "_embedding_bag_mean": lambda a, i, k, counts, n: (
        _embedding_bag_sum(a, i, k, None, n) / counts[:, None]
    ),
    "_embedding_bag_dots": lambda a, i, b, k: (a[i] * b[k]).sum(1),
    "batch_norm": _batch_norm,
    "native_batch_norm": _native_batch_norm,
    "_batch_norm_with_update": lambda a, w, b, mean, var, momentum, eps: (
        *_native_batch_norm(a, w, b, mean, var, True, momentum, eps),
        np.zeros(0),
    ),
    "_native_batch_norm_legit": _native_batch_norm,
    "_native_batch_norm_legit.no_stats": lambda a, w, b, *settings: _native_batch_norm(
        a, w, b, None, None, *settings
    ),
    "native_dropout_backward": lambda grad, mask, scale: grad * mask * scale,
    "native_batch_norm_backward": _batch_norm_backward,
    "instance_norm": _instance_norm,
    "group_norm": _group_norm,
    "native_group_norm": _native_group_norm,
    "layer_norm": _layer_norm,
    "native_layer_norm": _native_layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "rms_norm": _rms_norm,
    "_fused_rms_norm": _fused_rms_norm,
    "embedding": lambda weight, indices, *_: weight[indices],
    "one_hot": lambda a, n: np.equal(a[..., None], np.arange(n)).astype(np.int64),
    "embedding_dense_backward": _embedding_backward,
}


def _reduced(losses: Any, reduction: int) -> Any:
    return losses if reduction == 0 else np.mean(losses) if reduction == 1 else np.sum(losses)


def _loss(elements: Reference) -> Reference:
    """A loss of elements; what follows *reduction* goes to *elements*."""

    def call(a: Any, target: Any, reduction: int = 1, *args: Any, **kwargs: Any) -> Any:
        return _reduced(elements(a, target, *args, **kwargs), reduction)

    return call


def _huber(a: Any, target: Any, delta: float = 1.0) -> Any:
    size = np.abs(a - target)
    return np.where(size < delta, size**2 / 2, delta * (size - delta / 2))


def _smooth_l1(difference: Any, beta: float = 1.0) -> Any:
    size = np.abs(difference)
    return np.where(size < beta, size**2 / (2 * beta), size - beta / 2)


def _kl_div(a: Any, target: Any, *, log_target: bool = False) -> Any:
    if log_target:
        return np.exp(target) * (target - a)
    return special.xlogy(target, target) - target * a


def _bce(a: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    losses = -(target * np.log(a) + (1 - target) * np.log(1 - a))
    return _reduced(losses if weight is None else losses * weight, reduction)


def _bce_with_logits(
    a: Any, target: Any, weight: Any = None, positive: Any = None, reduction: int = 1
) -> Any:
    p = _sigmoid(a)
    hits = target * np.log(p) * (1 if positive is None else positive)
    losses = -(hits + (1 - target) * np.log(1 - p))
    return _reduced(losses if weight is None else losses * weight, reduction)


def _nll_forward(
    a: Any, target: Any, weight: Any = None, reduction: int = 1, ignore: int = -100
) -> Any:
    classes = np.moveaxis(a, 1, -1)
    weight = np.ones(classes.shape[-1]) if weight is None else weight
    losses, used = np.zeros(target.shape), np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        label = target[place]
        if label != ignore:
            used[place] = weight[label]
            losses[place] = -weight[label] * classes[place][label]
    if reduction == 0:
        return losses, 0.0
    return losses.sum() / (used.sum() if reduction == 1 else 1), used.sum()


def _nll(*args: Any) -> Any:
    return _nll_forward(*args)[0]


def _cross_entropy(
    a: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore: int = -100,
    smoothing: float = 0.0,
) -> Any:
    logs = log_softmax(a, 1)
    weight = np.ones(a.shape[1]) if weight is None else weight
    if target.dtype.kind == "f":
        losses = -(target * weight * logs).sum(axis=1)
        return losses.sum() / len(a) if reduction == 1 else _reduced(losses, reduction)
    smooth = -(weight * logs).mean(axis=1) * (target != ignore)
    losses = (1 - smoothing) * _nll_forward(logs, target, weight, 0, ignore)[0]
    losses = losses + smoothing * smooth
    if reduction == 1:
        return losses.sum() / weight[target[target != ignore]].sum()
    return _reduced(losses, reduction)


def _multi_margin(a: Any, target: Any, p: int, margin: float, weight: Any) -> Any:
    gaps = np.maximum(0, margin + a - np.take_along_axis(a, target[:, None], 1)) ** p
    np.put_along_axis(gaps, target[:, None], 0, 1)
    return gaps.mean(axis=1) * (1 if weight is None else weight[target])


def _multilabel_margin(a: Any, target: Any) -> Any:
    sums = []
    for row, classes in zip(a, target, strict=True):
        right = list(itertools.takewhile(lambda c: c >= 0, classes))
        wrong = sorted(set(range(len(row))) - set(right))
        gaps = [max(0, 1 - row[r] + row[w]) for r in right for w in wrong]
        sums.append(sum(gaps) / len(row))
    return np.array(sums)


LOSSES: dict[str, Reference] = {
    "_reduce_loss": _reduced,
    "_smooth_l1_derivative": lambda a, target, beta: np.clip((a - target) / beta, -1, 1),
    "_huber_derivative": lambda a, target, delta: np.clip(a - target, -delta, delta),
    "_binary_cross_entropy_derivative": lambda a, target: (
        (a - target) / np.maximum(a * (1 - a), 1e-12)
    ),
    "_binary_cross_entropy_with_logits_derivative": lambda a, target: _sigmoid(a) - target,
    "_mul_optional_weight": lambda a, weight: a if weight is None else a * weight,
    "_loss_grad": lambda grad, slope, r: grad * slope / (slope.size if r == 1 else 1),
    "binary_cross_entropy": _bce,
    "binary_cross_entropy_with_logits": _bce_with_logits,
    "cross_entropy_loss": _cross_entropy,
    "huber_loss": _loss(_huber),
    "kl_div": _loss(_kl_div),
    "l1_loss": _loss(lambda a, target: np.abs(a - target)),
    "mse_loss": _loss(lambda a, target: (a - target) ** 2),
    "smooth_l1_loss": _loss(lambda a, target, beta=1.0: _smooth_l1(a - target, beta)),
    "soft_margin_loss": _loss(lambda a, target: np.log1p(np.exp(-target * a))),
    "_multi_margin": _multi_margin,
    "_multilabel_margin": _multilabel_margin,
    "nll_loss": _nll,
    "nll_loss_nd": _nll,
    "nll_loss2d": _nll,
    "nll_loss_forward": _nll_forward,
    "nll_loss2d_forward": _nll_forward,
}


def _scores(query: Any, key: Any, causal: bool) -> Any:
    made = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    return np.where(np.tri(*made.shape[-2:]) == 0, -np.inf, made) if causal else made


def _attention(query: Any, key: Any, value: Any, *_: Any) -> Any:
    return softmax(_scores(query, key, False), -1) @ value


def _flash(query: Any, key: Any, value: Any, _: float = 0.0, causal: bool = False) -> Any:
    scores = _scores(query, key, causal)
    return softmax(scores, -1) @ value, np.log(np.exp(scores).sum(axis=-1))


def _flash_backward(
    grad: Any, query: Any, key: Any, value: Any, out: Any, logs: Any, _: float, causal: bool
) -> Any:
    shares = np.exp(_scores(query, key, causal) - logs[..., None])
    slope = grad @ np.swapaxes(value, -1, -2) - (grad * out).sum(axis=-1, keepdims=True)
    slope = shares * slope / np.sqrt(query.shape[-1])
    return slope @ key, np.swapaxes(slope, -1, -2) @ query, np.swapaxes(shares, -1, -2) @ grad


ATTENTION: dict[str, Reference] = {
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _flash,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _flash_backward,
}

REFERENCES = {**ACTIVATIONS, **NORMS, **LOSSES, **ATTENTION}


def _collapsed(path: Ints, blank: int = 0) -> list[int]:
    return [label for label, _ in itertools.groupby(path) if label != blank]


def _check_ctc(got: list[Any], logs: Any, targets: Any, lengths: Ints, sizes: Ints) -> None:
    """The sum over all ways through the classes that say the target."""
    for k, (length, size) in enumerate(zip(lengths, sizes, strict=True)):
        wanted = targets[k, :size].tolist()
        paths = itertools.product(range(logs.shape[2]), repeat=length)
        likely = sum(
            np.exp(sum(logs[step, k, label] for step, label in enumerate(path)))
            for path in paths
            if _collapsed(path) == wanted
        )
        near(got[0][k], -np.log(likely), f"sequence {k}")


PROPERTIES: dict[str, Reference] = {"_ctc_loss": _check_ctc}
