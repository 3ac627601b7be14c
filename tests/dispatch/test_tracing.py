"""Seeing calls: the trace, dispatch modes, key guards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import shmtensor as st
from shmtensor import _C
from shmtensor._boundary import dispatch
from shmtensor.utils._python_dispatch import TorchDispatchMode

PROGRAM = """
import shmtensor as st
x = st.ones(2, requires_grad=True)
y = x * 2
"""


class Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.check
def test_trace_variable_prints_calls_and_redispatches_indented() -> None:
    environment = {**os.environ, "SHMTENSOR_SHOW_DISPATCH_TRACE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    lines = [line for line in run.stderr.splitlines() if "mul.Tensor" in line]
    assert lines[0] == "[call] op=[shmtensor::mul.Tensor], key=[Autograd]"
    assert lines[-1].strip() == "[redispatch] op=[shmtensor::mul.Tensor], key=[CPU]"
    assert lines[-1].startswith(" ")


def test_trace_without_variable_prints_nothing() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "SHMTENSOR_SHOW_DISPATCH_TRACE"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stderr == ""


def test_trace_switched_at_run_time(capfd: pytest.CaptureFixture[str]) -> None:
    x = st.ones(1)
    assert dispatch.set_dispatch_trace(True) is False
    try:
        _ = x + x
    finally:
        assert dispatch.set_dispatch_trace(False) is True
    assert "[call] op=[shmtensor::add.Tensor], key=[CPU]" in capfd.readouterr().err


def test_mode_sees_operators_methods_and_functions() -> None:
    x = st.ones(2, 2)
    with Recorder() as mode:
        _ = x + x
        x.add_(1)
        _ = st.exp(x)
        _ = x[0]
    assert mode.seen[:3] == ["aten.add.Tensor", "aten.add_.Tensor", "aten.exp.default"]
    assert len(mode.seen) >= 4
    before = len(mode.seen)
    _ = x + x
    assert len(mode.seen) == before


def test_mode_results_are_recorded() -> None:
    x = st.ones(2, requires_grad=True)
    with Recorder():
        y = (x * 3).sum()
        y.backward()
    assert x.grad.tolist() == [3, 3]


def test_mode_may_answer_itself() -> None:
    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            return result.detach().zero_() if str(func) == "aten.add.Tensor" else result

    with Zeros():
        y = st.ones(2) + st.ones(2)
    assert y.tolist() == [0, 0]


def test_modes_nest_and_inner_calls_reach_the_outer() -> None:
    with Recorder() as outer, Recorder() as inner:
        _ = st.ones(1) + 1
    assert inner.seen.count("aten.add.Tensor") == 1
    assert outer.seen.count("aten.add.Tensor") == 1


@pytest.mark.check
def test_mode_gets_keyword_only_arguments_by_keyword() -> None:
    seen = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append((len(args), dict(kwargs), types))
            return func(*args, **kwargs)

    with Look():
        st.add(st.ones(1), st.ones(1), alpha=4)
    assert (2, {"alpha": 4}, ()) in seen  # no class among them answers


def test_mode_exception_comes_through_and_mode_ends() -> None:
    class Fails(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"), Fails():
        _ = st.ones(1) + 1
    assert _C._dispatch_mode_depth() == 0
    assert (st.ones(1) + 1).item() == 2


def test_mode_belongs_to_its_thread() -> None:
    x = st.ones(1)
    with Recorder() as mode:
        thread = threading.Thread(target=lambda: x + x)
        thread.start()
        thread.join()
        assert mode.seen == []


def test_mode_popped_without_push_raises() -> None:
    with pytest.raises(RuntimeError, match="no dispatch mode is active"):
        _C._pop_dispatch_mode()


def test_excluded_key_is_passed_by() -> None:
    x = st.ones(1, requires_grad=True)
    was = _C._change_keys(False, "Autograd", True)
    try:
        assert not (x * 2).requires_grad
    finally:
        _C._change_keys(False, "Autograd", was)
    assert (x * 2).requires_grad


def test_tensor_keys() -> None:
    assert _C._dispatch_keys(st.ones(1)) == ["ADInplaceOrView", "CPU"]
    assert _C._dispatch_keys(st.ones(1, requires_grad=True))[0] == "Autograd"
    assert "Meta" in _C._dispatch_keys(st.empty(1, device="meta"))


def test_operator_objects() -> None:
    op = st.ops.aten.add.Tensor
    assert op is st.ops.aten.add.Tensor
    assert op.name() == "aten::add.Tensor"
    assert str(op) == "aten.add.Tensor"
    assert op(st.ones(1), st.ones(1)).item() == 2
    assert "Tensor" in st.ops.aten.add.overloads()
    assert op.has_kernel_for_dispatch_key("CPU")
    with pytest.raises(AttributeError, match="has no overload name 'nothing'"):
        _ = st.ops.aten.add.nothing
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = st.ops.aten.nothing
