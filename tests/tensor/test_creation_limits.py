"""Sizes that cannot be: negative, overflowing, beyond memory; and storages that are too small."""

from __future__ import annotations

import pytest

import shmtensor


@pytest.mark.check
def test_negative_size_is_named() -> None:
    with pytest.raises(
        RuntimeError, match=r"Trying to create tensor with negative dimension -1: \[2, -1\]"
    ):
        shmtensor.empty(2, -1)


@pytest.mark.parametrize("sizes", [(1 << 40, 1 << 40), (1 << 62,), (1 << 40, 1 << 40, 0)])
def test_overflowing_sizes_are_named(sizes: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match=f"Storage size calculation overflowed .*{sizes[0]}"):
        shmtensor.empty(sizes)


def test_memory_beyond_the_machine_names_the_bytes() -> None:
    with pytest.raises(MemoryError, match=str(4 << 44)):
        shmtensor.empty(1 << 44)
    with pytest.raises(MemoryError, match=str(4 << 44)):
        shmtensor.zeros(1 << 44)


def test_empty_tensors_need_no_memory() -> None:
    tensor = shmtensor.empty(0, 1 << 40)
    assert tensor.numel() == 0
    assert tensor.untyped_storage().nbytes() == 0
    assert tensor.sum().item() == 0


def test_strides_that_overflow_are_named() -> None:
    with pytest.raises(RuntimeError, match=r"overflowed with sizes=.* and strides="):
        shmtensor.empty_strided((2, 2), (1 << 62, 1))


@pytest.mark.check
def test_storage_over_4_gib_by_mapping_nothing() -> None:
    meta = shmtensor.empty(3, 1 << 31, device="meta")
    assert meta.untyped_storage().nbytes() == 3 << 33
    assert meta[2].storage_offset() == 1 << 32


def test_item_of_several_elements_says_how_many() -> None:
    with pytest.raises(
        RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"
    ):
        shmtensor.ones(2).item()


@pytest.mark.parametrize(
    ("dtype", "value", "name"),
    [
        (shmtensor.uint8, 300, "uint8_t"),
        (shmtensor.int8, -129, "int8_t"),
        (shmtensor.int32, 1e10, "int"),
        (shmtensor.int64, float("nan"), "int64_t"),
        (shmtensor.float32, 1e300, "float"),
        (shmtensor.float32, 1j, "float"),
        (shmtensor.complex64, 1e300, "c10::complex<float>"),
    ],
)
def test_number_that_does_not_fit_names_the_type(
    dtype: shmtensor.dtype, value: complex, name: str
) -> None:
    with pytest.raises(RuntimeError, match=f"cannot be converted to type {name} without overflow"):
        shmtensor.full((), value, dtype=dtype)


def test_numbers_that_wrap_or_round_as_torch_has_it() -> None:
    assert shmtensor.full((), -1, dtype=shmtensor.uint8).item() == 255
    assert shmtensor.full((), 1e6, dtype=shmtensor.float16).item() == float("inf")
    assert shmtensor.full((), 2.0**64 - 2.0**11, dtype=shmtensor.uint64).item() == 2**64 - 2**11


def test_strides_or_elements_that_overflow_are_told_apart() -> None:
    x = shmtensor.empty(())
    for sizes in ((0, 4, 2**61), (0, 2**62, 4)):
        for make in (x.resize_, shmtensor.empty, shmtensor.zeros):
            with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
                make(sizes)
    for sizes in ((2**62, 4), (8, 8, 2**29, 2**29)):
        with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
            x.resize_(sizes)
        with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
            shmtensor.empty(sizes)
    assert shmtensor.empty(2**62, 0, 4).stride() == (4, 4, 1)
    with pytest.raises(RuntimeError, match=r"with sizes=.* and strides="):
        x.as_strided((2**62, 4), (4, 1))


def test_repeat_names_the_size_that_would_be_negative() -> None:
    with pytest.raises(RuntimeError, match=r"negative dimension -3: \[4, -3\]"):
        shmtensor.ones(2, 3).repeat(2, -1)
