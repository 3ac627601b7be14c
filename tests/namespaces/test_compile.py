"""`compile`: what it returns, and backends of a program's own."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import shmtensor as T
from shmtensor import fx, nn
from shmtensor._torch._dynamo.exc import BackendCompilerFailed, InvalidBackend, Unsupported


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
    for i in range(20):
        compiled(T.ones(2), y=T.ones(2), scale=i + 10)
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
