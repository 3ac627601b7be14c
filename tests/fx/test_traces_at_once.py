"""Traces in several threads, inside one another, and ended by errors: nothing stays replaced.

What traces record is in test_tracing.py.
"""

from __future__ import annotations

import builtins
import math
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor import fx, nn
from shmtensor.fx import _symbolic_trace, _wrapping


@fx.wrap
def recorded(x: Any) -> Any:
    return x + 1


fx.wrap("len")

_PLAIN = nn.Module.__call__, nn.Module.__getattr__, recorded, math.sqrt


@pytest.fixture(autouse=True)
def nothing_stays_replaced() -> Any:
    yield
    assert (nn.Module.__call__, nn.Module.__getattr__, recorded, math.sqrt) == _PLAIN
    assert "len" not in globals()
    assert not _wrapping._active
    assert not fx._symbolic_trace.is_fx_tracing()
    assert not _symbolic_trace._is_fx_tracing_flag


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return recorded(self.linear(x))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Any) -> Any:
        return self.inner(x) * math.sqrt(4)


def run(*functions: Callable[[], None]) -> None:
    """Run functions in threads; their errors are raised."""
    errors: list[BaseException] = []

    def kept(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=kept, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.check
def test_the_trace_that_begins_first_may_end_first() -> None:
    first_runs, second_runs, first_is_done = (threading.Event() for _ in range(3))

    def first(x: Any) -> Any:
        first_runs.set()
        assert second_runs.wait(30)
        return recorded(x)

    def second(x: Any) -> Any:
        second_runs.set()
        assert first_is_done.wait(30)
        return recorded(x) + len(x) + math.sqrt(x)

    def trace_first() -> None:
        assert "recorded(x)" in fx.symbolic_trace(first).code
        first_is_done.set()

    def trace_second() -> None:
        assert first_runs.wait(30)
        code = fx.symbolic_trace(second).code
        assert "recorded(x)" in code
        assert "len(x)" in code
        assert "math_sqrt(x)" in code

    run(trace_first, trace_second)


def test_threads_that_trace_do_not_mix() -> None:
    expected = fx.symbolic_trace(Outer()).code

    def trace() -> None:
        for _ in range(5):
            module = Outer()
            traced = fx.symbolic_trace(module)
            assert traced.code == expected
            assert T.equal(traced(T.ones(2)), module(T.ones(2)))

    run(*[trace] * 3)


@pytest.mark.check
def test_a_trace_inside_another_asks_its_own_tracer() -> None:
    module, found = Outer(), []

    def program(x: Any) -> Any:
        found.append(fx.symbolic_trace(module).code)
        return recorded(x)

    assert "recorded(x)" in fx.symbolic_trace(program).code
    assert found == [fx.symbolic_trace(module).code]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_error_ends_a_trace_and_all_around_it(kind: type[BaseException]) -> None:
    def inner(x: Any) -> Any:
        raise kind

    def program(x: Any) -> Any:
        fx.symbolic_trace(inner)

    with pytest.raises(kind):
        fx.symbolic_trace(program)


def test_an_error_inside_leaves_the_trace_around_as_it_was() -> None:
    def inner(x: Any) -> Any:
        return 1 if x else 2

    def program(x: Any) -> Any:
        with pytest.raises(fx.proxy.TraceError):
            fx.symbolic_trace(inner)
        return recorded(x)

    assert "recorded(x)" in fx.symbolic_trace(program).code


def interrupted_after(count: int) -> bool:
    """Trace, and raise KeyboardInterrupt as a call of this package begins, where signals' handlers
    run; False if there are not so many calls."""
    seen = 0

    def at_call(frame: Any, event: str, arg: Any) -> Any:
        nonlocal seen
        is_generator = frame.f_code.co_name == "<genexpr>"  # it is also "called" when it is freed
        if frame.f_code.co_filename.startswith(fx.__path__[0]) and not is_generator:
            seen += 1
            if seen == count:
                sys.settrace(None)
                raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        fx.Tracer().trace(lambda x: recorded(x) + math.sqrt(x))
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_signal_in_any_call_leaves_nothing_replaced() -> None:
    count = 1
    while interrupted_after(count):
        at = (nn.Module.__call__, nn.Module.__getattr__, recorded, math.sqrt)
        assert at == _PLAIN, count
        assert "len" not in globals(), count
        assert not _symbolic_trace.is_fx_tracing(), count
        count += 1
    assert count > 50


def test_code_that_records_functions_is_forgotten_with_its_module() -> None:
    before = len(_wrapping._wrapped_functions)
    traced = fx.symbolic_trace(lambda x: recorded(x) + len(x))
    for _ in range(3):
        traced.recompile()
    assert len(_wrapping._wrapped_functions) == before
    again = fx.symbolic_trace(traced)
    assert again.code == traced.code
    assert "len(x)" in again.code
    assert builtins.len is len


def test_threads_may_write_the_code_of_one_module() -> None:
    traced = fx.symbolic_trace(lambda x, y=float("inf"): (recorded(x) + len(x), {"k": y}))
    code = traced.code

    def write() -> None:
        for _ in range(20):
            assert traced.graph.python_code("self").src == code
            assert pickle.loads(pickle.dumps(traced)).code == code

    run(*[write] * 3)
    assert [repr(node) for node in traced.graph.nodes] == [n.name for n in traced.graph.nodes]


def test_code_that_cannot_be_written_leaves_names_as_they_were() -> None:
    class Fails(fx.graph.CodeGen):
        def generate_output(self, output_args: Any) -> str:
            raise KeyError(repr(output_args))

    graph = fx.Graph()
    node = graph.placeholder("len")
    graph.output(node)
    graph.set_codegen(Fails())
    with pytest.raises(KeyError):
        graph.python_code("self")
    node.name = "other"
    assert repr(node) == "other"


class Holds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.traced = fx.symbolic_trace(lambda x: len(x) + 1)

    def forward(self, x: Any) -> Any:
        return self.traced(x) * 2


def test_functions_are_recorded_in_traced_modules_inside_others() -> None:
    assert "len(x)" in fx.symbolic_trace(Holds()).code
