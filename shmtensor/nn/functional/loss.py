"""Losses of values and of classes, with torch's names of reductions.

Source: torch.nn.functional.
"""

from __future__ import annotations

import math
import warnings

import shmtensor
from shmtensor import _C
from shmtensor._core._autocast import in_float32
from shmtensor._core._overridable import beyond_torch, overridable
from shmtensor._core._tensor import Tensor
from shmtensor._core._warnings import level_outside

_nn = _C._nn

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
]

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _old_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """The reduction that the two old flags mean, with a warning."""
    average = True if size_average is None else size_average
    name = "none" if reduce is False else ("mean" if average else "sum")
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
        stacklevel=level_outside(),
    )
    return name


def _reduction(name: str, size_average: bool | None = None, reduce: bool | None = None) -> int:
    """The code of a reduction, for compositions; operators take its name themselves."""
    if size_average is not None or reduce is not None:
        name = _old_reduction(size_average, reduce)
    if name not in _REDUCTIONS:
        raise ValueError(f"{name} is not a valid value for reduction")
    return _REDUCTIONS[name]


def _reduced(terms: Tensor, code: int) -> Tensor:
    """The losses of the elements as they are, their mean or their sum."""
    if code == 0:
        return terms
    return terms.mean() if code == 1 else terms.sum()


def _warn_about_sizes(input: Tensor, target: Tensor) -> None:
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=3,
    )


