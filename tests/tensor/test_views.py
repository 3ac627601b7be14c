"""View operators: geometry, values and error texts, case by case as torch 2.13 gives them.

``golden/views.txt`` holds one case a line, ``expression => result``. In an expression ``A(2, 3)``
counts from 0 in that shape, ``z`` makes zeros, ``x`` is ``A(2, 3, 4)``. A tensor's result is its
shape, stride, offset, contiguity, dtype and values; an error's is its type and text.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import shmtensor

CASES = [
    tuple(line.split(" => ", 1))
    for line in (Path(__file__).parent / "golden" / "views.txt").read_text().splitlines()
]


def counted(*sizes: int) -> Any:
    count = 1
    for size in sizes:
        count *= size
    return shmtensor.arange(count, dtype=shmtensor.float32).reshape(sizes)


def described(result: Any) -> str:
    if isinstance(result, shmtensor.Tensor):
        return (
            f"{tuple(result.shape)} {result.stride()} {result.storage_offset()} "
            f"{result.is_contiguous()} {result.dtype} {result.tolist()}"
        )
    if isinstance(result, list | tuple) and not isinstance(result, shmtensor.Size):
        return "[" + ", ".join(map(described, result)) + "]"
    return repr(result)


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_view_is_as_torch_has_it(expression: str, expected: str) -> None:
    names = {"torch": shmtensor, "A": counted, "z": shmtensor.zeros, "x": counted(2, 3, 4)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            got = described(eval(expression, names))
        except Exception as error:
            got = f"{type(error).__name__} {error}"
    assert got[:400] == expected[:400]


@pytest.mark.check
def test_view_of_many_dims_and_back() -> None:
    tensor = shmtensor.arange(2.0**10).view([2] * 10)
    assert tensor.dim() == 10
    assert tensor.permute(list(range(9, -1, -1))).stride() == tuple(2**i for i in range(10))
    assert tensor.unsqueeze(3).squeeze(3).stride() == tensor.stride()
    with pytest.raises(RuntimeError, match="too many"):
        shmtensor.zeros([1] * 65)


def test_views_write_to_their_base() -> None:
    base = shmtensor.zeros(2, 3, 4)
    for view in (
        base.select(0, 1),
        base.narrow(1, 1, 2),
        base.transpose(0, 2),
        base.diagonal(0, 1, 2),
        base.unfold(2, 2, 2),
        base.view(6, 4),
        base.split(2, dim=2)[1],
        base.unbind(1)[2],
        base.as_strided((3,), (7,), 2),
    ):
        base.zero_()
        view.fill_(1.0)
        assert base.sum().item() == view.numel()
        assert view.untyped_storage() is base.untyped_storage()


def test_in_place_geometry_changes_keep_memory() -> None:
    tensor = shmtensor.arange(6.0).reshape(2, 3)
    address = tensor.data_ptr()
    assert tensor.t_() is tensor
    assert tensor.unsqueeze_(0).transpose_(1, 2).squeeze_(0).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tensor.data_ptr() == address
    assert tensor._version == 4


def test_resize_of_a_shared_view_grows_the_storage_of_all() -> None:
    base = shmtensor.arange(4.0)
    view = base[2:]
    view.resize_(6)
    assert base.untyped_storage().nbytes() == 32
    assert base.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert view.tolist()[:2] == [2.0, 3.0]


def test_resize_refuses_a_tensor_that_requires_grad() -> None:
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        shmtensor.ones(2, requires_grad=True).resize_(3)


@pytest.mark.check
def test_meta_views_have_geometry_only() -> None:
    meta = shmtensor.empty(2, 3, 4, device="meta")
    assert meta.transpose(0, 2).stride() == (1, 4, 12)
    assert meta[0, 1:].shape == (2, 4)
    assert meta.transpose(0, 1).reshape(6, 4).is_meta
    assert [part.shape for part in meta.split(3, dim=2)] == [(2, 3, 3), (2, 3, 1)]


def test_view_as_a_smaller_dtype_of_huge_strides():
    x = shmtensor.empty(0, 1 << 62, dtype=shmtensor.complex32)
    with pytest.raises(RuntimeError, match="overflow"):
        x.view(shmtensor.float16)
    y = shmtensor.empty(0, 1 << 40, dtype=shmtensor.complex64)
    assert y.view(shmtensor.float32).shape == (0, 1 << 41)


def test_views_of_nothing_lie_within_reach() -> None:
    """A place of so many elements that bytes up to it have no number."""
    nothing = shmtensor.ones((), dtype=shmtensor.complex128).expand(0, 2**62)
    tail = nothing.reshape(1, 1, 0, 2**62)[:, 1:]
    assert tail.shape == (1, 0, 0, 2**62)
    assert tail.clone().numel() == 0


def test_matrix_transposes_of_a_tensor_without_dims() -> None:
    assert shmtensor.tensor(2.0).mT.item() == 2.0
    assert shmtensor.tensor(2j).mH.item() == -2j
    for name in ("mT", "mH"):
        with pytest.raises(RuntimeError, match=f"tensor.{name} is only supported on matrices"):
            getattr(shmtensor.ones(3), name)


def test_view_copy_of_what_cannot_be_viewed() -> None:
    x = shmtensor.arange(6).reshape(2, 3).t()
    assert shmtensor.view_copy(x, (6,)).tolist() == [0, 3, 1, 4, 2, 5]


def test_a_number_that_is_expanded_has_no_steps() -> None:
    number = shmtensor.tensor(2.0)
    assert number.expand(1).stride() == (0,)
    assert number.expand(3, 1, 2).stride() == (0, 0, 0)
    assert shmtensor.ones(3).expand(1, 3).stride() == (3, 1)
    assert shmtensor.ones(4, 4)[:1, :1].diag().stride() == (1,)
