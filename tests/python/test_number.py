"""The number protocol: operators with numbers and tensors on either side, and conversions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as T

ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
INPLACE = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]

X = [1.0, 2.5, 4.0]
Y = [2.0, 2.5, 0.5]


@pytest.mark.parametrize("op", ARITHMETIC + COMPARE, ids=lambda f: f.__name__)
def test_operator_gives_numpys_values_on_either_side(op: Callable[[Any, Any], Any]) -> None:
    x, y = T.tensor(X), T.tensor(Y)
    nx, ny = np.array(X, dtype=np.float32), np.array(Y, dtype=np.float32)
    assert op(x, y).tolist() == op(nx, ny).tolist()
    assert op(x, 2.0).tolist() == op(nx, np.float32(2.0)).tolist()
    assert op(2, y).tolist() == pytest.approx(op(np.float32(2), ny).tolist())


@pytest.mark.parametrize("op", BITS, ids=lambda f: f.__name__)
def test_bit_operator_gives_numpys_values(op: Callable[[Any, Any], Any]) -> None:
    x, y = T.tensor([5, 6, 7]), T.tensor([1, 2, 3])
    assert op(x, y).tolist() == op(np.array([5, 6, 7]), np.array([1, 2, 3])).tolist()
    assert op(x, 1).tolist() == op(np.array([5, 6, 7]), 1).tolist()
    assert op(1, y).tolist() == op(1, np.array([1, 2, 3])).tolist()


@pytest.mark.parametrize("op", INPLACE, ids=lambda f: f.__name__)
def test_inplace_operator_keeps_the_object(op: Callable[[Any, Any], Any]) -> None:
    x = T.tensor(X)
    before = x
    x = op(x, T.tensor(Y))
    assert x is before
    x = op(x, 2.0)
    assert x is before


@pytest.mark.check
def test_unary_operators() -> None:
    x = T.tensor([-1.0, 2.0])
    assert (-x).tolist() == [1.0, -2.0]
    assert abs(x).tolist() == [1.0, 2.0]
    assert +x is x
    assert (~T.tensor([True, False])).tolist() == [False, True]
    assert (~T.tensor([0, 5])).tolist() == [-1, -6]


def test_matmul_takes_tensors_only() -> None:
    assert (T.ones(2, 3) @ T.ones(3, 2)).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    with pytest.raises(TypeError, match="unsupported operand"):
        T.ones(2) @ 2


@pytest.mark.parametrize(
    "op", [*ARITHMETIC, operator.lt, operator.matmul], ids=lambda f: f.__name__
)
def test_operand_of_another_type_is_a_type_error(op: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(TypeError):
        op(T.ones(2), "x")
    with pytest.raises(TypeError):
        op([1], T.ones(2))


def test_equality_with_another_type_is_false() -> None:
    assert (T.ones(2) == "x") is False
    assert (T.ones(2) != None) is True  # noqa: E711


def test_other_operand_may_take_over() -> None:
    class Other:
        def __radd__(self, left: Any) -> str:
            return "mine"

    assert T.ones(2) + Other() == "mine"


@pytest.mark.check
@pytest.mark.parametrize(
    ("dtype", "number", "result"),
    [
        (T.float32, 2.0, T.float32),
        (T.float16, 2.0, T.float16),
        (T.int64, 2.0, T.float32),
        (T.int8, 2, T.int8),
        (T.bool, 2, T.int64),
        (T.bool, True, T.bool),
        (T.float32, 1j, T.complex64),
        (T.float64, 2, T.float64),
    ],
    ids=repr,
)
def test_number_promotes_only_by_its_kind(dtype: T.dtype, number: Any, result: T.dtype) -> None:
    assert (T.ones(2, dtype=dtype) + number).dtype is result
    assert (number * T.ones(2, dtype=dtype)).dtype is result


def test_numpy_scalars_are_numbers() -> None:
    assert (T.ones(2) * np.float64(2)).dtype is T.float32
    assert (T.ones(2, dtype=T.int64) + np.int32(2)).dtype is T.int64


def test_conversions_of_one_element() -> None:
    assert int(T.tensor(3.9)) == 3
    assert float(T.tensor([[2]])) == 2.0
    assert complex(T.tensor(1j)) == 1j
    assert bool(T.tensor([0.0])) is False
    assert [10, 20][T.tensor(1)] == 20
    assert T.tensor(2).item() == 2
    assert isinstance(T.tensor(True).item(), bool)


CONVERSIONS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: bool(T.ones(2)),
        RuntimeError,
        "Boolean value of Tensor with more than one value is ambiguous",
    ),
    (lambda: bool(T.ones(0)), RuntimeError, "Boolean value of Tensor with no values is ambiguous"),
    (
        lambda: int(T.ones(2)),
        ValueError,
        "only one element tensors can be converted to Python scalars",
    ),
    (
        lambda: float(T.ones(2)),
        ValueError,
        "only one element tensors can be converted to Python scalars",
    ),
    (
        lambda: T.ones(2).item(),
        RuntimeError,
        "a Tensor with 2 elements cannot be converted to Scalar",
    ),
    (
        lambda: [1][T.tensor(0.0)],
        TypeError,
        "only integer tensors of a single element can be converted to an index",
    ),
    (
        lambda: T.ones((), device="meta").item(),
        RuntimeError,
        "Tensor.item() cannot be called on meta tensors",
    ),
    (lambda: "x" in T.ones(2), RuntimeError, "Tensor.__contains__ only supports Tensor or scalar"),
]


@pytest.mark.parametrize(
    ("call", "kind", "text"), CONVERSIONS, ids=[c[2][:40] for c in CONVERSIONS]
)
def test_conversion_that_cannot_be_says_why(
    call: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


def test_contains_looks_at_values() -> None:
    assert 2 in T.tensor([1, 2])
    assert 3 not in T.tensor([1, 2])


def test_hash_is_identity() -> None:
    a, b = T.ones(2), T.ones(2)
    assert hash(a) == id(a)
    assert len({a, b, a}) == 2


def test_large_operands_run_without_the_lock() -> None:
    a = T.ones(200, 200)
    assert (a + a).sum().item() == 80000.0
    a += a
    assert a.sum().item() == 80000.0
