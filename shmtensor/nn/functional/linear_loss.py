"""The cross entropy of a linear layer, in one go or rows at a time. Source: torch.nn.functional."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import shmtensor
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.autograd.function import Function
from shmtensor.nn.functional.loss import cross_entropy

__all__ = ["linear_cross_entropy"]

_IGNORED = -100  # the class that targets name to be left out, when none is said
_POLICIES = ("accurate", "balanced", "compact", "auto")
_ASPECT = "aspect_ratio:"


@dataclass
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` divides the rows of its input, to need less memory.

    Args:
        allow_retain_graph: Accepted as torch does; the graph may always be used again.
        batch_chunk_size: Rows at a time; chosen by *chunking_method* if absent.
        chunking_method: ``'aspect_ratio:r'``: the logits of a piece have at most *r* times as many
            elements as the input; ``'auto'`` is ``'aspect_ratio:2'``; None divides nothing.
        acc_policy: ``'compact'`` sums the gradients of the weight in its own dtype, ``'accurate'``
            and ``'balanced'`` in float32 at least; ``'auto'`` is ``'compact'``.
        acc_dtype: Sums them in this dtype instead.

    The logits of a piece are float32 for bfloat16, and for float16 where *acc_policy* is
    ``'accurate'``.

    Raises:
        ValueError: *batch_chunk_size* is not positive, or another argument no known word.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        size, method = self.batch_chunk_size, self.chunking_method
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        if method not in (None, "auto") and not _ratio(method):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")

    def rows_of(self, input: Tensor, n_classes: int) -> int:
        """How many rows of *input* ``(N, F)`` make a piece."""
        n = max(input.shape[0], 1)
        if self.batch_chunk_size is not None:
            return self.batch_chunk_size
        if self.chunking_method is None:
            return n
        ratio = 2.0 if self.chunking_method == "auto" else _ratio(self.chunking_method)
        return max(1, min(n, int(ratio * n * input.shape[1] / max(n_classes, 1))))

    def sum_dtype(self, weight: Tensor) -> Any:
        """The dtype that gradients of *weight* are summed in."""
        if self.acc_dtype is not None:
            return self.acc_dtype
        is_wide = self.acc_policy in ("accurate", "balanced")
        return shmtensor.promote_types(weight.dtype, shmtensor.float32) if is_wide else weight.dtype

    def scores_dtype(self, input: Tensor) -> Any:
        """The dtype that the logits of a piece have."""
        is_short = input.dtype == shmtensor.float16 and self.acc_policy != "accurate"
        return input.dtype if is_short else shmtensor.promote_types(input.dtype, shmtensor.float32)


# Its place in torch.
LinearCrossEntropyOptions.__module__ = "shmtensor.nn.modules.linear_cross_entropy_options"


def _ratio(method: str | None) -> float:
    """The number in ``'aspect_ratio:r'``; 0 for what is none."""
    text = (method or "").removeprefix(_ASPECT)
    try:
        return max(float(text), 0.0) if str(method).startswith(_ASPECT) else 0.0
    except ValueError:
        return 0.0


def _check(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {input.shape[-1]}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise RuntimeError(
            f"expected linear_bias shape {tuple(linear_weight.shape[:-1])}, got "
            f"{tuple(linear_bias.shape)}"
        )


def _logits(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``(C)``, ``(N, C)`` or ``(N, C, d_1, ...)``."""
    flat = weight.flatten(0, -2)
    scores = shmtensor.nn.functional.linear(input, flat, None if bias is None else bias.flatten())
    return scores.reshape([*input.shape[:-1], *weight.shape[:-1]])


