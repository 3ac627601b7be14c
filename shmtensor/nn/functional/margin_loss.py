"""Losses of rankings, margins and distances. Source: torch.nn.functional."""

from __future__ import annotations

from collections.abc import Callable

import shmtensor
from shmtensor import _C
from shmtensor._core._autocast import in_float32
from shmtensor._core._functions import require_tensors
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.nn.functional.activation import logsigmoid
from shmtensor.nn.functional.distance import pairwise_distance
from shmtensor.nn.functional.loss import _reduced, _reduction

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def _require_numbers_of_classes(target: Tensor) -> None:
    if target.dtype is not _C.int64:
        title = target.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(f"expected scalar type Long but found {title}")


@overridable
@in_float32
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The distance where *target* is 1, max(0, margin - distance) where it is -1.

    Args:
        input: Distances, any shape.
        target: 1 or -1, of a shape that broadcasts with it.
        margin: The distance from which unlike pairs cost nothing.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
    """
    code = _reduction(reduction, size_average, reduce)
    zero = shmtensor.zeros_like(input)
    short = (margin - input).clamp_min(0).to(input.dtype)
    unlike = shmtensor.where(target != 1, short, zero)
    like = shmtensor.where(target != -1, input, zero)
    return _reduced(unlike + like, code)


@overridable
@in_float32
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin).

    Args:
        input1: Scores, any shape.
        input2: Scores, a shape that broadcasts with it.
        target: 1 where the first should rank higher, -1 where the second.
        margin: The difference from which nothing is paid.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        RuntimeError: The numbers of dimensions differ.
    """
    code = _reduction(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduced((-target * (input1 - input2) + float(margin)).clamp_min(0), code)


@overridable
@in_float32
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where *target* is 1, max(0, cos - margin) where it is -1.

    Args:
        input1: ``(N, D)`` or ``(D,)``.
        input2: A shape that broadcasts with it.
        target: ``(N,)`` or ``()``.
        margin: The cosine up to which unlike pairs cost nothing.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        RuntimeError: Numbers of dimensions that do not fit together.
    """
    code = _reduction(reduction, size_average, reduce)
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    want = target.dim() + 1
    if input1.dim() != want or input2.dim() != want:
        words = "1D input tensors" if target.dim() == 0 else "2D input tensors"
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {words}, but found inputs with sizes "
            f"{list(input1.size())} and {list(input2.size())}."
        )
    dim = target.dim()
    products = (input1 * input2).sum(dim)
    squares1 = (input1 * input1).sum(dim) + 1e-12
    squares2 = (input2 * input2).sum(dim) + 1e-12
    cosine = products / (squares1 * squares2).sqrt()
    zero = shmtensor.zeros_like(cosine)
    like = shmtensor.where(target == 1, 1 - cosine, zero)
    unlike = shmtensor.where(target == -1, (cosine - margin).clamp_min(0), zero)
    return _reduced(like + unlike, code)


@overridable
@in_float32
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over the wrong classes of max(0, margin - right score + wrong score)^p.

    Args:
        input: Scores, ``(N, C)`` or ``(C,)``.
        target: Class numbers, ``(N,)`` or ``()``.
        p: 1 or 2.
        margin: The difference from which nothing is paid.
        weight: ``(C,)``, a factor for each right class.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        ValueError: Another *p*, or a *weight* that is no vector.
        RuntimeError: Shapes that do not fit together, or a target out of range.
    """
    require_tensors("multi_margin_loss", input=input, target=target)
    code = _reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    if input.dim() > 2 or (input.dim() and input.size(-1) == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    rows = input.reshape(-1, input.size(-1) if input.dim() else 1)
    batch, classes = rows.shape
    if target.dim() > 1 or target.numel() != batch:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{batch}], but got {list(target.shape)}. "
            f"Input has shape {list(input.shape)}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    _require_numbers_of_classes(target)
    if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < classes:
        raise RuntimeError("target out of range")
    sums = _C._nn._multi_margin(rows, target.reshape(-1), int(p), margin, weight)
    return _reduced(sums.reshape(target.shape) if input.dim() < 2 else sums, code)


@overridable
@in_float32
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Sum over right and wrong classes of max(0, 1 - right score + wrong score), over C.

    Args:
        input: Scores, ``(N, C)`` or ``(C,)``.
        target: The right classes of each sample first, then -1; of *input*'s shape.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        RuntimeError: Shapes that do not fit together, or a class out of range.
    """
    require_tensors("multilabel_margin_loss", input=input, target=target)
    code = _reduction(reduction, size_average, reduce)
    if input.dim() > 2 or (input.dim() and input.size(-1) == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    if input.shape != target.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    _require_numbers_of_classes(target)
    classes = input.size(-1) if input.dim() else 1
    rows, labels = input.reshape(-1, classes), target.reshape(-1, classes)
    if labels.numel() and not -1 <= int(labels.min()) <= int(labels.max()) < classes:
        raise RuntimeError("target out of range")
    sums = _C._nn._multilabel_margin(rows, labels)
    return _reduced(sums.reshape([]) if input.dim() < 2 else sums, code)


@overridable
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over classes of the binary cross-entropy of sigmoid(input).

    Args:
        input: Scores, ``(*, C)``.
        target: 0 or 1, of *input*'s shape.
        weight: A factor for each class.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
    """
    require_tensors("multilabel_soft_margin_loss", input=input, target=target)
    code = _reduction(reduction, size_average, reduce)
    terms = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        terms = terms * weight
    return _reduced(terms.sum(-1) / input.size(-1), code)


@overridable
@in_float32
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, distance to like - distance to unlike + margin).

    Args:
        anchor: ``(N, D)`` or ``(D,)``.
        positive: Like vectors, a shape that broadcasts.
        negative: Unlike vectors, a shape that broadcasts.
        margin: The difference from which nothing is paid; above 0.
        p: Exponent of the distance.
        eps: Added to differences.
        swap: Use the distance of positive and negative where it is smaller.
        size_average: Old form of *reduction*.
        reduce: Old form of *reduction*.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        ValueError: *margin* is not above 0.
        RuntimeError: The numbers of dimensions differ.

    Source:
        Balntas et al., "Learning local feature descriptors with triplets", 2016.
    """
    require_tensors("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    code = _reduction(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        )

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, code)


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    code: int,
) -> Tensor:
    like, unlike = distance(anchor, positive), distance(anchor, negative)
    if swap:
        unlike = shmtensor.minimum(unlike, distance(positive, negative))
    return _reduced((margin + like - unlike).clamp_min(0), code)


@overridable
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``triplet_margin_loss`` with any distance; ``pairwise_distance`` if absent."""
    code = _reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, distance, margin, swap, code)
