"""The iterator: broadcasting, result strides, out=, in-place, overlaps, threads, empty tensors."""

from __future__ import annotations

import itertools
import multiprocessing
import threading

import numpy as np
import pytest
from ops.samples import array, layouts, tensor

import shmtensor


@pytest.mark.check
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 1), (4,)),
        ((2, 1, 4), (3, 1)),
        ((), (2, 3)),
        ((1,), (5, 1, 2)),
        ((0, 3), (3,)),
        ((2, 3, 4), (1, 1, 1)),
    ],
)
def test_broadcasting_equals_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x = np.arange(np.prod(a, dtype=int)).reshape(a).astype(np.float32)
    y = np.arange(np.prod(b, dtype=int)).reshape(b).astype(np.float32) + 1
    np.testing.assert_array_equal(array(tensor(x) - tensor(y)), x - y)


def _shapes(sizes: tuple[int, ...], n_dims: int) -> list[tuple[int, ...]]:
    return [shape for n in range(n_dims + 1) for shape in itertools.product(sizes, repeat=n)]


def test_all_small_shapes_broadcast_or_are_refused() -> None:
    operands = [
        (shape, np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(np.float32))
        for shape in _shapes((1, 2, 3), 3)
    ]
    for (a, x), (b, y) in itertools.product(operands, repeat=2):
        try:
            expected = 2 * x - y
        except ValueError:
            with pytest.raises(RuntimeError, match="must match the size of tensor"):
                tensor(2 * x) - tensor(y)
            continue
        result = tensor(2 * x) - tensor(y)
        assert result.is_contiguous(), (a, b)
        np.testing.assert_array_equal(array(result), expected)


def test_three_operands_broadcast_together() -> None:
    shapes = [(2, 1, 3), (3,), (4, 1), (2, 4, 3), (1,), ()]
    for a, b, c in itertools.product(shapes, repeat=3):
        x, y, z = (np.random.default_rng(1).random(shape).astype(np.float32) for shape in (a, b, c))
        result = shmtensor.where(tensor(x > 0.5), tensor(y), tensor(z))
        np.testing.assert_array_equal(array(result), np.where(x > 0.5, y, z))


def test_shapes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(
        RuntimeError,
        match=r"tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1",
    ):
        shmtensor.ones(2, 3) + shmtensor.ones(2, 4)


def test_operands_of_any_strides_give_the_same() -> None:
    x = np.random.default_rng(0).normal(size=(33, 65)).astype(np.float32)
    y = np.random.default_rng(1).normal(size=(33, 65)).astype(np.float32)
    for (_, a), (_, b) in itertools.product(layouts(x), layouts(y)):
        np.testing.assert_array_equal(array(a * b), x * y)
        np.testing.assert_array_equal(array(a > b), x > y)


def test_results_take_the_memory_order_of_their_operands() -> None:
    a = shmtensor.zeros(3, 4).t()
    assert (a + a).stride() == (1, 4)
    assert (a + 1.0).stride() == (1, 4)
    assert (a + shmtensor.zeros(4, 1)).stride() == (1, 4)
    assert (a > 0).stride() == (1, 4)
    b = shmtensor.zeros(2, 3, 4).permute(2, 0, 1)
    assert shmtensor.exp(b).stride() == b.stride()
    assert (shmtensor.zeros(4, 6)[:, ::2] + 1).stride() == (3, 1)


def test_out_is_resized_with_a_warning_when_it_had_elements() -> None:
    a = shmtensor.ones(2, 3)
    out = shmtensor.empty(0)
    assert shmtensor.add(a, 1, out=out) is out
    assert out.tolist() == [[2.0] * 3] * 2
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        shmtensor.add(a, 1, out=shmtensor.empty(5))


def test_out_of_another_dtype_or_stride_is_written_through() -> None:
    a = shmtensor.tensor([1.0, 2.0, 3.0])
    wide = shmtensor.zeros(3, dtype=shmtensor.float64)
    shmtensor.mul(a, 2, out=wide)
    assert wide.tolist() == [2, 4, 6]
    gaps = shmtensor.zeros(6)
    shmtensor.mul(a, 2, out=gaps[::2])
    assert gaps.tolist() == [2, 0, 4, 0, 6, 0]
    with pytest.raises(
        RuntimeError, match="result type Float can't be cast to the desired output type Long"
    ):
        shmtensor.mul(a, 2, out=shmtensor.zeros(3, dtype=shmtensor.int64))


def test_in_place_keeps_dtype_and_shape() -> None:
    a = shmtensor.tensor([1, 2, 3])
    assert a.add_(2) is a
    assert a.tolist() == [3, 4, 5]
    with pytest.raises(
        RuntimeError, match="result type Float can't be cast to the desired output type Long"
    ):
        a.add_(1.5)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"
    ):
        a.add_(shmtensor.ones(2, 3, dtype=shmtensor.int64))
    b = shmtensor.ones(3)
    b += shmtensor.ones(3, dtype=shmtensor.float64)
    assert b.dtype == shmtensor.float32


