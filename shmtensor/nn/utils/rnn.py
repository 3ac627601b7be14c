"""Batches of sequences of different lengths.

A packed batch has its sequences sorted by length, longest first, and lies in memory step after
step: first the first elements of all sequences, then the second elements of those that have one.

Source: torch.nn.utils.rnn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn._to import parse_to

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """A packed batch of sequences.

    Args:
        data: ``(sum of lengths, *)``; or a pair of it and of *batch_sizes*.
        batch_sizes: ``(longest length,)``, int64: how many sequences have a step.
        sorted_indices: ``(N,)``: which sequence is at each place; None if they were sorted.
        unsorted_indices: ``(N,)``, the inverse; computed if absent.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        """Make a packed batch of its parts."""
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with ``data.to(...)``, and the indices on its device.

        Raises:
            TypeError: The arguments are none of ``Tensor.to``.
            RuntimeError: ``copy`` is given.
        """
        parse_to(*args, **kwargs)
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = (self.sorted_indices, self.unsorted_indices)
        moved = (None if i is None else i.to(data.device) for i in indices)
        return type(self)(data, self.batch_sizes, *moved)

    def float(self) -> PackedSequence:
        """The same in float32."""
        return self.to(shmtensor.float32)

    def double(self) -> PackedSequence:
        """The same in float64."""
        return self.to(shmtensor.float64)

    def half(self) -> PackedSequence:
        """The same in float16."""
        return self.to(shmtensor.float16)

    def long(self) -> PackedSequence:
        """The same in int64."""
        return self.to(shmtensor.int64)

    def int(self) -> PackedSequence:
        """The same in int32."""
        return self.to(shmtensor.int32)

    def short(self) -> PackedSequence:
        """The same in int16."""
        return self.to(shmtensor.int16)

    def char(self) -> PackedSequence:
        """The same in int8."""
        return self.to(shmtensor.int8)

    def byte(self) -> PackedSequence:
        """The same in uint8."""
        return self.to(shmtensor.uint8)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Raise AssertionError: there is no such device."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def pin_memory(self) -> PackedSequence:
        """Raise RuntimeError: there is no device to pin memory for."""
        raise RuntimeError("Cannot access accelerator device when none is available.")

    @property
    def is_cuda(self) -> bool:
        """False: there are no CUDA devices here."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """False: there is no device to pin memory for."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes *permutation*, ``(N,)``, int64."""
    if permutation is None:
        return None
    positions = shmtensor.arange(permutation.numel())
    return shmtensor.empty_like(permutation).scatter_(0, permutation, positions)


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack a padded batch.

    Args:
        input: ``(T, N, *)``, or ``(N, T, *)`` with *batch_first*.
        lengths: ``(N,)``, each from 1 to T.
        batch_first: The order of the first two dimensions.
        enforce_sorted: The lengths descend; otherwise they are sorted here.

    Raises:
        RuntimeError: Lengths that are not positive, too long, too few, or do not descend.
    """
    counts = shmtensor.as_tensor(lengths, dtype=shmtensor.int64)
    if counts.dim() != 1:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{counts.dim()}D {counts.device.type} Long tensor"
        )
    order = None
    if not enforce_sorted:
        counts, order = shmtensor.sort(counts, descending=True, stable=True)
        input = input.index_select(0 if batch_first else 1, order)
    steps = input.transpose(0, 1) if batch_first else input
    if steps.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    values = [int(n) for n in counts.tolist()]
    if len(values) != steps.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(values)} "
            f"(batch_size={steps.size(1)})"
        )
    if values[-1] <= 0 or min(values) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if values != sorted(values, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if values[0] > steps.size(0):
        raise RuntimeError(
            f"Expected the lengths to be at most {steps.size(0)}, the input's, got {values[0]}"
        )
    positions = shmtensor.arange(values[0]).unsqueeze(1)
    running = positions < counts  # (T, N)
    sizes = running.sum(1)
    return PackedSequence(steps[: values[0]][running], sizes, order, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undo ``pack_padded_sequence``.

    Args:
        sequence: A packed batch.
        batch_first: Give ``(N, T, *)`` instead of ``(T, N, *)``.
        padding_value: What is behind the end of shorter sequences.
        total_length: T; the longest length if absent.

    Returns:
        The padded batch, and the lengths ``(N,)``, int64, both in the original order.

    Raises:
        ValueError: *total_length* is less than the longest length.
    """
    sizes = sequence.batch_sizes
    longest = sizes.size(0)
    length = longest
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{longest}"
            )
        length = total_length
    batch = int(sizes[0])
    running = shmtensor.arange(batch) < sizes.unsqueeze(1)  # (T, N)
    lengths = running.sum(0)
    step, place = running.nonzero(as_tuple=True)
    padded = sequence.data.new_full((length, batch, *sequence.data.shape[1:]), padding_value)
    padded = padded.index_put((step, place), sequence.data)
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences ``(L_i, *)`` into ``(T, N, *)``, filling up with *padding_value*.

    Args:
        sequences: The sequences, alike in all sizes but the first.
        batch_first: Give ``(N, T, *)`` instead.
        padding_value: What fills up.
        padding_side: ``'right'`` (behind) or ``'left'`` (before).
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    items = list(sequences)
    if not items:
        raise RuntimeError("received an empty list of sequences")
    longest = max(s.size(0) for s in items)
    rows = []
    for item in items:
        fill = item.new_full((longest - item.size(0), *item.shape[1:]), padding_value)
        rows.append(shmtensor.cat([item, fill] if padding_side == "right" else [fill, item]))
    return shmtensor.stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Undo ``pad_sequence``: a list of ``(L_i, *)`` with separate memory."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    dense = shmtensor.contiguous_format
    return [
        row[: int(n)].clone(memory_format=dense)
        for row, n in zip(rows, lengths.tolist(), strict=True)
    ]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences ``(L_i, *)``; arguments as ``pack_padded_sequence``."""
    lengths = shmtensor.as_tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undo ``pack_sequence``: a list of ``(L_i, *)``."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
