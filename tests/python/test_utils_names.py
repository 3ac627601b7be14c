"""`_utils`: small tools that programs take from torch."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as T
from shmtensor import _utils


@pytest.mark.check
def test_bytes_of_an_element() -> None:
    sizes = {T.bool: 1, T.int8: 1, T.bfloat16: 2, T.float32: 4, T.complex64: 8, T.complex128: 16}
    assert {dtype: _utils._element_size(dtype) for dtype in sizes} == sizes
    with pytest.raises(RuntimeError, match=r"expected torch\.dtype"):
        _utils._element_size(4)  # type: ignore[arg-type]


def test_many_tensors_as_one() -> None:
    parts = [T.ones(2), T.ones(0, 3), T.full((2, 2), 2.0)]
    flat = _utils._flatten_dense_tensors(parts)
    assert flat.tolist() == [1, 1, 2, 2, 2, 2]
    views = _utils._unflatten_dense_tensors(flat, parts)
    assert [v.shape for v in views] == [(2,), (0, 3), (2, 2)]
    views[0].zero_()
    assert flat[0].item() == 0


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (8, [[2], [1], [3], [2], [1], [5]]),
        (12, [[2, 1], [3], [2], [1], [5]]),
        (16, [[2, 1], [2], [3, 1], [5]]),
        (100, [[2, 1, 3, 1], [2, 5]]),
    ],
)
def test_groups_of_one_dtype_and_limited_bytes(limit: int, expected: list[list[int]]) -> None:
    kinds = ("f2", "f1", "i2", "f3", "f1", "i5")
    tensors = [T.ones(int(k[1]), dtype=T.float32 if k[0] == "f" else T.int64) for k in kinds]
    groups = _utils._take_tensors(tensors, limit)
    assert [[t.numel() for t in group] for group in groups] == expected


@pytest.mark.check
def test_groups_in_the_order_of_types() -> None:
    a, b = T.ones(2), T.ones(3, dtype=T.int64)
    first, second = _utils._reorder_tensors_as([a, b], [b, a])
    assert first is b
    assert second is a


@pytest.mark.parametrize(
    ("device", "options", "expected"),
    [
        (3, {}, 3),
        ("cpu", {"allow_cpu": True}, -1),
        (T.device("cpu"), {"allow_cpu": True, "optional": True}, -1),
        ("cuda:1", {}, 1),
        ("cuda", {"optional": True}, None),
        (None, {"optional": True}, None),
    ],
)
def test_number_of_a_device(device: Any, options: dict[str, bool], expected: int | None) -> None:
    assert _utils._get_device_index(device, **options) == expected


@pytest.mark.parametrize("device", ["cpu", None, "cuda", "meta"])
def test_devices_without_a_number(device: str | None) -> None:
    with pytest.raises(ValueError, match=r"non cpu device|specified index"):
        _utils._get_device_index(device)


def test_names_with_dots() -> None:
    assert _utils._import_dotted_name("shmtensor.nn.functional") is T.nn.functional
    assert _utils._get_available_device_type() is None
    assert _utils._get_all_device_indices() is None
