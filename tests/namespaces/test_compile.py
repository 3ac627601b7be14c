"""`compile`: what it returns, and backends of a program's own."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

import shmtensor as T
from shmtensor import fx, nn
from shmtensor._torch._dynamo.exc import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    InvalidBackend,
    Unsupported,
)


def double(x: Any) -> Any:
    return x + x


def branches(x: Any) -> Any:
    return x + 1 if x.sum() > 0 else x - 1


class Keeping:
    """A backend that keeps what it gets, and runs the graph."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.inputs: list[Any] = []

    def __call__(self, module: Any, inputs: Any, **options: Any) -> Any:
        self.graphs.append(module)
        self.inputs.append([tuple(each.shape) for each in inputs])
        return module.forward


@pytest.mark.check
def test_functions_and_modules_run_as_they_are() -> None:
    compiled = T.compile(double)
    assert compiled(T.ones(1)) == 2 and compiled.__name__ == "double"
    assert compiled._torchdynamo_orig_callable is double  # type: ignore[attr-defined]
    assert not T._dynamo.is_dynamo_supported() and not T._dynamo.is_inductor_supported()
    assert T.compile(dynamic=True)(double)(2) == 4 and T.compile(double, disable=True) is double
    module = nn.Linear(2, 2)
    made: Any = T.compile(module, mode="max-autotune", fullgraph=True)
    assert type(made) is T._dynamo.OptimizedModule and made._orig_mod is module
    assert sorted(made.state_dict()) == ["_orig_mod.bias", "_orig_mod.weight"]
    x = T.rand(1, 2)
    assert T.equal(made(x), module(x)) and made.weight is module.weight
    made.note = 3
    assert module.note == 3 and not made.eval().training and not module.training
    assert T.equal(copy.deepcopy(made)(x), module(x))


def test_a_compiled_module_hands_on_its_attributes() -> None:
    module, other = nn.Linear(2, 2), nn.Linear(2, 2)
    made: Any = T.compile(module)
    module.eval()
    assert not made.training and made.train() is made and module.training
    made.training = False
    assert not module.training
    made.note = 3
    del made.note
    assert not hasattr(module, "note") and not hasattr(made, "note")
    made._orig_mod = other
    assert made._orig_mod is other and made.weight is other.weight
    assert [name for name, _ in made.named_modules()] == ["", "_orig_mod"]
    assert not hasattr(module, "_orig_mod")
    x = T.rand(1, 2)
    assert T.equal(made(x), module(x)), "what was compiled is called, as before"
    with pytest.raises(TypeError, match="cannot assign 'int' as child module '_orig_mod'"):
        made._orig_mod = 3


def test_what_cannot_be_meant_is_refused() -> None:
    for backend in ("nope", 3):
        with pytest.raises(InvalidBackend):
            T.compile(double, backend=backend)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Unrecognized mode=nope"):
        T.compile(double, mode="nope")
    with pytest.raises(RuntimeError, match="mode or options"):
        T.compile(double, mode="default", options={"a": 1})
    with pytest.raises(RuntimeError, match="function or a module"):
        T.compile(3)  # type: ignore[arg-type]


def test_a_backend_gets_one_graph_for_each_kind_of_arguments() -> None:
    backend = Keeping()

    def f(x: Any, *, y: Any, scale: Any = 2) -> Any:
        return {"a": (x + y) * scale, "n": scale, "size": x.shape[0]}

    compiled = T.compile(f, backend=backend)
    for _ in range(2):
        assert compiled(T.ones(2), y=T.ones(2))["a"].tolist() == [4.0, 4.0]
    assert backend.inputs == [[(2,), (2,)]] and isinstance(backend.graphs[0], fx.GraphModule)
    found = compiled(T.ones(3), y=T.ones(3), scale=5)
    assert found["a"].tolist() == [10.0] * 3 and found["n"] == 5 and found["size"] == 3
    assert len(backend.graphs) == 2
    x = T.ones(2, requires_grad=True)
    compiled(x, y=T.ones(2))["a"].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0] and len(backend.graphs) == 3

    def more() -> None:
        for i in range(20):
            compiled(T.ones(2), y=T.ones(2), scale=i + 10)

    with pytest.warns(UserWarning, match="compiled 8 times"):
        more()
    assert len(backend.graphs) == 8  # after that, it runs as it is


