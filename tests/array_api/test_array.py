"""The arrays that the namespace makes: tensors with the standard's operators."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as T
import shmtensor.multiprocessing as mp
from shmtensor import array_api as xp

Array = type(xp.ones(1))


# --- which values are arrays -------------------------------------------------------------------


@pytest.mark.check
def test_what_the_namespace_makes_are_arrays() -> None:
    made = [
        xp.asarray([1, 2]),
        xp.asarray(T.ones(2)),
        xp.from_dlpack(np.ones(2)),
        xp.arange(3),
        xp.arange(3, dtype=xp.uint64),
        xp.linspace(0, 1, 3),
        xp.empty(2),
        xp.zeros(2),
        xp.ones(2),
        xp.full(2, 1),
        xp.eye(2),
        xp.fft.fftfreq(3),
        xp.fft.rfftfreq(3),
    ]
    assert [type(x) for x in made] == [Array] * len(made)
    assert issubclass(Array, T.Tensor)
    assert xp.asarray(made[0]) is made[0]


def test_functions_give_what_they_are_given() -> None:
    for x in (T.tensor([3.0, 1.0, 2.0]), xp.asarray([3.0, 1.0, 2.0])):
        results: list[Any] = [
            xp.zeros_like(x),
            xp.add(x, 1),
            xp.add(1, x),
            xp.sum(x),
            xp.cumulative_sum(x, include_initial=True),
            xp.sort(x),
            xp.argmax(x),
            xp.searchsorted(xp.sort(x), x),
            xp.concat([x, x]),
            xp.reshape(x, (3, 1)),
            xp.fft.fft(x),
            xp.linalg.vector_norm(x),
            *xp.unique_all(x),
            *xp.nonzero(x),
            *xp.meshgrid(x, x),
            *xp.linalg.svd(xp.linalg.outer(x, x)),
            *xp.broadcast_arrays(x, x),
        ]
        assert [type(r) for r in results] == [type(x)] * len(results)
    assert type(T.ones(3) + xp.ones(3)) is type(xp.ones(3) + T.ones(3)) is Array


def test_arrays_share_memory_with_their_tensor() -> None:
    t = T.zeros(3, shared=True)
    x = xp.asarray(t)
    x += 1
    assert t.tolist() == [1.0, 1.0, 1.0]
    assert x.is_shared()
    assert type(x.as_subclass(T.Tensor)) is T.Tensor


def test_arrays_are_sent_copied_and_pickled_as_arrays() -> None:
    x = xp.asarray([1.0, 2.0])
    queue = mp.get_context("fork").SimpleQueue()
    queue.put(x)
    for other in (queue.get(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Array
        assert other.tolist() == [1.0, 2.0]
    assert repr(x) == "Array([1., 2.])"
    assert len({x, x}) == 1


def test_gradients_go_through_operators() -> None:
    t = T.tensor([1.0, 2.0], requires_grad=True)
    x = xp.asarray(t)
    xp.sum(x * x / 2 + x**3 - x[::-1]).backward()
    assert t.grad is not None
    assert t.grad.tolist() == [1 + 3 - 1, 2 + 12 - 1]


# --- operators ---------------------------------------------------------------------------------

OPERATORS = {
    operator.add: xp.add,
    operator.sub: xp.subtract,
    operator.mul: xp.multiply,
    operator.truediv: xp.divide,
    operator.floordiv: xp.floor_divide,
    operator.mod: xp.remainder,
    operator.pow: xp.pow,
    operator.lt: xp.less,
    operator.le: xp.less_equal,
    operator.gt: xp.greater,
    operator.ge: xp.greater_equal,
    operator.eq: xp.equal,
    operator.ne: xp.not_equal,
}
BITS = {
    operator.and_: xp.bitwise_and,
    operator.or_: xp.bitwise_or,
    operator.xor: xp.bitwise_xor,
    operator.lshift: xp.bitwise_left_shift,
    operator.rshift: xp.bitwise_right_shift,
}


@pytest.mark.parametrize("sign", [*OPERATORS, *BITS])
@pytest.mark.parametrize("dtypes", [("uint16", "int64"), ("uint32", "uint64"), ("int8", "int8")])
def test_operators_are_the_functions(sign: Any, dtypes: tuple[str, str]) -> None:
    function: Any = {**OPERATORS, **BITS}[sign]
    a, b = (getattr(xp, name) for name in dtypes)
    x, y = xp.asarray([1, 5, 7], dtype=a), xp.asarray(3, dtype=b)
    for left, right in ((x, y), (y, x), (x, 3), (3, x)):
        got, expected = sign(left, right), function(left, right)
        assert got.dtype is expected.dtype
        assert got.tolist() == expected.tolist()
        assert type(got) is Array
    assert sign(x, T.tensor([1, 2, 3], dtype=b)).dtype is function(x, y).dtype


@pytest.mark.check
def test_operators_of_one_array() -> None:
    x = xp.asarray([1, 2], dtype=xp.uint16)
    assert (-x).tolist() == [65535, 65534]
    assert (~x).tolist() == [65534, 65533]
    assert abs(x).tolist() == (+x).tolist() == [1, 2]
    assert (
        xp.asarray([[1, 2]], dtype=xp.uint32) @ xp.asarray([3, 4], dtype=xp.uint16)
    ).item() == 11
    for other in ("1", None, [1]):
        with pytest.raises(TypeError):
            x + other  # type: ignore[operator]
        assert (x == other) is False


def test_operators_in_place_keep_memory_and_dtype() -> None:
    for dtype in (xp.uint32, xp.int64, xp.float32):
        x = xp.asarray([7, 8, 9], dtype=dtype)
        address = x.data_ptr()
        x += xp.asarray(1, dtype=dtype)
        x *= 2
        x -= xp.asarray([1, 1, 1], dtype=xp.uint8 if dtype is not xp.float32 else dtype)
        x //= 2
        x %= 5
        x **= 2
        assert x.tolist() == [4, 9, 16]
        assert (x.data_ptr(), x.dtype) == (address, dtype)
    x = xp.asarray([1])
    with pytest.raises(TypeError, match=r"result is torch\.float32, the array is torch\.int64"):
        x /= 2
    with pytest.raises(TypeError):
        x += xp.asarray(1.0)
    with pytest.raises(RuntimeError):
        x += xp.asarray([1, 2, 3])
    y = xp.eye(2)
    y @= 2 * xp.eye(2)
    assert y.tolist() == [[2, 0], [0, 2]]


def test_infinite_quotients_are_the_standards() -> None:
    x = xp.asarray([float("inf"), -3.0])
    assert (x // 2).tolist() == [float("inf"), -2.0]
    x //= 2
    assert x.tolist() == [float("inf"), -2.0]


# --- indices -----------------------------------------------------------------------------------

KEYS = [
    slice(None, None, -1),
    slice(None, None, -2),
    slice(1, None, -1),
    slice(-1, 0, -2),
    slice(0, 2, -1),
    slice(10, -10, -3),
    slice(1, None),
    0,
    -1,
    None,
    ...,
]


def test_negative_steps_give_what_numpy_gives() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    x = xp.asarray(array)
    for key in itertools.chain(KEYS, itertools.product(KEYS, repeat=2)):
        if isinstance(key, tuple) and key.count(...) > 1:
            continue
        assert x[key].tolist() == array[key].tolist(), key
        changed, expected = xp.asarray(array, copy=True), array.copy()
        value = np.arange(100, 100 + array[key].size).reshape(array[key].shape)
        changed[key] = xp.asarray(value)
        expected[key] = value
        assert changed.tolist() == expected.tolist(), key
        changed[key] = 7
        expected[key] = 7
        assert changed.tolist() == expected.tolist(), key
    last = np.array([1, 2, 3, 4])
    changed, expected = xp.asarray(array, copy=True), array.copy()
    changed[..., ::-1], expected[..., ::-1] = xp.asarray(last), last
    assert changed.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="step"):
        x[::-1, xp.asarray([0, 1])]
    with pytest.raises(ValueError, match="step"):
        x[::-1, True]
    with pytest.raises(IndexError):
        x[::-1, 0, 0, 0]


def test_masks_without_elements_select_nothing() -> None:
    array = np.ones((0, 1, 3))
    for shape in ((0,), (0, 0), (0, 1), (0, 1, 0)):
        expected = array[np.zeros(shape, dtype=bool)].shape
        got = xp.asarray(array)[xp.zeros(shape, dtype=xp.bool)]
        assert (got.shape, type(got), got.dtype) == (expected, Array, xp.float64)
    with pytest.raises(IndexError):
        xp.ones((2, 3))[xp.zeros((1, 0), dtype=xp.bool)]


def test_numpys_scalars_and_arrays_are_operands_as_for_tensors() -> None:
    x = xp.asarray([1, 2])
    assert (x + np.int64(1)).tolist() == (np.int64(1) + x).tolist() == [2, 3]
    assert (np.float64(6) / xp.asarray([1.0, 2.0])).tolist() == [6.0, 3.0]
    assert (x == np.array([1, 3])).tolist() == [True, False]
    assert (x * np.array([2, 3])).tolist() == [2, 6]
    assert type(np.int64(2) * x) is type(x - np.int64(2)) is Array
    x += np.int64(1)
    assert x.tolist() == [2, 3]
