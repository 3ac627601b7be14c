"""A tensor's Python object whose program let go of it while C still holds the tensor."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor import nn


class _Tagged(T.Tensor):
    pass


class _Ending(T.Tensor):
    ended: list[Any]

    def __del__(self) -> None:
        self.ended.append(tuple(self.shape))


class _Witness:
    """Says when the attributes that hold it go."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append("gone")


def _as_gradient(x: Any) -> Callable[[], Any]:
    leaf = T.ones(2, requires_grad=True)
    leaf.grad = x
    return lambda: leaf.grad


def _as_leaf_of_a_graph(x: Any) -> Callable[[], Any]:
    y = x.requires_grad_() * 2
    return lambda: y.grad_fn.next_functions[0][0].variable


def _as_base(x: Any) -> Callable[[], Any]:
    view = x.detach_()[0:1]
    return lambda: view._base


def _as_saved(x: Any) -> Callable[[], Any]:
    class Save(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a)
            return b * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None, grad

    y = Save.apply(x, T.ones(2, requires_grad=True))
    return lambda: y.grad_fn.saved_tensors[0]


_HOLDERS = [_as_gradient, _as_leaf_of_a_graph, _as_base, _as_saved]


@pytest.mark.parametrize("hold", _HOLDERS)
def test_attributes_come_back(hold: Callable[[Any], Callable[[], Any]]) -> None:
    x = T.ones(2)
    x.note, address = {"a": 1}, id(x)
    again = hold(x)
    del x
    gc.collect()
    for _ in range(3):
        assert again().note == {"a": 1}
        assert id(again()) == address


@pytest.mark.parametrize("hold", _HOLDERS)
def test_class_comes_back(hold: Callable[[Any], Callable[[], Any]]) -> None:
    x = _Tagged([1.0, 1.0])
    again = hold(x)
    del x
    gc.collect()
    assert type(again()) is _Tagged
    assert again().sum() == 2


@pytest.mark.check
def test_parameter_comes_back_as_one() -> None:
    layer = nn.Linear(2, 1)
    layer.weight.kind = "w"  # type: ignore[attr-defined]
    y = layer(T.ones(1, 2))
    del layer
    leaves = [f.variable for f, _ in y.grad_fn.next_functions if hasattr(f, "variable")]
    assert all(type(leaf) is nn.Parameter for leaf in leaves)


def test_weak_reference_lives_as_long_as_the_tensor() -> None:
    leaf, grad = T.ones(2, requires_grad=True), T.ones(2)
    leaf.grad = grad
    weak, calls = weakref.ref(grad, lambda _: calls.append(1)), []
    del grad
    assert weak() is leaf.grad
    assert calls == []
    leaf.grad = None
    assert weak() is None
    assert calls == [1]


def test_object_that_a_weak_reference_gave_outlives_the_other_holder() -> None:
    leaf, grad = T.ones(2, requires_grad=True), T.full((2,), 3.0)
    leaf.grad = grad
    weak = weakref.ref(grad)
    del grad
    held = weak()
    leaf.grad = None
    gc.collect()
    assert held is not None
    assert held.tolist() == [3.0, 3.0]
    del held
    assert weak() is None


def test_attributes_end_with_the_last_holder() -> None:
    log: list[str] = []
    leaf, grad = T.ones(2, requires_grad=True), T.ones(2)
    grad.witness = _Witness(log)
    leaf.grad = grad
    del grad
    gc.collect()
    assert log == []
    del leaf
    assert log == ["gone"]


@pytest.mark.check
def test_cycle_through_attributes_is_kept_while_held_and_collected_after() -> None:
    log: list[str] = []
    leaf, grad = T.ones(2, requires_grad=True), T.ones(2)
    grad.me, grad.witness = grad, _Witness(log)
    leaf.grad = grad
    del grad
    gc.collect()
    assert log == []
    assert leaf.grad is not None
    assert leaf.grad.me is leaf.grad
    leaf.grad = None
    gc.collect()
    assert log == ["gone"]


def test_finalizer_of_a_class_may_use_the_tensor() -> None:
    x = T.ones(2, 3).as_subclass(_Ending)
    x.ended = _Ending.ended = []
    leaf = T.ones(2, 3, requires_grad=True)
    leaf.grad = x
    del x
    leaf.grad = None
    assert (2, 3) in _Ending.ended


def test_bare_tensors_leave_nothing_behind() -> None:
    leaf = T.ones(2, requires_grad=True)
    leaf.grad = T.ones(2)
    assert type(leaf.grad) is T.Tensor
    assert leaf.grad.__dict__ == {}


def test_holders_that_end_on_other_threads() -> None:
    log: list[str] = []

    def work() -> None:
        for _ in range(200):
            x = T.ones(4, requires_grad=True)
            x.witness = _Witness(log)
            y = (x * x).sum()
            del x
            y.backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log) == 800


def test_gradient_that_is_kept_is_not_written_over_by_the_next_backward_pass() -> None:
    leaf, grad = T.ones(2, requires_grad=True), T.ones(2)
    grad.note = 1
    leaf.grad = grad
    del grad
    (leaf * 3).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [4.0, 4.0]
    assert leaf.grad.note == 1