def test_the_result_of_a_backend_is_called() -> None:
    compiled = T.compile(double, backend=lambda module, inputs: lambda x: (x * 10,))
    assert compiled(T.ones(1)) == 10
    T._dynamo.register_backend(lambda module, inputs: lambda x: (x * 20,), "twenty")
    assert T.compile(double, backend="twenty")(T.ones(1)) == 20
    assert "twenty" in T.compiler.list_backends()
    seen: list[Any] = []
    backend = lambda module, inputs, level: seen.append(level) or module.forward  # noqa: E731
    assert T.compile(double, backend=backend, options={"level": 3})(T.ones(1)) == 2 and seen == [3]


def test_a_module_s_graph_reads_its_parameters() -> None:
    backend = Keeping()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.w = nn.Parameter(T.ones(2))

        def forward(self, x: Any) -> Any:
            return self.norm(x) * self.w + T.ones(2)

    module, plain = Model(), Model()
    compiled: Any = T.compile(module, backend=backend)
    x = T.rand(4, 2)
    assert T.equal(compiled(x), plain(x))
    assert T.equal(module.norm.running_mean, plain.norm.running_mean)  # no call more than that
    with T.no_grad():
        module.w.zero_()
    assert compiled(x).tolist() == [[1.0, 1.0]] * 4 and not hasattr(module, "_tensor_constant0")
    compiled.eval()
    assert T.equal(compiled(x), module(x))
    assert [graph.training for graph in backend.graphs] == [True, False]


def test_branches_that_depend_on_data_have_no_graph() -> None:
    backend = Keeping()
    compiled = T.compile(branches, backend=backend)
    with pytest.warns(UserWarning, match="branches has no graph of one piece"):
        assert compiled(T.ones(1)) == 2
    assert compiled(-T.ones(1)) == -2 and not backend.graphs  # it warns once
    with pytest.raises(Unsupported, match="boolean"):
        T.compile(branches, backend=backend, fullgraph=True)(T.ones(1))
    by_size = T.compile(lambda x: x if x.shape[0] > 2 else -x, backend=backend)
    assert by_size(T.ones(1)) == -1 and by_size(T.ones(3)).tolist() == [1.0] * 3


def test_errors_are_the_program_s_own_or_the_backend_s() -> None:
    def fails(module: Any, inputs: Any) -> Any:
        raise KeyError("x")

    for backend in (fails, lambda module, inputs: None):
        with pytest.raises(BackendCompilerFailed, match=r"backend='.*' raised"):
            T.compile(double, backend=backend)(T.ones(1))
    compiled = T.compile(lambda x: x @ T.ones(3), backend=Keeping())
    with pytest.warns(UserWarning, match="no graph"), pytest.raises(RuntimeError, match="size"):
        compiled(T.ones(2))


def test_values_from_outside_are_looked_at_again() -> None:
    scale = 2

    def f(x: Any) -> Any:
        return x * scale

    compiled = T.compile(f, backend=Keeping())
    assert compiled(T.ones(1)) == 2
    scale = 5
    assert compiled(T.ones(1)) == 5


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(T.ones(2))
        self.inner = nn.Module()
        self.inner.factors = [2.0]  # type: ignore[assignment]

    def forward(self, x: Any) -> Any:
        return x * self.weight * self.inner.factors[0]  # type: ignore[index]


def test_attributes_of_modules_are_looked_at_again() -> None:
    module, x = Scaled(), T.ones(2)
    compiled = T.compile(module, backend=Keeping(), fullgraph=True)
    assert T.equal(compiled(x), module(x))
    module.inner.factors[0] = 5.0  # type: ignore[index,operator]
    assert T.equal(compiled(x), x * 5)
    module.weight = nn.Parameter(T.full((2,), 3.0))
    assert T.equal(compiled(x), x * 15)
    module.register_forward_hook(lambda module, args, result: result + 1)
    assert T.equal(compiled(x), x * 15 + 1)


