"""apply_, map_ and map2_: a Python function for every element."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as T


class Half:
    def __float__(self) -> float:
        return 0.5


@pytest.mark.check
def test_the_function_gets_the_elements_in_order() -> None:
    a, b = T.tensor([[1.0, 2.0], [3.0, 4.0]]), T.tensor([10.0, 20.0])
    assert a.clone().apply_(lambda x: -x).tolist() == [[-1, -2], [-3, -4]]
    assert a.clone().map_(b, lambda x, y: x + y).tolist() == [[11, 22], [13, 24]]
    assert a.clone().map2_(b, a, lambda x, y, z: y - z).tolist() == [[9, 18], [7, 16]]


@pytest.mark.parametrize(
    ("dtype", "value", "element"),
    [
        (T.float32, True, 1.0),
        (T.float32, Half(), 0.5),
        (T.float32, T.tensor(3), 3.0),
        (T.float16, np.float32(0.25), 0.25),
        (T.int64, 2.5, 2),
        (T.int64, np.int32(7), 7),
        (T.bool, 2, True),
        (T.complex64, 1j, 1j),
    ],
)
def test_what_is_a_number_becomes_an_element(dtype: Any, value: Any, element: Any) -> None:
    assert T.ones(2, dtype=dtype).apply_(lambda x: value).tolist() == [element] * 2


@pytest.mark.parametrize("value", ["1", None, [1], b"1"])
@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (T.float32, "must be real number, not {}"),
        (T.complex64, "must be real number, not {}"),
        (T.int64, "'{}' object cannot be interpreted as an integer"),
        (T.bool, "'{}' object cannot be interpreted as an integer"),
    ],
)
def test_what_is_no_number_is_refused(dtype: Any, value: Any, text: str) -> None:
    one = T.ones(2, dtype=dtype)
    expected = re.escape(text.format(type(value).__name__))
    with pytest.raises(TypeError, match=expected):
        one.apply_(lambda x: value)
    with pytest.raises(TypeError, match=expected):
        one.map_(one, lambda x, y: value)
    with pytest.raises(TypeError, match=expected):
        one.map2_(one, one, lambda x, y, z: value)
    assert one.tolist() == T.ones(2, dtype=dtype).tolist()


ONE, LEAF = T.ones(2), T.ones(2, requires_grad=True)

REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: LEAF.apply_(abs),
        RuntimeError,
        "Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead.",
    ),
    (lambda: ONE.map_(LEAF, max), RuntimeError, "Can't call map_() on Variable that requires grad"),
    (lambda: ONE.map2_(ONE, LEAF, max), RuntimeError, "Can't call map2_() on Variable"),
    (lambda: ONE.map_(3, max), TypeError, "map_(): argument 'other' (position 1) must be Tensor"),
    (lambda: ONE.map2_(ONE, 3, max), TypeError, "map2_(): argument 'y' (position 2) must be Tens"),
    (lambda: ONE.map_(ONE.double(), max), TypeError, "DoubleTensor)"),
    (lambda: ONE.map2_(ONE.long(), ONE, max), TypeError, "for argument 'x' (got"),
    (lambda: ONE.apply_(3), TypeError, "'int' object is not callable"),
    (lambda: ONE.map_(T.ones(3), max), RuntimeError, "The expanded size of the tensor (2) must"),
    (lambda: ONE.apply_(lambda x: 1 / (x - 1)), ZeroDivisionError, "division"),
]


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED, ids=[r[2][:40] for r in REFUSED])
def test_wrong_calls_are_refused(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()
    with T.no_grad(), pytest.raises(kind, match=re.escape(text)):
        call()
