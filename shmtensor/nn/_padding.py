"""Padding, as a composition of ``cat`` and ``index_select``, so that gradients follow."""

from __future__ import annotations

from collections.abc import Sequence

import shmtensor
from shmtensor._tensor import Tensor


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Grow (or, with negative numbers, cut) the last dimensions.

    Args:
        input: Any shape.
        pad: ``(before, after)`` of the last dimension, then of the one before it, and so on.
        mode: ``'constant'``, ``'reflect'``, ``'replicate'`` or ``'circular'``.
        value: What constant padding consists of; 0 if absent.

    Returns:
        A new tensor.

    Raises:
        RuntimeError: *pad* has an odd length or is too long for *input*; a size gets negative;
            reflected or circular padding is wider than the input.
        NotImplementedError: An unknown mode.

    Source:
        torch.nn.functional.pad.
    """
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {len(pad)}")
    if len(pad) // 2 > input.dim():
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but "
            f"got padding length {len(pad)} and input of dimension {input.dim()}"
        )
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if mode != "constant" and value not in (None, 0):
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    result = input
    for i in range(len(pad) // 2):
        before, after = int(pad[2 * i]), int(pad[2 * i + 1])
        dim = input.dim() - 1 - i
        if before == 0 and after == 0:
            continue
        if mode == "constant":
            result = _constant(result, dim, before, after, 0.0 if value is None else value)
        else:
            indices = _indices(result.shape[dim], before, after, mode)
            result = result.index_select(dim, shmtensor.tensor(indices, dtype=shmtensor.int64))
    return result.clone() if result is input else result


def _constant(input: Tensor, dim: int, before: int, after: int, value: float) -> Tensor:
    size = input.shape[dim]
    if size + before + after < 0:
        raise RuntimeError(
            f"The input size {size}, plus negative padding {before} and {after} resulted in a "
            f"negative output size, which is invalid. Check dimension {dim} of your input."
        )
    start, stop = max(-before, 0), size - max(-after, 0)
    parts = [input.narrow(dim, start, max(stop - start, 0))]
    shape = list(input.shape)
    for n, position in ((before, 0), (after, 1)):
        if n > 0:
            shape[dim] = n
            parts.insert(position * len(parts), input.new_full(shape, value, dtype=input.dtype))
    return shmtensor.cat(parts, dim)


def _indices(size: int, before: int, after: int, mode: str) -> list[int]:
    """Where every element along a padded dimension comes from."""
    positions = range(-before, size + after)
    if mode == "replicate":
        return [min(max(i, 0), size - 1) for i in positions]
    if mode == "circular":
        if max(before, after) > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        start, length = max(-before, 0), size - max(-before, 0) - max(-after, 0)
        if length < 1 and max(before, after) > 0:
            raise RuntimeError(
                f"Nothing is left to wrap around: padding ({before}, {after}) at a dimension of "
                f"size {size}"
            )
        return [start + i % length for i in range(-max(before, 0), length + max(after, 0))]
    if max(before, after) >= size:
        raise RuntimeError(
            "Padding size should be less than the corresponding input dimension, but got: "
            f"padding ({before}, {after}) at a dimension of size {size}"
        )
    return [abs(i) if i < size else 2 * (size - 1) - i for i in positions]
