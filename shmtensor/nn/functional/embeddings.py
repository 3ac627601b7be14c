"""Rows of tables chosen by indices. Source: torch.nn.functional."""

from __future__ import annotations

import shmtensor
from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

__all__ = ["embedding", "embedding_bag", "one_hot"]


def _shorten_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Shorten the rows named by *input* to *max_norm*, in place, outside the graph."""
    with shmtensor.no_grad():
        chosen = shmtensor.unique(input.reshape(-1))
        rows = weight.index_select(0, chosen)
        norms = rows.norm(norm_type, 1, keepdim=True)
        factors = shmtensor.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
        weight.index_copy_(0, chosen.to(shmtensor.int64), rows * factors)


@overridable
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of *weight* chosen by *input*.

    Args:
        input: Indices, any shape ``(*)``, integral.
        weight: ``(V, E)``.
        padding_idx: A row that gets no gradient.
        max_norm: Rows in use that are longer are shortened to this, in place.
        norm_type: The p of the norm for *max_norm*.
        scale_grad_by_freq: Divide gradients by how often a row occurs in *input*.
        sparse: Make the gradient of *weight* a sparse tensor: a row for each index.

    Returns:
        ``(*, E)``.

    Raises:
        IndexError: An index is outside [0, V).
    """
    if padding_idx is not None:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = padding_idx % rows
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    position = -1 if padding_idx is None else padding_idx
    return shmtensor.embedding(weight, input, position, scale_grad_by_freq, sparse)


def _bag_numbers(offsets: Tensor, n: int) -> Tensor:
    """The number of the bag that each of *n* indices is in."""
    starts = shmtensor.zeros(n + 1, dtype=shmtensor.int64)
    starts.index_add_(0, offsets.to(shmtensor.int64), shmtensor.ones_like(offsets).to(starts.dtype))
    return starts.cumsum(0)[:n] - 1


def _check_bags(
    input: Tensor, offsets: Tensor | None, include_last_offset: bool
) -> tuple[Tensor, Tensor]:
    """Indices of the bags as one line, and where each bag begins."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        starts = shmtensor.arange(0, input.numel(), max(input.size(1), 1), dtype=input.dtype)
        if input.size(1) == 0:
            starts = shmtensor.zeros(input.size(0), dtype=input.dtype)
        return input.reshape(-1), starts
    if input.dim() != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if offsets.dtype not in (shmtensor.int32, shmtensor.int64):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {offsets.type()} instead (while checking arguments for "
            "embedding_bag)"
        )
    if include_last_offset and offsets.numel() == 0:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if offsets.numel():
        if int(offsets[0]) != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {int(offsets[0])}"
            )
        if int(offsets[-1]) > input.numel():
            raise RuntimeError(
                "offsets[-1] can not be greater than input's length "
                f"({input.numel()}), but got offsets[-1] of {int(offsets[-1])}"
            )
        if bool((offsets[1:] < offsets[:-1]).any()):
            raise RuntimeError("embedding_bag(): offsets must not decrease")
    if include_last_offset:
        return input[: int(offsets[-1])], offsets[:-1]
    return (input if offsets.numel() else input[:0]), offsets


def bags_of(indices: Tensor, offsets: Tensor, include_last_offset: bool) -> Tensor:
    """The number of the bag that each of *indices* ``(N,)`` is in."""
    _, starts = _check_bags(indices, offsets, include_last_offset)
    return _bag_numbers(starts, indices.numel())


def _check_bag_dtypes(weight: Tensor, per_sample_weights: Tensor | None) -> None:
    if not weight.is_floating_point():
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got {weight.type()} instead (while checking "
            "arguments for embedding_bag)"
        )
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type {weight.type()} does not equal "
            f"{per_sample_weights.type()} (while checking arguments for embedding_bag)"
        )


@overridable
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of *weight*.

    Args:
        input: Indices: ``(B, L)``, B bags of L, or ``(N,)``, cut into bags by *offsets*.
        weight: ``(V, E)``.
        offsets: ``(B,)``, where each bag begins, for a one-dimensional *input*.
        max_norm: Rows in use that are longer are shortened to this, in place.
        norm_type: The p of the norm for *max_norm*.
        scale_grad_by_freq: Divide gradients by how often a row occurs in *input*.
        mode: ``'sum'``, ``'mean'`` or ``'max'``.
        sparse: Make the gradient of *weight* a sparse tensor: a row for each index.
        per_sample_weights: A factor for each index, of *input*'s shape; for sums only.
        include_last_offset: *offsets* has one more element, the end of the last bag.
        padding_idx: A row that counts for nothing and gets no gradient.

    Returns:
        ``(B, E)``; zeros for an empty bag.

    Raises:
        ValueError: Shapes or options that do not fit together.
        RuntimeError: An index is outside [0, V); offsets that are not ascending from 0; dtypes.
    """
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            "embedding_bag: If per_sample_weights "
            f"({per_sample_weights.shape}) is not None, then it must have the same shape as the "
            f"input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    rows = weight.size(0)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, "
            f"but got {padding_idx}"
        )
    _check_bag_dtypes(weight, per_sample_weights)
    indices, starts = _check_bags(input, offsets, include_last_offset)
    if indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < rows:
        wrong = indices[(indices < 0) | (indices >= rows)]
        raise RuntimeError(
            f"embedding_bag(): index {int(wrong[0])} is not in the valid range [0, {rows})"
        )
    if max_norm is not None:
        _shorten_rows(weight, indices, max_norm, norm_type)
    bags = starts.numel()
    where = _bag_numbers(starts, indices.numel())
    n = indices.numel()
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)[:n]
    if padding_idx is not None:
        kept = (indices != padding_idx % rows).nonzero().squeeze(1)
        indices, where = indices[kept], where[kept]
        factors = None if factors is None else factors[kept]
    if mode == "max" and indices.numel():
        largest, _ = _C._nn._embedding_bag_max(weight, indices, where, bags)
        return largest
    if scale_grad_by_freq:  # the scale is of the gradient only
        weight = shmtensor.embedding(weight, indices, -1, True, sparse)
        indices = shmtensor.arange(indices.numel())
    if mode == "sum" or not indices.numel():
        return _C._nn._embedding_bag_sum(weight, indices, where, factors, bags, sparse)
    counts = shmtensor.bincount(where, minlength=bags).clamp_min(1)
    return _C._nn._embedding_bag_mean(weight, indices, where, counts.to(weight.dtype), bags, sparse)


@overridable(as_given=True)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Turn class numbers into rows with a single 1.

    Args:
        tensor: ``(*)``, int64, not negative.
        num_classes: Width of a row; the largest number plus one if -1.

    Returns:
        ``(*, num_classes)``, int64.

    Raises:
        RuntimeError: A number is negative, or not below *num_classes*; the dtype is another one.
    """
    return _C._nn.one_hot(tensor, num_classes)
