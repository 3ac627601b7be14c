"""Copies, casts, fills and conversions: every pair of dtypes, strides, overlaps, memory formats."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from ops.samples import ALL, FLOATS, array, check, layouts, tensor, values

import shmtensor


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_cast_equals_numpy_in_range(source: str, target: str) -> None:
    a = np.arange(40)[::2] if source != "bool" else values("bool", 20)
    if source in FLOATS or source.startswith("complex"):
        a = a + (
            0.5 if target in FLOATS or target.startswith("complex") or target == "bool" else 0.25
        )
    a = a.astype("float32" if source == "bfloat16" else source)
    with np.errstate(all="ignore"):
        want = a.real if source.startswith("complex") and not target.startswith("complex") else a
        if target == "bool":
            want = a
        want = want.astype("float32" if target == "bfloat16" else target)
    got = tensor(a, source).to(getattr(shmtensor, target))
    check(got, want, target, rtol=8e-3 if target == "bfloat16" else 0.0)


@pytest.mark.check
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64"])
def test_casts_out_of_range_are_defined(target: str) -> None:
    a = shmtensor.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 300.7, -1.5])
    once = a.to(getattr(shmtensor, target))
    again = a.to(shmtensor.float64).to(getattr(shmtensor, target))
    assert once.tolist() == again.tolist()
    assert once[5].item() == {"int8": 44, "uint8": 44}.get(target, 300)
    if target in ("int32", "int64"):
        assert once[0].item() == np.iinfo(target).min


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("target", ["float16", "float32", "float64", "complex64", "bool"])
def test_every_float16_is_cast_as_numpy_does(target: str, step: int) -> None:
    a = np.repeat(np.arange(1 << 16, dtype=np.uint16), step).view(np.float16)[::step]
    a = a[~np.isnan(a)]
    with np.errstate(invalid="ignore"):
        assert np.array_equal(
            array(tensor(a, "float16").to(getattr(shmtensor, target))), a.astype(target)
        )


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("source", ["float32", "float64", "int64", "complex64"])
def test_casts_to_float16_are_rounded_as_numpy_does(source: str, step: int) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = np.sort(halves[np.isfinite(halves)])
    between = (halves[1:] + halves[:-1]) / 2
    a = np.concatenate([between, np.nextafter(between, np.float32(0)), [7e4, -7e4, 65519.9, 65520]])
    a = a.astype("float32").astype(source)
    real = a.real.astype("float32")
    with np.errstate(over="ignore"):
        want = real.astype("float16")
    got = shmtensor.zeros(step * len(a), dtype=shmtensor.float16)[::step]
    got.copy_(tensor(a, source))
    assert np.array_equal(array(got), want)


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("step", [1, 2])
def test_runs_of_numbers_beyond_32_bits_are_cast_to_int64(source: str, step: int) -> None:
    x = np.linspace(-4e9, 4e9, 1000).astype(source)
    x[:300] = np.linspace(-(2.0**31), 2.0**31 - 256, 300)
    x[500:503] = [np.nan, np.inf, -np.inf]
    finite = np.isfinite(x)
    wanted = np.where(finite, np.where(finite, x, 0).astype(np.int64), np.iinfo(np.int64).min)
    found = shmtensor.from_numpy(np.repeat(x, step))[::step].to(shmtensor.int64)
    assert np.array_equal(found.numpy(), wanted)


def test_bfloat16_rounds_to_even() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F800001], np.uint32)
    got = shmtensor.from_numpy(bits.view(np.float32)).to(shmtensor.bfloat16)
    wide = array(got).view(np.uint32) >> 16
    assert wide[:3].tolist() == [0x3F80, 0x3F82, 0x3F81]
    assert np.isnan(array(got)[3])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
def test_copies_between_any_strides(dtype: str) -> None:
    a = values(dtype, 40 * 23).reshape(40, 23)
    for _, source in layouts(a):
        for _, target in layouts(np.zeros_like(a)):
            assert target.copy_(source) is target
            np.testing.assert_array_equal(array(target), a)
            check(source.clone(), a, rtol=0.0)
            check(source.contiguous(), a, rtol=0.0)


def test_copy_broadcasts_and_casts() -> None:
    a = shmtensor.zeros(2, 3, dtype=shmtensor.int32)
    a.copy_(shmtensor.tensor([1.7, 2.2, -3.9]))
    assert a.tolist() == [[1, 2, -3]] * 2
    with pytest.raises(
        RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(4\)"
    ):
        a.copy_(shmtensor.zeros(4))
    with pytest.raises(RuntimeError, match=r"doesn't match the broadcast shape"):
        a.copy_(shmtensor.zeros(5, 2, 3))


def test_copy_between_overlapping_parts_is_refused() -> None:
    a = shmtensor.arange(10)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        a[1:].copy_(a[:-1])
    a[5:].copy_(a[:5])
    assert a.tolist() == [0, 1, 2, 3, 4] * 2


@pytest.mark.check
def test_an_empty_out_that_would_grow_into_the_input_is_refused() -> None:
    x = shmtensor.arange(42.0).reshape(2, 7, 3)
    index = shmtensor.zeros(1, 7, 3, dtype=shmtensor.int64)
    for write in (
        lambda out: shmtensor.triu(x, 1, out=out),
        lambda out: shmtensor.tril(x, 1, out=out),
        lambda out: shmtensor.index_select(x, 0, index[0, :1, 0], out=out),
        lambda out: shmtensor.take(x, index, out=out),
        lambda out: shmtensor.gather(x, 0, index, out=out),
    ):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            write(x[:0])
    assert x.tolist() == shmtensor.arange(42.0).reshape(2, 7, 3).tolist()


def test_large_transposed_copy_equals_numpy() -> None:
    a = np.random.default_rng(0).normal(size=(3, 211, 307)).astype(np.float32)
    got = tensor(a).permute(0, 2, 1).contiguous()
    np.testing.assert_array_equal(array(got), a.transpose(0, 2, 1))
    assert got.is_contiguous()


#: Dims short and long, so that every way of moving them is taken.
PERMUTED = [
    (2, 3, 28, 4, 2),
    (3, 5, 2, 17, 2),
    (2, 2, 33, 16),
    (4, 35, 2, 2, 3),
    (2, 300, 3),
    (1, 18, 9, 1, 7),
    (5, 70, 66),
]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", PERMUTED)
def test_every_permutation_is_copied(shape: tuple[int, ...], dtype: str) -> None:
    a = values(dtype, math.prod(shape)).reshape(shape)
    for order in itertools.permutations(range(len(shape))):
        turned = tensor(a).permute(order)
        np.testing.assert_array_equal(array(turned.contiguous()), a.transpose(order))
        target = shmtensor.empty(shape, dtype=turned.dtype)
        target.permute(order).copy_(turned.contiguous())
        np.testing.assert_array_equal(array(target), a)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_permuted_parts_are_copied_into_parts(dtype: str) -> None:
    shape = (3, 7, 10, 6)
    a = values(dtype, math.prod(shape)).reshape(shape)
    for order in itertools.permutations(range(4)):
        source = tensor(a).permute(order)[:, 1:-1, :, 1:]
        target = shmtensor.zeros([n + 2 for n in source.shape], dtype=source.dtype)
        target[1:-1, 1:-1, 1:-1, 1:-1].copy_(source)
        wanted = np.pad(a.transpose(order)[:, 1:-1, :, 1:], 1)
        np.testing.assert_array_equal(array(target), wanted)
        row = source[:1].contiguous()
        spread = shmtensor.empty(source.shape, dtype=source.dtype).copy_(row)
        np.testing.assert_array_equal(array(spread), np.broadcast_to(array(row), source.shape))


@pytest.mark.parametrize("threads", [1, 2])
def test_large_permuted_copies_of_several_threads(threads: int) -> None:
    a = np.arange(2 * 90 * 70 * 12 * 2, dtype=np.float32).reshape(2, 90, 70, 12, 2)
    before = shmtensor.get_num_threads()
    shmtensor.set_num_threads(threads)
    try:
        for order in itertools.permutations(range(5)):
            got = tensor(a).permute(order).contiguous()
            np.testing.assert_array_equal(array(got), a.transpose(order))
    finally:
        shmtensor.set_num_threads(before)


@pytest.mark.parametrize("dtype", ALL)
def test_fill_sets_every_element(dtype: str) -> None:
    t = shmtensor.empty(5, 7, dtype=getattr(shmtensor, dtype))
    assert t.fill_(1) is t
    assert bool((t == 1).all())
    t[:, ::2].fill_(0)
    assert int((t != 0).sum()) == 15
    t.zero_()
    assert int((t != 0).sum()) == 0


def test_fill_checks_its_value() -> None:
    with pytest.raises(
        RuntimeError, match="value cannot be converted to type uint8_t without overflow"
    ):
        shmtensor.zeros(3, dtype=shmtensor.uint8).fill_(256)
    with pytest.raises(
        RuntimeError, match="fill_ only supports 0-dimension value tensor but got tensor with 1 dim"
    ):
        shmtensor.zeros(3).fill_(shmtensor.ones(1))


def test_conversion_to_itself_is_the_tensor() -> None:
    a = shmtensor.ones(3)
    assert a.to(shmtensor.float32) is a
    assert a.contiguous() is a
    assert a.to(shmtensor.float32, copy=True) is not a
    assert a.to(shmtensor.zeros(2, dtype=shmtensor.int8)).dtype == shmtensor.int8
    assert a.type_as(shmtensor.zeros(2, dtype=shmtensor.float64)).dtype == shmtensor.float64


def test_memory_formats_are_kept_or_made() -> None:
    a = shmtensor.zeros(2, 3, 4, 5).contiguous(memory_format=shmtensor.channels_last)
    assert a.clone().stride() == a.stride()
    assert (a + 1).stride() == a.stride()
    assert a.to(shmtensor.float64).stride() == a.stride()
    assert a.clone(memory_format=shmtensor.contiguous_format).is_contiguous()


@pytest.mark.parametrize("source", ["float16", "float64", "int32"])
def test_gradient_of_a_cast_has_the_dtype_of_its_leaf(source: str) -> None:
    if source == "int32":
        pytest.skip("whole numbers have no gradient")
    a = shmtensor.ones(3, dtype=getattr(shmtensor, source)).requires_grad_(True)
    a.to(shmtensor.float32).sum().backward()
    assert a.grad.dtype == a.dtype


def test_gradient_of_copy_goes_to_the_source() -> None:
    source = shmtensor.ones(3, requires_grad=True)
    target: Any = shmtensor.zeros(2, 3)
    target.copy_(source)
    target.sum().backward()
    assert source.grad.tolist() == [2, 2, 2]
