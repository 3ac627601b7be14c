"""Memory formats: cached contiguity flags, suggested formats, strides of new tensors."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor
from shmtensor import channels_last, channels_last_3d, contiguous_format

LAST = {4: channels_last, 5: channels_last_3d}


def formats(tensor: Any) -> tuple[bool, bool, bool]:
    return (
        tensor.is_contiguous(),
        tensor.is_contiguous(memory_format=channels_last),
        tensor.is_contiguous(memory_format=channels_last_3d),
    )


@pytest.mark.check
def test_channels_last_has_torchs_strides() -> None:
    tensor = shmtensor.zeros(1, 64, 5, 4).contiguous(memory_format=channels_last)
    assert tensor.stride() == (1280, 1, 256, 64)
    assert formats(tensor) == (False, True, False)
    assert tensor.contiguous(memory_format=channels_last) is tensor
    assert tensor.contiguous().stride() == (1280, 20, 4, 1)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 3, 4, 5), (True, False, False)),
        ((2, 1, 4, 5), (True, True, False)),
        ((2, 3, 1, 1), (True, True, False)),
        ((1, 1, 1, 1), (True, True, False)),
        ((0, 3, 4, 5), (True, False, False)),
        ((2, 1, 3, 4, 5), (True, False, True)),
        ((), (True, False, False)),
        ((3,), (True, False, False)),
    ],
)
def test_flags_of_row_major_tensors(shape: tuple[int, ...], expected: tuple[bool, ...]) -> None:
    assert formats(shmtensor.zeros(shape)) == expected


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_format_survives_operators_and_copies(shape: tuple[int, ...]) -> None:
    last = LAST[len(shape)]
    tensor = shmtensor.ones(shape).to(memory_format=last)
    for result in (
        tensor + 1.0,
        tensor * tensor,
        tensor.clone(),
        shmtensor.empty_like(tensor),
        tensor.to(shmtensor.float64),
    ):
        assert result.stride() == tensor.stride()
    for result in (
        tensor.clone(memory_format=contiguous_format),
        shmtensor.zeros_like(tensor, memory_format=contiguous_format),
    ):
        assert result.is_contiguous()


@pytest.mark.check
def test_flags_follow_geometry_changes() -> None:
    tensor = shmtensor.zeros(2, 3)
    assert not tensor.t_().is_contiguous()
    assert tensor.resize_(2, 2).is_contiguous()
    assert tensor.t().t().is_contiguous()
    assert shmtensor.zeros(1, 5).t().is_contiguous()
    assert not shmtensor.zeros(2, 5)[:, ::2].is_contiguous()
    assert shmtensor.zeros(2, 0).t().is_contiguous()


def test_wrong_rank_for_a_format_names_the_rank() -> None:
    with pytest.raises(RuntimeError, match="rank 4"):
        shmtensor.empty(2, 3, memory_format=channels_last)
    with pytest.raises(RuntimeError, match="rank 5"):
        shmtensor.zeros(2, 3).contiguous(memory_format=channels_last_3d)


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: shmtensor.zeros(2, 3, 4).permute(2, 0, 1), (1, 12, 4)),
        (lambda: shmtensor.zeros(2, 3, 4)[:, ::2].permute(2, 0, 1), (1, 8, 4)),
        (lambda: shmtensor.zeros(3, 1).expand(3, 4), (4, 1)),
        (lambda: shmtensor.zeros(0, 3).t(), (1, 3)),
    ],
)
def test_empty_like_is_dense_in_the_same_order(make: Any, strides: tuple[int, ...]) -> None:
    assert shmtensor.empty_like(make()).stride() == strides
