"""Operators that fail after they have allocated a result release it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor.utils._python_dispatch import TorchDispatchMode

F = st.nn.functional
NAN = float("nan")


def _whole(*values: int) -> st.Tensor:
    return st.tensor(values)


def _singular() -> st.Tensor:
    return st.zeros(2, 3, 3)


CALLS: dict[str, Callable[[], Any]] = {
    "bincount": lambda: st.bincount(_whole(3, -1)),
    "cholesky": lambda: st.linalg.cholesky(-st.eye(3).expand(2, 3, 3)),
    "cross_entropy": lambda: F.cross_entropy(st.zeros(2, 3), _whole(0, 7)),
    "div": lambda: st.div(_whole(1, 2), _whole(0, 1), rounding_mode="floor"),
    "embedding": lambda: F.embedding(_whole(1, 9), st.zeros(3, 2)),
    "floor_divide": lambda: _whole(1, 2) // _whole(0, 1),
    "gather": lambda: st.gather(st.zeros(2, 2), 1, st.tensor([[5], [0]])),
    "index": lambda: st.zeros(3)[_whole(1, 8)],
    "index_add": lambda: st.index_add(st.zeros(3), 0, _whole(0, 4), st.ones(2)),
    "index_copy": lambda: st.index_copy(st.zeros(3), 0, _whole(0, 4), st.ones(2)),
    "index_fill": lambda: st.index_fill(st.zeros(3), 0, _whole(0, 4), 1.0),
    "index_put": lambda: st.index_put(st.zeros(3), (_whole(0, 4),), st.ones(2)),
    "index_select": lambda: st.index_select(st.zeros(3), 0, _whole(0, 4)),
    "inv": lambda: st.linalg.inv(_singular()),
    "solve": lambda: st.linalg.solve(_singular(), st.ones(3)),
    "max_unpool2d": lambda: F.max_unpool2d(st.zeros(1, 2, 2), st.full((1, 2, 2), 99), 2),
    "multinomial": lambda: st.multinomial(st.tensor([0.5, -1.0]), 1),
    "nll_loss": lambda: F.nll_loss(st.zeros(2, 3, 2), st.full((2, 2), 5)),
    "one_hot": lambda: F.one_hot(_whole(0, 4), 2),
    "pow": lambda: _whole(2, 3) ** -1,
    "put": lambda: st.put(st.zeros(3), _whole(9), st.ones(1)),
    "randint": lambda: st.randint(5, 2, (3,)),
    "remainder": lambda: _whole(2, 3) % _whole(0, 1),
    "repeat_interleave": lambda: st.repeat_interleave(_whole(1, -1)),
    "scatter": lambda: st.scatter(st.zeros(3), 0, _whole(7), 1.0),
    "scatter_reduce": lambda: st.scatter_reduce(st.zeros(3), 0, _whole(7), st.ones(1), "sum"),
    "svd": lambda: st.linalg.svd(st.full((3, 3), NAN)),
    "take": lambda: st.take(st.zeros(3), _whole(1, 9)),
}


def _blocks() -> int:
    gc.collect()
    stats = st.memory.memory_stats()
    return int(stats["n_allocations"] - stats["n_frees"])


def _fail(call: Callable[[], Any]) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        call()


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_failed_operator_leaves_nothing(name: str) -> None:
    """The count of blocks is what it was."""
    _fail(CALLS[name])
    before = _blocks()
    for _ in range(3):
        _fail(CALLS[name])
    assert _blocks() == before


class _Boxed(TorchDispatchMode):
    """Every operator through boxed values."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class _Wrong(TorchDispatchMode):
    """The second result of every sort is no tensor."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        return (made[0], "text") if isinstance(made, tuple) else made


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_failed_operator_leaves_nothing_when_it_is_boxed(name: str) -> None:
    """A dispatch mode has every call made through values."""
    with _Boxed():
        _fail(CALLS[name])
        before = _blocks()
        for _ in range(3):
            _fail(CALLS[name])
        assert _blocks() == before


@pytest.mark.check
def test_results_in_front_of_a_wrong_one_are_released() -> None:
    """What a Python kernel has returned in front of a value of another type goes with it."""
    x = st.rand(5)
    before = _blocks()
    for _ in range(3):
        with _Wrong(), pytest.raises((RuntimeError, TypeError)):
            st.ops.aten.sort.default(x)
    assert _blocks() == before


def test_a_failed_call_on_a_conj_argument_leaves_nothing() -> None:
    """Its resolved copy and the result go."""
    x = st.rand(3, dtype=st.complex64).conj()
    _fail(lambda: st.index_select(x, 0, _whole(0, 4)))
    before = _blocks()
    for _ in range(3):
        _fail(lambda: st.index_select(x, 0, _whole(0, 4)))
    assert _blocks() == before