@pytest.mark.check
def test_in_place_on_itself_and_its_views() -> None:
    a = shmtensor.arange(6.0).reshape(2, 3)
    a.mul_(a)
    assert a.tolist() == [[0, 1, 4], [9, 16, 25]]
    a[:, 1:].add_(1)
    assert a.tolist() == [[0, 2, 5], [9, 17, 26]]
    a.t().sub_(a.t())
    assert a.abs().sum().item() == 0


def test_overlaps_are_refused() -> None:
    a = shmtensor.zeros(4)
    with pytest.raises(
        RuntimeError,
        match="more than one element of the written-to tensor refers to a single memory",
    ):
        a[:1].expand(3).add_(1)
    with pytest.raises(
        RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"
    ):
        shmtensor.add(a[:3], 1, out=a[1:])


def test_meta_tensors_have_shapes_only() -> None:
    a = shmtensor.empty(3, 1, device="meta")
    b = a + shmtensor.empty(4, device="meta", dtype=shmtensor.float64)
    assert b.shape == (3, 4)
    assert b.dtype == shmtensor.float64
    assert b.device.type == "meta"
    assert a.sum(0).shape == (1,)
    assert a.exp_() is a


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    before = shmtensor.get_num_threads()
    x = np.random.default_rng(2).normal(size=(300, 1001)).astype(np.float32)
    a = shmtensor.from_numpy(x)
    try:
        shmtensor.set_num_threads(threads)
        assert shmtensor.get_num_threads() == threads
        np.testing.assert_array_equal(array(a + a.t().contiguous().t()), x + x)
        np.testing.assert_array_equal(array(a.t().clone()), x.T)
        np.testing.assert_allclose(array(a.sum(0)), x.sum(0, dtype=np.float64), atol=1e-4)
        np.testing.assert_array_equal(array(a.argmax(1)), x.argmax(1))
        assert a.sum().item() == a.sum().item()
        assert a.sum().item() == pytest.approx(float(x.sum(dtype=np.float64)), rel=1e-5)
    finally:
        shmtensor.set_num_threads(before)


def test_many_threads_may_calculate_at_once() -> None:
    x = np.random.default_rng(3).normal(size=200_000)
    a = shmtensor.from_numpy(x)
    want = float(x.sum())
    sums: list[float] = []

    def work() -> None:
        for _ in range(5):
            sums.append((a + 0).sum().item())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(sums) == 20
    np.testing.assert_allclose(sums, want, rtol=1e-12)


def _sum_in_child(connection: object) -> None:
    a = shmtensor.ones(400_000)
    connection.send((a + a).sum().item())  # type: ignore[attr-defined]


def test_parallel_operators_work_after_fork() -> None:
    before = shmtensor.get_num_threads()
    shmtensor.set_num_threads(2)
    try:
        a = shmtensor.ones(400_000)
        assert (a + a).sum().item() == 800_000
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        child = context.Process(target=_sum_in_child, args=(theirs,))
        child.start()
        assert ours.poll(20)
        assert ours.recv() == 800_000
        child.join(20)
        assert child.exitcode == 0
        theirs.close()
        ours.close()
    finally:
        shmtensor.set_num_threads(before)


def test_thread_counts_are_checked() -> None:
    with pytest.raises(RuntimeError, match="positive integer"):
        shmtensor.set_num_threads(0)


def test_empty_tensors_pass_through() -> None:
    a = shmtensor.zeros(0, 3)
    assert (a + 1).shape == (0, 3)
    assert (a == a).shape == (0, 3)
    assert a.exp_().shape == (0, 3)
    assert a.t().clone().shape == (3, 0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5000, 3), (3,)),
        ((5000, 3), (5000, 1)),
        ((40, 7, 3, 3), (1, 7, 1, 1)),
        ((300, 33, 2), (33, 1)),
        ((2, 600, 15), (2, 1, 15)),
    ],
)
def test_short_innermost_dims(left: tuple[int, ...], right: tuple[int, ...], threads: int) -> None:
    before = shmtensor.get_num_threads()
    shmtensor.set_num_threads(threads)
    try:
        a = np.random.default_rng(2).integers(-50, 50, left).astype(np.float32)
        b = np.random.default_rng(3).integers(-50, 50, right).astype(np.float32)
        x, y = shmtensor.from_numpy(a), shmtensor.from_numpy(b)
        np.testing.assert_array_equal((x + y).numpy(), a + b)
        np.testing.assert_array_equal((x < y).numpy(), a < b)
        np.testing.assert_array_equal((x.double() * y).numpy(), a.astype(np.float64) * b)
        np.testing.assert_array_equal(shmtensor.where(x > 0, x, y).numpy(), np.where(a > 0, a, b))
        out = shmtensor.empty(left[::-1]).permute(*range(len(left) - 1, -1, -1))
        np.testing.assert_array_equal(shmtensor.sub(x, y, out=out).numpy(), a - b)
        inplace = x.clone()
        inplace -= y
        np.testing.assert_array_equal(inplace.numpy(), a - b)
        compared = x.clone()
        compared.lt_(y)
        np.testing.assert_array_equal(compared.numpy(), (a < b).astype(np.float32))
    finally:
        shmtensor.set_num_threads(before)