_collection: Any = {"factors": [2.0], "names": set()}
_weight = T.ones(2)


def outside(x: Any) -> Any:
    return x * _collection["factors"][0] + len(_collection["names"]) + _weight


def test_collections_outside_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "_collection", {"factors": [2.0], "names": set()})
    compiled, x = T.compile(outside, backend=Keeping(), fullgraph=True), T.ones(2)
    for _ in range(2):
        assert T.equal(compiled(x), x * 2 + 1)
    _collection["factors"][0] = 5.0
    assert T.equal(compiled(x), x * 5 + 1)
    _collection["names"].add("one")
    assert T.equal(compiled(x), x * 5 + 2)
    monkeypatch.setitem(globals(), "_weight", T.zeros(2))
    assert T.equal(compiled(x), x * 5 + 1)


@pytest.mark.check
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (lambda x, y: x * math.copysign(1, y), [0.0, -0.0, 0.0]),
        (lambda x, y: x * len(y), [{1}, {1, 2}, {3}, set()]),
        (lambda x, y: x * y[0], [[1.0], [2.0]]),
        (lambda x, y: x + T.from_numpy(y), [np.ones(2), np.zeros(2)]),
        (lambda x, y: x + float(y[0]), [np.ones(2), np.zeros(2)]),
        (lambda x, y: x if y.is_contiguous() else -x, [T.ones(2, 2), T.ones(2, 2, 2)[..., 0]]),
        (lambda x, y: x * y.stride(0), [T.ones(2, 2), T.ones(2, 2).t()]),
    ],
)
def test_a_graph_is_for_just_such_arguments(program: Any, arguments: list[Any]) -> None:
    x = T.ones(2, dtype=T.float64)
    compiled = T.compile(program, backend=Keeping(), fullgraph=True)
    for y in arguments:
        assert repr(compiled(x, y)) == repr(program(x, y))


def test_objects_that_come_and_go_are_not_mistaken_for_one_another() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self, value: float) -> None:
            self.value = value

    compiled = T.compile(lambda x, y: x * y.value, backend=Keeping(), fullgraph=True)
    for i in range(6):
        assert compiled(T.ones(1), Odd(i)) == i


def test_random_functions_draw_at_each_call() -> None:
    def program(x: Any) -> Any:
        return x + T.rand(2) + T.randn(2) * T.randint(1, 100, (2,)) + T.randperm(2)

    x = T.zeros(2)
    compiled = T.compile(program, backend=Keeping(), fullgraph=True)
    traced = T.jit.trace(program, x, check_trace=False)
    for made in (compiled, traced):
        T.manual_seed(3)
        first, second = made(x), made(x)
        T.manual_seed(3)
        assert T.equal(first, program(x)) and T.equal(second, program(x))

    def fills(x: Any) -> Any:
        return x + T.empty(2).uniform_()

    with pytest.raises(Unsupported, match="random numbers"):
        T.compile(fills, backend=Keeping(), fullgraph=True)(x)
    with pytest.warns(T.jit.TracerWarning, match="random numbers"):
        T.jit.trace(fills, x, check_trace=False)


def test_there_is_a_limit_of_graphs_which_is_told() -> None:
    backend = Keeping()
    compiled = T.compile(double, backend=backend, fullgraph=True)
    for i in range(8):
        compiled(T.ones(i))
    with pytest.raises(FailOnRecompileLimitHit, match="double has been compiled 8 times"):
        compiled(T.ones(8))
    assert compiled(T.ones(7)).shape == (7,)
    compiled = T.compile(double, backend=backend)
    for i in range(8):
        compiled(T.ones(i))
    with pytest.warns(UserWarning, match="compiled 8 times") as caught:
        shapes = [compiled(T.ones(i)).shape for i in (8, 9)]
    assert shapes == [(8,), (9,)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