class _ByPieces(Function):
    """The losses of rows, or their sum, with the logits of one piece at a time.

    The backward pass calculates the logits again.
    """

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor, bias: Any, target: Tensor, rows: int, options: Any
    ) -> Any:
        """*options*: the keywords of `cross_entropy`, the dtype to sum in and that of logits."""
        ctx.save_for_backward(input, weight, bias, target)
        ctx.rows, ctx.options = rows, options
        kept, _, scores = options
        factors = [t.to(scores) for t in (weight, bias) if t is not None]
        losses = [
            cross_entropy(_logits(x.to(scores), *factors), y, **kept)
            for x, y in _pieces(rows, input, target)
        ]
        if kept["reduction"] == "none":
            return shmtensor.cat(losses).to(input.dtype)
        return shmtensor.stack(losses).sum().to(input.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of input, weight and bias, summed over the pieces."""
        input, weight, bias, target = ctx.saved_tensors
        (grad,) = grads
        kept, dtype, scores = ctx.options
        wanted = [t.detach().to(scores) for t in (weight, bias) if t is not None]
        sums = [shmtensor.zeros_like(t, dtype=dtype) for t in wanted]
        grad = grad.to(scores)
        parts = []
        by_row = kept["reduction"] == "none"
        for x, y, g in _pieces(ctx.rows, input, target, grad if by_row else None):
            with shmtensor.enable_grad():
                x = x.detach().requires_grad_()
                for t in wanted:
                    t.requires_grad_()
                loss = cross_entropy(_logits(x.to(scores), *wanted), y, **kept)
                own, *others = shmtensor.autograd.grad(loss, [x, *wanted], grad if g is None else g)
            parts.append(own)
            for total, other in zip(sums, others, strict=True):
                total += other
        sums = [s.to(weight.dtype) for s in sums]
        return shmtensor.cat(parts), sums[0], sums[1] if bias is not None else None, *[None] * 3


def _pieces(rows: int, *tensors: Any) -> Iterator[tuple[Any, ...]]:
    """The tensors' rows, *rows* at a time; None stays None."""
    for begin in range(0, tensors[0].shape[0], rows):
        yield tuple(None if t is None else t[begin : begin + rows] for t in tensors)


def _divisor(target: Tensor, weight: Tensor | None, ignore_index: int) -> Any:
    """What ``'mean'`` divides by: the weights of the classes that count, or the rows."""
    if target.is_floating_point():
        return target.shape[0]
    counts = target != ignore_index
    if weight is None:
        return counts.sum()
    return (weight[target.where(counts, shmtensor.zeros_like(target)).long()] * counts).sum()


@overridable
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Args:
        input: ``(F)`` or ``(N, F)``.
        linear_weight: ``(C, F)``, or ``(C, d_1, ..., d_K, F)`` for a batch.
        target: Classes ``()``, ``(N)`` or ``(N, d_1, ..., d_K)``, or their probabilities ``(C)``,
            ``(N, C)`` or ``(N, C, d_1, ..., d_K)``.
        linear_bias: ``(C)`` or ``(C, d_1, ..., d_K)``.
        weight: Of each class, ``(C)``.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.
        ignore_index: Rows of this class do not count; -100 if absent; not for probabilities.
        label_smoothing: The share of the uniform distribution in the targets, 0 to 1.
        options: Calculate rows at a time, so that the logits of all never exist together. Then
            second derivatives cannot be had, and what cannot be divided is calculated whole, with
            a warning.

    Returns:
        A scalar, or without reduction the shape of *target* as classes.

    Raises:
        RuntimeError: Shapes do not fit, or *ignore_index* is given for probabilities.

    Source:
        torch.nn.functional.linear_cross_entropy.
    """
    _check(input, linear_weight, linear_bias)
    has_probabilities = target.is_floating_point()
    if has_probabilities and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = _IGNORED if ignore_index is None else ignore_index
    kept = {
        "weight": weight,
        "ignore_index": ignored,
        "reduction": reduction,
        "label_smoothing": label_smoothing,
    }
    if options is not None and input.shape[0] > 0:
        batch, targets = (input, target) if input.dim() == 2 else (input[None], target[None])
        fits = targets.dim() >= 1 and targets.shape[0] == batch.shape[0]
        if fits and linear_weight.dim() == 2 and not target.requires_grad:
            scores = options.scores_dtype(input)
            inner = {
                **kept,
                "weight": None if weight is None else weight.to(scores),
                "reduction": "sum" if reduction == "mean" else reduction,
            }
            loss: Tensor = _ByPieces.apply(
                batch,
                linear_weight,
                linear_bias,
                targets,
                options.rows_of(batch, linear_weight.shape[0]),
                (inner, options.sum_dtype(linear_weight), scores),
            )
            if reduction == "mean":
                loss = loss / _divisor(targets, weight, ignored)
            return loss if input.dim() == 2 else loss.squeeze(0)
        warnings.warn(
            "linear_cross_entropy: weights of more than two dimensions are not divided, nor are "
            "targets that require grad",
            stacklevel=2,
        )
    return cross_entropy(_logits(input, linear_weight, linear_bias), target, **kept)  # type: ignore[arg-type]