def _weighted(terms: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Multiply the terms of a loss by *weight* and reduce; the mean is the weighted one."""
    terms = _times(terms, weight)
    code = _reduction(reduction)
    if code == 0:
        return terms
    return terms.sum() if code == 2 else terms.sum() / weight.sum()


def _times(terms: Tensor, weight: Tensor) -> Tensor:
    """Multiply the terms of a loss by *weight*, which must have their shape."""
    if weight.shape != terms.shape:
        raise ValueError("Weights and input must have the same size.")
    return terms * weight


@overridable
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared difference, element by element, then reduced.

    Args:
        input: Any shape.
        target: The same shape; others broadcast, with a warning.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        weight: Factor for every element, same shape as *input*.
    """
    if not target.is_same_size(input):
        _warn_about_sizes(input, target)
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    if weight is None:
        return _nn.mse_loss(input, target, reduction)
    return _weighted(_nn.mse_loss(input, target, 0), weight, reduction)


@overridable(hand_over=beyond_torch("weight"))
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute difference; arguments as ``mse_loss``."""
    if not target.is_same_size(input):
        _warn_about_sizes(input, target)
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    if weight is None:
        return _nn.l1_loss(input, target, reduction)
    return _weighted(_nn.l1_loss(input, target, 0), weight, reduction)


@overridable
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Half the squared difference over *beta* below *beta*, a line of slope 1 beyond.

    Args:
        input: Any shape.
        target: The same shape; others broadcast, with a warning.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        beta: Where the parabola ends, not negative; 0: ``l1_loss``.

    Raises:
        RuntimeError: *beta* is negative.
    """
    if not target.is_same_size(input):
        _warn_about_sizes(input, target)
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    if beta == 0.0:
        return _nn.l1_loss(input, target, reduction)
    return _nn.smooth_l1_loss(input, target, reduction, beta)


@overridable
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Half the squared difference up to *delta*, a line of slope *delta* beyond.

    Args:
        input: Any shape.
        target: The same shape; others broadcast, with a warning.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        delta: Where the parabola ends, positive.
        weight: Factor for every element, same shape as *input*. The mean divides by the number of
            elements, not by the sum of the weights.

    Raises:
        RuntimeError: *delta* is not positive.
    """
    if not target.is_same_size(input):
        _warn_about_sizes(input, target)
    if weight is None:
        return _nn.huber_loss(input, target, reduction, delta)
    code = _reduction(reduction)
    terms = _times(_nn.huber_loss(input, target, 0, delta), weight)
    if code == 0:
        return terms
    return terms.sum() if code == 2 else terms.mean()


@overridable
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input)) for targets of -1 and 1; reductions as in ``mse_loss``."""
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    return _nn.soft_margin_loss(input, target, reduction)


@overridable
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Divergence of *target* from the distribution with the logarithm *input*.

    Args:
        input: Log-probabilities, any shape.
        target: Probabilities, or their logarithms with *log_target*.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'``, ``'sum'``, or ``'batchmean'``: the sum over the first
            dimension's size, which is the mathematical definition.
        log_target: Whether *target* is logarithms.
    """
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = shmtensor.kl_div(input, target, 2, log_target=log_target)
        return total / input.size(0) if input.dim() else total
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size. 'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition. 'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release.",
            stacklevel=2,
        )
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    return shmtensor.kl_div(input, target, reduction, log_target=log_target)


@overridable
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(target log(input) + (1 - target) log(1 - input)), logarithms cut at -100.

    Args:
        input: Probabilities, any shape.
        target: Probabilities, the same shape.
        weight: A factor, broadcast to *target*.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        ValueError: The shapes differ.
    """
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    if not target.is_same_size(input):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(target.shape)
    return _nn.binary_cross_entropy(input, target, weight, reduction)


@overridable
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """``binary_cross_entropy`` of ``sigmoid(input)``, without overflow.

    Args:
        input: Scores, any shape.
        target: Probabilities, the same shape.
        weight: A factor for every element.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        pos_weight: A factor for the positive part.

    Raises:
        ValueError: The shapes differ.
    """
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    if not target.is_same_size(input):
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    return shmtensor.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


@overridable(straight=_nn.nll_loss_nd, counts=(2, 3))
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of the target classes.

    Args:
        input: Log-probabilities, ``(C,)``, ``(N, C)`` or ``(N, C, d1, ...)``.
        target: Class numbers, ``()``, ``(N,)`` or ``(N, d1, ...)``, int64.
        weight: ``(C,)``, a factor for each class.
        size_average: Old form of *reduction*.
        ignore_index: A class number that counts for nothing.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` (weighted) or ``'sum'``.
    """
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    return _nn.nll_loss_nd(input, target, weight, reduction, ignore_index)


@overridable(straight=_nn.cross_entropy_loss, counts=(2, 3))
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``log_softmax`` and negative log-likelihood in one.

    Args:
        input: Scores, ``(C,)``, ``(N, C)`` or ``(N, C, d1, ...)``.
        target: Class numbers as in ``nll_loss``, or probabilities shaped like *input*.
        weight: ``(C,)``, a factor for each class.
        size_average: Old form of *reduction*.
        ignore_index: A class number that counts for nothing.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        label_smoothing: Share of the target spread over all classes, 0 to 1.
    """
    if size_average is not None or reduce is not None:
        reduction = _old_reduction(size_average, reduce)
    return _nn.cross_entropy_loss(input, target, weight, reduction, ignore_index, label_smoothing)


@overridable
@in_float32
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts under Poisson distributions.

    Args:
        input: Expectations, or their logarithms with *log_input*.
        target: Counts, of a shape that broadcasts with it.
        log_input: Whether *input* is logarithms.
        full: Add Stirling's approximation of the constant term.
        size_average: Old form of *reduction*.
        eps: Added to expectations before the logarithm.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
    """
    code = _reduction(reduction, size_average, reduce)
    if log_input:
        terms = input.exp() - target * input
    else:
        terms = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        terms = terms + stirling.masked_fill(target <= 1, 0)
    return _reduced(terms, code)


@overridable
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of values under normal distributions.

    Args:
        input: Expectations, any shape.
        target: Values, of a shape that broadcasts with it.
        var: Variances: a number, *input*'s shape, or that without (or with 1 as) the last size.
        full: Add the constant term.
        eps: The smallest variance; its gradient passes nevertheless.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        ValueError: The shape of *var* does not fit, a variance is negative, or *reduction* is
            unknown.
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * shmtensor.ones_like(input)
    elif input.size()[:-1] == var.size():
        var = var.unsqueeze(-1)
    elif var.dim() != input.dim() or any(
        v not in (1, i) for i, v in zip(input.size(), var.size(), strict=True)
    ):
        raise ValueError("var is of incorrect size")
    if reduction not in _REDUCTIONS:
        raise ValueError(reduction + " is not valid")
    if bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    var = var.clone()
    with shmtensor.no_grad():
        var.clamp_(min=eps)
    terms = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        terms = terms + 0.5 * math.log(2 * math.pi)
    return _reduced(terms, _REDUCTIONS[reduction])
