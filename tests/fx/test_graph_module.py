"""Modules of graphs: what they hold, submodules, copies, pickles, files and text."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import math
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

import shmtensor as T
from shmtensor import fx, nn


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(T.ones(2))
        self.lin = nn.Linear(2, 2)
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(2, 3))
        self.register_buffer("b", T.ones(3))
        self.unused = nn.Tanh()

    def forward(self, x: Any) -> Any:
        return self.seq(self.lin(x) * self.w) + self.b + math.sqrt(x.shape[0])


def program(x: Any) -> Any:
    return x.relu().neg()


@pytest.mark.check
def test_it_holds_what_its_graph_names() -> None:
    module = Small().eval()
    traced = fx.symbolic_trace(module)
    assert [name for name, _ in traced.named_modules()] == ["", "lin", "seq", "seq.0", "seq.1"]
    assert traced.lin is module.lin and traced.b is module.b and not traced.training
    assert type(traced).__name__ == "Small" and isinstance(traced, fx.GraphModule)
    assert traced.graph.owning_module is traced
    graph = fx.Graph()
    graph.call_module("foo")
    with pytest.raises(AttributeError, match="foo"):
        fx.GraphModule(nn.Module(), graph)


def test_it_is_made_of_a_dict() -> None:
    graph = fx.Graph()
    w = graph.get_attr("w")
    graph.output(graph.call_module("sub.lin", (w,)))
    given = {"w": T.ones(2), "sub.lin": nn.Linear(2, 2)}
    module = fx.GraphModule(given, graph, "Main")
    assert sorted(module.state_dict()) == ["sub.lin.bias", "sub.lin.weight", "w"]
    assert T.equal(module(), given["sub.lin"](given["w"]))  # type: ignore[operator]
    with pytest.raises(RuntimeError, match="target w but that target was not provided"):
        fx.GraphModule({"sub.lin": nn.ReLU()}, graph)
    with pytest.raises(RuntimeError, match="Unsupported type 3"):
        fx.GraphModule(3, graph)  # type: ignore[arg-type]


def test_changes_have_effect_when_it_is_compiled_again() -> None:
    module = fx.symbolic_trace(lambda x: x + 1)
    other = fx.symbolic_trace(lambda x: x + 1)
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.target = T.mul
    assert module(T.ones(1)) == 2
    module.recompile()
    assert module(T.full((1,), 5.0)) == 5 and other(5) == 6
    module.graph = other.graph
    assert module(5) == 6
    with pytest.raises(AssertionError, match="Expected a Graph instance"):
        module.graph = 3  # type: ignore[assignment]


def test_submodules_come_and_go() -> None:
    traced = fx.symbolic_trace(Small())
    assert traced.add_submodule("a.b.c", nn.ReLU()) and not traced.add_submodule("w.x", nn.ReLU())
    assert isinstance(traced.get_submodule("a.b.c"), nn.ReLU)
    assert not traced.delete_submodule("nope") and not traced.delete_submodule("lin.x.y")
    traced.delete_all_unused_submodules()
    assert not hasattr(traced, "a") and hasattr(traced.seq, "0")
    assert traced.delete_submodule("seq.0") and not hasattr(traced.seq, "0")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))]
)
def test_copies_compute_the_same(copied: Any) -> None:
    traced = fx.symbolic_trace(Small())
    traced.note = "kept"
    made = copied(traced)
    x = T.rand(2, 2)
    assert made.code == traced.code and made.note == "kept" and T.equal(made(x), traced(x))
    assert made.graph.owning_module is made and type(made) is not type(traced)
    assert type(made).__name__ == "Small"
    made.graph = fx.symbolic_trace(lambda x: x).graph
    assert T.equal(made(x), x) and not T.equal(traced(x)[:, :2], x)


def test_hooks_are_called_by_copies_too() -> None:
    seen: list[int] = []
    traced = fx.symbolic_trace(program)
    traced.register_forward_hook(lambda module, args, result: seen.append(1))
    traced(T.ones(1))
    copy.deepcopy(traced)(T.ones(1))
    assert seen == [1, 1]


def test_pickles_hold_code() -> None:
    data = pickle.dumps(fx.symbolic_trace(Small()))
    assert b"def forward(self, x : 'Any') -> 'Any':" in data

    def local(x: Any) -> Any:
        return x

    graph = fx.Graph()
    graph.output(graph.call_function(local, (graph.placeholder("x"),)))
    with pytest.raises(RuntimeError, match="would look for it"):
        pickle.dumps(fx.GraphModule({}, graph))


def test_it_is_written_to_a_folder(tmp_path: Path) -> None:
    traced = fx.symbolic_trace(Small())
    traced.to_folder(tmp_path / "written", "Written")
    spec = importlib.util.spec_from_file_location("written", tmp_path / "written/__init__.py")
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["written"] = package
    try:
        spec.loader.exec_module(package)
        made = package.Written()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "written"]:
            del sys.modules[name]
    x = T.rand(2, 2)
    assert T.equal(made(x), traced(x))


def test_text() -> None:
    module = fx.symbolic_trace(program)
    assert str(module) == (
        "program()\n\n\n\ndef forward(self, x : 'Any') -> 'Any':\n    relu = x.relu();  x = None\n"
        "    neg = relu.neg();  relu = None\n    return neg\n    \n"
        "# To see more debug info, please use `graph_module.print_readable()`"
    )

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.i = module

        def forward(self, x: Any) -> Any:
            return self.i(x)

    class Whole(fx.Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return True

    tracer = Whole()
    graph = tracer.trace(Outer())
    assert fx.GraphModule(tracer.root, graph).print_readable(print_output=False) == (
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, x : 'Any') -> 'Any':\n"
        "        # No stacktrace found for following nodes\n"
        "        i = self.i(x);  x = None\n"
        "        return i\n"
        "\n"
        "    class i(torch.nn.Module):\n"
        "        def forward(self, x : 'Any') -> 'Any':\n"
        "            # No stacktrace found for following nodes\n"
        "            relu = x.relu();  x = None\n"
        "            neg = relu.neg();  relu = None\n"
        "            return neg\n"
    )


def test_errors_show_the_line_of_the_code() -> None:
    module = fx.symbolic_trace(program)
    with pytest.raises(AttributeError) as caught:
        module(3)
    assert "relu = x.relu()" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert inspect.getsource(type(module).forward).startswith("def forward(self, x : 'Any')")


def test_an_empty_graph_does_nothing() -> None:
    assert fx.GraphModule({}, fx.Graph())() is None
